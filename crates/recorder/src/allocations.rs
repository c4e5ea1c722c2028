//! The events that record allocations: uprobes on the functions of an allocator.
//!
//! ```text
//!  malloc(48)   ── alloc:call    function, arguments, stack pointer
//!     ⋮
//!  ret          ── alloc:return  address, stack pointer, callchain of who called malloc
//! ```
//! The address is known at the return only, and the arguments at the call only. All functions of all files share these
//! two events, so a recording has two descriptors more per CPU, whatever it probes.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmuscope_abi::{Attr, event_type};
use pmuscope_events::{CallGraph, Event, Group, Origin, Sampling};
use pmuscope_machine::{
    Machine, MachineError, UprobeDefinition, UprobeError, UprobeEvents, UprobePlace,
};
use pmuscope_perfdata::allocations::{CALL, HeapFunction, RETURN};
use pmuscope_symbols::{ProcessRoot, dynamic_loader, function_offsets};

/// Names in tracefs, where a colon may not be.
const CALL_EVENT: &str = "alloc_call";
const RETURN_EVENT: &str = "alloc_return";

/// Bytes of the stack that are copied at a return. Allocation functions of C++ and Rust keep no frame pointer, so only
/// unwind tables find who called them; a dozen frames of usual size are a KiB.
const STACK_BYTES: u32 = 1024;

/// Loaders of the C libraries: one that is there is what programs are run by that are started later.
const LOADERS: [&str; 6] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib64/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Why allocations cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationsError {
    /// The kernel does not allow uprobes, or has none.
    #[error("--alloc: {0}")]
    Uprobes(#[from] UprobeError),
    /// A process cannot be looked at.
    #[error("--alloc: {0}")]
    Machine(#[from] MachineError),
    /// No file defines `malloc`.
    #[error(
        "--alloc: no allocator found: none of {} defines malloc with a symbol. Try: \
         --alloc=/path/to/liballocator.so",
        listed(files)
    )]
    NoAllocator {
        /// The files that were looked at.
        files: Vec<PathBuf>,
    },
    /// The processor's registers are not known here.
    #[error("--alloc: not available on this architecture, only on x86-64 and AArch64")]
    Architecture,
}

impl AllocationsError {
    /// Whether this machine, or missing rights, are the reason.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        matches!(self, Self::Uprobes(_) | Self::Architecture)
    }
}

fn listed(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// Files that may have an allocator.
#[derive(Debug, Default)]
pub struct AllocatorFiles {
    files: Vec<PathBuf>,
    /// Device and inode of each.
    known: BTreeSet<(u64, u64)>,
}

impl AllocatorFiles {
    /// Adds a file, once; nothing where there is none.
    pub fn add(&mut self, path: &Path) {
        if let Ok(found) = std::fs::metadata(path)
            && found.is_file()
            && self.known.insert((found.dev(), found.ino()))
        {
            self.files.push(path.to_owned());
        }
    }

    /// Adds a program and the C library that it is run with.
    pub fn add_program(&mut self, path: &Path) {
        self.add(path);
        if let Some(loader) = dynamic_loader(path) {
            self.add_loader(&loader);
        }
    }

    /// Adds the C libraries of this machine.
    pub fn add_libraries(&mut self) {
        LOADERS.iter().for_each(|loader| self.add_loader(Path::new(loader)));
    }

    /// Adds the files that a process or thread has mapped to run.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn add_process(&mut self, machine: &Machine, pid: u32) -> Result<(), MachineError> {
        use std::os::unix::ffi::OsStrExt as _;
        let root = ProcessRoot::of(pid);
        for mapping in machine.mappings(pid)?.iter().filter(|mapping| mapping.executable) {
            let path = Path::new(std::ffi::OsStr::from_bytes(&mapping.path));
            if path.is_absolute()
                && let Some(path) = root.candidates(path).find(|path| path.is_file())
            {
                self.add(&path);
            }
        }
        Ok(())
    }

    /// The C library of a loader: musl's is the loader itself.
    fn add_loader(&mut self, loader: &Path) {
        self.add(loader);
        if let Some(library) = glibc_of(loader, Path::new("/")) {
            self.add(&library);
        }
    }
}

/// The C library that glibc's `loader` loads: in the folder of the file that the loader is a link to; else, as where the
/// loader was copied without its folder, in the first of the folders below `root` that it searches by itself.
fn glibc_of(loader: &Path, root: &Path) -> Option<PathBuf> {
    const NAME: &str = "libc.so.6";
    let near = loader.canonicalize().ok()?.with_file_name(NAME);
    if near.is_file() || !loader.file_name()?.to_str()?.starts_with("ld-linux") {
        return near.is_file().then_some(near);
    }
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [&multiarch, "lib64", "lib"].map(|folder| root.join(folder));
    let below_usr = [&multiarch, "lib64", "lib"].map(|folder| root.join("usr").join(folder));
    let files = folders.iter().chain(&below_usr).map(|folder| folder.join(NAME));
    files.into_iter().find(|file| file.is_file())
}

/// Events of allocations, which are there until this is dropped.
#[derive(Debug)]
pub struct Allocations {
    events: UprobeEvents,
    /// Files with an allocator.
    pub files: Vec<PathBuf>,
}

impl Allocations {
    /// Defines the events for what `files` have.
    ///
    /// # Errors
    /// See [`AllocationsError`].
    pub fn define(machine: &Machine, files: AllocatorFiles) -> Result<Self, AllocationsError> {
        let registers = registers().ok_or(AllocationsError::Architecture)?;
        let (mut calls, mut returns, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for file in &files.files {
            let functions = functions(file);
            if !functions.is_empty() {
                found.push(file.clone());
            }
            for (offset, function) in functions {
                let place = |arguments| UprobePlace { file: file.clone(), offset, arguments };
                let [a, b, c, sp] = registers;
                calls.push(place(format!(
                    "function=\\{}:u64 arg1={a}:x64 arg2={b}:x64 arg3={c}:x64 sp={sp}:x64",
                    function as u64
                )));
                if function != HeapFunction::Free {
                    returns.push(place(format!("value=$retval:x64 sp={sp}:x64")));
                }
            }
        }
        if returns.is_empty() {
            return Err(AllocationsError::NoAllocator { files: files.files });
        }
        let call = UprobeDefinition { name: CALL_EVENT, at_return: false, places: calls };
        let returned = UprobeDefinition { name: RETURN_EVENT, at_return: true, places: returns };
        Ok(Self { events: UprobeEvents::define(machine, &[call, returned])?, files: found })
    }

    /// The events, for [`RecordOptions::groups`](crate::RecordOptions::groups); with callchains as the recording has
    /// them if `own_call_graph`, else by copies of the stack.
    #[must_use]
    pub fn groups(&self, own_call_graph: bool) -> Vec<Group> {
        let one = |name: &str, defined: &str, call_graph: Option<CallGraph>| {
            let config = self.events.id(defined).unwrap_or(0); // both are defined
            let attr = Attr { event_type: event_type::TRACEPOINT, config, ..Attr::default() };
            let event = Event {
                name: name.into(),
                typed: name.into(),
                sampling: Some(Sampling::Period(1)),
                call_graph,
                stack_size: (call_graph == Some(CallGraph::Dwarf)).then_some(STACK_BYTES),
                ..Event::new("tracepoint", attr, Origin::Tracepoint)
            };
            let events = vec![event];
            Group { name: None, events, leader_sampling: false, weak: false, braces: false }
        };
        let of_returns = (!own_call_graph).then_some(CallGraph::Dwarf);
        vec![one(CALL, CALL_EVENT, Some(CallGraph::None)), one(RETURN, RETURN_EVENT, of_returns)]
    }
}

/// Where the functions of an allocator begin in a file, each place once; none if it has no `malloc`.
fn functions(file: &Path) -> Vec<(u64, HeapFunction)> {
    let names = HeapFunction::NAMES.map(|(name, _)| name);
    let found = function_offsets(file, &names).unwrap_or_default();
    if !matches!(found.first(), Some(Some(_))) {
        return Vec::new();
    }
    let mut places: Vec<(u64, HeapFunction)> = Vec::new();
    for (offset, (_, function)) in found.into_iter().zip(HeapFunction::NAMES) {
        if let Some(offset) = offset
            && places.iter().all(|place| place.0 != offset)
        {
            places.push((offset, function));
        }
    }
    places
}

/// The first three arguments and the stack pointer, as the kernel calls registers.
fn registers() -> Option<[&'static str; 4]> {
    match std::env::consts::ARCH {
        "x86_64" => Some(["%di", "%si", "%dx", "%sp"]),
        "aarch64" => Some(["%x0", "%x1", "%x2", "%sp"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_this_program_has_an_allocator_whose_places_differ() {
        let mut files = AllocatorFiles::default();
        files.add_process(&Machine::host(), std::process::id()).unwrap();
        let found: Vec<_> = files.files.iter().map(|file| functions(file)).collect();
        let most = found.iter().max_by_key(|functions| functions.len()).unwrap();
        for function in [HeapFunction::Malloc, HeapFunction::Free, HeapFunction::Realloc] {
            assert!(most.iter().any(|place| place.1 == function), "{function:?}: {files:?}");
        }
        let places: BTreeSet<u64> = most.iter().map(|place| place.0).collect();
        assert_eq!(places.len(), most.len());
    }

    #[test]
    fn the_c_library_is_found_where_only_files_without_links_are() {
        let root = tempfile::tempdir().unwrap();
        let multiarch = root.path().join(format!("lib/{}-linux-gnu", std::env::consts::ARCH));
        let lib64 = root.path().join("lib64");
        std::fs::create_dir_all(&multiarch).unwrap();
        std::fs::create_dir_all(&lib64).unwrap();
        let file = |path: PathBuf| {
            std::fs::write(&path, "").unwrap();
            path
        };
        let glibc = file(multiarch.join("libc.so.6"));
        // A copy, as in a guest, where a distribution has a link.
        let copied = file(lib64.join("ld-linux-x86-64.so.2"));
        assert_eq!(glibc_of(&copied, root.path()), Some(glibc.clone()));
        let real = file(multiarch.join("ld-linux-x86-64.so.2"));
        let link = lib64.join("ld-linux-aarch64.so.1");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(glibc_of(&link, Path::new("/nonexistent")), Some(glibc));
        let musl = file(lib64.join("ld-musl-x86_64.so.1"));
        assert_eq!(glibc_of(&musl, root.path()), None);
        assert_eq!(glibc_of(&lib64.join("absent"), root.path()), None);
    }

    #[test]
    fn a_file_is_taken_once() {
        let mut files = AllocatorFiles::default();
        files.add(Path::new("/proc/self/exe"));
        files.add(&std::env::current_exe().unwrap());
        files.add(Path::new("/nonexistent"));
        files.add(Path::new("/tmp"));
        assert_eq!(files.files.len(), 1);
    }
}
