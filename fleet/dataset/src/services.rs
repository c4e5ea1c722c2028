//! The rows of `services`: those of `samples`, summed over stacks.

use std::collections::BTreeMap;

use crate::{SampleRow, ServiceRow};

impl ServiceRow {
    /// A sample's row without its stack.
    fn of(row: &SampleRow) -> Self {
        let SampleRow { start, bin_us, host, boot, service, version, unit, container, pod, .. } =
            row.clone();
        let SampleRow { event, samples, weight, weight_unit, batch, .. } = row.clone();
        Self {
            start,
            bin_us,
            host,
            boot,
            service,
            version,
            unit,
            container,
            pod,
            event,
            samples,
            weight,
            weight_unit,
            batch,
        }
    }

    /// Sums of rows that differ in nothing but their stacks.
    #[must_use]
    pub fn sums(samples: &[SampleRow]) -> Vec<Self> {
        let mut sums = BTreeMap::new();
        for row in samples {
            let of = (&row.host, &row.boot, &row.service, &row.version, &row.unit);
            let in_ = (&row.container, &row.pod, &row.event, &row.weight_unit);
            let sum: &mut Self = sums
                .entry((of, in_, row.start.0, row.bin_us, row.batch))
                .or_insert_with(|| Self { samples: 0, weight: 0, ..Self::of(row) });
            sum.samples = sum.samples.saturating_add(row.samples);
            sum.weight = sum.weight.saturating_add(row.weight);
        }
        sums.into_values().collect()
    }
}
