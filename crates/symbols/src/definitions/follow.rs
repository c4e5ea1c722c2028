//! From a variable to an object within it, or one that its pointers lead to.

use addr2line::gimli::constants;

use super::expression::Operation;
use super::location::Location;
use super::scan::Candidate;
use super::types::{FieldSearch, Shape, Types};
use super::units::{Damaged, Die};
use super::{DataPlace, DefinitionError, Expression, Step, ValueType};

/// Smart pointers to smart pointers.
const MOST_SMART: usize = 4;

/// An object on the way.
struct FollowedObject {
    kind: Option<Die>,
    /// Dimensions of an array that indices have been given for.
    dimensions: usize,
    steps: Vec<Step>,
    /// As a user would write it.
    text: String,
}

/// Finds the whole of a type that is only declared.
pub(super) trait Complete {
    /// Where a type of this name is told in full.
    fn complete(&self, name: &str) -> Option<Die>;
}

/// Goes the way of `expression` from `variable`, which lies at `base`. The type of the object is there where it has one
/// (a row of an array has none).
pub(super) fn all(
    types: &Types<'_, '_>,
    complete: &dyn Complete,
    variable: &Candidate,
    base: u64,
    expression: &Expression,
    pointer_bytes: u8,
) -> Result<(DataPlace, Option<Die>), DefinitionError> {
    let text = expression.name();
    let mut at = FollowedObject {
        kind: variable.kind,
        dimensions: 0,
        steps: Vec::new(),
        text: text.clone(),
    };
    let follower = Follower { types, complete, name: &text };
    for operation in &expression.operations {
        follower.step(&mut at, operation)?;
    }
    follower.dereference_reference(&mut at)?;
    let bytes = follower.size(&at)?.unwrap_or(0);
    let value = match (at.kind, at.dimensions) {
        (Some(kind), 0) => follower.known(types.value(kind))?,
        // A row of an array, or nothing that has a type.
        (Some(_), _) | (None, _) => ValueType::Other,
    };
    let place = DataPlace {
        variable: variable.path.join("::"),
        base,
        is_thread_local: variable.location == Some(Location::ThreadLocal),
        steps: at.steps.clone(),
        bytes,
        pointer_bytes,
        value,
        type_name: Some(follower.type_name(&at)),
        declared: variable.declared.clone(),
    };
    Ok((place, at.kind.filter(|_| at.dimensions == 0)))
}

struct Follower<'t, 'u, 'a> {
    types: &'t Types<'u, 'a>,
    complete: &'t dyn Complete,
    name: &'t str,
}

impl Follower<'_, '_, '_> {
    fn known<T>(&self, result: Result<T, Damaged>) -> Result<T, DefinitionError> {
        result
            .map_err(|Damaged(what)| DefinitionError::Damaged { name: self.name.to_owned(), what })
    }

    fn shape(&self, at: &FollowedObject) -> Result<(Option<Die>, Shape), DefinitionError> {
        let stripped = match at.kind {
            Some(kind) => self.known(self.types.strip(kind))?,
            None => None,
        };
        match stripped {
            Some(die) => Ok((Some(die), self.known(self.types.shape(die))?)),
            None => Ok((None, Shape::Other)),
        }
    }

    fn not<T>(&self, at: &FollowedObject, what: &'static str) -> Result<T, DefinitionError> {
        let (object, type_name) = (at.text.clone(), self.type_name(at));
        Err(DefinitionError::Not { object, type_name, what })
    }

    fn step(&self, at: &mut FollowedObject, operation: &Operation) -> Result<(), DefinitionError> {
        self.dereference_reference(at)?;
        match operation {
            Operation::Dereference => self.dereference(at),
            Operation::Field(name) => self.field(at, name),
            Operation::Index(index) => self.index(at, *index),
        }
    }

    /// What a reference refers to is what its name means.
    fn dereference_reference(&self, at: &mut FollowedObject) -> Result<(), DefinitionError> {
        if let (_, Shape::Pointer { to, reference: true }) = self.shape(at)? {
            at.steps.push(Step::Dereference);
            at.kind = to;
        }
        Ok(())
    }

    fn dereference(&self, at: &mut FollowedObject) -> Result<(), DefinitionError> {
        match self.shape(at)?.1 {
            Shape::Pointer { to, .. } => {
                at.steps.push(Step::Dereference);
                at.kind = to;
            }
            // In C the name of an array is its first element's address.
            Shape::Array { .. } => return self.index(at, 0),
            Shape::Record { .. } => match self.pointer_in(at)? {
                Some(to) => {
                    at.steps.push(Step::Dereference);
                    at.kind = Some(to);
                }
                None => return self.not(at, "not a pointer: * cannot dereference it"),
            },
            _ => return self.not(at, "not a pointer: * cannot dereference it"),
        }
        at.text = format!("*{}", at.text);
        Ok(())
    }

    /// What a structure points to that holds a pointer and nothing else, as a smart pointer does.
    fn pointer_in(&self, at: &FollowedObject) -> Result<Option<Die>, DefinitionError> {
        let Some(kind) = at.kind.filter(|_| at.dimensions == 0) else { return Ok(None) };
        let Some(pointer) = self.known(self.types.number(kind))? else { return Ok(None) };
        match self.known(self.types.shape(pointer))? {
            Shape::Pointer { to, .. } => Ok(to),
            _ => Ok(None),
        }
    }

    fn field(&self, at: &mut FollowedObject, name: &str) -> Result<(), DefinitionError> {
        self.field_of(at, name, 0)
    }

    /// The field; `smart` pointers were followed to get there.
    fn field_of(
        &self,
        at: &mut FollowedObject,
        name: &str,
        smart: usize,
    ) -> Result<(), DefinitionError> {
        if let (_, Shape::Pointer { to, .. }) = self.shape(at)? {
            at.steps.push(Step::Dereference);
            at.kind = to;
        }
        let (die, shape) = self.shape(at)?;
        let (Some(mut die), Shape::Record { complete }) = (die, &shape) else {
            let what = match shape {
                Shape::Array { .. } => "an array: add an index, such as [0]",
                _ => "not a structure: it has no fields",
            };
            return self.not(at, what);
        };
        if !complete {
            let name = self.known(self.bare_name(die))?;
            let Some(whole) = name.and_then(|name| self.complete.complete(&name)) else {
                let (object, type_name) = (at.text.clone(), self.type_name(at));
                return Err(DefinitionError::Incomplete { object, type_name });
            };
            die = whole;
        }
        let field = match self.known(self.types.field(die, name))? {
            FieldSearch::Found(field) => field,
            FieldSearch::Virtual => {
                let what =
                    "an object with virtual base classes, which only running code can locate";
                return self.not(at, what);
            }
            FieldSearch::None(_) if self.known(self.types.has_variants(die))? => {
                return self.not(at, "a Rust enum: its fields depend on its value");
            }
            FieldSearch::None(near) => {
                // A smart pointer's `->`.
                if let Some(to) = self.pointer_in(at)?.filter(|_| smart < MOST_SMART) {
                    at.steps.push(Step::Dereference);
                    at.kind = Some(to);
                    return self.field_of(at, name, smart + 1);
                }
                return Err(DefinitionError::NoField {
                    object: at.text.clone(),
                    type_name: self.type_name(at),
                    field: name.to_owned(),
                    near,
                });
            }
        };
        let object = format!("{}.{name}", at.text);
        if let Some(bits) = field.bits {
            return Err(DefinitionError::BitField { object, bits, within: at.text.clone() });
        }
        add(&mut at.steps, field.offset);
        (at.kind, at.dimensions, at.text) = (field.kind, 0, object);
        Ok(())
    }

    fn bare_name(&self, die: Die) -> Result<Option<String>, Damaged> {
        let (unit, entry) = self.types.units.entry(die)?;
        Ok(self.types.units.text(die.section, &unit, &entry, constants::DW_AT_name))
    }

    fn index(&self, at: &mut FollowedObject, index: i64) -> Result<(), DefinitionError> {
        let object = format!("{}[{index}]", at.text);
        match self.shape(at)?.1 {
            Shape::Array { of, lengths, stride } => {
                let length = lengths.get(at.dimensions).copied().flatten();
                let inside = u64::try_from(index)
                    .is_ok_and(|index| length.is_none_or(|length| index < length));
                if !inside {
                    return Err(DefinitionError::Index {
                        object: at.text.clone(),
                        type_name: self.type_name(at),
                        count: length.unwrap_or(0),
                        index,
                    });
                }
                let inner = lengths.get(at.dimensions + 1..).unwrap_or_default();
                let element = match (stride, of) {
                    (Some(stride), _) => Some(stride),
                    (None, Some(of)) => self.known(self.types.size(of))?,
                    (None, None) => None,
                };
                let size = inner.iter().try_fold(element, |size, length| {
                    Some(size.and_then(|size| size.checked_mul((*length)?)))
                });
                let Some(size) = size.flatten() else {
                    return self.not(at, "an array of elements of unknown size");
                };
                add(&mut at.steps, (index as u64).wrapping_mul(size));
                if inner.is_empty() {
                    (at.kind, at.dimensions) = (of, 0);
                } else {
                    at.dimensions += 1;
                }
            }
            Shape::Pointer { to: Some(to), .. } => {
                let Some(size) = self.known(self.types.size(to))? else {
                    return self.not(at, "a pointer to something of unknown size");
                };
                at.steps.push(Step::Dereference);
                add(&mut at.steps, (index as u64).wrapping_mul(size));
                at.kind = Some(to);
            }
            _ => return self.not(at, "neither an array nor a pointer: it has no elements"),
        }
        at.text = object;
        Ok(())
    }

    fn size(&self, at: &FollowedObject) -> Result<Option<u64>, DefinitionError> {
        let Some(kind) = at.kind else { return Ok(None) };
        let whole = self.known(self.types.size(kind))?;
        if at.dimensions > 0
            && let (_, Shape::Array { lengths, .. }) = self.shape(at)?
        {
            let taken = lengths
                .iter()
                .take(at.dimensions)
                .try_fold(1_u64, |product, length| product.checked_mul((*length)?));
            return Ok(whole.zip(taken).and_then(|(whole, taken)| whole.checked_div(taken)));
        }
        if let (Some(die), Shape::Record { complete: false }) = self.shape(at)? {
            let name = self.known(self.bare_name(die))?;
            let whole = name.and_then(|name| self.complete.complete(&name));
            return whole.map_or(Ok(None), |whole| self.known(self.types.size(whole)));
        }
        Ok(whole)
    }

    fn type_name(&self, at: &FollowedObject) -> String {
        let name = self.types.name(at.kind);
        match at.dimensions {
            0 => name,
            taken => match name.match_indices('[').nth(taken) {
                Some((inner, _)) => {
                    let element = name.split(" [").next().unwrap_or(&name);
                    format!("{element} {}", &name[inner..])
                }
                None => name,
            },
        }
    }
}

/// Adds to the last step, if that adds.
fn add(steps: &mut Vec<Step>, bytes: u64) {
    match steps.last_mut() {
        _ if bytes == 0 => {}
        Some(Step::Add(sum)) => *sum = sum.wrapping_add(bytes),
        _ => steps.push(Step::Add(bytes)),
    }
}
