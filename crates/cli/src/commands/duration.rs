//! Lengths of time on the command line: one grammar for all flags.
//!
//! `500ms`, `2s`, `1.5s`, `1m`; a plain number has the unit of its flag, which the flag's help states: perf's
//! milliseconds where perf has them, seconds elsewhere.

use std::time::Duration;

/// Unit of a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainUnit {
    Seconds,
    Milliseconds,
    Nanoseconds,
}

impl PlainUnit {
    /// In nanoseconds.
    fn factor(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Nanoseconds => 1.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "ms",
            Self::Nanoseconds => "ns",
        }
    }
}

/// Units by their names, in nanoseconds.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// Nothing that runs here takes longer: about three years.
const LONGEST_S: f64 = 1e8;

/// A length of time.
///
/// # Errors
/// What to type instead.
pub(super) fn parse(text: &str, plain: PlainUnit) -> Result<Duration, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let factor = match &text[number.len()..] {
        "" => Some(plain.factor()),
        name => UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| *factor),
    };
    let seconds = factor.zip(number.parse::<f64>().ok()).map(|(factor, it)| it * factor / 1e9);
    seconds.filter(|s| (0.0..=LONGEST_S).contains(s)).map(Duration::from_secs_f64).ok_or_else(
        || format!("use a duration such as 500ms, 2s or 1m (a plain number: {})", plain.name()),
    )
}

/// A length of time with its unit; `None` for anything else.
pub(super) fn with_unit(text: &str) -> Option<Duration> {
    let is_plain = !text.ends_with(|letter: char| letter.is_alphabetic());
    parse(text, PlainUnit::Seconds).ok().filter(|time| !is_plain && !time.is_zero())
}

/// In seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    parse(text, PlainUnit::Seconds).map(|time| time.as_secs_f64())
}

/// In seconds, more than none.
pub(super) fn positive_seconds(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|time| match time > 0.0 {
        true => Ok(time),
        false => Err("use a duration above 0, such as 500ms, 2s or 1m".to_owned()),
    })
}

/// In whole seconds, rounded up.
pub(super) fn whole_seconds(text: &str) -> Result<u64, String> {
    parse(text, PlainUnit::Seconds).map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// In milliseconds; what is shorter than one is refused, not rounded.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let time = parse(text, PlainUnit::Milliseconds)?;
    let whole = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match whole == 0 && !time.is_zero() {
        true => Err("it is less than 1ms".to_owned()),
        false => Ok(whole),
    }
}

/// In milliseconds, from `least` to `most`.
pub(super) fn milliseconds_in(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        milliseconds(text).and_then(|time| match (least..=most).contains(&time) {
            true => Ok(time),
            false if most == u64::MAX => Err(format!("use at least {least}ms")),
            false => Err(format!("use {least}ms to {most}ms")),
        })
    }
}

/// Milliseconds as perf's `-D` has them: -1 is "not yet".
pub(super) fn delay(text: &str) -> Result<i64, String> {
    if text == "-1" {
        return Ok(-1);
    }
    milliseconds(text).map(|time| i64::try_from(time).unwrap_or(i64::MAX))
}

/// In nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Result<u64, String> {
    let time = parse(text, PlainUnit::Nanoseconds)?;
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_have_the_unit_of_the_flag() {
        assert_eq!(seconds("2"), Ok(2.0));
        assert_eq!(milliseconds("2"), Ok(2));
        assert_eq!(nanoseconds("2"), Ok(2));
        assert_eq!((delay("-1"), delay("20")), (Ok(-1), Ok(20)));
    }

    #[test]
    fn units_mean_the_same_everywhere() {
        assert_eq!(
            [seconds("500ms"), seconds("1.5s"), seconds("1m")],
            [Ok(0.5), Ok(1.5), Ok(60.0)]
        );
        assert_eq!([milliseconds("2s"), milliseconds("1m")], [Ok(2000), Ok(60_000)]);
        assert_eq!(nanoseconds("3us"), Ok(3000));
        assert_eq!(whole_seconds("1.5s"), Ok(2));
        assert_eq!(with_unit("30s"), Some(Duration::from_secs(30)));
        assert_eq!([with_unit("30"), with_unit("30M"), with_unit("0s")], [None; 3]);
    }

    #[test]
    fn anything_else_says_what_to_type() {
        for wrong in ["", "s", "x", "1x", "-1", "-1s", "nan", "inf", "1e300", "5M", "1 s"] {
            assert!(seconds(wrong).unwrap_err().contains("500ms, 2s or 1m"), "{wrong}");
        }
        assert_eq!(milliseconds("100us").unwrap_err(), "it is less than 1ms");
        assert_eq!(milliseconds_in(10, 1000)("5").unwrap_err(), "use 10ms to 1000ms");
        assert!(positive_seconds("0").is_err());
    }
}
