//! What works, and for what does not: why, and what to type.

use pmuscope_machine::capabilities::{Capability, CapabilityOutcome};

use super::Diagnosis;
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

/// Terminals narrower than this show what is different rather than what a command is for.
const ROOM_FOR_PURPOSE: usize = 100;

pub(super) fn capabilities(diagnosis: &Diagnosis, style: &Style) -> String {
    let purpose = style.width.is_none_or(|width| width >= ROOM_FOR_PURPOSE);
    let mut columns = vec![Column::text(""), Column::text("pmuscope …")];
    columns.extend(purpose.then(|| Column::text("what for")));
    columns.push(Column::text(""));
    let mut table = Table::new(columns).indent(2);
    for verdict in &diagnosis.verdicts {
        let outcome = match verdict.outcome {
            CapabilityOutcome::Works => Cell::new("works").paint(Paint::Good),
            CapabilityOutcome::Reduced => Cell::new("reduced").paint(Paint::Warn),
            CapabilityOutcome::Not => Cell::new("not").paint(Paint::Bad),
        };
        let mut cells = vec![outcome, Cell::new(verdict.command)];
        cells.extend(purpose.then(|| Cell::new(verdict.purpose)));
        cells.push(Cell::new(effects(diagnosis, verdict)));
        table.row(cells);
    }
    format!("{}\n{}", style.paint(Paint::Bold, "Commands"), table.render(style))
}

/// What is different, each with the number of its cause.
fn effects(diagnosis: &Diagnosis, verdict: &Capability) -> String {
    let mut parts: Vec<(String, Vec<usize>)> = Vec::new();
    for reason in &verdict.reasons {
        let cause = diagnosis.causes.iter().position(|cause| cause.why == reason.why);
        let number = cause.map_or(0, |index| index + 1);
        match parts.iter_mut().find(|(effect, _)| *effect == reason.effect) {
            Some((_, numbers)) => numbers.push(number),
            None => parts.push((reason.effect.clone(), vec![number])),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(effect, numbers)| {
            let numbers: Vec<String> = numbers.iter().map(|n| format!("[{n}]")).collect();
            format!("{} {}", escape(&effect), numbers.concat())
        })
        .collect();
    parts.join(", ")
}

pub(super) fn causes(diagnosis: &Diagnosis, style: &Style) -> String {
    const INDENT: usize = 6;
    let mut text = String::new();
    for (index, cause) in diagnosis.causes.iter().enumerate() {
        if index == 0 {
            text += &format!("{}\n", style.paint(Paint::Bold, "Why, and what to type"));
        }
        let number = format!("[{}]", index + 1);
        let why = escape(&cause.why);
        let why = style.text(&why);
        text += &format!("  {number:<3} {}\n", wrap(&why, style.width, INDENT));
        if let Some(fix) = &cause.type_this {
            // Never broken: it is there to be copied.
            text += &format!("      {}\n", style.paint(Paint::Bold, &style.text(&escape(fix))));
        }
    }
    text
}
