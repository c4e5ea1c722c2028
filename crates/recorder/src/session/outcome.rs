//! What a recording came to: loss, cost, what is missing, and the end of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pmuscope_abi::AttrFlags;
use pmuscope_counters::spawn::Status;
use pmuscope_counters::{errno_name, offline_notice};
use pmuscope_events::Origin;
use pmuscope_perfdata::info::{
    BudgetInfo, Cost, EventInfo, LostSource, MachineInfo, ReaderCost, RecordingInfo, RingInfo,
    SCHEMA, Streaming,
};
use pmuscope_perfdata::strobe::StrobeInfo;
use pmuscope_perfdata::writer::{ClockData, closing};
use pmuscope_text::number;

use super::budget::Budget;
use super::files::{ClockReading, Files};
use super::flight::Snapshot;
use super::threads::MISSED_THREADS;
use super::{Measured, Session};
use pmuscope_machine::Target;

use crate::attributes::{self, LEFT_TO_FIRST};
use crate::cpu_time::CpuTime;
use crate::error::RecorderError;
use crate::keep::Keeper;
use crate::mapped::MappedFile;
use crate::metadata;
use crate::notice::Notice;
use crate::output::Output;
use crate::reader::{ReaderReport, RingSlot};
use crate::tally::RecordTally;

/// Why a recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The command ended.
    Command,
    /// The observed processes ended.
    TargetGone,
    /// The user asked for it.
    Interrupted,
    /// The file reached the size it may have, in bytes.
    MaxSize(u64),
    /// The file could not be written; what is in it is good.
    WriteError(String),
    /// A reader could not go on; what is in the file is good.
    ReaderError(String),
    /// The recording could not go on; what is in the file is good.
    Failed(String),
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command => f.write_str("the command ended"),
            Self::TargetGone => f.write_str("the observed processes ended"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::MaxSize(bytes) => write!(f, "the file reached {bytes} bytes (--max-size)"),
            Self::WriteError(error) => write!(f, "cannot write the file: {error}"),
            Self::ReaderError(error) => write!(f, "a reader failed: {error}"),
            Self::Failed(error) => write!(f, "recording failed: {error}"),
        }
    }
}

/// What a recording came to.
#[derive(Debug)]
pub struct Summary {
    /// What the file knows of itself.
    pub info: RecordingInfo,
    /// The files, oldest first; one unless they were switched.
    pub paths: Vec<PathBuf>,
    /// Why it ended.
    pub ended: EndReason,
    /// How the command ended, if one was run.
    pub status: Option<Status>,
    /// What was asked for and is missing, as sentences; empty if all is there.
    pub missing: Vec<String>,
    /// The notices of [`Summary::info`], in parts.
    pub notices: Vec<Notice>,
}

/// What an event can leave out of its samples.
const EXCLUDED_MODES: AttrFlags = AttrFlags::EXCLUDE_USER
    .union(AttrFlags::EXCLUDE_KERNEL)
    .union(AttrFlags::EXCLUDE_HV)
    .union(AttrFlags::EXCLUDE_IDLE);

/// Where the loop that measures the cost of a sample never meets the event.
const UNKNOWN_SAMPLE_COST: &str = "the kernel's overhead per sample of this event is unknown (a \
    loop in user mode never triggers it), so the budget covers only the recorder's own CPU time";

/// Loss and times as the descriptors tell them.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    pub(super) by_event: Vec<Option<u64>>,
    pub(super) by_ring: BTreeMap<usize, u64>,
    /// Nanoseconds enabled and running.
    times: Vec<(u64, u64)>,
    /// What was counted, in units of the event.
    counted: Vec<Option<u64>>,
}

impl Loss {
    /// What came after `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let minus = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or(0)))
        };
        let events = self.by_event.iter().zip(&earlier.by_event);
        let times = self.times.iter().zip(&earlier.times);
        let counted = self.counted.iter().zip(&earlier.counted);
        Self {
            by_event: events.map(|(now, then)| minus(*now, *then)).collect(),
            by_ring: self
                .by_ring
                .iter()
                .map(|(ring, now)| (*ring, now - earlier.by_ring.get(ring).unwrap_or(&0).min(now)))
                .collect(),
            times: times.map(|(now, then)| (now.0 - then.0, now.1 - then.1)).collect(),
            counted: counted.map(|(now, then)| minus(*now, *then)).collect(),
        }
    }
}

impl Session<'_> {
    /// What is known of the recording before it has ended.
    pub(super) fn describe(&self, machine: &MachineInfo) -> RecordingInfo {
        RecordingInfo {
            schema: SCHEMA.into(),
            tool: concat!("pmuscope ", env!("CARGO_PKG_VERSION")).into(),
            command: self.options.own_command_line.clone(),
            scope: self.scope_text(),
            machine: machine.clone(),
            events: self.requests().iter().map(|request| self.event_info(&request.name)).collect(),
            lost_source: if self.features.counts_lost() {
                LostSource::ReadFormat
            } else {
                LostSource::Records
            },
            strobe: self.strobe().map(|strobe| strobe.info(false)),
            streaming: Streaming {
                readers: self.options.readers.to_string(),
                affinity: self.options.affinity.to_string(),
                aio: None,
                compression: self.options.compression,
            },
            ..RecordingInfo::default()
        }
    }

    fn event_info(&self, name: &str) -> EventInfo {
        let mut info = EventInfo { name: name.into(), ..EventInfo::default() };
        let request = self.requests().iter().find(|request| request.name == name);
        if let Some(attr) = request.map(|request| &request.attr).filter(|attr| attr.sample > 0) {
            let by_frequency = attr.flags.contains(AttrFlags::FREQ);
            info.period = (!by_frequency).then_some(attr.sample);
            info.frequency = by_frequency.then_some(attr.sample);
        }
        let event = self.options.events().find(|event| event.name == name);
        info.origin = event.map_or("sideband", |event| origin_text(event.origin)).into();
        info
    }

    fn scope_text(&self) -> String {
        match &self.options.target {
            Target::System => "system-wide".into(),
            Target::Cgroup { path, .. } => match self.options.only() {
                Some(only @ Target::Processes(_)) => format!("{only}, cgroup {path}"),
                _ => format!("cgroup {path}"),
            },
            Target::Command | Target::CommandInCgroup => {
                let words: Vec<_> =
                    self.options.command.iter().map(|word| word.to_string_lossy()).collect();
                format!("command {}", words.join(" "))
            }
            other => other.to_string(),
        }
    }

    pub(super) fn read_loss(&self) -> Loss {
        let mut loss = Loss {
            by_event: vec![None; self.requests().len()],
            by_ring: BTreeMap::new(),
            times: vec![(0, 0); self.requests().len()],
            counted: vec![None; self.requests().len()],
        };
        for opened in self.set.events() {
            let Ok(Some(value)) = self.set.read(self.kernel, opened) else { continue };
            if let Some(lost) = value.lost {
                *loss.by_event[opened.event].get_or_insert(0) += lost;
                *loss.by_ring.entry(opened.ring).or_insert(0) += lost;
            }
            *loss.counted[opened.event].get_or_insert(0) += value.value;
            let times = &mut loss.times[opened.event];
            times.0 += value.enabled_ns.unwrap_or(0);
            times.1 += value.running_ns.unwrap_or(0);
        }
        loss
    }

    /// What a file knows of its own stretch of the recording; rings and cost are left to the caller.
    pub(super) fn file_info(
        &self,
        started: &ClockReading,
        ended: &ClockReading,
        tally: &RecordTally,
        loss: &Loss,
    ) -> RecordingInfo {
        let (info, notices) = self.file_info_with_notices(started, ended, tally, loss);
        with_notices(info, &notices)
    }

    /// The same, with its notices still apart.
    fn file_info_with_notices(
        &self,
        started: &ClockReading,
        ended: &ClockReading,
        tally: &RecordTally,
        loss: &Loss,
    ) -> (RecordingInfo, Vec<Notice>) {
        let mut info = self.describe(&metadata::machine_info(self.machine, self.topology));
        info.complete = true;
        info.strobe = self.strobe().map(|strobe| strobe.info(true));
        info.started_unix_ns = started.wall_ns;
        info.started_clock_ns = started.clock_ns;
        info.duration_s = ended.seconds_since(started);
        for (event, entry) in info.events.iter_mut().enumerate() {
            entry.samples = tally.samples.get(event).copied().unwrap_or(0);
            entry.throttled = tally.throttled.get(event).copied().unwrap_or(0);
            entry.lost = loss.by_event[event];
            // A clock counts what a mode leaves out of its samples.
            let clock = entry.origin == origin_text(Origin::SoftwareClock);
            let whole = !clock || !self.requests()[event].attr.flags.intersects(EXCLUDED_MODES);
            // Counts of windows begin anew with each phase.
            entry.counted = loss.counted[event].filter(|_| whole && self.phases.is_none());
            let (enabled, running) = loss.times[event];
            entry.running_share = (enabled > 0).then(|| running as f64 / enabled as f64);
        }
        info.rings = loss
            .by_ring
            .values()
            .map(|lost| RingInfo { lost: Some(*lost), ..RingInfo::default() })
            .collect();
        let mut notices: Vec<Notice> = throttling(tally).into_iter().collect();
        if attributes::is_left_to_first(self.options, self.features) {
            notices.push(LEFT_TO_FIRST.to_owned().into());
        }
        let is_of_cpus = info.is_of_cpus();
        notices.extend(info.events.iter().filter_map(|event| unsampled(event, is_of_cpus)));
        info.notices.clear();
        if let Some(sourced) = &self.source {
            sourced.describe(&mut info, true);
        }
        notices.extend(info.notices.drain(..).map(Notice::from));
        (info, notices)
    }

    /// Closes the last file and sums up the recording.
    pub(super) fn finish(
        &self,
        output: &Output,
        measured: &Measured,
        files: Files<'_>,
        reports: &[ReaderReport],
        budget: Option<&Budget>,
    ) -> Result<Summary, RecorderError> {
        let loss = self.read_loss();
        let ended = reports
            .iter()
            .find_map(|report| report.failure.as_ref())
            .map_or(measured.ended.clone(), |error| EndReason::ReaderError(error.to_string()));
        let started = if files.switched { files.started } else { measured.started };
        let tally = output.tally();
        let mut info =
            self.file_info(&started, &measured.ended_at, &tally, &loss.since(&files.loss_before));
        info.ended_by = Some(ended.to_string());
        info.streaming.aio = reports.iter().find_map(|report| report.aio).map(str::to_owned);
        let mut all = files.closed_tally.clone();
        all.add(tally.clone());
        let (whole, mut notices) =
            self.file_info_with_notices(&measured.started, &measured.ended_at, &all, &loss);
        let rings = self.ring_infos(reports, &loss);
        let bytes = files.closed_bytes + output.committed();
        let cost = self.cost(measured, reports, &whole, &rings, bytes);
        let whole = RecordingInfo {
            ended_by: info.ended_by.clone(),
            streaming: info.streaming.clone(),
            rings,
            budget: self.budget_info(budget, &cost, &whole),
            cost,
            ..whole
        };
        let mut whole = whole;
        if self.budget.is_some() && self.cost.is_none() {
            notices.push(UNKNOWN_SAMPLE_COST.to_owned().into());
        }
        whole = with_notices(whole, &notices);
        let taken: u64 = whole.rings.iter().map(|ring| ring.samples).sum();
        whole.unwritten = is_cut_short(&ended).then(|| taken.saturating_sub(whole.samples()));
        let mut missing = missing(&whole, &all, &ended);
        missing.extend(self.unobserved());
        // A single file tells everything; of several, each tells its own stretch.
        let in_file = if files.switched { info } else { whole.clone() };
        let in_file = RecordingInfo {
            unwritten: whole.unwritten,
            notices: missing.iter().cloned().chain(in_file.notices.clone()).collect(),
            ..in_file
        };
        missing.extend(files.missing);
        missing.extend(self.close(output, &tally, &in_file, &started));
        let mut paths = files.closed;
        self.drop_oldest(&mut paths);
        paths.push(output.path().to_owned());
        let notices: Vec<Notice> =
            missing.iter().cloned().map(Notice::from).chain(notices).collect();
        let info = with_notices(whole, &notices);
        Ok(Summary { info, paths, ended, status: measured.status, missing, notices })
    }

    /// What the budget chose and achieved.
    fn budget_info(
        &self,
        budget: Option<&Budget>,
        cost: &Cost,
        whole: &RecordingInfo,
    ) -> Option<BudgetInfo> {
        let (plan, last) = (self.budget.as_ref()?, budget?);
        let machine_s = whole.duration_s * plan.budget.cpus;
        let in_kernel = whole.samples() as f64 * plan.budget.sample_cost_s;
        Some(BudgetInfo {
            target_share: plan.budget.target,
            achieved_share: cost.machine_share.map(|own| own + in_kernel / machine_s),
            first_factor: plan.budget.factor,
            last_factor: last.factor,
            adapted_while_running: plan.adapts,
        })
    }

    /// Sums up a flight recorder: what the last snapshot holds.
    pub(super) fn flight_summary(
        &self,
        measured: &Measured,
        last: Snapshot,
        mut snapshots: Vec<PathBuf>,
        missing: Vec<String>,
    ) -> Summary {
        let loss = self.read_loss();
        let (started, ended) = (&measured.started, &measured.ended_at);
        let (info, notices) = self.file_info_with_notices(started, ended, &last.tally, &loss);
        let mut info = with_notices(info, &notices);
        info.cost = self.cost(measured, &[], &info, &[], last.bytes);
        snapshots.push(last.path);
        let ended = &measured.ended;
        let stopped_early = matches!(ended, EndReason::Failed(_))
            .then(|| format!("the recording stopped early: {ended}"))
            .into_iter();
        Summary {
            info,
            paths: snapshots,
            ended: measured.ended.clone(),
            status: measured.status,
            missing: stopped_early
                .chain(self.unobserved())
                .chain(missing)
                .chain(last.incomplete)
                .collect(),
            notices,
        }
    }

    /// Sentences on threads and CPUs without events.
    fn unobserved(&self) -> impl Iterator<Item = String> + use<> {
        let threads = (!self.all_threads).then(|| MISSED_THREADS.to_owned());
        threads.into_iter().chain(offline_notice(self.set.offline()))
    }

    fn ring_infos(&self, reports: &[ReaderReport], loss: &Loss) -> Vec<RingInfo> {
        let mut slots: Vec<&RingSlot> = reports.iter().flat_map(|report| &report.slots).collect();
        slots.sort_by_key(|slot| slot.index);
        let counts_lost = self.features.counts_lost();
        slots
            .into_iter()
            .map(|slot| RingInfo {
                cpu: slot.ring.cpu(),
                tid: slot.ring.tid(),
                node: slot.node,
                size: slot.ring.size() as u64,
                bytes: slot.bytes,
                samples: slot.samples,
                lost: if counts_lost {
                    loss.by_ring.get(&slot.index).copied()
                } else {
                    Some(slot.lost_in_records)
                },
                high_water: slot.high_water,
                drains: slot.drains,
            })
            .collect()
    }

    fn cost(
        &self,
        measured: &Measured,
        reports: &[ReaderReport],
        info: &RecordingInfo,
        rings: &[RingInfo],
        bytes: u64,
    ) -> Cost {
        let now = CpuTime::of_process();
        let active = measured.cpu_after.total() - measured.cpu_before.total();
        let samples = info.samples();
        let per_sample = |amount: f64| (samples > 0).then(|| amount / samples as f64);
        let machine_s = info.duration_s * self.topology.online.len() as f64;
        Cost {
            user_s: now.user_s,
            system_s: now.system_s,
            startup_s: measured.cpu_before.total(),
            close_s: now.total() - measured.cpu_after.total(),
            readers: reports.iter().map(reader_cost).collect(),
            bytes,
            ring_bytes: rings.iter().map(|ring| ring.bytes).sum(),
            machine_share: (machine_s > 0.0).then(|| active / machine_s),
            us_per_sample: per_sample(active * 1e6),
            bytes_per_sample: per_sample(bytes as f64),
            sampling_us: self.cost.map(|cost| cost.us_per_sample),
            sampling_us_interval: self.cost.and_then(|cost| cost.interval),
            sampling_pairs: self.cost.map(|cost| cost.pairs as u64),
        }
    }

    /// Writes what stands behind the records. Where that fails the file is readable without it; the
    /// sentence that says so.
    pub(super) fn close(
        &self,
        output: &Output,
        tally: &RecordTally,
        info: &RecordingInfo,
        started: &ClockReading,
    ) -> Option<String> {
        let clock = ClockData {
            clockid: self.options.clockid as u32,
            wall_ns: started.wall_ns,
            clock_ns: started.clock_ns,
        };
        let mut features = metadata::features(
            self.machine,
            self.topology,
            &info.machine,
            &self.options.own_command_line,
            self.requests(),
            clock,
        );
        if self.options.build_ids {
            let mappings = &tally.without_build_id;
            features.build_ids =
                metadata::missing_build_ids(self.machine, mappings, &|file: MappedFile<'_>| {
                    file.build_id()
                });
        }
        features.sample_time = tally.sample_time;
        features.compression =
            self.compression((info.cost.ring_bytes / info.cost.bytes.max(1)) as u32);
        let kept_files = self.keeper.as_ref().map(Keeper::copies).unwrap_or_default();
        features.info = Some(RecordingInfo { kept_files, ..info.clone() }.to_json());
        let events = self.file_events();
        let closed = output.close(|offset, size| closing(&events, &features, offset, size));
        closed.err().map(|error| {
            format!(
                "cannot write the end of {}: {}. Its samples are readable, but it lacks names of \
                 events, machine and overhead",
                output.path().display(),
                errno_name(&error)
            )
        })
    }
}

fn with_notices(info: RecordingInfo, notices: &[Notice]) -> RecordingInfo {
    RecordingInfo { notices: notices.iter().map(ToString::to_string).collect(), ..info }
}

fn reader_cost(report: &ReaderReport) -> ReaderCost {
    ReaderCost {
        rings: report.rings.clone(),
        user_s: report.time.user_s,
        system_s: report.time.system_s,
        wakeups: report.wakeups,
        moves: report.moves,
        drains_on_node: report.drains_on_node,
        drains: report.drains,
    }
}

/// Whether the file could not be written on.
fn is_cut_short(ended: &EndReason) -> bool {
    matches!(ended, EndReason::WriteError(_) | EndReason::ReaderError(_) | EndReason::Failed(_))
}

/// What was asked for and is not in the file.
fn missing(info: &RecordingInfo, tally: &RecordTally, ended: &EndReason) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(lost) = info.lost().filter(|lost| *lost > 0) {
        sentences.push(format!(
            "{} {} lost because a ring buffer was full. Try: a lower rate (-F), larger buffers (-m), or \
             more readers (--readers cpu)",
            number::counted(lost, "record"),
            number::agree(lost, "was", "were")
        ));
    }
    sentences.extend(info.strobe.iter().flat_map(StrobeInfo::missing));
    if tally.broken_bytes > 0 {
        let broken = number::counted(tally.broken_bytes, "byte");
        sentences.push(format!("{broken} in the ring buffers did not hold valid records"));
    }
    if let Some(unwritten) = info.unwritten {
        let what = match ended {
            EndReason::WriteError(_) => ". Try: free space, -z, or --max-size",
            _ => "",
        };
        sentences.push(format!(
            "the recording stopped early: {ended}. The file is valid up to there; {} that were taken, \
             and all later ones, are missing{what}",
            number::counted(unwritten, "sample")
        ));
    }
    sentences
}

/// Time without samples that is no loss of records.
fn throttling(tally: &RecordTally) -> Option<Notice> {
    let throttled: u64 = tally.throttled.iter().sum();
    (throttled > 0).then(|| Notice {
        what: format!(
            "the kernel throttled sampling {}; there are no samples from that time",
            number::counted(throttled, "time")
        ),
        cause: None,
        advice: Some("a lower rate (-F), or sudo sysctl kernel.perf_event_max_sample_rate=…"),
    })
}

/// Counts of an event without samples.
fn unsampled(event: &EventInfo, is_of_cpus: bool) -> Option<Notice> {
    let found = event.unsampled()?;
    let (counted, sampled) = found.seconds();
    let what = match event.is_clock() {
        true => format!(
            "{}: the kernel counted {counted:.3} s, but samples cover {sampled:.3} s",
            event.name
        ),
        false => format!(
            "{}: {} are due by the total count, but {} there",
            event.name,
            number::counted(found.due, "sample"),
            match found.sampled {
                1 => "1 is".to_owned(),
                sampled => format!("{} are", number::count(sampled)),
            }
        ),
    };
    let (cause, advice) = match (event.is_clock(), is_of_cpus) {
        (true, true) => (
            "An idle CPU may have no timer ticks, and a virtual machine misses ticks while the host does not run it",
            None,
        ),
        (true, false) => (
            "A per-task software timer takes no sample in tasks shorter than its period, and a virtual machine misses \
             ticks while the host does not run it",
            Some("--own-cgroup for a command, -a, or a higher rate (-F)"),
        ),
        (false, true) => (LATE_OVERFLOWS, Some("a longer period (-c)")),
        (false, false) => (
            "Counts per task have no sample in tasks shorter than the period, and an emulated PMU reports overflows late",
            Some("--own-cgroup for a command, -a, or a longer period (-c)"),
        ),
    };
    Some(Notice { what, cause: Some(cause), advice })
}

const LATE_OVERFLOWS: &str = "The PMU reports overflows late, as emulated ones do at timer ticks: several periods are one sample";

fn origin_text(origin: Origin) -> &'static str {
    match origin {
        Origin::Hardware => "hardware",
        Origin::SoftwareClock => "software clock",
        Origin::Software => "software",
        Origin::Tracepoint => "tracepoint",
        Origin::Breakpoint => "breakpoint",
        Origin::Pmu => "pmu",
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_perfdata::strobe::CpuHealth;

    use super::*;

    #[test]
    fn a_cpu_without_windows_is_missing() {
        let why = Some("the events do not fit".to_owned());
        let failed = CpuHealth { cpu: 1, failed: 3, why, ..CpuHealth::default() };
        let good = CpuHealth { accepted_tries: 2, failed: 1, ..CpuHealth::default() };
        let strobe = Some(StrobeInfo { cpus: vec![good, failed], ..StrobeInfo::default() });
        let info = RecordingInfo { strobe, ..RecordingInfo::default() };
        let sentences = missing(&info, &RecordTally::default(), &EndReason::Interrupted);
        assert_eq!(sentences, ["CPU 1 has no windows: the events do not fit"]);
    }

    #[test]
    fn large_losses_have_separators() {
        let lost = |lost| {
            let rings = vec![RingInfo { lost: Some(lost), ..RingInfo::default() }];
            let lost_source = LostSource::ReadFormat;
            let info = RecordingInfo { rings, lost_source, ..RecordingInfo::default() };
            missing(&info, &RecordTally::default(), &EndReason::Interrupted).remove(0)
        };
        assert!(lost(1_234_567).starts_with("1,234,567 records were lost"), "{}", lost(1_234_567));
        assert!(lost(1).starts_with("1 record was lost"), "{}", lost(1));
    }
}
