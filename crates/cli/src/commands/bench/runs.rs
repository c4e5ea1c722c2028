//! What all benchmarks do with their run file: begin it with what is known of the machine, keep it
//! after every run, and stop where the user says so.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pmuscope_machine::{CpuSet, Facts, FileKind, Machine};
use pmuscope_measure::{Concern, MeasureError, Program, RunFile, can_save, save};
use pmuscope_report::{Style, Tool, to_json};

use crate::commands::figures_page::FiguresPage;
use crate::exit::{Exit, failure};
use crate::replace::replace;
use crate::terminal;

/// Where results go.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct RunOutputArgs {
    /// Write all results to FILE after every run, as compare reads them (schema pmuscope/runs/1); without
    /// FILE, print them at the end instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    #[command(flatten)]
    page: FiguresPage,
}

impl RunOutputArgs {
    /// Whether results were asked for.
    pub(in crate::commands) fn is_asked(&self) -> bool {
        self.json.is_some() || self.page.is_asked()
    }

    /// The file to keep results in.
    pub(in crate::commands) fn path(&self) -> Option<&Path> {
        self.json.as_ref()?.as_deref()
    }

    /// Whether they are printed instead of the table.
    pub(in crate::commands) fn is_printed(&self) -> bool {
        matches!(self.json, Some(None))
    }

    /// Keeps the results in the file, and writes the page, as far as they were asked for.
    pub(in crate::commands) fn write(&self, file: &RunFile) -> anyhow::Result<()> {
        keep(file, self.path())?;
        self.page.write(file)
    }

    /// Asks, before anything is measured, whether results can be written where they were asked for.
    ///
    /// # Errors
    /// If a folder cannot be written to, or a file of another kind is there.
    pub(in crate::commands) fn check(&self) -> anyhow::Result<()> {
        if let Some(path) = self.path() {
            can_save(path, replace(FileKind::RunFile))?;
        }
        self.page.check()
    }

    /// Ends the runs: by the user's wish, or with all that was asked for there (`whole`) or not. Keeps
    /// the results, and prints them.
    pub(in crate::commands) fn finish(
        &self,
        mut file: RunFile,
        interrupted: bool,
        whole: bool,
        text: impl FnOnce(&RunFile, &Style) -> String,
    ) -> anyhow::Result<Exit> {
        let failed = file.runs.iter().any(|run| run.exit != Some(0) || run.why.is_some());
        let exit = if whole && !failed && !interrupted { Exit::Done } else { Exit::Incomplete };
        if interrupted {
            file.why = Some("interrupted".to_owned());
        } else {
            file.finish(exit.status());
        }
        self.write(&file)?;
        terminal::print(&match self.is_printed() {
            true => to_json(&file)?,
            false => text(&file, &terminal::style()),
        })?;
        Ok(exit)
    }
}

/// CPUs are looked at for so long before anything is measured: enough ticks of the kernel for a few per cent.
const LOOK: Duration = Duration::from_millis(300);

/// Which CPUs are looked at before anything is measured on them.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) enum PreflightCpus<'a> {
    /// None: what runs already is what is measured, or nothing is measured here.
    Not,
    /// Those that a program started from here may run on.
    Allowed,
    /// These.
    At(&'a CpuSet),
}

/// A run file with what is known of the machine, and what makes times vary on it.
pub(in crate::commands) fn begin(
    machine: &Machine,
    facts: &Facts,
    look: PreflightCpus<'_>,
) -> anyhow::Result<RunFile> {
    let Tool { name, version } = Tool::PMUSCOPE;
    let tool = Program { name: name.to_owned(), version: version.to_owned() };
    let command = crate::commands::answer::command_line();
    let mut file = RunFile::new(tool, command, SystemTime::now());
    let mut environment = machine.environment().map_err(|error| {
        failure(Exit::NotPossible, format!("cannot tell what changes times here: {error}"))
    })?;
    let online = &facts.topology.online;
    let cpus = match look {
        PreflightCpus::Not => None,
        PreflightCpus::Allowed => Some(environment.allowed.as_ref().unwrap_or(online)),
        PreflightCpus::At(cpus) => Some(cpus),
    };
    if let Some(cpus) = cpus {
        // A machine that does not tell what its CPUs do has none of it in the file.
        environment.activity = machine.activity(&facts.topology, cpus, LOOK).ok();
    }
    file.concerns = environment
        .concerns()
        .into_iter()
        .map(|reason| Concern {
            effect: reason.effect,
            why: reason.why,
            fix: reason.fix.map(|fix| fix.to_string()),
        })
        .collect();
    file.environment = serde_json::to_value(environment)?;
    file.machine = serde_json::to_value(facts)?;
    Ok(file)
}

/// Says what makes times vary here, before anything is measured.
pub(in crate::commands) fn tell_concerns(file: &RunFile) {
    for concern in &file.concerns {
        let fix = concern.fix.as_ref().map_or(String::new(), |fix| format!(" Try: {fix}"));
        say!("pmuscope: {}: {}.{fix}", concern.why, concern.effect);
    }
}

/// Keeps results in the file asked for, if one was.
pub(in crate::commands) fn keep(file: &RunFile, path: Option<&Path>) -> Result<(), MeasureError> {
    path.map_or(Ok(()), |path| save(file, path, replace(FileKind::RunFile)))
}
