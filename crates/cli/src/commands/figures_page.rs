//! `--html`: what was measured as a page, as `compare` makes one of a single file.

use std::path::PathBuf;

use pmuscope_machine::FileKind;
use pmuscope_measure::RunFile;
use pmuscope_measure::compare::{Options, compare};
use pmuscope_report::figures_page;

use super::output::Output;
use crate::version::COMMIT;

/// The flag.
#[derive(Debug, clap::Args)]
pub(super) struct FiguresPage {
    /// Write a page with all figures to FILE at the end
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl FiguresPage {
    /// Whether it was asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.html.is_some()
    }

    /// Asks, before anything is measured, whether the page can be written.
    ///
    /// # Errors
    /// If the folder cannot be written to, or a file of another kind is there.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        Output::to(self.html.as_deref()).check(FileKind::Page)
    }

    /// Writes the page, if it was asked for.
    ///
    /// # Errors
    /// If the file cannot be written; what there was under its name stays.
    pub(super) fn write(&self, file: &RunFile) -> anyhow::Result<()> {
        let Some(path) = &self.html else { return Ok(()) };
        let comparison = compare(&[(name(&file.command), file.clone())], &Options::default())?;
        let page = figures_page(&comparison, file, COMMIT);
        Output::to(Some(path)).print(FileKind::Page, &page)
    }
}

/// The command without its arguments: `stat`, `bench ring`.
fn name(command: &[String]) -> String {
    let mut words = command.iter().skip(1).map(String::as_str);
    match (words.next(), words.next()) {
        (Some(group @ ("bench" | "lab")), Some(command)) => format!("{group} {command}"),
        (Some(command), _) => command.to_owned(),
        (None, _) => "pmuscope".to_owned(),
    }
}
