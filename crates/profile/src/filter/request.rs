//! What people ask of a recording, and the filter that it comes to there.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use pmuscope_machine::CpuSet;
use pmuscope_perfdata::reader::{Event, Metadata, ReadError, Record, RecordingFile};

use super::{Filter, Times};
use crate::pool::available_threads;

/// What people ask for. What is empty or `None` lets all samples pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FilterRequest {
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Names of threads, whole.
    pub comms: Vec<String>,
    /// CPUs.
    pub cpus: Option<CpuSet>,
    /// NUMA nodes, whose CPUs they are.
    pub nodes: Option<CpuSet>,
    /// Times.
    pub times: Option<Times>,
    /// Names of events, with or without modifiers.
    pub events: Vec<String>,
    /// See [`Filter::dsos`].
    pub dsos: Vec<String>,
    /// See [`Filter::symbols`].
    pub symbols: Vec<String>,
    /// See [`Filter::focus`].
    pub focus: Vec<String>,
}

/// Why a recording cannot be filtered as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The recording does not have the nodes of its CPUs.
    #[error("{} does not record which CPUs are on which NUMA node. Try: --cpu LIST", .0.display())]
    NoNodes(PathBuf),
    /// The recording has no such node.
    #[error("{} has no node {missing}; it has {known}", path.display())]
    NoSuchNode {
        /// The recording.
        path: PathBuf,
        /// Nodes that were asked for and are not there.
        missing: CpuSet,
        /// Nodes that are there.
        known: CpuSet,
    },
    /// Times that count from the first sample, of a recording that does not have its time.
    #[error("--time {times} counts from the first sample, and {} {why}", path.display())]
    NoStart {
        /// The recording.
        path: PathBuf,
        /// The times.
        times: String,
        /// What the recording lacks, as a clause.
        why: &'static str,
    },
    /// The recording has no such event. Its names are foreign text.
    #[error("the recording has no event {event:?}; it has {}", known.join(", "))]
    NoSuchEvent {
        /// The name.
        event: String,
        /// Names of its events.
        known: Vec<String>,
    },
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl FilterRequest {
    /// The filter for a recording.
    ///
    /// # Errors
    /// The recording has no such event, not the nodes of its CPUs, or not the time of its first sample.
    pub fn filter(
        &self,
        recording: &RecordingFile,
        events: &[Event],
        metadata: &Metadata,
    ) -> Result<Filter, FilterError> {
        let cpus = match &self.nodes {
            None => self.cpus.clone(),
            Some(nodes) => {
                let on_nodes = cpus_of(nodes, metadata, recording.path())?;
                Some(
                    self.cpus
                        .as_ref()
                        .map_or(on_nodes.clone(), |cpus| cpus.intersection(&on_nodes)),
                )
            }
        };
        let numbers =
            |cpus: CpuSet| (0..=cpus.last().unwrap_or(0)).map(|cpu| cpus.contains(cpu)).collect();
        Ok(Filter {
            cpus: cpus.map(numbers),
            times: self.times.as_ref().map_or(Ok(Vec::new()), |times| ranges(times, recording))?,
            events: chosen(&self.events, events)?,
            ..self.of_tasks_and_names()
        })
    }

    /// The part of the filter that does not depend on the recording.
    #[must_use]
    pub fn of_tasks_and_names(&self) -> Filter {
        Filter {
            pids: self.pids.clone(),
            tids: self.tids.clone(),
            comms: self.comms.iter().map(|name| name.clone().into_bytes()).collect(),
            dsos: self.dsos.clone(),
            symbols: self.symbols.clone(),
            focus: self.focus.clone(),
            asked: self.asked(),
            ..Filter::default()
        }
    }

    /// Samples that pass both.
    ///
    /// # Errors
    /// The name of a flag that both have, if it cannot be given twice.
    pub fn and(&self, more: &Self) -> Result<Self, &'static str> {
        let names = |request: &Self| request.asked().into_iter().map(|(name, _)| name);
        let repeatable = ["symbol-filter", "focus"];
        let is_twice =
            |name: &&str| !repeatable.contains(name) && names(more).any(|other| other == *name);
        if let Some(name) = names(self).find(is_twice) {
            return Err(name);
        }
        let joined = |one: &[String], other: &[String]| [one, other].concat();
        let either = |one: &[i32], other: &[i32]| [one, other].concat();
        Ok(Self {
            pids: either(&self.pids, &more.pids),
            tids: either(&self.tids, &more.tids),
            comms: joined(&self.comms, &more.comms),
            cpus: self.cpus.clone().or_else(|| more.cpus.clone()),
            nodes: self.nodes.clone().or_else(|| more.nodes.clone()),
            times: self.times.clone().or_else(|| more.times.clone()),
            events: joined(&self.events, &more.events),
            dsos: joined(&self.dsos, &more.dsos),
            symbols: joined(&self.symbols, &more.symbols),
            focus: joined(&self.focus, &more.focus),
        })
    }

    /// Whether it asks for names of functions or modules.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        [&self.dsos, &self.symbols, &self.focus].iter().any(|names| !names.is_empty())
    }

    /// Names of flags and their values.
    #[must_use]
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        let numbers = |list: &[i32]| {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            list.join(",")
        };
        let set = |set: &Option<CpuSet>| set.as_ref().map(ToString::to_string).unwrap_or_default();
        let one = [
            ("pid", numbers(&self.pids)),
            ("tid", numbers(&self.tids)),
            ("comm", self.comms.join(",")),
            ("cpu", set(&self.cpus)),
            ("node", set(&self.nodes)),
            ("time", self.times.as_ref().map(|times| times.text().to_owned()).unwrap_or_default()),
            ("event", self.events.join(",")),
            ("dsos", self.dsos.join(",")),
        ];
        let symbols = self.symbols.iter().map(|text| ("symbol-filter", text.clone()));
        let focus = self.focus.iter().map(|text| ("focus", text.clone()));
        let one = one.into_iter().filter(|(_, value)| !value.is_empty());
        one.chain(symbols).chain(focus).collect()
    }
}

/// The NUMA node of each CPU that the recording names.
#[must_use]
pub fn cpu_nodes(metadata: &Metadata) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for (node, cpus) in &metadata.node_cpus {
        let cpus = CpuSet::parse(cpus).unwrap_or_default();
        nodes.extend(cpus.iter().map(|cpu| (cpu, *node)));
    }
    let rings = metadata.info.as_ref().map_or(&[][..], |info| &info.rings);
    nodes.extend(rings.iter().filter_map(|ring| ring.cpu.zip(ring.node)));
    nodes
}

fn cpus_of(wanted: &CpuSet, metadata: &Metadata, path: &Path) -> Result<CpuSet, FilterError> {
    let nodes = cpu_nodes(metadata);
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
    let path = path.to_owned();
    Err(match nodes.is_empty() {
        true => FilterError::NoNodes(path),
        false => FilterError::NoSuchNode { path, missing, known },
    })
}

fn ranges(
    times: &Times,
    recording: &RecordingFile,
) -> Result<Vec<RangeInclusive<u64>>, FilterError> {
    if !times.are_relative() {
        return Ok(times.ranges((0, u64::MAX)));
    }
    let refused = |why| {
        let (path, times) = (recording.path().to_owned(), times.text().to_owned());
        FilterError::NoStart { path, times, why }
    };
    if recording.is_stream() {
        return Err(refused(
            "is a stream, which can be read only once. Try: save it to a file first",
        ));
    }
    let ends =
        sample_times(recording)?.ok_or_else(|| refused("has no samples with a time stamp"))?;
    Ok(times.ranges(ends))
}

/// Times of the first and the last sample of a file, nanoseconds of its clock.
///
/// # Errors
/// The file cannot be read.
pub fn sample_times(recording: &RecordingFile) -> Result<Option<(u64, u64)>, ReadError> {
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
fn chosen(names: &[String], events: &[Event]) -> Result<Option<Vec<bool>>, FilterError> {
    if names.is_empty() {
        return Ok(None);
    }
    let is = |event: &Event, name: &str| {
        event.name == name || event.name.rsplit_once(':').is_some_and(|(base, _)| base == name)
    };
    if let Some(name) = names.iter().find(|name| !events.iter().any(|event| is(event, name))) {
        let known = events.iter().map(|event| event.name.clone()).collect();
        return Err(FilterError::NoSuchEvent { event: name.clone(), known });
    }
    let wanted = |event| names.iter().any(|name| is(event, name));
    Ok(Some(events.iter().map(wanted).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_a_filter_that_says_how_it_was_asked_for() {
        let event = |name: &str| Event { name: name.into(), attr: Default::default(), ids: vec![] };
        let events = [event("cycles:u"), event("faults")];
        let metadata = Metadata {
            node_cpus: vec![(0, "0-1".into()), (1, "2-3".into())],
            ..Metadata::default()
        };
        let request = FilterRequest {
            pids: vec![7, 8],
            comms: vec!["sh".into()],
            cpus: Some(CpuSet::parse("1-2").unwrap()),
            nodes: Some(CpuSet::parse("1").unwrap()),
            times: Some("1,2".parse().unwrap()),
            events: vec!["cycles".into()],
            symbols: vec!["parse".into(), "=main".into()],
            ..FilterRequest::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.data");
        std::fs::write(&path, "").unwrap();
        let recording = RecordingFile::open(&path).unwrap();
        let filter = request.filter(&recording, &events, &metadata).unwrap();
        assert_eq!(filter.cpus, Some(vec![false, false, true]));
        assert_eq!(filter.events, Some(vec![true, false]));
        assert_eq!(filter.times, [1_000_000_000..=2_000_000_000]);
        let asked: Vec<String> =
            filter.asked.iter().map(|(name, value)| format!("--{name} {value}")).collect();
        assert_eq!(
            asked.join(" "),
            "--pid 7,8 --comm sh --cpu 1-2 --node 1 --time 1,2 --event cycles --symbol-filter parse \
             --symbol-filter =main"
        );
        assert!(FilterRequest::default().asked().is_empty());

        let error = |request: FilterRequest, metadata: &Metadata| {
            request.filter(&recording, &events, metadata).unwrap_err().to_string()
        };
        let misses = FilterRequest { events: vec!["misses".into()], ..FilterRequest::default() };
        assert_eq!(
            error(misses, &metadata),
            "the recording has no event \"misses\"; it has cycles:u, faults"
        );
        let node = || FilterRequest {
            nodes: Some(CpuSet::parse("1,5").unwrap()),
            ..FilterRequest::default()
        };
        assert!(error(node(), &metadata).ends_with("x.data has no node 5; it has 0-1"));
        assert!(error(node(), &Metadata::default()).contains("--cpu LIST"));
    }

    #[test]
    fn two_requests_are_one_unless_both_ask_for_the_same() {
        let of = |symbol: &str, pid: Option<i32>| FilterRequest {
            pids: pid.into_iter().collect(),
            symbols: vec![symbol.to_owned()],
            ..FilterRequest::default()
        };
        let both = of("a", Some(7)).and(&of("b", None)).unwrap();
        assert_eq!((both.pids, both.symbols), (vec![7], vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(of("a", Some(7)).and(&of("b", Some(8))), Err("pid"));
    }

    #[test]
    fn a_stream_has_no_parts() {
        let times = Some("10%-20%".parse().unwrap());
        let request = FilterRequest { times, ..FilterRequest::default() };
        let stream = RecordingFile::open("/dev/null".as_ref()).unwrap();
        let error = request.filter(&stream, &[], &Metadata::default()).unwrap_err();
        assert!(error.to_string().contains("Try: save it to a file first"), "{error}");
    }
}
