//! The event where none is asked for.

use crate::catalog::{Catalog, core_pmus};
use crate::error::EventError;
use crate::event::Group;
use crate::resolve::parse;

/// Something that the user has to know about the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What happened, why, and what to type.
    pub message: String,
}

/// Cycles, as precise as possible, on each kind of core; where the machine shows no counters of its
/// CPU, the software clock and the reason. Only for want of a choice: an event that was asked for by
/// name is never replaced.
///
/// # Errors
/// None that a machine could cause: the names are our own.
pub fn default_event(catalog: &dyn Catalog) -> Result<(Vec<Group>, Option<Notice>), EventError> {
    if !core_pmus(catalog).is_empty() {
        return Ok((parse("cycles:P", catalog)?, None));
    }
    let message = "no hardware PMU (typical in VMs); sampling cpu-clock instead of cycles";
    Ok((parse("cpu-clock", catalog)?, Some(Notice { message: message.to_owned() })))
}
