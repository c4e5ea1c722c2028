//! Recordings of other machines, and files that once broke other readers.

use std::fs;
use std::path::Path;

use crate::{Result, Seeds};

/// Bytes in front of the records of a stream.
const STREAM_HEADER: usize = 16;

/// Adds the small files of the folder that `PMUSCOPE_CORPUS` names, and of `malformed` in it.
pub(crate) fn add(seeds: &Seeds) -> Result {
    let Some(folder) = std::env::var_os("PMUSCOPE_CORPUS") else {
        println!("PMUSCOPE_CORPUS is not set: no recordings of other machines among the seeds");
        return Ok(());
    };
    let folder = Path::new(&folder);
    for folder in [folder, &folder.join("malformed")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file() && !name.ends_with(".tsv") {
                add_one(seeds, &name, &fs::read(&path)?)?;
            }
        }
    }
    Ok(())
}

fn add_one(seeds: &Seeds, name: &str, bytes: &[u8]) -> Result {
    match bytes.split_at_checked(STREAM_HEADER) {
        Some((header, records)) if header[8] == 16 || header[15] == 16 => {
            seeds.add("stream", name, &[&[u8::from(header[0] == b'2')], records].concat())
        }
        _ => seeds.add_recording(name, bytes),
    }
}
