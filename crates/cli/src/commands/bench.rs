//! `pmuscope bench`.

use crate::exit::{Exit, failure};

/// Flags of `pmuscope bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::needless_pass_by_value)] // until it has flags to consume
pub(crate) fn run(_args: Args) -> anyhow::Result<Exit> {
    Err(failure(Exit::NotPossible, "bench: not in this version yet"))
}
