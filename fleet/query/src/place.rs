//! A dataset that is there: where it lies, and which tables it has.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use pmuscope_dataset::{DatasetLocation, TABLES};
use pmuscope_store::S3Store;
use tokio::runtime::Runtime;
use url::Url;

use crate::engine::QueryError;

/// How long a store may take for an answer.
const GIVE_UP: Duration = Duration::from_secs(30);

/// A dataset that is there.
#[derive(Debug, Clone)]
pub struct FoundDataset {
    location: DatasetLocation,
    tables: BTreeSet<String>,
    store: Option<S3Store>,
}

impl FoundDataset {
    /// Looks which tables a dataset has.
    ///
    /// # Errors
    /// [`QueryError::NoDataset`] if it has no table; a store that does not answer.
    pub fn find(location: &DatasetLocation) -> Result<Self, QueryError> {
        let (tables, store) = match location {
            DatasetLocation::Folder(_) => {
                let is_there = |table: &&str| PathBuf::from(location.table(table)).is_dir();
                let names = TABLES.iter().map(|table| table.name).filter(is_there);
                (names.map(str::to_owned).collect(), None)
            }
            DatasetLocation::S3(place) => {
                let store = S3Store::open(place, None, GIVE_UP)?;
                let runtime = Runtime::new().map_err(QueryError::Start)?;
                (runtime.block_on(store.folders("v1"))?, Some(store))
            }
        };
        let found = Self { location: location.clone(), tables, store };
        if TABLES.iter().any(|table| found.has(table.name)) {
            Ok(found)
        } else {
            Err(QueryError::NoDataset(location.clone()))
        }
    }

    /// Whether a table has files.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// Where it lies.
    #[must_use]
    pub fn location(&self) -> &DatasetLocation {
        &self.location
    }

    /// Makes its files known to an engine.
    pub(crate) fn introduce(&self, context: &SessionContext) {
        let (DatasetLocation::S3(place), Some(store)) = (&self.location, &self.store) else {
            return;
        };
        if let Ok(url) = Url::parse(&format!("s3://{}", place.bucket())) {
            context.register_object_store(&url, store.client());
        }
    }
}
