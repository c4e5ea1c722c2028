//! Kernels for guests: files, the one that runs here, and those of Debian's packages.

mod apt;
mod cache;
mod version;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Arch, LabError};

use cache::Cache;
pub use cache::Cached;

/// The name of the kernel that runs here.
pub const HOST: &str = "host";

/// What guests run where nothing else is asked for: the stable kernel of Debian 12.
pub const DEFAULT: &str = "6.1";

/// A kernel that a guest can boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestKernel {
    /// As the user calls it.
    pub name: String,
    /// The file to boot.
    pub image: PathBuf,
    /// Its release, as far as its file tells.
    pub release: Option<String>,
    /// SHA-256 of the file.
    pub sha256: String,
    /// SHA-256 of its configuration, if that is there.
    pub config_sha256: Option<String>,
    /// Whether it can unpack what zstd packed; false where nobody knows.
    pub(crate) unpacks_zstd: bool,
}

/// Where kernels come from.
#[derive(Debug)]
pub struct Kernels {
    cache: Option<Cache>,
    /// Folder of the running kernel's file.
    boot: PathBuf,
    /// Release of the running kernel.
    running: String,
}

impl Kernels {
    /// Those of this machine. `cache` is where downloaded ones are kept.
    pub fn host(cache: Option<&Path>) -> Self {
        let uname = rustix::system::uname();
        Self {
            cache: cache.map(|folder| Cache::new(&folder.join("kernels"))),
            boot: "/boot".into(),
            running: uname.release().to_string_lossy().into_owned(),
        }
    }

    /// Finds a kernel by its path, `host`, or a version or package of Debian, which is downloaded if it
    /// is not in the cache; then `notice` is told.
    ///
    /// # Errors
    /// If there is none, or guests cannot boot it.
    pub fn find(
        &self,
        name: &str,
        arch: Arch,
        notice: &mut dyn FnMut(&str),
    ) -> Result<GuestKernel, LabError> {
        if name == HOST {
            return self.of_host(arch);
        }
        if name.contains('/') {
            return of_path(name, Path::new(name), arch);
        }
        let cache = self.cache.as_ref().ok_or(LabError::NoCache)?;
        if let Some(cached) = cache.find(name, arch)? {
            return check(name, &cached.image, Some(&cached.config), arch);
        }
        let cached = apt::download(cache, name, arch, notice)?;
        check(name, &cached.image, Some(&cached.config), arch)
    }

    /// Kernels of the cache, sorted.
    pub fn cached(&self) -> Vec<Cached> {
        self.cache.as_ref().map(Cache::list).unwrap_or_default()
    }

    /// Releases that Debian's packages have and the cache has not.
    ///
    /// # Errors
    /// If there is no apt here, or it cannot tell.
    pub fn available(
        &self,
        arch: Arch,
        notice: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, LabError> {
        let cache = self.cache.as_ref().ok_or(LabError::NoCache)?;
        apt::releases(cache, arch, notice)
    }

    /// The kernel that runs here.
    ///
    /// # Errors
    /// If its file is not there or cannot be read, or guests cannot boot it.
    pub fn of_host(&self, arch: Arch) -> Result<GuestKernel, LabError> {
        let no = |why: String| LabError::NoKernel { name: HOST.to_owned(), arch, why };
        if arch != Arch::host()? {
            return Err(no(format!("this machine is {}", std::env::consts::ARCH)));
        }
        let image = self.boot.join(format!("vmlinuz-{}", self.running));
        match std::fs::File::open(&image) {
            Ok(_) => of_path(HOST, &image, arch),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let path = image.display();
                Err(no(format!("{path} is readable by root only. Try: sudo chmod 0644 {path}")))
            }
            Err(error) => Err(no(format!(
                "cannot open {}: {error}. Try: --kernel FILE, or --kernel {DEFAULT} for Debian's",
                image.display()
            ))),
        }
    }
}

fn of_path(name: &str, image: &Path, arch: Arch) -> Result<GuestKernel, LabError> {
    let file = image.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let config = file
        .strip_prefix("vmlinuz")
        .or_else(|| file.strip_prefix("bzImage"))
        .map(|rest| image.with_file_name(format!("config{rest}")))
        .filter(|path| path.is_file());
    check(name, image, config.as_deref(), arch)
}

/// What is known of a kernel, if guests can boot it.
fn check(
    name: &str,
    image: &Path,
    config: Option<&Path>,
    arch: Arch,
) -> Result<GuestKernel, LabError> {
    let bytes = std::fs::read(image).map_err(LabError::file("read", image))?;
    let refuse = |why: String| LabError::Kernel { arch, path: image.to_owned(), why };
    if let Some(why) = wrong_format(&bytes, arch) {
        return Err(refuse(why));
    }
    let settings = match config {
        Some(path) => Some(std::fs::read(path).map_err(LabError::file("read", path))?),
        None => None,
    };
    let text = settings.as_deref().map(String::from_utf8_lossy);
    let has = |name: &str| text.as_ref().map(|t| t.lines().any(|l| l == format!("{name}=y")));
    let needed = [
        ("CONFIG_BLK_DEV_INITRD", "initramfs"),
        (arch.console_setting(), "console on the serial line"),
        ("CONFIG_PCI", "PCI"),
    ];
    if let Some((setting, what)) = needed.iter().find(|(name, _)| has(name) == Some(false)) {
        return Err(refuse(format!("it is built without {what} ({setting} is not y)")));
    }
    Ok(GuestKernel {
        name: name.to_owned(),
        image: image.to_owned(),
        release: release(&bytes),
        sha256: sha256(&bytes),
        config_sha256: settings.as_deref().map(sha256),
        unpacks_zstd: has("CONFIG_RD_ZSTD") == Some(true),
    })
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Magic numbers: "HdrS" of the boot protocol on x86 (Documentation/arch/x86/boot.rst), "ARM\x64" of
/// Documentation/arch/arm64/booting.rst, which may be compressed.
fn wrong_format(bytes: &[u8], arch: Arch) -> Option<String> {
    let at =
        |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|b| b.starts_with(magic));
    let (x86, arm) = (at(0x202, b"HdrS"), at(0x38, b"ARM\x64"));
    match arch {
        Arch::X86_64 if x86 => None,
        Arch::Aarch64 if arm || at(0, &[0x1f, 0x8b]) => None,
        Arch::X86_64 if arm => Some("it is a kernel for aarch64".to_owned()),
        Arch::Aarch64 if x86 => Some("it is a kernel for x86_64".to_owned()),
        Arch::X86_64 => Some("it is not a kernel (a bzImage or vmlinuz)".to_owned()),
        Arch::Aarch64 if at(4, b"zimg") => {
            Some("it is packed for firmware (EFI zboot), which QEMU 7.2 cannot unpack".to_owned())
        }
        Arch::Aarch64 => Some("it is not a kernel (an Image or vmlinuz)".to_owned()),
    }
}

/// The release that a file for x86 tells: its header points to a text.
fn release(bytes: &[u8]) -> Option<String> {
    if bytes.get(0x202..0x206) != Some(b"HdrS") {
        return None;
    }
    let pointer = bytes.get(0x20e..0x210)?;
    let start = usize::from(u16::from_le_bytes([pointer[0], pointer[1]])) + 0x200;
    let text = bytes.get(start..)?.split(|b| *b == 0).next()?;
    let text = std::str::from_utf8(text.get(..text.len().min(256))?).ok()?;
    text.split(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a kernel for x86.
    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[0x300..0x310].copy_from_slice(b"6.1.0-9-x (me) #");
        bytes
    }

    fn write(folder: &Path, config: &str) -> PathBuf {
        std::fs::write(folder.join("config-x"), config).unwrap();
        let path = folder.join("vmlinuz-x");
        std::fs::write(&path, image()).unwrap();
        path
    }

    const GOOD: &str = "CONFIG_BLK_DEV_INITRD=y\nCONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_PCI=y\n";

    fn find(path: &Path) -> Result<GuestKernel, LabError> {
        let kernels = Kernels { cache: None, boot: "/nowhere".into(), running: "x".into() };
        kernels.find(path.to_str().unwrap(), Arch::X86_64, &mut |_| {})
    }

    #[test]
    fn a_file_with_its_configuration_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = find(&write(folder.path(), &format!("{GOOD}CONFIG_RD_ZSTD=y\n"))).unwrap();
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-9-x"));
        assert_eq!(kernel.sha256.len(), 64);
        assert!(kernel.config_sha256.is_some() && kernel.unpacks_zstd);
        assert!(!find(&write(folder.path(), GOOD)).unwrap().unpacks_zstd);
    }

    #[test]
    fn kernels_that_cannot_boot_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |config: &str, part: &str| {
            let error = find(&write(folder.path(), config)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused("CONFIG_PCI=y", "without initramfs (CONFIG_BLK_DEV_INITRD");
        refused(&GOOD.replace("CONSOLE=y", "CONSOLE=m"), "CONFIG_SERIAL_8250_CONSOLE is not y");
        let text = folder.path().join("text");
        std::fs::write(&text, "hello").unwrap();
        let error = find(&text).unwrap_err().to_string();
        assert!(error.contains("it is not a kernel"), "{error}");
        let kernels = Kernels { cache: None, boot: folder.path().into(), running: "y".into() };
        let error = kernels.find(HOST, Arch::X86_64, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("vmlinuz-y") && error.contains("Try: --kernel"), "{error}");
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
