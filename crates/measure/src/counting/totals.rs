//! From what descriptors read to the series of a run file.

use std::collections::BTreeMap;

use pmuscope_counters::Reading;
use pmuscope_machine::Topology;

use super::open::{OpenFailure, since};
use super::{Counted, CounterSnapshot, Counting, Ended, RepeatedCount};
use crate::run_file::{Labels, Origin, RawReading, Run, RunFile, RunValue, metric, unix_ns};

/// What counts are summed over. perf's words for the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// Everything.
    Global,
    /// A CPU (`-A`).
    Cpu,
    /// A core, that is CPUs that share one (`--per-core`).
    Core,
    /// A die.
    Die,
    /// A processor (`--per-socket`).
    Socket,
    /// A node of memory.
    Node,
    /// A thread.
    Thread,
}

impl Aggregation {
    /// Name of the label that tells the parts apart; `None` where there are no parts.
    #[must_use]
    pub fn key(self) -> Option<&'static str> {
        Some(match self {
            Self::Global => return None,
            Self::Cpu => "cpu",
            Self::Core => "core",
            Self::Die => "die",
            Self::Socket => "socket",
            Self::Node => "node",
            Self::Thread => "thread",
        })
    }

    /// The part that a reading belongs to: `S0-D0-C1` for a core, as perf writes it.
    fn part(self, topology: &Topology, reading: &Reading) -> String {
        let unknown = || "-".to_owned();
        if self == Self::Thread {
            return reading.tid.map_or_else(unknown, |tid| tid.to_string());
        }
        let Some(cpu) = reading.cpu else { return unknown() };
        let Some(place) = topology.cpu(cpu) else { return cpu.to_string() };
        match self {
            Self::Core => format!("S{}-D{}-C{}", place.package, place.die, place.core),
            Self::Die => format!("S{}-D{}", place.package, place.die),
            Self::Socket => place.package.to_string(),
            Self::Node => place.node.to_string(),
            Self::Global | Self::Cpu | Self::Thread => cpu.to_string(),
        }
    }
}

/// Label of runs that are intervals of one: seconds from the start to their end.
pub const INTERVAL: &str = "interval";

/// Where in a run file counts go, and how.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Which in time.
    pub order: usize,
    /// Runs of one round belong together.
    pub round: Option<usize>,
    /// What was run.
    pub labels: Labels,
    /// What tells its figures from those of other runs of the file: labels of runs and series.
    pub arm: Labels,
    /// What counts are summed over.
    pub aggregation: Aggregation,
}

impl Recorded {
    /// Adds what was counted: as one run, or as one for each interval. Tells the index of the first.
    pub fn add(
        &self,
        file: &mut RunFile,
        counter: &RepeatedCount<'_>,
        (counted, refused): (&Counted, &[OpenFailure]),
    ) -> usize {
        let first = file.runs.len();
        if counted.moments.is_empty() {
            let labels = self.labels.clone();
            let index = self.begin(file, counted, labels, (0.0, counted.duration_s));
            self.add_counts(file, index, counter, &counted.last, refused);
            self.add_times(file, index, counted);
            return first;
        }
        let rest = counted.rest();
        let mut before: Option<&CounterSnapshot> = None;
        for now in counted.moments.iter().chain(&rest) {
            self.add_interval(file, counter, counted, (before, now), refused);
            before = Some(now);
        }
        first
    }

    /// Adds what was counted between two moments, or since the beginning, as a run.
    pub fn add_interval(
        &self,
        file: &mut RunFile,
        counter: &RepeatedCount<'_>,
        counted: &Counted,
        (before, now): (Option<&CounterSnapshot>, &CounterSnapshot),
        refused: &[OpenFailure],
    ) {
        let from = before.map_or(0.0, |before| before.at_s);
        let mut labels = self.labels.clone();
        labels.insert(INTERVAL.to_owned(), format!("{:.9}", now.at_s));
        let index = self.begin(file, counted, labels, (from, now.at_s));
        let readings = match before {
            Some(before) => since(&now.readings, &before.readings),
            None => now.readings.clone(),
        };
        self.add_counts(file, index, counter, &readings, refused);
        let wall = RunValue::new(index, Ok(now.at_s - from));
        file.add_value(&self.arm, metric::WALL, ("s", Origin::Clock), wall);
    }

    fn of_arm(&self, mut labels: Labels) -> Labels {
        labels.extend(self.arm.clone());
        labels
    }

    fn begin(
        &self,
        file: &mut RunFile,
        counted: &Counted,
        labels: Labels,
        (from, to): (f64, f64),
    ) -> usize {
        let index = file.runs.len();
        let started = counted.started + std::time::Duration::from_secs_f64(from.max(0.0));
        // What runs without us ends when it likes; that we stopped looking is no failure.
        let broken_off = counted.ended == Ended::Interrupted && counted.status.is_some();
        let why = broken_off.then(|| "interrupted".to_owned());
        // A command that we ended when its time was over has no status of its own.
        let exit = match (counted.ended, counted.status) {
            (Ended::Time, Some(_)) => None,
            (_, status) => Some(status.map_or(0, |status| i32::from(status.shell()))),
        };
        file.runs.push(Run {
            index,
            order: self.order,
            round: self.round,
            labels: self.of_arm(labels),
            started: unix_ns(started),
            duration_s: to - from,
            exit,
            why,
            units: BTreeMap::new(),
        });
        index
    }

    fn add_counts(
        &self,
        file: &mut RunFile,
        run: usize,
        counter: &RepeatedCount<'_>,
        readings: &[Reading],
        refused: &[OpenFailure],
    ) {
        for (index, counting) in counter.events().iter().enumerate() {
            let (_, unit) = counting.scale();
            let kind = (unit, counting.origin(counter.is_emulated()));
            if let Some(refusal) = refused.iter().find(|refusal| refusal.event == index) {
                let value = RunValue::new(run, Err(refusal.why.clone()));
                file.add_value(&self.arm, counting.name(), kind, value);
                continue;
            }
            let mut parts: Vec<(String, Vec<&Reading>)> = Vec::new();
            for reading in readings.iter().filter(|reading| reading.event == index) {
                let part = match self.aggregation {
                    Aggregation::Global => String::new(),
                    by => by.part(counter.topology(), reading),
                };
                match parts.iter_mut().find(|(name, _)| *name == part) {
                    Some((_, list)) => list.push(reading),
                    None => parts.push((part, vec![reading])),
                }
            }
            for (part, list) in parts {
                let key = self.aggregation.key();
                let labels: Labels =
                    key.into_iter().map(|key| (key.to_owned(), part.clone())).collect();
                let labels = self.of_arm(labels);
                file.add_value(&labels, counting.name(), kind, total(run, counting, &list));
            }
        }
    }
    fn add_times(&self, file: &mut RunFile, run: usize, counted: &Counted) {
        let mut add = |name: &str, kind, value| {
            file.add_value(&self.arm, name, kind, RunValue::new(run, Ok(value)));
        };
        add(metric::WALL, ("s", Origin::Clock), counted.duration_s);
        if let Some(usage) = counted.usage {
            add(metric::USER, ("s", Origin::Kernel), usage.user_s);
            add(metric::SYSTEM, ("s", Origin::Kernel), usage.system_s);
        }
    }
}

/// The sum over descriptors, each scaled up by the share of time that it was on a counter; not measured
/// if one of them never was while it was enabled.
fn total(run: usize, counting: &Counting, readings: &[&Reading]) -> RunValue {
    let (scale, _) = counting.scale();
    let mut sum = 0.0;
    let (mut enabled_ns, mut running_ns) = (0, 0);
    let mut why = None;
    for reading in readings {
        let Some(value) = reading.value else {
            why.get_or_insert_with(|| {
                "no counter was free for it. Try: pmuscope sweep, or fewer events".to_owned()
            });
            continue;
        };
        let (enabled, running) = (value.enabled_ns.unwrap_or(0), value.running_ns.unwrap_or(0));
        enabled_ns += enabled;
        running_ns += running;
        match (enabled, running) {
            (1.., 0) => {
                why.get_or_insert_with(|| "it was never on a counter".to_owned());
            }
            (enabled, running) if running < enabled => {
                sum += value.value as f64 * (enabled as f64 / running as f64);
            }
            _ => sum += value.value as f64,
        }
    }
    let seconds = |ns: u64| Some(ns as f64 / 1e9);
    RunValue {
        enabled_s: seconds(enabled_ns),
        running_s: seconds(running_ns),
        readings: readings.iter().map(|reading| raw(reading)).collect(),
        ..RunValue::new(run, why.map_or(Ok(sum * scale), Err))
    }
}

fn raw(reading: &Reading) -> RawReading {
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    let value = reading.value;
    RawReading {
        cpu: reading.cpu,
        thread: reading.tid,
        count: text(value.map(|value| value.value)),
        enabled_ns: text(value.and_then(|value| value.enabled_ns)),
        running_ns: text(value.and_then(|value| value.running_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::Value as Count;
    use pmuscope_events::{MachineCatalog, parse};
    use pmuscope_machine::Machine;

    fn counting(text: &str) -> Counting {
        let machine = Machine::host();
        let catalog = MachineCatalog::new(&machine).unwrap();
        let mut groups = parse(text, &catalog).unwrap();
        Counting { event: groups.remove(0).events.remove(0), group: 0 }
    }

    fn reading(count: u64, enabled: u64, running: u64) -> Reading {
        let value = Count {
            value: count,
            enabled_ns: Some(enabled),
            running_ns: Some(running),
            ..Count::default()
        };
        Reading { event: 0, cpu: Some(0), tid: None, value: Some(value) }
    }

    #[test]
    fn each_descriptor_is_scaled_by_its_own_share() {
        let faults = counting("page-faults");
        let value = total(3, &faults, &[&reading(100, 1000, 500), &reading(7, 1000, 1000)]);
        assert_eq!((value.run, value.value), (3, Some(207.0)));
        assert_eq!((value.enabled_s, value.running_s), (Some(2e-6), Some(1.5e-6)));
        assert_eq!(value.readings[0].count.as_deref(), Some("100"));
    }

    #[test]
    fn what_was_never_on_a_counter_is_not_nothing() {
        let faults = counting("page-faults");
        let value = total(0, &faults, &[&reading(0, 1000, 0), &reading(7, 1000, 1000)]);
        assert_eq!(value.value, None);
        assert_eq!(value.why.as_deref(), Some("it was never on a counter"));
        let given_up = Reading { value: None, ..reading(0, 0, 0) };
        let value = total(0, &faults, &[&given_up]);
        assert!(value.why.unwrap().starts_with("no counter was free"));
        // A thread that never ran while it was watched did nothing.
        assert_eq!(total(0, &faults, &[&reading(0, 0, 0)]).value, Some(0.0));
    }

    #[test]
    fn clocks_are_in_milliseconds_and_every_event_has_its_origin() {
        let clock = counting("task-clock");
        assert_eq!(total(0, &clock, &[&reading(2_500_000, 1, 1)]).value, Some(2.5));
        assert_eq!((clock.scale().1, clock.origin(true)), ("ms", Origin::Software));
    }
}
