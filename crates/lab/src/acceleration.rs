//! Whether guests run on the CPU itself (KVM) or are emulated (TCG).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Arch, LabError};

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
pub enum AccelerationChoice {
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
    Some(KvmVerdict::load(&folder, &emulator)?.why_not.is_none())
}

/// The device of KVM.
const DEVICE: &str = "/dev/kvm";

/// Why there can be no KVM, without trying; `None` if there may be.
pub(crate) fn no_device() -> Option<String> {
    let device = std::fs::File::options().read(true).write(true).open(DEVICE);
    device.err().map(|error| format!("cannot open {DEVICE}: {error}"))
}

/// What can be found out of KVM; tests have one of their own.
pub(crate) trait Kvm {
    /// Why there can be none, without trying.
    fn no_device(&self) -> Option<String>;
    /// Boots the smallest guest with it.
    fn boot(&mut self) -> Result<(), LabError>;
}

/// A guest that is to be accelerated, or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub wanted: AccelerationChoice,
    pub arch: Arch,
    /// Whether its clock counts instructions.
    pub icount: bool,
    /// Where the answer is kept.
    pub cache: Option<&'a Path>,
    pub emulator: &'a Path,
}

impl Question<'_> {
    /// What runs the guest, and why not KVM if that was not said.
    pub(crate) fn answer(
        &self,
        kvm: &mut dyn Kvm,
    ) -> Result<(Acceleration, Option<String>), LabError> {
        if self.wanted == AccelerationChoice::Only(Acceleration::Tcg) {
            return Ok((Acceleration::Tcg, None));
        }
        match (self.no_kvm(kvm)?, self.wanted) {
            (None, _) => Ok((Acceleration::Kvm, None)),
            (Some(why), AccelerationChoice::Only(_)) => Err(LabError::NoKvm(why)),
            (Some(why), AccelerationChoice::Best) => Ok((Acceleration::Tcg, Some(why))),
        }
    }

    /// Why a guest cannot run with KVM; found out by booting one, once per boot of this machine.
    fn no_kvm(&self, kvm: &mut dyn Kvm) -> Result<Option<String>, LabError> {
        if self.icount {
            return Ok(Some("KVM cannot count instructions for the clock".to_owned()));
        }
        if self.arch != Arch::host()? {
            return Ok(Some(format!("this machine is {}", std::env::consts::ARCH)));
        }
        if let Some(why) = kvm.no_device() {
            return Ok(Some(why));
        }
        if let Some(verdict) = self.cache.and_then(|folder| KvmVerdict::load(folder, self.emulator))
        {
            return Ok(verdict.why_not);
        }
        let why_not = match kvm.boot() {
            Ok(()) => None,
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(LabError::NotBooted { seconds, .. }) => {
                Some(format!("a guest with KVM did not boot within {seconds} s"))
            }
            Err(_) => Some("a guest with KVM did not boot".to_owned()),
        };
        if let Some(folder) = self.cache {
            KvmVerdict::keep(why_not.as_deref(), folder, self.emulator);
        }
        Ok(why_not)
    }
}

/// What a boot with KVM showed, good as long as machine and emulator are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KvmVerdict {
    /// What it is good for.
    basis: String,
    /// Why not; `None` if it works.
    pub why_not: Option<String>,
}

impl KvmVerdict {
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
    use tempfile::TempDir;

    /// KVM whose device may be missing, and whose guests may boot or fail.
    struct Fake {
        device: bool,
        boots: fn() -> Result<(), LabError>,
        tried: u32,
    }

    impl Fake {
        fn of(boots: fn() -> Result<(), LabError>) -> Self {
            Self { device: true, boots, tried: 0 }
        }
    }

    impl Kvm for Fake {
        fn no_device(&self) -> Option<String> {
            (!self.device).then(|| "cannot open /dev/kvm".to_owned())
        }

        fn boot(&mut self) -> Result<(), LabError> {
            self.tried += 1;
            (self.boots)()
        }
    }

    fn hangs() -> Result<(), LabError> {
        Err(LabError::NotBooted { seconds: 10, hint: String::new(), console: String::new() })
    }

    fn question(folder: &TempDir, wanted: AccelerationChoice) -> Question<'_> {
        let (cache, arch) = (Some(folder.path()), Arch::host().unwrap());
        // Any file will do that is the same file the next time.
        Question { wanted, arch, icount: false, cache, emulator: Path::new("/proc/self/exe") }
    }

    #[test]
    fn kvm_is_taken_where_a_guest_booted_with_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut kvm = Fake::of(|| Ok(()));
        for _ in 0..2 {
            let answer = question(&folder, AccelerationChoice::Best).answer(&mut kvm).unwrap();
            assert_eq!(answer, (Acceleration::Kvm, None));
        }
        assert_eq!(kvm.tried, 1);
        let asked_for =
            question(&folder, AccelerationChoice::Only(Acceleration::Kvm)).answer(&mut kvm);
        assert_eq!(asked_for.unwrap(), (Acceleration::Kvm, None));
    }

    #[test]
    fn guests_are_emulated_where_none_boots_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut kvm = Fake::of(hangs);
        for _ in 0..2 {
            let (what, why) = question(&folder, AccelerationChoice::Best).answer(&mut kvm).unwrap();
            assert_eq!(what, Acceleration::Tcg);
            assert_eq!(why.as_deref(), Some("a guest with KVM did not boot within 10 s"));
        }
        assert_eq!(kvm.tried, 1);
        let error = question(&folder, AccelerationChoice::Only(Acceleration::Kvm)).answer(&mut kvm);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("did not boot") && text.contains("Try: --accel tcg"), "{text}");
    }

    #[test]
    fn nothing_is_booted_where_it_cannot_be_or_is_not_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let other = match Arch::host().unwrap() {
            Arch::X86_64 => Arch::Aarch64,
            Arch::Aarch64 => Arch::X86_64,
        };
        let best = question(&folder, AccelerationChoice::Best);
        let mut kvm = Fake::of(|| Ok(()));
        let mut why = |question: Question<'_>| question.answer(&mut kvm).unwrap();
        let only = question(&folder, AccelerationChoice::Only(Acceleration::Tcg));
        assert_eq!(why(only), (Acceleration::Tcg, None));
        assert!(why(Question { icount: true, ..best }).1.unwrap().contains("count instructions"));
        assert!(why(Question { arch: other, ..best }).1.unwrap().contains("this machine is "));
        kvm.device = false;
        assert!(best.answer(&mut kvm).unwrap().1.unwrap().contains("/dev/kvm"));
        assert_eq!(kvm.tried, 0);
    }

    #[test]
    fn an_interrupted_trial_says_nothing_of_kvm() {
        let folder = tempfile::tempdir().unwrap();
        let mut kvm = Fake::of(|| Err(LabError::Interrupted));
        let error = question(&folder, AccelerationChoice::Best).answer(&mut kvm).unwrap_err();
        assert!(matches!(error, LabError::Interrupted));
        kvm.boots = || Ok(());
        let answer = question(&folder, AccelerationChoice::Best).answer(&mut kvm).unwrap();
        assert_eq!((answer.0, kvm.tried), (Acceleration::Kvm, 2));
    }

    #[test]
    fn a_verdict_is_kept_for_this_emulator_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let [emulator, other] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&emulator, "").unwrap();
        std::fs::write(&other, "").unwrap();
        assert_eq!(KvmVerdict::load(&cache, &emulator), None);
        KvmVerdict::keep(Some("it hangs"), &cache, &emulator);
        let kept = KvmVerdict::load(&cache, &emulator).unwrap();
        assert_eq!(kept.why_not.as_deref(), Some("it hangs"));
        assert_eq!(KvmVerdict::load(&cache, &other), None);
    }
}
