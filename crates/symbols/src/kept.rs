//! Copies of programs that will not be at their paths when a recording is read: a container may be gone, a file
//! deleted or replaced.
//!
//! ```text
//!  hold: open, through the process ──► at its path at the end? ──► yes: nothing to do
//!                                                             └──► no: copy
//! ```
//!
//! They lie in the folder of the symbol cache, private as that is. One with a build ID has that for its name and is used only
//! if it has this id; one without is named by its numbers and times, and the recording says which it is.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmuscope_machine::{AtomicFile, Replace};
use rustix::fs::OFlags;

use crate::build_id::build_id_of;
use crate::cache::{private_folder, tidy, user_cache};
use crate::foreign::{LARGEST, open, open_debug_file, within};
use crate::locate::as_named_before_deletion;
use crate::{BuildId, ModuleFile, read_build_id};

/// All copies together, bytes; the oldest are removed first.
const ALL: u64 = 1 << 30;
/// Of all copies, also of those that are no ELF files, as one bound holds for all.
const SUFFIX: &str = "elf";
/// A file system in user space can let a reader wait forever.
const LONGEST_COPY: Duration = Duration::from_secs(60);

/// Where the copy of a file is or would be, below the folder of the symbol cache.
pub(crate) fn place(cache: &Path, id: &BuildId) -> PathBuf {
    folder(cache).join(format!("{id}.{SUFFIX}"))
}

/// The same of a file without build ID, by the name of its copy; `None` for names that no copy has.
pub(crate) fn place_of_copy(cache: &Path, copy: &str) -> Option<PathBuf> {
    let is_plain = copy.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_plain && !copy.is_empty()).then(|| folder(cache).join(format!("{copy}.{SUFFIX}")))
}

/// Where the copy of the debug file of a copied file is or would be.
fn debug_place(copy: &Path) -> PathBuf {
    copy.with_extension(format!("debug.{SUFFIX}"))
}

/// The same of a file that was read; `None` if that is no copy.
pub(crate) fn debug_place_of_copy(cache: &Path, file: &Path) -> Option<PathBuf> {
    (file.parent() == Some(&*folder(cache))).then(|| debug_place(file))
}

fn folder(cache: &Path) -> PathBuf {
    cache.join("files")
}

/// Device, inode, size and time of the last modification, in hexadecimal digits.
fn name_of_copy(file: &Metadata) -> String {
    let time = file.mtime().unsigned_abs() * 1_000_000_000 + file.mtime_nsec().unsigned_abs();
    format!("{:x}-{:x}-{:x}-{time:x}", file.dev(), file.ino(), file.size())
}

/// A file that a process mapped, open as long as it may have to be copied.
#[derive(Debug)]
pub struct HeldFile {
    file: File,
    path: PathBuf,
    build_id: Option<BuildId>,
    /// Its separate debug file, if it is in a container.
    debug: Option<File>,
}

impl HeldFile {
    /// Opens `file`, which process `pid` has mapped: through the process, else at its path. `None` if it is at neither.
    #[must_use]
    pub fn open(pid: u32, file: ModuleFile<'_>) -> Option<Self> {
        let path = as_named_before_deletion(file.path);
        let at_path = || {
            // A pipe in its place would let us wait.
            let flags = OFlags::NONBLOCK.bits() as i32;
            let opened = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
            let found = opened.metadata().ok().filter(Metadata::is_file)?;
            let inode = file.mapped.and_then(|mapped| mapped.inode);
            let is_it = match (file.build_id, inode) {
                (Some(id), _) => build_id_of(opened.try_clone().ok()?)
                    .ok()?
                    .is_some_and(|own| own.same_build(id)),
                (None, Some(inode)) => inode.number == found.ino(),
                (None, None) => false,
            };
            is_it.then_some(opened)
        };
        let opened = i32::try_from(pid).ok().and_then(|pid| open(pid, file)).or_else(at_path)?;
        let own = opened.try_clone().ok().and_then(|file| build_id_of(file).ok().flatten());
        let build_id = file.build_id.cloned().or(own);
        let debug = open_debug_file(pid, &opened, path, build_id.as_ref());
        Some(Self { file: opened, path: path.to_owned(), build_id, debug })
    }

    /// Its build ID, if it has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Size in bytes, with its debug file; 0 if that cannot be determined.
    #[must_use]
    pub fn size(&self) -> u64 {
        let size = |file: &File| file.metadata().map_or(0, |file| file.len());
        size(&self.file).saturating_add(self.debug.as_ref().map_or(0, size))
    }

    /// Whether this very file, or another one of its build, is at its path, as this process sees it.
    #[must_use]
    pub fn is_at_its_path(&self) -> bool {
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let found = std::fs::metadata(&self.path).ok().zip(self.file.metadata().ok());
        let of_same_build = || {
            let id = self.build_id.as_ref()?;
            Some(read_build_id(&self.path).ok()??.same_build(id))
        };
        found.is_some_and(|(now, held)| same(&now, &held)) || of_same_build() == Some(true)
    }

    /// Copies it for reports, unless there is a copy. The name of the copy of a file without build ID, which the recording
    /// has to keep; empty for others. `None` if it is too large, or there is no private folder for it.
    ///
    /// # Errors
    /// If it cannot be read, or the copy cannot be written.
    pub fn keep(&self) -> io::Result<Option<String>> {
        match user_cache() {
            Some(cache) => self.keep_in(&cache),
            None => Ok(None),
        }
    }

    fn keep_in(&self, cache: &Path) -> io::Result<Option<String>> {
        let metadata = self.file.metadata()?;
        let copy = match self.build_id {
            Some(_) => String::new(),
            None => name_of_copy(&metadata),
        };
        let target = match &self.build_id {
            Some(id) => place(cache, id),
            None => folder(cache).join(format!("{copy}.{SUFFIX}")),
        };
        if let Some(debug) = &self.debug {
            // Without it names are missing, not wrong.
            let _ = copy_file(debug, debug_place(&target), cache);
        }
        Ok(copy_file(&self.file, target, cache)?.then_some(copy))
    }
}

/// Copies a file to `target` in the folder of copies, unless that is there. `false` if it is too large, or there is no
/// private folder for it.
fn copy_file(file: &File, target: PathBuf, cache: &Path) -> io::Result<bool> {
    if target.exists() {
        return Ok(true);
    }
    let metadata = file.metadata()?;
    let folder = folder(cache);
    // Whoever else may write there could give functions other names.
    if !metadata.is_file()
        || metadata.len() > LARGEST
        || private_folder(cache).and_then(|()| private_folder(&folder)).is_none()
    {
        return Ok(false);
    }
    let mut file = file.try_clone()?;
    // It may grow meanwhile.
    let size = metadata.len();
    within(LONGEST_COPY, move || {
        file.rewind()?;
        let mut out = AtomicFile::create(&target, 0o600, Replace::Anything)?;
        io::copy(&mut file.take(size), &mut out)?;
        out.finish()
    })
    .unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
    // What cannot be removed stays.
    let _ = tidy(&folder, SUFFIX, ALL);
    Ok(true)
}

/// Copies a description of generated code for reports. The name of the copy; `None` as in [`HeldFile::keep`].
pub(crate) fn keep_code(file: &File, cache: &Path) -> io::Result<Option<String>> {
    let copy = name_of_copy(&file.metadata()?);
    let target = folder(cache).join(format!("{copy}.{SUFFIX}"));
    Ok(copy_file(file, target, cache)?.then_some(copy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileOrigin, Inode};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn held(path: &Path) -> HeldFile {
        let mode = fs::metadata(path).unwrap();
        let inode = Some(Inode { major: 0, minor: 0, number: mode.ino() });
        let mapped = FileOrigin { inode, ..FileOrigin::default() };
        let file = ModuleFile { path, build_id: None, mapped: Some(&mapped) };
        // No process has this number.
        HeldFile::open(2_147_483_000, file).unwrap()
    }

    #[test]
    fn a_copy_is_whole_private_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("symbols");
        let exe = std::env::current_exe().unwrap();
        let file = held(&exe);
        let id = file.build_id().unwrap().clone();
        assert_eq!(file.keep_in(&cache).unwrap().as_deref(), Some(""));
        let copy = place(&cache, &id);
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&exe).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        let before = fs::metadata(&copy).unwrap().ino();
        assert_eq!(file.keep_in(&cache).unwrap().as_deref(), Some(""));
        assert_eq!(fs::metadata(&copy).unwrap().ino(), before, "it was there already");
    }

    #[test]
    fn a_file_without_build_id_has_a_copy_by_numbers_and_times() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("symbols");
        let path = folder.path().join("program");
        fs::write(&path, "no ELF file").unwrap();
        let file = held(&path);
        assert!(file.is_at_its_path());
        fs::remove_file(&path).unwrap();
        assert!(!file.is_at_its_path());
        let name = file.keep_in(&cache).unwrap().unwrap();
        let copy = place_of_copy(&cache, &name).unwrap();
        assert_eq!(fs::read_to_string(copy).unwrap(), "no ELF file");
        fs::write(&path, "another file").unwrap();
        assert_ne!(held(&path).keep_in(&cache).unwrap(), Some(name));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        let inode = Some(Inode { major: 0, minor: 0, number: fs::metadata(&path).unwrap().ino() });
        let mapped = FileOrigin { inode, ..FileOrigin::default() };
        let file = ModuleFile { path: &path, build_id: None, mapped: Some(&mapped) };
        assert!(HeldFile::open(2_147_483_000, file).is_none());
    }

    #[test]
    fn only_copies_have_debug_files_next_to_them() {
        let of = |file| debug_place_of_copy(Path::new("/c"), Path::new(file));
        assert_eq!(of("/c/files/8-1f.elf"), Some("/c/files/8-1f.debug.elf".into()));
        assert_eq!([of("/c/8.elf"), of("/usr/bin/8.elf"), of("/")], [None, None, None]);
    }

    #[test]
    fn names_of_copies_lead_nowhere_else() {
        let at = |name| place_of_copy(Path::new("/c"), name);
        assert_eq!(at("8-1f"), Some("/c/files/8-1f.elf".into()));
        for name in ["", "..", "../x", "/etc/passwd", "8/1"] {
            assert_eq!(at(name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let file = held(&std::env::current_exe().unwrap());
        assert_eq!(file.keep_in(folder.path()).unwrap(), None);
    }
}
