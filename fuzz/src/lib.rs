//! What fuzz targets share: bytes as files, and the questions that are asked of every recording.
//!
//! A target passes if nothing panics, overflows or aborts, within the memory and the time that
//! `scripts/fuzz` allows. Answers are checked where something must hold whatever the bytes are.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod recording;
pub mod symbols;
pub mod unwinding;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder of this process below the system's folder for temporary files; `scripts/fuzz` puts that
/// into memory, and removes it at the end.
///
/// # Panics
/// If it cannot be made: there is nothing to fuzz then.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("pmuscope-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for files");
        folder
    })
}

/// A file with these bytes, until the next of that name is asked for.
///
/// # Panics
/// If it cannot be written: there is nothing to fuzz then.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("space for a file");
    path
}

/// Takes `length` bytes off the front; what there is if there are fewer.
pub fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    part
}

/// Takes a part off the front that stands behind its length, two bytes, little-endian.
pub fn take_part<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = take(bytes, 2).iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    take(bytes, length)
}
