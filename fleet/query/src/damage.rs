//! Files that cannot be read: which one it is, and panics of readers that trusted it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pmuscope_dataset::{DatasetLocation, TABLES, day_files};

/// Files whose contents are read as a whole to find the one that is damaged; of more only the ends.
const READ: usize = 1000;

/// Files whose ends are looked at for [`UnreadableFiles`]: some 10 µs each, 1 ms on a server.
const LOOKED_AT: usize = 5_000;
/// Bytes at both ends of a Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

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

/// Files that no question can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadableFiles {
    /// The first one.
    pub first: Option<PathBuf>,
    /// Number of all.
    pub count: usize,
}

/// Files between two days, both included, whose ends are not those of a Parquet file: cut off, or overwritten. Of more than
/// 5,000 files, those of the latest days, as many of each table.
pub(crate) fn unreadable(
    location: &DatasetLocation,
    (first, last): &(Option<String>, Option<String>),
) -> UnreadableFiles {
    let mut found = UnreadableFiles::default();
    if !matches!(location, DatasetLocation::Folder(_)) {
        return found;
    }
    let is_asked = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str()?.strip_prefix("date="));
        name.is_some_and(|day| {
            first.as_deref().is_none_or(|first| day >= first)
                && last.as_deref().is_none_or(|last| day <= last)
        })
    };
    let folders = TABLES.iter().map(|table| PathBuf::from(location.table(table.name)));
    let mut days: BTreeMap<Reverse<OsString>, Vec<Vec<PathBuf>>> = BTreeMap::new();
    for day in folders.flat_map(|folder| entries(&folder)).filter(is_asked) {
        let name = day.file_name().unwrap_or_default().to_owned();
        let mut files = entries(&day);
        files.retain(|file| file.extension().is_some_and(|end| end == "parquet"));
        days.entry(Reverse(name)).or_default().push(files);
    }
    let files = days.into_values().flat_map(in_turn);
    for file in files.take(LOOKED_AT).filter(|file| !has_ends(file).unwrap_or(false)) {
        found.first.get_or_insert(file);
        found.count += 1;
    }
    found
}

/// The first of each list, then the second ones, and so on.
fn in_turn(lists: Vec<Vec<PathBuf>>) -> Vec<PathBuf> {
    let mut all: Vec<(usize, PathBuf)> =
        lists.into_iter().flat_map(|list| list.into_iter().enumerate()).collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, file)| file).collect()
}

/// What is in a folder, in the order of names; nothing where it cannot be read, which questions report.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Whether a file begins and ends as Parquet files do, and has room for what it says of itself. Readers pass over empty ones,
/// and one that is gone was merged meanwhile.
fn has_ends(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file?,
    };
    let length = file.metadata()?.len();
    if length < 12 {
        return Ok(length == 0);
    }
    let (mut start, mut end) = ([0; 4], [0; 8]);
    file.read_exact_at(&mut start, 0)?;
    file.read_exact_at(&mut end, length - 8)?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    Ok(start == *MAGIC && magic == *MAGIC && footer + 12 <= length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_off_or_overwritten_is_unreadable_and_an_empty_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let whole = [&MAGIC[..], &[0; 10], &10_u32.to_le_bytes(), MAGIC].concat();
        let files = [
            ("frames/date=2025-11-25/whole.parquet", whole.clone()),
            ("frames/date=2025-11-25/cut.parquet", whole[..15].to_vec()),
            ("stacks/date=2025-11-26/short.parquet", b"PAR1".to_vec()),
            ("stacks/date=2025-11-26/empty.parquet", Vec::new()),
            ("stacks/date=2025-11-26/.part", b"x".to_vec()),
            (
                "stacks/date=2025-11-27/large.parquet",
                [&whole[..14], &99_u32.to_le_bytes(), MAGIC].concat(),
            ),
        ];
        for (path, bytes) in files {
            let path = folder.path().join("v1").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let of = |first: Option<&str>, last: Option<&str>| {
            let days = (first.map(str::to_owned), last.map(str::to_owned));
            let found = unreadable(&folder.path().into(), &days);
            let name = found.first.map(|path| path.file_name().unwrap().to_owned());
            (name.map(|name| name.into_string().unwrap()), found.count)
        };
        assert_eq!(of(None, None), (Some("large.parquet".into()), 3));
        assert_eq!(of(None, Some("2025-11-26")), (Some("short.parquet".into()), 2));
        assert_eq!(of(None, Some("2025-11-25")), (Some("cut.parquet".into()), 1));
        assert_eq!(of(Some("2025-11-28"), None), (None, 0));
    }

    #[test]
    fn a_panic_is_a_message_whatever_it_carries() {
        let number: Result<(), String> = guarded(|| std::panic::panic_any(5));
        assert_eq!(number, Err("no message".to_owned()));
        let text: Result<(), String> = guarded(|| panic!("at {}", 7));
        assert_eq!(text, Err("at 7".to_owned()));
        assert_eq!(guarded(|| 3), Ok(3));
    }
}
