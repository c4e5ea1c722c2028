//! Phases of a simulated machine of one CPU.

use std::sync::Arc;

use pmuscope_abi::record::{RecordBuilder, kind};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat};
use pmuscope_counters::{EventRequest, OpenOptions, Pending, RingSize};
use pmuscope_machine::Machine;
use pmuscope_perfdata::strobe::StrobeGroup;

use super::simulated::Pmu;
use super::*;
use crate::strobe::schedule::Schedule;

const PERIOD: u64 = 100_000;

fn request(leader: Option<usize>) -> EventRequest {
    let attr = Attr {
        sample: PERIOD,
        flags: AttrFlags::DISABLED,
        read_format: ReadFormat::GROUP | ReadFormat::ID,
        ..Attr::default()
    };
    let name = "cycles:u".into();
    EventRequest { name, attr, leader, cpus: None, any_task: false, max_precise: false }
}

/// An event that only counts.
fn counter(leader: usize) -> EventRequest {
    let request = request(Some(leader));
    let attr = Attr { sample: 0, flags: AttrFlags::empty(), ..request.attr };
    EventRequest { attr, ..request }
}

/// A machine of one CPU, with so many groups of A, B and a counter.
pub(super) struct Lab {
    pub(super) pmu: Arc<Pmu>,
    pub(super) set: SamplingSet,
    pub(super) strobe: Strobe,
}

impl Lab {
    pub(super) fn new(groups: u32) -> Self {
        let pmu = Arc::new(Pmu::default());
        let machine = Machine::host();
        let topology = machine.topology().unwrap();
        let scope = || Scope::Cpus([0].into_iter().collect());
        let requests = (0..groups)
            .map(|group| 3 * group as usize)
            .flat_map(|leader| [request(None), request(Some(leader)), counter(leader)])
            .collect();
        let options = OpenOptions { ring_size: RingSize::AtMost(65536) };
        let set =
            SamplingSet::open(&*pmu, &machine, &topology, &scope(), requests, options).unwrap();
        let group = |group| StrobeGroup {
            events: vec![3 * group, 3 * group + 1, 3 * group + 2],
            edges: vec![3 * group, 3 * group + 1],
            ..StrobeGroup::default()
        };
        let info = StrobeInfo {
            burst: 1,
            groups: (0..groups).map(group).collect(),
            ..StrobeInfo::default()
        };
        let schedule = Schedule { period: PERIOD, window: 300, jitter: 0, granule: 4 };
        let plan = StrobePlan::simulated(schedule, 4);
        let mut strobe = Strobe::new(plan, info, scope(), None, &set, 1);
        strobe.helper = Helper::Simulated(pmu.clone());
        strobe.start(&*pmu, &set).unwrap();
        Self { pmu, set, strobe }
    }

    fn update(&mut self) -> EpochUpdate {
        self.strobe.update(&*self.pmu, &self.set, None)
    }

    fn look_with(&mut self, online: &str) {
        let online = CpuSet::parse(online).unwrap();
        self.strobe.update(&*self.pmu, &self.set, Some(&online));
    }

    fn reasons(&self) -> Vec<Reason> {
        self.strobe.info(true).epochs.iter().map(|epoch| epoch.reason).collect()
    }

    /// The reader sees so many windows of this length and offset.
    fn sees(&self, windows: u64, length: u64, offset: u64) {
        let edges = self.strobe.edges(&self.set, 0);
        let (a, b) = (edges[0].id, edges[1].id);
        let info = self.strobe.info(true);
        let before = info.epochs.last().unwrap().before[0];
        let mut out = Vec::new();
        for number in 1..=windows {
            let opened = number * PERIOD;
            for (id, count) in [(a, opened), (b, opened + length)] {
                let mut record = RecordBuilder::new(&mut out, kind::SAMPLE, 2);
                let now = clock_ns(1);
                for word in
                    [id, 0, 1, now, 0, 2, count, a, (count - offset).wrapping_sub(before), b]
                {
                    record = record.u64(word);
                }
                record.finish();
            }
        }
        self.strobe.watch().update(0, &Pending::of_copy(&out));
    }

    /// What the reader finds in the ring: how many samples it keeps.
    fn drains(&self) -> usize {
        let sampled = self.pmu.take_samples();
        let kept = self.strobe.watch().sift(0, &Pending::of_copy(&sampled), false).unwrap();
        let one = 8 * (1 + 6 + 2 * 3);
        kept.iter().map(Pending::len).sum::<usize>() / one
    }

    fn let_it_be_due(&mut self) {
        self.strobe.cpus[0].due_ns = 0;
    }
}

#[test]
fn a_phase_that_holds_is_left_alone_until_it_is_due() {
    let mut lab = Lab::new(1);
    lab.sees(20, 300, 300);
    let update = lab.update();
    assert_eq!(update.epochs.len(), 1, "the first epoch is told");
    assert_eq!(lab.update(), EpochUpdate::default());
    lab.let_it_be_due();
    assert_eq!(lab.update().epochs.len(), 2, "an end and a beginning");
    let info = lab.strobe.info(true);
    assert_eq!(lab.reasons(), [Reason::Start, Reason::Dither]);
    let [first, second] = info.epochs.as_slice() else { panic!("{info:?}") };
    assert!(
        first.until_ns.is_some_and(|until| until <= second.from_ns) && second.until_ns.is_none()
    );
    assert_eq!((first.offsets[0], second.rejected_tries), (300, 0), "{info:?}");
    assert_eq!((info.cpus[0].accepted_tries, info.cpus[0].failed), (2, 0));
}

#[test]
fn what_loses_the_phase_is_named_and_repaired_at_the_next_look() {
    let mut lab = Lab::new(1);
    lab.pmu.throttle();
    lab.sees(5, 300, 0);
    lab.update();
    lab.sees(5, 70_000, 300);
    lab.update();
    lab.sees(5, 300, 300);
    lab.update();
    assert_eq!(lab.reasons(), [Reason::Start, Reason::OffsetChanged, Reason::LengthChanged]);
    let health = &lab.strobe.info(true).cpus[0];
    assert_eq!(
        health.rephased,
        [(Reason::Start, 1), (Reason::OffsetChanged, 1), (Reason::LengthChanged, 1)]
    );
}

#[test]
fn counts_without_samples_are_seen_and_an_idle_cpu_is_not() {
    let mut lab = Lab::new(1);
    let a_while_passes = |lab: &mut Lab| lab.strobe.cpus[0].heard.at_ns -= SILENCE_NS;
    lab.update();
    a_while_passes(&mut lab);
    lab.update();
    assert_eq!(lab.reasons(), [Reason::Start], "nothing ran");
    lab.pmu.run(3 * PERIOD);
    a_while_passes(&mut lab);
    lab.update();
    assert_eq!(lab.reasons(), [Reason::Start, Reason::NoSamples]);
}

#[test]
fn a_cpu_that_was_away_is_opened_anew() {
    let mut lab = Lab::new(1);
    lab.look_with("0");
    lab.pmu.unplug();
    lab.look_with("1");
    assert!(lab.strobe.info(true).epochs[0].until_ns.is_some());
    lab.look_with("0");
    let info = lab.strobe.info(true);
    assert_eq!(lab.reasons(), [Reason::Start, Reason::Hotplug]);
    assert_eq!((info.cpus[0].reopened, info.epochs[1].offsets[0]), (1, 300));
    assert_eq!(lab.strobe.reopened_ids(0).len(), 1);
    assert_ne!(lab.strobe.reopened_ids(0), lab.set.ids(0));
}

#[test]
fn a_cpu_that_was_away_between_two_looks_is_found_when_its_phase_is_due() {
    let mut lab = Lab::new(1);
    lab.pmu.unplug();
    lab.let_it_be_due();
    let update = lab.update();
    assert_eq!(lab.reasons(), [Reason::Start, Reason::Hotplug]);
    assert_eq!(update.opened.iter().map(|id| id.event).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn groups_take_turns() {
    let mut lab = Lab::new(3);
    for _ in 0..3 {
        lab.let_it_be_due();
        lab.update();
    }
    let groups: Vec<u32> = lab.strobe.info(true).epochs.iter().map(|epoch| epoch.group).collect();
    assert_eq!(groups, [0, 1, 2, 0]);
}

#[test]
fn counters_of_a_group_count_again_when_its_turn_comes() {
    let mut lab = Lab::new(2);
    let count = |lab: &Lab, event: usize| {
        let opened = lab.set.events().iter().find(|opened| opened.event == event);
        lab.pmu.count(opened.unwrap().fd())
    };
    for turn in 0..4 {
        let (counter, other) = if turn % 2 == 0 { (2, 5) } else { (5, 2) };
        let before = [count(&lab, counter), count(&lab, other)];
        lab.pmu.run(500);
        let after = [count(&lab, counter), count(&lab, other)];
        assert_eq!([after[0] - before[0], after[1] - before[1]], [500, 0], "turn {turn}");
        lab.let_it_be_due();
        lab.update();
    }
}

#[test]
fn samples_of_tries_that_were_not_accepted_do_not_reach_the_file() {
    let mut lab = Lab::new(1);
    let left_out = |lab: &Lab| lab.strobe.info(true).cpus[0].left_out;
    assert_eq!((lab.drains(), left_out(&lab)), (0, 0));
    lab.pmu.run(3 * PERIOD + PERIOD / 2);
    // Somebody else of the same scope runs while the next phase is tried for, between A and B: A is
    // read and turned off, then a try is as in the tests of phases.
    lab.pmu.preempt(2 + 6, 10 * PERIOD);
    lab.let_it_be_due();
    lab.update();
    lab.pmu.run(2 * PERIOD + PERIOD / 2);
    // Three of A and B each, then two.
    assert_eq!(lab.drains(), 10);
    let info = lab.strobe.info(true);
    let of_a = info.cpus[0].left_out;
    assert!((9..=10).contains(&of_a), "B was off: {info:?}");
    assert_eq!(info.epochs.last().unwrap().rejected_tries, 1);
    assert_eq!((lab.drains(), left_out(&lab)), (0, of_a), "counted once");
}

#[test]
fn what_is_sampled_without_a_phase_is_left_out() {
    let mut lab = Lab::new(1);
    for call in 0..2 * MOST_TRIES {
        lab.pmu.preempt(2 + u64::from(call) * 8 + 6, 3 * PERIOD);
    }
    lab.let_it_be_due();
    lab.update();
    let health = &lab.strobe.info(true).cpus[0];
    let why = health.why.as_deref().unwrap_or_default();
    assert_eq!(health.failed, 1);
    assert!(why.contains("tries got no closer than"), "{why}");
    lab.pmu.run(5 * PERIOD);
    assert_eq!(lab.drains(), 0);
    let left_out = lab.strobe.info(true).cpus[0].left_out;
    assert!(left_out >= 2 * u64::from(MOST_TRIES), "{left_out}");
}
