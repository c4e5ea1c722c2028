//! Event lists of vendors: names, encodings, descriptions and constraints that no kernel has.
//!
//! Three forms are read, and told apart by their content: Intel's (`EventName`, `EventCode`, …, bare or
//! below `Events`; the kernel's source has the same for other vendors), Arm's (`events` by name below
//! `_type: PMU_Specification`, or a list with numeric codes), and what `perf list -j` prints.
//!
//! ```text
//! folder of the user ─► files (index) ─► those for this CPU (mapfile.csv, product) ─► Listed
//!                            │
//!                            └─ kept in the user's cache: read once, as long as no file changes
//! ```
//!
//! An entry becomes the terms of its unit (`event=0x24,umask=0x21`), which go through what sysfs says
//! about the unit as if the user had typed them; nothing is encoded here.

mod arm;
mod choose;
mod file;
mod folder;
#[cfg(fuzzing)]
pub mod fuzzing;
mod import;
mod index;
mod intel;
mod listed;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use choose::Identity;
pub use folder::{Folder, user_lists};
pub use import::{Imported, import};
pub use listed::{Listed, NotCountable, Precision};
pub use read::{List, Product, read};

/// Why a list, or a folder of lists, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The folder or the file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// The errno.
        source: std::io::Error,
    },
    /// It is not JSON, or none of the known forms.
    #[error(
        "{}: {why}. Known are event lists in the JSON of Intel's perfmon, of Arm's telemetry, and \
         of perf list -j", path.display()
    )]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is nothing in it.
    #[error(
        "{}: no events in it. Known are event lists in the JSON of Intel's perfmon, of Arm's telemetry, \
         and of perf list -j, in files that end in .json", .0.display()
    )]
    Empty(PathBuf),
    /// More than this version reads.
    #[error("{}: {what}; that is no event list", path.display())]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// How large it is, and what is read.
        what: String,
    },
}

/// Events of lists, by name.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// By name in lower case: matching ignores case, shown is the vendor's spelling.
    events: BTreeMap<String, Vec<Listed>>,
    /// What could not be read, or was left out.
    notes: Vec<String>,
}

impl Lists {
    /// Events of the lists in `folder` that are for the CPU `identity`; of all lists where `identity`
    /// is `None`. What was read is kept in `cache`, a folder that is made if need be.
    ///
    /// # Errors
    /// [`ListError`] if the folder cannot be read or has no list. A file that is damaged is a note.
    pub fn load(
        folder: &Path,
        identity: Option<&Identity>,
        cache: Option<&Path>,
    ) -> Result<Self, ListError> {
        let folder = Folder::read(folder, cache)?;
        let mut lists = Self::default();
        lists.notes.extend(folder.notes().iter().cloned());
        for event in folder.events(identity) {
            lists.add(event);
        }
        if lists.events.is_empty()
            && !folder.is_empty()
            && let Some(identity) = identity
        {
            lists.notes.push(format!(
                "{}: none of the {} lists is for this CPU, {identity}",
                folder.path().display(),
                folder.len()
            ));
        }
        Ok(lists)
    }

    /// Adds events, in their order.
    pub fn extend(&mut self, events: impl IntoIterator<Item = Listed>) {
        events.into_iter().for_each(|event| self.add(event));
    }

    /// The same event may stand in several lists.
    fn add(&mut self, event: Listed) {
        let of_name = self.events.entry(event.name.to_ascii_lowercase()).or_default();
        if !of_name.iter().any(|known| known.counts_like(&event)) {
            of_name.push(event);
        }
    }

    /// Events of this name, in any case; one for each unit that has it.
    #[must_use]
    pub fn named(&self, name: &str) -> &[Listed] {
        self.events.get(&name.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// All events, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Listed> {
        self.events.values().flatten()
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// What could not be read or was left out: a sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
