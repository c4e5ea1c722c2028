//! Where pages of a process lie, and moving them: `move_pages(2)`.

use std::io;

use crate::sys;

/// Pages per call. The kernel holds the process's memory map for reading meanwhile, so a call must be
/// short: 4,096 pages take some 0.3 ms to ask for.
const BATCH: usize = 4096;

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// On this node.
    On(u32),
    /// Nowhere: never touched, swapped out, or only read so far and thus the page of zeroes that all share.
    Absent,
    /// The kernel does not tell, or could not move it: an errno. `EACCES`: other processes map it too and
    /// moving it takes `CAP_SYS_NICE`; `EBUSY`: in use at this moment; `ENOMEM`: no room on the node.
    Refused(i32),
}

impl PageState {
    /// The node, if the page lies on one.
    #[must_use]
    pub fn node(self) -> Option<u32> {
        match self {
            Self::On(node) => Some(node),
            Self::Absent | Self::Refused(_) => None,
        }
    }

    /// The kernel's number for it (`do_pages_stat_array` and `do_pages_move` in mm/migrate.c): a page that
    /// is not there is ENOENT, before Linux 6.2 EFAULT.
    fn of(status: libc::c_int) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::On(node),
            Err(_) if [-libc::ENOENT, -libc::EFAULT].contains(&status) => Self::Absent,
            Err(_) => Self::Refused(-status),
        }
    }
}

/// Where each page lies; addresses within a page mean the page. `None` for the pages of this process.
///
/// # Errors
/// `ESRCH` if the process ended or has no memory; `EPERM` without the right to trace it
/// (`ptrace_may_access`); `ENOSYS` on kernels without page migration.
pub fn states(pid: Option<u32>, pages: &[u64]) -> io::Result<Vec<PageState>> {
    let mut states = Vec::with_capacity(pages.len());
    for batch in pages.chunks(BATCH) {
        let status = sys::move_pages(pid.unwrap_or(0), batch, None)?;
        states.extend(status.into_iter().map(PageState::of));
    }
    Ok(states)
}

/// Moves pages, each to the node beside it, and tells where they lie now. The kernel does it in the calling
/// thread's time, a huge page as a whole: hand over as much as may take until the call returns.
///
/// # Errors
/// Those of [`states`]; `ENODEV` for a node that is not online, `EACCES` for one outside the process's
/// cpuset. Pages that do not move are not an error: their state says why.
pub fn move_to(pid: Option<u32>, pages: &[(u64, u32)]) -> io::Result<Vec<PageState>> {
    let mut states = Vec::with_capacity(pages.len());
    for batch in pages.chunks(BATCH) {
        let addresses: Vec<u64> = batch.iter().map(|&(address, _)| address).collect();
        let nodes = batch.iter().map(|&(_, node)| libc::c_int::try_from(node));
        let nodes: Vec<libc::c_int> = nodes
            .collect::<Result<_, _>>()
            .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        let status = sys::move_pages(pid.unwrap_or(0), &addresses, Some(&nodes))?;
        states.extend(status.into_iter().map(PageState::of));
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::page_size;

    #[test]
    fn numbers_of_the_kernel_become_states() {
        assert_eq!(PageState::of(3), PageState::On(3));
        assert_eq!(PageState::of(-libc::ENOENT), PageState::Absent);
        assert_eq!(PageState::of(-libc::EFAULT), PageState::Absent);
        assert_eq!(PageState::of(-libc::EBUSY), PageState::Refused(libc::EBUSY));
        assert_eq!(PageState::On(2).node(), Some(2));
        assert_eq!(PageState::Refused(libc::EBUSY).node(), None);
    }

    #[test]
    fn pages_of_a_process_are_found_and_moved_to_where_they_are() {
        let page = page_size();
        let mut memory = vec![0u8; 8 * page];
        let first = memory.as_ptr() as usize / page * page + page;
        for index in 0..4 {
            let at = first + index * page - memory.as_ptr() as usize;
            memory[at] = 1;
        }
        let addresses: Vec<u64> = (0..4).map(|index| (first + index * page) as u64).collect();
        let own = std::process::id();
        let states = match states(Some(own), &addresses) {
            Err(error)
                if [Some(libc::ENOSYS), Some(libc::EPERM)].contains(&error.raw_os_error()) =>
            {
                eprintln!("skipped: move_pages: {error}");
                return;
            }
            other => other.unwrap(),
        };
        let node = states[0].node().unwrap();
        assert_eq!(states, vec![PageState::On(node); 4]);
        let wanted: Vec<(u64, u32)> = addresses.iter().map(|&address| (address, node)).collect();
        assert_eq!(move_to(Some(own), &wanted).unwrap(), states);
        let error = move_to(Some(own), &[(addresses[0], 1000)]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(
            move_to(Some(own), &[(0, u32::MAX)]).unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
    }
}
