//! Feature sections: what a finished file contains in addition to its records. Numbers and layouts
//! as in `tools/perf/util/header.{h,c}`; few on purpose, since readers fail on features they do not
//! know.

use pmuscope_abi::record::{RecordBuilder, kind, misc};

use super::{FileEvent, TracingData};
use crate::clock_data::ClockData;
use crate::info::FEATURE_INFO;
use crate::memory_nodes::MemoryNodes;

mod bit {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const OSRELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCH: u32 = 6;
    pub(super) const NRCPUS: u32 = 7;
    pub(super) const CPUDESC: u32 = 8;
    pub(super) const TOTAL_MEM: u32 = 10;
    pub(super) const CMDLINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const NUMA_TOPOLOGY: u32 = 14;
    pub(super) const BRANCH_STACK: u32 = 15;
    pub(super) const PMU_MAPPINGS: u32 = 16;
    pub(super) const GROUP_DESC: u32 = 17;
    pub(super) const SAMPLE_TIME: u32 = 21;
    pub(super) const MEM_TOPOLOGY: u32 = 22;
    pub(super) const CLOCKID: u32 = 23;
    pub(super) const COMPRESSED: u32 = 27;
    pub(super) const CLOCK_DATA: u32 = 29;
}

/// Strings are padded to this, as perf does.
const NAME_ALIGN: usize = 64;

/// What the features of a file say; absent ones are not written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    /// Formats of tracepoints; stock perf refuses files with tracepoints that have none.
    pub tracing_data: Option<TracingData>,
    /// Build IDs of modules with mappings that carry none.
    pub build_ids: Vec<BuildIdEntry>,
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub os_release: Option<String>,
    /// Version of the recording program.
    pub version: Option<String>,
    /// Machine name as uname(1) has it.
    pub arch: Option<String>,
    /// Available and online CPUs.
    pub cpus: Option<(u32, u32)>,
    /// CPU model.
    pub cpu_description: Option<String>,
    /// Memory in KiB.
    pub total_memory_kib: Option<u64>,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// Nodes with memory and CPUs.
    pub nodes: Vec<NodeEntry>,
    /// Nodes of physical memory.
    pub memory_nodes: Option<MemoryNodes>,
    /// Some event records branch stacks.
    pub branch_stack: bool,
    /// PMU numbers and names.
    pub pmus: Vec<(u32, String)>,
    /// Groups: name, index of the leader's event, number of members.
    pub groups: Vec<(String, u32, u32)>,
    /// Time stamps of the first and last sample, nanoseconds.
    pub sample_time: Option<(u64, u64)>,
    /// The clock of time stamps, at one moment.
    pub clock: Option<ClockData>,
    /// Data are compressed.
    pub compression: Option<Compression>,
    /// Our own metadata, as JSON.
    pub info: Option<Vec<u8>>,
}

/// A module and its build id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildIdEntry {
    /// Path or name as in the mapping.
    pub path: Vec<u8>,
    /// Up to 20 bytes.
    pub build_id: Vec<u8>,
    /// The module is of the kernel.
    pub kernel: bool,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// Number.
    pub id: u32,
    /// Memory in KiB.
    pub total_kib: u64,
    /// Free memory in KiB.
    pub free_kib: u64,
    /// CPUs as a list.
    pub cpus: String,
}

/// How data are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// zstd level.
    pub level: u32,
    /// Bytes before compression per byte after, rounded.
    pub ratio: u32,
    /// No compressed record expands to more bytes than this.
    pub largest: u32,
}

impl Compression {
    /// The same as a record for the stream. Stock perf sizes its buffers by it, and a file that was not
    /// closed has no feature sections: it comes before the first compressed record.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        RecordBuilder::new(&mut out, kind::HEADER_FEATURE, 0)
            .u64(bit::COMPRESSED.into())
            .bytes(&self.payload())
            .bytes(&[0; 4])
            .finish();
        out
    }

    /// Version, kind (1: zstd), level, ratio, largest piece.
    fn payload(&self) -> Vec<u8> {
        words(&[0, 1, self.level, self.ratio, self.largest])
    }
}

impl Features {
    /// Bit number and payload of each section, ascending.
    pub(super) fn sections(&self, events: &[FileEvent]) -> Vec<(u32, Vec<u8>)> {
        let text = |value: &Option<String>| value.as_deref().map(|text| string(text.as_bytes()));
        let list = [
            (bit::TRACING_DATA, self.tracing_data.as_ref().map(TracingData::to_bytes)),
            (bit::BUILD_ID, some_if(!self.build_ids.is_empty(), || self.build_id_payload())),
            (bit::HOSTNAME, text(&self.hostname)),
            (bit::OSRELEASE, text(&self.os_release)),
            (bit::VERSION, text(&self.version)),
            (bit::ARCH, text(&self.arch)),
            (bit::NRCPUS, self.cpus.map(|(have, online)| words(&[have, online]))),
            (bit::CPUDESC, text(&self.cpu_description)),
            (bit::TOTAL_MEM, self.total_memory_kib.map(|kib| kib.to_ne_bytes().to_vec())),
            (bit::CMDLINE, some_if(!self.command_line.is_empty(), || self.command_line_payload())),
            (bit::EVENT_DESC, Some(event_desc(events))),
            (bit::NUMA_TOPOLOGY, some_if(!self.nodes.is_empty(), || self.nodes_payload())),
            (bit::BRANCH_STACK, some_if(self.branch_stack, Vec::new)),
            (bit::PMU_MAPPINGS, some_if(!self.pmus.is_empty(), || self.pmus_payload())),
            (bit::GROUP_DESC, some_if(!self.groups.is_empty(), || self.groups_payload())),
            (bit::SAMPLE_TIME, self.sample_time.map(|(first, last)| longs(&[first, last]))),
            (bit::MEM_TOPOLOGY, self.memory_nodes.as_ref().map(MemoryNodes::to_bytes)),
            (bit::CLOCKID, self.clock.map(|clock| longs(&[clock.clockid.into()]))),
            (bit::COMPRESSED, self.compression.as_ref().map(Compression::payload)),
            (bit::CLOCK_DATA, self.clock.map(ClockData::to_bytes)),
            (FEATURE_INFO, self.info.clone()),
        ];
        list.into_iter().filter_map(|(bit, payload)| Some((bit, payload?))).collect()
    }

    fn build_id_payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.build_ids {
            out.extend_from_slice(&build_id_record(entry));
        }
        out
    }

    fn command_line_payload(&self) -> Vec<u8> {
        let mut out = words(&[self.command_line.len() as u32]);
        for word in &self.command_line {
            out.extend_from_slice(&string(word.as_bytes()));
        }
        out
    }

    fn nodes_payload(&self) -> Vec<u8> {
        let mut out = words(&[self.nodes.len() as u32]);
        for node in &self.nodes {
            out.extend_from_slice(&words(&[node.id]));
            out.extend_from_slice(&longs(&[node.total_kib, node.free_kib]));
            out.extend_from_slice(&string(node.cpus.as_bytes()));
        }
        out
    }

    fn pmus_payload(&self) -> Vec<u8> {
        let mut out = words(&[self.pmus.len() as u32]);
        for (number, name) in &self.pmus {
            out.extend_from_slice(&words(&[*number]));
            out.extend_from_slice(&string(name.as_bytes()));
        }
        out
    }

    fn groups_payload(&self) -> Vec<u8> {
        let mut out = words(&[self.groups.len() as u32]);
        for (name, leader, members) in &self.groups {
            out.extend_from_slice(&string(name.as_bytes()));
            out.extend_from_slice(&words(&[*leader, *members]));
        }
        out
    }
}

fn some_if<T>(wanted: bool, value: impl FnOnce() -> T) -> Option<T> {
    wanted.then(value)
}

fn event_desc(events: &[FileEvent]) -> Vec<u8> {
    let attr_size = super::attr_size(events);
    let mut out = words(&[events.len() as u32, attr_size as u32]);
    for event in events {
        out.extend_from_slice(&event.attr.to_sized_bytes(attr_size));
        out.extend_from_slice(&words(&[event.ids.len() as u32]));
        out.extend_from_slice(&string(event.name.as_bytes()));
        out.extend_from_slice(&longs(&event.ids));
    }
    out
}

/// `header, pid, build_id[20], size, pad[3], path padded to 8`; bit 15 of misc says that the size byte
/// is valid.
fn build_id_record(entry: &BuildIdEntry) -> Vec<u8> {
    const SIZE_VALID: u16 = 1 << 15;
    const FIXED: usize = 8 + 4 + 24;
    let size = entry.build_id.len().min(20);
    let path = &entry.path[..entry.path.len().min(4095)];
    let total = FIXED + (path.len() + 1).next_multiple_of(8);
    let mode = if entry.kernel { misc::KERNEL } else { misc::USER };
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(&0_u32.to_ne_bytes());
    out.extend_from_slice(&(mode | SIZE_VALID).to_ne_bytes());
    out.extend_from_slice(&(total as u16).to_ne_bytes());
    out.extend_from_slice(&(-1_i32).to_ne_bytes());
    out.extend_from_slice(&entry.build_id[..size]);
    out.resize(8 + 4 + 20, 0);
    out.push(size as u8);
    out.resize(FIXED, 0);
    out.extend_from_slice(path);
    out.resize(total, 0);
    out
}

fn string(text: &[u8]) -> Vec<u8> {
    let size = (text.len() + 1).next_multiple_of(NAME_ALIGN);
    let mut out = words(&[size as u32]);
    out.extend_from_slice(text);
    out.resize(4 + size, 0);
    out
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_record_has_the_layout_of_perf() {
        let entry =
            BuildIdEntry { path: b"/bin/xz".to_vec(), build_id: vec![7; 16], kernel: false };
        let record = build_id_record(&entry);
        assert_eq!(record.len(), 44);
        assert_eq!(u16::from_ne_bytes([record[4], record[5]]), 2 | 1 << 15);
        assert_eq!((record[12], record[27], record[28], record[32]), (7, 7, 0, 16));
        assert_eq!(&record[36..44], b"/bin/xz\0");
    }

    #[test]
    fn a_feature_in_the_stream_is_a_record_of_whole_words() {
        let record = Compression { level: 3, ratio: 1, largest: 1 << 19 }.record();
        let words: Vec<u32> =
            record.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [80, 40 << 16, 27, 0, 0, 1, 3, 1, 1 << 19, 0]);
    }

    #[test]
    fn sections_come_in_the_order_of_their_bits() {
        let features = Features {
            info: Some(vec![1]),
            arch: Some("x".into()),
            hostname: Some("h".into()),
            ..Features::default()
        };
        let bits: Vec<u32> = features.sections(&[]).iter().map(|(bit, _)| *bit).collect();
        assert_eq!(bits, [3, 6, 12, 200]);
    }
}
