//! Metrics of functions over a fleet: formulas of sums over all hosts, with intervals over hosts.
//!
//! ```text
//!            cycles  instructions  …                              CPI = Σ cᵢ / Σ iᵢ over all hosts
//!  host 1    c₁      i₁             sums over windows that count  its interval: the formula again without each host
//!  host 2    c₂      i₂                                           in turn (delete-one-host jackknife)
//! ```
//! A formula takes the sets of events that have all that it needs; events of one set were counted in the same windows. Shares
//! of all functions are of sums for all windows that end in a function, as in [`pmuscope_profile::metrics`].

use std::collections::{BTreeMap, BTreeSet};

use pmuscope_events::metrics::{Formula, Metric, Metrics};
use pmuscope_profile::metrics::{can_have_interval, with_three};
use pmuscope_stats::{Interval, LEVEL, LogRatio};

use crate::engine::{Engine, QueryError};
use crate::hosts::{Coverage, emulated, hosts};
use crate::question::{NamedQuestion, ShareBy};
use crate::rows::ResultRows;

/// A metric of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FleetMetric {
    /// The value; missing where its events were not counted, or it has none.
    pub value: Option<f64>,
    /// Its interval over hosts.
    pub interval: Option<Interval>,
    /// Where nothing was counted, and the value is 0 for that: what it is at most, with 95% confidence.
    pub at_most: Option<f64>,
    /// What it is made of: windows that count, or cgroups, as in [`FleetMetricRow::counted`].
    pub counted: u64,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetMetricRow {
    /// What it is of, in the order that was asked for; empty where it is not known.
    pub keys: Vec<String>,
    /// Windows that count, or cgroups each time that they were counted, as the [`MetricSource`] has them; of the set of
    /// events that has most.
    pub counted: u64,
    /// Hosts that had any.
    pub hosts: usize,
    /// One per metric.
    pub metrics: Vec<FleetMetric>,
}

/// Where what metrics are of was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricSource {
    /// In windows of functions.
    Windows,
    /// In the cgroups of services.
    Counts,
}

/// The name that CPU time has in formulas, microseconds, where counts are of services.
pub const CPU_TIME: &str = "cpu-time";

impl MetricSource {
    /// Its table.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Counts => "counts",
        }
    }

    /// The question for all rows, and the one for rows by what was asked for.
    fn questions(self) -> (NamedQuestion, NamedQuestion) {
        match self {
            Self::Windows => (NamedQuestion::Events, NamedQuestion::Metrics),
            Self::Counts => (NamedQuestion::CountEvents, NamedQuestion::Counts),
        }
    }

    /// Calls `take` with each row of an answer, and its number.
    fn each(
        self,
        found: &ResultRows,
        take: &mut dyn FnMut(usize, HostEvent),
    ) -> Result<(), QueryError> {
        match self {
            Self::Windows => each(found, take),
            Self::Counts => each_count(found, take),
        }
    }
}

/// Metrics of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetMetrics {
    /// What was recorded.
    pub coverage: Coverage,
    /// Events that were counted in the same windows.
    pub event_sets: BTreeSet<String>,
    /// Hosts that are emulated, by emulator: their counts are the emulator's.
    pub emulated: BTreeMap<String, usize>,
    /// The rows with most windows, or most CPU time.
    pub rows: Vec<FleetMetricRow>,
    /// All functions, or all services, together.
    pub total: Option<FleetMetricRow>,
}

/// Metrics of the rows with most windows, or CPU time, by these columns, of the engine's selection.
///
/// # Errors
/// Those of the engine.
pub fn metrics(
    engine: &Engine,
    source: MetricSource,
    (by, limit): (&[ShareBy], u64),
    known: &Metrics,
    chosen: &[&Metric],
) -> Result<FleetMetrics, QueryError> {
    let coverage = hosts(engine)?;
    let (of_all, of_rows) = source.questions();
    let mut all = CountedSums::new(source);
    let found = engine.rows(&of_all.sql(by, limit))?;
    source.each(&found, &mut |_, row| all.add(row))?;
    let found = engine.rows(&of_rows.sql(by, limit))?;
    let mut keys = Vec::new();
    for column in by {
        keys.push(found.texts(column.column())?);
    }
    let mut rows: Vec<(Vec<String>, CountedSums)> = Vec::new();
    source.each(&found, &mut |at, row| {
        let key: Vec<String> = keys.iter().map(|column| column[at].clone()).collect();
        // Rows of one key follow one another.
        if rows.last().is_none_or(|(last, _)| *last != key) {
            rows.push((key, CountedSums::new(source)));
        }
        if let Some((_, sums)) = rows.last_mut() {
            sums.add(row);
        }
    })?;
    let row = |(keys, own): (Vec<String>, &CountedSums)| FleetMetricRow {
        keys,
        counted: own.sets.values().map(|set| set.counted).max().unwrap_or(0),
        hosts: own.hosts().len(),
        metrics: chosen.iter().map(|metric| own.metric(&all, metric, known)).collect(),
    };
    Ok(FleetMetrics {
        event_sets: all.sets.keys().cloned().collect(),
        rows: rows.iter().map(|(keys, own)| row((keys.clone(), own))).collect(),
        total: (!all.sets.is_empty()).then(|| row((Vec::new(), &all))),
        emulated: emulated(engine, source.table())?,
        coverage,
    })
}

/// Sums of an event on a host.
struct HostEvent {
    event_set: String,
    event: String,
    host: String,
    /// Windows that count, or cgroups.
    counted: u64,
    count: f64,
    count_of_all: f64,
    tested: u64,
    same: u64,
    /// CPU time in which it was counted, of counts of services.
    cpu_us: Option<f64>,
}

/// Calls `take` with each row of an answer, and its number.
fn each(found: &ResultRows, take: &mut dyn FnMut(usize, HostEvent)) -> Result<(), QueryError> {
    let number = |column: &str| found.numbers(column);
    let (sets, events, hosts) =
        (found.texts("event_set")?, found.texts("event")?, found.texts("host")?);
    let (windows, counts, all) = (number("windows")?, number("count")?, number("count_of_all")?);
    let (tested, same) = (number("tested")?, number("same_at_both_ends")?);
    for (at, ((event_set, event), host)) in sets.into_iter().zip(events).zip(hosts).enumerate() {
        take(
            at,
            HostEvent {
                event_set,
                event,
                host,
                counted: windows[at].unsigned_abs(),
                count: counts[at] as f64,
                count_of_all: all[at] as f64,
                tested: tested[at].unsigned_abs(),
                same: same[at].unsigned_abs(),
                cpu_us: None,
            },
        );
    }
    Ok(())
}

/// The same of counts of services: cgroups take the place of windows, all of which count. CPU time is an event of each
/// set, whatever its other events are.
fn each_count(
    found: &ResultRows,
    take: &mut dyn FnMut(usize, HostEvent),
) -> Result<(), QueryError> {
    let number = |column: &str| found.numbers(column);
    let (sets, events, hosts) =
        (found.texts("event_set")?, found.texts("event")?, found.texts("host")?);
    let (cgroups, counts, times) = (number("cgroups")?, number("count")?, number("cpu_us")?);
    for (at, ((event_set, event), host)) in sets.into_iter().zip(events).zip(hosts).enumerate() {
        let (counted, count) = (cgroups[at].unsigned_abs(), counts[at] as f64);
        take(
            at,
            HostEvent {
                event_set,
                event,
                host,
                counted,
                count,
                count_of_all: count,
                tested: counted,
                same: counted,
                cpu_us: Some(times[at] as f64),
            },
        );
    }
    Ok(())
}

/// What was counted of an event: in the windows that count, and in all windows that end in the function.
#[derive(Debug, Clone, Copy, Default)]
struct EventSum {
    count: f64,
    count_of_all: f64,
}

/// Sums of events that are counted in the same windows.
#[derive(Debug, Clone, Default)]
struct EventSetSums {
    /// Windows that count, or cgroups.
    counted: u64,
    tested: u64,
    same: u64,
    /// By event and host.
    events: BTreeMap<String, BTreeMap<String, EventSum>>,
}

/// Sums of a row.
#[derive(Debug, Clone)]
struct CountedSums {
    source: MetricSource,
    /// By the events of a set.
    sets: BTreeMap<String, EventSetSums>,
}

/// What a formula is of in a set: own sums, and those of all rows; the variables in its order.
struct FormulaSums<'a> {
    own: Option<&'a EventSetSums>,
    all: &'a EventSetSums,
    /// Name, and whether it is of all rows.
    variables: &'a [(String, bool)],
    has_totals: bool,
}

impl FormulaSums<'_> {
    /// A variable by host.
    fn by_host(&self, variable: usize) -> Option<&BTreeMap<String, EventSum>> {
        let (name, is_total) = &self.variables[variable];
        let sums = if *is_total { Some(self.all) } else { self.own };
        sums?.events.get(name)
    }

    fn count(&self, sum: &EventSum) -> f64 {
        if self.has_totals { sum.count_of_all } else { sum.count }
    }

    /// The sum of a variable over all hosts.
    fn sum(&self, variable: usize) -> f64 {
        self.by_host(variable).into_iter().flatten().map(|(_, sum)| self.count(sum)).sum()
    }

    /// A host's part of that.
    fn part(&self, variable: usize, host: &str) -> f64 {
        let sum = self.by_host(variable).and_then(|hosts| hosts.get(host));
        sum.map_or(0.0, |sum| self.count(sum))
    }
}

impl CountedSums {
    fn new(source: MetricSource) -> Self {
        Self { source, sets: BTreeMap::new() }
    }

    fn add(&mut self, row: HostEvent) {
        let set = self.sets.entry(row.event_set).or_default();
        if let Some(cpu_us) = row.cpu_us {
            // The same for all events of a set, unless some could not be counted everywhere.
            let time = set.events.entry(CPU_TIME.to_owned()).or_default();
            let time = time.entry(row.host.clone()).or_default();
            time.count = time.count.max(cpu_us);
            time.count_of_all = time.count;
        }
        // The same for all events of a set: those of one count.
        let mut events = set.events.keys().filter(|event| *event != CPU_TIME);
        if events.next().is_none_or(|first| *first == row.event) {
            set.counted += row.counted;
            set.tested += row.tested;
            set.same += row.same;
        }
        let sum = set.events.entry(row.event).or_default().entry(row.host).or_default();
        sum.count += row.count;
        sum.count_of_all += row.count_of_all;
    }

    fn hosts(&self) -> BTreeSet<&str> {
        let events = self.sets.values().flat_map(|set| set.events.values());
        events.flat_map(|hosts| hosts.keys().map(String::as_str)).collect()
    }

    /// Whether windows are long enough, and enough, for an interval. Tested windows are those of all sets. What cgroups did is
    /// counted as a whole.
    fn is_sure(&self) -> bool {
        if self.source == MetricSource::Counts {
            return true;
        }
        let kept = self.sets.values().map(|set| set.counted).sum();
        let tested: u64 = self.sets.values().map(|set| set.tested).max().unwrap_or(0);
        let same: u64 = self.sets.values().map(|set| set.same).max().unwrap_or(0);
        can_have_interval(kept, (tested > 0).then(|| same as f64 / tested as f64))
    }

    fn metric(&self, all: &Self, metric: &Metric, known: &Metrics) -> FleetMetric {
        let sums = |formula: &Formula| {
            let of_variable = |variable: &pmuscope_events::metrics::Variable| {
                (known.canonical(&variable.event), variable.total)
            };
            let variables: Vec<(String, bool)> =
                formula.variables().iter().map(of_variable).collect();
            let has_all = |set: &EventSetSums| {
                variables.iter().all(|(name, _)| set.events.contains_key(name))
            };
            let sets: Vec<String> = all
                .sets
                .iter()
                .filter(|(_, set)| has_all(set))
                .map(|(name, _)| name.clone())
                .collect();
            (!sets.is_empty()).then_some((variables, sets))
        };
        let found = metric.formulas.iter().find_map(|formula| Some((formula, sums(formula)?)));
        let Some((formula, (variables, sets))) = found else { return FleetMetric::default() };
        self.value(all, formula, &variables, &sets)
    }

    /// The value of a formula over these sets.
    fn value(
        &self,
        all: &Self,
        formula: &Formula,
        variables: &[(String, bool)],
        sets: &[String],
    ) -> FleetMetric {
        let has_totals = variables.iter().any(|(_, total)| *total);
        let pieces: Vec<FormulaSums<'_>> = sets
            .iter()
            .filter_map(|name| {
                let (own, all) = (self.sets.get(name), all.sets.get(name)?);
                // A row without a window of the set has its share of the total all the same, which is 0.
                (own.is_some() || has_totals).then_some(FormulaSums {
                    own,
                    all,
                    variables,
                    has_totals,
                })
            })
            .collect();
        let sum = |at: usize| pieces.iter().map(|piece| piece.sum(at)).sum();
        let sums: Vec<f64> = (0..variables.len()).map(sum).collect();
        // Whole numbers below 2^53: what remains without a host is exact.
        let rest = |host: &str| -> Vec<f64> {
            let part = |at: usize| pieces.iter().map(|piece| piece.part(at, host)).sum::<f64>();
            sums.iter().enumerate().map(|(at, sum)| sum - part(at)).collect()
        };
        let counted = pieces.iter().filter_map(|piece| piece.own).map(|set| set.counted).sum();
        let Some(value) = formula.value(&sums).filter(|_| counted > 0) else {
            return FleetMetric { counted, ..FleetMetric::default() };
        };
        let is_sure = self.is_sure();
        if value == 0.0 {
            let at_most = is_sure.then(|| with_three(formula, &sums)).flatten();
            return FleetMetric { value: Some(value), at_most, counted, interval: None };
        }
        // A host without any of it says nothing of how its value differs from host to host.
        let has_any = |host: &&str| {
            (0..variables.len()).any(|at| pieces.iter().any(|piece| piece.part(at, host) > 0.0))
        };
        let without: Option<Vec<f64>> = all
            .hosts()
            .into_iter()
            .filter(has_any)
            .map(|host| formula.value(&rest(host)))
            .collect();
        let ratio = without.and_then(|without| LogRatio::of_statistic(value, &without));
        let interval = ratio
            .filter(|_| is_sure)
            .and_then(|ratio| ratio.estimate(LEVEL).interval)
            .map(|interval| Interval {
                high: interval.high.min(whole(formula, &pieces)),
                ..interval
            });
        FleetMetric { value: Some(value), interval, at_most: None, counted }
    }
}

/// What a share of all functions is at most: that of all of them. Other formulas have no bound.
fn whole(formula: &Formula, pieces: &[FormulaSums<'_>]) -> f64 {
    if !pieces.iter().any(|piece| piece.has_totals) {
        return f64::INFINITY;
    }
    let all = |at: usize| {
        let of = |piece: &FormulaSums<'_>| FormulaSums { own: Some(piece.all), ..*piece }.sum(at);
        pieces.iter().map(of).sum()
    };
    let sums: Vec<f64> = (0..formula.variables().len()).map(all).collect();
    formula.value(&sums).unwrap_or(f64::INFINITY)
}
