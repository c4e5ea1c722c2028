//! Which frames have no names: the questions to the dataset.

use std::sync::Arc;

use pmuscope_dataset::{FrameRow, StackRow, Timestamp};
use pmuscope_query::{Dialect, Engine, QueryError, ResultRows};
use rustc_hash::FxHashMap;

use crate::names::{BuildNames, CodePlace};
use crate::{DayRange, MOST_ADDRESSES, SymbolizationError};

/// Modules with frames without a name at most.
pub(crate) const MOST_MODULES: usize = 1 << 18;

/// A build with frames without a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnnamedBuild {
    /// As in the dataset.
    pub(crate) build_id: String,
    /// By path.
    pub(crate) modules: Vec<UnnamedModule>,
}

/// A path at which a build ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnnamedModule {
    pub(crate) path: String,
    /// Distinct offsets of frames without a name.
    pub(crate) addresses: u64,
}

impl UnnamedBuild {
    /// Addresses of all its paths.
    pub(crate) fn addresses(&self) -> u64 {
        self.modules.iter().fold(0, |sum, module| sum.saturating_add(module.addresses))
    }

    /// Whether it has more addresses than a program can have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.addresses() > MOST_ADDRESSES
    }
}

/// Distinct offsets by build id and path, ascending.
pub(crate) type Offsets = FxHashMap<String, FxHashMap<String, Vec<u64>>>;

/// Frames without a name.
pub(crate) struct Missing<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) days: DayRange,
}

impl Missing<'_> {
    /// Builds with such frames, by their ids.
    pub(crate) fn builds(&self) -> Result<Vec<UnnamedBuild>, SymbolizationError> {
        let sql = format!(
            "SELECT build_id, module, count(*) AS addresses FROM (\n{}\n) AS distinct_offsets\n\
             GROUP BY build_id, module ORDER BY build_id, module LIMIT {}",
            distinct(&self.frames(&[])),
            MOST_MODULES + 1
        );
        let rows = self.engine.rows(&sql)?;
        let (ids, paths) = (rows.texts("build_id")?, rows.texts("module")?);
        if ids.len() > MOST_MODULES {
            return Err(SymbolizationError::TooManyModules);
        }
        let mut builds: Vec<UnnamedBuild> = Vec::new();
        let rows = ids.into_iter().zip(paths).zip(rows.numbers("addresses")?);
        for ((build_id, path), addresses) in rows {
            let module = UnnamedModule { path, addresses: addresses.unsigned_abs() };
            match builds.last_mut() {
                Some(last) if last.build_id == build_id => last.modules.push(module),
                _ => builds.push(UnnamedBuild { build_id, modules: vec![module] }),
            }
        }
        Ok(builds)
    }

    /// The offsets of these builds.
    pub(crate) fn offsets(&self, builds: &[UnnamedBuild]) -> Result<Offsets, QueryError> {
        let wanted = builds.iter().filter(|build| !build.is_too_large());
        let ids: Vec<&str> = wanted.map(|build| &*build.build_id).collect();
        let mut all = Offsets::default();
        if ids.is_empty() {
            return Ok(all);
        }
        let of = distinct(&self.frames(&[of_builds(&ids)]));
        let sql = format!("SELECT * FROM (\n{of}\n) AS offsets ORDER BY build_id, module, address");
        self.engine.each_rows(&sql, |rows| {
            let (ids, paths) = (rows.texts("build_id")?, rows.texts("module")?);
            for ((id, path), address) in ids.into_iter().zip(paths).zip(rows.numbers("address")?) {
                let offsets = all.entry(id).or_default().entry(path).or_default();
                // What is delivered meanwhile is for the next run, if it is more than memory is for.
                if offsets.len() < MOST_ADDRESSES as usize {
                    offsets.push(address.cast_unsigned());
                }
            }
            Ok::<(), QueryError>(())
        })?;
        Ok(all)
    }

    /// The days on which builds with names have such frames, as folders have them.
    pub(crate) fn days_of(&self, names: &BuildNames) -> Result<Vec<String>, QueryError> {
        let of = self.frames(&[of_builds(&names.builds_with_names())]);
        let sql = format!("SELECT date FROM (\n{of}\n) AS frames GROUP BY date ORDER BY date");
        self.engine.rows(&sql)?.texts("date")
    }

    /// The frames of a day and of builds with names, as rows without one, in the order of their table.
    pub(crate) fn each_frame(
        &self,
        names: &BuildNames,
        day: &str,
        mut take: impl FnMut(CodePlace<'_>, FrameRow) -> Result<(), SymbolizationError>,
    ) -> Result<(), SymbolizationError> {
        let of = self.frames(&[of_day(day), of_builds(&names.builds_with_names())]);
        let sql = format!("SELECT * FROM (\n{of}\n) AS frames ORDER BY stack_id, depth");
        self.engine.each_rows(&sql, |rows| {
            let mut texts = SharedTexts::default();
            let (places, depths) = (PlaceColumns::of(rows)?, rows.numbers("depth")?);
            for (at, depth) in depths.into_iter().enumerate() {
                let row = FrameRow {
                    stack_id: places.stack_ids[at],
                    depth,
                    build_id: Some(texts.share(&places.build_ids[at])),
                    address: Some(places.addresses[at]),
                    module: texts.share(&places.modules[at]),
                    ..FrameRow::default()
                };
                take(places.place(at), row)?;
            }
            Ok(())
        })
    }

    /// The stacks of a day whose innermost frame has no name, as rows without one, with that frame.
    pub(crate) fn each_leaf(
        &self,
        names: &BuildNames,
        day: &str,
        mut take: impl FnMut(CodePlace<'_>, StackRow) -> Result<(), SymbolizationError>,
    ) -> Result<(), SymbolizationError> {
        let leaf = "depth = 0".to_owned();
        let of = self.frames(&[of_day(day), of_builds(&names.builds_with_names()), leaf]);
        let sql = format!(
            "SELECT f.stack_id AS stack_id, f.build_id AS build_id, f.module AS module, f.address AS address,\n\
             s.digest AS digest, s.leaf_module AS leaf_module, s.frames AS frames\n\
             FROM (\n{of}\n) AS f\nJOIN (\n\
             SELECT stack_id, max(digest) AS digest, max(leaf_module) AS leaf_module, max(depth) AS frames\n\
             FROM stacks_files WHERE {} GROUP BY stack_id HAVING max(leaf) IS NULL\n\
             ) AS s ON s.stack_id = f.stack_id ORDER BY stack_id",
            of_day(day)
        );
        self.engine.each_rows(&sql, |rows| {
            let mut texts = SharedTexts::default();
            let (places, depths) = (PlaceColumns::of(rows)?, rows.numbers("frames")?);
            let (digests, modules) = (rows.texts("digest")?, rows.texts("leaf_module")?);
            for (at, digest) in digests.into_iter().enumerate() {
                let row = StackRow {
                    stack_id: places.stack_ids[at],
                    digest: digest.into(),
                    leaf: None,
                    leaf_module: texts.share(&modules[at]),
                    depth: depths[at],
                };
                take(places.place(at), row)?;
            }
            Ok(())
        })
    }

    /// Frames in files with a build id that have no name on their day: one row of each, whatever the number of files
    /// that have it. The kernel's addresses differ from boot to boot; its modules have names in brackets.
    fn frames(&self, more: &[String]) -> String {
        let mut wanted = vec![
            "inline_depth = 0".to_owned(),
            "build_id IS NOT NULL".to_owned(),
            "address >= 0".to_owned(),
            "module NOT LIKE '[%'".to_owned(),
        ];
        for (sign, time) in [(">=", self.days.since), ("<=", self.days.until)] {
            wanted.extend(time.map(|time| format!("date {sign} {}", text(&day(time)))));
        }
        wanted.extend_from_slice(more);
        format!(
            "SELECT date, stack_id, depth, max(build_id) AS build_id, max(module) AS module, max(address) AS address\n\
             FROM frames_files WHERE {}\nGROUP BY date, stack_id, depth HAVING max(function) IS NULL",
            wanted.join(" AND ")
        )
    }
}

/// What frames and stacks have in common.
struct PlaceColumns {
    stack_ids: Vec<i64>,
    build_ids: Vec<String>,
    modules: Vec<String>,
    addresses: Vec<i64>,
}

impl PlaceColumns {
    fn of(rows: &ResultRows) -> Result<Self, QueryError> {
        Ok(Self {
            stack_ids: rows.numbers("stack_id")?,
            build_ids: rows.texts("build_id")?,
            modules: rows.texts("module")?,
            addresses: rows.numbers("address")?,
        })
    }

    fn place(&self, at: usize) -> CodePlace<'_> {
        CodePlace { build_id: &self.build_ids[at], offset: self.addresses[at].cast_unsigned() }
    }
}

/// Texts that many rows have, each once.
#[derive(Default)]
struct SharedTexts(FxHashMap<String, Arc<str>>);

impl SharedTexts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = text.into();
        self.0.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }
}

fn distinct(frames: &str) -> String {
    format!("SELECT DISTINCT build_id, module, address FROM (\n{frames}\n) AS frames")
}

fn text(text: &str) -> String {
    Dialect::DataFusion.text(text)
}

fn of_day(day: &str) -> String {
    format!("date = {}", text(day))
}

fn of_builds(ids: &[&str]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| text(id)).collect();
    format!("build_id IN ({})", ids.join(", "))
}

/// The day of a time, UTC, as folders have it.
fn day(time: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_micros(time.0).unwrap_or_default();
    time.format("%Y-%m-%d").to_string()
}
