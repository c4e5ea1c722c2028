//! A folder of lists: its files, what they hold, and which of them are for a CPU.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmuscope_machine::{Midr, UserFolder};
use serde::{Deserialize, Serialize};

use super::choose::{Fit, Identity, Mapped, mapfile};
use super::index::{self, Stored};
use super::made_for::MadeFor;
use super::read::{List, read};
use super::{ListError, Listed};

/// Folders in folders that are looked into.
const DEEPEST: usize = 8;
/// More files are no event lists.
const MOST_FILES: usize = 20_000;
/// A larger file is none, bytes.
pub(super) const LARGEST_FILE: u64 = 64 << 20;
/// All of them together, bytes.
const LARGEST: u64 = 512 << 20;
const MAPFILE: &str = "mapfile.csv";

/// A folder of lists, or a single file.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    pub(super) contents: Contents,
    /// Blocks of events that were kept from an earlier reading; else they are in the contents.
    stored: Option<Stored>,
}

/// What is known of the files of a folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) maps: Vec<Mapped>,
    pub(super) files: Vec<ListFile>,
    pub(super) notes: Vec<String>,
}

/// One file that has events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ListFile {
    /// Below the folder.
    pub(super) path: String,
    pub(super) made_for: MadeFor,
    /// How many events it has.
    pub(super) number: usize,
    /// Where they are kept: offset and length, bytes.
    pub(super) block: (usize, usize),
    #[serde(skip)]
    pub(super) events: Vec<Listed>,
}

/// A file for the CPU that was asked for, and the cores that it is for.
pub(super) struct Chosen<'f> {
    pub(super) file: &'f ListFile,
    pub(super) fits: Vec<Fit>,
}

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) path: String,
    length: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Folder {
    /// Reads all lists in the folder `path` (or the file); what was read earlier comes from `cache`.
    ///
    /// # Errors
    /// [`ListError`] if it cannot be read, or is a single file and no list. Of the files of a folder,
    /// those that are damaged become notes.
    pub fn read(path: &Path, cache: Option<&Path>) -> Result<Self, ListError> {
        let stamps = stamps(path)?;
        let path = path.to_path_buf();
        let kept = cache.map(|cache| index::place(cache, &path));
        if let Some((contents, stored)) = kept.as_ref().and_then(|kept| index::open(kept, &stamps))
        {
            return Ok(Self { path, contents, stored: Some(stored) });
        }
        let mut contents = read_all(&path, &stamps)?;
        if let Some(kept) = &kept {
            // A cache that cannot be written is no cache: the answer is there all the same.
            let _ = index::store(kept, &stamps, &mut contents);
        }
        Ok(Self { path, contents, stored: None })
    }

    /// The folder, or the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many files have events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.files.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contents.files.is_empty()
    }

    /// Files that could not be read: a sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.contents.notes
    }

    /// Events of all files that are for `identity`; of all where it is `None`.
    pub(super) fn events(&self, identity: Option<&Identity>) -> Vec<Listed> {
        let mut events = Vec::new();
        for Chosen { file, fits } in self.chosen(identity) {
            for fit in fits {
                events.extend(self.events_of(file, fit.unit.as_deref()));
            }
        }
        events
    }

    pub(super) fn events_of(&self, file: &ListFile, unit: Option<&str>) -> Vec<Listed> {
        let mut events = match &self.stored {
            Some(stored) => stored.events(file.block),
            None => file.events.clone(),
        };
        for event in events.iter_mut().filter(|event| event.unit.is_none()) {
            event.unit = unit.map(str::to_owned);
        }
        events
    }

    /// Files for `identity` (`None`: all). A `mapfile.csv` decides over everything below its folder; where
    /// there is none, the file itself, and what says nothing is for any CPU. Of files for several revisions
    /// of a core, the one for the latest that is not later than the core's.
    pub(super) fn chosen(&self, identity: Option<&Identity>) -> Vec<Chosen<'_>> {
        // A pattern stands in many lines.
        let mut matching: HashMap<&str, bool> = HashMap::new();
        if let Some(identity) = identity {
            for map in &self.contents.maps {
                matching.entry(&map.pattern).or_insert_with(|| identity.matches(&map.pattern));
            }
        }
        let matches = |map: &&Mapped| matching.get(map.pattern.as_str()) == Some(&true);
        let mut chosen = Vec::new();
        for file in &self.contents.files {
            let about = self.about(file);
            let map_unit = |map: &Mapped| Fit { unit: map.unit.clone(), product: None };
            let fits = match identity {
                None => {
                    let unit = about.iter().find_map(|map| map.unit.clone());
                    vec![Fit { unit, product: None }]
                }
                Some(_) if self.is_governed(file) => {
                    about.into_iter().find(matches).map(map_unit).into_iter().collect()
                }
                Some(identity) => identity.fits(&file.made_for),
            };
            if !fits.is_empty() {
                chosen.push(Chosen { file, fits });
            }
        }
        by_revision(&mut chosen);
        chosen
    }

    /// Files that [`Folder::chosen`] leaves out, each with what it is for.
    pub(super) fn left_out(&self, identity: &Identity) -> Vec<(&ListFile, String)> {
        let chosen = self.chosen(Some(identity));
        let is_chosen = |file: &ListFile| chosen.iter().any(|one| std::ptr::eq(one.file, file));
        let files = self.contents.files.iter().filter(|file| !is_chosen(file));
        files.map(|file| (file, self.made_for(file))).collect()
    }

    /// What a file is for, in words.
    fn made_for(&self, file: &ListFile) -> String {
        match self.about(file).first() {
            Some(map) => map.pattern.clone(),
            None if self.is_governed(file) => "no CPU of its mapfile.csv".to_owned(),
            None => file.made_for.to_string(),
        }
    }

    fn about(&self, file: &ListFile) -> Vec<&Mapped> {
        self.contents.maps.iter().filter(|map| map.is_about(&file.path)).collect()
    }

    fn is_governed(&self, file: &ListFile) -> bool {
        self.contents.maps.iter().any(|map| file.path.starts_with(&map.folder))
    }
}

/// Keeps, of files for one core, those for its best revision: the latest that is not later than the
/// core's, else the earliest later one. Files that name no revision stay.
fn by_revision(chosen: &mut Vec<Chosen<'_>>) {
    type Revisions = Vec<(u64, u64)>;
    let mut known: HashMap<Midr, Revisions> = HashMap::new();
    for (product, midr) in chosen.iter().flat_map(|one| &one.fits).flat_map(|fit| &fit.product) {
        known.entry(*midr).or_default().extend(product.revision);
    }
    let best = |midr: &Midr| {
        let all = known.get(midr)?;
        let own = (midr.variant, midr.revision);
        all.iter().filter(|&&one| one <= own).max().or_else(|| all.iter().min()).copied()
    };
    for one in chosen.iter_mut() {
        one.fits.retain(|fit| match &fit.product {
            Some((product, midr)) if product.revision.is_some() => product.revision == best(midr),
            _ => true,
        });
    }
    chosen.retain(|one| !one.fits.is_empty());
}

fn io_error(path: &Path, source: std::io::Error) -> ListError {
    ListError::Io { path: path.to_path_buf(), source }
}

/// All files below `path` that may be lists, by name.
fn stamps(path: &Path) -> Result<Vec<Stamp>, ListError> {
    let metadata = fs::metadata(path).map_err(|error| io_error(path, error))?;
    let mut found = Vec::new();
    if metadata.is_file() {
        found.push(stamp(String::new(), &metadata));
    } else {
        walk(path, "", DEEPEST, &mut found)?;
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let bytes: u64 = found.iter().map(|stamp| stamp.length).sum();
    if found.len() > MOST_FILES || bytes > LARGEST {
        let what = format!("{} files of {} MiB in all", found.len(), bytes >> 20);
        return Err(ListError::TooLarge { path: path.to_path_buf(), what });
    }
    if found.is_empty() {
        return Err(ListError::Empty(path.to_path_buf()));
    }
    Ok(found)
}

fn stamp(path: String, metadata: &fs::Metadata) -> Stamp {
    Stamp {
        path,
        length: metadata.len(),
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn walk(
    folder: &Path,
    below: &str,
    deeper: usize,
    found: &mut Vec<Stamp>,
) -> Result<(), ListError> {
    let entries = fs::read_dir(folder).map_err(|error| io_error(folder, error))?;
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        let path = format!("{below}{name}");
        if name.starts_with('.') || found.len() > MOST_FILES {
            continue;
        }
        if metadata.is_dir() && deeper > 0 {
            // One folder that may not be read does not spoil the others.
            let _ = walk(&entry.path(), &format!("{path}/"), deeper - 1, found);
        } else if metadata.is_file() && (name.ends_with(".json") || name == MAPFILE) {
            found.push(stamp(path, &metadata));
        }
    }
    Ok(())
}

fn read_all(path: &Path, stamps: &[Stamp]) -> Result<Contents, ListError> {
    let mut contents = Contents::default();
    for stamp in stamps {
        let file = if stamp.path.is_empty() { path.to_owned() } else { path.join(&stamp.path) };
        if let Some(folder) = stamp.path.strip_suffix(MAPFILE) {
            match fs::read_to_string(&file) {
                Ok(text) => contents.maps.extend(mapfile(&text, folder)),
                Err(error) => contents.notes.push(io_error(&file, error).to_string()),
            }
            continue;
        }
        match read_one(&file, stamp.length) {
            Ok(List { events, .. }) if events.is_empty() => {}
            Ok(List { events, made_for }) => contents.files.push(ListFile {
                path: stamp.path.clone(),
                made_for,
                number: events.len(),
                block: (0, 0),
                events,
            }),
            Err(error) if stamp.path.is_empty() => return Err(error),
            Err(error) => contents.notes.push(error.to_string()),
        }
    }
    if contents.files.iter().all(|file| file.number == 0) && contents.notes.is_empty() {
        return Err(ListError::Empty(path.to_path_buf()));
    }
    Ok(contents)
}

fn read_one(path: &Path, length: u64) -> Result<List, ListError> {
    if length > LARGEST_FILE {
        let what = format!("{} MiB", length >> 20);
        return Err(ListError::TooLarge { path: path.to_path_buf(), what });
    }
    let bytes = fs::read(path).map_err(|error| io_error(path, error))?;
    read(&bytes).map_err(|why| ListError::Form { path: path.to_path_buf(), why })
}

/// Where this user's lists are: `$PMUSCOPE_EVENTS`, else `pmuscope/events` in `$XDG_DATA_HOME` or
/// `~/.local/share`. `None` if none of these is set, or `PMUSCOPE_EVENTS` is empty.
#[must_use]
pub fn user_lists() -> Option<PathBuf> {
    let folder = UserFolder {
        variable: "PMUSCOPE_EVENTS",
        xdg: "XDG_DATA_HOME",
        below_home: ".local/share",
        name: "pmuscope/events",
    };
    folder.path()
}
