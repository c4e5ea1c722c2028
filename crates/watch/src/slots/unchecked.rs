//! No account: what a measurement of the others begins at.

use super::{Accounting, Kind, Request, SlotError};

/// Lets everything in and remembers nothing.
#[derive(Debug, Default)]
pub struct Unchecked;

impl Accounting for Unchecked {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reserve(&self, _: Request) -> Result<(), SlotError> {
        Ok(())
    }

    fn release(&self, _: Request) -> Result<(), SlotError> {
        Ok(())
    }

    fn modify(&self, _: Request, _: Kind) -> Result<(), SlotError> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        true
    }
}
