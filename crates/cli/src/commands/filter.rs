//! Flags that leave samples out, for all commands that read recordings.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use pmuscope_console::exit::bad_input;
use pmuscope_machine::CpuSet;
use pmuscope_perfdata::reader::{Event, Metadata, Record, RecordingFile};
use pmuscope_profile::{Filter, available_threads};
use pmuscope_report::{escape, escape_bytes};

use super::times::Times;

/// Flags that leave something out.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Show only these processes
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pid: Vec<i32>,
    /// Show only these threads
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    tid: Vec<i32>,
    /// Show only threads with these names (comm)
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "comms")]
    comm: Vec<String>,
    /// Show only these CPUs, as in 0-3,8
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<CpuSet>,
    /// Show only CPUs of these NUMA nodes
    #[arg(long, value_name = "LIST")]
    node: Option<CpuSet>,
    /// Show only this time range: START,STOP or 10%-40%
    ///
    /// Seconds of the recording's clock, either end optional. +START,+STOP counts from the first
    /// sample; 10%-40% is that part of the recording, 10%/2 its second tenth.
    #[arg(long, value_name = "RANGE")]
    time: Option<Times>,
    /// Show only samples of this event; repeatable
    #[arg(short, long, value_name = "EVENT")]
    event: Vec<String>,
}

/// Flags that leave samples out by the names of functions.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SymbolFilterArgs {
    /// Show only samples in these DSOs (binaries or shared libraries)
    ///
    /// A whole path, or its last part, as in libc.so.6 or [kernel.kallsyms].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    dsos: Vec<String>,
    /// Show only samples in functions whose name contains TEXT
    ///
    /// Functions inlined there count too. =NAME is the whole name. Given twice, samples match both.
    #[arg(long, value_name = "TEXT")]
    symbol_filter: Vec<String>,
    /// Show only samples with TEXT anywhere in the call stack
    ///
    /// TEXT is a part of a function's name; =NAME is the whole name. Given twice, samples match both.
    #[arg(long, value_name = "TEXT")]
    focus: Vec<String>,
}

impl SymbolFilterArgs {
    /// Puts them into a filter.
    pub(crate) fn add_to(&self, filter: &mut Filter) {
        filter.dsos.clone_from(&self.dsos);
        filter.symbols.clone_from(&self.symbol_filter);
        filter.focus.clone_from(&self.focus);
        filter.asked.extend(self.asked());
    }

    /// Flags and their values.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        let dsos = (!self.dsos.is_empty()).then(|| ("dsos", self.dsos.join(",")));
        let symbols = self.symbol_filter.iter().map(|text| ("symbol-filter", text.clone()));
        let focus = self.focus.iter().map(|text| ("focus", text.clone()));
        dsos.into_iter().chain(symbols).chain(focus).collect()
    }

    /// Whether anything is left out by them.
    pub(crate) fn is_asked(&self) -> bool {
        !self.asked().is_empty()
    }

    /// Whether callers have to be told apart for them.
    pub(crate) fn need_chains(&self) -> bool {
        !self.focus.is_empty()
    }
}

impl FilterArgs {
    /// Whether nothing is left out.
    pub(crate) fn is_open(&self) -> bool {
        self.asked().is_empty()
    }

    /// The processes.
    pub(crate) fn pids(&self) -> &[i32] {
        &self.pid
    }

    /// The filter, where it is by process, thread and name only.
    pub(crate) fn of_threads(&self) -> Option<Filter> {
        let others = self.cpu.is_some() || self.node.is_some() || self.time.is_some();
        (!others && self.event.is_empty()).then(|| self.threads())
    }

    fn threads(&self) -> Filter {
        Filter {
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            comms: self.comm.iter().map(|name| name.clone().into_bytes()).collect(),
            asked: self.asked(),
            ..Filter::default()
        }
    }

    /// The filter for a recording.
    ///
    /// # Errors
    /// If it has no such event, does not tell the nodes of its CPUs, or cannot tell its first sample.
    pub(crate) fn filter(
        &self,
        recording: &RecordingFile,
        events: &[Event],
        metadata: &Metadata,
    ) -> anyhow::Result<Filter> {
        let cpus = match &self.node {
            None => self.cpu.clone(),
            Some(nodes) => {
                let on_nodes = cpus_of(nodes, metadata, recording.path())?;
                Some(
                    self.cpu.as_ref().map_or(on_nodes.clone(), |cpus| cpus.intersection(&on_nodes)),
                )
            }
        };
        let numbers =
            |cpus: CpuSet| (0..=cpus.last().unwrap_or(0)).map(|cpu| cpus.contains(cpu)).collect();
        Ok(Filter {
            cpus: cpus.map(numbers),
            times: self.time.as_ref().map_or(Ok(Vec::new()), |times| ranges(times, recording))?,
            events: chosen(&self.event, events)?,
            ..self.threads()
        })
    }

    /// Flags and their values.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        let numbers = |list: &[i32]| {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            list.join(",")
        };
        [
            ("pid", numbers(&self.pid)),
            ("tid", numbers(&self.tid)),
            ("comm", self.comm.join(",")),
            ("cpu", self.cpu.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("node", self.node.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("time", self.time.as_ref().map(|times| times.text().to_owned()).unwrap_or_default()),
            ("event", self.event.join(",")),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
    }
}

/// The node of each CPU, as far as the recording tells.
pub(crate) fn nodes(metadata: &Metadata) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for (node, cpus) in &metadata.node_cpus {
        let cpus = CpuSet::parse(cpus).unwrap_or_default();
        nodes.extend(cpus.iter().map(|cpu| (cpu, *node)));
    }
    let rings = metadata.info.as_ref().map_or(&[][..], |info| &info.rings);
    nodes.extend(rings.iter().filter_map(|ring| ring.cpu.zip(ring.node)));
    nodes
}

fn cpus_of(wanted: &CpuSet, metadata: &Metadata, path: &Path) -> anyhow::Result<CpuSet> {
    let nodes = nodes(metadata);
    let mut cpus = CpuSet::new();
    let mut known = CpuSet::new();
    for (&cpu, &node) in &nodes {
        known.insert(node);
        if wanted.contains(node) {
            cpus.insert(cpu);
        }
    }
    let missing = wanted.difference(&known);
    if missing.is_empty() {
        return Ok(cpus);
    }
    let file = path.display();
    let message = if nodes.is_empty() {
        format!("{file} does not record which CPUs are on which NUMA node. Try: --cpu LIST")
    } else {
        format!("{file} has no node {missing}; it has {known}")
    };
    Err(bad_input(message))
}

fn ranges(times: &Times, recording: &RecordingFile) -> anyhow::Result<Vec<RangeInclusive<u64>>> {
    if !times.are_relative() {
        return Ok(times.ranges((0, u64::MAX)));
    }
    let refused = |why: &str| {
        let (times, file) = (times.text(), recording.path().display());
        let message = format!("--time {times} counts from the first sample, and {file} {why}");
        bad_input(message)
    };
    if recording.is_stream() {
        return Err(refused(
            "is a stream, which can be read only once. Try: save it to a file first",
        ));
    }
    let ends = ends(recording)?.ok_or_else(|| refused("has no samples with a time stamp"))?;
    Ok(times.ranges(ends))
}

/// Times of the first and the last sample of a file.
pub(super) fn ends(recording: &RecordingFile) -> anyhow::Result<Option<(u64, u64)>> {
    let mut reader = recording.reader()?;
    if let Some(index) = reader.index(available_threads())? {
        return Ok(index.times());
    }
    let mut ends: Option<(u64, u64)> = None;
    while let Some(entry) = reader.next()? {
        if let (Record::Sample(_), Some(time)) = (&entry.record, entry.time) {
            let (first, last) = ends.unwrap_or((time, time));
            ends = Some((first.min(time), last.max(time)));
        }
    }
    Ok(ends)
}

/// Events by their names, or by names without modifiers.
fn chosen(names: &[String], events: &[Event]) -> anyhow::Result<Option<Vec<bool>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let is = |event: &Event, name: &str| {
        event.name == name || event.name.rsplit_once(':').is_some_and(|(base, _)| base == name)
    };
    if let Some(name) = names.iter().find(|name| !events.iter().any(|event| is(event, name))) {
        let known: Vec<_> = events.iter().map(|event| escape(&event.name)).collect();
        let name = escape_bytes(name.as_bytes());
        let known = known.join(", ");
        let message = format!("the recording has no event \"{name}\"; it has {known}");
        return Err(bad_input(message));
    }
    let wanted = |event| names.iter().any(|name| is(event, name));
    Ok(Some(events.iter().map(wanted).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_a_filter_that_says_how_it_was_asked_for() {
        let event = |name: &str| Event { name: name.into(), attr: Default::default(), ids: vec![] };
        let events = [event("cycles:u"), event("faults")];
        let metadata = Metadata {
            node_cpus: vec![(0, "0-1".into()), (1, "2-3".into())],
            ..Metadata::default()
        };
        let args = FilterArgs {
            pid: vec![7, 8],
            comm: vec!["sh".into()],
            cpu: Some(CpuSet::parse("1-2").unwrap()),
            node: Some(CpuSet::parse("1").unwrap()),
            time: Some("1,2".parse().unwrap()),
            event: vec!["cycles".into()],
            ..FilterArgs::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.data");
        std::fs::write(&path, "").unwrap();
        let recording = RecordingFile::open(&path).unwrap();
        let filter = args.filter(&recording, &events, &metadata).unwrap();
        assert_eq!(filter.cpus, Some(vec![false, false, true]));
        assert_eq!(filter.events, Some(vec![true, false]));
        assert_eq!(filter.times, [1_000_000_000..=2_000_000_000]);
        let asked: Vec<String> =
            filter.asked.iter().map(|(name, value)| format!("--{name} {value}")).collect();
        assert_eq!(
            asked.join(" "),
            "--pid 7,8 --comm sh --cpu 1-2 --node 1 --time 1,2 --event cycles"
        );
        assert!(FilterArgs::default().is_open() && !args.is_open());

        let error = |args: FilterArgs, metadata: &Metadata| {
            args.filter(&recording, &events, metadata).unwrap_err().to_string()
        };
        let misses = FilterArgs { event: vec!["misses".into()], ..FilterArgs::default() };
        assert_eq!(
            error(misses, &metadata),
            "the recording has no event \"misses\"; it has cycles:u, faults"
        );
        let node =
            || FilterArgs { node: Some(CpuSet::parse("1,5").unwrap()), ..FilterArgs::default() };
        assert!(error(node(), &metadata).ends_with("x.data has no node 5; it has 0-1"));
        assert!(error(node(), &Metadata::default()).contains("--cpu LIST"));
    }

    #[test]
    fn a_stream_has_no_parts() {
        let time = Some("10%-20%".parse().unwrap());
        let args = FilterArgs { time, ..FilterArgs::default() };
        let stream = RecordingFile::open("/dev/null".as_ref()).unwrap();
        let error = args.filter(&stream, &[], &Metadata::default()).unwrap_err();
        assert!(error.to_string().contains("Try: save it to a file first"), "{error}");
    }
}
