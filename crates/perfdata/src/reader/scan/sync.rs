//! Finds where a record may start in the middle of a file, so that several threads can start in
//! parallel.
//!
//! This is a guess: a series of plausible headers. It is accepted only if the scan of the part before
//! it ends exactly there.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use pmuscope_abi::record::{HEADER_SIZE, kind};

use super::super::stream::COMPRESSED2;
use super::walk::header;

/// Bytes that are looked at.
const WINDOW: usize = 512 << 10;
/// Places that are tried: records are shorter.
const TRIED: usize = 128 << 10;
/// Headers in a row that make a record likely …
const HEADERS: usize = 64;
/// … or bytes that they cover.
const COVERED: usize = 192 << 10;

/// Offset of a likely record at or behind `offset`, before `end`.
pub(super) fn likely_record(file: &File, offset: u64, end: u64) -> Option<u64> {
    let length = usize::try_from(end.checked_sub(offset)?).unwrap_or(WINDOW).min(WINDOW);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).ok()?;
    let tried = 0..TRIED.min(length);
    tried.into_iter().find(|&at| is_likely(&bytes[at..])).map(|at| offset + at as u64)
}

fn is_likely(bytes: &[u8]) -> bool {
    let mut at = 0;
    for _ in 0..HEADERS {
        if at >= COVERED || (at > 0 && at == bytes.len()) {
            return true;
        }
        let Some(front) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_SIZE) else {
            return false;
        };
        let (kind, _, size) = header(front);
        let is_packed = kind == kind::COMPRESSED || kind == COMPRESSED2;
        let known = matches!(kind, 1..=22 | 64..=90);
        if !known || usize::from(size) < HEADER_SIZE || (size % 8 != 0 && !is_packed) {
            return false;
        }
        at += usize::from(size);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;
    use std::io::Write as _;

    #[test]
    fn a_record_is_found_behind_half_of_another() {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for number in 0..5000_u64 {
            starts.push(bytes.len());
            RecordBuilder::new(&mut bytes, 9, 2).u64(number).u64(9 << 32 | 16).u64(77).finish();
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        for at in [1, 8, 12, 40, 1000] {
            let found = likely_record(&file, at, bytes.len() as u64).unwrap();
            let expected = starts.iter().find(|&&start| start as u64 >= at).unwrap();
            assert_eq!(found, *expected as u64);
        }
        assert_eq!(likely_record(&file, bytes.len() as u64, bytes.len() as u64), None);
    }
}
