//! Samples as JSON lines and as CSV.

use pmuscope_perfdata::reader::{Event, ReadValues, Registers};

use super::draft::{Draft, NameGap};
use super::text::branch_flags;
use super::value::{NamedValue, ScriptValue, id, json_pairs, number, or_none};
use super::{Field, Fields, SCRIPT_SCHEMA, SampleView, Step};
use crate::envelope::push_json_string;
use crate::sheet::{Separator, push_field};

/// A field that needs no name of a function.
pub(super) fn value<'a>(view: &SampleView<'a>, field: Field) -> ScriptValue<'a> {
    let sample = view.sample;
    let details = view.details;
    match field {
        Field::Comm => ScriptValue::Text(view.comm),
        Field::Pid => or_none(sample.pid, id),
        Field::Tid => or_none(sample.tid, id),
        Field::Cpu => or_none(sample.cpu, number),
        Field::Misc => number(sample.misc),
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
        Field::DataPageSize => or_none(details.and_then(|d| d.data_page_size), number),
        Field::CodePageSize => or_none(details.and_then(|d| d.code_page_size), number),
        Field::Dso => or_none(view.place, |place| {
            ScriptValue::Text(view.present.module(place.spot.module).path)
        }),
        Field::Brstack | Field::Brstacksym => {
            or_none(details.and_then(|details| details.branches), |stack| {
                let branches = stack.iter().map(|branch| {
                    let flags = branch_flags(&branch);
                    ScriptValue::Word(format!("{:#x}/{:#x}/{flags}", branch.from, branch.to))
                });
                ScriptValue::List(branches.collect())
            })
        }
        Field::Sym | Field::Srcline => ScriptValue::None,
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
pub(super) fn json_head(draft: &mut Draft, events: &[Event], file: &str) {
    let names = events.iter().map(|event| ScriptValue::Text(event.name.as_bytes())).collect();
    let pairs = [
        ("schema", ScriptValue::Word(SCRIPT_SCHEMA.into())),
        ("type", ScriptValue::Word("recording".into())),
        ("file", ScriptValue::Text(file.as_bytes())),
        ("events", ScriptValue::List(names)),
    ];
    draft.text.push('{');
    json_pairs(&mut draft.text, &pairs);
    draft.text.push_str("}\n");
}

pub(super) fn json_sample(draft: &mut Draft, view: &SampleView<'_>, fields: &Fields) {
    draft.text.push_str("{\"type\":\"sample\"");
    for field in fields.iter() {
        draft.text.push(',');
        push_json_string(&mut draft.text, field.name());
        draft.text.push(':');
        match (field, view.place) {
            (Field::Sym, Some(place)) => {
                draft.gap(place.spot, NameGap::JsonFunction);
                draft.gap(place.spot, NameGap::JsonInlined);
            }
            (Field::Srcline, Some(place)) => draft.gap(place.spot, NameGap::JsonLine),
            _ => value(view, field).json(&mut draft.text),
        }
    }
    if fields.has(Field::Ip) && !view.chain.is_empty() {
        draft.text.push_str(",\"callchain\":[");
        for (number, step) in view.chain.iter().enumerate() {
            draft.text.push_str(if number == 0 { "{" } else { ",{" });
            json_step(draft, *step, view, fields);
            draft.text.push('}');
        }
        draft.text.push(']');
    }
    draft.text.push_str("}\n");
}

fn json_step(draft: &mut Draft, step: Step, view: &SampleView<'_>, fields: &Fields) {
    json_pairs(&mut draft.text, &[("ip", ScriptValue::Address(step.address))]);
    if fields.has(Field::Sym) {
        draft.text.push_str(",\"sym\":");
        draft.gap(step.spot, NameGap::JsonFunction);
        draft.gap(step.spot, NameGap::JsonInlined);
    }
    if fields.has(Field::Dso) {
        draft.text.push(',');
        let path = view.present.module(step.spot.module).path;
        json_pairs(&mut draft.text, &[("dso", ScriptValue::Text(path))]);
    }
    if fields.has(Field::Srcline) {
        draft.text.push_str(",\"srcline\":");
        draft.gap(step.spot, NameGap::JsonLine);
    }
}

pub(super) fn csv_head(draft: &mut Draft, fields: &Fields) {
    let names: Vec<&str> = fields.iter().map(Field::name).collect();
    draft.text.push_str(&names.join(","));
    if fields.has(Field::Ip) {
        draft.text.push_str(",callchain");
    }
    draft.text.push('\n');
}

/// One line per sample; callers in one field, as addresses with spaces between.
pub(super) fn csv_sample(draft: &mut Draft, view: &SampleView<'_>, fields: &Fields) {
    let mut text = String::new();
    for (number, field) in fields.iter().enumerate() {
        draft.text.push_str(if number == 0 { "" } else { "," });
        match (field, view.place) {
            (Field::Sym, Some(place)) => draft.gap(place.spot, NameGap::CsvFunction),
            (Field::Srcline, Some(place)) => draft.gap(place.spot, NameGap::CsvLine),
            _ => match value(view, field) {
                // What was not recorded is empty, as programs that read tables expect it.
                ScriptValue::None => {}
                ScriptValue::Signed(number) => draft.text.push_str(&number.to_string()),
                value => {
                    text.clear();
                    value.text(&mut text);
                    push_field(&mut draft.text, Separator::Comma, &text);
                }
            },
        }
    }
    if fields.has(Field::Ip) {
        let chain: Vec<String> =
            view.chain.iter().map(|step| format!("{:#x}", step.address)).collect();
        draft.text.push(',');
        draft.text.push_str(&chain.join(" "));
    }
    draft.text.push('\n');
}
