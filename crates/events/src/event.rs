//! What the text of `-e` becomes.

use pmuscope_abi::{Attr, BranchSampleType, event_type, hardware};
use pmuscope_machine::CpuSet;

use crate::lists::NotCountable;
use crate::schedule::Constraint;

/// Where the numbers of an event come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A counter of a core.
    Hardware,
    /// The kernel's timer: `cpu-clock`, `task-clock`. Samples time, not work.
    SoftwareClock,
    /// Counted by the kernel.
    Software,
    /// A tracepoint.
    Tracepoint,
    /// A debug register.
    Breakpoint,
    /// Any other unit: uncore, `msr`, `power`, …
    Pmu,
}

impl Origin {
    /// Samples are taken at every one of these unless a period is asked for: they are rare and each
    /// means something.
    #[must_use]
    pub fn samples_each(self) -> bool {
        matches!(self, Self::Tracepoint | Self::Breakpoint)
    }
}

/// How often an event samples, where its text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// One sample per so many events (nanoseconds for a software clock); at least 1.
    Period(u64),
    /// Samples per second and CPU; at least 1.
    Frequency(u64),
}

/// How an event takes call chains, where its text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraph {
    /// None, even if the recording has them.
    None,
    /// Frame pointers.
    FramePointer,
    /// A copy of the stack, unwound later by debug information.
    Dwarf,
    /// The CPU's branch records in call stack mode.
    Lbr,
}

/// One event as it is to be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Name to show and to write to a recording: as typed, or `name=`. Where one text becomes several
    /// events, the unit or tracepoint is part of it, so that names tell events apart.
    pub name: String,
    /// The text as typed; the same for all events that one text became.
    pub typed: String,
    /// Unit that counts: a name of `/sys/bus/event_source/devices`.
    pub pmu: String,
    /// What selects the event: `event_type`, `config*`, `bp_type`, `precise_ip` and the flags for
    /// modes, host and guest, pinned and exclusive. Everything about sampling is left zero.
    ///
    /// Guests are not counted unless `G` asks for them, as samples of a guest cannot be attributed
    /// from outside; events of a unit that is not a core's carry no exclusion that was not asked for,
    /// as many such units refuse them.
    pub attr: Attr,
    /// CPUs the event can be opened on, where not all: the cores of a hybrid part, or one CPU per part
    /// of the machine for an uncore unit.
    pub cpus: Option<CpuSet>,
    /// Where the numbers come from.
    pub origin: Origin,
    /// `period=` or `freq=`.
    pub sampling: Option<Sampling>,
    /// `call-graph=`.
    pub call_graph: Option<CallGraph>,
    /// `stack-size=`: bytes of user stack per sample.
    pub stack_size: Option<u32>,
    /// `max-stack=`: deepest call chain.
    pub max_stack: Option<u16>,
    /// `branch_type=`.
    pub branch_type: Option<BranchSampleType>,
    /// `time` and `time=0`: whether samples carry the time.
    pub time: Option<bool>,
    /// `inherit` and `no-inherit`: whether children get a copy.
    pub inherit: Option<bool>,
    /// `alt-period=`: the second of two periods that alternate.
    pub alternate_period: Option<u64>,
    /// `alt-period-jitter=`: random bits added to the second period, as a number of events.
    pub alternate_jitter: Option<u64>,
    /// `P`: as precise as the machine can; whoever opens lowers `precise_ip` from 3 until it opens.
    pub max_precise: bool,
    /// The count times this is in [`Event::unit`].
    pub scale: Option<f64>,
    /// `Joules`, `MiB`; `None` counts events.
    pub unit: Option<String>,
    /// What it needs to be counted, where an event list says so; see [`Event::needs`].
    pub constraint: Option<Constraint>,
    /// Why a count of it means nothing here, where an event list says so; it can be sampled.
    pub not_countable: Option<NotCountable>,
}

/// Events that are counted at the same time or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// `name{…}`.
    pub name: Option<String>,
    /// The first one leads. Never empty.
    pub events: Vec<Event>,
    /// `S`: only the leader samples, and each sample carries the counts of all.
    pub leader_sampling: bool,
    /// `W`: open the events one by one if they do not fit together.
    pub weak: bool,
    /// Whether it was written in braces. Without, it is one event that happens to be alone.
    pub braces: bool,
}

impl Event {
    /// An event that has no name yet, and about which nothing else is known.
    #[must_use]
    pub fn new(pmu: &str, attr: Attr, origin: Origin) -> Self {
        Self {
            name: String::new(),
            typed: String::new(),
            pmu: pmu.to_owned(),
            attr,
            cpus: None,
            origin,
            sampling: None,
            call_graph: None,
            stack_size: None,
            max_stack: None,
            branch_type: None,
            time: None,
            inherit: None,
            alternate_period: None,
            alternate_jitter: None,
            max_precise: false,
            scale: None,
            unit: None,
            constraint: None,
            not_countable: None,
        }
    }

    /// Whether it can be counted for a command, a process or a thread: units outside of cores do not know
    /// who uses them.
    #[must_use]
    pub fn knows_tasks(&self) -> bool {
        self.origin != Origin::Pmu || self.cpus.is_none()
    }

    /// What it needs to be counted, as far as is known: what an event list says; for generic events of
    /// a core any counter, and the fixed ones that vendors have for them (0 instructions, 1 cycles, 2
    /// reference cycles); else any counter.
    #[must_use]
    pub fn needs(&self) -> Constraint {
        if let Some(known) = &self.constraint {
            return known.clone();
        }
        let any = Constraint::any();
        let generic = self.attr.config & u64::from(u32::MAX);
        match (self.attr.event_type, generic) {
            (event_type::HARDWARE, hardware::INSTRUCTIONS) => any.or_fixed(0),
            (event_type::HARDWARE, hardware::CPU_CYCLES) => any.or_fixed(1),
            (event_type::HARDWARE, hardware::REF_CPU_CYCLES) => any.or_fixed(2),
            _ => any,
        }
    }
}
