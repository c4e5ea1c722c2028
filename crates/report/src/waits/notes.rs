//! What changes the reading of waits: the same sentences in text and on pages.

use pmuscope_profile::waits::{OffCpuKind, WaitSums, Waits};

use super::{WaitsView, seconds};
use crate::Note;
use crate::number::{agree, count, counted};
use crate::recording::notes_on_file;

/// What changes the reading, warnings first.
pub(super) fn notes(view: &WaitsView<'_>) -> Vec<Note> {
    let waits = view.waits;
    // Notes about samples do not apply: waits are not sampled, and their number differs.
    let mut notes = notes_on_file(&waits.profile);
    notes.extend(broken(waits).map(|text| Note { warning: true, text }));
    notes.extend(own(waits).into_iter().map(|text| Note { warning: false, text }));
    notes.extend(no_interval(view).map(|text| Note { warning: false, text }));
    notes.sort_by_key(|note| !note.warning);
    notes
}

fn own(waits: &Waits) -> Vec<String> {
    let mut notes = Vec::new();
    let sum = |of: fn(&WaitSums) -> (u64, u64)| {
        let each = waits.by_kind.iter().map(of);
        each.fold((0, 0_u64), |sum: (u64, u64), one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
    };
    let (before, past) = (sum(|sums| sums.begun_before), sum(|sums| sums.last_past));
    if before.0 > 0 || past.0 > 0 {
        notes.push(format!(
                "{} ({}) began before the recording, {} ({}) {} past its end: their time counts, but not for \
                 median and p99",
                counted(before.0, "wait"),
                seconds(before.1),
                count(past.0),
                seconds(past.1),
                agree(past.0, "continues", "continue")
            ));
    }
    notes.extend(without_waking(waits));
    if waits.silent > 0 {
        notes.push(format!(
            "{} never switched: whether on or off CPU is unknown, so that time is in no sum",
            counted(waits.silent, "thread")
        ));
    }
    if !waits.has_wakings {
        notes.push(
            "wakeups were not recorded, so waits include run-queue latency. They need root, or CAP_PERFMON and a \
             readable tracefs: sudo pmuscope record --off-cpu"
                .into(),
        );
    }
    if !waits.has_stacks {
        notes.push(without_stacks(waits.profile.info().is_some()).into());
    }
    notes
}

/// Why no wait has a function. pmuscope records without stacks only where it may not record them; others wherever no stacks
/// are asked for.
fn without_stacks(is_own: bool) -> &'static str {
    if is_own {
        "switches were recorded without stacks. Stacks need sudo sysctl kernel.perf_event_paranoid=1, or root"
    } else {
        "switches were recorded without stacks. Try: record with -g"
    }
}

/// Why no row has an interval.
fn no_interval(view: &WaitsView<'_>) -> Option<String> {
    let has_none = view.rows.iter().all(|row| row.interval.is_none());
    (has_none && !view.rows.is_empty()).then(|| {
        "no CI: the recording is too short; needed are 24 times the length of the waits or of the program's \
         phases, and 30 blocks of time. Record longer."
            .to_owned()
    })
}

/// Time that is unknown because records are missing.
fn broken(waits: &Waits) -> Option<String> {
    let broken = &waits.broken;
    if waits.wall.unknown_ns == 0 && *broken == Default::default() {
        return None;
    }
    let (why, what_to_do) = match waits.profile.lost.count {
        0 => ("records are missing, though none were counted as lost", ""),
        _ => ("records were lost", ". Try: pmuscope record -m 8M"),
    };
    Some(format!(
        "{why}: {} left a CPU and {} came to one unobserved, and {} overlapped lost records. That time ({}) is in \
         no row{what_to_do}",
        counted(broken.beginnings, "thread"),
        counted(broken.ends, "thread"),
        counted(broken.uncertain, "wait"),
        seconds(waits.wall.unknown_ns)
    ))
}

/// How many waits nobody is known to have ended, where wakings were recorded.
fn without_waking(waits: &Waits) -> Option<String> {
    let blocked = &waits.by_kind[OffCpuKind::Blocked as usize];
    let (number, ns) = blocked.without_waking;
    (waits.has_wakings && number > 0).then(|| {
        format!(
            "{} of {} ({}) ended with no recorded wakeup, which the kernel can drop uncounted: their waker is \
             unknown, and their run-queue latency counts as blocked, so times with > are lower bounds",
            count(number),
            counted(blocked.lengths.n(), "blocked wait"),
            seconds(ns)
        )
    })
}
