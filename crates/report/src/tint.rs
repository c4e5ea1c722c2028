//! Colors for values: seven steps from pale to dark, which differ in lightness and so can be told apart
//! whatever colors one sees, and grey for what no value is known of. Changes have two hues, orange for more and blue
//! for less, which those who see neither red nor green tell apart too.

use crate::number::significant;

/// From low to high. Each is darker than the one before; dark text is readable on all.
pub(crate) const STEPS: [&str; 7] =
    ["#fff6c9", "#ffe08f", "#ffc75c", "#fbab43", "#f28e3c", "#e4713f", "#d95a45"];
/// What has no value, or none to rely on.
pub(crate) const WITHHELD: &str = "#c3c7ce";

/// Values whose largest is this many times the smallest are set on a scale of factors.
const BY_FACTORS: f64 = 5.0;

/// Which value has which color.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    by_factors: bool,
}

/// A step of a scale: its color, and the values that have it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TintStep {
    pub(crate) color: &'static str,
    pub(crate) values: String,
}

impl Scale {
    /// From the smallest to the largest of these; `None` where there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (low <= high).then_some(Self {
            low,
            high,
            by_factors: low > 0.0 && high / low >= BY_FACTORS,
        })
    }

    /// Where a value stands, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.by_factors { value.ln() } else { value };
        let span = of(self.high) - of(self.low);
        if span > 0.0 { (of(value) - of(self.low)) / span } else { 0.5 }
    }

    fn step(&self, value: f64) -> usize {
        ((self.place(value) * STEPS.len() as f64) as usize).min(STEPS.len() - 1)
    }

    /// The color of a value.
    pub(crate) fn color(&self, value: f64) -> &'static str {
        STEPS[self.step(value)]
    }

    /// All steps, for a legend; one where all values are the same.
    pub(crate) fn steps(&self) -> Vec<TintStep> {
        if self.high <= self.low {
            let values = significant(self.low, 3);
            return vec![TintStep { color: self.color(self.low), values }];
        }
        let edge = |at: usize| {
            let share = at as f64 / STEPS.len() as f64;
            if self.by_factors {
                self.low * (self.high / self.low).powf(share)
            } else {
                self.low + (self.high - self.low) * share
            }
        };
        let step = |at: usize| {
            let values =
                format!("{} to {}", significant(edge(at), 2), significant(edge(at + 1), 2));
            TintStep { color: STEPS[at], values }
        };
        (0..STEPS.len()).map(step).collect()
    }
}

/// Sizes of changes from which on they have the next stronger color, percentage points: the same on every page, so
/// that pages can be compared.
const CHANGES: [f64; 4] = [0.2, 1.0, 5.0, 20.0];
/// From small to large.
const MORE: [&str; 4] = ["#fbe0c2", "#f7bd80", "#ee9645", "#dd7420"];
/// The same.
const LESS: [&str; 4] = ["#cfe0fa", "#a3c4f5", "#76a5ec", "#5288dd"];
/// What has not changed, or by less than the first of these sizes.
const UNCHANGED: &str = "#d4d2ce";

/// The color of a change in percentage points.
pub(crate) fn change(points: f64) -> &'static str {
    let colors = if points > 0.0 { MORE } else { LESS };
    // A change by a round number has its color whatever the last bit of its sum is.
    let size = (points.abs() * 1e6).round() / 1e6;
    let step = CHANGES.iter().take_while(|&&least| size >= least).count();
    step.checked_sub(1).map_or(UNCHANGED, |at| colors[at])
}

/// Colors of changes with their sizes, for a legend: from the largest decrease to the largest increase.
pub(crate) fn changes() -> Vec<(String, String)> {
    let step = |at: usize, sign: &str| match CHANGES.get(at + 1) {
        Some(next) => format!("{sign}{} to {sign}{next}", CHANGES[at]),
        None => format!("{sign}{} and beyond", CHANGES[at]),
    };
    let all = 0..CHANGES.len();
    let less = all.clone().rev().map(|at| (LESS[at].to_owned(), step(at, "-")));
    let none = (UNCHANGED.to_owned(), format!("less than {} either way", CHANGES[0]));
    let more = all.map(|at| (MORE[at].to_owned(), step(at, "+")));
    less.chain([none]).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn steps_differ_in_lightness_and_text_is_readable_on_them() {
        let text = luminance("#16181d");
        for pair in STEPS.windows(2) {
            let (paler, darker) = (luminance(pair[0]) + 0.05, luminance(pair[1]) + 0.05);
            assert!(paler / darker > 1.12, "{pair:?} {}", paler / darker);
        }
        for color in STEPS.iter().chain([&WITHHELD]) {
            assert!((luminance(color) + 0.05) / (text + 0.05) > 4.5, "{color}");
        }
    }

    #[test]
    fn changes_have_a_hue_for_each_direction() {
        assert_eq!([change(0.0), change(0.19), change(-0.19)], [UNCHANGED; 3]);
        assert_eq!([change(0.2), change(4.9), change(100.0)], [MORE[0], MORE[1], MORE[3]]);
        assert_eq!([change(-0.2), change(-5.0), change(-100.0)], [LESS[0], LESS[2], LESS[3]]);
        let sizes: Vec<String> = changes().into_iter().map(|(_, size)| size).collect();
        insta::assert_snapshot!(sizes.join("\n"), @r"
        -20 and beyond
        -5 to -20
        -1 to -5
        -0.2 to -1
        less than 0.2 either way
        +0.2 to +1
        +1 to +5
        +5 to +20
        +20 and beyond
        ");
        let text = luminance("#16181d") + 0.05;
        for (color, _) in changes() {
            assert!((luminance(&color) + 0.05) / text > 4.5, "{color}");
        }
        for hue in [MORE, LESS] {
            for pair in hue.windows(2) {
                assert!(
                    (luminance(pair[0]) + 0.05) / (luminance(pair[1]) + 0.05) > 1.2,
                    "{pair:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_has_no_scale_and_one_value_has_one_step() {
        assert_eq!(Scale::of([f64::NAN]), None);
        assert_eq!(Scale::of([2.5, 2.5]).unwrap().steps().len(), 1);
        let steps = Scale::of([0.5, 5.0]).unwrap().steps();
        assert_eq!((&*steps[0].values, &*steps[6].values), ("0.50 to 0.69", "3.6 to 5.0"));
        let even = Scale::of([0.0, 7.0]).unwrap().steps();
        assert_eq!((&*even[0].values, &*even[6].values), ("0 to 1.0", "6.0 to 7.0"));
    }

    proptest! {
        #[test]
        fn larger_values_are_never_paler(
            values in proptest::collection::vec(-1e6_f64..1e6, 1..20),
            positive in any::<bool>(),
        ) {
            let mut values: Vec<f64> =
                values.into_iter().map(|value| if positive { value.abs() } else { value }).collect();
            values.sort_by(f64::total_cmp);
            let scale = Scale::of(values.iter().copied()).unwrap();
            let steps: Vec<usize> = values.iter().map(|&value| scale.step(value)).collect();
            prop_assert!(steps.is_sorted());
            if values[0] < values[values.len() - 1] {
                prop_assert_eq!((steps[0], steps[values.len() - 1]), (0, STEPS.len() - 1));
            }
        }
    }
}
