//! The symbol at an address, or why there is none.

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::demangle::FunctionName;
use crate::{BuildId, Doubt, MissingSplit};

/// The function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Name of the function that holds the code, demangled.
    pub name: Arc<str>,
    /// The name with the function's parameters, where the symbol has them (C++): overloads have one
    /// name, and differ here.
    pub signature: Option<Arc<str>>,
    /// Line of the address in that function, or of the call into the first inlined one.
    pub line: Option<Line>,
    /// Functions inlined there, the outermost first; the last one is where the address really is.
    pub inlined: Box<[Frame]>,
}

impl Symbol {
    /// A function of which nothing but the name is known.
    #[must_use]
    pub fn named(name: Arc<str>) -> Self {
        Self { name, signature: None, line: None, inlined: Box::default() }
    }

    /// The same with signatures for names.
    pub(crate) fn with_signatures(&self) -> Self {
        let shown = |name: &Arc<str>, signature: &Option<Arc<str>>| {
            Arc::clone(signature.as_ref().unwrap_or(name))
        };
        let frame = |frame: &Frame| Frame {
            name: shown(&frame.name, &frame.signature),
            signature: None,
            line: frame.line.clone(),
        };
        Self {
            name: shown(&self.name, &self.signature),
            signature: None,
            line: self.line.clone(),
            inlined: self.inlined.iter().map(frame).collect(),
        }
    }

    /// Name of the function the address really is in: the innermost inlined one.
    #[must_use]
    pub fn innermost(&self) -> &Arc<str> {
        self.inlined.last().map_or(&self.name, |frame| &frame.name)
    }
}

/// A function that was inlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its name, demangled.
    pub name: Arc<str>,
    /// As [`Symbol::signature`].
    pub signature: Option<Arc<str>>,
    /// Line of the address in it, or of the call into the next.
    pub line: Option<Line>,
}

impl Frame {
    /// An inlined function of which the name and the line are known.
    #[must_use]
    pub fn named(name: Arc<str>, line: Option<Line>) -> Self {
        Self { name, signature: None, line }
    }
}

impl From<FunctionName> for Symbol {
    fn from(FunctionName { name, signature }: FunctionName) -> Self {
        Self { signature, ..Self::named(name) }
    }
}

/// A position in a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// Path as the compiler noted it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub number: Option<u32>,
}

/// Whether symbols of a module could be had, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// At least one address has a symbol.
    Found,
    /// At least one address has a symbol, of a file that may not be the one that ran.
    Unproven(Doubt),
    /// At least one address has a symbol, but inlined functions are missing: they are in files that could not be used.
    SplitMissing(MissingSplit),
    /// The file has no symbols for the addresses, as after strip(1).
    NoSymbols,
    /// The file has no symbols for the addresses, and the debug file found for it is of another build.
    DebugFileDiffers(PathBuf),
    /// No such file any more, or on another machine.
    FileMissing,
    /// The file was replaced or removed while it ran: what is there now is another, or nothing.
    FileReplaced,
    /// The file at the recorded path has no build ID, and is another one than ran: it has another inode, or was
    /// changed after the recording.
    FileChanged,
    /// The file is there, and this user may not read it.
    NotAllowed,
    /// The file is there and cannot be read; the reason.
    Unreadable(String),
    /// The file is there and is no ELF file: neither a program nor a library.
    NotElf,
    /// Another build of the file is there now.
    BuildIdDiffers {
        /// The recording's.
        recorded: BuildId,
        /// The file's; `None` if it has none.
        file: Option<BuildId>,
    },
    /// The kernel hides its addresses from this user.
    KernelHidden,
    /// Recorded with another kernel, or on another machine.
    OtherKernel,
    /// Recorded with this kernel before it was rebooted at other addresses, or that cannot be
    /// determined.
    OtherBoot,
    /// The runtime left neither `/tmp/perf-PID.map` nor `jit-PID.dump`.
    NoPerfMap,
    /// The perf map at this path was last written before the process started, so another process of the same id wrote it.
    StalePerfMap(PathBuf),
    /// Nothing is known about the mapping.
    NotMapped,
}

/// Each name once.
#[derive(Debug, Default)]
pub(crate) struct InternedNames(FxHashSet<Arc<str>>);

impl InternedNames {
    pub(crate) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(name) = self.0.get(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}
