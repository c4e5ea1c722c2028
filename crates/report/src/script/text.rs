//! Samples as perf script prints them.

use std::fmt::Write as _;

use pmuscope_perfdata::reader::{Branch, Registers};

use super::draft::{Draft, NameGap};
use super::rows;
use super::{Field, SampleView, ScriptOptions, Step};
use crate::{escape, escape_bytes};

/// A line, and one for each caller.
pub(super) fn sample(
    draft: &mut Draft,
    view: &SampleView<'_>,
    options: &ScriptOptions,
    name_width: usize,
) {
    front(&mut draft.text, view, options, name_width);
    let chain = !view.chain.is_empty() && options.fields.has(Field::Ip);
    for field in options.fields.iter() {
        match field {
            Field::Ip if chain => {
                draft.text.push('\n');
                view.chain.iter().for_each(|step| caller(draft, *step, view, options));
            }
            Field::Ip => {
                put(draft, format_args!(" {:>16}", hex(view.sample.ip)));
                at(draft, view.place, view, options);
            }
            // Without an address they stand for themselves.
            Field::Sym | Field::Dso | Field::Srcline if options.fields.has(Field::Ip) => {}
            Field::Sym => {
                at(draft, view.place, view, options);
            }
            Field::Dso | Field::Srcline if options.fields.has(Field::Sym) => {}
            Field::Dso | Field::Srcline => at(draft, view.place, view, options),
            Field::Brstack | Field::Brstacksym => branches(draft, view, field),
            field => more(&mut draft.text, view, field),
        }
    }
    draft.text.push('\n');
}

fn put(draft: &mut Draft, words: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = draft.text.write_fmt(words);
}

fn hex(address: Option<u64>) -> String {
    address.map_or_else(|| "-".into(), |address| format!("{address:x}"))
}

/// Who, where and when.
fn front(out: &mut String, view: &SampleView<'_>, options: &ScriptOptions, name_width: usize) {
    let sample = view.sample;
    let has = |field| options.fields.has(field);
    let number = |value: Option<i32>| value.map_or_else(|| "-".into(), |value| value.to_string());
    if has(Field::Comm) {
        let comm = escape_bytes(view.comm);
        // perf sets names flush where call chains follow.
        let width = if view.chain.is_empty() { 16 } else { 0 };
        let _ = write!(out, "{comm:>width$} ");
    }
    let (pid, tid) = (number(sample.pid), number(sample.tid));
    let _ = match (has(Field::Pid), has(Field::Tid)) {
        (true, true) => write!(out, "{pid:>5}/{tid:<5} "),
        (true, false) => write!(out, "{pid:>5} "),
        (false, true) => write!(out, "{tid:>5} "),
        (false, false) => Ok(()),
    };
    if has(Field::Cpu) {
        let _ = match sample.cpu {
            Some(cpu) => write!(out, "[{cpu:03}] "),
            None => write!(out, "[-] "),
        };
    }
    if has(Field::Misc) {
        let _ = write!(out, "{:#06x} ", sample.misc);
    }
    if has(Field::Time) {
        time(out, sample.time, options.nanoseconds);
    }
    if has(Field::Period) {
        let period = view.period().map_or_else(|| "-".into(), |period| period.to_string());
        let _ = write!(out, "{period:>10} ");
    }
    if has(Field::Event) {
        let _ = write!(out, "{:>name_width$}: ", escape(&view.event.name));
    }
}

/// `    12.000345: `
pub(super) fn time(out: &mut String, time: Option<u64>, nanoseconds: bool) {
    let _ = match time {
        None => write!(out, "    -: "),
        Some(time) => {
            let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
            if nanoseconds {
                write!(out, "{seconds:>5}.{rest:09}: ")
            } else {
                write!(out, "{seconds:>5}.{:06}: ", rest / 1000)
            }
        }
    };
}

fn caller(draft: &mut Draft, step: Step, view: &SampleView<'_>, options: &ScriptOptions) {
    if options.fields.has(Field::Sym) {
        draft.gap(step.spot, NameGap::InlinedLines { ip: Some(step.address) });
    }
    put(draft, format_args!("\t{:16x}", step.address));
    at(draft, Some(step), view, options);
    draft.text.push('\n');
}

/// ` function (module) file:line`
fn at(draft: &mut Draft, place: Option<Step>, view: &SampleView<'_>, options: &ScriptOptions) {
    let has = |field| options.fields.has(field);
    if ![Field::Sym, Field::Dso, Field::Srcline].iter().any(|&field| has(field)) {
        return;
    }
    let Some(step) = place else { return draft.text.push_str(" -") };
    if has(Field::Sym) {
        draft.text.push(' ');
        draft.gap(step.spot, NameGap::Function);
    }
    if has(Field::Dso) {
        let module = view.present.module(step.spot.module);
        put(draft, format_args!(" ({})", escape_bytes(module.path)));
    }
    if has(Field::Srcline) {
        draft.text.push(' ');
        draft.gap(step.spot, NameGap::Line);
    }
}

/// ` from/to/P/-/-/cycles/type`, the newest first.
fn branches(draft: &mut Draft, view: &SampleView<'_>, field: Field) {
    let Some(stack) = view.details.and_then(|details| details.branches) else { return };
    for (branch, (from, to)) in stack.iter().zip(view.branches) {
        draft.text.push(' ');
        if field == Field::Brstacksym {
            draft.gap(from.spot, NameGap::Function);
            draft.text.push('/');
            draft.gap(to.spot, NameGap::Function);
        } else {
            put(draft, format_args!("{:#x}/{:#x}", branch.from, branch.to));
        }
        put(draft, format_args!("/{}", branch_flags(&branch)));
    }
}

/// `P/-/-/cycles/type`
pub(super) fn branch_flags(branch: &Branch) -> String {
    let prediction = match (branch.mispredicted, branch.predicted) {
        (true, _) => 'M',
        (false, true) => 'P',
        (false, false) => '-',
    };
    let mark = |is, letter| if is { letter } else { '-' };
    let transaction = mark(branch.in_transaction, 'X');
    let abort = mark(branch.aborted, 'A');
    let kind = branch.kind_name().unwrap_or_default();
    format!("{prediction}/{transaction}/{abort}/{}/{kind}", branch.cycles)
}

/// Fields that perf's default line does not have: each behind a space, with its name where the value
/// alone would say nothing.
fn more(out: &mut String, view: &SampleView<'_>, field: Field) {
    let details = view.details;
    let registers = |registers: Option<Registers<'_>>| {
        registers.map(|registers| {
            let mut text = format!("ABI:{}", registers.abi);
            registers.iter().for_each(|(number, value)| {
                let _ = write!(text, " r{number}:{value:#x}");
            });
            text
        })
    };
    match field {
        // Printed in front.
        Field::Comm
        | Field::Pid
        | Field::Tid
        | Field::Cpu
        | Field::Misc
        | Field::Time
        | Field::Period
        | Field::Event => {}
        // Its values have spaces between them, as perf prints it.
        Field::Trace => {
            if let Some(line) = view.trace() {
                let _ = write!(out, " {}", escape(&line));
            }
        }
        Field::Addr => {
            let _ = write!(out, " {:>16}", hex(view.sample.address));
        }
        Field::DataSrc => {
            let source = details.and_then(|details| details.data_source);
            let _ = match source {
                Some(source) => write!(out, " {:>16x} {source}", source.0),
                None => write!(out, " -"),
            };
        }
        Field::Iregs | Field::Uregs => {
            let found = match field {
                Field::Iregs => details.and_then(|details| details.regs_intr),
                _ => details.and_then(|details| details.regs_user),
            };
            let _ = write!(out, " {}", registers(found).unwrap_or_else(|| "-".into()));
        }
        field => {
            out.push(' ');
            let name = match field {
                Field::Weight | Field::InsLat | Field::RetireLat | Field::PhysAddr => None,
                field => Some(field.name()),
            };
            if let Some(name) = name {
                let _ = write!(out, "{name}=");
            }
            rows::value(view, field).text(out);
        }
    }
}
