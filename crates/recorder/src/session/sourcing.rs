//! A source in a recording: which threads it observes, and its part of the file.
//!
//! No thread must be missed, and none be observed twice. Those that are listed first are told to the
//! source one after the other; meanwhile they start others, of which the sideband's rings tell when and by
//! whom:
//!
//! ```text
//!  parent        ├── source is told ──┤
//!  child born  1 │          2         │ 3      1: has nothing, is told itself   3: has what its parent has
//!                                             2, or right behind it: nobody knows: all begins anew
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmuscope_counters::{EventRequest, SamplingSet};
use pmuscope_machine::{Machine, Target, Topology};
use pmuscope_perfdata::info::RecordingInfo;

use super::Session;
use super::threads::{Birth, all_threads, births_in};
use crate::clock::clock_ns;
use crate::error::RecorderError;
use crate::options::RecordOptions;
use crate::source::Source;

/// A birth is told at its end, nanoseconds after the child got its parent's events at most.
const BIRTH: u64 = 1_000_000;
/// Processes that start threads faster than we can follow are tried for so long.
const LONGEST: Duration = Duration::from_secs(2);

/// A source and the events of the file, its own behind the kernel's.
pub(super) struct Sourced<'a> {
    pub(super) source: &'a dyn Source,
    requests: Vec<EventRequest>,
    ids: Vec<u64>,
    first: usize,
}

impl<'a> Sourced<'a> {
    pub(super) fn new(source: &'a dyn Source, of_kernel: &[EventRequest]) -> Self {
        let (own, ids): (Vec<_>, Vec<_>) = source.events().into_iter().unzip();
        let requests = of_kernel.iter().cloned().chain(own).collect();
        Self { source, requests, ids, first: of_kernel.len() }
    }

    /// Ids of its samples, each with the number of its event.
    pub(super) fn ids(&self) -> impl Iterator<Item = (u64, usize)> {
        self.ids.iter().enumerate().map(|(event, id)| (*id, self.first + event))
    }

    pub(super) fn describe(&self, info: &mut RecordingInfo, complete: bool) {
        for event in info.events.iter_mut().skip(self.first) {
            event.origin = "breakpoint".into();
        }
        self.source.describe(info, self.first, complete);
    }
}

impl Session<'_> {
    /// All events of the file.
    pub(super) fn requests(&self) -> &[EventRequest] {
        match &self.source {
            Some(sourced) => &sourced.requests,
            None => self.set.requests(),
        }
    }
}

/// Has the source observe the target; false if threads may be missing. `set` has the sideband, which is
/// on.
pub(super) fn observe(
    source: &dyn Source,
    options: &RecordOptions,
    machine: &Machine,
    topology: &Topology,
    set: &SamplingSet,
) -> Result<bool, RecorderError> {
    match &options.target {
        Target::Processes(pids) => observe_processes(source, options, machine, pids, set),
        Target::Threads(tids) => {
            tids.iter().try_for_each(|&tid| source.observe_thread(tid))?;
            Ok(true)
        }
        Target::Cpus(cpus) => {
            cpus.iter().try_for_each(|cpu| source.observe_cpu(cpu))?;
            Ok(true)
        }
        _ => {
            topology.online.iter().try_for_each(|cpu| source.observe_cpu(cpu))?;
            Ok(true)
        }
    }
}

fn observe_processes(
    source: &dyn Source,
    options: &RecordOptions,
    machine: &Machine,
    pids: &[u32],
    set: &SamplingSet,
) -> Result<bool, RecorderError> {
    let end = Instant::now() + LONGEST;
    let clock = || clock_ns(options.clockid);
    loop {
        let mut observed = Observed::default();
        observed.tell(&machine.threads_of(pids)?, clock, &mut |tid| source.observe_thread(tid))?;
        // Until a list has nobody new.
        let whole = loop {
            let Some(listed) = all_threads(machine, pids) else {
                if Instant::now() > end {
                    break false;
                }
                continue;
            };
            let births = births_in(set.rings());
            match observed.new_among(&listed, &births) {
                New::None => break true,
                New::Unreported(tids) => {
                    observed.tell(&tids, clock, &mut |tid| source.observe_thread(tid))?;
                }
                New::Unknown => break false,
            }
        };
        if whole || Instant::now() > end {
            return Ok(whole);
        }
        source.forget_threads();
    }
}

/// When the source was told of each thread: first and last moment of the telling. One that inherited has
/// the moment of its birth for both.
#[derive(Debug, Default)]
struct Observed(BTreeMap<u32, (u64, u64)>);

/// Who is new in a list.
#[derive(Debug, PartialEq, Eq)]
enum New {
    /// Nobody that is not observed.
    None,
    /// These are not observed for sure.
    Unreported(Vec<u32>),
    /// Somebody may be observed or not.
    Unknown,
}

impl Observed {
    fn tell(
        &mut self,
        tids: &[u32],
        clock: impl Fn() -> u64,
        tell: &mut dyn FnMut(u32) -> Result<(), RecorderError>,
    ) -> Result<(), RecorderError> {
        for &tid in tids {
            let from = clock();
            tell(tid)?;
            self.0.insert(tid, (from, clock()));
        }
        Ok(())
    }

    fn new_among(&mut self, listed: &[u32], births: &[Birth]) -> New {
        let mut births: Vec<&Birth> =
            births.iter().filter(|birth| !self.0.contains_key(&birth.tid)).collect();
        births.sort_unstable_by_key(|birth| birth.time);
        let mut unreported = Vec::new();
        for birth in births {
            let Some(&(from, until)) = self.0.get(&birth.parent) else {
                // Of a parent that is not observed: it is not either.
                continue;
            };
            if birth.time > until.saturating_add(BIRTH) {
                self.0.insert(birth.tid, (birth.time, birth.time));
            } else if birth.time >= from && listed.contains(&birth.tid) {
                return New::Unknown;
            }
        }
        unreported.extend(listed.iter().copied().filter(|tid| !self.0.contains_key(tid)));
        if unreported.is_empty() { New::None } else { New::Unreported(unreported) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in milliseconds.
    fn birth(tid: u32, parent: u32, time: u64) -> Birth {
        Birth { tid, parent, time: time * 1_000_000 }
    }

    fn observed() -> Observed {
        Observed(BTreeMap::from([(1, (10_000_000, 20_000_000)), (2, (20_000_000, 30_000_000))]))
    }

    #[test]
    fn who_is_born_behind_the_telling_inherits_and_so_do_its_children() {
        let births = [birth(4, 3, 50), birth(3, 1, 22)];
        assert_eq!(observed().new_among(&[1, 2, 3, 4], &births), New::None);
    }

    #[test]
    fn who_is_born_before_has_nothing() {
        let births = [birth(3, 2, 19), birth(4, 3, 50)];
        assert_eq!(observed().new_among(&[1, 2, 3, 4], &births), New::Unreported(vec![3, 4]));
        assert_eq!(
            observed().new_among(&[1, 2, 5], &[]),
            New::Unreported(vec![5]),
            "born in no ring"
        );
    }

    #[test]
    fn who_is_born_meanwhile_makes_all_begin_anew_unless_it_is_gone() {
        let births = [birth(3, 2, 25)];
        assert_eq!(observed().new_among(&[1, 2, 3], &births), New::Unknown);
        assert_eq!(observed().new_among(&[1, 2], &births), New::None);
    }
}
