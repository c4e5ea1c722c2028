//! `pmuscope fleet waits`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_query::{FleetWait, ShareBy, waits};
use pmuscope_report::{FleetWaitRow, FleetWaitsView};

use crate::select::{SelectArgs, note_rows_by_host};
use crate::shares::{column_of, plain, rows};

pmuscope_console::forms!(WaitsFormats: Text Json Csv Tsv Html, "pmuscope/fleet-waits/1");

/// The event whose intervals say when waits were recorded.
const EVENT: &str = "off-cpu:blocked";
/// Columns of an answer, where nobody says them.
pub(crate) const DEFAULT_BY: [ShareBy; 3] = [ShareBy::Service, ShareBy::Wait, ShareBy::Function];

/// Flags of `pmuscope fleet waits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet waits profiles                      what the threads of each service wait for
  pmuscope fleet waits profiles --service db --by function,module,wait
  pmuscope fleet report profiles -e off-cpu:blocked -o waits.html    a flame graph of blocked threads

Agents record waits with [off_cpu] in their configuration; recordings have them with pmuscope record --off-cpu.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// What rows are by: service, wait, function, module, state, version, unit, container, pod, host
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "service,wait,function",
        hide_possible_values = true, value_parser = column_of(names()))]
    by: Vec<ShareBy>,
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<WaitsFormats>,
}

/// Columns of waits.
fn names() -> Vec<&'static str> {
    let of_waits = ShareBy::ALL.into_iter().filter(|(_, by)| !by.is_of_runs());
    of_waits.map(|(name, _)| name).collect()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let opened = args.select.open_for(EVENT)?;
    let found = waits(&opened.engine, &args.by, rows(args.limit, &form))?;
    if found.waits == 0 {
        let dataset = &args.select.dataset;
        return Err(bad_input(format!(
            "{dataset} has no waits of this selection. Try: [off_cpu] in the configuration of agents, or pmuscope record \
             --off-cpu"
        )));
    }
    let by: Vec<&'static str> = args.by.iter().map(|one| one.column()).collect();
    let table: Vec<FleetWaitRow> = found.rows.iter().map(row).collect();
    let mut head = opened.head(&args.select, &found.coverage, found.waits);
    note_rows_by_host(&mut head, &args.by);
    form.show(&FleetWaitsView { head: &head, by: &by, rows: &table }, &Exit::Done)
}

fn row(row: &FleetWait) -> FleetWaitRow {
    let below = |part: f64| row.shorter_than_ns(part).map(|ns| ns as f64 / 1e9);
    FleetWaitRow {
        keys: row.keys.clone(),
        threads: row.threads.map(plain),
        rate: row.rate.map(plain),
        waits: row.waits.unsigned_abs(),
        mean_s: row.mean_us().map(|us| us / 1e6),
        run_queue_s: row.mean_queued_us().map(|us| us / 1e6),
        median_below_s: below(0.5),
        p99_below_s: below(0.99),
        hosts: row.hosts as u64,
    }
}
