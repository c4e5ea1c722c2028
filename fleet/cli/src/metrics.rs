//! `pmuscope fleet metrics`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_dataset::WINDOWS_EVENT;
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_query::{FleetMetric, FleetMetricRow, ShareBy, metrics};
use pmuscope_report::{
    FleetMetricCell, FleetMetricColumn, FleetMetricsRow, FleetMetricsView, Note, escape,
};
use pmuscope_text::number;

use crate::select::SelectArgs;
use crate::shares::{column_of, rows};

pmuscope_console::forms!(MetricsFormats: Text Json Csv Tsv Html, "pmuscope/fleet-metrics/1");

/// Columns of an answer, where nobody says them.
pub(crate) const DEFAULT_BY: [ShareBy; 2] = [ShareBy::Function, ShareBy::Module];

/// Flags of `pmuscope fleet metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet metrics profiles                    CPI and misses of functions, with CIs over hosts
  pmuscope fleet metrics profiles --service checkout --version 1.3 --metrics basic,caches
  pmuscope fleet metrics profiles --by service,version

Recordings of pmuscope record --strobe have counter windows; pmuscope fleet import takes them.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// What rows are by: function, module, service, version
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "function,module", hide_possible_values = true,
        value_parser = column_of(vec!["function", "module", "service", "version"]))]
    by: Vec<ShareBy>,
    /// Show these metrics or groups, or "all" (see pmuscope metrics --list)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "basic")]
    metrics: Vec<String>,
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<MetricsFormats>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let known = Metrics::builtin();
    let names: Vec<&str> = args.metrics.iter().map(String::as_str).collect();
    let chosen: Vec<&Metric> = known.chosen(&names).map_err(|name| {
        bad_input(format!(
            "there is no metric or group \"{}\"; groups are {}. Try: pmuscope metrics --list",
            escape(name),
            known.groups().join(", ")
        ))
    })?;
    let opened = args.select.open_for(WINDOWS_EVENT)?;
    let found = metrics(&opened.engine, &args.by, rows(args.limit, &form), &known, &chosen)?;
    let Some(total) = &found.total else {
        let dataset = &args.select.dataset;
        return Err(bad_input(format!(
            "{dataset} has no windows of this selection. Try: pmuscope record --strobe, pmuscope fleet import --to {dataset}"
        )));
    };
    let by: Vec<&'static str> = args.by.iter().map(|one| one.column()).collect();
    let columns: Vec<FleetMetricColumn> = chosen.iter().map(|metric| column(metric)).collect();
    let table: Vec<FleetMetricsRow> = found.rows.iter().map(row).collect();
    let mut head = opened.head(&args.select, &found.coverage, total.windows as i64);
    head.notes.extend(found.emulated.iter().map(|(emulator, &hosts)| {
        let hosts = number::counted(hosts as u64, "host");
        let text = format!("{hosts} emulated by {}: counts are the emulator's", escape(emulator));
        Note { warning: true, text }
    }));
    let sets: Vec<String> = found.event_sets.iter().cloned().collect();
    let total = row(total);
    let view = FleetMetricsView {
        head: &head,
        by: &by,
        event_sets: &sets,
        columns: &columns,
        rows: &table,
        total: &total,
    };
    form.show(&view, &Exit::Done)
}

fn column(metric: &Metric) -> FleetMetricColumn {
    FleetMetricColumn {
        name: metric.name.to_string(),
        unit: metric.unit.to_string(),
        about: metric.about.to_string(),
    }
}

fn row(row: &FleetMetricRow) -> FleetMetricsRow {
    let cell = |metric: &FleetMetric| FleetMetricCell {
        value: metric.value.map(|value| (value, metric.interval)),
        at_most: metric.at_most,
    };
    FleetMetricsRow {
        keys: row.keys.clone(),
        windows: row.windows,
        hosts: row.hosts as u64,
        metrics: row.metrics.iter().map(cell).collect(),
    }
}
