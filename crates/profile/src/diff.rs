//! Two sides of recordings, function by function: what changed, and what cannot be told apart.
//!
//! Where each side has one recording, what is known of chance is how much a function's share varies
//! within it, from block to block of time; how much it varies from run to run is not in that. Where
//! each side has several, the runs themselves tell (Welch's t interval and test).
//!
//! Many functions are compared at once, so some differ by chance alone: a row counts as different
//! only if its p-value, adjusted for the number of rows (Holm), is below 5 %.

use std::collections::BTreeMap;

use pmuscope_stats::{
    Estimate, Interval, LEVEL, MIN_BLOCKS, difference_of_estimates, difference_of_means,
    difference_of_t_estimates, holm, mean, mean_interval, p_of_zero, welch_test,
};
use rustc_hash::FxHashMap;

use crate::aggregate::LongPhases;
use crate::profile::{EventProfile, FunctionShare, Profile};

/// Largest adjusted p-value of rows that differ.
pub const DIFFERS_BELOW: f64 = 0.05;

/// The largest rows of a recording that need an interval of their own to be compared: all that can matter.
pub const INTERVALS: usize = 2000;

/// What a total is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TotalUnit {
    /// Seconds: the event is a clock.
    Seconds,
    /// Units of the event.
    Units,
    /// Samples: neither the event nor its samples tell what they stand for.
    Samples,
}

/// Which change puts a row first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The change of the share.
    #[default]
    Share,
    /// The change of the total.
    Total,
}

/// A function in a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowName {
    /// Name of the threads. Foreign text.
    pub command: String,
    /// Last part of the module's path: what was built anew lies elsewhere. Foreign text.
    pub module: String,
    /// `None` where there is no symbol. Foreign text.
    pub function: Option<String>,
    /// The function that holds its code, if it was inlined there. Foreign text.
    pub inlined_into: Option<String>,
}

/// One event on both sides.
#[derive(Debug, Clone)]
pub struct EventDiff {
    /// Its name. Foreign text.
    pub name: String,
    /// How many events of the same name come before it in a recording: see [`occurrences`].
    pub occurrence: usize,
    /// What totals are in.
    pub unit: TotalUnit,
    /// All samples of the event, before and after.
    pub sides: [SideTotal; 2],
    /// The rows, the largest change first.
    pub rows: Vec<RowDiff>,
    /// With one recording a side: the phases that are too long for one of them, so that nothing is claimed.
    pub long_phases: Option<LongPhases>,
}

/// One event on one side.
#[derive(Debug, Clone)]
pub struct SideTotal {
    /// Recordings.
    pub runs: usize,
    /// Samples of all of them.
    pub samples: u64,
    /// Mean total of a recording, with the interval over recordings.
    pub total: Estimate,
}

/// A row on both sides.
#[derive(Debug, Clone)]
pub struct RowDiff {
    /// Which.
    pub name: RowName,
    /// Before and after.
    pub sides: [RowSide; 2],
    /// Change of the share, 0 to 1, after less before.
    pub share: Estimate,
    /// Change of the mean total, after less before. Its interval needs several recordings a side.
    pub total: Estimate,
    /// p-value of the change of the share, adjusted; `None` where nothing tells.
    pub p: Option<f64>,
}

/// A row on one side.
#[derive(Debug, Clone)]
pub struct RowSide {
    /// Share of the event, 0 to 1; mean over recordings.
    pub share: Estimate,
    /// Mean total of a recording.
    pub total: f64,
    /// Samples of all recordings.
    pub samples: u64,
}

impl RowDiff {
    /// Whether the share differs; `None` where nothing tells.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        self.p.map(|p| p < DIFFERS_BELOW)
    }
}

/// Compares events that both sides have. Each side is one recording or several of the same thing.
#[must_use]
pub fn diff(before: &[Profile], after: &[Profile], order: Order) -> Vec<EventDiff> {
    let Some(first) = before.first() else { return Vec::new() };
    let (before, after) = (by_name(before), by_name(after));
    first
        .events
        .iter()
        .zip(occurrences(first.events.iter().map(|event| &*event.name)))
        .filter_map(|(event, occurrence)| {
            let name = (&*event.name, occurrence);
            let sides = [runs(&before, name)?, runs(&after, name)?];
            Some(event_diff(name, &sides, order))
        })
        .collect()
}

/// How many of the same name come before each: two PMUs can have events of one name.
pub fn occurrences<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = usize> {
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    names.map(move |name| {
        let count = seen.entry(name).or_default();
        *count += 1;
        *count - 1
    })
}

/// A recording with its events by their names and [`occurrences`].
type ByName<'a> = (&'a Profile, FxHashMap<(&'a str, usize), &'a EventProfile>);

fn by_name<'a>(profiles: &'a [Profile]) -> Vec<ByName<'a>> {
    let one = |profile: &'a Profile| {
        let names = || profile.events.iter().map(|event| &*event.name);
        let keys = names().zip(occurrences(names()));
        (profile, keys.zip(&profile.events).collect())
    };
    profiles.iter().map(one).collect()
}

/// One event of one recording.
struct SideSums<'a> {
    profile: &'a Profile,
    event: &'a EventProfile,
    /// What one unit of weight is in the unit of totals.
    scale: f64,
    unit: TotalUnit,
}

/// That event of all recordings; `None` if one has it not.
fn runs<'a>(profiles: &[ByName<'a>], name: (&str, usize)) -> Option<Vec<SideSums<'a>>> {
    let run = |(profile, events): &ByName<'a>| {
        let (profile, event) = (*profile, *events.get(&name)?);
        let (unit, scale) = unit(event);
        Some(SideSums { profile, event, scale, unit })
    };
    profiles.iter().map(run).collect::<Option<Vec<_>>>().filter(|runs| !runs.is_empty())
}

/// Clocks count nanoseconds; a fixed period turns samples into units.
fn unit(event: &EventProfile) -> (TotalUnit, f64) {
    let units = match (event.by_period, event.fixed_period) {
        (true, _) => Some(1.0),
        (false, Some(period)) => Some(period as f64),
        (false, None) => None,
    };
    match (units, event.is_software_clock()) {
        (Some(units), true) => (TotalUnit::Seconds, units / 1e9),
        (Some(units), false) => (TotalUnit::Units, units),
        (None, _) => (TotalUnit::Samples, 1.0),
    }
}

fn event_diff(
    (name, occurrence): (&str, usize),
    sides: &[Vec<SideSums<'_>>; 2],
    order: Order,
) -> EventDiff {
    let all = || sides.iter().flatten();
    // Totals of two units cannot be set side by side; samples always can.
    let unit = match all().next().map(|run| run.unit) {
        Some(unit) if all().all(|run| run.unit == unit) => unit,
        _ => TotalUnit::Samples,
    };
    let rows = collect(sides, unit);
    let runs = [sides[0].len(), sides[1].len()];
    let mut rows: Vec<RowDiff> =
        rows.into_iter().map(|(name, row)| row_diff(name, &row, runs)).collect();
    let adjusted = holm(&rows.iter().map(|row| row.p).collect::<Vec<_>>());
    rows.iter_mut().zip(adjusted).for_each(|(row, p)| row.p = p);
    let size = |row: &RowDiff| match order {
        Order::Share => row.share.value.abs(),
        Order::Total => row.total.value.abs(),
    };
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    let side_total = |runs: &Vec<SideSums<'_>>| {
        let totals: Vec<f64> = runs.iter().map(|run| run.total(unit)).collect();
        let none = Estimate { value: 0.0, interval: None, n: 0 };
        SideTotal {
            runs: runs.len(),
            samples: runs.iter().map(|run| run.event.samples).sum(),
            total: mean_interval(&totals, LEVEL).unwrap_or(none),
        }
    };
    EventDiff {
        name: name.into(),
        occurrence,
        unit,
        sides: [side_total(&sides[0]), side_total(&sides[1])],
        rows,
        long_phases: all()
            .filter_map(|run| run.event.long_phases)
            .reduce(LongPhases::longer)
            .filter(|_| runs == [1, 1]),
    }
}

impl SideSums<'_> {
    fn total(&self, unit: TotalUnit) -> f64 {
        self.event.functions.iter().map(|row| self.total_of(row, unit)).sum()
    }

    fn total_of(&self, row: &FunctionShare, unit: TotalUnit) -> f64 {
        match unit {
            TotalUnit::Samples => row.samples as f64,
            TotalUnit::Seconds | TotalUnit::Units => row.weight as f64 * self.scale,
        }
    }

    fn name_of(&self, row: &FunctionShare) -> RowName {
        let profile = self.profile;
        RowName {
            command: profile.command_of(row).into(),
            module: profile.modules[row.module].short_name().into(),
            function: profile.function_of(row).map(str::to_owned),
            inlined_into: profile.inlined_into(row).map(str::to_owned),
        }
    }
}

/// A row in each recording of both sides.
type RowRuns = [Vec<RowRun>; 2];

/// A row in one recording. Absent is 0: the event was sampled, and not there.
#[derive(Debug, Clone, Copy, Default)]
struct RowRun {
    share: f64,
    total: f64,
    samples: u64,
    /// Interval of the share within the recording.
    within: Option<Interval>,
    /// Degrees of freedom of that interval.
    freedom: Option<f64>,
}

fn collect(sides: &[Vec<SideSums<'_>>; 2], unit: TotalUnit) -> BTreeMap<RowName, RowRuns> {
    let none = || [0, 1].map(|side: usize| vec![RowRun::default(); sides[side].len()]);
    let mut rows: BTreeMap<RowName, RowRuns> = BTreeMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for (at, run) in runs.iter().enumerate() {
            for row in &run.event.functions {
                let entry = &mut rows.entry(run.name_of(row)).or_insert_with(none)[side][at];
                // Two files of one name can share a row: the parts add up, their intervals do not.
                let alone = entry.samples == 0;
                entry.within = row.interval.filter(|_| alone);
                entry.freedom = row.freedom;
                entry.share += row.share;
                entry.total += run.total_of(row, unit);
                entry.samples += row.samples;
            }
        }
    }
    for row in rows.values_mut() {
        for (runs, row) in sides.iter().zip(row) {
            runs.iter().zip(row).for_each(|(run, row)| row.bound_if_absent(run.event));
        }
    }
    rows
}

impl RowRun {
    /// None among n samples: with 95 % confidence its share is below 3/n (the rule of three; Hanley &
    /// Lippman-Hand 1983).
    fn bound_if_absent(&mut self, event: &EventProfile) {
        if self.samples == 0
            && event.samples > 0
            && event.blocks >= MIN_BLOCKS
            && event.long_phases.is_none()
        {
            let high = (3.0 / event.samples as f64).min(1.0);
            self.within = Some(Interval { low: 0.0, high, level: LEVEL });
            // A bound, not an estimate of a variance.
            self.freedom = Some(f64::INFINITY);
        }
    }
}

fn row_diff(name: RowName, row: &RowRuns, runs: [usize; 2]) -> RowDiff {
    let values = |side: usize, of: fn(&RowRun) -> f64| row[side].iter().map(of).collect::<Vec<_>>();
    let shares = [0, 1].map(|side| values(side, |run| run.share));
    let totals = [0, 1].map(|side| values(side, |run| run.total));
    let none = Estimate { value: 0.0, interval: None, n: 0 };
    let (share, p, sides) = if runs == [1, 1] {
        let within = |side: usize| {
            let run = row[side][0];
            Estimate { value: run.share, interval: run.within, n: 1 }
        };
        let sides = [within(0), within(1)];
        let freedom = [0, 1].map(|side: usize| row[side][0].freedom);
        let (change, p) = difference(&sides, freedom);
        (change, p, sides)
    } else {
        let over_runs = |side: usize| mean_interval(&shares[side], LEVEL).unwrap_or(none);
        let change = difference_of_means(&shares[0], &shares[1], LEVEL).unwrap_or(none);
        (change, welch_test(&shares[0], &shares[1]), [over_runs(0), over_runs(1)])
    };
    let total = difference_of_means(&totals[0], &totals[1], LEVEL).unwrap_or(none);
    let side = |side: usize| RowSide {
        share: sides[side],
        total: mean(&totals[side]).unwrap_or(0.0),
        samples: row[side].iter().map(|run| run.samples).sum(),
    };
    RowDiff { name, sides: [side(0), side(1)], share, total, p }
}

/// After less before, and the p-value of that change; `None` where nothing tells the freedom of one of them.
pub(crate) fn difference(
    [before, after]: &[Estimate; 2],
    freedom: [Option<f64>; 2],
) -> (Estimate, Option<f64>) {
    let [Some(of_before), Some(of_after)] = freedom else {
        return (difference_of_estimates(before, after), None);
    };
    let (change, freedom) = difference_of_t_estimates((before, of_before), (after, of_after));
    (change, p_of_zero(&change, freedom))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{HiddenRows, ModuleSummary};
    use crate::timeline::loss::{Lost, LostSource};
    use crate::timeline::modules::ModuleKind;
    use pmuscope_perfdata::reader::{FileState, Metadata, Tally};
    use pmuscope_symbols::{KernelIdentity, State};

    /// A recording with these samples by function, one a millisecond.
    fn recording(event: &str, samples: &[(&str, u64)], half: Option<f64>) -> Profile {
        let all: u64 = samples.iter().map(|(_, samples)| samples).sum();
        let function = |name: &str| crate::views::function_table::FunctionName {
            name: name.into(),
            inlined_into: None,
        };
        let row = |(at, &(_, samples)): (usize, &(&str, u64))| {
            let share = samples as f64 / all as f64;
            let around = |half| Interval { low: share - half, high: share + half, level: LEVEL };
            FunctionShare {
                command: 0,
                module: 0,
                function: Some(at as u32),
                samples,
                weight: samples,
                share,
                interval: half.map(around),
                freedom: half.map(|_| 1e9),
                total: None,
            }
        };
        let unknown = KernelIdentity::default();
        Profile {
            samples: None,
            losses: Vec::new(),
            filtered: None,
            events: vec![EventProfile {
                index: 0,
                name: event.into(),
                samples: all,
                period: None,
                frequency: None,
                fixed_period: Some(1_000_000),
                by_period: false,
                lost: None,
                lost_at_most: 0,
                by_cpu: Vec::new(),
                blocks: 100,
                long_phases: None,
                functions: samples.iter().enumerate().map(row).collect(),
                hidden: HiddenRows::default(),
                modules: Vec::new(),
            }],
            modules: vec![ModuleSummary {
                kind: ModuleKind::File,
                path: "/usr/bin/db".into(),
                build_id: None,
                mapped: None,
                symbols: State::Found,
            }],
            names: crate::FunctionNames {
                functions: samples.iter().map(|(name, _)| function(name)).collect(),
                commands: vec!["db".into()],
            },
            aggregate: crate::aggregate::Aggregate::default(),
            by_chain: None,
            duration_s: None,
            lost: Lost { count: 0, source: LostSource::Kernel },
            throttled: 0,
            stacks: None,
            sampled: vec![all],
            metadata: Metadata::default(),
            state: FileState::Closed,
            tally: Tally::default(),
            mappings_left_out: 0,
            has_other_pid_namespaces: false,
            without_callers: 0,
            kernel: unknown.compare(&unknown),
            tells_waits: false,
        }
    }

    fn row<'a>(diff: &'a EventDiff, function: &str) -> &'a RowDiff {
        diff.rows.iter().find(|row| row.name.function.as_deref() == Some(function)).unwrap()
    }

    #[test]
    fn one_recording_a_side_has_intervals_from_within() {
        let before = [recording("cpu-clock", &[("parse", 400), ("hash", 600)], Some(0.03))];
        let after = [recording("cpu-clock", &[("parse", 900), ("hash", 600)], Some(0.04))];
        let all = diff(&before, &after, Order::Share);
        let parse = row(&all[0], "parse");
        let interval = parse.share.interval.unwrap();
        assert!((parse.share.value - 0.2).abs() < 1e-12);
        assert!((interval.half_width() - 0.05).abs() < 1e-12);
        assert_eq!(parse.differs(), Some(true));
        assert_eq!((all[0].unit, parse.total.interval), (TotalUnit::Seconds, None));
        assert!((parse.total.value - 0.5).abs() < 1e-12);
        assert!((row(&all[0], "hash").total.value).abs() < 1e-12);
    }

    #[test]
    fn several_recordings_tell_by_their_own_variance() {
        let side = |parse: [u64; 3]| {
            parse.map(|n| recording("cpu-clock", &[("parse", n), ("hash", 1000 - n)], None))
        };
        let apart = diff(&side([400, 405, 395]), &side([500, 510, 490]), Order::Share);
        assert_eq!(row(&apart[0], "parse").differs(), Some(true));
        let mixed = diff(&side([400, 500, 450]), &side([500, 420, 460]), Order::Share);
        assert_eq!(row(&mixed[0], "parse").differs(), Some(false));
        assert!(row(&mixed[0], "parse").total.interval.is_some());
        assert_eq!(mixed[0].sides[1].runs, 3);
    }

    #[test]
    fn what_only_one_side_has_was_nowhere_on_the_other() {
        let before = [recording("cpu-clock", &[("parse", 1000)], Some(0.001))];
        let after = [recording("cpu-clock", &[("parse", 900), ("check", 100)], Some(0.01))];
        let all = diff(&before, &after, Order::Share);
        let check = row(&all[0], "check");
        assert_eq!((check.sides[0].samples, check.sides[0].share.value), (0, 0.0));
        let bound = check.sides[0].share.interval.unwrap();
        assert!((bound.high - 0.003).abs() < 1e-12);
        assert_eq!(check.differs(), Some(true));
    }

    #[test]
    fn rows_come_by_the_change_that_was_asked_for() {
        let before = [recording("cpu-clock", &[("a", 100), ("b", 100), ("c", 800)], None)];
        let after = [recording("cpu-clock", &[("a", 300), ("b", 100), ("c", 3200)], None)];
        let first = |order| {
            let all = diff(&before, &after, order);
            all[0].rows[0].name.function.clone().unwrap()
        };
        assert_eq!(first(Order::Total), "c");
        assert_eq!(first(Order::Share), "c");
        let shares = diff(&before, &after, Order::Share);
        assert_eq!(shares[0].rows[1].name.function.as_deref(), Some("b"), "from 10 % to 2.8 %");
        let totals = diff(&before, &after, Order::Total);
        assert_eq!(totals[0].rows[1].name.function.as_deref(), Some("a"), "0.2 s more");
    }

    #[test]
    fn events_of_one_side_are_not_compared() {
        let before = [recording("cpu-clock", &[("a", 1)], None)];
        let after = [recording("cycles", &[("a", 1)], None)];
        assert!(diff(&before, &after, Order::Share).is_empty());
    }
}
