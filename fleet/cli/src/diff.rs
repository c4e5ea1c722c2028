//! `pmuscope fleet diff`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Format, OutputArgs};
use pmuscope_query::{ColumnFilter, SideChange, SideTotals, Sides, diff};
use pmuscope_report::{FleetChange, FleetDiffView, FleetSide};

use crate::select::SelectArgs;
use crate::shares::plain;

pmuscope_console::forms!(DiffFormats: Text Json Csv Tsv Html, "pmuscope/fleet-diff/1");

/// Functions of a text, and of other forms: each is a test, and the more there are, the stronger must a change be.
const ROWS: u64 = 20;
const MANY_ROWS: u64 = 100;

/// Flags of `pmuscope fleet diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet diff profiles --service checkout --a version=1.2 --b version=1.3
  pmuscope fleet diff profiles --a host=web-1 --a host=web-2 --b host=web-3 --b host=web-4

Hosts are what varies: a change is claimed only if it exceeds what differs from host to host, with a chance of 1% for any
false claim. Hosts that ran both sides are compared with themselves. Takes 3 hosts a side or more.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// Before: COLUMN=VALUE; several values of a column are any of them
    #[arg(long, value_name = "COLUMN=VALUE", required = true, value_parser = condition)]
    a: Vec<(String, String)>,
    /// After
    #[arg(long, value_name = "COLUMN=VALUE", required = true, value_parser = condition)]
    b: Vec<(String, String)>,
    /// Compare the N largest functions [default: 20; in other forms 100]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    output: OutputArgs<DiffFormats>,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let known = || ColumnFilter::COLUMNS.join(", ");
    let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE, such as version=1.2")?;
    match ColumnFilter::new(column, Vec::new()) {
        Some(_) => Ok((column.to_owned(), value.to_owned())),
        None => Err(format!("there is no column {column}. Try: one of {}", known())),
    }
}

/// Conditions of a side: one for each column.
fn conditions(given: &[(String, String)]) -> Vec<ColumnFilter> {
    let values = |column: &str| {
        let own = given.iter().filter(|(one, _)| one == column);
        own.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let given = ColumnFilter::COLUMNS.into_iter().map(|column| (column, values(column)));
    given
        .filter(|(_, values)| !values.is_empty())
        .filter_map(|(column, values)| ColumnFilter::new(column, values))
        .collect()
}

fn name(given: &[(String, String)]) -> String {
    given.iter().map(|(column, value)| format!("{column} {value}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let opened = args.select.open()?;
    let sides = Sides { a: conditions(&args.a), b: conditions(&args.b) };
    opened.engine.keep_stacks(&opened.selection)?;
    opened.engine.select(&opened.selection, Some(&sides))?;
    let limit = match args.limit {
        Some(Limit::All) => u64::from(u32::MAX >> 1),
        Some(Limit::Rows(rows)) => rows as u64,
        None if form.format == Format::Text => ROWS,
        None => MANY_ROWS,
    };
    let found = diff(&opened.engine, limit, opened.chosen.is_cpu_time())?;
    let names = [name(&args.a), name(&args.b)];
    for (side, name) in found.sides.iter().zip(&names) {
        if side.samples == 0 {
            let dataset = &args.select.dataset;
            let why = format!("{dataset} has no samples with {name} in this selection");
            return Err(bad_input(format!(
                "{why}. Try: pmuscope fleet top {dataset} --by service,version"
            )));
        }
    }
    let head = opened.head(
        &args.select,
        &found.coverage,
        found.sides.iter().map(|side| side.samples).sum(),
    );
    let [before, after] = names;
    let sides = [side(before, &found.sides[0]), side(after, &found.sides[1])];
    let rows: Vec<FleetChange> = found.rows.iter().map(change).collect();
    let cost = found.cost.as_ref().map(change);
    let view = FleetDiffView {
        head: &head,
        sides: &sides,
        paired: found.paired.map(|hosts| hosts as u64),
        cost: cost.as_ref(),
        rows: &rows,
    };
    form.show(&view, &Exit::Done)
}

fn side(name: String, totals: &SideTotals) -> FleetSide {
    FleetSide {
        name,
        hosts: totals.hosts as u64,
        samples: totals.samples.unsigned_abs(),
        recorded_s: totals.recorded_us as f64 / 1e6,
        cores_per_host: totals.cores_per_host.map(|cores| cores.value),
    }
}

fn change(change: &SideChange) -> FleetChange {
    FleetChange {
        key: change.key.clone(),
        samples: change.samples.map(i64::unsigned_abs),
        shares: change.shares.map(|share| share.map(|share| share.value)),
        ratio: change.ratio.map(plain),
        p: change.p,
        differs: change.differs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_column_are_one_condition() {
        let given = ["version=1", "host=a", "version=2"].map(|text| condition(text).unwrap());
        let expected = [("version", vec!["1", "2"]), ("host", vec!["a"])];
        let expected = expected.map(|(column, values)| {
            ColumnFilter::new(column, values.into_iter().map(str::to_owned).collect()).unwrap()
        });
        assert_eq!(conditions(&given), expected);
        assert!(condition("colour=red").unwrap_err().contains("one of service, version"));
        assert!(condition("version").unwrap_err().contains("COLUMN=VALUE"));
    }
}
