//! How many of the unwound stacks are complete, and what cut the others.

use std::collections::BTreeMap;

use pmuscope_profile::{CutReason, CutStacks, ModuleKind, ModuleSummary, Profile, StackSummary};

use super::causes::advice_on_cut;
use crate::escape;
use crate::number::{count, percent};

/// Cut stacks beyond this share are worth a sentence.
const MANY_CUT: f64 = 0.01;
/// Call chains that lead nowhere beyond this share are worth a sentence.
const MANY_LOST: f64 = 0.05;
/// Beginnings of the names of functions that nothing of the program calls, besides `main`.
const OUTERMOST: [&str; 9] = [
    "_start",
    "__start_context",
    "runtime.goexit",
    "__libc_start",
    "start_thread",
    "__clone",
    "clone",
    "thread_start",
    "ret_from_fork",
];

/// Whether nothing of the program calls a function of this name: also `program::main` and `main.main`.
fn is_outermost(name: &str) -> bool {
    let is_main = name
        .strip_prefix("main")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '(']));
    is_main || name.ends_with("::main") || OUTERMOST.iter().any(|start| name.starts_with(start))
}
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
    if stacks.by_frame_pointer > 0 {
        let share = percent(stacks.by_frame_pointer as f64 / stacks.total() as f64, 2);
        line.push_str(&format!(" \u{b7} {share} by frame pointer in generated code"));
    }
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
    Some(match advice_on_cut(reason, stacks.copy_size) {
        Some(advice) => format!("{what} {advice}"),
        None => what,
    })
}

/// Reasons that recorded callchains are cut, where stacks were not unwound.
pub(super) fn cut_chains_note(profile: &Profile) -> Option<String> {
    let is_cut =
        |module: &ModuleSummary| module.kind == ModuleKind::Other && module.path == "[cut]";
    let module = profile.modules.iter().position(is_cut).filter(|_| profile.stacks.is_none())?;
    let share = profile.aggregate.called_through(module as u32);
    if share < MANY_CUT {
        return None;
    }
    let reasons = [CutReason::ChainLimit, CutReason::NotRecorded];
    let reasons = reasons.into_iter().filter(|reason| profile.is_cut_by(*reason, module));
    let (words, advice): (Vec<&str>, Vec<String>) =
        reasons.filter_map(|reason| Some((reason.words(), advice_on_cut(reason, None)?))).unzip();
    Some(format!(
        "{} of the call stacks are incomplete ({}): outer callers are missing, shown as [cut: \u{2026}]. {}",
        percent(share, 1),
        words.join(", "),
        advice.join(" ")
    ))
}

/// What to do where call chains by frame pointer lead to where no code is, or nowhere; `None` where they do not, or are
/// not by frame pointer. Most programs of distributions keep none, and the register holds anything.
pub(super) fn chains_note(profile: &Profile) -> Option<String> {
    let unknown =
        |module: &ModuleSummary| module.kind == ModuleKind::Other && module.path == "[unknown]";
    let by_pointer = Some(profile).filter(|profile| profile.stacks.is_none())?;
    let module = by_pointer.modules.iter().position(unknown);
    let misled =
        module.map_or(0.0, |module| profile.aggregate.misled_through(module as u32, is_outermost));
    let is_program = |module: u32| {
        profile.modules.get(module as usize).is_some_and(|module| module.kind == ModuleKind::File)
    };
    let alone = profile.aggregate.without_caller(is_program, is_outermost);
    let (share, what) = match misled >= alone {
        true => (misled, "lead through addresses without code"),
        false => (alone, "have a single function of the program"),
    };
    (share > MANY_LOST).then(|| {
        format!(
            "{} of the call stacks {what}: programs built without frame pointers, so callers are wrong or missing. \
             Record with --call-graph dwarf.",
            percent(share, 1)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::is_outermost;

    #[test]
    fn functions_that_nothing_calls_are_known_by_name() {
        for name in ["main", "main.main", "main(int, char**)", "tool::main", "start_thread"] {
            assert!(is_outermost(name), "{name}");
        }
        for name in ["mainloop", "work", "tool::main::{{closure}}", ""] {
            assert!(!is_outermost(name), "{name}");
        }
    }
}
