//! Profiles of one interval after the other, while records come.
//!
//! ```text
//!  rings ─► Live (perfdata): in order ─┬─ samples ──► counts of this interval ──► Profile, at its end
//!                                      └─ sideband ─► who runs what: goes on through all intervals
//! ```
//! Counts begin anew with each interval, and processes that have ended are forgotten when there are as many
//! as live: so memory follows from what is distinct in an interval, and from what runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::reader::{self, Event, FileState, Metadata, ReadError};
use pmuscope_symbols::{KernelIdentity, Request};

use crate::count::counter::Counter;
use crate::count::group::Counting;
use crate::facts::{EventFacts, FileFacts};
use crate::names::naming::Names;
use crate::profile::{Options, Profile};
use crate::timeline::loss::StreamLoss;
use crate::timeline::sideband::Sideband;
use crate::timeline::visit::InOrder;

/// Counts records of rings.
#[derive(Debug)]
pub struct Live {
    records: reader::Live,
    events: Vec<EventFacts>,
    has_period: Vec<bool>,
    counting: Counting,
    current: InOrder<Counter<'static>>,
    /// Descriptions of code made at run time that names were told of.
    told: BTreeSet<(i32, PathBuf)>,
    /// Size of what is known of processes beyond which those that have ended are forgotten, …
    limit: usize,
    /// … which is not worth it below this.
    least: usize,
}

/// Some 10 MB.
const LEAST: usize = 100_000;

/// A stretch of time whose records have all come.
#[derive(Debug)]
pub struct Interval {
    /// What is known of it: its length, what it cost, what was lost. Samples are filled in.
    pub info: RecordingInfo,
    /// What is known of the machine.
    pub metadata: Metadata,
}

impl Live {
    /// Counts samples of `events`, as `counting` says.
    #[must_use]
    pub fn new(events: Vec<Event>, counting: impl Into<Counting>) -> Self {
        let counting = counting.into();
        let has_period: Vec<bool> =
            events.iter().map(|event| event.has_period() || event.has_counts()).collect();
        let mut current = InOrder::new(&has_period, counting.clone());
        current.counts.learn(&events, events.iter().map(|event| event.ids.len()).sum());
        Self {
            events: events.iter().map(EventFacts::from).collect(),
            current,
            records: reader::Live::new(events),
            has_period,
            counting,
            told: BTreeSet::new(),
            limit: LEAST,
            least: LEAST,
        }
    }

    /// Takes whole records, in no order.
    pub fn push(&mut self, records: &[u8]) {
        self.records.push(records);
    }

    /// All records older than `time`, nanoseconds of their clock, have come: counts those older than
    /// `end`.
    pub fn complete_up_to(&mut self, time: u64, end: u64) {
        self.records.complete_up_to(time);
        while let Some(entry) = self.records.next_before(end) {
            self.current.take_entry(&entry);
        }
    }

    /// What was counted since the last interval, with names by `names`; `running` is the kernel that runs.
    ///
    /// # Errors
    /// None, as nothing is read from a file; the type is that of all profiles.
    pub fn finish(
        &mut self,
        interval: Interval,
        running: &KernelIdentity,
        options: Options,
        names: &mut dyn Names,
    ) -> Result<Profile, ReadError> {
        let next = InOrder::new(&self.has_period, self.counting.clone());
        // What was counted goes on from interval to interval.
        let counts = std::mem::take(&mut self.current.counts);
        let mut collected = std::mem::replace(&mut self.current, next).finish();
        for dump in collected.state.jit_dumps.iter().filter(|dump| !self.told.contains(dump)) {
            names.jit_dump(dump.0, &dump.1);
        }
        self.told.clone_from(&collected.state.jit_dumps);
        let Interval { mut info, mut metadata } = interval;
        info.complete = true;
        metadata.info = Some(info);
        let file = FileFacts {
            metadata,
            state: FileState::Closed,
            tally: reader::Tally::default(),
            stack_copy: None,
            tells_waits: false,
        };
        let resolve = &mut |requests: &[Request<'_>]| names.resolve(requests);
        let answer = collected.answer(self.events.clone(), file, running, options, resolve);
        let mut state = Sideband { loss: StreamLoss::default(), ..collected.state };
        if state.tasks.size() > self.limit {
            (state.tasks, state.modules) = state.tasks.living(&state.modules);
            self.limit = (2 * state.tasks.size()).max(self.least);
        }
        self.current = InOrder::going_on(state, &self.has_period, self.counting.clone());
        self.current.counts = counts;
        let mut profile = answer?;
        if let Some(info) = &mut profile.metadata.info {
            for event in &profile.events {
                let at = event.index as usize;
                let found = info.events.get_mut(at).zip(profile.sampled.get(at));
                if let Some((recorded, &sampled)) = found {
                    recorded.samples = sampled;
                }
            }
        }
        Ok(profile)
    }

    /// Records that came too late to be put in order, since the beginning.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.records.tally().late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::group::GroupBy;
    use crate::profile::FunctionShare;
    use pmuscope_abi::record::{RecordBuilder, kind};
    use pmuscope_abi::{Attr, AttrFlags, SampleType};
    use pmuscope_symbols::{Resolved, State as SymbolState, Symbol};

    const CLOCK: u64 = 7;

    fn live() -> Live {
        let fields = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
        let attr = Attr {
            sample: 1_000_000,
            sample_type: fields | SampleType::CPU,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let event = Event { name: "cpu-clock".into(), attr, ids: vec![CLOCK] };
        Live::new(vec![event], GroupBy { cpus: true, ..GroupBy::default() })
    }

    fn sample(pid: u32, ip: u64, time: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let record = RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(CLOCK).u64(ip);
        record.u32(pid).u32(pid).u64(time).u32(pid % 2).u32(0).finish();
        out
    }

    /// What stands behind every other record: thread, time, CPU, id.
    fn of(record: RecordBuilder<'_>, pid: u32, time: u64) {
        record.u32(pid).u32(pid).u64(time).u32(0).u32(0).u64(CLOCK).finish();
    }

    fn comm(pid: u32, name: &str, time: u64) -> Vec<u8> {
        let mut out = Vec::new();
        of(RecordBuilder::new(&mut out, kind::COMM, 0).u32(pid).u32(pid).text(name), pid, time);
        out
    }

    /// A mapping of `/bin/program` at 0x1000.
    fn map(pid: u32, time: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let record = RecordBuilder::new(&mut out, kind::MMAP, 0).u32(pid).u32(pid);
        of(record.u64(0x1000).u64(0x1000).u64(0).text("/bin/program"), pid, time);
        out
    }

    /// Functions of 16 bytes.
    fn names(requests: &[Request<'_>]) -> Vec<Resolved> {
        let symbol = |at: &u64| Some(Symbol::named(format!("f{}", at / 16).into()).into());
        let all = |one: &Request<'_>| one.addresses.iter().map(symbol).collect();
        let answer = |one| Resolved { symbols: all(one), state: SymbolState::Found };
        requests.iter().map(answer).collect()
    }

    fn rows(live: &mut Live) -> Vec<String> {
        let info = RecordingInfo { events: vec![Default::default()], ..RecordingInfo::default() };
        let interval = Interval { info, metadata: Metadata::default() };
        let running = KernelIdentity::default();
        let profile = live.finish(interval, &running, Options::default(), &mut names).unwrap();
        let samples = profile.samples();
        assert_eq!(profile.info().map(RecordingInfo::samples), Some(samples));
        let row =
            |row: &FunctionShare| format!("{} {}", profile.command_of(row), profile.name_of(row));
        let rows = profile.events[0].functions.iter();
        rows.map(|one| format!("{} {}", one.samples, row(one))).collect()
    }

    #[test]
    fn intervals_are_counted_apart_and_processes_stay_known() {
        let mut live = live();
        // Of another ring than the samples, and read after them.
        live.push(&[sample(1, 0x1010, 40), sample(1, 0x1012, 50), sample(1, 0x1020, 130)].concat());
        live.push(&[comm(1, "one", 10), map(1, 20)].concat());
        live.complete_up_to(120, 100);
        assert_eq!(rows(&mut live), ["2 one f1"]);
        live.complete_up_to(220, 200);
        assert_eq!(rows(&mut live), ["1 one f2"]);
        live.complete_up_to(320, 300);
        assert_eq!(rows(&mut live), [""; 0]);
        assert_eq!(live.late(), 0);
    }

    /// Names of threads, mappings, and what the kernel loaded stay; who has ended goes.
    #[test]
    fn processes_that_have_ended_are_forgotten_and_others_stay_what_they_are() {
        let mut live = live();
        (live.limit, live.least) = (0, 0);
        live.push(&[comm(1, "one", 10), map(1, 11)].concat());
        for round in 0..50_u64 {
            let (start, child) = (100 * round, 100 + round as u32);
            let at = start + 20;
            live.push(&[comm(child, "child", at), map(child, at + 1)].concat());
            live.push(&[sample(child, 0x1020, at + 2), sample(1, 0x1010, at + 3)].concat());
            live.push(&end(child, at + 4));
            live.complete_up_to(start + 99, start + 99);
            assert_eq!(rows(&mut live), ["1 one f1", "1 child f2"]);
        }
        // The process, its thread, view and mapping, names; what the kernel sees.
        assert!(live.limit < 50, "{}", live.limit);
    }

    fn end(pid: u32, time: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let record = RecordBuilder::new(&mut out, kind::EXIT, 0).u32(pid).u32(1);
        of(record.u32(pid).u32(1).u64(time), pid, time);
        out
    }

    #[test]
    fn a_name_that_changes_within_an_interval_has_two_rows() {
        let mut live = live();
        live.push(&[comm(1, "sh", 10), map(1, 20), sample(1, 0x1010, 30)].concat());
        live.push(&[comm(1, "worker", 40), sample(1, 0x1010, 50), sample(1, 0x1010, 60)].concat());
        live.complete_up_to(120, 100);
        assert_eq!(rows(&mut live), ["2 worker f1", "1 sh f1"]);
    }

    /// What was counted goes on from interval to interval.
    #[test]
    fn counts_stand_for_what_was_counted_since_the_interval_before() {
        let fields = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
        let attr = Attr {
            sample_type: fields | SampleType::READ,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let event = Event { name: "cycles".into(), attr, ids: vec![CLOCK] };
        let mut live = Live::new(vec![event], GroupBy::default());
        let sample = |time: u64, count: u64| {
            let mut out = Vec::new();
            let record = RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(CLOCK).u64(0x1010);
            record.u32(1).u32(1).u64(time).u64(count).finish();
            out
        };
        live.push(&[sample(30, 1000), sample(50, 1700), sample(150, 2000)].concat());
        let periods = |live: &mut Live| {
            let (info, metadata) = (RecordingInfo::default(), Metadata::default());
            let (interval, running) = (Interval { info, metadata }, KernelIdentity::default());
            let profile = live.finish(interval, &running, Options::default(), &mut names).unwrap();
            (profile.events[0].samples, profile.events[0].period)
        };
        live.complete_up_to(120, 100);
        assert_eq!(periods(&mut live), (2, Some(1700)));
        live.complete_up_to(220, 200);
        assert_eq!(periods(&mut live), (1, Some(300)));
    }
}
