//! Copies of files that will not be at their paths when the recording is read: those of containers, deleted and
//! replaced ones.
//!
//! ```text
//!  start   files of processes that run ─┐
//!  rings   MMAP2 of a file not yet seen ┴─► held open (a thread of its own) ─┐
//!  close                                                                      └─► at its path? nothing : copy
//! ```
//!
//! A file that is held stays whole whatever happens to its path or its process. Nothing is copied while samples are
//! taken. Of a process in a container the folder of its perf map is held too, as the map may come at the end only.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmuscope_machine::Target;
use pmuscope_perfdata::info::KeptFile;
use pmuscope_symbols::{BuildId, FileOrigin, HeldCode, HeldFile, Inode, ModuleFile};
use rustc_hash::FxHashSet;
use rustix::process::{Resource, getrlimit};

/// Bytes of copies of a recording. Commands that delete what they executed, as compilers do, should not fill disks.
const MOST_OF_COMMAND: u64 = 64 << 20;
const MOST_OF_OTHERS: u64 = 512 << 20;
/// Files held at most; also no more than a quarter of the descriptors that are allowed.
const MOST_HELD: u64 = 1024;
/// Different files that are looked at, and mappings by process.
const MOST_KNOWN: usize = 1 << 16;
/// Processes of containers, and containers.
const MOST_PROCESSES: usize = 4096;
const MOST_FOLDERS: usize = 128;
/// At the end the thread that opens has this long for what is left to do.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A file that a process mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileMapping {
    pub(crate) pid: u32,
    pub(crate) path: Vec<u8>,
    pub(crate) build_id: Option<Vec<u8>>,
    /// `None` in records with a build ID.
    pub(crate) inode: Option<Inode>,
}

/// Treatment of a file.
enum KeeperRequest {
    Hold(FileMapping),
    /// A process whose mappings changed: it may be in a container by now.
    Process(u32),
    /// Answers once all before it is done.
    Answer(Sender<()>),
}

/// Files and folders held open.
#[derive(Debug, Default)]
struct KeeperState {
    files: Vec<(FileMapping, HeldFile)>,
    /// By process.
    code: BTreeMap<u32, HeldCode>,
    /// Folders that were opened for that.
    folders: usize,
}

/// Holds files, and copies them at the end.
#[derive(Debug)]
pub(crate) struct Keeper {
    most_bytes: u64,
    known: Mutex<FxHashSet<FileMapping>>,
    /// Files by process.
    mappings: Mutex<FxHashSet<(u32, Vec<u8>)>>,
    held: Arc<Mutex<KeeperState>>,
    opener: Sender<KeeperRequest>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds what is asked for, until the keeper ends, whose end of the channel is the only one.
fn open_all(messages: Receiver<KeeperRequest>, into: &Mutex<KeeperState>, most_held: usize) {
    for message in messages {
        match message {
            KeeperRequest::Hold(mapping) if lock(into).files.len() < most_held => {
                if let Some(file) = hold(&mapping) {
                    lock(into).files.push((mapping, file));
                }
            }
            KeeperRequest::Hold(_) => {}
            KeeperRequest::Process(pid) => hold_code(pid, into),
            // Nobody waits any more if this fails.
            KeeperRequest::Answer(to) => _ = to.send(()),
        }
    }
}

fn hold_code(pid: u32, into: &Mutex<KeeperState>) {
    let Some(mut code) = HeldCode::of(pid) else { return };
    let mut held = lock(into);
    let is_new = !code.share(held.code.values());
    let has_room = held.code.len() < MOST_PROCESSES || held.code.contains_key(&pid);
    if has_room && (!is_new || held.folders < MOST_FOLDERS) {
        held.folders += usize::from(is_new);
        held.code.insert(pid, code);
    }
}

impl Keeper {
    /// One that holds nothing yet; `None` if its thread cannot be started.
    pub(crate) fn new(target: &Target) -> Option<Self> {
        let is_command = matches!(target, Target::Command | Target::CommandInCgroup);
        let most_bytes = if is_command { MOST_OF_COMMAND } else { MOST_OF_OTHERS };
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(MOST_HELD * 4);
        let most_held = (allowed / 4).min(MOST_HELD) as usize;
        let held = Arc::new(Mutex::new(KeeperState::default()));
        let (opener, messages) = mpsc::channel();
        let into = Arc::clone(&held);
        let open = move || open_all(messages, &into, most_held);
        std::thread::Builder::new().name("keeper".into()).spawn(open).ok()?;
        let (known, mappings) = (Mutex::default(), Mutex::default());
        Some(Self { most_bytes, known, mappings, held, opener })
    }

    /// A file was mapped. Returns at once: it is opened by another thread.
    pub(crate) fn mapped(&self, mapping: FileMapping) {
        self.seen(&mapping);
        if self.is_new(&mapping) {
            // Without its thread nothing is held.
            let _ = self.opener.send(KeeperRequest::Hold(mapping));
        }
    }

    /// The same of a process that runs since before the recording. `all`: the whole machine is recorded, and of its
    /// files only those are held that are not at their paths already.
    pub(crate) fn found(&self, mapping: FileMapping, all: bool) {
        if !all {
            return self.mapped(mapping);
        }
        self.seen(&mapping);
        if self.is_new(&mapping)
            && let Some(file) = hold(&mapping)
            && !file.is_at_its_path()
        {
            let files = &mut lock(&self.held).files;
            if (files.len() as u64) < MOST_HELD / 2 {
                files.push((mapping, file));
            }
        }
    }

    /// A process has a file that it did not have before: it may have entered a container to execute it.
    fn seen(&self, mapping: &FileMapping) {
        let mut mappings = lock(&self.mappings);
        let one = (mapping.pid, mapping.path.clone());
        if mappings.len() < MOST_KNOWN && mappings.insert(one) {
            // Without its thread nothing is held.
            let _ = self.opener.send(KeeperRequest::Process(mapping.pid));
        }
    }

    /// Whether it is the first mapping of that file: which process has it does not matter.
    fn is_new(&self, mapping: &FileMapping) -> bool {
        let mut known = lock(&self.known);
        known.len() < MOST_KNOWN && known.insert(FileMapping { pid: 0, ..mapping.clone() })
    }

    /// Copies what is not at its path now. The copies that the recording has to name.
    pub(crate) fn copies(&self) -> Vec<KeptFile> {
        let (done, all_done) = mpsc::channel();
        if self.opener.send(KeeperRequest::Answer(done)).is_ok() {
            // A process that does not let its files be opened costs its own names.
            let _ = all_done.recv_timeout(LONGEST_WAIT);
        }
        let mut left = self.most_bytes;
        let mut copies = Vec::new();
        let held = lock(&self.held);
        for (mapping, file) in &held.files {
            if file.size() > left || file.is_at_its_path() {
                continue;
            }
            // What cannot be copied has no names once it is gone, as without copies.
            let Ok(Some(copy)) = file.keep() else { continue };
            left -= file.size();
            if let Some(inode) = mapping.inode.filter(|_| !copy.is_empty()) {
                let path = String::from_utf8_lossy(&mapping.path).into_owned();
                let Inode { major, minor, number } = inode;
                let pid = is_jit_dump(&path).then_some(mapping.pid as i32);
                copies.push(KeptFile { path, major, minor, inode: number, copy, pid });
            }
        }
        for (pid, code) in &held.code {
            let Ok(Some((copy, size))) = code.keep(left) else { continue };
            left -= size.min(left);
            let path = code.path().to_string_lossy().into_owned();
            copies.push(KeptFile { path, copy, pid: Some(*pid as i32), ..KeptFile::default() });
        }
        copies
    }
}

/// Whether a mapped file describes generated code: runtimes map their jitdump to leave a mark in recordings.
fn is_jit_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("jit-") && name.ends_with(".dump")
}

fn hold(mapping: &FileMapping) -> Option<HeldFile> {
    let build_id = mapping.build_id.as_ref().and_then(|id| BuildId::new(id).ok());
    let mapped = FileOrigin { inode: mapping.inode, ..FileOrigin::default() };
    let path = Path::new(OsStr::from_bytes(&mapping.path));
    let file = ModuleFile { path, build_id: build_id.as_ref(), mapped: Some(&mapped) };
    HeldFile::open(mapping.pid, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_machine::Machine;

    /// The mapping of a program that runs, and its path.
    fn running(program: &Path) -> (std::process::Child, FileMapping) {
        let child = std::process::Command::new(program).arg("60").spawn().unwrap();
        let pid = child.id();
        let path = program.as_os_str().as_bytes();
        let mapping = loop {
            let all = Machine::host().mappings(pid).unwrap();
            if let Some(found) = all.into_iter().find(|one| one.path == path) {
                break found;
            }
        };
        let inode = Inode { major: mapping.major, minor: mapping.minor, number: mapping.inode };
        let path = path.to_vec();
        (child, FileMapping { pid, path, build_id: None, inode: Some(inode) })
    }

    #[test]
    fn a_file_that_is_deleted_after_its_program_ended_is_still_held() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let (mut child, mapping) = running(&program);
        let keeper = Keeper::new(&Target::Command).unwrap();
        keeper.mapped(mapping.clone());
        keeper.mapped(FileMapping { pid: 1, ..mapping });
        let (done, all_done) = mpsc::channel();
        keeper.opener.send(KeeperRequest::Answer(done)).unwrap();
        all_done.recv().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let held = lock(&keeper.held);
        let [(_, file)] = &held.files[..] else { panic!("{held:?}") };
        assert!(file.is_at_its_path());
        std::fs::remove_file(&program).unwrap();
        assert!(!file.is_at_its_path());
        assert_eq!(file.size(), std::fs::metadata("/bin/sleep").unwrap().len());
    }

    #[test]
    fn of_a_whole_machine_only_files_are_held_that_are_gone_already() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let (mut child, mapping) = running(&program);
        let keeper = Keeper::new(&Target::System).unwrap();
        keeper.found(mapping.clone(), true);
        assert_eq!(lock(&keeper.held).files.len(), 0);
        std::fs::remove_file(&program).unwrap();
        let keeper = Keeper::new(&Target::System).unwrap();
        keeper.found(mapping, true);
        assert_eq!(lock(&keeper.held).files.len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
