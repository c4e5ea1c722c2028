//! Objects that samples with an address of data met, whatever event they are of.

use pmuscope_perfdata::reader::{ReadError, RecordingFile};
use pmuscope_symbols::{Request, Symbolizer};
use rustc_hash::FxHashMap;

use super::{AllocationCounts, AllocationStack, HeapObject, HeapPass, WantedMemory, name_stacks};
use crate::count::unwinding::Unwinding;

/// Objects that are kept.
const MOST_OBJECTS: usize = 1 << 20;

/// Accessed objects of a recording.
#[derive(Debug, Default)]
pub struct AccessedObjects {
    /// Process, object, samples with an address in it; by process and address.
    pub objects: Vec<(i32, HeapObject, u64)>,
    /// Call stacks that allocate, by [`HeapObject::stack`].
    pub stacks: Vec<AllocationStack>,
    /// What was recorded.
    pub counts: AllocationCounts,
    /// Samples with an address of data in no known object.
    pub elsewhere: u64,
}

impl AccessedObjects {
    /// Reads a recording, in one pass in order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(recording: &RecordingFile, symbolizer: &mut Symbolizer) -> Result<Self, ReadError> {
        let running = symbolizer.running_kernel();
        let mut objects: FxHashMap<(i32, HeapObject), u64> = FxHashMap::default();
        let mut elsewhere = 0;
        let records = {
            let unwinder = symbolizer.unwinder();
            let unwinding = Unwinding { unwinder: &unwinder, running: &running };
            HeapPass::read(recording, WantedMemory::All, unwinding, |sample, _, heap| {
                let address = sample.address.filter(|&address| address != 0);
                let Some((pid, address)) = sample.pid.zip(address) else { return };
                match heap.get(pid, address).map(|object| (pid, object)) {
                    Some(key) if objects.len() < MOST_OBJECTS || objects.contains_key(&key) => {
                        *objects.entry(key).or_default() += 1;
                    }
                    _ => elsewhere += 1,
                }
            })?
        };
        let of = (records.reader.metadata(), &running);
        let resolve = &mut |requests: &[Request<'_>]| symbolizer.resolve_all(requests);
        let stacks = name_stacks(&records.spaces, &records.stacks, of, resolve);
        let mut objects: Vec<(i32, HeapObject, u64)> =
            objects.into_iter().map(|((pid, object), samples)| (pid, object, samples)).collect();
        objects.sort_unstable();
        Ok(Self { objects, stacks, counts: records.counts, elsewhere })
    }
}
