//! pmuscope's own metadata in a recording: overhead, loss, and how it was streamed.
//!
//! Kept as JSON in feature section [`FEATURE_INFO`] of a finished file, and, while recording, in
//! records of type 65 (a deprecated type that readers skip), so that a recording that was cut off
//! still has what was known by then.
//!
//! ```text
//!  record 65:  header(8) │ "PMUSCOPE"(8) │ u32 payload kind │ u32 payload bytes │ payload │ pad to 8
//! ```

use pmuscope_abi::record::{HEADER_SIZE, RecordBuilder, kind};
use serde::{Deserialize, Serialize};

use crate::strobe::{EpochUpdate, PAYLOAD_EPOCHS, StrobeInfo};
use crate::watch::WatchInfo;

/// Feature bit of the metadata section: above all bits perf knows, silently passed over by it.
pub const FEATURE_INFO: u32 = 200;
/// First bytes of the body of our in-stream records.
pub const MAGIC: &[u8; 8] = b"PMUSCOPE";
/// Payload kind of a [`RecordingInfo`] as JSON.
pub const PAYLOAD_INFO: u32 = 1;
/// Value of [`RecordingInfo::schema`].
pub const SCHEMA: &str = "pmuscope/recording/1";

/// The metadata of a recording. Fields are added, never changed in meaning; a field that is absent
/// was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingInfo {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name and version of the program that recorded.
    pub tool: String,
    /// The recording was closed in order; false in the in-stream copies.
    pub complete: bool,
    /// Why it ended, as a sentence fragment ("the command ended", "interrupted", "disk full: …").
    pub ended_by: Option<String>,
    /// Command line of the recorder.
    pub command: Vec<String>,
    /// Where writing failed: samples that were taken until then and are not in the file. All after them are
    /// missing too.
    pub unwritten: Option<u64>,
    /// What was observed, in words ("system-wide", "process 4711", "command xz").
    pub scope: String,
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The clock of the time stamps at the same moment, nanoseconds.
    pub started_clock_ns: u64,
    /// Seconds between enabling and disabling the events.
    pub duration_s: f64,
    /// The machine.
    pub machine: MachineInfo,
    /// One entry per event, in the order of the attributes.
    pub events: Vec<EventInfo>,
    /// One entry per ring.
    pub rings: Vec<RingInfo>,
    /// The source of the loss counts.
    pub lost_source: LostSource,
    /// The overhead of the recording.
    pub cost: Cost,
    /// The budget, if one was set.
    pub budget: Option<BudgetInfo>,
    /// How rings were read and written.
    pub streaming: Streaming,
    /// How it was strobed, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strobe: Option<StrobeInfo>,
    /// What was watched, for a recording of watchpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchInfo>,
    /// Copies of files without build ID that were not at their paths any more when the recording ended, and of
    /// descriptions of generated code in containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_files: Vec<KeptFile>,
    /// Sentences a reader of the result should see (reduced features, fallbacks).
    pub notices: Vec<String>,
}

/// The copy of a file without build ID, or of a description of generated code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptFile {
    /// Path as recorded. Foreign text.
    pub path: String,
    /// Major number of its device, as recorded.
    pub major: u32,
    /// Minor number of its device.
    pub minor: u32,
    /// Inode number, as recorded.
    pub inode: u64,
    /// Name of the copy in the folder of copies, without suffix.
    pub copy: String,
    /// Process whose code a perf map or jitdump describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// The machine of the recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineInfo {
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine name as uname(1) has it.
    pub arch: String,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Online CPUs.
    pub cpus: u32,
    /// NUMA nodes with CPUs or memory.
    pub nodes: u32,
    /// Random id of this boot: kernel addresses compare only within one.
    pub boot_id: Option<String>,
    /// The emulator, if the machine was emulated: times, rates and overhead are then the
    /// emulator's.
    pub emulator: Option<String>,
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventInfo {
    /// Name as requested.
    pub name: String,
    /// What counts: "hardware", "software clock", "software", "tracepoint", "breakpoint", "pmu".
    pub origin: String,
    /// Fixed period in units of the event, if it is fixed.
    pub period: Option<u64>,
    /// Requested frequency in Hz, if any.
    pub frequency: Option<u64>,
    /// Samples written.
    pub samples: u64,
    /// What the kernel counted meanwhile, in units of the event (a clock: nanoseconds).
    pub counted: Option<u64>,
    /// Records of this event lost because the ring buffer was full; see
    /// [`RecordingInfo::lost_source`].
    pub lost: Option<u64>,
    /// Times the kernel suspended sampling.
    pub throttled: u64,
    /// Share of the enabled time in which the event was on a counter, 0 to 1.
    pub running_share: Option<f64>,
}

/// Counts that no sample stands for; see [`EventInfo::unsampled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsampledCount {
    /// Whole periods that the kernel counted: samples that are due.
    pub due: u64,
    /// Samples, including lost ones.
    pub sampled: u64,
    /// Sample period, units of the event (a clock: nanoseconds).
    pub period: u64,
}

impl UnsampledCount {
    /// Part of the counts without samples, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        1.0 - self.sampled as f64 / self.due as f64
    }

    /// Seconds of a clock: counted by the kernel, and represented by samples.
    #[must_use]
    pub fn seconds(&self) -> (f64, f64) {
        let seconds = |periods: u64| periods as f64 * self.period as f64 / 1e9;
        (seconds(self.due), seconds(self.sampled))
    }
}

impl EventInfo {
    /// Whether it is a software timer.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        self.origin == "software clock"
    }

    /// How much an event of a fixed period counted without samples, if that is more than the unfinished periods of its
    /// descriptors explain: of a software timer, and of a hardware counter. The kernel counts independently of the
    /// timer, or the interrupt of an overflow, that samples, so the samples must stand for what was counted.
    #[must_use]
    pub fn unsampled(&self) -> Option<UnsampledCount> {
        const MUCH: f64 = 0.02;
        const FEW: u64 = 20;
        let samples_itself = self.is_clock() || ["hardware", "pmu"].contains(&&*self.origin);
        let period = self.period.filter(|&period| samples_itself && period > 0)?;
        let due = self.counted? / period;
        let sampled = self.samples.saturating_add(self.lost.unwrap_or(0));
        let absent = due.saturating_sub(sampled);
        (absent >= FEW && absent as f64 >= MUCH * due as f64).then_some(UnsampledCount {
            due,
            sampled,
            period,
        })
    }
}

/// One ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingInfo {
    /// The CPU that its samples are from.
    pub cpu: Option<u32>,
    /// The thread that its samples are from (per-thread mode).
    pub tid: Option<u32>,
    /// The node of that CPU.
    pub node: Option<u32>,
    /// Bytes of its data area.
    pub size: u64,
    /// Bytes read from it.
    pub bytes: u64,
    /// Samples read from it.
    pub samples: u64,
    /// Records lost in it.
    pub lost: Option<u64>,
    /// Most bytes that waited in it at a drain.
    pub high_water: u64,
    /// Times it was drained with something in it.
    pub drains: u64,
}

/// The source of loss counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostSource {
    /// Not known.
    #[default]
    Unknown,
    /// `PERF_FORMAT_LOST` of each descriptor: exact (Linux 6.0).
    ReadFormat,
    /// LOST records in the stream: loss at the very end goes unnoticed, and none is attributed to an
    /// event.
    Records,
}

/// The overhead of a recording, in seconds of CPU time of the recorder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// User seconds, everything.
    pub user_s: f64,
    /// System seconds, everything.
    pub system_s: f64,
    /// User and system seconds until the events were enabled (opening, mapping, naming processes).
    pub startup_s: f64,
    /// User and system seconds after the events were disabled (last drain, tables).
    pub close_s: f64,
    /// One entry per reader.
    pub readers: Vec<ReaderCost>,
    /// Bytes of the file's data section.
    pub bytes: u64,
    /// Bytes read from the rings.
    pub ring_bytes: u64,
    /// CPU seconds between enabling and disabling, per CPU second of the machine, 0 to 1.
    pub machine_share: Option<f64>,
    /// CPU microseconds between enabling and disabling, per sample.
    pub us_per_sample: Option<f64>,
    /// Bytes of the data section per sample.
    pub bytes_per_sample: Option<f64>,
    /// Microseconds that a sample costs in the kernel, in the sampled program; measured on request.
    pub sampling_us: Option<f64>,
    /// 95 % interval of that.
    pub sampling_us_interval: Option<(f64, f64)>,
    /// Pairs of loops it was measured with.
    pub sampling_pairs: Option<u64>,
}

/// A limit of the overhead of recording, and the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetInfo {
    /// Share of the machine that recording may cost, 0 to 1.
    pub target_share: f64,
    /// Share it did cost: the recorder's CPU time and the samples' cost in the kernel.
    pub achieved_share: Option<f64>,
    /// Periods were this many times what was asked for at the start …
    pub first_factor: f64,
    /// … and at the end.
    pub last_factor: f64,
    /// Periods were adapted while recording (inherited events: only at the start).
    pub adapted_while_running: bool,
}

/// The overhead of one reader.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReaderCost {
    /// CPUs of the ring buffers that it read, as a list ("0-3,8").
    pub rings: String,
    /// User seconds.
    pub user_s: f64,
    /// System seconds.
    pub system_s: f64,
    /// Times it was woken.
    pub wakeups: u64,
    /// Times it asked to be moved to another CPU or node.
    pub moves: u64,
    /// Drains that ran on a CPU of the ring's node, and all drains.
    pub drains_on_node: u64,
    /// Drains with something to read.
    pub drains: u64,
}

/// How rings were read and written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Streaming {
    /// The requested readers ("serial", "node", …).
    pub readers: String,
    /// The requested affinity ("sys", "node", "cpu", "auto").
    pub affinity: String,
    /// How asynchronous writes were made ("io_uring", "writer thread"); absent: synchronous.
    pub aio: Option<String>,
    /// Level of zstd compression; absent: none.
    pub compression: Option<i32>,
}

impl RecordingInfo {
    /// Samples of all events.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).fold(0, u64::saturating_add)
    }

    /// Whether CPUs were observed, whatever ran there: the whole machine, or some by number.
    #[must_use]
    pub fn is_of_cpus(&self) -> bool {
        self.scope == "system-wide" || self.scope.starts_with("CPU")
    }

    /// Records lost, all rings; `None` if no ring knows.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        // The file is from anywhere: a sum need not be a number.
        self.rings.iter().try_fold(0, |sum: u64, ring| Some(sum.saturating_add(ring.lost?)))
    }

    /// Appends the in-stream copy to `out`. A copy that is too large (thousands of ring buffers) is
    /// written without its buffers; the events have their sums.
    pub fn append_record(&self, out: &mut Vec<u8>) {
        let mut json = self.to_json();
        if json.len() > ROOM {
            json = Self { rings: Vec::new(), ..self.clone() }.to_json();
        }
        // Hundreds of events do not fit: the copy at close has no such limit.
        append_payload(out, PAYLOAD_INFO, &json);
    }

    /// Reads the in-stream copy from a whole record; `None` if it is not pmuscope's or cannot be
    /// parsed.
    #[must_use]
    pub fn from_record(record: &[u8]) -> Option<Self> {
        let body = record.get(HEADER_SIZE..)?.strip_prefix(MAGIC)?;
        let word = |at: usize| Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?));
        if word(0)? != PAYLOAD_INFO {
            return None;
        }
        let bytes = usize::try_from(word(4)?).ok()?;
        Self::from_json(body.get(8..8 + bytes)?)
    }

    /// The payload of the feature section.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and lists of them cannot fail to serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the payload of the feature section.
    #[must_use]
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

impl EpochUpdate {
    /// Appends the record to `out`, in as many pieces as it takes.
    pub fn append_record(&self, out: &mut Vec<u8>) {
        /// Epochs of a burst of many windows are some 500 bytes each.
        const PIECE: usize = 64;
        let epochs = self.epochs.chunks(PIECE);
        let opened = self.opened.chunks(4 * PIECE);
        let pieces = epochs
            .map(|epochs| Self { epochs: epochs.to_vec(), opened: Vec::new() })
            .chain(opened.map(|opened| Self { epochs: Vec::new(), opened: opened.to_vec() }));
        for piece in pieces {
            // Strings, numbers and lists of them cannot fail to serialize.
            append_payload(out, PAYLOAD_EPOCHS, &serde_json::to_vec(&piece).unwrap_or_default());
        }
    }
}

/// Largest payload of a record.
const ROOM: usize = u16::MAX as usize - HEADER_SIZE - 24;

/// Appends a record of ours to `out`; nothing if it would be too large.
fn append_payload(out: &mut Vec<u8>, payload_kind: u32, payload: &[u8]) {
    if payload.len() > ROOM {
        return;
    }
    let pad = payload.len().next_multiple_of(8) - payload.len();
    RecordBuilder::new(out, kind::HEADER_EVENT_TYPE, 0)
        .bytes(MAGIC)
        .u32(payload_kind)
        .u32(payload.len() as u32)
        .bytes(payload)
        .bytes(&[0; 8][..pad])
        .finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(samples: u64, lost: u64, counted: u64) -> EventInfo {
        EventInfo {
            origin: "software clock".into(),
            period: Some(1_000_000),
            samples,
            lost: Some(lost),
            counted: Some(counted),
            ..EventInfo::default()
        }
    }

    #[test]
    fn time_of_a_clock_without_samples_is_told() {
        let told = clock(700, 100, 1_000_900_000).unsampled().unwrap();
        assert_eq!(told.seconds(), (1.0, 0.8));
        assert!((told.share() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn counts_of_hardware_without_samples_are_reported() {
        for origin in ["hardware", "pmu"] {
            let event = EventInfo { origin: origin.into(), ..clock(113, 0, 216_500_000) };
            let found = event.unsampled().unwrap();
            assert_eq!((found.due, found.sampled), (216, 113), "{origin}");
            let whole = EventInfo { samples: 215, ..event };
            assert_eq!(whole.unsampled(), None);
        }
    }

    #[test]
    fn what_is_lost_or_unfinished_is_not_told_again() {
        assert_eq!(clock(900, 100, 1_000_900_000).unsampled(), None);
        assert_eq!(clock(985, 0, 1_000_900_000).unsampled(), None);
        assert_eq!(clock(0, 0, 19_000_000).unsampled(), None, "too few to tell");
    }

    #[test]
    fn only_what_samples_by_itself_with_a_period_is_compared() {
        let page_faults = EventInfo { origin: "software".into(), ..clock(0, 0, 1_000_900_000) };
        assert_eq!(page_faults.unsampled(), None);
        let no_period = EventInfo { period: None, ..clock(0, 0, 1_000_900_000) };
        assert_eq!(no_period.unsampled(), None);
    }
    use pmuscope_abi::record::Records;

    fn example(rings: usize) -> RecordingInfo {
        RecordingInfo {
            schema: SCHEMA.into(),
            events: vec![EventInfo { samples: 41, ..EventInfo::default() }],
            rings: (0..rings).map(|_| RingInfo { lost: Some(1), ..RingInfo::default() }).collect(),
            ..RecordingInfo::default()
        }
    }

    #[test]
    fn the_in_stream_copy_comes_back() {
        let mut out = Vec::new();
        example(3).append_record(&mut out);
        let (header, record) = Records::new(&out).next().unwrap();
        assert_eq!((header.kind, out.len() % 8), (65, 0));
        assert_eq!(RecordingInfo::from_record(record), Some(example(3)));
    }

    #[test]
    fn a_copy_of_a_huge_machine_drops_its_rings_not_itself() {
        let mut out = Vec::new();
        example(4096).append_record(&mut out);
        let copy = RecordingInfo::from_record(&out).unwrap();
        assert_eq!((copy.rings.len(), copy.samples()), (0, 41));
    }

    #[test]
    fn loss_is_unknown_as_soon_as_one_ring_does_not_know() {
        let mut info = example(2);
        assert_eq!(info.lost(), Some(2));
        info.rings[1].lost = None;
        assert_eq!(info.lost(), None);
    }

    #[test]
    fn a_foreign_or_cut_record_is_none() {
        assert_eq!(RecordingInfo::from_record(&[65, 0, 0, 0, 0, 0, 16, 0, 1, 2]), None);
        let mut out = Vec::new();
        example(1).append_record(&mut out);
        assert_eq!(RecordingInfo::from_record(&out[..40]), None);
    }
}
