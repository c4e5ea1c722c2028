//! Debug information from servers, fetched with the program `debuginfod-find` of elfutils, which has
//! its own cache, time limits and network code.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::BuildId;

const PROGRAM: &str = "debuginfod-find";

/// Whether servers can be used; if not, the reason and what to do.
///
/// # Errors
/// If no server is named, or `debuginfod-find` is not installed.
pub fn debuginfod_available() -> Result<(), String> {
    check(
        std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty()),
        std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
        }),
    )
}

fn check(has_server: bool, has_program: bool) -> Result<(), String> {
    if !has_server {
        return Err("DEBUGINFOD_URLS names no server. Try: export DEBUGINFOD_URLS=\
                    https://debuginfod.elfutils.org/"
            .into());
    }
    if !has_program {
        return Err(
            "debuginfod-find is not installed. Try: apt install debuginfod, or dnf install \
                    elfutils-debuginfod-client"
                .into(),
        );
    }
    Ok(())
}

/// Asks for a file of build `id`, `kind` being `debuginfo` or `executable`; its path in the cache of
/// debuginfod-find. `None` if no server has it.
pub(crate) fn fetch(kind: &str, id: &BuildId) -> Option<PathBuf> {
    let output = Command::new(PROGRAM)
        .args([kind, &id.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(path.trim_end_matches('\n'));
    (output.status.success() && path.is_absolute()).then(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_type() {
        assert!(check(false, true).unwrap_err().contains("export DEBUGINFOD_URLS"));
        assert!(check(true, false).unwrap_err().contains("apt install debuginfod"));
        assert_eq!(check(true, true), Ok(()));
    }
}
