//! Names for frames that had none where they were recorded: a stripped program there, its debug file here.
//!
//! ```text
//!  v1/frames/date=… ─► builds with frames without a name, some at a time
//!                        └─► their distinct offsets ─► symbols, one build after another ─► what came of each module
//!                                                         │
//!  day by day: frames without a name, in order ───────────┴─► rows with names ─► staging ─► v1/stacks, then v1/frames
//! ```
//! Rows are only added: a stack keeps its number whatever is known of it, and readers take one row of each stack and frame,
//! with a name where any has one. So agents may deliver, readers may ask, and days may be merged meanwhile. Stacks come
//! first: killed in between, the next run finds the frames without names, and adds them.
//!
//! Names are looked for day by day as a question sees them: a reader that asks about one day opens the files of that day
//! only.
//!
//! In memory are the distinct offsets of some builds with their symbols, and the rows of one file; never samples.

#![forbid(unsafe_code)]

mod missing;
mod names;
mod staging;

use std::path::{Path, PathBuf};

use pmuscope_dataset::{Dataset, DatasetError, FrameRow, StackRow, Timestamp};
use pmuscope_query::{Engine, QueryError};
use pmuscope_symbols::{State, Symbolizer};

use crate::missing::{MOST_MODULES, Missing, UnnamedBuild};
use crate::names::BuildNames;
use crate::staging::RowFiles;

/// Distinct addresses that are looked up before rows are written: some 200 bytes each. A build with more is looked up
/// alone.
const ADDRESSES: u64 = 1 << 20;
/// A build with more is not looked up: no program has as many places that samples are taken in.
const MOST_ADDRESSES: u64 = 1 << 22;
/// Builds that are looked up before rows are written: they are named in the text of a query.
const BUILDS: usize = 500;

/// What cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolizationError {
    /// The dataset cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Rows cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A file that was just written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// More modules than a fleet has.
    #[error(
        "more than {MOST_MODULES} modules have frames without a name. Try: a shorter time, with --since and --until"
    )]
    TooManyModules,
}

/// Which days: those of a time, as questions take them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayRange {
    /// The day of this time is the first.
    pub since: Option<Timestamp>,
    /// The day of this time is the last.
    pub until: Option<Timestamp>,
}

/// What came of a module.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleOutcome {
    /// Build id, hexadecimal, as in the dataset.
    pub build_id: String,
    /// Path where it ran.
    pub module: String,
    /// Distinct offsets of frames without a name.
    pub addresses: u64,
    /// Those of them that have one now.
    pub named: u64,
    /// Whether symbols could be had, and why not.
    pub state: State,
    /// The file with the symbols.
    pub file: Option<PathBuf>,
}

/// What came of all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Symbolized {
    /// Modules, by build id and path.
    pub modules: Vec<ModuleOutcome>,
    /// Files that were delivered.
    pub files: u64,
}

/// Looks up names for all frames of these days that have none, and adds the rows that have them: files are made in
/// `staging`, an empty folder, and handed to `deliver` with their paths within a dataset. Without a folder nothing is
/// written.
///
/// # Errors
/// What cannot be read or written, and those of `deliver`. What was delivered before is there, and as it should be.
pub fn symbolize<E: From<SymbolizationError> + From<QueryError>>(
    engine: &Engine,
    days: DayRange,
    symbolizer: &mut Symbolizer,
    staging: Option<&Path>,
    mut deliver: impl FnMut(&Path, &Path) -> Result<(), E>,
) -> Result<Symbolized, E> {
    let missing = Missing { engine, days };
    let mut all = Symbolized::default();
    let builds = missing.builds()?;
    for batch in batches(&builds) {
        let offsets = missing.offsets(batch)?;
        let names = BuildNames::look_up(batch, &offsets, symbolizer);
        all.modules.extend(names.outcomes().cloned());
        let Some(folder) = staging.filter(|_| names.has_any()) else { continue };
        for day in missing.days_of(&names)? {
            all.files += name_day(&missing, &names, &day, &Dataset::new(folder), &mut deliver)?;
        }
    }
    Ok(all)
}

/// Builds in groups that are looked up together.
fn batches(builds: &[UnnamedBuild]) -> impl Iterator<Item = &[UnnamedBuild]> {
    let mut rest = builds;
    std::iter::from_fn(move || {
        let mut addresses = 0_u64;
        let fits = |build: &&UnnamedBuild| {
            addresses = addresses.saturating_add(build.addresses());
            addresses <= ADDRESSES
        };
        let fitting = rest.iter().take(BUILDS).take_while(fits).count();
        let (batch, others) = rest.split_at(fitting.max(1).min(rest.len()));
        rest = others;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Delivers the rows of a day that have names now; returns the number of files.
fn name_day<E: From<SymbolizationError> + From<QueryError>>(
    missing: &Missing<'_>,
    names: &BuildNames,
    day: &str,
    staging: &Dataset,
    deliver: &mut impl FnMut(&Path, &Path) -> Result<(), E>,
) -> Result<u64, E> {
    let Some(when) = midnight(day) else { return Ok(0) };
    let mut stacks = RowFiles::<StackRow>::new(staging, when);
    missing.each_leaf(names, day, |leaf, row| {
        let Some(symbol) = names.get(leaf) else { return Ok(()) };
        stacks.add([StackRow { leaf: Some(symbol.innermost().clone()), ..row }])
    })?;
    let mut files = stacks.finish()?;
    let mut frames = RowFiles::<FrameRow>::new(staging, when);
    missing.each_frame(names, day, |place, row| {
        let Some(symbol) = names.get(place) else { return Ok(()) };
        frames.add(names::frames(symbol, &row))
    })?;
    files.extend(frames.finish()?);
    for file in &files {
        let path = file.strip_prefix(staging.root()).unwrap_or(file);
        deliver(file, path)?;
        let failed = |source| SymbolizationError::Io { path: file.clone(), source };
        std::fs::remove_file(file).map_err(failed)?;
    }
    Ok(files.len() as u64)
}

/// When a day begins, from the name of its folder.
fn midnight(day: &str) -> Option<Timestamp> {
    let day: chrono::NaiveDate = day.parse().ok()?;
    Some(Timestamp(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::missing::UnnamedModule;

    #[test]
    fn builds_are_looked_up_together_until_they_have_many_addresses() {
        let build = |addresses: u64| UnnamedBuild {
            build_id: String::new(),
            modules: vec![UnnamedModule { path: String::new(), addresses }],
        };
        let sizes = |of: &[u64]| -> Vec<usize> {
            let builds: Vec<UnnamedBuild> = of.iter().copied().map(build).collect();
            batches(&builds).map(<[_]>::len).collect()
        };
        let most = ADDRESSES;
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[1, 2, 3]), [3]);
        assert_eq!(sizes(&[most, 1, most - 1, 1]), [1, 2, 1]);
        assert_eq!(sizes(&[u64::MAX, u64::MAX]), [1, 1]);
        assert_eq!(sizes(&[1; 2 * BUILDS + 1]), [BUILDS, BUILDS, 1]);
    }

    #[test]
    fn days_are_those_of_folders() {
        assert_eq!(midnight("2025-11-25"), Some(Timestamp(1_764_028_800_000_000)));
        assert_eq!(midnight("__HIVE_DEFAULT_PARTITION__"), None);
    }
}
