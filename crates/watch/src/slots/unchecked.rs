//! No account: what a measurement of the others begins at.

use super::{Accounting, Kind, SlotError, SlotRequest};

/// Lets everything in and remembers nothing.
#[derive(Debug, Default)]
pub struct Unchecked;

impl Accounting for Unchecked {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reserve(&self, _: SlotRequest) -> Result<(), SlotError> {
        Ok(())
    }

    fn release(&self, _: SlotRequest) -> Result<(), SlotError> {
        Ok(())
    }

    fn modify(&self, _: SlotRequest, _: Kind) -> Result<(), SlotError> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        true
    }
}
