//! Which part of a dataset a question is about, as the views that it reads.
//!
//! ```text
//!  v1/samples/date=…/*.parquet ─► samples_files ─► samples   the event, times, hosts, services … that were asked for
//!  v1/intervals/…              ─► intervals_files ─► intervals   the event, times and hosts: what shares are of
//!  v1/stacks, frames, agent    ─► …_files ─► stacks, frames, agent
//!                                 samples ─► sides   of a comparison: rows of a and of b
//! ```

use pmuscope_dataset::{Dataset, TABLES, TableInfo, Timestamp};

use crate::sql::Dialect;

/// Columns of `samples` that a question can be narrowed to.
const OF_SAMPLES: [&str; 6] = ["service", "version", "unit", "container", "pod", "host"];

/// A column that has one of these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFilter {
    column: &'static str,
    values: Vec<String>,
}

impl ColumnFilter {
    /// Columns that conditions can be about.
    pub const COLUMNS: [&'static str; 6] = OF_SAMPLES;

    /// One, where there is such a column.
    #[must_use]
    pub fn new(column: &str, values: Vec<String>) -> Option<Self> {
        let column = OF_SAMPLES.into_iter().find(|one| *one == column)?;
        Some(Self { column, values })
    }

    /// Whether it is about this column.
    #[must_use]
    pub fn is_about(&self, column: &str) -> bool {
        self.column == column
    }

    fn sql(&self, dialect: Dialect) -> String {
        let values: Vec<String> = self.values.iter().map(|value| dialect.text(value)).collect();
        format!("{} IN ({})", self.column, values.join(", "))
    }
}

/// Which part of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The event; all where it is missing.
    pub event: Option<String>,
    /// What weights count, as in `weight_unit`; all where it is missing.
    pub weight_unit: Option<String>,
    /// Columns that must have certain values.
    pub conditions: Vec<ColumnFilter>,
    /// The first bins begin at this time.
    pub since: Option<Timestamp>,
    /// Bins begin before this time.
    pub until: Option<Timestamp>,
}

/// Two parts of a selection that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sides {
    /// Before.
    pub a: Vec<ColumnFilter>,
    /// After.
    pub b: Vec<ColumnFilter>,
}

impl Selection {
    /// Statements that make the views of this selection: files of tables, then what questions read.
    #[must_use]
    pub fn views(&self, dialect: Dialect, dataset: &Dataset, sides: Option<&Sides>) -> Vec<String> {
        let files = TABLES.iter().map(|table| {
            let name = files(table.name);
            if dataset.folder(table.name).is_dir() {
                dialect.files(&name, table.name, dataset)
            } else {
                dialect.no_files(&name, table)
            }
        });
        files.chain(self.selected(dialect, sides)).collect()
    }

    /// The views alone, over files that the engine knows already.
    pub(crate) fn selected(&self, dialect: Dialect, sides: Option<&Sides>) -> Vec<String> {
        let view = dialect.view();
        let mut views: Vec<String> = TABLES
            .iter()
            .map(|table| {
                let wanted = self.conditions_of(table, dialect);
                let condition = if wanted.is_empty() {
                    String::new()
                } else {
                    format!("\nWHERE {}", wanted.join("\n    AND "))
                };
                let columns = columns(table).join(", ");
                format!(
                    "{view} {} AS\nSELECT {columns}\nFROM {}{condition}",
                    table.name,
                    files(table.name)
                )
            })
            .collect();
        if let Some(Sides { a, b }) = sides {
            let side = |name: &str, conditions: &[ColumnFilter]| {
                let wanted: Vec<String> = conditions.iter().map(|one| one.sql(dialect)).collect();
                format!(
                    "SELECT '{name}' AS side, host, start, stack_id, weight, samples\nFROM samples\nWHERE {}",
                    wanted.join(" AND ")
                )
            };
            views.push(format!("{view} sides AS\n{}\nUNION ALL\n{}", side("a", a), side("b", b)));
        }
        views
    }

    /// What rows of a table must fulfil: no more than what the table knows. Files lie in the folder of the day on
    /// which their rows begin, so days that cannot match are not even opened.
    fn conditions_of(&self, table: &TableInfo, dialect: Dialect) -> Vec<String> {
        let names: Vec<&str> = (table.columns)().iter().map(|column| column.name).collect();
        let has = |name: &str| names.contains(&name);
        let mut wanted = Vec::new();
        if has("event") {
            wanted.extend(
                self.event.as_ref().map(|event| format!("event = {}", dialect.text(event))),
            );
        }
        if has("weight_unit") {
            let unit = self.weight_unit.as_ref();
            wanted.extend(unit.map(|unit| format!("weight_unit = {}", dialect.text(unit))));
        }
        let of_table = |condition: &&ColumnFilter| has(condition.column) && table.name != "hosts";
        wanted.extend(self.conditions.iter().filter(of_table).map(|one| one.sql(dialect)));
        if has("start") {
            if let Some(since) = self.since {
                wanted.push(format!("date >= {}", dialect.text(&day(since))));
                wanted.push(format!("start >= {}", dialect.time(since)));
            }
            if let Some(until) = self.until {
                wanted.push(format!("date <= {}", dialect.text(&day(until))));
                wanted.push(format!("start < {}", dialect.time(until)));
            }
        }
        wanted
    }
}

/// The columns of a view. Texts that are missing are empty there: engines group and join missing ones in different ways.
fn columns(table: &TableInfo) -> Vec<String> {
    let is_grouped = |name: &str| OF_SAMPLES.contains(&name) && name != "host";
    let shown = |name: &'static str| match is_grouped(name) && table.name == "samples" {
        true if name != "service" => format!("coalesce({name}, '') AS {name}"),
        _ => name.to_owned(),
    };
    (table.columns)().into_iter().map(|column| shown(column.name)).collect()
}

/// The name of a table's files.
pub(crate) fn files(table: &str) -> String {
    format!("{table}_files")
}

/// The day of a time, UTC, as folders have it.
fn day(time: Timestamp) -> String {
    chrono::DateTime::from_timestamp_micros(time.0)
        .unwrap_or_default()
        .format("%Y-%m-%d")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(views: &'a [String], name: &str) -> &'a str {
        let begins = format!("CREATE OR REPLACE VIEW {name} AS");
        views.iter().find(|view| view.starts_with(&begins)).unwrap()
    }

    #[test]
    fn a_view_narrows_what_its_table_knows_and_nothing_else() {
        let service = ColumnFilter::new("service", vec!["it's".into(), "b".into()]).unwrap();
        let host = ColumnFilter::new("host", vec!["web-1".into()]).unwrap();
        let selection = Selection {
            event: Some("cpu-clock".into()),
            weight_unit: Some("us".into()),
            conditions: vec![service, host],
            since: Some(Timestamp(1_764_028_800_000_000)),
            until: None,
        };
        let views = selection.selected(Dialect::DataFusion, None);
        let samples = view(&views, "samples");
        assert!(samples.contains("service IN ('it''s', 'b')"), "{samples}");
        assert!(samples.contains("weight_unit = 'us'") && samples.contains("date >= '2025-11-25'"));
        assert!(samples.contains("coalesce(version, '') AS version"), "{samples}");
        let intervals = view(&views, "intervals");
        assert!(
            !intervals.contains("service") && !intervals.contains("weight_unit"),
            "{intervals}"
        );
        assert!(
            intervals.contains("event = 'cpu-clock'") && intervals.contains("host IN ('web-1')")
        );
        assert!(!view(&views, "stacks").contains("WHERE"));
        assert_eq!(ColumnFilter::new("password", vec![]), None);
    }

    #[test]
    fn sides_are_rows_of_samples_with_their_name() {
        let of = |value: &str| vec![ColumnFilter::new("version", vec![value.into()]).unwrap()];
        let views =
            Selection::default().selected(Dialect::DuckDb, Some(&Sides { a: of("1"), b: of("2") }));
        let sides = views.last().unwrap();
        assert!(sides.contains("'a' AS side") && sides.contains("version IN ('2')"), "{sides}");
    }
}
