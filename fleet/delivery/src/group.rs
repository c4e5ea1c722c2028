//! Samples of one process's belonging, one event and one bin next to each other.

use std::borrow::Cow;

use pmuscope_dataset::{IntervalRow, Rows, SampleRow, Timestamp};
use rustc_hash::FxHashMap;

/// What processes belong to, on one host: what OTLP calls a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resource<'a> {
    pub(crate) host: &'a str,
    pub(crate) service: &'a str,
    pub(crate) version: Option<&'a str>,
    pub(crate) unit: Option<&'a str>,
    pub(crate) container: Option<&'a str>,
    pub(crate) pod: Option<&'a str>,
}

impl<'a> Resource<'a> {
    pub(crate) fn of(row: &'a SampleRow) -> Self {
        Self {
            host: &row.host,
            service: &row.service,
            version: row.version.as_deref(),
            unit: row.unit.as_deref(),
            container: row.container.as_deref(),
            pod: row.pod.as_deref(),
        }
    }
}

/// A bin: its start, and its length, microseconds.
pub(crate) fn bin(row: &SampleRow) -> (Timestamp, i64) {
    (row.start, row.bin_us)
}

/// An event, and the unit of its weights.
pub(crate) fn event(row: &SampleRow) -> (&str, &str) {
    (&row.event, &row.weight_unit)
}

/// All samples, sorted by resource, bin, event and stack.
pub(crate) fn sorted(rows: &Rows) -> Vec<&SampleRow> {
    let mut samples: Vec<&SampleRow> = rows.samples.iter().collect();
    samples.sort_by(|a, b| {
        let key = |row| (Resource::of(row), bin(row), event(row), row.stack_id);
        key(a).cmp(&key(b))
    });
    samples
}

/// What a unit of `weight_unit` is to receivers: how many of which unit. None where samples do not say what they stand
/// for.
pub(crate) fn unit(weight_unit: &str) -> Option<(i64, &'static str)> {
    match weight_unit {
        "us" => Some((1000, "nanoseconds")),
        "thousand" => Some((1000, "count")),
        "one" => Some((1, "count")),
        _ => None,
    }
}

/// An event as the name of a type of values. Names have only letters, digits and underscores: Pyroscope refuses a `-` and
/// splits names at a `:`.
pub(crate) fn type_name(event: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if event.chars().all(is_plain) {
        return event.into();
    }
    event.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// Number of samples that rows stand for.
pub(crate) fn number_of_samples(rows: &[&SampleRow]) -> u64 {
    rows.iter().map(|row| row.samples.max(0).cast_unsigned()).sum()
}

/// What a sample of an event stands for, on average, in the unit that [`unit`] has; 0 where samples do not say it.
pub(crate) fn mean_period(rows: &[&SampleRow]) -> i64 {
    let Some((scale, _)) = rows.first().and_then(|row| unit(&row.weight_unit)) else { return 0 };
    let weight = rows.iter().fold(0_i64, |sum, row| sum.saturating_add(row.weight));
    let samples = rows.iter().fold(0_i64, |sum, row| sum.saturating_add(row.samples));
    weight.saturating_mul(scale) / samples.max(1)
}

/// Samples of one profile at most: Pyroscope refuses more by default (`validation.max-profile-stacktrace-samples`).
pub(crate) const MOST_SAMPLES: usize = 16_000;

/// Start of the profile with this number of those that one event and bin are split into, microseconds since 1970. They are
/// a millisecond apart: Pyroscope keeps one of the profiles of a series with the same time, to the millisecond.
pub(crate) fn part_start(row: &SampleRow, number: i64) -> i64 {
    row.start.0.saturating_add(number.saturating_mul(1000))
}

/// For how long events were recorded in each bin.
#[derive(Debug)]
pub(crate) struct RecordedTimes<'a>(FxHashMap<(&'a str, Timestamp, &'a str), i64>);

impl<'a> RecordedTimes<'a> {
    pub(crate) fn new(intervals: &'a [IntervalRow]) -> Self {
        let entry = |row: &'a IntervalRow| ((&*row.host, row.start, &*row.event), row.recorded_us);
        Self(intervals.iter().map(entry).collect())
    }

    /// For how long the event of a sample was recorded in its bin, microseconds: the whole bin where nobody says it.
    pub(crate) fn us(&self, row: &'a SampleRow) -> i64 {
        let recorded = self.0.get(&(&*row.host, row.start, &*row.event));
        recorded.map_or(row.bin_us, |&us| us.min(row.bin_us)).max(0)
    }
}

/// Nanoseconds of a time or a length in microseconds; what is before 1970 is 0.
pub(crate) fn nanoseconds(us: i64) -> i64 {
    us.max(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn a_profile_lasts_as_long_as_its_event_was_recorded() {
        let rows = made::rows();
        let recorded = RecordedTimes::new(&rows.intervals);
        assert_eq!(recorded.us(&rows.samples[0]), made::RECORDED_US);
        assert_eq!(RecordedTimes::new(&[]).us(&rows.samples[0]), rows.samples[0].bin_us);
    }

    #[test]
    fn what_belongs_together_is_next_to_each_other() {
        let mut rows = made::rows();
        rows.samples.reverse();
        let sorted = sorted(&rows);
        let resources = sorted.chunk_by(|a, b| Resource::of(a) == Resource::of(b)).count();
        assert_eq!((sorted.len(), resources), (rows.samples.len(), 2));
        assert_eq!(type_name("sched:sched_switch"), "sched_sched_switch");
        assert!(nanoseconds(-1) == 0 && nanoseconds(i64::MAX) == i64::MAX);
    }
}
