//! Which kernel runs.

use serde::Serialize;

use crate::{Machine, MachineError};

/// The running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// As `uname -r`: `6.1.0-28-amd64`.
    pub release: String,
    /// Major and minor number of the release.
    pub version: (u32, u32),
    /// As `uname -n`.
    pub hostname: String,
    /// As `uname -m`: `x86_64`, `aarch64`.
    pub arch: String,
}

impl Machine {
    /// The running kernel: `/proc/sys/kernel/{osrelease,hostname,arch}`; before Linux 6.1, which has
    /// no `arch` there, that of uname(2).
    ///
    /// # Errors
    /// If the release cannot be read or does not start with two numbers.
    pub fn kernel(&self) -> Result<Kernel, MachineError> {
        let file = "proc/sys/kernel/osrelease";
        let release = self.text(file)?;
        let version = version(&release).ok_or_else(|| {
            MachineError::malformed(&self.path(file), "a kernel release", &release)
        })?;
        let arch = self
            .text_if_any("proc/sys/kernel/arch")
            .unwrap_or_else(|| rustix::system::uname().machine().to_string_lossy().into_owned());
        let hostname = self.text_if_any("proc/sys/kernel/hostname").unwrap_or_default();
        Ok(Kernel { release, version, hostname, arch })
    }

    /// Random id of this boot: `/proc/sys/kernel/random/boot_id`. Kernel addresses compare only within
    /// one boot.
    pub fn boot_id(&self) -> Option<String> {
        self.text_if_any("proc/sys/kernel/random/boot_id")
    }

    /// Seconds since this machine started: `/proc/uptime`.
    pub fn uptime_s(&self) -> Option<f64> {
        self.text("proc/uptime").ok()?.split(' ').next()?.parse().ok()
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn reads_the_version_off_a_release() {
        assert_eq!(version("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("6.19-rc3+"), Some((6, 19)));
        assert_eq!(version("7.0rc1"), Some((7, 0)));
        for release in ["", "six", "6", "6.x", "6-1x"] {
            assert_ne!(version(release), Some((6, 0)), "{release}");
        }
        assert_eq!(version("6"), None);
    }
}
