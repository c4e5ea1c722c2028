//! Records other than samples.

use std::fmt::Write as _;

use pmuscope_abi::record::kind;
use pmuscope_perfdata::reader::{Callchain, Comm, Mmap, Namespaces, Record, Switch, TaskRecord};

use super::line_buffer::LineBuffer;
use super::rows::counts;
use super::value::{NamedValue, ScriptValue, id, json_pairs, number, or_none};
use super::{RecordView, text};
use crate::escape_bytes;

/// Kinds of records that are shown or not together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordClass {
    /// Mappings of memory.
    Mmap,
    /// Names, beginnings and ends of tasks.
    Task,
    /// Context switches.
    Switch,
    /// Lost records and samples, and throttling.
    Lost,
    /// Namespaces.
    Namespace,
    /// Cgroups.
    Cgroup,
    /// BPF programs, and functions the kernel loaded.
    Bpf,
    /// Changes of the kernel's code.
    TextPoke,
    /// Hardware trace.
    Aux,
    /// What has no class of its own.
    Other,
}

impl RecordClass {
    /// The class of a record; `None` for a sample.
    #[must_use]
    pub fn of(record: &Record<'_>) -> Option<Self> {
        Some(match record {
            Record::Sample(_) => return None,
            Record::Mmap(_) => Self::Mmap,
            Record::Comm(_) | Record::Fork(_) | Record::Exit(_) => Self::Task,
            Record::Switch(_) => Self::Switch,
            Record::Lost { .. }
            | Record::LostSamples { .. }
            | Record::Throttle { .. }
            | Record::Unthrottle { .. } => Self::Lost,
            Record::Namespaces(_) => Self::Namespace,
            Record::Cgroup(_) => Self::Cgroup,
            Record::BpfEvent(_) | Record::Ksymbol(_) => Self::Bpf,
            Record::TextPoke(_) => Self::TextPoke,
            Record::Aux(_) | Record::ItraceStart { .. } | Record::AuxOutput(_) => Self::Aux,
            _ => Self::Other,
        })
    }
}

/// Name of a kind of record, as in perf's `PERF_RECORD_…`; `None` for one that is not known.
#[must_use]
pub fn kind_name(record_kind: u32) -> Option<&'static str> {
    const KERNEL: [&str; 23] = [
        "",
        "MMAP",
        "LOST",
        "COMM",
        "EXIT",
        "THROTTLE",
        "UNTHROTTLE",
        "FORK",
        "READ",
        "SAMPLE",
        "MMAP2",
        "AUX",
        "ITRACE_START",
        "LOST_SAMPLES",
        "SWITCH",
        "SWITCH_CPU_WIDE",
        "NAMESPACES",
        "KSYMBOL",
        "BPF_EVENT",
        "CGROUP",
        "TEXT_POKE",
        "AUX_OUTPUT_HW_ID",
        "CALLCHAIN_DEFERRED",
    ];
    const TOOLS: [&str; 23] = [
        "HEADER_ATTR",
        "HEADER_EVENT_TYPE",
        "HEADER_TRACING_DATA",
        "HEADER_BUILD_ID",
        "FINISHED_ROUND",
        "ID_INDEX",
        "AUXTRACE_INFO",
        "AUXTRACE",
        "AUXTRACE_ERROR",
        "THREAD_MAP",
        "CPU_MAP",
        "STAT_CONFIG",
        "STAT",
        "STAT_ROUND",
        "EVENT_UPDATE",
        "TIME_CONV",
        "HEADER_FEATURE",
        "COMPRESSED",
        "FINISHED_INIT",
        "COMPRESSED2",
        "BPF_METADATA",
        "SCHEDSTAT_CPU",
        "SCHEDSTAT_DOMAIN",
    ];
    let at = record_kind as usize;
    let found = KERNEL.get(at).or_else(|| TOOLS.get(at.checked_sub(64)?)).copied();
    found.filter(|name| !name.is_empty())
}

/// Name of a record's kind.
fn name(record: &Record<'_>) -> &'static str {
    let number = match record {
        Record::Sample(_) => kind::SAMPLE,
        Record::Mmap(mmap) if mmap.protection.is_some() => kind::MMAP2,
        Record::Mmap(_) => kind::MMAP,
        Record::Comm(_) => kind::COMM,
        Record::Fork(_) => kind::FORK,
        Record::Exit(_) => kind::EXIT,
        Record::Lost { .. } => kind::LOST,
        Record::LostSamples { .. } => kind::LOST_SAMPLES,
        Record::Throttle { .. } => kind::THROTTLE,
        Record::Unthrottle { .. } => kind::UNTHROTTLE,
        Record::Ksymbol(_) => kind::KSYMBOL,
        Record::Read { .. } => kind::READ,
        Record::Aux(_) => kind::AUX,
        Record::ItraceStart { .. } => 12,
        Record::Switch(switch) if switch.other.is_none() => kind::SWITCH,
        Record::Switch(_) => kind::SWITCH_CPU_WIDE,
        Record::Namespaces(_) => kind::NAMESPACES,
        Record::BpfEvent(_) => kind::BPF_EVENT,
        Record::Cgroup(_) => kind::CGROUP,
        Record::TextPoke(_) => 20,
        Record::AuxOutput(_) => 21,
        Record::DeferredCallchain(_) => 22,
        Record::Other { kind } => *kind,
        _ => 0,
    };
    kind_name(number).unwrap_or("UNKNOWN")
}

/// What a record says, all of it.
pub(super) fn pairs<'a>(
    record: &Record<'a>,
    event_name: &dyn Fn(usize) -> Option<String>,
) -> Vec<NamedValue<'a>> {
    let event = |index: &Option<usize>| or_none(index.and_then(event_name), ScriptValue::Word);
    let task = |pid: &i32, tid: &i32| vec![("pid", id(*pid)), ("tid", id(*tid))];
    match record {
        Record::Mmap(mmap) => mapping(mmap),
        Record::Comm(comm) => {
            let mut pairs = task(&comm.pid, &comm.tid);
            pairs.extend([
                ("comm", ScriptValue::Text(comm.name)),
                ("exec", ScriptValue::Flag(comm.exec)),
            ]);
            pairs
        }
        Record::Fork(told) | Record::Exit(told) => {
            let mut pairs = task(&told.pid, &told.tid);
            pairs.extend([("ppid", id(told.parent_pid)), ("ptid", id(told.parent_tid))]);
            pairs
        }
        Record::Lost { event: of, count } => vec![("event", event(of)), ("lost", number(*count))],
        Record::LostSamples { event: of, count } => {
            vec![("event", event(&Some(*of))), ("lost", number(*count))]
        }
        Record::Throttle { event: of } | Record::Unthrottle { event: of } => {
            vec![("event", event(of))]
        }
        Record::Ksymbol(symbol) => vec![
            ("addr", ScriptValue::Address(symbol.start)),
            ("len", number(symbol.length)),
            ("unregistered", ScriptValue::Flag(symbol.unregistered)),
            ("name", ScriptValue::Text(symbol.name)),
        ],
        Record::Read { pid, tid, values } => {
            let mut pairs = task(pid, tid);
            pairs.push(("read", counts(*values)));
            pairs
        }
        Record::Aux(aux) => vec![
            ("offset", number(aux.offset)),
            ("size", number(aux.size)),
            ("flags", ScriptValue::Address(aux.flags)),
        ],
        Record::ItraceStart { pid, tid } => task(pid, tid),
        Record::Switch(switch) => switched(switch),
        Record::Namespaces(namespaces) => {
            let mut pairs = task(&namespaces.pid, &namespaces.tid);
            pairs.push(("namespaces", namespace_list(namespaces)));
            pairs
        }
        Record::BpfEvent(bpf) => vec![
            ("what", number(bpf.what)),
            ("flags", number(bpf.flags)),
            ("id", number(bpf.id)),
            ("tag", ScriptValue::Bytes(bpf.tag)),
        ],
        Record::Cgroup(cgroup) => {
            vec![("id", number(cgroup.id)), ("path", ScriptValue::Text(cgroup.path))]
        }
        Record::TextPoke(poke) => vec![
            ("addr", ScriptValue::Address(poke.address)),
            ("old", ScriptValue::Bytes(poke.old)),
            ("new", ScriptValue::Bytes(poke.new)),
        ],
        Record::AuxOutput(output) => vec![("id", number(output.id))],
        Record::DeferredCallchain(deferred) => vec![
            ("cookie", ScriptValue::Address(deferred.cookie)),
            ("callchain", addresses(&deferred.callchain)),
        ],
        Record::Other { kind } => vec![("kind", number(*kind))],
        _ => Vec::new(),
    }
}

pub(super) fn addresses(chain: &Callchain<'_>) -> ScriptValue<'static> {
    ScriptValue::List(chain.iter().map(ScriptValue::Address).collect())
}

fn mapping<'a>(mmap: &Mmap<'a>) -> Vec<NamedValue<'a>> {
    let mut pairs = vec![
        ("pid", id(mmap.pid)),
        ("tid", id(mmap.tid)),
        ("start", ScriptValue::Address(mmap.start)),
        ("len", ScriptValue::Address(mmap.length)),
        ("pgoff", ScriptValue::Address(mmap.offset)),
        ("executable", ScriptValue::Flag(mmap.executable)),
        ("filename", ScriptValue::Text(mmap.path)),
        ("build_id", or_none(mmap.build_id, ScriptValue::Bytes)),
    ];
    if let Some(inode) = mmap.inode {
        pairs.extend([
            ("major", number(inode.major)),
            ("minor", number(inode.minor)),
            ("inode", number(inode.number)),
            ("generation", number(inode.generation)),
        ]);
    }
    if let Some((protection, flags)) = mmap.protection {
        pairs.extend([
            ("prot", ScriptValue::Address(protection.into())),
            ("flags", ScriptValue::Address(flags.into())),
        ]);
    }
    pairs
}

fn switched(switch: &Switch) -> Vec<NamedValue<'static>> {
    let mut pairs = vec![
        ("out", ScriptValue::Flag(switch.out)),
        ("preempted", ScriptValue::Flag(switch.preempted)),
    ];
    if let Some((pid, tid)) = switch.other {
        pairs.extend([("other_pid", id(pid)), ("other_tid", id(tid))]);
    }
    pairs
}

fn namespace_list(namespaces: &Namespaces<'_>) -> ScriptValue<'static> {
    let one = |namespace: pmuscope_perfdata::reader::Namespace| {
        ScriptValue::Object(vec![
            ("name", or_none(namespace.name, |name| ScriptValue::Word(name.into()))),
            ("dev", number(namespace.device)),
            ("inode", ScriptValue::Address(namespace.inode)),
        ])
    };
    ScriptValue::List(namespaces.iter().map(one).collect())
}

/// An object on a line of its own.
pub(super) fn json(out: &mut String, view: &RecordView<'_>) {
    let mut all = vec![
        ("type", ScriptValue::Word(name(view.record).to_ascii_lowercase())),
        ("time", or_none(view.time, number)),
    ];
    all.extend(view.maker.cpu.map(|cpu| ("cpu", number(cpu))));
    if let Some((pid, tid)) = view.maker.task {
        all.extend([
            ("by_pid", id(pid)),
            ("by_tid", id(tid)),
            ("by_comm", ScriptValue::Text(view.comm)),
        ]);
    }
    all.extend(pairs(view.record, &|index| event_name(view, index)));
    out.push('{');
    json_pairs(out, &all);
    out.push_str("}\n");
}

fn event_name(view: &RecordView<'_>, index: usize) -> Option<String> {
    view.events.get(index).map(|event| event.name.clone())
}

/// A line as perf script prints it.
pub(super) fn text(out: &mut String, view: &RecordView<'_>, nanoseconds: bool) {
    let tid = view.maker.task.map_or_else(|| "-".into(), |(_, tid)| tid.to_string());
    // Writing to a String does not fail.
    let _ = write!(out, "{:>16} {tid:>5} ", escape_bytes(view.comm));
    if let Some(cpu) = view.maker.cpu {
        let _ = write!(out, "[{cpu:03}] ");
    }
    // perf gives those that the recorder made itself the time 0.
    let mut time = LineBuffer::default();
    text::time(&mut time, Some(view.time.unwrap_or(0)), nanoseconds);
    out.push_str(&String::from_utf8_lossy(time.as_bytes()));
    let _ = write!(out, "PERF_RECORD_{}", name(view.record));
    let _ = match view.record {
        Record::Mmap(mmap) => mapping_text(out, mmap),
        Record::Comm(comm) => comm_text(out, comm),
        Record::Fork(task) | Record::Exit(task) => task_text(out, task),
        record => {
            for (name, value) in pairs(record, &|index| event_name(view, index)) {
                let _ = write!(out, " {name} ");
                value.text(out);
            }
            Ok(())
        }
    };
    out.push('\n');
}

fn mapping_text(out: &mut String, mmap: &Mmap<'_>) -> std::fmt::Result {
    let Mmap { pid, tid, start, length, offset, .. } = *mmap;
    write!(out, " {pid}/{tid}: [{start:#x}({length:#x}) @ {offset:#x}")?;
    if let Some(build_id) = mmap.build_id {
        out.push_str(" <");
        ScriptValue::Bytes(build_id).text(out);
        out.push('>');
    } else if let Some(inode) = mmap.inode {
        let (major, minor) = (inode.major, inode.minor);
        write!(out, " {major:02x}:{minor:02x} {} {}", inode.number, inode.generation)?;
    }
    out.push_str("]: ");
    match mmap.protection {
        Some((protection, flags)) => {
            const MAP_SHARED: u32 = 1;
            for (bit, letter) in [(1, 'r'), (2, 'w'), (4, 'x')] {
                out.push(if protection & bit != 0 { letter } else { '-' });
            }
            out.push(if flags & MAP_SHARED != 0 { 's' } else { 'p' });
        }
        None => out.push(if mmap.executable { 'x' } else { 'r' }),
    }
    write!(out, " {}", escape_bytes(mmap.path))
}

fn comm_text(out: &mut String, comm: &Comm<'_>) -> std::fmt::Result {
    let exec = if comm.exec { " exec" } else { "" };
    write!(out, "{exec}: {}:{}/{}", escape_bytes(comm.name), comm.pid, comm.tid)
}

fn task_text(out: &mut String, task: &TaskRecord) -> std::fmt::Result {
    let TaskRecord { pid, tid, parent_pid, parent_tid, .. } = *task;
    write!(out, "({pid}:{tid}):({parent_pid}:{parent_tid})")
}
