//! How many of the unwound stacks are complete, and what cut the others.

use std::collections::BTreeMap;

use pmuscope_profile::{CutReason, CutStacks, ModuleKind, ModuleSummary, Profile, StackSummary};

use crate::escape;
use crate::number::{count, percent};

/// Cut stacks beyond this share are worth a sentence.
const MANY_CUT: f64 = 0.01;
/// Call chains that lead nowhere beyond this share are worth a sentence.
const MANY_LOST: f64 = 0.05;
/// The largest copy the kernel makes, bytes: a record has less than 64 KiB.
const LARGEST_COPY: u32 = 65_528;
/// Modules that a reason names.
const MOST_NAMED: usize = 2;

/// `stacks: 97.31 % of 12,345 complete · cut: 2.05 % stack copy too short`; `None` if there are none.
pub(super) fn line(profile: &Profile, stacks: &StackSummary) -> Option<String> {
    let share = stacks.complete_share()?;
    let mut line = format!("stacks: {} of {} complete", percent(share, 2), count(stacks.total()));
    let reasons: Vec<String> = by_reason(stacks)
        .into_iter()
        .map(|(reason, number)| {
            let share = percent(number as f64 / stacks.total() as f64, 2);
            let modules = modules(profile, stacks, reason);
            let of = if modules.is_empty() { String::new() } else { format!(" ({modules})") };
            format!("{share} {}{of}", reason.words())
        })
        .collect();
    if !reasons.is_empty() {
        line.push_str(&format!(" \u{b7} incomplete: {}", reasons.join(", ")));
    }
    Some(line)
}

/// The most frequent first.
fn by_reason(stacks: &StackSummary) -> Vec<(CutReason, u64)> {
    let mut sums: BTreeMap<CutReason, u64> = BTreeMap::new();
    for CutStacks { reason, stacks, .. } in &stacks.cut {
        *sums.entry(*reason).or_default() += stacks;
    }
    let mut sums: Vec<(CutReason, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(reason, stacks)| (std::cmp::Reverse(*stacks), *reason));
    sums
}

/// Names of the modules that cut most stacks for a reason.
fn modules(profile: &Profile, stacks: &StackSummary, reason: CutReason) -> String {
    let of_reason = stacks.cut.iter().filter(|cut| cut.reason == reason);
    let all: Vec<usize> = of_reason.filter_map(|cut| cut.module).collect();
    let name = |at: &usize| escape(profile.modules[*at].short_name()).into_owned();
    let mut names: Vec<String> = all.iter().take(MOST_NAMED).map(name).collect();
    if all.len() > MOST_NAMED {
        names.push("\u{2026}".into());
    }
    names.join(", ")
}

/// What to do about the reason that cut most, if that is worth a sentence.
pub(super) fn note(profile: &Profile) -> Option<String> {
    let stacks = profile.stacks.as_ref()?;
    let (reason, number) = by_reason(stacks).into_iter().next()?;
    let share = number as f64 / stacks.total() as f64;
    if share < MANY_CUT {
        return None;
    }
    let what = format!(
        "{} of the stacks are incomplete ({}): outer callers are missing, shown as [cut: \u{2026}].",
        percent(share, 1),
        reason.words()
    );
    Some(match advice(reason, stacks.copy_size) {
        Some(advice) => format!("{what} {advice}"),
        None => what,
    })
}

/// What to do where call chains by frame pointer lead to where no code is; `None` where they do not, or are not
/// by frame pointer. Most programs of distributions keep none, and the register holds anything.
pub(super) fn chains_note(profile: &Profile) -> Option<String> {
    let unknown =
        |module: &ModuleSummary| module.kind == ModuleKind::Other && module.path == "[unknown]";
    let module = profile.modules.iter().position(unknown).filter(|_| profile.stacks.is_none())?;
    let share = profile.aggregate.called_through(module as u32);
    (share > MANY_LOST).then(|| {
        format!(
            "{} of the call stacks lead through addresses without code: programs built without frame pointers, so \
             callers are wrong or missing. Record with --call-graph dwarf.",
            percent(share, 1)
        )
    })
}

/// What to type.
pub(super) fn advice(reason: CutReason, copy: Option<u32>) -> Option<String> {
    Some(match reason {
        CutReason::CopyTooShort => match copy {
            Some(size) if size >= LARGEST_COPY => {
                "No larger copy is possible: compile with -fno-omit-frame-pointer and record with \
                 --call-graph fp."
                    .into()
            }
            size => {
                let now =
                    size.map_or(String::new(), |size| format!(" (now {})", count(size.into())));
                format!("Record with a larger copy{now}: --call-graph dwarf,{LARGEST_COPY}.")
            }
        },
        CutReason::NoInformation => {
            "Compile with -fasynchronous-unwind-tables, or install the debug file of the module."
                .into()
        }
        CutReason::FileMissing | CutReason::Unreadable => {
            "Read the recording where the files are, use --symfs DIR, or make a bundle there: pmuscope bundle."
                .into()
        }
        CutReason::Generated => {
            "Let the runtime keep frame pointers (Java: -XX:+PreserveFramePointer, node: \
             --interpreted-frames-native-stack) and record with --call-graph fp."
                .into()
        }
        CutReason::OtherKernel => {
            "Make a bundle on the machine that recorded, before it reboots: pmuscope bundle."
                .into()
        }
        CutReason::ThirtyTwoBit | CutReason::OtherMachine => "Record with --call-graph fp.".into(),
        _ => return None,
    })
}
