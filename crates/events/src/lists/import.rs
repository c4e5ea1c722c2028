//! Lists that a user has, copied to where every command finds them. Nothing is fetched.

use std::fs;
use std::path::{Path, PathBuf};

use super::choose::{Fit, Identity};
use super::folder::Folder;
use super::{ListError, none_is_for};

/// What was taken over from one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Where it is now.
    pub to: PathBuf,
    /// Files that were taken over.
    pub files: usize,
    /// Their events.
    pub events: usize,
    /// Files with events that are for other CPUs.
    pub left_out: usize,
    /// Lists that describe a later revision of this CPU than it is: a sentence each. They may have
    /// events that it does not count.
    pub newer: Vec<String>,
    /// Files that could not be read: a sentence each.
    pub notes: Vec<String>,
}

/// Copies the lists at `from` (a folder or a file) that are for `identity` (`None`: all) into a folder
/// below `into`, in place of what was imported from a place of that name before.
///
/// # Errors
/// [`ListError`] if a place cannot be read, has no list, or none for this CPU; or the copy fails.
pub fn import(
    from: &Path,
    into: &Path,
    identity: Option<&Identity>,
) -> Result<Imported, ListError> {
    let folder = Folder::read(from, None)?;
    let chosen = folder.chosen(identity);
    let events: usize = chosen.iter().map(|one| one.file.number).sum();
    if events == 0 && folder.is_empty() {
        // All of its files are damaged.
        let why = folder.notes().join("; ");
        return Err(ListError::Form { path: from.to_path_buf(), why });
    }
    if events == 0 {
        let why = identity.map_or_else(String::new, |one| none_is_for(&folder, one));
        return Err(ListError::OtherCpus { path: from.to_path_buf(), why });
    }
    let to = into.join(name(from));
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ListError::Io { path, source }
    };
    let unfinished = into.join(format!(".{}-{}", name(from), std::process::id()));
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(failed(&unfinished))?;
    let maps = folder.contents.maps.iter().map(|map| format!("{}mapfile.csv", map.folder));
    let mut paths: Vec<String> =
        chosen.iter().map(|one| one.file.path.clone()).chain(maps).collect();
    paths.sort();
    paths.dedup();
    for path in &paths {
        let (source, target) = match path.as_str() {
            "" => (from.to_path_buf(), unfinished.join(format!("{}.json", name(from)))),
            _ => (from.join(path), unfinished.join(path)),
        };
        let parent = target.parent().unwrap_or(&unfinished);
        fs::create_dir_all(parent).map_err(failed(parent))?;
        fs::copy(&source, &target).map_err(failed(&source))?;
    }
    if to.exists() {
        fs::remove_dir_all(&to).map_err(failed(&to))?;
    }
    fs::rename(&unfinished, &to).map_err(failed(&to))?;
    let (files, left_out) = (chosen.len(), folder.len() - chosen.len());
    let newer = chosen.iter().flat_map(|one| one.fits.iter().map(move |fit| (one.file, fit)));
    let newer = newer.filter_map(|(file, Fit { product, .. })| {
        let (product, midr) = product.as_ref()?;
        let (own, of_list) = ((midr.variant, midr.revision), product.revision?);
        (of_list > own).then(|| {
            let (made_for, (variant, revision)) = (&file.made_for, own);
            format!("{made_for} is newer than this CPU (r{variant}p{revision})")
        })
    });
    let newer = newer.collect();
    Ok(Imported { to, files, events, left_out, newer, notes: folder.notes().to_vec() })
}

/// The last part of the path, without what could surprise as a name of a folder.
fn name(from: &Path) -> String {
    let whole = fs::canonicalize(from).unwrap_or_else(|_| from.to_path_buf());
    let stem =
        whole.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(fits).collect();
    if name.is_empty() { "lists".to_owned() } else { name }
}
