//! Call chains: what the entries of a sample's chain mean, and each distinct chain once.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::Hit;

use crate::table::{Table, mix};

/// The marks between parts of a chain are the topmost values (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = (-4095_i64) as u64;

/// A caller.
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

/// The callers of a sample, the innermost first.
///
/// ```text
///  KERNEL  ip  return  return  USER  ip  return  return
///          └─ the sample itself      └─ where the program was interrupted
/// ```
/// A return address is that behind the call, which may be another line or function: one before it is
/// within the call.
pub(crate) fn steps(hit: &Hit<'_>, steps: &mut Vec<Step>) {
    steps.clear();
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

/// Lists of numbers, each once.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    numbers: Vec<u32>,
    /// Where each list ends.
    ends: Vec<u32>,
    table: Table,
}

impl Chains {
    #[inline]
    pub(crate) fn intern(&mut self, chain: &[u32]) -> u32 {
        let Self { numbers, ends, table } = self;
        let hash = chain.iter().fold(chain.len() as u64, |hash, &place| mix(hash, place.into()));
        let new = ends.len() as u32;
        let index = table.find_or_insert(hash, new, |index| list(numbers, ends, index) == chain);
        if index == new {
            numbers.extend_from_slice(chain);
            ends.push(numbers.len() as u32);
        }
        index
    }

    /// The list with a number.
    pub(crate) fn get(&self, index: u32) -> &[u32] {
        list(&self.numbers, &self.ends, index)
    }

    /// Number of lists.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn list<'a>(numbers: &'a [u32], ends: &[u32], index: u32) -> &'a [u32] {
    let start = index.checked_sub(1).map_or(0, |before| ends[before as usize]);
    &numbers[start as usize..ends[index as usize] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn callers(mode: CpuMode, ip: u64, entries: &[i64]) -> Vec<(CpuMode, u64)> {
        let chain: Vec<[u8; 8]> = entries.iter().map(|entry| entry.to_ne_bytes()).collect();
        let hit = Hit {
            event: 0,
            mode,
            ip: Some(ip),
            task: None,
            time: 0,
            cpu: None,
            period: None,
            chain: &chain,
        };
        let mut found = Vec::new();
        steps(&hit, &mut found);
        found.into_iter().map(|step| (step.mode, step.address)).collect()
    }

    #[test]
    fn marks_tell_the_mode_and_the_first_of_each_part_is_no_return_address() {
        use CpuMode::{Kernel, User};
        let found = callers(Kernel, 100, &[-128, 100, 200, 300, -512, 40, 50]);
        assert_eq!(found, [(Kernel, 199), (Kernel, 299), (User, 40), (User, 49)]);
        // Only the program's part: the sample was taken in the kernel.
        assert_eq!(callers(Kernel, 100, &[-512, 40, 50]), [(User, 40), (User, 49)]);
        assert_eq!(callers(User, 7, &[7, 9]), [(User, 8)]);
        assert_eq!(callers(User, 7, &[]), []);
    }

    proptest! {
        #[test]
        fn lists_come_back(lists in proptest::collection::vec(
            proptest::collection::vec(0_u32..3, 0..4), 0..200)) {
            let mut chains = Chains::default();
            let numbers: Vec<u32> = lists.iter().map(|list| chains.intern(list)).collect();
            for (list, &number) in lists.iter().zip(&numbers) {
                prop_assert_eq!(chains.get(number), &list[..]);
            }
            let mut distinct = lists;
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(chains.len(), distinct.len());
        }
    }
}
