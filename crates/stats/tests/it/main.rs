//! Coverage by simulation: an interval is right if it covers as often as it says.

mod coverage;
