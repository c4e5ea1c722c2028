//! What changes the reading of hits.

use pmuscope_perfdata::reader::FileState;
use pmuscope_perfdata::watch::{Access, Means};
use pmuscope_profile::hits::ValueRead;

use super::WatchView;
use crate::number::{agree, counted};
use crate::recording::Note;
use crate::{escape, number};

pub(super) fn notes(view: &WatchView<'_>) -> Vec<Note> {
    let hits = view.hits;
    let mut notes = of_counts(view);
    let mut say = |warning, text: String| notes.push(Note { warning, text });
    armed(view, &mut say);
    values(view, &mut say);
    for target in &hits.info.targets {
        for note in &target.notes {
            say(false, format!("{}: {}", escape(&target.name), escape(note)));
        }
    }
    for notice in view.recording().iter().flat_map(|info| &info.notices) {
        say(false, escape(notice).into_owned());
    }
    if hits.has_chains && hits.records > 0 {
        say(
            false,
            match view.file {
                Some(file) => format!("callers: pmuscope report --call-tree {}", escape(file)),
                None => {
                    "callers: keep a recording with -o FILE, then pmuscope report --call-tree FILE."
                        .to_owned()
                }
            },
        );
    }
    notes
}

/// What changes the reading of counts, but for the time that watchpoints were enabled.
pub(super) fn of_counts(view: &WatchView<'_>) -> Vec<Note> {
    let hits = view.hits;
    let mut notes = Vec::new();
    let mut say = |warning, text: String| notes.push(Note { warning, text });
    if hits.state != FileState::Closed || hits.tally.stopped.is_some() {
        say(true, "the recording is incomplete or damaged; this is what could be read.".to_owned());
    }
    let by_records = hits.targets.iter().any(|target| !target.has_writers && target.records > 0);
    if by_records && hits.info.means == Means::Samples {
        say(
            false,
            "call sites and threads are from records: without BPF the kernel counts only total hits, and values are \
             not read."
                .to_owned(),
        );
    } else if by_records {
        say(
            false,
            "numbers are from records: the table of call sites is written when a recording is closed."
                .to_owned(),
        );
    }
    let unattributed =
        hits.targets.iter().fold(0, |sum: u64, one| sum.saturating_add(one.matrix.unattributed));
    if unattributed > 0 {
        say(
            false,
            format!(
                "{} {} not attributed to a call site and thread: see the separate row.",
                counted(unattributed, "hit"),
                agree(unattributed, "is", "are")
            ),
        );
    }
    notes
}

fn armed(view: &WatchView<'_>, say: &mut impl FnMut(bool, String)) {
    let hits = view.hits;
    if let Some(share) = hits.in_hits {
        say(
            true,
            format!(
                "watchpoints were enabled {} of the time, and hits took {} of the target's CPU time: counts are lower \
                 bounds. For a counter, the values at two hits give the steps in between.",
                number::percent(hits.armed.unwrap_or(0.0), 1),
                number::percent(share.min(1.0), 0),
            ),
        );
        return;
    }
    if !hits.targets.iter().any(|target| target.estimate.is_some()) {
        return;
    }
    let why = if hits.took_turns {
        "more watchpoints than debug registers, so they were multiplexed"
    } else {
        "watchpoints were enabled part of the time, to stay below the overhead limit"
    };
    say(
        false,
        format!(
            "{why}. \"hits\" were counted while enabled; \"estimated total\" is extrapolated (95% CI from {}). Call \
             sites, threads and values are those of counted hits.",
            number::counted(hits.info.blocks.len(), "time block")
        ),
    );
}

fn values(view: &WatchView<'_>, say: &mut impl FnMut(bool, String)) {
    let hits = view.hits;
    let shares = hits.info.targets.iter().any(|target| target.access == Access::ReadWrite);
    if shares {
        say(
            false,
            "a read-write watchpoint does not distinguish reads from writes; a hit that changed the value was a \
             write."
                .to_owned(),
        );
    }
    let pairs = hits.targets.iter().any(|target| target.transitions.total > 0);
    let several = hits.targets.iter().any(|target| target.matrix.threads.len() > 1);
    match hits.value_read {
        ValueRead::After if pairs && several => say(
            false,
            "old and new are the values at two consecutive hits, read right after the access. If another thread wrote \
             in that moment, its value is shown."
                .to_owned(),
        ),
        ValueRead::Before => say(
            false,
            "this CPU traps before the access: a hit reads the old value, and new is what the next hit read, unless \
             another thread wrote in between. It is unknown for a process's last hit, and where the next was not \
             recorded."
                .to_owned(),
        ),
        _ => {}
    }
}
