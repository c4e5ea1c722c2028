//! What CPUs do before anything is measured on them: work of others, on them and on the threads they share
//! a core with, and interrupts of devices. Looked at twice, a moment apart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::capabilities::{CapabilityReason, Fix};
use crate::{CpuSet, CpuTimes, Machine, MachineError, Topology};

/// As many lines and CPUs as any machine has.
const INTERRUPTS_BYTES: u64 = 1 << 24;
/// A CPU that works less than this share of the time disturbs nobody who measures to a per cent.
const BUSY: f64 = 0.05;
/// An interrupt takes some microseconds: a thousand in a second take less than a per cent.
const INTERRUPTS_PER_S: f64 = 1000.0;

/// Interrupts that each CPU has taken.
type Interrupts = BTreeMap<u32, u64>;

/// What CPUs did for a moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Activity {
    /// How long they were looked at, seconds.
    pub seconds: f64,
    /// Those that are to be measured, ascending.
    pub cpus: Vec<CpuActivity>,
}

/// What a CPU did for a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuActivity {
    /// Its number.
    pub cpu: u32,
    /// Share of the time, 0 to 1, that it worked; `None` where the kernel does not tell.
    pub busy: Option<f64>,
    /// The busiest CPU of the same core that is not to be measured itself.
    pub sibling: Option<Sibling>,
    /// Interrupts of devices in a second; those of timers and between CPUs are left out.
    pub interrupts_per_s: Option<f64>,
}

/// Another thread of the core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sibling {
    /// Its number.
    pub cpu: u32,
    /// Share of the time that it worked.
    pub busy: f64,
}

impl Machine {
    /// Looks at `cpus` for a moment (a tick of the kernel is 10 ms at most, so some tenths of a second).
    ///
    /// # Errors
    /// If `/proc/stat` cannot be read. Where `/proc/interrupts` cannot, interrupts are `None`.
    pub fn activity(
        &self,
        topology: &Topology,
        cpus: &CpuSet,
        moment: Duration,
    ) -> Result<Activity, MachineError> {
        let reading = || Ok::<_, MachineError>((self.cpu_times()?, self.device_interrupts()));
        let started = Instant::now();
        let before = reading()?;
        std::thread::sleep(moment);
        let after = reading()?;
        let seconds = started.elapsed().as_secs_f64();
        let interrupts = before.1.zip(after.1);
        Ok(between((&before.0, &after.0), interrupts.as_ref(), topology, cpus, seconds))
    }

    /// Interrupts of devices that each CPU has taken since it started: `/proc/interrupts`.
    fn device_interrupts(&self) -> Option<Interrupts> {
        let bytes = self.bytes("proc/interrupts", INTERRUPTS_BYTES).ok()?;
        of_devices(&String::from_utf8_lossy(&bytes))
    }
}

/// Sums of the lines of devices: those with a number, but for timers.
fn of_devices(text: &str) -> Option<Interrupts> {
    let mut lines = text.lines();
    let cpus: Vec<u32> = lines
        .next()?
        .split_ascii_whitespace()
        .map(|word| word.strip_prefix("CPU").and_then(|number| number.parse().ok()))
        .collect::<Option<_>>()?;
    let mut sums: Interrupts = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        if label.trim().parse::<u32>().is_err() || rest.contains("timer") {
            continue;
        }
        for (cpu, word) in cpus.iter().zip(rest.split_ascii_whitespace()) {
            let Ok(count) = word.parse::<u64>() else { break };
            if let Some(sum) = sums.get_mut(cpu) {
                *sum = sum.saturating_add(count);
            }
        }
    }
    Some(sums)
}

fn between(
    (before, after): (&CpuTimes, &CpuTimes),
    interrupts: Option<&(Interrupts, Interrupts)>,
    topology: &Topology,
    cpus: &CpuSet,
    seconds: f64,
) -> Activity {
    let busy = |cpu: u32| CpuTimes::busy_share(before, after, &CpuSet::from_iter([cpu]));
    let rate = |cpu: u32| {
        let (before, after) = interrupts?;
        let taken = after.get(&cpu)?.saturating_sub(*before.get(&cpu)?);
        (seconds > 0.0).then(|| taken as f64 / seconds)
    };
    let sibling = |cpu: u32| {
        let others = topology.cpu(cpu)?.siblings.difference(cpus);
        let shares = others.iter().filter_map(|cpu| Some(Sibling { cpu, busy: busy(cpu)? }));
        shares.max_by(|a, b| a.busy.total_cmp(&b.busy))
    };
    let of_cpu = |cpu: u32| CpuActivity {
        cpu,
        busy: busy(cpu),
        sibling: sibling(cpu),
        interrupts_per_s: rate(cpu),
    };
    Activity { seconds, cpus: cpus.iter().map(of_cpu).collect() }
}

impl Activity {
    /// What of it makes times and counts vary, with what to type.
    #[must_use]
    pub fn concerns(&self) -> Vec<CapabilityReason> {
        [self.busy(), self.siblings(), self.interrupts()].into_iter().flatten().collect()
    }

    fn busy(&self) -> Option<CapabilityReason> {
        let share = |one: &CpuActivity| Some((one.cpu, one.busy?));
        let (most, share) = self.busiest(share).filter(|(_, share)| *share > BUSY)?;
        let number = self.cpus.iter().filter(|one| one.busy.is_some_and(|b| b > BUSY)).count();
        Some(CapabilityReason {
            effect: "the program shares CPUs and caches with other processes".to_owned(),
            why: format!(
                "{number} of {} CPUs to be measured are already busy, CPU {most} {:.0}% of the \
                 time",
                self.cpus.len(),
                100.0 * share
            ),
            fix: Some(Fix::text("wait, or find the processes with top")),
        })
    }

    fn siblings(&self) -> Option<CapabilityReason> {
        let share = |one: &CpuActivity| {
            let sibling = one.sibling.as_ref()?;
            Some(((one.cpu, sibling.cpu), sibling.busy))
        };
        let ((cpu, sibling), busy) = self.busiest(share).filter(|(_, busy)| *busy > BUSY)?;
        Some(CapabilityReason {
            effect: "work on the sibling thread takes up to half of a core".to_owned(),
            why: format!(
                "CPU {sibling}, which shares a core with CPU {cpu}, is busy {:.0}% of the time",
                100.0 * busy
            ),
            fix: Some(Fix::text("other CPUs, or keep that one idle")),
        })
    }

    fn interrupts(&self) -> Option<CapabilityReason> {
        let rate = |one: &CpuActivity| Some((one.cpu, one.interrupts_per_s?));
        let (cpu, rate) = self.busiest(rate).filter(|(_, rate)| *rate > INTERRUPTS_PER_S)?;
        Some(CapabilityReason {
            effect: "interrupts delay the program and evict its cache lines".to_owned(),
            why: format!("CPU {cpu} handles {rate:.0} device interrupts per second"),
            fix: Some(Fix::text("other CPUs, or /proc/irq/*/smp_affinity_list")),
        })
    }

    /// The CPU with the most of something.
    fn busiest<K>(&self, of: impl Fn(&CpuActivity) -> Option<(K, f64)>) -> Option<(K, f64)> {
        self.cpus.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    const INTERRUPTS: &str = "           CPU0       CPU2\n\
        \x20 0:         10         20  IO-APIC   2-edge      timer\n\
        \x20 24:       100          5  PCI-MSIX-0000:00:01.0   0-edge      eth0\n\
        \x20 25:         1          2  PCI-MSIX-0000:00:02.0   0-edge      nvme0q1\n\
        LOC:   99999999   99999999   Local timer interrupts\n\
        ERR:          7\n";

    #[test]
    fn interrupts_of_devices_are_those_with_a_number() {
        let sums = of_devices(INTERRUPTS).unwrap();
        assert_eq!(sums, BTreeMap::from([(0, 101), (2, 7)]));
        assert_eq!(of_devices(""), None);
        assert_eq!(of_devices("CPU0 what\n"), None);
    }

    #[test]
    fn a_sibling_is_another_thread_of_the_core_that_is_not_measured() {
        let cpu = |id: u32| Cpu {
            id,
            node: 0,
            package: 0,
            die: 0,
            core: id % 2,
            l3: None,
            siblings: CpuSet::from_iter([id % 2, id % 2 + 2]),
        };
        let online = CpuSet::from_iter(0..4);
        let (possible, cpus) = (online.clone(), (0..4).map(cpu).collect());
        let topology = Topology { possible, online, cpus, nodes: Vec::new() };
        let before = CpuTimes::parse("cpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\ncpu3 0 0 0 0");
        let after = CpuTimes::parse("cpu0 10 0 0 0\ncpu1 0 0 0 10\ncpu2 5 0 0 5\ncpu3 3 0 0 7");
        let taken = |n| BTreeMap::from([(1, n)]);
        let interrupts = (taken(100), taken(300));
        let of = |cpus: &str| {
            let cpus = cpus.parse().unwrap();
            between((&before, &after), Some(&interrupts), &topology, &cpus, 0.5).cpus
        };
        let [one, three] = &of("1,3")[..] else { panic!() };
        assert_eq!((one.busy, one.interrupts_per_s, &one.sibling), (Some(0.0), Some(400.0), &None));
        assert_eq!((three.busy, three.interrupts_per_s, &three.sibling), (Some(0.3), None, &None));
        assert_eq!(of("0")[0].sibling, Some(Sibling { cpu: 2, busy: 0.5 }));
    }

    #[test]
    fn each_kind_of_disturbance_is_named_with_its_cpu() {
        let one = |cpu, busy, sibling: Option<(u32, f64)>, interrupts_per_s| CpuActivity {
            cpu,
            busy,
            sibling: sibling.map(|(cpu, busy)| Sibling { cpu, busy }),
            interrupts_per_s,
        };
        let cpus = vec![
            one(1, Some(0.02), Some((9, 0.4)), Some(20.0)),
            one(2, Some(0.61), Some((10, 0.01)), Some(5200.4)),
        ];
        let activity = Activity { seconds: 0.3, cpus };
        let whys: Vec<String> = activity.concerns().into_iter().map(|reason| reason.why).collect();
        let expected = [
            "1 of 2 CPUs to be measured are already busy, CPU 2 61% of the time",
            "CPU 9, which shares a core with CPU 1, is busy 40% of the time",
            "CPU 2 handles 5200 device interrupts per second",
        ];
        assert_eq!(whys, expected);
        let quiet = Activity { seconds: 0.3, cpus: vec![one(1, None, None, None)] };
        assert_eq!(quiet.concerns(), []);
    }
}
