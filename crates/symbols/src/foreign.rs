//! Files that only another process leads to: those of containers, and those that were deleted while they run.
//!
//! Whoever owns them may be hostile, so they are opened with care:
//!
//! - paths are resolved by the kernel below the root of the process (`openat2`, `RESOLVE_IN_ROOT`): no link leads
//!   out of it;
//! - only regular files are opened, and nothing is written;
//! - they are read, not mapped: a mapped file that is shortened ends its reader (SIGBUS);
//! - size and time are bounded: a file system in user space, or of another machine, can let a reader wait forever. Where such
//!   a one is mounted, files are opened by a thread that can be left.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use pmuscope_machine::{Machine, Mapping};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::build_id::{build_id_of, debug_link_of};
use crate::image::{Home, Image};
use crate::locate::{as_named_before_deletion, below, by_build_id, file_name};
use crate::namespaces::{self, ProcessRoot};
use crate::{BuildId, Inode, ModuleFile};

/// A larger file is not read, bytes.
pub(crate) const LARGEST: u64 = 512 << 20;
/// Opening and reading a file takes at most this long.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Where a file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// What the kernel holds for a process: `/proc/PID/exe`, `/proc/PID/map_files/FROM-TO`.
    Held(PathBuf),
    /// A path below the root of a process, `/proc/PID/root`.
    Below {
        /// That root.
        root: PathBuf,
        /// The path as processes with this root see it.
        path: PathBuf,
    },
}

impl Entrance {
    /// A path that says where it is.
    pub(crate) fn shown(&self) -> PathBuf {
        match self {
            Self::Held(link) => link.clone(),
            Self::Below { root, path } => below(root, path),
        }
    }

    /// Opens the file for reading, if it is a regular one.
    pub(crate) fn open(&self) -> io::Result<File> {
        let handle = match self {
            Self::Held(link) => {
                rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?
            }
            Self::Below { root, path } => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
                rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?
            }
        };
        open_regular(&handle.into())
    }
}

/// Opens for reading what `handle` leads to, if that is a regular file.
fn open_regular(handle: &File) -> io::Result<File> {
    // Opening a device can have effects, a pipe can block: look first, at the very same file.
    if !handle.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// Opens the folder at `path` below `root`, to open files in it later.
pub(crate) fn open_folder(root: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?.into())
}

/// Opens a file for reading that is in `folder` itself, if it is a regular one and no link.
pub(crate) fn open_in(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    open_regular(&rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve)?.into())
}

/// What tells the wanted file from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Its build ID.
    BuildId(BuildId),
    /// Its inode number.
    Inode(u64),
    /// Where it is opened: the kernel leads to nothing else.
    Entrance,
}

impl Proof {
    fn holds_for(&self, file: &File) -> bool {
        match self {
            Self::BuildId(wanted) => {
                let id = file.try_clone().ok().and_then(|file| build_id_of(file).ok().flatten());
                id.is_some_and(|id| id.same_build(wanted))
            }
            Self::Inode(number) => file.metadata().is_ok_and(|found| found.ino() == *number),
            Self::Entrance => true,
        }
    }
}

/// Reads such files; those who let it wait are not asked again.
#[derive(Debug, Default)]
pub(crate) struct ForeignFiles(Mutex<BTreeMap<PathBuf, Patience>>);

/// How the files of a process answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// At once: no file system is mounted that can let one wait.
    AtOnce,
    Perhaps,
    /// Did not, when one was read.
    Not,
}

impl Patience {
    /// By what is mounted where the process `folder` is of runs.
    fn of(folder: &Path) -> Self {
        const SLOW: [&str; 6] = ["fuse", "nfs", "cifs", "smb", "ceph", "afs"];
        let Ok(mounts) = std::fs::read_to_string(folder.join("mountinfo")) else {
            return Self::Perhaps;
        };
        // proc(5): the type of the file system is behind the separator.
        let kind = |line: &str| Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned());
        let is_slow = |kind: String| SLOW.iter().any(|slow| kind.starts_with(slow));
        if mounts.lines().filter_map(kind).any(is_slow) { Self::Perhaps } else { Self::AtOnce }
    }
}

impl ForeignFiles {
    /// The file at `entrance`, if `proof` holds for it. Debug files of it are looked for at `home`.
    pub(crate) fn read(&self, entrance: &Entrance, proof: Proof, home: &Home) -> Option<Image> {
        let process = process_of(entrance);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = known().get(&process).copied();
        let patience = patience.unwrap_or_else(|| {
            let found = Patience::of(&process);
            known().insert(process.clone(), found);
            found
        });
        let (shown, entrance) = (entrance.shown(), entrance.clone());
        let bytes = match patience {
            Patience::AtOnce => Some(read(&entrance, &proof)),
            Patience::Perhaps => within(LONGEST, move || read(&entrance, &proof)),
            Patience::Not => None,
        };
        let Some(bytes) = bytes else {
            known().insert(process, Patience::Not);
            return None;
        };
        let image = Image::in_memory(&shown, bytes.ok()?).with_home(home.clone());
        image.elf().ok()?;
        Some(image)
    }
}

/// `/proc/PID`, to which all of a process's entrances belong.
fn process_of(entrance: &Entrance) -> PathBuf {
    let path = match entrance {
        Entrance::Held(link) => link,
        Entrance::Below { root, .. } => root,
    };
    path.components().take(3).collect()
}

/// The file at `entrance`, if `proof` holds for it.
fn open_proven(entrance: &Entrance, proof: &Proof) -> io::Result<File> {
    let file = entrance.open()?;
    if proof.holds_for(&file) { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The file itself, opened through the process that mapped it; `None` if that has ended, or does not allow it.
pub(crate) fn open(pid: i32, file: ModuleFile<'_>) -> Option<File> {
    let ways = entrances(pid, file);
    within(LONGEST, move || ways.iter().find_map(|(way, proof)| open_proven(way, proof).ok()))?
}

/// The debug file of `file`, which is of build `id` and at `path` as process `pid` sees it, opened below the root of that
/// process; `None` where that is our own, or there is none.
pub(crate) fn open_debug_file(
    pid: u32,
    file: &File,
    path: &Path,
    id: Option<&BuildId>,
) -> Option<File> {
    const FOLDER: &str = "/usr/lib/debug";
    let (root, _) = namespaces::of_process(i32::try_from(pid).ok()?)?;
    let path = ProcessRoot::of(pid).inside(path).path;
    let file = file.try_clone().ok()?;
    let by_id = id.and_then(|id| by_build_id(id.as_bytes()));
    within(LONGEST, move || {
        let mut paths: Vec<PathBuf> =
            by_id.into_iter().map(|name| Path::new(FOLDER).join(name)).collect();
        let link = debug_link_of(file);
        if let Some(name) = link.as_deref().and_then(file_name) {
            let folder = path.parent().unwrap_or(Path::new("/"));
            paths.extend([folder.join(name), folder.join(".debug").join(name)]);
            paths.push(below(Path::new(FOLDER), folder).join(name));
        }
        paths.into_iter().find_map(|path| Entrance::Below { root: root.clone(), path }.open().ok())
    })?
}

fn read(entrance: &Entrance, proof: &Proof) -> io::Result<Vec<u8>> {
    let mut file = open_proven(entrance, proof)?;
    if file.metadata()?.len() > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // Looking for the build ID moved the position.
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The result of `work`, unless it takes longer than `time`: then its thread waits on, and ends with the program.
pub(crate) fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        // Nobody waits for it any more if this fails.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("foreign file".into()).spawn(work).ok()?;
    receiver.recv_timeout(time).ok()
}

/// Where `file` can be opened through process `pid`, which mapped it, each with what proves that it is this file.
pub(crate) fn entrances(pid: i32, file: ModuleFile<'_>) -> Vec<(Entrance, Proof)> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let inode = file.mapped.and_then(|mapped| mapped.inode).filter(|inode| inode.number != 0);
    let path = as_named_before_deletion(file.path);
    let proof = match (file.build_id, inode) {
        (Some(id), _) => Proof::BuildId(id.clone()),
        (None, Some(inode)) => Proof::Inode(inode.number),
        (None, None) => Proof::Entrance,
    };
    let mut found = Vec::new();
    // A process that has ended has none.
    let mappings = u32::try_from(pid).ok().and_then(|pid| Machine::host().mappings(pid).ok());
    let mapping = mappings.iter().flatten().find(|one| is_mapping_of(one, path, inode));
    if let Some(mapping) = mapping {
        let range = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        found.push((Entrance::Held(folder.join(range)), proof.clone()));
    }
    // Reading map_files takes a capability; these take the right to trace the process.
    if proof != Proof::Entrance {
        found.push((Entrance::Held(folder.join("exe")), proof.clone()));
        let root = folder.join("root");
        let shown = std::fs::read_link(&root).ok().filter(|shown| shown != Path::new("/"));
        let inside = shown.and_then(|shown| path.strip_prefix(shown).ok().map(Path::to_owned));
        for path in [Some(path.to_owned()), inside].into_iter().flatten() {
            found.push((Entrance::Below { root: root.clone(), path }, proof.clone()));
        }
    }
    found
}

fn is_mapping_of(mapping: &Mapping, path: &Path, inode: Option<Inode>) -> bool {
    match inode {
        Some(inode) => {
            let Mapping { major, minor, inode: number, .. } = *mapping;
            inode == Inode { major, minor, number }
        }
        None => {
            let mapped = Path::new(std::ffi::OsStr::from_bytes(&mapping.path));
            as_named_before_deletion(mapped) == path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A root with `outside` beside it, which only a link that leads out reaches.
    fn root() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/real"), "inside").unwrap();
        fs::write(dir.path().join("outside"), "outside").unwrap();
        (dir, root)
    }

    fn contents(root: &Path, path: &str) -> Option<String> {
        let entrance = Entrance::Below { root: root.to_owned(), path: path.into() };
        let bytes = read(&entrance, &Proof::Entrance).ok()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn no_link_leads_out_of_the_root() {
        let (dir, root) = root();
        symlink("/bin/real", root.join("bin/absolute")).unwrap();
        symlink("../../outside", root.join("bin/relative")).unwrap();
        symlink(dir.path().join("outside"), root.join("bin/host")).unwrap();
        assert_eq!(contents(&root, "/bin/real").as_deref(), Some("inside"));
        assert_eq!(contents(&root, "/bin/absolute").as_deref(), Some("inside"));
        for path in ["/bin/relative", "/bin/host", "/../outside", "../outside"] {
            assert_eq!(contents(&root, path), None, "{path}");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (_dir, root) = root();
        let pipe = root.join("bin/pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).unwrap();
        // Opened as a file, this would wait for somebody who writes.
        assert_eq!(contents(&root, "/bin/pipe"), None);
        assert_eq!(contents(&root, "/bin"), None);
        let null = Entrance::Below { root: "/".into(), path: "/dev/null".into() };
        assert!(null.open().is_err());
    }

    #[test]
    fn what_is_mounted_tells_who_can_let_a_reader_wait() {
        let of = |mounts: &str| {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("mountinfo"), mounts).unwrap();
            Patience::of(folder.path())
        };
        let plain = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
        assert_eq!(of(plain), Patience::AtOnce);
        for kind in ["fuse.sshfs", "fuse", "nfs4"] {
            assert_eq!(of(&format!("{plain}23 22 0:5 / /m rw - {kind} x rw\n")), Patience::Perhaps);
        }
        assert_eq!(Patience::of(Path::new("/nonexistent")), Patience::Perhaps);
    }

    #[test]
    fn who_lets_a_reader_wait_is_left() {
        let never = within(Duration::from_millis(20), || std::thread::sleep(LONGEST));
        assert_eq!(never, None);
        assert_eq!(within(LONGEST, || 7), Some(7));
    }

    #[test]
    fn a_mapped_file_is_opened_by_what_the_process_holds() {
        let pid = std::process::id();
        let exe = std::env::current_exe().unwrap();
        let number = fs::metadata(&exe).unwrap().ino();
        let mapping = Machine::host().mappings(pid).unwrap();
        let mapping = mapping.iter().find(|one| one.inode == number).unwrap();
        let inode = Inode { major: mapping.major, minor: mapping.minor, number };
        let mapped = crate::FileOrigin { inode: Some(inode), ..crate::FileOrigin::default() };
        let file = ModuleFile { path: &exe, build_id: None, mapped: Some(&mapped) };
        let files = ForeignFiles::default();
        let ways = entrances(pid as i32, file);
        assert_eq!(ways.len(), 3, "{ways:?}");
        let home = Home { root: PathBuf::from("/proc/self/root"), path: exe.clone() };
        let read = |(way, proof): &(Entrance, Proof)| files.read(way, proof.clone(), &home);
        let whole = fs::read(&exe).unwrap();
        let bytes = read(&ways[1]).unwrap();
        assert!(bytes.bytes() == whole);
        let other = Proof::Inode(number + 1);
        assert!(files.read(&ways[1].0, other, &home).is_none());
    }
}
