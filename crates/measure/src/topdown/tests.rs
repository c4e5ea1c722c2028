//! Shares of a pipeline whose truth is known: by formula, and through a kernel that counts as it would.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, ReadFormat, event_type};
use pmuscope_counters::{Kernel, RingMemory};
use pmuscope_events::lists::Lists;
use pmuscope_events::topdown::fit;
use pmuscope_events::{Catalog, Event, parse};
use pmuscope_machine::{Machine, MachineError, Pmu, PmuEvent, Target};
use proptest::prelude::*;

use super::*;
use crate::Program;
use crate::counting::{CommandOutput, Options, Signal};
use crate::error::MeasureError;
use crate::rounds::{RunDone, RunObserver};
use crate::run_file::Run;
use crate::sweep::{After, Sweep};
use crate::units::Units;

/// Cycles of each run of the pipelines below.
const CYCLES_OF_RUN: f64 = 1e9;

/// What is known of a pipeline: shares of slots, and of each category of level 1 the part of its first half.
#[derive(Debug, Clone, Copy)]
struct Truth {
    retiring: f64,
    bad: f64,
    frontend: f64,
    heavy: f64,
    mispredicts: f64,
    latency: f64,
}

impl Truth {
    fn backend(self) -> f64 {
        1.0 - self.retiring - self.bad - self.frontend
    }
}

fn truths() -> impl Strategy<Value = Truth> {
    (0.05..0.4f64, 0.01..0.2f64, 0.01..0.3f64, 0.0..1.0f64, 0.01..1.0f64, 0.0..1.0f64).prop_map(
        |(retiring, bad, frontend, heavy, mispredicts, latency)| Truth {
            retiring,
            bad,
            frontend,
            heavy,
            mispredicts,
            latency,
        },
    )
}

type Counted = BTreeMap<&'static str, f64>;

/// What a core with four slots counts, and the share of memory by its formula.
fn four_slots(truth: Truth) -> (Counted, f64) {
    let slots = 4.0 * CYCLES_OF_RUN;
    let retired = truth.retiring * slots;
    let recovery = 0.3 * truth.bad * slots;
    let issued = retired + truth.bad * slots - recovery;
    let (pending, stores, idle) = (0.2 * CYCLES_OF_RUN, 0.05 * CYCLES_OF_RUN, 0.3 * CYCLES_OF_RUN);
    let (one, two, empty) = (0.6 * CYCLES_OF_RUN, 0.4 * CYCLES_OF_RUN, 0.01 * CYCLES_OF_RUN);
    // Instructions are half of the cycles, so what two operations or more kept busy is not waiting.
    let starved = if truth.latency * truth.frontend > 0.1 { empty } else { 0.0 };
    let waiting = idle + (one - two) - starved + stores;
    let counts = BTreeMap::from([
        ("topdown-total-slots", slots),
        ("topdown-slots-retired", retired),
        ("topdown-slots-issued", issued),
        ("topdown-fetch-bubbles", truth.frontend * slots),
        ("topdown-recovery-bubbles", recovery),
        ("IDQ.MS_UOPS", truth.heavy * truth.retiring * slots * issued / retired),
        ("BR_MISP_RETIRED.ALL_BRANCHES", truth.mispredicts * 1e6),
        ("MACHINE_CLEARS.COUNT", (1.0 - truth.mispredicts) * 1e6),
        (
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE",
            truth.latency * truth.frontend * CYCLES_OF_RUN,
        ),
        ("CYCLE_ACTIVITY.STALLS_LDM_PENDING", pending),
        ("RESOURCE_STALLS.SB", stores),
        ("CYCLE_ACTIVITY.CYCLES_NO_EXECUTE", idle),
        ("UOPS_EXECUTED.CORE_CYCLES_GE_1", one),
        ("UOPS_EXECUTED.CORE_CYCLES_GE_2", two),
        ("UOPS_EXECUTED.CORE_CYCLES_GE_3", 0.1 * CYCLES_OF_RUN),
        ("RS_EVENTS.EMPTY_CYCLES", empty),
        ("cycles", CYCLES_OF_RUN),
        ("instructions", 0.5 * CYCLES_OF_RUN),
    ]);
    (counts, truth.backend() * (pending + stores) / waiting)
}

/// What a core counts that splits slots itself, also those of level 2; a third of the backend is memory.
fn own_slots(truth: Truth) -> (Counted, f64) {
    let slots = 6.0 * CYCLES_OF_RUN;
    let memory = truth.backend() / 3.0;
    let counts = BTreeMap::from([
        ("slots", slots),
        ("topdown-retiring", truth.retiring * slots),
        ("topdown-bad-spec", truth.bad * slots),
        ("topdown-fe-bound", truth.frontend * slots),
        ("topdown-be-bound", truth.backend() * slots),
        ("topdown-heavy-ops", truth.heavy * truth.retiring * slots),
        ("topdown-br-mispredict", truth.mispredicts * truth.bad * slots),
        ("topdown-fetch-lat", truth.latency * truth.frontend * slots),
        ("topdown-mem-bound", memory * slots),
        ("cycles", CYCLES_OF_RUN),
        ("instructions", CYCLES_OF_RUN),
    ]);
    (counts, memory)
}

/// What an Arm core of eight slots counts; operations that were not needed are those of bad speculation.
fn arm_slots(truth: Truth) -> (Counted, f64) {
    let slots = 8.0 * CYCLES_OF_RUN;
    let memory = truth.backend() / 4.0;
    let counts = BTreeMap::from([
        ("stall_slot", (truth.frontend + truth.backend()) * slots),
        ("stall_slot_frontend", truth.frontend * slots),
        ("stall_slot_backend", truth.backend() * slots),
        ("op_spec", (truth.retiring + truth.bad) * slots),
        ("op_retired", truth.retiring * slots),
        ("stall_backend", 4e8),
        ("stall_backend_mem", 1e8),
        ("cycles", CYCLES_OF_RUN),
        ("instructions", CYCLES_OF_RUN),
    ]);
    (counts, memory)
}

fn empty_file() -> RunFile {
    let tool = Program { name: "t".into(), version: "1".into() };
    RunFile::new(tool, vec![], std::time::UNIX_EPOCH)
}

/// Three rounds of one run each in which all of this was counted; rounds differ in length.
fn file(method: &str, counts: &Counted) -> RunFile {
    let mut file = empty_file();
    file.parameters.insert(METHOD.into(), method.into());
    file.parameters.insert("topdown.smt".into(), "0".into());
    file.parameters.insert("topdown.slots-per-cycle".into(), "8".into());
    for index in 0..3 {
        file.runs.push(Run {
            index,
            order: index,
            round: Some(index),
            labels: Labels::new(),
            started: "0".into(),
            duration_s: 1.0,
            exit: Some(0),
            why: None,
            units: BTreeMap::new(),
        });
        for (name, count) in counts {
            let kind = ("", Origin::Hardware);
            file.add(index, &Labels::new(), name, kind, Ok(count * (1.0 + index as f64)));
        }
    }
    file
}

fn shares(file: &RunFile) -> BTreeMap<String, f64> {
    let seen = breakdown(file).unwrap();
    let share = |share: &SlotShare| Some((share.name.clone(), share.share?.value));
    seen.shares.iter().filter_map(share).collect()
}

/// Fails unless shares are those of the truth, and parts add up to their whole.
fn check(found: &BTreeMap<String, f64>, truth: Truth, memory: f64) -> Result<(), TestCaseError> {
    let close = |name: &str, expected: f64| {
        let is = found.get(name).copied().unwrap_or(f64::NAN);
        prop_assert!((is - expected).abs() < 1e-9, "{}: {} is not {}", name, is, expected);
        Ok(())
    };
    close("retiring", truth.retiring)?;
    close("bad-speculation", truth.bad)?;
    close("frontend", truth.frontend)?;
    close("backend", truth.backend())?;
    close("backend.memory", memory)?;
    close("backend.core", truth.backend() - memory)
}

proptest! {
    #[test]
    fn formulas_find_the_shares_that_counts_were_made_of(truth in truths()) {
        let (counts, memory) = four_slots(truth);
        let found = shares(&file("intel-four", &counts));
        check(&found, truth, memory)?;
        prop_assert!((found["retiring.heavy"] - truth.heavy * truth.retiring).abs() < 1e-9);
        prop_assert!((found["bad-speculation.mispredicts"] - truth.mispredicts * truth.bad).abs() < 1e-9);
        prop_assert!((found["frontend.latency"] - truth.latency * truth.frontend).abs() < 1e-9);

        let (counts, memory) = own_slots(truth);
        let found = shares(&file("intel-slots", &counts));
        check(&found, truth, memory)?;
        prop_assert!((found["frontend.bandwidth"] - (1.0 - truth.latency) * truth.frontend).abs() < 1e-9);

        let (counts, memory) = arm_slots(truth);
        let found = shares(&file("arm-slots", &counts));
        check(&found, truth, memory)?;
        prop_assert!(!found.contains_key("frontend.memory"), "its events were not counted");
    }
}

const SOME: Truth =
    Truth { retiring: 0.2, bad: 0.05, frontend: 0.1, heavy: 0.1, mispredicts: 0.8, latency: 0.7 };

#[test]
fn level_1_that_does_not_add_up_and_shares_below_nothing_are_seen() {
    let (mut counts, _) = own_slots(SOME);
    let seen = breakdown(&file("intel-slots", &counts)).unwrap();
    assert_eq!((seen.is_off_by(), seen.impossible()), (None, vec![]));
    assert_eq!(seen.weighty(), ["retiring", "backend"]);
    counts.insert("topdown-be-bound", 3.6e9);
    counts.insert("topdown-mem-bound", 4.2e9);
    let seen = breakdown(&file("intel-slots", &counts)).unwrap();
    assert!((seen.is_off_by().unwrap() + 0.05).abs() < 1e-9, "{seen:?}");
    assert_eq!(seen.impossible(), ["backend.core"]);
}

#[test]
fn what_was_not_looked_at_says_why() {
    let (mut counts, _) = own_slots(SOME);
    for name in ["topdown-fetch-lat", "topdown-br-mispredict", "topdown-mem-bound"] {
        counts.remove(name);
    }
    let mut file = file("intel-slots", &counts);
    file.parameters.insert("topdown.missing.backend.memory".into(), "A, B".into());
    let seen = breakdown(&file).unwrap();
    let why = |name: &str| seen.shares.iter().find(|s| s.name == name).unwrap().why.clone();
    assert_eq!(why("frontend.latency").as_deref(), Some("frontend is not more than 15%"));
    let missing = "it needs A, B, which this machine lacks";
    assert_eq!(why("backend.memory").as_deref(), Some(missing));
    assert_eq!(why("retiring.heavy"), None);
}

/// A machine with one core unit.
struct Made(Vec<Pmu>);

impl Catalog for Made {
    fn pmus(&self) -> &[Pmu] {
        &self.0
    }

    fn tracepoint_id(&self, _system: &str, _name: &str) -> Result<u64, MachineError> {
        Err(MachineError::NoTracefs)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        Err(MachineError::NoTracefs)
    }

    fn lists(&self) -> Option<&Lists> {
        None
    }
}

/// A unit with these events, whose configurations are 100, 101, …
fn machine(unit: &str, events: &[&str]) -> Made {
    let event = |number: usize| PmuEvent {
        terms: format!("event={:#x}", 100 + number),
        scale: None,
        unit: None,
        per_package: false,
        snapshot: false,
    };
    // The generic ones are no names of the unit.
    let own = events.iter().filter(|name| !["cycles", "instructions"].contains(name));
    let named = own.enumerate().map(|(number, name)| ((*name).to_owned(), event(number)));
    Made(vec![Pmu {
        name: unit.to_owned(),
        type_number: 4,
        cpus: (unit != "cpu").then(|| "0-3".parse().unwrap()),
        cpumask: None,
        format: [("event".to_owned(), "config:0-15".to_owned())].into(),
        events: named.collect(),
        caps: [("slots".to_owned(), "0x00000008".to_owned())].into(),
    }])
}

#[test]
fn a_machine_that_lacks_events_is_told_which() {
    let of = |made: &Made| fit(&methods(), made, false).unwrap_err().to_string();
    assert!(of(&Made(Vec::new())).starts_with("no hardware PMU"));
    let emulated = machine("armv8_pmuv3_0", &["cpu_cycles", "inst_retired", "stall_backend"]);
    let expected = "armv8_pmuv3_0 lacks op_retired, op_spec, stall_slot, stall_slot_backend, \
        stall_slot_frontend, which the closest method (Arm: cores that count";
    assert!(of(&emulated).starts_with(expected), "{}", of(&emulated));
    let (counts, _) = own_slots(SOME);
    let names: Vec<&str> = counts.keys().copied().filter(|name| !name.ends_with("lat")).collect();
    let fitted = fit(&methods(), &machine("cpu", &names), false).unwrap();
    assert_eq!(fitted.method.name, "intel-slots");
    assert!(fitted.missing.contains_key("frontend.latency"));
    assert!(fitted.missing.contains_key("frontend.bandwidth"), "{:?}", fitted.missing);
    assert!(!fitted.missing.contains_key("backend.core"));
    let two = Made([machine("cpu_core", &names).0, machine("cpu_atom", &names).0].concat());
    assert!(of(&two).starts_with("this CPU has cores of several kinds (cpu_core, cpu_atom)"));
}

/// A kernel whose PMU counts what a pipeline of known shares would, more or less of it in each run.
struct Pipeline {
    /// Counts by `attr.config` of the unit, or of generic hardware events.
    counts: BTreeMap<(u32, u64), f64>,
    /// General counters; cycles, instructions and what is in `free` need none.
    counters: usize,
    /// Configurations that need no counter, but the first of them as their leader.
    free: Vec<u64>,
    open: Mutex<BTreeMap<RawFd, Opened>>,
}

#[derive(Debug, Clone)]
struct Opened {
    attr: Attr,
    pid: i32,
    leader: Option<RawFd>,
}

impl Pipeline {
    fn new(made: &Made, counts: &Counted, counters: usize, free: &[&str]) -> Self {
        let events = &made.0[0].events;
        let config = |name: &str| {
            let terms = &events.get(name)?.terms;
            u64::from_str_radix(terms.trim_start_matches("event=0x"), 16).ok()
        };
        let key = |name: &str| match name {
            "cycles" => (event_type::HARDWARE, 0),
            "instructions" => (event_type::HARDWARE, 1),
            name => (4, config(name).unwrap()),
        };
        let known = counts.iter().filter(|(name, _)| {
            ["cycles", "instructions"].contains(*name) || events.contains_key(**name)
        });
        Self {
            counts: known.map(|(name, count)| (key(name), *count)).collect(),
            counters,
            free: free.iter().filter_map(|name| config(name)).collect(),
            open: Mutex::default(),
        }
    }

    fn needs_counter(&self, attr: &Attr) -> bool {
        match attr.event_type {
            event_type::HARDWARE => attr.config > 1,
            _ => !self.free.contains(&attr.config),
        }
    }
}

impl Kernel for Pipeline {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        _cpu: i32,
        group: Option<BorrowedFd<'_>>,
        _flags: OpenFlags,
    ) -> io::Result<OwnedFd> {
        let mut open = self.open.lock().unwrap();
        let leader = group.map(|leader| leader.as_raw_fd());
        let led_by = leader.map_or(attr.config, |leader| open[&leader].attr.config);
        let is_free = attr.event_type == 4 && self.free.contains(&attr.config);
        if is_free && self.free.first() != Some(&led_by) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd: OwnedFd = File::open("/dev/null")?.into();
        if leader.is_none() {
            // Descriptors are closed as groups, and numbers used again.
            open.retain(|_, one| one.leader != Some(fd.as_raw_fd()));
        }
        open.insert(fd.as_raw_fd(), Opened { attr: attr.clone(), pid, leader });
        Ok(fd)
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
        let open = self.open.lock().unwrap();
        let fd = event.as_raw_fd();
        let leader = &open[&fd];
        let format = leader.attr.read_format;
        let in_group = format.contains(ReadFormat::GROUP);
        let members: Vec<(RawFd, &Opened)> = open
            .iter()
            .filter(|(number, one)| **number == fd || in_group && one.leader == Some(fd))
            .map(|(number, one)| (*number, one))
            .collect();
        let needed = members.iter().filter(|(_, one)| self.needs_counter(&one.attr)).count();
        let running = if needed > self.counters { 0 } else { 1000 };
        // Each process has its own length, the same for all that is counted of it.
        let length = 1.0 + f64::from(leader.pid.rem_euclid(7)) / 10.0;
        let count = |one: &Opened| {
            let known = self.counts.get(&(one.attr.event_type, one.attr.config));
            (known.unwrap_or(&0.0) * length).round() as u64
        };
        let mut out = Vec::new();
        if in_group {
            out.extend([members.len() as u64, 1000, running]);
            // The leader first, as the kernel has it.
            let (first, rest): (Vec<_>, Vec<_>) = members.iter().partition(|(one, _)| *one == fd);
            for (number, one) in first.into_iter().chain(rest) {
                out.push(count(one));
                if format.contains(ReadFormat::ID) {
                    out.push(number as u64);
                }
            }
        } else {
            out.extend([count(leader), 1000, running]);
        }
        let length = out.len().min(words.len());
        words[..length].copy_from_slice(&out[..length]);
        Ok(length)
    }

    fn event_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(event.as_raw_fd() as u64)
    }

    fn redirect(&self, _event: BorrowedFd<'_>, _owner: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn enable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn disable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn enable_alone(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn disable_alone(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn set_period(&self, _event: BorrowedFd<'_>, _period: u64) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, _: BorrowedFd<'_>, _: usize, _: bool) -> io::Result<RingMemory> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Nobody;

impl RunObserver for Nobody {
    fn done(&mut self, _done: &RunDone<'_>) {}
    fn failed(&mut self, exit: u8, output: &str) {
        panic!("{exit} {output}");
    }
    fn keep(&mut self, _file: &RunFile) -> Result<(), MeasureError> {
        Ok(())
    }
}

/// Level 1, then what is below where it weighs; the file, the runs of each level, what was looked below.
fn analyse(made: &Made, kernel: &Pipeline) -> (RunFile, [usize; 2], Vec<String>) {
    let fitted = fit(&methods(), made, false).unwrap();
    let parsed = parse("cycles,instructions", made).unwrap();
    let references: Vec<Event> = parsed.into_iter().flat_map(|group| group.events).collect();
    let target = Target::Command;
    let mut file = empty_file();
    describe(&mut file, &fitted);
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let machine = Machine::host();
    let run = |schedule: &crate::sweep::Schedule, after: After, file: &mut RunFile| {
        let sweep = Sweep {
            kernel,
            machine: &machine,
            options: Options {
                target: target.clone(),
                inherit: false,
                groups: Vec::new(),
                pinned: true,
                command: vec!["true".into()],
                output: CommandOutput::Inherited,
                delay: None,
                timeout: None,
                interval: None,
                intervals: None,
            },
            schedule,
            arms: &[],
            rounds: 3,
            seed: 1,
            units: &Units::default(),
            after,
        };
        let stop = Signal(std::os::fd::AsFd::as_fd(&reader));
        assert!(sweep.run(file, stop, &mut Nobody).unwrap());
    };
    let first = level_1(kernel, &target, &fitted, &references);
    assert_eq!(first.refused, []);
    run(&first, After::default(), &mut file);
    let below = breakdown(&file).unwrap().weighty();
    let counted: Vec<String> = first
        .runs
        .iter()
        .flatten()
        .flat_map(|group| &group.events)
        .map(|event| event.name.clone())
        .collect();
    let second = level_2(kernel, &target, (&fitted, &references), &below, &counted);
    assert_eq!(second.refused, []);
    let after = After { runs: file.runs.len(), groups: first.runs.len() };
    run(&second, after, &mut file);
    (file, [first.runs.len(), second.runs.len()], below)
}

#[test]
fn what_weighs_is_drilled_down_by_reruns_and_nothing_takes_turns() {
    let (counts, memory) = four_slots(SOME);
    let names: Vec<&str> = counts.keys().copied().collect();
    let made = machine("cpu", &names[..]);
    let kernel = Pipeline::new(&made, &counts, 3, &[]);
    let (mut file, [first, second], below) = analyse(&made, &kernel);
    // Five events of level 1 and the ten of retiring and backend, three at a time beside the references.
    assert_eq!((first, below), (2, vec!["retiring".to_owned(), "backend".to_owned()]));
    assert!((3..=4).contains(&second), "{second}");
    assert_eq!(file.runs.len(), 3 * (first + second));
    let orders: Vec<usize> = file.runs.iter().map(|run| run.order).collect();
    assert_eq!(orders, (0..file.runs.len()).collect::<Vec<_>>());
    for series in &file.series {
        let times = |value: &RunValue| value.enabled_s == value.running_s && value.value.is_some();
        let counted = !series.values[0].readings.is_empty();
        assert!(!counted || series.values.iter().all(times), "{series:?}");
        let once = !["cycles", "instructions"].contains(&&series.metric[..]);
        assert!(!counted || !once || series.values.len() == 3, "{series:?}");
    }
    let found = shares(&file);
    let expected = [
        ("retiring", SOME.retiring),
        ("backend", SOME.backend()),
        ("retiring.heavy", SOME.heavy * SOME.retiring),
        ("backend.memory", memory),
        ("backend.core", SOME.backend() - memory),
    ];
    for (name, share) in expected {
        assert!((found[name] - share).abs() < 1e-6, "{name}: {} is not {share}", found[name]);
    }
    assert!(!found.contains_key("bad-speculation.clears"), "its whole does not weigh");
    let seen = breakdown(&file).unwrap();
    assert_eq!((seen.is_off_by(), seen.shares[0].share.unwrap().n), (None, 3));
    add_shares(&mut file);
    add_shares(&mut file);
    let backend: Vec<&_> = file.series.iter().filter(|s| s.metric == "topdown.backend").collect();
    assert_eq!((backend.len(), backend[0].values.len(), &backend[0].unit[..]), (1, 3, "%"));
    assert!((backend[0].values[0].value.unwrap() - 100.0 * SOME.backend()).abs() < 1e-3);
}

#[test]
fn slots_of_the_pmu_are_one_group_that_slots_lead() {
    let (counts, memory) = own_slots(SOME);
    let names: Vec<&str> = counts.keys().copied().collect();
    let made = machine("cpu", &names[..]);
    let fitted = fit(&methods(), &made, false).unwrap();
    let free: Vec<&str> = fitted.method.together.iter().map(String::as_str).collect();
    let kernel = Pipeline::new(&made, &counts, 1, &free);
    let (file, runs, _) = analyse(&made, &kernel);
    assert_eq!(runs, [1, 1], "they need no counters");
    let found = shares(&file);
    assert!((found["backend.memory"] - memory).abs() < 1e-6, "{found:?}");
    assert!((found["retiring.light"] - 0.9 * SOME.retiring).abs() < 1e-6, "{found:?}");
    let leaders = kernel.open.lock().unwrap();
    let pinned = |one: &&Opened| one.attr.flags.contains(AttrFlags::PINNED);
    assert!(leaders.values().filter(pinned).all(|one| one.leader.is_none()));
}
