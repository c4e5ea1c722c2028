//! Who observes processes: debuggers that trace them, and whoever has performance events open.

use std::fs;

use serde::Serialize;

use crate::process::gone;
use crate::{Machine, MachineError};

/// `status` of a process; longer than any.
const STATUS_BYTES: u64 = 1 << 16;
/// What a descriptor of a performance event is a link to.
const EVENT: &str = "anon_inode:[perf_event]";

/// A process that has performance events open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventHolder {
    /// Its id.
    pub pid: u32,
    /// Its name; control characters and other bytes are for the reader to escape.
    pub name: String,
    /// How many descriptors: of events of any kind, as `/proc` does not tell them apart.
    pub descriptors: usize,
}

impl Machine {
    /// The process that traces this one or its thread (a debugger): `TracerPid` of `/proc/PID/status`; `None`
    /// if none does.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if it ended.
    pub fn tracer(&self, pid: u32) -> Result<Option<u32>, MachineError> {
        let file = format!("proc/{pid}/status");
        let status = self.bytes(&file, STATUS_BYTES).map_err(|error| gone(error, pid))?;
        let status = String::from_utf8_lossy(&status);
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        Ok(line.and_then(|text| text.trim().parse().ok()).filter(|&tracer| tracer != 0))
    }

    /// The name of a process or thread, as the kernel has it: `/proc/PID/comm`.
    pub fn name_of(&self, pid: u32) -> Option<String> {
        self.text_if_any(format!("proc/{pid}/comm"))
    }

    /// Processes that have performance events open, by id, and whether all were looked into: the
    /// descriptors of others' processes are shown to root only.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn event_holders(&self) -> Result<(Vec<EventHolder>, bool), MachineError> {
        let (mut holders, mut all) = (Vec::new(), true);
        for pid in self.processes()? {
            let folder = self.path(format!("proc/{pid}/fd"));
            let links = match fs::read_dir(&folder) {
                Ok(links) => links,
                // It has ended, or is not ours to look into.
                Err(error) => {
                    all &= error.kind() != std::io::ErrorKind::PermissionDenied;
                    continue;
                }
            };
            let is_event = |path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == EVENT);
            let descriptors = links.flatten().filter(|link| is_event(link.path())).count();
            if descriptors > 0 {
                let name = self.name_of(pid).unwrap_or_default();
                holders.push(EventHolder { pid, name, descriptors });
            }
        }
        Ok((holders, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn process(root: &Path, pid: u32, name: &str, tracer: u32, links: &[&str]) {
        let folder = root.join(format!("proc/{pid}"));
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        let status = format!("Name:\t{name}\nTracerPid:\t{tracer}\nUid:\t0\n");
        fs::write(folder.join("status"), status).unwrap();
        for (number, link) in links.iter().enumerate() {
            symlink(link, folder.join(format!("fd/{number}"))).unwrap();
        }
    }

    #[test]
    fn tracers_and_holders_of_events_are_found_by_what_proc_shows() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        process(root.path(), 7, "server", 9, &["/dev/null", "socket:[12]"]);
        process(root.path(), 9, "gdb", 0, &["pipe:[1]"]);
        process(root.path(), 12, "perf", 0, &[EVENT, "anon_inode:[eventfd]", EVENT]);
        assert_eq!(machine.tracer(7).unwrap(), Some(9));
        assert_eq!(machine.tracer(9).unwrap(), None);
        assert!(machine.tracer(8).unwrap_err().is_gone());
        assert_eq!(machine.name_of(9).as_deref(), Some("gdb"));
        let perf = EventHolder { pid: 12, name: "perf".to_owned(), descriptors: 2 };
        assert_eq!(machine.event_holders().unwrap(), (vec![perf], true));
    }
}
