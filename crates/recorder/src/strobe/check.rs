//! Measures the method itself: how constant offsets and lengths of windows are while all CPUs are busy,
//! and whether what loses the phase is seen and repaired.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmuscope_abi::record::kind;
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType};
use pmuscope_counters::{Kernel, OpenOptions, Ring, RingSize, SamplingSet, Scope};
use pmuscope_events::Event;
use pmuscope_machine::{CpuSet, Machine};
use pmuscope_perfdata::strobe::{Reason, StrobeInfo};

use super::setting::{Changed, Left};
use super::{Strobe, StrobePlan};
use crate::error::RecorderError;
use crate::options::StrobeOptions;
use crate::sys;
use crate::tally::RingView;

/// How often rings are looked at; phases at every second time.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A disturbance that is not seen after this is not seen.
const PATIENCE: Duration = Duration::from_secs(4);
/// Windows that follow a repair for this long.
const AFTERWARDS: Duration = Duration::from_millis(700);
/// CLOCK_MONOTONIC.
const CLOCK: i32 = 1;
/// Samples per second below which any recording is throttled.
const THROTTLING_HZ: &str = "100";

/// What came of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct StrobeCheck {
    /// Event, window and period, and what the phases came to.
    pub strobe: StrobeInfo,
    /// By CPU.
    pub cpus: Vec<CpuCheck>,
    /// In the order in which they were made.
    pub disturbances: Vec<Disturbance>,
    /// Whether it was to stop before all was done.
    pub interrupted: bool,
}

/// What can be disturbed on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturb {
    /// Somebody sets a period.
    Period,
    /// The kernel suspends sampling.
    Throttle,
    /// The last CPU goes offline and comes back.
    Hotplug,
}

/// Windows of one CPU while nothing was disturbed on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuCheck {
    /// The CPU.
    pub cpu: u32,
    /// Windows.
    pub windows: u64,
    /// Of these with a context switch inside.
    pub switched: u64,
    /// Of these with an offset other than that of their epoch.
    pub wrong_offset: u64,
    /// Furthest that `A.count − B.count` was from what it should be, in counts.
    pub drift: u64,
    /// Lengths of windows without a switch, ascending, less the window asked for.
    pub lengths: Vec<i64>,
}

/// Something that loses the phase, done on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// What was done.
    pub what: &'static str,
    /// On which CPU.
    pub cpu: u32,
    /// Why it could not be done.
    pub refused: Option<String>,
    /// The setting that stayed changed.
    pub left: Option<Left>,
    /// As what it was seen.
    pub seen_as: Option<Reason>,
    /// Windows of the right offset afterwards.
    pub right_afterwards: u64,
}

/// How a check is made.
pub struct StrobeTrial<'a> {
    /// How long nothing is disturbed on purpose.
    pub seconds: f64,
    /// What is disturbed then.
    pub disturb: &'a [Disturb],
    /// Whether to end now. Asked several times a second, since settings are changed meanwhile.
    pub stop: &'a dyn Fn() -> bool,
}

/// Samples all CPUs for some seconds while a thread keeps each busy; then disturbs as the trial lists.
/// Settings are put right afterwards, also where it is to stop.
///
/// # Errors
/// [`RecorderError`] where windows cannot be had.
pub fn strobe_check(
    kernel: &dyn Kernel,
    machine: &Machine,
    event: &Event,
    options: &StrobeOptions,
    trial: &StrobeTrial<'_>,
) -> Result<StrobeCheck, RecorderError> {
    let topology = machine.topology()?;
    let plan = StrobePlan::new(options, std::slice::from_ref(event), kernel, machine, &topology)?;
    let mut requests = Vec::new();
    let groups = plan.add_to(&mut requests, &shared(), event, options.burst);
    let info = plan.info(options, &event.name, None, groups);
    let scope = || Scope::Cpus(topology.online.clone());
    let ring_size = RingSize::AtMost(256 << 10);
    let open = OpenOptions { ring_size };
    let mut set = SamplingSet::open(kernel, machine, &topology, &scope(), requests, open)?;
    let strobe = Strobe::new(plan, info, scope(), None, &set, CLOCK);
    let rings = set.take_rings();
    let cpus = rings.iter().filter_map(Ring::cpu);
    let cpus = cpus.map(|cpu| CpuCheck { cpu, ..CpuCheck::default() }).collect();
    let (open, stop) = (Vec::new(), trial.stop);
    let check = Check { kernel, machine, set, rings, strobe, cpus, open, stop };
    let busy = Busy::new();
    std::thread::scope(|threads| {
        for cpu in topology.online.iter() {
            let busy = &busy;
            threads.spawn(move || busy.work(cpu));
        }
        let result = check.run(trial);
        busy.end();
        result
    })
}

/// What all events have in common.
fn shared() -> Attr {
    Attr {
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU,
        read_format: ReadFormat::ID,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::USE_CLOCKID,
        clockid: CLOCK,
        ..Attr::default()
    }
}

/// Threads that work in user mode until they are told to end.
struct Busy {
    ended: AtomicBool,
}

impl Busy {
    fn new() -> Self {
        Self { ended: AtomicBool::new(false) }
    }

    fn work(&self, cpu: u32) {
        // One that cannot go there works elsewhere.
        let _ = sys::pin(cpu);
        while !self.ended.load(Ordering::Relaxed) {
            sys::spin(100_000);
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// A sample that opened a window.
#[derive(Debug, Clone, Copy)]
struct WindowStart {
    ring: usize,
    a: u64,
    switches: u64,
}

struct Check<'a> {
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    set: SamplingSet,
    rings: Vec<Ring>,
    strobe: Strobe,
    cpus: Vec<CpuCheck>,
    open: Vec<WindowStart>,
    stop: &'a dyn Fn() -> bool,
}

impl Check<'_> {
    fn run(mut self, trial: &StrobeTrial<'_>) -> Result<StrobeCheck, RecorderError> {
        self.strobe.start(self.kernel, &self.set)?;
        self.look_for(Duration::from_secs_f64(trial.seconds), |_| false);
        let cpus = self.cpus.clone();
        let mut disturbances = Vec::new();
        for what in trial.disturb {
            if (self.stop)() {
                break;
            }
            disturbances.extend(match what {
                Disturb::Period => Some(self.foreign_period()),
                Disturb::Throttle => Some(self.throttling()),
                Disturb::Hotplug => self.absence(),
            });
        }
        let interrupted = (self.stop)();
        let _ = self.strobe.end(self.kernel, &self.set);
        // They are closed now. An error here would hide what became of settings.
        let _ = self.set.disable(self.kernel);
        let strobe = self.strobe.info(true);
        let cpus = cpus.into_iter().map(finished).collect();
        Ok(StrobeCheck { strobe, cpus, disturbances, interrupted })
    }

    /// Looks at rings and phases until the time is over, `done`, or told to stop; whether it was done.
    fn look_for(&mut self, time: Duration, mut done: impl FnMut(&StrobeInfo) -> bool) -> bool {
        let start = Instant::now();
        loop {
            for ring in 0..self.rings.len() {
                self.drain(ring);
            }
            let online = self.machine.online_cpus();
            self.strobe.update(self.kernel, &self.set, online.as_ref());
            if done(&self.strobe.info(false)) {
                return true;
            }
            if start.elapsed() >= time || (self.stop)() {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn drain(&mut self, ring: usize) {
        let (watch, pending) = (self.strobe.watch(), self.rings[ring].pending());
        watch.update(ring, &pending);
        let view = RingView::of(&pending);
        let Some(expected) = self.strobe.expected(ring) else {
            let end = pending.end();
            self.rings[ring].release(end);
            return;
        };
        let cpu = &mut self.cpus[ring];
        let open = &mut self.open;
        view.for_each(|at, header| {
            let word = |number: usize| view.word(at + 8 * number).unwrap_or(0);
            if header.kind != kind::SAMPLE || word(4) < expected.from_ns {
                return;
            }
            // … members, A's count and id, B's, and at the end the switches'.
            let (a, b) = (word(7), word(9));
            let switches = word(7 + 2 * (word(6) as usize).saturating_sub(1));
            let drift = (a.wrapping_sub(b).wrapping_sub(expected.apart) as i64).unsigned_abs();
            if word(1) == expected.opens {
                open.retain(|opened| opened.ring != ring);
                open.push(WindowStart { ring, a, switches });
            } else if let Some(at) = open.iter().position(|opened| opened.ring == ring) {
                let opened = open.swap_remove(at);
                cpu.windows += 1;
                cpu.drift = cpu.drift.max(drift);
                if drift > expected.tolerance {
                    cpu.wrong_offset += 1;
                } else if switches != opened.switches {
                    cpu.switched += 1;
                } else {
                    let length = a.wrapping_sub(opened.a) as i64;
                    cpu.lengths.push(length - expected.offset as i64);
                }
            }
        });
        let end = pending.end();
        self.rings[ring].release(end);
    }

    /// Somebody else sets a period, which forgets where the old one stood.
    fn foreign_period(&mut self) -> Disturbance {
        let edges = self.strobe.edges(&self.set, 0);
        let period = 2 * (self.strobe.cpus[0].period / 2 + 50_000);
        let cpu = self.strobe.cpus[0].number;
        let set = edges.iter().rev().try_for_each(|edge| self.kernel.set_period(edge.fd(), period));
        let signs = [Reason::LengthChanged, Reason::NoSamples, Reason::OffsetChanged];
        self.see("a period set by another program", &signs, cpu, set, Ok)
    }

    fn throttling(&mut self) -> Disturbance {
        let path = self.machine.root().join("proc/sys/kernel/perf_event_max_sample_rate");
        let cpu = self.strobe.cpus[0].number;
        let made = Changed::to(&path, THROTTLING_HZ);
        let signs = [Reason::Throttled];
        self.see("a lower sampling rate limit", &signs, cpu, made, Changed::put_right)
    }

    /// The last CPU, if it may go.
    fn absence(&mut self) -> Option<Disturbance> {
        let what = "a CPU that goes offline and comes back";
        let cpu = self.strobe.cpus.last()?.number;
        let switch: PathBuf =
            self.machine.root().join(format!("sys/devices/system/cpu/cpu{cpu}/online"));
        if !switch.exists() {
            return None;
        }
        let gone = match Changed::to(&switch, "0") {
            Ok(gone) => gone,
            Err(error) => return Some(Disturbance::refused(what, cpu, &error)),
        };
        self.look_for(Duration::from_millis(300), |_| false);
        // Nothing would be seen of a CPU that stays away.
        if let Err(left) = gone.put_right() {
            return Some(Disturbance { left: Some(left), ..Disturbance::new(what, cpu) });
        }
        Some(self.see(what, &[Reason::Hotplug], cpu, Ok(()), Ok))
    }

    /// Waits until a phase was set on `cpu` for one of the reasons in `signs`, puts the cause right, and
    /// counts right windows.
    fn see<T>(
        &mut self,
        what: &'static str,
        signs: &[Reason],
        cpu: u32,
        made: io::Result<T>,
        put_right: impl FnOnce(T) -> Result<(), Left>,
    ) -> Disturbance {
        let made = match made {
            Ok(made) => made,
            Err(error) => return Disturbance::refused(what, cpu, &error),
        };
        let mut told = Disturbance::new(what, cpu);
        let before = repairs(&self.strobe.info(false), cpu);
        self.look_for(PATIENCE, |info| {
            let new = |it: &&(Reason, u64)| signs.contains(&it.0) && !before.contains(it);
            told.seen_as = repairs(info, cpu).iter().find(new).map(|(reason, _)| *reason);
            told.seen_as.is_some()
        });
        told.left = put_right(made).err();
        // What is lost until the cause is gone is set right in this time.
        self.look_for(AFTERWARDS, |_| false);
        let right = |check: &Self| {
            let of_cpu = check.cpus.iter().filter(|it| it.cpu == cpu);
            of_cpu.map(|it| it.windows - it.wrong_offset).sum::<u64>()
        };
        let until_now = right(self);
        self.look_for(AFTERWARDS, |_| false);
        told.right_afterwards = right(self) - until_now;
        told
    }
}

impl Disturbance {
    /// Nothing is known of it yet.
    fn new(what: &'static str, cpu: u32) -> Self {
        Self { what, cpu, refused: None, left: None, seen_as: None, right_afterwards: 0 }
    }

    fn refused(what: &'static str, cpu: u32, error: &io::Error) -> Self {
        Self { refused: Some(error.to_string()), ..Self::new(what, cpu) }
    }
}

/// How often phases were set, by reason.
fn repairs(info: &StrobeInfo, cpu: u32) -> Vec<(Reason, u64)> {
    let of_cpu = info.cpus.iter().filter(|health| health.cpu == cpu);
    of_cpu.flat_map(|health| &health.rephased).copied().collect()
}

fn finished(mut cpu: CpuCheck) -> CpuCheck {
    cpu.lengths.sort_unstable();
    cpu
}

impl CpuCheck {
    /// The length that so many of 100 windows do not exceed, less the one asked for.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<i64> {
        let last = self.lengths.len().checked_sub(1)?;
        self.lengths.get(last * percent.min(100) / 100).copied()
    }
}

impl StrobeCheck {
    /// All CPUs that had windows, and those that had none.
    #[must_use]
    pub fn silent(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.windows == 0).map(|cpu| cpu.cpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Lab;
    use super::*;
    use std::cell::Cell;
    use std::path::Path;

    const LIMIT: &str = "proc/sys/kernel/perf_event_max_sample_rate";
    const SWITCH: &str = "sys/devices/system/cpu/cpu0/online";

    /// Checks a machine whose settings are files of `root`. It is to stop when `disturbed` says so.
    fn checked(root: &Path, disturb: Disturb, disturbed: &dyn Fn() -> bool) -> StrobeCheck {
        for (file, value) in [(LIMIT, "100000\n"), (SWITCH, "1\n")] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        }
        let Lab { pmu, mut set, strobe } = Lab::new(1);
        let rings = set.take_rings();
        let asked = Cell::new(false);
        let stop = || {
            asked.set(asked.get() || disturbed());
            asked.get()
        };
        let (machine, cpus) = (Machine::at(root), vec![CpuCheck::default()]);
        let (open, kernel, machine) = (Vec::new(), &*pmu, &machine);
        let check = Check { kernel, machine, set, rings, strobe, cpus, open, stop: &stop };
        check.run(&StrobeTrial { seconds: 0.0, disturb: &[disturb], stop: &stop }).unwrap()
    }

    #[test]
    fn a_check_that_is_to_stop_puts_right_what_it_disturbed() {
        let cases =
            [(Disturb::Throttle, LIMIT, "100", "100000"), (Disturb::Hotplug, SWITCH, "0", "1")];
        for (disturb, file, disturbed, before) in cases {
            let root = tempfile::tempdir().unwrap();
            let read = || std::fs::read_to_string(root.path().join(file)).unwrap();
            let start = Instant::now();
            let check = checked(root.path(), disturb, &|| read() == disturbed);
            assert_eq!(read(), before, "{file}");
            assert!(check.interrupted && check.disturbances[0].left.is_none(), "{check:?}");
            assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
        }
    }

    #[test]
    fn a_setting_that_cannot_be_put_right_is_told_apart_from_one_that_cannot_be_changed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(LIMIT);
        let check = checked(root.path(), Disturb::Throttle, &|| {
            let is_disturbed = std::fs::read_to_string(&path).is_ok_and(|it| it == THROTTLING_HZ);
            is_disturbed && std::fs::remove_dir_all(path.parent().unwrap()).is_ok()
        });
        let disturbance = &check.disturbances[0];
        let left = disturbance.left.as_ref().unwrap();
        assert_eq!((&left.path, &*left.before), (&path, "100000"));
        assert_eq!(disturbance.refused, None);
    }
}
