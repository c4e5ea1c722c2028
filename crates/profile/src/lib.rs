//! Records to answers: functions and shares, with intervals.

#![forbid(unsafe_code)]
