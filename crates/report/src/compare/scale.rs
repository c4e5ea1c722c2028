//! Times per unit of work in a unit that leaves few zeros.

use pmuscope_measure::compare::{ComparedMetric, Explanation};
use pmuscope_measure::{Estimated, Limits};

/// Units of time, the largest first.
const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)];

/// What to multiply a figure by, and the unit that it then has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) factor: f64,
    pub(crate) unit: String,
}

impl Scale {
    /// For a row: only what is a time per unit of work gets another unit than it has.
    pub(crate) fn of_row(row: &ComparedMetric) -> Self {
        let means = row.columns.iter().flatten().filter_map(|column| Some(column.mean?.value));
        Self::of(&row.unit, row.per.is_some(), means)
    }

    /// For the figure that is explained.
    pub(crate) fn of_explanation(explanation: &Explanation) -> Self {
        let means = explanation.means.iter().flatten().map(|mean| mean.value);
        Self::of(&explanation.unit, explanation.per.is_some(), means)
    }

    fn of(unit: &str, is_per_unit: bool, values: impl Iterator<Item = f64>) -> Self {
        let same = || Self { factor: 1.0, unit: unit.to_owned() };
        let seconds = match unit {
            "s" => 1.0,
            "ms" | "msec" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return same(),
        };
        let largest = values.fold(0.0, |most: f64, value| most.max(value.abs())) * seconds;
        if !is_per_unit || largest <= 0.0 {
            return same();
        }
        let (unit, size) =
            UNITS.into_iter().find(|(_, size)| largest >= *size).unwrap_or(("ns", 1e-9));
        Self { factor: seconds / size, unit: unit.to_owned() }
    }

    pub(crate) fn apply(&self, estimate: &Estimated) -> Estimated {
        let interval = estimate.interval.map(|interval| Limits {
            low: interval.low * self.factor,
            high: interval.high * self.factor,
            level: interval.level,
        });
        Estimated { value: estimate.value * self.factor, interval, ..*estimate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_per_unit_get_a_unit_that_fits() {
        let of = |unit: &str, per: bool, value: f64| {
            let scale = Scale::of(unit, per, std::iter::once(value));
            (scale.unit, (value * scale.factor * 1e6).round() / 1e6)
        };
        assert_eq!(of("s", true, 0.0000001), ("ns".to_owned(), 100.0));
        assert_eq!(of("msec", true, 0.25), ("µs".to_owned(), 250.0));
        assert_eq!(of("s", true, 2.5), ("s".to_owned(), 2.5));
        assert_eq!(of("s", false, 0.0001), ("s".to_owned(), 0.0001));
        assert_eq!(of("J", true, 0.0001), ("J".to_owned(), 0.0001));
        assert_eq!(of("s", true, 0.0), ("s".to_owned(), 0.0));
    }
}
