//! SQL that differs from engine to engine: literals, and how files become a table.

use arrow::datatypes::DataType;
use pmuscope_dataset::{DatasetLocation, TableInfo, Timestamp};

/// An engine that reads Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// DataFusion, which is in this program; its own shell is `datafusion-cli`.
    #[default]
    DataFusion,
    /// DuckDB.
    DuckDb,
    /// Spark SQL.
    Spark,
    /// ClickHouse, its shell `clickhouse-local`, and chDB.
    ClickHouse,
}

/// The day in the path of a file, as a regular expression.
const DAY: &str = "date=([^/]*)/[^/]*$";

impl Dialect {
    /// All of them, with their names on a command line.
    pub const ALL: [(&'static str, Self); 4] = [
        ("datafusion", Self::DataFusion),
        ("duckdb", Self::DuckDb),
        ("spark", Self::Spark),
        ("clickhouse", Self::ClickHouse),
    ];

    /// A text as a literal. Spark and ClickHouse take a backslash as the beginning of an escape, the others as itself.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        let quoted = match self {
            Self::DataFusion | Self::DuckDb => text.replace('\'', "''"),
            Self::Spark | Self::ClickHouse => text.replace('\\', "\\\\").replace('\'', "\\'"),
        };
        format!("'{quoted}'")
    }

    /// A time as a literal that does not depend on the session's time zone.
    #[must_use]
    pub fn time(self, time: Timestamp) -> String {
        let time = chrono::DateTime::from_timestamp_micros(time.0).unwrap_or_default();
        let plain = time.format("%Y-%m-%d %H:%M:%S%.6f");
        match self {
            Self::DataFusion => format!("TIMESTAMP '{}'", time.format("%Y-%m-%dT%H:%M:%S%.6fZ")),
            Self::DuckDb => format!("TIMESTAMPTZ '{plain}+00'"),
            Self::Spark => format!("TIMESTAMP '{plain}Z'"),
            Self::ClickHouse => format!("toDateTime64('{plain}', 6, 'UTC')"),
        }
    }

    /// The statements that make `name` of the files of a table, with the day of each file as `date`. They can be run again.
    ///
    /// The day is taken from the path, and nothing else is: engines that read all of a path as columns would take a folder
    /// above the dataset, such as `host=7`, for the host of all rows.
    #[must_use]
    pub fn files(self, name: &str, table: &str, location: &DatasetLocation) -> Vec<String> {
        let folder = match (self, location) {
            // Its file system for S3 has a name of its own.
            (Self::Spark, DatasetLocation::S3(_)) => {
                location.table(table).replacen("s3:", "s3a:", 1)
            }
            _ => location.table(table),
        };
        let reader = if matches!(location, DatasetLocation::S3(_)) { "s3" } else { "file" };
        let all = |end: &str| self.text(&format!("{folder}{end}"));
        match self {
            Self::DataFusion => vec![format!(
                "CREATE OR REPLACE EXTERNAL TABLE {name} STORED AS PARQUET PARTITIONED BY (date) LOCATION {}",
                all("/")
            )],
            Self::DuckDb => self.view(
                name,
                &format!(
                    "AS SELECT * EXCLUDE (filename), regexp_extract(filename, '{DAY}', 1) AS date FROM read_parquet({}, \
                     hive_partitioning = false, filename = true, union_by_name = true)",
                    all("/*/*.parquet")
                ),
            ),
            Self::Spark => self.view(
                name,
                &format!("USING parquet OPTIONS (path {}, mergeSchema 'true')", all("")),
            ),
            Self::ClickHouse => self.view(
                name,
                &format!(
                    "AS SELECT *, extract(_path, '{DAY}') AS date FROM {reader}({}, 'Parquet') SETTINGS \
                     schema_inference_mode = 'union', use_hive_partitioning = 0",
                    all("/*/*.parquet")
                ),
            ),
        }
    }

    /// The statements that make `name` of a table without any file: other engines refuse a folder that is not there.
    #[must_use]
    pub fn no_files(self, name: &str, table: &TableInfo) -> Vec<String> {
        let column = |field: &arrow::datatypes::Field| {
            let typed = self.type_name(field.data_type());
            format!("CAST(NULL AS {typed}) AS {}", field.name())
        };
        let date = format!("CAST(NULL AS {}) AS date", self.type_name(&DataType::Utf8));
        let schema = (table.schema)();
        let columns: Vec<String> =
            schema.fields().iter().map(|field| column(field)).chain([date]).collect();
        let rows = format!("AS SELECT * FROM (SELECT {}) AS one WHERE 1 = 0", columns.join(", "));
        self.view(name, &rows)
    }

    /// The name of a type whose values may be missing.
    fn type_name(self, of: &DataType) -> &'static str {
        match (of, self) {
            (DataType::Int64, Self::ClickHouse) => "Nullable(Int64)",
            (DataType::Int64, _) => "BIGINT",
            (DataType::Float64, Self::ClickHouse) => "Nullable(Float64)",
            (DataType::Float64, _) => "DOUBLE",
            (DataType::Boolean, Self::ClickHouse) => "Nullable(Bool)",
            (DataType::Boolean, _) => "BOOLEAN",
            (DataType::Timestamp(..), Self::ClickHouse) => "Nullable(DateTime64(6, 'UTC'))",
            (DataType::Timestamp(..), Self::DuckDb) => "TIMESTAMPTZ",
            (DataType::Timestamp(..), _) => "TIMESTAMP",
            (_, Self::ClickHouse) => "Nullable(String)",
            (_, Self::Spark) => "STRING",
            (_, Self::DataFusion | Self::DuckDb) => "VARCHAR",
        }
    }

    /// The statements that make a view of a name for this session, in place of one that is there: `AS SELECT …`.
    pub(crate) fn view(self, name: &str, rows: &str) -> Vec<String> {
        let create = match self {
            Self::DataFusion => "CREATE OR REPLACE VIEW",
            Self::DuckDb => "CREATE OR REPLACE TEMP VIEW",
            Self::Spark => "CREATE OR REPLACE TEMPORARY VIEW",
            Self::ClickHouse => "CREATE TEMPORARY VIEW",
        };
        // It replaces no temporary view.
        let drop =
            (self == Self::ClickHouse).then(|| format!("DROP TEMPORARY VIEW IF EXISTS {name}"));
        drop.into_iter().chain([format!("{create} {name} {rows}")]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_holds_whatever_is_in_the_text() {
        let hostile = r"it's a \' trap";
        assert_eq!(Dialect::DataFusion.text(hostile), r"'it''s a \'' trap'");
        assert_eq!(Dialect::DuckDb.text(hostile), r"'it''s a \'' trap'");
        assert_eq!(Dialect::Spark.text(hostile), r"'it\'s a \\\' trap'");
        assert_eq!(Dialect::ClickHouse.text(hostile), r"'it\'s a \\\' trap'");
    }

    #[test]
    fn times_are_utc_whatever_the_session_says() {
        let time = Timestamp(1_764_028_800_250_000);
        let shown = Dialect::ALL.map(|(_, dialect)| dialect.time(time));
        assert_eq!(
            shown,
            [
                "TIMESTAMP '2025-11-25T00:00:00.250000Z'",
                "TIMESTAMPTZ '2025-11-25 00:00:00.250000+00'",
                "TIMESTAMP '2025-11-25 00:00:00.250000Z'",
                "toDateTime64('2025-11-25 00:00:00.250000', 6, 'UTC')",
            ]
        );
    }
}
