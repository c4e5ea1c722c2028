//! Uprobe events that a recording defines for itself: trace events at places in files, each time a process runs over
//! one of them (Documentation/trace/uprobetracer.rst).
//!
//! The kernel also opens uprobes without a definition (the `uprobe` PMU), but not for children: an event that is
//! inherited reads the path of its file once more, in the memory of the process that forks, so its `fork` fails. Events
//! of tracefs are inherited as any tracepoint.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use crate::error::errno_text;
use crate::{Machine, MachineError};

/// Systems of our events: with the process that defines them, so that recordings do not share any.
const SYSTEM: &str = "pmuscope_";

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UprobePlace {
    /// The file, as this process can open it.
    pub file: PathBuf,
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// What a sample carries, in the syntax of the kernel: `size=%di:u64`.
    pub arguments: String,
}

/// An event: one for all its places, which have the same names and types of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UprobeDefinition {
    /// Its name, a word.
    pub name: &'static str,
    /// Whether it happens when the function that begins at the place returns.
    pub at_return: bool,
    /// Where. Not empty.
    pub places: Vec<UprobePlace>,
}

/// Why no event could be defined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UprobeError {
    /// tracefs cannot be reached.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The list of uprobes cannot be written.
    #[error("cannot write {}: {}. Uprobes need root. Try: sudo pmuscope ...", path.display(), said(source))]
    Denied {
        /// The list.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// This kernel was built without uprobes.
    #[error("this kernel has no uprobes (CONFIG_UPROBE_EVENTS): there is no {}", path.display())]
    Unsupported {
        /// The list that is not there.
        path: PathBuf,
    },
    /// The kernel refused a place.
    #[error("cannot set a uprobe at {:#x} of {}: {}", .place.offset, .place.file.display(), said(source))]
    Refused {
        /// The place.
        place: UprobePlace,
        /// What the kernel said.
        source: io::Error,
    },
}

impl UprobeError {
    /// Whether the right to do it is missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Machine(error) => error.is_denied(),
            Self::Denied { .. } => true,
            _ => false,
        }
    }
}

fn said(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), errno_text)
}

/// Uprobe events that are there until this is dropped; events that are still open then keep theirs.
#[derive(Debug)]
pub struct UprobeEvents {
    list: PathBuf,
    system: String,
    /// Name and number of each.
    events: Vec<(&'static str, u64)>,
}

impl UprobeEvents {
    /// Defines events. What ended processes left behind is removed.
    ///
    /// # Errors
    /// See [`UprobeError`]; nothing is left then.
    pub fn define(
        machine: &Machine,
        definitions: &[UprobeDefinition],
    ) -> Result<Self, UprobeError> {
        let list = machine.tracefs()?.join("uprobe_events");
        let system = format!("{SYSTEM}{}", std::process::id());
        remove_abandoned(machine, &list);
        let mut events = Self { list, system, events: Vec::new() };
        for definition in definitions {
            events.add(machine, definition)?;
        }
        Ok(events)
    }

    fn add(&mut self, machine: &Machine, definition: &UprobeDefinition) -> Result<(), UprobeError> {
        let UprobeDefinition { name, at_return, places } = definition;
        let kind = if *at_return { 'r' } else { 'p' };
        for (number, place) in places.iter().enumerate() {
            let refused = |source| UprobeError::Refused { place: place.clone(), source };
            let file = File::open(&place.file).map_err(refused)?;
            let line = format!(
                "{kind}:{}/{name} /proc/self/fd/{}:{:#x} {}",
                self.system,
                file.as_raw_fd(),
                place.offset,
                place.arguments
            );
            let mut list = open(&self.list)?;
            // One write is one command.
            list.write_all(line.as_bytes()).map_err(refused)?;
            if number == 0 {
                // Removed in the end, whatever comes now.
                self.events.push((*name, 0));
            }
        }
        let id = machine.tracepoint_id(&self.system, name)?;
        if let Some(event) = self.events.last_mut() {
            event.1 = id;
        }
        Ok(())
    }

    /// The `attr.config` of an event; `None` if it was not defined.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u64> {
        self.events.iter().find(|event| event.0 == name).map(|event| event.1)
    }
}

impl Drop for UprobeEvents {
    fn drop(&mut self) {
        for (name, _) in &self.events {
            remove(&self.list, &self.system, name);
        }
    }
}

/// Opens the list to append: opening it to write from the beginning removes all uprobes of the machine.
fn open(list: &Path) -> Result<File, UprobeError> {
    OpenOptions::new().append(true).open(list).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => UprobeError::Unsupported { path: list.to_owned() },
        _ => UprobeError::Denied { path: list.to_owned(), source },
    })
}

/// An event that is open somewhere stays; the next recording tries again.
fn remove(list: &Path, system: &str, name: &str) {
    if let Ok(mut list) = open(list) {
        let _ = list.write_all(format!("-:{system}/{name}").as_bytes());
    }
}

/// Removes the events of recordings that were killed.
fn remove_abandoned(machine: &Machine, list: &Path) {
    let Ok(text) = std::fs::read_to_string(list) else { return };
    let mut events: Vec<(&str, &str)> = text.lines().filter_map(definition).collect();
    events.sort_unstable();
    events.dedup();
    for (system, name) in events {
        let pid = system.strip_prefix(SYSTEM).and_then(|pid| pid.parse::<u32>().ok());
        let is_abandoned = |pid: u32| !machine.root().join(format!("proc/{pid}")).exists();
        if pid.is_some_and(is_abandoned) {
            remove(list, system, name);
        }
    }
}

/// System and name in a line of the list: `p:system/name path:offset …`.
fn definition(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_whitespace().next()?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_name_their_event() {
        let line = "r:pmuscope_7/alloc_return /proc/self/fd/5:0x98930 address=$retval:x64";
        assert_eq!(definition(line), Some(("pmuscope_7", "alloc_return")));
        assert_eq!(definition("p:one /bin/sh:0x10"), None);
        assert_eq!(definition(""), None);
    }

    #[test]
    fn a_kernel_without_uprobes_is_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/kernel/tracing/events")).unwrap();
        let place = UprobePlace { file: "/bin/sh".into(), offset: 16, arguments: String::new() };
        let one = UprobeDefinition { name: "x", at_return: false, places: vec![place] };
        let error = UprobeEvents::define(&Machine::at(root.path()), &[one]).unwrap_err();
        assert!(matches!(error, UprobeError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("CONFIG_UPROBE_EVENTS"));
    }
}
