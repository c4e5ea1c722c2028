//! The tables. Columns are added, never changed in meaning; a reader of a version reads all earlier ones.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::column::Timestamp;
use crate::table::{ColumnInfo, TableRow, table};

table! {
    /// Samples of one stack in one bin of time: sums, never shares, so that hosts add up exactly.
    SampleRow = "samples", sorted by service, event, stack_id, start, host;
    /// Start of the bin.
    start: Timestamp,
    /// Length of the bin, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot; kernel addresses compare only within one.
    boot: Option<Arc<str>>,
    /// What the process belongs to: a label, else the systemd unit, else the name of the process (of the thread in
    /// imported recordings), up to a slash.
    service: Arc<str>,
    /// Version of the service, by label.
    version: Option<Arc<str>>,
    /// Unit of systemd.
    unit: Option<Arc<str>>,
    /// Id of the container.
    container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pod: Option<Arc<str>>,
    /// Event that was sampled.
    event: Arc<str>,
    /// The stack, as in `frames` and `stacks`.
    stack_id: i64,
    /// Number of samples.
    samples: i64,
    /// What they stand for, in `weight_unit`.
    weight: i64,
    /// `us` (microseconds of a clock), `thousand` (thousands of the event), `one` (the event) or `sample`, where
    /// recordings do not say what a sample stands for.
    weight_unit: Arc<str>,
    /// Id of the import or delivery that brought the row.
    batch: i64,
}

table! {
    /// `samples` without stacks: sums of one service in one bin, for questions that are about no function.
    ServiceRow = "services", sorted by service, event, start, host;
    /// Start of the bin.
    start: Timestamp,
    /// Length of the bin, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// What the process belongs to, as in `samples`.
    service: Arc<str>,
    /// Version of the service, by label.
    version: Option<Arc<str>>,
    /// Unit of systemd.
    unit: Option<Arc<str>>,
    /// Id of the container.
    container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pod: Option<Arc<str>>,
    /// Event that was sampled.
    event: Arc<str>,
    /// Number of samples.
    samples: i64,
    /// What they stand for, in `weight_unit`.
    weight: i64,
    /// As in `samples`.
    weight_unit: Arc<str>,
    /// Id of the import or delivery that brought the row.
    batch: i64,
}

table! {
    /// A frame of a stack: a function, and for inlined functions one row each.
    FrameRow = "frames", sorted by stack_id, depth, inline_depth;
    /// The stack.
    stack_id: i64,
    /// 0 is where the sample was taken, 1 its caller, and so on.
    depth: i64,
    /// 0 is the function that holds the code; functions inlined there count up, the innermost last.
    inline_depth: i64,
    /// Build id of the module, hexadecimal.
    build_id: Option<Arc<str>>,
    /// Offset in the module's file, bytes; otherwise the address, where there is no function.
    address: Option<i64>,
    /// The function, demangled.
    function: Option<Arc<str>>,
    /// The module: path of the file, or a name in brackets.
    module: Arc<str>,
    /// Source file.
    file: Option<Arc<str>>,
    /// Source line.
    line: Option<i64>,
}

table! {
    /// A stack, once per file.
    StackRow = "stacks", sorted by stack_id;
    /// The stack: the first 8 bytes of its digest.
    stack_id: i64,
    /// 128 bits of BLAKE3 over build ids and offsets of its frames (names where there are no files), hexadecimal.
    digest: Arc<str>,
    /// Function where samples were taken, the innermost inlined one.
    leaf: Option<Arc<str>>,
    /// Module of that function.
    leaf_module: Arc<str>,
    /// Number of frames without inlined ones.
    depth: i64,
}

table! {
    /// What was counted in windows of one function: sums over the windows that count, by event, so that ratios of sums add up
    /// exactly over hosts.
    WindowSumRow = "windows", sorted by module, event_set, event, start, host;
    /// Start of the bin in which the recording began.
    start: Timestamp,
    /// Length of the bins in which windows were recorded, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// What all processes of the recording belong to, by label; missing without one.
    service: Option<Arc<str>>,
    /// Version of the service, by label.
    version: Option<Arc<str>>,
    /// The function in which windows end; missing where it has no name.
    function: Option<Arc<str>>,
    /// Its module.
    module: Arc<str>,
    /// Events that were counted in the same windows, in alphabetical order, with commas.
    event_set: Arc<str>,
    /// The event that this row is of: its name in metrics, such as `cycles`.
    event: Arc<str>,
    /// Windows that count; the same for all events of a set.
    windows: i64,
    /// Of the event, in these windows.
    count: i64,
    /// The same for all windows that end in the function, if they were like those that count. Shares of all functions are of
    /// this, as short functions have fewer windows that count.
    count_of_all: i64,
    /// Windows of the function, of all sets, that passed all tests but the last: the same in all its rows.
    tested: i64,
    /// Of them, those with the same function at both ends.
    same_at_both_ends: i64,
    /// Id of the import or delivery that brought the row.
    batch: i64,
}

table! {
    /// What was recorded of a host in one bin, also where nothing ran: the denominator of all shares, and what was
    /// lost.
    IntervalRow = "intervals", sorted by host, start, event;
    /// Start of the bin.
    start: Timestamp,
    /// Length of the bin, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// Event.
    event: Arc<str>,
    /// CPUs that were online.
    cpus: Option<i64>,
    /// Microseconds of the bin in which the event was enabled.
    recorded_us: i64,
    /// Samples of all services.
    samples: i64,
    /// Samples lost; missing where nobody counted.
    lost: Option<i64>,
    /// Times that the kernel suspended sampling.
    throttled: i64,
    /// CPU time of the recorder itself, microseconds; missing where it is not known.
    own_cpu_us: Option<i64>,
    /// The program that recorded, and its version.
    recorder: Option<Arc<str>>,
    /// Id of the import or delivery.
    batch: i64,
}

table! {
    /// Waits of the threads of one process: how long they were off the CPU, for what, by length, so that hosts add up
    /// exactly. Their stacks are in `samples`, by the events `off-cpu:…`.
    WaitRow = "waits", sorted by service, state, start, host;
    /// Start of the bin in which the recording of waits began.
    start: Timestamp,
    /// Length of the bins in which waits were recorded, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// What the process belongs to, as in `samples`.
    service: Arc<str>,
    /// Version of the service, by label.
    version: Option<Arc<str>>,
    /// Unit of systemd.
    unit: Option<Arc<str>>,
    /// Id of the container.
    container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pod: Option<Arc<str>>,
    /// `blocked` (until it ran again), `preempted`, `new` (created, not yet run) or `unknown` (began before the
    /// recording).
    state: Arc<str>,
    /// Function of the kernel that waits, such as `futex_do_wait`; missing where none waits or it has no name.
    wait: Option<Arc<str>>,
    /// Innermost function of the program; missing where it has no name or there is none.
    function: Option<Arc<str>>,
    /// Module of that function.
    module: Option<Arc<str>>,
    /// Length of these waits: a power of two in nanoseconds, up to the next one; 0 below 1,024. Missing for waits that
    /// began before the recording or were going on at its end.
    length_ns: Option<i64>,
    /// Number of waits.
    waits: i64,
    /// Time off the CPU within the recording, microseconds.
    time_us: i64,
    /// Of it, time on a run queue: from the wakeup until the thread ran. Of waits without a recorded wakeup it is not known,
    /// and not in it.
    queued_us: i64,
    /// Id of the import or delivery that brought the row.
    batch: i64,
}

table! {
    /// Events of the processes of one service, counted by the kernel for some seconds: sums, so that ratios of sums add up
    /// exactly over hosts.
    CountRow = "counts", sorted by service, event_set, event, start, host;
    /// Start of the bin in which counting began.
    start: Timestamp,
    /// Length of the bins in which was counted, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// What the processes of the cgroup belong to, as in `samples`.
    service: Arc<str>,
    /// Version of the service, as in `samples`.
    version: Option<Arc<str>>,
    /// Unit of systemd.
    unit: Option<Arc<str>>,
    /// Id of the container.
    container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pod: Option<Arc<str>>,
    /// Events that were counted at the same time, in alphabetical order, with commas.
    event_set: Arc<str>,
    /// The event: its name in metrics, such as `cycles`.
    event: Arc<str>,
    /// Cgroups of the service that were counted, each time anew.
    cgroups: i64,
    /// Of the event, while it was on a counter.
    count: i64,
    /// CPU time of the cgroups while the event was on a counter, microseconds.
    cpu_us: i64,
    /// CPU time of the cgroups in all of the measurement, microseconds: more than `cpu_us` where events were multiplexed.
    all_cpu_us: i64,
    /// Id of the delivery that brought the row.
    batch: i64,
}

table! {
    /// Memory of the processes of one service on one NUMA node, and how long they ran there.
    LocalityRow = "locality", sorted by service, host, start, node;
    /// Start of the bin in which processes were observed.
    start: Timestamp,
    /// Length of the bins in which they were, microseconds.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// What the processes belong to, as in `samples`.
    service: Arc<str>,
    /// Version of the service, as in `samples`.
    version: Option<Arc<str>>,
    /// Unit of systemd.
    unit: Option<Arc<str>>,
    /// Id of the container.
    container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pod: Option<Arc<str>>,
    /// Number of the node.
    node: i64,
    /// How often the processes of the service were observed.
    observations: i64,
    /// Processes that were observed and ran, wherever: the same on all nodes.
    processes: i64,
    /// CPU time of their threads on this node, microseconds.
    cpu_us: i64,
    /// Their writable memory on this node, bytes, estimated from pages drawn at random.
    memory_bytes: i64,
    /// The part of `memory_bytes` that is local on average: times the share of its process's CPU time on this node.
    local_bytes: i64,
    /// Memory on this node of processes that were observed and did not run, bytes.
    idle_bytes: i64,
    /// Id of the delivery that brought the row.
    batch: i64,
}

table! {
    /// A host, once per boot and file.
    HostRow = "hosts", sorted by host, seen;
    /// When this was true.
    seen: Timestamp,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// Release of the kernel.
    kernel: Option<Arc<str>>,
    /// Machine name, as `uname -m` has it.
    arch: Option<Arc<str>>,
    /// CPU model.
    cpu_model: Option<Arc<str>>,
    /// CPUs that were online.
    cpus: Option<i64>,
    /// NUMA nodes.
    nodes: Option<i64>,
    /// Emulator, where the machine is emulated: its times and counts are the emulator's.
    emulator: Option<Arc<str>>,
    /// Labels of the host in the order of their names, as in `;region=eu;team=payments;`; missing without any.
    labels: Option<Arc<str>>,
}

table! {
    /// What an agent did in one bin: its own cost, and what it dropped.
    AgentRow = "agent", sorted by host, start;
    /// Start of the bin.
    start: Timestamp,
    /// Length of the bin, microseconds; of merged rows the sum of their bins.
    bin_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot.
    boot: Option<Arc<str>>,
    /// The program, and its version.
    agent: Arc<str>,
    /// CPU time that the agent used, microseconds.
    cpu_us: i64,
    /// Memory of the agent that is not shared, bytes; missing where the kernel does not say.
    rss_bytes: Option<i64>,
    /// Samples of processes that ended before anybody asked what they belong to.
    unidentified_samples: i64,
    /// Samples of earlier bins that were dropped because the spool was full, since the row before.
    dropped_samples: i64,
    /// Files that waited for delivery when the row was made.
    waiting_files: i64,
    /// Samples per second and CPU that were asked for: fewer than configured where that kept the budget.
    frequency_hz: Option<i64>,
    /// Samples that receivers of OTLP or pprof did not take; files have them all the same.
    unpushed_samples: Option<i64>,
    /// Largest memory of a process that recorded waits and ended in this bin, bytes; missing where none did.
    off_cpu_rss_bytes: Option<i64>,
    /// Largest memory of a process that measured anything (waits, windows, counts, locality) and ended in this bin, bytes;
    /// missing where none did.
    measurement_rss_bytes: Option<i64>,
    /// Id of the delivery.
    batch: i64,
}

table! {
    /// A run of a benchmark, or of a command that was counted: one row each, from run files (`pmuscope/runs/1`). Its
    /// values are in `run_values`, by `batch` and `run`.
    RunRow = "runs", sorted by benchmark, host, start;
    /// Start of the run.
    start: Timestamp,
    /// How long it took, microseconds.
    duration_us: i64,
    /// Host name.
    host: Arc<str>,
    /// Id of the boot; missing where the run file does not have it.
    boot: Option<Arc<str>>,
    /// What ran, by label; missing without one.
    service: Option<Arc<str>>,
    /// Version of what ran, by label.
    version: Option<Arc<str>>,
    /// What was run: a name that was given at import, else `bench NAME`, else the program, without its folder and
    /// arguments.
    benchmark: Arc<str>,
    /// Hash of the command line, of all commands where several were compared: runs with equal ones did the same.
    command_id: i64,
    /// Arm: which of several commands or settings that were compared; missing where there was one.
    arm: Option<Arc<str>>,
    /// Number of the run in its file.
    run: i64,
    /// Runs of one round were made one after the other and can be paired; missing where there are no rounds.
    round_number: Option<i64>,
    /// What else distinguishes the run, in the order of names, as in `;group=2;threads=4;`; missing where nothing does.
    settings: Option<Arc<str>>,
    /// Whether its values count: it did what it was to do, or it is the only one of its file.
    usable: bool,
    /// Exit status, 128 + n after signal n; missing where the program was ended as planned, or only observed.
    exit_status: Option<i64>,
    /// Why the run is not usable.
    why: Option<Arc<str>>,
    /// Release of the kernel.
    kernel: Option<Arc<str>>,
    /// Machine name, as `uname -m` has it.
    arch: Option<Arc<str>>,
    /// CPU model.
    cpu_model: Option<Arc<str>>,
    /// Emulator, where the run was emulated: its times and counts are the emulator's.
    emulator: Option<Arc<str>>,
    /// The program that measured, and its version.
    tool: Arc<str>,
    /// Id of the import.
    batch: i64,
}

table! {
    /// A value of a run: a count, a time, or what the program reported; as it was measured, not divided by anything.
    RunValueRow = "run_values", sorted by name, host, start, run;
    /// Start of the run.
    start: Timestamp,
    /// Host name.
    host: Arc<str>,
    /// As in `runs`.
    service: Option<Arc<str>>,
    /// As in `runs`.
    version: Option<Arc<str>>,
    /// Number of the run in its file.
    run: i64,
    /// What was measured: an event, a metric such as `wall`, or a unit of work.
    name: Arc<str>,
    /// The part of the machine or the settings that the value is of, as in `;cpu=0;`; missing where it is of the whole run.
    part: Option<Arc<str>>,
    /// The value, in `value_unit`; scaled where the event was multiplexed; missing where it was not measured.
    value: Option<f64>,
    /// `s`, `ms`, `B` and so on; empty for a count.
    value_unit: Arc<str>,
    /// Where it comes from: `work` (units of work that the run did), or as in run files: `hardware`, `software`,
    /// `emulated`, `clock`, `kernel`, `program`, `recording`, `derived`, `estimate`, `other`.
    origin: Arc<str>,
    /// Lower limit, where there is no value: what was timed did not happen while it was observed.
    above: Option<f64>,
    /// Half of the value's own 95% CI, where it is an estimate within its run.
    half: Option<f64>,
    /// Of a counter: the sum of what its descriptors read, neither scaled nor in the unit of the value.
    count: Option<i64>,
    /// Of a counter: time that it was enabled, microseconds.
    enabled_us: Option<i64>,
    /// Of a counter: time that it counted, microseconds.
    running_us: Option<i64>,
    /// Why there is no value.
    why: Option<Arc<str>>,
    /// Id of the import.
    batch: i64,
}

/// What is known of a table without a row of it.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Its name.
    pub name: &'static str,
    /// What a row stands for.
    pub about: &'static str,
    /// What its files are sorted by.
    pub sorted_by: &'static [&'static str],
    /// Its columns.
    pub columns: fn() -> Vec<ColumnInfo>,
    /// The schema of its files.
    pub schema: fn() -> SchemaRef,
}

pub(crate) const fn info<T: TableRow>() -> TableInfo {
    TableInfo {
        name: T::NAME,
        about: T::ABOUT,
        sorted_by: T::SORTED_BY,
        columns: T::columns,
        schema: T::schema,
    }
}

/// All tables.
pub const TABLES: [TableInfo; 13] = [
    info::<SampleRow>(),
    info::<ServiceRow>(),
    info::<FrameRow>(),
    info::<StackRow>(),
    info::<WaitRow>(),
    info::<WindowSumRow>(),
    info::<CountRow>(),
    info::<LocalityRow>(),
    info::<IntervalRow>(),
    info::<HostRow>(),
    info::<AgentRow>(),
    info::<RunRow>(),
    info::<RunValueRow>(),
];
