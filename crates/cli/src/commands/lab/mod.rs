//! `pmuscope lab`: one file per command.

mod kernels;
mod matrix;
mod output;
mod run;

use std::ffi::OsString;

use clap::Subcommand;
use pmuscope_console::exit::{Exit, bad_input, failure};
use pmuscope_lab::LabError;

/// Flags of `pmuscope lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run a pmuscope command in a virtual machine
    Run(Box<run::Args>),
    /// List kernels that guests can boot
    Kernels(kernels::Args),
    /// Be the first process of a guest
    #[command(hide = true)]
    Guest,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        LabCommand::Run(args) => run::run(*args),
        LabCommand::Kernels(args) => kernels::run(args),
        LabCommand::Guest => match pmuscope_lab::guest() {
            Ok(never) => match never {},
            Err(error) => Err(bad_input(error)),
        },
    }
}

/// The words of a command line. A kernel hands those of its own that it does not know (`nokaslr`, which
/// its loader reads) to its first process, before the ones that are meant for it.
pub(crate) fn of_first_process(words: Vec<OsString>, pid: u32) -> Vec<OsString> {
    match words.as_slice() {
        [program, .., lab, guest] if pid == 1 && lab == "lab" && guest == "guest" => {
            [program, lab, guest].map(OsString::clone).into()
        }
        _ => words,
    }
}

/// Bad input ends with 2, a machine that cannot run guests with 3; whatever else kept a command from running in a
/// guest with 125, as the command's own status may be any other.
fn refused(error: &LabError) -> anyhow::Error {
    let exit = match error {
        LabError::Arch { .. }
        | LabError::Kernel { .. }
        | LabError::NoKernel { .. }
        | LabError::Program { .. }
        | LabError::Topology(_) => Exit::BadInput,
        LabError::NoEmulator { .. } | LabError::NoKvm(_) => Exit::NotPossible,
        _ => Exit::Target(125),
    };
    failure(exit, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_were_meant_for_the_kernel_are_left_out() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let of = |text: &str, pid| of_first_process(words(text), pid);
        assert_eq!(of("/init nokaslr lab guest", 1), words("/init lab guest"));
        assert_eq!(of("/init lab guest", 1), words("/init lab guest"));
        assert_eq!(of("pmuscope x lab guest", 2), words("pmuscope x lab guest"));
        // A program of a container is its first process as well.
        assert_eq!(of("pmuscope record -- x", 1), words("pmuscope record -- x"));
    }
}
