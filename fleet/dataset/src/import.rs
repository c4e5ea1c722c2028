//! A profile of one machine as rows.
//!
//! ```text
//!  Profile ─┬─ counts by stack, task, block of time ─► samples, by bin of wall-clock time
//!           ├─ stacks that were hit ─────────────────► stacks, frames: once per import
//!           ├─ what was recorded, lost and used ─────► intervals
//!           └─ the machine ──────────────────────────► hosts
//!  Windows ─── sums of functions by event ────────────► windows
//!  Waits ───┬─ their profile, by time off the CPU ───► all of these
//!           └─ lengths by what waits ────────────────► waits
//!  RunFile ─── runs and their values ────────────────► runs, run_values, hosts
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_profile::aggregate::{SampleCell, StackId, Task};
use pmuscope_profile::{EventProfile, Options, Profile};
use rustc_hash::{FxHashMap, FxHashSet};

use self::stacks::StackRows;
use self::time::WallClock;
use crate::column::Timestamp;
use crate::labels::Labels;
use crate::tables::{
    CountRow, FrameRow, HostRow, IntervalRow, LocalityRow, RunRow, RunValueRow, SampleRow,
    StackRow, WaitRow, WindowSumRow,
};

pub use self::runs::{RunsError, RunsOrigin, run_rows};
pub use self::waits::wait_rows;
pub use self::windows::{WindowsOf, window_rows};

mod benchmark;
mod runs;
mod stacks;
mod time;
mod waits;
mod windows;

/// What a recording does not say of itself.
#[derive(Debug, Clone)]
pub struct ImportOrigin {
    /// Host name, where it is not that of the recording.
    pub host: Option<Arc<str>>,
    /// When the first sample was taken, for recordings whose clock is not known to be wall-clock time.
    pub started: Option<Timestamp>,
    /// Length of a bin, a second or more.
    pub bin: Duration,
    /// Id of the import.
    pub batch: i64,
}

/// What a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskIdentity {
    /// Its service: a label, the systemd unit without its ending, or else the name of the thread.
    pub service: Arc<str>,
    /// Version of the service.
    pub version: Option<Arc<str>>,
    /// Unit of systemd.
    pub unit: Option<Arc<str>>,
    /// Id of the container.
    pub container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pub pod: Option<Arc<str>>,
}

impl TaskIdentity {
    /// A service of which nothing else is known.
    #[must_use]
    pub fn of_service(service: Arc<str>) -> Self {
        Self { service, version: None, unit: None, container: None, pod: None }
    }

    /// A process of which nothing but the name of a thread is known: that name up to a slash. The kernel's threads have
    /// names such as `kworker/0:1-events`; each would be a service of its own.
    #[must_use]
    pub fn of_thread(name: &Arc<str>) -> Self {
        let stem =
            name.split('/').next().filter(|stem| !stem.is_empty() && stem.len() < name.len());
        Self::of_service(stem.map_or_else(|| Arc::clone(name), Arc::from))
    }
}

/// Why a recording has no rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It does not say where it was made.
    #[error("the recording does not say on which host it was made. Try: --host NAME")]
    NoHost,
    /// It does not say when it was made.
    #[error("the recording does not say when it was made. Try: --started TIME")]
    NoTime,
    /// It says that it took longer than anybody records.
    #[error(
        "the recording says that it took {seconds} s: {bins} bins of {bin_s} s, more than {MOST_BINS}. Try: a larger --bin, \
         if that is true"
    )]
    TooLong {
        /// How long.
        seconds: i64,
        /// How many bins that would be.
        bins: i64,
        /// Length of a bin.
        bin_s: i64,
    },
}

/// Bins of a recording at most: a year of bins of 5 minutes. A file can claim any length.
const MOST_BINS: i64 = 105_120;

/// Rows of all tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Of `samples`.
    pub samples: Vec<SampleRow>,
    /// Of `frames`.
    pub frames: Vec<FrameRow>,
    /// Of `stacks`.
    pub stacks: Vec<StackRow>,
    /// Of `waits`.
    pub waits: Vec<WaitRow>,
    /// Of `windows`.
    pub windows: Vec<WindowSumRow>,
    /// Of `counts`.
    pub counts: Vec<CountRow>,
    /// Of `locality`.
    pub locality: Vec<LocalityRow>,
    /// Of `intervals`.
    pub intervals: Vec<IntervalRow>,
    /// Of `hosts`.
    pub hosts: Vec<HostRow>,
    /// Of `runs`.
    pub runs: Vec<RunRow>,
    /// Of `run_values`.
    pub run_values: Vec<RunValueRow>,
}

/// What a profile has to hold to become rows: all counts with their addresses, no rows of functions.
pub const PROFILE: Options =
    Options { detail: pmuscope_profile::Detail::Address, ..Options::COUNTS };

/// The rows of a profile that was made with [`PROFILE`]; `identify` says what a thread's process belongs to.
///
/// # Errors
/// [`ImportError`] if neither the recording nor `origin` says what is needed.
pub fn rows(
    profile: &Profile,
    origin: &ImportOrigin,
    identify: &dyn Fn(&Task) -> TaskIdentity,
) -> Result<Rows, ImportError> {
    Ok(Importing::new(profile, origin, Kind::Samples)?.rows(identify))
}

impl Rows {
    /// Gives the host these labels.
    pub fn label(&mut self, labels: &Labels) {
        for host in &mut self.hosts {
            host.labels = labels.text().map(Arc::from);
        }
    }

    /// Adds what another part of the same recording says.
    pub fn append(&mut self, other: Self) {
        let known: FxHashSet<i64> = self.stacks.iter().map(|row| row.stack_id).collect();
        let is_new = |id: i64| !known.contains(&id);
        self.stacks.extend(other.stacks.into_iter().filter(|row| is_new(row.stack_id)));
        self.frames.extend(other.frames.into_iter().filter(|row| is_new(row.stack_id)));
        self.samples.extend(other.samples);
        self.waits.extend(other.waits);
        self.windows.extend(other.windows);
        self.counts.extend(other.counts);
        self.locality.extend(other.locality);
        self.intervals.extend(other.intervals);
        self.runs.extend(other.runs);
        self.run_values.extend(other.run_values);
        let is_known = |row: &HostRow| self.hosts.contains(row);
        let hosts: Vec<HostRow> = other.hosts.into_iter().filter(|row| !is_known(row)).collect();
        self.hosts.extend(hosts);
    }
}

/// Samples and their weight.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    samples: u64,
    weight: u64,
}

/// Start of a bin, event, process, stack; the process is an index into [`BinSums::identities`].
type SumKey = (i64, u32, u32, StackId);

struct BinSums {
    identities: Vec<TaskIdentity>,
    by_key: BTreeMap<SumKey, Sum>,
}

/// What a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Samples of the recording's events.
    Samples,
    /// Time off the CPU, made of records of switches: its events are none of the recording's.
    Waits,
}

struct Importing<'a> {
    profile: &'a Profile,
    origin: &'a ImportOrigin,
    kind: Kind,
    host: Arc<str>,
    boot: Option<Arc<str>>,
    clock: WallClock,
}

impl<'a> Importing<'a> {
    fn new(
        profile: &'a Profile,
        origin: &'a ImportOrigin,
        kind: Kind,
    ) -> Result<Self, ImportError> {
        let recorded = profile.metadata.hostname.as_deref().filter(|name| !name.is_empty());
        let recorded = recorded.map(Arc::from);
        let host = origin.host.clone().or(recorded).ok_or(ImportError::NoHost)?;
        let boot = profile.info().and_then(|info| info.machine.boot_id.as_deref()).map(Arc::from);
        let clock = WallClock::of(profile, origin.started).ok_or(ImportError::NoTime)?;
        let importing = Self { profile, origin, kind, host, boot, clock };
        importing.is_of_sane_length()?;
        Ok(importing)
    }

    fn rows(&self, identify: &dyn Fn(&Task) -> TaskIdentity) -> Rows {
        let sums = self.sums(identify);
        let mut stacks = StackRows::new(self.profile);
        let samples = self.samples(&sums, &mut stacks);
        let intervals = self.intervals(&sums);
        let hosts = vec![self.host_row()];
        let (stacks, frames) = stacks.finish();
        Rows { samples, frames, stacks, intervals, hosts, ..Rows::default() }
    }
}

impl Importing<'_> {
    fn bin_us(&self) -> i64 {
        i64::try_from(self.origin.bin.as_micros()).unwrap_or(i64::MAX).max(1)
    }

    /// Start of the bin of a moment, both in microseconds of wall-clock time.
    fn bin_of(&self, at_us: i64) -> i64 {
        at_us.div_euclid(self.bin_us()).saturating_mul(self.bin_us())
    }

    fn is_of_sane_length(&self) -> Result<(), ImportError> {
        let (start_us, end_us) = self.clock.recorded_us(self.profile);
        let length_us = end_us.saturating_sub(start_us);
        let bins = length_us / self.bin_us();
        if bins > MOST_BINS {
            let (seconds, bin_s) = (length_us / 1_000_000, self.bin_us() / 1_000_000);
            return Err(ImportError::TooLong { seconds, bins, bin_s });
        }
        Ok(())
    }

    /// Counts by bin.
    fn sums(&self, identify: &dyn Fn(&Task) -> TaskIdentity) -> BinSums {
        let counts = &self.profile.aggregate;
        let (identities, of_task) = self.identities(identify);
        let mut by_key = BTreeMap::new();
        let mut add = |cell: &SampleCell, at_ns: u64, samples: u64, weight: u64| {
            let bin = self.bin_of(self.clock.wall_us(at_ns));
            let key: SumKey = (bin, cell.event, of_task[cell.task as usize], cell.stack);
            let sum: &mut Sum = by_key.entry(key).or_default();
            sum.samples += samples;
            sum.weight = sum.weight.saturating_add(weight);
        };
        let timeline = counts.timeline;
        if timeline.blocks == 0 {
            counts
                .cells
                .iter()
                .for_each(|cell| add(cell, timeline.start, cell.samples, cell.weight));
        } else {
            counts.series.for_each(|cell, count| {
                let at = timeline.start + u64::from(count.block) * timeline.block_ns;
                add(&counts.cells[cell as usize], at, count.samples.into(), count.weight);
            });
        }
        BinSums { identities, by_key }
    }

    /// What processes belong to, each once, and the index of each task's.
    fn identities(
        &self,
        identify: &dyn Fn(&Task) -> TaskIdentity,
    ) -> (Vec<TaskIdentity>, Vec<u32>) {
        let mut all: Vec<TaskIdentity> = Vec::new();
        let mut known: FxHashMap<TaskIdentity, u32> = FxHashMap::default();
        let of_task = self.profile.aggregate.tasks.iter().map(|task| {
            *known.entry(identify(task)).or_insert_with_key(|identity| {
                all.push(identity.clone());
                (all.len() - 1) as u32
            })
        });
        let of_task = of_task.collect();
        (all, of_task)
    }

    fn samples(&self, sums: &BinSums, stacks: &mut StackRows<'_>) -> Vec<SampleRow> {
        let events: FxHashMap<u32, (Arc<str>, WeightUnit)> = self
            .profile
            .events
            .iter()
            .map(|event| (event.index, (Arc::from(&*event.name), WeightUnit::of(event))))
            .collect();
        // Several places of one kernel function are one stack in the tables.
        let mut merged: BTreeMap<(i64, u32, u32, i64), Sum> = BTreeMap::new();
        for (&(bin, event, process, stack), sum) in &sums.by_key {
            let key = (bin, event, process, stacks.id(stack));
            let all = merged.entry(key).or_default();
            all.samples += sum.samples;
            all.weight = all.weight.saturating_add(sum.weight);
        }
        let row = |((bin, event, process, stack_id), sum): ((i64, u32, u32, i64), Sum)| {
            let (name, unit) = events.get(&event)?;
            let identity = &sums.identities[process as usize];
            Some(SampleRow {
                start: Timestamp(bin),
                bin_us: self.bin_us(),
                host: Arc::clone(&self.host),
                boot: self.boot.clone(),
                service: Arc::clone(&identity.service),
                version: identity.version.clone(),
                unit: identity.unit.clone(),
                container: identity.container.clone(),
                pod: identity.pod.clone(),
                event: Arc::clone(name),
                stack_id,
                samples: signed(sum.samples),
                weight: signed(unit.weight(sum)),
                weight_unit: Arc::from(unit.name()),
                batch: self.origin.batch,
            })
        };
        merged.into_iter().filter_map(row).collect()
    }

    /// Where the first bin of the recording begins, and the length of all of them, microseconds.
    fn all_bins(&self) -> (i64, i64) {
        let (start_us, end_us) = self.clock.recorded_us(self.profile);
        let first = self.bin_of(start_us);
        // A recording that ends with a bin has nothing in the next one.
        let last = self.bin_of((end_us - 1).max(start_us));
        (first, last.saturating_add(self.bin_us()).saturating_sub(first))
    }

    /// When an event was recorded in a bin, with nothing counted.
    fn empty_interval(&self, bin: i64, event: &str) -> IntervalRow {
        let (start_us, end_us) = self.clock.recorded_us(self.profile);
        let until = bin.saturating_add(self.bin_us()).min(end_us);
        IntervalRow {
            start: Timestamp(bin),
            bin_us: self.bin_us(),
            host: Arc::clone(&self.host),
            boot: self.boot.clone(),
            event: event.into(),
            cpus: self.profile.metadata.cpus.map(i64::from),
            recorded_us: (until - bin.max(start_us)).max(0),
            recorder: self.profile.info().map(|info| Arc::from(&*info.tool)),
            batch: self.origin.batch,
            ..IntervalRow::default()
        }
    }

    /// One row per event and bin, from the first to the last of the recording.
    fn intervals(&self, sums: &BinSums) -> Vec<IntervalRow> {
        let (first, length_us) = self.all_bins();
        let last = first + length_us - self.bin_us();
        let mut bins: BTreeMap<(i64, u32), u64> = BTreeMap::new();
        let indices = || self.profile.events.iter().map(|event| event.index);
        let mut bin = first;
        while bin <= last {
            indices().for_each(|event| _ = bins.insert((bin, event), 0));
            bin = bin.saturating_add(self.bin_us());
        }
        let shown: FxHashSet<u32> = indices().collect();
        for (&(bin, event, ..), sum) in sums.by_key.iter().filter(|(key, _)| shown.contains(&key.1))
        {
            *bins.entry((bin, event)).or_default() += sum.samples;
        }
        let row = |((bin, event), samples): ((i64, u32), u64)| {
            let at = self.profile.events.iter().position(|one| one.index == event)?;
            Some(self.interval(bin, at, samples, bin == last))
        };
        bins.into_iter().filter_map(row).collect()
    }

    /// Losses and costs that a recording has only as sums are in its last bin.
    fn interval(&self, bin: i64, at: usize, samples: u64, is_last: bool) -> IntervalRow {
        let event = &self.profile.events[at];
        let in_last = |value: u64| if is_last { value } else { 0 };
        let (lost, throttled, own_us) = match self.kind {
            Kind::Samples => {
                let info = self.profile.info();
                let throttled = info.and_then(|info| info.events.get(event.index as usize));
                let of_all = if at == 0 { self.profile.throttled } else { 0 };
                let own = info.map(|info| ((info.cost.user_s + info.cost.system_s) * 1e6) as u64);
                (event.lost, throttled.map_or(of_all, |event| event.throttled), own)
            }
            // Any record that was lost can have been that of a switch. What it cost is in the rows of samples.
            Kind::Waits if at == 0 => (Some(self.profile.lost.count), self.profile.throttled, None),
            Kind::Waits => (Some(0), 0, None),
        };
        IntervalRow {
            samples: signed(samples),
            lost: lost.map(|lost| signed(in_last(lost))),
            throttled: signed(in_last(throttled)),
            own_cpu_us: own_us.filter(|_| at == 0).map(|us| signed(in_last(us))),
            ..self.empty_interval(bin, &event.name)
        }
    }

    fn host_row(&self) -> HostRow {
        let metadata = &self.profile.metadata;
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        HostRow {
            seen: Timestamp(self.clock.recorded_us(self.profile).0),
            host: Arc::clone(&self.host),
            boot: self.boot.clone(),
            kernel: text(&metadata.os_release),
            arch: text(&metadata.arch),
            cpu_model: text(&metadata.cpu_model),
            cpus: metadata.cpus.map(i64::from),
            nodes: metadata.nodes.map(i64::from),
            emulator: self.profile.info().and_then(|info| text(&info.machine.emulator)),
            labels: None,
        }
    }
}

/// What the numbers in `weight` count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WeightUnit {
    scale: WeightScale,
    /// What each sample stands for, where samples do not say it themselves.
    period: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WeightScale {
    Microseconds,
    Thousands,
    Ones,
    Samples,
}

/// Events whose samples stand for this many are counted in thousands: sums over a fleet stay below 2^63.
const MANY: u64 = 100_000;

impl WeightUnit {
    fn of(event: &EventProfile) -> Self {
        let period = event.fixed_period.filter(|_| !event.by_period);
        let mean = period.or(event.period.map(|all| all / event.samples.max(1)));
        let scale = match mean.filter(|_| event.by_period || period.is_some()) {
            None => WeightScale::Samples,
            Some(_) if event.is_time() => WeightScale::Microseconds,
            Some(MANY..) => WeightScale::Thousands,
            Some(_) => WeightScale::Ones,
        };
        Self { scale, period }
    }

    fn weight(self, sum: Sum) -> u64 {
        let units = self.period.map_or(sum.weight, |period| period.saturating_mul(sum.samples));
        match self.scale {
            WeightScale::Microseconds | WeightScale::Thousands => units.saturating_add(500) / 1000,
            WeightScale::Ones => units,
            WeightScale::Samples => sum.samples,
        }
    }

    fn name(self) -> &'static str {
        match self.scale {
            WeightScale::Microseconds => "us",
            WeightScale::Thousands => "thousand",
            WeightScale::Ones => "one",
            WeightScale::Samples => "sample",
        }
    }
}

/// BinSums of recordings are far below; what is absurd stops at the largest number.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
