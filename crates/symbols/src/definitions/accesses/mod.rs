//! Which field of which type an instruction accesses, from the debug information of optimized code.
//!
//! ```text
//!  address ─► unit and function ─► instructions: operands in memory, and what is put into registers
//!             (DW_AT_ranges)       variables: registers and places that have them (location lists)
//!                                       │
//!                                       ▼  what registers point to, on all ways through the function
//!             type and offset  ─► field: (struct queue).head
//! ```
//!
//! A register points to an object of a type because a variable is there, or because of what an instruction put into
//! it: a copy, a sum, a pointer that was loaded from a field. Calls forget what called functions may change; where
//! ways through the function meet, what holds on all of them holds. What does not follow from this is not known, and
//! [`UnknownAccess`] says why: nothing is guessed.

mod arm;
mod facts;
mod fields;
mod flow;
mod functions;
mod handlers;
mod instruction;
mod statics;
mod x86;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use object::read::{Object as _, ObjectKind, ObjectSymbol as _};
use object::{Architecture, SymbolKind};
use rustc_hash::FxHashMap;

use super::Definitions;
use super::follow::Complete;
use super::layout::{FieldAt, FieldFinder};
use super::typed::Completer;
use super::types::Types;
use super::units::{Die, Units};
use crate::dwarf::DebugInfo;
use crate::image::{Image, Segments};
use fields::{FieldResolver, ObjectPart};
use flow::{CallConvention, Flow};
use functions::{StaticVariable, UnitContents};
use instruction::{Instruction, Operand};
use statics::Statics;

/// More code than this is no function that somebody wrote, bytes.
const LARGEST: u64 = 1 << 20;
/// Ranges of addresses of all units.
const MOST_RANGES: usize = 1 << 24;

/// What an instruction accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessedField {
    /// The type of the object, as its language writes it: `struct queue`. Foreign text.
    pub type_name: Arc<str>,
    /// The field, as it is written after the object: `.head`, `.slots[].value` (an index that is not known); empty for
    /// the whole object. Of a union it is that whole, of an access that is wider than a field what has all of it.
    pub path: String,
    /// Where the access begins in the object, bytes; `None` where that depends on an index.
    pub offset: Option<u64>,
    /// How far into the field the access begins, bytes.
    pub within: u64,
    /// Size of the field, bytes.
    pub field_bytes: u64,
    /// Size of the access, bytes; `None` if it is not known.
    pub bytes: Option<u64>,
    /// The static variable that the object is in, if it is in one. Foreign text.
    pub variable: Option<Arc<str>>,
}

/// Why it is not known what an instruction accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownAccess {
    /// There is no debug information of the function.
    #[error("no debug information")]
    NoDebugInformation,
    /// Instructions of this architecture are not decoded.
    #[error("its architecture is not supported")]
    Architecture,
    /// The function has bytes that are no instructions, or more than can be followed.
    #[error("its code cannot be decoded")]
    Code,
    /// There is no load or store at this address.
    #[error("no load or store")]
    NoAccess,
    /// The address is relative to a thread's or CPU's own area.
    #[error("memory of a thread or CPU")]
    ThreadLocal,
    /// The instruction has several operands in memory.
    #[error("several operands in memory")]
    Several,
    /// Nothing says what the address points to.
    #[error("nothing says what its pointer points to")]
    NoType,
    /// It is no part of a structure.
    #[error("not part of a structure")]
    Number,
    /// The debug information is damaged.
    #[error("damaged debug information")]
    Damaged,
    /// The address is outside of the object that the pointer points to.
    #[error("outside of what its pointer points to")]
    Outside,
    /// Different fields have the address, depending on an index.
    #[error("an index that is not known")]
    Index,
    /// Variables of different types are at the address.
    #[error("several types")]
    Ambiguous,
}

type AccessResult = Result<AccessedField, UnknownAccess>;

impl Definitions {
    /// What the instructions at `offsets` of the file access, one answer for each.
    #[must_use]
    pub fn accesses(&self, offsets: &[u64]) -> Vec<AccessResult> {
        let mut answers = vec![Err(UnknownAccess::NoDebugInformation); offsets.len()];
        self.each_access(offsets.iter().copied(), |program, numbers, found| {
            let answer = found.and_then(|found| program.named(found));
            numbers.iter().for_each(|&number| answers[number].clone_from(&answer));
        });
        answers
    }

    /// For each instruction and offset in bytes: the innermost field there of the object that the instruction accesses.
    /// `None` where the type of the object is not known, or has no field there.
    #[must_use]
    pub fn accessed_fields(&self, places: &[(u64, u64)]) -> Vec<Option<FieldAt>> {
        let mut answers = vec![None; places.len()];
        self.each_access(places.iter().map(|(code, _)| *code), |program, numbers, found| {
            let Ok(found) = found else { return };
            for &number in numbers {
                answers[number] = program.fields.at(found.part.owner, places[number].1);
            }
        });
        answers
    }

    /// Finds what instructions access; `take` gets the numbers of those of `offsets` that are the same instruction.
    fn each_access(
        &self,
        offsets: impl Iterator<Item = u64>,
        mut take: impl FnMut(&ProgramCode<'_, '_, '_>, &[usize], AccessLookup),
    ) {
        let Some(debug) = self.debug_with_locations() else { return };
        let segments = self.image.segments();
        let mut wanted: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (number, offset) in offsets.enumerate() {
            if let Some(address) = segments.address(offset) {
                wanted.entry(address).or_default().push(number);
            }
        }
        let addresses: Vec<u64> = wanted.keys().copied().collect();
        all(self, &debug, &segments, &addresses, &mut |program, address, found| {
            if let Some(numbers) = wanted.get(&address) {
                take(program, numbers, found);
            }
        });
    }
}

/// What an instruction accesses, before it is put into words.
struct FoundAccess {
    part: ObjectPart,
    /// The entry of the static variable that it is of.
    variable: Option<Die>,
    bytes: Option<u64>,
}

type AccessLookup = Result<FoundAccess, UnknownAccess>;
/// Gets what is found, by address.
type Take<'t> = &'t mut dyn FnMut(&ProgramCode<'_, '_, '_>, u64, AccessLookup);

/// What is the same for all functions of a file.
struct ProgramCode<'p, 'u, 'a> {
    elf: object::File<'p>,
    image: &'p Image,
    segments: &'p Segments,
    architecture: Architecture,
    is_fixed: bool,
    units: &'u Units<'a>,
    fields: &'p FieldResolver<'p, 'u, 'a>,
    /// Variables that all units see, by the linker's name.
    symbols: FxHashMap<Vec<u8>, u64>,
}

/// Finds what the instructions at `wanted` access, which are ascending.
fn all(of: &Definitions, debug: &DebugInfo, segments: &Segments, wanted: &[u64], take: Take<'_>) {
    let Ok(elf) = of.image.elf() else { return };
    let units = Units::of(debug.dwarf());
    let completer = Completer::new(&units, of.threads);
    let complete: &dyn Complete = &completer;
    let types = Types { units: &units };
    let fields = FieldResolver::new(FieldFinder { types: &types, complete });
    let separate = of.separate.as_ref().and_then(|image| image.elf().ok());
    let symbols = global_variables([Some(&elf), separate.as_ref()].into_iter().flatten());
    let (architecture, is_fixed) = (elf.architecture(), elf.kind() == ObjectKind::Executable);
    let program = ProgramCode {
        elf,
        image: &of.image,
        segments,
        architecture,
        is_fixed,
        units: &units,
        fields: &fields,
        symbols,
    };
    for (number, wanted) in by_unit(&units, wanted) {
        program.of_unit(number, &wanted, take);
    }
}

fn global_variables<'f>(
    files: impl Iterator<Item = &'f object::File<'f>>,
) -> FxHashMap<Vec<u8>, u64> {
    let mut found = FxHashMap::default();
    for symbol in files.flat_map(|file| file.symbols()) {
        let is_variable = symbol.is_definition() && symbol.kind() == SymbolKind::Data;
        if let Ok(name) = symbol.name_bytes()
            && is_variable
            && symbol.is_global()
        {
            found.insert(name.to_vec(), symbol.address());
        }
    }
    found
}

/// Units that have code at addresses, and these.
fn by_unit(units: &Units<'_>, wanted: &[u64]) -> Vec<(usize, Vec<u64>)> {
    let (mut found, mut left) = (Vec::new(), MOST_RANGES);
    for (number, header) in units.main().iter().enumerate() {
        let Ok(unit) = units.dwarf.unit(*header) else { continue };
        let Ok(mut ranges) = units.dwarf.unit_ranges(&unit) else { continue };
        let mut own = Vec::new();
        while let Ok(Some(range)) = ranges.next() {
            let first = wanted.partition_point(|address| *address < range.begin);
            let end = wanted.partition_point(|address| *address < range.end);
            own.extend(wanted.get(first..end).unwrap_or_default());
            left = left.saturating_sub(1);
            // Ranges that overlap each other without end are damage.
            if own.len() > wanted.len() || left == 0 {
                break;
            }
        }
        if !own.is_empty() {
            own.sort_unstable();
            own.dedup();
            found.push((number, own));
        }
    }
    found
}

impl ProgramCode<'_, '_, '_> {
    fn of_unit(&self, number: usize, wanted: &[u64], take: Take<'_>) {
        let Some(header) = self.units.main().get(number) else { return };
        let Ok(unit) = self.units.dwarf.unit(*header) else { return };
        let Ok(contents) = functions::of_unit(self.units, &unit, wanted) else { return };
        let UnitContents { functions, mut statics, declared } = contents;
        statics.extend(self.declared(&declared));
        let statics = Statics::new(statics, self.is_fixed);
        for function in &functions {
            let own: Vec<u64> = (wanted.iter().copied())
                .filter(|address| function.ranges.iter().any(|range| range.contains(address)))
                .collect();
            match self.instructions(&function.ranges) {
                Ok((instructions, machine)) => {
                    let handlers =
                        (function.ranges.iter()).any(|range| handlers::has(&self.elf, range.start));
                    let code = (&instructions[..], machine);
                    let flow = Flow::of(self.fields, &statics, function, code, handlers);
                    for &address in &own {
                        take(self, address, found(&flow, &instructions, address));
                    }
                }
                Err(why) => own.iter().for_each(|&address| take(self, address, Err(why))),
            }
        }
    }

    /// Variables that other units define, where the symbol table has them.
    fn declared(&self, declared: &[(String, Die, Die)]) -> Vec<StaticVariable> {
        let place = |(name, kind, die): &(String, Die, Die)| {
            let address = self.symbols.get(name.as_bytes())?;
            Some(StaticVariable {
                address: *address,
                offset: 0,
                bytes: None,
                kind: *kind,
                die: *die,
            })
        };
        declared.iter().filter_map(place).collect()
    }

    fn instructions(
        &self,
        ranges: &[Range<u64>],
    ) -> Result<(Vec<Instruction>, CallConvention), UnknownAccess> {
        let mut found = Vec::new();
        let bytes = ranges
            .iter()
            .try_fold(0_u64, |sum, range| sum.checked_add(range.end.checked_sub(range.start)?));
        if bytes.is_none_or(|bytes| bytes > LARGEST) {
            return Err(UnknownAccess::Code);
        }
        let machine = match self.architecture {
            Architecture::X86_64 => x86::MACHINE,
            Architecture::Aarch64 => arm::MACHINE,
            _ => return Err(UnknownAccess::Architecture),
        };
        for range in ranges {
            let code = self.code(range).ok_or(UnknownAccess::Code)?;
            let decoded = match self.architecture {
                Architecture::X86_64 => x86::decode(code, range.start),
                Architecture::Aarch64 => arm::decode(code, range.start),
                _ => None,
            };
            found.extend(decoded.ok_or(UnknownAccess::Code)?);
        }
        found.sort_by_key(|one| one.address);
        Ok((found, machine))
    }

    fn code(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(self.segments.offset(range.start)?).ok()?;
        let bytes = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        self.image.bytes().get(start..start.checked_add(bytes)?)
    }

    fn named(&self, found: FoundAccess) -> AccessResult {
        let FoundAccess { part, variable, bytes } = found;
        if !part.has_fields {
            return Err(UnknownAccess::Number);
        }
        let variable = variable.and_then(|die| self.variable(die)).map(Arc::from);
        Ok(AccessedField {
            type_name: self.fields.name(part.owner).into(),
            path: part.path,
            offset: part.offset,
            within: part.within,
            field_bytes: part.bytes,
            bytes,
            variable,
        })
    }

    /// The name of a variable.
    fn variable(&self, die: Die) -> Option<String> {
        let (unit, entry) = self.units.entry(die).ok()?;
        functions::name(self.units, die.section, &unit, &entry)
    }
}

fn found(flow: &Flow<'_, '_, '_>, code: &[Instruction], address: u64) -> AccessLookup {
    let number = code.binary_search_by_key(&address, |one| one.address);
    let number = number.map_err(|_| UnknownAccess::NoAccess)?;
    let access = code[number].access.ok_or(UnknownAccess::NoAccess)?;
    match access.operand {
        Operand::Segment => Err(UnknownAccess::ThreadLocal),
        Operand::Several => Err(UnknownAccess::Several),
        Operand::Address(operand) => {
            let (part, variable) = flow.part_of(number, &operand, access.bytes)?;
            Ok(FoundAccess { part, variable, bytes: access.bytes })
        }
    }
}
