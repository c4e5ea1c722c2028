//! Counts per entry and per unit of work, from the tallies of all threads.

use pmuscope_counters::OwnGroup;
use pmuscope_events::{Event, Origin};
use pmuscope_stats::{Estimate, LongRun, Spread};
use serde::Serialize;

use crate::set::{Inner, Refused};
use crate::tally::Tally;

/// Kind and version of [`Report::to_json`].
pub const SCHEMA: &str = "pmuscope/region/1";

/// A unit of work that counts are divided by.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    name: String,
    amount: Amount,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Total(f64),
    Done,
}

impl Unit {
    /// Each region did `amount` of it, over all its entries.
    #[must_use]
    pub fn total(name: &str, amount: f64) -> Self {
        Self { name: name.to_owned(), amount: Amount::Total(amount) }
    }

    /// What entries have said by [`crate::Entry::did`].
    #[must_use]
    pub fn done(name: &str) -> Self {
        Self { name: name.to_owned(), amount: Amount::Done }
    }
}

/// A number with half the width of its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The estimate.
    pub value: f64,
    /// `None` if there are too few observations for an interval, or they cover too few phases.
    pub half: Option<f64>,
    /// Observations.
    pub n: u64,
}

impl From<Estimate> for Figure {
    fn from(estimate: Estimate) -> Self {
        let half = estimate.interval.map(|interval| interval.half_width());
        Self { value: estimate.value, half, n: estimate.n as u64 }
    }
}

/// The overhead of an empty region, in the thread that set the events up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Seconds of an entry with its exit; `None` if it could not be measured.
    pub seconds: Option<Figure>,
    /// Counts that an empty region has, by event.
    pub inside: Vec<Option<f64>>,
    /// Counts that an entry with its exit adds to the region around it, by event.
    pub around: Vec<Option<f64>>,
}

/// How counters were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct How {
    /// Times without a system call.
    pub in_user_space: u64,
    /// Times by `read(2)`.
    pub by_call: u64,
    /// What reads counters in user space here: `rdpmc`, `mrs`.
    pub instruction: Option<&'static str>,
    /// Why it took system calls, where it always did.
    pub why: Option<String>,
}

/// What a set has counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Threads that have entered a region.
    pub threads: usize,
    /// Whether hardware counters are an emulator's.
    pub emulated: bool,
    /// How counters were read.
    pub how: How,
    /// What an empty region costs.
    pub overhead: Option<Overhead>,
    /// In the order of their first mention.
    pub regions: Vec<RegionReport>,
    /// What was asked for and is not counted here.
    pub refused: Vec<Refused>,
    /// Why entries were not counted.
    pub troubles: Vec<String>,
}

/// What a region has counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionReport {
    /// Its name.
    pub name: String,
    /// Entries that were counted all of the time; the others are left out of all numbers.
    pub entries: u64,
    /// Entries that were counted only part of the time.
    pub partly: u64,
    /// Entries that were not counted.
    pub unmeasured: u64,
    /// Entries into regions within it.
    pub inner: u64,
    /// Share of the time within it that was counted; of the entries, where times are not known or
    /// entries were not counted.
    pub measured: Option<f64>,
    /// Units of work.
    pub units: Vec<UnitReport>,
    /// One for each event.
    pub rows: Vec<EventRow>,
}

/// How much work a region did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnitReport {
    /// Of the unit.
    pub name: String,
    /// `None` if it is not known.
    pub amount: Option<f64>,
}

/// An event of a region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventRow {
    /// Its name.
    pub event: String,
    /// Empty for a number of events.
    pub unit: String,
    /// `hardware`, `software`, `emulated`.
    pub origin: &'static str,
    /// Over all entries.
    pub total: Option<f64>,
    /// Of an entry.
    pub per_entry: Option<Figure>,
    /// The part of it that reading the counters adds (overhead), estimated from empty regions.
    pub own: Option<f64>,
    /// Of a unit of work, in the order of [`RegionReport::units`].
    pub per_unit: Vec<Option<Figure>>,
}

impl Report {
    /// The report for programs, as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, strings and lists: nothing in it can fail, as a number that is not finite is null.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The region of that name.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<&RegionReport> {
        self.regions.iter().find(|region| region.name == name)
    }
}

impl RegionReport {
    /// The row of that event.
    #[must_use]
    pub fn row(&self, event: &str) -> Option<&EventRow> {
        self.rows.iter().find(|row| row.event == event)
    }
}

/// Reports what a set has counted so far.
pub(crate) fn report(set: &Inner, units: &[Unit]) -> Report {
    let shared = set.shared();
    let mut by_region: Vec<Vec<Tally>> = vec![Vec::new(); shared.names.len()];
    let mut threads = 0;
    for tallies in &shared.threads {
        let tallies = tallies.locked();
        threads += usize::from(tallies.iter().any(Option::is_some));
        for (of_region, tally) in by_region.iter_mut().zip(tallies.iter()) {
            of_region.extend(tally.clone());
        }
    }
    for (of_region, tally) in by_region.iter_mut().zip(set.strays.locked().iter()) {
        of_region.extend(tally.clone());
    }
    let readings = |of: fn(&Tally) -> u64| by_region.iter().flatten().map(of).sum();
    let how = How {
        in_user_space: readings(|tally| tally.in_user_space),
        by_call: readings(|tally| tally.by_call),
        instruction: OwnGroup::instruction(),
        why: shared.why_read.clone(),
    };
    let regions = shared.names.iter().zip(&by_region);
    Report {
        schema: SCHEMA,
        threads,
        emulated: set.emulated,
        how,
        overhead: set.overhead.get().cloned(),
        regions: regions.map(|(name, tallies)| of_region(set, name, tallies, units)).collect(),
        refused: set.refused.clone(),
        troubles: shared.troubles.clone(),
    }
}

fn of_region(set: &Inner, name: &str, tallies: &[Tally], units: &[Unit]) -> RegionReport {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let entries = sum(|tally| tally.whole);
    let (partly, unmeasured) = (sum(|tally| tally.partly), sum(|tally| tally.unmeasured));
    let inner = sum(|tally| tally.inner);
    let done: f64 = tallies.iter().map(|tally| tally.units).sum();
    let amounts: Vec<f64> = units
        .iter()
        .map(|unit| match unit.amount {
            Amount::Total(amount) => amount,
            Amount::Done => done,
        })
        .collect();
    let is_amount = |amount: f64| amount.is_finite() && amount > 0.0;
    let row = |(index, event): (usize, &Event)| {
        let (unit, scale) = unit_of(event);
        let total: u64 = tallies.iter().map(|tally| tally.totals[index]).sum();
        let per_entry = ratio(tallies, |entries, _| entries as f64, index);
        let per_unit = units.iter().zip(&amounts).map(|(unit, &amount)| {
            let figure = match unit.amount {
                Amount::Done => ratio(tallies, |_, sums| sums[0], index),
                // Each entry is taken to do as much of it, those that were not counted too.
                Amount::Total(_) => {
                    let all = (entries + partly + unmeasured) as f64;
                    per_entry.map(|figure| scaled(figure, all / amount))
                }
            };
            figure.filter(|_| is_amount(amount)).map(|figure| scaled(figure, scale))
        });
        let own = set.overhead.get().and_then(|overhead| {
            let within = overhead.around[index]? * inner as f64 / entries as f64;
            Some((overhead.inside[index]? + within) * scale)
        });
        EventRow {
            event: event.name.clone(),
            unit,
            origin: origin_of(event, set.emulated),
            total: (entries > 0).then_some(total as f64 * scale),
            per_unit: per_unit.collect(),
            per_entry: per_entry.map(|figure| scaled(figure, scale)),
            own: own.filter(|_| entries > 0),
        }
    };
    RegionReport {
        name: name.to_owned(),
        entries,
        partly,
        unmeasured,
        inner,
        measured: measured(tallies),
        rows: set.events.iter().enumerate().map(row).collect(),
        units: units
            .iter()
            .zip(&amounts)
            .map(|(unit, &amount)| UnitReport {
                name: unit.name.clone(),
                amount: Some(amount).filter(|&amount| is_amount(amount)),
            })
            .collect(),
    }
}

/// Share of time that was counted, or of entries.
fn measured(tallies: &[Tally]) -> Option<f64> {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    let entries = [sum(|t| t.whole), sum(|t| t.partly), sum(|t| t.unmeasured)];
    let all: f64 = entries.iter().sum();
    if all == 0.0 {
        return None;
    }
    let enabled: Option<u64> = tallies.iter().map(|tally| tally.enabled_ns).sum();
    match enabled {
        Some(enabled) if enabled > 0 && entries[2] == 0.0 => {
            Some(1.0 - sum(|tally| tally.missed_ns) / enabled as f64)
        }
        _ => Some(entries[0] / all),
    }
}

/// Counts of an event over what `by` says of a block, with the interval of a ratio (delta method). Entries of
/// a thread in a row are alike, so its part of the variance is the long-run variance over its blocks; threads
/// are independent of each other. Those with too few entries for that are taken together, each block for
/// itself. `None` where `by` is nothing.
fn ratio(tallies: &[Tally], by: fn(u64, &[f64]) -> f64, event: usize) -> Option<Figure> {
    let sums_of = |tally: &Tally| {
        tally.blocks.iter().fold((0.0, 0.0, 0), |(count, size, n), (entries, sums)| {
            (count + sums[1 + event], size + by(entries, sums), n + entries)
        })
    };
    let (mut count, mut size, mut n) = (0.0, 0.0, 0);
    for (of_thread, by_thread, entries) in tallies.iter().map(sums_of) {
        count += of_thread;
        size += by_thread;
        n += entries;
    }
    if size <= 0.0 {
        return None;
    }
    let value = count / size;
    let influences = |tally: &Tally, around: f64| -> Vec<(f64, f64)> {
        let influence = |(entries, sums): (u64, &[f64])| {
            let of = by(entries, sums);
            ((sums[1 + event] - around * of) / size, of)
        };
        tally.blocks.iter().map(influence).collect()
    };
    let (mut parts, mut short) = (Vec::new(), Vec::new());
    for tally in tallies {
        let (count, size, _) = sums_of(tally);
        match LongRun::of(influences(tally, count / size)) {
            Some(part) => parts.push(part),
            None => short.extend(influences(tally, value)),
        }
    }
    let size_of_short: f64 = short.iter().map(|block| block.1).sum();
    let of_short = Spread::of(short).and_then(Spread::independent);
    // A lone entry of a thread says nothing about its variance: it is taken to be as that of the others.
    let known = if of_short.is_some() { size } else { size - size_of_short };
    let all = LongRun::sum(parts.into_iter().chain(of_short));
    let all = all.map(|all| LongRun { variance: all.variance * size / known, ..all });
    Some(Figure { value, half: all.and_then(|all| all.half_width()), n })
}

fn scaled(figure: Figure, factor: f64) -> Figure {
    let half = figure.half.map(|half| half * factor);
    Figure { value: figure.value * factor, half, ..figure }
}

/// Unit of an event's counts, and what a count is in it.
fn unit_of(event: &Event) -> (String, f64) {
    match event.origin {
        Origin::SoftwareClock => ("ns".to_owned(), 1.0),
        _ => (event.unit.clone().unwrap_or_default(), event.scale.unwrap_or(1.0)),
    }
}

fn origin_of(event: &Event, emulated: bool) -> &'static str {
    match event.origin {
        Origin::Hardware | Origin::Pmu if emulated => "emulated",
        Origin::Hardware | Origin::Pmu => "hardware",
        _ => "software",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Counted;
    use pmuscope_counters::{MAX_OWN_EVENTS, OwnCounts};

    fn reading(count: f64) -> OwnCounts {
        let mut counts = [0; MAX_OWN_EVENTS];
        counts[0] = count as u64;
        OwnCounts { counts, missed_ns: 0, enabled_ns: Some(0), in_user_space: false }
    }

    /// A tally of entries with these counts and units.
    fn tally(entries: impl IntoIterator<Item = (f64, f64)>) -> Tally {
        let mut tally = Tally::new(1);
        let before = reading(0.0);
        for (count, units) in entries {
            let after = reading(count);
            tally.add(&Counted { between: Some((&before, &after)), units, inner: 0 });
        }
        tally
    }

    #[test]
    fn a_mean_is_students_where_entries_are_few() {
        let values = [40.0, 70.0, 10.0, 30.0, 90.0, 20.0];
        let tallies = [
            tally(values[..2].iter().map(|&v| (v, 1.0))),
            tally(values[2..].iter().map(|&v| (v, 1.0))),
        ];
        let figure = ratio(&tallies, |entries, _| entries as f64, 0).unwrap();
        let students = pmuscope_stats::mean_interval(&values, pmuscope_stats::LEVEL).unwrap();
        assert!((figure.value - students.value).abs() < 1e-9);
        assert!((figure.half.unwrap() - students.interval.unwrap().half_width()).abs() < 1e-9);
        assert_eq!(figure.n, 6);
    }

    #[test]
    fn one_entry_has_no_interval_and_none_no_value() {
        let figure = ratio(&[tally([(5.0, 2.0)])], |entries, _| entries as f64, 0).unwrap();
        assert_eq!(figure, Figure { value: 5.0, half: None, n: 1 });
        assert_eq!(ratio(&[tally([])], |entries, _| entries as f64, 0), None);
        assert_eq!(ratio(&[tally([(5.0, 0.0)])], |_, sums| sums[0], 0), None, "no unit was done");
    }

    /// Entries whose cost drifts, as those of a program do: its neighbors are alike. Naive intervals
    /// hold the truth in a third of the cases.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth_though_neighbors_are_alike() {
        const RUNS: usize = 200;
        let mut rng = fastrand::Rng::with_seed(3);
        let mut held = 0;
        for _ in 0..RUNS {
            let mut drift = 0.0;
            let entries: Vec<(f64, f64)> = (0..8000)
                .map(|_| {
                    drift = 0.9 * drift + (rng.f64() - 0.5) * 200.0;
                    let units = 1.0 + 9.0 * rng.f64();
                    (1e6 + units * 1000.0 + drift, units)
                })
                .collect();
            let expected = 1e6 + 5.5 * 1000.0;
            let figure = ratio(&[tally(entries)], |entries, _| entries as f64, 0).unwrap();
            held += usize::from((figure.value - expected).abs() <= figure.half.unwrap());
        }
        let share = held as f64 / RUNS as f64;
        assert!((0.9..=0.99).contains(&share), "{share}");
    }

    /// Too few entries for blocks of several: the naive interval of these holds the truth in 3 of 4 cases.
    #[test]
    fn single_entries_that_are_alike_do_not_count_as_many() {
        const RUNS: usize = 1000;
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut held, mut all) = (0, 0);
        for _ in 0..RUNS {
            let mut thread = |n: usize| {
                let mut drift = 0.0;
                let entries = (0..n).map(|_| {
                    drift = 0.6 * drift + (rng.f64() - 0.5) * 200.0;
                    (1e6 + drift, 1.0)
                });
                tally(entries.collect::<Vec<_>>())
            };
            // The third thread has too few entries for a variance of its own.
            let tallies = [thread(200), thread(150), thread(4)];
            let figure = ratio(&tallies, |entries, _| entries as f64, 0).unwrap();
            let Some(half) = figure.half else { continue };
            all += 1;
            held += usize::from((figure.value - 1e6).abs() <= half);
        }
        let share = f64::from(held as u32) / f64::from(all);
        println!("{held} of {all}: {share:.3}");
        assert!(all > 950 && (0.93..=0.975).contains(&share), "{held} of {all}: {share}");
    }

    /// Entries of which the first half is of one phase and the rest of another show two phases, and nothing is
    /// known of a third.
    #[test]
    fn a_region_in_two_phases_has_no_interval() {
        let entries = (0..400).map(|at| (if at < 200 { 1000.0 } else { 2000.0 }, 1.0));
        let figure = ratio(&[tally(entries)], |entries, _| entries as f64, 0).unwrap();
        assert_eq!((figure.value, figure.half), (1500.0, None));
    }

    #[test]
    fn work_that_entries_did_divides_their_counts() {
        let entries = (1..=1000).map(|i| (f64::from(i % 10 + 1) * 25.0, f64::from(i % 10 + 1)));
        let figure = ratio(&[tally(entries)], |_, sums| sums[0], 0).unwrap();
        assert!((figure.value - 25.0).abs() < 1e-9);
        assert!(figure.half.unwrap() < 1e-9, "each unit costs the same");
    }
}
