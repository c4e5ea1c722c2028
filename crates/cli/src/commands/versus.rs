//! `--vs`: other commands: their runs are interleaved with those of the first, and compared.

use std::ffi::OsString;

use pmuscope_console::exit::bad_input;
use pmuscope_measure::{RunFile, arms};

use super::program;

/// The flag.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct VersusArgs {
    /// Compare with CMD by interleaved runs; repeatable
    ///
    /// Runs of all commands in random order within each round; differences by pairs. CMD is one
    /// word with its arguments, quoted as for a shell, but no shell runs.
    #[arg(long = "vs", value_name = "CMD", help_heading = "Runs")]
    commands: Vec<String>,
}

impl VersusArgs {
    /// Whether there is something to compare.
    pub(super) fn is_asked(&self) -> bool {
        !self.commands.is_empty()
    }

    /// All commands, first that after `--`; `name` is that of the command of this program.
    ///
    /// # Errors
    /// If one is not a command, or its program is not there.
    pub(super) fn with(
        &self,
        name: &str,
        first: &[OsString],
    ) -> anyhow::Result<Vec<Vec<OsString>>> {
        let mut all = vec![first.to_vec()];
        if !self.is_asked() {
            return Ok(all);
        }
        if first.is_empty() {
            let text = format!(
                "--vs compares commands, and there is none after it. Try: pmuscope {name} --vs 'CMD B' -- CMD A"
            );
            return Err(bad_input(text));
        }
        for text in &self.commands {
            let words =
                arms::split(text).map_err(|error| bad_input(format!("--vs {text:?}: {error}")))?;
            all.push(words);
        }
        // What is not there should end it before hours of runs, not in the middle of them.
        for command in &all {
            program::find(command)?;
        }
        Ok(all)
    }
}

/// Names commands in the file, where there are several; what was measured, in words.
pub(super) fn name_arms(file: &mut RunFile, commands: &[Vec<OsString>]) -> Option<String> {
    file.arms = arms::named(commands);
    let texts: Vec<String> = file.arms.iter().map(|arm| arms::join(&arm.command)).collect();
    (!texts.is_empty()).then(|| texts.join(" vs "))
}
