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

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

    /// The version of the program whose file is `stamp`, if it was read.
    pub(super) fn of(&self, stamp: FileStamp) -> Option<Arc<str>> {
        self.known.get(&stamp).cloned().flatten()
    }

    /// Reads the versions of programs that processes run, if they are not known; all at once, as lists of packages are long.
    pub(super) fn read(&mut self, programs: impl Iterator<Item = (u32, FileStamp)>) {
        let mut unknown: BTreeMap<FileStamp, u32> = BTreeMap::new();
        for (pid, stamp) in programs.filter(|(_, stamp)| !self.known.contains_key(stamp)) {
            unknown.entry(stamp).or_insert(pid);
        }
        if unknown.is_empty() {
            return;
        }
        if self.known.len() + unknown.len() > MOST_FILES {
            self.known.clear();
        }
        let mut versions: BTreeMap<FileStamp, String> = BTreeMap::new();
        let mut paths: BTreeMap<String, FileStamp> = BTreeMap::new();
        for (&stamp, &pid) in &unknown {
            let noted = read_package_note(&exe(&self.root, pid)).ok().flatten();
            if let Some(version) = noted.and_then(|note| of_note(&note)) {
                versions.insert(stamp, version);
            } else if let Some(path) = self.path_of_package(pid) {
                paths.insert(path, stamp);
            }
        }
        let found = of_dpkg(&self.root.join("var/lib/dpkg"), paths.keys().map(String::as_str));
        versions.extend(found.into_iter().map(|(path, version)| (paths[&path], version)));
        for (stamp, pid) in unknown {
            let built =
                || read_build_id(&exe(&self.root, pid)).ok().flatten().map(|id| id.to_string());
            let version = versions.remove(&stamp).or_else(built);
            self.known.insert(stamp, version.map(Arc::from));
        }
    }

    /// The path of the program of a process, if a package can have it and the process sees the files that we do.
    fn path_of_package(&self, pid: u32) -> Option<String> {
        let mounts =
            |process: &str| fs::read_link(self.root.join(format!("proc/{process}/ns/mnt")));
        let sees_the_same = mounts(&pid.to_string()).ok()? == mounts("self").ok()?;
        let path = fs::read_link(exe(&self.root, pid)).ok()?.into_os_string().into_string().ok()?;
        let is_of_package = OF_PACKAGES.iter().any(|folder| path.starts_with(folder));
        (sees_the_same && is_of_package).then_some(path)
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

/// Versions of the Debian packages that have these files, by path: one pass over the lists of files, and one over the packages.
fn of_dpkg<'a>(dpkg: &Path, paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    // Since /bin is a link to /usr/bin, a list may have a file under either.
    let short =
        |path: &'a str| path.strip_prefix("/usr").filter(|short| !short.starts_with("/local/"));
    let wanted: HashMap<&str, &str> = paths
        .flat_map(|path| {
            [Some(path), short(path)].into_iter().flatten().map(move |one| (one, path))
        })
        .collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for list in fs::read_dir(dpkg.join("info")).into_iter().flatten().flatten() {
        let name = list.file_name().to_string_lossy().into_owned();
        let Some(package) = name.strip_suffix(".list") else { continue };
        let Ok(file) = File::open(list.path()) else { continue };
        let mut text = String::new();
        // A name that is no UTF-8 is none of the paths that are looked for.
        if file.take(MOST_BYTES).read_to_string(&mut text).is_err() {
            continue;
        }
        let package = package.split(':').next().unwrap_or(package);
        for path in text.lines().filter_map(|line| wanted.get(line)) {
            packages.insert((*path).to_owned(), package.to_owned());
        }
    }
    let installed: BTreeSet<&str> = packages.values().map(String::as_str).collect();
    let versions = versions_of(&dpkg.join("status"), &installed);
    let of = |(path, package): (String, String)| Some((path, versions.get(&package)?.clone()));
    packages.into_iter().filter_map(of).collect()
}

/// The versions of packages that are installed.
fn versions_of(status: &Path, packages: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(file) = File::open(status) else { return found };
    let mut package = None;
    for line in BufReader::new(file.take(MOST_BYTES)).lines().map_while(Result::ok) {
        if let Some(name) = line.strip_prefix("Package: ") {
            package = packages.contains(name).then(|| name.to_owned());
        } else if let (Some(version), Some(name)) = (line.strip_prefix("Version: "), &package)
            && is_plain(version)
        {
            found.insert(name.clone(), version.to_owned());
        }
    }
    found
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
        let of = |path: &str| of_dpkg(root.path(), [path].into_iter()).remove(path);
        assert_eq!(of("/usr/bin/dash").as_deref(), Some("0.5.12-2"));
        assert_eq!(of("/bin/dash").as_deref(), Some("0.5.12-2"));
        assert_eq!(of("/usr/bin/other"), None, "only lists of files count");
        assert_eq!(of("/usr/lib/libc.so.6"), None, "no such package is installed");
        let both = of_dpkg(root.path(), ["/usr/bin/dash", "/usr/bin/other"].into_iter());
        assert_eq!(both, [("/usr/bin/dash".to_owned(), "0.5.12-2".to_owned())].into());
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
        versions.read([(pid, stamp), (pid, stamp)].into_iter());
        assert_eq!(versions.of(stamp).as_deref(), own.as_deref());
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
        let versions = ProgramVersions::new(root.path());
        assert_eq!(versions.path_of_package(7).as_deref(), Some("/usr/bin/dash"));
        assert_eq!(versions.path_of_package(8), None);
    }
}
