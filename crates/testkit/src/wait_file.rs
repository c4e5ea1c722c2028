//! Recordings of switches and wakings, as `pmuscope record --off-cpu` writes them, of threads whose time is
//! all known. It shares nothing with what reads them.

use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type, software};
use pmuscope_perfdata::info::{LostSource, MachineInfo, RecordingInfo, RingInfo};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

/// The clock at the start, nanoseconds.
pub const START: u64 = 5_000_000_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// Functions of the kernel: each has 256 bytes here.
const KERNEL: u64 = 0xffff_ffff_8100_0000;
/// Kernel functions that stacks are made of.
pub const FUNCTIONS: [&str; 10] = [
    "__schedule",
    "schedule",
    "schedule_timeout",
    "futex_do_wait",
    "pipe_read",
    "try_to_wake_up",
    "wake_up_q",
    "futex_wake",
    "hrtimer_wakeup",
    "wait_woken",
];
/// Behind these there is code without names: `"+16"` is 16 bytes into it.
const NAMELESS: u64 = KERNEL + (1 << 20);
/// What follows in a call chain is of the kernel (`PERF_CONTEXT_KERNEL`).
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const SWITCH_OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;
/// Process and thread of samples of a thread that is ending: -1.
const GONE: (u32, u32) = (u32::MAX, u32::MAX);

/// What happens, in the order of time: milliseconds from the start, process and thread, what.
pub type Step = (u64, (u32, u32), What);

/// An event of a thread.
#[derive(Debug, Clone)]
pub enum What {
    /// It leaves with this stack of the kernel, the innermost function first.
    Leaves(&'static [&'static str]),
    /// Context switch away from the thread.
    Out {
        /// Whether it was still runnable.
        preempted: bool,
    },
    /// Context switch to the thread.
    In,
    /// It wakes a thread, from these functions.
    Wakes {
        /// Thread that is woken.
        tid: u32,
        /// Whether an interrupt wakes it, not the thread itself.
        interrupt: bool,
        /// Kernel stack of the wakeup, the innermost function first.
        from: &'static [&'static str],
    },
    /// Creation of the thread.
    Begins,
    /// Exit of the thread.
    Ends,
    /// So many records were lost on the CPU of that thread until now.
    Lost(u64),
}

/// A recording in the making.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Events, in time order.
    pub steps: Vec<Step>,
    /// Process, thread, name.
    pub names: Vec<(u32, u32, &'static str)>,
    /// Length of the recording, seconds.
    pub seconds: f64,
    /// Whether wakeups are recorded.
    pub has_wakings: bool,
}

/// Form of the switches of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switches {
    /// Samples of context-switches, and records, as `pmuscope record --off-cpu` writes them.
    Samples,
    /// Samples of sched:sched_switch, and records, as `perf record -e sched:sched_switch --switch-events` writes them.
    Tracepoint,
    /// Samples of sched:sched_switch of all threads, as `perf sched record` writes them.
    TracepointAlone,
    /// The same of the recorded threads only: none says that a thread comes.
    TracepointOfThreads,
}

impl Switches {
    fn are_samples(self) -> bool {
        self == Self::Samples
    }

    fn have_records(self) -> bool {
        matches!(self, Self::Samples | Self::Tracepoint)
    }
}

impl Recording {
    /// Writes it to `path`.
    pub fn write(&self, path: &Path) {
        self.write_with(path, Some(self.info().to_json()), Switches::Samples);
    }

    /// Writes it to `path`, with switches in this form.
    pub fn write_in_form(&self, path: &Path, switches: Switches) {
        self.write_with(path, Some(self.info().to_json()), switches);
    }

    /// Writes it to `path` without what pmuscope says of its recordings: as perf's.
    pub fn write_as_others(&self, path: &Path) {
        self.write_with(path, None, Switches::Samples);
    }

    fn info(&self) -> RecordingInfo {
        let lost = self.steps.iter().map(|step| match step.2 {
            What::Lost(count) => count,
            _ => 0,
        });
        let lost: u64 = lost.sum();
        RecordingInfo {
            complete: true,
            scope: "process 100".into(),
            started_clock_ns: START,
            duration_s: self.seconds,
            lost_source: LostSource::ReadFormat,
            rings: vec![RingInfo { cpu: Some(0), lost: Some(lost), ..RingInfo::default() }],
            machine: MachineInfo { arch: "x86_64".into(), cpus: 2, ..MachineInfo::default() },
            ..RecordingInfo::default()
        }
    }

    fn write_with(&self, path: &Path, info: Option<Vec<u8>>, switches: Switches) {
        let mut data = Vec::new();
        for (name, number) in FUNCTIONS.iter().zip(0..) {
            let builder = RecordBuilder::new(&mut data, kind::KSYMBOL, 0);
            let builder = builder.u64(KERNEL + 256 * number).u32(256).u16(0).u16(0);
            id(builder.text(name), (0, 0), 0);
        }
        for (pid, tid, name) in &self.names {
            let builder = RecordBuilder::new(&mut data, kind::COMM, 0).u32(*pid).u32(*tid);
            id(builder.text(name), (*pid, *tid), 0);
        }
        for (at, (step_at, task, what)) in self.steps.iter().enumerate() {
            let time = START + step_at * MS;
            match what {
                What::Leaves(stack) if !switches.are_samples() => {
                    let next = self.steps.get(at + 1).map(|step| &step.2);
                    let preempted = matches!(next, Some(What::Out { preempted: true }));
                    let state = if preempted { 0x100 } else { 1 };
                    switch(&mut data, time, *task, stack, state, (*task, 0));
                }
                What::In if switches == Switches::TracepointAlone => {
                    switch(&mut data, time, (0, 0), &[], 0, (*task, task.1));
                }
                What::In | What::Out { .. } if !switches.have_records() => {}
                What::Ends if switches == Switches::TracepointAlone => {
                    record(&mut data, time, *task, what);
                    // On its way out it loses its CPU once more. By then samples have no numbers for it.
                    switch(&mut data, time, GONE, &[], 0x100, (*task, 0));
                    switch(&mut data, time, (0, 0), &[], 0, (*task, task.1));
                    switch(&mut data, time, GONE, &[], 0x10, (*task, 0));
                }
                what => record(&mut data, time, *task, what),
            }
        }
        let events = self.events(switches);
        let mut file = front(&events);
        let start = file.len() as u64;
        file.extend_from_slice(&data);
        let features = Features { info, arch: Some("x86_64".into()), ..Features::default() };
        let end = closing(&events, &features, start, data.len() as u64);
        file.extend_from_slice(&end.tail);
        file[..end.header.len()].copy_from_slice(&end.header);
        std::fs::write(path, file).unwrap();
    }

    fn events(&self, form: Switches) -> Vec<FileEvent> {
        let attr = Attr {
            sample: 1,
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::CALLCHAIN,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let switches = FileEvent {
            attr: Attr {
                event_type: event_type::SOFTWARE,
                config: software::CONTEXT_SWITCHES,
                flags: attr.flags | AttrFlags::CONTEXT_SWITCH,
                ..attr.clone()
            },
            name: "context-switches".into(),
            ids: vec![1],
        };
        let of_tracepoint = FileEvent {
            attr: Attr {
                event_type: event_type::TRACEPOINT,
                config: 372,
                sample_type: attr.sample_type | SampleType::RAW,
                flags: if form.have_records() { switches.attr.flags } else { attr.flags },
                ..attr.clone()
            },
            name: "sched:sched_switch".into(),
            ids: vec![1],
        };
        let switches = if form.are_samples() { switches } else { of_tracepoint };
        let wakings = FileEvent {
            attr: Attr {
                event_type: event_type::TRACEPOINT,
                config: 375,
                sample_type: attr.sample_type | SampleType::RAW,
                ..attr
            },
            name: "sched:sched_waking".into(),
            ids: vec![2],
        };
        if self.has_wakings { vec![switches, wakings] } else { vec![switches] }
    }
}

fn record(out: &mut Vec<u8>, time: u64, task: (u32, u32), what: &What) {
    let plain = |out, kind, bits| id(RecordBuilder::new(out, kind, bits), task, time);
    match what {
        What::Leaves(stack) => sample(out, 1, time, task, stack).finish(),
        What::Out { preempted } => {
            plain(out, kind::SWITCH, SWITCH_OUT | if *preempted { PREEMPTED } else { 0 });
        }
        What::In => plain(out, kind::SWITCH, 0),
        What::Wakes { tid, interrupt, from } => {
            let mut raw = [0_u8; 36];
            raw[2] = if *interrupt { 0x09 } else { 0x01 };
            raw[24..28].copy_from_slice(&tid.to_ne_bytes());
            sample(out, 2, time, task, from).u32(raw.len() as u32).bytes(&raw).finish();
        }
        What::Begins | What::Ends => {
            let is_begin = matches!(what, What::Begins);
            let kind = if is_begin { kind::FORK } else { kind::EXIT };
            let (pid, tid) = task;
            let builder = RecordBuilder::new(out, kind, 0).u32(pid).u32(pid).u32(tid).u32(pid);
            id(builder.u64(time), task, time);
        }
        What::Lost(count) => {
            id(RecordBuilder::new(out, kind::LOST, 0).u64(1).u64(*count), task, time);
        }
    }
}

/// A sample of sched:sched_switch: the thread that leaves with its state, on the CPU of a thread, and the thread that comes.
fn switch(
    out: &mut Vec<u8>,
    time: u64,
    left: (u32, u32),
    stack: &[&str],
    state: u64,
    (of_cpu, came): ((u32, u32), u32),
) {
    let mut raw = [0_u8; 68];
    let previous = if left == GONE { of_cpu.1 } else { left.1 };
    raw[24..28].copy_from_slice(&previous.to_ne_bytes());
    raw[32..40].copy_from_slice(&state.to_ne_bytes());
    raw[56..60].copy_from_slice(&came.to_ne_bytes());
    let sample = sample_on(out, 1, time, (left, of_cpu.1 & 1), stack);
    sample.u32(raw.len() as u32).bytes(&raw).finish();
}

fn sample<'a>(
    out: &'a mut Vec<u8>,
    event: u64,
    time: u64,
    task: (u32, u32),
    stack: &[&str],
) -> RecordBuilder<'a> {
    sample_on(out, event, time, (task, 0), stack)
}

fn sample_on<'a>(
    out: &'a mut Vec<u8>,
    event: u64,
    time: u64,
    ((pid, tid), cpu): ((u32, u32), u32),
    stack: &[&str],
) -> RecordBuilder<'a> {
    let address = |name: &&str| {
        if let Some(offset) = name.strip_prefix('+') {
            return NAMELESS + offset.parse::<u64>().unwrap();
        }
        let at = FUNCTIONS.iter().position(|one| one == name).unwrap();
        KERNEL + 256 * at as u64 + 0x10
    };
    let builder = RecordBuilder::new(out, kind::SAMPLE, misc::KERNEL)
        .u64(event)
        .u64(stack.first().map_or(0, address))
        .u32(pid)
        .u32(tid)
        .u64(time)
        .u64(cpu.into())
        .u64(1 + stack.len() as u64)
        .u64(CONTEXT_KERNEL);
    stack.iter().fold(builder, |builder, name| builder.u64(address(name)))
}

/// Who, when and as which event, behind a record that is no sample.
fn id(builder: RecordBuilder<'_>, (pid, tid): (u32, u32), time: u64) {
    builder.u32(pid).u32(tid).u64(time).u64(0).u64(1).finish();
}

/// The main thread: process ID, thread ID.
pub const MAIN: (u32, u32) = (100, 100);
/// The other thread: process ID, thread ID.
pub const OTHER: (u32, u32) = (100, 101);
/// Kernel stack of a wait for a futex.
pub const FUTEX: &[&str] = &["__schedule", "schedule", "schedule_timeout", "futex_do_wait"];
/// Kernel stack of a wait for a pipe.
pub const PIPE: &[&str] = &["__schedule", "schedule", "pipe_read"];

/// A wait of 20 ms that another thread ends after 15, one of 6 ms that an interrupt ends after 5; then its CPU is taken for
/// 5 ms, and the other thread waits to the end.
pub fn steps() -> Vec<Step> {
    let wakes = |interrupt, from| What::Wakes { tid: 100, interrupt, from };
    vec![
        (10, MAIN, What::Leaves(FUTEX)),
        (10, MAIN, What::Out { preempted: false }),
        (12, OTHER, What::In),
        (25, OTHER, wakes(false, &["try_to_wake_up", "wake_up_q", "futex_wake"])),
        (30, MAIN, What::In),
        (40, MAIN, What::Leaves(PIPE)),
        (40, MAIN, What::Out { preempted: false }),
        (45, OTHER, wakes(true, &["try_to_wake_up", "hrtimer_wakeup"])),
        (46, MAIN, What::In),
        (60, MAIN, What::Leaves(&["__schedule", "schedule"])),
        (60, MAIN, What::Out { preempted: true }),
        (65, MAIN, What::In),
        (70, OTHER, What::Leaves(FUTEX)),
        (70, OTHER, What::Out { preempted: false }),
    ]
}
