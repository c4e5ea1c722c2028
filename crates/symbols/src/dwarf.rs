//! Debug information: lines and inlined functions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian, SectionId};
use addr2line::{Context, LookupContinuation as _, LookupResult};
use object::read::Object as _;

use crate::demangle::{Demangler, FunctionName};
use crate::image::{Image, SectionBytes};
use crate::split::{SplitPlaces, SplitUnits};
use crate::{Frame, Line, Symbol};

/// Bytes of a section.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Sections that lead from an address to functions and lines, and from a name to places and types.
const SECTIONS: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// Sections that say where variables are at which instructions.
const LOCATIONS: [SectionId; 2] = [SectionId::DebugLoc, SectionId::DebugLocLists];

/// Functions inlined into each other deeper than this are cut: no compiler goes so far.
const DEEPEST: usize = 256;

/// The debug information of a file, with sections decompressed; threads share it.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    main: Sections,
    /// What dwz(1) moved out of several files.
    supplementary: Option<Sections>,
    split: SplitUnits,
    endian: RunTimeEndian,
}

/// Sections of a file, as far as they are wanted and it has them.
#[derive(Debug)]
pub(crate) struct Sections {
    image: Arc<Image>,
    found: Vec<(SectionId, SectionBytes)>,
}

impl Sections {
    pub(crate) fn of(
        image: Arc<Image>,
        wanted: impl Iterator<Item = SectionId>,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Self {
        let found = wanted.filter_map(|id| Some((id, image.section(name(id)?)?))).collect();
        Self { image, found }
    }

    /// A section's bytes; none, if it is not there.
    pub(crate) fn contents(&self, id: SectionId) -> &[u8] {
        let found = self.found.iter().find(|(found, _)| *found == id);
        found.map_or(&[][..], |(_, section)| self.image.contents(section))
    }

    /// Bytes in memory, without those that are mapped.
    pub(crate) fn memory(&self) -> u64 {
        let sections = self.found.iter().map(|(_, section)| section.memory());
        sections.sum::<u64>() + self.image.memory()
    }

    pub(crate) fn dwarf(&self, endian: RunTimeEndian) -> gimli::Dwarf<Slice<'_>> {
        let section = |id: SectionId| {
            Ok::<_, std::convert::Infallible>(EndianSlice::new(self.contents(id), endian))
        };
        match gimli::Dwarf::load(section) {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        }
    }
}

impl DebugInfo {
    /// The debug information in `image`; `None` if it has none.
    pub(crate) fn of(image: Arc<Image>, debug_dirs: &[PathBuf]) -> Option<Self> {
        Self::read(image, debug_dirs, &SECTIONS)
    }

    /// The same, with other places for the units that it has skeletons of.
    pub(crate) fn with_split(self, places: SplitPlaces) -> Self {
        Self { split: SplitUnits::new(places, self.endian), ..self }
    }

    /// The units that it has skeletons of.
    pub(crate) fn split(&self) -> &SplitUnits {
        &self.split
    }

    /// The same with where variables are at which instructions: that is large, and few ask for it.
    pub(crate) fn with_locations(image: Arc<Image>, debug_dirs: &[PathBuf]) -> Option<Self> {
        Self::read(image, debug_dirs, &[&SECTIONS[..], &LOCATIONS].concat())
    }

    fn read(image: Arc<Image>, debug_dirs: &[PathBuf], wanted: &[SectionId]) -> Option<Self> {
        if !image.has(".debug_info") && !image.has(".zdebug_info") {
            return None;
        }
        let big = !image.elf().ok()?.is_little_endian();
        let endian = if big { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let all = || wanted.iter().copied();
        let sections =
            |image: Arc<Image>| Sections::of(image, all(), |section| Some(section.name()));
        let supplementary =
            supplementary(&image, debug_dirs).map(|image| sections(Arc::new(image)));
        let split = SplitUnits::new(SplitPlaces::default(), endian);
        Some(Self { main: sections(image), supplementary, split, endian })
    }

    /// All of it.
    pub(crate) fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        let mut dwarf = self.main.dwarf(self.endian);
        if let Some(supplementary) = &self.supplementary {
            dwarf.set_sup(supplementary.dwarf(self.endian));
        }
        dwarf
    }

    /// What lies at each of `addresses`, as symbols count them, in ascending order. Where debug
    /// information is damaged there is nothing.
    pub(crate) fn look_up(
        &self,
        addresses: impl Iterator<Item = u64>,
        demangler: &mut Demangler,
    ) -> Vec<Option<Places>> {
        let Ok(context) = Context::from_dwarf(self.dwarf()) else {
            return addresses.map(|_| None).collect();
        };
        addresses.map(|address| places(&context, &self.split, address, demangler)).collect()
    }
}

/// Functions and lines at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// The function that holds the code, if debug information has one there.
    name: Option<FunctionName>,
    line: Option<Line>,
    inlined: Box<[Frame]>,
}

impl Places {
    /// Whether a function is known there.
    pub(crate) fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Adds lines and inlined functions to what a symbol table said. The table has the names that
    /// other tools show (clones, Fortran's underscores), so its name stays.
    pub(crate) fn complete(self, symbol: &mut Option<Symbol>, inlined: bool) {
        let symbol = match (symbol.as_mut(), self.name) {
            (Some(symbol), _) => symbol,
            (None, Some(name)) => symbol.insert(name.into()),
            (None, None) => return,
        };
        if inlined {
            symbol.line = self.line;
            symbol.inlined = self.inlined;
        }
    }
}

fn places<'a>(
    context: &Context<Slice<'a>>,
    split: &'a SplitUnits,
    address: u64,
    demangler: &mut Demangler,
) -> Option<Places> {
    let mut found = context.find_frames(address);
    let mut frames = loop {
        found = match found {
            LookupResult::Output(frames) => break frames.ok()?,
            LookupResult::Load { load, continuation } => continuation.resume(split.load(&load)),
        };
    };
    // The innermost comes first; what has no name is a block, not a function.
    let mut found: Vec<(Option<FunctionName>, Option<Line>)> = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        if found.len() == DEEPEST {
            return None;
        }
        let name = frame.function.and_then(|function| {
            let raw = function.name.slice();
            (!raw.is_empty()).then(|| demangler.function(raw))
        });
        let line = frame.location.and_then(|location| {
            Some(Line {
                file: demangler.text(location.file?),
                number: location.line.filter(|&line| line > 0),
            })
        });
        found.push((name, line));
    }
    let (name, line) = found.pop()?;
    let inlined = found
        .into_iter()
        .rev()
        .map(|(name, line)| match name {
            Some(FunctionName { name, signature }) => Frame { name, signature, line },
            None => Frame::named(demangler.text("[inlined]"), line),
        })
        .collect();
    Some(Places { name, line, inlined })
}

/// The file that holds what dwz moved out of `image`.
fn supplementary(image: &Image, debug_dirs: &[PathBuf]) -> Option<Image> {
    use std::os::unix::ffi::OsStrExt as _;
    let (name, id) = image.debug_alt_link()?;
    let name = Path::new(std::ffi::OsStr::from_bytes(&name));
    let beside = image.path().parent().map(|folder| folder.join(name));
    let by_id =
        debug_dirs.iter().filter_map(|dir| Some(dir.join(crate::locate::by_build_id(&id)?)));
    beside.into_iter().chain(by_id).find_map(|path| {
        let found = Image::open(&path).ok()?;
        let same = found.build_id().is_some_and(|found| found.as_bytes() == id);
        same.then_some(found)
    })
}
