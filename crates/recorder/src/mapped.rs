//! Files in the memory of processes, and their build ids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmuscope_symbols::{ProcessRoot, keep_file, read_build_id};

/// A file as a process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedFile<'a> {
    /// The process.
    pub(crate) pid: u32,
    /// The file's number in its file system.
    pub(crate) inode: u64,
    /// Its path, as the process sees it.
    pub(crate) path: &'a [u8],
}

/// Looks up the build id of a file.
pub(crate) type FindBuildId<'a> = &'a dyn Fn(MappedFile<'_>) -> Option<Vec<u8>>;

impl<'a> MappedFile<'a> {
    /// What an MMAP2 record names without its build id, if it is a file (`perf_event_mmap_event` of the
    /// kernel's `kernel/events/core.c`; memory without a file is `//anon` or in brackets).
    pub(crate) fn of_record(record: &'a [u8]) -> Option<Self> {
        const PID: usize = 8;
        const INODE: usize = 8 + 8 + 24 + 8;
        const NAME: usize = INODE + 8 + 8 + 8;
        let name = record.get(NAME..)?;
        let path = &name[..name.iter().position(|byte| *byte == 0)?];
        let is_file = path.starts_with(b"/") && !path.starts_with(b"//");
        let pid = record.get(PID..PID + 4)?.try_into().ok().map(u32::from_ne_bytes)?;
        let inode = record.get(INODE..INODE + 8)?.try_into().ok().map(u64::from_ne_bytes)?;
        is_file.then_some(Self { pid, inode, path })
    }

    /// The build id that the file says of itself.
    pub(crate) fn build_id(self) -> Option<Vec<u8>> {
        let file = self.find()?;
        read_build_id(&file).ok().flatten().map(|id| id.as_bytes().to_vec())
    }

    /// The same; of a file that only the process's mount namespace has, a copy is kept for reports.
    pub(crate) fn build_id_and_copy(self) -> Option<Vec<u8>> {
        let file = self.find()?;
        let id = read_build_id(&file).ok().flatten()?;
        // Without a copy the file is found as long as the process lives.
        let _ = keep_file(self.pid, Path::new(OsStr::from_bytes(self.path)), &file, &id);
        Some(id.as_bytes().to_vec())
    }

    /// Where it can be opened. Another file may have its path: in the process's mount namespace, or since
    /// a package was replaced. Only the inode is compared: of devices, `stat(2)` and `/proc/PID/maps` say
    /// different things on btrfs and overlayfs.
    fn find(self) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(self.path));
        let is_it =
            |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.ino() == self.inode);
        let inside = ProcessRoot::of(self.pid).candidates(path);
        inside.chain([path.to_owned()]).find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_path_is_not_taken() {
        let path = std::env::current_exe().unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        let pid = std::process::id();
        let path = path.as_os_str().as_bytes();
        let file = MappedFile { pid, inode, path };
        assert!(file.find().unwrap().starts_with(format!("/proc/{pid}/root")));
        assert_eq!(MappedFile { inode: inode + 1, ..file }.find(), None);
        // The process has ended: the path is tried as it is.
        let gone = MappedFile { pid: 0, ..file }.find().unwrap();
        assert_eq!(gone.as_os_str().as_bytes(), path);
    }
}
