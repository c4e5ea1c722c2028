//! `pmuscope generate`: files for packagers, made from the flags themselves so that they are never
//! behind them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Subcommand};

use crate::Cli;
use crate::exit::{Exit, failure};

/// Flags of `pmuscope generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to generate.
#[derive(Debug, Subcommand)]
enum What {
    /// Write manual pages, one for each command.
    Man {
        /// Folder to write them to; made if it is not there.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let Args { what: What::Man { out } } = args;
    manual(&out).map_err(|error| {
        let out = out.display();
        failure(Exit::BadInput, format!("cannot write manual pages to {out}: {error}"))
    })?;
    Ok(Exit::Done)
}

/// Writes `pmuscope.1`, `pmuscope-record.1`, … to `folder`; hidden commands have no page.
fn manual(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as text: roff escapes hyphens.
    fn page(folder: &Path, name: &str) -> String {
        let path = folder.join(format!("{name}.1"));
        let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        page.replace("\\-", "-")
    }

    /// Checks the page of `command` and those below; returns how many there are.
    fn check(command: &clap::Command, name: &str, folder: &Path) -> usize {
        let text = page(folder, name);
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if let Some(long) = arg.get_long() {
                assert!(text.contains(&format!("--{long}")), "{name}.1 lacks --{long}:\n{text}");
            }
            if let Some(short) = arg.get_short() {
                assert!(text.contains(&format!("-{short}")), "{name}.1 lacks -{short}:\n{text}");
            }
        }
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        let below = visible.filter(|c| c.get_name() != "help").map(|sub| {
            assert!(text.contains(sub.get_name()), "{name}.1 lacks {}", sub.get_name());
            check(sub, &format!("{name}-{}", sub.get_name()), folder)
        });
        1 + below.sum::<usize>()
    }

    #[test]
    fn every_command_has_a_page_with_every_flag() {
        let folder = tempfile::tempdir().unwrap();
        manual(folder.path()).unwrap();
        let mut command = Cli::command();
        command.build();
        let pages = check(&command, "pmuscope", folder.path());
        assert!(pages > 6, "only {pages} pages");
        let written = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(written, pages, "a page without a command");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let out = file.path().join("man");
        let error = run(Args { what: What::Man { out: out.clone() } }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&out.display().to_string()), "{text}");
    }
}
