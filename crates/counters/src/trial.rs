//! Tests whether events can be counted at the same time: opens them briefly, as one pinned group, and
//! reads them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, ReadFormat};

use crate::kernel::Kernel;
use crate::value::Value;

/// How long the group is on its counters: longer than any first scheduling takes, even emulated.
const MOMENT: Duration = Duration::from_micros(500);

/// The result for a group.
#[derive(Debug)]
pub enum Fit {
    /// It was enabled 100% of the time.
    AtOnce,
    /// It was not, or the kernel rejected it immediately.
    NotAtOnce,
    /// A single event that cannot be opened.
    Refused(io::Error),
}

/// Tries these events together: on this thread, or on a CPU for all tasks. Empty groups fit.
#[must_use]
pub fn try_group(kernel: &dyn Kernel, attrs: &[Attr], cpu: Option<u32>) -> Fit {
    match open(kernel, attrs, cpu) {
        Ok(group) => counted(kernel, &group, attrs.len()),
        // A kernel that counts on its fingers refuses the member that is one too many.
        Err((0, error)) if attrs.len() == 1 => Fit::Refused(error),
        Err(_) => Fit::NotAtOnce,
    }
}

/// The descriptors, leader first, or which one failed.
fn open(
    kernel: &dyn Kernel,
    attrs: &[Attr],
    cpu: Option<u32>,
) -> Result<Vec<OwnedFd>, (usize, io::Error)> {
    let mut group: Vec<OwnedFd> = Vec::new();
    for (index, attr) in attrs.iter().enumerate() {
        let mut attr = attr.clone();
        attr.read_format =
            ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::GROUP;
        attr.flags.set(AttrFlags::DISABLED | AttrFlags::PINNED, index == 0);
        let (pid, on) = cpu.map_or((0, -1), |cpu| (-1, cpu as i32));
        let leader = group.first().map(|leader| leader.as_fd());
        let opened = kernel.open(&attr, pid, on, leader, OpenFlags::FD_CLOEXEC);
        group.push(opened.map_err(|error| (index, error))?);
    }
    Ok(group)
}

fn counted(kernel: &dyn Kernel, group: &[OwnedFd], members: usize) -> Fit {
    let Some(leader) = group.first() else { return Fit::AtOnce };
    if kernel.enable(leader.as_fd()).is_err() {
        return Fit::NotAtOnce;
    }
    let until = Instant::now() + MOMENT;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    let mut words = vec![0; 3 + members];
    // An error of reading is no count either.
    let filled = kernel.read(leader.as_fd(), &mut words).unwrap_or(0);
    let format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let values = Value::decode_group(format | ReadFormat::GROUP, &words[..filled]);
    match values.as_deref() {
        Some([first, ..]) if first.running_ns > Some(0) && first.running_ns == first.enabled_ns => {
            Fit::AtOnce
        }
        _ => Fit::NotAtOnce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use crate::fake::FakeKernel;
    use pmuscope_abi::{event_type, software};

    fn attr(config: u64) -> Attr {
        let flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        Attr { event_type: event_type::SOFTWARE, config, flags, ..Attr::default() }
    }

    #[test]
    fn the_kernels_own_events_always_fit() {
        let attrs = [attr(software::TASK_CLOCK), attr(software::PAGE_FAULTS)];
        assert!(matches!(try_group(&Host, &attrs, None), Fit::AtOnce));
        assert!(matches!(try_group(&Host, &[], None), Fit::AtOnce));
    }

    #[test]
    fn what_is_not_counted_all_the_time_does_not_fit() {
        let kernel = FakeKernel::default();
        let pair = [attr(1), attr(2)];
        kernel.answer_reads(&[2, 100, 100, 7, 7]);
        assert!(matches!(try_group(&kernel, &pair, None), Fit::AtOnce));
        kernel.answer_reads(&[2, 100, 99, 7, 7]);
        assert!(matches!(try_group(&kernel, &pair, None), Fit::NotAtOnce));
        kernel.answer_reads(&[2, 100, 0, 0, 0]);
        assert!(matches!(try_group(&kernel, &pair, None), Fit::NotAtOnce));
    }

    #[test]
    fn an_event_that_cannot_be_opened_is_told_from_a_group_that_is_too_large() {
        let kernel = FakeKernel::default().refusing(2, -1, libc::EINVAL);
        assert!(matches!(try_group(&kernel, &[attr(1), attr(2)], None), Fit::NotAtOnce));
        assert!(matches!(try_group(&kernel, &[attr(2)], None), Fit::Refused(_)));
    }
}
