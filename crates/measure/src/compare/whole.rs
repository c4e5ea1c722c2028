//! Runs that were counted in intervals, as the runs that they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::figures::is_extensive;
use crate::counting::INTERVAL;
use crate::run_file::{Run, RunFile, RunValue};

/// The file with its intervals put together to the runs that they are of: slices of one run are no runs of their own,
/// and depend on each other.
pub(super) fn whole_runs(file: &RunFile) -> Cow<'_, RunFile> {
    if !file.runs.iter().any(|run| run.labels.contains_key(INTERVAL)) {
        return Cow::Borrowed(file);
    }
    let mut whole = file.clone();
    // The first part of each run stands for all of it.
    let mut first_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut runs: Vec<Run> = Vec::new();
    for run in &file.runs {
        let first = *first_of.entry(run.order).or_insert(run.index);
        match runs.iter_mut().find(|known| known.index == first) {
            Some(known) => {
                known.duration_s += run.duration_s;
                for (name, number) in &run.units {
                    *known.units.entry(name.clone()).or_insert(0.0) += number;
                }
            }
            None => runs.push(run.clone()),
        }
    }
    for run in &mut runs {
        run.labels.remove(INTERVAL);
    }
    let order_of =
        |index: usize| file.runs.iter().find(|run| run.index == index).map(|run| run.order);
    for series in &mut whole.series {
        let adds_up = is_extensive(series);
        let mut values: Vec<RunValue> = Vec::new();
        for mut value in std::mem::take(&mut series.values) {
            value.run = order_of(value.run)
                .and_then(|order| first_of.get(&order))
                .copied()
                .unwrap_or(value.run);
            match values.iter_mut().find(|known| known.run == value.run) {
                Some(known) if adds_up => known.join(value),
                Some(known) => {
                    let why = "it is measured per interval and cannot be summed".to_owned();
                    *known = RunValue::new(known.run, Err(why));
                }
                None => values.push(value),
            }
        }
        series.values = values;
    }
    whole.runs = runs;
    Cow::Owned(whole)
}
