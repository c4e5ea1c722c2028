//! `--vs`, `--parameter`: other commands, or values in one: their runs are interleaved, and compared.

use std::ffi::OsString;

use pmuscope_console::exit::bad_input;
use pmuscope_measure::arms::{ArmCommand, Parameter, expand};
use pmuscope_measure::{RunFile, arms};

use super::program;

/// The flags.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct VersusArgs {
    /// Compare with CMD by interleaved runs; repeatable
    ///
    /// Runs of all commands in random order within each round; differences by pairs. CMD is one
    /// word with its arguments, quoted as for a shell, but no shell runs.
    #[arg(long = "vs", value_name = "CMD", help_heading = "Runs")]
    commands: Vec<String>,
    /// Compare values: {NAME} in commands is each of them; repeatable
    ///
    /// Each combination of values is one more command.
    #[arg(long = "parameter", value_name = "NAME=LIST", help_heading = "Runs")]
    parameters: Vec<String>,
}

impl VersusArgs {
    /// Whether there is something to compare.
    pub(super) fn is_asked(&self) -> bool {
        !self.commands.is_empty() || !self.parameters.is_empty()
    }

    /// All commands, first those of the one after `--`; `name` is that of the command of this program.
    ///
    /// # Errors
    /// If one is not a command, or its program is not there.
    pub(super) fn with(&self, name: &str, first: &[OsString]) -> anyhow::Result<Vec<ArmCommand>> {
        let mut all = vec![first.to_vec()];
        if !self.is_asked() {
            program::find(first)?;
            return Ok(vec![ArmCommand::new(first.to_vec())]);
        }
        if first.is_empty() {
            let (flag, example) = match self.commands.is_empty() {
                true => ("--parameter", "--parameter n=1,2 -- CMD {n}"),
                false => ("--vs", "--vs 'CMD B' -- CMD A"),
            };
            let text = format!(
                "{flag} compares commands, and there is none after it. Try: pmuscope {name} {example}"
            );
            return Err(bad_input(text));
        }
        let parsed = self.parameters.iter().map(|text| {
            let refused = |error| bad_input(format!("--parameter {text:?}: {error}"));
            text.parse::<Parameter>().map_err(refused)
        });
        let parameters = parsed.collect::<anyhow::Result<Vec<Parameter>>>()?;
        for text in &self.commands {
            let words =
                arms::split(text).map_err(|error| bad_input(format!("--vs {text:?}: {error}")))?;
            all.push(words);
        }
        let all =
            expand(all, &parameters).map_err(|error| bad_input(format!("--parameter: {error}")))?;
        // What is not there should end it before hours of runs, not in the middle of them.
        for arm in &all {
            program::find(&arm.command)?;
        }
        Ok(all)
    }
}

/// Names commands in the file, where there are several; what was measured, in words.
pub(super) fn name_arms(file: &mut RunFile, commands: &[ArmCommand]) -> Option<String> {
    let commands: Vec<Vec<OsString>> = commands.iter().map(|arm| arm.command.clone()).collect();
    file.arms = arms::named(&commands);
    let texts: Vec<String> = file.arms.iter().map(|arm| arms::join(&arm.command)).collect();
    (!texts.is_empty()).then(|| texts.join(" vs "))
}
