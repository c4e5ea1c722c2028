//! `pmuscope doctor`: the machine in short, what works, what does not, why, and what to type; then details.

mod commands;
pub(crate) mod hardware;
mod limits;
pub(crate) mod section;

use pmuscope_machine::Facts;
use pmuscope_machine::capabilities::{Capability, SharedCause, causes};
use serde::Serialize;

use crate::Style;
use crate::doctor::section::join;
use crate::{escape, number, wrap_lines};

/// Schema of the JSON output.
pub const SCHEMA: &str = "pmuscope/doctor/1";

/// What doctor found, apart from the facts of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Every use of pmuscope.
    pub verdicts: Vec<Capability>,
    /// The causes of the verdicts, each once.
    pub causes: Vec<SharedCause>,
}

impl Diagnosis {
    /// The verdicts with their causes.
    pub fn new(verdicts: Vec<Capability>) -> Self {
        Self { causes: causes(&verdicts), verdicts }
    }
}

/// The page for people.
pub fn text(facts: &Facts, diagnosis: &Diagnosis, style: &Style) -> String {
    // What decides comes first: what works, what does not, and what to type; then what that rests on.
    let sections = [
        wrap_lines(&style.text(&headline(facts)), style.width, 2)
            + &commands::summary(diagnosis, style),
        commands::capabilities(diagnosis, style),
        commands::causes(diagnosis, style),
        hardware::processor(facts, style),
        hardware::nodes(&facts.topology, style),
        hardware::units(facts, style),
        limits::limits(facts, style),
    ];
    let sections: Vec<String> =
        sections.into_iter().filter(|section| !section.is_empty()).collect();
    sections.join("\n")
}

/// The machine, and what limits it most.
fn headline(facts: &Facts) -> String {
    let nodes = facts.topology.nodes.len();
    let of_nodes: Option<u64> = facts.topology.nodes.iter().map(|node| node.memory_bytes).sum();
    let processor = facts.processor.model_name.as_deref().unwrap_or("unnamed processor");
    let first = join([
        Some(escape(processor).into_owned()),
        Some(format!(
            "{}, {}, {}",
            number::counted(facts.topology.online.len(), "CPU"),
            number::counted(nodes, "NUMA node"),
            hardware::memory(facts.memory_bytes, of_nodes)
        )),
        Some(format!("Linux {} {}", escape(&facts.kernel.release), escape(&facts.kernel.arch))),
        facts.distribution.as_deref().map(|name| escape(name).into_owned()),
    ]);
    let virtualization = &facts.virtualization;
    let container =
        virtualization.container.as_ref().map(|sign| match virtualization.is_contained() {
            true => format!("container ({})", escape(&sign.name)),
            false => format!("files of a {} image, not in a container", escape(&sign.name)),
        });
    let second = join([
        virtualization
            .hypervisor
            .as_ref()
            .map(|sign| format!("virtual machine ({})", escape(&sign.name))),
        virtualization.emulator.as_ref().map(|sign| {
            format!("emulated ({}): its timing is not that of hardware", escape(&sign.name))
        }),
        container,
        facts
            .units
            .core()
            .next()
            .is_none()
            .then(|| "no hardware PMU: software timer only".to_owned()),
        Some(limits::who(facts)),
    ]);
    format!("{first}\n{second}\n")
}

#[cfg(test)]
mod tests;
