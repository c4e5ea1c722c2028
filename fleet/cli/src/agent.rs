//! `pmuscope fleet agent`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use pmuscope_agent::{AgentConfig, BinReport};
use pmuscope_console::say;
use pmuscope_text::number;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Flags of `pmuscope fleet agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet agent --config /etc/pmuscope/agent.toml
  pmuscope fleet agent --config agent.toml --once    one bin, to try it

docs/fleet-agent.md describes the file. Takes root or CAP_PERFMON.")]
pub(crate) struct Args {
    /// Configuration: what to record, where to deliver it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Record one bin from now on, deliver it, and exit
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = AgentConfig::read(&args.config)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot listen for signals")?;
    }
    let stops = || stop.load(Ordering::Relaxed);
    pmuscope_agent::run(&config, args.once, &stops, &mut |bin| say!("{}", line(bin)))?;
    Ok(())
}

/// A bin in a line.
fn line(bin: &BinReport) -> String {
    let overhead = if bin.seconds > 0.0 { bin.cpu_s / bin.seconds } else { 0.0 };
    let mut line = format!(
        "{}: {}, {} lost, agent used {} of one CPU, delivered {}",
        number::duration(bin.seconds),
        number::counted(bin.samples, "sample"),
        number::count(bin.lost),
        number::percent(overhead, 2),
        number::counted(bin.delivered, "file"),
    );
    if bin.waiting.files > 0 {
        line += &format!(
            ", {} ({}) waiting",
            number::counted(bin.waiting.files, "file"),
            number::bytes(bin.waiting.bytes)
        );
    }
    if bin.dropped > 0 {
        line += &format!(", {} dropped: the spool is full", number::counted(bin.dropped, "sample"));
    }
    if let Some(why) = &bin.undelivered {
        line += &format!("\nwarning: {why}");
    }
    line
}
