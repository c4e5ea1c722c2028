//! Questions over all hosts of a dataset.
//!
//! ```text
//!  --service, --since … ─► Selection ─► views ─┐
//!  questions/NAME.sql ─────────────────────────┴► SQL ─► Engine (DataFusion) ─► sums by host ─► shares, changes
//!                                                 └─► --print-sql: DuckDB, Spark, ClickHouse     with intervals
//! ```
//! Questions ask for sums by host, never for shares: hosts are the unit of variation, so ratios and their intervals are
//! made here, from the sums of hosts ([`pmuscope_stats::LogRatio`]). Filters are in the views that a question reads, so
//! its text is the same for all filters, and for all engines.

mod damage;
mod diff;
mod engine;
mod events;
mod hosts;
mod locality;
mod metrics;
mod place;
mod question;
mod rows;
mod runs;
mod scan;
mod selection;
mod shares;
mod sql;
mod stacks;
mod waits;
mod words;

pub use damage::UnreadableFiles;
pub use diff::{FleetDiff, SideChange, SideTotals, diff};
pub use engine::{Engine, QueryAnswer, QueryError};
pub use events::{ChosenEvent, choose_event, values};
pub use hosts::{Coverage, HostCoverage, hosts};
pub use locality::{FleetLocality, FleetLocalityRow, locality};
pub use metrics::{CPU_TIME, FleetMetric, FleetMetricRow, FleetMetrics, MetricSource, metrics};
pub use place::FoundDataset;
pub use question::{NamedQuestion, ShareBy};
pub use rows::ResultRows;
pub use runs::{FleetRun, FleetRuns, StandingOut, runs};
pub use selection::{ColumnFilter, Selection, Sides};
pub use shares::{Fleet, ShareRow, Shares, shares};
pub use sql::Dialect;
pub use stacks::{FleetStacks, stacks};
pub use waits::{FleetWait, FleetWaits, waits};
pub use words::SqlMistake;
