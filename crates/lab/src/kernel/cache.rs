//! Downloaded kernels, kept with their checksums: `ARCH/RELEASE/` with the file, its configuration, and
//! what they are.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::sha256;
use super::version::{is_meant, order};
use crate::{Arch, LabError};

const IMAGE: &str = "vmlinuz";
const CONFIG: &str = "config";
const ABOUT: &str = "about.json";

/// What is kept of a kernel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KernelFacts {
    /// The package it came from.
    pub package: String,
    /// SHA-256 of the file to boot.
    pub sha256: String,
}

/// A downloaded kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cached {
    /// For which guests, as uname(1) has it.
    pub arch: String,
    /// Its release.
    pub release: String,
    /// The package it came from.
    pub package: String,
    /// SHA-256 of the file to boot.
    pub sha256: String,
    /// The file to boot.
    pub image: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
}

/// The folder of all.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// The newest that `wanted` means. One that was damaged since it was kept is removed.
    pub(super) fn find(&self, wanted: &str, arch: Arch) -> Result<Option<Cached>, LabError> {
        let list = self.list();
        let meant = |k: &&Cached| k.arch == arch.name() && is_meant(&k.release, wanted);
        let Some(found) = list.iter().rfind(meant) else { return Ok(None) };
        let bytes = std::fs::read(&found.image).map_err(LabError::file("read", &found.image))?;
        if sha256(&bytes) == found.sha256 {
            return Ok(Some(found.clone()));
        }
        let folder = self.folder_of(arch, &found.release);
        std::fs::remove_dir_all(&folder).map_err(LabError::file("remove", &folder))?;
        Ok(None)
    }

    /// All, by architecture, older before newer.
    pub(super) fn list(&self) -> Vec<Cached> {
        let mut found = Vec::new();
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let folder = self.folder.join(arch.name());
            let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let releases = names.filter_map(|entry| entry.file_name().into_string().ok());
            let mut kernels: Vec<Cached> =
                releases.filter_map(|release| self.read(arch, &release)).collect();
            kernels.sort_by(|a, b| order(&a.release, &b.release));
            found.extend(kernels);
        }
        found
    }

    /// Keeps a kernel: all of it, or nothing if it cannot.
    pub(super) fn keep(
        &self,
        (arch, release): (Arch, &str),
        package: &str,
        image: &Path,
        config: &Path,
    ) -> Result<Cached, LabError> {
        let unfinished = self.folder.join(format!(".{}-{release}", std::process::id()));
        let kept = self.keep_by((arch, release), package, (image, config), &unfinished);
        if kept.is_err() {
            // Nothing is left behind; if it cannot be removed, the reason that counts is the first.
            let _ = std::fs::remove_dir_all(&unfinished);
        }
        kept
    }

    fn keep_by(
        &self,
        (arch, release): (Arch, &str),
        package: &str,
        (image, config): (&Path, &Path),
        unfinished: &Path,
    ) -> Result<Cached, LabError> {
        let folder = self.folder_of(arch, release);
        std::fs::create_dir_all(unfinished).map_err(LabError::cache(&self.folder))?;
        let put = |from: &Path, name: &str| {
            let to = unfinished.join(name);
            std::fs::copy(from, &to).map_err(LabError::file("write", &to))
        };
        put(image, IMAGE)?;
        put(config, CONFIG)?;
        let bytes = std::fs::read(image).map_err(LabError::file("read", image))?;
        let about = KernelFacts { package: package.to_owned(), sha256: sha256(&bytes) };
        let path = unfinished.join(ABOUT);
        // Encoding two texts cannot fail.
        let text = serde_json::to_vec(&about).unwrap_or_default();
        std::fs::write(&path, text).map_err(LabError::file("write", &path))?;
        let parent = folder.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(parent).map_err(LabError::cache(parent))?;
        if std::fs::rename(unfinished, &folder).is_err() {
            // Someone else was faster.
            std::fs::remove_dir_all(unfinished).map_err(LabError::file("remove", unfinished))?;
        }
        self.read(arch, release)
            .ok_or_else(|| std::io::Error::other("it is missing after it was written"))
            .map_err(LabError::file("keep", &folder))
    }

    fn folder_of(&self, arch: Arch, release: &str) -> PathBuf {
        self.folder.join(arch.name()).join(release)
    }

    fn read(&self, arch: Arch, release: &str) -> Option<Cached> {
        let folder = self.folder_of(arch, release);
        let about: KernelFacts =
            serde_json::from_slice(&std::fs::read(folder.join(ABOUT)).ok()?).ok()?;
        Some(Cached {
            arch: arch.name().to_owned(),
            release: release.to_owned(),
            package: about.package,
            sha256: about.sha256,
            image: folder.join(IMAGE),
            config: folder.join(CONFIG),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(cache: &Cache, release: &str) -> Cached {
        let folder = tempfile::tempdir().unwrap();
        let [image, config] = ["image", "config"].map(|name| folder.path().join(name));
        std::fs::write(&image, release).unwrap();
        std::fs::write(&config, "CONFIG_PCI=y").unwrap();
        cache.keep((Arch::X86_64, release), "linux-image-x", &image, &config).unwrap()
    }

    #[test]
    fn the_newest_that_is_meant_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("kernels"));
        assert_eq!(cache.find("6.1", Arch::X86_64).unwrap(), None);
        keep(&cache, "6.1.0-9-cloud-amd64");
        let newest = keep(&cache, "6.1.0-53-cloud-amd64");
        keep(&cache, "6.12.117+deb12-cloud-amd64");
        assert_eq!(cache.find("6.1", Arch::X86_64).unwrap(), Some(newest.clone()));
        assert_eq!(cache.find("6.1", Arch::Aarch64).unwrap(), None);
        assert_eq!(cache.list().len(), 3);
        assert_eq!(keep(&cache, "6.1.0-53-cloud-amd64"), newest);
    }

    #[test]
    fn a_damaged_kernel_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let kept = keep(&cache, "6.1.0-9-cloud-amd64");
        std::fs::write(&kept.image, "half").unwrap();
        assert_eq!(cache.find("6.1", Arch::X86_64).unwrap(), None);
        assert_eq!(cache.list(), []);
    }
}
