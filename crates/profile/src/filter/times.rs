//! `--time`: times of a recording, in perf's grammar and relative to its start.
//!
//! ```text
//!  12.5,13        from 12.5 s to 13 s of the recording's clock; "12.5," and ",13" are open
//!  +2,+5          seconds after the first sample
//!  1,2 5,6        several, in quotes
//!  10%-40%        part of the time from the first to the last sample
//!  10%/2          the second tenth; "10%" is the first
//!  0%-10%,90%-100%
//! ```

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Times as they were asked for, in the grammar of `--time`.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    text: String,
    parts: Vec<TimePart>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TimePart {
    /// Ends that are left out are `None`.
    Between(Option<TimePoint>, Option<TimePoint>),
    /// From and to, 0 to 1.
    Slice(f64, f64),
}

/// Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TimePoint {
    /// Of the recording's clock.
    At(u64),
    /// After the first sample.
    After(u64),
}

const SECONDS: &str = "use START,STOP in seconds, as 12.5,13 or 12.5, or ,13; +2,+5 counts from the first \
                       sample, and several are put in quotes: \"1,2 5,6\"";
const PERCENT: &str = "use parts of the recording, as 10%-40%, or 10%/2 for the second tenth; several with \
                       commas: 0%-10%,90%-100%";

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<TimePart>, String> = if text.contains('%') {
            text.split(',').map(|part| slice(part.trim())).collect()
        } else {
            text.split_whitespace().map(between).collect()
        };
        let parts = parts?;
        if parts.is_empty() {
            return Err(SECONDS.into());
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl Times {
    /// As it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether they depend on when the recording began or ended.
    #[must_use]
    pub fn are_relative(&self) -> bool {
        let is_after = |point: &Option<TimePoint>| matches!(point, Some(TimePoint::After(_)));
        self.parts.iter().any(|part| match part {
            TimePart::Between(start, stop) => is_after(start) || is_after(stop),
            TimePart::Slice(..) => true,
        })
    }

    /// Nanoseconds of the recording's clock, both ends included, given its first and last sample.
    #[must_use]
    pub fn ranges(&self, (first, last): (u64, u64)) -> Vec<RangeInclusive<u64>> {
        let at = |point: Option<TimePoint>, open: u64| match point {
            None => open,
            Some(TimePoint::At(time)) => time,
            Some(TimePoint::After(time)) => first.saturating_add(time),
        };
        let total = last.saturating_sub(first);
        let point = |share: f64| first.saturating_add((total as f64 * share).round() as u64);
        let range = |part: &TimePart| match *part {
            TimePart::Between(start, stop) => at(start, 0)..=at(stop, u64::MAX),
            // Neighboring slices have no sample in common.
            TimePart::Slice(from, to) if to < 1.0 => point(from)..=point(to).saturating_sub(1),
            TimePart::Slice(from, _) => point(from)..=last,
        };
        self.parts.iter().map(range).collect()
    }
}

fn between(text: &str) -> Result<TimePart, String> {
    let (start, stop) = text.split_once(',').ok_or(SECONDS)?;
    let (start, stop) = (end(start)?, end(stop)?);
    let is_behind = match (start, stop) {
        (Some(TimePoint::At(start)), Some(TimePoint::At(stop)))
        | (Some(TimePoint::After(start)), Some(TimePoint::After(stop))) => start > stop,
        _ => false,
    };
    if is_behind {
        return Err("START is after STOP".into());
    }
    Ok(TimePart::Between(start, stop))
}

fn end(text: &str) -> Result<Option<TimePoint>, String> {
    let point = match text.strip_prefix('+') {
        _ if text.is_empty() => return Ok(None),
        Some(text) => nanoseconds(text).map(TimePoint::After),
        None => nanoseconds(text).map(TimePoint::At),
    };
    point.map(Some).ok_or_else(|| SECONDS.into())
}

fn slice(text: &str) -> Result<TimePart, String> {
    let percent = |text: &str| -> Option<f64> {
        let number: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
        (0.0..=100.0).contains(&number).then_some(number / 100.0)
    };
    let part = if let Some((from, to)) = text.split_once('-') {
        percent(from).zip(percent(to)).filter(|(from, to)| from < to)
    } else if let Some((length, number)) = text.split_once('/') {
        let number = number.trim().parse::<u32>().ok().filter(|&number| number > 0);
        let ends = |(length, number): (f64, u32)| {
            (length * f64::from(number - 1), (length * f64::from(number)).min(1.0))
        };
        percent(length).zip(number).map(ends).filter(|(from, to)| from < to)
    } else {
        percent(text).map(|to| (0.0, to)).filter(|&(_, to)| to > 0.0)
    };
    part.map(|(from, to)| TimePart::Slice(from, to)).ok_or_else(|| PERCENT.into())
}

/// `12.000345678` exactly, digit by digit; `None` for anything else.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 9 || !is_number(fraction) || !is_number(seconds) || seconds.is_empty() {
        return None;
    }
    let rest: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn ranges(text: &str) -> Vec<(u64, u64)> {
        let times: Times = text.parse().unwrap();
        let ranges = times.ranges((10 * S, 20 * S));
        ranges.iter().map(|range| (*range.start(), *range.end())).collect()
    }

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        assert_eq!(ranges("12.5,13"), [(12_500_000_000, 13 * S)]);
        assert_eq!(ranges("0.000000001,"), [(1, u64::MAX)]);
        assert_eq!(ranges(",1234567.123456789"), [(0, 1_234_567_123_456_789)]);
        assert_eq!(ranges("1,2 5,6"), [(S, 2 * S), (5 * S, 6 * S)]);
        assert_eq!(ranges("+2,+5"), [(12 * S, 15 * S)]);
        assert_eq!(ranges("+2,13"), [(12 * S, 13 * S)]);
        for wrong in ["", " ", "12", "a,b", "1.0000000001,", "-1,", ".5,", "99999999999,", "++1,"] {
            assert!(wrong.parse::<Times>().is_err(), "{wrong}");
        }
        assert_eq!("2,1".parse::<Times>(), Err("START is after STOP".into()));
        assert!(!"1,2".parse::<Times>().unwrap().are_relative());
        assert!("1,+2".parse::<Times>().unwrap().are_relative());
    }

    #[test]
    fn slices_meet_without_a_gap_and_the_last_one_holds_the_end() {
        assert_eq!(ranges("10%-40%"), [(11 * S, 14 * S - 1)]);
        assert_eq!(ranges("10%/2"), [(11 * S, 12 * S - 1)]);
        assert_eq!(ranges("10%"), [(10 * S, 11 * S - 1)]);
        assert_eq!(ranges("90%-100%"), [(19 * S, 20 * S)]);
        assert_eq!(
            ranges("0%-10%,12.5%-25%"),
            [(10 * S, 11 * S - 1), (11_250_000_000, 12_500_000_000 - 1)]
        );
        for wrong in
            ["%", "40%-10%", "101%", "10%/0", "60%/3", "10-20%", "nan%", "-5%-10%", "1%;2%"]
        {
            assert!(wrong.parse::<Times>().is_err(), "{wrong}");
        }
    }
}
