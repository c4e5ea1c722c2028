//! What was changed, in a file that is there before the change: so that it can be put right after a
//! `kill -9`.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pmuscope_machine::{AtomicFile, CpuSet, Machine, MachineError, Replace, UserFolder, place};
use serde::{Deserialize, Serialize};

/// Where the files are.
const FOLDER: UserFolder = UserFolder {
    variable: "PMUSCOPE_STATE",
    xdg: "XDG_RUNTIME_DIR",
    below_home: ".local/state",
    name: "pmuscope",
};
const FIRST: &str = "numa-balance-";
const LAST: &str = ".json";
const SCHEMA: &str = "pmuscope/numa-state/1";
/// Thousands of processes with thousands of threads.
const LARGEST: u64 = 1 << 30;

/// A thread as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ThreadState {
    pub(super) tid: u32,
    /// When it started, clock ticks since boot: tells reused ids apart.
    pub(super) start: u64,
    /// CPUs that it might run on.
    pub(super) original: CpuSet,
    /// CPUs that it was told to run on; `None`: it was left alone.
    pub(super) set: Option<CpuSet>,
}

/// A process as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessState {
    pub(super) pid: u32,
    pub(super) start: u64,
    /// CPUs for threads that are born later: those of its first thread.
    pub(super) original: CpuSet,
    pub(super) threads: Vec<ThreadState>,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    schema: String,
    /// Ids and times of processes mean nothing after another boot.
    boot: Option<String>,
    /// Who pins.
    pid: u32,
    start: u64,
    processes: Vec<ProcessState>,
}

/// Why what was changed cannot be kept in mind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// No folder is known.
    #[error(
        "cannot save the changes for numa restore: none of PMUSCOPE_STATE, XDG_RUNTIME_DIR and \
         HOME is set. Try: PMUSCOPE_STATE=/run/pmuscope ..."
    )]
    NoFolder,
    /// A file or folder.
    #[error(
        "cannot {what} {}: {source}. Changes are made only if they can be saved. Try: \
         PMUSCOPE_STATE=DIR", path.display()
    )]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a file of ours.
    #[error(
        "{} is not a state file of numa balance: {why}. Try: rm {}",
        path.display(), path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { what, path, source }
}

/// The folder of this user; `None` if nothing says where.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    FOLDER.path()
}

/// The file of one run. It goes when this value is finished with, not when it is dropped.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    boot: Option<String>,
    start: u64,
}

impl StateFile {
    pub(super) fn new(machine: &Machine, folder: &Path) -> Result<Self, StateError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed("create folder", folder))?;
        let own = std::process::id();
        let start = machine.task(own, own).map_or(0, |task| task.start);
        let path = folder.join(format!("{FIRST}{own}{LAST}"));
        Ok(Self { path, boot: machine.boot_id(), start })
    }

    /// Whole or not at all.
    pub(super) fn write(&self, processes: Vec<ProcessState>) -> Result<(), StateError> {
        let pid = std::process::id();
        let (boot, start) = (self.boot.clone(), self.start);
        let content = Content { schema: SCHEMA.to_owned(), boot, pid, start, processes };
        write(&self.path, &content)
    }

    pub(super) fn remove(&self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.path);
    }
}

fn write(path: &Path, content: &Content) -> Result<(), StateError> {
    let bytes = serde_json::to_vec(content)
        .map_err(|error| failed("write", path)(io::Error::other(error)))?;
    let mut file =
        AtomicFile::create(path, 0o600, Replace::Anything).map_err(failed("write", path))?;
    file.write_all(&bytes).and_then(|()| file.finish()).map_err(failed("write", path))
}

/// What became of a process that was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Restored {
    /// So many threads may run where they could before; others were changed by somebody else since, or
    /// never.
    Threads {
        /// Threads put right.
        restored: usize,
        /// Threads left alone.
        left: usize,
    },
    /// It has ended.
    Ended,
    /// Whoever pinned it still does.
    Held {
        /// That process.
        by: u32,
    },
    /// The system refused.
    Refused {
        /// What it said.
        why: String,
    },
}

/// Puts right what killed runs left behind, of these processes only unless there are none named. Files with
/// nothing left in them go.
///
/// # Errors
/// [`StateError`] if a file cannot be read or written.
pub fn restore(
    machine: &Machine,
    folder: &Path,
    only: &[u32],
) -> Result<Vec<(u32, Restored)>, StateError> {
    let mut restored = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(restored),
        Err(error) => return Err(failed("read folder", folder)(error)),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with(FIRST) && name.ends_with(LAST))
    });
    paths.sort();
    for path in paths {
        restore_file(machine, &path, only, &mut restored)?;
    }
    Ok(restored)
}

fn restore_file(
    machine: &Machine,
    path: &Path,
    only: &[u32],
    restored: &mut Vec<(u32, Restored)>,
) -> Result<(), StateError> {
    let size = fs::metadata(path).map_err(failed("read", path))?.len();
    let malformed = |why: String| StateError::Malformed { path: path.to_owned(), why };
    if size > LARGEST {
        return Err(malformed(format!("it has {size} bytes")));
    }
    let bytes = fs::read(path).map_err(failed("read", path))?;
    let mut content: Content =
        serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
    if content.schema != SCHEMA {
        return Err(malformed(format!("its schema is {:?}", content.schema)));
    }
    if content.boot != machine.boot_id() {
        return fs::remove_file(path).map_err(failed("remove", path));
    }
    let is_wanted = |pid: u32| only.is_empty() || only.contains(&pid);
    let owner = machine.task(content.pid, content.pid);
    let is_held = owner.is_ok_and(|task| task.start == content.start);
    content.processes.retain(|process| {
        if !is_wanted(process.pid) {
            return true;
        }
        let outcome = if is_held {
            Restored::Held { by: content.pid }
        } else {
            restore_process(machine, process)
        };
        let stays = matches!(outcome, Restored::Held { .. } | Restored::Refused { .. });
        restored.push((process.pid, outcome));
        stays
    });
    if is_held {
        return Ok(());
    }
    if content.processes.is_empty() {
        return fs::remove_file(path).map_err(failed("remove", path));
    }
    write(path, &content)
}

/// Every thread that still has what it was given gets back what it had; one that is not known got it from
/// a thread that is.
pub(super) fn restore_process(machine: &Machine, process: &ProcessState) -> Restored {
    let is_same = machine.task(process.pid, process.pid).is_ok_and(|it| it.start == process.start);
    let threads = match machine.threads(process.pid) {
        Ok(threads) if is_same => threads,
        Err(error) if !error.is_gone() => return Restored::Refused { why: error.to_string() },
        _ => return Restored::Ended,
    };
    let (mut restored, mut left) = (0, 0);
    for tid in threads {
        match restore_thread(machine, process, tid) {
            Ok(true) => restored += 1,
            Ok(false) => left += 1,
            Err(error) if error.is_gone() => {}
            Err(error) => return Restored::Refused { why: error.to_string() },
        }
    }
    Restored::Threads { restored, left }
}

/// Why a thread cannot be put right.
#[derive(Debug, thiserror::Error)]
enum ThreadError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("{0}")]
    Call(String),
    #[error("it ended")]
    Ended,
}

impl ThreadError {
    fn is_gone(&self) -> bool {
        match self {
            Self::Machine(error) => error.is_gone(),
            Self::Ended => true,
            Self::Call(_) => false,
        }
    }
}

fn restore_thread(
    machine: &Machine,
    process: &ProcessState,
    tid: u32,
) -> Result<bool, ThreadError> {
    let said = |source| match super::affinity::call(process.pid, tid, source) {
        super::ActError::Gone { .. } => ThreadError::Ended,
        other => ThreadError::Call(other.to_string()),
    };
    let now = place::affinity_of(tid).map_err(said)?;
    let start = machine.task(process.pid, tid)?.start;
    let known = process.threads.iter().find(|known| known.tid == tid && known.start == start);
    let (is_ours, original) = match known {
        Some(known) => (known.set.as_ref() == Some(&now), &known.original),
        None => {
            let given = |known: &ThreadState| known.set.as_ref() == Some(&now);
            (process.threads.iter().any(given), &process.original)
        }
    };
    if is_ours {
        place::set_affinity_of(tid, original).map_err(said)?;
    }
    Ok(is_ours)
}
