//! What a process has mapped, as files that are asked for names.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use pmuscope_machine::Mapping;
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::{Definitions, Segment};

use super::memory::Process;

/// What the kernel appends to the name of a file that was removed while mapped.
const DELETED: &str = " (deleted)";
/// Enough to tell two builds of one file apart: headers and, as a rule, the build id.
const HEAD: usize = 4096;

/// A file that a process has mapped with code.
pub(super) struct MappedFile {
    /// As the process sees it.
    path: PathBuf,
    mappings: Vec<Mapping>,
    opened: OnceCell<Result<OpenedFile, String>>,
}

/// A file, and where it is.
pub(super) struct OpenedFile {
    pub(super) definitions: Definitions,
    /// What to add to its addresses; wraps around.
    pub(super) bias: u64,
}

/// All of them, the program first.
pub(super) struct Modules<'a> {
    process: &'a Process<'a>,
    sources: Sources,
    all: Vec<MappedFile>,
}

impl<'a> Modules<'a> {
    pub(super) fn of(process: &'a Process<'a>, sources: &Sources) -> Self {
        let mut all: Vec<MappedFile> = Vec::new();
        let files = process.mappings().iter().filter(|mapping| mapping.path.starts_with(b"/"));
        for mapping in files {
            let same = |module: &&mut MappedFile| {
                let first = &module.mappings[0]; // each module is made with one
                (first.inode, &first.path) == (mapping.inode, &mapping.path)
            };
            match all.iter_mut().find(same) {
                Some(module) => module.mappings.push(mapping.clone()),
                None => all.push(MappedFile {
                    path: PathBuf::from(OsStr::from_bytes(&mapping.path)),
                    mappings: vec![mapping.clone()],
                    opened: OnceCell::new(),
                }),
            }
        }
        all.retain(|module| module.mappings.iter().any(|mapping| mapping.executable));
        if let Ok(program) = std::fs::read_link(process.folder().join("exe")) {
            all.sort_by_key(|module| module.path != program); // stable
        }
        let mut sources = sources.clone();
        if sources.symfs.is_none() {
            sources.symfs = other_root(process);
        }
        Self { process, sources, all }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &MappedFile> {
        self.all.iter()
    }

    /// The file of `module`; the reason if it cannot be had.
    pub(super) fn open<'b>(&self, module: &'b MappedFile) -> Result<&'b OpenedFile, &'b str> {
        module.opened.get_or_init(|| self.opened(module)).as_ref().map_err(String::as_str)
    }

    fn opened(&self, module: &MappedFile) -> Result<OpenedFile, String> {
        let path = self.path(module)?;
        let definitions = Definitions::open(&self.sources, &path, None)
            .map_err(|state| format!("cannot use {}: {}", module.path.display(), said(&state)))?;
        let bias = bias(&module.mappings, &definitions.segments())
            .ok_or("its mappings do not match its program headers")?;
        Ok(OpenedFile { definitions, bias })
    }

    /// Where the file that is mapped can be opened: as the process sees it, if that is still the same.
    fn path(&self, module: &MappedFile) -> Result<PathBuf, String> {
        let first = &module.mappings[0]; // each module is made with one
        let plain = module.plain_path();
        let is_it = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|file| file.ino() == first.inode)
                || self.has_same_head(path, first)
        };
        // The kernel writes paths as we see them, where we see them at all.
        let below = |root: &PathBuf| root.join(plain.strip_prefix("/").unwrap_or(plain));
        if self.sources.symfs.iter().map(below).any(|path| is_it(&path)) || is_it(plain) {
            return Ok(plain.to_path_buf());
        }
        let folder = self.process.folder();
        let mapped = folder.join(format!("map_files/{:x}-{:x}", first.start, first.end));
        let program = folder.join("exe");
        let is_program = || std::fs::metadata(&program).is_ok_and(|file| file.ino() == first.inode);
        if std::fs::File::open(&mapped).is_ok() {
            Ok(mapped)
        } else if is_program() {
            Ok(program)
        } else {
            Err(format!(
                "{} was replaced or removed since the process started, and only root can read the \
                 running version",
                plain.display()
            ))
        }
    }

    /// Some file systems number a file differently in `maps`: then its beginning has to do.
    fn has_same_head(&self, path: &Path, first: &Mapping) -> bool {
        let (mut file, mut memory) = ([0; HEAD], [0; HEAD]);
        let read = |from: Option<std::fs::File>, at: u64, into: &mut [u8]| {
            from.is_some_and(|from| from.read_exact_at(into, at).is_ok())
        };
        first.offset == 0
            && read(std::fs::File::open(path).ok(), 0, &mut file)
            && read(self.process.memory().ok(), first.start, &mut memory)
            && file == memory
    }
}

impl MappedFile {
    /// As the process sees it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where its lowest mapping begins.
    pub(super) fn start(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.start).min().unwrap_or(u64::MAX)
    }

    /// Without the kernel's remark that it was removed.
    fn plain_path(&self) -> &Path {
        let bytes = self.path.as_os_str().as_bytes();
        let plain = bytes.strip_suffix(DELETED.as_bytes()).unwrap_or(bytes);
        Path::new(OsStr::from_bytes(plain))
    }

    /// Its file's name.
    pub(super) fn name(&self) -> String {
        let name = self.plain_path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether a user means it by `asked`: path, name, or the beginning of that up to a dot or hyphen.
    pub(super) fn is_called(&self, asked: &str) -> bool {
        let name = self.name();
        let beginning =
            || name.strip_prefix(asked).is_some_and(|rest| rest.starts_with(['.', '-']));
        self.plain_path() == Path::new(asked) || name == asked || beginning()
    }
}

/// The root of a process that sees other files than we do.
fn other_root(process: &Process<'_>) -> Option<PathBuf> {
    let folder = process.folder();
    let own = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    let namespace = std::fs::read_link(folder.join("ns/mnt")).ok()?;
    let root = std::fs::read_link(folder.join("root")).ok()?;
    (own != namespace || root != Path::new("/")).then(|| folder.join("root"))
}

/// How far the file's addresses were moved: by the part that is executed.
fn bias(mappings: &[Mapping], segments: &[Segment]) -> Option<u64> {
    let page = pmuscope_machine::place::page_size() as u64;
    let down = |at: u64| at - at % page;
    let of = |executable: bool| {
        segments.iter().filter(move |segment| segment.executable == executable).find_map(
            |segment| {
                let is_it = |mapping: &&Mapping| {
                    mapping.offset == down(segment.offset) && mapping.executable == executable
                };
                let mapping = mappings.iter().find(is_it)?;
                Some(mapping.start.wrapping_sub(down(segment.address)))
            },
        )
    };
    of(true).or_else(|| of(false))
}

/// Why a file cannot be had, for people.
fn said(state: &pmuscope_symbols::State) -> String {
    use pmuscope_symbols::State;
    match state {
        State::FileMissing => "file not found".into(),
        State::NotAllowed => "no permission. Try: sudo pmuscope watch …".into(),
        State::Unreadable(why) => why.clone(),
        State::NotElf => "no ELF file".into(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, offset: u64, executable: bool) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset,
            readable: true,
            writable: false,
            executable,
            shared: false,
            major: 0,
            minor: 0,
            inode: 1,
            path: b"/x".to_vec(),
        }
    }

    #[test]
    fn how_far_a_file_was_moved_follows_from_its_code() {
        let segment =
            |address, offset, executable| Segment { address, size: 0x1000, offset, executable };
        let segments =
            [segment(0, 0, false), segment(0x1040, 0x1040, true), segment(0x3df0, 0x2df0, false)];
        let mappings = [
            mapping(0x5000_0000, 0, false),
            mapping(0x5000_1000, 0x1000, true),
            mapping(0x5000_3000, 0x2000, false),
        ];
        assert_eq!(bias(&mappings, &segments), Some(0x5000_0000));
        // Where it was linked for a fixed place, nothing is added.
        let fixed = [segment(0x40_1040, 0x1040, true)];
        assert_eq!(bias(&[mapping(0x40_1000, 0x1000, true)], &fixed), Some(0));
        // A second mapping of the file as data says nothing.
        let twice = [mapping(0x7000_0000, 0x1000, false), mapping(0x5000_1000, 0x1000, true)];
        assert_eq!(bias(&twice, &segments), Some(0x5000_0000));
        assert_eq!(bias(&[], &segments), None);
    }

    #[test]
    fn a_library_goes_by_the_beginning_of_its_name() {
        let module = |path: &str| MappedFile {
            path: path.into(),
            mappings: vec![mapping(0, 0, true)],
            opened: OnceCell::new(),
        };
        let libc = module("/usr/lib/libc.so.6");
        for name in ["libc", "libc.so", "libc.so.6", "/usr/lib/libc.so.6"] {
            assert!(libc.is_called(name), "{name}");
        }
        assert!(!libc.is_called("lib") && !libc.is_called("libc.so.7"));
        assert!(module("/tmp/a (deleted)").is_called("a"));
    }
}
