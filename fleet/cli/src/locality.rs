//! `pmuscope fleet locality`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_dataset::LOCALITY_EVENT;
use pmuscope_query::{FleetLocalityRow as Row, ShareBy, locality};
use pmuscope_report::{FleetLocalityRow, FleetLocalityView};

use crate::select::{SelectArgs, note_emulated, note_rows_by_host};
use crate::shares::{column_of, plain, rows};

pmuscope_console::forms!(LocalityFormats: Text Json Csv Tsv Html, "pmuscope/fleet-locality/1");

/// Columns of an answer, where nobody says them.
pub(crate) const DEFAULT_BY: [ShareBy; 1] = [ShareBy::Service];

/// Flags of `pmuscope fleet locality`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet locality profiles                   services with the most remote memory
  pmuscope fleet locality profiles --by host --service db
  pmuscope fleet locality profiles --by host,service -o locality.html

Agents observe memory with [locality] in their configuration, on hosts with more than one NUMA node.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// What rows are by: service, host, version, unit, container, pod
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "service", hide_possible_values = true,
        value_parser = column_of(vec!["service", "host", "version", "unit", "container", "pod"]))]
    by: Vec<ShareBy>,
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<LocalityFormats>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let opened = args.select.open_for(LOCALITY_EVENT)?;
    let found = locality(&opened.engine, &args.by, rows(args.limit, &form))?;
    if found.rows.is_empty() {
        let dataset = &args.select.dataset;
        return Err(bad_input(format!(
            "{dataset} has no observations of memory in this selection. Try: [locality] in the configuration of agents on hosts \
             with more than one NUMA node"
        )));
    }
    let by: Vec<&'static str> = args.by.iter().map(|one| one.column()).collect();
    let table: Vec<FleetLocalityRow> = found.rows.iter().map(row).collect();
    let processes: i64 = found.coverage.hosts.iter().map(|host| host.samples).sum();
    let mut head = opened.head(&args.select, &found.coverage, processes);
    note_emulated(&mut head, &found.emulated, "CPU times and NUMA nodes");
    note_rows_by_host(&mut head, &args.by);
    form.show(&FleetLocalityView { head: &head, by: &by, rows: &table }, &Exit::Done)
}

fn row(row: &Row) -> FleetLocalityRow {
    let shares = |values: Vec<f64>| {
        let all: f64 = values.iter().sum();
        (all > 0.0).then(|| values.iter().map(|value| value / all).collect::<Vec<f64>>())
    };
    FleetLocalityRow {
        keys: row.keys.clone(),
        locality: row.locality.map(plain),
        memory_bytes: row.memory_bytes,
        remote_bytes: row.remote_bytes,
        idle_bytes: row.idle_bytes,
        cpu_by_node: shares(row.nodes.values().map(|node| node.cpu_us as f64).collect()),
        memory_by_node: shares(row.nodes.values().map(|node| node.memory_bytes).collect()),
        hosts: row.hosts as u64,
    }
}
