//! `pmuscope fleet`: runs the program `pmuscope-fleet`, as git runs its extensions.
//!
//! It is a separate program because its query engine would make this one several times as large and as slow to build.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use pmuscope_console::exit::{Exit, not_possible};

/// The program.
const PROGRAM: &str = "pmuscope-fleet";

/// Flags of `pmuscope fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet agent --config agent.toml           record this host all the time
  pmuscope fleet import --to profiles --service checkout --version 1.3 web-1.data
  pmuscope fleet top profiles                        services by CPUs in use, on all hosts
  pmuscope fleet diff profiles --a version=1.2 --b version=1.3
  pmuscope fleet help                                its commands
  pmuscope fleet import --help                       flags of one

Runs the program pmuscope-fleet, from the folder of pmuscope or from PATH.")]
pub(crate) struct Args {
    /// Command of pmuscope-fleet with its flags
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let program = program();
    let error = Command::new(&program).args(&args.command).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => not_possible(format!(
            "pmuscope fleet needs the program {PROGRAM}, which is neither in the folder of pmuscope nor on PATH. Try: \
             make fleet in pmuscope's source tree"
        )),
        _ => not_possible(format!("cannot run {}: {error}", program.display())),
    })
}

/// Where the program is: with this one, else where a shell would find it.
fn program() -> PathBuf {
    let with_own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    with_own.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}
