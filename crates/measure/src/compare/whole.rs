//! Runs that were counted in intervals, as the runs that they are.

use std::borrow::Cow;
use std::collections::HashMap;

use super::figures::is_extensive;
use crate::counting::INTERVAL;
use crate::run_file::{Run, RunFile, RunValue};

/// The file with its intervals put together to the runs that they are of: slices of one run are no runs of their own,
/// and depend on each other.
#[must_use]
pub fn whole_runs(file: &RunFile) -> Cow<'_, RunFile> {
    if !file.runs.iter().any(|run| run.labels.contains_key(INTERVAL)) {
        return Cow::Borrowed(file);
    }
    let mut whole = file.clone();
    // The first part of each run stands for all of it.
    let mut first_of: HashMap<usize, usize> = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut place_of: HashMap<usize, usize> = HashMap::new();
    for run in &file.runs {
        let first = *first_of.entry(run.order).or_insert(run.index);
        match place_of.get(&first).and_then(|&place| runs.get_mut(place)) {
            Some(known) => {
                known.duration_s += run.duration_s;
                for (name, number) in &run.units {
                    *known.units.entry(name.clone()).or_insert(0.0) += number;
                }
            }
            None => {
                place_of.insert(first, runs.len());
                runs.push(run.clone());
            }
        }
    }
    for run in &mut runs {
        run.labels.remove(INTERVAL);
    }
    let whole_of: HashMap<usize, usize> =
        file.runs.iter().filter_map(|run| Some((run.index, *first_of.get(&run.order)?))).collect();
    for series in &mut whole.series {
        let adds_up = is_extensive(series);
        let mut values: Vec<RunValue> = Vec::new();
        let mut place_of: HashMap<usize, usize> = HashMap::new();
        for mut value in std::mem::take(&mut series.values) {
            value.run = whole_of.get(&value.run).copied().unwrap_or(value.run);
            match place_of.get(&value.run).and_then(|&place| values.get_mut(place)) {
                Some(known) if adds_up => known.join(value),
                Some(known) => {
                    let why = "it is measured per interval and cannot be summed".to_owned();
                    *known = RunValue::new(known.run, Err(why));
                }
                None => {
                    place_of.insert(value.run, values.len());
                    values.push(value);
                }
            }
        }
        series.values = values;
    }
    whole.runs = runs;
    Cow::Owned(whole)
}
