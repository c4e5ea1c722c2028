//! Files in the memory of processes, and their build ids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmuscope_abi::record::misc;
use pmuscope_symbols::{Inode, ProcessRoot, read_build_id};

use crate::keep::FileMapping;

/// A file as a process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedFile<'a> {
    /// The process.
    pub(crate) pid: u32,
    /// The file's number, and that of its file system.
    pub(crate) inode: Inode,
    /// Its path, as the process sees it.
    pub(crate) path: &'a [u8],
}

/// Looks up the build id of a file.
pub(crate) type FindBuildId<'a> = &'a dyn Fn(MappedFile<'_>) -> Option<Vec<u8>>;

impl<'a> MappedFile<'a> {
    /// What an MMAP2 record names without its build id, if it is a file (memory without one is `//anon` or in
    /// brackets).
    pub(crate) fn of_record(record: &'a [u8]) -> Option<Self> {
        let word =
            |at: usize| record.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let number = record.get(INODE..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))?;
        let inode = Inode { major: word(DEVICE)?, minor: word(DEVICE + 4)?, number };
        Some(Self { pid: word(PID)?, inode, path: path_of(record)? })
    }

    /// The build id that the file says of itself.
    pub(crate) fn build_id(self) -> Option<Vec<u8>> {
        let file = self.find()?;
        read_build_id(&file).ok().flatten().map(|id| id.as_bytes().to_vec())
    }

    /// The same file, to be kept.
    pub(crate) fn to_keep(self, build_id: Option<&[u8]>) -> FileMapping {
        FileMapping {
            pid: self.pid,
            path: self.path.to_vec(),
            build_id: build_id.map(<[u8]>::to_vec),
            inode: Some(self.inode),
        }
    }

    /// Where it can be opened. Another file may have its path: in the process's mount namespace, or since
    /// a package was replaced. Only the inode is compared: of devices, `stat(2)` and `/proc/PID/maps` say
    /// different things on btrfs and overlayfs.
    fn find(self) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(self.path));
        let is_it = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|found| found.ino() == self.inode.number)
        };
        let inside = ProcessRoot::of(self.pid).candidates(path);
        inside.chain([path.to_owned()]).find(is_it)
    }
}

/// Where an MMAP2 record has its fields (`perf_event_mmap_event` of the kernel's `kernel/events/core.c`).
const PID: usize = 8;
const DEVICE: usize = 8 + 8 + 24;
const INODE: usize = DEVICE + 8;
const PROTECTION: usize = INODE + 8 + 8;
const NAME: usize = PROTECTION + 8;
/// `PROT_EXEC`, `MAP_SHARED`.
const EXECUTABLE: u32 = 4;
const SHARED: u32 = 1;

/// The path of a mapped file; `None` of memory without one.
fn path_of(record: &[u8]) -> Option<&[u8]> {
    let name = record.get(NAME..)?;
    let path = &name[..name.iter().position(|byte| *byte == 0)?];
    (path.starts_with(b"/") && !path.starts_with(b"//")).then_some(path)
}

/// The file with code that an MMAP2 record tells of, whose header has `bits`.
pub(crate) fn code_in(record: &[u8], bits: u16) -> Option<FileMapping> {
    let word = |at: usize| record.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    // Code in shared memory is written by a runtime.
    if word(PROTECTION)? & EXECUTABLE == 0 || word(PROTECTION + 4)? & SHARED != 0 {
        return None;
    }
    if bits & misc::MMAP_BUILD_ID == 0 {
        return MappedFile::of_record(record).map(|file| file.to_keep(None));
    }
    let size = usize::from(*record.get(DEVICE)?).min(20);
    let id = record.get(DEVICE + 4..DEVICE + 4 + size)?.to_vec();
    let (pid, path) = (word(PID)?, path_of(record)?.to_vec());
    Some(FileMapping { pid, path, build_id: Some(id), inode: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_path_is_not_taken() {
        let path = std::env::current_exe().unwrap();
        let number = std::fs::metadata(&path).unwrap().ino();
        let inode = Inode { major: 0, minor: 0, number };
        let pid = std::process::id();
        let path = path.as_os_str().as_bytes();
        let file = MappedFile { pid, inode, path };
        assert!(file.find().unwrap().starts_with(format!("/proc/{pid}/root")));
        assert_eq!(
            MappedFile { inode: Inode { number: number + 1, ..inode }, ..file }.find(),
            None
        );
        // The process has ended: the path is tried as it is.
        let gone = MappedFile { pid: 0, ..file }.find().unwrap();
        assert_eq!(gone.as_os_str().as_bytes(), path);
    }
}
