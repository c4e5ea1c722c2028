//! Reads pmuscope's metadata from a finished recording without reading its records.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::info::{FEATURE_INFO, RecordingInfo};

/// More metadata than this is not ours: 4096 rings are about 1 MiB.
const LARGEST: u64 = 64 << 20;

/// The metadata in the feature section of the file at `path`; `None` for a file that was not closed,
/// not written by pmuscope, or not a perf.data file of this machine's byte order.
///
/// # Errors
/// Those of opening and reading the file.
pub fn read_info(path: &Path) -> io::Result<Option<RecordingInfo>> {
    let file = File::open(path)?;
    let mut header = [0_u8; 104];
    if !read_whole(&file, &mut header, 0)? || &header[..8] != b"PERFILE2" {
        return Ok(None);
    }
    let word =
        |at: usize| header[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let bitmap = &header[72..104];
    let has = |bit: u32| bitmap[bit as usize / 8] & 1 << (bit % 8) != 0;
    if !has(FEATURE_INFO) {
        return Ok(None);
    }
    let index = (0..FEATURE_INFO).filter(|bit| has(*bit)).count() as u64;
    let Some(entry_at) = word(40).checked_add(word(48)).and_then(|end| end.checked_add(index * 16))
    else {
        return Ok(None);
    };
    let mut entry = [0_u8; 16];
    if !read_whole(&file, &mut entry, entry_at)? {
        return Ok(None);
    }
    let (offset, size) = entry.split_at(8);
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
    let (offset, size) = (number(offset), number(size));
    if size > LARGEST
        || offset.checked_add(size).is_none_or(|end| end > file.metadata().map_or(0, |m| m.len()))
    {
        return Ok(None);
    }
    let mut json = vec![0; size as usize];
    Ok(read_whole(&file, &mut json, offset)?.then(|| RecordingInfo::from_json(&json)).flatten())
}

/// Fills `buffer` from `offset`; false if the file ends before.
fn read_whole(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{Features, closing, front};

    #[test]
    fn metadata_are_found_behind_other_features_and_missing_ones_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.data");
        let mut bytes = front(&[]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_info(&path).unwrap(), None);

        let info = RecordingInfo { scope: "system-wide".into(), ..RecordingInfo::default() };
        let features = Features {
            hostname: Some("h".into()),
            arch: Some("a".into()),
            info: Some(info.to_json()),
            ..Features::default()
        };
        let end = closing(&[], &features, bytes.len() as u64, 0);
        bytes.extend_from_slice(&end.tail);
        bytes[..104].copy_from_slice(&end.header);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_info(&path).unwrap(), Some(info));

        std::fs::write(&path, &bytes[..200]).unwrap();
        assert_eq!(read_info(&path).unwrap(), None);
    }
}
