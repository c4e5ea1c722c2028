//! Placement of threads, and of pages of this process. ([`crate::pages`] has those of others.)

use std::io;

use crate::pages::{self, PageState};
use crate::{CpuSet, sys};

/// What system calls take for the calling thread.
const CALLING: u32 = 0;

/// Far beyond the largest kernel; ends the search for a mask that is large enough.
const MAX_MASK_WORDS: usize = (CpuSet::MAX / u64::BITS) as usize;

/// The CPUs the calling thread may run on: `sched_getaffinity(2)`.
///
/// # Errors
/// What the kernel says.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(CALLING)
}

/// The CPUs that a thread may run on, as far as they are online.
///
/// # Errors
/// What the kernel says: `ESRCH` if the thread ended.
pub fn affinity_of(tid: u32) -> io::Result<CpuSet> {
    // The kernel wants room for every CPU that it could ever have, and refuses a smaller mask.
    let mut words = vec![0u64; 16];
    loop {
        match sys::sched_getaffinity(tid, &mut words) {
            Ok(()) => return Ok(CpuSet::from_words(words)),
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            Err(error) if words.len() >= MAX_MASK_WORDS => return Err(error),
            Err(_) => {
                let longer = words.len() * 2;
                words.clear();
                words.resize(longer, 0);
            }
        }
    }
}

/// Lets the calling thread run on these CPUs only: `sched_setaffinity(2)`.
///
/// # Errors
/// `EINVAL` if none of them is online and in the process's cpuset.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    set_affinity_of(CALLING, cpus)
}

/// Lets a thread run on these CPUs only.
///
/// # Errors
/// `ESRCH` if the thread ended; `EPERM` for another user's without `CAP_SYS_NICE`; `EINVAL` if none of the
/// CPUs is online and in the thread's cpuset.
pub fn set_affinity_of(tid: u32, cpus: &CpuSet) -> io::Result<()> {
    sys::sched_setaffinity(tid, cpus.words())
}

/// The CPU the calling thread runs on at this moment.
pub fn current_cpu() -> u32 {
    sys::sched_getcpu()
}

/// Bytes of a page.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Binds whole pages to one NUMA node (`mbind(2)`, `MPOL_BIND`): pages present move there, later ones
/// are only taken from there. A kernel without NUMA has node 0 only, where everything already is.
///
/// # Errors
/// `InvalidInput` if the memory does not start and end at a page boundary; `EINVAL` for a node that does
/// not exist, is not online or not allowed by the cpuset; `EIO` if a page present could not move.
pub fn bind_to_node(memory: &mut [u8], node: u32) -> io::Result<()> {
    let page = page_size();
    if !(memory.as_ptr() as usize).is_multiple_of(page) || !memory.len().is_multiple_of(page) {
        let message = format!(
            "memory to bind to NUMA node {node} must be whole pages of {page} bytes; it has {} \
             bytes at {:p}",
            memory.len(),
            memory.as_ptr()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if memory.is_empty() {
        return Ok(());
    }
    let mut mask = CpuSet::new();
    if !mask.insert(node) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    match sys::mbind(memory, mask.words()) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && node == 0 => Ok(()),
        other => other,
    }
}

/// The NUMA node of each page that the memory touches (`move_pages(2)` asking only); `None` for a page
/// that is not present (never touched, or swapped out).
///
/// # Errors
/// What the kernel says, such as `ENOSYS` without NUMA.
pub fn node_of_pages(memory: &[u8]) -> io::Result<Vec<Option<u32>>> {
    if memory.is_empty() {
        return Ok(Vec::new());
    }
    let page = page_size();
    let first = memory.as_ptr() as usize / page * page;
    let end = memory.as_ptr() as usize + memory.len();
    let addresses: Vec<u64> = (first..end).step_by(page).map(|address| address as u64).collect();
    let states = pages::states(None, &addresses)?;
    Ok(states.into_iter().map(PageState::node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn a_thread_goes_where_it_is_sent_and_back() {
        let before = affinity().unwrap();
        assert!(before.contains(current_cpu()));
        for cpu in &before {
            set_affinity(&CpuSet::from_iter([cpu])).unwrap();
            assert_eq!(current_cpu(), cpu);
            assert_eq!(affinity().unwrap().to_string(), cpu.to_string());
        }
        set_affinity(&before).unwrap();
        assert_eq!(affinity().unwrap(), before);
    }

    #[test]
    fn no_cpu_at_all_is_refused() {
        assert_eq!(set_affinity(&CpuSet::new()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    /// Whole pages inside a larger allocation.
    fn pages(memory: &mut Vec<u8>, count: usize) -> &mut [u8] {
        let page = page_size();
        memory.resize((count + 1) * page, 0);
        let start = memory.as_ptr().align_offset(page);
        &mut memory[start..start + count * page]
    }

    #[test]
    fn bound_pages_lie_on_their_node() {
        let online = Machine::host().topology().unwrap();
        let node = online.nodes.iter().find(|node| node.memory_bytes != Some(0)).unwrap().id;
        let mut memory = Vec::new();
        let memory = pages(&mut memory, 8);
        match bind_to_node(memory, node) {
            // Container runtimes filter mbind.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!("skipped: mbind is not permitted here");
                return;
            }
            other => other.unwrap(),
        }
        memory.fill(1);
        match node_of_pages(memory) {
            Ok(nodes) => assert_eq!(nodes, vec![Some(node); 8]),
            Err(error) => eprintln!("skipped: move_pages: {error}"),
        }
    }

    #[test]
    fn half_a_page_is_not_bound() {
        let mut memory = Vec::new();
        let memory = pages(&mut memory, 2);
        let error = bind_to_node(&mut memory[1..], 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let short = memory.len() - 1;
        assert!(bind_to_node(&mut memory[..short], 0).is_err());
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        let mut memory = Vec::new();
        let memory = pages(&mut memory, 1);
        assert!(bind_to_node(memory, 1000).is_err());
        assert!(bind_to_node(memory, u32::MAX).is_err());
    }

    #[test]
    fn every_touched_page_is_listed() {
        let mut memory = Vec::new();
        let memory = pages(&mut memory, 3);
        memory.fill(1);
        let page = page_size();
        match node_of_pages(&memory[page - 1..page + 1]) {
            Ok(nodes) => assert_eq!(nodes.len(), 2),
            Err(error) => eprintln!("skipped: move_pages: {error}"),
        }
        assert_eq!(node_of_pages(&[]).unwrap(), []);
    }
}
