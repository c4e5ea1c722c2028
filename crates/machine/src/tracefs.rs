//! Tracepoints by name.

use std::fs::read_dir;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::{Machine, MachineError};

/// The longest formats (of system calls) have a few KiB.
const FORMAT_BYTES: u64 = 1 << 20;
/// Where tracefs is mounted: its own place, and the one inside debugfs.
const MOUNT_POINTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// tracefs, attached nowhere: `None` where it was not needed yet or could not be mounted.
static DETACHED: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// Whether a tracepoint was looked up in it.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Whether this process looked tracepoints up in a mount of its own, because tracefs is mounted nowhere.
///
/// perf mounts tracefs at `/sys/kernel/tracing` and leaves it there. This mount is attached nowhere: no
/// other process sees it, and it ends with this one.
#[must_use]
pub fn used_detached_tracefs() -> bool {
    IS_USED.load(Ordering::Relaxed)
}

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
        let file = self.tracefs()?.join("events").join(system).join(name).join("id");
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
        let malformed = |_| MachineError::malformed(&file, "a number", &text);
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
        let file = self.tracefs()?.join("events").join(below_events);
        self.bytes(file, FORMAT_BYTES).map_err(denied)
    }

    /// All tracepoints as (system, name), sorted: the folders of `events` of tracefs.
    ///
    /// # Errors
    /// [`MachineError::NoTracefs`] or [`MachineError::TracefsDenied`].
    pub fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        let events = self.tracefs()?.join("events");
        let mut all = Vec::new();
        for system in self.names(&events).map_err(denied)? {
            // Control files stand beside the folders; what is no folder has no names.
            let Ok(names) = self.names(events.join(&system)) else { continue };
            for name in names {
                if events.join(&system).join(&name).join("id").is_file() {
                    all.push((system.clone(), name));
                }
            }
        }
        Ok(all)
    }

    /// Why tracepoints cannot be named; `None` if they can.
    pub(crate) fn tracefs_error(&self) -> Option<MachineError> {
        self.find_tracefs().err()
    }

    /// The root folder of tracefs, to read tracepoints from.
    pub(crate) fn tracefs(&self) -> Result<PathBuf, MachineError> {
        let (folder, mount) = self.find_tracefs()?;
        if matches!(mount, Mount::Detached) {
            IS_USED.store(true, Ordering::Relaxed);
        }
        Ok(folder)
    }

    /// Where tracefs is mounted; otherwise, for a process with CAP_SYS_ADMIN, a mount that only it sees.
    fn find_tracefs(&self) -> Result<(PathBuf, Mount), MachineError> {
        let mut refused = None;
        for mount_point in MOUNT_POINTS.map(|place| self.path(place)) {
            let path = mount_point.join("events");
            match read_dir(&path) {
                Ok(_) => return Ok((mount_point, Mount::Attached)),
                Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert(MachineError::TracefsDenied { path, source });
                }
                Err(_) => {}
            }
        }
        match refused {
            Some(error) => Err(error),
            None if self.root() == Path::new("/") => {
                let folder = detached().ok_or(MachineError::NoTracefs)?;
                Ok((folder, Mount::Detached))
            }
            None => Err(MachineError::NoTracefs),
        }
    }
}

/// Who sees the tracefs that was found.
enum Mount {
    /// Every process.
    Attached,
    /// This process.
    Detached,
}

/// The detached mount, made at the first call. A process that may not mount gets none, for good.
fn detached() -> Option<PathBuf> {
    let mount = DETACHED.get_or_init(|| mount_detached().ok()).as_ref()?;
    Some(PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())))
}

/// fsopen(2), fsconfig(2), fsmount(2): Linux 5.2.
fn mount_detached() -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
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
