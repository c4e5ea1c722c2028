//! Texts, code and stacks that samples point to by number, each once: what OTLP's dictionary and pprof's tables have in
//! common.
//!
//! ```text
//!  stack ─► location … ─► line … ─► function ─► name, file
//!               └───────► mapping ─► module, build id
//! ```
//! Number 0 stands for nothing in each table: OTLP demands that its first entries are empty, and pprof's numbers begin
//! at 1.
//!
//! A location is a place in a module, with a line for each function that was inlined there, the innermost first.
//! Addresses are offsets in the module's file, as if it was mapped whole, from address 0.

use std::borrow::Cow;
use std::hash::Hash;

use indexmap::IndexSet;
use pmuscope_dataset::FrameRow;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// A mapping is made of pages, bytes.
const PAGE: u64 = 4096;

/// Entries by number, each once, the empty one first.
pub(crate) type EntryTable<T> = IndexSet<T, FxBuildHasher>;

/// Number of an entry of a [`EntryTable`].
pub(crate) type EntryNumber = usize;

/// A module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct MappingEntry {
    /// Text: path of the file, or a name in brackets.
    pub(crate) module: EntryNumber,
    /// Text: hexadecimal; empty where it is not known.
    pub(crate) build_id: EntryNumber,
}

/// A function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct FunctionEntry {
    /// Text.
    pub(crate) name: EntryNumber,
    /// Text: source file; empty where it is not known.
    pub(crate) file: EntryNumber,
}

/// A line of source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LineEntry {
    pub(crate) function: EntryNumber,
    /// 0 where it is not known.
    pub(crate) number: i64,
}

/// A place in a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct LocationEntry {
    pub(crate) mapping: EntryNumber,
    /// Offset in the file, bytes; 0 where it is not known.
    pub(crate) address: u64,
    /// The innermost function first; none where its name is not known. Without an address the module's name stands for
    /// that of an unknown function.
    pub(crate) lines: Vec<LineEntry>,
}

/// A mapping by its locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where it ends: after the page of the highest address that was hit, bytes.
    pub(crate) limit: u64,
    /// Whether all locations have names.
    pub(crate) has_functions: bool,
}

/// Frames of all stacks.
#[derive(Debug)]
pub(crate) struct Frames<'a>(Vec<&'a FrameRow>);

impl<'a> Frames<'a> {
    pub(crate) fn new(rows: &'a [FrameRow]) -> Self {
        let place = |row: &&FrameRow| (row.stack_id, row.depth, row.inline_depth);
        let mut frames: Vec<&FrameRow> = rows.iter().collect();
        // A stack that is there twice, with and without names, is taken with them.
        frames.sort_by_key(|row| (place(row), row.function.is_none()));
        frames.dedup_by_key(|row| place(row));
        Self(frames)
    }

    /// Frames of a stack, the innermost address first; of one address the function that holds the code first.
    fn of(&self, stack_id: i64) -> &[&'a FrameRow] {
        let from = self.0.partition_point(|row| row.stack_id < stack_id);
        let count = self.0[from..].partition_point(|row| row.stack_id == stack_id);
        &self.0[from..from + count]
    }
}

/// What the samples of a message point to.
#[derive(Debug)]
pub(crate) struct Dictionary<'a> {
    frames: &'a Frames<'a>,
    pub(crate) texts: EntryTable<Cow<'a, str>>,
    pub(crate) mappings: EntryTable<MappingEntry>,
    pub(crate) functions: EntryTable<FunctionEntry>,
    pub(crate) locations: EntryTable<LocationEntry>,
    /// Locations, the innermost first.
    pub(crate) stacks: EntryTable<Vec<EntryNumber>>,
    known: FxHashMap<i64, EntryNumber>,
}

impl<'a> Dictionary<'a> {
    pub(crate) fn new(frames: &'a Frames<'a>) -> Self {
        Self {
            frames,
            texts: table(),
            mappings: table(),
            functions: table(),
            locations: table(),
            stacks: table(),
            known: FxHashMap::default(),
        }
    }

    /// Number of a text.
    pub(crate) fn text(&mut self, text: impl Into<Cow<'a, str>>) -> EntryNumber {
        self.texts.insert_full(text.into()).0
    }

    /// Number of a stack; 0 where nothing is known of it.
    pub(crate) fn stack(&mut self, stack_id: i64) -> EntryNumber {
        if let Some(&index) = self.known.get(&stack_id) {
            return index;
        }
        let frames = self.frames;
        let is_same_address = |a: &&FrameRow, b: &&FrameRow| a.depth == b.depth;
        let addresses = frames.of(stack_id).chunk_by(is_same_address);
        let locations = addresses.map(|frames| self.location(frames)).collect();
        let index = self.stacks.insert_full(locations).0;
        self.known.insert(stack_id, index);
        index
    }

    /// Number of the location of the frames of one address.
    fn location(&mut self, frames: &[&'a FrameRow]) -> EntryNumber {
        let mapping = MappingEntry {
            module: self.text(&*frames[0].module),
            build_id: self.text(frames[0].build_id.as_deref().unwrap_or_default()),
        };
        let mapping = self.mappings.insert_full(mapping).0;
        let address = frames[0].address.unwrap_or(0).cast_unsigned();
        // Pyroscope drops the samples of a location that has neither an address nor a name.
        let stand_in = (address == 0).then_some(&*frames[0].module);
        let name = |row: &'a FrameRow| row.function.as_deref().or(stand_in);
        let named = frames.iter().rev().filter_map(|&row| Some((row, name(row)?)));
        let lines = named
            .map(|(row, name)| {
                let file = self.text(row.file.as_deref().unwrap_or_default());
                let function = FunctionEntry { name: self.text(name), file };
                let function = self.functions.insert_full(function).0;
                LineEntry { function, number: row.line.unwrap_or(0) }
            })
            .collect();
        self.locations.insert_full(LocationEntry { mapping, address, lines }).0
    }

    /// What is known of each mapping by its locations.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut extents = vec![Extent { limit: 0, has_functions: true }; self.mappings.len()];
        for location in self.locations.iter().skip(1) {
            let extent = &mut extents[location.mapping];
            let end = (location.address / PAGE + 1).saturating_mul(PAGE);
            extent.limit = end.max(extent.limit);
            extent.has_functions &= !location.lines.is_empty();
        }
        extents
    }
}

/// A table that has its empty entry.
pub(crate) fn table<T: Default + Eq + Hash>() -> EntryTable<T> {
    std::iter::once(T::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn inlined_functions_are_lines_of_one_location_and_equal_entries_are_there_once() {
        let rows = made::frames();
        let frames = Frames::new(&rows);
        let mut dictionary = Dictionary::new(&frames);
        let (first, second) = (dictionary.stack(made::STACK), dictionary.stack(made::OTHER_STACK));
        assert_eq!((first, second), (1, 2));
        assert_eq!(dictionary.stack(made::STACK), first);
        // memcpy in copy in main; main alone is the caller of both.
        let leaf = &dictionary.locations[dictionary.stacks[first][0]];
        let name = |line: &LineEntry| &*dictionary.texts[dictionary.functions[line.function].name];
        assert_eq!(leaf.lines.iter().map(name).collect::<Vec<_>>(), ["memcpy", "copy"]);
        assert_eq!(dictionary.stacks[first][1], dictionary.stacks[second][1]);
        assert_eq!(dictionary.texts.iter().filter(|text| **text == "/bin/checkout").count(), 1);
    }

    #[test]
    fn the_first_entries_are_empty_and_a_stack_without_frames_is_the_first_one() {
        let frames = Frames::new(&[]);
        let mut dictionary = Dictionary::new(&frames);
        assert_eq!((dictionary.stack(7), dictionary.text("")), (0, 0));
        assert!(dictionary.stacks[0].is_empty());
        assert_eq!(dictionary.extents().len(), 1);
    }

    #[test]
    fn a_mapping_ends_after_the_highest_address_also_at_the_end_of_all_addresses() {
        let mut rows = made::frames();
        let frames = Frames::new(&rows);
        let mut dictionary = Dictionary::new(&frames);
        dictionary.stack(made::STACK);
        let extent = Extent { limit: 2 * PAGE, has_functions: true };
        assert_eq!(dictionary.extents()[1], extent);
        rows[0].address = Some(-1);
        let frames = Frames::new(&rows);
        let mut dictionary = Dictionary::new(&frames);
        dictionary.stack(made::STACK);
        assert_eq!(dictionary.extents()[1].limit, u64::MAX);
    }

    #[test]
    fn a_place_without_a_name_has_an_address_or_its_module_as_name() {
        let mut rows = made::frames();
        let frames = Frames::new(&rows);
        let mut dictionary = Dictionary::new(&frames);
        dictionary.stack(made::OTHER_STACK);
        assert!(dictionary.locations[1].lines.is_empty() && dictionary.locations[1].address != 0);
        assert!(!dictionary.extents()[1].has_functions);
        rows[3].address = None;
        let frames = Frames::new(&rows);
        let mut dictionary = Dictionary::new(&frames);
        dictionary.stack(made::OTHER_STACK);
        let name = dictionary.functions[dictionary.locations[1].lines[0].function].name;
        assert_eq!(dictionary.texts[name], "/bin/checkout");
        assert!(dictionary.extents()[1].has_functions);
    }
}
