//! Events of this machine's PMU that metrics need.

use pmuscope_counters::Kernel;
use pmuscope_events::metrics::{Metric, Metrics, Need};
use pmuscope_events::{Catalog, Event};
use pmuscope_recorder::choose_events;

use crate::error::MeasurementError;

/// Sets of events, each for a metric of these groups and fit to be counted together with `edges` of `leader`, which is in
/// none of them. Metrics whose events this PMU lacks are left out.
///
/// # Errors
/// The machine's list of events cannot be read.
pub(crate) fn metric_sets(
    kernel: &dyn Kernel,
    catalog: &dyn Catalog,
    leader: &Event,
    edges: usize,
    groups: &[&str],
) -> Result<Vec<Vec<Event>>, MeasurementError> {
    let metrics = Metrics::builtin();
    // These groups come with the program.
    let chosen: Vec<&Metric> = metrics.chosen(groups).unwrap_or_default();
    let needs: Vec<Need> =
        chosen.into_iter().map(|metric| metrics.need(metric, catalog)).collect::<Result<_, _>>()?;
    Ok(choose_events(kernel, leader, edges, &needs).sets)
}
