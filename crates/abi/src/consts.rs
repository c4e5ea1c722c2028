//! Numbers of the ABI that are not fields of a structure.

use bitflags::bitflags;

/// Size in bytes of `perf_event_attr` as first published; the smallest size a file may declare.
pub const ATTR_SIZE_VER0: usize = 64;
/// Size in bytes of `perf_event_attr` up to `config3` (Linux 6.3); the size we write where `config4` is not set.
pub const ATTR_SIZE_VER8: usize = 136;
/// Size in bytes of `perf_event_attr` up to `config4` (Linux 6.18).
pub const ATTR_SIZE_VER9: usize = 144;

bitflags! {
    /// `flags` of `perf_event_open(2)`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct OpenFlags: u64 {
        /// Ignore the group leader except for output redirection.
        const FD_NO_GROUP = 1;
        /// Redirect the output to the group leader's buffer.
        const FD_OUTPUT = 2;
        /// The `pid` argument is a file descriptor of a cgroup directory.
        const PID_CGROUP = 4;
        /// Close the descriptor on exec.
        const FD_CLOEXEC = 8;
    }
}

/// `attr.type`: which PMU counts. Dynamic PMUs have further numbers in sysfs.
pub mod event_type {
    /// Generic hardware events.
    pub const HARDWARE: u32 = 0;
    /// Events counted by the kernel itself.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoints; `config` is the id from tracefs.
    pub const TRACEPOINT: u32 = 2;
    /// Generic cache events.
    pub const HW_CACHE: u32 = 3;
    /// Raw events of the CPU's own PMU.
    pub const RAW: u32 = 4;
    /// Hardware breakpoints.
    pub const BREAKPOINT: u32 = 5;
}

/// Of events of [`event_type::BREAKPOINT`]: `attr.bp_type`, and `attr.bp_len` (in `config2`) of an instruction
/// (`include/uapi/linux/hw_breakpoint.h`).
pub mod breakpoint {
    /// `HW_BREAKPOINT_R`: stops at reads. x86 has it only together with [`WRITE`].
    pub const READ: u32 = 1;
    /// `HW_BREAKPOINT_W`: stops at writes.
    pub const WRITE: u32 = 2;
    /// `HW_BREAKPOINT_RW`: stops at both.
    pub const READ_WRITE: u32 = READ | WRITE;
    /// `HW_BREAKPOINT_X`: stops at an instruction; with none of the others.
    pub const EXECUTE: u32 = 4;
    /// The only length in bytes that the kernel takes for an instruction: 4 on Arm, a word elsewhere.
    pub const INSTRUCTION: u64 =
        if cfg!(target_arch = "aarch64") { 4 } else { size_of::<usize>() as u64 };
}

/// `attr.config` for [`event_type::HARDWARE`].
pub mod hardware {
    /// CPU cycles.
    pub const CPU_CYCLES: u64 = 0;
    /// Retired instructions.
    pub const INSTRUCTIONS: u64 = 1;
    /// Cache references (usually the last level).
    pub const CACHE_REFERENCES: u64 = 2;
    /// Cache misses (usually the last level).
    pub const CACHE_MISSES: u64 = 3;
    /// Retired branch instructions.
    pub const BRANCH_INSTRUCTIONS: u64 = 4;
    /// Mispredicted branches.
    pub const BRANCH_MISSES: u64 = 5;
    /// Bus cycles.
    pub const BUS_CYCLES: u64 = 6;
    /// Cycles stalled in the front end.
    pub const STALLED_CYCLES_FRONTEND: u64 = 7;
    /// Cycles stalled in the back end.
    pub const STALLED_CYCLES_BACKEND: u64 = 8;
    /// Cycles at the reference frequency.
    pub const REF_CPU_CYCLES: u64 = 9;
}

/// `attr.config` for [`event_type::SOFTWARE`].
pub mod software {
    /// Wall clock of a CPU, by a high resolution timer; period in nanoseconds.
    pub const CPU_CLOCK: u64 = 0;
    /// Time a task ran, in nanoseconds.
    pub const TASK_CLOCK: u64 = 1;
    /// Page faults.
    pub const PAGE_FAULTS: u64 = 2;
    /// Context switches.
    pub const CONTEXT_SWITCHES: u64 = 3;
    /// Migrations of a task to another CPU.
    pub const CPU_MIGRATIONS: u64 = 4;
    /// Page faults that needed no I/O.
    pub const PAGE_FAULTS_MIN: u64 = 5;
    /// Page faults that needed I/O.
    pub const PAGE_FAULTS_MAJ: u64 = 6;
    /// Alignment faults.
    pub const ALIGNMENT_FAULTS: u64 = 7;
    /// Emulated instructions.
    pub const EMULATION_FAULTS: u64 = 8;
    /// Counts nothing; carries the sideband records.
    pub const DUMMY: u64 = 9;
    /// Output of BPF programs.
    pub const BPF_OUTPUT: u64 = 10;
    /// Switches between cgroups.
    pub const CGROUP_SWITCHES: u64 = 11;
}

/// `ioctl(2)` requests on a perf event, complete request numbers as on x86-64, arm64 and riscv64.
pub mod ioctl {
    /// Start counting.
    pub const ENABLE: u32 = 0x2400;
    /// Stop counting.
    pub const DISABLE: u32 = 0x2401;
    /// Zero the count (not the phase).
    pub const RESET: u32 = 0x2403;
    /// Set the period (pointer to u64).
    pub const PERIOD: u32 = 0x4008_2404;
    /// Send records to another event's buffer (descriptor, or -1).
    pub const SET_OUTPUT: u32 = 0x2405;
    /// Set a tracepoint filter (C string).
    pub const SET_FILTER: u32 = 0x4008_2406;
    /// Run a BPF program at each overflow (descriptor).
    pub const SET_BPF: u32 = 0x4004_2408;
    /// Read the event's id (pointer to u64).
    pub const ID: u32 = 0x8008_2407;
    /// Pause (1) or resume (0) the output of the buffer.
    pub const PAUSE_OUTPUT: u32 = 0x4004_2409;
    /// Argument of ENABLE, DISABLE and RESET: the whole group.
    pub const FLAG_GROUP: u32 = 1;
}

/// Byte offsets in `perf_event_mmap_page`, the first page of a mapped ring buffer.
pub mod mmap_page {
    /// u32: changes whenever the kernel writes the fields below; odd while it does.
    pub const LOCK: usize = 8;
    /// u32: number of the hardware counter plus 1; 0 if the event is on none, or none that may be read.
    pub const INDEX: usize = 12;
    /// i64: what to add to the hardware counter.
    pub const OFFSET: usize = 16;
    /// u64: nanoseconds enabled, as of the last write.
    pub const TIME_ENABLED: usize = 24;
    /// u64: nanoseconds on a counter, as of the last write.
    pub const TIME_RUNNING: usize = 32;
    /// u64: bits of [`CAN_READ_COUNTER`], [`CAN_READ_TIME`], [`SHORT_TIME`].
    pub const CAPABILITIES: usize = 40;
    /// u16: bits of the hardware counter.
    pub const COUNTER_WIDTH: usize = 48;
    /// u16: see [`TIME_MULT`].
    pub const TIME_SHIFT: usize = 50;
    /// u32: nanoseconds since the last write are `TIME_OFFSET + (ticks * TIME_MULT >> TIME_SHIFT)`.
    pub const TIME_MULT: usize = 52;
    /// u64: see [`TIME_MULT`].
    pub const TIME_OFFSET: usize = 56;
    /// u64: where ticks stood, if the counter of ticks is narrower than 64 bits.
    pub const TIME_CYCLES: usize = 80;
    /// u64: bits of the counter of ticks that count.
    pub const TIME_MASK: usize = 88;
    /// Capability: the instruction that reads counters is allowed.
    pub const CAN_READ_COUNTER: u64 = 1 << 2;
    /// Capability: the fields for time mean something.
    pub const CAN_READ_TIME: u64 = 1 << 3;
    /// Capability: the counter of ticks wraps.
    pub const SHORT_TIME: u64 = 1 << 5;
    /// u64: bytes the kernel has written since the start; never wraps to the ring's size.
    pub const DATA_HEAD: usize = 1024;
    /// u64: bytes the reader has released.
    pub const DATA_TAIL: usize = 1032;
    /// u64: where the data area starts.
    pub const DATA_OFFSET: usize = 1040;
    /// u64: size of the data area in bytes.
    pub const DATA_SIZE: usize = 1048;
}
