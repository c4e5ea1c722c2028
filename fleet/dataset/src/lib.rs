//! Tables of a fleet's profiles: what a row means, files that are there whole or not at all, and the import of
//! recordings and run files.
//!
//! ```text
//!  recording ─► Profile ─► rows ─► one Parquet file per table and day ─► v1/TABLE/date=YYYY-MM-DD/HOST-KEY.parquet
//!  run file ──► RunFile ───┘
//! ```
//! Any engine reads these files; docs/dataset.md describes them. Columns are only of types that DataFusion, DuckDB,
//! Spark and ClickHouse read alike: text, integers and floating-point numbers of 64 bits, booleans, time stamps in
//! microseconds.

mod column;
mod days;
mod file;
mod identity;
mod import;
mod labels;
mod listing;
mod location;
mod measured;
mod services;
mod table;
mod tables;

pub use column::{ColumnValue, Timestamp};
pub use days::{DayFile, day_files};
pub use file::{Dataset, DatasetError, TableWriter, file_name};
pub use import::{
    ImportError, ImportOrigin, PROFILE, Rows, RunsError, RunsOrigin, TaskIdentity, WindowsOf, rows,
    run_rows, wait_rows, window_rows,
};
pub use labels::{LabelError, Labels};
pub use listing::DatasetFile;
pub use location::{DatasetLocation, LocationError, S3Location};
pub use measured::{COUNTS_EVENT, LOCALITY_EVENT, MEASURED_EVENTS, WINDOWS_EVENT};
pub use table::{ColumnInfo, TableRow};
pub use tables::{
    AgentRow, CountRow, FrameRow, HostRow, IntervalRow, LocalityRow, RunRow, RunValueRow,
    SampleRow, ServiceRow, StackRow, TABLES, TableInfo, WaitRow, WindowSumRow,
};
