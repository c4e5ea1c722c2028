//! Copies of programs that only another mount namespace has: a container may be gone when its recording is read.
//!
//! They lie in the folder of the symbol cache, private as that is, and are used only if their build id is the one
//! that was recorded.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use pmuscope_machine::{AtomicFile, Replace};

use crate::cache::{private_folder, tidy, user_cache};
use crate::{BuildId, namespaces, read_build_id};

/// A larger file is not copied, bytes.
const LARGEST: u64 = 512 << 20;
/// All copies together, bytes; the oldest are removed first.
const ALL: u64 = 1 << 30;
const SUFFIX: &str = "elf";

/// Where the copy of a file is or would be, below the folder of the symbol cache.
pub(crate) fn place(cache: &Path, id: &BuildId) -> PathBuf {
    cache.join("files").join(format!("{id}.{SUFFIX}"))
}

/// Copies the file that process `pid` has mapped as `path`, if it is in another mount namespace than we are and no file
/// of this build is at that path here. `found` is where it can be read. Returns whether there is a copy now.
///
/// # Errors
/// If it cannot be read, or the copy cannot be written.
pub fn keep_file(pid: u32, path: &Path, found: &Path, id: &BuildId) -> io::Result<bool> {
    let Some(cache) = user_cache() else { return Ok(false) };
    let is_here = || matches!(read_build_id(path), Ok(Some(own)) if own.same_build(id));
    if namespaces::of_process(pid as i32).is_none() || is_here() {
        return Ok(false);
    }
    keep_in(&cache, found, id)
}

fn keep_in(cache: &Path, found: &Path, id: &BuildId) -> io::Result<bool> {
    let copy = place(cache, id);
    if copy.exists() {
        return Ok(true);
    }
    let mut file = File::open(found)?;
    let metadata = file.metadata()?;
    let folder = copy.parent().unwrap_or(cache);
    // Whoever else may write there could give functions other names.
    if !metadata.is_file()
        || metadata.len() > LARGEST
        || private_folder(cache).and_then(|()| private_folder(folder)).is_none()
    {
        return Ok(false);
    }
    let mut out = AtomicFile::create(&copy, 0o600, Replace::Anything)?;
    io::copy(&mut file, &mut out)?;
    out.finish()?;
    // What cannot be removed stays.
    let _ = tidy(folder, SUFFIX, ALL);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_is_whole_private_and_made_once() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("symbols");
        let exe = std::env::current_exe().unwrap();
        let id = BuildId::new(&[7; 20]).unwrap();
        assert!(keep_in(&cache, &exe, &id).unwrap());
        let copy = place(&cache, &id);
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&exe).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        // It is there already: the original is not asked for.
        assert!(keep_in(&cache, Path::new("/nonexistent"), &id).unwrap());
        let other = BuildId::new(&[8; 20]).unwrap();
        assert!(keep_in(&cache, Path::new("/nonexistent"), &other).is_err());
        assert!(!keep_in(&cache, folder.path(), &other).unwrap(), "a folder is no file");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let id = BuildId::new(&[7; 20]).unwrap();
        assert!(!keep_in(folder.path(), &std::env::current_exe().unwrap(), &id).unwrap());
    }

    #[test]
    fn files_that_we_see_ourselves_are_not_copied() {
        let exe = std::env::current_exe().unwrap();
        let id = read_build_id(&exe).unwrap().unwrap();
        assert!(!keep_file(std::process::id(), &exe, &exe, &id).unwrap());
    }
}
