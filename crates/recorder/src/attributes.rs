//! From events and options to the attributes that are opened.

use pmuscope_abi::{
    Attr, AttrFlags, BranchSampleType, ReadFormat, SampleType, event_type, software,
};
use pmuscope_counters::EventRequest;
use pmuscope_events::{Event, Group, Origin, Sampling as EventSampling};
use pmuscope_perfdata::strobe::StrobeGroup;

use pmuscope_machine::Target;

use crate::error::RecorderError;
use crate::options::{CallGraph, RecordOptions, Sampling, StrobeOptions};
use crate::strobe::StrobePlan;

/// Name of the event that carries the sideband where the sampling events cannot.
pub const SIDEBAND: &str = "dummy:u";

/// Identification that every record carries, the same for all events so that readers find it:
/// 48 bytes per sample together with the header and the instruction pointer.
const IDENTIFICATION: SampleType =
    SampleType::IDENTIFIER.union(SampleType::TID).union(SampleType::TIME).union(SampleType::CPU);

/// What groups with `:S` leave out on older kernels.
pub(crate) const LEFT_TO_FIRST: &str = "groups with :S do not sample children and new threads: \
    before Linux 6.12 they cannot inherit such groups. Try: -a, or events without :S";

/// What the kernel can do, by its version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelFeatures {
    version: (u32, u32),
    /// Loss is not asked for.
    no_loss: bool,
}

impl KernelFeatures {
    pub(crate) const fn new(version: (u32, u32)) -> Self {
        Self { version, no_loss: false }
    }

    /// The same, where loss is not to be part of every sample: LOST records tell it.
    pub(crate) fn without_loss(self) -> Self {
        Self { no_loss: true, ..self }
    }

    /// `PERF_FORMAT_LOST`, Linux 6.0.
    pub(crate) fn counts_lost(self) -> bool {
        self.version >= (6, 0) && !self.no_loss
    }

    /// `attr.build_id`, Linux 5.12.
    pub(crate) fn gives_build_ids(self) -> bool {
        self.version >= (5, 12)
    }

    /// Counts of a group in samples of inherited events, Linux 6.12; older kernels answer EINVAL.
    pub(crate) fn inherits_reads(self) -> bool {
        self.version >= (6, 12)
    }

    /// The oldest kernel we record on.
    pub(crate) fn is_supported(self) -> bool {
        self.version >= (5, 10)
    }
}

/// The requests for a recording, in the order in which the file lists them.
///
/// Where the target already runs (CPUs, processes, threads, cgroups), the first request is a software
/// dummy that is on from the start: it reports mappings and tasks while existing ones are being named,
/// before sampling begins. A command of our own has nothing to report before its exec, so there the
/// first sampling event carries the sideband itself, which saves a descriptor per CPU; not in a flight
/// recorder, whose samples must not overwrite it, nor where sampling begins after the exec.
///
/// # Errors
/// [`RecorderError::Options`] for settings that no kernel takes together.
pub(crate) fn requests(
    options: &RecordOptions,
    kernel: KernelFeatures,
) -> Result<Vec<EventRequest>, RecorderError> {
    let own_command = options.target == Target::Command;
    let mut requests = Vec::new();
    // What is not inherited says nothing of children, whom events of other groups may follow.
    let first_stays = options.groups.len() > 1 && is_left_to_first(options, kernel);
    if !own_command || options.overwrite || options.delay_ms.is_some() || first_stays {
        requests.push(sideband_request(options, kernel));
    }
    for group in &options.groups {
        let leader_index = requests.len();
        for (member, event) in group.events.iter().enumerate() {
            let leader = (member > 0).then_some(leader_index);
            let mut attr = sampling_attr(options, kernel, group, event, member)?;
            if leader.is_none() {
                attr.flags |= AttrFlags::DISABLED;
                attr.flags
                    .set(AttrFlags::ENABLE_ON_EXEC, own_command && options.delay_ms.is_none());
            }
            if requests.is_empty() {
                attr = sideband(options, kernel, attr);
            }
            let (name, cpus) = (event.name.clone(), event.cpus.clone());
            let max_precise = event.max_precise;
            requests.push(EventRequest { name, attr, leader, cpus, any_task: false, max_precise });
        }
    }
    for event in &options.of_all {
        requests.push(of_all(options, kernel, event)?);
    }
    Ok(requests)
}

/// Whether groups with `:S` sample only the threads that they are opened for, since this kernel does not
/// let children inherit them: perf leaves children out there too.
pub(crate) fn is_left_to_first(options: &RecordOptions, kernel: KernelFeatures) -> bool {
    let inherits = base(options, kernel).flags.contains(AttrFlags::INHERIT);
    let is_led = |group: &Group| {
        group.leader_sampling && group.events.iter().any(|event| event.inherit != Some(false))
    };
    inherits && !kernel.inherits_reads() && options.groups.iter().any(is_led)
}

/// An event of the whole machine. No exec of a command of ours starts it, so there it is on from the
/// beginning.
fn of_all(
    options: &RecordOptions,
    kernel: KernelFeatures,
    event: &Event,
) -> Result<EventRequest, RecorderError> {
    let events = vec![event.clone()];
    let group = Group { name: None, events, leader_sampling: false, weak: false, braces: false };
    let mut attr = sampling_attr(options, kernel, &group, event, 0)?;
    attr.flags.remove(AttrFlags::INHERIT);
    attr.flags.set(AttrFlags::DISABLED, options.target != Target::Command);
    let (name, cpus) = (event.name.clone(), event.cpus.clone());
    let max_precise = event.max_precise;
    Ok(EventRequest { name, attr, leader: None, cpus, any_task: true, max_precise })
}

/// The requests of a strobed recording, and which of them bound windows or are counted in them.
pub(crate) fn strobed(
    options: &RecordOptions,
    kernel: KernelFeatures,
    strobe: &StrobeOptions,
    plan: &StrobePlan,
) -> Result<(Vec<EventRequest>, Vec<StrobeGroup>), RecorderError> {
    let mut requests = vec![sideband_request(options, kernel)];
    let Some(window) = options.events().next() else { return Ok((requests, Vec::new())) };
    let groups = plan.add_to(&mut requests, &base(options, kernel), window, strobe.burst);
    for edge in requests.iter_mut().filter(|request| request.attr.sample > 0) {
        set_call_graph(&mut edge.attr, window, options)?;
    }
    Ok((requests, groups))
}

fn sideband_request(options: &RecordOptions, kernel: KernelFeatures) -> EventRequest {
    let mut attr = sideband(options, kernel, base(options, kernel));
    // Of a flight recorder too: what is mapped where must outlive the samples that are overwritten.
    attr.flags.remove(AttrFlags::WRITE_BACKWARD);
    EventRequest {
        name: SIDEBAND.into(),
        attr,
        leader: None,
        cpus: None,
        any_task: options.target.is_of_cpus(),
        max_precise: false,
    }
}

/// What all events of a recording share.
fn base(options: &RecordOptions, kernel: KernelFeatures) -> Attr {
    let mut flags = AttrFlags::SAMPLE_ID_ALL | AttrFlags::WATERMARK | AttrFlags::USE_CLOCKID;
    flags.set(AttrFlags::WRITE_BACKWARD, options.overwrite);
    flags.set(
        AttrFlags::INHERIT,
        !options.target.is_of_cpus() && options.inherit && !options.per_thread,
    );
    let mut read_format =
        ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::ID;
    read_format.set(ReadFormat::LOST, kernel.counts_lost());
    Attr {
        event_type: event_type::SOFTWARE,
        config: software::DUMMY,
        sample_type: IDENTIFICATION | SampleType::IP | options.extras.fields,
        read_format,
        flags,
        clockid: options.clockid,
        ..Attr::default()
    }
}

/// Adds the records that say who runs what and where it is mapped.
fn sideband(options: &RecordOptions, kernel: KernelFeatures, mut attr: Attr) -> Attr {
    let mut flags = attr.flags
        | AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK;
    let wide = options.target.is_of_cpus();
    flags.set(AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT, wide);
    flags.set(AttrFlags::MMAP_DATA, options.wants_data_mappings());
    flags.set(AttrFlags::BUILD_ID, options.build_ids && kernel.gives_build_ids());
    if attr.config == software::DUMMY && attr.event_type == event_type::SOFTWARE {
        // It counts nothing; without kernel mode it needs no right to kernel samples.
        flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    attr.flags = flags;
    attr
}

fn sampling_attr(
    options: &RecordOptions,
    kernel: KernelFeatures,
    group: &Group,
    event: &Event,
    member: usize,
) -> Result<Attr, RecorderError> {
    let shared = base(options, kernel);
    let mut attr = Attr {
        sample_type: shared.sample_type,
        read_format: shared.read_format,
        clockid: shared.clockid,
        flags: event.attr.flags | shared.flags,
        ..event.attr.clone()
    };
    if event.inherit == Some(false) {
        attr.flags.remove(AttrFlags::INHERIT);
    }
    if event.origin == Origin::Tracepoint {
        attr.sample_type |= SampleType::RAW;
    }
    if group.leader_sampling {
        attr.sample_type |= SampleType::READ;
        if !kernel.inherits_reads() {
            attr.flags.remove(AttrFlags::INHERIT);
        }
        attr.read_format |= ReadFormat::GROUP;
        if member > 0 {
            attr.flags.remove(AttrFlags::WATERMARK);
            return Ok(attr); // counts, and is read with the leader's samples
        }
    }
    set_rate(&mut attr, event, options.sampling);
    set_call_graph(&mut attr, event, options)?;
    let branches = event.branch_type.or(options.extras.branches);
    if let Some(branches) = branches {
        if attr.branch_sample_type.contains(BranchSampleType::CALL_STACK) {
            return Err(RecorderError::Options(
                "--call-graph lbr with -b or -j: the CPU records calls or branches, not both. Try: \
                 --call-graph fp or dwarf with -b"
                    .into(),
            ));
        }
        attr.sample_type |= SampleType::BRANCH_STACK;
        attr.branch_sample_type |= branches;
    }
    Ok(attr)
}

/// A software clock's frequency is a period: its timer has no other rate, and a fixed period needs no
/// PERIOD field. Rare events (tracepoints, breakpoints) are all sampled unless the event says otherwise.
fn set_rate(attr: &mut Attr, event: &Event, default: Sampling) {
    let rate = match event.sampling {
        Some(EventSampling::Period(period)) => Sampling::Period(period),
        Some(EventSampling::Frequency(hz)) => Sampling::Frequency(hz),
        None if event.origin.samples_each() => Sampling::Period(1),
        None => default,
    };
    match rate {
        Sampling::Period(period) => attr.sample = period.max(1),
        Sampling::Frequency(hz) if event.origin == Origin::SoftwareClock => {
            attr.sample = (1_000_000_000 / hz.max(1)).max(1);
        }
        Sampling::Frequency(hz) => {
            attr.sample = hz;
            attr.flags |= AttrFlags::FREQ;
            attr.sample_type |= SampleType::PERIOD;
        }
    }
}

fn set_call_graph(
    attr: &mut Attr,
    event: &Event,
    options: &RecordOptions,
) -> Result<(), RecorderError> {
    match options.call_graph_of(event) {
        CallGraph::None => return Ok(()),
        CallGraph::FramePointer { depth } => attr.sample_max_stack = depth,
        CallGraph::Dwarf { stack_bytes } => {
            if stack_bytes % 8 != 0 || stack_bytes == 0 || stack_bytes > 65_528 {
                return Err(RecorderError::Options(format!(
                    "--call-graph dwarf,{stack_bytes}: the size must be a multiple of 8 from 8 to \
                     65528"
                )));
            }
            attr.sample_type |= SampleType::REGS_USER | SampleType::STACK_USER;
            attr.sample_stack_user = stack_bytes;
            attr.sample_regs_user = user_registers();
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_USER;
        }
        CallGraph::Lbr => {
            attr.sample_type |= SampleType::BRANCH_STACK;
            attr.branch_sample_type = BranchSampleType::USER
                | BranchSampleType::CALL_STACK
                | BranchSampleType::NO_CYCLES
                | BranchSampleType::NO_FLAGS
                | BranchSampleType::HW_INDEX;
        }
    }
    attr.sample_type |= SampleType::CALLCHAIN;
    attr.flags.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, options.extras.user_callchains);
    Ok(())
}

/// The registers an unwinder needs: all general ones of the architecture's
/// `arch/*/include/uapi/asm/perf_regs.h`.
fn user_registers() -> u64 {
    if cfg!(target_arch = "aarch64") {
        (1 << 33) - 1 // x0 to x30, sp, pc
    } else {
        // ax to ss without ds, es, fs, gs, and r8 to r15.
        0xff_0fff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Extras;
    use pmuscope_events::Group;

    fn clock() -> Event {
        Event {
            name: "cpu-clock".into(),
            typed: "cpu-clock".into(),
            ..Event::new(
                "software",
                Attr { event_type: event_type::SOFTWARE, ..Attr::default() },
                Origin::SoftwareClock,
            )
        }
    }

    fn group(events: Vec<Event>) -> Group {
        Group { name: None, events, leader_sampling: false, weak: false, braces: false }
    }

    fn options(target: Target, groups: Vec<Group>) -> RecordOptions {
        let sampling = Sampling::Frequency(25_000);
        RecordOptions { sampling, ..RecordOptions::new(target, groups, "x".into()) }
    }

    const NEW: KernelFeatures = KernelFeatures::new((6, 18));

    /// Bytes of a sample with these fields, header included; only fixed ones.
    fn sample_bytes(fields: SampleType) -> u32 {
        8 + 8 * fields.bits().count_ones()
    }

    #[test]
    fn a_sample_has_48_bytes_at_a_fixed_period_and_56_at_a_frequency() {
        let hardware = Event { origin: Origin::Hardware, ..clock() };
        let options = options(Target::System, vec![group(vec![clock()]), group(vec![hardware])]);
        let requests = requests(&options, NEW).unwrap();
        let [_, clock, hardware] = requests.as_slice() else { panic!() };
        assert_eq!((sample_bytes(clock.attr.sample_type), clock.attr.sample), (48, 40_000));
        assert_eq!((sample_bytes(hardware.attr.sample_type), hardware.attr.sample), (56, 25_000));
        assert!(hardware.attr.flags.contains(AttrFlags::FREQ));
    }

    #[test]
    fn a_command_of_ours_needs_no_sideband_event() {
        let requests =
            requests(&options(Target::Command, vec![group(vec![clock()])]), NEW).unwrap();
        assert_eq!(requests.len(), 1);
        let flags = requests[0].attr.flags;
        assert!(flags.contains(AttrFlags::MMAP2 | AttrFlags::ENABLE_ON_EXEC | AttrFlags::INHERIT));
    }

    #[test]
    fn what_already_runs_has_a_sideband_that_is_on_at_once() {
        let requests = requests(&options(Target::System, vec![group(vec![clock()])]), NEW).unwrap();
        assert!(!requests[0].attr.flags.contains(AttrFlags::DISABLED));
        assert!(requests[0].any_task && requests[1].attr.flags.contains(AttrFlags::DISABLED));
        assert!(!requests[1].attr.flags.contains(AttrFlags::MMAP2));
    }

    #[test]
    fn an_event_of_the_whole_machine_waits_for_no_exec_and_for_whoever_enables_the_others() {
        let trace = || Event { origin: Origin::Tracepoint, ..clock() };
        for (target, disabled) in [(Target::Command, false), (Target::Processes(vec![1]), true)] {
            let mut options = options(target, vec![group(vec![clock()])]);
            options.of_all = vec![trace()];
            let requests = requests(&options, NEW).unwrap();
            let last = requests.last().unwrap();
            assert!(last.any_task && last.attr.sample_type.contains(SampleType::RAW));
            assert!(!last.attr.flags.intersects(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC));
            assert_eq!(last.attr.flags.contains(AttrFlags::DISABLED), disabled);
        }
    }

    #[test]
    fn identification_is_the_same_for_all_events() {
        let trace = Event { origin: Origin::Tracepoint, ..clock() };
        let options =
            options(Target::Cpus([0].into_iter().collect()), vec![group(vec![clock(), trace])]);
        for request in requests(&options, NEW).unwrap() {
            assert!(request.attr.sample_type.contains(IDENTIFICATION), "{}", request.name);
        }
    }

    #[test]
    fn older_kernels_are_not_asked_for_what_they_do_not_know() {
        let old = KernelFeatures::new((5, 10));
        let requests = requests(&options(Target::System, vec![group(vec![clock()])]), old).unwrap();
        assert!(requests.iter().all(|r| !r.attr.read_format.contains(ReadFormat::LOST)));
        assert!(requests.iter().all(|r| !r.attr.flags.contains(AttrFlags::BUILD_ID)));
    }

    #[test]
    fn groups_with_counts_in_samples_are_not_inherited_before_linux_6_12() {
        let led = || Group { leader_sampling: true, ..group(vec![clock(), clock()]) };
        let inherited = |groups: Vec<Group>, version| {
            let (options, kernel) =
                (options(Target::Command, groups), KernelFeatures::new(version));
            let requests = requests(&options, kernel).unwrap();
            let flags = requests.iter().map(|one| one.attr.flags.contains(AttrFlags::INHERIT));
            (flags.collect::<Vec<bool>>(), is_left_to_first(&options, kernel))
        };
        assert_eq!(inherited(vec![led()], (6, 12)), (vec![true, true], false));
        assert_eq!(inherited(vec![led()], (6, 11)), (vec![false, false], true));
        // Another group follows children: so does a sideband of its own, to name them.
        let both = inherited(vec![led(), group(vec![clock()])], (6, 1));
        assert_eq!(both, (vec![true, false, false, true], true));
        assert_eq!(inherited(vec![group(vec![clock()])], (6, 1)), (vec![true], false));
        let own = Group { events: vec![Event { inherit: Some(false), ..clock() }], ..led() };
        assert_eq!(inherited(vec![own], (6, 1)), (vec![false], false));
    }

    #[test]
    fn calls_and_branches_are_not_kept_together() {
        let all = || options(Target::System, vec![group(vec![clock()])]);
        let calls = RecordOptions { call_graph: CallGraph::Lbr, ..all() };
        let attr = requests(&calls, NEW).unwrap().pop().unwrap().attr;
        assert!(attr.sample_type.contains(SampleType::CALLCHAIN | SampleType::BRANCH_STACK));
        assert!(attr.branch_sample_type.contains(BranchSampleType::CALL_STACK));
        let extras = Extras { branches: Some(BranchSampleType::ANY), ..Extras::default() };
        let error = requests(&RecordOptions { extras, ..calls }, NEW).unwrap_err().to_string();
        assert!(error.contains("--call-graph lbr") && error.contains("-b"), "{error}");
    }

    #[test]
    fn only_the_leader_of_leader_sampling_samples() {
        let leading = Group { leader_sampling: true, ..group(vec![clock(), clock()]) };
        let requests = requests(&options(Target::Command, vec![leading]), NEW).unwrap();
        assert_eq!((requests[0].attr.sample, requests[1].attr.sample), (40_000, 0));
        assert!(requests[0].attr.sample_type.contains(SampleType::READ));
        assert_eq!(requests[1].leader, Some(0));
    }
}
