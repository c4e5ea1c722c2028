//! `pmuscope browse`.
//!
//! ```text
//!  recording ─► load::LoadArgs: a profile by thread, CPU and call stack ─► browse::Browser ◄─► the terminal
//!                  └─ large: by function first, all meanwhile (rest)         └─► commands of this program, as children
//! ```

#[cfg(feature = "screen")]
mod job;
#[cfg(feature = "screen")]
mod rest;
#[cfg(feature = "screen")]
mod screen;

use pmuscope_console::exit::Exit;

use super::input::InputArgs;
use super::load::LoadArgs;

/// Flags of `pmuscope browse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope browse                         ./pmuscope.data; ? lists the keys
  pmuscope browse perf.data --comm db     one program
  pmuscope browse --time 10%-40%          part of the time, in finer steps

Keys: arrows and Enter; a annotate, t thread, d DSO, / filter, v views, Esc back,
: the command that prints the view, e export, q quit.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    load: LoadArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    show(&args.input.path()?, &args.load)
}

#[cfg(feature = "screen")]
pub(super) use screen::show;

/// Of a program that was built without it.
#[cfg(not(feature = "screen"))]
pub(super) fn show(_: &std::path::Path, _: &LoadArgs) -> anyhow::Result<Exit> {
    Err(pmuscope_console::exit::not_possible(
        "this pmuscope was built without its screen. Try: pmuscope report; or build it with: cargo build --release",
    ))
}
