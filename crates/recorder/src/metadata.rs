//! What a finished file tells of the machine and of the recording.

use std::collections::{BTreeMap, BTreeSet};

use pmuscope_abi::{SampleType, event_type};
use pmuscope_counters::EventRequest;
use pmuscope_machine::{Machine, Topology};
use pmuscope_perfdata::MemoryNodes;
use pmuscope_perfdata::info::MachineInfo;
use pmuscope_perfdata::writer::{
    BuildIdEntry, ClockData, Features, FileEvent, NodeEntry, TracingData,
};

use crate::mapped::{FindBuildId, MappedFile};
use crate::tally::Unidentified;

/// Facts about the machine.
pub(crate) fn machine_info(machine: &Machine, topology: &Topology) -> MachineInfo {
    let kernel = machine.kernel().ok();
    let field = |pick: fn(&pmuscope_machine::Kernel) -> &String| {
        kernel.as_ref().map(|kernel| pick(kernel).clone()).unwrap_or_default()
    };
    let boot_id = std::fs::read_to_string(machine.root().join("proc/sys/kernel/random/boot_id"));
    MachineInfo {
        hostname: field(|kernel| &kernel.hostname),
        kernel: field(|kernel| &kernel.release),
        arch: field(|kernel| &kernel.arch),
        cpu_model: cpu_model(machine),
        cpus: topology.online.len() as u32,
        nodes: topology.nodes.len() as u32,
        emulator: machine.emulated_by(),
        boot_id: boot_id.ok().map(|id| id.trim().to_owned()),
    }
}

/// The model as /proc/cpuinfo names it; Arm's has none.
fn cpu_model(machine: &Machine) -> Option<String> {
    let text = std::fs::read_to_string(machine.root().join("proc/cpuinfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The feature sections of a file, our own metadata and compression left to the caller.
pub(crate) fn features(
    machine: &Machine,
    topology: &Topology,
    info: &MachineInfo,
    command_line: &[String],
    requests: &[EventRequest],
    clock: ClockData,
) -> Features {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let types: Vec<u32> = requests.iter().map(|request| request.attr.event_type).collect();
    let pmus = machine.pmus().unwrap_or_default();
    Features {
        hostname: text(&info.hostname),
        os_release: text(&info.kernel),
        version: Some(concat!("pmuscope ", env!("CARGO_PKG_VERSION")).into()),
        arch: text(&info.arch),
        cpus: Some((topology.possible.len() as u32, topology.online.len() as u32)),
        cpu_description: info.cpu_model.clone(),
        total_memory_kib: topology.nodes.iter().map(|node| Some(node.memory_bytes? / 1024)).sum(),
        command_line: command_line.to_vec(),
        nodes: topology.nodes.iter().filter_map(node_entry).collect(),
        memory_nodes: memory_nodes(machine, requests),
        branch_stack: requests.iter().any(has_branches),
        pmus: pmus
            .into_iter()
            .filter(|pmu| types.contains(&pmu.type_number))
            .map(|pmu| (pmu.type_number, pmu.name))
            .collect(),
        groups: groups(requests),
        tracing_data: tracing_data(machine, requests),
        clock: Some(clock),
        ..Features::default()
    }
}

/// Nodes of physical memory, where events record physical addresses.
fn memory_nodes(machine: &Machine, requests: &[EventRequest]) -> Option<MemoryNodes> {
    let is_physical = |one: &EventRequest| one.attr.sample_type.contains(SampleType::PHYS_ADDR);
    requests
        .iter()
        .any(is_physical)
        .then(|| machine.memory_blocks())
        .flatten()
        .map(|blocks| MemoryNodes::new(blocks.block_bytes, blocks.nodes))
}

/// Formats of the tracepoints among the events; `None` without any. One whose format cannot be read is
/// left out: our own reader needs none.
fn tracing_data(machine: &Machine, requests: &[EventRequest]) -> Option<TracingData> {
    let is_tracepoint = |r: &&EventRequest| r.attr.event_type == event_type::TRACEPOINT;
    let mut found: Vec<(String, String)> = requests
        .iter()
        .filter(is_tracepoint)
        .filter_map(|request| tracepoint(machine, &request.name, request.attr.config))
        .collect();
    found.sort();
    found.dedup();
    let formats: Vec<_> = found
        .into_iter()
        .filter_map(|(system, name)| {
            let format = machine.tracepoint_format(&system, &name).ok()?;
            Some((system, format))
        })
        .collect();
    if formats.is_empty() {
        return None;
    }
    let [header_page, header_event] = machine.trace_headers().ok()?;
    let page_bytes = rustix::param::page_size() as u32;
    Some(TracingData { page_bytes, header_page, header_event, formats })
}

/// System and name of the tracepoint with this number: as the event is called, unless the user named it
/// otherwise.
fn tracepoint(machine: &Machine, called: &str, id: u64) -> Option<(String, String)> {
    let has_id = |system: &str, name: &str| {
        machine.tracepoint_id(system, name).is_ok_and(|found| found == id)
    };
    let mut words = called.split(':');
    if let (Some(system), Some(name)) = (words.next(), words.next())
        && has_id(system, name)
    {
        return Some((system.into(), name.into()));
    }
    machine.tracepoints().ok()?.into_iter().find(|(system, name)| has_id(system, name))
}

fn has_branches(request: &EventRequest) -> bool {
    request.attr.sample_type.contains(SampleType::BRANCH_STACK)
}

fn node_entry(node: &pmuscope_machine::Node) -> Option<NodeEntry> {
    Some(NodeEntry {
        id: node.id,
        total_kib: node.memory_bytes? / 1024,
        free_kib: node.free_bytes? / 1024,
        cpus: node.cpus.to_string(),
    })
}

/// Groups of more than one event: name, leader, members. They have perf's name for a group without one.
fn groups(requests: &[EventRequest]) -> Vec<(String, u32, u32)> {
    let mut members: BTreeMap<usize, u32> = BTreeMap::new();
    for leader in requests.iter().filter_map(|request| request.leader) {
        *members.entry(leader).or_insert(1) += 1;
    }
    members
        .into_iter()
        .map(|(leader, count)| ("{anon_group}".to_owned(), leader as u32, count))
        .collect()
}

/// The events as the file lists them.
pub(crate) fn file_events(
    requests: &[EventRequest],
    ids: impl Fn(usize) -> Vec<u64>,
) -> Vec<FileEvent> {
    requests
        .iter()
        .enumerate()
        .map(|(event, request)| FileEvent {
            attr: request.attr.clone(),
            name: request.name.clone(),
            ids: ids(event),
        })
        .collect()
}

/// Build ids for files that the kernel mapped without telling theirs (their notes were not in memory
/// at that moment), each file once, and the kernel's own.
pub(crate) fn missing_build_ids(
    machine: &Machine,
    mappings: &Unidentified,
    find: FindBuildId<'_>,
) -> Vec<BuildIdEntry> {
    let mut entries = Vec::new();
    if let Some(build_id) = machine.kernel_build_id() {
        entries.push(BuildIdEntry { path: b"[kernel.kallsyms]".to_vec(), build_id, kernel: true });
    }
    let mut found: BTreeMap<&[u8], BTreeSet<Vec<u8>>> = BTreeMap::new();
    for ((path, inode), pid) in mappings {
        let file = MappedFile { pid: *pid, inode: *inode, path };
        found.entry(path).or_default().extend(find(file));
    }
    // The list is by path: one that stands for several files has no id there.
    for (path, mut ids) in found {
        if let (Some(build_id), None) = (ids.pop_first(), ids.first()) {
            entries.push(BuildIdEntry { path: path.to_vec(), build_id, kernel: false });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::Attr;
    use pmuscope_symbols::Inode;

    #[test]
    fn a_path_that_stands_for_several_files_has_no_build_id() {
        let mapped = |path: &str, number| {
            ((path.as_bytes().to_vec(), Inode { major: 8, minor: 1, number }), 1)
        };
        let mappings: Unidentified =
            [mapped("/bin/xz", 7), mapped("/bin/a", 8), mapped("/bin/a", 9), mapped("/none", 3)]
                .into();
        let find = |file: MappedFile<'_>| {
            (file.inode.number > 3).then(|| vec![file.inode.number as u8; 20])
        };
        let entries = missing_build_ids(&Machine::at("/nonexistent"), &mappings, &find);
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((&entry.path[..], &entry.build_id[..]), (&b"/bin/xz"[..], &[7; 20][..]));
    }

    #[test]
    fn only_groups_of_several_are_listed() {
        let request = |leader| EventRequest {
            name: "e".into(),
            attr: Attr::default(),
            leader,
            cpus: None,
            any_task: false,
            max_precise: false,
        };
        let requests = [request(None), request(None), request(Some(1)), request(Some(1))];
        assert_eq!(groups(&requests), [("{anon_group}".into(), 1, 3)]);
    }
}
