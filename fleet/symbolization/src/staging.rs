//! Rows on their way: files with a bound, each called after its contents.

use std::fs::File;
use std::path::PathBuf;

use pmuscope_dataset::{Dataset, TableRow, Timestamp};

use crate::SymbolizationError;

/// Rows of a file: some 200 bytes each until it is written.
const ROWS: usize = 1 << 18;

/// Files of a table's rows in the making.
pub(crate) struct RowFiles<'a, T> {
    dataset: &'a Dataset,
    when: Timestamp,
    rows: Vec<T>,
    written: Vec<PathBuf>,
}

impl<'a, T: TableRow> RowFiles<'a, T> {
    /// For the day of `when`; none yet.
    pub(crate) fn new(dataset: &'a Dataset, when: Timestamp) -> Self {
        Self { dataset, when, rows: Vec::new(), written: Vec::new() }
    }

    /// Adds rows, in the order of the table.
    pub(crate) fn add(
        &mut self,
        rows: impl IntoIterator<Item = T>,
    ) -> Result<(), SymbolizationError> {
        self.rows.extend(rows);
        if self.rows.len() >= ROWS { self.write() } else { Ok(()) }
    }

    /// The files.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>, SymbolizationError> {
        self.write()?;
        Ok(self.written)
    }

    /// Writes the rows so far to a file. Called after its contents, it is there once if it is delivered twice.
    fn write(&mut self) -> Result<(), SymbolizationError> {
        let rows = std::mem::take(&mut self.rows);
        let Some(path) = self.dataset.write(rows, self.when, "new")? else { return Ok(()) };
        let failed = |source| SymbolizationError::Io { path: path.clone(), source };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(&path).map_err(failed)?).map_err(failed)?;
        let name = format!("symbols-{}.parquet", &hasher.finalize().to_hex()[..16]);
        let named = path.with_file_name(name);
        std::fs::rename(&path, &named).map_err(failed)?;
        self.written.push(named);
        Ok(())
    }
}
