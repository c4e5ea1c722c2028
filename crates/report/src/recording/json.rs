//! The same for programs: the result of `pmuscope/report/1`.

use std::collections::BTreeSet;

use pmuscope_profile::{
    CutStacks, EventProfile, ModuleShare, ModuleSummary, Profile, StackSummary,
};
use serde::{Serialize, Serializer};

use super::causes::{SymbolAdvice, advice_on_cut};
use super::head::Head;
use super::losses::{self, CpuLoss};
use super::notes::{Note, Taken, notes_on};
use super::{RowLimits, machine_size};
use crate::sheet::Sheet;
use crate::views::Functions;

/// The schema of [`RecordingReport`] in its envelope.
pub const RECORDING_SCHEMA: &str = "pmuscope/report/1";

/// Beyond this an f64, hence many a JSON reader, does not hold every integer.
const EXACT: u64 = 1 << 53;

/// A recording's profile.
#[derive(Debug, Serialize)]
pub struct RecordingReport<'a> {
    recording: About<'a>,
    events: Vec<RecordedEvent<'a>>,
    modules: Vec<ModuleOut<'a>>,
    notes: Vec<NoteOut>,
}

impl<'a> RecordingReport<'a> {
    /// What is shown of `profile`, which was read from `file`.
    #[must_use]
    pub fn new(profile: &'a Profile, file: &'a str, limits: RowLimits) -> Self {
        Self {
            recording: About::new(profile, file),
            events: profile
                .events
                .iter()
                .map(|one| RecordedEvent::new(profile, one, limits))
                .collect(),
            modules: hit_modules(profile)
                .map(|module| ModuleOut::new(module, &profile.modules))
                .collect(),
            notes: NoteOut::all(profile, Taken::Recorded),
        }
    }
}

/// Modules that at least one sample lies in.
fn hit_modules(profile: &Profile) -> impl Iterator<Item = &ModuleSummary> {
    let hit: BTreeSet<usize> = profile
        .events
        .iter()
        .flat_map(|event| &event.modules)
        .map(|module| module.module)
        .collect();
    hit.into_iter().map(|at| &profile.modules[at])
}

/// The recording itself.
#[derive(Debug, Serialize)]
struct About<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    command: &'a [String],
    /// Nanoseconds since 1970-01-01 UTC, as text.
    started: Option<String>,
    machine: MachineOut<'a>,
    /// CPUs that lost something, and when.
    losses: Vec<CpuLoss>,
    /// Seconds; of the blocks in which losses are told.
    block_s: f64,
    records: Count,
    stacks: Option<Stacks<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks_why: Option<&'static str>,
}

impl<'a> About<'a> {
    fn new(profile: &'a Profile, file: &'a str) -> Self {
        let info = profile.info();
        let metadata = &profile.metadata;
        let (cpus, nodes) = machine_size(profile);
        let told = info.map(|info| &info.command).filter(|command| !command.is_empty());
        Self {
            head: Head::new(profile, file),
            command: told.unwrap_or(&metadata.command),
            started: info.map(|info| info.started_unix_ns.to_string()),
            machine: MachineOut {
                hostname: metadata.hostname.as_deref(),
                kernel: metadata.os_release.as_deref(),
                arch: metadata.arch.as_deref(),
                cpu_model: metadata.cpu_model.as_deref(),
                cpus,
                nodes,
            },
            losses: losses::by_cpu(profile),
            block_s: profile.aggregate.timeline.block_ns as f64 / 1e9,
            records: Count(profile.tally.records),
            stacks: profile.stacks.as_ref().map(|stacks| Stacks::new(profile, stacks)),
            stacks_why: profile.stacks.is_none().then_some("samples carry no copies of stacks"),
        }
    }
}

/// What came of the copies of stacks that samples carry.
#[derive(Debug, Serialize)]
struct Stacks<'a> {
    unwound: Count,
    complete: Count,
    /// 0 to 1.
    complete_share: Option<f64>,
    by_frame_pointer: Count,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    copy_bytes: Option<u32>,
    cut: Vec<CutRow<'a>>,
}

#[derive(Debug, Serialize)]
struct CutRow<'a> {
    reason: &'static str,
    module: Option<&'a str>,
    stacks: Count,
    share: f64,
    advice: Option<String>,
}

impl<'a> Stacks<'a> {
    fn new(profile: &'a Profile, stacks: &StackSummary) -> Self {
        let (total, share) = (stacks.total(), stacks.complete_share());
        let row = |cut: &CutStacks| CutRow {
            reason: cut.reason.words(),
            module: cut.module.map(|at| &*profile.modules[at].path),
            stacks: Count(cut.stacks),
            share: cut.stacks as f64 / total as f64,
            advice: advice_on_cut(cut.reason, stacks.copy_size),
        };
        Self {
            unwound: Count(total),
            complete: Count(stacks.complete),
            complete_share: share,
            by_frame_pointer: Count(stacks.by_frame_pointer),
            why: share.is_none().then_some("no sample met a program"),
            copy_bytes: stacks.copy_size,
            cut: stacks.cut.iter().map(row).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct MachineOut<'a> {
    hostname: Option<&'a str>,
    kernel: Option<&'a str>,
    arch: Option<&'a str>,
    cpu_model: Option<&'a str>,
    cpus: Option<u32>,
    nodes: Option<u32>,
}

#[derive(Debug, Serialize)]
struct RecordedEvent<'a> {
    name: &'a str,
    samples: Count,
    /// Units of the event that the samples stand for.
    period: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period_why: Option<&'static str>,
    lost: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_why: Option<&'static str>,
    frequency_hz: Option<u64>,
    fixed_period: Option<Count>,
    /// What shares are of: `period` or `samples`.
    share_of: &'static str,
    /// Blocks of time with samples.
    blocks: usize,
    /// Length of the program's phases, where they are too long for intervals; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_s: Option<f64>,
    functions: Sheet<'a>,
    functions_left_out: usize,
    modules: Vec<ModuleRow<'a>>,
}

impl<'a> RecordedEvent<'a> {
    fn new(profile: &'a Profile, event: &'a EventProfile, limits: RowLimits) -> Self {
        let functions = Functions::of(profile, event).sheet(limits);
        let no_period = "the period varies and the samples do not carry it";
        let no_loss = "the file does not report losses per event";
        Self {
            name: &event.name,
            samples: Count(event.samples),
            period: event.period.map(Count),
            period_why: event.period.is_none().then_some(no_period),
            lost: event.lost.map(Count),
            lost_why: event.lost.is_none().then_some(no_loss),
            frequency_hz: event.frequency,
            fixed_period: event.fixed_period.map(Count),
            share_of: if event.by_period { "period" } else { "samples" },
            blocks: event.blocks,
            phase_s: event.long_phases.map(|phases| phases.seconds),
            functions_left_out: functions.left_out(),
            functions,
            modules: event.modules.iter().map(|row| ModuleRow::new(profile, row)).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct ModuleRow<'a> {
    module: &'a str,
    samples: u64,
    samples_with_function: u64,
    share: f64,
}

impl<'a> ModuleRow<'a> {
    fn new(profile: &'a Profile, row: &ModuleShare) -> Self {
        Self {
            module: &profile.modules[row.module].path,
            samples: row.samples,
            samples_with_function: row.named,
            share: row.share,
        }
    }
}

#[derive(Debug, Serialize)]
struct ModuleOut<'a> {
    module: &'a str,
    build_id: Option<String>,
    symbols: &'static str,
    advice: Option<String>,
}

impl<'a> ModuleOut<'a> {
    fn new(module: &'a ModuleSummary, modules: &[ModuleSummary]) -> Self {
        let SymbolAdvice { key, advice, .. } = SymbolAdvice::of(&module.symbols, module, modules);
        Self {
            module: &module.path,
            build_id: module.build_id.as_ref().map(ToString::to_string),
            symbols: key,
            advice,
        }
    }
}

/// A sentence, and how grave it is.
#[derive(Debug, Serialize)]
pub(crate) struct NoteOut {
    level: &'static str,
    text: String,
}

impl NoteOut {
    /// All sentences about a profile.
    pub(crate) fn all(profile: &Profile, taken: Taken) -> Vec<Self> {
        Self::of(notes_on(profile, taken))
    }

    /// These sentences.
    pub(crate) fn of(notes: Vec<Note>) -> Vec<Self> {
        let level = |warning| if warning { "warning" } else { "note" };
        let one = |note: Note| Self { level: level(note.warning), text: note.text };
        notes.into_iter().map(one).collect()
    }
}

/// A number where every reader keeps it, else a string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= EXACT {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}
