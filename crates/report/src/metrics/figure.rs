//! How the value of a metric is written, wherever people read it: `2.01 ± 0.03`; `~2.0` where there is no
//! interval; `0 (≤0.014)` of what was never counted; `-` where nothing was measured.

use pmuscope_profile::metrics::MetricCell;
use pmuscope_stats::Interval;

use crate::number::{estimate, significant};

/// A cell of the table.
pub(super) fn figure(cell: &MetricCell) -> String {
    match cell.at_most {
        Some(most) => format!("0 (≤{})", significant(most, 2)),
        None => value_figure(cell.value, cell.interval),
    }
}

/// The same of a value that stands alone.
pub(super) fn value_figure(value: Option<f64>, of: Option<Interval>) -> String {
    match (value, of) {
        (None, _) => "-".into(),
        (Some(0.0), Some(_)) => "0".into(),
        (Some(value), Some(of)) => estimate(value, of.low, of.high),
        (Some(value), None) => format!("~{}", significant(value, 3)),
    }
}

/// The value, if it has an interval, or is 0 because nothing was counted in enough windows.
pub(super) fn relied_on(cell: &MetricCell) -> Option<f64> {
    cell.value.filter(|_| cell.interval.is_some() || cell.at_most.is_some())
}

/// Whether it is a value without an interval.
pub(super) fn is_estimate(cell: &MetricCell) -> bool {
    cell.value.is_some() && relied_on(cell).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_says_how_much_it_is_worth() {
        let zero = MetricCell { value: Some(0.0), windows: 1, ..MetricCell::default() };
        let enough = MetricCell { windows: 1_441, at_most: Some(0.0141), ..zero };
        assert_eq!(figure(&MetricCell::default()), "-");
        assert_eq!((figure(&zero), relied_on(&zero)), ("~0".into(), None));
        assert_eq!((figure(&enough), relied_on(&enough)), ("0 (≤0.014)".into(), Some(0.0)));
    }
}
