//! Waits as rows: how long threads were off the CPU, for what, by length.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmuscope_profile::aggregate::Task;
use pmuscope_profile::waits::{OffCpuKind, WaitKey, WaitPlace, WaitSums, Waits};
use rustc_hash::FxHashMap;

use super::{ImportError, ImportOrigin, Importing, Kind, Rows, TaskIdentity, signed};
use crate::column::Timestamp;
use crate::tables::WaitRow;

/// The rows of waits, whose profile was made with [`PROFILE`](crate::PROFILE): stacks by the events of their profile, and
/// lengths; `identify` says what a thread's process belongs to.
///
/// # Errors
/// As [`rows`](crate::rows).
pub fn wait_rows(
    waits: &Waits,
    origin: &ImportOrigin,
    identify: &dyn Fn(&Task) -> TaskIdentity,
) -> Result<Rows, ImportError> {
    let importing = Importing::new(&waits.profile, origin, Kind::Waits)?;
    let lengths = importing.waits(waits, identify);
    Ok(Rows { waits: lengths, ..importing.rows(identify) })
}

/// What waits: process, state, function of the kernel, function of the program and its module.
type Waiter = (usize, &'static str, Option<Arc<str>>, Option<Arc<str>>, Option<Arc<str>>);

/// Waits and nanoseconds.
type WaitTime = (u64, u64);

impl Importing<'_> {
    fn waits(&self, waits: &Waits, identify: &dyn Fn(&Task) -> TaskIdentity) -> Vec<WaitRow> {
        let mut identities: Vec<TaskIdentity> = Vec::new();
        let mut known: FxHashMap<TaskIdentity, usize> = FxHashMap::default();
        let mut sums: BTreeMap<(Waiter, Option<u64>), WaitTime> = BTreeMap::new();
        for place in waits.places() {
            let process = *known.entry(identify(place.task)).or_insert_with_key(|identity| {
                identities.push(identity.clone());
                identities.len() - 1
            });
            let waiter = self.waiter(process, &place);
            for (length, (more, ns)) in lengths(place.sums) {
                let sum = sums.entry((waiter.clone(), length)).or_default();
                *sum = (sum.0 + more, sum.1.saturating_add(ns));
            }
        }
        let (start_us, end_us) = self.clock.recorded_us(self.profile);
        let start = self.bin_of(start_us);
        let bin_us = self.bin_of((end_us - 1).max(start_us)) + self.bin_us() - start;
        let row = |((waiter, length), (waits, ns)): ((Waiter, Option<u64>), WaitTime)| {
            let (process, state, wait, function, module) = waiter;
            let identity = &identities[process];
            WaitRow {
                start: Timestamp(start),
                bin_us,
                host: Arc::clone(&self.host),
                boot: self.boot.clone(),
                service: Arc::clone(&identity.service),
                version: identity.version.clone(),
                unit: identity.unit.clone(),
                container: identity.container.clone(),
                pod: identity.pod.clone(),
                state: state.into(),
                wait,
                function,
                module,
                length_ns: length.map(signed),
                waits: signed(waits),
                time_us: signed(ns.saturating_add(500) / 1000),
                batch: self.origin.batch,
            }
        };
        sums.into_iter().map(row).collect()
    }

    fn waiter(&self, process: usize, place: &WaitPlace<'_>) -> Waiter {
        let name = |key: &WaitKey| match key {
            WaitKey::Function(name, _) => Some(Arc::clone(name)),
            _ => None,
        };
        let module = match place.function {
            WaitKey::Function(_, module) | WaitKey::Unnamed(module) => Some(module),
            _ => None,
        };
        let module = module.and_then(|module| self.profile.modules.get(module as usize));
        let module = module.map(|module| Arc::from(&*module.path));
        (process, state(place.kind), name(&place.wait), name(&place.function), module)
    }
}

/// By length, and without one those of which only a part is known.
fn lengths(sums: &WaitSums) -> impl Iterator<Item = (Option<u64>, WaitTime)> {
    let whole = sums.lengths.ranges().into_iter();
    let whole = whole.map(|range| (Some(range.from_ns), (range.waits, range.ns)));
    let cut = [sums.begun_before, sums.last_past].into_iter().filter(|(waits, _)| *waits > 0);
    whole.chain(cut.map(|cut| (None, cut)))
}

fn state(kind: OffCpuKind) -> &'static str {
    match kind {
        OffCpuKind::Blocked => "blocked",
        OffCpuKind::Preempted => "preempted",
        OffCpuKind::New => "new",
        OffCpuKind::Unknown => "unknown",
    }
}
