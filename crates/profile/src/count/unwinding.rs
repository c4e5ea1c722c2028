//! User stacks from registers and copies of memory: samples of `--call-graph dwarf`.
//!
//! Per frame there is one lookup, what place its address is, and one step by the rule of that place. A
//! rule follows from the place alone, so each thread asks for it once, whatever process runs the code
//! and wherever it is mapped; tables are shared by all threads.
//!
//! Generated code has no tables, but for jitdumps that have them and for CPython's trampolines, which are known. Most of the
//! rest keeps frame pointers: from such a frame one step is taken by them, if the frame pointer points into the copy above the
//! stack pointer and the return address lies in mapped code. Such stacks are counted.
//!
//! A walk ends at the outermost frame, or is cut. A cut stack has a frame `[cut: why]` where its callers
//! are missing: what was cut shows as such in every tree, and is never taken for a whole stack.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pmuscope_perfdata::reader::{Details, Metadata};
use pmuscope_symbols::unwind::{
    Arch, Caller, Gap, Lost, Registers, Rule, StackCopy, UnwindScratch, UnwindTable, Unwinder,
};
use pmuscope_symbols::{BuildId, GeneratedCode, KernelIdentity, Module};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::timeline::modules::{
    CUT, ModuleId, ModuleKey, ModuleKind, Modules, RecordedFiles, UNKNOWN,
};
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;

/// Frames of a program in a stack at most. perf stops at 127, which recursion reaches soon; a copy of
/// 64 KiB holds some 1,000 frames of usual size.
const MOST_FRAMES: usize = 1024;
/// `abi` of registers of 32-bit programs, `PERF_SAMPLE_REGS_ABI_32`.
const ABI_32: u64 = 1;

/// Where unwind tables come from.
#[derive(Debug, Clone, Copy)]
pub struct Unwinding<'a> {
    /// Finds them.
    pub unwinder: &'a Unwinder<'a>,
    /// The kernel that this program runs on: its vdso is at hand.
    pub running: &'a KernelIdentity,
}

/// Why a stack ends before its outermost frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CutReason {
    /// The copy of the stack ends there.
    CopyTooShort,
    /// The module has no unwind information for the place.
    NoInformation,
    /// The module's file is gone, or another build is in its place.
    FileMissing,
    /// The module's file is there and cannot be read.
    Unreadable,
    /// Code made at run time, which no file describes.
    Generated,
    /// The kernel's page of functions for programs, of another kernel than the running one.
    OtherKernel,
    /// Unwind information is damaged, or leads nowhere.
    Damaged,
    /// A frame lies where nothing is mapped.
    NotMapped,
    /// A frame lies in memory that was not copied.
    NotReadable,
    /// More frames than are walked.
    TooDeep,
    /// The sample has registers and no copy of the stack.
    NoCopy,
    /// A 32-bit program.
    ThirtyTwoBit,
    /// A machine whose stacks cannot be unwound here.
    OtherMachine,
    /// As many callers as the kernel records (`sysctl kernel.perf_event_max_stack`).
    ChainLimit,
    /// The program's part of a callchain was to be recorded later, and never was.
    NotRecorded,
    /// A return probe (uretprobe) has its own code's address on the stack instead of the return address.
    ReturnProbe,
    /// The module's file is no ELF file of this architecture.
    NotElf,
    /// Code of a Go program without `.debug_frame`.
    Go,
    /// A frame lies in memory that holds no code: a stack, a heap.
    NoCode,
}

impl CutReason {
    /// All, in words.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::CopyTooShort, "stack copy too short"),
        (Self::NoInformation, "no unwind information"),
        (Self::FileMissing, "file missing or from another build"),
        (Self::Unreadable, "file not readable"),
        (Self::Generated, "code generated at run time"),
        (Self::OtherKernel, "vDSO of another kernel"),
        (Self::Damaged, "unusable unwind information"),
        (Self::NotMapped, "address not mapped"),
        (Self::NotReadable, "memory not in the copy"),
        (Self::TooDeep, "more than 1,024 frames"),
        (Self::NoCopy, "no stack copy in the sample"),
        (Self::ThirtyTwoBit, "32-bit program"),
        (Self::OtherMachine, "unwinding not supported on this architecture"),
        (Self::ChainLimit, "kernel's limit of callchains"),
        (Self::NotRecorded, "user callchain not recorded"),
        (Self::ReturnProbe, "return probe"),
        (Self::NotElf, "no ELF file of this architecture"),
        (Self::Go, "Go program without .debug_frame"),
        (Self::NoCode, "address in memory without code"),
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        Self::ALL.iter().find(|(reason, _)| *reason == self).map_or("", |(_, words)| words)
    }

    /// Whether it is a matter of the module that it happened in.
    fn is_of_module(self) -> bool {
        use CutReason as Why;
        matches!(
            self,
            Why::NoInformation
                | Why::FileMissing
                | Why::Unreadable
                | Why::Damaged
                | Why::NotElf
                | Why::Go
        )
    }

    fn of_gap(gap: Gap) -> Self {
        match gap {
            Gap::NoInformation => Self::NoInformation,
            Gap::FileMissing => Self::FileMissing,
            Gap::OtherKernel => Self::OtherKernel,
            Gap::Generated => Self::Generated,
            Gap::Unreadable => Self::Unreadable,
            Gap::NotElf => Self::NotElf,
            Gap::Go => Self::Go,
            _ => Self::Damaged,
        }
    }

    fn of_lost(lost: Lost) -> Self {
        match lost {
            Lost::TooShort => Self::CopyTooShort,
            Lost::NotReadable => Self::NotReadable,
            Lost::Unusable => Self::Damaged,
        }
    }
}

/// How a stack was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cut {
    pub(crate) reason: CutReason,
    /// [`UNKNOWN`] where it is no matter of a module.
    pub(crate) module: ModuleId,
}

impl Cut {
    fn new(reason: CutReason, module: ModuleId) -> Self {
        Self { reason, module: if reason.is_of_module() { module } else { UNKNOWN } }
    }

    /// How a recorded callchain was cut.
    pub(crate) fn of_chain(reason: CutReason) -> Self {
        Self::new(reason, UNKNOWN)
    }

    /// The place that stands for the missing callers.
    pub(crate) fn place(self) -> ModuleAddress {
        let reason = CutReason::ALL.iter().position(|(reason, _)| *reason == self.reason);
        let address = u64::from(self.module) << 8 | reason.unwrap_or(0) as u64;
        ModuleAddress { module: CUT, address }
    }

    /// The name of such a place.
    pub(crate) fn name(address: u64, modules: &[ModuleKey]) -> String {
        let reason = CutReason::ALL.get((address & 0xff) as usize).map_or("", |(_, words)| words);
        let module = (address >> 8) as usize;
        match modules.get(module).filter(|_| module != UNKNOWN as usize) {
            Some(module) => {
                let path = String::from_utf8_lossy(&module.path);
                format!("[cut: {reason}: {}]", path.rsplit('/').next().unwrap_or_default())
            }
            None => format!("[cut: {reason}]"),
        }
    }
}

/// Whether code without a rule can be taken to keep a frame pointer: generated code, and code of a file that calls such code, as
/// V8's builtins.
fn has_frame_pointer(gap: Gap, was_followed: bool) -> bool {
    gap == Gap::Generated || gap == Gap::NoInformation && was_followed
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Cut(Cut),
}

/// Stacks that were walked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnwindStats {
    pub(crate) complete: u64,
    /// Stacks, complete or cut, with a step by frame pointer.
    pub(crate) by_frame_pointer: u64,
    pub(crate) cut: FxHashMap<Cut, u64>,
}

impl UnwindStats {
    fn note(&mut self, end: End) {
        match end {
            End::Complete => self.complete += 1,
            End::Cut(cut) => *self.cut.entry(cut).or_default() += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.complete += other.complete;
        self.by_frame_pointer += other.by_frame_pointer;
        for (cut, stacks) in &other.cut {
            *self.cut.entry(*cut).or_default() += stacks;
        }
    }
}

/// What the file says that tables depend on.
#[derive(Debug, Default)]
pub(crate) struct UnwindFacts {
    arch: Option<Arch>,
    /// The running kernel is the one that recorded.
    same_kernel: bool,
    /// By path, for mappings that came without.
    build_ids: FxHashMap<Vec<u8>, BuildId>,
    files: RecordedFiles,
    /// How much the file had said then.
    told: (usize, bool, bool, bool),
}

impl UnwindFacts {
    pub(crate) fn new(metadata: &Metadata, state: &Sideband, unwinding: &Unwinding<'_>) -> Self {
        let ids = metadata.build_ids.iter().filter(|entry| !entry.kernel);
        let ids = ids.filter_map(|entry| Some((entry.path.clone(), BuildId::new(&entry.id).ok()?)));
        let arch = metadata.arch.as_deref();
        Self {
            arch: arch.map_or_else(Arch::of_this_program, Arch::named),
            same_kernel: state.kernel_identity(metadata).compare(unwinding.running).same_image(),
            build_ids: ids.collect(),
            files: RecordedFiles::new(metadata),
            told: Self::told(metadata),
        }
    }

    /// Whether the file has said more since.
    pub(crate) fn is_of(&self, metadata: &Metadata) -> bool {
        self.told == Self::told(metadata)
    }

    fn told(metadata: &Metadata) -> (usize, bool, bool, bool) {
        let Metadata { build_ids, arch, os_release, info, .. } = metadata;
        (build_ids.len(), arch.is_some(), os_release.is_some(), info.is_some())
    }

    pub(crate) fn files(&self) -> &RecordedFiles {
        &self.files
    }

    pub(crate) fn build_id(&self, module: &ModuleKey) -> Option<BuildId> {
        match &module.build_id {
            Some(id) => BuildId::new(id).ok(),
            None => self.build_ids.get(&module.path).cloned(),
        }
    }
}

/// Tables, each once for all threads.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    unwinding: Unwinding<'a>,
    known: Mutex<FxHashMap<ModuleId, Arc<OnceLock<UnwindTable>>>>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(unwinding: Unwinding<'a>) -> Self {
        Self { unwinding, known: Mutex::default() }
    }

    pub(crate) fn unwinding(&self) -> &Unwinding<'a> {
        &self.unwinding
    }

    /// The slot of a table. A thread that panics ends the program; nothing is left locked by it.
    fn slot(&self, module: ModuleId) -> Arc<OnceLock<UnwindTable>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(module).or_default())
    }

    fn open(
        &self,
        module: ModuleId,
        modules: &Modules,
        facts: &UnwindFacts,
        arch: Arch,
    ) -> UnwindTable {
        let mapped = modules.mapped(module, &facts.files);
        let module = &modules.list()[module as usize];
        let id = facts.build_id(module);
        let table =
            |source: &Module<'_>| self.unwinding.unwinder.table(source, arch, facts.same_kernel);
        match (module.kind, module.source(id.as_ref(), mapped.as_ref())) {
            (ModuleKind::Jit { pid }, _) => {
                let origin = facts.files.code_of(pid, None);
                table(&Module::Jit { pid, origin: Some(&origin) })
            }
            (_, Some(source)) => table(&source),
            (_, None) => UnwindTable::without(Gap::NoInformation),
        }
    }
}

/// What is known of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepRule {
    /// How its function is left.
    Rule(Arc<Rule>),
    Gap(Gap),
    NotMapped,
    /// The kernel's page that functions with a return probe return to.
    ReturnProbe,
    /// Memory that holds no code.
    NoCode,
}

/// Walks stacks. One for each thread that reads.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    tables: Arc<Tables<'a>>,
    facts: Arc<UnwindFacts>,
    /// By module.
    slots: Vec<Option<Arc<OnceLock<UnwindTable>>>>,
    rules: FxHashSet<Arc<Rule>>,
    /// By number of the place, as far as asked for.
    ways: Vec<Option<StepRule>>,
    scratch: UnwindScratch,
    account: UnwindStats,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(tables: Arc<Tables<'a>>, facts: Arc<UnwindFacts>) -> Self {
        Self {
            tables,
            facts,
            slots: Vec::new(),
            rules: FxHashSet::default(),
            ways: Vec::new(),
            scratch: UnwindScratch::default(),
            account: UnwindStats::default(),
        }
    }

    /// Takes over what a stream has told about itself, up to its first sample.
    pub(crate) fn tell(&mut self, metadata: &Metadata, state: &Sideband) {
        if self.ways.is_empty() && !self.facts.is_of(metadata) {
            self.facts = Arc::new(UnwindFacts::new(metadata, state, self.tables.unwinding()));
        }
    }

    /// Puts the places of a program's frames behind `frames`, the innermost first: numbers that
    /// `place` gives to addresses, return addresses one before. `None` if there was no program.
    pub(crate) fn walk(
        &mut self,
        details: &Details<'_>,
        modules: &Modules,
        place: impl FnMut(u64) -> (u32, ModuleAddress),
        frames: &mut Vec<u32>,
    ) -> Option<End> {
        let end = self.end_of(details, modules, place, frames)?;
        self.account.note(end);
        Some(end)
    }

    fn end_of(
        &mut self,
        details: &Details<'_>,
        modules: &Modules,
        mut place: impl FnMut(u64) -> (u32, ModuleAddress),
        frames: &mut Vec<u32>,
    ) -> Option<End> {
        let values = details.regs_user?;
        let cut = |reason, module| Some(End::Cut(Cut::new(reason, module)));
        let Some(arch) = self.facts.arch else { return cut(CutReason::OtherMachine, UNKNOWN) };
        let mut registers = Registers::of_sample(arch, values.iter())?;
        let (mut number, mut at) = place(registers.pc());
        frames.push(number);
        if values.abi == ABI_32 {
            return cut(CutReason::ThirtyTwoBit, UNKNOWN);
        }
        let Some(copy) = details.stack_user else { return cut(CutReason::NoCopy, UNKNOWN) };
        let full = copy.valid >= copy.bytes.len() as u64;
        let stack = StackCopy::new(registers.sp(), copy.stack(), full);
        let mut by_pointer = false;
        let mut reason = CutReason::Generated;
        for _ in 0..MOST_FRAMES {
            let (caller, is_guess) = match self.way(number, at, modules, arch) {
                StepRule::Rule(rule) => (rule.step(&mut registers, &stack), false),
                StepRule::Gap(gap) if has_frame_pointer(*gap, by_pointer) => {
                    reason = CutReason::of_gap(*gap);
                    (Rule::by_frame_pointer(arch).step(&mut registers, &stack), true)
                }
                StepRule::Gap(gap) => return cut(CutReason::of_gap(*gap), at.module),
                StepRule::NotMapped => return cut(CutReason::NotMapped, UNKNOWN),
                StepRule::ReturnProbe => return cut(CutReason::ReturnProbe, UNKNOWN),
                StepRule::NoCode => return cut(CutReason::NoCode, UNKNOWN),
            };
            let next = match caller {
                Ok(Caller::Returned) => place(registers.pc().wrapping_sub(1)),
                Ok(Caller::Interrupted) => place(registers.pc()),
                Ok(Caller::None) if is_guess => return cut(reason, at.module),
                Ok(Caller::None) => return Some(End::Complete),
                Err(_) if is_guess => return cut(reason, at.module),
                Err(lost) => return cut(CutReason::of_lost(lost), at.module),
            };
            let is_code = |at: ModuleAddress| {
                at.module != UNKNOWN && !modules.list()[at.module as usize].is_data()
            };
            if is_guess && !is_code(next.1) {
                return cut(reason, at.module);
            }
            self.account.by_frame_pointer += u64::from(is_guess && !by_pointer);
            by_pointer |= is_guess;
            (number, at) = next;
            frames.push(number);
        }
        cut(CutReason::TooDeep, UNKNOWN)
    }

    #[inline]
    fn way(&mut self, number: u32, at: ModuleAddress, modules: &Modules, arch: Arch) -> &StepRule {
        let number = number as usize;
        if self.ways.len() <= number {
            self.ways.resize(number + 1, None);
        }
        if self.ways[number].is_none() {
            self.ways[number] = Some(self.ask(at, modules, arch));
        }
        self.ways[number].as_ref().unwrap_or(&StepRule::NotMapped)
    }

    fn ask(&mut self, at: ModuleAddress, modules: &Modules, arch: Arch) -> StepRule {
        let ModuleAddress { module, address } = at;
        if module == UNKNOWN {
            return StepRule::NotMapped;
        }
        let key = &modules.list()[module as usize];
        // The kernel's name for the page (`xol_add_vma` of kernel/events/uprobes.c).
        if key.path == b"[uprobes]" {
            return StepRule::ReturnProbe;
        }
        if key.is_data() {
            return StepRule::NoCode;
        }
        if let Some(code) = modules.code(module).filter(|_| address >= GeneratedCode::FIRST_PLACE) {
            let rule = code.rule(address, arch, &mut self.scratch);
            return self.step_rule(rule);
        }
        let index = module as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        let slot = self.slots[index].get_or_insert_with(|| self.tables.slot(module));
        let open = || self.tables.open(module, modules, &self.facts, arch);
        let rule = slot.get_or_init(open).rule(address, &mut self.scratch);
        self.step_rule(rule)
    }

    /// A rule, each kept once.
    fn step_rule(&mut self, rule: Result<Rule, Gap>) -> StepRule {
        match rule {
            Err(gap) => StepRule::Gap(gap),
            Ok(rule) => StepRule::Rule(match self.rules.get(&rule) {
                Some(known) => Arc::clone(known),
                None => {
                    let rule = Arc::new(rule);
                    self.rules.insert(Arc::clone(&rule));
                    rule
                }
            }),
        }
    }

    /// The end: what was walked, and what was found out by number of the place.
    pub(crate) fn finish(self) -> Walked {
        Walked { account: self.account, ways: self.ways, facts: self.facts }
    }
}

/// How the functions at places of a module are left, or why that is not known.
pub type ModuleRules<'a> = BTreeMap<u64, Result<&'a Rule, Gap>>;

/// What a walker came to.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) account: UnwindStats,
    /// By number of the place.
    pub(crate) ways: Vec<Option<StepRule>>,
    pub(crate) facts: Arc<UnwindFacts>,
}

/// Stacks of a recording that were walked, and how far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackSummary {
    /// Up to the outermost frame.
    pub complete: u64,
    /// The others, the most frequent reason first.
    pub cut: Vec<CutStacks>,
    /// Stacks, complete or cut, with a step by frame pointer in generated code, which has no unwind tables.
    pub by_frame_pointer: u64,
    /// Bytes of the stack that were asked for with each sample.
    pub copy_size: Option<u32>,
}

/// Stacks that were cut for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutStacks {
    /// Why.
    pub reason: CutReason,
    /// Index into [`crate::Profile::modules`], where it is a matter of one.
    pub module: Option<usize>,
    /// Stacks.
    pub stacks: u64,
}

impl StackSummary {
    pub(crate) fn new(account: &UnwindStats, copy_size: Option<u32>) -> Self {
        let module = |cut: &Cut| (cut.module != UNKNOWN).then_some(cut.module as usize);
        let mut cut: Vec<CutStacks> = account
            .cut
            .iter()
            .map(|(cut, &stacks)| CutStacks { reason: cut.reason, module: module(cut), stacks })
            .collect();
        cut.sort_by_key(|one| (std::cmp::Reverse(one.stacks), one.reason, one.module));
        let by_frame_pointer = account.by_frame_pointer;
        Self { complete: account.complete, cut, by_frame_pointer, copy_size }
    }

    /// Stacks that were walked.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.complete + self.cut.iter().map(|one| one.stacks).sum::<u64>()
    }

    /// Share of the complete ones, 0 to 1; `None` if there are none at all.
    #[must_use]
    pub fn complete_share(&self) -> Option<f64> {
        (self.total() > 0).then(|| self.complete as f64 / self.total() as f64)
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_perfdata::reader::Mmap;

    use super::*;

    #[test]
    fn places_of_cut_stacks_have_the_reason_and_the_module_in_their_names() {
        let mut modules = Modules::default();
        let library = modules.intern(ModuleKey::user(
            &Mmap { pid: 1, path: b"/usr/lib/libx.so", ..Mmap::default() },
            0,
        ));
        let name = |reason, module| {
            let place = Cut::new(reason, module).place();
            assert_eq!(place.module, CUT);
            Cut::name(place.address, modules.list())
        };
        assert_eq!(name(CutReason::CopyTooShort, library), "[cut: stack copy too short]");
        let expected = "[cut: no unwind information: libx.so]";
        assert_eq!(name(CutReason::NoInformation, library), expected);
        let names: FxHashSet<String> =
            CutReason::ALL.iter().map(|(reason, _)| name(*reason, library)).collect();
        assert_eq!(names.len(), CutReason::ALL.len());
        assert!(CutReason::TooDeep.words().replace(',', "").contains(&MOST_FRAMES.to_string()));
        // From a file that says anything.
        assert_eq!(Cut::name(u64::MAX, modules.list()), "[cut: ]");
    }

    #[test]
    fn accounts_of_threads_add_up() {
        let (short, gone) = (CutReason::CopyTooShort, CutReason::FileMissing);
        let ends = [
            vec![End::Complete, End::Cut(Cut::new(short, 7)), End::Cut(Cut::new(gone, 7))],
            vec![End::Complete, End::Cut(Cut::new(short, 8)), End::Cut(Cut::new(gone, 9))],
        ];
        let mut all = UnwindStats::default();
        for ends in ends {
            let mut one = UnwindStats::default();
            ends.into_iter().for_each(|end| one.note(end));
            all.add(&one);
        }
        let found = StackSummary::new(&all, Some(8192));
        assert_eq!(
            (found.complete, found.total(), found.complete_share()),
            (2, 6, Some(2.0 / 6.0))
        );
        let rows: Vec<_> =
            found.cut.iter().map(|cut| (cut.reason, cut.module, cut.stacks)).collect();
        // Where a copy ends is no matter of a module.
        assert_eq!(rows, [(short, None, 2), (gone, Some(7), 1), (gone, Some(9), 1)]);
        assert_eq!(StackSummary::new(&UnwindStats::default(), None).complete_share(), None);
    }
}
