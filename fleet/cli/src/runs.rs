//! `pmuscope fleet runs`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_query::{ColumnFilter, Engine, FleetRun, FleetRuns, Selection, ShareBy, runs};
use pmuscope_report::{FleetCounted, FleetHead, FleetRunRow, FleetRunsView, Note, escape};
use pmuscope_text::number;

use crate::select::{SelectArgs, filled, note_emulated, note_rows_by_host, shown_time, unreadable};
use crate::shares::{column_of, plain, rows};

pmuscope_console::forms!(RunsFormats: Text Json Csv Tsv Html, "pmuscope/fleet-runs/1");

/// Columns of an answer, where nobody says them.
pub(crate) const DEFAULT_BY: [ShareBy; 2] = [ShareBy::Benchmark, ShareBy::Arm];

/// Flags of `pmuscope fleet runs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet runs profiles                       benchmarks over all hosts, with 95% CIs
  pmuscope fleet runs profiles -e wall               how long they take
  pmuscope fleet runs profiles -e wall --by benchmark,cpu_model
  pmuscope fleet runs profiles --benchmark gzip -e wall --by host

pmuscope fleet import takes run files, which stat, sweep and bench write with --json=FILE.",
    mut_arg("event", |arg| arg.value_name("NAME").help("Only this event or metric, such as wall [default: all]")))]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// Only this benchmark; several times for several
    #[arg(long, value_name = "NAME", value_parser = filled::<String>, help_heading = "Filters")]
    benchmark: Vec<String>,
    /// What rows are by: benchmark, arm, host, cpu_model, arch, kernel, service, version
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "benchmark,arm", hide_possible_values = true,
        value_parser = column_of(vec!["benchmark", "arm", "host", "cpu_model", "arch", "kernel", "service", "version"]))]
    by: Vec<ShareBy>,
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<RunsFormats>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    args.select.refuse_for_runs()?;
    let engine = Engine::open(&args.select.dataset)?;
    engine.select(&args.selection(), None)?;
    let found = runs(&engine, &args.by, rows(args.limit, &form))?;
    if found.rows.is_empty() {
        return Err(args.nothing(&found));
    }
    let by: Vec<&'static str> = args.by.iter().map(|one| one.column()).collect();
    let table: Vec<FleetRunRow> = found.rows.iter().map(row).collect();
    let all = usize::try_from(found.all).unwrap_or_default().max(table.len());
    let mut head = args.head(&found);
    head.notes.extend(unreadable(&engine, &args.selection()));
    form.show(&FleetRunsView { head: &head, by: &by, rows: &table, all }, &Exit::Done)
}

impl Args {
    fn selection(&self) -> Selection {
        let mut selection = self.select.selection();
        if !self.benchmark.is_empty() {
            selection.conditions.push(ColumnFilter::benchmarks(self.benchmark.clone()));
        }
        selection
    }

    fn nothing(&self, found: &FleetRuns) -> anyhow::Error {
        let dataset = &self.select.dataset;
        bad_input(if found.runs > 0 {
            let name = self.select.event().unwrap_or("any event");
            format!(
                "{dataset} has runs of this selection, but no values of {name}. Try: without -e"
            )
        } else if found.failed > 0 {
            let failed = number::counted(found.failed.unsigned_abs(), "run");
            format!("{dataset} has {failed} of this selection, and none of them is usable")
        } else {
            format!(
                "{dataset} has no runs of this selection. Try: pmuscope stat --json=runs.json, pmuscope fleet import --to \
                 {dataset} runs.json"
            )
        })
    }

    /// What the answer covers.
    fn head(&self, found: &FleetRuns) -> FleetHead {
        let mut selection = vec![self.select.words()];
        if !self.benchmark.is_empty() {
            selection.push(format!("benchmark {}", self.benchmark.join(", ")));
        }
        selection.retain(|part| !part.is_empty());
        let mut head = FleetHead {
            dataset: self.select.dataset.to_string(),
            selection: selection.join("; "),
            event: self.select.event().unwrap_or("runs").to_owned(),
            from: found.span_us.map(|(from, _)| shown_time(from)),
            until: found.span_us.map(|(_, until)| shown_time(until)),
            hosts: found.hosts.unsigned_abs(),
            samples: found.runs.unsigned_abs(),
            counted: FleetCounted::Runs,
            ..FleetHead::default()
        };
        note_emulated(&mut head, &found.emulated, "values");
        head.notes.extend(notes(found));
        note_rows_by_host(&mut head, &self.by);
        head
    }
}

/// What changes the reading.
fn notes(found: &FleetRuns) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut push = |warning: bool, text: String| notes.push(Note { warning, text });
    if found.failed > 0 {
        let failed = number::counted(found.failed.unsigned_abs(), "run");
        push(true, format!("{failed} left out: failed, or broken off"));
    }
    let mut mixed = found.rows.iter().filter(|row| row.has_several_commands);
    if let Some(row) = mixed.next() {
        let keys: Vec<&str> = row.keys.iter().map(String::as_str).collect();
        let names = escape(&keys.join(" ")).into_owned();
        push(
            false,
            format!(
                "rows such as {} mix runs of different command lines. Try: pmuscope fleet import --benchmark NAME",
                names.trim()
            ),
        );
    }
    notes
}

fn row(row: &FleetRun) -> FleetRunRow {
    FleetRunRow {
        keys: row.keys.clone(),
        name: row.name.clone(),
        part: row.part.clone(),
        unit: row.unit.clone(),
        origin: row.origin.clone(),
        mean: row.mean.map(plain),
        hosts: row.hosts as u64,
        runs: row.runs.unsigned_abs(),
        standing_out: row.standing_out.iter().map(|one| (one.host.clone(), one.ratio)).collect(),
    }
}
