//! The first root folder of a guest: this program, further files with the libraries they need, and the
//! job.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::cpio::Archive;
use crate::elf::Elf;
use crate::job::{JOB, Job};
use crate::{Arch, LabError, libraries};

/// Folders that file systems are mounted on, and others that programs expect.
const FOLDERS: [&str; 8] =
    ["/dev", "/proc", "/sys", "/tmp", "/run/lab", "/root", "/var/tmp", "/etc"];
/// Where the loader of the host looks libraries up; it passes over those that are not there.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Fast, and a third of the size.
const LEVEL: i32 = 3;

/// What goes into a guest.
#[derive(Debug, Clone)]
pub(crate) struct Content<'a> {
    pub arch: Arch,
    /// Path of this program, built for the guest. It has the same path there, so that a report made
    /// outside finds its symbols.
    pub program: &'a Path,
    /// Further files, absolute.
    pub files: &'a [PathBuf],
    pub job: &'a Job,
}

impl Content<'_> {
    /// The archive, compressed where it has more than this number of bytes. An emulated guest takes three seconds to
    /// decompress what it is handed over in a tenth of one.
    pub(crate) fn pack(&self, most_plain: u64) -> Result<Vec<u8>, LabError> {
        let mut archive = Archive::default();
        for folder in FOLDERS {
            archive.folder(Path::new(folder));
        }
        archive.folder(Path::new(&self.job.folder));
        // The kernel opens it before anything is mounted.
        archive.characters(Path::new("/dev/console"), (5, 1));
        self.program(&mut archive)?;
        for path in self.files {
            self.file(&mut archive, path, 0)?;
        }
        // Encoding strings and numbers cannot fail.
        let job = serde_json::to_vec(self.job).unwrap_or_default();
        add(&mut archive, Path::new(JOB), 0o600, &job)?;
        if let Ok(cache) = std::fs::read(LOADER_CACHE)
            && std::env::consts::ARCH == self.arch.name()
        {
            add(&mut archive, Path::new(LOADER_CACHE), 0o644, &cache)?;
        }
        let bytes = archive.finish();
        if bytes.len() as u64 <= most_plain {
            return Ok(bytes);
        }
        zstd::bulk::compress(&bytes, LEVEL).map_err(LabError::file("compress", Path::new("initrd")))
    }

    fn program(&self, archive: &mut Archive) -> Result<(), LabError> {
        let path = self.program;
        let bytes = read(path)?;
        let elf = Elf::of(&bytes).ok_or_else(|| self.refuse(path, "it is not a program"))?;
        self.libraries(archive, path, &elf, 0)?;
        add(archive, path, 0o755, &elf.cut(bytes))?;
        archive.link(Path::new("/init"), path);
        // Commands may name it: record -- pmuscope workload stencil.
        archive.link(Path::new("/usr/bin/pmuscope"), path);
        Ok(())
    }

    /// A file as it is; programs with what they need to run.
    fn file(&self, archive: &mut Archive, path: &Path, depth: u32) -> Result<(), LabError> {
        if archive.has(path) {
            return Ok(());
        }
        if path.is_dir() {
            return self.folder(archive, path);
        }
        let bytes = read(path)?;
        if let Some(elf) = Elf::of(&bytes) {
            self.libraries(archive, path, &elf, depth)?;
        } else if let Some(interpreter) = interpreter(&bytes).filter(|_| depth < 4) {
            self.file(archive, &interpreter, depth + 1)?;
        }
        let mode = std::fs::metadata(path).map_err(LabError::file("read", path))?.permissions();
        add(archive, path, mode.mode(), &bytes)
    }

    /// All files below a folder.
    fn folder(&self, archive: &mut Archive, path: &Path) -> Result<(), LabError> {
        archive.folder(path);
        for entry in std::fs::read_dir(path).map_err(LabError::file("read", path))? {
            let entry = entry.map_err(LabError::file("read", path))?;
            let kind = entry.file_type().map_err(LabError::file("read", &entry.path()))?;
            // Links would lead out of the folder, or round in it.
            if kind.is_file() || kind.is_dir() {
                self.file(archive, &entry.path(), 0)?;
            }
        }
        Ok(())
    }

    fn libraries(
        &self,
        archive: &mut Archive,
        path: &Path,
        elf: &Elf,
        depth: u32,
    ) -> Result<(), LabError> {
        if elf.arch != Some(self.arch) {
            let kind = elf.arch.map_or("another processor".to_owned(), |arch| arch.to_string());
            return Err(self.refuse(path, &format!("it is a program for {kind}")));
        }
        // A library is loaded by whoever needs it.
        let Some(loader) = elf.loader.as_ref().filter(|_| depth < 4) else { return Ok(()) };
        if std::env::consts::ARCH != self.arch.name() {
            let why = "it is not static, and this machine lacks the libraries that it needs";
            return Err(self.refuse(path, why));
        }
        let needed = libraries::needed(loader, path).map_err(|why| self.refuse(path, &why))?;
        for library in needed.iter().chain([&PathBuf::from(loader)]) {
            if !archive.has(library) {
                add(archive, library, 0o755, &read(library)?)?;
            }
        }
        Ok(())
    }

    fn refuse(&self, path: &Path, why: &str) -> LabError {
        LabError::Program { arch: self.arch, path: path.to_owned(), why: why.to_owned() }
    }
}

fn add(archive: &mut Archive, path: &Path, mode: u32, bytes: &[u8]) -> Result<(), LabError> {
    let too_large = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
    match archive.file(path, mode, bytes) {
        true => Ok(()),
        false => Err(LabError::file("add to the guest", path)(too_large())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(LabError::file("read", path))?;
    Ok(bytes)
}

/// The program named in the first line of a script.
fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let path = PathBuf::from(line.split_whitespace().next()?);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(files: &[PathBuf], arch: Arch) -> Result<String, LabError> {
        let job = Job { folder: "/home/me".into(), ..Job::default() };
        let program = std::env::current_exe().unwrap();
        let content = Content { arch, program: &program, files, job: &job };
        Ok(String::from_utf8_lossy(&content.pack(u64::MAX)?).into_owned())
    }

    #[test]
    fn scripts_bring_their_interpreter_and_programs_their_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh -e\ntrue\n").unwrap();
        let got = text(std::slice::from_ref(&script), Arch::host().unwrap()).unwrap();
        let program = std::env::current_exe().unwrap();
        for part in ["bin/sh\0", "libc.so.6\0", "/script\0", "init\0", "home/me\0"] {
            assert!(got.contains(part), "{part:?}");
        }
        assert!(got.contains(program.to_str().unwrap()));
    }

    #[test]
    fn programs_of_another_processor_are_refused() {
        let other = match Arch::host().unwrap() {
            Arch::X86_64 => Arch::Aarch64,
            Arch::Aarch64 => Arch::X86_64,
        };
        let error = text(&[], other).unwrap_err().to_string();
        assert!(error.contains("it is a program for"), "{error}");
    }

    #[test]
    fn compressed_is_the_same() {
        let job = Job { folder: "/".into(), ..Job::default() };
        let program = std::env::current_exe().unwrap();
        let content =
            Content { arch: Arch::host().unwrap(), program: &program, files: &[], job: &job };
        let (plain, packed) = (content.pack(u64::MAX).unwrap(), content.pack(0).unwrap());
        assert!(packed.len() < plain.len());
        assert!(zstd::bulk::decompress(&packed, plain.len()).unwrap() == plain);
    }
}
