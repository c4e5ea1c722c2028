//! Top-down analysis by rerunning: level 1 is counted first, then what is below those categories of it that
//! weigh. Nothing is multiplexed, whatever few counters there are.
//!
//! ```text
//!  fit (events) ─► stage: level 1 ─► runs ─► breakdown ─► which weigh ─► stage: level 2 ─► runs ─► breakdown
//! ```
//!
//! Events of a formula may be of different runs. Each is divided by the cycles of its own run, so that longer
//! and shorter runs do no harm; a round, in which every run is made once, gives one value of each share, and
//! the interval is Student's over rounds.

mod stage;

use std::collections::{BTreeMap, HashMap};

use pmuscope_events::topdown::{CYCLES, Category, Fitted, Meaning, Method, methods};
use pmuscope_stats::{LEVEL, mean_interval};
use serde::Serialize;

use crate::estimate::Estimated;
use crate::run_file::{Labels, Origin, RunFile, RunValue};

pub use stage::{level_1, level_2};

/// Parameter of a run file: name of the method.
const METHOD: &str = "topdown";
/// Before the names of constants among the parameters of a run file, of categories among its series.
const PREFIX: &str = "topdown.";
/// Before the names of categories among the parameters of a run file: what the machine lacks for them.
const MISSING: &str = "topdown.missing.";
/// A category of level 1 weighs if it may be more than this share of the slots: as much as Intel's method
/// takes for the front end and for bad speculation.
pub const WEIGHS: f64 = 0.15;
/// A sum of shares that is off by less is none to speak of.
const TOLERABLE: f64 = 0.005;

/// Where slots went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// The method, in words.
    pub about: String,
    /// Categories: each of level 1, followed by its parts.
    pub shares: Vec<SlotShare>,
    /// Sum of level 1, which should be 1.
    pub sum: Option<Estimated>,
    /// Whether an emulator counted.
    pub emulated: bool,
}

/// A category and its share of all slots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotShare {
    /// `backend`, `backend.memory`.
    pub name: String,
    /// What slots did or waited for.
    pub about: String,
    /// 1 or 2.
    pub level: u8,
    /// Share, 0 to 1; `None` where it was not measured.
    pub share: Option<Estimated>,
    /// Why not.
    pub why: Option<String>,
}

impl Breakdown {
    /// Categories of level 1 with enough slots to look below: those whose share may be more than [`WEIGHS`].
    #[must_use]
    pub fn weighty(&self) -> Vec<String> {
        let most = |share: &SlotShare| {
            let share = share.share?;
            Some(share.interval.map_or(share.value, |interval| interval.high))
        };
        let level_1 = self.shares.iter().filter(|share| share.level == 1);
        let heavy = level_1.filter(|share| most(share).is_some_and(|most| most > WEIGHS));
        heavy.map(|share| share.name.clone()).collect()
    }

    /// By how much level 1 is off 1, if by more than its interval allows.
    #[must_use]
    pub fn is_off_by(&self) -> Option<f64> {
        let sum = self.sum?;
        let half = sum.interval.map_or(0.0, |i| (i.high - sum.value).max(sum.value - i.low));
        Some(sum.value - 1.0).filter(|off| off.abs() > half.max(TOLERABLE))
    }

    /// Categories whose share is below nothing: their events do not belong together.
    #[must_use]
    pub fn impossible(&self) -> Vec<&str> {
        let below = |share: &&SlotShare| {
            let most = share.share.map(|s| s.interval.map_or(s.value, |i| i.high));
            most.is_some_and(|most| most < -TOLERABLE)
        };
        self.shares.iter().filter(below).map(|share| &share.name[..]).collect()
    }
}

/// Says in a run file which method its events are of.
pub fn describe(file: &mut RunFile, fitted: &Fitted) {
    file.parameters.insert(METHOD.to_owned(), fitted.method.name.clone());
    for (name, value) in &fitted.constants {
        file.parameters.insert(format!("{PREFIX}{name}"), value.to_string());
    }
    for (category, events) in &fitted.missing {
        file.parameters.insert(format!("{MISSING}{category}"), events.join(", "));
    }
}

/// Where slots went, of a file that [`describe`] has marked; `None` for others.
#[must_use]
pub fn breakdown(file: &RunFile) -> Option<Breakdown> {
    let (method, constants) = basis(file)?;
    let rounds = rounds(file);
    let of_round = |category: &Category, counts: &RoundCounts<'_>| {
        Evaluation { method: &method, constants: &constants, counts }.share(category).ok()
    };
    let values = |category: &Category| -> Vec<f64> {
        rounds.values().filter_map(|counts| of_round(category, counts)).collect()
    };
    let share = |category: &Category| {
        let share = mean_interval(&values(category), LEVEL).map(Estimated::from);
        let why = share.is_none().then(|| reason(file, &method, category));
        SlotShare {
            name: category.name.clone(),
            about: category.about.clone(),
            level: if category.parent().is_none() { 1 } else { 2 },
            share,
            why,
        }
    };
    let mut shares = Vec::new();
    for category in method.level_1() {
        shares.push(share(category));
        shares.extend(method.parts(&category.name).map(share));
    }
    let sums: Vec<f64> = rounds
        .values()
        .filter_map(|counts| {
            method.level_1().map(|category| of_round(category, counts)).sum::<Option<f64>>()
        })
        .collect();
    let emulated = file.series.iter().any(|series| series.origin == Origin::Emulated);
    let sum = mean_interval(&sums, LEVEL).map(Estimated::from);
    Some(Breakdown { about: method.about.clone(), shares, sum, emulated })
}

/// Adds the shares of every round to the figures of a file, so that files can be compared by them.
pub fn add_shares(file: &mut RunFile) {
    let Some((method, constants)) = basis(file) else { return };
    let Some(seen) = breakdown(file) else { return };
    file.series.retain(|series| !is_share(&series.metric));
    // A figure of a round belongs to its last run.
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for run in file.counting_runs() {
        if let Some(round) = run.round {
            last.insert(round, run.index);
        }
    }
    let mut values = Vec::new();
    for (round, counts) in &rounds(file) {
        let evaluation = Evaluation { method: &method, constants: &constants, counts };
        let Some(&run) = last.get(round) else { continue };
        for share in seen.shares.iter().filter(|share| share.share.is_some()) {
            let category = method.category(&share.name);
            if let Some(Ok(share_of_round)) = category.map(|category| evaluation.share(category)) {
                values.push((format!("{PREFIX}{}", share.name), run, 100.0 * share_of_round));
            }
        }
    }
    for (metric, run, value) in values {
        let value = RunValue::new(run, Ok(value));
        file.add_value(&Labels::new(), &metric, ("%", Origin::Derived), value);
    }
}

/// Values of constants by their names.
type Constants = HashMap<String, f64>;

/// The method of a file, and its constants.
fn basis(file: &RunFile) -> Option<(Method, Constants)> {
    let method =
        methods().into_iter().find(|one| Some(&one.name) == file.parameters.get(METHOD))?;
    let constant = |(key, value): (&String, &String)| {
        Some((key.strip_prefix(PREFIX)?.to_owned(), value.parse().ok()?))
    };
    Some((method, file.parameters.iter().filter_map(constant).collect()))
}

/// Whether a series is the share of a category.
#[must_use]
pub fn is_share(metric: &str) -> bool {
    metric.starts_with(PREFIX)
}

/// Counts of a round by event, for each cycle of their run.
type RoundCounts<'a> = HashMap<&'a str, f64>;

/// Counts of each round.
fn rounds(file: &RunFile) -> BTreeMap<usize, RoundCounts<'_>> {
    let cycles = file.series.iter().find(|s| s.metric == CYCLES && s.labels.is_empty());
    let value = |series: &crate::run_file::Series, run: usize| {
        series.values.iter().find(|value| value.run == run)?.value
    };
    let mut rounds: BTreeMap<usize, RoundCounts<'_>> = BTreeMap::new();
    for run in file.counting_runs() {
        let Some(round) = run.round else { continue };
        let of_run = cycles.and_then(|series| value(series, run.index)).filter(|n| *n > 0.0);
        let Some(cycles) = of_run else { continue };
        let counts = rounds.entry(round).or_default();
        for series in file.series.iter().filter(|series| series.labels.is_empty()) {
            if let Some(count) = value(series, run.index) {
                counts.insert(&series.metric, count / cycles);
            }
        }
    }
    rounds
}

/// One round's values.
struct Evaluation<'a> {
    method: &'a Method,
    constants: &'a Constants,
    counts: &'a RoundCounts<'a>,
}

impl Evaluation<'_> {
    /// The share of a category, by the first of its formulas whose events were counted; else what was not.
    fn share(&self, category: &Category) -> Result<f64, String> {
        let mut missing = None;
        for formula in &category.formulas {
            let values: Result<Vec<f64>, String> =
                formula.variables().iter().map(|variable| self.value(&variable.event)).collect();
            match values {
                Ok(values) => {
                    return formula.value(&values).ok_or_else(|| "it has no value".to_owned());
                }
                Err(event) => missing = missing.or(Some(event)),
            }
        }
        Err(missing.unwrap_or_default())
    }

    fn value(&self, variable: &str) -> Result<f64, String> {
        match self.method.meaning(variable) {
            Meaning::Category(category) => self.share(category),
            Meaning::Constant => self.constants.get(variable).copied().ok_or(variable.to_owned()),
            Meaning::Event => self.counts.get(variable).copied().ok_or(variable.to_owned()),
        }
    }
}

/// Why a category has no share in any round.
fn reason(file: &RunFile, method: &Method, category: &Category) -> String {
    let parameter = file.parameters.get(&format!("{MISSING}{}", category.name));
    if let Some(missing) = parameter {
        return format!("it needs {missing}, which this machine lacks");
    }
    let nothing = RoundCounts::new();
    let all = rounds(file);
    let counts = all.values().next().unwrap_or(&nothing);
    let evaluation = Evaluation { method, constants: &Constants::new(), counts };
    match (category.parent(), evaluation.share(category)) {
        (Some(parent), _) => format!("{parent} is not more than {:.0}%", 100.0 * WEIGHS),
        (None, Err(event)) => format!("{event} was not counted"),
        (None, Ok(_)) => "no round is complete".to_owned(),
    }
}

#[cfg(test)]
mod tests;
