//! Answers about all hosts of a fleet, in every form: shares and CPUs by service or function, changes from one side to
//! another, waits, metrics, locality, runs of benchmarks, what was recorded of each host, modules that got names later,
//! and rows of any SQL.

mod diff;
mod head;
mod hosts;
mod locality;
mod metrics;
mod one_table;
mod runs;
mod share;
mod symbolize;
mod table;
#[cfg(test)]
mod tests;
mod waits;

pub use diff::{FleetChange, FleetDiffView, FleetSide};
pub use head::{FleetCounted, FleetHead};
pub use hosts::{FleetHost, FleetHostsView};
pub use locality::{FleetLocalityRow, FleetLocalityView};
pub use metrics::{
    FleetMetricCell, FleetMetricColumn, FleetMetricsOf, FleetMetricsRow, FleetMetricsView,
};
pub use runs::{FleetRunRow, FleetRunsView};
pub use share::{FleetShare, FleetSharesView};
pub use symbolize::{SymbolizeView, SymbolizedModule};
pub use table::{AnyColumn, AnyTable, AnyValues};
pub use waits::{FleetWaitRow, FleetWaitsView};
