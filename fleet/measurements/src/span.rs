//! When something was measured: its bins, and the rows of `intervals` that say so.
//!
//! ```text
//!            ├──────── bin ────────┼──────── bin ────────┤
//!                            ▒▒▒▒▒▒▒▒▒▒▒ measured
//!  rows of the measurement   start: that of the first bin, bin_us: both bins
//!  intervals                 one per bin, each with its part of the time; samples and losses in the last one
//! ```

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pmuscope_dataset::{ImportOrigin, IntervalRow, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// A stretch of time, from its begin to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredSpan {
    /// Microseconds since 1970.
    start_us: i64,
    length_us: i64,
}

/// What was measured in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredWhat {
    /// As `event` of `intervals`.
    pub(crate) event: &'static str,
    /// How many.
    pub(crate) samples: u64,
    /// How many were left out.
    pub(crate) lost: u64,
}

impl MeasuredSpan {
    /// One that ends now and took this long.
    pub(crate) fn until_now(length: std::time::Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length_us = length.as_micros() as i64;
        Self { start_us: now.as_micros() as i64 - length_us, length_us }
    }

    /// Start of its first bin, and the length of all of them, microseconds.
    pub(crate) fn bins(&self, bin_us: i64) -> (Timestamp, i64) {
        let first = self.start_us.div_euclid(bin_us) * bin_us;
        let last = (self.end_us() - 1).max(self.start_us).div_euclid(bin_us) * bin_us;
        (Timestamp(first), last - first + bin_us)
    }

    fn end_us(&self) -> i64 {
        self.start_us + self.length_us
    }

    /// The rows of `intervals`.
    pub(crate) fn intervals(
        &self,
        what: &MeasuredWhat,
        origin: &ImportOrigin,
        boot: Option<&str>,
        cpus: Option<usize>,
    ) -> Vec<IntervalRow> {
        let bin_us = (origin.bin.as_micros() as i64).max(1);
        let (Timestamp(first), all_us) = self.bins(bin_us);
        let row = |start: i64| IntervalRow {
            start: Timestamp(start),
            bin_us,
            host: origin.host.clone().unwrap_or_default(),
            boot: boot.map(Arc::from),
            event: what.event.into(),
            cpus: cpus.map(|cpus| cpus as i64),
            recorded_us: (start + bin_us).min(self.end_us()) - start.max(self.start_us),
            lost: Some(0),
            recorder: Some(concat!("pmuscope-fleet ", env!("CARGO_PKG_VERSION")).into()),
            batch: origin.batch,
            ..IntervalRow::default()
        };
        let mut rows: Vec<IntervalRow> =
            (first..first + all_us).step_by(bin_us as usize).map(row).collect();
        if let Some(last) = rows.last_mut() {
            last.samples = what.samples as i64;
            last.lost = Some(what.lost as i64);
        }
        rows
    }
}

/// Nanoseconds of the clock by which files are named.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It begins at 0 with the boot.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_that_crosses_bins_is_divided_and_sums_are_in_the_last_one() {
        let origin =
            ImportOrigin { host: None, started: None, bin: Duration::from_secs(10), batch: 1 };
        let span = MeasuredSpan { start_us: 7_000_000, length_us: 5_000_000 };
        assert_eq!(span.bins(10_000_000), (Timestamp(0), 20_000_000));
        let what = MeasuredWhat { event: "counts", samples: 3, lost: 1 };
        let rows = span.intervals(&what, &origin, None, Some(2));
        let of: Vec<_> =
            rows.iter().map(|row| (row.start.0, row.recorded_us, row.samples, row.lost)).collect();
        assert_eq!(of, [(0, 3_000_000, 0, Some(0)), (10_000_000, 2_000_000, 3, Some(1))]);
        // One that ends with a bin has nothing in the next one.
        let span = MeasuredSpan { start_us: 5_000_000, length_us: 5_000_000 };
        assert_eq!(span.bins(10_000_000), (Timestamp(0), 10_000_000));
    }
}
