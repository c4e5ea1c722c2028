//! Samples as perf script prints them.

use std::fmt::Write as _;

use pmuscope_perfdata::reader::{Branch, Registers};

use pmuscope_recorder::local_time;

use super::line_buffer::LineBuffer;
use super::{Field, LineFormat, SampleView, Step, rows};
use crate::escape;

/// A line, and one for each caller.
pub(super) fn sample(out: &mut LineBuffer, view: &SampleView<'_>, format: &LineFormat) {
    front(out, view, format);
    let fields = &format.options.fields;
    for field in fields.iter() {
        match field {
            Field::Ip if !view.chain.is_empty() => {
                out.push(b'\n');
                view.chain.iter().for_each(|step| caller(out, *step, view, format));
            }
            Field::Ip => {
                address(out, view.sample.ip);
                place(out, view.place, view, format);
            }
            // Without an address they stand for themselves.
            Field::Sym | Field::Dso | Field::Srcline if fields.has(Field::Ip) => {}
            Field::Dso | Field::Srcline if fields.has(Field::Sym) => {}
            Field::Sym | Field::Dso | Field::Srcline => place(out, view.place, view, format),
            Field::Brstack | Field::Brstacksym => branches(out, view, field),
            // Printed in front.
            Field::Comm
            | Field::Pid
            | Field::Tid
            | Field::Cpu
            | Field::Misc
            | Field::Tod
            | Field::Time
            | Field::Period
            | Field::Event => {}
            Field::Addr => address(out, view.sample.address),
            field => {
                let mut text = String::new();
                more(&mut text, view, field);
                out.push_str(&text);
            }
        }
    }
    out.push(b'\n');
}

/// ` {address:>16x}`
fn address(out: &mut LineBuffer, address: Option<u64>) {
    out.push(b' ');
    match address {
        Some(address) => out.hexadecimal(address, 16),
        None => out.push_str("               -"),
    }
}

/// Who, where and when.
fn front(out: &mut LineBuffer, view: &SampleView<'_>, format: &LineFormat) {
    let sample = view.sample;
    let has = |field| format.options.fields.has(field);
    if has(Field::Comm)
        && let Some(comm) = view.texts.comms.get(view.comm)
    {
        // perf sets names flush where call chains follow.
        let comm = if view.chain.is_empty() { &comm.padded } else { &comm.text };
        out.push_str(comm);
        out.push(b' ');
    }
    match (has(Field::Pid), has(Field::Tid)) {
        (true, true) => {
            id(out, sample.pid);
            let start = out.len();
            out.push(b'/');
            signed_or_dash(out, sample.tid, 0);
            out.spaces((start + 7).saturating_sub(out.len()).max(1));
        }
        (true, false) => {
            id(out, sample.pid);
            out.push(b' ');
        }
        (false, true) => {
            id(out, sample.tid);
            out.push(b' ');
        }
        (false, false) => {}
    }
    // As perf: readers of its text take "[" for the start of a number.
    if let Some(cpu) = sample.cpu.filter(|_| has(Field::Cpu)) {
        out.push(b'[');
        out.zero_padded(cpu.into(), 3);
        out.push_str("] ");
    }
    if has(Field::Misc) {
        let misc = format!("{:#06x} ", sample.misc);
        out.push_str(&misc);
    }
    if has(Field::Tod) {
        time_of_day(out, view.unix_ns, format.options.nanoseconds);
    }
    if has(Field::Time) {
        time(out, sample.time, format.options.nanoseconds);
    }
    if has(Field::Period) {
        match view.period() {
            Some(period) => out.decimal(period, 10),
            None => out.push_str("         -"),
        }
        out.push(b' ');
    }
    if has(Field::Event) {
        out.push_str(format.event(view));
    }
}

/// Process or thread, in 5 columns.
fn id(out: &mut LineBuffer, id: Option<i32>) {
    signed_or_dash(out, id, 5);
}

fn signed_or_dash(out: &mut LineBuffer, number: Option<i32>, width: usize) {
    match number {
        Some(number) => out.signed(number.into(), width),
        None => {
            out.spaces(width.saturating_sub(1));
            out.push(b'-');
        }
    }
}

/// `    12.000345: `
pub(super) fn time(out: &mut LineBuffer, time: Option<u64>, nanoseconds: bool) {
    let Some(time) = time else { return out.push_str("    -: ") };
    let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
    out.decimal(seconds, 5);
    out.push(b'.');
    if nanoseconds {
        out.zero_padded(rest, 9);
    } else {
        out.zero_padded(rest / 1000, 6);
    }
    out.push_str(": ");
}

/// `2026-11-25 12:34:56.000345 `, local time as perf's.
fn time_of_day(out: &mut LineBuffer, unix_ns: Option<u64>, nanoseconds: bool) {
    let Some(unix_ns) = unix_ns else { return out.push_str("- ") };
    out.push_str(&local_time(unix_ns));
    out.push(b'.');
    let rest = unix_ns % 1_000_000_000;
    if nanoseconds {
        out.zero_padded(rest, 9);
    } else {
        out.zero_padded(rest / 1000, 6);
    }
    out.push(b' ');
}

fn caller(out: &mut LineBuffer, step: Step, view: &SampleView<'_>, format: &LineFormat) {
    let text = view.texts.place(step.place);
    if format.options.fields.has(Field::Sym)
        && let Some(parts) = text.and_then(|text| text.parts.as_ref())
    {
        for function in &parts.inlined {
            out.push(b'\t');
            out.hexadecimal(step.address, 16);
            out.push(b' ');
            out.push_str(function);
            out.push_str(" (inlined)\n");
        }
    }
    out.push(b'\t');
    out.hexadecimal(step.address, 16);
    place(out, Some(step.place), view, format);
    out.push(b'\n');
}

/// ` function (module) file:line`
fn place(out: &mut LineBuffer, place: Option<u32>, view: &SampleView<'_>, format: &LineFormat) {
    if !format.options.fields.want_places() {
        return;
    }
    match place.and_then(|place| view.texts.place(place)) {
        Some(text) => out.push_str(&text.suffix),
        None => out.push_str(" -"),
    }
}

/// ` from/to/P/-/-/cycles/type`, the newest first.
fn branches(out: &mut LineBuffer, view: &SampleView<'_>, field: Field) {
    let Some(stack) = view.details.and_then(|details| details.branches) else { return };
    let name = |step: &Step| {
        let text = view.texts.place(step.place);
        text.and_then(|text| text.parts.as_ref()?.function.as_deref()).unwrap_or_default()
    };
    let mut steps = view.branches.chunks_exact(2);
    for branch in stack.iter() {
        let flags = branch_flags(&branch);
        let text = if field == Field::Brstacksym {
            let Some([from, to]) = steps.next() else { return };
            format!(" {}/{}/{flags}", name(from), name(to))
        } else {
            format!(" {:#x}/{:#x}/{flags}", branch.from, branch.to)
        };
        out.push_str(&text);
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
        // Its values have spaces between them, as perf prints it.
        Field::Trace => {
            if let Some(line) = view.trace() {
                let _ = write!(out, " {}", escape(&line));
            }
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
        // As perf prints it.
        Field::Cgroup => more(out, view, Field::CgroupPath),
        field => {
            out.push(' ');
            let name = match field {
                Field::Weight
                | Field::InsLat
                | Field::RetireLat
                | Field::PhysAddr
                | Field::CgroupPath => None,
                field => Some(field.name()),
            };
            if let Some(name) = name {
                let _ = write!(out, "{name}=");
            }
            rows::value(view, field).text(out);
        }
    }
}
