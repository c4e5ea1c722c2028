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
    let mut notes = Vec::new();
    let mut say = |warning, text: String| notes.push(Note { warning, text });
    if hits.state != FileState::Closed || hits.tally.stopped.is_some() {
        say(
            true,
            "the recording was not closed or is damaged; this is what could be read.".to_owned(),
        );
    }
    let by_records = hits.targets.iter().any(|target| !target.has_writers && target.records > 0);
    if by_records && hits.info.means == Means::Samples {
        say(
            false,
            "places and threads are those of the records: without BPF the kernel counts hits in all only, and \
             nobody reads values at the hit."
                .to_owned(),
        );
    } else if by_records {
        say(
            false,
            "numbers are those of the records: the kernel's table of writers is written when a recording \
             is closed."
                .to_owned(),
        );
    }
    let untold = hits.targets.iter().fold(0, |sum: u64, one| sum.saturating_add(one.matrix.untold));
    if untold > 0 {
        say(
            false,
            format!(
                "{} {} not attributed to a call site and thread: a separate row has them.",
                counted(untold, "hit"),
                agree(untold, "is", "are")
            ),
        );
    }
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
                Some(file) => format!("who called: pmuscope report --call-tree {}", escape(file)),
                None => {
                    "call chains: -o FILE keeps them, pmuscope report --call-tree FILE shows them."
                        .to_owned()
                }
            },
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
                "points were armed for {} of the time, and then hits took {} of the target's CPU time: how often it \
                 would have been there without them cannot be told, only that it was more often than counted. \
                 The values that a counter had at two hits tell its steps in between.",
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
        "not all points fit into the hardware's slots, so they took turns"
    } else {
        "points were armed for a part of the time, to stay below the limit"
    };
    say(
        false,
        format!(
            "{why}. \"Hits\" were counted while armed; \"all the time\" estimates how many there were (95 %, \
             from {} stretches of time). Places, threads and values are those of counted hits.",
            number::count(hits.info.blocks.len() as u64)
        ),
    );
}

fn values(view: &WatchView<'_>, say: &mut impl FnMut(bool, String)) {
    let hits = view.hits;
    let shares = hits.info.targets.iter().any(|target| target.access == Access::ReadWrite);
    if shares {
        say(
            false,
            "a hit of a read-write watch does not tell a read from a write; one that changed the value was a \
             write."
                .to_owned(),
        );
    }
    let pairs = hits.targets.iter().any(|target| target.transitions.total > 0);
    let several = hits.targets.iter().any(|target| target.matrix.threads.len() > 1);
    match hits.value_read {
        ValueRead::After if pairs && several => say(
            false,
            "old and new are what two hits in a row found, right behind the access. Another thread may have \
             written in that moment: then a hit shows what that one wrote."
                .to_owned(),
        ),
        ValueRead::Before => say(
            false,
            "this machine stops before the access: a hit finds the old value, and the new one is what the \
             next hit found, unless another thread wrote in between. Of a process's last hit, and of one whose \
             next was not written down, it is not known."
                .to_owned(),
        ),
        _ => {}
    }
}
