//! Which CPUs are busy: time that each has worked and idled, and that a thread waited for one.

use serde::Serialize;

use crate::{CpuSet, Machine, MachineError};

/// 512 CPUs take some 30 KiB, interrupts of a large machine some 100 KiB.
const STAT_BYTES: u64 = 1 << 23;

/// How long each online CPU has worked and idled since it started, in clock ticks
/// (`sysconf(_SC_CLK_TCK)`, in practice 10 ms).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuTimes {
    /// Ascending by CPU.
    cpus: Vec<CpuTime>,
}

/// Times of one CPU, clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct CpuTime {
    cpu: u32,
    busy: u64,
    idle: u64,
}

impl Machine {
    /// `/proc/stat`. The kernel adds up all interrupts for it, milliseconds on a large machine: ask a few
    /// times per second at most.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn cpu_times(&self) -> Result<CpuTimes, MachineError> {
        let text = self.bytes("proc/stat", STAT_BYTES)?;
        Ok(CpuTimes::parse(&String::from_utf8_lossy(&text)))
    }

    /// Nanoseconds that the calling thread was ready to run while its CPU ran others, since it began.
    /// Asking takes some microseconds.
    ///
    /// `None` on kernels without `CONFIG_SCHED_INFO`.
    pub fn waited_ns(&self) -> Option<u64> {
        // Time on a CPU, time waiting for one, times put on one (`proc_pid_schedstat` in fs/proc/base.c).
        self.text("proc/thread-self/schedstat").ok()?.split(' ').nth(1)?.parse().ok()
    }
}

/// `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`; guest time is in user time.
fn parse(line: &str) -> Option<CpuTime> {
    // The first line has the sum of all and no number.
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    let mut ticks = [0u64; 8];
    for (tick, word) in ticks.iter_mut().zip(words) {
        *tick = word.parse().ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let busy = [user, nice, system, irq, softirq, steal].into_iter().fold(0, u64::saturating_add);
    Some(CpuTime { cpu, busy, idle: idle.saturating_add(iowait) })
}

impl CpuTimes {
    /// From the text of `/proc/stat`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut cpus: Vec<CpuTime> = text.lines().filter_map(parse).collect();
        cpus.sort_by_key(|time| time.cpu);
        Self { cpus }
    }

    /// The share of their time, 0 to 1, that these CPUs worked between two readings: of a node, say.
    /// `None` if none of them is in both, or no tick passed. Time stolen by a hypervisor is work.
    pub fn busy_share(before: &Self, after: &Self, cpus: &CpuSet) -> Option<f64> {
        let (busy, idle) = differences(before, after)
            .filter(|(cpu, ..)| cpus.contains(*cpu))
            .fold((0u64, 0u64), |(b, i), (_, busy, idle)| (b + busy, i + idle));
        let total = busy + idle;
        (total > 0).then(|| busy as f64 / total as f64)
    }

    /// Which of these CPUs worked at most `share` of the time between two readings. A CPU that no tick
    /// passed on is not among them.
    pub fn idle_cpus(before: &Self, after: &Self, cpus: &CpuSet, share: f64) -> CpuSet {
        differences(before, after)
            .filter(|(cpu, busy, idle)| {
                let total = busy + idle;
                cpus.contains(*cpu) && total > 0 && *busy as f64 <= share * total as f64
            })
            .map(|(cpu, ..)| cpu)
            .collect()
    }
}

/// CPU, busy and idle ticks between two readings. The kernel's idle time may go back by a tick.
fn differences<'a>(
    before: &'a CpuTimes,
    after: &'a CpuTimes,
) -> impl Iterator<Item = (u32, u64, u64)> + 'a {
    after.cpus.iter().filter_map(|now| {
        let index = before.cpus.binary_search_by_key(&now.cpu, |time| time.cpu).ok()?;
        let then = before.cpus.get(index)?;
        Some((now.cpu, now.busy.saturating_sub(then.busy), now.idle.saturating_sub(then.idle)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(lines: &[&str]) -> CpuTimes {
        CpuTimes::parse(&lines.join("\n"))
    }

    #[test]
    fn every_kind_of_time_is_work_or_idleness() {
        let time = parse("cpu3 1 2 4 100 200 8 16 32 1000 1000").unwrap();
        assert_eq!(time, CpuTime { cpu: 3, busy: 63, idle: 300 });
        // Kernels before 2.6.33 have fewer columns.
        assert_eq!(parse("cpu3 1 2 4 100").unwrap().busy, 7);
        for line in ["cpu 1 2 3 4", "intr 1 2 3", "cpux 1", "cpu1 a"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn shares_are_of_the_cpus_asked_for() {
        let before = times(&["cpu0 10 0 0 90", "cpu1 0 0 0 100", "cpu2 0 0 0 0"]);
        let after = times(&["cpu0 60 0 0 140", "cpu1 0 0 0 200", "cpu2 0 0 0 0", "cpu5 9 0 0 9"]);
        let share = |list: &str| CpuTimes::busy_share(&before, &after, &list.parse().unwrap());
        assert_eq!(share("0"), Some(0.5));
        assert_eq!(share("0-1"), Some(0.25));
        assert_eq!(share("1"), Some(0.0));
        assert_eq!(share("2"), None);
        assert_eq!(share("5"), None);
        let all = "0-5".parse().unwrap();
        assert_eq!(CpuTimes::idle_cpus(&before, &after, &all, 0.1).to_string(), "1");
        assert_eq!(CpuTimes::idle_cpus(&before, &after, &all, 0.5).to_string(), "0-1");
    }

    #[test]
    fn waiting_is_the_time_that_a_thread_wanted_to_run_and_did_not() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(machine.waited_ns(), None);
        let folder = root.path().join("proc/thread-self");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("schedstat"), "854468 53460 1\n").unwrap();
        assert_eq!(machine.waited_ns(), Some(53_460));
    }

    #[test]
    fn a_clock_that_goes_back_is_no_work() {
        let before = times(&["cpu0 10 0 0 100"]);
        let after = times(&["cpu0 9 0 0 110"]);
        let cpus = "0".parse().unwrap();
        assert_eq!(CpuTimes::busy_share(&before, &after, &cpus), Some(0.0));
    }
}
