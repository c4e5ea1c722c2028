//! Runs in which what is timed did not happen: their value is above the time that was watched.

use serde::Serialize;

use crate::run_file::RunValue;

/// Of some runs it is only known that their value is above a limit. A mean or a ratio of the others says nothing of
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Beyond {
    /// How many of these runs there are.
    pub runs: usize,
    /// The least of their limits, in the unit of the figure.
    pub above: f64,
}

impl Beyond {
    /// Those among values; `None` where there is no such run.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a RunValue>) -> Option<Self> {
        let limits: Vec<f64> = values.into_iter().filter_map(|value| value.above).collect();
        let above = limits.iter().copied().min_by(f64::total_cmp)?;
        Some(Self { runs: limits.len(), above })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts() {
        let never = |run, above| RunValue::beyond(run, above, "not within the time".to_owned());
        let values = [RunValue::new(0, Ok(1.0)), never(1, 10.5), never(2, 10.0)];
        assert_eq!(Beyond::of(&values), Some(Beyond { runs: 2, above: 10.0 }));
        assert_eq!(Beyond::of(&values[..1]), None);
    }
}
