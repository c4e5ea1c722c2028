//! Questions that only trying answers: a sysctl does not know of seccomp filters and security modules.

use std::io;

use serde::{Serialize, Serializer};

use crate::error::errno_text;
use crate::sys;

/// What the kernel said to a try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probe {
    /// Nobody tried.
    #[default]
    NotTried,
    /// It works.
    Works,
    /// It was refused with this errno.
    Refused(i32),
}

impl Probe {
    /// The outcome of a try. An error that is no errno counts as not tried.
    pub fn of<T>(result: &io::Result<T>) -> Self {
        match result {
            Ok(_) => Self::Works,
            Err(error) => error.raw_os_error().map_or(Self::NotTried, Self::Refused),
        }
    }

    /// The errno in words, if it was refused: `EPERM (Operation not permitted)`.
    pub fn refusal(self) -> Option<String> {
        match self {
            Self::Refused(errno) => Some(errno_text(errno)),
            Self::Works | Self::NotTried => None,
        }
    }
}

impl Serialize for Probe {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::NotTried => serializer.serialize_none(),
            Self::Works => serializer.serialize_str("works"),
            Self::Refused(errno) => serializer.serialize_str(&errno_text(*errno)),
        }
    }
}

/// What was tried on this machine. All [`Probe::NotTried`] by default, as for a fixture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Probes {
    /// Software clock, this process, user space only.
    pub own_user: Probe,
    /// Software clock, this process, kernel included.
    pub own_kernel: Probe,
    /// Software clock, every process of one CPU.
    pub all_processes: Probe,
    /// Hardware cycles, this process, user space only.
    pub cycles: Probe,
    /// A breakpoint on an address of this process.
    pub breakpoint: Probe,
    /// `io_uring_setup(2)`.
    pub io_uring: Probe,
    /// Opening `/dev/kvm`.
    pub kvm: Probe,
    /// Whether a guest booted with KVM, where one was tried since this machine started.
    pub kvm_boots: Option<bool>,
}

/// Opens `/dev/kvm` as a virtual machine's owner does. That it opens does not mean that guests run.
pub fn kvm() -> Probe {
    Probe::of(&std::fs::File::options().read(true).write(true).open("/dev/kvm"))
}

/// Sets up the smallest io_uring and closes it again.
pub fn io_uring() -> Probe {
    Probe::of(&sys::io_uring_setup())
}

/// Counters of one core, as its CPUID tells; a hypervisor may show fewer than the hardware has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CounterCount {
    /// Counters that can take any event.
    pub general: u32,
    /// Counters for one event each (Intel), such as cycles and instructions.
    pub fixed: u32,
}

/// The counters of the core this runs on; `None` where no CPUID tells (other architectures, virtual
/// machines without a PMU).
pub fn counters() -> Option<CounterCount> {
    count(&sys::cpuid)
}

/// Leaf 0xA is Intel's architectural performance monitoring; 0x8000_0022 AMD's version 2, before which
/// a flag stands for six counters in place of four.
fn count(cpuid: &dyn Fn(u32) -> Option<[u32; 4]>) -> Option<CounterCount> {
    let [highest, ..] = cpuid(0)?;
    if highest >= 0xa {
        let [eax, _, _, edx] = cpuid(0xa)?;
        let (version, general) = (eax & 0xff, eax >> 8 & 0xff);
        if version > 0 && general > 0 {
            let fixed = if version > 1 { edx & 0x1f } else { 0 };
            return Some(CounterCount { general, fixed });
        }
    }
    let [highest, ..] = cpuid(0x8000_0000)?;
    if highest >= 0x8000_0022 {
        let [eax, ebx, ..] = cpuid(0x8000_0022)?;
        if eax & 1 != 0 {
            return Some(CounterCount { general: ebx & 0xf, fixed: 0 });
        }
    }
    let [_, _, ecx, _] = cpuid(0x8000_0001)?;
    (ecx & 1 << 23 != 0).then_some(CounterCount { general: 6, fixed: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_keeps_its_errno() {
        assert_eq!(Probe::of(&Ok(())), Probe::Works);
        let refused = Probe::of::<()>(&Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refused, Probe::Refused(libc::EPERM));
        assert_eq!(refused.refusal().unwrap(), "EPERM (Operation not permitted)");
        assert_eq!(Probe::Works.refusal(), None);
    }

    #[test]
    fn counters_as_cpuid_tells() {
        let sapphire_rapids = |leaf| {
            Some(match leaf {
                0 => [0x1f, 0, 0, 0],
                0xa => [0x0830_0805, 0, 0, 0x8604],
                _ => [0; 4],
            })
        };
        assert_eq!(count(&sapphire_rapids), Some(CounterCount { general: 8, fixed: 4 }));
        let zen4 = |leaf| {
            Some(match leaf {
                0 => [0x10, 0, 0, 0],
                0x8000_0000 => [0x8000_0028, 0, 0, 0],
                0x8000_0022 => [7, 6, 0, 0],
                _ => [0; 4],
            })
        };
        assert_eq!(count(&zen4), Some(CounterCount { general: 6, fixed: 0 }));
        let zen2 = |leaf| {
            Some(match leaf {
                0x8000_0000 => [0x8000_001e, 0, 0, 0],
                0x8000_0001 => [0, 0, 1 << 23, 0],
                _ => [0; 4],
            })
        };
        assert_eq!(count(&zen2), Some(CounterCount { general: 6, fixed: 0 }));
        // A guest without a PMU.
        assert_eq!(count(&|leaf| Some([leaf & 0x8000_0000 | 0x1c, 0, 0, 0])), None);
        assert_eq!(count(&|_| None), None);
    }

    #[test]
    fn trying_leaves_nothing_open() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        // Other tests of this program open files meanwhile: the ring must not add up.
        for _ in 0..200 {
            io_uring();
        }
        assert!(open() < before + 100);
    }
}
