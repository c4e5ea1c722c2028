//! What all threads share: texts and libraries.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::export::{Source, UNKNOWN};
use crate::profile::ModuleSummary;
use crate::timeline::modules::ModuleKind;

/// Each text once.
#[derive(Default)]
pub(super) struct Strings {
    list: Vec<String>,
    known: FxHashMap<String, u32>,
    /// Files of source code: index of the text, and the number of the file.
    files: Vec<u32>,
    file_ids: FxHashMap<u32, u32>,
}

impl Strings {
    pub(super) fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        let id = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), id);
        id
    }

    /// Number of a source file.
    pub(super) fn file(&mut self, path: &str) -> u32 {
        let text = self.id(path);
        *self.file_ids.entry(text).or_insert_with(|| {
            self.files.push(text);
            self.files.len() as u32 - 1
        })
    }

    pub(super) fn shared(self) -> SharedTables {
        let sources = Sources {
            length: self.files.len(),
            uuid: vec![None; self.files.len()],
            filename: self.files,
        };
        SharedTables { string_array: self.list, sources }
    }
}

#[derive(Serialize)]
pub(super) struct SharedTables {
    #[serde(rename = "stringArray")]
    string_array: Vec<String>,
    sources: Sources,
}

#[derive(Serialize)]
struct Sources {
    length: usize,
    uuid: Vec<Option<String>>,
    filename: Vec<u32>,
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
pub(super) struct Libs<'a> {
    modules: &'a [ModuleSummary],
    arch: String,
    used: Vec<u32>,
    ids: FxHashMap<u32, u32>,
}

impl<'a> Libs<'a> {
    pub(super) fn new(source: &Source<'a>) -> Self {
        let arch = source.about.arch.clone().unwrap_or_default();
        Self { modules: source.modules, arch, used: Vec::new(), ids: FxHashMap::default() }
    }

    pub(super) fn id(&mut self, module: u32) -> u32 {
        *self.ids.entry(module).or_insert_with(|| {
            self.used.push(module);
            self.used.len() as u32 - 1
        })
    }

    pub(super) fn kind(&self, module: u32) -> super::FrameCategory {
        match self.modules.get(module as usize).map(|module| module.kind) {
            Some(ModuleKind::Kernel | ModuleKind::KernelLoaded) => super::FrameCategory::Kernel,
            Some(ModuleKind::File | ModuleKind::Vdso) => super::FrameCategory::User,
            Some(ModuleKind::Jit { .. }) => super::FrameCategory::Jit,
            Some(ModuleKind::Other) | None => super::FrameCategory::Other,
        }
    }

    pub(super) fn list(&self) -> Vec<Lib> {
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
pub(super) fn breakpad_id(build_id: &str) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte = |at: usize| build_id.get(2 * at..2 * at + 2).unwrap_or("00");
    let guid: String = ORDER.into_iter().map(byte).collect();
    format!("{}0", guid.to_uppercase())
}
