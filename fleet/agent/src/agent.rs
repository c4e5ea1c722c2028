//! The loop of an agent: a bin, its rows, the spool, the sink.
//!
//! ```text
//!  run ─► follow at a rate ─► bin ─► bin ─► … ─┬─ another rate, or too much memory ─► follow again, with nothing kept
//!                                              ├─ another configuration is wished for ─► AgentEnd::Reload
//!                                              └─ the end is wished for ─► AgentEnd::Stopped
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pmuscope_abi::AttrFlags;
use pmuscope_counters::Host;
use pmuscope_dataset::{AgentRow, ImportError, ImportOrigin, PROFILE, Rows, Timestamp, rows};
use pmuscope_delivery::{EndpointError, FileSink, FolderSink, PushSink, S3Sink, SinkError};
use pmuscope_events::{EventError, MachineCatalog, Sampling as EventSampling, default_event};
use pmuscope_live::{KnownNames, LiveError, Ticker};
use pmuscope_machine::child::{thread_cpu_ns, usage_of_children};
use pmuscope_machine::{Machine, MachineError, Target};
use pmuscope_measurements::{DeliveryName, Services};
use pmuscope_profile::{GroupBy, Profile, TasksBy};
use pmuscope_recorder::{CallGraph, FollowOptions, Following, RecorderError, Sampling, follow};
use pmuscope_symbols::{Options as SymbolOptions, Symbolizer};

use crate::config::{AgentConfig, ConfigError, SinkConfig};
use crate::health::Health;
use crate::known_stacks::KnownStacks;
use crate::rate::{BinCost, next_rate};
use crate::schedule::{EndedMeasurement, MeasurementSchedules};
use crate::spool::{Backlog, Spool, SpoolError};

/// How often processes are asked what they belong to, where there are few of them.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Pause between two readings, as a multiple of the CPU time of the last one: reading takes 0.2% of one CPU at most.
const READ_PAUSE: u32 = 500;
const US_PER_S: i64 = 1_000_000;
/// Time for a delivery at most: samples of the next bin wait in memory meanwhile.
const DELIVERY: Duration = Duration::from_secs(60);

/// Part of the budget that samples have whatever measurements take.
const LEAST_FOR_SAMPLES: f64 = 0.25;

/// Why an agent cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// What the machine has.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The event that is sampled.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Sampling cannot begin.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// Sampling cannot go on.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A bin has no rows.
    #[error(transparent)]
    Rows(#[from] ImportError),
    /// The spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A sink that cannot be used whatever happens.
    #[error(transparent)]
    FileSink(#[from] SinkError),
    /// A receiver that cannot be one.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// What the configuration says of sinks.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// How long memory above its bound is borne after names were forgotten: if those in use take that much, it would not help.
const BEAR: Duration = Duration::from_secs(600);

/// What the program that runs an agent wants it to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Bin after bin.
    GoOn,
    /// To deliver what was recorded so far, and to end.
    Stop,
    /// The same, to go on with another configuration.
    Reload,
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    /// As it was wished for, or after one bin.
    Stopped,
    /// For another configuration.
    Reload {
        /// Samples that were dropped and are in no row yet, for [`run`].
        dropped: u64,
    },
}

/// What happened to a bin.
#[derive(Debug, Clone, PartialEq)]
pub struct BinReport {
    /// Its length, seconds.
    pub seconds: f64,
    /// Samples.
    pub samples: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// CPU time of the agent, seconds.
    pub cpu_s: f64,
    /// Samples of earlier bins that were dropped because the spool was full.
    pub dropped: u64,
    /// Files that were delivered.
    pub delivered: u64,
    /// What waits.
    pub waiting: Backlog,
    /// Samples that receivers of OTLP or pprof did not take.
    pub unpushed: u64,
    /// The same by service.
    pub unpushed_services: BTreeMap<String, u64>,
    /// Why the rest was not delivered or pushed.
    pub warnings: Vec<String>,
    /// Why the bin itself is not kept: its samples are dropped.
    pub unkept: Option<String>,
    /// CPU time that recording took, as a part of the machine's, 0 to 1.
    pub overhead: f64,
    /// Samples per second and CPU from now on, where that has changed.
    pub new_frequency_hz: Option<u64>,
    /// Measurements that ended within the bin: which, and what it had, in words.
    pub measurements: Vec<(&'static str, String)>,
}

/// How an agent runs.
pub struct RunOptions<'a> {
    /// One bin only.
    pub once: bool,
    /// Samples that an earlier configuration dropped, which the next row counts.
    pub dropped: u64,
    /// The command that calls [`Measurement::measure`](pmuscope_measurements::Measurement::measure) of the measurement of
    /// this name and for this folder, prints its summary as JSON, and ends.
    pub measure: &'a dyn Fn(&str, &Path) -> Command,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions").field("once", &self.once).finish_non_exhaustive()
    }
}

/// Records bin after bin as `wish` says, or one bin; each is reported.
///
/// # Errors
/// [`AgentError`]. What was recorded before is in the spool or delivered.
pub fn run(
    config: &AgentConfig,
    how: &RunOptions<'_>,
    wish: &dyn Fn() -> Wish,
    report: &mut dyn FnMut(&BinReport),
) -> Result<AgentEnd, AgentError> {
    let RunOptions { once, dropped, measure } = *how;
    let machine = Machine::host();
    let mut spool = Spool::open(&config.spool.folder, config.spool.max_mib << 20)?;
    let outlets = Outlets::new(config)?;
    let failed = |source| SpoolError::Io { path: config.spool.folder.clone(), source };
    let mut health = Health::new(&config.spool.folder).map_err(failed)?;
    let report = &mut |bin: &BinReport| {
        health.note(bin);
        report(bin);
    };
    let state = RunState {
        frequency_hz: config.frequency_hz,
        dropped,
        restarted: None,
        since: BinCost::default(),
        lowered_from: None,
        measurements: Overheads::default(),
    };
    let schedules = MeasurementSchedules::new(&config.measurements(), once);
    let mut kept = CarriedOver::new(state, config, schedules);
    loop {
        let options = options(config, &machine, kept.state.frequency_hz)?;
        let next = follow(options, &Host, &machine, |following| {
            let places = (&mut spool, &outlets);
            let agent = Agent::new(config, &machine, places, following, kept);
            agent.run(once, measure, wish, report)
        })??;
        match next {
            Next::Ended(ended) => {
                // A measurement that was under way has ended with its schedule.
                spool.empty_scratch()?;
                return Ok(ended);
            }
            Next::Again(next) => kept = *next,
        }
    }
}

/// Where bins go.
struct Outlets {
    /// Files, from the spool.
    sinks: Vec<FileSink>,
    /// Rows, once.
    receivers: Vec<PushSink>,
}

impl Outlets {
    fn new(config: &AgentConfig) -> Result<Self, AgentError> {
        let SinkConfig { folder, s3_endpoint, otlp, pprof, .. } = &config.sink;
        let mut sinks: Vec<FileSink> =
            folder.iter().map(|folder| FolderSink::new(folder).into()).collect();
        if let Some(location) = config.sink.s3()? {
            sinks.push(FileSink::S3(S3Sink::new(&location, s3_endpoint.as_deref())?));
        }
        let otlp = otlp.iter().map(|endpoint| PushSink::otlp(endpoint));
        let pprof = pprof.iter().map(|endpoint| PushSink::pprof(endpoint));
        Ok(Self { sinks, receivers: otlp.chain(pprof).collect::<Result<_, _>>()? })
    }

    /// Pushes rows to all receivers.
    fn push(&self, rows: &Rows) -> PushReport {
        let mut report = PushReport::default();
        for receiver in &self.receivers {
            let rejected =
                |rejected: u64| format!("{}: {rejected} profiles rejected", receiver.endpoint());
            let pushed = receiver.push(rows);
            for failure in &pushed.failures {
                report.warnings.push(failure.to_string());
                for (service, samples) in &failure.services {
                    *report.unpushed.entry(service.clone()).or_default() += samples;
                }
            }
            report
                .warnings
                .extend((pushed.rejected_profiles > 0).then(|| rejected(pushed.rejected_profiles)));
            report.warnings.extend(pushed.messages);
        }
        report
    }
}

/// What receivers did not take.
#[derive(Debug, Default)]
struct PushReport {
    /// Samples by service.
    unpushed: BTreeMap<String, u64>,
    warnings: Vec<String>,
}

/// How far an agent is.
#[derive(Debug, Clone, Copy)]
struct RunState {
    /// Samples per second and CPU.
    frequency_hz: u64,
    /// Samples that were dropped since the last row of the agent.
    dropped: u64,
    /// When it forgot names because of its memory.
    restarted: Option<Instant>,
    /// What recording has cost since the rate was last thought about, without measurements.
    since: BinCost,
    /// What bins had cost when the rate was lowered first, for the same reason as now.
    lowered_from: Option<BinCost>,
    /// What measurements take of the machine.
    measurements: Overheads,
}

/// What measurements take of the machine, 0 to 1: the last of each, over the time until the next.
#[derive(Debug, Clone, Copy, Default)]
struct Overheads([(&'static str, f64); 4]);

impl Overheads {
    fn set(&mut self, name: &'static str, overhead: f64) {
        let is_its = |(of, _): &&mut (&'static str, f64)| *of == name || of.is_empty();
        if let Some(place) = self.0.iter_mut().find(is_its) {
            *place = (name, overhead);
        }
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|(_, overhead)| overhead).sum()
    }
}

/// What outlives events that are opened again: to find all names anew would cost more than a lower rate saves.
struct CarriedOver {
    state: RunState,
    names: KnownNames,
    services: Services,
    schedules: MeasurementSchedules,
    stacks: KnownStacks,
}

impl CarriedOver {
    /// With nothing known.
    fn new(state: RunState, config: &AgentConfig, schedules: MeasurementSchedules) -> Self {
        let symbolizer = Symbolizer::new(SymbolOptions { inlined: false });
        let version = config.version.as_deref().map(Arc::from);
        Self {
            state,
            names: KnownNames::new(symbolizer),
            services: Services::new(Machine::host(), version),
            schedules,
            stacks: KnownStacks::default(),
        }
    }
}

/// What comes after the last bin of a rate.
enum Next {
    Ended(AgentEnd),
    Again(Box<CarriedOver>),
}

/// What is sampled.
fn options(
    config: &AgentConfig,
    machine: &Machine,
    frequency_hz: u64,
) -> Result<FollowOptions, AgentError> {
    let catalog = MachineCatalog::new(machine)?;
    let (mut groups, _) = default_event(&catalog)?;
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        event.sampling.get_or_insert(EventSampling::Frequency(frequency_hz));
        // What no CPU did is the rest of `intervals`; samples of it would be most of all rows.
        event.attr.flags |= AttrFlags::EXCLUDE_IDLE;
    }
    let target = match &config.cgroup {
        Some(path) => Target::Cgroup { path: path.clone(), cpus: None },
        None => Target::System,
    };
    let call_graph = match config.call_stacks {
        true => CallGraph::FramePointer { depth: 0 },
        false => CallGraph::None,
    };
    let sampling = Sampling::Frequency(frequency_hz);
    // A path may be no UTF-8.
    let own_command_line =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(FollowOptions { target, groups, sampling, call_graph, own_command_line })
}

struct Agent<'a> {
    config: &'a AgentConfig,
    spool: &'a mut Spool,
    outlets: &'a Outlets,
    services: Services,
    following: &'a Following<'a>,
    ticker: Ticker<'a>,
    boot: Option<Arc<str>>,
    cpus: usize,
    state: RunState,
    schedules: MeasurementSchedules,
    /// Stacks that are delivered or in the spool.
    stacks: KnownStacks,
    /// CPU time of measurements that have ended, seconds since the start of this process.
    children_s: f64,
    /// Measurements that have ended since the last row.
    ended: Vec<EndedMeasurement>,
}

impl<'a> Agent<'a> {
    fn new(
        config: &'a AgentConfig,
        machine: &Machine,
        (spool, outlets): (&'a mut Spool, &'a Outlets),
        following: &'a Following<'a>,
        kept: CarriedOver,
    ) -> Self {
        let group = GroupBy { chains: config.call_stacks, tasks: TasksBy::Process, cpus: false };
        Self {
            config,
            spool,
            outlets,
            services: kept.services,
            following,
            ticker: Ticker::new(following, kept.names, group, PROFILE),
            boot: machine.boot_id().map(Arc::from),
            cpus: machine.online_cpus().map_or(1, |cpus| cpus.len()),
            state: kept.state,
            schedules: kept.schedules,
            stacks: kept.stacks,
            children_s: children_s(),
            ended: Vec::new(),
        }
    }

    fn run(
        mut self,
        once: bool,
        measure: &dyn Fn(&str, &Path) -> Command,
        wish: &dyn Fn() -> Wish,
        report: &mut dyn FnMut(&BinReport),
    ) -> Result<Next, AgentError> {
        let scratch = self.spool.scratch();
        loop {
            let bin = self.config.bin();
            let length = if once { bin } else { to_next_bin(self.end_us(), bin) };
            let mut next_read = Instant::now();
            let (services, schedules) = (&mut self.services, &mut self.schedules);
            let command = |name: &str| measure(name, &scratch.join(name));
            let mut tick = self.ticker.next(length, || {
                if Instant::now() >= next_read {
                    let before = thread_cpu_ns();
                    services.read_new();
                    let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
                    next_read = Instant::now() + READ_EVERY.max(took * READ_PAUSE);
                }
                schedules.poll(&command);
                wish() != Wish::GoOn
            })?;
            let end_us = self.end_us();
            if once {
                self.schedules.finish(&command);
            }
            self.adopt_measurements()?;
            let bin = self.keep(&mut tick.profile, end_us)?;
            report(&bin);
            self.services.forget_ended();
            if tick.last || once {
                let is_reload = wish() == Wish::Reload;
                return Ok(Next::Ended(if is_reload {
                    AgentEnd::Reload { dropped: self.state.dropped }
                } else {
                    AgentEnd::Stopped
                }));
            }
            if let Some(frequency_hz) = bin.new_frequency_hz {
                let state = RunState { frequency_hz, ..self.state };
                let (names, services) = (self.ticker.into_names(), self.services);
                let (schedules, stacks) = (self.schedules, self.stacks);
                let kept = CarriedOver { state, names, services, schedules, stacks };
                return Ok(Next::Again(Box::new(kept)));
            }
            if self.has_to_forget() {
                let state = RunState { restarted: Some(Instant::now()), ..self.state };
                let mut kept = CarriedOver::new(state, self.config, self.schedules);
                kept.stacks = self.stacks;
                return Ok(Next::Again(Box::new(kept)));
            }
        }
    }

    /// Puts the rows of measurements that have ended into the spool.
    fn adopt_measurements(&mut self) -> Result<(), AgentError> {
        for mut ended in self.schedules.ended() {
            let adopted = match &ended.result {
                Ok(_) => self.spool.adopt(ended.name),
                Err(_) => Ok(()),
            };
            if let Err(error) = adopted {
                // As on a full disk: bins go on.
                ended.result = Err(error.to_string());
            }
            if ended.result.is_err() {
                self.spool.empty_scratch_of(ended.name)?;
            }
            self.ended.push(ended);
        }
        Ok(())
    }

    /// Whether names take more memory than they may.
    fn has_to_forget(&self) -> bool {
        let bytes = self.config.memory_mib << 20;
        let is_above = own_memory().is_some_and(|own| own.unsigned_abs() > bytes);
        is_above && self.state.restarted.is_none_or(|at| at.elapsed() >= BEAR)
    }

    /// The end of the last bin by the wall clock as it is now, microseconds since 1970.
    fn end_us(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago_ns = self.following.now() as i64 - self.ticker.end() as i64;
        now.as_micros() as i64 - ago_ns / 1000
    }

    /// Puts a bin that ended at `end_us` into the spool, and delivers what waits there.
    fn keep(&mut self, profile: &mut Profile, end_us: i64) -> Result<BinReport, AgentError> {
        // The wall clock may have been set since the recorder began: each bin has the time of its own.
        let end_us = near_multiple(end_us, self.config.bin());
        if let Some(info) = &mut profile.metadata.info {
            let start_us = end_us - (info.duration_s * 1e6) as i64;
            let start_us = near_multiple(start_us, self.config.bin());
            info.started_unix_ns = u64::try_from(start_us).unwrap_or(0) * 1000;
            info.duration_s = (end_us - start_us) as f64 / 1e6;
        }
        let info = profile.info().cloned().unwrap_or_default();
        let host: Arc<str> = self.config.host.as_deref().unwrap_or(&info.machine.hostname).into();
        let name = DeliveryName::new(&host, self.boot.as_deref(), self.ticker.end());
        let (batch, name) = (name.batch(), name.to_string());
        let children_s = children_s();
        let measuring_s = children_s - self.children_s;
        self.children_s = children_s;
        let sampling_s = info.cost.user_s + info.cost.system_s;
        let cpu_s = sampling_s + measuring_s;
        let ended = std::mem::take(&mut self.ended);
        let bin = self.config.bin();
        let origin = ImportOrigin { host: Some(Arc::clone(&host)), started: None, bin, batch };
        let ran = profile.aggregate.tasks.iter().filter_map(|task| task.pid);
        self.services.read_again(ran);
        let mut rows = rows(profile, &origin, &|task| self.services.identity(task))?;
        rows.label(&self.config.labels()?);
        let pushed = self.outlets.push(&rows);
        let unpushed: u64 = pushed.unpushed.values().sum();
        let mut agent = self.agent_row(profile, &rows, cpu_s, (&host, batch))?;
        agent.off_cpu_rss_bytes = peak_rss(ended.iter().filter(|one| one.name == "off_cpu"));
        agent.measurement_rss_bytes = peak_rss(ended.iter());
        agent.unpushed_samples = (!self.outlets.receivers.is_empty()).then_some(unpushed as i64);
        let when = agent.start;
        let unkept = self.store(rows, agent, (when, &name), profile.samples())?;
        let until = Instant::now() + DELIVERY.min(self.config.bin() / 2);
        let delivery = self.spool.deliver(&self.outlets.sinks, until)?;
        let shrunk = self.spool.shrink()?;
        if let Some(samples) = shrunk {
            self.state.dropped += samples;
            self.stacks.forget();
        }
        let undelivered = delivery.errors.values().map(ToString::to_string);
        let (measurements, failed) = said(&ended);
        let warnings = undelivered.chain(pushed.warnings).chain(failed).collect();
        let sampling = BinCost {
            cpu_s: sampling_s,
            samples: profile.samples(),
            seconds: info.duration_s,
            cpus: self.cpus,
        };
        Ok(BinReport {
            seconds: info.duration_s,
            samples: profile.samples(),
            lost: profile.lost.count,
            cpu_s,
            dropped: shrunk.unwrap_or(0),
            delivered: delivery.files,
            waiting: self.spool.waiting()?,
            unpushed,
            unpushed_services: pushed.unpushed,
            warnings,
            unkept,
            overhead: BinCost { cpu_s, ..sampling }.overhead(),
            new_frequency_hz: self.think_about_rate(&sampling, &ended),
            measurements,
        })
    }

    /// The rate of the next bins, where it has to change. A measurement costs all at once: it counts over the time until the
    /// next one.
    fn think_about_rate(&mut self, bin: &BinCost, ended: &[EndedMeasurement]) -> Option<u64> {
        for measurement in self.config.measurements() {
            let until_next = measurement.times().every_seconds as f64 * self.cpus as f64;
            let its = ended.iter().find(|ended| ended.name == measurement.name());
            if let Some(Ok(summary)) = its.map(|ended| &ended.result) {
                self.state.measurements.set(measurement.name(), summary.cpu_s / until_next);
            }
        }
        self.state.since.add(bin);
        if self.state.since.seconds < self.config.budget_seconds as f64 {
            return None;
        }
        let since = std::mem::take(&mut self.state.since);
        let all = self.config.budget_percent / 100.0;
        let budget = (all - self.state.measurements.sum()).max(all * LEAST_FOR_SAMPLES);
        let (now, configured) = (self.state.frequency_hz, self.config.frequency_hz);
        let next = next_rate(now, configured, budget, &since, self.state.lowered_from.as_ref())?;
        let before = self.state.lowered_from.take();
        self.state.lowered_from = if next < now {
            before.filter(|before| since.overhead_of_samples(before).is_some()).or(Some(since))
        } else {
            before.filter(|_| next < configured)
        };
        Some(next)
    }

    /// Puts a bin with this number of samples into the spool. Where that cannot be, such as on a full disk, its samples and the
    /// oldest ones that wait are dropped and counted, and the reason is returned: the next bin may fit.
    fn store(
        &mut self,
        mut rows: Rows,
        agent: AgentRow,
        (when, name): (Timestamp, &str),
        samples: u64,
    ) -> Result<Option<String>, AgentError> {
        let new = self.stacks.prune(&mut rows);
        match self.spool.add(rows, agent, when, name) {
            Ok(()) => {
                self.state.dropped = 0;
                self.stacks.add(new);
                Ok(None)
            }
            Err(SpoolError::Dataset(error)) => {
                self.spool.forget(name)?;
                self.state.dropped += samples + self.spool.make_room()?.unwrap_or(0);
                self.stacks.forget();
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn agent_row(
        &self,
        profile: &Profile,
        rows: &Rows,
        cpu_s: f64,
        (host, batch): (&Arc<str>, i64),
    ) -> Result<AgentRow, AgentError> {
        let counts = &profile.aggregate;
        let is_unknown = |task: u32| !self.services.knows(&counts.tasks[task as usize]);
        let unidentified = counts.cells.iter().filter(|cell| is_unknown(cell.task));
        let bin_us = self.config.bin_seconds as i64 * US_PER_S;
        Ok(AgentRow {
            // There is one per event and bin, whatever was sampled.
            start: rows.intervals.first().map_or(Timestamp(0), |row| row.start),
            bin_us,
            host: Arc::clone(host),
            boot: self.boot.clone(),
            agent: concat!("pmuscope-fleet ", env!("CARGO_PKG_VERSION")).into(),
            cpu_us: (cpu_s * 1e6) as i64,
            rss_bytes: own_memory(),
            unidentified_samples: unidentified.map(|cell| cell.samples as i64).sum(),
            dropped_samples: self.state.dropped as i64,
            waiting_files: self.spool.waiting()?.files as i64,
            frequency_hz: Some(self.state.frequency_hz as i64),
            unpushed_samples: None,
            off_cpu_rss_bytes: None,
            measurement_rss_bytes: None,
            batch,
        })
    }
}

/// A moment, microseconds; the multiple of a bin's length that it is next to, if it is within a hundredth of a bin. The
/// records' clock and the wall clock are not read at once, and one of them is adjusted all the time.
fn near_multiple(at_us: i64, bin: Duration) -> i64 {
    let bin_us = bin.as_micros() as i64;
    let multiple = (at_us + bin_us / 2).div_euclid(bin_us) * bin_us;
    if (at_us - multiple).abs() <= bin_us / 100 { multiple } else { at_us }
}

/// From a moment, microseconds, to the end of the bin that it belongs to.
fn to_next_bin(at_us: i64, bin: Duration) -> Duration {
    let bin_us = bin.as_micros() as i64;
    let end_us = (near_multiple(at_us, bin).div_euclid(bin_us) + 1) * bin_us;
    Duration::from_micros((end_us - at_us) as u64)
}

/// CPU time of the children that have ended, seconds. Not their memory: the peak of a child that was made by vfork(2) is
/// that of its parent.
fn children_s() -> f64 {
    // The call fails only for other kinds of processes (getrusage(2)).
    let usage = usage_of_children().unwrap_or_default();
    usage.user_s + usage.system_s
}

/// The largest memory of a measurement, bytes.
fn peak_rss<'a>(ended: impl Iterator<Item = &'a EndedMeasurement>) -> Option<i64> {
    ended.filter_map(|one| one.result.as_ref().ok()?.peak_rss_bytes).max()
}

/// What measurements had, and why others failed.
fn said(ended: &[EndedMeasurement]) -> (Vec<(&'static str, String)>, Vec<String>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for EndedMeasurement { name, result } in ended {
        match result {
            Ok(summary) => {
                let notes = summary.notes.iter().map(|note| format!("; {note}"));
                done.push((*name, notes.fold(summary.text.clone(), |text, note| text + &note)));
            }
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    (done, failed)
}

/// Memory of this process that is not shared, bytes: an entry of `/proc/self/status`.
fn own_memory() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: i64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_ends_at_a_multiple_of_its_length_even_if_clocks_differ_a_little() {
        let bin = Duration::from_secs(300);
        let next = |at_us: i64| to_next_bin(at_us, bin).as_micros();
        assert_eq!(next(0), 300_000_000);
        // Read a microsecond too early, and too late: the next one makes up for it.
        assert_eq!((next(299_999_999), next(300_000_001)), (300_000_001, 299_999_999));
        assert_eq!((next(100_000_000), next(-100_000_000)), (200_000_000, 100_000_000));
        assert_eq!(near_multiple(296_000_000, bin), 296_000_000);
        assert_eq!(near_multiple(-1, bin), 0);
    }
}
