//! Names that `intervals` has for what has no samples: they say when it was measured, of how much, and what was left out.

/// Windows of counters were recorded; their number is in `samples`.
pub const WINDOWS_EVENT: &str = "windows";
/// Events were counted by service; the number of cgroups is in `samples`, that of those left out in `lost`.
pub const COUNTS_EVENT: &str = "counts";
/// Processes were observed; their number is in `samples`, that of those left out in `lost`.
pub const LOCALITY_EVENT: &str = "locality";

/// All of them.
pub const MEASURED_EVENTS: [&str; 3] = [WINDOWS_EVENT, COUNTS_EVENT, LOCALITY_EVENT];
