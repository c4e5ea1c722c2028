//! Which counters fit on the PMU together with the events that make windows. Those that do not fit wait
//! for their turn in a further group: a counter that shares its place with others within a window
//! would count a part of it only.

use std::os::fd::{AsFd as _, OwnedFd};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, ReadFormat};
use pmuscope_counters::Kernel;
use pmuscope_events::Event;
use pmuscope_perfdata::strobe::MOST_MEMBERS;

use crate::error::RecorderError;

/// This thread, wherever it runs.
const SELF: i32 = 0;
const ANYWHERE: i32 = -1;

/// Spreads sets of counters over groups: all of a set are in one group, beside `edges` of `window`, and
/// each group has as many sets as fit.
///
/// # Errors
/// [`RecorderError::StrobeFit`] for a set that does not fit alone.
pub(crate) fn groups(
    kernel: &dyn Kernel,
    window: &Event,
    edges: usize,
    sets: &[Vec<Event>],
) -> Result<Vec<Vec<Event>>, RecorderError> {
    // Besides them the context switches are counted. Events of software fit on any PMU.
    let most = MOST_MEMBERS.saturating_sub(edges + 1);
    let fits = |members: &[Event]| members.len() <= most && fits(kernel, window, edges, members);
    let refused = |events: &[Event]| {
        let names: Vec<&str> = events.iter().map(|event| &event.name[..]).collect();
        RecorderError::StrobeFit { event: names.join(" with "), edges }
    };
    if !fits(&[]) {
        return Err(refused(std::slice::from_ref(window)));
    }
    let mut groups: Vec<Vec<Event>> = vec![Vec::new()];
    for set in sets {
        // Groups that need the fewest further counters first.
        let mut with: Vec<(usize, Vec<Event>)> =
            groups.iter().map(|group| united(group, set)).enumerate().collect();
        with.sort_by_key(|(at, all)| all.len() - groups[*at].len());
        match with.into_iter().find(|(at, all)| all.len() == groups[*at].len() || fits(all)) {
            Some((at, all)) => groups[at] = all,
            None if fits(set) => groups.push(set.clone()),
            None => return Err(refused(set)),
        }
    }
    Ok(groups)
}

fn united(group: &[Event], set: &[Event]) -> Vec<Event> {
    let mut all = group.to_vec();
    all.extend(set.iter().filter(|event| !group.contains(event)).cloned());
    all
}

/// Whether the machine has the event.
pub(crate) fn exists(kernel: &dyn Kernel, event: &Event) -> bool {
    kernel.open(&event.attr, SELF, ANYWHERE, None, OpenFlags::FD_CLOEXEC).is_ok()
}

/// Whether all can be on the PMU at once: they are opened as one pinned group of this thread, which the
/// kernel puts there whole or marks as failed, and a failed group reads as end of file.
pub(crate) fn fits(kernel: &dyn Kernel, window: &Event, edges: usize, members: &[Event]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::super::simulated::{Pmu, event};
    use super::*;

    fn grouped(counters: usize, sets: &[&[u64]]) -> Result<Vec<Vec<u64>>, RecorderError> {
        let sets: Vec<Vec<Event>> = sets
            .iter()
            .map(|set| set.iter().map(|&n| event(&format!("e{n}"), n)).collect())
            .collect();
        let groups = groups(&Pmu::with_counters(counters), &event("cycles", 1), 2, &sets)?;
        let configs = |group: &Vec<Event>| group.iter().map(|event| event.attr.config).collect();
        Ok(groups.iter().map(configs).collect())
    }

    #[test]
    fn events_of_a_set_stay_together_and_groups_are_as_few_as_they_come() {
        let sets: [&[u64]; 5] = [&[2, 3], &[2, 4], &[5], &[3, 2], &[4]];
        assert_eq!(grouped(8, &sets).unwrap(), [[2, 3, 4, 5]]);
        assert_eq!(grouped(5, &sets).unwrap(), [vec![2, 3, 4], vec![5]]);
        assert_eq!(grouped(4, &sets).unwrap(), [vec![2, 3], vec![2, 4], vec![5]]);
        assert_eq!(grouped(2, &[]).unwrap(), [[0; 0]]);
    }

    /// Who reads the recording looks at so many counts of a sample and no more.
    #[test]
    fn no_group_has_more_members_than_are_read() {
        let sets: Vec<[u64; 1]> = (2..34).map(|n| [n]).collect();
        let sets: Vec<&[u64]> = sets.iter().map(|set| &set[..]).collect();
        let sizes: Vec<usize> = grouped(64, &sets).unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes, [13, 13, 6]);
        let large: Vec<u64> = (2..16).collect();
        assert!(grouped(64, &[&large]).unwrap_err().to_string().contains("does not fit"));
    }

    #[test]
    fn a_set_that_does_not_fit_alone_is_named() {
        let error = grouped(3, &[&[2], &[3, 4]]).unwrap_err().to_string();
        assert!(error.contains("e3 with e4 does not fit"), "{error}");
        let error = grouped(1, &[]).unwrap_err().to_string();
        assert!(error.contains("cycles does not fit"), "{error}");
    }
}
