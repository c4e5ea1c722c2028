//! A recording as it stands: attributes with all their bits, records with offset, size, kind, what is
//! known of them, and their bytes.

use std::fmt::{Debug, Write as _};

use pmuscope_abi::record::HEADER_SIZE;
use pmuscope_perfdata::reader::{CpuMode, Endian, Event, Metadata, RawEntry, Record, Sample};

use super::record::{addresses, kind_name, pairs};
use super::rows::counts;
use super::value::{NamedValue, ScriptValue, id, number, or_none};
use crate::escape;

/// Bytes in a line.
const LINE: usize = 16;

/// What the recording says about itself.
#[must_use]
pub fn dump_head(metadata: &Metadata, endian: Endian) -> String {
    let mut out = String::new();
    let order = match endian {
        Endian::Little => "little-endian",
        Endian::Big => "big-endian",
    };
    // Writing to a String does not fail.
    let _ = writeln!(out, "# byte order: {order}");
    let facts = [
        ("host name", &metadata.hostname),
        ("kernel", &metadata.os_release),
        ("recorder", &metadata.version),
        ("machine", &metadata.arch),
        ("CPU", &metadata.cpu_model),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            let _ = writeln!(out, "# {name}: {}", escape(fact));
        }
    }
    if !metadata.command.is_empty() {
        let _ = writeln!(out, "# command: {}", escape(&metadata.command.join(" ")));
    }
    out
}

/// An event with all that its attribute says.
pub fn dump_event(out: &mut String, number: usize, event: &Event) {
    let attr = &event.attr;
    let _ = writeln!(out, "# event {number}: {}", escape(&event.name));
    let mut words = vec![
        format!("type {}", attr.event_type),
        format!("config {:#x}", attr.config),
        format!("sample_period_or_freq {}", attr.sample),
        format!("sample_type {}", bits(&attr.sample_type)),
        format!("read_format {}", bits(&attr.read_format)),
        format!("flags {}", bits(&attr.flags)),
    ];
    let mut more = |name: &str, value: u64| {
        if value != 0 {
            words.push(format!("{name} {value:#x}"));
        }
    };
    more("precise_ip", attr.precise_ip.into());
    more("wakeup", attr.wakeup.into());
    more("bp_type", attr.bp_type.into());
    more("config1", attr.config1);
    more("config2", attr.config2);
    more("config3", attr.config3);
    more("config4", attr.config4);
    more("sample_regs_user", attr.sample_regs_user);
    more("sample_stack_user", attr.sample_stack_user.into());
    more("sample_regs_intr", attr.sample_regs_intr);
    more("aux_watermark", attr.aux_watermark.into());
    more("sample_max_stack", attr.sample_max_stack.into());
    more("aux_sample_size", attr.aux_sample_size.into());
    more("sig_data", attr.sig_data);
    if attr.branch_sample_type.bits() != 0 {
        words.push(format!("branch_sample_type {}", bits(&attr.branch_sample_type)));
    }
    words.push(format!("clockid {}", attr.clockid));
    words.iter().for_each(|word| {
        let _ = writeln!(out, "#   {word}");
    });
    let ids: Vec<String> = event.ids.iter().map(u64::to_string).collect();
    let _ = writeln!(out, "#   ids {}", if ids.is_empty() { "-".into() } else { ids.join(" ") });
}

/// `SampleType(IP | TID)` without its own name and spaces: `IP|TID`.
fn bits(flags: &impl Debug) -> String {
    let text = format!("{flags:?}").replace(' ', "");
    let inner = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    match inner {
        Some("0x0" | "empty" | "") | None => "-".into(),
        Some(inner) => inner.to_owned(),
    }
}

/// A record: a line about where and what it is, one with what it says, and its bytes.
pub fn dump_entry(out: &mut String, entry: &RawEntry<'_>, events: &[Event]) {
    if let Some(file) = entry.file.and_then(|file| file.file_name()) {
        let _ = write!(out, "{}:", escape(&file.to_string_lossy()));
    }
    let packed = if entry.packed { " in compressed data" } else { "" };
    let size = entry.body.len() + HEADER_SIZE;
    let name = kind_name(entry.kind).unwrap_or("UNKNOWN");
    let _ = write!(out, "{:#x} [{size:#x}]{packed}: {name} ({})", entry.offset, entry.kind);
    let _ = write!(out, " misc {:#x}", entry.misc);
    if entry.payload > 0 {
        let _ = write!(out, ", {} bytes after it", entry.payload);
    }
    out.push('\n');
    let mut words = front(entry, events);
    words.extend(said(entry, events));
    for (name, value) in &words {
        let _ = write!(out, "  {name} ");
        value.text(out);
        out.push('\n');
    }
    hex(out, entry.body);
    out.push('\n');
}

/// What is not in the record's own fields.
fn front<'a>(entry: &RawEntry<'a>, events: &'a [Event]) -> Vec<NamedValue<'a>> {
    let mut pairs = Vec::new();
    if let Some(event) = entry.event.and_then(|index| events.get(index)) {
        pairs.push(("event", ScriptValue::Text(event.name.as_bytes())));
        pairs.push(("time", or_none(entry.time, number)));
    }
    if let Some((pid, tid)) = entry.maker.task {
        pairs.extend([("by_pid", id(pid)), ("by_tid", id(tid))]);
    }
    pairs.extend(entry.maker.cpu.map(|cpu| ("by_cpu", number(cpu))));
    pairs
}

fn said<'a>(entry: &RawEntry<'a>, events: &[Event]) -> Vec<NamedValue<'a>> {
    match &entry.record {
        Some(Record::Sample(sample)) => sampled(sample),
        Some(record) => pairs(record, &|index| events.get(index).map(|event| event.name.clone())),
        None if entry.kind < 64 => {
            vec![("error", ScriptValue::Word("too short, or of no event".into()))]
        }
        None => Vec::new(),
    }
}

/// All fields of a sample that it has.
fn sampled<'a>(sample: &Sample<'a>) -> Vec<NamedValue<'a>> {
    let mode = match sample.mode {
        CpuMode::Unknown => "unknown",
        CpuMode::Kernel => "kernel",
        CpuMode::User => "user",
        CpuMode::Hypervisor => "hypervisor",
        CpuMode::GuestKernel => "guest kernel",
        CpuMode::GuestUser => "guest user",
    };
    let mut pairs: Vec<NamedValue<'a>> = vec![("mode", ScriptValue::Word(mode.into()))];
    let mut put =
        |name, value: Option<ScriptValue<'a>>| pairs.extend(value.map(|value| (name, value)));
    put("id", sample.id.map(number));
    put("ip", sample.ip.map(ScriptValue::Address));
    put("pid", sample.pid.map(id));
    put("tid", sample.tid.map(id));
    put("addr", sample.address.map(ScriptValue::Address));
    put("stream_id", sample.stream_id.map(number));
    put("cpu", sample.cpu.map(number));
    put("period", sample.period.map(number));
    put("read", sample.read.map(counts));
    put("callchain", (!sample.callchain.is_empty()).then(|| addresses(&sample.callchain)));
    let Some(details) = sample.details() else {
        put("error", Some(ScriptValue::Word("the end of the sample is missing".into())));
        return pairs;
    };
    put("raw", details.raw.map(ScriptValue::Bytes));
    put(
        "branches",
        details.branches.map(|stack| {
            let branches = stack.iter().map(|branch| {
                let flags = super::text::branch_flags(&branch);
                ScriptValue::Word(format!("{:#x}/{:#x}/{flags}", branch.from, branch.to))
            });
            ScriptValue::List(branches.collect())
        }),
    );
    put("hw_idx", details.branches.and_then(|stack| stack.hardware_index).map(number));
    for (name, registers) in [("uregs", details.regs_user), ("iregs", details.regs_intr)] {
        put(
            name,
            registers.map(|registers| {
                let values = registers.iter();
                ScriptValue::List(
                    values
                        .map(|(n, value)| ScriptValue::Word(format!("r{n}={value:#x}")))
                        .collect(),
                )
            }),
        );
    }
    put(
        "ustack",
        details.stack_user.map(|stack| {
            ScriptValue::Word(format!("{} of {} bytes", stack.stack().len(), stack.bytes.len()))
        }),
    );
    put("weight", details.weight.map(|weight| number(weight.cost)));
    put("ins_lat", details.weight.and_then(|weight| weight.instruction).map(number));
    put("retire_lat", details.weight.and_then(|weight| weight.retire).map(number));
    put("data_src", details.data_source.map(|s| ScriptValue::Word(format!("{:#x} {s}", s.0))));
    put("transaction", details.transaction.map(ScriptValue::Address));
    put("phys_addr", details.physical_address.map(ScriptValue::Address));
    put("cgroup", details.cgroup.map(number));
    put("data_page_size", details.data_page_size.map(number));
    put("code_page_size", details.code_page_size.map(number));
    put("aux", details.aux.map(|aux| ScriptValue::Word(format!("{} bytes", aux.len()))));
    pairs
}

/// `  0010: 01 00 …  ....`, offsets counted from the record's header.
fn hex(out: &mut String, body: &[u8]) {
    for (number, line) in body.chunks(LINE).enumerate() {
        let _ = write!(out, "  {:04x}:", HEADER_SIZE + number * LINE);
        for byte in line {
            let _ = write!(out, " {byte:02x}");
        }
        let padding = 3 * (LINE - line.len());
        let shown =
            line.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' });
        let _ = writeln!(out, "{:padding$}  {}", "", shown.collect::<String>());
    }
}
