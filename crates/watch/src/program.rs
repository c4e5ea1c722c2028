//! The program that runs in the kernel at each hit of a point.
//!
//! ```text
//!  hit ─► read the value ─► its past: old, sequence ─► is it wanted? ─► count its writer ─► every Nth? ─► ring
//!             │                   states                 --when          writers             shared
//!             └ unreadable: counted all the same, without a value
//! ```
//!
//! One program for each point: address, length and condition are in its instructions. They share the
//! maps of [`Memory`].

use pmuscope_bpf::{
    Alu, Assembler, BpfError, Compare, Helper, Label, Map, PerCpuScratch, Program, Register,
    RingBuffer, Width,
};
use pmuscope_perfdata::watch::{HitFlags, ValueKind};
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::condition::{Comparison, Condition, ConditionValue, Operator, is_signed};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// Processes and points whose past is remembered.
const STATES: u32 = 16_384;
/// Threads and instructions that are counted apart.
const WRITERS: u32 = 65_536;
/// Room for records that wait to be read: a fifth of a second of as many hits as one CPU can have.
const RING_BYTES: u32 = 16 << 20;

/// Bytes of addresses of the kernel and of a thread's own stack, each.
const STACK_BYTES: usize = 127 * 8;
/// Bytes of a record before the stacks.
pub(crate) const RECORD_HEAD: usize = 72;

/// Where `struct bpf_perf_event_data` has the instruction pointer: `regs.ip`, `regs.pc`.
#[cfg(target_arch = "x86_64")]
const CONTEXT_IP: Option<i16> = Some(16 * 8);
#[cfg(target_arch = "aarch64")]
const CONTEXT_IP: Option<i16> = Some(32 * 8);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CONTEXT_IP: Option<i16> = None;

/// Where it has the arguments that are passed in registers: rdi, rsi, rdx, rcx, r8, r9; x0 to x5.
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: [i16; 6] = [112, 104, 96, 88, 72, 64];
#[cfg(not(target_arch = "x86_64"))]
const ARGUMENTS: [i16; 6] = [0, 8, 16, 24, 32, 40];

/// Whether a data breakpoint traps after the access: then what is read at the hit is the new value.
pub(crate) const TRAPS_AFTER: bool = cfg!(target_arch = "x86_64");

/// Whether programs can be made for this architecture.
pub(crate) const IS_SUPPORTED: bool = CONTEXT_IP.is_some();

/// A point as its program needs it.
#[derive(Debug, Clone)]
pub(crate) struct ProgramPoint {
    /// Its number.
    pub(crate) point: u32,
    pub(crate) address: u64,
    /// Bytes of the value; `None` for an instruction.
    pub(crate) bytes: Option<u8>,
    /// Of an instruction, where a function begins: its argument of this number, from 1, is the value.
    pub(crate) argument: Option<u8>,
    /// An address of the kernel's.
    pub(crate) in_kernel: bool,
    /// Memory that processes share: the hit before may be another process'.
    pub(crate) is_shared: bool,
    pub(crate) kind: ValueKind,
    pub(crate) when: Option<Condition>,
    pub(crate) when_changed: bool,
    /// Write hits down at all.
    pub(crate) records: bool,
    /// Depth of call stacks; 0: none.
    pub(crate) depth: u16,
}

/// What programs and we share.
#[derive(Debug)]
pub(crate) struct Memory {
    /// By process and point: last value, the time armed in which it was found (0: never), hits.
    states: Map,
    /// By process, thread, instruction, point: counts.
    writers: Map,
    /// One of how many wanted hits is written down, and the number of the time that points are armed.
    control: Map,
    /// [`PointTotals`] of each point.
    shared: Map,
    /// Where records are made.
    scratch: PerCpuScratch,
    ring: Mutex<RingBuffer>,
    points: usize,
}

/// Counts of a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PointTotals {
    pub(crate) hits: u64,
    /// Hits that were wanted.
    pub(crate) passed: u64,
    /// Hits whose writer found no room in the table.
    pub(crate) unattributed: u64,
    /// Records that found no room in the ring.
    pub(crate) lost: u64,
}

/// A writer's counts, as [`pmuscope_perfdata::watch::WriterCount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) ip: u64,
    pub(crate) point: u32,
    pub(crate) in_kernel: bool,
    pub(crate) hits: u64,
    pub(crate) changed: u64,
    pub(crate) plus_one: u64,
    pub(crate) passed: u64,
}

/// The number of the first time that points are armed.
pub(crate) const FIRST_TIME: u64 = 1;
/// The only key of an array of one.
const FIRST: [u8; 4] = [0; 4];
const STATE_BYTES: usize = 24;
const WRITER_KEY: usize = 24;
const WRITER_BYTES: usize = 32;
const TOTALS_BYTES: u32 = 32;

impl Memory {
    pub(crate) fn new(points: usize) -> Result<Self, BpfError> {
        let memory = Self {
            states: Map::hash(8, STATE_BYTES, STATES)?,
            writers: Map::hash(WRITER_KEY, WRITER_BYTES, WRITERS)?,
            control: Map::array(16, 1)?,
            shared: Map::array(TOTALS_BYTES as usize * points, 1)?,
            scratch: PerCpuScratch::new(RECORD_HEAD + 2 * STACK_BYTES)?,
            ring: Mutex::new(RingBuffer::new(RING_BYTES)?),
            points,
        };
        memory.control(1, FIRST_TIME)?;
        Ok(memory)
    }

    /// The ring that records come through.
    pub(crate) fn ring(&self) -> MutexGuard<'_, RingBuffer> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of so many wanted hits is to be written down; and how often points have been armed, from
    /// [`FIRST_TIME`]. What was before a pause is not compared with what comes after.
    pub(crate) fn control(&self, every: u64, time: u64) -> Result<(), BpfError> {
        let mut words = [0; 16];
        words[..8].copy_from_slice(&every.to_ne_bytes());
        words[8..].copy_from_slice(&time.to_ne_bytes());
        self.control.set(&FIRST, &words)
    }

    /// Counts of each point.
    pub(crate) fn totals(&self) -> Result<Vec<PointTotals>, BpfError> {
        let mut bytes = vec![0; TOTALS_BYTES as usize * self.points];
        self.shared.get(&FIRST, &mut bytes)?;
        let of_point = |chunk: &[u8]| PointTotals {
            hits: word(chunk, 0),
            passed: word(chunk, 8),
            unattributed: word(chunk, 16),
            lost: word(chunk, 24),
        };
        Ok(bytes.chunks_exact(TOTALS_BYTES as usize).map(of_point).collect())
    }

    /// What a point has before its first hit.
    pub(crate) fn set_value(&self, process: u32, point: u32, value: u64) -> Result<(), BpfError> {
        let mut state = [0; STATE_BYTES];
        state[..8].copy_from_slice(&value.to_ne_bytes());
        state[8..16].copy_from_slice(&FIRST_TIME.to_ne_bytes());
        self.states.set(&state_key(process, point), &state)
    }

    /// All writers.
    pub(crate) fn writers(&self) -> Result<Vec<Writer>, BpfError> {
        let half = |bytes: &[u8], at: usize| (word(bytes, at & !7) >> (8 * (at & 7))) as u32;
        let writer = |(key, counts): (Vec<u8>, Vec<u8>)| Writer {
            pid: half(&key, 0),
            tid: half(&key, 4),
            ip: word(&key, 8),
            point: half(&key, 16),
            in_kernel: half(&key, 20) != 0,
            hits: word(&counts, 0),
            changed: word(&counts, 8),
            plus_one: word(&counts, 16),
            passed: word(&counts, 24),
        };
        Ok(self.writers.entries()?.into_iter().map(writer).collect())
    }
}

fn state_key(process: u32, point: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&process.to_ne_bytes());
    key[4..].copy_from_slice(&point.to_ne_bytes());
    key
}

/// 8 bytes of `bytes`; of fewer than that 0, which sizes of maps rule out.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Offsets in the frame.
mod frame {
    /// The value read.
    pub(super) const VALUE: i16 = -8;
    /// Key of the state.
    pub(super) const STATE_KEY: i16 = -16;
    /// Key of the writer: 24 bytes.
    pub(super) const WRITER_KEY: i16 = -40;
    /// Zeros, as many as a value has at most.
    pub(super) const ZEROS: i16 = -72;
    pub(super) const ID: i16 = -80;
    pub(super) const IP: i16 = -88;
    pub(super) const OLD: i16 = -96;
    pub(super) const FLAGS: i16 = -104;
    pub(super) const SEQUENCE: i16 = -112;
    pub(super) const PASSED: i16 = -120;
    pub(super) const SCRATCH_KEY: i16 = -128;
}

const NO_EXIST: i32 = 1;
/// `BPF_RB_NO_WAKEUP`: who reads the ring looks by time; a wake-up would be an interrupt at each hit.
const NO_WAKEUP: i32 = 1;
const USER_STACK: i32 = 1 << 8;

/// Assembles and loads the program of a point.
pub(crate) fn load(memory: &Memory, watched: &ProgramPoint) -> Result<Program, BpfError> {
    Program::load(assemble(memory, watched))
}

struct ProgramMaker<'a> {
    code: Assembler,
    memory: &'a Memory,
    watched: &'a ProgramPoint,
    end: Label,
}

fn assemble(memory: &Memory, watched: &ProgramPoint) -> Assembler {
    let mut code = Assembler::new();
    let end = code.label();
    let mut maker = ProgramMaker { code, memory, watched, end };
    maker.begin();
    maker.value();
    maker.past();
    maker.decide();
    maker.count_writer();
    maker.record();
    maker.code.place(end).mov(R0, 0).exit();
    maker.code
}

impl ProgramMaker<'_> {
    /// Adds 1 to a total of the point. R1 and R2 are lost.
    fn count(&mut self, total: u32) {
        let at = TOTALS_BYTES * self.watched.point + total;
        self.code.map_value(R1, self.memory.shared.as_fd(), at).mov(R2, 1).atomic_add(R1, 0, R2);
    }

    fn begin(&mut self) {
        let code = &mut self.code;
        code.mov(R6, R1);
        code.call(Helper::PidTgid).store(Width::Double, R10, frame::ID, R0);
        // Without a place for it programs are not made at all.
        code.load(Width::Double, R1, R6, CONTEXT_IP.unwrap_or_default());
        code.store(Width::Double, R10, frame::IP, R1);
        for slot in [frame::VALUE, frame::OLD, frame::SEQUENCE, frame::FLAGS] {
            code.store(Width::Double, R10, slot, 0);
        }
        for slot in 0..4 {
            code.store(Width::Double, R10, frame::ZEROS + 8 * slot, 0);
        }
        code.store(Width::Double, R10, frame::PASSED, 1);
        self.count(0);
    }

    /// Reads the value: FLAGS and VALUE.
    fn value(&mut self) {
        let number = self.watched.argument.and_then(|number| number.checked_sub(1));
        let argument = number.and_then(|number| ARGUMENTS.get(usize::from(number)));
        if let Some(&at) = argument {
            let known = HitFlags::VALUE.bits() as i32;
            self.code.load(Width::Double, R1, R6, at).store(Width::Double, R10, frame::VALUE, R1);
            self.code.store(Width::Double, R10, frame::FLAGS, known);
        }
        let Some(bytes) = self.watched.bytes else { return };
        let helper = if self.watched.in_kernel { Helper::ReadKernel } else { Helper::ReadUser };
        let mut flags = HitFlags::VALUE;
        flags.set(HitFlags::AFTER, TRAPS_AFTER);
        let unreadable = self.code.label();
        self.code
            .mov(R1, R10)
            .alu(Alu::Add, R1, i32::from(frame::VALUE))
            .mov(R2, i32::from(bytes))
            .number(R3, self.watched.address)
            .call(helper)
            .jump_if(Compare::NotEqual, R0, 0, unreadable)
            .store(Width::Double, R10, frame::FLAGS, flags.bits() as i32)
            .place(unreadable);
    }

    /// What the hit before found: SEQUENCE, OLD, and in FLAGS whether that is known.
    fn past(&mut self) {
        let process_known = self.watched.is_shared || self.watched.in_kernel;
        let code = &mut self.code;
        if process_known {
            code.store(Width::Word, R10, frame::STATE_KEY, 0);
        } else {
            code.load(Width::Double, R1, R10, frame::ID).alu(Alu::ShiftRight, R1, 32);
            code.store(Width::Word, R10, frame::STATE_KEY, R1);
        }
        code.store(Width::Word, R10, frame::STATE_KEY + 4, self.watched.point as i32);
        let (found, done) = (code.label(), code.label());
        self.find(MapTable::States, found, done);
        let code = &mut self.code;
        code.place(found).mov(R9, R0).mov(R1, 1).fetch_add(R9, 16, R1);
        code.alu(Alu::Add, R1, 1).store(Width::Double, R10, frame::SEQUENCE, R1);
        if self.watched.bytes.is_some() {
            let unknown = done;
            code.load(Width::Double, R1, R10, frame::FLAGS).jump_if(Compare::Equal, R1, 0, done);
            code.load(Width::Double, R8, R10, frame::VALUE).exchange(R9, 0, R8);
            code.store(Width::Double, R10, frame::OLD, R8);
            code.map_value(R1, self.memory.control.as_fd(), 8).load(Width::Double, R7, R1, 0);
            code.mov(R1, R7).exchange(R9, 8, R1).jump_if(Compare::NotEqual, R1, R7, unknown);
            code.load(Width::Double, R1, R10, frame::FLAGS);
            code.alu(Alu::Or, R1, HitFlags::OLD.bits() as i32);
            code.store(Width::Double, R10, frame::FLAGS, R1);
        }
        code.place(done);
    }

    /// The entry of a table in R0 and to `found`; made if it is not there; to `none` without room.
    fn find(&mut self, table: MapTable, found: Label, none: Label) {
        let (map, key) = match table {
            MapTable::States => (self.memory.states.as_fd(), frame::STATE_KEY),
            MapTable::Writers => (self.memory.writers.as_fd(), frame::WRITER_KEY),
        };
        let code = &mut self.code;
        let reading = |code: &mut Assembler| {
            code.map(R1, map).mov(R2, R10).alu(Alu::Add, R2, i32::from(key));
        };
        reading(code);
        code.call(Helper::MapLookup).jump_if(Compare::NotEqual, R0, 0, found);
        reading(code);
        code.mov(R3, R10).alu(Alu::Add, R3, i32::from(frame::ZEROS)).mov(R4, NO_EXIST);
        code.call(Helper::MapUpdate);
        reading(code);
        // Another CPU may have made it first, so what the update said does not matter.
        code.call(Helper::MapLookup).jump_if(Compare::NotEqual, R0, 0, found).jump(none);
    }

    /// PASSED becomes 0 if the hit is not wanted.
    fn decide(&mut self) {
        if !self.watched.when_changed && self.watched.when.is_none() {
            return;
        }
        let (no, yes) = (self.code.label(), self.code.label());
        if self.watched.when_changed {
            self.code.load(Width::Double, R1, R10, frame::FLAGS);
            let changed = self.code.label();
            self.code.alu(Alu::And, R1, HitFlags::OLD.bits() as i32);
            self.code.jump_if(Compare::Equal, R1, 0, changed);
            self.code.load(Width::Double, R7, R10, frame::VALUE);
            self.code.load(Width::Double, R8, R10, frame::OLD);
            self.code.jump_if(Compare::Equal, R7, R8, no).place(changed);
        }
        if let Some(condition) = &self.watched.when {
            for all in &condition.any {
                let next = self.code.label();
                all.iter().for_each(|comparison| self.compare(comparison, next));
                self.code.jump(yes).place(next);
            }
            self.code.jump(no);
        } else {
            self.code.jump(yes);
        }
        self.code.place(no).store(Width::Double, R10, frame::PASSED, 0).place(yes);
    }

    /// Goes to `otherwise` if the comparison does not hold.
    fn compare(&mut self, comparison: &Comparison, otherwise: Label) {
        let mut needed = HitFlags::VALUE;
        needed.set(HitFlags::OLD, comparison.needs_old());
        let code = &mut self.code;
        code.load(Width::Double, R1, R10, frame::FLAGS).alu(Alu::And, R1, needed.bits() as i32);
        code.jump_if(Compare::NotEqual, R1, needed.bits() as i32, otherwise);
        self.operand(R7, &comparison.left);
        self.operand(R8, &comparison.right);
        let is_signed = self.is_signed() || is_difference(comparison);
        let (code, holds) = (&mut self.code, comparison.operator);
        let hold = code_of(holds, is_signed);
        let yes = code.label();
        code.jump_if(hold, R7, R8, yes).jump(otherwise).place(yes);
    }

    fn is_signed(&self) -> bool {
        is_signed(self.watched.kind)
    }

    /// A value in a register, extended to 64 bits.
    fn operand(&mut self, to: Register, value: &ConditionValue) {
        match value {
            ConditionValue::New => {
                self.code.load(Width::Double, to, R10, frame::VALUE);
                self.extend(to, self.is_signed());
            }
            ConditionValue::Old => {
                self.code.load(Width::Double, to, R10, frame::OLD);
                self.extend(to, self.is_signed());
            }
            ConditionValue::Step => {
                self.code.load(Width::Double, to, R10, frame::VALUE);
                self.code.load(Width::Double, R2, R10, frame::OLD).alu(Alu::Sub, to, R2);
                self.extend(to, true);
            }
            ConditionValue::Number(number) => {
                self.code.number(to, *number as u64);
            }
            // Names were replaced by numbers; one that was not compares with nothing that is.
            ConditionValue::Name(_) => {
                self.code.number(to, u64::MAX);
            }
        }
    }

    fn extend(&mut self, register: Register, is_signed: bool) {
        let unused = 64 - 8 * i32::from(self.watched.bytes.unwrap_or(8).min(8));
        if is_signed && unused > 0 {
            self.code.alu(Alu::ShiftLeft, register, unused);
            self.code.alu(Alu::ShiftRightSigned, register, unused);
        }
    }

    fn count_writer(&mut self) {
        let code = &mut self.code;
        code.load(Width::Double, R1, R10, frame::ID).mov(R2, R1).alu(Alu::ShiftRight, R2, 32);
        code.store(Width::Word, R10, frame::WRITER_KEY, R2);
        code.store(Width::Word, R10, frame::WRITER_KEY + 4, R1);
        code.load(Width::Double, R1, R10, frame::IP);
        code.store(Width::Double, R10, frame::WRITER_KEY + 8, R1);
        code.store(Width::Word, R10, frame::WRITER_KEY + 16, self.watched.point as i32);
        // Addresses of the kernel are negative.
        code.alu(Alu::ShiftRight, R1, 63).store(Width::Word, R10, frame::WRITER_KEY + 20, R1);
        let (found, none, done) = (code.label(), code.label(), code.label());
        self.find(MapTable::Writers, found, none);
        self.code.place(none);
        self.count(16);
        let code = &mut self.code;
        code.jump(done).place(found).mov(R9, R0).mov(R1, 1).atomic_add(R9, 0, R1);
        if self.watched.bytes.is_some() {
            self.count_change();
        }
        let code = &mut self.code;
        code.load(Width::Double, R1, R10, frame::PASSED).atomic_add(R9, 24, R1).place(done);
    }

    /// Counts what the hit did to the value, for the writer in R9.
    fn count_change(&mut self) {
        let code = &mut self.code;
        let same = code.label();
        code.load(Width::Double, R1, R10, frame::FLAGS);
        code.alu(Alu::And, R1, HitFlags::OLD.bits() as i32).jump_if(Compare::Equal, R1, 0, same);
        code.load(Width::Double, R7, R10, frame::VALUE).load(Width::Double, R8, R10, frame::OLD);
        code.jump_if(Compare::Equal, R7, R8, same).mov(R1, 1).atomic_add(R9, 8, R1);
        code.alu(Alu::Sub, R7, R8);
        let unused = 64 - 8 * i32::from(self.watched.bytes.unwrap_or(8).min(8));
        if unused > 0 {
            code.alu(Alu::ShiftLeft, R7, unused).alu(Alu::ShiftRight, R7, unused);
        }
        code.jump_if(Compare::NotEqual, R7, 1, same).mov(R1, 1).atomic_add(R9, 16, R1).place(same);
    }

    /// Writes a record of the hit, if it is wanted and its turn.
    fn record(&mut self) {
        let end = self.end;
        self.code.load(Width::Double, R1, R10, frame::PASSED).jump_if(Compare::Equal, R1, 0, end);
        let passed = TOTALS_BYTES * self.watched.point + 8;
        self.code.map_value(R2, self.memory.shared.as_fd(), passed).mov(R3, 1).fetch_add(R2, 0, R3);
        if !self.watched.records {
            return;
        }
        let turn = self.code.label();
        self.code.map_value(R2, self.memory.control.as_fd(), 0).load(Width::Double, R7, R2, 0);
        self.code.jump_if(Compare::LessOrEqual, R7, 1, turn).alu(Alu::Mod, R3, R7);
        self.code.jump_if(Compare::NotEqual, R3, 0, end).place(turn);
        self.code.store(Width::Word, R10, frame::SCRATCH_KEY, 0);
        self.code.map(R1, self.memory.scratch.as_fd()).mov(R2, R10);
        self.code.alu(Alu::Add, R2, i32::from(frame::SCRATCH_KEY)).call(Helper::MapLookup);
        self.code.jump_if(Compare::Equal, R0, 0, end).mov(R9, R0);
        self.head();
        self.stacks();
        self.code.map(R1, self.memory.ring().as_fd()).mov(R2, R9).mov(R3, R8).mov(R4, NO_WAKEUP);
        self.code.call(Helper::RingOutput).jump_if(Compare::Equal, R0, 0, end);
        self.count(24);
    }

    /// What a record has in front, R9 points to it and R7 has the hits that it stands for:
    ///
    /// ```text
    ///  0 u32 point, u32 flags │ 8 time │ 16 u32 thread, u32 process │ 24 ip │ 32 value │ 40 old
    ///  48 sequence │ 56 u32 CPU, u32 hits │ 64 u32 bytes of the kernel's stack, u32 of the user's
    /// ```
    fn head(&mut self) {
        let code = &mut self.code;
        code.store(Width::Word, R9, 0, self.watched.point as i32);
        code.load(Width::Double, R1, R10, frame::FLAGS);
        if !TRAPS_AFTER {
            // What this hit and the one before found are old values both: not an old and a new one.
            code.alu(Alu::And, R1, !(HitFlags::OLD.bits() as i32));
        }
        code.store(Width::Word, R9, 4, R1);
        let copied = [
            (16, frame::ID),
            (24, frame::IP),
            (32, frame::VALUE),
            (40, frame::OLD),
            (48, frame::SEQUENCE),
        ];
        for (at, from) in copied {
            code.load(Width::Double, R1, R10, from).store(Width::Double, R9, at, R1);
        }
        code.store(Width::Word, R9, 60, R7);
        code.call(Helper::KtimeNs).store(Width::Double, R9, 8, R0);
        code.call(Helper::CpuNumber).store(Width::Word, R9, 56, R0);
    }

    /// Stacks behind the head; the length of all in R8.
    fn stacks(&mut self) {
        let bytes = (usize::from(self.watched.depth) * 8).min(STACK_BYTES) as i32;
        let head = RECORD_HEAD as i32;
        let code = &mut self.code;
        code.mov(R8, 0).store(Width::Double, R9, 64, 0);
        if bytes > 0 {
            let (user, no_kernel) = (code.label(), code.label());
            // Addresses of the kernel are negative.
            code.load(Width::Double, R1, R10, frame::IP);
            code.jump_if(Compare::SignedGreaterOrEqual, R1, 0, user);
            code.mov(R1, R6).mov(R2, R9).alu(Alu::Add, R2, head).mov(R3, bytes).mov(R4, 0);
            code.call(Helper::GetStack).jump_if(Compare::SignedLessOrEqual, R0, 0, no_kernel);
            code.mov(R8, R0).store(Width::Word, R9, 64, R8).place(no_kernel).place(user);
            let no_user = code.label();
            code.mov(R1, R6).mov(R2, R9).alu(Alu::Add, R2, R8).alu(Alu::Add, R2, head);
            code.mov(R3, bytes).mov(R4, USER_STACK);
            code.call(Helper::GetStack).jump_if(Compare::SignedLessOrEqual, R0, 0, no_user);
            code.store(Width::Word, R9, 68, R0).alu(Alu::Add, R8, R0).place(no_user);
        }
        code.alu(Alu::Add, R8, head);
    }
}

#[derive(Clone, Copy)]
enum MapTable {
    States,
    Writers,
}

/// A step is a difference, whatever the type's sign.
fn is_difference(comparison: &Comparison) -> bool {
    comparison.left == ConditionValue::Step || comparison.right == ConditionValue::Step
}

fn code_of(operator: Operator, is_signed: bool) -> Compare {
    match (operator, is_signed) {
        (Operator::Equal, _) => Compare::Equal,
        (Operator::NotEqual, _) => Compare::NotEqual,
        (Operator::AnyBit, _) => Compare::AnyBit,
        (Operator::Less, false) => Compare::Less,
        (Operator::LessOrEqual, false) => Compare::LessOrEqual,
        (Operator::Greater, false) => Compare::Greater,
        (Operator::GreaterOrEqual, false) => Compare::GreaterOrEqual,
        (Operator::Less, true) => Compare::SignedLess,
        (Operator::LessOrEqual, true) => Compare::SignedLessOrEqual,
        (Operator::Greater, true) => Compare::SignedGreater,
        (Operator::GreaterOrEqual, true) => Compare::SignedGreaterOrEqual,
    }
}

#[cfg(test)]
mod tests;
