//! What all benchmarks do with their run file: begin it with what is known of the machine, keep it
//! after every run, and stop where the user says so.

use std::path::Path;
use std::time::{Duration, SystemTime};

use pmuscope_console::exit::{Exit, failure};
use pmuscope_console::output::{Formats, Output, OutputArgs, Results, wrote};
use pmuscope_console::replace::{check_table, replace};
use pmuscope_console::say;
use pmuscope_console::say::is_verbose;
use pmuscope_machine::{CpuSet, Facts, FileKind, Machine};
use pmuscope_measure::{Concern, MeasureError, Program, RunFile, can_save, save};
use pmuscope_report::{Style, Tool, figures_delimited, figures_head, to_json};

use crate::commands::figures_page;
use crate::terminal;

pmuscope_console::forms!(RunFormats: Text Json Csv Tsv Html, "pmuscope/runs/1");

/// Where results of runs go.
pub(in crate::commands) type RunOutputArgs = OutputArgs<RunFormats>;

/// The same, as it was asked for: the run file is kept after every run, the page is written at the end.
#[derive(Debug, Clone)]
pub(in crate::commands) struct RunOutput {
    pub(in crate::commands) results: Results,
}

impl RunOutput {
    /// What the flags ask for.
    ///
    /// # Errors
    /// If they name no form that there is.
    pub(in crate::commands) fn of<F: Formats>(args: &OutputArgs<F>) -> anyhow::Result<Self> {
        Ok(Self { results: args.results()? })
    }

    /// The file to keep results in.
    pub(in crate::commands) fn path(&self) -> Option<&Path> {
        self.results.json.as_deref()
    }

    /// Whether they are printed instead of the table.
    pub(in crate::commands) fn is_printed(&self) -> bool {
        self.results.printed
    }

    /// Keeps the results in the file, and writes the page, as far as they were asked for.
    pub(in crate::commands) fn write(&self, file: &RunFile) -> anyhow::Result<()> {
        keep(file, self.path())?;
        if let Some(path) = self.path() {
            wrote(path);
        }
        for (separator, path) in &self.results.tables {
            if let Some(path) = path {
                let table = figures_delimited(file, *separator);
                Output::to(Some(path)).print(FileKind::Table, &table)?;
            }
        }
        self.results.html.as_deref().map_or(Ok(()), |path| figures_page::write(file, path))
    }

    /// Asks, before anything is measured, whether results can be written where they were asked for.
    ///
    /// # Errors
    /// If a folder cannot be written to, or a file of another kind is there.
    pub(in crate::commands) fn check(&self) -> anyhow::Result<()> {
        if let Some(path) = self.path() {
            can_save(path, replace(FileKind::RunFile))?;
        }
        let page = self.results.html.as_deref();
        Output::to(page).check(FileKind::Page)?;
        for (separator, path) in &self.results.tables {
            if let Some(path) = path {
                Output::to(Some(path)).check(FileKind::Table)?;
                check_table(path, &figures_head(false, *separator))?;
            }
        }
        let text = self.results.text.as_deref();
        Output::to(text).check(self.kind())
    }

    /// What is printed.
    fn kind(&self) -> FileKind {
        if self.is_printed() { FileKind::RunFile } else { FileKind::Text }
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
        let output = Output::to(self.results.text.as_deref());
        let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
        let text = match (self.is_printed(), self.results.printed_table()) {
            (true, _) => to_json(&file)?,
            (_, Some(separator)) => figures_delimited(&file, separator),
            _ => text(&file, &style),
        };
        match output.is_file() {
            true => output.print(self.kind(), &text)?,
            false => terminal::print(&text)?,
        }
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
    preflight: PreflightCpus<'_>,
) -> anyhow::Result<RunFile> {
    let Tool { name, version } = Tool::PMUSCOPE;
    let tool = Program { name: name.to_owned(), version: version.to_owned() };
    let command = pmuscope_console::invocation::command_line();
    let mut file = RunFile::new(tool, command, SystemTime::now());
    let mut environment = machine.environment().map_err(|error| {
        failure(Exit::NotPossible, format!("cannot read what makes times vary here: {error}"))
    })?;
    let online = &facts.topology.online;
    let cpus = match preflight {
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
        say!("note: {}: {}", concern.why, concern.effect);
        if let Some(fix) = concern.fix.as_ref().filter(|_| is_verbose()) {
            say!("  Try: {fix}");
        }
    }
}

/// Keeps results in the file asked for, if one was.
pub(in crate::commands) fn keep(file: &RunFile, path: Option<&Path>) -> Result<(), MeasureError> {
    path.map_or(Ok(()), |path| save(file, path, replace(FileKind::RunFile)))
}
