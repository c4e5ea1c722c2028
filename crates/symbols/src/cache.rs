//! The cache of symbols that earlier runs found, by build ID.
//!
//! A build ID identifies the code of a file, so what was found for it once stays true, wherever
//! the file is now. It may be incomplete: without a debug file, functions or lines are missing. Each
//! cache file therefore lists where debug files were searched for in vain, and is ignored once there
//! is one. That an address has no name is true of the file that was read only: a stripped file has the build ID of
//! the one that it was made from. Such answers are used as long as the file at the recorded path is that one, or there is
//! none.
//!
//! Cache files are private (mode 0600, in a folder of 0700 that must be ours), replaced by renaming,
//! and used only if everything in them is consistent.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pmuscope_machine::{AtomicFile, Replace};

use crate::codec::{Stored, encode};
use crate::{BuildId, Options, Sources, Symbol};

/// A larger cache file is neither written nor read, bytes.
const LARGEST: u64 = 128 << 20;
/// All of them together; those not used for longest go first.
const ALL: u64 = 1 << 30;
/// Shorter build ids do not tell builds apart well enough, bytes.
const SHORTEST_ID: usize = 8;
/// How often it is noted that a file is in use.
const NOTED_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Age at which a file that was being written belongs to nobody any more.
const ABANDONED: Duration = Duration::from_secs(3600);
const SUFFIX: &str = "sym";
/// Raised when files have more names than earlier versions found in them, whose answers are then not used.
const ANSWERS: u8 = 1;

/// A folder of cache files.
#[derive(Debug, Clone)]
pub(crate) struct SymbolCache {
    folder: PathBuf,
    /// What is asked for and where it may come from: other answers are kept apart.
    variant: Vec<u8>,
}

/// What a cache file is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheKey {
    name: String,
    bytes: Vec<u8>,
}

impl SymbolCache {
    /// The cache in `folder`, which is made if need be; `None` if it cannot be used, or is not ours.
    pub(crate) fn open(folder: &Path, options: Options, sources: &Sources) -> Option<Self> {
        private_folder(folder)?;
        let mut variant = vec![u8::from(options.inlined), u8::from(sources.debuginfod), ANSWERS];
        for path in sources.symfs.iter().chain(&sources.debug_dirs) {
            variant.extend(path.as_os_str().as_encoded_bytes());
            variant.push(0);
        }
        Some(Self { folder: folder.to_path_buf(), variant })
    }

    /// The key of a file; `None` if its id does not tell builds apart.
    pub(crate) fn of_file(&self, id: &BuildId) -> Option<CacheKey> {
        self.key("file", id, &[])
    }

    /// The key of a file that has no build id: what the file system tells of it. It is good as long as
    /// the file is not touched; the time of its last change nobody can set. `None` if it is not there.
    pub(crate) fn of_path(&self, path: &Path) -> Option<CacheKey> {
        let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let mut bytes = [b"path", &[0][..], path.as_os_str().as_encoded_bytes(), &[0]].concat();
        bytes.extend(identity(&file));
        bytes.extend(&self.variant);
        let name = path.file_name()?.to_string_lossy();
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        let place = crc32fast::hash(path.as_os_str().as_encoded_bytes());
        let variant = crc32fast::hash(&self.variant);
        // One name per path: what is known of the file that was there before goes.
        let name = format!("path-{name}-{place:08x}-{variant:08x}.{SUFFIX}");
        Some(CacheKey { name, bytes })
    }

    /// The key of the kernel within one boot: its functions are where they are until the next.
    pub(crate) fn of_kernel(&self, id: &BuildId, boot: &str) -> Option<CacheKey> {
        self.key("kernel", id, boot.as_bytes())
    }

    fn key(&self, kind: &str, id: &BuildId, more: &[u8]) -> Option<CacheKey> {
        let id = id.significant();
        if id.len() < SHORTEST_ID {
            return None;
        }
        let mut bytes = [kind.as_bytes(), &[0], id, &[0], more, &[0]].concat();
        bytes.extend(&self.variant);
        // The name need not be unique, as the key is in the file; it has to be without surprises.
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{kind}-{hex}-{:08x}.{SUFFIX}", crc32fast::hash(&bytes));
        Some(CacheKey { name, bytes })
    }

    /// What is known for `key`; `None` if nothing is, or if there may be better by now.
    pub(crate) fn load(&self, key: &CacheKey) -> Option<Stored> {
        let path = self.folder.join(&key.name);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(
                (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32
            )
            .open(&path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return None;
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        (&file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        let stored = Stored::open(bytes, &key.bytes)?;
        if stored.absent().any(|path| path.exists()) {
            return None;
        }
        let old = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        if old.is_some_and(|age| age > NOTED_EVERY) {
            // If it fails the file goes earlier than it could; no harm.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(stored)
    }

    /// Keeps `symbols`, by ascending address. A cache that cannot be written is no cache: the answer
    /// is there all the same.
    pub(crate) fn store<'a>(
        &self,
        key: &CacheKey,
        symbols: impl Iterator<Item = (u64, Option<&'a Symbol>)>,
        absent: &[PathBuf],
        origin: &[u8],
    ) -> Option<()> {
        let bytes = encode(&key.bytes, symbols, absent, origin)?;
        if bytes.len() as u64 > LARGEST {
            return None;
        }
        let mut file =
            AtomicFile::create(&self.folder.join(&key.name), 0o600, Replace::Anything).ok()?;
        file.write_all(&bytes).ok()?;
        file.finish().ok()
    }

    /// Removes what was not used for longest until all is within bounds.
    pub(crate) fn tidy(&self) {
        let _ = tidy(&self.folder, SUFFIX, ALL);
    }
}

/// Identity of a file: device, inode, size, and times of the last change, 8 bytes each. A replaced file has another one.
pub(crate) fn identity(file: &fs::Metadata) -> Vec<u8> {
    let numbers = [file.dev(), file.ino(), file.len()].map(u64::to_le_bytes);
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    numbers.concat().into_iter().chain(times.map(i64::to_le_bytes).concat()).collect()
}

/// Makes the folder if need be; `None` if it is not ours alone: whoever else may write here could give functions other
/// names.
pub(crate) fn private_folder(folder: &Path) -> Option<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    let metadata = fs::metadata(folder).ok()?;
    let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    (ours && metadata.mode() & 0o022 == 0).then_some(())
}

/// Removes files with the suffix `wanted`, those modified earliest first, until no more than `most` bytes are left.
pub(crate) fn tidy(folder: &Path, wanted: &str, most: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let (path, metadata) = (entry.path(), entry.metadata()?);
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some(suffix) if suffix == wanted && metadata.is_file() => {
                files.push((age, metadata.len(), path));
            }
            Some("part") if age > ABANDONED => fs::remove_file(path)?,
            _ => {}
        }
    }
    files.sort();
    let mut sum = 0_u64;
    for (_, size, path) in files {
        sum = sum.saturating_add(size);
        if sum > most {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Where symbols of this user are kept: in `symbols` of [`pmuscope_machine::user_cache`].
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    Some(pmuscope_machine::user_cache()?.join("symbols"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const OPTIONS: Options = Options { inlined: false };

    fn cache(folder: &Path) -> SymbolCache {
        SymbolCache::open(folder, OPTIONS, &Sources::default()).unwrap()
    }

    fn id() -> BuildId {
        BuildId::new(&[7; 20]).unwrap()
    }

    fn put(cache: &SymbolCache, name: &str, absent: &[PathBuf]) -> CacheKey {
        let key = cache.of_file(&id()).unwrap();
        let symbol = Symbol::named(name.into());
        cache.store(&key, [(1, Some(&symbol)), (2, None)].into_iter(), absent, &[]).unwrap();
        key
    }

    #[test]
    fn what_is_kept_is_found_and_only_ours_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir.path().join("deep/symbols"));
        let key = put(&cache, "main", &[]);
        let stored = cache.load(&key).unwrap();
        assert_eq!(stored.reader().get(1), Some(Some(Symbol::named("main".into()).into())));
        assert_eq!(stored.reader().get(2), Some(None));
        assert_eq!(stored.reader().get(3), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&cache.folder.join(&key.name)), 0o600);
        assert_eq!(mode(&cache.folder), 0o700);
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_file_that_appears_makes_the_cache_ask_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir.path().join("symbols"));
        let better = dir.path().join("xz.debug");
        let key = put(&cache, "main", std::slice::from_ref(&better));
        assert!(cache.load(&key).is_some());
        fs::write(&better, "").unwrap();
        assert!(cache.load(&key).is_none());
    }

    #[test]
    fn what_is_asked_differently_is_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let plain = cache(dir.path());
        let inlined =
            SymbolCache::open(dir.path(), Options { inlined: true }, &Sources::default()).unwrap();
        let key = put(&plain, "main", &[]);
        assert!(plain.load(&key).is_some());
        assert_ne!(inlined.of_file(&id()), Some(key));
        assert_eq!(plain.of_file(&BuildId::new(&[1, 2, 3]).unwrap()), None);
        // A padded id is the same build.
        let mut padded = [0; 20];
        padded[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let (short, padded) = (BuildId::new(&padded[..8]).unwrap(), BuildId::new(&padded).unwrap());
        assert_eq!(plain.of_file(&short), plain.of_file(&padded));
    }

    #[test]
    fn a_file_without_an_id_is_known_until_it_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir.path().join("symbols"));
        let path = dir.path().join("program");
        assert_eq!(cache.of_path(&path), None);
        fs::write(&path, "one").unwrap();
        let before = cache.of_path(&path).unwrap();
        assert_eq!(cache.of_path(&path), Some(before.clone()));
        // The same size and time, another file.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(dir.path().join("other"), "two").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let after = cache.of_path(&path).unwrap();
        assert_ne!(after, before);
        assert_eq!(after.name, before.name, "it takes the place of what is of no use any more");
        assert_eq!(cache.of_path(dir.path()), None);
    }

    #[test]
    fn foreign_folders_links_and_damaged_files_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("symbols");
        let cache = cache(&folder);
        let key = put(&cache, "main", &[]);
        let path = folder.join(&key.name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        assert!(cache.load(&key).is_none());
        put(&cache, "main", &[]);
        assert!(cache.load(&key).is_some(), "written anew");
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(cache.load(&key).is_none());

        let open = |folder: &Path| SymbolCache::open(folder, OPTIONS, &Sources::default());
        let shared = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&folder, shared).unwrap();
        assert!(open(&folder).is_none());
        assert!(open(&elsewhere).is_none(), "no folder");
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, days: u64| {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
        };
        make("a.sym", 3);
        make("b.sym", 1);
        make("c.sym", 2);
        make("a.sym.1-0.part", 1);
        make("other", 9);
        tidy(dir.path(), SUFFIX, 250).unwrap();
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["b.sym", "c.sym", "other"]);
    }
}
