//! What works here, what works reduced, and what not: decided from [`Facts`] alone, in one place.

mod access;
mod causes;
mod commands;
mod fix;

use serde::{Serialize, Serializer};

use crate::Facts;
pub use fix::Fix;

/// Whether a use of pmuscope works on this machine with these rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What to type for it, without `pmuscope` in front: `record -a`.
    pub command: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// The verdict.
    pub outcome: CapabilityOutcome,
    /// What stands against it; empty if it works.
    pub reasons: Vec<CapabilityReason>,
}

/// How well something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityOutcome {
    /// In full.
    Works,
    /// With the effects that its reasons name.
    Reduced,
    /// Not at all.
    Not,
}

/// One thing that stands against a use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapabilityReason {
    /// What is different or missing: `user space only`.
    pub effect: String,
    /// Why, a sentence without full stop.
    pub why: String,
    /// What changes it, if anything does.
    #[serde(rename = "type_this", serialize_with = "fix_text")]
    pub fix: Option<Fix>,
}

// serde asks for a reference to the field.
#[allow(clippy::ref_option)]
fn fix_text<S: Serializer>(fix: &Option<Fix>, serializer: S) -> Result<S::Ok, S::Error> {
    match fix {
        Some(fix) => serializer.collect_str(fix),
        None => serializer.serialize_none(),
    }
}

/// A cause that several verdicts share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedCause {
    /// Why, a sentence without full stop.
    pub why: String,
    /// What changes it for all of them, if anything does.
    pub type_this: Option<String>,
    /// The commands it stands against.
    pub commands: Vec<&'static str>,
}

/// Every use of pmuscope with its verdict, in the order of the manual.
pub fn capabilities(facts: &Facts) -> Vec<Capability> {
    commands::all(facts)
}

/// The causes behind the verdicts, each once, in the order they first appear.
pub fn causes(capabilities: &[Capability]) -> Vec<SharedCause> {
    let mut causes: Vec<(SharedCause, Option<Fix>)> = Vec::new();
    for verdict in capabilities {
        for reason in &verdict.reasons {
            match causes.iter_mut().find(|(cause, _)| cause.why == reason.why) {
                Some((cause, fix)) => {
                    if !cause.commands.contains(&verdict.command) {
                        cause.commands.push(verdict.command);
                    }
                    *fix = Fix::stronger(fix.take(), reason.fix.clone());
                }
                None => {
                    let commands = vec![verdict.command];
                    let cause = SharedCause { why: reason.why.clone(), type_this: None, commands };
                    causes.push((cause, reason.fix.clone()));
                }
            }
        }
    }
    causes
        .into_iter()
        .map(|(cause, fix)| SharedCause { type_this: fix.map(|fix| fix.to_string()), ..cause })
        .collect()
}
