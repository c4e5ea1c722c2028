//! Split debug information (`-gsplit-dwarf`): the program has a skeleton of each unit, and the rest is in other files.
//!
//! ```text
//!  PROGRAM.dwp                      units of the whole program: beside it, or below DEBUG_DIR
//!  DW_AT_dwo_name, DW_AT_comp_dir   a unit: where the compiler wrote it, or by its file name beside the program
//! ```
//!
//! A unit is used only if it has the number that its skeleton has (`DW_AT_dwo_id`, or in the header), which compilers
//! calculate from its contents. Sources: DWARF 5, sections 3.1.2, 7.3.2, and 7.3.5; for DWARF 4 the proposals "DebugFission"
//! and "DebugFissionDWP" of the GCC wiki.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{
    self, DwoId, EndianSlice, RunTimeEndian, Section as _, SectionId, UnitType,
};
use rustc_hash::FxHashMap;

use crate::State;
use crate::dwarf::{Sections, Slice};
use crate::foreign::{Entrance, ForeignFiles, Proof};
use crate::image::{Home, Image};
use crate::locate::below;

/// Sections of a file with units. Not all lead to functions, but the index of a package points into all of them.
const SECTIONS: [SectionId; 12] = [
    SectionId::DebugCuIndex,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugAbbrev,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The largest programs have some ten thousand units.
const MOST_UNITS: usize = 1 << 18;
/// Units of one file, of which one is wanted.
const MOST_UNITS_OF_FILE: usize = 1 << 16;
/// Memory for contents of all files that cannot be mapped, bytes.
const MOST_MEMORY: u64 = 1 << 30;
/// More paths where nothing was found are not kept.
const MOST_PATHS: usize = 256;

/// Split debug information that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSplit {
    /// Where the first missing file was looked for, in order. Foreign text.
    pub tried: Vec<PathBuf>,
    /// The file there that was not used, and why. Foreign text.
    pub refused: Option<(PathBuf, String)>,
    /// Whether others are missing too.
    pub has_others: bool,
}

impl MissingSplit {
    /// What is missing, by all paths where files of units and of whole programs were looked for in vain.
    pub(crate) fn of_paths(paths: &[PathBuf]) -> Option<Self> {
        let has_end = |path: &Path, end| path.extension().is_some_and(|found| found == end);
        let first = paths.iter().find(|path| has_end(path, "dwo"))?.file_name();
        let is_first = |path: &&PathBuf| path.file_name() == first || has_end(path, "dwp");
        let has_others = !paths.iter().all(|path| is_first(&path) || !has_end(path, "dwo"));
        let tried = paths.iter().filter(is_first).cloned().collect();
        Some(Self { tried, refused: None, has_others })
    }

    /// Fields of a bundle, each with a zero at its end.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (path, why) =
            self.refused.as_ref().map_or((Path::new(""), ""), |(path, why)| (path, why));
        let mut bytes = vec![u8::from(self.has_others)];
        let tried = self.tried.iter().map(|path| path.as_os_str().as_bytes());
        for field in [path.as_os_str().as_bytes(), why.as_bytes()].into_iter().chain(tried) {
            bytes.extend(field.iter().filter(|&&byte| byte != 0));
            bytes.push(0);
        }
        bytes
    }

    /// Inverse of [`MissingSplit::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&has_others, rest) = bytes.split_first()?;
        let mut fields = rest.strip_suffix(b"\0")?.split(|&byte| byte == 0);
        let path = |field: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(field));
        let (file, why) = (path(fields.next()?), String::from_utf8_lossy(fields.next()?));
        let refused = (!file.as_os_str().is_empty()).then(|| (file, why.into_owned()));
        Some(Self { tried: fields.map(path).collect(), refused, has_others: has_others != 0 })
    }
}

/// Where other files of a program can be.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitPlaces {
    pub(crate) symfs: Option<PathBuf>,
    pub(crate) debug_dirs: Vec<PathBuf>,
    /// The program and its debug file, as processes of their root see them.
    pub(crate) programs: Vec<PathBuf>,
    /// Of a program of another root.
    pub(crate) root: Option<PathBuf>,
}

impl SplitPlaces {
    pub(crate) fn of(
        symfs: Option<PathBuf>,
        debug_dirs: Vec<PathBuf>,
        image: &Image,
        separate: Option<&Image>,
    ) -> Self {
        let path = |image: &Image| match image.home() {
            Some(home) => home.path.clone(),
            None => image.path().to_owned(),
        };
        let programs = std::iter::once(image).chain(separate).map(path).collect();
        let root = image.home().map(|home| home.root.clone());
        Self { symfs, debug_dirs, programs, root }
    }

    /// Where the units of the whole program can be.
    fn of_package(&self) -> Vec<PathBuf> {
        let named = |path: &PathBuf| {
            let mut name = path.clone().into_os_string();
            name.push(".dwp");
            PathBuf::from(name)
        };
        let beside: Vec<PathBuf> = self.programs.iter().map(named).collect();
        let apart = self.debug_dirs.iter().flat_map(|dir| beside.iter().map(|at| below(dir, at)));
        beside.iter().cloned().chain(apart).collect()
    }

    /// Where a unit can be, by what its skeleton says.
    fn of_unit(&self, folder: Option<&Path>, name: &Path) -> Vec<PathBuf> {
        let written = folder.map_or_else(|| name.to_owned(), |folder| folder.join(name));
        let folders = self.programs.iter().filter_map(|program| program.parent());
        let beside = folders.filter_map(|folder| Some(folder.join(name.file_name()?)));
        let mut paths = Vec::new();
        for path in std::iter::once(written).chain(beside) {
            // What is relative depends on where this program runs.
            if path.is_absolute() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The file at `path`, below the other root first.
    fn open(&self, foreign: &ForeignFiles, path: &Path) -> Result<Image, State> {
        if let Some(root) = &self.root {
            let home = Home { root: root.clone(), path: path.to_owned() };
            let entrance = Entrance::Below { root: root.clone(), path: path.to_owned() };
            let found = foreign.read(&entrance, Proof::Entrance, &home);
            return found.ok_or(State::FileMissing);
        }
        let below = self.symfs.as_ref().map(|root| Image::open(&below(root, path)));
        match below {
            Some(Ok(image)) => Ok(image),
            _ => Image::open(path),
        }
    }
}

/// A file with units, or why there is none: where it was looked for, and what is there all the same.
type UnitFile = Result<Sections, MissingSplit>;

/// The files with the units that a program has skeletons of; each is opened when an address is in it.
#[derive(Debug)]
pub(crate) struct SplitUnits {
    places: SplitPlaces,
    /// A process whose files let one wait is asked once.
    foreign: ForeignFiles,
    endian: RunTimeEndian,
    package: OnceLock<Result<Sections, Vec<PathBuf>>>,
    /// By number.
    units: OnceLock<FxHashMap<u64, OnceLock<UnitFile>>>,
    memory_left: AtomicU64,
    missing: Mutex<Missing>,
}

/// Missing files so far.
#[derive(Debug, Default)]
struct Missing {
    /// Of the unit with the smallest number.
    first: Option<(u64, MissingSplit)>,
    units: usize,
    paths: BTreeSet<PathBuf>,
}

impl SplitUnits {
    pub(crate) fn new(places: SplitPlaces, endian: RunTimeEndian) -> Self {
        Self {
            places,
            foreign: ForeignFiles::default(),
            endian,
            package: OnceLock::new(),
            units: OnceLock::new(),
            memory_left: AtomicU64::new(MOST_MEMORY),
            missing: Mutex::default(),
        }
    }

    /// Unusable split debug information so far.
    pub(crate) fn missing(&self) -> Option<MissingSplit> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, first) = missing.first.as_ref()?;
        Some(MissingSplit { has_others: missing.units > 1, ..first.clone() })
    }

    /// Where files were looked for in vain, or are that were not used.
    pub(crate) fn absent(&self) -> Vec<PathBuf> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.paths.iter().cloned().collect()
    }

    /// The unit that a skeleton stands for; `None` if it cannot be used.
    pub(crate) fn load<'a>(
        &'a self,
        load: &SplitDwarfLoad<Slice<'a>>,
    ) -> Option<Arc<gimli::Dwarf<Slice<'a>>>> {
        let id = load.dwo_id;
        let package = self.package.get_or_init(|| self.find_package());
        if let Ok(package) = package
            && let Some(dwarf) = self.in_package(package, id, &load.parent)
        {
            return Some(Arc::new(dwarf));
        }
        let units = self.units.get_or_init(|| numbers(&load.parent));
        let found = units.get(&id.0)?.get_or_init(|| {
            let found = self.find_unit(load);
            if let Err(missing) = &found {
                self.note(id, missing, package.as_ref().err());
            }
            found
        });
        self.unit(found.as_ref().ok()?, id, &load.parent).map(Arc::new)
    }

    fn find_package(&self) -> Result<Sections, Vec<PathBuf>> {
        let paths = self.places.of_package();
        let open = |path: &PathBuf| {
            let image = Arc::new(self.places.open(&self.foreign, path).ok()?);
            let is_it = image.has(".debug_cu_index");
            is_it.then(|| self.sections(image).ok()).flatten()
        };
        paths.iter().find_map(open).ok_or(paths)
    }

    fn in_package<'a>(
        &self,
        package: &'a Sections,
        id: DwoId,
        parent: &gimli::Dwarf<Slice<'a>>,
    ) -> Option<gimli::Dwarf<Slice<'a>>> {
        let section = |id: SectionId| {
            Ok::<_, gimli::Error>(EndianSlice::new(package.contents(id), self.endian))
        };
        let empty = EndianSlice::new(&[], self.endian);
        let package = gimli::DwarfPackage::load(section, empty).ok()?;
        of_number(package.find_cu(id, parent).ok()??, id)
    }

    /// Opens the file of a unit.
    fn find_unit(&self, load: &SplitDwarfLoad<Slice<'_>>) -> UnitFile {
        let text = |text: &Slice<'_>| PathBuf::from(std::ffi::OsStr::from_bytes(text.slice()));
        let folder = load.comp_dir.as_ref().map(text);
        let tried = match load.path.as_ref().map(text) {
            Some(name) => self.places.of_unit(folder.as_deref(), &name),
            None => Vec::new(),
        };
        let mut refused = None;
        for path in &tried {
            let why = match self
                .places
                .open(&self.foreign, path)
                .and_then(|image| self.sections(image.into()))
            {
                Ok(found) if self.unit(&found, load.dwo_id, &load.parent).is_some() => {
                    return Ok(found);
                }
                Ok(_) => "it is of another build".to_owned(),
                Err(State::FileMissing) => continue,
                Err(State::Unreadable(why)) => why,
                Err(_) => "permission denied".to_owned(),
            };
            refused.get_or_insert((path.clone(), why));
        }
        Err(MissingSplit { tried, refused, has_others: false })
    }

    /// Sections of a file with units, within what memory is left.
    fn sections(&self, image: Arc<Image>) -> Result<Sections, State> {
        let found = Sections::of(image, SECTIONS.into_iter(), SectionId::dwo_name);
        let without = |left: u64| left.checked_sub(found.memory());
        let order = Ordering::Relaxed;
        match self.memory_left.fetch_update(order, order, without) {
            Ok(_) => Ok(found),
            Err(_) => Err(State::Unreadable("it takes too much memory".into())),
        }
    }

    /// The unit of that number in a file of its own.
    fn unit<'a>(
        &self,
        sections: &'a Sections,
        id: DwoId,
        parent: &gimli::Dwarf<Slice<'a>>,
    ) -> Option<gimli::Dwarf<Slice<'a>>> {
        let mut dwarf = sections.dwarf(self.endian);
        dwarf.make_dwo(parent);
        of_number(dwarf, id)
    }

    fn note(&self, id: DwoId, found: &MissingSplit, packages: Option<&Vec<PathBuf>>) {
        let mut found = found.clone();
        found.tried.extend(packages.into_iter().flatten().cloned());
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.units += 1;
        for path in &found.tried {
            if missing.paths.len() < MOST_PATHS {
                missing.paths.insert(path.clone());
            }
        }
        // Threads find them in any order.
        if missing.first.as_ref().is_none_or(|(first, _)| id.0 < *first) {
            missing.first = Some((id.0, found));
        }
    }
}

/// The numbers of all units of which a program has skeletons.
fn numbers(dwarf: &gimli::Dwarf<Slice<'_>>) -> FxHashMap<u64, OnceLock<UnitFile>> {
    let mut found = FxHashMap::default();
    let mut units = dwarf.units();
    while found.len() < MOST_UNITS
        && let Ok(Some(header)) = units.next()
    {
        let number = match header.type_() {
            UnitType::Skeleton(id) => Some(id),
            // Before DWARF 5 its first entry has it.
            _ if header.version() < 5 => dwarf.unit(header).ok().and_then(|unit| unit.dwo_id),
            _ => None,
        };
        found.extend(number.map(|id| (id.0, OnceLock::new())));
    }
    found
}

/// `dwarf`, beginning with the unit of that number; units of types can be before it. `None` if it is not there.
fn of_number<'a>(mut dwarf: gimli::Dwarf<Slice<'a>>, id: DwoId) -> Option<gimli::Dwarf<Slice<'a>>> {
    let mut units = dwarf.units();
    for _ in 0..MOST_UNITS_OF_FILE {
        let header = units.next().ok()??;
        let is_it = match header.type_() {
            UnitType::SplitCompilation(found) => found == id && dwarf.unit(header).is_ok(),
            // Before DWARF 5 there is one, and its first entry has the number.
            UnitType::Compilation if header.version() < 5 => {
                return dwarf
                    .unit(header)
                    .is_ok_and(|unit| unit.dwo_id == Some(id))
                    .then_some(dwarf);
            }
            _ => false,
        };
        if is_it {
            let start = header.debug_info_offset()?.0;
            dwarf.debug_info = dwarf.debug_info.reader().range_from(start..).into();
            return Some(dwarf);
        }
    }
    None
}
