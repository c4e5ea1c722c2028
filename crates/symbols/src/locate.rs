//! Locates the files on this machine with the symbols of what was recorded.
//!
//! ```text
//!  the file itself                          its separate debug information
//!  --symfs DIR/path                         DEBUG_DIR/.build-id/xx/yyyy.debug
//!  path                                     what .gnu_debuglink names: beside it, in .debug, or
//!  our copy                                   below DEBUG_DIR
//!  as a process that mapped it has it
//!  path as other mount namespaces see it
//!  perf's cache, by build id                perf's cache, by build id
//!  debuginfod, by build id                  debuginfod, by build id
//! ```
//!
//! Every file is accepted only by its build ID; without one, that at the recorded path if nothing says that it is another
//! ([`crate::mapped`]), our copy of it, and what a process still has mapped. Debug files of a file of another root are those
//! in that root. For callers that ask for it, a debug
//! file is enough where the file itself is nowhere ([`crate::layout`]).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::foreign::{self, Entrance, ForeignFiles, Proof};
use crate::image::{Home, Image};
use crate::namespaces::{self, ProcessRoot};
use crate::split::SplitPlaces;
use crate::{BuildId, ModuleFile, Sources, State, debuginfod, kept};

/// What the kernel appends to the name of a file that was removed while mapped.
const DELETED: &[u8] = b" (deleted)";

/// Finds files; what is looked up once for all modules is kept.
#[derive(Debug)]
pub(crate) struct Locator<'a> {
    sources: &'a Sources,
    /// Roots of other mount namespaces.
    namespaces: OnceLock<Vec<ProcessRoot>>,
    foreign: ForeignFiles,
    /// perf's folder of files by build id.
    perf_cache: Option<PathBuf>,
}

/// A debug file, and what else was looked for.
#[derive(Debug, Default)]
pub(crate) struct DebugFile {
    pub(crate) image: Option<Image>,
    /// Where one could be but is not: when one appears there, it is better than what was found.
    pub(crate) absent: Vec<PathBuf>,
    /// One that belongs to another build.
    pub(crate) differs: Option<PathBuf>,
    /// One that is there and cannot be read, and why.
    pub(crate) unreadable: Option<(PathBuf, String)>,
}

impl DebugFile {
    /// Why one that is there was not used.
    pub(crate) fn refused(&self) -> Option<State> {
        let unreadable = || {
            let (path, why) = self.unreadable.as_ref()?;
            Some(State::Unreadable(format!("debug file {}: {why}", path.display())))
        };
        self.differs.clone().map(State::DebugFileDiffers).or_else(unreadable)
    }

    /// Notes that `path` could not be opened.
    fn note(&mut self, path: &Path, state: State) {
        let why = match state {
            State::FileMissing => return,
            State::Unreadable(why) => why,
            State::NotElf => "it is no ELF file".to_owned(),
            _ => "permission denied".to_owned(),
        };
        self.unreadable.get_or_insert((path.to_owned(), why));
    }
}

impl<'a> Locator<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        let perf_cache = std::env::var_os("PERF_BUILDID_DIR")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".debug")))
            .filter(|folder| folder.is_absolute() && sources.symfs.is_none());
        Self { sources, namespaces: OnceLock::new(), foreign: ForeignFiles::default(), perf_cache }
    }

    pub(crate) fn sources(&self) -> &'a Sources {
        self.sources
    }

    /// The file that ran.
    pub(crate) fn file(&self, file: ModuleFile<'_>) -> Result<Image, State> {
        let ModuleFile { path, build_id: id, .. } = file;
        let now = as_named_before_deletion(path);
        let is_deleted = now != path;
        if let Some(root) = &self.sources.symfs
            && let Ok(image) = accept(&below(root, now), id)
        {
            return Ok(image);
        }
        let state = match (accept_mapped(path, file), is_deleted) {
            (Ok(image), _) => return Ok(image),
            (Err(State::FileMissing), true) if id.is_some() => match accept(now, id) {
                Ok(image) => return Ok(image),
                Err(_) => State::FileReplaced,
            },
            (Err(State::FileMissing), true) => State::FileReplaced,
            (Err(state), _) => state,
        };
        if let Some(image) = self.kept(file).or_else(|| self.of_processes(file)) {
            return Ok(image);
        }
        let Some(id) = id else { return Err(state) };
        let cached = || self.perf_cache.iter().filter_map(|dir| perf_cached(dir, id, "elf"));
        let accepted = || cached().find_map(|path| accept(&path, Some(id)).ok());
        let found = self.of_other_roots(now, id).or_else(accepted);
        found.or_else(|| self.served("executable", id)).ok_or(state)
    }

    /// The copy that a recorder made. Its debug files are where a process that mapped it sees them, as long as it runs.
    fn kept(&self, file: ModuleFile<'_>) -> Option<Image> {
        let folder = self.sources.copies.as_ref()?;
        let image = match (file.build_id, file.mapped) {
            (Some(id), _) => accept(&kept::place(folder, id), Some(id)).ok(),
            (None, Some(mapped)) => {
                Image::open(&kept::place_of_copy(folder, mapped.copy.as_deref()?)?).ok()
            }
            (None, None) => None,
        }?;
        let living = self.homes(file).into_iter().find(|home| home.root.is_dir());
        Some(match living {
            Some(home) => image.with_home(home),
            None => image,
        })
    }

    /// Where the processes that mapped a file have it, each below its own root.
    fn homes(&self, file: ModuleFile<'_>) -> Vec<Home> {
        let mapped = file.mapped.filter(|mapped| !mapped.recording.is_of_other_host);
        let mapped = mapped.filter(|_| self.sources.symfs.is_none());
        let path = as_named_before_deletion(file.path);
        let home = |pid: &i32| ProcessRoot::of(pid.unsigned_abs()).inside(path);
        mapped.map_or_else(Vec::new, |mapped| mapped.processes.iter().map(home).collect())
    }

    /// The file as processes that mapped it still have it.
    fn of_processes(&self, file: ModuleFile<'_>) -> Option<Image> {
        let processes = file.mapped.map_or(&[][..], |mapped| &mapped.processes);
        self.homes(file).iter().zip(processes).find_map(|(home, &pid)| {
            let mut ways = foreign::entrances(pid, file).into_iter();
            ways.find_map(|(way, proof)| self.foreign.read(&way, proof, home))
        })
    }

    /// The file of build `id` at `path`, as other mount namespaces see it.
    fn of_other_roots(&self, path: &Path, id: &BuildId) -> Option<Image> {
        self.namespaces().iter().find_map(|process| {
            process.places(path).find_map(|home| {
                let way = Entrance::Below { root: home.root.clone(), path: home.path.clone() };
                self.foreign.read(&way, Proof::BuildId(id.clone()), &home)
            })
        })
    }

    /// Separate debug information of `image`, which is of build `id`. `enough` says whether a file
    /// that was found has what is missing.
    pub(crate) fn debug_file(
        &self,
        image: &Image,
        id: Option<&BuildId>,
        enough: impl Fn(&Image) -> bool,
    ) -> DebugFile {
        let mut found = DebugFile::default();
        let crc = image.debug_link().map(|(_, crc)| crc);
        if let Some(home) = image.home() {
            found.image = self.foreign_debug_file(image, home, id, &enough);
            if found.image.is_some() {
                return found;
            }
        }
        for path in self.debug_paths(image, id) {
            if path == image.path() {
                continue;
            }
            let file = match Image::open(&path) {
                Ok(file) => file,
                Err(state) => {
                    found.note(&path, state);
                    found.absent.push(path);
                    continue;
                }
            };
            let same = match (id, file.build_id()) {
                (Some(id), Some(other)) => id.same_build(&other),
                // Without ids the checksum that strip(1) left with the name has to do.
                _ => crc.is_some_and(|crc| crc32fast::hash(file.bytes()) == crc),
            };
            if !same {
                found.differs.get_or_insert(path);
            } else if enough(&file) {
                found.image = Some(file);
                return found;
            }
        }
        found.image = id.and_then(|id| self.served("debuginfo", id)).filter(enough);
        found
    }

    /// The same below the root that the file is from.
    fn foreign_debug_file(
        &self,
        image: &Image,
        home: &Home,
        id: Option<&BuildId>,
        enough: impl Fn(&Image) -> bool,
    ) -> Option<Image> {
        let dirs = &self.sources.debug_dirs;
        let link = image.debug_link();
        let by_id = id.and_then(|id| by_build_id(id.as_bytes()));
        let mut paths: Vec<PathBuf> =
            by_id.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).collect();
        if let Some(name) = link.as_ref().and_then(|(name, _)| file_name(name)) {
            // As the kernel resolves links there.
            let folder = home.path.parent().unwrap_or(Path::new("/"));
            paths.extend([folder.join(name), folder.join(".debug").join(name)]);
            paths.extend(dirs.iter().map(|dir| below(dir, folder).join(name)));
        }
        let is_of_file = |file: &Image| match (id, file.build_id()) {
            (Some(id), Some(other)) => id.same_build(&other),
            _ => link.as_ref().is_some_and(|(_, crc)| crc32fast::hash(file.bytes()) == *crc),
        };
        paths.into_iter().find_map(|path| {
            let home = Home { root: home.root.clone(), path: path.clone() };
            let way = Entrance::Below { root: home.root.clone(), path };
            let file = self.foreign.read(&way, Proof::Entrance, &home)?;
            (is_of_file(&file) && enough(&file)).then_some(file)
        })
    }

    /// The debug file of build `id`, where the file that ran is nowhere.
    pub(crate) fn debug_file_alone(&self, id: &BuildId) -> DebugFile {
        let mut found = DebugFile::default();
        let name = by_build_id(id.as_bytes());
        let dirs = self.debug_dirs();
        let below = name.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        let cached = self.perf_cache.iter().filter_map(|dir| perf_cached(dir, id, "debug"));
        for path in below.chain(cached) {
            match Image::open(&path) {
                Ok(file) if file.build_id().is_some_and(|other| id.same_build(&other)) => {
                    found.image = Some(file);
                    return found;
                }
                Ok(_) => _ = found.differs.get_or_insert(path),
                Err(state) => found.note(&path, state),
            }
        }
        found.image = self.served("debuginfo", id);
        found
    }

    /// The image of the kernel `release`, of build `id`, that has debug information; and where it is
    /// not, as in [`DebugFile::absent`].
    pub(crate) fn vmlinux(&self, release: &str, id: &BuildId) -> (Option<Image>, Vec<PathBuf>) {
        if release.is_empty() || release.contains('/') {
            return (None, Vec::new());
        }
        let mut absent = Vec::new();
        for path in self.vmlinux_paths(release, id) {
            match accept(&path, Some(id)) {
                Ok(image) if image.has(".debug_info") => return (Some(image), Vec::new()),
                Ok(_) => {}
                Err(_) => absent.push(path),
            }
        }
        (self.served("debuginfo", id), absent)
    }

    fn vmlinux_paths(&self, release: &str, id: &BuildId) -> Vec<PathBuf> {
        let dirs = self.debug_dirs();
        let mut paths = Vec::new();
        for dir in &dirs {
            paths.extend(by_build_id(id.as_bytes()).map(|name| dir.join(name)));
            paths.push(dir.join(format!("boot/vmlinux-{release}")));
            paths.push(dir.join(format!("lib/modules/{release}/vmlinux")));
        }
        paths.extend(
            [
                format!("/boot/vmlinux-{release}"),
                format!("/lib/modules/{release}/vmlinux"),
                format!("/lib/modules/{release}/build/vmlinux"),
            ]
            .map(PathBuf::from),
        );
        paths
    }

    /// Where files with split debug information of `image` can be; `separate` is its debug file.
    pub(crate) fn split_places(&self, image: &Image, separate: Option<&Image>) -> SplitPlaces {
        SplitPlaces::of(self.sources.symfs.clone(), self.debug_dirs(), image, separate)
    }

    /// Folders of debug files, those below the other root first.
    pub(crate) fn debug_dirs(&self) -> Vec<PathBuf> {
        let dirs = &self.sources.debug_dirs;
        let below =
            self.sources.symfs.iter().flat_map(|root| dirs.iter().map(|dir| below(root, dir)));
        below.chain(dirs.iter().cloned()).collect()
    }

    fn debug_paths(&self, image: &Image, id: Option<&BuildId>) -> Vec<PathBuf> {
        let dirs = self.debug_dirs();
        let mut paths = Vec::new();
        if let Some(name) = id.and_then(|id| by_build_id(id.as_bytes())) {
            paths.extend(dirs.iter().map(|dir| dir.join(&name)));
        }
        if image.home().is_none()
            && let Some((name, _)) = image.debug_link()
            && let Some(name) = file_name(&name)
            && let Ok(real) = std::fs::canonicalize(image.path())
            && let Some(folder) = real.parent()
        {
            paths.extend([folder.join(name), folder.join(".debug").join(name)]);
            paths.extend(dirs.iter().map(|dir| below(dir, folder).join(name)));
        }
        let copies = self.sources.copies.as_ref();
        paths.extend(copies.and_then(|folder| kept::debug_place_of_copy(folder, image.path())));
        let cached = self.perf_cache.iter();
        paths.extend(cached.filter_map(|dir| perf_cached(dir, id?, "debug")));
        paths
    }

    fn namespaces(&self) -> &[ProcessRoot] {
        self.namespaces.get_or_init(|| match self.sources.symfs {
            None => namespaces::other_roots(),
            Some(_) => Vec::new(),
        })
    }

    fn served(&self, kind: &str, id: &BuildId) -> Option<Image> {
        let path = self.sources.debuginfod.then(|| debuginfod::fetch(kind, id))??;
        accept(&path, Some(id)).ok()
    }
}

/// Opens `path` if it is `file`, as far as can be said.
fn accept_mapped(path: &Path, file: ModuleFile<'_>) -> Result<Image, State> {
    if let (None, Some(mapped)) = (file.build_id, file.mapped) {
        mapped.judge(path)?;
    }
    accept(path, file.build_id)
}

/// The path of a file before it was removed while mapped.
pub(crate) fn as_named_before_deletion(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(DELETED).map_or(path, |path| Path::new(OsStr::from_bytes(path)))
}

/// Opens `path` if it is of build `id`, or if no id is known.
fn accept(path: &Path, id: Option<&BuildId>) -> Result<Image, State> {
    let image = Image::open(path)?;
    let Some(recorded) = id else { return Ok(image) };
    match image.build_id() {
        Some(file) if file.same_build(recorded) => Ok(image),
        file => Err(State::BuildIdDiffers { recorded: recorded.clone(), file }),
    }
}

/// `.build-id/ab/cdef….debug`, as gdb looks for it; `None` for an id too short to tell builds apart.
pub(crate) fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| rest.len() >= 7)?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(PathBuf::from(format!(".build-id/{first:02x}/{rest}.debug")))
}

/// Where perf(1) keeps a copy of a file.
fn perf_cached(cache: &Path, id: &BuildId, kind: &str) -> Option<PathBuf> {
    let path = cache.join(by_build_id(id.as_bytes())?);
    Some(path.with_extension("").join(kind))
}

/// `path` below another root; what is `/` there is `root` here.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, std::path::Component::Normal(_)));
    root.join(parts.collect::<PathBuf>())
}

/// A debug link is a bare name.
pub(crate) fn file_name(name: &[u8]) -> Option<&OsStr> {
    let name = OsStr::from_bytes(name);
    (Path::new(name).file_name() == Some(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_another_root() {
        let at = |path: &str| below(Path::new("/root"), Path::new(path));
        assert_eq!(at("/usr/bin/xz"), Path::new("/root/usr/bin/xz"));
        assert_eq!(at("/../../etc/passwd"), Path::new("/root/etc/passwd"));
        assert_eq!(at("relative"), Path::new("/root/relative"));
    }

    #[test]
    fn debug_links_are_bare_names() {
        assert_eq!(file_name(b"xz.debug"), Some(OsStr::new("xz.debug")));
        assert_eq!(file_name(b"../xz.debug"), None);
        assert_eq!(file_name(b"/etc/passwd"), None);
        assert_eq!(file_name(b".."), None);
        assert_eq!(file_name(b""), None);
    }

    #[test]
    fn ids_make_paths() {
        let path = by_build_id(&[0xab, 1, 2, 3, 4, 5, 6, 0xff]).unwrap();
        assert_eq!(path, Path::new(".build-id/ab/010203040506ff.debug"));
        assert_eq!(by_build_id(&[1, 2, 3]), None);
        let id = BuildId::new(&[0xab, 1, 2, 3, 4, 5, 6, 0xff]).unwrap();
        let cached = perf_cached(Path::new("/h/.debug"), &id, "elf").unwrap();
        assert_eq!(cached, Path::new("/h/.debug/.build-id/ab/010203040506ff/elf"));
    }
}
