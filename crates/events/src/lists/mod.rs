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
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod index;
mod intel;
mod listed;
mod made_for;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use choose::{ArmKind, Identity};
pub use folder::{Folder, user_lists};
pub use import::{Imported, import};
pub use listed::{Listed, NotCountable, Precision};
pub use made_for::{MadeFor, Product};
pub use read::{List, read};

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
        "{}: {why}. Supported: event lists in JSON from Intel's perfmon, Arm's telemetry, and perf \
         list -j", path.display()
    )]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Its lists are for other CPUs.
    #[error(
        "{}: {why}. Try: a list for this CPU, the output of perf list -j on this machine, or --all \
         to keep it for other machines", path.display()
    )]
    OtherCpus {
        /// The folder or the file.
        path: PathBuf,
        /// This CPU, and what the lists are for.
        why: String,
    },
    /// There is nothing in it.
    #[error(
        "{}: it contains no events. Supported: event lists in JSON from Intel's perfmon, Arm's \
         telemetry, and perf list -j, in files that end in .json", .0.display()
    )]
    Empty(PathBuf),
    /// More than this version reads.
    #[error("{}: {what}, too large for an event list", path.display())]
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
    /// Lists for other CPUs; their events are read only when somebody asks.
    others: Option<Arc<Others>>,
}

/// Lists that are not for this CPU.
#[derive(Debug)]
struct Others {
    folder: Folder,
    identity: Identity,
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
        let Some(identity) = identity else { return Ok(lists) };
        if lists.events.is_empty() && !folder.is_empty() {
            let (place, lists_of) = (folder.path().display(), none_is_for(&folder, identity));
            lists.notes.push(format!("{place}: {lists_of}"));
        }
        lists.others = Some(Arc::new(Others { folder, identity: identity.clone() }));
        Ok(lists)
    }

    /// Events that only lists for other CPUs have, each with the CPUs that these are for. All of those lists
    /// are read for it.
    #[must_use]
    pub fn of_other_cpus(&self) -> Vec<(Listed, String)> {
        let Some(others) = &self.others else { return Vec::new() };
        let mut found: BTreeMap<String, (Listed, BTreeSet<String>)> = BTreeMap::new();
        for (file, made_for) in others.folder.left_out(&others.identity) {
            for event in others.folder.events_of(file, None) {
                let key = event.name.to_ascii_lowercase();
                if !self.events.contains_key(&key) {
                    let of_name = found.entry(key).or_insert_with(|| (event, BTreeSet::new()));
                    of_name.1.insert(made_for.clone());
                }
            }
        }
        found.into_values().map(|(event, cpus)| (event, few(cpus))).collect()
    }

    /// What lists with an event of this name are for, and this CPU, where only lists for other CPUs have it.
    #[must_use]
    pub fn only_for(&self, name: &str) -> Option<(String, String)> {
        let mut all = self.of_other_cpus().into_iter();
        let (_, cpus) = all.find(|(event, _)| event.name.eq_ignore_ascii_case(name))?;
        Some((cpus, self.cpu()?))
    }

    /// The CPU that these lists were chosen for.
    #[must_use]
    pub fn cpu(&self) -> Option<String> {
        self.others.as_ref().map(|others| others.identity.to_string())
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

/// Why no list of a folder is for a CPU: what the CPU is, and what the lists are for.
fn none_is_for(folder: &Folder, identity: &Identity) -> String {
    let cpus: BTreeSet<String> =
        folder.left_out(identity).into_iter().map(|(_, made_for)| made_for).collect();
    let subject = match folder.len() {
        1 => "the list is not for this CPU".to_owned(),
        number => format!("none of its {number} lists is for this CPU"),
    };
    format!("{subject} ({identity}), only for {}", few(cpus))
}

/// Names of CPUs in a sentence: of many the first ones, and how many more.
fn few(cpus: BTreeSet<String>) -> String {
    const NAMED: usize = 3;
    let more = cpus.len().saturating_sub(NAMED);
    let named: Vec<String> = cpus.into_iter().take(NAMED).collect();
    match more {
        0 => named.join(", "),
        _ => format!("{} and {more} others", named.join(", ")),
    }
}
