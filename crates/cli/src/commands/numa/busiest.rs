//! Which process of a command does its work: chosen early, and looked at again until the end.
//!
//! ```text
//!  0 s         1 s                                      end
//!  ├─ warm-up ─┤ the process with the most CPU time      │
//!  │           │ so far is observed                      │
//!  └───────────┴─ CPU time of all, every second ─────────┴─► did another use far more meanwhile?
//! ```
//! A shell that prepares for longer than the warm-up looks like the one that works; only what comes later shows that
//! it is not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmuscope_machine::{Machine, MachineError};
use pmuscope_numa::observe::Family;

/// How often CPU times are read.
const EVERY: Duration = Duration::from_secs(1);
/// Another process is named if it used at least this multiple of the observed one's CPU time, …
const FAR_MORE: u64 = 2;
/// … and at least this much, nanoseconds.
const LEAST_NS: u64 = 500_000_000;
/// A tick of `/proc/PID/stat`, nanoseconds: `USER_HZ` is 100 whatever the kernel's own rate.
const TICK_NS: u64 = 10_000_000;

/// The processes of a command and their CPU times, those that have ended too.
pub(super) struct CommandProcesses<'a> {
    machine: &'a Machine,
    family: Family,
    times: BTreeMap<u32, CpuTimes>,
    next: Instant,
}

/// What a process is called and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuTimes {
    /// Its `comm`; foreign bytes.
    pub(super) name: Vec<u8>,
    /// CPU time up to the choice, nanoseconds; 0 of one that began later.
    chosen_ns: u64,
    /// CPU time up to the last reading, nanoseconds.
    last_ns: u64,
}

impl CpuTimes {
    /// CPU time since the choice, nanoseconds.
    pub(super) fn since_choice_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.chosen_ns)
    }
}

impl<'a> CommandProcesses<'a> {
    /// The processes of a command: `pid`, its first one, and its descendants.
    pub(super) fn new(machine: &'a Machine, pid: u32) -> Result<Self, MachineError> {
        let family = Family::new(machine, &[pid], true)?;
        Ok(Self { machine, family, times: BTreeMap::new(), next: Instant::now() })
    }

    /// Reads all CPU times.
    fn read(&mut self) {
        for pid in self.family.members(self.machine) {
            let Ok(task) = self.machine.task(pid, pid) else { continue };
            let last_ns = cpu_time_ns(self.machine, pid);
            let new = || CpuTimes { name: Vec::new(), chosen_ns: 0, last_ns: 0 };
            let times = self.times.entry(pid).or_insert_with(new);
            (times.name, times.last_ns) = (task.comm, times.last_ns.max(last_ns));
        }
        self.next = Instant::now() + EVERY;
    }

    /// [`Self::read`], at most once per [`EVERY`].
    pub(super) fn read_again(&mut self) {
        if Instant::now() >= self.next {
            self.read();
        }
    }

    /// The process that used the most CPU time so far, and how many there are.
    pub(super) fn choose(&mut self) -> Option<(u32, usize)> {
        self.read();
        let (&pid, _) = self.times.iter().max_by_key(|(_, times)| times.last_ns)?;
        self.times.values_mut().for_each(|times| times.chosen_ns = times.last_ns);
        Some((pid, self.times.len()))
    }

    /// What a process is called.
    pub(super) fn name(&self, pid: u32) -> &[u8] {
        self.times.get(&pid).map_or(&[], |times| &times.name)
    }

    /// The process that used far more CPU time than `chosen` since then, if there is one.
    pub(super) fn busier_than(&self, chosen: u32) -> Option<(u32, &CpuTimes)> {
        busier(&self.times, chosen)
    }
}

fn busier(times: &BTreeMap<u32, CpuTimes>, chosen: u32) -> Option<(u32, &CpuTimes)> {
    let own_ns = times.get(&chosen).map_or(0, CpuTimes::since_choice_ns);
    let (&pid, most) = times.iter().max_by_key(|(_, times)| times.since_choice_ns())?;
    let is_far_more = most.since_choice_ns() >= own_ns.saturating_mul(FAR_MORE).max(LEAST_NS);
    (pid != chosen && is_far_more).then_some((pid, most))
}

/// CPU time of all threads that a process has now, nanoseconds.
fn cpu_time_ns(machine: &Machine, pid: u32) -> u64 {
    let threads = machine.threads(pid).unwrap_or_default();
    let runs = threads.iter().filter_map(|&tid| machine.thread_run(pid, tid).ok());
    runs.map(|run| run.on_cpu_ns.unwrap_or((run.user_ticks + run.system_ticks) * TICK_NS)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(u32, u64, u64)]) -> BTreeMap<u32, CpuTimes> {
        let one = |&(pid, chosen_ms, last_ms): &(u32, u64, u64)| {
            let ns = |ms: u64| ms * 1_000_000;
            let (chosen_ns, last_ns) = (ns(chosen_ms), ns(last_ms));
            (pid, CpuTimes { name: pid.to_string().into_bytes(), chosen_ns, last_ns })
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn another_process_is_named_if_it_used_far_more_since_the_choice() {
        let named = |of: &[(u32, u64, u64)]| busier(&times(of), 1).map(|(pid, _)| pid);
        // The shell prepared for a second, then waits for a server.
        assert_eq!(named(&[(1, 900, 910), (2, 0, 4000)]), Some(2));
        // Workers that share the work.
        assert_eq!(named(&[(1, 500, 3000), (2, 400, 3500)]), None);
        // What is short does not matter, nor what was before.
        assert_eq!(named(&[(1, 0, 10), (2, 0, 400)]), None);
        assert_eq!(named(&[(1, 100, 2000), (2, 9000, 9100)]), None);
        assert_eq!(named(&[]), None);
    }
}
