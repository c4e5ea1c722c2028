//! Debug information from servers, fetched with the program `debuginfod-find` of elfutils, which has
//! its own cache, time limits and network code.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::BuildId;

const PROGRAM: &str = "debuginfod-find";
/// What `debuginfod-find` says of a server that answers, but has no such file (ENOENT).
const NO_SUCH_FILE: &str = "No such file or directory";

/// Why a server did not answer: the first time that one did not.
static FAILURE: OnceLock<String> = OnceLock::new();

/// Why a server could not be asked, if that happened: files that it may have are missing. Foreign text.
#[must_use]
pub fn debuginfod_failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

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
    let output = Command::new(PROGRAM).args([kind, &id.to_string()]).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            FAILURE.get_or_init(|| format!("cannot run {PROGRAM}: {error}"));
            return None;
        }
    };
    if !output.status.success() {
        if let Some(why) = failure(&String::from_utf8_lossy(&output.stderr)) {
            FAILURE.get_or_init(|| why);
        }
        return None;
    }
    let path = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(path.trim_end_matches('\n'));
    path.is_absolute().then(|| path.to_path_buf())
}

/// What kept servers from being asked, as the program tells it; `None` if they only do not have the file.
fn failure(said: &str) -> Option<String> {
    let why = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let why = why.strip_prefix("Server query failed: ").unwrap_or(why);
    (why != NO_SUCH_FILE).then(|| why.to_owned())
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

    #[test]
    fn a_server_without_the_file_is_no_failure() {
        assert_eq!(failure("Server query failed: No such file or directory\n"), None);
        let down = failure("Server query failed: Connection refused\n");
        assert_eq!(down.as_deref(), Some("Connection refused"));
        assert_eq!(failure(""), None);
    }
}
