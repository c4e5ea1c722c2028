//! Symbols that are not in the file that ran.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use pmuscope_symbols::{
    BuildId, Module, Options, Request, ResolvedFrom, Sources, State, Symbolizer, read_build_id,
};

use crate::programs::{compile, file_offset, resolve_from, tool};

const ALL: [&str; 3] = ["outer", "middle", "inner"];

/// A stripped program, what was taken out of it, and where to look.
struct Stripped {
    dir: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
    offset: u64,
    id: BuildId,
}

impl Stripped {
    /// `None`, with the reason printed, where a tool is missing.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "program", &[])?;
        let offset = file_offset(&program, "outer")?;
        let id = read_build_id(&program).unwrap().unwrap();
        let debug = dir.path().join("taken.debug");
        let keep = [OsStr::new("--only-keep-debug"), program.as_ref(), debug.as_ref()];
        let done = tool("objcopy", &keep) && tool("strip", &[program.as_ref()]);
        done.then_some(Self { dir, program, debug, offset, id })
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Only the folder of this test is searched for debug files.
    fn sources(&self) -> Sources {
        Sources { debug_dirs: vec![self.dir().join("debug")], ..Sources::default() }
    }

    fn names(&self, id: Option<&BuildId>) -> (State, Vec<String>) {
        resolve_from(self.sources(), &self.program, id, self.offset, true)
    }

    /// Where a debug file of this build belongs.
    fn by_id(&self) -> PathBuf {
        let hex = self.id.to_string();
        let folder = self.dir().join("debug/.build-id").join(&hex[..2]);
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{}.debug", &hex[2..]))
    }

    /// Makes the program name `debug` as its debug file.
    fn link(&self, debug: &Path) {
        let mut argument = std::ffi::OsString::from("--add-gnu-debuglink=");
        argument.push(debug);
        assert!(tool("objcopy", &[&argument, self.program.as_ref()]));
    }
}

#[test]
fn a_debug_file_is_found_by_build_id() {
    let Some(stripped) = Stripped::new() else { return };
    assert_eq!(stripped.names(Some(&stripped.id)), (State::NoSymbols, vec![]));
    fs::rename(&stripped.debug, stripped.by_id()).unwrap();
    let (state, names) = stripped.names(Some(&stripped.id));
    assert_eq!((state, &names[..]), (State::Found, &ALL.map(String::from)[..]));
    assert_eq!(stripped.names(None).1, ALL, "the file's own id will do");
}

#[test]
fn a_debug_file_of_another_build_is_not_used_and_named() {
    let Some(stripped) = Stripped::new() else { return };
    let other = compile(stripped.dir(), "other", &["-O1"]).unwrap();
    let place = stripped.by_id();
    fs::copy(other, &place).unwrap();
    let (state, names) = stripped.names(Some(&stripped.id));
    assert_eq!((state, names.len()), (State::DebugFileDiffers(place), 0));
}

#[test]
fn a_debug_link_leads_beside_the_file_and_below_the_folders_of_debug_files() {
    let Some(stripped) = Stripped::new() else { return };
    stripped.link(&stripped.debug);
    assert_eq!(stripped.names(None).1, ALL, "beside it");
    for folder in [".debug".into(), format!("debug/{}", stripped.dir().display())] {
        let folder = stripped.dir().join(&folder);
        fs::create_dir_all(&folder).unwrap();
        let there = folder.join("taken.debug");
        fs::rename(&stripped.debug, &there).unwrap();
        assert_eq!(stripped.names(None).1, ALL, "{}", there.display());
        fs::rename(&there, &stripped.debug).unwrap();
    }
}

#[test]
fn without_build_ids_the_checksum_of_the_debug_link_decides() {
    let Some(stripped) = Stripped::new() else { return };
    let no_id = OsStr::new("--remove-section=.note.gnu.build-id");
    assert!(tool("objcopy", &[no_id, stripped.debug.as_ref()]));
    assert!(tool("objcopy", &[no_id, stripped.program.as_ref()]));
    stripped.link(&stripped.debug);
    assert_eq!(stripped.names(None).1, ALL);
    let mut bytes = fs::read(&stripped.debug).unwrap();
    bytes.push(0);
    fs::write(&stripped.debug, bytes).unwrap();
    let (state, names) = stripped.names(None);
    assert_eq!((state, names.len()), (State::DebugFileDiffers(stripped.debug.clone()), 0));
}

#[test]
fn a_table_compressed_into_the_file_has_names() {
    let Some(stripped) = Stripped::new() else { return };
    // As distributions make it: the symbol table alone, compressed.
    let table = stripped.dir().join("table");
    let no_debug = [OsStr::new("--strip-debug"), stripped.debug.as_ref(), table.as_ref()];
    assert!(tool("objcopy", &no_debug));
    if !tool("xz", &[OsStr::new("-k"), table.as_ref()]) {
        return;
    }
    let mut section = std::ffi::OsString::from("--add-section=.gnu_debugdata=");
    section.push(stripped.dir().join("table.xz"));
    assert!(tool("objcopy", &[&section, stripped.program.as_ref()]));
    fs::remove_file(&stripped.debug).unwrap();
    let (state, names) = stripped.names(Some(&stripped.id));
    assert_eq!((state, &names[..]), (State::Found, &["outer".to_owned()][..]));
}

#[test]
fn compressed_debug_information_is_read() {
    for format in ["zlib", "zstd"] {
        let dir = tempfile::tempdir().unwrap();
        let Some(program) = compile(dir.path(), "program", &[]) else { return };
        let Some(offset) = file_offset(&program, "outer") else { return };
        let how = format!("--compress-debug-sections={format}");
        let output = std::process::Command::new("objcopy").arg(&how).arg(&program).output();
        if !output.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no objcopy {how}");
            continue;
        }
        let (_, names) = resolve_from(Sources::default(), &program, None, offset, true);
        assert_eq!(names, ALL, "{format}");
    }
}

#[test]
fn another_root_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("opt")).unwrap();
    fs::rename(&program, root.join("opt/program")).unwrap();
    let recorded = Path::new("/opt/program");
    let reading = |symfs: Option<&PathBuf>, recorded: &Path| {
        let sources = Sources { symfs: symfs.cloned(), ..Sources::default() };
        resolve_from(sources, recorded, id.as_ref(), offset, true)
    };
    assert_eq!(reading(None, recorded).0, State::FileMissing);
    assert_eq!(reading(Some(&root), recorded).1, ALL);
    // Replaced while it ran, and kept elsewhere.
    let replaced = Path::new("/opt/program (deleted)");
    assert_eq!(reading(None, replaced).0, State::FileReplaced);
    assert_eq!(reading(Some(&root), replaced).1, ALL);
}

impl Stripped {
    /// The answer for a program that is nowhere.
    fn without_program(&self) -> ResolvedFrom {
        let sources = self.sources();
        let mut symbolizer = Symbolizer::with_sources(Options { inlined: true }, sources);
        symbolizer.use_debug_files_alone();
        let module = Module::file(Path::new("/nowhere/program"), Some(&self.id));
        let request = Request { module, addresses: &[self.offset] };
        symbolizer.resolve_all_from(&[request]).remove(0)
    }
}

#[test]
fn a_debug_file_is_enough_where_the_program_is_nowhere() {
    let Some(stripped) = Stripped::new() else { return };
    assert_eq!(stripped.without_program().resolved.state, State::FileMissing);
    let place = stripped.by_id();
    fs::copy(&stripped.debug, &place).unwrap();
    let whole = stripped.names(Some(&stripped.id)).1;
    fs::remove_file(&stripped.program).unwrap();
    let found = stripped.without_program();
    assert_eq!((found.resolved.state, found.file.as_ref()), (State::Found, Some(&place)));
    let symbol = found.resolved.symbols[0].as_ref().unwrap();
    let names: Vec<&str> = [&symbol.name]
        .into_iter()
        .chain(symbol.inlined.iter().map(|one| &one.name))
        .map(|name| &**name)
        .collect();
    assert_eq!((names, whole), (ALL.to_vec(), ALL.map(String::from).to_vec()));
    assert!(symbol.inlined[1].line.as_ref().is_some_and(|line| line.number.is_some()));
    // Nobody else gets names from a file that did not run.
    assert_eq!(stripped.names(Some(&stripped.id)).0, State::FileMissing);
}

#[test]
fn a_debug_file_that_is_damaged_or_of_another_build_is_not_used_alone_and_named() {
    let Some(stripped) = Stripped::new() else { return };
    let place = stripped.by_id();
    let bytes = fs::read(&stripped.debug).unwrap();
    fs::write(&place, &bytes[..bytes.len() / 2]).unwrap();
    for found in [stripped.without_program().resolved.state, stripped.names(Some(&stripped.id)).0] {
        let State::Unreadable(why) = found else { panic!("{found:?}") };
        assert!(why.starts_with(&format!("debug file {}: ", place.display())), "{why}");
    }
    fs::copy(compile(stripped.dir(), "other", &["-O1"]).unwrap(), &place).unwrap();
    let found = stripped.without_program();
    assert_eq!((found.resolved.state, found.file), (State::DebugFileDiffers(place), None));
}

/// Compilers that leave functions out of the symbol table (GHC) have labels there all the same.
#[test]
fn a_label_without_a_size_does_not_take_the_code_of_functions_that_debug_information_has() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    // What the C runtime has in front of it, has no size.
    assert!(tool("objcopy", &[OsStr::new("--strip-symbol=outer"), program.as_ref()]));
    for inlined in [false, true] {
        let (_, names) = resolve_from(Sources::default(), &program, None, offset, inlined);
        assert_eq!(names.first().map(String::as_str), Some("outer"), "{names:?}");
    }
    // Without debug information the label is all that is known.
    assert!(tool("strip", &[OsStr::new("--strip-debug"), program.as_ref()]));
    let (_, names) = resolve_from(Sources::default(), &program, None, offset, true);
    assert!(!names.contains(&"outer".to_owned()), "{names:?}");
}
