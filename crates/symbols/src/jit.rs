//! Code that a JIT runtime generated in memory, as the runtime describes it: `jit-PID.dump`, which
//! has lines, and `/tmp/perf-PID.map`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::code_origin::is_older;
use crate::demangle::Demangler;
use crate::foreign::{Entrance, LONGEST, within};
use crate::jit_dump::JitDump;
use crate::locate::below;
use crate::namespaces::{self, ProcessRoot};
use crate::perf_map::open_no_link;
use crate::symbol::InternedNames;
use crate::unwind::Trampolines;
use crate::{CodeOrigin, PerfMap, Sources, State, Symbol, kept};

/// Folders of dumps in `~/.debug/jit` that are looked into; agents of perf(1) make one per run.
const MOST_FOLDERS: usize = 4096;

/// A process whose generated code is described.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeProcess<'a> {
    pub(crate) pid: i32,
    pub(crate) origin: Option<&'a CodeOrigin>,
    /// Dumps it is known to have written.
    pub(crate) told: &'a [PathBuf],
}

/// A file that may describe code.
#[derive(Debug, Clone)]
enum CodeFile {
    /// One of ours, of another root, or of anybody in `/tmp`.
    Here(PathBuf),
    /// A copy that a recorder made, and the path that the file had.
    Kept(PathBuf, PathBuf),
    /// One of a container.
    Foreign(Entrance),
}

/// Symbols of addresses in a process.
pub(crate) fn of_process(
    sources: &Sources,
    process: CodeProcess<'_>,
    addresses: &[u64],
) -> Result<Vec<Option<Symbol>>, State> {
    let mut symbols = vec![None; addresses.len()];
    let mut read_any = false;
    let mut failed = None;
    let mut note = |file: &CodeFile, error: io::Error| {
        if error.kind() != io::ErrorKind::NotFound {
            failed = Some(reason(&file.shown(), &error));
        }
    };
    for file in dumps(sources, process) {
        match file.with(|file| JitDump::of_file(file, &mut Demangler::default())) {
            Ok(dump) => {
                read_any = true;
                fill(&mut symbols, addresses, |address| dump.get(address));
            }
            Err(error) => note(&file, error),
        }
    }
    let mut stale = None;
    let started = CodeOrigin::start_of(process.origin, process.pid);
    for file in maps(sources, process) {
        if symbols.iter().all(Option::is_some) {
            break;
        }
        let read =
            read_map(&file, started, |file| PerfMap::of_file(file, &mut InternedNames::default()));
        match read {
            Ok(Some(map)) => {
                read_any = true;
                let symbol = |address| map.get(address).map(|name| Symbol::named(Arc::clone(name)));
                fill(&mut symbols, addresses, symbol);
            }
            Ok(None) => stale = stale.or_else(|| Some(file.shown())),
            Err(error) => note(&file, error),
        }
    }
    match (read_any, failed, stale) {
        (true, ..) => Ok(symbols),
        (false, Some(reason), _) => Err(State::Unreadable(reason)),
        (false, None, Some(stale)) => Err(State::StalePerfMap(stale)),
        (false, None, None) => Err(State::NoPerfMap),
    }
}

/// The trampolines of a process of CPython.
pub(crate) fn trampolines(sources: &Sources, process: CodeProcess<'_>) -> Trampolines {
    let started = CodeOrigin::start_of(process.origin, process.pid);
    let read = |file: CodeFile| read_map(&file, started, Trampolines::of_map).ok()?;
    let found = maps(sources, process).into_iter().filter_map(read);
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// What `read` makes of a perf map; `None` if an earlier process of the same id wrote it.
fn read_map<T: Send + 'static>(
    file: &CodeFile,
    started: Option<SystemTime>,
    read: impl FnOnce(File) -> io::Result<T> + Send + 'static,
) -> io::Result<Option<T>> {
    let is_copy = matches!(file, CodeFile::Kept(..));
    file.with(move |file| {
        if !is_copy && is_older(&file.metadata()?, started) {
            return Ok(None);
        }
        read(file).map(Some)
    })
}

impl CodeFile {
    fn shown(&self) -> PathBuf {
        match self {
            Self::Here(path) | Self::Kept(_, path) => path.clone(),
            Self::Foreign(entrance) => entrance.shown(),
        }
    }

    /// What `read` makes of the file. That of a container may let a reader wait.
    fn with<T: Send + 'static>(
        &self,
        read: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match self {
            Self::Here(path) | Self::Kept(path, _) => read(open_no_link(path)?),
            Self::Foreign(entrance) => {
                let entrance = entrance.clone();
                within(LONGEST, move || read(entrance.open()?))
                    .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

fn fill(
    symbols: &mut [Option<Symbol>],
    addresses: &[u64],
    look_up: impl Fn(u64) -> Option<Symbol>,
) {
    for (symbol, &address) in
        symbols.iter_mut().zip(addresses).filter(|(symbol, _)| symbol.is_none())
    {
        *symbol = look_up(address);
    }
}

fn reason(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The copies of a process's maps, or of its dumps.
fn copies(sources: &Sources, process: CodeProcess<'_>, dumps: bool) -> Vec<CodeFile> {
    let Some((folder, origin)) = sources.copies.as_ref().zip(process.origin) else {
        return Vec::new();
    };
    let is_wanted = |path: &Path| (path.extension() == Some("dump".as_ref())) == dumps;
    let wanted = origin.copies.iter().filter(|one| is_wanted(&one.path));
    let file = |one: &crate::CodeCopy| {
        Some(CodeFile::Kept(kept::place_of_copy(folder, &one.copy)?, one.path.clone()))
    };
    wanted.filter_map(file).collect()
}

/// Where a map of a process may be: a copy first, then the other root, here, and the container it runs in.
fn maps(sources: &Sources, process: CodeProcess<'_>) -> Vec<CodeFile> {
    let here = PerfMap::path(process.pid);
    let mut files = copies(sources, process, false);
    files.extend(sources.symfs.iter().map(|root| CodeFile::Here(below(root, &here))));
    files.push(CodeFile::Here(here));
    if let Some((root, inner)) = namespaces::of_process(process.pid) {
        files.push(CodeFile::Foreign(Entrance::Below { root, path: PerfMap::path(inner) }));
    }
    files
}

/// Where a dump of a process may be: a copy, where the recording says, in the current folder (as V8 and wasmtime
/// write it), in `/tmp`, in the folders of perf's own agents, and in the container it runs in.
fn dumps(sources: &Sources, process: CodeProcess<'_>) -> Vec<CodeFile> {
    let CodeProcess { pid, told, .. } = process;
    let name = format!("jit-{pid}.dump");
    let mut files = copies(sources, process, true);
    let is_kept = |path: &PathBuf| {
        files.iter().any(|file| matches!(file, CodeFile::Kept(_, of) if of == path))
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    // At the path of a copy may be the dump of another container.
    for path in told.iter().filter(|path| !is_kept(path)) {
        paths.extend(sources.symfs.iter().map(|root| below(root, path)));
        paths.push(path.clone());
    }
    paths.extend([PathBuf::from(&name), Path::new("/tmp").join(&name)]);
    let homes = ["JITDUMPDIR", "HOME"].into_iter().filter_map(std::env::var_os);
    for folder in homes.map(|home| PathBuf::from(home).join(".debug/jit")) {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        paths.extend(entries.flatten().take(MOST_FOLDERS).map(|entry| entry.path().join(&name)));
    }
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths {
        // One dump under two names is one dump.
        let Ok(real) = path.canonicalize() else { continue };
        if !known.contains(&real) {
            known.push(real);
        }
    }
    files.extend(known.into_iter().map(CodeFile::Here));
    if namespaces::of_process(pid).is_some() {
        let root = ProcessRoot::of(pid.unsigned_abs());
        let inside = told.iter().flat_map(|path| root.places(path));
        files.extend(
            inside.map(|home| {
                CodeFile::Foreign(Entrance::Below { root: home.root, path: home.path })
            }),
        );
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// No process has this number.
    fn process(told: &[PathBuf]) -> CodeProcess<'_> {
        CodeProcess { pid: 2_147_483_000, origin: None, told }
    }

    #[test]
    fn a_copy_comes_first_and_an_older_map_is_of_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, root) = (dir.path().join("cache"), dir.path().join("root"));
        std::fs::create_dir_all(cache.join("files")).unwrap();
        std::fs::create_dir_all(root.join("tmp")).unwrap();
        std::fs::write(cache.join("files/1-2.elf"), "1000 10 of_copy\n").unwrap();
        std::fs::write(root.join("tmp/perf-2147483000.map"), "1000 20 of_other\n").unwrap();
        let sources = Sources { symfs: Some(root), copies: Some(cache), ..Sources::default() };
        let named = |started: Option<SystemTime>, copy: Option<&str>| {
            let copies = copy.map(|copy| crate::CodeCopy {
                path: "/tmp/perf-7.map".into(),
                copy: copy.to_owned(),
            });
            let copies = copies.into_iter().collect();
            let origin = CodeOrigin { started, copies, ..CodeOrigin::default() };
            let process = CodeProcess { origin: Some(&origin), ..process(&[]) };
            let found = of_process(&sources, process, &[0x1008, 0x1018])?;
            let name = |symbol: Option<Symbol>| symbol.map(|symbol| symbol.name.to_string());
            Ok(found.into_iter().map(name).collect::<Vec<_>>())
        };
        let (copy, other) = (Some("of_copy".to_owned()), Some("of_other".to_owned()));
        assert_eq!(named(None, Some("1-2")), Ok(vec![copy.clone(), other.clone()]));
        assert_eq!(named(None, None), Ok(vec![other.clone(), other]));
        let later = Some(SystemTime::now() + Duration::from_secs(60));
        assert_eq!(named(later, Some("1-2")), Ok(vec![copy, None]));
        // No name of a copy leads elsewhere.
        let Err(State::StalePerfMap(path)) = named(later, Some("../x")) else { panic!() };
        assert!(path.ends_with("tmp/perf-2147483000.map"), "{path:?}");
    }

    #[test]
    fn a_map_below_another_root_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        let map = dir.path().join("tmp/perf-2147483000.map");
        std::fs::write(&map, "1000 10 compiled\n").unwrap();
        let sources = Sources { symfs: Some(dir.path().into()), ..Sources::default() };
        let found = of_process(&sources, process(&[]), &[0x1008, 0x1010]).unwrap();
        assert_eq!(found, [Some(Symbol::named("compiled".into())), None]);
        let none = of_process(&Sources::default(), process(&[]), &[0x1008]);
        assert_eq!(none, Err(State::NoPerfMap));
    }

    #[test]
    fn a_dump_that_is_damaged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dump = dir.path().join("jit-2147483000.dump");
        std::fs::write(&dump, "no dump, but long enough for a header of forty bytes").unwrap();
        let found = of_process(&Sources::default(), process(&[dump]), &[1]);
        let Err(State::Unreadable(reason)) = found else { panic!("{found:?}") };
        assert!(reason.contains("jit-2147483000.dump"), "{reason}");
    }
}
