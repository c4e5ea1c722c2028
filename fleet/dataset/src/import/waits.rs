//! Waits as rows: how long threads were off the CPU, for what, by length.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmuscope_profile::aggregate::Task;
use pmuscope_profile::waits::{LengthRange, OffCpuKind, WaitKey, WaitPlace, WaitSums, Waits};

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
type Waiter = (u32, &'static str, Option<Arc<str>>, Option<Arc<str>>, Option<Arc<str>>);

/// What is added up.
#[derive(Debug, Clone, Copy, Default)]
struct WaitTime {
    waits: u64,
    ns: u64,
    queued_ns: u64,
}

impl WaitTime {
    fn add(&mut self, other: Self) {
        self.waits += other.waits;
        self.ns = self.ns.saturating_add(other.ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
    }
}

impl Importing<'_> {
    fn waits(&self, waits: &Waits, identify: &dyn Fn(&Task) -> TaskIdentity) -> Vec<WaitRow> {
        let (identities, of_task) = self.identities(identify);
        let mut sums: BTreeMap<(Waiter, Option<u64>), WaitTime> = BTreeMap::new();
        for place in waits.places() {
            let process = of_task[place.task as usize];
            let waiter = self.waiter(process, &place);
            for (length, more) in lengths(place.sums) {
                sums.entry((waiter.clone(), length)).or_default().add(more);
            }
        }
        let (start, bin_us) = self.all_bins();
        let row = |((waiter, length), sum): ((Waiter, Option<u64>), WaitTime)| {
            let (process, state, wait, function, module) = waiter;
            let identity = &identities[process as usize];
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
                waits: signed(sum.waits),
                time_us: microseconds(sum.ns),
                queued_us: microseconds(sum.queued_ns),
                batch: self.origin.batch,
            }
        };
        sums.into_iter().map(row).collect()
    }

    fn waiter(&self, process: u32, place: &WaitPlace<'_>) -> Waiter {
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
    let ranges = sums.lengths.ranges();
    let queued_ns: u64 = ranges.iter().map(|range| range.queued_ns).sum();
    let (begun, last) = (sums.begun_before, sums.last_past);
    let cut = WaitTime {
        waits: begun.0 + last.0,
        ns: begun.1.saturating_add(last.1),
        queued_ns: sums.queued_ns.saturating_sub(queued_ns),
    };
    let whole = ranges.into_iter().map(|LengthRange { from_ns, waits, ns, queued_ns }| {
        (Some(from_ns), WaitTime { waits, ns, queued_ns })
    });
    whole.chain((cut.waits > 0).then_some((None, cut)))
}

fn microseconds(ns: u64) -> i64 {
    signed(ns.saturating_add(500) / 1000)
}

fn state(kind: OffCpuKind) -> &'static str {
    match kind {
        OffCpuKind::Blocked => "blocked",
        OffCpuKind::Preempted => "preempted",
        OffCpuKind::New => "new",
        OffCpuKind::Unknown => "unknown",
    }
}
