//! Which part of a dataset a question is about, as the views that it reads.
//!
//! ```text
//!  v1/samples/date=…/*.parquet ─► samples_files ─► samples   the event, times, hosts, services … that were asked for
//!  v1/services/…              ─► services_files ─► services   the same without stacks; of samples, where there is no such table
//!  v1/intervals/…              ─► intervals_files ─► intervals   the event, times and hosts: what shares are of
//!  v1/stacks, frames, waits, windows, … ─► …_files ─► stacks, frames, waits, windows, …
//!  v1/runs, run_values        ─► …_files ─► runs, run_values   a name is the event that was asked for
//!                                 samples ─► samples_filled …   missing texts are empty: engines join missing ones differently
//!                                 samples_filled ─► sides, services_filled ─► service_sides   of a comparison: rows of a and of b
//! ```

use pmuscope_dataset::{ColumnInfo, TABLES, TableInfo, Timestamp};

use crate::place::FoundDataset;
use crate::scan::DATE;
use crate::sql::Dialect;

/// Columns of `samples` that a question can be narrowed to.
const OF_SAMPLES: [&str; 6] = ["service", "version", "unit", "container", "pod", "host"];
/// The column of `runs` that a question about runs can be narrowed to.
const OF_RUNS: &str = "benchmark";

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

    /// Runs of these benchmarks; for questions about runs only.
    #[must_use]
    pub fn benchmarks(values: Vec<String>) -> Self {
        Self { column: OF_RUNS, values }
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
    /// Labels that hosts must have: names and values.
    pub labels: Vec<(String, String)>,
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
    pub fn views(
        &self,
        dialect: Dialect,
        dataset: &FoundDataset,
        sides: Option<&Sides>,
    ) -> Vec<String> {
        let files = TABLES.iter().flat_map(|table| {
            let name = files(table.name);
            if dataset.has(table.name) {
                dialect.files(&name, table.name, dataset.location())
            } else {
                dialect.no_files(&name, table)
            }
        });
        let has_services = dataset.has("services");
        let views = self.selected(dialect, &|table| source(table, has_services), sides);
        files.chain(views).collect()
    }

    /// The days whose folders it is about, as `2026-11-25`: the first and the last, where they are limited.
    pub(crate) fn days(&self) -> (Option<String>, Option<String>) {
        (self.since.map(day), self.until.map(day))
    }

    /// Rows of the files of a table that any question of this selection can be about, whatever the event.
    pub(crate) fn rows_of(&self, table: &TableInfo) -> String {
        let dialect = Dialect::DataFusion;
        let any_event = Self { event: None, weight_unit: None, ..self.clone() };
        let wanted = any_event.conditions_of(table, dialect);
        let condition = if wanted.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", wanted.join(" AND "))
        };
        format!("SELECT * FROM {}{condition}", files(table.name))
    }

    /// The views alone, over what the engine has by these names.
    pub(crate) fn selected(
        &self,
        dialect: Dialect,
        source: &dyn Fn(&str) -> String,
        sides: Option<&Sides>,
    ) -> Vec<String> {
        let mut views = Vec::new();
        for table in &TABLES {
            let wanted = self.conditions_of(table, dialect);
            let condition = if wanted.is_empty() {
                String::new()
            } else {
                format!("\nWHERE {}", wanted.join("\n    AND "))
            };
            let (columns, rows) = (columns(table).join(", "), source(table.name));
            views.extend(
                dialect.view(table.name, &format!("AS\nSELECT {columns}\nFROM {rows}{condition}")),
            );
            if let Some(columns) = filled_columns(table) {
                let rows = format!("AS\nSELECT {}\nFROM {}", columns.join(", "), table.name);
                views.extend(dialect.view(&filled(table.name), &rows));
            }
        }
        if let Some(Sides { a, b }) = sides {
            let side = |name: &str, columns: &str, table: &str, conditions: &[ColumnFilter]| {
                let wanted: Vec<String> = conditions.iter().map(|one| one.sql(dialect)).collect();
                format!(
                    "SELECT '{name}' AS side, {columns}\nFROM {table}\nWHERE {}",
                    wanted.join(" AND ")
                )
            };
            let both = [
                ("sides", "host, start, stack_id, weight, samples", filled("samples")),
                ("service_sides", "host, start, weight, samples", filled("services")),
            ];
            for (name, columns, table) in both {
                let rows = if apart(a, b) {
                    // One pass over the rows.
                    let [a, b] = [a, b].map(|side| {
                        let wanted: Vec<String> = side.iter().map(|one| one.sql(dialect)).collect();
                        wanted.join(" AND ")
                    });
                    format!(
                        "AS\nSELECT CASE WHEN {a} THEN 'a' ELSE 'b' END AS side, {columns}\n\
                         FROM {table}\nWHERE ({a}) OR ({b})"
                    )
                } else {
                    let (a, b) = (side("a", columns, &table, a), side("b", columns, &table, b));
                    format!("AS\n{a}\nUNION ALL\n{b}")
                };
                views.extend(dialect.view(name, &rows));
            }
        }
        views
    }

    /// What rows of a table must fulfil: no more than what the table knows. Files lie in the folder of the day on
    /// which their rows begin, so days that cannot match are not even opened.
    fn conditions_of(&self, table: &TableInfo, dialect: Dialect) -> Vec<String> {
        let names: Vec<&str> = (table.columns)().iter().map(|column| column.name).collect();
        let has = |name: &str| names.contains(&name);
        let mut wanted = Vec::new();
        // Events of windows and counts are what was counted.
        if has("event") && !matches!(table.name, "windows" | "counts") {
            wanted.extend(
                self.event.as_ref().map(|event| format!("event = {}", dialect.text(event))),
            );
        }
        // What was measured in runs is an event, or a metric.
        if table.name == "run_values" {
            wanted
                .extend(self.event.as_ref().map(|event| format!("name = {}", dialect.text(event))));
        }
        if has("weight_unit") {
            let unit = self.weight_unit.as_ref();
            wanted.extend(unit.map(|unit| format!("weight_unit = {}", dialect.text(unit))));
        }
        let of_table = |condition: &&ColumnFilter| has(condition.column) && table.name != "hosts";
        wanted.extend(self.conditions.iter().filter(of_table).map(|one| one.sql(dialect)));
        // Labels are those of hosts; of what they recorded only the rows have a host.
        for (name, value) in self.labels.iter().filter(|_| has("host") && table.name != "hosts") {
            let label = dialect.text(&format!(";{name}={value};"));
            let hosts = files("hosts");
            wanted.push(format!(
                "host IN (SELECT host FROM {hosts} WHERE position({label} IN labels) > 0)"
            ));
        }
        // Stacks and frames are in the folder of the day whose samples name them.
        let by_day = has("start") || matches!(table.name, "stacks" | "frames");
        for (sign, time) in [(">=", self.since), ("<=", self.until)] {
            let Some(time) = time.filter(|_| by_day) else { continue };
            wanted.push(format!("date {sign} {}", dialect.text(&day(time))));
            if has("start") {
                let sign = if sign == "<=" { "<" } else { sign };
                wanted.push(format!("start {sign} {}", dialect.time(time)));
            }
        }
        wanted
    }
}

/// Whether no row can be of both sides: they ask for different values of a column.
fn apart(a: &[ColumnFilter], b: &[ColumnFilter]) -> bool {
    let excludes = |one: &ColumnFilter, other: &ColumnFilter| {
        one.column == other.column && one.values.iter().all(|value| !other.values.contains(value))
    };
    a.iter().any(|one| b.iter().any(|other| excludes(one, other)))
}

/// The columns of a view: those of the files, and the day of their folder.
fn columns(table: &TableInfo) -> Vec<&'static str> {
    (table.columns)().iter().map(|column| column.name).chain([DATE]).collect()
}

/// The same for questions that group and join rows by texts that may be missing: these are empty there. A wait without a
/// function is called after its state. `None` for tables without such columns.
fn filled_columns(table: &TableInfo) -> Option<Vec<String>> {
    let is_grouped = |name: &str| match table.name {
        "samples" | "services" | "counts" | "locality" => OF_SAMPLES.contains(&name),
        "waits" => OF_SAMPLES.contains(&name) || matches!(name, "function" | "module"),
        "windows" => OF_SAMPLES.contains(&name) || name == "function",
        "runs" => {
            OF_SAMPLES.contains(&name) || matches!(name, "arm" | "cpu_model" | "arch" | "kernel")
        }
        "run_values" => OF_SAMPLES.contains(&name) || name == "part",
        _ => false,
    };
    let shown = |column: &ColumnInfo| match column.name {
        "wait" if table.name == "waits" => {
            "coalesce(wait, concat('[', state, ']')) AS wait".to_owned()
        }
        name if is_grouped(name) && column.field.is_nullable() => {
            format!("coalesce({name}, '') AS {name}")
        }
        name => name.to_owned(),
    };
    let columns = (table.columns)();
    let has_any =
        columns.iter().any(|column| is_grouped(column.name) && column.field.is_nullable());
    has_any.then(|| columns.iter().map(shown).collect())
}

/// The name of a table's rows with empty texts where they are missing.
pub(crate) fn filled(table: &str) -> String {
    format!("{table}_filled")
}

/// The files that a table's rows come from: samples have all that services have, and more rows.
pub(crate) fn source(table: &str, has_services: bool) -> String {
    files(if table == "services" && !has_services { "samples" } else { table })
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
            labels: vec![("team".into(), "it's".into())],
            since: Some(Timestamp(1_764_028_800_000_000)),
            until: None,
        };
        let views = selection.selected(Dialect::DataFusion, &files, None);
        let samples = view(&views, "samples");
        assert!(samples.contains("service IN ('it''s', 'b')"), "{samples}");
        assert!(samples.contains("weight_unit = 'us'") && samples.contains("date >= '2025-11-25'"));
        assert!(
            samples.contains("version, unit,") && samples.contains("batch, date\n"),
            "{samples}"
        );
        let filled = view(&views, "samples_filled");
        assert!(filled.contains("coalesce(version, '') AS version"), "{filled}");
        assert!(filled.ends_with("FROM samples"), "{filled}");
        let of_team =
            "host IN (SELECT host FROM hosts_files WHERE position(';team=it''s;' IN labels) > 0)";
        assert!(samples.contains(of_team), "{samples}");
        let intervals = view(&views, "intervals");
        assert!(intervals.contains(of_team), "{intervals}");
        assert!(
            !intervals.contains("service") && !intervals.contains("weight_unit"),
            "{intervals}"
        );
        assert!(
            intervals.contains("event = 'cpu-clock'") && intervals.contains("host IN ('web-1')")
        );
        let stacks = view(&views, "stacks");
        assert!(stacks.ends_with("FROM stacks_files\nWHERE date >= '2025-11-25'"), "{stacks}");
        assert!(!view(&views, "hosts").contains("WHERE"));
        assert_eq!(ColumnFilter::new("password", vec![]), None);
    }

    #[test]
    fn services_are_of_samples_where_there_is_no_such_table() {
        let from = |has_services| {
            let views = Selection::default().selected(
                Dialect::DataFusion,
                &|table| source(table, has_services),
                None,
            );
            view(&views, "services").to_owned()
        };
        assert!(from(true).ends_with("FROM services_files"));
        assert!(from(false).ends_with("FROM samples_files"));
    }

    #[test]
    fn sides_are_rows_of_samples_with_their_name() {
        let of = |value: &str| vec![ColumnFilter::new("version", vec![value.into()]).unwrap()];
        let views = Selection::default().selected(
            Dialect::DuckDb,
            &files,
            Some(&Sides { a: of("1"), b: of("2") }),
        );
        let [.., sides, of_services] = &views[..] else { panic!("{views:?}") };
        assert!(
            of_services.contains("FROM services_filled\nWHERE (version IN ('1')) OR"),
            "{of_services}"
        );
        assert!(
            sides.contains("CASE WHEN version IN ('1') THEN 'a' ELSE 'b' END AS side"),
            "{sides}"
        );
        assert!(
            sides.ends_with("FROM samples_filled\nWHERE (version IN ('1')) OR (version IN ('2'))"),
            "{sides}"
        );
        // A row may be of both.
        let host = vec![ColumnFilter::new("host", vec!["web-1".into()]).unwrap()];
        let overlapping = Some(&Sides { a: of("1"), b: host });
        let views = Selection::default().selected(Dialect::DuckDb, &files, overlapping);
        assert!(
            views.last().unwrap().contains("'a' AS side")
                && views.last().unwrap().contains("UNION ALL")
        );
    }
}
