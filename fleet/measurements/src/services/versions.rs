//! The version of a program: that of its package where the distribution knows, else its build id.
//!
//! ```text
//!  /proc/PID/exe ─► is the file known (device, inode, size, time)? ─► its version
//!                      │ no
//!                      ├─ ELF note FDO of the package metadata: {"name": …, "version": …}
//!                      ├─ dpkg: /var/lib/dpkg/info/PACKAGE.list has the path ─► Version in /var/lib/dpkg/status
//!                      └─ ELF note of the build id
//! ```
//! Read once per file, however many processes run it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_symbols::{read_build_id, read_package_note};
use serde::Deserialize;

/// Files whose versions are kept at most: a compile farm makes new ones all the time.
const MOST_FILES: usize = 4096;
/// A list of dpkg's files or packages is read up to this size, bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Folders in which distributions install programs.
const OF_PACKAGES: [&str; 5] = ["/usr/", "/bin/", "/sbin/", "/lib/", "/opt/"];

/// A file at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    changed_s: i64,
}

impl FileStamp {
    /// The program that a process runs; `None` for threads of the kernel, and without the right to see it.
    pub(super) fn of_process(root: &Path, pid: u32) -> Option<Self> {
        let about = fs::metadata(exe(root, pid)).ok()?;
        let (device, inode) = (about.dev(), about.ino());
        Some(Self { device, inode, size: about.size(), changed_s: about.mtime() })
    }
}

fn exe(root: &Path, pid: u32) -> PathBuf {
    root.join(format!("proc/{pid}/exe"))
}

/// Versions of files that processes run.
#[derive(Debug)]
pub(super) struct ProgramVersions {
    root: PathBuf,
    known: BTreeMap<FileStamp, Option<Arc<str>>>,
}

impl ProgramVersions {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: BTreeMap::new() }
    }

    /// The version of the program that a process runs, whose file is `stamp`.
    pub(super) fn of(&mut self, pid: u32, stamp: FileStamp) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(&stamp) {
            return known.clone();
        }
        if self.known.len() >= MOST_FILES {
            self.known.clear();
        }
        let version = self.read(pid);
        self.known.insert(stamp, version.clone());
        version
    }

    fn read(&self, pid: u32) -> Option<Arc<str>> {
        let file = exe(&self.root, pid);
        let noted = || of_note(&read_package_note(&file).ok()??);
        let packaged = || self.of_dpkg(pid);
        let built = || Some(read_build_id(&file).ok()??.to_string());
        noted().or_else(packaged).or_else(built).map(Arc::from)
    }

    /// The version of the Debian package that has the program, if the process sees the files that we do.
    fn of_dpkg(&self, pid: u32) -> Option<String> {
        let mounts =
            |process: &str| fs::read_link(self.root.join(format!("proc/{process}/ns/mnt")));
        let sees_the_same = mounts(&pid.to_string()).ok()? == mounts("self").ok()?;
        let path = fs::read_link(exe(&self.root, pid)).ok()?;
        let path = path.to_str().filter(|path| {
            sees_the_same && OF_PACKAGES.iter().any(|folder| path.starts_with(folder))
        })?;
        let dpkg = self.root.join("var/lib/dpkg");
        let package = package_of(&dpkg.join("info"), path)?;
        version_of(&dpkg.join("status"), &package)
    }
}

/// What a package's note says.
#[derive(Deserialize)]
struct PackageNote {
    version: String,
}

fn of_note(json: &str) -> Option<String> {
    let note: PackageNote = serde_json::from_str(json).ok()?;
    is_plain(&note.version).then_some(note.version)
}

/// Versions are short and printable; a file can claim any.
fn is_plain(version: &str) -> bool {
    (1..=100).contains(&version.len()) && version.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The package whose list of files has this path; since /bin is a link to /usr/bin, it may have it under either.
fn package_of(info: &Path, path: &str) -> Option<String> {
    let short = path.strip_prefix("/usr").filter(|short| !short.starts_with("/local/"));
    let is_it = |line: &str| line == path || Some(line) == short;
    for entry in fs::read_dir(info).ok()? {
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        let Some(package) = name.strip_suffix(".list") else { continue };
        let Ok(file) = File::open(info.join(&name)) else { continue };
        let mut text = String::new();
        // A name that is no UTF-8 is not the path that is looked for.
        if file.take(MOST_BYTES).read_to_string(&mut text).is_ok() && text.lines().any(is_it) {
            return Some(package.split(':').next().unwrap_or(package).to_owned());
        }
    }
    None
}

/// The version of a package that is installed.
fn version_of(status: &Path, package: &str) -> Option<String> {
    let lines = BufReader::new(File::open(status).ok()?.take(MOST_BYTES)).lines();
    let mut is_it = false;
    for line in lines.map_while(Result::ok) {
        if let Some(name) = line.strip_prefix("Package: ") {
            is_it = name == package;
        } else if let Some(version) = line.strip_prefix("Version: ").filter(|_| is_it) {
            return Some(version.to_owned()).filter(|version| is_plain(version));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_package_is_found_by_its_files_also_behind_the_link_of_bin() {
        let root = tempfile::tempdir().unwrap();
        let (info, status) = (root.path().join("info"), root.path().join("status"));
        fs::create_dir(&info).unwrap();
        fs::write(info.join("dash.list"), "/.\n/bin\n/bin/dash\n").unwrap();
        fs::write(info.join("libc6:amd64.list"), "/usr/lib/libc.so.6\n").unwrap();
        fs::write(info.join("dash.md5sums"), "/usr/bin/other\n").unwrap();
        let text = "Package: dash-static\nVersion: 9\n\nPackage: dash\nStatus: installed\nVersion: 0.5.12-2\n";
        fs::write(&status, text).unwrap();
        let of = |path: &str| version_of(&status, &package_of(&info, path)?);
        assert_eq!(package_of(&info, "/usr/lib/libc.so.6").as_deref(), Some("libc6"));
        assert_eq!(of("/usr/bin/dash").as_deref(), Some("0.5.12-2"));
        assert_eq!(of("/usr/bin/other"), None, "only lists of files count");
        assert_eq!(of("/usr/lib/libc.so.6"), None, "no such package is installed");
    }

    #[test]
    fn a_note_that_claims_nonsense_is_no_version() {
        assert_eq!(of_note(r#"{"name":"redis","version":"7.0-1"}"#).as_deref(), Some("7.0-1"));
        for wrong in ["{", "{}", r#"{"version":""}"#, r#"{"version":"a\nb"}"#] {
            assert_eq!(of_note(wrong), None, "{wrong}");
        }
    }

    /// This test program has no package, and a build id where the linker made one.
    #[test]
    fn a_program_without_package_has_its_build_id_as_version() {
        let pid = std::process::id();
        let mut versions = ProgramVersions::new(Path::new("/"));
        let stamp = FileStamp::of_process(Path::new("/"), pid).unwrap();
        let own = read_build_id(Path::new("/proc/self/exe")).unwrap().map(|id| id.to_string());
        assert_eq!(versions.of(pid, stamp).as_deref(), own.as_deref());
        assert_eq!(versions.known.len(), 1);
    }

    /// A process of another mount namespace may have another file at the same path.
    #[test]
    fn packages_are_those_of_the_files_that_a_process_sees() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (process, namespace) in [("7", "mnt:[1]"), ("8", "mnt:[2]"), ("self", "mnt:[1]")] {
            fs::create_dir_all(at(&format!("proc/{process}/ns"))).unwrap();
            symlink(namespace, at(&format!("proc/{process}/ns/mnt"))).unwrap();
            symlink("/usr/bin/dash", at(&format!("proc/{process}/exe"))).unwrap();
        }
        fs::create_dir_all(at("var/lib/dpkg/info")).unwrap();
        fs::write(at("var/lib/dpkg/info/dash.list"), "/usr/bin/dash\n").unwrap();
        fs::write(at("var/lib/dpkg/status"), "Package: dash\nVersion: 1\n").unwrap();
        let versions = ProgramVersions::new(root.path());
        assert_eq!(versions.of_dpkg(7).as_deref(), Some("1"));
        assert_eq!(versions.of_dpkg(8), None);
    }
}
