//! Variables at fixed addresses, by address.

use super::super::units::Die;
use super::UnknownAccess;
use super::fields::FieldResolver;
use super::functions::StaticVariable;

/// The static variables that the code of a unit can access.
pub(super) struct Statics {
    /// Ascending.
    all: Vec<StaticVariable>,
    /// Addresses of the file are those in memory: no code computes them from its own.
    are_fixed: bool,
}

/// The variable's type, the offset in it, and its entry.
type StaticPart = Result<(Die, i64, Die), UnknownAccess>;

impl Statics {
    pub(super) fn new(mut all: Vec<StaticVariable>, are_fixed: bool) -> Self {
        all.sort_by_key(|one| one.address);
        Self { all, are_fixed }
    }

    pub(super) fn are_fixed(&self) -> bool {
        self.are_fixed
    }

    /// The variable at `address + k × step`, for any `k` within it; `None`: there is none.
    pub(super) fn find(
        &self,
        address: i64,
        step: u64,
        fields: &FieldResolver<'_, '_, '_>,
    ) -> Option<StaticPart> {
        let address = u64::try_from(address).ok()?;
        let after = self.all.partition_point(|one| one.address <= address);
        let (before, found) = self.all.get(..after)?.split_at(after.checked_sub(1)?);
        let [found] = found else { return None };
        let offset = address - found.address;
        if found.bytes.or_else(|| fields.size(found.kind)).is_none_or(|size| offset >= size) {
            return None;
        }
        let offset = offset.checked_add(found.offset)?;
        // A loop may count down to the end of the variable before it.
        let ends_here = |one: &StaticVariable| {
            let end = fields.size(one.kind).and_then(|size| one.address.checked_add(size));
            end == Some(address) && fields.has_elements(one.kind)
        };
        if step != 0 && before.last().is_some_and(ends_here) {
            return Some(Err(UnknownAccess::Index));
        }
        Some(Ok((found.kind, i64::try_from(offset).ok()?, found.die)))
    }
}
