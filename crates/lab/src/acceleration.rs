//! Whether guests run on the CPU itself (KVM) or are emulated (TCG).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What runs a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acceleration {
    /// The CPU itself.
    Kvm,
    /// QEMU, which translates them: times and rates in the guest say nothing about any machine.
    Tcg,
}

impl Acceleration {
    /// `kvm`, `tcg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Whether numbers that depend on speed are QEMU's, not a machine's.
    pub fn is_emulation(self) -> bool {
        self == Self::Tcg
    }
}

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// KVM where a guest boots with it, else TCG.
    #[default]
    Best,
    /// This one.
    Only(Acceleration),
}

/// Whether a guest booted with KVM here; `None` if none was tried since this machine started.
pub fn kvm_boots() -> Option<bool> {
    let folder = crate::Lab::of_user().cache?;
    let emulator = crate::emulator(crate::Arch::host().ok()?).ok()?;
    Some(Verdict::load(&folder, &emulator)?.why_not.is_none())
}

/// The device of KVM.
const DEVICE: &str = "/dev/kvm";

/// Why there can be no KVM, without trying; `None` if there may be.
pub(crate) fn no_device() -> Option<String> {
    let device = std::fs::File::options().read(true).write(true).open(DEVICE);
    device.err().map(|error| format!("cannot open {DEVICE}: {error}"))
}

/// What a boot with KVM showed, good as long as machine and emulator are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// What it is good for.
    basis: String,
    /// Why not; `None` if it works.
    pub why_not: Option<String>,
}

impl Verdict {
    /// As kept in `folder` by an earlier guest.
    pub(crate) fn load(folder: &Path, emulator: &Path) -> Option<Self> {
        let bytes = std::fs::read(file(folder)).ok()?;
        let verdict: Self = serde_json::from_slice(&bytes).ok()?;
        (verdict.basis == basis(emulator)?).then_some(verdict)
    }

    /// Keeps it for later guests. That it cannot be kept costs them a boot each, and nothing else.
    pub(crate) fn keep(why_not: Option<&str>, folder: &Path, emulator: &Path) {
        let Some(basis) = basis(emulator) else { return };
        let verdict = Self { basis, why_not: why_not.map(str::to_owned) };
        let write = || {
            std::fs::create_dir_all(folder)?;
            std::fs::write(file(folder), serde_json::to_vec(&verdict)?)
        };
        let _: std::io::Result<()> = write();
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("kvm.json")
}

/// This boot of this machine, and this file of the emulator.
fn basis(emulator: &Path) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let file = std::fs::metadata(emulator).ok()?;
    Some(format!("{} {} {}", boot.trim(), file.ino(), file.mtime()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_kept_for_this_emulator_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let [emulator, other] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&emulator, "").unwrap();
        std::fs::write(&other, "").unwrap();
        assert_eq!(Verdict::load(&cache, &emulator), None);
        Verdict::keep(Some("it hangs"), &cache, &emulator);
        let kept = Verdict::load(&cache, &emulator).unwrap();
        assert_eq!(kept.why_not.as_deref(), Some("it hangs"));
        assert_eq!(Verdict::load(&cache, &other), None);
    }
}
