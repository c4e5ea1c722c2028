//! `pmuscope fleet sql`.

use arrow::array::{Array, AsArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::OutputArgs;
use pmuscope_dataset::DatasetLocation;
use pmuscope_query::{
    ColumnFilter, Dialect, FoundDataset, NamedQuestion, QueryAnswer, ShareBy, Sides,
};
use pmuscope_report::{AnyColumn, AnyTable, AnyValues};

use crate::select::SelectArgs;

pmuscope_console::forms!(SqlFormats: Text Json Csv Tsv, "pmuscope/fleet-sql/1");

/// Flags of `pmuscope fleet sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet sql profiles 'SELECT service, sum(samples) FROM samples GROUP BY service'
  pmuscope fleet sql profiles --question functions   a named question
  pmuscope fleet sql profiles --question diff --a version=1.2 --b version=1.3 --print-sql --dialect spark

Tables: samples, services, stacks, frames, waits, windows, intervals, hosts, agent, runs, run_values; docs/dataset.md has their columns.")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// The question
    #[arg(value_name = "SQL", required_unless_present = "question", conflicts_with = "question")]
    sql: Option<String>,
    /// A named question: services, functions, total, hosts, hours, diff, sides, stacks, agents, waits, metrics, events,
    /// counts, count-events, locality, runs
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = question())]
    question: Option<NamedQuestion>,
    /// Before, of a question with two sides: COLUMN=VALUE
    #[arg(long, value_name = "COLUMN=VALUE", requires = "b", value_parser = condition)]
    a: Vec<ColumnFilter>,
    /// After
    #[arg(long, value_name = "COLUMN=VALUE", requires = "a", value_parser = condition)]
    b: Vec<ColumnFilter>,
    /// Print the SQL instead of an answer, with what makes its tables
    #[arg(long)]
    print_sql: bool,
    /// For this engine: datafusion, duckdb, spark, clickhouse
    #[arg(long, value_name = "ENGINE", default_value = "datafusion", hide_possible_values = true,
        requires = "print_sql", value_parser = dialect())]
    dialect: Dialect,
    /// Rows of a named question
    #[arg(long, value_name = "N", default_value = "20")]
    limit: u64,
    #[command(flatten)]
    output: OutputArgs<SqlFormats>,
}

fn question() -> impl clap::builder::TypedValueParser<Value = NamedQuestion> {
    PossibleValuesParser::new(NamedQuestion::ALL.map(|(name, _)| name)).map(|name| {
        let known = NamedQuestion::ALL.into_iter().find(|(one, _)| *one == name);
        known.map_or(NamedQuestion::Services, |(_, question)| question)
    })
}

fn dialect() -> impl clap::builder::TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.map(|(name, _)| name)).map(|name| {
        let known = Dialect::ALL.into_iter().find(|(one, _)| *one == name);
        known.map_or_else(Dialect::default, |(_, dialect)| dialect)
    })
}

fn condition(text: &str) -> Result<ColumnFilter, String> {
    let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE, such as version=1.2")?;
    let columns = || ColumnFilter::COLUMNS.join(", ");
    ColumnFilter::new(column, vec![value.to_owned()])
        .ok_or_else(|| format!("there is no column {column}. Try: one of {}", columns()))
}

/// The SQL of the question, by the columns that it is about.
fn text(args: &Args) -> String {
    match (args.question, &args.sql) {
        (Some(NamedQuestion::Functions | NamedQuestion::Total), _) => {
            let by = [ShareBy::Service, ShareBy::Function, ShareBy::Module];
            args.question.unwrap_or(NamedQuestion::Functions).sql(&by, args.limit)
        }
        (Some(NamedQuestion::Waits), _) => {
            NamedQuestion::Waits.sql(&crate::waits::DEFAULT_BY, args.limit)
        }
        (Some(NamedQuestion::Metrics), _) => {
            NamedQuestion::Metrics.sql(&crate::metrics::DEFAULT_BY, args.limit)
        }
        (Some(NamedQuestion::Locality), _) => {
            NamedQuestion::Locality.sql(&crate::locality::DEFAULT_BY, args.limit)
        }
        (Some(NamedQuestion::Runs), _) => {
            NamedQuestion::Runs.sql(&crate::runs::DEFAULT_BY, args.limit)
        }
        (Some(question), _) => question.sql(&[ShareBy::Service, ShareBy::Version], args.limit),
        (None, Some(sql)) => sql.clone(),
        (None, None) => String::new(),
    }
}

/// The same, wherever a shell of another engine is started.
fn absolute(location: &DatasetLocation) -> anyhow::Result<DatasetLocation> {
    Ok(match location {
        DatasetLocation::Folder(path) => DatasetLocation::Folder(std::path::absolute(path)?),
        store @ DatasetLocation::S3(_) => store.clone(),
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let sides = Sides { a: args.a.clone(), b: args.b.clone() };
    let has_sides = !sides.a.is_empty();
    if args.question.is_some_and(NamedQuestion::has_sides) && !has_sides {
        return Err(bad_input("this question has two sides. Try: --a version=1.2 --b version=1.3"));
    }
    let sides = has_sides.then_some(&sides);
    let sql = text(args);
    if args.print_sql {
        let dataset = FoundDataset::find(&absolute(&args.select.dataset)?)?;
        let mut statements = args.select.selection().views(args.dialect, &dataset, sides);
        statements.push(sql);
        return form.print(&statements.iter().map(|one| format!("{one};\n\n")).collect::<String>());
    }
    let engine = pmuscope_query::Engine::open(&args.select.dataset)?;
    engine.select(&args.select.selection(), sides)?;
    form.show(&table(&engine.run(&sql)?)?, &Exit::Done)
}

/// An answer as a table: whole numbers and numbers as such, everything else as text.
fn table(answer: &QueryAnswer) -> anyhow::Result<AnyTable> {
    let rows = answer.batches.iter().map(|batch| batch.num_rows()).sum();
    let mut columns = Vec::new();
    for (at, field) in answer.schema.fields().iter().enumerate() {
        let arrays: Vec<&dyn Array> =
            answer.batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        let values = if arrays.is_empty() {
            AnyValues::Texts(Vec::new())
        } else {
            values(concat(&arrays)?.as_ref())?
        };
        columns.push(AnyColumn { name: field.name().clone(), values });
    }
    Ok(AnyTable { columns, rows })
}

fn values(array: &dyn Array) -> anyhow::Result<AnyValues> {
    Ok(match array.data_type() {
        of if of.is_integer() && *of != DataType::UInt64 => {
            let numbers = cast(array, &DataType::Int64)?;
            AnyValues::Whole(numbers.as_primitive::<Int64Type>().iter().collect())
        }
        DataType::Float64 | DataType::Float32 => {
            let numbers = cast(array, &DataType::Float64)?;
            AnyValues::Numbers(numbers.as_primitive::<Float64Type>().iter().collect())
        }
        _ => {
            let texts = cast(array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned));
            AnyValues::Texts(texts.collect())
        }
    })
}
