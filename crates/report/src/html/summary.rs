//! The head of a page: what was measured, what it cost, what is missing.

use pmuscope_measure::arms::join;
use pmuscope_perfdata::reader::Metadata;
use pmuscope_profile::{Lost, LostSource, Profile};

use crate::Note;
use crate::number::{count, duration, percent, significant};
use crate::recording::{asked, event_name, kept, machine_size};
use crate::title;

/// What a page says before any figure. All text may be foreign.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// What was measured, in a line; see [`crate::title`].
    pub title: String,
    /// Facts, in the order they are shown.
    pub facts: Vec<Fact>,
    /// What changes the reading.
    pub notes: Vec<Note>,
    /// Command line of the recorder.
    pub command: String,
}

/// A fact with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// Its value; `-` if that was not measured.
    pub value: String,
    /// What else there is to say about it.
    pub detail: String,
    /// Whether it should worry.
    pub warning: bool,
}

impl Fact {
    /// What was lost beside so many samples, and how often sampling was suspended.
    pub(crate) fn lost(lost: Lost, throttled: u64, samples: u64) -> Self {
        let least = if lost.source == LostSource::Records { "at least " } else { "" };
        let share = lost.count as f64 / (lost.count as f64 + samples as f64);
        let mut detail = Vec::new();
        if lost.count > 0 {
            detail.push(format!("{} of all records", percent(share, 2)));
        }
        detail.push(format!("throttled {} times", count(throttled)));
        let worries = lost.count > 0 || throttled > 0;
        Self::new("Lost", format!("{least}{}", count(lost.count)), detail.join(", "))
            .which_warns(worries)
    }

    /// A fact that need not worry.
    #[must_use]
    pub fn new(name: &'static str, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name, value: value.into(), detail: detail.into(), warning: false }
    }

    /// The same, which is to worry if `warning`.
    #[must_use]
    pub fn which_warns(self, warning: bool) -> Self {
        Self { warning, ..self }
    }

    /// That what follows is of no machine.
    pub(crate) fn emulated(emulator: &str) -> Self {
        let detail = "figures are those of the emulator, not of a machine";
        Self::new("Emulated by", emulator, detail).which_warns(true)
    }

    /// The recording that a page was made from.
    pub(crate) fn file(path: &str) -> Self {
        Self::new("Recording", path, "")
    }

    /// Where it was recorded, where the file tells.
    pub(crate) fn machine(metadata: &Metadata) -> Option<Self> {
        let names = [&metadata.hostname, &metadata.cpu_model];
        let names: Vec<&str> = names.into_iter().flatten().map(|text| &**text).collect();
        (!names.is_empty()).then(|| Self::new("Machine", names.join(" · "), ""))
    }
}

impl Summary {
    /// The head of a profile that was read from `file`.
    #[must_use]
    pub fn new(profile: &Profile, file: &str) -> Self {
        let emulator = profile.info().and_then(|info| info.machine.emulator.as_deref());
        let told = profile.info().map(|info| &info.command).filter(|command| !command.is_empty());
        Self {
            title: title::of_profile(profile, "", file),
            facts: vec![
                event(profile),
                time(profile),
                samples(profile),
                Fact::lost(profile.lost, profile.throttled, profile.samples()),
                cost(profile),
                machine(profile),
            ]
            .into_iter()
            .chain(filter(profile))
            .chain(emulator.map(Fact::emulated))
            .chain([Fact::file(file)])
            .collect(),
            notes: crate::notes(profile),
            command: join(told.unwrap_or(&profile.metadata.command)),
        }
    }
}

/// What was left out, if anything.
fn filter(profile: &Profile) -> Option<Fact> {
    let filtered = profile.filtered.as_ref()?;
    Some(Fact::new("Filter", asked(&filtered.filter), kept(profile)))
}

fn event(profile: &Profile) -> Fact {
    match &profile.events[..] {
        [event] => {
            let whole = event_name(event);
            let detail = whole.strip_prefix(&event.name).unwrap_or_default();
            let detail = detail.trim_start_matches([' ', ',']);
            let clock = event.is_software_clock().then_some("software clock");
            let details: Vec<&str> =
                [detail].into_iter().filter(|detail| !detail.is_empty()).chain(clock).collect();
            Fact::new("Event", event.name.clone(), details.join(", "))
        }
        events => {
            let names: Vec<&str> = events.iter().map(|event| &*event.name).collect();
            Fact::new("Events", count(events.len() as u64), names.join(", "))
        }
    }
}

pub(crate) fn time(profile: &Profile) -> Fact {
    let scope = profile.info().map(|info| info.scope.clone()).unwrap_or_default();
    // The command line stands above.
    let scope = if scope.starts_with("command ") { "of one command".to_owned() } else { scope };
    Fact::new("Duration", profile.duration_s.map_or_else(|| "-".into(), duration), scope)
}

fn samples(profile: &Profile) -> Fact {
    let all = profile.samples();
    let rate = profile.duration_s.filter(|&seconds| seconds > 0.0).map(|seconds| {
        let rate = all as f64 / seconds;
        match machine_size(profile).0 {
            Some(cpus)
                if profile.filtered.is_none()
                    && profile.info().is_some_and(|info| info.scope == "system-wide") =>
            {
                format!("{}/s per CPU", significant(rate / f64::from(cpus), 3))
            }
            _ => format!("{}/s", significant(rate, 3)),
        }
    });
    Fact::new("Samples", count(all), rate.unwrap_or_default())
}

pub(crate) fn cost(profile: &Profile) -> Fact {
    let Some(info) = profile.info() else {
        return Fact::new("Overhead", "-", "not recorded by pmuscope");
    };
    let share = info.cost.machine_share.map(|share| significant(share * 100.0, 2));
    let details: Vec<String> = [
        share.is_some().then(|| "of the machine".into()),
        info.cost.us_per_sample.map(|us| format!("{} µs/sample", significant(us, 2))),
        info.cost.bytes_per_sample.map(|bytes| format!("{} B/sample", significant(bytes, 3))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let value = share.map_or_else(|| "-".into(), |share| format!("{share}%"));
    Fact::new("Overhead", value, details.join(", "))
}

pub(crate) fn machine(profile: &Profile) -> Fact {
    let metadata = &profile.metadata;
    let (cpus, nodes) = machine_size(profile);
    let size = [(cpus, "CPU"), (nodes, "node")].into_iter().filter_map(|(number, what)| {
        let number = number?;
        let s = if number == 1 { "" } else { "s" };
        Some(format!("{} {what}{s}", count(number.into())))
    });
    let size: Vec<String> = size.collect();
    let value = if size.is_empty() { "-".into() } else { size.join(", ") };
    let kernel = metadata.os_release.as_ref().map(|release| format!("Linux {release}"));
    let detail = [metadata.hostname.clone(), metadata.cpu_model.clone(), kernel];
    let detail: Vec<String> =
        detail.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    Fact::new("Machine", value, detail.join(" · "))
}
