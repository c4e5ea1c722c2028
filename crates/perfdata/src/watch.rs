//! Metadata of a recording of watchpoints: what was watched, what each hit carries, and the total number
//! of hits, recorded or not.
//!
//! **Hits.** Each [`WatchPoint`] is one event of the file, of type breakpoint. A hit is a sample with the
//! fields `IDENTIFIER|IP|TID|TIME|ADDR|CPU|PERIOD|CALLCHAIN|RAW`. Its period is the number of hits that
//! it stands for: 1, or N if only every Nth was recorded. RAW is a [`Hit`]:
//!
//! ```text
//!  u32 bytes │ u32 flags │ u64 value │ u64 old │ u64 sequence      in the byte order of the file
//! ```
//!
//! **Values** are what the kernel read at the hit, as many bytes as the watchpoint is long, zero-extended.
//! On x86 a data breakpoint traps after the access: it is the new value ([`HitFlags::AFTER`]), or what
//! another thread has written since. On arm64 it traps before: it is the old one. `old` is the value of the
//! last hit of this watchpoint in this process, recorded or not.
//!
//! **Counts** are kept in the kernel for each writer ([`WriterCount`]): all hits while watchpoints
//! were enabled, including those that a filter, a limit or a full ring buffer kept out of the file.
//!
//! **Enabled time.** Under a slowdown limit watchpoints are enabled for a part of the time only:
//! [`ArmedBlock`]s give, for blocks of time, the enabled time and the number of hits.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// How a recording was watched. Fields are added, never changed in meaning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchInfo {
    /// What was watched, in the order it was asked for.
    pub targets: Vec<WatchTarget>,
    /// One per slot: a long target has several.
    pub points: Vec<WatchPoint>,
    /// How values and counts were had.
    pub means: Means,
    /// Exact counts by writer, those most hit first; empty in the copies in the stream.
    pub writers: Vec<WriterCount>,
    /// Hits of writers that the kernel's table had no room for, by point.
    #[serde(rename = "untold")]
    pub unattributed: Vec<u64>,
    /// Only one of this many hits was recorded at the highest hit rate; 1: all. Each record has the number that
    /// it stands for.
    pub every: u64,
    /// Hits that were wanted (all, or those that [`WatchInfo::when`] let pass), by point; empty where not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<u64>,
    /// Hits that were to be written down and found the ring full, by point.
    pub lost: Vec<u64>,
    /// The limit of slowdown, if one was asked for, 0.1 is 10 %.
    pub most_slowdown: Option<f64>,
    /// Time of hits over the target's other CPU time, by what a hit costs; see [`WatchInfo::hit_cost`].
    pub slowdown: Option<f64>,
    /// Nanoseconds that a hit takes, measured before the start on a loop of pmuscope's own with the
    /// same BPF program.
    pub hit_cost: Option<HitCost>,
    /// CPU time of the target while it was watched, nanoseconds; `None` where not known.
    pub target_cpu_ns: Option<u64>,
    /// When watchpoints were enabled, in order of time.
    pub blocks: Vec<ArmedBlock>,
    /// The condition that decided, in the kernel, what was written down (`--when`), as typed.
    pub when: Option<String>,
    /// Only hits that changed the value were written down.
    pub when_changed: bool,
    /// Nothing was to be written down.
    pub count_only: bool,
    /// Bytes of a cache line of the machine; `None` where not known.
    pub cache_line: Option<u32>,
}

/// What one watches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchTarget {
    /// As typed.
    pub name: String,
    /// Type as the debug information names it; empty where not known.
    pub type_name: String,
    /// What its bytes mean.
    pub value: ValueKind,
    /// Names of values, for an enumeration.
    pub names: Vec<(i64, String)>,
    /// Where it is declared: file and line.
    pub declared: Option<(String, u32)>,
    /// Address of the first byte in the process.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What accesses are watched.
    pub access: Access,
    /// It is the kernel's.
    pub in_kernel: bool,
    /// What a reader should know: pointers that were followed, what the hardware does instead.
    pub notes: Vec<String>,
    /// A word of a cache line that no type describes: threads may use different bytes of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_untyped: bool,
}

/// What a slot of the hardware watches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchPoint {
    /// Position of its event among the file's.
    pub event: u32,
    /// Position among [`WatchInfo::targets`].
    pub target: u32,
    /// First byte.
    pub address: u64,
    /// 1, 2, 4 or 8; of an instruction what the architecture asks for.
    pub bytes: u8,
}

/// What stops a thread.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Loads. Not on x86, where the hardware watches these only together with stores.
    Read,
    /// Stores.
    #[default]
    Write,
    /// Both: a hit does not show which.
    ReadWrite,
    /// An instruction is executed.
    Execute,
}

impl Access {
    /// As users write it: `r`, `w`, `rw`, `x`.
    #[must_use]
    pub fn letters(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
            Self::Execute => "x",
        }
    }

    /// The reverse of [`Access::letters`]; `wr` too.
    #[must_use]
    pub fn of_letters(letters: &str) -> Option<Self> {
        match letters {
            "r" => Some(Self::Read),
            "w" => Some(Self::Write),
            "rw" | "wr" => Some(Self::ReadWrite),
            "x" => Some(Self::Execute),
            _ => None,
        }
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.letters())
    }
}

/// What bytes mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A number without sign.
    #[default]
    Unsigned,
    /// A number with one, in two's complement.
    Signed,
    /// IEEE 754, of 4 or 8 bytes.
    Float,
    /// 0 is false.
    Bool,
    /// A character.
    Char,
    /// An address.
    Pointer,
    /// A number with names: [`WatchTarget::names`].
    Enumeration,
    /// Something of several members, or of no known type.
    Other,
}

/// How hits were observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// A BPF program at the hit: the value is that of the hit.
    #[default]
    Bpf,
    /// Samples of the kernel; no value is known of the moment of the hit.
    Samples,
}

/// Who hit a point, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterCount {
    /// Position among [`WatchInfo::points`].
    pub point: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The address of the instruction as in the samples: on x86 the one after the access.
    pub ip: u64,
    /// In the kernel (`ip` is an address of its).
    pub in_kernel: bool,
    /// Hits.
    pub hits: u64,
    /// Hits that found another value than the hit before.
    pub changed: u64,
    /// Hits with a value one more than that of the previous hit.
    pub plus_one: u64,
    /// Hits that [`WatchInfo::when`] let pass.
    pub passed: u64,
}

/// What a hit costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HitCost {
    /// Mean, nanoseconds.
    pub ns: f64,
    /// Half the 95 % interval, nanoseconds.
    pub margin_ns: Option<f64>,
    /// Measurements.
    pub n: u32,
}

/// A stretch of time with points on and off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArmedBlock {
    /// Start, nanoseconds on the clock of the time stamps. Blocks of different watchpoints may overlap:
    /// their ends give the position in time, the enabled time within gives the duration.
    pub from_ns: u64,
    /// First moment after it.
    pub until_ns: u64,
    /// Nanoseconds within it that watchpoints were enabled.
    pub armed_ns: u64,
    /// Hits within, by point.
    pub hits: Vec<u64>,
    /// CPU time of the target within, nanoseconds; `None` where that was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The part of it in which watchpoints were enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub armed_cpu_ns: Option<u64>,
    /// Positions of the points that had their turn, where not all fit; empty: all.
    pub points: Vec<u32>,
}

bitflags! {
    /// What is known of a hit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct HitFlags: u32 {
        /// [`Hit::value`] was read.
        const VALUE = 1 << 0;
        /// [`Hit::old`] is known.
        const OLD = 1 << 1;
        /// The value was read after the access; else before.
        const AFTER = 1 << 2;
        /// What a newer version adds.
        const _ = !0;
    }
}

/// What a hit found: RAW of its sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hit {
    /// What is known.
    pub flags: HitFlags,
    /// The value, zero-extended.
    pub value: u64,
    /// The value of the hit before of this point in this process.
    pub old: u64,
    /// Number of the hit among all of this point in this process, from 1.
    pub sequence: u64,
}

impl Hit {
    /// Bytes of RAW, without the word with their number. With it they are a multiple of 8.
    pub const BYTES: usize = 28;

    /// What RAW holds, in this machine's byte order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.flags.bits().to_ne_bytes());
        for (index, word) in [self.value, self.old, self.sequence].into_iter().enumerate() {
            bytes[4 + 8 * index..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Reads RAW; `None` if it is shorter than a hit. `swapped`: the file has the other byte order.
    #[must_use]
    pub fn read(raw: &[u8], swapped: bool) -> Option<Self> {
        let flags = u32::from_ne_bytes(*raw.first_chunk()?);
        let word = |at: usize| {
            let word = u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?);
            Some(if swapped { word.swap_bytes() } else { word })
        };
        let flags = if swapped { flags.swap_bytes() } else { flags };
        Some(Self {
            flags: HitFlags::from_bits_retain(flags),
            value: word(4)?,
            old: word(12)?,
            sequence: word(20)?,
        })
    }
}

impl WatchInfo {
    /// Share of the time in which watchpoints were enabled, 0 to 1; `None` if unknown.
    #[must_use]
    pub fn armed_share(&self) -> Option<f64> {
        let (first, last) = self.span()?;
        let armed: u64 = self.blocks.iter().map(|block| block.armed_ns).sum();
        (last > first).then(|| (armed as f64 / (last - first) as f64).min(1.0))
    }

    /// Start of all blocks and the first nanosecond after them; blocks of watchpoints that alternate may
    /// overlap.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        let first = self.blocks.iter().map(|block| block.from_ns).min()?;
        Some((first, self.blocks.iter().map(|block| block.until_ns).max()?.max(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_read_as_it_was_written_in_either_byte_order() {
        let hit = Hit {
            flags: HitFlags::VALUE | HitFlags::AFTER,
            value: 0x1122,
            old: u64::MAX,
            sequence: 7,
        };
        let bytes = hit.to_bytes();
        assert_eq!(Hit::read(&bytes, false), Some(hit));
        let mut other = bytes;
        other[..4].reverse();
        (0..3).for_each(|word| other[4 + 8 * word..][..8].reverse());
        assert_eq!(Hit::read(&other, true), Some(hit));
        assert_eq!(Hit::read(&bytes[..27], false), None);
    }

    #[test]
    fn the_share_armed_is_that_of_all_blocks() {
        let block = |from_ns, until_ns, armed_ns| ArmedBlock {
            from_ns,
            until_ns,
            armed_ns,
            ..ArmedBlock::default()
        };
        let mut info = WatchInfo::default();
        assert_eq!(info.armed_share(), None);
        info.blocks = vec![block(0, 100, 10), block(100, 400, 90)];
        assert_eq!(info.armed_share(), Some(0.25));
    }

    #[test]
    fn what_a_newer_version_adds_does_not_hide_the_rest() {
        let json = r#"{"every":3,"moon":1,"targets":[{"name":"x","access":"write"}]}"#;
        let info: WatchInfo = serde_json::from_str(json).unwrap();
        assert_eq!((info.every, info.targets[0].name.as_str()), (3, "x"));
    }
}
