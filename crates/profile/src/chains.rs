//! Call chains: what the entries of a sample's chain mean, and what a thread's chains share.
//!
//! Distinct chains are the nodes of a [`Tree`] of places: a sample costs the steps in which it differs
//! from its thread's last one, and each distinct caller is kept once.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::Hit;

use crate::lookup::Holds;
use crate::spaces::ViewId;
use crate::tree::Tree;

/// The marks between parts of a chain are the topmost values (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = (-4095_i64) as u64;

/// Where a sample was taken, or a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) mode: CpuMode,
    /// An address within the call, or within the interrupted instruction.
    pub(crate) address: u64,
}

/// Mode of what follows a mark, as `enum perf_callchain_context` has them.
fn mode_of(mark: u64) -> CpuMode {
    match (mark as i64).wrapping_neg() {
        32 => CpuMode::Hypervisor,
        128 => CpuMode::Kernel,
        512 | 640 => CpuMode::User,
        2176 => CpuMode::GuestKernel,
        2048 | 2560 => CpuMode::GuestUser,
        _ => CpuMode::Unknown,
    }
}

/// Where a sample was taken, if it tells, and its callers, the innermost first.
///
/// ```text
///  KERNEL  ip  return  return  USER  ip  return  return
///          └─ the sample itself      └─ where the program was interrupted
/// ```
/// A return address is that behind the call, which may be another line or function: one before it is
/// within the call.
pub(crate) fn steps(hit: &Hit<'_>, steps: &mut Vec<Step>) {
    steps.clear();
    steps.extend(hit.ip.map(|address| Step { mode: hit.mode, address }));
    let mut mode = hit.mode;
    let (mut is_first, mut is_leaf) = (true, true);
    for word in hit.chain {
        let entry = u64::from_ne_bytes(*word);
        if entry >= FIRST_MARK {
            mode = mode_of(entry);
            is_first = true;
            continue;
        }
        // Where the sample itself tells its address, the chain starts with the same.
        if !(is_leaf && is_first && mode == hit.mode && hit.ip.is_some()) {
            let address = if is_first { entry } else { entry.wrapping_sub(1) };
            steps.push(Step { mode, address });
        }
        (is_first, is_leaf) = (false, false);
    }
}

/// A step of a thread's last chain, and what it came to.
#[derive(Debug, Clone, Copy)]
struct Reached {
    step: Step,
    /// The node of this step under all before it.
    node: u32,
    /// When this and all before it hold.
    holds: Holds,
}

/// A thread's last chain, the outermost caller first.
///
/// From one sample of a thread to the next mostly the innermost steps change:
///
/// ```text
///  last   main ─ run ─ parse ─ read ─ memcpy
///  next   main ─ run ─ parse ─ next
///         └──── shared ────┘   └ looked up
/// ```
#[derive(Debug, Clone, Default)]
pub(crate) struct Last {
    view: Option<ViewId>,
    path: Vec<Reached>,
}

impl Last {
    /// Drops what a chain in `view` (`steps`, the innermost first) does not share, or what does not
    /// hold at `stamp`. Returns the number of steps that are left.
    #[inline]
    pub(crate) fn keep_shared(&mut self, view: ViewId, stamp: u64, steps: &[Step]) -> usize {
        if self.view != Some(view) {
            self.view = Some(view);
            self.path.clear();
        }
        let is_equal = |(reached, step): &(&Reached, &Step)| reached.step == **step;
        let mut shared = self.path.iter().zip(steps.iter().rev()).take_while(is_equal).count();
        while shared > 0 && !self.path[shared - 1].holds.at(stamp) {
            shared -= 1;
        }
        self.path.truncate(shared);
        shared
    }

    /// The node of the chain so far, and when it holds.
    #[inline]
    pub(crate) fn end(&self) -> (u32, Holds) {
        self.path.last().map_or((Tree::ROOT, Holds::ALWAYS), |last| (last.node, last.holds))
    }

    #[inline]
    pub(crate) fn push(&mut self, step: Step, node: u32, holds: Holds) {
        self.path.push(Reached { step, node, holds });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mode: CpuMode, ip: u64, entries: &[i64]) -> Vec<(CpuMode, u64)> {
        let chain: Vec<[u8; 8]> = entries.iter().map(|entry| entry.to_ne_bytes()).collect();
        let hit = Hit {
            event: 0,
            mode,
            ip: Some(ip),
            task: None,
            time: 0,
            cpu: None,
            period: None,
            read: None,
            chain: &chain,
            user: None,
        };
        let mut found = Vec::new();
        steps(&hit, &mut found);
        found.into_iter().map(|step| (step.mode, step.address)).collect()
    }

    #[test]
    fn marks_tell_the_mode_and_the_first_of_each_part_is_no_return_address() {
        use CpuMode::{Kernel, User};
        let whole = found(Kernel, 100, &[-128, 100, 200, 300, -512, 40, 50]);
        assert_eq!(whole, [(Kernel, 100), (Kernel, 199), (Kernel, 299), (User, 40), (User, 49)]);
        // Only the program's part: the sample was taken in the kernel.
        assert_eq!(found(Kernel, 100, &[-512, 40, 50]), [(Kernel, 100), (User, 40), (User, 49)]);
        assert_eq!(found(User, 7, &[7, 9]), [(User, 7), (User, 8)]);
        assert_eq!(found(User, 7, &[]), [(User, 7)]);
    }
}
