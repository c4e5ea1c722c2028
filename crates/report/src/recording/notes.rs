//! What changes the reading of a profile: what happened, why it matters, what to type.

use pmuscope_perfdata::info::{EventInfo, UnsampledClock};
use pmuscope_profile::{EventProfile, FileState, LostSource, Profile, SymbolState};
use pmuscope_stats::MIN_BLOCKS;

use crate::number::{count, percent};

use super::{is_software_clock, stacks, symbols};

/// Loss beyond this share may change any conclusion.
const MUCH_LOST: f64 = 0.05;
/// Samples without a function beyond this share are worth a sentence.
const MUCH_UNNAMED: f64 = 0.005;

/// A sentence about a profile. Holds no foreign text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// May change the conclusion, not only the details.
    pub warning: bool,
    /// The sentence.
    pub text: String,
}

/// All that is to be said, the gravest first.
#[must_use]
pub fn notes(profile: &Profile) -> Vec<Note> {
    let warnings =
        [cut_off(profile), stopped(profile), missing(profile), loss(profile), unsampled(profile)];
    let rest = [
        throttled(profile),
        strays(profile),
        stacks::note(profile),
        unnamed(profile),
        unmapped(profile),
        intervals(profile),
    ];
    let note = |warning| move |text| Note { warning, text };
    warnings
        .into_iter()
        .flatten()
        .map(note(true))
        .chain(rest.into_iter().flatten().map(note(false)))
        .collect()
}

fn cut_off(profile: &Profile) -> Option<String> {
    match profile.state {
        FileState::Closed => None,
        FileState::NotClosed => Some(
            "the recording was cut off: its recorder was killed or is still running. This is what it \
             had written until then; figures of cost and loss are those of its last note."
                .into(),
        ),
        FileState::Truncated { has, should } => Some(format!(
            "the file is cut off: it has {} of {} bytes. The samples behind the cut are missing; copy it again.",
            count(has),
            count(should)
        )),
    }
}

fn stopped(profile: &Profile) -> Option<String> {
    let stopped = profile.tally.stopped.as_ref()?;
    Some(format!(
        "reading stopped at byte {}: {}. What lies behind is not in this report.",
        count(stopped.offset),
        crate::escape(&stopped.reason.to_string())
    ))
}

/// The recorder counts what it writes: a reader must find as much.
fn missing(profile: &Profile) -> Option<String> {
    let info = profile.info().filter(|info| info.complete)?;
    let (wrote, read) = (info.samples(), profile.samples_read());
    (wrote != read && profile.tally.stopped.is_none()).then(|| {
        format!(
            "the recorder wrote {} samples, {} were read: the file was changed, or one of the two is wrong.",
            count(wrote),
            count(read)
        )
    })
}

/// Loss matters when it is large, or when it is larger than what separates the first two functions.
fn loss(profile: &Profile) -> Option<String> {
    let lost = profile.lost;
    let samples = profile.samples();
    if lost.count == 0 || samples == 0 {
        return None;
    }
    let share = lost.count as f64 / (lost.count as f64 + samples as f64);
    let gap = profile.events.iter().filter_map(|event| match &event.functions[..] {
        [first, second, ..] => Some(first.share - second.share),
        _ => None,
    });
    let gap = gap.fold(f64::INFINITY, f64::min);
    let at_least = if lost.source == LostSource::Records { "at least " } else { "" };
    let reason = if share > MUCH_LOST {
        "Shares can be off by as much".into()
    } else if share > gap {
        format!("That is more than lies between the first two functions ({})", percent(gap, 2))
    } else {
        return None;
    };
    Some(format!(
        "{at_least}{} of all records were lost. {reason}. Record with a lower rate (-F) or larger rings (-m).",
        percent(share, 2)
    ))
}

/// Time that a clock counted and did not sample.
fn unsampled(profile: &Profile) -> Option<String> {
    let clocks = profile.info()?.events.iter().filter_map(EventInfo::unsampled);
    let most = clocks.max_by(|a, b| share_unsampled(a).total_cmp(&share_unsampled(b)))?;
    Some(format!(
        "the kernel counted {:.3} s of the clock, the samples stand for {:.3} s: what ran in {} of the \
         time is not in this report. Tasks that live shorter than a period have no samples where a \
         clock follows tasks. Record a command with --own-cgroup, or the machine with -a.",
        most.counted_s,
        most.sampled_s,
        percent(share_unsampled(&most), 1)
    ))
}

fn share_unsampled(clock: &UnsampledClock) -> f64 {
    1.0 - clock.sampled_s / clock.counted_s
}

fn throttled(profile: &Profile) -> Option<String> {
    (profile.throttled > 0).then(|| {
        format!(
            "the kernel suspended sampling {} times: the busiest moments are under-represented. Record \
             with a lower rate (-F), or raise kernel.perf_event_max_sample_rate.",
            count(profile.throttled)
        )
    })
}

/// What the reader could not place.
fn strays(profile: &Profile) -> Option<String> {
    let tally = &profile.tally;
    let mut parts = Vec::new();
    let mut part = |number: u64, what: &str| {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    };
    part(tally.samples_of_no_event, "samples belong to no event of the file");
    part(tally.malformed, "records are too short");
    part(tally.late, "records came too late to be put in order");
    part(tally.unknown_kinds.values().sum(), "records are of kinds this version does not know");
    part(profile.mappings_left_out, "mappings were left out for want of memory");
    (!parts.is_empty()).then(|| format!("not in this report: {}.", parts.join(", ")))
}

fn unnamed(profile: &Profile) -> Option<String> {
    let (share, modules) =
        largest(profile, |state| !matches!(state, SymbolState::Found | SymbolState::NotMapped))?;
    let plural = if modules == 1 { "module" } else { "modules" };
    Some(format!(
        "{} of the samples lie in {modules} {plural} without symbols: pmuscope report --modules says \
         why and what to do.",
        percent(share, 1)
    ))
}

fn unmapped(profile: &Profile) -> Option<String> {
    let (share, _) = largest(profile, |state| *state == SymbolState::NotMapped)?;
    Some(format!(
        "{} of the samples lie where, as far as the recording tells, no file is mapped: [unknown].",
        percent(share, 1)
    ))
}

/// Share and number of the modules in such a state, for the event where they have the largest share;
/// `None` if that is not worth a sentence.
fn largest(profile: &Profile, is: impl Fn(&SymbolState) -> bool) -> Option<(f64, usize)> {
    let of_event = |event: &EventProfile| {
        let shares: Vec<f64> = event
            .modules
            .iter()
            .filter(|row| is(&symbols::effective(&profile.modules[row.module], row)))
            .map(|row| row.share)
            .collect();
        (shares.iter().sum::<f64>(), shares.len())
    };
    profile
        .events
        .iter()
        .map(of_event)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(share, _)| *share > MUCH_UNNAMED)
}

fn intervals(profile: &Profile) -> Option<String> {
    let without = profile
        .events
        .iter()
        .filter(|event| event.samples > 0 && event.blocks < MIN_BLOCKS)
        .min_by_key(|event| event.blocks)?;
    let clock = if is_software_clock(without) { "" } else { " or a shorter period (-c)" };
    Some(format!(
        "no \u{b1}: an interval takes samples in 30 blocks of time, there are {}. Record longer, or with a \
         higher rate (-F){clock}.",
        count(without.blocks as u64)
    ))
}
