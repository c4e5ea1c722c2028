//! Samples as JSON lines and as CSV.

use pmuscope_perfdata::reader::{Event, ReadValues, Registers};

use super::line_buffer::LineBuffer;
use super::text::branch_flags;
use super::value::{MOST_EXACT, NamedValue, ScriptValue, id, json_pairs, number, or_none};
use super::{Field, Fields, LineFormat, SCRIPT_SCHEMA, SampleView};
use crate::sheet::{Separator, push_field};

/// perf's word where no record has the path of a cgroup.
const UNKNOWN_CGROUP: &str = "unknown";

/// A field that is no name of a thread and no place.
pub(super) fn value<'a>(view: &SampleView<'a>, field: Field) -> ScriptValue<'a> {
    let sample = view.sample;
    let details = view.details;
    match field {
        Field::Pid => or_none(sample.pid, id),
        Field::Tid => or_none(sample.tid, id),
        Field::Cpu => or_none(sample.cpu, number),
        Field::Misc => number(sample.misc),
        Field::Tod => or_none(view.unix_ns, number),
        Field::Time => or_none(sample.time, number),
        Field::Period => or_none(view.period(), number),
        Field::Event => ScriptValue::Text(view.event.name.as_bytes()),
        Field::Trace => or_none(view.trace(), ScriptValue::Word),
        Field::Id => or_none(sample.id, number),
        Field::StreamId => or_none(sample.stream_id, number),
        Field::Read => or_none(sample.read, counts),
        Field::Addr => or_none(sample.address, ScriptValue::Address),
        Field::Ip => or_none(sample.ip, ScriptValue::Address),
        Field::DataSrc => {
            let source = details.and_then(|details| details.data_source);
            or_none(source, |source| ScriptValue::Word(source.to_string()))
        }
        Field::Weight => or_none(details.and_then(|d| d.weight), |weight| number(weight.cost)),
        Field::InsLat => {
            or_none(details.and_then(|d| d.weight).and_then(|w| w.instruction), number)
        }
        Field::RetireLat => or_none(details.and_then(|d| d.weight).and_then(|w| w.retire), number),
        Field::Iregs => or_none(details.and_then(|d| d.regs_intr), registers),
        Field::Uregs => or_none(details.and_then(|d| d.regs_user), registers),
        Field::Ustack => {
            or_none(details.and_then(|d| d.stack_user), |s| ScriptValue::Bytes(s.stack()))
        }
        Field::Raw => or_none(details.and_then(|d| d.raw), ScriptValue::Bytes),
        Field::Transaction => or_none(details.and_then(|d| d.transaction), ScriptValue::Address),
        Field::PhysAddr => or_none(details.and_then(|d| d.physical_address), ScriptValue::Address),
        Field::Cgroup => or_none(details.and_then(|d| d.cgroup), number),
        Field::CgroupPath => {
            or_none(details.and_then(|d| d.cgroup), |id| match view.cgroups.path(id) {
                Some(path) => ScriptValue::Text(path),
                None => ScriptValue::Word(UNKNOWN_CGROUP.into()),
            })
        }
        Field::DataPageSize => or_none(details.and_then(|d| d.data_page_size), number),
        Field::CodePageSize => or_none(details.and_then(|d| d.code_page_size), number),
        Field::Brstack | Field::Brstacksym => {
            or_none(details.and_then(|details| details.branches), |stack| {
                let branches = stack.iter().map(|branch| {
                    let flags = branch_flags(&branch);
                    ScriptValue::Word(format!("{:#x}/{:#x}/{flags}", branch.from, branch.to))
                });
                ScriptValue::List(branches.collect())
            })
        }
        Field::Comm | Field::Sym | Field::Dso | Field::Srcline => ScriptValue::None,
    }
}

fn registers(registers: Registers<'_>) -> ScriptValue<'static> {
    let values = registers.iter().map(|(register, value)| {
        ScriptValue::Object(vec![
            ("register", number(register)),
            ("value", ScriptValue::Address(value)),
        ])
    });
    ScriptValue::List(values.collect())
}

/// Counts read with a sample, each with what it says beside the value.
pub(super) fn counts(read: ReadValues<'_>) -> ScriptValue<'static> {
    let one = |count: pmuscope_perfdata::reader::ReadValue| {
        let mut pairs: Vec<NamedValue<'static>> = vec![("value", number(count.value))];
        pairs.extend(count.id.map(|id| ("id", number(id))));
        pairs.extend(count.lost.map(|lost| ("lost", number(lost))));
        ScriptValue::Object(pairs)
    };
    let mut pairs: Vec<NamedValue<'static>> = Vec::new();
    pairs.extend(read.enabled().map(|time| ("enabled", number(time))));
    pairs.extend(read.running().map(|time| ("running", number(time))));
    pairs.push(("values", ScriptValue::List(read.iter().map(one).collect())));
    ScriptValue::Object(pairs)
}

/// The first line: what follows, and of what.
pub(super) fn json_head(events: &[Event], file: &str) -> String {
    let names = events.iter().map(|event| ScriptValue::Text(event.name.as_bytes())).collect();
    let pairs = [
        ("schema", ScriptValue::Word(SCRIPT_SCHEMA.into())),
        ("type", ScriptValue::Word("recording".into())),
        ("file", ScriptValue::Text(file.as_bytes())),
        ("events", ScriptValue::List(names)),
    ];
    let mut out = String::from("{");
    json_pairs(&mut out, &pairs);
    out.push_str("}\n");
    out
}

pub(super) fn json_sample(out: &mut LineBuffer, view: &SampleView<'_>, format: &LineFormat) {
    let fields = &format.options.fields;
    out.push_str("{\"type\":\"sample\"");
    let mut suffix = view.place.and_then(|place| view.texts.place(place));
    for (field, key) in fields.iter().zip(&format.keys) {
        if field.is_of_place() && view.place.is_some() {
            // It has all of them, which adjoin.
            if let Some(text) = suffix.take() {
                out.push_str(&text.suffix);
            }
            continue;
        }
        out.push_str(key);
        json_value(out, view, field, format);
    }
    if fields.has(Field::Ip) && !view.chain.is_empty() {
        out.push_str(",\"callchain\":[");
        for (number, step) in view.chain.iter().enumerate() {
            out.push_str(if number == 0 { "{\"ip\":" } else { ",{\"ip\":" });
            json_address(out, step.address);
            if let Some(text) = view.texts.place(step.place).filter(|_| fields.want_places()) {
                out.push_str(&text.suffix);
            }
            out.push(b'}');
        }
        out.push(b']');
    }
    out.push_str("}\n");
}

/// The value of a field; those of almost every line without a detour.
fn json_value(out: &mut LineBuffer, view: &SampleView<'_>, field: Field, format: &LineFormat) {
    let sample = view.sample;
    match (field, view.texts.comms.get(view.comm)) {
        (Field::Comm, Some(comm)) => out.push_str(&comm.text),
        (Field::Event, _) => out.push_str(format.event(view)),
        (Field::Pid | Field::Tid | Field::Cpu | Field::Time | Field::Period, _) => {
            match integer(view, field) {
                None => out.push_str("null"),
                Some(number) if number <= MOST_EXACT.into() => push_integer(out, number),
                Some(number) => {
                    out.push(b'"');
                    push_integer(out, number);
                    out.push(b'"');
                }
            }
        }
        (Field::Ip, _) if sample.ip.is_some() => json_address(out, sample.ip.unwrap_or(0)),
        _ => {
            let mut text = String::new();
            value(view, field).json(&mut text);
            out.push_str(&text);
        }
    }
}

/// A field that is an integer.
#[inline]
fn integer(view: &SampleView<'_>, field: Field) -> Option<i128> {
    let sample = view.sample;
    match field {
        Field::Pid => sample.pid.map(Into::into),
        Field::Tid => sample.tid.map(Into::into),
        Field::Cpu => sample.cpu.map(Into::into),
        Field::Time => sample.time.map(Into::into),
        _ => view.period().map(Into::into),
    }
}

#[inline]
fn push_integer(out: &mut LineBuffer, number: i128) {
    if number < 0 {
        out.push(b'-');
    }
    out.decimal(number.unsigned_abs() as u64, 0);
}

fn json_address(out: &mut LineBuffer, address: u64) {
    out.push_str("\"0x");
    out.hexadecimal(address, 0);
    out.push(b'"');
}

pub(super) fn csv_head(fields: &Fields) -> String {
    let mut names: Vec<&str> = fields.iter().map(Field::name).collect();
    names.extend(fields.has(Field::Ip).then_some("callchain"));
    names.join(",") + "\n"
}

/// One line per sample; callers in one field, as addresses with spaces between.
pub(super) fn csv_sample(out: &mut LineBuffer, view: &SampleView<'_>, format: &LineFormat) {
    let fields = &format.options.fields;
    let mut suffix = view.place.and_then(|place| view.texts.place(place));
    for (number, field) in fields.iter().enumerate() {
        let is_of_place = field.is_of_place() && view.place.is_some();
        if is_of_place && suffix.is_none() {
            continue;
        }
        if number > 0 {
            out.push(b',');
        }
        match suffix.take_if(|_| is_of_place) {
            // It has all of them, which adjoin.
            Some(text) => out.push_str(&text.suffix),
            None => csv_value(out, view, field, format),
        }
    }
    if fields.has(Field::Ip) {
        for (number, step) in view.chain.iter().enumerate() {
            out.push_str(if number == 0 { ",0x" } else { " 0x" });
            out.hexadecimal(step.address, 0);
        }
        if view.chain.is_empty() {
            out.push(b',');
        }
    }
    out.push(b'\n');
}

/// The value of a field; what was not recorded is empty, as programs that read tables expect it.
fn csv_value(out: &mut LineBuffer, view: &SampleView<'_>, field: Field, format: &LineFormat) {
    let sample = view.sample;
    match (field, view.texts.comms.get(view.comm)) {
        (Field::Comm, Some(comm)) => out.push_str(&comm.text),
        (Field::Event, _) => out.push_str(format.event(view)),
        (Field::Pid | Field::Tid | Field::Cpu | Field::Time | Field::Period, _) => {
            if let Some(number) = integer(view, field) {
                push_integer(out, number);
            }
        }
        (Field::Ip, _) => {
            if let Some(ip) = sample.ip {
                out.push_str("0x");
                out.hexadecimal(ip, 0);
            }
        }
        _ => match value(view, field) {
            ScriptValue::None => {}
            value => {
                let (mut text, mut quoted) = (String::new(), String::new());
                value.text(&mut text);
                push_field(&mut quoted, Separator::Comma, &text);
                out.push_str(&quoted);
            }
        },
    }
}
