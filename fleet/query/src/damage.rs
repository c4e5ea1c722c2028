//! Files that cannot be read: which one it is, and panics of readers that trusted it.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pmuscope_dataset::{DatasetLocation, TABLES, day_files};

/// Files whose contents are read as a whole to find the one that is damaged; of more only the ends.
const READ: usize = 1000;

/// Calls of [`guarded`] that are under way.
static GUARDED: AtomicUsize = AtomicUsize::new(0);
static HOOK: Once = Once::new();

/// What `work` gives, or the message of its panic: readers of files may panic on bytes that nobody has written so. Nothing
/// is printed then.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Threads of the engine panic, too, not only the one that asks.
            if GUARDED.load(Ordering::Relaxed) == 0 {
                usual(info);
            }
        }));
    });
    GUARDED.fetch_add(1, Ordering::Relaxed);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.fetch_sub(1, Ordering::Relaxed);
    result.map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
        text.unwrap_or("no message").to_owned()
    })
}

/// The first file of a dataset that cannot be read, if one can be found. Not of an object store: all would be fetched.
pub(crate) fn damaged(location: &DatasetLocation) -> Option<PathBuf> {
    if !matches!(location, DatasetLocation::Folder(_)) {
        return None;
    }
    let folders = TABLES.iter().map(|table| PathBuf::from(location.table(table.name)));
    let files: Vec<PathBuf> = folders
        .flat_map(|folder| day_files(&folder).unwrap_or_default())
        .map(|file| file.path)
        .collect();
    let whole = files.len() <= READ;
    files.into_iter().find(|file| guarded(|| reads(file, whole)) != Ok(true))
}

/// Whether a file, or only its end, can be read.
fn reads(file: &Path, whole: bool) -> bool {
    let Ok(opened) = File::open(file) else { return false };
    let Ok(builder) = ParquetRecordBatchReaderBuilder::try_new(opened) else { return false };
    !whole || builder.build().is_ok_and(|mut reader| reader.all(|batch| batch.is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_message_whatever_it_carries() {
        let number: Result<(), String> = guarded(|| std::panic::panic_any(5));
        assert_eq!(number, Err("no message".to_owned()));
        let text: Result<(), String> = guarded(|| panic!("at {}", 7));
        assert_eq!(text, Err("at 7".to_owned()));
        assert_eq!(guarded(|| 3), Ok(3));
    }
}
