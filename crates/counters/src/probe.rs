//! Opens one event of each kind and closes it again: settings do not show seccomp filters, security
//! modules and virtual machines that answer differently than they should.

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, breakpoint, event_type, hardware, software};
use pmuscope_machine::probe::{Probe, Probes};

use crate::kernel::Kernel;

/// This process.
const SELF: i32 = 0;
/// Any process, or any CPU.
const ANY: i32 = -1;
/// `HW_BREAKPOINT_LEN_4`.
const FOUR_BYTES: u64 = 4;

/// Tries each kind of event. `cpu` is an online CPU; what needs no perf event stays as it is in `others`.
pub fn probe(kernel: &dyn Kernel, cpu: u32, others: Probes) -> Probes {
    let clock = Attr {
        event_type: event_type::SOFTWARE,
        config: software::CPU_CLOCK,
        flags: AttrFlags::DISABLED,
        ..Attr::default()
    };
    let user_only = AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let user_clock = Attr { flags: user_only, ..clock.clone() };
    let cycles = Attr {
        event_type: event_type::HARDWARE,
        config: hardware::CPU_CYCLES,
        ..user_clock.clone()
    };
    let watched: u32 = 0;
    let watchpoint = Attr {
        event_type: event_type::BREAKPOINT,
        config: 0,
        bp_type: breakpoint::WRITE,
        config1: std::ptr::from_ref(&watched) as u64,
        config2: FOUR_BYTES,
        ..user_clock.clone()
    };
    let open = |attr: &Attr, pid, cpu| {
        Probe::of(&kernel.open(attr, pid, cpu, None, OpenFlags::FD_CLOEXEC))
    };
    Probes {
        own_user: open(&user_clock, SELF, ANY),
        own_kernel: open(&clock, SELF, ANY),
        all_processes: open(&clock, ANY, cpu as i32),
        cycles: open(&cycles, SELF, ANY),
        breakpoint: open(&watchpoint, SELF, ANY),
        ..others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, fake::FakeKernel};

    #[test]
    fn each_kind_is_asked_once_and_keeps_its_errno() {
        let kernel = FakeKernel::default().refusing(software::CPU_CLOCK, 3, libc::EACCES);
        let others = Probes { io_uring: Probe::Refused(libc::EPERM), ..Probes::default() };
        let probes = probe(&kernel, 3, others);
        assert_eq!(probes.all_processes, Probe::Refused(libc::EACCES));
        assert_eq!(probes.own_user, Probe::Works);
        assert_eq!(probes.breakpoint, Probe::Works);
        assert_eq!(probes.io_uring, Probe::Refused(libc::EPERM));
        let opened = kernel.opened();
        // All but the refused one.
        assert_eq!(opened.len(), 4);
        assert!(opened.iter().all(|call| call.pid == SELF && call.cpu == ANY));
        assert!(opened.iter().all(|call| call.attr.flags.contains(AttrFlags::DISABLED)));
    }

    #[test]
    fn the_real_kernel_answers() {
        let probes = probe(&Host, 0, Probes::default());
        assert_ne!(probes.own_user, Probe::NotTried);
        assert_ne!(probes.breakpoint, Probe::NotTried);
    }
}
