//! `pmuscope fleet metrics`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_dataset::{COUNTS_EVENT, WINDOWS_EVENT};
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_query::{FleetMetric, FleetMetricRow, MetricSource, ShareBy, metrics};
use pmuscope_report::{
    FleetMetricCell, FleetMetricColumn, FleetMetricsOf, FleetMetricsRow, FleetMetricsView, escape,
};

use crate::select::{SelectArgs, note_emulated, note_rows_by_host};
use crate::shares::{column_of, rows};

pmuscope_console::forms!(MetricsFormats: Text Json Csv Tsv Html, "pmuscope/fleet-metrics/1");

/// Columns of an answer, where nobody says them.
pub(crate) const DEFAULT_BY: [ShareBy; 2] = [ShareBy::Function, ShareBy::Module];

/// What is shown, where nobody says it.
const METRICS: &str = "basic";
/// The same of services.
const METRICS_OF_SERVICES: &str = "time,basic";

/// Metrics of services alone: counts per CPU time, which windows do not know. CPU time is in microseconds.
const PER_TIME: &str = "
[time]
GHz   [cycles/ns]             = cycles / 1000 / cpu-time                     # cycles per nanosecond of CPU time
PF/s  [/s of CPU time]        = 1000000 * page-faults / cpu-time             # page faults per second of CPU time
CS/s  [/s of CPU time]        = 1000000 * context-switches / cpu-time        # context switches per second of CPU time
MIG/s [/s of CPU time]        = 1000000 * cpu-migrations / cpu-time          # migrations per second of CPU time
%TIME [%]                     = 100 * cpu-time / total(cpu-time)             # share of the CPU time of all services
";

/// Flags of `pmuscope fleet metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet metrics profiles                    CPI and misses of functions, with CIs over hosts
  pmuscope fleet metrics profiles --service checkout --version 1.3 --metrics basic,caches
  pmuscope fleet metrics profiles --by service       CPI, page faults and switches of services
  pmuscope fleet metrics profiles --by host,service --service checkout

Agents record windows of functions and counts of services with [windows] and [counts] in their configuration; pmuscope
fleet import takes windows of pmuscope record --strobe.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// What rows are by: function, module, service, version, unit, container, pod, host
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "function,module", hide_possible_values = true,
        value_parser = column_of(vec!["function", "module", "service", "version", "unit", "container", "pod", "host"]))]
    by: Vec<ShareBy>,
    /// Use windows of functions, or counts of services [default: counts unless rows are by function or module]
    #[arg(long, value_name = "windows|counts", hide_possible_values = true, value_parser = source())]
    from: Option<MetricSource>,
    /// Show these metrics or groups, or "all" (see pmuscope metrics --list) [default: basic; of services time,basic]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<MetricsFormats>,
}

fn source() -> impl TypedValueParser<Value = MetricSource> {
    PossibleValuesParser::new(["windows", "counts"]).map(|name| match &*name {
        "windows" => MetricSource::Windows,
        _ => MetricSource::Counts,
    })
}

impl Args {
    /// Where metrics are counted that can be had by these columns.
    fn source(&self) -> anyhow::Result<MetricSource> {
        let of_functions = self.by.iter().find(|by| by.is_of_stacks());
        let of_processes = self
            .by
            .iter()
            .find(|by| matches!(by, ShareBy::Unit | ShareBy::Container | ShareBy::Pod));
        let refuse = |by: &ShareBy, what: &str, other: &str| {
            let column = by.column();
            Err(bad_input(format!("--by {column}: {what} are not known by {column}. Try: {other}")))
        };
        match (self.from, of_functions, of_processes) {
            (Some(MetricSource::Counts), Some(by), _) => {
                refuse(by, "counts of services", "--from windows")
            }
            (Some(MetricSource::Windows), _, Some(by)) => refuse(by, "windows", "--from counts"),
            (None, Some(_), Some(by)) => refuse(by, "windows of functions", "--by service alone"),
            (Some(source), _, _) => Ok(source),
            (None, Some(_), None) => Ok(MetricSource::Windows),
            (None, None, _) => Ok(MetricSource::Counts),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let source = args.source()?;
    let (event, of, usual) = match source {
        MetricSource::Windows => (WINDOWS_EVENT, FleetMetricsOf::Windows, METRICS),
        MetricSource::Counts => (COUNTS_EVENT, FleetMetricsOf::Cgroups, METRICS_OF_SERVICES),
    };
    let mut known = Metrics::builtin();
    if source == MetricSource::Counts {
        known.add(PER_TIME)?;
    }
    let mut names: Vec<&str> = args.metrics.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(usual.split(','));
    }
    let chosen: Vec<&Metric> = known.chosen(&names).map_err(|name| {
        bad_input(format!(
            "there is no metric or group \"{}\"; groups are {}. Try: pmuscope metrics --list",
            escape(name),
            known.groups().join(", ")
        ))
    })?;
    let opened = args.select.open_for(event)?;
    let limit = rows(args.limit, &form);
    let found = metrics(&opened.engine, source, (&args.by, limit), &known, &chosen)?;
    let Some(total) = &found.total else {
        return Err(bad_input(nothing(source, &args.select.dataset.to_string())));
    };
    let by: Vec<&'static str> = args.by.iter().map(|one| one.column()).collect();
    let columns: Vec<FleetMetricColumn> = chosen.iter().map(|metric| column(metric)).collect();
    let table: Vec<FleetMetricsRow> = found.rows.iter().map(row).collect();
    let mut head = opened.head(&args.select, &found.coverage, total.counted as i64);
    note_emulated(&mut head, &found.emulated, "counts");
    note_rows_by_host(&mut head, &args.by);
    let sets: Vec<String> = found.event_sets.iter().cloned().collect();
    let total = row(total);
    let view = FleetMetricsView {
        head: &head,
        of,
        by: &by,
        event_sets: &sets,
        columns: &columns,
        rows: &table,
        total: &total,
    };
    form.show(&view, &Exit::Done)
}

/// That a dataset has nothing of this kind.
fn nothing(source: MetricSource, dataset: &str) -> String {
    match source {
        MetricSource::Windows => format!(
            "{dataset} has no windows of this selection. Try: pmuscope record --strobe, pmuscope fleet import --to {dataset}, \
             or [windows] in the configuration of agents"
        ),
        MetricSource::Counts => format!(
            "{dataset} has no counts of this selection. Try: [counts] in the configuration of agents, or --from windows"
        ),
    }
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
        counted: row.counted,
        hosts: row.hosts as u64,
        metrics: row.metrics.iter().map(cell).collect(),
    }
}
