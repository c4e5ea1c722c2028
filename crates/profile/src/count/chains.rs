//! Callchains: what the entries of a sample's callchain mean, and what a thread's chains share.
//!
//! Distinct chains are the nodes of a [`Tree`] of places: a sample costs the steps in which it differs
//! from its thread's last one, and each distinct caller is kept once.

use pmuscope_perfdata::reader::scan::SampleFields;
use pmuscope_perfdata::reader::{BranchStack, CpuMode, Sample};

use crate::aggregate::ASIDE;
use crate::count::tree::ENTERED;
use crate::count::unwinding::{Cut, CutReason};
use crate::timeline::lookup::Holds;
use crate::timeline::spaces::ViewId;

/// The marks between parts of a chain are the topmost values (`PERF_CONTEXT_MAX`).
pub(crate) const FIRST_MARK: u64 = (-4095_i64) as u64;
/// Stands for the part of the program, which was to come later, and never came (`PERF_CONTEXT_USER_DEFERRED`).
const USER_DEFERRED: u64 = (-640_i64) as u64;

/// Where a sample was taken, or a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackFrame {
    pub(crate) mode: CpuMode,
    /// An address within the call, or within the interrupted instruction.
    pub(crate) address: u64,
    pub(crate) role: FrameRole,
}

/// The role of a frame in its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameRole {
    /// Where the sample was taken, or a caller.
    Plain,
    /// Where the CPU's newest call went ([`ChainStep::Entered`]), while the sample was taken in the program.
    Entered,
    /// Sampled address outside the callchain: a precise event has the address of its instruction, and a callchain
    /// that begins at its interrupt, in the kernel.
    Aside,
}

impl FrameRole {
    /// The bit that a place of this role has in the number of a [`Node`](crate::count::tree::Node).
    pub(crate) fn mark(self) -> u32 {
        match self {
            Self::Plain => 0,
            Self::Entered => ENTERED,
            Self::Aside => ASIDE,
        }
    }
}

impl StackFrame {
    /// Stands for the callers that a chain was cut off from. No code has such an address: the topmost values are marks.
    pub(crate) fn cut(reason: CutReason) -> Self {
        let place = Cut::of_chain(reason).place();
        Self { mode: CpuMode::Unknown, address: FIRST_MARK + place.address, role: FrameRole::Plain }
    }
}

/// Mode of what follows a mark, as `enum perf_callchain_context` has them.
fn mode_of(mark: u64) -> CpuMode {
    match (mark as i64).wrapping_neg() {
        32 => CpuMode::Hypervisor,
        128 => CpuMode::Kernel,
        512 => CpuMode::User,
        2176 => CpuMode::GuestKernel,
        2048 | 2560 => CpuMode::GuestUser,
        _ => CpuMode::Unknown,
    }
}

/// What an entry of a callchain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainStep {
    /// Where the program or the kernel was interrupted, or where the program called the kernel.
    Interrupted,
    /// A return address: that after the call, which may be another line or function. One before it is
    /// within the call.
    Return,
    /// Where the CPU's newest call went: mostly the start of the function that ran, but of a stub or
    /// another function if that jumped on.
    Entered,
    /// A call, by its own address.
    Call,
    /// The program's part is missing.
    Missing,
}

impl ChainStep {
    /// The address whose code is meant.
    fn code(self, address: u64) -> u64 {
        if self == Self::Return { address.wrapping_sub(1) } else { address }
    }
}

/// Hands out the entries of a callchain, the innermost first, with their modes.
///
/// ```text
///  KERNEL  ip  return  return  USER  ip  return  return
///          └─ the sample itself      └─ where the program was interrupted
///                                    to  from  from      where the CPU kept the program's calls
/// ```
/// Calls that the CPU kept replace the program's part: programs are recorded so because they have no
/// frame pointers. Only a mark or the sample's own mode shows that it met a program: the CPU still has
/// the calls of the last one while a kernel thread runs.
fn each_entry(
    sampled_in: CpuMode,
    chain: impl Iterator<Item = u64>,
    calls: Option<&BranchStack<'_>>,
    mut take: impl FnMut(CpuMode, u64, ChainStep),
) {
    let mut mode = sampled_in;
    let (mut is_first, mut is_empty, mut met_program) = (true, true, false);
    for entry in chain {
        is_empty = false;
        if entry == USER_DEFERRED {
            return take(CpuMode::User, entry, ChainStep::Missing);
        }
        if entry >= FIRST_MARK {
            mode = mode_of(entry);
            is_first = true;
            met_program = mode == CpuMode::User;
            if met_program && calls.is_some() {
                break;
            }
            continue;
        }
        take(mode, entry, if is_first { ChainStep::Interrupted } else { ChainStep::Return });
        is_first = false;
    }
    let is_of_program = met_program || is_empty && mode == CpuMode::User;
    for (at, call) in
        calls.filter(|_| is_of_program).iter().flat_map(|calls| calls.iter().enumerate())
    {
        if at == 0 {
            take(CpuMode::User, call.to, ChainStep::Entered);
        }
        take(CpuMode::User, call.from, ChainStep::Call);
    }
}

/// Where a sample was taken, if that is known, and its callers, the innermost first.
pub(crate) fn steps(hit: &SampleFields<'_>, steps: &mut Vec<StackFrame>) {
    steps.clear();
    let leaf = |address| StackFrame { mode: hit.mode, address, role: FrameRole::Plain };
    steps.extend(hit.ip.map(leaf));
    let chain = hit.chain.iter().map(|word| u64::from_ne_bytes(*word));
    let mut is_leaf = hit.ip.is_some();
    let mut recorded = 0;
    let mut cut = None;
    each_entry(hit.mode, chain, hit.calls.as_ref(), |mode, address, entry| {
        match entry {
            ChainStep::Missing => {
                cut = Some(CutReason::NotRecorded);
                return;
            }
            ChainStep::Interrupted | ChainStep::Return => recorded += 1,
            ChainStep::Entered | ChainStep::Call => {}
        }
        let is_first = std::mem::replace(&mut is_leaf, false);
        let is_own = is_first && mode == hit.mode;
        if is_first && (hit.mode, mode) == (CpuMode::User, CpuMode::Kernel) {
            steps[0].role = FrameRole::Aside;
        }
        // The chain starts with the address that the sample itself has.
        if !(is_own && entry == ChainStep::Interrupted) {
            let is_entered = is_own && entry == ChainStep::Entered;
            let role = if is_entered { FrameRole::Entered } else { FrameRole::Plain };
            steps.push(StackFrame { mode, address: entry.code(address), role });
        }
    });
    // Calls that the CPU kept have a limit of their own, and stacks are unwound to another.
    let is_limited = hit.deepest > 0 && hit.calls.is_none() && hit.user.is_none();
    if is_limited && recorded >= hit.deepest {
        cut = Some(CutReason::ChainLimit);
    }
    steps.extend(cut.map(StackFrame::cut));
}

/// An entry of a sample's callchain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainEntry {
    /// In what the CPU was there.
    pub mode: CpuMode,
    /// As recorded: of a caller the address that it returns to, or that of the call where the CPU kept
    /// the calls.
    pub address: u64,
    /// The address whose code is meant: of a return address the byte before, which is within the call.
    pub code: u64,
}

/// The callchain of a sample, the innermost entry first: the kernel's part, then the program's. That is
/// the calls that the CPU kept where it was asked to, the target of the newest one first. Empty if none
/// was recorded.
#[must_use]
pub fn callchain(sample: &Sample<'_>) -> Vec<ChainEntry> {
    let mut entries = Vec::with_capacity(sample.callchain.len());
    each_chain_entry(sample, |entry| entries.push(entry));
    entries
}

/// Passes the entries of [`callchain`] to `take`, without a list of them.
#[inline]
pub fn each_chain_entry(sample: &Sample<'_>, mut take: impl FnMut(ChainEntry)) {
    let calls = sample.tail.calls();
    each_entry(sample.mode, sample.callchain.iter(), calls.as_ref(), |mode, address, entry| {
        if entry == ChainStep::Missing {
            return;
        }
        take(ChainEntry { mode, address, code: entry.code(address) });
    });
}

/// A step of a thread's last chain, and what it came to.
#[derive(Debug, Clone, Copy)]
struct Reached<T> {
    step: StackFrame,
    /// What this step came to, under all before it.
    came_to: T,
    /// When this and all before it hold.
    holds: Holds,
}

/// A thread's last chain, the outermost caller first, with what each step of it came to.
///
/// From one sample of a thread to the next mostly the innermost steps change:
///
/// ```text
///  last   main ─ run ─ parse ─ read ─ memcpy
///  next   main ─ run ─ parse ─ next
///         └──── shared ────┘   └ looked up
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Last<T> {
    view: Option<ViewId>,
    path: Vec<Reached<T>>,
}

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self { view: None, path: Vec::new() }
    }
}

impl<T: Copy> Last<T> {
    /// Drops what a chain in `view` (`steps`, the innermost first) does not share, or what does not
    /// hold at `stamp`. Returns the number of steps that are left.
    #[inline]
    pub(crate) fn keep_shared(&mut self, view: ViewId, stamp: u64, steps: &[StackFrame]) -> usize {
        if self.view != Some(view) {
            self.view = Some(view);
            self.path.clear();
        }
        let is_equal = |(reached, step): &(&Reached<T>, &StackFrame)| reached.step == **step;
        let mut shared = self.path.iter().zip(steps.iter().rev()).take_while(is_equal).count();
        while shared > 0 && !self.path[shared - 1].holds.at(stamp) {
            shared -= 1;
        }
        self.path.truncate(shared);
        shared
    }

    /// What the chain so far came to, and when that holds; `None` of no step.
    #[inline]
    pub(crate) fn end(&self) -> (Option<T>, Holds) {
        self.path.last().map_or((None, Holds::ALWAYS), |last| (Some(last.came_to), last.holds))
    }

    #[inline]
    pub(crate) fn push(&mut self, step: StackFrame, came_to: T, holds: Holds) {
        self.path.push(Reached { step, came_to, holds });
    }

    /// Number of steps.
    pub(crate) fn len(&self) -> usize {
        self.path.len()
    }

    /// What a step came to, the outermost first.
    pub(crate) fn came_to(&mut self, step: usize) -> &mut T {
        &mut self.path[step].came_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CpuMode::{Kernel, User};
    use FrameRole::{Aside, Entered, Plain};
    use pmuscope_abi::record::{RecordBuilder, kind, misc};
    use pmuscope_abi::{Attr, AttrFlags, BranchSampleType, SampleType};
    use pmuscope_perfdata::reader::{Event, Live, Record};

    /// What a sample has for callers; `calls` (from, to) are those that the CPU kept.
    struct Sampled<'a> {
        mode: CpuMode,
        ip: u64,
        chain: Option<&'a [i64]>,
        calls: Option<&'a [(u64, u64)]>,
    }

    type Steps = Vec<(CpuMode, u64, FrameRole)>;

    impl Sampled<'_> {
        /// The steps; and the callchain, as recorded.
        fn read(&self) -> (Steps, Vec<(CpuMode, u64)>) {
            let mut sample_type = SampleType::IP | SampleType::TIME;
            sample_type.set(SampleType::CALLCHAIN, self.chain.is_some());
            sample_type.set(SampleType::BRANCH_STACK, self.calls.is_some());
            let attr = Attr {
                sample: 1,
                sample_type,
                branch_sample_type: BranchSampleType::USER | BranchSampleType::CALL_STACK,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..Attr::default()
            };
            let mode = if self.mode == Kernel { misc::KERNEL } else { misc::USER };
            let mut words = vec![self.ip, 5];
            if let Some(chain) = self.chain {
                words.push(chain.len() as u64);
                words.extend(chain.iter().map(|&entry| entry as u64));
            }
            if let Some(calls) = self.calls {
                words.push(calls.len() as u64);
                words.extend(calls.iter().flat_map(|&(from, to)| [from, to, 0]));
            }
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut out = Vec::new();
            RecordBuilder::new(&mut out, kind::SAMPLE, mode).bytes(&bytes).finish();
            let mut live = Live::new(vec![Event { name: "cycles".into(), attr, ids: Vec::new() }]);
            live.push(&out);
            live.complete_up_to(10);
            let entry = live.next_before(10).unwrap();
            let Record::Sample(sample) = entry.record else { panic!("{entry:?}") };
            let chain: Vec<[u8; 8]> = sample.callchain.iter().map(u64::to_ne_bytes).collect();
            let mut found = Vec::new();
            steps(&SampleFields { chain: &chain, ..SampleFields::of(&sample) }, &mut found);
            let step = |step: StackFrame| (step.mode, step.address, step.role);
            let entries = callchain(&sample).into_iter().map(|entry| (entry.mode, entry.address));
            (found.into_iter().map(step).collect(), entries.collect())
        }
    }

    fn found(mode: CpuMode, ip: u64, chain: &[i64]) -> Vec<(CpuMode, u64)> {
        let (steps, recorded) = Sampled { mode, ip, chain: Some(chain), calls: None }.read();
        let entries: Vec<i64> = recorded.iter().map(|&(_, address)| address as i64).collect();
        assert_eq!(entries, chain.iter().copied().filter(|&entry| entry > 0).collect::<Vec<_>>());
        steps.into_iter().map(|(mode, address, _)| (mode, address)).collect()
    }

    #[test]
    fn marks_tell_the_mode_and_the_first_of_each_part_is_no_return_address() {
        let whole = found(Kernel, 100, &[-128, 100, 200, 300, -512, 40, 50]);
        assert_eq!(whole, [(Kernel, 100), (Kernel, 199), (Kernel, 299), (User, 40), (User, 49)]);
        // Only the program's part: the sample was taken in the kernel.
        assert_eq!(found(Kernel, 100, &[-512, 40, 50]), [(Kernel, 100), (User, 40), (User, 49)]);
        assert_eq!(found(User, 7, &[7, 9]), [(User, 7), (User, 8)]);
        assert_eq!(found(User, 7, &[]), [(User, 7)]);
    }

    #[test]
    fn a_precise_address_is_aside_of_the_kernels_callchain() {
        let role = |mode, chain: &[i64]| {
            let (steps, _) = Sampled { mode, ip: 7, chain: Some(chain), calls: None }.read();
            steps.into_iter().map(|(_, address, role)| (address, role)).collect::<Vec<_>>()
        };
        let plain = |address| (address, Plain);
        assert_eq!(
            role(User, &[-128, 100, 200, -512, 8, 50]),
            [(7, Aside), plain(100), plain(199), plain(8), plain(49)]
        );
        assert_eq!(role(User, &[-512, 7, 50]), [plain(7), plain(49)]);
        assert_eq!(role(Kernel, &[-128, 7, 200, -512, 8]), [plain(7), plain(199), plain(8)]);
    }

    #[test]
    fn chains_end_with_the_reason_of_their_cut() {
        let cut = |reason| (CpuMode::Unknown, StackFrame::cut(reason).address);
        let missing = cut(CutReason::NotRecorded);
        assert_eq!(found(Kernel, 100, &[-128, 100, -640]), [(Kernel, 100), missing]);
        let deep: Vec<i64> = std::iter::once(-512).chain(1..=127).collect();
        let whole = found(User, 1, &deep);
        assert_eq!((whole.len(), whole[127]), (128, cut(CutReason::ChainLimit)));
        assert_eq!(found(User, 1, &deep[..127]).len(), 126, "one less is whole");
        let names: Vec<String> = [CutReason::NotRecorded, CutReason::ChainLimit]
            .map(|reason| Cut::name(StackFrame::cut(reason).address - FIRST_MARK, &[]))
            .into();
        assert_eq!(
            names,
            ["[cut: user callchain not recorded]", "[cut: kernel's limit of callchains]"]
        );
    }

    #[test]
    fn calls_kept_by_the_cpu_replace_the_programs_part_of_the_callchain() {
        let calls = Some(&[(502, 600), (405, 500), (301, 400)][..]);
        let read = |mode, ip, chain| Sampled { mode, ip, chain, calls }.read();
        // In the program: where it was sampled, where that function was entered, and the calls.
        let (steps, recorded) = read(User, 610, Some(&[-512, 610, 1, 2]));
        let callers = [(User, 502, Plain), (User, 405, Plain), (User, 301, Plain)];
        assert_eq!(steps[..2], [(User, 610, Plain), (User, 600, Entered)]);
        assert_eq!(steps[2..], callers);
        assert_eq!(recorded, [(User, 600), (User, 502), (User, 405), (User, 301)]);
        // In the kernel: its part stays, and the program's innermost function is the one entered.
        let (steps, recorded) = read(Kernel, 100, Some(&[-128, 100, 200, -512, 610, 1]));
        let kernel = [(Kernel, 100, Plain), (Kernel, 199, Plain)];
        assert_eq!((&steps[..2], steps[2]), (&kernel[..], (User, 600, Plain)));
        assert_eq!(steps[3..], callers);
        assert_eq!(recorded[..3], [(Kernel, 100), (Kernel, 200), (User, 600)]);
        // A kernel thread has no program, whatever the CPU still keeps.
        assert_eq!(read(Kernel, 100, Some(&[-128, 100, 200])).0, kernel);
        // Without a recorded callchain the sample's mode shows it.
        let (steps, _) = read(User, 610, None);
        assert_eq!((steps[1], &steps[2..]), ((User, 600, Entered), &callers[..]));
        assert_eq!(read(Kernel, 100, None).0, [(Kernel, 100, Plain)]);
    }

    #[test]
    fn without_any_call_only_the_kernels_part_is_left() {
        let calls = Some(&[][..]);
        let chain = Some(&[-128, 100, 200, -512, 610, 1][..]);
        let (steps, _) = Sampled { mode: Kernel, ip: 100, chain, calls }.read();
        assert_eq!(steps, [(Kernel, 100, Plain), (Kernel, 199, Plain)]);
        let chain = Some(&[-512, 610, 1][..]);
        let (steps, _) = Sampled { mode: User, ip: 610, chain, calls }.read();
        assert_eq!(steps, [(User, 610, Plain)]);
    }
}
