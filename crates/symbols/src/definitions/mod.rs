//! What a file defines, by name: variables with their types and members, functions, lines.
//!
//! The rest of this crate goes from addresses to names. This module goes from names to addresses, for
//! setting watchpoints:
//!
//! ```text
//!  expression ─► scan: variables of that name ─► location: where it is ─► follow: fields, indices,
//!                (units of .debug_info, in       (DW_AT_location)        pointers, by types
//!                 parallel; else .symtab)
//!  function   ─► symbol tables
//!  file:line  ─► line tables
//! ```
//!
//! Addresses are those of the file, as in its symbol table; the caller adds where a process has
//! mapped it. Pointers are followed by the caller, who can read memory: a [`DataPlace`] lists the
//! steps.

mod accesses;
mod error;
mod expression;
mod follow;
mod kernel;
mod layout;
mod lines;
mod location;
mod names;
mod scan;
mod tables;
mod type_layout;
mod typed;
mod types;
mod units;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub use accesses::{AccessedField, UnknownAccess};
pub use error::DefinitionError;
pub use expression::{Expression, ExpressionError};
pub use kernel::{KernelNameError, KernelSymbol, kernel_symbols};
pub use layout::FieldAt;
pub use type_layout::{
    ArrayLayout, FieldRole, LayoutField, LayoutKind, PartLayout, Repeated, TypeLayout,
};

use object::read::Object as _;

use crate::dwarf::DebugInfo;
use crate::image::Image;
use crate::locate::Locator;
use crate::objects::{self, DataObject};
use crate::{BuildId, ModuleFile, Sources, State};

/// How the bytes of an object are interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// An unsigned integer; also an object of which only the size is known.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// IEEE 754 of 4 or 8 bytes; x87 of 10 in 12 or 16.
    Float,
    /// 0 or another value.
    Bool,
    /// A character: of 1 byte, or a Unicode scalar value of 2 or 4.
    Char,
    /// An address.
    Pointer,
    /// One of named values.
    Enum(Vec<(i64, String)>),
    /// Several objects in one: a structure, an array.
    Other,
}

/// One step to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Adds this many bytes; wraps around, as indices can be negative.
    Add(u64),
    /// Reads a pointer there and continues at its target.
    Dereference,
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlace {
    /// Name of the variable, scopes included.
    pub variable: String,
    /// The variable's address, as the file's symbol table counts; of a thread-local one from the thread pointer of the
    /// thread, wrapping around.
    pub base: u64,
    /// Each thread has its own.
    pub is_thread_local: bool,
    /// The steps from there to the object.
    pub steps: Vec<Step>,
    /// Size of the object, bytes; 0: not known.
    pub bytes: u64,
    /// Size of a pointer of the program, bytes: 4 or 8.
    pub pointer_bytes: u8,
    /// How to read it.
    pub value: ValueType,
    /// Its type in the syntax of its language; `None`: there is a symbol but no type.
    pub type_name: Option<String>,
    /// File and line that declare the variable.
    pub declared: Option<(String, u32)>,
}

/// Addresses in code that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodePlaces {
    /// The function, or file and line, as found.
    pub name: String,
    /// Addresses of instructions, as the file's symbol table counts; ascending, never none.
    pub addresses: Vec<u64>,
    /// The line that this code belongs to, if a line was asked for: that line or the next with
    /// code.
    pub line: Option<u32>,
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A variable.
    Data,
    /// A function.
    Code,
}

/// A file with its definitions.
#[derive(Debug)]
pub struct Definitions {
    image: Arc<Image>,
    /// Its separate debug file.
    separate: Option<Arc<Image>>,
    /// Its `.gnu_debugdata`.
    mini: Option<Image>,
    debug_dirs: Vec<PathBuf>,
    debug: OnceLock<Option<DebugInfo>>,
    /// Why there is no debug information, if there is none.
    lacking: String,
    /// Most threads to use.
    threads: usize,
}

impl Definitions {
    /// Opens the file that ran as `path`, of build `build_id` if that is known.
    ///
    /// # Errors
    /// If it is not available.
    pub fn open(sources: &Sources, path: &Path, build_id: Option<&BuildId>) -> Result<Self, State> {
        Self::of(sources, ModuleFile { path, build_id, mapped: None })
    }

    /// Opens `file`, as a recording has it.
    ///
    /// # Errors
    /// As [`Definitions::open`].
    pub(crate) fn of(sources: &Sources, file: ModuleFile<'_>) -> Result<Self, State> {
        let ModuleFile { path, build_id, .. } = file;
        let locator = Locator::new(sources);
        let image = locator.file(file)?;
        let own_id = image.build_id();
        let mut separate = None;
        if !(image.has(".symtab") && image.has(".debug_info")) {
            let id = build_id.or(own_id.as_ref());
            let debug = locator
                .debug_file(&image, id, |file| file.has(".symtab") || file.has(".debug_info"));
            separate = debug.image.map(Arc::new);
        }
        let mini = if image.has(".symtab") { None } else { image.debugdata() };
        let lacking = format!("{} has no debug information", path.display());
        let threads = sources.threads.or_else(|| std::thread::available_parallelism().ok());
        Ok(Self {
            image: Arc::new(image),
            separate,
            mini,
            debug_dirs: locator.debug_dirs(),
            debug: OnceLock::new(),
            lacking,
            threads: threads.map_or(1, usize::from),
        })
    }

    /// Its debug information; that of its debug file, where it has none.
    fn debug(&self) -> Option<&DebugInfo> {
        let found = self.debug.get_or_init(|| {
            let images = std::iter::once(&self.image).chain(&self.separate);
            images.into_iter().find_map(|image| DebugInfo::of(Arc::clone(image), &self.debug_dirs))
        });
        found.as_ref()
    }

    /// The same with where variables are at which instructions.
    fn debug_with_locations(&self) -> Option<DebugInfo> {
        let mut images = std::iter::once(&self.image).chain(&self.separate);
        images.find_map(|image| DebugInfo::with_locations(Arc::clone(image), &self.debug_dirs))
    }

    /// The object that `expression` names; of several variables of one name the one in the source file
    /// `file`.
    ///
    /// # Errors
    /// If there is none; the error says why, and lists similar names.
    pub fn data(
        &self,
        file: Option<&str>,
        expression: &Expression,
    ) -> Result<DataPlace, DefinitionError> {
        match self.debug() {
            Some(debug) => typed::data(self, debug, file, expression),
            None => self.plain(file, expression),
        }
    }

    /// The same of a thread-local variable of the program itself (not of a library), whose copies all threads have at the
    /// same distance from their thread pointers. Needs debug information.
    ///
    /// # Errors
    /// If there is none; the error says why.
    pub fn thread_data(
        &self,
        file: Option<&str>,
        expression: &Expression,
    ) -> Result<DataPlace, DefinitionError> {
        match self.debug() {
            Some(debug) => typed::thread_data(self, debug, file, expression),
            None => self.plain(file, expression),
        }
    }

    /// The fields of the variable `name` at these offsets, the innermost ones; `address` is the variable's, as the file's
    /// symbol table has it. `None` where debug information does not have it.
    #[must_use]
    pub fn fields(&self, name: &str, address: u64, offsets: &[u64]) -> Vec<Option<FieldAt>> {
        let expression = Expression::of_variable(name);
        let found = expression.zip(self.debug()).and_then(|(expression, debug)| {
            typed::fields(self, debug, (&expression, address), offsets)
        });
        found.unwrap_or_else(|| vec![None; offsets.len()])
    }

    /// The fields at these offsets in the object that `expression` leads to, the innermost ones. `None` where debug
    /// information does not have it.
    #[must_use]
    pub fn parts(
        &self,
        file: Option<&str>,
        expression: &Expression,
        offsets: &[u64],
    ) -> Vec<Option<FieldAt>> {
        let found =
            self.debug().and_then(|debug| typed::parts(self, debug, (file, expression), offsets));
        found.unwrap_or_else(|| vec![None; offsets.len()])
    }

    /// The variable or function at each of `addresses`, as the file's symbol table counts, and the field there.
    #[must_use]
    pub fn objects(&self, addresses: &[u64]) -> Vec<Option<DataObject>> {
        let others = self.separate.as_deref().or(self.mini.as_ref());
        objects::named(self, objects::in_tables(&self.image, others, addresses))
    }

    /// For each of `parts`, which are offsets in the variable `name` at `address`: the innermost structure or array of it
    /// that has all of them. `None` where debug information does not have it.
    #[must_use]
    pub fn part_layouts(
        &self,
        name: &str,
        address: u64,
        parts: &[Vec<u64>],
    ) -> Vec<Option<PartLayout>> {
        let expression = Expression::of_variable(name);
        let found = expression.zip(self.debug()).and_then(|(expression, debug)| {
            typed::part_layouts(self, debug, (&expression, address), parts)
        });
        found.unwrap_or_else(|| vec![None; parts.len()])
    }

    /// The members of the structure, class or union `name`, with its namespaces: `site::queue`, `struct queue`. `None` if
    /// debug information does not have it.
    #[must_use]
    pub fn type_layout(&self, name: &str) -> Option<TypeLayout> {
        typed::type_layout(self, self.debug()?, &type_name(name)?)
    }

    /// For each of `parts`, which are offsets in an object of the structure, class or union `name`: the innermost structure
    /// or array of it that has all of them; see [`Definitions::type_layout`] and [`Definitions::part_layouts`].
    #[must_use]
    pub fn type_part_layouts(&self, name: &str, parts: &[Vec<u64>]) -> Vec<Option<PartLayout>> {
        let found = type_name(name)
            .zip(self.debug())
            .and_then(|(name, debug)| typed::type_part_layouts(self, debug, &name, parts));
        found.unwrap_or_else(|| vec![None; parts.len()])
    }

    /// Whether it is a program for 32-bit x86.
    fn is_i386(&self) -> bool {
        self.image.elf().is_ok_and(|elf| elf.architecture() == object::Architecture::I386)
    }

    /// The functions called `name`, as the symbol table has them or as they read; several are there
    /// if it is overloaded, or if several files have one.
    ///
    /// # Errors
    /// If there is none.
    pub fn functions(&self, name: &str) -> Result<CodePlaces, DefinitionError> {
        let mut addresses: Vec<u64> =
            (tables::find(self, name, None, tables::DefinitionKind::Code).iter())
                .map(|symbol| symbol.address)
                .collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            let near = tables::near(self, name, tables::DefinitionKind::Code);
            return Err(DefinitionError::NoFunction { name: name.to_owned(), near });
        }
        Ok(CodePlaces { name: name.to_owned(), addresses, line: None })
    }

    /// Where the code of `line` of the source file `file` begins, including inlined copies; if the line
    /// has no code, of the next line that has.
    ///
    /// # Errors
    /// If no code comes from there, or there is no line information.
    pub fn line(&self, file: &str, line: u32) -> Result<CodePlaces, DefinitionError> {
        match self.debug() {
            Some(debug) => lines::find(self, debug, file, line),
            None => {
                Err(DefinitionError::NoLines { file: file.to_owned(), why: self.lacking.clone() })
            }
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.image.path()
    }

    /// Whether it has only the names that it exports, as after strip(1).
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        let has = |image: &Image| image.has(".symtab") || image.has(".debug_info");
        !has(&self.image) && !self.separate.as_deref().is_some_and(has) && self.mini.is_none()
    }

    fn pointer_bytes(&self) -> u8 {
        if self.image.elf().is_ok_and(|elf| !elf.is_64()) { 4 } else { 8 }
    }

    /// Whether a symbol table calls a variable or a function `name`.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<NameKind> {
        let has = |kind| !tables::find(self, name, None, kind).is_empty();
        let data = has(tables::DefinitionKind::Data) || has(tables::DefinitionKind::ThreadLocal);
        let code = || has(tables::DefinitionKind::Code).then_some(NameKind::Code);
        if data { Some(NameKind::Data) } else { code() }
    }

    /// Parts that a process maps: address and size in memory, bytes, offset in the file, and whether
    /// they are executed.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        tables::segments(&self.image)
    }

    /// By symbol tables alone.
    fn plain(
        &self,
        file: Option<&str>,
        expression: &Expression,
    ) -> Result<DataPlace, DefinitionError> {
        self.plain_because(file, expression, self.lacking.clone())
    }

    /// By symbol tables alone; `why` nothing else tells.
    fn plain_because(
        &self,
        file: Option<&str>,
        expression: &Expression,
        why: String,
    ) -> Result<DataPlace, DefinitionError> {
        let name = expression.name();
        let found = tables::find(self, &name, file, tables::DefinitionKind::Data);
        let Some(first) = found.first() else {
            if !tables::find(self, &name, file, tables::DefinitionKind::ThreadLocal).is_empty() {
                return Err(DefinitionError::ThreadLocal { name });
            }
            let near = tables::near(self, &name, tables::DefinitionKind::Data);
            return Err(DefinitionError::NoVariable { name, near });
        };
        if found.iter().any(|other| other.address != first.address) {
            let choices = found.iter().map(tables::Found::qualified).collect();
            return Err(DefinitionError::Ambiguous { name, choices: names::few(choices) });
        }
        if !expression.is_name() {
            return Err(DefinitionError::NoType {
                name,
                why,
                advice: "Try: install it (package -dbgsym or -debuginfo), compile with -g, or \
                         give the bytes: name+0x28/4",
            });
        }
        let value = match first.size {
            1 | 2 | 4 | 8 => ValueType::Unsigned,
            _ => ValueType::Other,
        };
        Ok(DataPlace {
            variable: first.name.clone(),
            base: first.address,
            is_thread_local: false,
            steps: Vec::new(),
            bytes: first.size,
            pointer_bytes: self.pointer_bytes(),
            value,
            type_name: None,
            declared: None,
        })
    }
}

/// The name of a type without what it is: `queue` of `struct queue`.
fn type_name(name: &str) -> Option<Expression> {
    let words = ["struct ", "class ", "union "];
    let bare = words.iter().find_map(|word| name.strip_prefix(word)).unwrap_or(name);
    bare.parse().ok().filter(Expression::is_name)
}

/// A part of a file that a process maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First address, as the symbol table counts.
    pub address: u64,
    /// Size in memory, bytes.
    pub size: u64,
    /// Where it is in the file, bytes.
    pub offset: u64,
    /// Whether it is code.
    pub executable: bool,
}
