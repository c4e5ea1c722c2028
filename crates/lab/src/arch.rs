//! Kinds of guests.

use std::fmt;

use crate::LabError;

/// A processor architecture that guests can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit PCs.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// That of this program.
    ///
    /// # Errors
    /// If it is neither.
    pub fn host() -> Result<Self, LabError> {
        std::env::consts::ARCH.parse()
    }

    /// As uname(1) and QEMU have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Debian has it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// QEMU's program for such guests.
    pub fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The package of Debian that has it.
    pub fn emulator_package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Aarch64 => "qemu-system-arm",
        }
    }

    /// The kernel's name for the serial line of QEMU's machine.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }

    /// The setting of a kernel that can write to it.
    pub(crate) fn console_setting(self) -> &'static str {
        match self {
            Self::X86_64 => "CONFIG_SERIAL_8250_CONSOLE",
            Self::Aarch64 => "CONFIG_SERIAL_AMBA_PL011_CONSOLE",
        }
    }

    /// Rust's name for a static program.
    pub(crate) fn static_target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Arch {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text {
            "x86_64" | "amd64" => Ok(Self::X86_64),
            "aarch64" | "arm64" => Ok(Self::Aarch64),
            _ => Err(LabError::Arch { name: text.to_owned() }),
        }
    }
}
