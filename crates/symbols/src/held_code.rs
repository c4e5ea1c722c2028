//! Perf maps of containers, which go with them: their folder is held open while the process may write its map.
//!
//! ```text
//!  process 1234, in its container 7     /proc/1234/root/tmp  ──► held ──► at the end: perf-7.map in it ──► copy
//! ```
//!
//! What lies in a container is hostile: no link is followed in that folder, only a regular file is read, its size is
//! bounded, and one that is older than the process is another one's.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::cache::user_cache;
use crate::code_origin::{is_older, start_of_running};
use crate::foreign::{LONGEST, open_folder, open_in, within};
use crate::{PerfMap, kept, namespaces};

/// Where runtimes write their maps.
const FOLDER: &str = "/tmp";
/// A larger map is not copied, bytes: it has some million functions.
const LARGEST: u64 = 256 << 20;

/// The map that a process of another mount namespace may write.
#[derive(Debug, Clone)]
pub struct HeldCode {
    folder: Arc<File>,
    /// Device and inode of the folder.
    identity: (u64, u64),
    /// The process's id in its own namespace.
    inner: i32,
    started: Option<SystemTime>,
}

impl HeldCode {
    /// The map of process `pid`; `None` where it is in our own mount namespace, and where it cannot be looked at.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let (root, inner) = namespaces::of_process(i32::try_from(pid).ok()?)?;
        let folder = within(LONGEST, move || open_folder(&root, Path::new(FOLDER)))?.ok()?;
        let found = folder.metadata().ok()?;
        let identity = (found.dev(), found.ino());
        Some(Self { folder: folder.into(), identity, inner, started: start_of_running(pid) })
    }

    /// Takes the descriptor of another process that has the same folder, if one of `others` has; whether it does.
    pub fn share<'a>(&mut self, others: impl IntoIterator<Item = &'a Self>) -> bool {
        let same = others.into_iter().find(|other| other.identity == self.identity);
        same.map(|other| self.folder = Arc::clone(&other.folder)).is_some()
    }

    /// Path of the map, as the process sees it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PerfMap::path(self.inner)
    }

    /// Copies the map for reports, if there is one by now that this process wrote, of at most `most` bytes. Name and size of
    /// the copy, bytes.
    ///
    /// # Errors
    /// If it cannot be read, or the copy cannot be written.
    pub fn keep(&self, most: u64) -> io::Result<Option<(String, u64)>> {
        match user_cache() {
            Some(cache) => self.keep_in(most, &cache),
            None => Ok(None),
        }
    }

    fn keep_in(&self, most: u64, cache: &Path) -> io::Result<Option<(String, u64)>> {
        let (folder, name) = (Arc::clone(&self.folder), format!("perf-{}.map", self.inner));
        let file = within(LONGEST, move || open_in(&folder, &name))
            .unwrap_or(Err(io::ErrorKind::TimedOut.into()));
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let size = metadata.len();
        if size == 0 || size > most.min(LARGEST) || is_older(&metadata, self.started) {
            return Ok(None);
        }
        Ok(kept::keep_code(&file, cache)?.map(|copy| (copy, size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;

    /// A container's root with `/tmp`, and where copies go.
    struct Container(tempfile::TempDir);

    impl Container {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("root/tmp")).unwrap();
            Self(dir)
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn held(&self, started: SystemTime) -> HeldCode {
            let folder = open_folder(&self.at("root"), Path::new(FOLDER)).unwrap();
            let folder = Arc::new(folder);
            HeldCode { folder, identity: (0, 0), inner: 7, started: Some(started) }
        }

        /// What the copy of the map of process 7 holds.
        fn kept(&self, most: u64) -> Option<String> {
            let cache = self.at("cache");
            let (copy, size) = self.held(SystemTime::UNIX_EPOCH).keep_in(most, &cache).ok()??;
            let file = kept::place_of_copy(&cache, &copy).unwrap();
            let metadata = fs::metadata(&file).unwrap();
            assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (size, 0o600));
            Some(fs::read_to_string(file).unwrap())
        }
    }

    const MAP: &str = "root/tmp/perf-7.map";

    #[test]
    fn a_map_is_copied_privately_also_after_its_folder_is_gone() {
        let container = Container::new();
        assert_eq!(container.kept(100), None, "none is there yet");
        fs::write(container.at(MAP), "1000 10 f\n").unwrap();
        assert_eq!(container.kept(100).as_deref(), Some("1000 10 f\n"));
        let held = container.held(SystemTime::UNIX_EPOCH);
        fs::rename(container.at("root"), container.at("gone")).unwrap();
        assert!(held.keep_in(100, &container.at("cache")).unwrap().is_some());
    }

    #[test]
    fn a_map_is_bounded_and_an_older_one_is_of_another_process() {
        let container = Container::new();
        fs::write(container.at(MAP), "1000 10 f\n").unwrap();
        assert_eq!(container.kept(9), None);
        let later = container.held(SystemTime::now() + Duration::from_secs(60));
        assert_eq!(later.keep_in(100, &container.at("cache")).unwrap(), None);
        // A hole costs its writer nothing.
        fs::File::create(container.at(MAP)).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(container.kept(u64::MAX), None);
    }

    #[test]
    fn no_link_pipe_or_folder_is_taken_for_a_map() {
        let container = Container::new();
        fs::write(container.at("outside"), "host").unwrap();
        fs::write(container.at("root/tmp/inside"), "inside").unwrap();
        for to in [container.at("outside"), "../../outside".into(), "inside".into()] {
            symlink(&to, container.at(MAP)).unwrap();
            assert_eq!(container.kept(100), None, "{to:?}");
            fs::remove_file(container.at(MAP)).unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, container.at(MAP), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(container.kept(100), None);
        fs::remove_file(container.at(MAP)).unwrap();
        fs::create_dir(container.at(MAP)).unwrap();
        assert_eq!(container.kept(100), None);
    }

    #[test]
    fn a_link_for_the_folder_stays_in_the_root() {
        let container = Container::new();
        fs::remove_dir(container.at("root/tmp")).unwrap();
        fs::create_dir(container.at("elsewhere")).unwrap();
        symlink(container.at("elsewhere"), container.at("root/tmp")).unwrap();
        assert!(open_folder(&container.at("root"), Path::new(FOLDER)).is_err());
    }

    #[test]
    fn processes_with_one_folder_hold_it_once() {
        let (one, other) = (Container::new(), Container::new());
        let held = |container: &Container, identity| HeldCode {
            identity,
            ..container.held(SystemTime::UNIX_EPOCH)
        };
        let first = held(&one, (8, 1));
        let (mut second, mut third) = (held(&one, (8, 1)), held(&other, (8, 2)));
        assert!(second.share([&first]) && Arc::ptr_eq(&first.folder, &second.folder));
        assert!(!third.share([&first, &second]) && !Arc::ptr_eq(&first.folder, &third.folder));
    }

    #[test]
    fn processes_of_our_own_namespace_keep_their_maps_where_they_are() {
        assert!(HeldCode::of(std::process::id()).is_none());
        assert!(HeldCode::of(u32::MAX).is_none());
    }
}
