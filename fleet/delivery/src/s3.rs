//! An object store that files are delivered to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmuscope_dataset::S3Location;
use pmuscope_store::{PutOutcome, S3Store};
use tokio::runtime::Runtime;

use crate::SinkError;

/// How long a file may take: the store is asked again with the next bin, and recording waits for the answer.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A part of a bucket that files are delivered to.
#[derive(Debug)]
pub struct S3Sink {
    location: S3Location,
    store: S3Store,
    runtime: Runtime,
}

impl S3Sink {
    /// Delivers to this part of a bucket, which has to be there, at this URL where it is not Amazon's.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn new(location: &S3Location, endpoint: Option<&str>) -> Result<Self, SinkError> {
        let store = S3Store::open(location, endpoint, GIVE_UP)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let failed = |source| SinkError::Io { path: PathBuf::from(location.to_string()), source };
        Ok(Self { location: location.clone(), store, runtime: runtime.map_err(failed)? })
    }

    /// Delivers `source` as `path` below the location; does nothing if it was delivered before.
    ///
    /// # Errors
    /// [`SinkError`]; there is no object of that name then, or another one.
    pub fn deliver(&self, source: &Path, path: &Path) -> Result<(), SinkError> {
        let failed = |error| SinkError::Io { path: source.to_owned(), source: error };
        let bytes = fs::read(source).map_err(failed)?;
        let path = path.to_string_lossy();
        self.runtime.block_on(async {
            match self.store.put_new(&path, bytes.clone()).await? {
                PutOutcome::Written => Ok(()),
                // Delivered before, and the answer was lost; or by another agent.
                PutOutcome::Taken if self.store.get(&path).await? == bytes => Ok(()),
                PutOutcome::Taken => Err(SinkError::Taken(format!("{}/{path}", self.location))),
            }
        })
    }
}
