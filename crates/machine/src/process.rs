//! Processes and threads that run now.

use std::io;

use serde::Serialize;

use crate::{Machine, MachineError};

/// A line of `stat` or a `status` file; comm is at most 16 bytes, everything else are numbers.
pub(crate) const TASK_BYTES: u64 = 1 << 16;

/// Process ids of all that there can be.
const CHILDREN_BYTES: u64 = 1 << 25;

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Its name, raw bytes: a process chooses it freely, so escape it before printing.
    pub comm: Vec<u8>,
    /// Process id of the parent; 0 for init, kernel threads' parent, and outside this pid namespace.
    pub ppid: u32,
    /// Process id of the process it belongs to.
    pub tgid: u32,
    /// When it started, clock ticks (`sysconf(_SC_CLK_TCK)`) since boot: tells reused ids apart.
    pub start: u64,
}

impl Machine {
    /// Process ids, ascending: `/proc`.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, MachineError> {
        self.numbered("proc", "")
    }

    /// The id that was given to a task last, in the process id namespace of this program: `/proc/loadavg`
    /// (`loadavg_proc_show` in the kernel's `fs/proc/loadavg.c`). Ids go up until they begin anew from below, and threads
    /// take some, too.
    #[must_use]
    pub fn newest_task(&self) -> Option<u32> {
        self.text("proc/loadavg").ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }

    /// Whether a task is a process, and not a further thread of one; `false` if there is none: `/proc/TID/status`.
    #[must_use]
    pub fn is_process(&self, tid: u32) -> bool {
        let Some(status) = self.text_if_any(format!("proc/{tid}/status")) else { return false };
        let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        leader.and_then(|leader| leader.trim().parse().ok()) == Some(tid)
    }

    /// Name of a process, which is that of its first thread; `None` if it has ended: `/proc/PID/comm`.
    #[must_use]
    pub fn process_name(&self, pid: u32) -> Option<Vec<u8>> {
        let mut name = self.bytes(format!("proc/{pid}/comm"), TASK_BYTES).ok()?;
        name.pop_if(|last| *last == b'\n');
        Some(name)
    }

    /// Memory of a process that is resident, bytes; `None` if it has ended, 0 for threads of the kernel:
    /// `/proc/PID/statm`.
    #[must_use]
    pub fn resident_bytes(&self, pid: u32) -> Option<u64> {
        let pages = self.text_if_any(format!("proc/{pid}/statm"))?;
        let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
        Some(resident * crate::place::page_size() as u64)
    }

    /// Thread ids of a process, ascending, its own included: `/proc/PID/task`.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended.
    pub fn threads(&self, pid: u32) -> Result<Vec<u32>, MachineError> {
        let threads = self.numbered(format!("proc/{pid}/task"), "");
        threads.map_err(|error| gone(error, pid))
    }

    /// Number of threads of a process, all counted at the same moment: `Threads` of `/proc/PID/status`.
    /// ([`Machine::threads`] reads one after the other, and ends early where the one it read last is
    /// gone.)
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended.
    pub fn thread_count(&self, pid: u32) -> Result<usize, MachineError> {
        let file = format!("proc/{pid}/status");
        let status = self.bytes(&file, TASK_BYTES).map_err(|error| gone(error, pid))?;
        number_of(&status, b"Threads:").ok_or_else(|| {
            let found = String::from_utf8_lossy(&status);
            MachineError::malformed(&self.path(&file), "a line with Threads", &found)
        })
    }

    /// Processes that this one started and that still run: `/proc/PID/task/*/children`, or, on kernels
    /// without `CONFIG_PROC_CHILDREN`, all processes asked for their parent.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended.
    pub fn children(&self, pid: u32) -> Result<Vec<u32>, MachineError> {
        let mut children = Vec::new();
        for tid in self.threads(pid)? {
            let file = format!("proc/{pid}/task/{tid}/children");
            match self.bytes(&file, CHILDREN_BYTES) {
                Ok(list) => {
                    let list = String::from_utf8_lossy(&list);
                    children.extend(
                        list.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()),
                    );
                }
                // Either the kernel has no such file, or the thread just ended.
                Err(_) if tid == pid => return self.children_by_parent(pid),
                Err(_) => {}
            }
        }
        children.sort_unstable();
        Ok(children)
    }

    fn children_by_parent(&self, pid: u32) -> Result<Vec<u32>, MachineError> {
        let of_parent =
            |&process: &u32| self.task(process, process).is_ok_and(|task| task.ppid == pid);
        Ok(self.processes()?.into_iter().filter(of_parent).collect())
    }

    /// A thread: `/proc/PID/task/TID/{stat,status}`.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the thread ended.
    pub fn task(&self, pid: u32, tid: u32) -> Result<Task, MachineError> {
        let folder = format!("proc/{pid}/task/{tid}");
        let file = format!("{folder}/stat");
        let stat = self.bytes(&file, TASK_BYTES).map_err(|error| gone(error, pid))?;
        let status = self.bytes(format!("{folder}/status"), TASK_BYTES);
        let status = status.map_err(|error| gone(error, pid))?;
        parse_task(&stat, &status).ok_or_else(|| {
            let found = String::from_utf8_lossy(&stat);
            MachineError::malformed(&self.path(&file), "the fields of proc_pid_stat(5)", &found)
        })
    }
}

/// A process that ends while it is read gives ENOENT, or ESRCH once a file was open.
pub(crate) fn gone(error: MachineError, pid: u32) -> MachineError {
    match &error {
        MachineError::Read { source, .. }
            if source.kind() == io::ErrorKind::NotFound
                || source.raw_os_error() == Some(libc::ESRCH) =>
        {
            MachineError::Gone { pid }
        }
        _ => error,
    }
}

/// `stat` has the name raw, between the first opening and the last closing parenthesis.
fn parse_task(stat: &[u8], status: &[u8]) -> Option<Task> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let comm = stat.get(open + 1..close)?.to_vec();
    let mut fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace();
    // Fields 3 (state), 4 (ppid), and 22 (starttime).
    let ppid = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    let tgid = number_of(status, b"Tgid:")?;
    Some(Task { comm, ppid, tgid, start })
}

/// A number of a `status` file.
fn number_of<N: std::str::FromStr>(status: &[u8], name: &[u8]) -> Option<N> {
    let text = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str =
        " S 17 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 50 18446744073709551615";

    #[test]
    fn a_name_may_hold_anything() {
        for comm in ["cat", "a) R 1 (b", "((", "", "\u{1b}[31m\n", "a b"] {
            let stat = format!("42 ({comm}){TAIL}");
            let task = parse_task(stat.as_bytes(), b"Name:\tx\nTgid:\t40\nPid:\t42\n").unwrap();
            assert_eq!(task, Task { comm: comm.into(), ppid: 17, tgid: 40, start: 98765 });
        }
        let raw = [b"42 (\xff\xfe)".as_slice(), TAIL.as_bytes()].concat();
        assert_eq!(parse_task(&raw, b"Tgid:\t40\n").unwrap().comm, b"\xff\xfe");
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        let machine = Machine::host();
        let resident = machine.resident_bytes(std::process::id()).unwrap();
        let page = crate::place::page_size() as u64;
        assert!(resident > page && resident.is_multiple_of(page), "{resident}");
        assert_eq!(machine.resident_bytes(u32::MAX >> 1), None);
    }

    #[test]
    fn children_are_found_either_way() {
        let machine = Machine::host();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let by_file = machine.children(own).unwrap();
        let by_parent = machine.children_by_parent(own).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(by_file.contains(&child.id()), "{by_file:?}");
        assert!(by_parent.contains(&child.id()), "{by_parent:?}");
        assert!(machine.children(u32::MAX >> 1).unwrap_err().is_gone());
    }

    #[test]
    fn a_cut_or_foreign_file_is_refused() {
        let stat = format!("42 (cat){TAIL}");
        for length in 0..stat.find("98765").unwrap() {
            assert_eq!(parse_task(&stat.as_bytes()[..length], b"Tgid:\t1\n"), None, "{length}");
        }
        assert_eq!(parse_task(stat.as_bytes(), b"Name:\tx\n"), None);
        assert_eq!(parse_task(b")(", b"Tgid:\t1\n"), None);
    }
}
