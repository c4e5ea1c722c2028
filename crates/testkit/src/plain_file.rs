//! Recordings made byte by byte, as files and as streams, with features and records of any tool.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};

const HEADER: u64 = 104;
/// The record of a tool that holds formats of tracepoints, or is followed by them.
pub const TRACING_DATA: u32 = 66;

/// An attribute whose samples are written by [`sample`].
pub fn attr(event_type: u32, config: u64) -> Attr {
    let sample_type = SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::RAW;
    let flags = AttrFlags::empty();
    Attr { event_type, config, sample: 1, sample_type, flags, ..Attr::default() }
}

/// A tracepoint with this number.
pub fn tracepoint(id: u64) -> Attr {
    attr(event_type::TRACEPOINT, id)
}

/// A recording in the making. Event N has the id N + 1.
#[derive(Debug, Clone, Default)]
pub struct PlainFile {
    /// Attributes of the events.
    pub attrs: Vec<Attr>,
    /// Records of the data section.
    pub data: Vec<u8>,
    /// Bits and contents, by rising bit.
    pub features: Vec<(u32, Vec<u8>)>,
}

impl PlainFile {
    /// The program's text, or the kernel's.
    pub fn map(&mut self, kernel: bool, start: u64, length: u64, offset: u64, path: &str) {
        let mode = if kernel { misc::KERNEL } else { misc::USER };
        let pid = if kernel { u32::MAX } else { 7 };
        let builder = RecordBuilder::new(&mut self.data, kind::MMAP, mode).u32(pid).u32(pid);
        builder.u64(start).u64(length).u64(offset).text(path).finish();
    }

    /// A sample of thread 7 with what a tracepoint says.
    pub fn sample(&mut self, event: usize, mode: u16, ip: u64, time: u64, raw: &[u8]) {
        let mut raw = raw.to_vec();
        raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
        let builder = RecordBuilder::new(&mut self.data, kind::SAMPLE, mode);
        let builder = builder.u64(event as u64 + 1).u64(ip).u32(7).u32(7).u64(time);
        builder.u32(raw.len() as u32).bytes(&raw).finish();
    }

    /// A file.
    pub fn file(&self) -> Vec<u8> {
        let attr_size = Attr::default().to_bytes().len() as u64;
        let (entry, number) = (attr_size + 16, self.attrs.len() as u64);
        let attrs_at = HEADER + 8 * number;
        let data_at = attrs_at + entry * number;
        let mut bits = [0_u64; 4];
        for (bit, _) in &self.features {
            bits[*bit as usize / 64] |= 1 << (bit % 64);
        }
        let mut out = b"PERFILE2".to_vec();
        let words =
            [HEADER, entry, attrs_at, entry * number, data_at, self.data.len() as u64, 0, 0];
        words.iter().chain(&bits).for_each(|word| out.extend(word.to_ne_bytes()));
        (1..=number).for_each(|id| out.extend(id.to_ne_bytes()));
        for (attr, index) in self.attrs.iter().zip(0..) {
            out.extend(attr.to_bytes());
            out.extend((HEADER + 8 * index).to_ne_bytes());
            out.extend(8_u64.to_ne_bytes());
        }
        out.extend(&self.data);
        let mut at = out.len() as u64 + 16 * self.features.len() as u64;
        for (_, content) in &self.features {
            out.extend(at.to_ne_bytes());
            out.extend((content.len() as u64).to_ne_bytes());
            at += content.len() as u64;
        }
        self.features.iter().for_each(|(_, content)| out.extend(content));
        out
    }

    /// A stream; `front` are records between the attributes and the data.
    pub fn stream(&self, front: &[u8]) -> Vec<u8> {
        let mut out = b"PERFILE2".to_vec();
        out.extend(16_u64.to_ne_bytes());
        for (attr, id) in self.attrs.iter().zip(1_u64..) {
            RecordBuilder::new(&mut out, 64, 0).bytes(&attr.to_bytes()).u64(id).finish();
        }
        out.extend(front);
        out.extend(&self.data);
        out
    }
}

/// Formats of tracepoints in a record: inside it as simpleperf has them, or after it as perf.
pub fn tracing_record(data: &[u8], inside: bool) -> Vec<u8> {
    let mut padded = data.to_vec();
    padded.resize(data.len().next_multiple_of(8), 0);
    let mut out = Vec::new();
    let builder = RecordBuilder::new(&mut out, TRACING_DATA, 0).u32(data.len() as u32);
    if inside {
        builder.bytes(&padded).finish();
    } else {
        builder.finish();
        out.extend(padded);
    }
    out
}

/// A symbol: address, size in bytes, name.
pub type FileSymbol<'a> = (u64, u32, &'a str);

/// A file with symbols: path, kind, lowest address, symbols.
pub type SymbolFile<'a> = (&'a str, u32, u64, &'a [FileSymbol<'a>]);

/// The same files in the form of 2016: a record of each file and of each symbol.
pub fn simpleperf_records(files: &[SymbolFile<'_>]) -> Vec<u8> {
    const FILE: u32 = 32770;
    const SYMBOL: u32 = 32771;
    let mut out = Vec::new();
    for (&(path, file_kind, lowest, symbols), number) in files.iter().zip(40..) {
        let file = RecordBuilder::new(&mut out, FILE, 0).u64(file_kind.into()).u64(number);
        file.u64(lowest).text(path).finish();
        for &(address, size, name) in symbols {
            let symbol = RecordBuilder::new(&mut out, SYMBOL, 0).u64(address).u64(size.into());
            symbol.u64(number).text(name).finish();
        }
    }
    out
}

/// simpleperf's list of files with symbols.
pub fn simpleperf_files(files: &[SymbolFile<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, kind, lowest, symbols) in files {
        let mut body = [path.as_bytes(), &[0], &kind.to_ne_bytes(), &lowest.to_ne_bytes()].concat();
        body.extend((symbols.len() as u32).to_ne_bytes());
        for (address, size, name) in *symbols {
            body.extend(address.to_ne_bytes());
            body.extend(size.to_ne_bytes());
            body.extend(name.bytes().chain([0]));
        }
        out.extend((body.len() as u32).to_ne_bytes());
        out.extend(body);
    }
    out
}
