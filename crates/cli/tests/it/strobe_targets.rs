//! Windows of every kind of target, of other events than cycles, in bursts, of groups that take turns, and
//! of a recorder that was killed: several recordings to a guest.

use pmuscope_perfdata::strobe::{Reason, StrobeInfo};
use serde_json::Value;

use crate::guest_script::{need_script, run_script, started};
use crate::harness::{Outcome, Scratch, need_perf, skip_unless};
use crate::recording::Recording;
use crate::strobe::{CYCLES, WINDOW, need_pmu_guest};
use crate::windows::Windows;

/// `$1` works in a cgroup of its own, `$2` and its second thread where all others are. Each recording
/// ends with a program that nobody asked for.
const TARGETS: &str = "\
write /sys/fs/cgroup/cgroup.subtree_control +pids
mkdir /sys/fs/cgroup/watched
& pmuscope workload function-mix --memory 1 --seconds 600
& pmuscope workload function-mix --memory 1 --seconds 600 --threads 2
write /sys/fs/cgroup/watched/cgroup.procs $1
copy /proc/$2/cgroup before
pmuscope record --strobe -G watched -o cgroup.data -- pmuscope workload stencil --threads 1 --seconds 1 --size 64
pmuscope record --strobe -p $1 -o alone.data -- pmuscope workload stencil --threads 1 --seconds 1 --size 64
pmuscope record --strobe -p $2 -o shared.data -- pmuscope workload stencil --threads 1 --seconds 1 --size 64
pmuscope record --strobe -t $2.1 -o thread.data -- pmuscope workload stencil --threads 1 --seconds 1 --size 64
pmuscope record --strobe -C 0 -o cpu.data -- pmuscope workload stencil --threads 1 --seconds 1 --size 64
write second $2.1
copy /proc/$2/cgroup after
";

/// Commands in cgroups made for them.
const EVENTS: &str = "\
pmuscope record --strobe=300,event=armv8_pmuv3/cpu_cycles/u -o raw.data -- pmuscope workload function-mix --memory 1 --seconds 1
pmuscope record --strobe=300,event=instructions:u -o flag.data -- pmuscope workload function-mix --memory 1 --seconds 1
pmuscope record -e {instructions/period=499700,alt-period=300,alt-period-jitter=1/,cycles}:uS -o words.data -- pmuscope workload function-mix --memory 1 --seconds 1
pmuscope record -a -e {cycles/period=499700,alt-period=300,alt-period-jitter=5/,instructions}:uS -o jitter.data -- pmuscope workload function-mix --memory 1 --processes 3 --seconds 1
pmuscope record --strobe=300,burst=4 --metrics CPI,stalls -o turns.data -- pmuscope workload function-mix --memory 1 --seconds 4
pmuscope record --strobe --metrics CPI,BM/KI -o refused.data -- pmuscope workload function-mix --memory 1 --seconds 1
& pmuscope record --strobe -o killed.data -- pmuscope workload function-mix --memory 1 --seconds 600
await killed.data 200000
kill $1
";

/// Shortest recordings have so many windows.
const FEWEST: u64 = 100;

/// A recording of a script: as the rules of the format have it, and as the program reads it.
struct Made {
    name: &'static str,
    recording: Recording,
    strobe: StrobeInfo,
    windows: Windows,
    metrics: Value,
}

impl Made {
    /// With windows of 300 that all have the offset of their epoch.
    #[track_caller]
    fn read(scratch: &Scratch, name: &'static str) -> Self {
        let recording = Recording::at(scratch.path(name));
        let info = recording.info();
        let strobe = info.strobe.clone().unwrap_or_else(|| panic!("{name}: no windows"));
        let windows = Windows::of(&recording);
        let wrong = (windows.wrong_offset, windows.outside, info.lost());
        assert_eq!(wrong, (0, 0, Some(0)), "{name}: {windows:?}");
        // Where each count can be had, the phase is not tried for the last one.
        let room = if strobe.granule == 1 { WINDOW / 100 } else { 0 };
        for epoch in &strobe.epochs {
            assert_eq!(epoch.offsets.len(), strobe.burst as usize, "{name}: {epoch:?}");
            for (offset, edge) in epoch.offsets.iter().zip(1..) {
                assert!(offset.abs_diff(edge * WINDOW) <= room, "{name}: {epoch:?}");
            }
        }
        let json = scratch.pmuscope(["metrics", "-i", name, "--attribution", "none", "--json"]);
        let metrics = serde_json::from_str(&json.exits(0).stdout).unwrap();
        Self { name, recording, strobe, windows, metrics }
    }

    /// Whose windows are all as long as asked, and kept but for switches.
    #[track_caller]
    fn of(scratch: &Scratch, name: &'static str) -> Self {
        let made = Self::read(scratch, name);
        let windows = &made.windows;
        let lengths: Vec<u64> = windows.lengths.keys().copied().collect();
        assert_eq!(lengths, [WINDOW], "{name}");
        let mut reasons = made.strobe.epochs.iter().map(|epoch| epoch.reason).skip(1);
        assert!(reasons.all(|reason| reason == Reason::Dither), "{name}: {:?}", made.strobe);
        assert!(windows.accepted > FEWEST, "{name}: {}", windows.accepted);
        assert!(windows.accepted * 100 >= windows.all() * 97, "{name}: {windows:?}");
        made.all_causes_are_named();
        made
    }

    fn number(&self, pointer: &str) -> u64 {
        let value = self.metrics.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("{}: {pointer} in {}", self.name, self.metrics))
    }

    /// What is not kept has a cause, and that is a switch, an epoch that begins or ends within a window, or
    /// code whose file is the guest's (the vdso).
    #[track_caller]
    fn all_causes_are_named(&self) {
        let rejected = self.metrics.pointer("/total/rejected").and_then(Value::as_object).unwrap();
        let of = |cause: &str| rejected[cause].as_u64().unwrap();
        let all: u64 = rejected.keys().map(|cause| of(cause)).sum();
        let (windows, kept) = (self.number("/total/windows"), self.number("/total/kept"));
        assert_eq!(windows - kept, all, "{}: {rejected:?}", self.name);
        let expected: u64 = ["context_switch", "no_start", "no_symbol"].map(of).iter().sum();
        assert_eq!(all, expected, "{}: {rejected:?}", self.name);
        assert!(of("no_start") <= self.strobe.epochs.len() as u64, "{}: {rejected:?}", self.name);
        assert!(kept * 100 >= windows * 97, "{}: {rejected:?} of {windows}", self.name);
    }

    /// Only windows of the tasks that `is_meant` count, and all of theirs do; the number of samples of
    /// others, which are told.
    #[track_caller]
    fn are_of(&self, is_meant: impl Fn(i32, i32) -> bool) -> u64 {
        let sum = |meant: bool| -> u64 {
            let of = |((pid, tid), _): &(&(i32, i32), &u64)| is_meant(*pid, *tid) == meant;
            self.windows.closed_by.iter().filter(of).map(|(_, windows)| windows).sum()
        };
        let (target, others) = (sum(true), sum(false));
        let by_us = (self.number("/total/windows"), self.number("/windows/of_other_tasks"));
        assert_eq!((target, others), by_us, "{}: {:?}", self.name, self.windows.closed_by);
        assert!(target > FEWEST, "{}: {target} windows of the target", self.name);
        others
    }

    /// Processes that have windows.
    fn processes(&self) -> usize {
        let mut pids: Vec<i32> = self.windows.closed_by.keys().map(|(pid, _)| *pid).collect();
        pids.dedup();
        pids.len()
    }
}

#[test]
fn windows_of_a_cgroup_a_process_a_thread_or_a_cpu_are_theirs() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let scratch = Scratch::new();
    let script = run_script(&scratch, TARGETS);
    script.exits(0);
    let text = |name| std::fs::read_to_string(scratch.path(name)).unwrap();
    let (alone, shared) = (started(&script, 1), started(&script, 2));
    let second: i32 = text("second").parse().unwrap();

    // Its member and, for the moments in which a phase is set, our helper below it.
    let made = Made::of(&scratch, "cgroup.data");
    assert_eq!(made.are_of(|_, _| true), 0);
    let of_others = |made: &Made| made.windows.opened() - made.windows.opened_by[&(alone, alone)];
    assert!(of_others(&made) <= made.strobe.epochs.len() as u64, "{:?}", made.windows);

    // The process has a cgroup for itself, to which the events are limited.
    let made = Made::of(&scratch, "alone.data");
    let scope = made.recording.info().scope;
    assert_eq!(scope, format!("process {alone}, cgroup /sys/fs/cgroup/watched"));
    assert!(made.are_of(|pid, _| pid == alone) <= made.strobe.epochs.len() as u64);

    // This one has not: all tasks are sampled, and nobody is moved.
    let made = Made::of(&scratch, "shared.data");
    assert_eq!(made.recording.info().scope, "system-wide");
    assert!(made.are_of(|pid, _| pid == shared) > FEWEST && made.processes() >= 3);
    assert_eq!(text("before"), text("after"));
    let made = Made::of(&scratch, "thread.data");
    assert!(second != shared && made.strobe.only_threads == [second as u32]);
    assert!(made.are_of(|_, tid| tid == second) > FEWEST);

    let made = Made::of(&scratch, "cpu.data");
    assert_eq!(made.are_of(|_, _| true), 0);
    assert!(made.processes() >= 3, "{:?}", made.windows.closed_by);
}

#[test]
fn windows_of_instructions_in_bursts_in_turns_and_of_a_killed_recorder() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let scratch = Scratch::new();
    let script = run_script(&scratch, EVENTS);
    script.exits(0);
    let made = Made::of(&scratch, "raw.data");
    assert_eq!(made.strobe.event, "armv8_pmuv3/cpu_cycles/u");
    for name in ["flag.data", "words.data"] {
        of_instructions(&Made::read(&scratch, name));
    }
    of_many_lengths(&scratch, &script);
    in_turns(&Made::of(&scratch, "turns.data"));
    // What the PMU does not count is refused by name.
    script.prints("exit 3: pmuscope record --strobe --metrics CPI,BM/KI");
    script.complains("--metrics: BM/KI cannot be had here: this PMU does not count branch-misses");
    assert!(!scratch.path("refused.data").exists());
    of_a_killed_recorder(&scratch);
}

/// The emulated PMU takes the interrupt of instructions one too early, and then not again before the next
/// exception: offsets are exact, lengths are not. Those that are off are not kept.
fn of_instructions(made: &Made) {
    assert!(made.strobe.event.starts_with("instructions"), "{:?}", made.strobe);
    assert_eq!(made.strobe.window, WINDOW);
    let all: u64 = made.windows.lengths.values().sum();
    let kept = made.number("/total/kept") + made.number("/total/rejected/no_symbol");
    assert_eq!(kept, all - made.windows.far, "{}: {:?}", made.name, made.windows);
    assert_eq!(made.are_of(|_, _| true), 0);
    let rejected = made.metrics.pointer("/total/rejected").and_then(Value::as_object).unwrap();
    let rejected: u64 = rejected.values().map(|of| of.as_u64().unwrap()).sum();
    assert_eq!(made.number("/total/windows"), made.number("/total/kept") + rejected);
    assert!(made.number("/total/rejected/wrong_length") > FEWEST, "{}", made.metrics);
}

/// The whole machine, with windows that each epoch draws anew.
fn of_many_lengths(scratch: &Scratch, script: &Outcome) {
    let recording = Recording::at(scratch.path("jitter.data"));
    let strobe = recording.info().strobe.unwrap();
    assert_eq!((strobe.window, strobe.period, strobe.jitter), (WINDOW, 500_000, 31));
    let offsets: Vec<u64> = strobe.epochs.iter().map(|epoch| epoch.offsets[0]).collect();
    let longest = (WINDOW + strobe.jitter).next_multiple_of(CYCLES);
    assert!(offsets.iter().all(|it| (WINDOW..=longest).contains(it)), "{offsets:?}");
    // Said as they are: of several epochs hardly all have one length, of eight that there may be.
    let (shortest, longest) = (offsets.iter().min().unwrap(), offsets.iter().max().unwrap());
    let range = format!("windows of {shortest} to {longest} ");
    assert!(shortest == longest || script.stderr.contains(&range), "{range}\n{script}");
    let windows = Windows::of(&recording);
    assert_eq!((windows.wrong_offset, windows.wrong_length, windows.outside), (0, 0, 0));
    assert!(windows.accepted > 4 * FEWEST, "{}", windows.accepted);
}

/// Bursts leave two counters to three events: each group has its turn more than once, and is counted then.
fn in_turns(made: &Made) {
    assert_eq!((made.strobe.burst, made.strobe.groups[0].edges.len()), (4, 5));
    assert_eq!(made.strobe.groups.len(), 2, "{:?}", made.strobe.groups);
    assert_eq!((made.number("/windows/burst"), made.number("/windows/length")), (4, WINDOW));
    let turns: Vec<u32> = made.strobe.epochs.iter().map(|epoch| epoch.group).collect();
    assert!(turns.iter().zip(0..).all(|(group, turn)| *group == turn % 2), "{turns:?}");
    assert!(turns.len() >= 4, "{turns:?}");
    // Four windows of each A sample.
    let (opened, closed) = (made.windows.opened(), made.windows.closed_by.values().sum::<u64>());
    let apart = (4 * opened).abs_diff(closed);
    assert!(apart <= 4 * turns.len() as u64, "{opened} opened, {closed} closed");
    let total = made.metrics["total"]["metrics"].as_array().unwrap();
    let cell = |name: &str| total.iter().find(|cell| cell["name"] == name).unwrap();
    let cpi = cell("CPI");
    assert_eq!(cpi["value"], CYCLES as f64, "{cpi}");
    // Of two groups, one has the event.
    let (windows, half) = (cpi["windows"].as_u64().unwrap(), made.number("/total/kept") / 2);
    assert!((half / 2..=half * 3 / 2).contains(&windows), "{windows} of two times {half}");
}

/// Its epochs are in the stream, and its windows can be read.
fn of_a_killed_recorder(scratch: &Scratch) {
    let outcome: Outcome =
        scratch.pmuscope(["metrics", "-i", "killed.data", "--attribution", "none", "--json"]);
    // Without an end the file may lack something, and this says so.
    outcome.exits(1);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let total = &json["total"];
    let number = |value: &Value| value.as_u64().unwrap();
    let (windows, kept) = (number(&total["windows"]), number(&total["kept"]));
    assert!(windows > FEWEST && kept * 100 >= windows * 97, "{total}");
    assert_eq!(number(&total["rejected"]["wrong_offset"]), 0, "{total}");
    assert_eq!(number(&total["rejected"]["wrong_length"]), 0, "{total}");
    if need_perf().is_none() {
        let by_perf = Recording::at(scratch.path("killed.data")).by_perf();
        assert!(by_perf.times.len() as u64 >= 2 * kept, "{}", by_perf.times.len());
    }
}
