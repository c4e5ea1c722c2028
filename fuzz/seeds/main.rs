//! Writes what the fuzz targets begin with, a folder for each: what our own writers write, files of
//! this machine, texts by hand, and, where `PMUSCOPE_CORPUS` names a folder of recordings, the small
//! ones of those.
//!
//! `seeds FOLDER`, as `scripts/fuzz` calls it.

mod corpus;
mod programs;
mod recordings;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};

/// What can go wrong here needs a person.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Longer inputs are changed too slowly to be of use, bytes.
const LONGEST: usize = 64 << 10;

/// The folders of all targets.
struct Seeds(PathBuf);

impl Seeds {
    /// Adds an input for `target`, if it is not too long.
    fn add(&self, target: &str, name: &str, bytes: &[u8]) -> Result {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        if bytes.len() <= LONGEST {
            fs::write(folder.join(name), bytes)?;
        }
        Ok(())
    }

    /// Adds a recording for all targets that take one.
    fn add_recording(&self, name: &str, bytes: &[u8]) -> Result {
        for target in ["recording", "dump", "profile", "exports"] {
            self.add(target, name, bytes)?;
        }
        Ok(())
    }
}

fn main() -> Result {
    let folder = std::env::args_os().nth(1).ok_or("seeds FOLDER")?;
    let seeds = Seeds(Path::new(&folder).to_path_buf());
    recordings::add(&seeds)?;
    texts::add(&seeds)?;
    programs::add(&seeds)?;
    corpus::add(&seeds)
}
