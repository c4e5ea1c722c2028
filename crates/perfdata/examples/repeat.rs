//! Repeats a recording in one file with later times: a large recording with known counts.
//!
//! ```text
//! cargo run --release -p pmuscope-perfdata --example repeat -- IN TIMES OUT
//!
//!  IN    │ front │ data: t0 … t1 │ features │
//!  OUT   │ front │ t0 … t1 │ t0+s … t1+s │ t0+2s … │ … │ features │      s = t1 - t0 + 1 ms
//! ```
//! Everything is repeated, names and mappings too, so counts are exactly TIMES those of IN, and shares are the same. Takes
//! plain files of this machine's byte order, all events of which have times in the same place; compressed ones, and those with
//! AUX data, are refused.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use pmuscope_abi::SampleType;
use pmuscope_abi::record::{HEADER_SIZE, kind};

/// Bytes of the file's header: magic, sizes, three sections, 256 bits of features (`perf_file_header`).
const FILE_HEADER: usize = 104;
const ATTR_SECTION: usize = 24;
const DATA_SECTION: usize = 40;
const TYPES_SECTION: usize = 56;
const FLAGS: usize = 72;
/// Bytes of a section in the header or in the table of features: offset and size.
const SECTION: usize = 16;
/// Where `perf_event_attr` has `sample_type`.
const SAMPLE_TYPE: usize = 24;
/// Fields of a sample before its time.
const BEFORE: SampleType = SampleType::IDENTIFIER.union(SampleType::IP).union(SampleType::TID);
/// Fields of other records after their time.
const AFTER: SampleType = SampleType::ID
    .union(SampleType::STREAM_ID)
    .union(SampleType::CPU)
    .union(SampleType::IDENTIFIER);
/// The first type of records that the kernel does not write: they have no times.
const FIRST_OF_TOOLS: u32 = 64;
/// From the end of one repetition to the start of the next, nanoseconds.
const GAP: u64 = 1_000_000;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, times, output] = &arguments[..] else {
        return Err("usage: repeat IN TIMES OUT".into());
    };
    let times: u64 = times.parse().map_err(|_| format!("{times} is no number of times"))?;
    if times == 0 {
        return Err("TIMES is 1 or more".into());
    }
    let bytes = std::fs::read(input).map_err(|error| format!("{input}: {error}"))?;
    let file = Recording::new(&bytes).map_err(|error| format!("{input}: {error}"))?;
    let create = |path: &str| File::create(path).map_err(|error| format!("{path}: {error}"));
    let mut out = BufWriter::with_capacity(1 << 20, create(output)?);
    file.repeat(times, &mut out)?;
    out.flush()?;
    Ok(())
}

/// A file, and where times are in its records.
struct Recording<'a> {
    bytes: &'a [u8],
    data: std::ops::Range<usize>,
    /// Each event: its attributes, and behind them where its ids are.
    attrs: Vec<std::ops::Range<usize>>,
    layout: Layout,
}

/// Where records have their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// From the start of a sample.
    in_sample: usize,
    /// From the end of any other record of the kernel.
    from_end: usize,
}

impl Layout {
    fn of(sample_type: u64) -> Result<Self, Failure> {
        let sample_type = SampleType::from_bits_retain(sample_type);
        if !sample_type.contains(SampleType::TIME) {
            return Err("samples have no times".into());
        }
        let fields = |which: SampleType| 8 * (sample_type & which).bits().count_ones() as usize;
        Ok(Self { in_sample: HEADER_SIZE + fields(BEFORE), from_end: 8 + fields(AFTER) })
    }
}

impl<'a> Recording<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Failure> {
        if bytes.get(..8) != Some(b"PERFILE2") || bytes.len() < FILE_HEADER {
            return Err("no perf.data file of this byte order".into());
        }
        let (start, size) = section(bytes, DATA_SECTION)?;
        let data = start..start + size;
        if data.end > bytes.len() {
            return Err("ends within its records: it was not closed".into());
        }
        let (start, size) = section(bytes, ATTR_SECTION)?;
        let stride = (number(bytes, 16)? as usize).max(SECTION);
        let attrs: Vec<_> =
            (start..start + size).step_by(stride).map(|at| at..at + stride).collect();
        let layout =
            |attr: &std::ops::Range<usize>| Layout::of(number(bytes, attr.start + SAMPLE_TYPE)?);
        let layouts = attrs.iter().map(layout).collect::<Result<Vec<_>, _>>()?;
        let layout = *layouts.first().ok_or("has no events")?;
        if layouts.iter().any(|&other| other != layout) {
            return Err("events have their times in different places".into());
        }
        Ok(Self { bytes, data, attrs, layout })
    }

    fn repeat(&self, times: u64, out: &mut impl Write) -> Result<(), Failure> {
        let mut data = self.bytes[self.data.clone()].to_vec();
        let places = self.places(&data)?;
        let moments = || places.iter().filter_map(|&at| number(&data, at).ok());
        let (first, last) =
            (moments().min().ok_or("has no records")?, moments().max().unwrap_or(0));
        let added = (times - 1) * data.len() as u64;
        let mut around = self.bytes.to_vec();
        put(&mut around, DATA_SECTION + 8, data.len() as u64 * times);
        // Another table of the same ids, for readers of files that were never closed.
        put(&mut around, TYPES_SECTION, 0);
        put(&mut around, TYPES_SECTION + 8, 0);
        for at in self.sections() {
            let offset = number(&around, at)?;
            if offset >= self.data.end as u64 {
                put(&mut around, at, offset + added);
            }
        }
        out.write_all(&around[..self.data.start])?;
        for time in 0..times {
            out.write_all(&data)?;
            if time + 1 < times {
                for &at in &places {
                    let moment = number(&data, at)? + (last - first) + GAP;
                    put(&mut data, at, moment);
                }
            }
        }
        Ok(out.write_all(&around[self.data.end..])?)
    }

    /// Positions of offsets that may point after the data.
    fn sections(&self) -> impl Iterator<Item = usize> {
        let features =
            self.bytes[FLAGS..FILE_HEADER].iter().map(|byte| byte.count_ones()).sum::<u32>();
        let features = (0..features as usize).map(|feature| self.data.end + feature * SECTION);
        let ids = self.attrs.iter().map(|attr| attr.end - SECTION);
        std::iter::once(ATTR_SECTION).chain(ids).chain(features)
    }

    /// Where `data` has times other than 0, which stands for what happened before the recording.
    fn places(&self, data: &[u8]) -> Result<Vec<usize>, Failure> {
        let (mut places, mut at) = (Vec::new(), 0);
        while at < data.len() {
            let header = number(data, at)?;
            let (kind, size) = (header as u32, (header >> 48) as usize);
            if matches!(kind, kind::COMPRESSED | kind::AUX) {
                return Err("is compressed, or has AUX data".into());
            }
            if size < HEADER_SIZE || at + size > data.len() {
                return Err(format!("damaged at byte {at} of its records").into());
            }
            let mut place = |place: usize| -> Result<(), Failure> {
                places.extend((number(data, place)? != 0).then_some(place));
                Ok(())
            };
            match kind {
                kind::SAMPLE => place(at + self.layout.in_sample)?,
                FIRST_OF_TOOLS.. => {}
                _ => {
                    place(at + size - self.layout.from_end)?;
                    // Both have a time among their own fields, too: FORK and EXIT after four numbers.
                    match kind {
                        kind::FORK | kind::EXIT => place(at + HEADER_SIZE + 16)?,
                        kind::THROTTLE | kind::UNTHROTTLE => place(at + HEADER_SIZE)?,
                        _ => {}
                    }
                }
            }
            at += size;
        }
        Ok(places)
    }
}

fn section(bytes: &[u8], at: usize) -> Result<(usize, usize), Failure> {
    Ok((number(bytes, at)? as usize, number(bytes, at + 8)? as usize))
}

fn number(bytes: &[u8], at: usize) -> Result<u64, Failure> {
    let part = bytes.get(at..at + 8).ok_or("ends too early")?;
    Ok(u64::from_ne_bytes(part.try_into()?))
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
}
