//! Metadata of the machine and the recording, from feature sections.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pmuscope_abi::event_type;

use crate::clock_data::ClockData;
use crate::info::{FEATURE_INFO, RecordingInfo};
use crate::memory_nodes::MemoryNodes;

use super::bytes::{Endian, Fields, until_zero};
use super::error::ReadError;
use super::header::{FileLayout, ids_from, read_section};
use super::simpleperf::{self, FileSymbols, TypeName};
use super::tracing::{self, Tracepoint};

mod bit {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const OSRELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCH: u32 = 6;
    pub(super) const NRCPUS: u32 = 7;
    pub(super) const CPUDESC: u32 = 8;
    pub(super) const CMDLINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const NUMA_TOPOLOGY: u32 = 14;
    pub(super) const MEM_TOPOLOGY: u32 = 22;
    pub(super) const CLOCK_DATA: u32 = 29;
}

/// A feature larger than this is not read: the largest real one, the build ids of a machine with
/// 100,000 files, is some 10 MB.
const LARGEST_FEATURE: u64 = 64 << 20;
/// Build ids of a file start with these bytes of kind and flags before the path.
const BUILD_ID_FRONT: usize = 8 + 4 + 24;
/// `misc` bit of a build id whose length is stored.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// The machine and the recording as the file describes them; what it does not say is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub os_release: Option<String>,
    /// Version of the recorder.
    pub version: Option<String>,
    /// Machine name as uname(1) has it.
    pub arch: Option<String>,
    /// CPUs that were online.
    pub cpus: Option<u32>,
    /// NUMA nodes.
    pub nodes: Option<u32>,
    /// CPUs of each NUMA node, as `0-3,8`. Foreign text.
    pub node_cpus: Vec<(u32, String)>,
    /// Nodes of physical memory.
    pub memory_nodes: MemoryNodes,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Command line of the recorder; empty where only its first word was kept, as perf 6.19 and later do.
    pub command: Vec<String>,
    /// Build ids of files that were hit.
    pub build_ids: Vec<FileBuildId>,
    /// pmuscope's own metadata: of the whole recording, or the last copy in the stream.
    pub info: Option<RecordingInfo>,
    /// Formats of tracepoints, where events are such.
    pub tracepoints: Arc<[Tracepoint]>,
    /// The clock of time stamps, at one moment.
    pub clock: Option<ClockData>,
    /// Symbols of files that the recorder kept in the recording.
    pub symbols: Arc<Vec<FileSymbols>>,
    /// End of the recording, wall-clock time: from pmuscope's metadata, else the file's modification time; `None` for a
    /// stream.
    pub recorded_until: Option<SystemTime>,
}

/// Build id of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBuildId {
    /// Whether it is the kernel or one of its modules.
    pub kernel: bool,
    /// Path, or a name in brackets.
    pub path: Vec<u8>,
    /// The id: 1 to 20 bytes.
    pub id: Vec<u8>,
}

/// A name and the ids it belongs to, from the EVENT_DESC feature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedIds {
    pub(super) name: String,
    pub(super) ids: Vec<u64>,
}

/// Names of events, by ids and by what they count.
#[derive(Debug, Default)]
pub(super) struct EventNames {
    pub(super) by_id: Vec<NamedIds>,
    pub(super) by_type: Vec<TypeName>,
}

/// Reads the features of `file`; the second value are names of the events.
pub(super) fn read(
    file: &File,
    path: &Path,
    layout: &FileLayout,
    endian: Endian,
) -> Result<(Metadata, EventNames), ReadError> {
    let mut metadata = Metadata::default();
    let mut names = EventNames::default();
    let traces = layout.events.iter().any(|one| one.attr.event_type == event_type::TRACEPOINT);
    for &(bit, section) in &layout.features {
        let wanted = wanted(bit) || bit == bit::TRACING_DATA && traces;
        if !wanted || section.size > LARGEST_FEATURE {
            continue;
        }
        let bytes = read_section(file, section).map_err(|source| ReadError::Io {
            path: path.to_path_buf(),
            what: "read",
            source,
        })?;
        names.by_id.extend(metadata.take_feature(bit, &bytes, endian));
        if bit == simpleperf::FACTS {
            names.by_type = simpleperf::event_names(&bytes);
        }
    }
    Ok((metadata, names))
}

fn wanted(bit: u32) -> bool {
    matches!(
        bit,
        bit::BUILD_ID
            | bit::HOSTNAME
            | bit::OSRELEASE
            | bit::VERSION
            | bit::ARCH
            | bit::NRCPUS
            | bit::CPUDESC
            | bit::CMDLINE
            | bit::EVENT_DESC
            | bit::NUMA_TOPOLOGY
            | bit::MEM_TOPOLOGY
            | bit::CLOCK_DATA
            | simpleperf::FILES
            | simpleperf::FACTS
            | simpleperf::FILES_2
            | FEATURE_INFO
    )
}

impl Metadata {
    /// The end of the recording in `file`.
    pub(super) fn end_of(&self, file: &File) -> Option<SystemTime> {
        let by_metadata = || {
            let info =
                self.info.as_ref().filter(|info| info.complete && info.started_unix_ns > 0)?;
            let length = Duration::try_from_secs_f64(info.duration_s).ok()?;
            let start = Duration::from_nanos(info.started_unix_ns);
            SystemTime::UNIX_EPOCH.checked_add(start.checked_add(length)?)
        };
        by_metadata().or_else(|| file.metadata().ok()?.modified().ok())
    }

    /// Takes over one feature; names of events are returned.
    pub(super) fn take_feature(&mut self, bit: u32, bytes: &[u8], endian: Endian) -> Vec<NamedIds> {
        let mut fields = Fields::new(bytes, endian);
        match bit {
            bit::BUILD_ID => self.build_ids.extend(build_ids(bytes, endian)),
            bit::HOSTNAME => self.hostname = fields.string(),
            bit::OSRELEASE => self.os_release = fields.string(),
            bit::VERSION => self.version = fields.string(),
            bit::ARCH => self.arch = fields.string(),
            bit::CPUDESC => self.cpu_model = fields.string(),
            bit::NRCPUS => self.cpus = fields.u32().and_then(|_available| fields.u32()),
            bit::NUMA_TOPOLOGY => {
                self.nodes = fields.u32();
                self.node_cpus = std::iter::from_fn(|| node_cpus(&mut fields)).collect();
            }
            bit::MEM_TOPOLOGY => {
                self.memory_nodes = MemoryNodes::read(bytes, endian).unwrap_or_default();
            }
            bit::CLOCK_DATA => self.clock = ClockData::read(fields),
            bit::CMDLINE => {
                fields.u32(); // their number: the bytes decide
                let words: Vec<String> = std::iter::from_fn(|| fields.string()).collect();
                self.command = if words.len() > 1 { words } else { Vec::new() };
            }
            bit::EVENT_DESC => return event_desc(fields),
            bit::TRACING_DATA => self.take_tracing_data(bytes),
            simpleperf::FILES => self.symbols = simpleperf::files(fields).into(),
            simpleperf::FILES_2 => self.symbols = simpleperf::messages(fields).into(),
            FEATURE_INFO => self.info = RecordingInfo::from_json(bytes),
            _ => {}
        }
        Vec::new()
    }

    /// Takes over formats of tracepoints.
    pub(super) fn take_tracing_data(&mut self, bytes: &[u8]) {
        self.tracepoints = tracing::tracepoints(bytes).into();
    }

    /// Takes over the body of a build id record of the stream format.
    pub(super) fn take_build_id(&mut self, misc: u16, body: &[u8]) {
        self.build_ids.extend(build_id(misc, body));
    }
}

/// A node: its number, memory and free memory in kB, its CPUs.
fn node_cpus(fields: &mut Fields<'_>) -> Option<(u32, String)> {
    let node = fields.u32()?;
    fields.u64()?;
    fields.u64()?;
    Some((node, fields.string()?))
}

fn build_ids(bytes: &[u8], endian: Endian) -> Vec<FileBuildId> {
    let mut rest = bytes;
    let mut out = Vec::new();
    loop {
        let mut fields = Fields::new(rest, endian);
        let (Some(_kind), Some(misc), Some(size)) = (fields.u32(), fields.u16(), fields.u16())
        else {
            return out;
        };
        let size = usize::from(size);
        if size < BUILD_ID_FRONT || size > rest.len() {
            return out;
        }
        let (record, behind) = rest.split_at(size);
        out.extend(build_id(misc, &record[8..]));
        rest = behind;
    }
}

fn build_id(misc: u16, body: &[u8]) -> Option<FileBuildId> {
    let id = body.get(4..24)?;
    let length = if misc & MISC_BUILD_ID_SIZE != 0 {
        usize::from(*body.get(24)?).min(id.len())
    } else {
        // Old recorders pad with zeros and do not say how many.
        id.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
    };
    let path = until_zero(body.get(28..)?).to_vec();
    let kernel = matches!(misc & 7, 1 | 4);
    (length > 0).then(|| FileBuildId { kernel, path, id: id[..length].to_vec() })
}

/// `u32 events, u32 attr bytes, { attr, u32 ids, string name, ids… }…`
fn event_desc(mut fields: Fields<'_>) -> Vec<NamedIds> {
    let one = |fields: &mut Fields<'_>, attr_size: usize, endian: Endian| {
        fields.take(attr_size)?;
        let ids = usize::try_from(fields.u32()?).ok()?;
        let name = fields.string()?;
        let ids = ids_from(fields.take(ids.checked_mul(8)?)?, endian);
        Some(NamedIds { name, ids })
    };
    let endian = fields.endian();
    let (Some(_count), Some(attr_size)) = (fields.u32(), fields.u32()) else { return Vec::new() };
    if attr_size == 0 {
        return Vec::new();
    }
    std::iter::from_fn(|| one(&mut fields, attr_size as usize, endian)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_id_record(misc: u16, id: &[u8], length: u8, path: &[u8]) -> Vec<u8> {
        let size = (BUILD_ID_FRONT + path.len() + 1).next_multiple_of(8);
        let mut out = Vec::new();
        out.extend_from_slice(&0_u32.to_le_bytes());
        out.extend_from_slice(&misc.to_le_bytes());
        out.extend_from_slice(&(size as u16).to_le_bytes());
        out.extend_from_slice(&(-1_i32).to_le_bytes());
        out.extend_from_slice(id);
        out.resize(8 + 4 + 20, 0);
        out.extend_from_slice(&[length, 0, 0, 0]);
        out.extend_from_slice(path);
        out.resize(size, 0);
        out
    }

    #[test]
    fn build_ids_of_both_kinds_and_nothing_from_a_cut_record() {
        let mut bytes = build_id_record(2 | MISC_BUILD_ID_SIZE, &[1, 2, 0], 3, b"/bin/a");
        bytes.extend(build_id_record(1, &[7, 8], 0, b"[kernel.kallsyms]"));
        let found = build_ids(&bytes, Endian::Little);
        let id = |kernel, path: &[u8], id: &[u8]| FileBuildId {
            kernel,
            path: path.to_vec(),
            id: id.to_vec(),
        };
        let both = [id(false, b"/bin/a", &[1, 2, 0]), id(true, b"[kernel.kallsyms]", &[7, 8])];
        assert_eq!(found, both);
        assert_eq!(build_ids(&bytes[..bytes.len() - 1], Endian::Little), both[..1]);
        assert_eq!(build_ids(&[0; 64], Endian::Little), []);
    }

    #[test]
    fn counts_that_cannot_be_end_the_list() {
        let mut bytes = Vec::new();
        for word in [u32::MAX, 4, 0, u32::MAX, 2] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(b"x\0");
        assert_eq!(event_desc(Fields::new(&bytes, Endian::Little)), []);
        let mut metadata = Metadata::default();
        let word = |letter| [2, 0, 0, 0, letter, 0];
        let words = [&[255; 4][..], &word(b'a'), &word(b'b')].concat();
        metadata.take_feature(bit::CMDLINE, &words, Endian::Little);
        assert_eq!(metadata.command, ["a", "b"]);
    }

    #[test]
    fn the_name_of_the_recorder_alone_is_no_command_line() {
        let mut metadata = Metadata::default();
        let word = b"\x01\0\0\0\x05\0\0\0perf\0";
        metadata.take_feature(bit::CMDLINE, word, Endian::Little);
        assert!(metadata.command.is_empty(), "{:?}", metadata.command);
    }
}
