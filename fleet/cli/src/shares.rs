//! `pmuscope fleet top` and `pmuscope fleet report`.

use std::io::{self, Write};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Form, Format, OutputArgs};
use pmuscope_profile::export::{folded, pprof};
use pmuscope_query::{FleetStacks, ShareBy, ShareRow, Shares, shares, stacks};
use pmuscope_report::{FleetShare, FleetSharesView};
use pmuscope_stats::{Estimate, Interval};

use crate::select::{OpenedDataset, SelectArgs, note_rows_by_host};

pmuscope_console::forms!(TopFormats: Text Json Csv Tsv Html, "pmuscope/fleet-report/1");
pmuscope_console::forms!(ReportFormats: Text Json Csv Tsv Folded Svg Html Pprof, "pmuscope/fleet-report/1");

/// Rows of a text.
const ROWS: u64 = 20;
/// Rows of other forms.
const MANY_ROWS: u64 = 10_000;
/// Stacks of a flame graph or an export: the largest ones.
const STACKS: u64 = 20_000;

/// Flags of `pmuscope fleet top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet top profiles                        services by CPUs in use
  pmuscope fleet top profiles --since 2h --by service,version
  pmuscope fleet top profiles --by host --service checkout
  pmuscope fleet top profiles --price 0.04           and what they cost a day")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    rows: RowArgs,
    /// What rows are by: service, version, unit, container, pod, host
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "service", hide_possible_values = true,
        value_parser = by(false))]
    by: Vec<ShareBy>,
    #[command(flatten)]
    output: OutputArgs<TopFormats>,
}

/// Flags of `pmuscope fleet report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet report profiles --service checkout  its functions
  pmuscope fleet report profiles --by service,function --with-callees
  pmuscope fleet report profiles -o fleet.html       a page with a flame graph
  pmuscope fleet report profiles -o fleet.pb.gz      for go tool pprof")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    rows: RowArgs,
    /// What rows are by: function, module, service, version, unit, container, pod, host
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "function,module", hide_possible_values = true,
        value_parser = by(true))]
    by: Vec<ShareBy>,
    /// Count a sample once for each function of its stack (total), not only where it was taken (self)
    #[arg(long)]
    with_callees: bool,
    #[command(flatten)]
    output: OutputArgs<ReportFormats>,
}

/// How many rows an answer has.
pub(crate) fn rows(asked: Option<Limit>, form: &Form) -> u64 {
    match asked {
        Some(Limit::All) => u64::from(u32::MAX >> 1),
        Some(Limit::Rows(rows)) => rows as u64,
        None if form.format == Format::Text => ROWS,
        None => MANY_ROWS,
    }
}

/// How many rows, and what they cost.
#[derive(Debug, clap::Args)]
struct RowArgs {
    /// Show at most N rows, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Price of an hour of one CPU, for a column with the cost of a day
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price: Option<f64>,
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "use a number that is not negative".to_owned())
}

/// A column of samples, also those of stacks where `of_stacks`.
fn by(of_stacks: bool) -> impl clap::builder::TypedValueParser<Value = ShareBy> {
    let is_offered = move |by: ShareBy| by.is_of_processes() || of_stacks && by.is_of_samples();
    let offered = ShareBy::ALL.into_iter().filter(move |(_, by)| is_offered(*by));
    column_of(offered.map(|(name, _)| name).collect())
}

/// One of these columns.
pub(crate) fn column_of(
    names: Vec<&'static str>,
) -> impl clap::builder::TypedValueParser<Value = ShareBy> {
    PossibleValuesParser::new(names).map(|name| {
        let known = ShareBy::ALL.into_iter().find(|(one, _)| *one == name);
        known.map_or(ShareBy::Service, |(_, by)| by)
    })
}

pub(crate) fn top(args: &TopArgs) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let asked =
        SharesRequest { select: &args.select, by: &args.by, rows: &args.rows, with_callees: false };
    let (opened, found) = asked.find(&form)?;
    asked.show(&form, &opened, &found, None)
}

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let asked = SharesRequest {
        select: &args.select,
        by: &args.by,
        rows: &args.rows,
        with_callees: args.with_callees,
    };
    if args.with_callees && !args.by.iter().any(|by| by.is_of_stacks()) {
        return Err(bad_input("--with-callees is about functions. Try: --by function"));
    }
    if matches!(form.format, Format::Folded | Format::Pprof) {
        return export(&asked, &form);
    }
    let (opened, found) = asked.find(&form)?;
    let has_picture = matches!(form.format, Format::Html | Format::Svg);
    let stacks = has_picture.then(|| asked.stacks(&opened)).transpose()?;
    asked.show(&form, &opened, &found, stacks.as_ref())
}

/// Writes stacks for another program.
fn export(asked: &SharesRequest<'_>, form: &Form) -> anyhow::Result<()> {
    let opened = asked.select.open()?;
    let stacks = asked.stacks(&opened)?;
    if stacks.samples() == 0 {
        return Err(asked.select.nothing(&opened)?);
    }
    let source = stacks.source();
    form.output.write(form.format.kind(), |out: &mut dyn Write| match form.format {
        Format::Pprof => pprof::write(&source, out),
        _ => match source.events.first() {
            Some(event) => folded::write(&source, event, folded::Options::default(), out),
            None => Err(io::Error::other("there is no event")),
        },
    })
}

/// A question about shares.
struct SharesRequest<'a> {
    select: &'a SelectArgs,
    by: &'a [ShareBy],
    rows: &'a RowArgs,
    with_callees: bool,
}

impl SharesRequest<'_> {
    fn find(&self, form: &Form) -> anyhow::Result<(OpenedDataset, Shares)> {
        let opened = self.select.open()?;
        let limit = rows(self.rows.limit, form);
        let is_time = opened.chosen.is_time();
        if self.rows.price.is_some() && opened.chosen.is_off_cpu() {
            return Err(bad_input("--price is of CPU time, not of time off the CPU"));
        }
        if self.by.iter().any(|by| by.is_of_stacks()) && !self.with_callees {
            opened.engine.keep_stacks(&opened.selection)?;
            opened.engine.select(&opened.selection, None)?;
        }
        let found = shares(&opened.engine, self.by, limit, self.with_callees, is_time)?;
        if found.fleet.samples == 0 {
            return Err(self.select.nothing(&opened)?);
        }
        Ok((opened, found))
    }

    fn stacks(&self, opened: &OpenedDataset) -> anyhow::Result<FleetStacks> {
        let event = opened.chosen.event.as_deref().unwrap_or_default();
        Ok(stacks(&opened.engine, event, STACKS)?)
    }

    fn show(
        &self,
        form: &Form,
        opened: &OpenedDataset,
        found: &Shares,
        stacks: Option<&FleetStacks>,
    ) -> anyhow::Result<()> {
        let mut head = opened.head_of(self.select, &found.fleet);
        note_rows_by_host(&mut head, self.by);
        let by: Vec<&'static str> = self.by.iter().map(|one| one.column()).collect();
        let rows: Vec<FleetShare> = found.rows.iter().map(row).collect();
        let source = stacks.map(FleetStacks::source);
        let view = FleetSharesView {
            head: &head,
            by: &by,
            with_callees: self.with_callees,
            rows: &rows,
            cores: found.fleet.cores.map(plain),
            price: self.rows.price,
            stacks: source.as_ref(),
        };
        match view.picture().filter(|_| form.format == Format::Svg) {
            Some(picture) => form.print(&picture),
            None => form.show(&view, &Exit::Done),
        }
    }
}

fn row(row: &ShareRow) -> FleetShare {
    FleetShare {
        keys: row.keys.clone(),
        samples: row.samples.unsigned_abs(),
        hosts: row.hosts as u64,
        share: row.share.map(plain),
        cores: row.cores.map(plain),
    }
}

/// A value with its interval.
pub(crate) fn plain(estimate: Estimate) -> (f64, Option<Interval>) {
    (estimate.value, estimate.interval)
}
