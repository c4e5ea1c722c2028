//! Where the numbers of a column come from, and what makes columns less comparable than they look.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::whole::whole_runs;
use crate::run_file::{Labels, Run, RunFile};

/// Where the numbers of a file come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileHead {
    /// As given on the command line; that of the arm, where the column is one.
    pub name: String,
    /// The command that an arm runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arm: Option<Vec<String>>,
    /// The command that wrote it.
    pub command: Vec<String>,
    /// Nanoseconds since 1970-01-01 UTC, as text.
    pub started: String,
    /// Model of the processor.
    pub processor: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// What emulated the machine, if it was: times and rates are then not a machine's.
    pub emulator: Option<String>,
    /// What all its runs have in common.
    pub parameters: Labels,
    /// Units of work of a run, by name: their mean over runs that count.
    pub units: BTreeMap<String, f64>,
    /// Runs in the file.
    pub runs: usize,
    /// Runs that failed or were broken off and are left out.
    pub failed: usize,
    /// How the only run ended, if not as it should have: it is not left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether the program that wrote it came to its end.
    pub finished: bool,
}

impl FileHead {
    /// Of this file.
    pub fn new(name: &str, file: &RunFile) -> Self {
        let file = &*whole_runs(file);
        let text = |path| file.machine.pointer(path)?.as_str().map(str::to_owned);
        Self {
            name: name.to_owned(),
            arm: None,
            command: file.command.clone(),
            started: file.started.clone(),
            processor: text("/processor/model_name"),
            kernel: text("/kernel/release"),
            emulator: text("/surroundings/emulator/name"),
            parameters: file.parameters.clone(),
            units: units(file),
            runs: file.runs.len(),
            failed: file.runs.len() - file.counting_runs().count(),
            ended: file.ended(),
            finished: file.status.is_some(),
        }
    }
}

impl FileHead {
    /// Whether both are arms of one file.
    #[must_use]
    pub fn is_with(&self, other: &Self) -> bool {
        self.arm.is_some() && other.arm.is_some() && self.started == other.started
    }
}

/// Units that every run that counts has, with their means.
fn units(file: &RunFile) -> BTreeMap<String, f64> {
    let runs: Vec<&Run> = file.counting_runs().collect();
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.units.keys()).collect();
    let mean = |name: &String| -> Option<f64> {
        let of = |run: &&Run| run.units.get(name).copied().filter(|n| *n > 0.0 && n.is_finite());
        let all: Option<Vec<f64>> = runs.iter().map(of).collect();
        pmuscope_stats::mean(&all?)
    };
    names.into_iter().filter_map(|name| Some((name.clone(), mean(name)?))).collect()
}
