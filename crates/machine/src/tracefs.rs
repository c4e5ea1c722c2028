//! Tracepoints by name.

use std::io;
use std::path::PathBuf;

use crate::{Machine, MachineError};

/// The longest formats (of system calls) have a few KiB.
const FORMAT_BYTES: u64 = 1 << 20;
/// Where tracefs is mounted: its own place, and the one inside debugfs.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

impl Machine {
    /// The `attr.config` of a tracepoint: `events/SYSTEM/NAME/id` of tracefs.
    ///
    /// # Errors
    /// [`MachineError::NoTracefs`], [`MachineError::TracefsDenied`] or [`MachineError::NoTracepoint`].
    pub fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        let unknown =
            || MachineError::NoTracepoint { system: system.to_owned(), name: name.to_owned() };
        if !is_file_name(system) || !is_file_name(name) {
            return Err(unknown());
        }
        let file = format!("{}/events/{system}/{name}/id", self.tracefs_place()?);
        let text = match self.text(&file) {
            Ok(text) => text,
            Err(MachineError::Read { path, source }) => {
                return Err(match source.kind() {
                    io::ErrorKind::PermissionDenied => MachineError::TracefsDenied { path, source },
                    _ => unknown(),
                });
            }
            Err(other) => return Err(other),
        };
        let malformed = |_| MachineError::malformed(&self.path(&file), "a number", &text);
        text.parse().map_err(malformed)
    }

    /// The fields of a tracepoint, as the kernel describes them: `events/SYSTEM/NAME/format` of tracefs.
    ///
    /// # Errors
    /// As [`Machine::tracepoint_id`].
    pub fn tracepoint_format(&self, system: &str, name: &str) -> Result<Vec<u8>, MachineError> {
        self.tracepoint_id(system, name)?;
        self.trace_file(&format!("{system}/{name}/format"))
    }

    /// How pages and events of the kernel's own trace buffers look: `events/header_page` and
    /// `events/header_event` of tracefs.
    ///
    /// # Errors
    /// [`MachineError::NoTracefs`] or [`MachineError::TracefsDenied`].
    pub fn trace_headers(&self) -> Result<[Vec<u8>; 2], MachineError> {
        Ok([self.trace_file("header_page")?, self.trace_file("header_event")?])
    }

    fn trace_file(&self, below_events: &str) -> Result<Vec<u8>, MachineError> {
        let file = format!("{}/events/{below_events}", self.tracefs_place()?);
        self.bytes(file, FORMAT_BYTES).map_err(denied)
    }

    /// All tracepoints as (system, name), sorted: the folders of `events` of tracefs.
    ///
    /// # Errors
    /// [`MachineError::NoTracefs`] or [`MachineError::TracefsDenied`].
    pub fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        let events = format!("{}/events", self.tracefs_place()?);
        let mut all = Vec::new();
        for system in self.names(&events).map_err(denied)? {
            // Control files stand beside the folders; what is no folder has no names.
            let Ok(names) = self.names(format!("{events}/{system}")) else { continue };
            for name in names {
                if self.path(format!("{events}/{system}/{name}/id")).is_file() {
                    all.push((system.clone(), name));
                }
            }
        }
        Ok(all)
    }

    /// Where tracefs is mounted, for those who read further files of it.
    ///
    /// # Errors
    /// [`MachineError::NoTracefs`] or [`MachineError::TracefsDenied`].
    pub fn tracefs(&self) -> Result<PathBuf, MachineError> {
        Ok(self.path(self.tracefs_place()?))
    }

    fn tracefs_place(&self) -> Result<&'static str, MachineError> {
        let mut refused = None;
        for place in PLACES {
            let path = self.path(format!("{place}/events"));
            match std::fs::read_dir(&path) {
                Ok(_) => return Ok(place),
                Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert(MachineError::TracefsDenied { path, source });
                }
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or(MachineError::NoTracefs))
    }
}

fn denied(error: MachineError) -> MachineError {
    match error {
        MachineError::Read { path, source } => MachineError::TracefsDenied { path, source },
        other => other,
    }
}

/// Whether a name from the user stays inside its folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}
