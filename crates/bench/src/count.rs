//! What is in a perf.data file, by walking its record headers: exact, in one pass, whatever the
//! order of records. Only for files that this benchmark had written a moment ago.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use pmuscope_abi::record::{HEADER_SIZE, kind};
use pmuscope_perfdata::reader::{Reader, Record};

/// Records of a recording, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordCounts {
    /// Samples.
    pub(crate) samples: u64,
    /// Samples lost, as LOST records have it.
    lost_in_stream: u64,
    /// Samples lost, as LOST_SAMPLES records have it: perf 6.1 sums up there at its end.
    lost_at_end: u64,
    /// Times that sampling was suspended.
    pub(crate) throttled: u64,
}

impl RecordCounts {
    /// Both kinds of records tell of the same losses.
    pub(crate) fn lost(&self) -> u64 {
        self.lost_in_stream.max(self.lost_at_end)
    }

    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.lost_in_stream += other.lost_in_stream;
        self.lost_at_end += other.lost_at_end;
        self.throttled += other.throttled;
    }
}

/// Size of a recording in bytes: of a file, or of all files of a folder (`perf record --threads`).
///
/// # Errors
/// If it cannot be read.
pub(crate) fn size(path: &Path) -> io::Result<u64> {
    files(path)?.iter().map(|file| Ok(std::fs::metadata(file)?.len())).sum()
}

/// Counts the records of a file or of all files of a folder.
///
/// # Errors
/// If it cannot be read, is no perf.data, or is a folder of compressed files.
pub(crate) fn count(path: &Path) -> io::Result<RecordCounts> {
    let mut sum = RecordCounts::default();
    for file in files(path)? {
        match count_file(&file)? {
            WalkOutcome::Whole(counts) => sum.add(&counts),
            WalkOutcome::Compressed => sum.add(&count_compressed(&file)?),
        }
    }
    Ok(sum)
}

/// The same through the reader of whole recordings, which decompresses.
fn count_compressed(path: &Path) -> io::Result<RecordCounts> {
    let mut reader = Reader::open(path).map_err(io::Error::other)?;
    let mut counts = RecordCounts::default();
    while let Some(entry) = reader.next().map_err(io::Error::other)? {
        match entry.record {
            Record::Sample(_) => counts.samples += 1,
            Record::Lost { count, .. } => counts.lost_in_stream += count,
            Record::LostSamples { count, .. } => counts.lost_at_end += count,
            Record::Throttle { .. } => counts.throttled += 1,
            _ => {}
        }
    }
    match reader.tally().stopped {
        None => Ok(counts),
        Some(_) => Err(io::Error::other("its records cannot be read to the end")),
    }
}

/// What walking found.
#[derive(Debug, PartialEq, Eq)]
enum WalkOutcome {
    /// All records.
    Whole(RecordCounts),
    /// A record that holds others.
    Compressed,
}

fn files(path: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}

fn count_file(path: &Path) -> io::Result<WalkOutcome> {
    let mut file = File::open(path)?;
    let mut header = [0; 104];
    let length = file.metadata()?.len();
    let (start, bytes) = if file.read_exact(&mut header).is_ok() && &header[..8] == b"PERFILE2" {
        let word = |at: usize| {
            header[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        (word(40), word(48))
    } else {
        // One of the files beside `data` in a folder: records only.
        (0, length)
    };
    file.seek(SeekFrom::Start(start))?;
    walk(BufReader::with_capacity(1 << 20, file.take(bytes)))
}

fn walk(mut records: impl Read) -> io::Result<WalkOutcome> {
    let mut counts = RecordCounts::default();
    let mut record = vec![0; usize::from(u16::MAX)];
    loop {
        let (header, rest) = record.split_at_mut(HEADER_SIZE);
        if !fill(&mut records, header)? {
            return Ok(WalkOutcome::Whole(counts));
        }
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some(body) = size.checked_sub(HEADER_SIZE).map(|length| &mut rest[..length]) else {
            return Err(io::Error::other("a record is smaller than its header"));
        };
        if !fill(&mut records, body)? && !body.is_empty() {
            return Err(io::Error::other("the last record is cut off"));
        }
        let word = |at: usize| {
            body.get(at..).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| u64::from_ne_bytes(*b))
        };
        match kind {
            kind::SAMPLE => counts.samples += 1,
            // id, lost.
            kind::LOST => counts.lost_in_stream += word(8),
            kind::LOST_SAMPLES => counts.lost_at_end += word(0),
            kind::THROTTLE => counts.throttled += 1,
            kind::COMPRESSED => return Ok(WalkOutcome::Compressed),
            _ => {}
        }
    }
}

/// False at the end, before the first byte.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::Error::other("the last record is cut off")),
            n => filled += n,
        }
    }
    Ok(filled > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    fn records() -> Vec<u8> {
        let mut out = Vec::new();
        RecordBuilder::new(&mut out, kind::SAMPLE, 2).bytes(&[7; 40]).finish();
        RecordBuilder::new(&mut out, kind::LOST, 0)
            .bytes(&1u64.to_ne_bytes())
            .bytes(&5u64.to_ne_bytes())
            .finish();
        RecordBuilder::new(&mut out, kind::FINISHED_ROUND, 0).finish();
        RecordBuilder::new(&mut out, kind::SAMPLE, 1).bytes(&[7; 48]).finish();
        RecordBuilder::new(&mut out, kind::LOST_SAMPLES, 0).bytes(&6u64.to_ne_bytes()).finish();
        RecordBuilder::new(&mut out, kind::THROTTLE, 0).bytes(&[0; 24]).finish();
        out
    }

    #[test]
    fn files_and_folders_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut header = [0; 104];
        header[..8].copy_from_slice(b"PERFILE2");
        header[40..48].copy_from_slice(&104u64.to_ne_bytes());
        header[48..56].copy_from_slice(&(records().len() as u64).to_ne_bytes());
        // What follows the data is not walked.
        std::fs::write(&data, [&header[..], &records(), &[1; 50]].concat()).unwrap();
        let one = RecordCounts { samples: 2, lost_in_stream: 5, lost_at_end: 6, throttled: 1 };
        assert_eq!(count(&data).unwrap(), one);
        assert_eq!(one.lost(), 6);
        std::fs::write(folder.path().join("data.0"), records()).unwrap();
        assert_eq!(count(folder.path()).unwrap().samples, 4);
        assert_eq!(size(folder.path()).unwrap(), 104 + 50 + 2 * records().len() as u64);
    }

    #[test]
    fn what_cannot_be_counted_is_an_error() {
        let mut cut = records();
        cut.truncate(cut.len() - 3);
        assert!(walk(&cut[..]).unwrap_err().to_string().contains("cut off"));
        assert!(walk(&[9, 0, 0, 0, 0, 0, 4, 0][..]).unwrap_err().to_string().contains("smaller"));
        let mut compressed = Vec::new();
        RecordBuilder::new(&mut compressed, kind::COMPRESSED, 0).bytes(&[0; 8]).finish();
        assert_eq!(walk(&compressed[..]).unwrap(), WalkOutcome::Compressed);
        assert!(count(Path::new("/nonexistent")).is_err());
    }
}
