//! Numbers for people: decimal point and comma thousands whatever the locale.

/// An exact count: `1,234,567`.
pub fn count(value: u64) -> String {
    thousands(&value.to_string())
}

/// A number of things: `1 process`, `1,024 processes`. For nouns that take an "s" or, after one, "es".
pub fn counted(value: impl TryInto<u64>, noun: &str) -> String {
    // Nothing that is counted in memory comes near 2^64.
    let value = value.try_into().unwrap_or(u64::MAX);
    let ending = match (value, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{ending}", count(value))
}

/// The form of a verb for a number of things: `agree(1, "is", "are")` is `is`.
pub fn agree<'a>(value: impl TryInto<u64>, one: &'a str, several: &'a str) -> &'a str {
    if value.try_into().is_ok_and(|value| value == 1) { one } else { several }
}

/// A measured value with `digits` significant digits and without exponent: `0.360`, `12.3`, `12,300`.
/// What is not finite is not measured: `-`.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = digits.clamp(1, 17);
    // The exponent after rounding: 9.999 with three digits is 10.0.
    let rounded: f64 = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let text = format!("{rounded:.decimals$}");
    thousands(&text)
}

/// `value` with a fixed number of decimals: `1,234.50`; `-` if not finite. What rounds to 0 has no sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{value:.decimals$}");
    thousands(text.strip_prefix('-').filter(|size| is_zero(size)).unwrap_or(&text))
}

/// Whether a number's text, without its interval, has no digit but 0.
fn is_zero(text: &str) -> bool {
    let value = text.split(['±', '(']).next().unwrap_or(text);
    !value.contains(|letter: char| matches!(letter, '1'..='9'))
}

/// `text` of `value` with a sign before a rise too; none where the text shows no difference.
pub fn signed(text: &str, value: f64) -> String {
    if value > 0.0 && !is_zero(text) { format!("+{text}") } else { text.to_owned() }
}

/// An exact value, with up to `digits` significant digits and no zeros at its end: `1.0015`, `2,003`.
pub fn exact(value: f64, digits: usize) -> String {
    if value.is_finite() { thousands(&plain(value, digits)) } else { "-".to_owned() }
}

/// For programs: up to `digits` significant digits after leading zeros, no commas, no trailing zeros.
pub fn plain(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    format!("{rounded}")
}

/// A count, or a sum of scaled counts: all digits of a whole number, of others as many as are worth reading.
pub fn amount(value: f64) -> String {
    if value.fract() == 0.0 {
        return exact(value, 17);
    }
    let whole = if value.abs() < 1.0 { 1 } else { value.abs().log10().floor() as usize + 1 };
    exact(value, MOST_DIGITS.max(whole))
}

/// Significant digits that are worth reading, where an interval would justify more.
const MOST_DIGITS: usize = 9;
/// No unit is chosen so that less than this matters.
const NOTHING: f64 = 1e-12;

/// A value and half the width of its interval, to the digit the interval justifies: `1.12 ± 0.03`.
/// One significant digit of the interval is shown, two if it starts with 1 or 2. An interval that is narrower than
/// the last of [`MOST_DIGITS`] digits is rounding of sums: the value is shown as identical in each case, without one.
pub fn interval(value: f64, half: f64) -> String {
    if !value.is_finite() || !half.is_finite() || half <= 0.0 {
        return significant(value, 3);
    }
    let least = (value.abs() * 10f64.powi(-(MOST_DIGITS as i32))).max(NOTHING);
    if half < least {
        return exact(if value.abs() < NOTHING { 0.0 } else { value }, MOST_DIGITS);
    }
    let decimals = decimals(half);
    format!("{} ± {}", fixed(value, decimals), fixed(half, decimals))
}

/// Decimals of a number that can be off by `half`, which is above 0.
fn decimals(half: f64) -> usize {
    let exponent = half.log10().floor() as i32;
    let leading = half / 10f64.powi(exponent);
    let digits = if leading < 2.95 { 2 } else { 1 };
    (digits - 1 - exponent).max(0) as usize
}

/// An interval is uneven if one end is this much farther from the value than the other.
const UNEVEN: f64 = 1.5;

/// How far an interval reaches to both sides of its value: the longer side. `None` where the interval is uneven, so
/// that `±` would name values outside it; also where an end is not finite.
pub fn reach(value: f64, low: f64, high: f64) -> Option<f64> {
    let (below, above) = (value - low, high - value);
    let longer = below.max(above);
    let is_even = longer.is_finite() && longer <= UNEVEN * below.min(above);
    (is_even || longer <= value.abs().max(NOTHING) * 1e-9).then_some(longer)
}

/// A value and the ends of its interval: `1.12 ± 0.03`; of an uneven one, as that of a rare function's share,
/// `1.6 (0.2–5.2)`, to the digit that half of its width justifies.
pub fn estimate(value: f64, low: f64, high: f64) -> String {
    match reach(value, low, high) {
        Some(half) => interval(value, half),
        None if !(value.is_finite() && low.is_finite() && high.is_finite()) => {
            significant(value, 3)
        }
        None => {
            let decimals = decimals(0.5 * (high - low));
            format!("{} ({})", fixed(value, decimals), range(low, high, decimals))
        }
    }
}

/// The same of a share of 1, in percent: `61.0 ± 0.4%`, `1.6% (0.2–5.2%)`. An interval narrower than a hundredth of a
/// percent is shown as one of that size.
pub fn percent_estimate(share: f64, low: f64, high: f64) -> String {
    const LEAST: f64 = 0.01;
    let [value, low, high] = [share, low, high].map(|share| share * 100.0);
    match reach(value, low, high) {
        Some(half) if half > 0.0 => format!("{}%", interval(value, half.max(LEAST))),
        Some(_) => format!("{}%", fixed(value, 2)),
        None => {
            let text = estimate(value, low, high);
            text.replacen(" (", "% (", 1).replacen(')', "%)", 1)
        }
    }
}

/// An interval in a column of its own, beside a value with that many decimals: `±0.42`; of an uneven one, its ends:
/// `0.16–5.20`.
pub fn limits(value: f64, low: f64, high: f64, decimals: usize) -> String {
    match reach(value, low, high) {
        Some(half) => format!("±{}", fixed(half, decimals)),
        None => range(low, high, decimals),
    }
}

/// From `low` to `high`: `0.2–5.2`; in words where a minus sign would look like part of the dash.
fn range(low: f64, high: f64, decimals: usize) -> String {
    let dash = if low < 0.0 { " to " } else { "–" };
    format!("{}{dash}{}", fixed(low, decimals), fixed(high, decimals))
}

/// A share of 1 in percent: `31.42%`.
pub fn percent(share: f64, decimals: usize) -> String {
    if share.is_finite() { format!("{}%", fixed(share * 100.0, decimals)) } else { "-".to_owned() }
}

/// From this share of the time on, what is missing of all of it is rounding.
pub const WHOLE: f64 = 0.9995;

/// A share of the time in percent, to three digits and never rounded up, for "at least": `99.8%`, `0.0412%`;
/// from [`WHOLE`] on `100%`.
pub fn percent_at_least(share: f64) -> String {
    if share >= WHOLE {
        return percent(1.0, 0);
    }
    let unit = if share > 0.0 { 10_f64.powi(share.log10().floor() as i32 - 2) } else { 0.0 };
    let least = (share / unit * (1.0 + 1e-12)).floor() * unit;
    let least = if share > 0.0 { least } else { share };
    if least.is_finite() { format!("{}%", significant(least * 100.0, 3)) } else { "-".to_owned() }
}

/// Bytes in binary units: `512 KiB`, `1.50 GiB`; below 1 KiB exact.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut index = 0;
    let mut scaled = value as f64;
    // 1023.6 KiB would round to 1,024 KiB.
    while scaled >= 1023.5 && index + 1 < UNITS.len() {
        scaled /= 1024.0;
        index += 1;
    }
    let text = if scaled.fract() == 0.0 { fixed(scaled, 0) } else { significant(scaled, 3) };
    format!("{text} {}", UNITS[index])
}

/// A duration given in seconds: `9.98 s`, `36.0 ms`, `0.36 µs`; from a minute on `2 min 5 s`, `3 h 4 min`.
pub fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    if !seconds.is_finite() {
        "-".to_owned()
    } else if size == 0.0 {
        "0 s".to_owned()
    } else if size < 0.999_5e-6 {
        format!("{} ns", significant(seconds * 1e9, 3))
    } else if size < 0.999_5e-3 {
        format!("{} µs", significant(seconds * 1e6, 3))
    } else if size < 0.999_5 {
        format!("{} ms", significant(seconds * 1e3, 3))
    } else if size < 59.95 {
        format!("{} s", significant(seconds, 3))
    } else {
        let whole = seconds.round() as i64;
        let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
        match (hours, minutes, seconds) {
            (0, minutes, 0) => format!("{minutes} min"),
            (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
            (hours, 0, _) => format!("{hours} h"),
            (hours, minutes, _) => format!("{hours} h {minutes} min"),
        }
    }
}

/// Commas between groups of three digits before the decimal point.
fn thousands(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut out = String::with_capacity(text.len() * 4 / 3 + 1);
    out.push_str(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(fixed(-0.004, 2), "0.00");
        assert_eq!(fixed(-0.006, 2), "-0.01");
        assert_eq!(signed(&fixed(0.004, 2), 0.004), "0.00");
        assert_eq!(signed(&fixed(0.006, 2), 0.006), "+0.01");
        assert_eq!(signed("0.0 ± 1.2", 0.01), "0.0 ± 1.2");
        assert_eq!(signed("-", f64::NAN), "-");
    }

    #[test]
    fn a_least_share_is_never_more_than_it_is() {
        let cases = [
            (1.0, "100%"),
            (0.9995, "100%"),
            (0.999_49, "99.9%"),
            (0.99, "99.0%"),
            (0.5, "50.0%"),
            (0.3, "30.0%"),
            (0.004_199, "0.419%"),
            (1e-6, "0.000100%"),
            (0.0, "0%"),
            (f64::NAN, "-"),
        ];
        for (share, text) in cases {
            assert_eq!(percent_at_least(share), text, "{share}");
        }
    }

    #[test]
    fn uneven_intervals_have_both_ends() {
        assert_eq!(estimate(1.1234, 1.0922, 1.1546), "1.12 ± 0.03");
        assert_eq!(estimate(1.58, 0.16, 5.2), "1.6 (0.2–5.2)");
        assert_eq!(estimate(-0.4, -0.5, 1.25), "-0.4 (-0.5 to 1.2)");
        assert_eq!(estimate(2128.0, 1135.0, 4623.0), "2,128 (1,135–4,623)");
        assert_eq!(estimate(2000.0, 1900.0, 2110.0), "2,000 ± 110");
        // One end is the value: the other says what is worth reading.
        assert_eq!(estimate(0.0, 0.0, 0.0216), "0.000 (0.000–0.022)");
        assert_eq!(estimate(3.0, 3.0, 3.0), "3.00");
        assert_eq!(estimate(3.0, f64::NEG_INFINITY, 4.0), "3.00");
        assert_eq!(
            [limits(1.58, 0.16, 5.2, 2), limits(31.0, 30.0, 32.0, 2)],
            ["0.16–5.20", "±1.00"]
        );
        assert_eq!(limits(-1.0, -9.0, -0.5, 1), "-9.0 to -0.5");
        assert_eq!(percent_estimate(0.61, 0.606, 0.614), "61.0 ± 0.4%");
        assert_eq!(percent_estimate(0.0158, 0.0016, 0.052), "1.6% (0.2–5.2%)");
        assert_eq!(percent_estimate(1.0, 1.0, 1.0), "100.00%");
        assert_eq!(percent_estimate(0.0, 0.0, 0.0023), "0.00% (0.00–0.23%)");
        assert_eq!(percent_estimate(0.5, 0.499_999, 0.500_001), "50.000 ± 0.010%");
        assert_eq!(signed("0.0 (-0.2 to 1.2)", 0.01), "0.0 (-0.2 to 1.2)");
    }

    /// What is written contains the interval, and leaves at most a quarter of it beside.
    #[test]
    fn no_end_of_an_interval_is_hidden() {
        for (below, above) in [(1.0, 1.0), (1.0, 1.4), (1.6, 1.0), (0.0, 1.0), (9.0, 0.1)] {
            match reach(10.0, 10.0 - below, 10.0 + above) {
                Some(half) => assert!(half >= below.max(above) && below + above >= 1.5 * half),
                None => assert!(below.max(above) > UNEVEN * below.min(above)),
            }
        }
    }

    #[test]
    fn what_is_counted_has_its_number() {
        assert_eq!(
            [0_u32, 1, 1024].map(|n| counted(n, "node")),
            ["0 nodes", "1 node", "1,024 nodes"]
        );
        assert_eq!([1_usize, 38].map(|n| counted(n, "process")), ["1 process", "38 processes"]);
    }

    #[test]
    fn counts_have_commas() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn exact_values_have_as_many_digits_as_they_need() {
        for (value, text) in
            [(1.0015, "1.0015"), (2003.5, "2,003.5"), (1.0 / 3.0, "0.333333"), (0.0, "0")]
        {
            assert_eq!(exact(value, 6), text);
        }
        assert_eq!((plain(12345.0, 6), exact(f64::NAN, 6)), ("12345".into(), "-".into()));
    }

    #[test]
    fn measured_values_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.36, "0.360"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12_345.6, "12,300"),
            (-1234.0, "-1,230"),
            (0.000_123_44, "0.000123"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(significant(value, 3), text, "{value}");
        }
        assert_eq!(significant(1e20, 3), "100,000,000,000,000,000,000");
    }

    #[test]
    fn an_interval_sets_the_digits() {
        assert_eq!(interval(1.1234, 0.0312), "1.12 ± 0.03");
        assert_eq!(interval(122.739, 0.31), "122.7 ± 0.3");
        assert_eq!(interval(122.739, 0.134), "122.74 ± 0.13");
        assert_eq!(interval(185.2, 31.0), "185 ± 31");
        assert_eq!(interval(1_534_342.0, 1234.0), "1,534,342 ± 1,234");
        assert_eq!(interval(1.1234, f64::NAN), "1.12");
        assert_eq!(interval(f64::NAN, 1.0), "-");
    }

    /// Sums of numbers that are all the same differ in their last bits.
    #[test]
    fn rounding_of_sums_is_no_interval() {
        assert_eq!(interval(2.000_039_5, 7e-24), "2.0000395");
        assert_eq!(interval(2.000_039_500_000_2, 1e-12), "2.0000395");
        assert_eq!(interval(0.0, 7e-24), "0");
        assert_eq!(interval(1e-17, 7e-24), "0");
        assert_eq!(interval(1_534_342.0, 0.002), "1,534,342.0000 ± 0.0020");
        assert_eq!(interval(2.000_039_5, 2e-8), "2.000039500 ± 0.000000020");
        assert_eq!(amount(1_234_567_890_123.0), "1,234,567,890,123");
        assert_eq!(amount(1_234_567_890_123.456_7), "1,234,567,890,123");
        assert_eq!(amount(2.000_039_500_000_192), "2.0000395");
    }

    #[test]
    fn verbs_agree_with_numbers() {
        assert_eq!([0_u32, 1, 2].map(|n| agree(n, "is", "are")), ["are", "is", "are"]);
    }

    #[test]
    fn bytes_have_binary_units() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1,023 B"),
            (1024, "1 KiB"),
            (528_384, "516 KiB"),
            (1536, "1.50 KiB"),
            (1_048_575, "1.00 MiB"),
            (8 << 30, "8 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
    }

    #[test]
    fn durations_take_the_unit_that_fits() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (36e-9, "36.0 ns"),
            (0.36e-6, "360 ns"),
            (1.5e-6, "1.50 µs"),
            (0.999_9e-3, "1.00 ms"),
            (0.0123, "12.3 ms"),
            (9.98, "9.98 s"),
            (59.96, "1 min"),
            (125.0, "2 min 5 s"),
            (3600.0, "1 h"),
            (11_040.0, "3 h 4 min"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn shares_are_in_percent() {
        assert_eq!(percent(0.3142, 2), "31.42%");
        assert_eq!(percent(f64::NAN, 2), "-");
    }
}
