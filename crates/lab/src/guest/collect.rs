//! What a command left behind.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::job::JobFile;

/// What tells a changed file from an unchanged one: inode, bytes, time of modification.
type FileStamp = (u64, u64, i64, i64);

/// Files of a folder before the command ran.
pub(super) type Snapshot = HashMap<PathBuf, FileStamp>;

pub(super) fn snapshot(folder: &Path) -> Snapshot {
    files_below(folder).into_iter().map(|(path, metadata)| (path, stamp(&metadata))).collect()
}

/// `said`, then the files in `folder` that are new or changed, with their contents.
pub(super) fn results(
    said: &[(&str, &Path)],
    folder: &Path,
    before: &Snapshot,
) -> Result<(Vec<JobFile>, Vec<Vec<u8>>), String> {
    let (mut pieces, mut contents) = (Vec::new(), Vec::new());
    let mut take = |name: String, path: &Path, mode: u32| {
        let content = std::fs::read(path).map_err(|error| {
            format!("cannot read {} after the command: {error}", path.display())
        })?;
        pieces.push(JobFile { name, mode, bytes: content.len() as u64 });
        contents.push(content);
        Ok::<(), String>(())
    };
    for (name, path) in said {
        take((*name).to_owned(), path, 0o600)?;
    }
    let mut found = files_below(folder);
    found.retain(|(path, metadata)| before.get(path) != Some(&stamp(metadata)));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, metadata) in found {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        let Some(name) = name.to_str() else {
            return Err(format!("the name of {} is not UTF-8", path.display()));
        };
        take(name.to_owned(), &path, metadata.permissions().mode() & 0o777)?;
    }
    Ok((pieces, contents))
}

fn stamp(metadata: &Metadata) -> FileStamp {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Regular files, links not followed.
fn files_below(folder: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                found.push((entry.path(), metadata));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_files_are_results() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        write("same", "1");
        write("changed", "2");
        let before = snapshot(folder.path());
        write("changed", "22");
        write("deep/new", "3");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let said = folder.path().join("same");
        let (pieces, contents) = results(&[("", &said)], folder.path(), &before).unwrap();
        let names: Vec<&str> = pieces.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["", "changed", "deep/new"]);
        assert_eq!(contents, [&b"1"[..], b"22", b"3"]);
        assert_eq!(pieces[1].bytes, 2);
    }
}
