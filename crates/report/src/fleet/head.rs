//! What an answer covers: which hosts, when, and how much of that was recorded.

use serde::Serialize;

use crate::html::{Fact, Summary};
use crate::number::{count, counted, percent};
use crate::recording::push_wrapped;
use crate::{Note, Style, escape};

/// What an answer covers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetHead {
    /// Folder of the dataset. Foreign text.
    pub dataset: String,
    /// What was asked for, in words; empty where it is all. Foreign text.
    pub selection: String,
    /// The event. Foreign text.
    pub event: String,
    /// When the first bin begins and the last one ends, in words; missing without any.
    pub from: Option<String>,
    /// See [`FleetHead::from`].
    pub until: Option<String>,
    /// Hosts that were recorded.
    pub hosts: u64,
    /// Part of the time from the first bin to the last, of all these hosts, that was recorded, 0 to 1.
    pub recorded: Option<f64>,
    /// Samples in the selection, or what it is made of instead.
    pub samples: u64,
    /// Samples lost on these hosts, of all services; missing where nobody counted.
    pub lost: Option<u64>,
    /// What changes the reading.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// No figure has an interval over hosts.
    #[serde(skip)]
    pub no_ci: bool,
    /// What its numbers are made of.
    #[serde(skip)]
    pub counted: FleetCounted,
}

/// What the numbers of an answer are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FleetCounted {
    /// Samples, which are taken all the time.
    #[default]
    Samples,
    /// Waits, which are recorded for some seconds now and then.
    Waits,
    /// Windows of counters, the same.
    Windows,
    /// Cgroups, each time that their events were counted.
    Cgroups,
    /// Processes, each time that their memory was observed.
    Processes,
    /// Runs of benchmarks: nothing was recorded, and nothing is lost.
    Runs,
}

impl FleetCounted {
    fn word(self) -> &'static str {
        match self {
            Self::Samples => "sample",
            Self::Waits => "wait",
            Self::Windows => "window",
            Self::Cgroups => "cgroup",
            Self::Processes => "process",
            Self::Runs => "run",
        }
    }

    /// What happened to those that are not in the numbers.
    fn lost(self) -> &'static str {
        match self {
            Self::Samples | Self::Waits | Self::Windows | Self::Runs => "lost",
            Self::Cgroups | Self::Processes => "left out",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Samples => "Samples",
            Self::Waits => "Waits",
            Self::Windows => "Windows",
            Self::Cgroups => "Cgroups",
            Self::Processes => "Processes",
            Self::Runs => "Runs",
        }
    }
}

/// Less of the time recorded than this is worth a warning.
const MUCH_UNRECORDED: f64 = 0.9;
/// Fewer hosts have no intervals.
const FEW_HOSTS: u64 = 3;

impl FleetHead {
    /// The same for figures that have no interval over hosts.
    pub(super) fn without_ci(&self) -> Self {
        Self { no_ci: true, ..self.clone() }
    }

    /// Appends it for a terminal.
    pub(super) fn push_text(&self, out: &mut String, style: &Style) {
        let (hosts, samples) =
            (counted(self.hosts, "host"), counted(self.samples, self.counted.word()));
        let mut lines = vec![if self.counted == FleetCounted::Runs {
            format!("{hosts}, {samples}")
        } else {
            let lost = self.lost.map_or("-".to_owned(), count);
            let (event, word) = (escape(&self.event), self.counted.lost());
            format!("{event}, {hosts}, {samples}, {lost} {word}")
        }];
        lines.extend(self.span());
        if !self.selection.is_empty() {
            lines.push(escape(&self.selection).into_owned());
        }
        lines.iter().for_each(|line| push_wrapped(out, line, style));
        for note in self.notes() {
            let word = if note.warning { "warning" } else { "note" };
            push_wrapped(out, &format!("{word}: {}", note.text), style);
        }
        out.push('\n');
    }

    /// `2026-11-25 12:00 to 2026-11-25 13:00 UTC, 98% recorded`.
    fn span(&self) -> Option<String> {
        let (from, until) = (self.from.as_ref()?, self.until.as_ref()?);
        let recorded = self
            .recorded
            .map_or(String::new(), |share| format!(", {} recorded", percent(share, 1)));
        Some(format!("{from} to {until} UTC{recorded}"))
    }

    /// What changes the reading, with what follows from the head itself.
    fn notes(&self) -> Vec<Note> {
        let mut notes = self.notes.clone();
        if !self.no_ci && self.hosts > 0 && self.hosts < FEW_HOSTS {
            let text = format!(
                "no CI: they need {FEW_HOSTS} hosts or more, as hosts are what varies; here {} {}",
                if self.hosts == 1 { "is" } else { "are" },
                counted(self.hosts, "host")
            );
            notes.push(Note { warning: false, text });
        }
        let unrecorded = self
            .recorded
            .filter(|&share| share < MUCH_UNRECORDED && self.counted == FleetCounted::Samples);
        if let Some(share) = unrecorded {
            let text = format!(
                "only {} of the time was recorded on these hosts; the rest is not in any figure",
                percent(share, 1)
            );
            notes.push(Note { warning: true, text });
        }
        notes
    }

    /// The head of a page.
    pub(super) fn summary(&self, title: &str) -> Summary {
        let mut facts = vec![
            Fact::new("Hosts", count(self.hosts), ""),
            Fact::new(self.counted.title(), count(self.samples), ""),
        ];
        if self.counted != FleetCounted::Runs {
            facts.insert(0, Fact::new("Event", self.event.clone(), ""));
            let lost = self.lost.map_or("-".to_owned(), count);
            let warns = self.lost.is_some_and(|lost| lost > 0);
            facts.push(Fact::new("Lost", lost, "of all services").which_warns(warns));
        }
        if let (Some(from), Some(until)) = (&self.from, &self.until) {
            let recorded = self
                .recorded
                .map_or(String::new(), |share| format!("{} recorded", percent(share, 1)));
            facts.push(Fact::new("Time, UTC", format!("{from} to {until}"), recorded));
        }
        if !self.selection.is_empty() {
            facts.push(Fact::new("Selection", self.selection.clone(), ""));
        }
        facts.push(Fact::new("Dataset", self.dataset.clone(), ""));
        Summary { title: title.to_owned(), facts, notes: self.notes(), command: String::new() }
    }
}
