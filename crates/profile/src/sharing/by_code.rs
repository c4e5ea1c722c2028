//! Memory without variables (heap, stacks) named by the code that accesses it: types and fields, by debug information.
//!
//! ```text
//!  offset 24   mov 0x8(%rdi)    (struct queue).count, so the object begins at 16
//!              add %rax,(%rsi)  (struct queue).count: agrees
//!  offset 32   nothing known    in the object at 16: (struct queue).tail
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmuscope_perfdata::reader::AccessClass;
use pmuscope_symbols::definitions::{AccessedField, FieldAt};
use rustc_hash::FxHashMap;

use super::detail::AccessKey;
use super::lines::LineNaming;
use super::sums::{AccessSums, ClassSums, INEXACT};
use super::{LineOffset, SharedLine};
use crate::names::naming::objects;
use crate::timeline::tasks::ModuleAddress;

/// Instructions whose accesses are looked for: those with the most samples.
const MOST_CODE: usize = 4096;

/// Accesses to memory that no variable is at, in the lines in which fields are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldsByCode {
    /// Samples of accesses at offsets whose type and field are known.
    pub named: u64,
    /// Those at offsets that code accesses as different fields.
    pub disagreeing: u64,
    /// Those at offsets of which nothing is known.
    pub unknown: u64,
}

impl FieldsByCode {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.named + self.disagreeing + self.unknown
    }
}

/// Samples by offset and number of the place in code, of those with exact places.
pub(super) type LineCode = BTreeMap<(u32, u32), u64>;

/// The code of a line's accesses.
pub(super) fn of_cells(cells: &[(AccessKey, ClassSums)]) -> LineCode {
    let mut found = LineCode::new();
    for (key, sums) in cells.iter().filter(|(key, _)| key.marks & INEXACT == 0) {
        let mut of_cell = AccessSums::default();
        of_cell.add_class((key.class, key.marks), sums);
        let samples =
            AccessClass::ALL.into_iter().map(|class| of_cell.of_class(class)).sum::<u64>();
        *found.entry((key.offset.into(), key.place)).or_default() += samples;
    }
    found
}

/// An object in a line: its type, and where it begins, bytes from the line's beginning.
type LineObject = (Arc<str>, i64);

/// By line and type: the module of code that accesses an object of it.
pub(super) type TypeModules = BTreeMap<(usize, Arc<str>), u32>;

/// A type and a field of it.
type TypedField = (Arc<str>, FieldAt);

/// What is known of an offset.
enum OffsetField {
    Unknown,
    Disagreeing,
    Known(AccessedField),
}

impl LineNaming<'_> {
    /// Names offsets that have no variable; `codes` are those of the first lines. Also says where their types are defined.
    pub(super) fn by_code(
        &mut self,
        places: &[ModuleAddress],
        lines: &mut [SharedLine],
        codes: &[LineCode],
    ) -> (FieldsByCode, TypeModules) {
        let mut found = FieldsByCode::default();
        let mut modules = TypeModules::new();
        let accessed = self.accessed(&wanted(places, lines, codes));
        let mut left: Vec<(usize, usize, LineObject, ModuleAddress)> = Vec::new();
        let mut fields: Vec<Vec<OffsetField>> = Vec::new();
        for (number, (line, code)) in lines.iter_mut().zip(codes).enumerate() {
            let (known, objects) = of_line(line, code, places, &accessed);
            modules.extend(
                objects.iter().map(|((name, _), code)| ((number, Arc::clone(name)), code.module)),
            );
            for (at, (offset, field)) in line.offsets.iter_mut().zip(&known).enumerate() {
                match field {
                    OffsetField::Known(field) => put(offset, field),
                    OffsetField::Unknown if offset.object.is_none() => left.extend(
                        (objects.iter())
                            .filter(|((_, start), _)| *start <= i64::from(offset.offset))
                            .map(|(object, code)| (number, at, object.clone(), *code)),
                    ),
                    _ => {}
                }
            }
            fields.push(known);
        }
        self.in_known_objects(lines, &left);
        for (line, fields) in lines.iter().zip(&fields) {
            for (offset, field) in line.offsets.iter().zip(fields) {
                let samples = offset.sums.loads() + offset.sums.stores();
                match field {
                    _ if offset.object.is_some() => {}
                    _ if offset.type_name.is_some() => found.named += samples,
                    OffsetField::Disagreeing => found.disagreeing += samples,
                    _ => found.unknown += samples,
                }
            }
        }
        (found, modules)
    }

    /// What instructions access.
    fn accessed(&self, code: &[ModuleAddress]) -> FxHashMap<ModuleAddress, AccessedField> {
        let addresses = self.by_module(code.iter().copied());
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        let found = objects(self.state, &addresses, self.metadata, kernel, |module, addresses| {
            self.symbolizer.accesses(module, addresses).into_iter().map(Result::ok).collect()
        });
        let mut accessed = FxHashMap::default();
        for (module, (addresses, found)) in (0..).zip(addresses.iter().zip(found)) {
            for (&address, field) in addresses.iter().zip(found) {
                if let Some(field) = field {
                    accessed.insert(ModuleAddress { module, address }, field);
                }
            }
        }
        accessed
    }

    /// Names offsets in objects of which other offsets are known: line, offset, object, and code that accesses it.
    fn in_known_objects(
        &self,
        lines: &mut [SharedLine],
        left: &[(usize, usize, LineObject, ModuleAddress)],
    ) {
        let mut wanted: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let offset = |lines: &[SharedLine], line: usize, at: usize, start: i64| {
            u64::try_from(i64::from(lines[line].offsets[at].offset) - start).ok()
        };
        for (line, at, (_, start), code) in left {
            wanted.entry(code.address).or_default().extend(offset(lines, *line, *at, *start));
        }
        let addresses = self.by_module(left.iter().map(|(.., code)| *code));
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        let found = objects(self.state, &addresses, self.metadata, kernel, |module, addresses| {
            let of = |&address: &u64| {
                let offsets = wanted.get(&address).into_iter().flatten();
                offsets.map(move |&offset| (address, offset)).collect::<Vec<_>>()
            };
            let each: Vec<Vec<(u64, u64)>> = addresses.iter().map(of).collect();
            let fields = self.symbolizer.accessed_fields(module, &each.concat());
            let mut fields = fields.into_iter();
            let of = |places: Vec<(u64, u64)>| {
                let fields = fields.by_ref().take(places.len());
                Some(places.iter().map(|place| place.1).zip(fields).collect::<Vec<_>>())
            };
            each.into_iter().map(of).collect()
        });
        let mut names: BTreeMap<(usize, usize), Vec<TypedField>> = BTreeMap::new();
        for (line, at, (type_name, start), code) in left {
            let module = code.module as usize;
            let fields = addresses[module].binary_search(&code.address).ok();
            let fields = fields.and_then(|number| found[module][number].as_ref());
            let within = offset(lines, *line, *at, *start);
            let field = fields.into_iter().flatten().find(|(one, _)| Some(*one) == within);
            if let Some((_, Some(field))) = field {
                let names = names.entry((*line, *at)).or_default();
                names.push((Arc::clone(type_name), field.clone()));
            }
        }
        for ((line, at), mut all) in names {
            all.dedup();
            let [(type_name, field)] = &all[..] else { continue };
            let offset = &mut lines[line].offsets[at];
            let start = left.iter().find(|(number, one, (name, _), _)| {
                (*number, *one) == (line, at) && name == type_name
            });
            let Some((_, _, (_, start), _)) = start else { continue };
            let begins = start.saturating_add_unsigned(field.offset);
            offset.type_name = Some(Arc::clone(type_name));
            offset.within = u64::try_from(i64::from(offset.offset) - start).ok();
            offset.field = Some(&*field.path).filter(|path| !path.is_empty()).map(Arc::from);
            offset.word = u32::try_from(begins.max(0)).unwrap_or(offset.offset).min(offset.offset);
        }
    }
}

/// Code at offsets without variables, that with the most samples.
fn wanted(
    places: &[ModuleAddress],
    lines: &[SharedLine],
    codes: &[LineCode],
) -> Vec<ModuleAddress> {
    let mut samples: BTreeMap<u32, u64> = BTreeMap::new();
    for (line, code) in lines.iter().zip(codes) {
        let nameless: BTreeSet<u32> = (line.offsets.iter())
            .filter(|offset| offset.object.is_none())
            .map(|offset| offset.offset)
            .collect();
        for ((_, place), more) in code.iter().filter(|((offset, _), _)| nameless.contains(offset)) {
            *samples.entry(*place).or_default() += more;
        }
    }
    let mut all: Vec<(u32, u64)> = samples.into_iter().collect();
    all.sort_by_key(|(place, samples)| (std::cmp::Reverse(*samples), *place));
    all.truncate(MOST_CODE);
    all.into_iter().map(|(place, _)| places[place as usize]).collect()
}

/// What is known of each offset of a line, and the objects that follow, with code that accesses each.
fn of_line(
    line: &SharedLine,
    code: &LineCode,
    places: &[ModuleAddress],
    accessed: &FxHashMap<ModuleAddress, AccessedField>,
) -> (Vec<OffsetField>, BTreeMap<LineObject, ModuleAddress>) {
    let mut known = Vec::with_capacity(line.offsets.len());
    let mut objects = BTreeMap::new();
    for offset in &line.offsets {
        let of_offset = code.range((offset.offset, 0)..=(offset.offset, u32::MAX));
        let found: Vec<(&AccessedField, ModuleAddress)> = of_offset
            .filter(|_| offset.object.is_none())
            .filter_map(|((_, place), _)| {
                let place = places[*place as usize];
                Some((accessed.get(&place)?, place))
            })
            .collect();
        let field = agreed(&found);
        if let OffsetField::Known(field) = &field
            && let Some(start) = start(offset, field)
            && let Some((_, code)) = found.iter().find(|(one, _)| one.offset.is_some())
        {
            objects.entry((Arc::clone(&field.type_name), start)).or_insert(*code);
        }
        known.push(field);
    }
    (known, objects)
}

/// Where the object begins that an offset is in.
fn start(offset: &LineOffset, field: &AccessedField) -> Option<i64> {
    i64::from(offset.offset).checked_sub_unsigned(field.offset?)
}

/// The field that all accesses of one offset are of: of the same type at the same place. Some see more of it than others,
/// as the whole structure that they copy; then it is the smallest.
fn agreed(found: &[(&AccessedField, ModuleAddress)]) -> OffsetField {
    let mut all = found.iter().map(|(field, _)| *field);
    let Some(first) = all.clone().min_by_key(|field| (field.field_bytes, field.path.len())) else {
        return OffsetField::Unknown;
    };
    let same_object = |one: &AccessedField| {
        one.type_name == first.type_name
            && one.offset == first.offset
            && first.path.starts_with(&one.path)
    };
    if all.all(same_object) { OffsetField::Known(first.clone()) } else { OffsetField::Disagreeing }
}

fn put(offset: &mut LineOffset, field: &AccessedField) {
    offset.type_name = Some(Arc::clone(&field.type_name));
    offset.within = field.offset;
    offset.field = Some(&*field.path).filter(|path| !path.is_empty()).map(Arc::from);
    // One that begins in the line before has all of its bytes here in one word.
    let before = if field.path.is_empty() { 0 } else { field.within.min(offset.offset.into()) };
    offset.word = offset.offset - before as u32;
}
