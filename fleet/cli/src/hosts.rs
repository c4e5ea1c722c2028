//! `pmuscope fleet hosts`.

use std::collections::BTreeMap;

use pmuscope_console::exit::Exit;
use pmuscope_console::output::OutputArgs;
use pmuscope_query::{Engine, HostCoverage, NamedQuestion, hosts};
use pmuscope_report::{FleetHost, FleetHostsView};

use crate::select::SelectArgs;

pmuscope_console::forms!(HostsFormats: Text Json Csv Tsv Html, "pmuscope/fleet-hosts/1");

/// Flags of `pmuscope fleet hosts`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet hosts profiles --since 1d           who was recorded, and how much of the day
  pmuscope fleet hosts profiles -o hosts.csv")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    output: OutputArgs<HostsFormats>,
}

/// What a host's agent says of itself.
#[derive(Debug, Clone, Copy)]
struct AgentTotals {
    cpu_us: i64,
    missing: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let opened = args.select.open()?;
    let coverage = hosts(&opened.engine)?;
    if coverage.hosts.is_empty() {
        return Err(args.select.nothing(&opened)?);
    }
    let used = used(&opened.engine)?;
    let agents = agents(&opened.engine)?;
    let span_us = coverage.span_us.map(|(from, until)| until - from).filter(|&span| span > 0);
    let has_filter = opened.selection.conditions.iter().any(|one| !one.is_about("host"));
    let row = |host: &HostCoverage| {
        let agent = agents.get(&host.host).copied();
        let weight = used.get(&host.host).copied().unwrap_or_default();
        let cores = weight as f64 / host.recorded_us.max(1) as f64;
        FleetHost {
            host: host.host.clone(),
            cpus: host.cpus.map(i64::unsigned_abs),
            recorded_s: host.recorded_us as f64 / 1e6,
            recorded: span_us.map(|span| host.recorded_us as f64 / span as f64),
            cores: opened.chosen.is_cpu_time().then_some(cores),
            samples: host.samples.unsigned_abs(),
            lost: host.lost.map(i64::unsigned_abs),
            throttled: host.throttled.unsigned_abs(),
            // A bin in which the rate changed has two rows, so the time is that of intervals.
            own_cores: agent.map(|agent| agent.cpu_us as f64 / host.recorded_us.max(1) as f64),
            // With a filter, what is not there may be what was not asked for.
            missing: agent.filter(|_| !has_filter).map(|agent| agent.missing),
        }
    };
    let rows: Vec<FleetHost> = coverage.hosts.iter().map(row).collect();
    let samples = coverage.hosts.iter().map(|host| host.samples).sum();
    let head = opened.head(&args.select, &coverage, samples);
    form.show(&FleetHostsView { head: &head, rows: &rows }, &Exit::Done)
}

/// Weight by host.
fn used(engine: &Engine) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows = engine.rows("SELECT host, sum(weight) AS weight FROM samples GROUP BY host")?;
    Ok(rows.texts("host")?.into_iter().zip(rows.numbers("weight")?).collect())
}

fn agents(engine: &Engine) -> anyhow::Result<BTreeMap<String, AgentTotals>> {
    let rows = engine.rows(&NamedQuestion::Agents.sql(&[], 0))?;
    let cpu_us = rows.numbers("cpu_us")?;
    let missing = rows.numbers("missing")?;
    let totals =
        |at: usize| AgentTotals { cpu_us: cpu_us[at], missing: missing[at].unsigned_abs() };
    let hosts = rows.texts("host")?.into_iter().enumerate();
    Ok(hosts.map(|(at, host)| (host, totals(at))).collect())
}
