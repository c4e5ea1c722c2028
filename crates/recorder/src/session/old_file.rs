//! The recording that has the name already.

use std::path::{Path, PathBuf};

use super::output_error;
use crate::error::RecorderError;

/// Renames an existing file to `.old`; its new name.
pub(super) fn keep_old(path: &Path) -> Result<Option<PathBuf>, RecorderError> {
    // Only regular files: /dev/null and pipes are written to, not moved away.
    if !std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    std::fs::rename(path, &old).map_err(output_error("rename", path))?;
    Ok(Some(old))
}

/// Nothing was recorded: the previous recording gets its name back.
pub(super) fn restore_old(path: &Path, old: Option<&Path>) {
    // Failing here changes no data; the error that led here is what the user has to see.
    let _ = match old {
        Some(old) => std::fs::rename(old, path),
        None => std::fs::remove_file(path),
    };
}
