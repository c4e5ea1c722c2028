//! Figures of several files by run, per unit of work where runs have units.

use std::collections::BTreeMap;

use pmuscope_stats::TwoSamples;

use super::whole::whole_runs;
use crate::censored::Beyond;
use crate::run_file::{Labels, Origin, Run, RunFile, Series, metric};

/// The label of runs of a sweep that says which events were counted: it does not tell figures apart.
pub(super) const GROUP: &str = "group";
/// What a run took as a whole, where a file has no clock's figure.
const DURATION: &str = "duration";
/// Units that add up over the work done; the kernel's PMUs say Joules and MiB.
const ADDS_UP: [&str; 13] =
    ["s", "ms", "us", "µs", "ns", "msec", "J", "Joules", "B", "bytes", "KiB", "MiB", "GiB"];

/// One figure in all files.
#[derive(Debug, Clone)]
pub(super) struct MetricValues {
    pub(super) labels: Labels,
    pub(super) metric: String,
    pub(super) unit: String,
    /// Per which unit of work; `None`: per run.
    pub(super) per: Option<String>,
    /// One per file; `None` where it does not have the figure.
    pub(super) columns: Vec<Option<Measured>>,
}

/// One figure in one file.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) origin: Origin,
    /// Number of the run and value, ascending.
    pub(super) values: Vec<(usize, f64)>,
    /// Values before they were divided by units of work.
    pub(super) totals: Vec<f64>,
    /// Least share of the time a counter was on the PMU, of all runs; `None` for what is no counter.
    pub(super) counted: Option<f64>,
    /// See [`TwoSamples::resolution`].
    pub(super) resolution: f64,
    /// Runs that are above a limit and have no value.
    pub(super) beyond: Option<Beyond>,
    /// Why there is no value.
    pub(super) why: Option<String>,
}

/// All figures of the files, each per unit of `per`; what does not add up over work stays as it is.
/// `None` in `per` is the whole run.
pub(super) fn figures(files: &[(String, RunFile)], per: &[Option<String>]) -> Vec<MetricValues> {
    let mut figures: Vec<MetricValues> = Vec::new();
    let mut known: BTreeMap<(String, String, Labels, Option<String>), usize> = BTreeMap::new();
    for (column, (_, file)) in files.iter().enumerate() {
        let file = &whole_runs(file);
        let runs: BTreeMap<usize, &Run> =
            file.counting_runs().map(|run| (run.index, run)).collect();
        for series in file.series.iter().chain(&durations(file)) {
            for per in bases(series, per) {
                let mut labels = series.labels.clone();
                labels.remove(GROUP);
                let key = (series.metric.clone(), series.unit.clone(), labels, per.clone());
                let at = *known.entry(key.clone()).or_insert_with(|| {
                    let (metric, unit, labels, per) = key;
                    let columns = vec![None; files.len()];
                    figures.push(MetricValues { labels, metric, unit, per, columns });
                    figures.len() - 1
                });
                let more = measured(series, &runs, per.as_deref());
                match &mut figures[at].columns[column] {
                    Some(there) => there.absorb(more),
                    empty => *empty = Some(more),
                }
            }
        }
    }
    figures.sort_by_key(|figure| place(&figure.metric));
    figures
}

/// Cycles and instructions first, all else as the files have it.
fn place(metric: &str) -> usize {
    const FIRST: [&str; 6] =
        ["cycles", "cpu-cycles", "cpu_cycles", "ref-cycles", "ref_cycles", "instructions"];
    let name = plain_name(metric);
    FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len())
}

/// Of an event: without modifiers (`:u`), in small letters.
pub(super) fn plain_name(metric: &str) -> String {
    metric.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// What to divide this series by: nothing where it does not add up over work.
fn bases(series: &Series, per: &[Option<String>]) -> Vec<Option<String>> {
    if is_extensive(series) { per.to_vec() } else { vec![None] }
}

/// Whether twice the work makes twice the figure.
pub(super) fn is_extensive(series: &Series) -> bool {
    let counter = matches!(
        series.origin,
        Origin::Hardware | Origin::Software | Origin::Emulated | Origin::Kernel
    );
    let own = matches!(series.origin, Origin::Program | Origin::Derived | Origin::Clock);
    series.metric != metric::MAX_RSS
        && ((series.unit.is_empty() && counter)
            || (ADDS_UP.contains(&&*series.unit) && (counter || own)))
}

/// What each run took, where the file has no clock's figure.
fn durations(file: &RunFile) -> Vec<Series> {
    let has_clock = file.series.iter().any(|s| matches!(s.origin, Origin::Clock | Origin::Program));
    let mut made = file.clone();
    made.series.clear();
    for run in file.runs.iter().filter(|run| !has_clock && run.duration_s > 0.0) {
        let unit = ("s", Origin::Clock);
        made.add(run.index, &run.labels, DURATION, unit, Ok(run.duration_s));
    }
    made.series
}

fn measured(series: &Series, runs: &BTreeMap<usize, &Run>, per: Option<&str>) -> Measured {
    let mut made = Measured {
        origin: series.origin,
        values: Vec::new(),
        totals: Vec::new(),
        counted: None,
        resolution: 0.0,
        beyond: Beyond::of(series.values.iter().filter(|value| runs.contains_key(&value.run))),
        why: series.values.iter().find_map(|value| value.why.clone()),
    };
    let mut steps = Vec::new();
    for value in &series.values {
        let Some(run) = runs.get(&value.run) else { continue };
        let units = match per {
            Some(name) => run.units.get(name).copied().filter(|n| *n > 0.0 && n.is_finite()),
            None => Some(1.0),
        };
        let (Some(total), Some(units)) = (value.value.filter(|v| v.is_finite()), units) else {
            continue;
        };
        made.values.push((value.run, total / units));
        made.totals.push(total);
        steps.push(1.0 / units);
        if let (Some(enabled), Some(running)) = (value.enabled_s, value.running_s) {
            let share = if enabled > 0.0 { (running / enabled).min(1.0) } else { 0.0 };
            made.counted = Some(made.counted.map_or(share, |least| least.min(share)));
        }
    }
    let whole = series.unit.is_empty() && made.totals.iter().all(|total| total.fract() == 0.0);
    if whole && !matches!(series.origin, Origin::Program | Origin::Derived) {
        made.resolution = pmuscope_stats::mean(&steps).unwrap_or(0.0);
    }
    made.sort();
    made
}

impl Measured {
    /// Takes in what other runs have of the same figure.
    fn absorb(&mut self, more: Self) {
        let known: Vec<usize> = self.values.iter().map(|&(run, _)| run).collect();
        for (value, total) in more.values.into_iter().zip(more.totals) {
            if !known.contains(&value.0) {
                self.values.push(value);
                self.totals.push(total);
            }
        }
        self.counted = match (self.counted, more.counted) {
            (Some(here), Some(there)) => Some(here.min(there)),
            (here, there) => here.or(there),
        };
        self.resolution = self.resolution.max(more.resolution);
        self.beyond = match (self.beyond, more.beyond) {
            (Some(here), Some(there)) => {
                Some(Beyond { runs: here.runs + there.runs, above: here.above.min(there.above) })
            }
            (here, there) => here.or(there),
        };
        self.why = self.why.take().or(more.why);
        self.sort();
    }

    /// One value per run, in their order.
    fn sort(&mut self) {
        self.values.sort_by_key(|&(run, _)| run);
        self.values.dedup_by_key(|value| value.0);
    }

    /// The values without the numbers of runs.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.values.iter().map(|&(_, value)| value).collect()
    }
}

impl MetricValues {
    /// Whether a file has runs that are above a limit.
    pub(super) fn is_beyond(&self, at: usize) -> bool {
        self.columns.get(at).and_then(Option::as_ref).is_some_and(|own| own.beyond.is_some())
    }

    /// Of two files, as tests take it; sides that have no value, or not of all runs, are empty.
    pub(super) fn two(&self, a: usize, b: usize) -> TwoSamples {
        let column = |at: usize| {
            self.columns.get(at).and_then(Option::as_ref).filter(|m| m.beyond.is_none())
        };
        let values = |at: usize| column(at).map_or_else(Vec::new, |m| m.values.clone());
        let step = |at: usize| column(at).map_or(0.0, |measured| measured.resolution);
        TwoSamples { a: values(a), b: values(b), resolution: f64::max(step(a), step(b)) }
    }
}
