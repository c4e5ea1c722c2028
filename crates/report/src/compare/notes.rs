//! What makes files less comparable than their numbers look, and what columns are called.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use pmuscope_measure::compare::{Column, ComparedMetric, Comparison, FileHead};
use pmuscope_measure::{Origin, arms};

use crate::escape::escape;
use crate::number;

/// What makes the files less comparable than their numbers look.
pub(crate) fn of_files(files: &[FileHead]) -> Vec<String> {
    let mut notes = Vec::new();
    let different = |of: fn(&FileHead) -> &Option<String>| {
        let values: BTreeSet<&str> = files.iter().filter_map(|f| of(f).as_deref()).collect();
        (values.len() > 1).then(|| values.into_iter().map(escape).collect::<Vec<_>>().join(", "))
    };
    if let Some(processors) = different(|f| &f.processor) {
        notes.push(format!("The files are from different processors: {processors}."));
    }
    if let Some(kernels) = different(|f| &f.kernel) {
        notes.push(format!("The files are from different kernels: {kernels}."));
    }
    let keys: BTreeSet<&String> = files.iter().flat_map(|f| f.parameters.keys()).collect();
    for key in keys {
        let value = |file: &FileHead| {
            file.parameters.get(key).map_or("-".into(), |v| escape(v).into_owned())
        };
        let values: BTreeSet<String> = files.iter().map(value).collect();
        if values.len() > 1 {
            let values: Vec<String> = values.into_iter().collect();
            notes.push(format!("The files differ in {}: {}.", escape(key), values.join(", ")));
        }
    }
    for (at, file) in files.iter().enumerate() {
        let name = escape(&file.name);
        if let Some(emulator) = &file.emulator {
            notes.push(format!(
                "{name} is from an emulated machine ({}): timing is not that of hardware.",
                escape(emulator)
            ));
        }
        // Arms of one file were interrupted together.
        let is_first = file.arm.is_none() || !files[..at].iter().any(|other| other.is_with(file));
        if !file.finished && is_first {
            let name = if file.arm.is_some() { "The measurement" } else { &*name };
            notes.push(format!("{name} was interrupted: it has the runs completed before that."));
        }
        if let Some(ended) = &file.ended {
            notes.push(format!("{name}: its only run ended with {}.", escape(ended)));
        }
        if file.failed > 0 {
            notes.push(format!(
                "{name}: {} of {} failed or {} aborted and {} left out.",
                file.failed,
                number::counted(file.runs, "run"),
                number::agree(file.failed, "was", "were"),
                number::agree(file.failed, "is", "are")
            ));
        }
    }
    notes
}

/// The same, and what is to be known of figures and of how they were measured.
pub(crate) fn of_comparison(comparison: &Comparison) -> Vec<String> {
    let (files, rows) = (&comparison.files[..], &comparison.rows[..]);
    let mut notes = of_files(files);
    notes.extend(of_units(files));
    notes.extend(of_pairs(comparison));
    notes.extend(not_interleaved(comparison));
    for (at, file) in files.iter().enumerate() {
        let columns = || rows.iter().filter_map(|row| Some((row, row.columns[at].as_ref()?)));
        let name = escape(&file.name);
        let cut: Vec<(&ComparedMetric, f64)> = columns()
            .filter_map(|(row, column)| Some((row, column.counted.filter(|_| is_cut(column))?)))
            .collect();
        if let Some(least) = cut.iter().map(|&(_, share)| share).reduce(f64::min) {
            notes.push(format!(
                "{name}: {} of {} (~) were multiplexed (enabled {} or more): values are scaled estimates, and their \
                 CI does not include that error. Try: pmuscope sweep, which reruns instead of multiplexing.",
                cut.len(),
                number::counted(rows.len(), "metric"),
                number::percent_at_least(least)
            ));
        }
        if columns().any(|(_, column)| column.origin == Origin::Emulated) && file.emulator.is_none()
        {
            notes.push(format!("{name}: some counters are emulated, not hardware (emu)."));
        }
    }
    notes
}

/// Rounds that lack a run of an arm, of which there is no pair.
fn of_pairs(comparison: &Comparison) -> Option<String> {
    let paired = || {
        let rows = comparison.rows.iter().flat_map(|row| &row.pairs);
        rows.filter(|pair| pair.paired)
    };
    let runs =
        paired().flat_map(|pair| [pair.base, pair.other]).map(|at| comparison.files[at].runs);
    let runs = runs.max()?;
    let pairs = paired().filter_map(|pair| pair.difference).map(|d| d.n).max().unwrap_or(0);
    (pairs < runs).then(|| {
        format!(
            "Differences are of {} of {}: the others lack a successful run on one side.",
            number::count(pairs as u64),
            number::counted(runs as u64, "pair")
        )
    })
}

/// Columns that were measured one after the other, and what to type instead.
fn not_interleaved(comparison: &Comparison) -> Option<String> {
    let apart = comparison.not_interleaved.first()?;
    let (base, other) = (&comparison.files[apart.base], &comparison.files[apart.other]);
    let names = [base, other].map(|file| escape(&file.name));
    let gap = number::duration(apart.gap_s);
    let what = match (&comparison.files[..], names) {
        ([_, _], [base, other]) => {
            format!("{base} and {other} were measured one after the other ({gap} apart)")
        }
        _ => "The files were measured one after the other".to_owned(),
    };
    let risk = "a change of the machine in between (temperature, neighbors, memory layout) counts as a difference, \
                and p-values do not include it";
    let try_this =
        interleaved(base, other).map_or(String::new(), |command| format!(" Try: {command}"));
    Some(format!("{what}: {risk}.{try_this}"))
}

/// The command that measures both in one go, where the same command of this program measured both on one
/// machine.
fn interleaved(base: &FileHead, other: &FileHead) -> Option<String> {
    let command = |file: &FileHead| file.command.get(1).cloned();
    let same = base.processor == other.processor && base.kernel == other.kernel;
    let how = match command(base)
        .filter(|name| same && command(other).as_ref() == Some(name))?
        .as_str()
    {
        "stat" => "stat -r 20",
        "sweep" => "sweep -e EVENTS",
        _ => return None,
    };
    let program = |file: &FileHead| {
        let at = file.command.iter().position(|word| word == "--")?;
        file.command.get(at + 1..).filter(|words| !words.is_empty()).map(arms::join)
    };
    let (a, b) = match (program(base), program(other)) {
        (Some(a), Some(b)) if a != b => (a, b),
        _ => ("COMMAND-A".to_owned(), "COMMAND-B".to_owned()),
    };
    Some(format!("pmuscope {how} --vs {} -- {}", escape(&arms::join(&[b])), escape(&a)))
}

/// Units of work that only some files have.
fn of_units(files: &[FileHead]) -> Option<String> {
    let units = |file: &FileHead| -> BTreeSet<String> { file.units.keys().cloned().collect() };
    let all: BTreeSet<BTreeSet<String>> = files.iter().map(units).collect();
    (all.len() > 1).then(|| {
        let one = |file: &FileHead| {
            let names: Vec<String> = file.units.keys().map(|u| escape(u).into_owned()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("{} {names}", escape(&file.name))
        };
        let each: Vec<String> = files.iter().map(one).collect();
        let what = if files.iter().all(|file| file.arm.is_some()) { "commands" } else { "files" };
        format!("The {what} have different units of work: {}.", each.join("; "))
    })
}

/// Whether a counter was multiplexed.
pub(crate) fn is_cut(column: &Column) -> bool {
    column.counted.is_some_and(|share| share < number::WHOLE)
}

/// File names without folders, unless that makes two alike.
pub(crate) fn short_names(files: &[FileHead]) -> Vec<String> {
    let base = |file: &FileHead| {
        let name = Path::new(&file.name).file_name();
        escape(&name.unwrap_or_default().to_string_lossy()).into_owned()
    };
    let short: Vec<String> = files.iter().map(base).collect();
    let distinct: HashSet<&String> = short.iter().collect();
    if distinct.len() == short.len() {
        return short;
    }
    files.iter().map(|file| escape(&file.name).into_owned()).collect()
}
