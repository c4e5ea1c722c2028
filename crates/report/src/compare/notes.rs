//! What makes files less comparable than their numbers look, and what columns are called.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use pmuscope_measure::Origin;
use pmuscope_measure::compare::{Column, Head, Row};

use crate::escape::escape;
use crate::number;

/// What makes the files less comparable than their numbers look.
pub(crate) fn of_files(files: &[Head]) -> Vec<String> {
    let mut notes = Vec::new();
    let different = |of: fn(&Head) -> &Option<String>| {
        let values: BTreeSet<&str> = files.iter().filter_map(|f| of(f).as_deref()).collect();
        (values.len() > 1).then(|| values.into_iter().map(escape).collect::<Vec<_>>().join(", "))
    };
    if let Some(processors) = different(|f| &f.processor) {
        notes.push(format!("The files are of different processors: {processors}."));
    }
    if let Some(kernels) = different(|f| &f.kernel) {
        notes.push(format!("The files are of different kernels: {kernels}."));
    }
    let keys: BTreeSet<&String> = files.iter().flat_map(|f| f.parameters.keys()).collect();
    for key in keys {
        let value =
            |file: &Head| file.parameters.get(key).map_or("-".into(), |v| escape(v).into_owned());
        let values: BTreeSet<String> = files.iter().map(value).collect();
        if values.len() > 1 {
            let values: Vec<String> = values.into_iter().collect();
            notes.push(format!("The files differ in {}: {}.", escape(key), values.join(", ")));
        }
    }
    for file in files {
        let name = escape(&file.name);
        if let Some(emulator) = &file.emulator {
            notes.push(format!(
                "{name} is of an emulated machine ({}): what depends on speed is not a machine's.",
                escape(emulator)
            ));
        }
        if !file.finished {
            notes.push(format!("{name} was interrupted: it has the runs done until then."));
        }
        if let Some(ended) = &file.ended {
            notes.push(format!("{name}: its only run ended with {}.", escape(ended)));
        }
        if file.failed > 0 {
            notes.push(format!(
                "{name}: {} of {} failed or {} broken off and {} left out.",
                file.failed,
                number::counted(file.runs, "run"),
                number::agree(file.failed, "was", "were"),
                number::agree(file.failed, "is", "are")
            ));
        }
    }
    notes
}

/// The same, and what is to be known of figures.
pub(crate) fn of_comparison(files: &[Head], rows: &[Row]) -> Vec<String> {
    let mut notes = of_files(files);
    notes.extend(of_units(files));
    for (at, file) in files.iter().enumerate() {
        let columns = || rows.iter().filter_map(|row| Some((row, row.columns[at].as_ref()?)));
        let name = escape(&file.name);
        let cut: Vec<(&Row, f64)> = columns()
            .filter_map(|(row, column)| Some((row, column.counted.filter(|_| is_cut(column))?)))
            .collect();
        if let Some(least) = cut.iter().map(|&(_, share)| share).reduce(f64::min) {
            notes.push(format!(
                "{name}: {} of {} figures (~) were counted part of the time only, {} at least: their values \
                 are estimates, and intervals know nothing of that. Try: pmuscope sweep, which counts in \
                 several runs instead.",
                cut.len(),
                rows.len(),
                number::percent_at_least(least)
            ));
        }
        if columns().any(|(_, column)| column.origin == Origin::Emulated) && file.emulator.is_none()
        {
            notes.push(format!(
                "{name}: some of its counters are emulated, not a processor's (emu)."
            ));
        }
    }
    notes
}

/// Units of work that only some files have.
fn of_units(files: &[Head]) -> Option<String> {
    let units = |file: &Head| -> BTreeSet<String> { file.units.keys().cloned().collect() };
    let all: BTreeSet<BTreeSet<String>> = files.iter().map(units).collect();
    (all.len() > 1).then(|| {
        let one = |file: &Head| {
            let names: Vec<String> = file.units.keys().map(|u| escape(u).into_owned()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("{} {names}", escape(&file.name))
        };
        let each: Vec<String> = files.iter().map(one).collect();
        format!("The files have different units of work: {}.", each.join("; "))
    })
}

/// Whether a counter had to share its place.
pub(crate) fn is_cut(column: &Column) -> bool {
    column.counted.is_some_and(|share| share < number::WHOLE)
}

/// File names without folders, unless that makes two alike.
pub(crate) fn short_names(files: &[Head]) -> Vec<String> {
    let base = |file: &Head| {
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
