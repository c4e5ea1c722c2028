//! Counts for other programs: one file format per module, each made from an [`Aggregate`].
//!
//! ```text
//!  Aggregate ──┬─► folded    stacks, a line each      inferno, flamegraph.pl, speedscope
//!  modules   ──┼─► pprof     profile.proto, gzip      go tool pprof, Pyroscope, Grafana
//!  events    ──┼─► firefox   processed profile, gzip  profiler.firefox.com, samply load
//!  About     ──┘
//! ```
//!
//! All of them are sums over cells, so a file's size follows from what is distinct, however long the
//! recording. What they have in common is here: which number an event is weighed by, and how foreign text is kept
//! from acting on its reader.

pub mod firefox;
pub mod folded;
mod function_ranges;
mod gzip;
pub mod pprof;
mod protobuf;
#[cfg(test)]
pub(crate) mod sample;

use std::borrow::Cow;

pub use function_ranges::FunctionRanges;

use crate::aggregate::{Aggregate, SampleCell};
use crate::profile::{EventProfile, ModuleSummary, Profile, is_time, with_lost};
use crate::timeline::loss::CpuLosses;

/// What is exported: counts, and what the numbers in them stand for.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// The counts.
    pub counts: &'a Aggregate,
    /// Modules, as frames and functions number them.
    pub modules: &'a [ModuleSummary],
    /// Events to export, the most important first.
    pub events: Vec<ExportedEvent>,
    /// What was lost, and where.
    pub losses: &'a [CpuLosses],
    /// Where it all comes from.
    pub about: About,
}

/// An event to export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedEvent {
    /// Its number, as [`SampleCell::event`].
    pub index: u32,
    /// Its name. Foreign text.
    pub name: String,
    /// Whether [`SampleCell::weight`] is in units of the event; else it is samples.
    pub by_period: bool,
    /// Units of the event from sample to sample, if that was fixed.
    pub period: Option<u64>,
    /// Samples per second asked for, if the period was to follow from it.
    pub frequency: Option<u64>,
    /// Its samples.
    pub samples: u64,
    /// Lost records that can have been samples of it.
    pub lost_at_most: u64,
}

/// What is known of a recording; what is not stays `None` or empty. All foreign text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// When it began, nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: Option<u64>,
    /// How long it took, seconds.
    pub duration_s: Option<f64>,
    /// Command line of the recorder.
    pub command: Vec<String>,
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine name as uname(1) has it.
    pub arch: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs that were online.
    pub cpus: Option<u32>,
    /// Sentences that a reader should see: loss, throttling.
    pub notes: Vec<String>,
}

impl About {
    fn new(profile: &Profile) -> Self {
        let (metadata, info) = (&profile.metadata, profile.info());
        let told = info.map(|info| &info.command).filter(|command| !command.is_empty());
        let mut notes = Vec::new();
        if profile.lost.count > 0 || profile.throttled > 0 {
            notes.push(format!("lost {}, throttled {}", profile.lost.count, profile.throttled));
        }
        if let Some(filtered) = &profile.filtered {
            let (kept, read) = (profile.samples(), profile.samples_read());
            let flag = |(name, value): &(&str, String)| format!("--{name} {value}");
            let flags: Vec<String> = filtered.filter.asked.iter().map(flag).collect();
            let is_of_waits = |event: &EventProfile| crate::waits::EVENTS.contains(&&*event.name);
            let flags = flags.join(" ");
            notes.push(match profile.events.first().is_some_and(is_of_waits) {
                // Threads are left out before anything is counted.
                true => format!("only {flags}"),
                false => format!("kept {kept} of {read} samples: {flags}"),
            });
        }
        Self {
            started_unix_ns: info.map(|info| info.started_unix_ns).filter(|&time| time > 0),
            duration_s: profile.duration_s,
            command: told.unwrap_or(&metadata.command).clone(),
            hostname: metadata.hostname.clone(),
            kernel: metadata.os_release.clone(),
            arch: metadata.arch.clone(),
            cpu_model: metadata.cpu_model.clone(),
            cpus: metadata.cpus,
            notes,
        }
    }
}

impl Source<'_> {
    /// The event of formats that have room for one: see [`Aggregate::main_event`].
    #[must_use]
    pub fn main_event(&self) -> Option<&ExportedEvent> {
        let main = self.counts.main_event(self.events.iter().map(|event| event.index))?;
        self.events.iter().find(|event| event.index == main)
    }
}

impl ExportedEvent {
    /// What a cell weighs when shares are made.
    #[must_use]
    pub fn value(&self, cell: &SampleCell) -> u64 {
        if self.by_period { cell.weight } else { cell.samples }
    }

    /// Units of the event that a cell stands for; `None` where neither its samples nor the event
    /// tell.
    #[must_use]
    pub fn units(&self, cell: &SampleCell) -> Option<u64> {
        if self.by_period {
            return Some(cell.weight);
        }
        self.period.map(|period| period.saturating_mul(cell.samples))
    }

    /// How small and how large a share can be, whatever the lost samples were; as
    /// [`EventProfile::with_lost`].
    #[must_use]
    pub fn with_lost(&self, share: f64) -> Option<(f64, f64)> {
        with_lost(self.samples, self.lost_at_most, share)
    }

    /// What is counted: `samples`, or `waits`.
    #[must_use]
    pub fn counted(&self) -> &'static str {
        if crate::waits::EVENTS.contains(&&*self.name) { "waits" } else { "samples" }
    }

    /// Whether [`ExportedEvent::units`] are nanoseconds: the kernel's clocks, and time off the CPU.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        is_time(&self.name)
    }
}

impl<'a> Source<'a> {
    /// Events of a profile that have samples; where none has, all.
    #[must_use]
    pub fn new(profile: &'a Profile) -> Self {
        let event = |event: &EventProfile| ExportedEvent {
            index: event.index,
            name: event.name.clone(),
            by_period: event.by_period,
            period: event.fixed_period,
            frequency: event.frequency,
            samples: event.samples,
            lost_at_most: event.lost_at_most,
        };
        let sampled = profile.samples() > 0;
        let wanted = profile.events.iter().filter(|event| event.samples > 0 || !sampled);
        Self {
            counts: profile.chains(),
            modules: &profile.modules,
            events: wanted.map(event).collect(),
            losses: &profile.losses,
            about: About::new(profile),
        }
    }

    /// Last part of a module's path. Foreign text.
    #[must_use]
    pub fn module_name(&self, module: u32) -> &str {
        self.modules.get(module as usize).map_or(UNKNOWN, ModuleSummary::short_name)
    }
}

/// Recordings, each with its event of that name and [occurrence](crate::diff::occurrences); `None` where it has no samples of
/// it.
#[must_use]
pub fn sources<'a>(
    profiles: &'a [Profile],
    event: (&str, usize),
) -> Vec<(Source<'a>, Option<ExportedEvent>)> {
    let one = |profile: &'a Profile| {
        let source = Source::new(profile);
        let mut named = profile.events.iter().filter(|one| one.name == event.0);
        let index = named.nth(event.1).map(|one| one.index);
        let event = source.events.iter().find(|one| Some(one.index) == index).cloned();
        (source, event)
    };
    profiles.iter().map(one).collect()
}

/// What stands where no name is known.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// Text without characters that could act on a terminal, end a line, or reorder what stands beside
/// it; they become U+FFFD, for these formats have no escapes of their own.
fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect::<String>().into()
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_time_off_the_cpu_are_nanoseconds() {
        let named =
            |name: &str| ExportedEvent { name: name.into(), ..ExportedEvent::default() }.is_clock();
        let clocks = ["cpu-clock", "task-clock:u", "cpu-clock/period=7/", "off-cpu:blocked"];
        assert!(clocks.into_iter().all(named));
        let others = ["cycles", "page-faults", "cpu-clock-x", "sched:off-cpu"];
        assert!(!others.into_iter().any(named));
    }
}
