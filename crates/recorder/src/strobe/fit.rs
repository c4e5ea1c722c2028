//! Which counters fit on the PMU together with the events that make windows. Those that do not fit wait
//! for their turn in a further group: a counter that shares its place with others within a window
//! would count a part of it only.

use std::os::fd::{AsFd as _, OwnedFd};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, ReadFormat};
use pmuscope_counters::Kernel;
use pmuscope_events::Event;

use crate::error::RecorderError;

/// This thread, wherever it runs.
const SELF: i32 = 0;
const ANYWHERE: i32 = -1;

/// Spreads counters over groups, in their order, as many to each as fit beside `edges` of `window`.
///
/// # Errors
/// [`RecorderError::StrobeFit`] where not even one does.
pub(crate) fn groups(
    kernel: &dyn Kernel,
    window: &Event,
    edges: usize,
    counters: &[Event],
) -> Result<Vec<Vec<Event>>, RecorderError> {
    let fits = |members: &[Event]| fit_together(kernel, window, edges, members);
    let refused = |name: &str| RecorderError::StrobeFit { event: name.to_owned(), edges };
    if !fits(&[]) {
        return Err(refused(&window.name));
    }
    let mut groups: Vec<Vec<Event>> = vec![Vec::new()];
    for counter in counters {
        let last = groups.len() - 1;
        groups[last].push(counter.clone());
        if fits(&groups[last]) {
            continue;
        }
        groups[last].pop();
        if groups[last].is_empty() || !fits(std::slice::from_ref(counter)) {
            return Err(refused(&counter.name));
        }
        groups.push(vec![counter.clone()]);
    }
    Ok(groups)
}

/// Whether the machine has the event.
pub(crate) fn exists(kernel: &dyn Kernel, event: &Event) -> bool {
    kernel.open(&event.attr, SELF, ANYWHERE, None, OpenFlags::FD_CLOEXEC).is_ok()
}

/// Whether all can be on the PMU at once: they are opened as one pinned group of this thread, which the
/// kernel puts there whole or marks as failed, and a failed group reads as end of file.
fn fit_together(kernel: &dyn Kernel, window: &Event, edges: usize, members: &[Event]) -> bool {
    let events = std::iter::repeat_n(window, edges).chain(members);
    let mut opened: Vec<OwnedFd> = Vec::new();
    for event in events {
        let leads = opened.is_empty();
        let mut flags = event.attr.flags;
        flags.set(AttrFlags::DISABLED | AttrFlags::PINNED, leads);
        let read_format = ReadFormat::GROUP;
        let attr = Attr { flags, read_format, ..event.attr.clone() };
        let leader = opened.first().map(|fd| fd.as_fd());
        match kernel.open(&attr, SELF, ANYWHERE, leader, OpenFlags::FD_CLOEXEC) {
            Ok(fd) => opened.push(fd),
            Err(_) => return false,
        }
    }
    let Some(leader) = opened.first() else { return true };
    let mut words = vec![0; 1 + opened.len()];
    kernel.enable(leader.as_fd()).is_ok()
        && kernel.read(leader.as_fd(), &mut words).is_ok_and(|filled| filled > 0)
}
