//! What works, what does not, why, and what to type.

use pmuscope_machine::capabilities::{Capability, CapabilityOutcome};

use super::Diagnosis;
use crate::{Cell, Column, Paint, Style, Table, escape, number, wrap};

/// Narrower terminals show what is different rather than what a command is for.
const ROOM_FOR_PURPOSE: usize = 100;

/// The outcomes, what decides first.
const OUTCOMES: [(CapabilityOutcome, &str, Paint); 3] = [
    (CapabilityOutcome::Not, "blocked", Paint::Bad),
    (CapabilityOutcome::Reduced, "limited", Paint::Warn),
    (CapabilityOutcome::Works, "works", Paint::Good),
];

/// How many uses work, and the fix for most of the others.
pub(super) fn summary(diagnosis: &Diagnosis, style: &Style) -> String {
    let all = diagnosis.verdicts.len();
    let number =
        |outcome| diagnosis.verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
    let (works, reduced, not) = (
        number(CapabilityOutcome::Works),
        number(CapabilityOutcome::Reduced),
        number(CapabilityOutcome::Not),
    );
    if works == all {
        let line = format!("all {} uses work", number::count(all as u64));
        return format!("{}\n", style.paint(Paint::Good, &line));
    }
    let line = format!("{works} of {all} uses work, {reduced} limited, {not} blocked");
    let paint = if not > 0 { Paint::Bad } else { Paint::Warn };
    let mut text = format!("{}\n", style.paint(paint, &line));
    let reasons = || diagnosis.verdicts.iter().flat_map(|verdict| &verdict.reasons);
    let uses = |why: &str| reasons().filter(|reason| reason.why == why).count();
    let fixes = diagnosis
        .causes
        .iter()
        .filter_map(|cause| Some((uses(&cause.why), cause.type_this.as_ref()?)));
    // A remedy for the host of a virtual machine is nothing to type here.
    let fixes = fixes.filter(|(_, fix)| fix.starts_with("sudo "));
    // Of equal ones the first.
    let most = fixes.rev().max_by_key(|(uses, _)| *uses);
    if let Some((_, fix)) = most.filter(|(uses, _)| *uses > 1) {
        let fix = style.text(&escape(fix)).into_owned();
        text += &format!("Try: {}\n", style.paint(Paint::Bold, &fix));
    }
    text
}

pub(super) fn capabilities(diagnosis: &Diagnosis, style: &Style) -> String {
    const INDENT: usize = 2;
    let purpose = style.width.is_none_or(|width| width >= ROOM_FOR_PURPOSE);
    let mut columns = vec![Column::text(""), Column::text("pmuscope …")];
    columns.extend(purpose.then(|| Column::text("what for")));
    columns.push(Column::text(""));
    let widest = |of: fn(&Capability) -> &str| {
        diagnosis.verdicts.iter().map(|verdict| of(verdict).chars().count()).max().unwrap_or(0)
    };
    let outcome = OUTCOMES.iter().map(|(_, word, _)| word.len()).max().unwrap_or(0);
    let used = INDENT + outcome + 2 + widest(|verdict| verdict.command) + 2;
    let used = used + if purpose { widest(|verdict| verdict.purpose) + 2 } else { 0 };
    let room = style.width.map(|width| width.saturating_sub(used).max(20));
    let mut table = Table::new(columns).indent(INDENT);
    for (outcome, word, paint) in OUTCOMES {
        for verdict in diagnosis.verdicts.iter().filter(|verdict| verdict.outcome == outcome) {
            let effects = wrap(&effects(diagnosis, verdict), room, 0);
            let mut front = vec![Cell::new(word).paint(paint), Cell::new(verdict.command)];
            front.extend(purpose.then(|| Cell::new(verdict.purpose)));
            let blank = vec![Cell::default(); front.len()];
            // What is different goes on below itself.
            for (at, line) in effects.split('\n').enumerate() {
                let front = if at == 0 { &front } else { &blank };
                table.row(front.iter().cloned().chain([Cell::new(line)]));
            }
        }
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
            text += &format!("{}\n", style.paint(Paint::Bold, "Causes and fixes"));
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
