//! What comes out of a guest, put where it would be without one.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use pmuscope_lab::{Outcome, Produced};
use pmuscope_machine::{AtomicFile, Replace};
use pmuscope_report::number;

/// Prints what the command complains of while it runs. What cannot be printed now is not later either.
pub(super) fn pass_on_line(line: &[u8]) {
    let _ = std::io::stderr().write_all(line);
}

/// Prints what the command printed, but for what was passed on before.
pub(super) fn pass_on(outcome: &Outcome) -> anyhow::Result<()> {
    let rest = outcome.stderr.get(outcome.heard..).unwrap_or_default();
    std::io::stderr().write_all(rest).context("cannot write to standard error")?;
    let mut stdout = std::io::stdout();
    stdout
        .write_all(&outcome.stdout)
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// Writes files below `folder`; what was there of the same name is kept as `NAME.old`.
pub(super) fn write(files: &[Produced], folder: &Path) -> anyhow::Result<()> {
    for file in files {
        let path = folder.join(safe(&file.path)?);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        put(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `pmuscope.data (45.3 KiB)`, or nothing.
pub(super) fn names(files: &[Produced]) -> String {
    let one = |file: &Produced| {
        let bytes = number::bytes(file.content.len() as u64);
        format!("{} ({bytes})", pmuscope_report::escape(&file.path.to_string_lossy()))
    };
    files.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn put(path: &Path, file: &Produced) -> std::io::Result<()> {
    let mut out = AtomicFile::create(path, 0o600, Replace::Anything)?;
    out.write_all(&file.content)?;
    out.file().set_permissions(std::fs::Permissions::from_mode(file.mode & 0o777))?;
    if path.is_file() {
        std::fs::rename(path, with_suffix(path, ".old"))?;
    }
    out.finish()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A guest may run anything: no file of it leaves the folder.
fn safe(path: &Path) -> anyhow::Result<&Path> {
    let mut parts = path.components().peekable();
    if parts.peek().is_none() || !parts.all(|part| matches!(part, Component::Normal(_))) {
        bail!("the guest named a file {:?}, which does not lie in its folder", path.display());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> Produced {
        Produced { path: path.into(), mode: 0o640, content: content.into() }
    }

    #[test]
    fn files_come_below_the_folder_and_replace_none() {
        let folder =
            std::env::temp_dir().join(format!("pmuscope-lab-output-{}", std::process::id()));
        write(&[file("deep/a", "1"), file("b", "2")], &folder).unwrap();
        write(&[file("b", "3")], &folder).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!([text("deep/a"), text("b"), text("b.old")], ["1", "3", "2"]);
        let mode = std::fs::metadata(folder.join("b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        for wrong in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(write(&[file(wrong, "")], &folder).is_err(), "{wrong}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
