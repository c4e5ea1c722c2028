//! `--html`: what was measured as a page, as `compare` makes one of a single file.

use std::path::Path;

use pmuscope_console::output::Output;
use pmuscope_machine::FileKind;
use pmuscope_measure::RunFile;
use pmuscope_measure::compare::{Options, compare};
use pmuscope_report::figures_page;

use crate::version::COMMIT;

/// Writes the page.
///
/// # Errors
/// If the file cannot be written; what there was under its name stays.
pub(super) fn write(file: &RunFile, path: &Path) -> anyhow::Result<()> {
    let comparison = compare(&[(name(&file.command), file.clone())], &Options::default())?;
    let page = figures_page(&comparison, file, COMMIT);
    Output::to(Some(path)).print(FileKind::Page, &page)
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
