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

use super::{Plan, Strobe};
use crate::error::RecorderError;
use crate::options::StrobeOptions;
use crate::sys;
use crate::tally::View;

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
    /// As what it was seen.
    pub seen_as: Option<Reason>,
    /// Windows of the right offset afterwards.
    pub right_afterwards: u64,
}

/// Samples all CPUs for `seconds` while a thread keeps each busy; then does what `disturb` lists.
/// Settings are put right afterwards.
///
/// # Errors
/// [`RecorderError`] where windows cannot be had.
pub fn strobe_check(
    kernel: &dyn Kernel,
    machine: &Machine,
    event: &Event,
    options: &StrobeOptions,
    seconds: f64,
    disturb: &[Disturb],
) -> Result<StrobeCheck, RecorderError> {
    let topology = machine.topology()?;
    let plan = Plan::new(options, std::slice::from_ref(event), kernel, machine, &topology)?;
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
    let check = Check { kernel, machine, set, rings, strobe, cpus, open: Vec::new() };
    let busy = Busy::new();
    std::thread::scope(|threads| {
        for cpu in topology.online.iter() {
            let busy = &busy;
            threads.spawn(move || busy.work(cpu));
        }
        let result = check.run(seconds, disturb);
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
struct Opened {
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
    open: Vec<Opened>,
}

impl Check<'_> {
    fn run(mut self, seconds: f64, disturb: &[Disturb]) -> Result<StrobeCheck, RecorderError> {
        self.strobe.start(self.kernel, &self.set)?;
        self.look_for(Duration::from_secs_f64(seconds), |_| false);
        let cpus = self.cpus.clone();
        let mut disturbances = Vec::new();
        for what in disturb {
            disturbances.extend(match what {
                Disturb::Period => Some(self.foreign_period()),
                Disturb::Throttle => Some(self.throttling()),
                Disturb::Hotplug => self.absence(),
            });
        }
        let _ = self.strobe.end(self.kernel, &self.set);
        self.set.disable(self.kernel)?;
        let strobe = self.strobe.info(true);
        Ok(StrobeCheck { strobe, cpus: cpus.into_iter().map(finished).collect(), disturbances })
    }

    /// Looks at rings and phases until the time is over or `done`; whether it was.
    fn look_for(&mut self, time: Duration, mut done: impl FnMut(&StrobeInfo) -> bool) -> bool {
        let start = Instant::now();
        loop {
            for ring in 0..self.rings.len() {
                self.drain(ring);
            }
            let online = self.machine.online_cpus();
            self.strobe.look(self.kernel, &self.set, online.as_ref());
            if done(&self.strobe.info(false)) {
                return true;
            }
            if start.elapsed() >= time {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn drain(&mut self, ring: usize) {
        let (watch, pending) = (self.strobe.watch(), self.rings[ring].pending());
        watch.look(ring, &pending);
        let view = View::of(&pending);
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
                open.push(Opened { ring, a, switches });
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
        self.see("a period set by somebody else", &signs, cpu, set, || Ok(()))
    }

    fn throttling(&mut self) -> Disturbance {
        let path = self.machine.root().join("proc/sys/kernel/perf_event_max_sample_rate");
        let cpu = self.strobe.cpus[0].number;
        let before = std::fs::read_to_string(&path);
        let made = before
            .as_ref()
            .map_err(|e| io::Error::from(e.kind()))
            .and_then(|_| std::fs::write(&path, THROTTLING_HZ));
        let signs = [Reason::Throttled];
        self.see("a lower limit of the sampling rate", &signs, cpu, made, move || {
            before.and_then(|before| std::fs::write(path, before.trim()))
        })
    }

    /// The last CPU, if it may go.
    fn absence(&mut self) -> Option<Disturbance> {
        let cpu = self.strobe.cpus.last()?.number;
        let switch: PathBuf =
            self.machine.root().join(format!("sys/devices/system/cpu/cpu{cpu}/online"));
        if !switch.exists() {
            return None;
        }
        let made = std::fs::write(&switch, "0");
        self.look_for(Duration::from_millis(300), |_| false);
        let made = made.and_then(|()| std::fs::write(&switch, "1"));
        let what = "a CPU that goes offline and comes back";
        Some(self.see(what, &[Reason::Hotplug], cpu, made, || Ok(())))
    }

    /// Waits until a phase was set on `cpu` for one of the reasons in `signs`, puts the cause right, and
    /// counts right windows.
    fn see(
        &mut self,
        what: &'static str,
        signs: &[Reason],
        cpu: u32,
        made: io::Result<()>,
        put_right: impl FnOnce() -> io::Result<()>,
    ) -> Disturbance {
        let mut told = Disturbance { what, cpu, refused: None, seen_as: None, right_afterwards: 0 };
        if let Err(error) = made {
            told.refused = Some(error.to_string());
            return told;
        }
        let before = repairs(&self.strobe.info(false), cpu);
        self.look_for(PATIENCE, |info| {
            let new = |it: &&(Reason, u64)| signs.contains(&it.0) && !before.contains(it);
            told.seen_as = repairs(info, cpu).iter().find(new).map(|(reason, _)| *reason);
            told.seen_as.is_some()
        });
        if let Err(error) = put_right() {
            told.refused = Some(format!("the setting could not be put right: {error}"));
        }
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
