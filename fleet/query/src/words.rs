//! What is wrong with an SQL text, in its author's words: what, where in the text, and what to type. The engine's own words
//! name its types and its layers.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use pmuscope_dataset::TABLES;

/// Names that are alike, 0 to 1: what is below is no slip of the finger.
const ALIKE: f64 = 0.6;
/// Names that a message lists.
const NAMES: usize = 24;

/// A mistake in an SQL text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot answer this SQL{}: {what}{}", at(.place.as_ref()), advised(.advice.as_deref()))]
pub struct SqlMistake {
    /// What is wrong.
    pub what: String,
    /// Line and column, from 1; missing where the engine does not say it.
    pub place: Option<(u64, u64)>,
    /// What to type.
    pub advice: Option<String>,
}

fn at(place: Option<&(u64, u64)>) -> String {
    place.map_or_else(String::new, |(line, column)| format!(" at line {line}, column {column}"))
}

fn advised(advice: Option<&str>) -> String {
    advice.map_or_else(String::new, |advice| format!(". Try: {advice}"))
}

impl SqlMistake {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), place: None, advice: None }
    }

    fn advised(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// The mistake that the engine found; `None` where it is not the text that is wrong.
    pub(crate) fn of(error: &DataFusionError) -> Option<Self> {
        let diagnostic = error.diagnostic();
        let mut found = match error.find_root() {
            DataFusionError::SQL(error, _) => of_syntax(error),
            DataFusionError::SchemaError(error, _) => of_names(error),
            DataFusionError::Plan(text) => match diagnostic.map(|one| &*one.message) {
                Some(message) if message.contains("GROUP BY") => of_grouping(text),
                Some(message) => of_plan(text, message),
                None => of_plan(text, ""),
            },
            DataFusionError::NotImplemented(text) => of_missing_feature(text),
            DataFusionError::Configuration(text) => Self::new(plain(text)),
            DataFusionError::ArrowError(error, _) => of_values(error)?,
            _ => return None,
        };
        let span = diagnostic.and_then(|diagnostic| diagnostic.span);
        found.place = found.place.or(span.map(|span| (span.start.line, span.start.column)));
        Some(found)
    }
}

impl SqlMistake {
    /// The mistake that shows when an answer is computed, if it is one.
    pub(crate) fn of_execution(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::Execution(text) => Some(Self::new(plain(text))),
            _ => None,
        }
    }
}

/// The parser's words end with the place, as in `found: FORM at Line: 1, Column: 8`.
fn of_syntax(error: &ParserError) -> SqlMistake {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return SqlMistake::new("it is nested too deep")
                .advised("WITH name AS (…) for its parts");
        }
    };
    let (what, place) = text.rsplit_once(" at Line: ").unwrap_or((text, ""));
    let number = |text: &str| text.trim().parse().ok();
    let place = place
        .split_once(", Column: ")
        .and_then(|(line, column)| Some((number(line)?, number(column)?)));
    let what = match what.strip_prefix("Expected: ").and_then(|rest| rest.split_once(", found: ")) {
        Some((expected, "EOF")) => format!("it ends where {expected} is expected"),
        Some((expected, found)) => format!("{found} stands where {expected} is expected"),
        None => plain(what),
    };
    SqlMistake { place, ..SqlMistake::new(what) }
}

fn of_names(error: &SchemaError) -> SqlMistake {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let table = field.relation.as_ref().map(|table| format!(" in {}", table.table()));
            let what = format!("there is no column {}{}", field.name, table.unwrap_or_default());
            let known = distinct(valid_fields);
            match advice(&field.name, &known) {
                Some(advice) => SqlMistake::new(what).advised(advice),
                None => SqlMistake::new(what),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            SqlMistake::new(format!("several tables have a column {}", field.name))
                .advised(format!("TABLE.{}", field.name))
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => {
            SqlMistake::new(format!("two columns are called {name}"))
                .advised(format!("{name} AS OTHER_NAME"))
        }
    }
}

/// Names of columns, each once.
fn distinct(columns: &[Column]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for column in columns {
        if !names.contains(&&*column.name) {
            names.push(&column.name);
        }
    }
    names
}

/// The known name that is most like one that is not known; otherwise all, if they are few enough to be read.
fn advice(name: &str, known: &[&str]) -> Option<String> {
    let name = name.to_lowercase();
    let alike = |one: &&str| strsim::normalized_damerau_levenshtein(&name, &one.to_lowercase());
    let nearest = known.iter().map(|one| (alike(one), one)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    if nearest.0 >= ALIKE {
        return Some((*nearest.1).to_owned());
    }
    let more = known.len().saturating_sub(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("one of {}{more}", known[..known.len().min(NAMES)].join(", ")))
}

/// `SELECT service, sum(samples) FROM samples`.
fn of_grouping(text: &str) -> SqlMistake {
    let quoted = text.split_once("column \"").and_then(|(_, rest)| rest.split_once('"'));
    let column = quoted.map_or("a column", |(column, _)| column);
    SqlMistake::new(format!("{column} is neither in GROUP BY nor in a function such as sum()"))
        .advised(format!("GROUP BY {column}"))
}

fn of_plan(text: &str, message: &str) -> SqlMistake {
    let quoted = |start: &str| Some(message.strip_prefix(start)?.split('\'').next()?.to_owned());
    if let Some(table) = quoted("table '").filter(|_| message.ends_with("not found")) {
        let known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        let mistake = SqlMistake::new(format!("there is no table {table}"));
        return match advice(&table, &known) {
            Some(advice) => mistake.advised(advice),
            None => mistake,
        };
    }
    if let Some(function) = quoted("Invalid function '") {
        let mistake = SqlMistake::new(format!("there is no function {function}"));
        let other = text.split_once("Did you mean '").and_then(|(_, rest)| rest.split('\'').next());
        return match other {
            Some(other) => mistake.advised(other),
            None => mistake,
        };
    }
    if text.starts_with("No SQL statements were provided") {
        return SqlMistake::new("it is empty")
            .advised("SELECT service, sum(samples) FROM samples GROUP BY service");
    }
    let types = text.split_once("Cannot coerce arithmetic expression ");
    if let Some((types, _)) = types.and_then(|(_, rest)| rest.split_once(" to valid types")) {
        return SqlMistake::new(format!("{} cannot be computed", plain(types)))
            .advised("CAST(COLUMN AS BIGINT)");
    }
    let call = text.split_once("No function matches the given name and argument types '");
    if let Some((call, _)) = call.and_then(|(_, rest)| rest.split_once('\'')) {
        return SqlMistake::new(format!("there is no function {}", plain(call)))
            .advised("CAST(COLUMN AS TYPE)");
    }
    SqlMistake::new(plain(text))
}

fn of_missing_feature(text: &str) -> SqlMistake {
    match text.contains("only supports a single SQL statement") {
        true => SqlMistake::new("it has several statements").advised("one after another"),
        false => SqlMistake::new(format!("the engine cannot do this: {}", plain(text))),
    }
}

/// What goes wrong when values are computed; other errors of arrays may be those of files.
fn of_values(error: &ArrowError) -> Option<SqlMistake> {
    Some(match error {
        ArrowError::DivideByZero => {
            SqlMistake::new("a value is divided by 0").advised("nullif(VALUE, 0)")
        }
        ArrowError::CastError(text) => {
            SqlMistake::new(plain(text)).advised("TRY_CAST(COLUMN AS TYPE)")
        }
        ArrowError::ArithmeticOverflow(text) => {
            SqlMistake::new(format!("a number becomes too large: {}", plain(text)))
                .advised("CAST(COLUMN AS DOUBLE)")
        }
        ArrowError::ParseError(text) | ArrowError::ComputeError(text) => {
            SqlMistake::new(plain(text))
        }
        _ => return None,
    })
}

/// Names of types in the engine, and what docs/dataset.md calls them.
const TYPES: [(&str, &str); 10] = [
    ("Utf8View", "text"),
    ("LargeUtf8", "text"),
    ("Utf8", "text"),
    ("UInt64", "integer"),
    ("Int64", "integer"),
    ("Int32", "integer"),
    ("Float64", "floating-point number"),
    ("Boolean", "boolean"),
    ("Timestamp(µs, \"UTC\")", "time"),
    ("Timestamp(Microsecond, Some(\"UTC\"))", "time"),
];

/// Characters of the engine's words at most: some of them are dumps.
const LONGEST: usize = 400;

/// The engine's words in one line, without names of its layers.
fn plain(text: &str) -> String {
    let text = text.split("\n\nThis issue was likely caused by a bug").next().unwrap_or_default();
    let text = text.rsplit("caused by\n").next().unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut words = lines.join("; ");
    for (of_engine, ours) in TYPES {
        words = words.replace(of_engine, ours);
    }
    words.chars().take(LONGEST).collect::<String>().trim_end_matches('.').to_owned()
}

/// What the engine says of itself or of files, in one line.
pub(crate) struct InWords<'a>(pub(crate) &'a DataFusionError);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.0.strip_backtrace()))
    }
}
