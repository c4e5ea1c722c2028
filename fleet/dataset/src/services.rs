//! The rows of `services`: those of `samples`, summed over stacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{SampleRow, ServiceRow};

impl ServiceRow {
    /// The sums of a sample's service, before any sample.
    fn zero(row: &SampleRow) -> Self {
        Self {
            start: row.start,
            bin_us: row.bin_us,
            host: Arc::clone(&row.host),
            boot: row.boot.clone(),
            service: Arc::clone(&row.service),
            version: row.version.clone(),
            unit: row.unit.clone(),
            container: row.container.clone(),
            pod: row.pod.clone(),
            event: Arc::clone(&row.event),
            samples: 0,
            weight: 0,
            weight_unit: Arc::clone(&row.weight_unit),
            batch: row.batch,
        }
    }

    /// Sums of rows that differ in nothing but their stacks.
    #[must_use]
    pub fn sums(samples: &[SampleRow]) -> Vec<Self> {
        let mut sums = BTreeMap::new();
        for row in samples {
            let of = (&row.host, &row.boot, &row.service, &row.version, &row.unit);
            let within = (&row.container, &row.pod, &row.event, &row.weight_unit);
            let sum: &mut Self = sums
                .entry((of, within, row.start.0, row.bin_us, row.batch))
                .or_insert_with(|| Self::zero(row));
            sum.samples = sum.samples.saturating_add(row.samples);
            sum.weight = sum.weight.saturating_add(row.weight);
        }
        sums.into_values().collect()
    }
}
