//! Whether the file at a path is the one that was mapped, where no build ID says so.
//!
//! ```text
//!                  recorded                    file at that path now        verdict
//!  same file       8:1 1234, until 12:00:00    inode 1234, ctime 09:00:00   accepted
//!  rebuilt         8:1 1234                    inode 1250                   another file
//!  rewritten       until 12:00:00              ctime 12:00:05               another file
//!  overlayfs       inode of a lower layer      inode of the overlay         unproven
//!  other host      inodes of that host         any                          unproven
//! ```
//!
//! Device numbers are not compared: those of `stat(2)` and of mappings differ on btrfs and overlayfs, and they
//! change at boot.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pmuscope_machine::Machine;

use crate::State;
use crate::image::of_io;

/// `OVERLAYFS_SUPER_MAGIC` of `linux/magic.h`.
const OVERLAYFS: u64 = 0x794c_7630;

/// A file by its numbers, as MMAP2 records and `/proc/PID/maps` have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode number.
    pub number: u64,
}

impl Inode {
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.major.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.minor.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// A mapped file as a recording identifies it, in addition to its path and build ID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOrigin {
    /// Device and inode; `None` in records without them.
    pub inode: Option<Inode>,
    /// Processes that mapped it, some of them.
    pub processes: Vec<i32>,
    /// Name of the copy that the recorder kept; see [`crate::HeldFile::keep`]. Foreign text.
    pub copy: Option<String>,
    /// The recording.
    pub recording: Arc<RecordingOrigin>,
}

/// Place and time of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingOrigin {
    /// Recorded on another host than this one: its inodes and processes are not of this machine.
    pub is_of_other_host: bool,
    /// The end of the recording, in wall-clock time; `None` if unknown.
    pub until: Option<SystemTime>,
}

/// Reason to doubt that names are those of the file that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// The file has no build ID, and was recorded on another host.
    OtherHost,
    /// The file has no build ID, and another inode than recorded; on overlayfs that proves nothing.
    Overlay,
}

impl RecordingOrigin {
    /// The origin of a recording made on `hostname`, in boot `boot_id`, that ended at `until`. The same boot is the
    /// same host, whatever a container calls it; an unknown host is this one.
    #[must_use]
    pub fn new(hostname: Option<&str>, boot_id: Option<&str>, until: Option<SystemTime>) -> Self {
        let own = rustix::system::uname();
        let is_own = |name: &str| name.is_empty() || name.as_bytes() == own.nodename().to_bytes();
        let is_same_boot = || boot_id.is_some() && boot_id == Machine::host().boot_id().as_deref();
        let is_of_other_host = hostname.is_some_and(|name| !is_own(name)) && !is_same_boot();
        Self { is_of_other_host, until }
    }
}

impl FileOrigin {
    /// Whether the file at `path`, which has no build ID to compare, can be the mapped one.
    ///
    /// # Errors
    /// [`State::FileChanged`] if it is another one; why it cannot be looked at.
    pub(crate) fn judge(&self, path: &Path) -> Result<Option<Doubt>, State> {
        let file = std::fs::metadata(path).map_err(|error| of_io(&error))?;
        if self.recording.is_of_other_host {
            return Ok(Some(Doubt::OtherHost));
        }
        if self.recording.until.is_some_and(|until| changed_at(&file) > until) {
            return Err(State::FileChanged);
        }
        match self.inode {
            Some(inode) if inode.number != 0 && inode.number != file.ino() => {
                if is_on_overlay(path) { Ok(Some(Doubt::Overlay)) } else { Err(State::FileChanged) }
            }
            _ => Ok(None),
        }
    }
}

/// Last change of contents or inode: unlike that of the contents alone, no program can set it.
fn changed_at(file: &Metadata) -> SystemTime {
    let seconds = Duration::from_secs(file.ctime().try_into().unwrap_or(0));
    let part = Duration::from_nanos(file.ctime_nsec().try_into().unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(seconds + part).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn is_on_overlay(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|system| system.f_type as u64 == OVERLAYFS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mapped(number: u64, recording: RecordingOrigin) -> FileOrigin {
        let inode = Some(Inode { major: 8, minor: 1, number });
        FileOrigin { inode, recording: recording.into(), ..FileOrigin::default() }
    }

    #[test]
    fn the_drawing_is_right() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, "one").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let until = |until| RecordingOrigin { until, ..RecordingOrigin::default() };
        let now = SystemTime::now() + Duration::from_secs(1);
        let before = now - Duration::from_secs(60);
        assert_eq!(mapped(inode, until(Some(now))).judge(&path), Ok(None));
        assert_eq!(mapped(inode, until(None)).judge(&path), Ok(None));
        assert_eq!(mapped(inode, until(Some(before))).judge(&path), Err(State::FileChanged));
        // In a container everything may be on an overlay.
        let other = mapped(inode + 1, until(Some(now))).judge(&path);
        let expected =
            if is_on_overlay(&path) { Ok(Some(Doubt::Overlay)) } else { Err(State::FileChanged) };
        assert_eq!(other, expected);
        let elsewhere = RecordingOrigin { is_of_other_host: true, until: Some(before) };
        assert_eq!(mapped(inode + 1, elsewhere).judge(&path), Ok(Some(Doubt::OtherHost)));
        let gone = mapped(inode, until(None)).judge(&dir.path().join("gone"));
        assert_eq!(gone, Err(State::FileMissing));
    }

    #[test]
    fn a_time_set_back_does_not_hide_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let before = SystemTime::now() - Duration::from_secs(3600);
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let until = Some(before + Duration::from_secs(1));
        let origin = RecordingOrigin { until, ..RecordingOrigin::default() };
        assert_eq!(mapped(inode, origin).judge(&path), Err(State::FileChanged));
    }

    #[test]
    fn the_host_is_known_by_its_boot_or_else_by_its_name() {
        let machine = Machine::host();
        let own = machine.kernel().unwrap().hostname;
        let boot = machine.boot_id();
        let is_other = |host, boot| RecordingOrigin::new(host, boot, None).is_of_other_host;
        assert!(!is_other(None, None));
        assert!(!is_other(Some(&own), None));
        assert!(is_other(Some("another.example"), None));
        assert!(is_other(Some("another.example"), Some("another boot")));
        if boot.is_some() {
            assert!(!is_other(Some("a-container"), boot.as_deref()));
        }
    }
}
