//! What all threads share: texts, source files and libraries, numbered in the order in which samples lead to them.

use std::ops::Range;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::aggregate::{FrameId, FunctionId};
use crate::export::FunctionRanges;
use crate::export::{Source, UNKNOWN};
use crate::pool::{available_threads, in_parallel};
use crate::profile::ModuleSummary;
use crate::timeline::modules::ModuleKind;

use super::columns::NULL;
use super::{Of, TimedCount};

/// Numbers of what the tables of threads point to.
pub(super) struct SharedNumbers<'a> {
    source: &'a Source<'a>,
    strings: Strings,
    libs: Libs<'a>,
    frames: Vec<FrameRefs>,
    /// Text of the name of each function.
    functions: Vec<u32>,
    /// Text for what has no name.
    unknown: u32,
    /// Where functions begin and end.
    ranges: &'a FunctionRanges,
    /// Library and text of the name of each module.
    modules: FxHashMap<u32, (u32, u32)>,
}

/// What a frame points to.
#[derive(Debug, Clone, Copy)]
struct FrameRefs {
    is_met: bool,
    inlined: bool,
    /// The source file, or [`NULL`].
    file: u32,
}

impl<'a> SharedNumbers<'a> {
    /// Numbers what all stacks of `threads` lead to.
    pub(super) fn new(
        source: &'a Source<'a>,
        threads: &[Of<'_>],
        ranges: &'a FunctionRanges,
    ) -> Self {
        let counts = source.counts;
        let frame = |inlined| FrameRefs { is_met: false, inlined, file: NULL };
        let mut shared = Self {
            source,
            strings: Strings::default(),
            libs: Libs::new(source),
            frames: counts.frames.iter().map(|code| frame(code.inlined)).collect(),
            functions: vec![NULL; counts.functions.len()],
            unknown: NULL,
            ranges,
            modules: FxHashMap::default(),
        };
        let parts = parts(threads, available_threads());
        for frame in in_parallel(parts, |part| frames_met(source, &part)).into_iter().flatten() {
            shared.number_frame(frame);
        }
        shared
    }

    fn number_frame(&mut self, frame: FrameId) {
        let refs = &mut self.frames[frame as usize];
        if std::mem::replace(&mut refs.is_met, true) {
            return;
        }
        let counts = self.source.counts;
        let code = &counts.frames[frame as usize];
        if let Some(line) = &code.line {
            refs.file = self.strings.file(&line.file);
        }
        let (text, name) = match code.function {
            Some(id) => (&mut self.functions[id as usize], &*counts.functions[id as usize].name),
            None => (&mut self.unknown, UNKNOWN),
        };
        if *text == NULL {
            *text = self.strings.id(name);
        }
        self.modules.entry(code.module).or_insert_with(|| {
            let lib = self.libs.id(code.module);
            (lib, self.strings.id(self.source.module_name(code.module)))
        });
    }

    /// Whether a frame's code is inlined into that of its caller.
    #[inline]
    pub(super) fn is_inlined(&self, frame: FrameId) -> bool {
        self.frames[frame as usize].inlined
    }

    /// Number of a frame's source file, or [`NULL`].
    pub(super) fn file(&self, frame: FrameId) -> u32 {
        self.frames[frame as usize].file
    }

    /// Text of a function's name.
    pub(super) fn function_name(&self, function: Option<FunctionId>) -> u32 {
        function.map_or(self.unknown, |function| self.functions[function as usize])
    }

    /// The function of the file's symbol table at an address of a module.
    pub(super) fn range(&self, module: u32, address: u64) -> Option<&Range<u64>> {
        self.ranges.at(module, address)
    }

    /// Library of a module, and text of its name.
    pub(super) fn module(&self, module: u32) -> (u32, u32) {
        self.modules.get(&module).copied().unwrap_or((0, 0))
    }

    pub(super) fn kind(&self, module: u32) -> super::FrameCategory {
        self.libs.kind(module)
    }

    pub(super) fn libs(&self) -> Vec<Lib> {
        self.libs.list()
    }

    pub(super) fn tables(&self) -> SharedTables<'_> {
        self.strings.shared()
    }
}

/// The samples of all threads in this number of parts of about the same size, or fewer.
fn parts<'t>(threads: &'t [Of<'_>], number: usize) -> Vec<Vec<&'t [TimedCount]>> {
    let samples: usize = threads.iter().map(|thread| thread.by_block.len()).sum();
    let size = samples.div_ceil(number).max(1);
    let (mut parts, mut free) = (Vec::new(), 0);
    for mut rest in threads.iter().map(|thread| &thread.by_block[..]) {
        while !rest.is_empty() {
            if free == 0 {
                parts.push(Vec::new());
                free = size;
            }
            let (now, after) = rest.split_at(rest.len().min(free));
            if let Some(part) = parts.last_mut() {
                part.push(now);
            }
            free -= now.len();
            rest = after;
        }
    }
    parts
}

/// Frames in the order in which samples lead to them, the outermost of each stack first. If a stack is met, all its
/// callers are.
fn frames_met(source: &Source<'_>, samples: &[&[TimedCount]]) -> Vec<FrameId> {
    let stacks = &source.counts.stacks;
    let mut stacks_met = vec![0_u64; stacks.len().div_ceil(64)];
    let mut frames_met = vec![false; source.counts.frames.len()];
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for &(_, stack, _) in samples.iter().copied().flatten() {
        let mut at = stack;
        while let Some((frame, parent)) = stacks.frame(at).zip(stacks.parent(at)) {
            let (word, bit) = (&mut stacks_met[at as usize / 64], 1 << (at % 64));
            if *word & bit != 0 {
                break;
            }
            *word |= bit;
            missing.push(frame);
            at = parent;
        }
        while let Some(frame) = missing.pop() {
            if !std::mem::replace(&mut frames_met[frame as usize], true) {
                found.push(frame);
            }
        }
    }
    found
}

/// Each text once.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    known: FxHashMap<String, u32>,
    /// Files of source code: index of the text, and the number of the file.
    files: Vec<u32>,
    file_ids: FxHashMap<u32, u32>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        let id = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), id);
        id
    }

    /// Number of a source file.
    fn file(&mut self, path: &str) -> u32 {
        let text = self.id(path);
        *self.file_ids.entry(text).or_insert_with(|| {
            self.files.push(text);
            self.files.len() as u32 - 1
        })
    }

    fn shared(&self) -> SharedTables<'_> {
        let sources = Sources {
            length: self.files.len(),
            uuid: vec![None; self.files.len()],
            filename: &self.files,
        };
        SharedTables { string_array: &self.list, sources }
    }
}

#[derive(Serialize)]
pub(super) struct SharedTables<'a> {
    #[serde(rename = "stringArray")]
    string_array: &'a [String],
    sources: Sources<'a>,
}

#[derive(Serialize)]
struct Sources<'a> {
    length: usize,
    uuid: Vec<Option<String>>,
    filename: &'a [u32],
}

/// A library, which is any module that functions lie in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    arch: String,
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    code_id: Option<String>,
}

/// Modules in the order they were met.
struct Libs<'a> {
    modules: &'a [ModuleSummary],
    arch: String,
    used: Vec<u32>,
    ids: FxHashMap<u32, u32>,
}

impl<'a> Libs<'a> {
    fn new(source: &Source<'a>) -> Self {
        let arch = source.about.arch.clone().unwrap_or_default();
        Self { modules: source.modules, arch, used: Vec::new(), ids: FxHashMap::default() }
    }

    fn id(&mut self, module: u32) -> u32 {
        *self.ids.entry(module).or_insert_with(|| {
            self.used.push(module);
            self.used.len() as u32 - 1
        })
    }

    fn kind(&self, module: u32) -> super::FrameCategory {
        match self.modules.get(module as usize).map(|module| module.kind) {
            Some(ModuleKind::Kernel | ModuleKind::KernelLoaded) => super::FrameCategory::Kernel,
            Some(ModuleKind::File | ModuleKind::Vdso) => super::FrameCategory::User,
            Some(ModuleKind::Jit { .. }) => super::FrameCategory::Jit,
            Some(ModuleKind::Other) | None => super::FrameCategory::Other,
        }
    }

    fn list(&self) -> Vec<Lib> {
        self.used.iter().map(|&module| self.lib(self.modules.get(module as usize))).collect()
    }

    fn lib(&self, module: Option<&ModuleSummary>) -> Lib {
        let path = module.map_or(UNKNOWN, |module| module.path.as_str()).to_owned();
        let name = module.map_or(UNKNOWN, ModuleSummary::short_name).to_owned();
        let code_id = module.and_then(|module| module.build_id.as_ref()).map(ToString::to_string);
        Lib {
            arch: self.arch.clone(),
            breakpad_id: code_id.as_deref().map_or_else(String::new, breakpad_id),
            debug_name: name.clone(),
            debug_path: path.clone(),
            name,
            path,
            code_id,
        }
    }
}

/// The id of Breakpad's symbol files: the first 16 bytes of the build id read as a GUID, whose first
/// three numbers are little-endian, in hexadecimal; then the age, 0.
pub(crate) fn breakpad_id(build_id: &str) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte = |at: usize| build_id.get(2 * at..2 * at + 2).unwrap_or("00");
    let guid: String = ORDER.into_iter().map(byte).collect();
    format!("{}0", guid.to_uppercase())
}
