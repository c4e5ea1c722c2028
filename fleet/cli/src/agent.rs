//! `pmuscope fleet agent`.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use pmuscope_agent::{AgentConfig, AgentEnd, AgentError, BinReport, RunOptions, SinkConfig, Wish};
use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_console::say;
use pmuscope_dataset::Dataset;
use pmuscope_measurements::MeasurementError;
use pmuscope_text::number;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Flags of `pmuscope fleet agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet agent --config /etc/pmuscope/agent.toml
  pmuscope fleet agent --config agent.toml --once    one bin, to try it
  pmuscope fleet agent --config agent.toml --dry-run what would be delivered, and how much a day

docs/fleet-agent.md describes the file. SIGHUP reads it again. Takes root or CAP_PERFMON.")]
pub(crate) struct Args {
    /// Configuration: what to record, where to deliver it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Record one bin from now on, deliver it, and exit
    #[arg(long)]
    once: bool,
    /// Record one bin, deliver nothing, and show what would be delivered
    #[arg(long, conflicts_with = "once")]
    dry_run: bool,
    /// Measure this, write the rows below a folder, and exit: what an agent runs now and then
    #[arg(long, value_name = "NAME", hide = true, requires = "into", conflicts_with_all = ["once", "dry_run"])]
    measure: Option<String>,
    /// Folder of those rows
    #[arg(long, value_name = "FOLDER", hide = true, requires = "measure")]
    into: Option<PathBuf>,
}

/// Settings of glibc's allocator, mallopt(3), which it reads at its start only: blocks of 128 KiB or more are given back when they
/// are freed. By default it keeps them, and an agent that had to read the symbols of a compiler stays several times as large.
const ALLOCATOR: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

/// Begins this program anew, as the same process, with the settings of the allocator. Where that cannot be, it goes on without.
fn give_memory_back() {
    if ALLOCATOR.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let _ = Command::new(program).args(std::env::args_os().skip(1)).envs(ALLOCATOR).exec();
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    give_memory_back();
    let mut config = AgentConfig::read(&args.config)?;
    if let Some((name, into)) = args.measure.as_ref().zip(args.into.as_ref()) {
        return measure(&config, name, into);
    }
    let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGINT, &stop), (SIGTERM, &stop), (SIGHUP, &reload)] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context("cannot listen for signals")?;
    }
    let wish = || match (stop.load(Ordering::Relaxed), reload.load(Ordering::Relaxed)) {
        (true, _) => Wish::Stop,
        (false, true) => Wish::Reload,
        (false, false) => Wish::GoOn,
    };
    let report = &mut |bin: &BinReport| say!("{}", line(bin));
    let program = std::env::current_exe().context("cannot find this program")?;
    let measure = |name: &str, into: &Path| {
        let mut command = Command::new(&program);
        command.args(["agent", "--config"]).arg(&args.config);
        command.args(["--measure", name, "--into"]).arg(into);
        command
    };
    let once = args.once || args.dry_run;
    let mut options = RunOptions { once, dropped: 0, measure: &measure };
    if args.dry_run {
        return dry_run(config, &options, &wish, report);
    }
    loop {
        match pmuscope_agent::run(&config, &options, &wish, report).map_err(failed)? {
            AgentEnd::Stopped => return Ok(()),
            AgentEnd::Reload { dropped } => {
                options.dropped = dropped;
                reload.store(false, Ordering::Relaxed);
            }
        }
        // A mistake in the file must not end what runs.
        match AgentConfig::read(&args.config) {
            Ok(new) => config = new,
            Err(error) => say!("warning: {error}; going on with the configuration as it was"),
        }
    }
}

/// Makes one measurement of the configuration. It ends with the agent.
fn measure(config: &AgentConfig, name: &str, into: &Path) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the agent")?;
    let measurements = config.measurements();
    let measurement = measurements
        .iter()
        .find(|measurement| measurement.name() == name)
        .ok_or_else(|| bad_input(format!("the configuration has no measurement \"{name}\"")))?;
    let summary = measurement.measure(&config.context()?, into).map_err(unmeasured)?;
    let summary = serde_json::to_string(&summary).context("cannot write the summary")?;
    Ok(writeln!(std::io::stdout(), "{summary}")?)
}

/// With the exit status.
fn unmeasured(error: MeasurementError) -> anyhow::Error {
    match error {
        MeasurementError::Machine(_) | MeasurementError::Recorder(_) => not_possible(error),
        other => other.into(),
    }
}

/// One bin into a folder that goes away; then what it had.
fn dry_run(
    mut config: AgentConfig,
    options: &RunOptions<'_>,
    wish: &dyn Fn() -> Wish,
    report: &mut dyn FnMut(&BinReport),
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let would_be = folder.path().join("sink");
    config.spool.folder = folder.path().join("spool");
    config.sink = SinkConfig { folder: Some(would_be.clone()), ..SinkConfig::default() };
    let mut seconds = 0.0;
    let report = &mut |bin: &BinReport| {
        seconds += bin.seconds;
        report(bin);
    };
    pmuscope_agent::run(&config, options, wish, report).map_err(failed)?;
    let failed = |(path, error): (PathBuf, std::io::Error)| {
        anyhow::Error::from(error).context(format!("cannot read {}", path.display()))
    };
    let mut all = 0;
    for file in Dataset::new(&would_be).files().map_err(failed)? {
        say!("  {:<10} {}", file.table(), number::bytes(file.bytes));
        all += file.bytes;
    }
    let a_day = all as f64 * 86_400.0 / f64::max(seconds, 1.0);
    say!("nothing was delivered; at this load {} a day", number::bytes(a_day as u64));
    Ok(())
}

/// With the exit status: what this machine or these rights do not allow is no bad input.
fn failed(error: AgentError) -> anyhow::Error {
    match error {
        AgentError::Machine(_) | AgentError::Recorder(_) | AgentError::Live(_) => {
            not_possible(error)
        }
        other => other.into(),
    }
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
    if let Some(why) = &bin.unkept {
        line += &format!("\nwarning: {why}; its samples are dropped");
    }
    if let Some(hz) = bin.new_frequency_hz {
        let overhead = number::percent(bin.overhead, 2);
        line +=
            &format!("\nnote: overhead {overhead} of the machine; sampling at {hz} Hz from now on");
    }
    if bin.unpushed > 0 {
        line += &format!(", {} not pushed", number::counted(bin.unpushed, "sample"));
    }
    for (name, text) in &bin.measurements {
        line += &format!("\n{name}: {text}");
    }
    for why in &bin.warnings {
        line += &format!("\nwarning: {why}");
    }
    line
}
