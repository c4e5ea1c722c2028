//! The records of a recording, in order: which objects are alive when memory is accessed.

use pmuscope_perfdata::allocations::{HeapCall, HeapEvent, HeapReturn};
use pmuscope_perfdata::reader::{
    CpuMode, Endian, ReadError, Reader, Record, RecordingFile, Sample, UserStack,
};
use rustc_hash::FxHashMap;

use super::AllocationCounts;
use super::calls::{Allocated, PendingCalls};
use super::map::HeapMap;
use crate::address_spaces::{AddressSpaces, ModuleOffset, StackWalker};
use crate::count::chains::each_chain_entry;
use crate::count::unwinding::Unwinding;

/// Frames of a stack that are kept, the innermost ones.
const MOST_FRAMES: usize = 64;
/// StackNumbers that are told apart; all others are number 0, which has no frames.
const MOST_STACKS: usize = 1 << 16;

/// The memory whose objects are wanted.
#[derive(Debug)]
pub(crate) enum WantedMemory {
    /// Cache lines of any process: first addresses, in order and each once, and bytes of a line.
    Lines(Vec<u64>, u64),
    /// All there is.
    All,
}

impl WantedMemory {
    /// Lines that begin at these addresses.
    pub(crate) fn lines(mut firsts: Vec<u64>, bytes: u32) -> Self {
        firsts.sort_unstable();
        firsts.dedup();
        Self::Lines(firsts, bytes.into())
    }

    /// Whether an object reaches into it.
    fn has(&self, object: Allocated) -> bool {
        let Self::Lines(firsts, bytes) = self else { return true };
        let end = object.address.saturating_add(object.size.max(1));
        let next = firsts.partition_point(|first| first.saturating_add(*bytes) <= object.address);
        firsts.get(next).is_some_and(|first| *first < end)
    }
}

/// StackNumbers, each once. The first has no frames.
type StackNumbers = FxHashMap<Vec<ModuleOffset>, u32>;

/// What a pass finds out about allocations.
pub(crate) struct HeapRecords {
    /// Who ran what, at the end.
    pub(crate) spaces: AddressSpaces,
    /// Frames by number, the innermost first.
    pub(crate) stacks: Vec<Vec<ModuleOffset>>,
    pub(crate) counts: AllocationCounts,
    /// At the end, for what it says of itself.
    pub(crate) reader: Reader,
}

/// The pass.
pub(crate) struct HeapPass<'a> {
    wanted: WantedMemory,
    events: Vec<Option<HeapEvent>>,
    endian: Endian,
    spaces: AddressSpaces,
    walker: StackWalker<'a>,
    calls: PendingCalls,
    map: HeapMap,
    stacks: StackNumbers,
    counts: AllocationCounts,
}

impl<'a> HeapPass<'a> {
    /// Reads a recording. `visit` gets each sample that is not about allocations, what is known of processes, and the
    /// objects that are alive.
    pub(crate) fn read(
        recording: &RecordingFile,
        wanted: WantedMemory,
        unwinding: Unwinding<'a>,
        mut visit: impl FnMut(&Sample<'_>, &AddressSpaces, &HeapMap),
    ) -> Result<HeapRecords, ReadError> {
        let mut reader = recording.reader()?;
        let mut pass = Self {
            wanted,
            events: reader.events().iter().map(HeapEvent::of).collect(),
            endian: reader.endian(),
            spaces: AddressSpaces::default(),
            walker: StackWalker::new(unwinding),
            calls: PendingCalls::new(leaves_return_on_stack(reader.metadata().arch.as_deref())),
            map: HeapMap::default(),
            stacks: StackNumbers::from_iter([(Vec::new(), 0)]),
            counts: AllocationCounts::default(),
        };
        loop {
            pass.walker.tell(reader.metadata(), &pass.spaces);
            let Some(entry) = reader.next()? else { break };
            match &entry.record {
                Record::Sample(sample) => match pass.events.get(sample.event).copied().flatten() {
                    Some(event) => pass.take(sample, event),
                    None => visit(sample, &pass.spaces, &pass.map),
                },
                record => pass.note(record),
            }
        }
        Ok(pass.finish(reader))
    }

    fn finish(self, reader: Reader) -> HeapRecords {
        let mut stacks = vec![Vec::new(); self.stacks.len()];
        for (frames, number) in self.stacks {
            stacks[number as usize] = frames;
        }
        let mut counts = self.counts;
        counts.unpaired = self.calls.unpaired;
        counts.left_out = self.map.left_out();
        // Recent kernels count by event.
        if let Some(info) = &reader.metadata().info {
            let of_each = info.events.iter().zip(&self.events);
            let lost = of_each.filter(|(_, event)| event.is_some()).map(|(event, _)| event.lost);
            counts.lost = lost.sum::<Option<u64>>().unwrap_or(counts.lost);
        }
        HeapRecords { spaces: self.spaces, stacks, counts, reader }
    }

    /// A record besides samples.
    fn note(&mut self, record: &Record<'_>) {
        match record {
            Record::Lost { count, .. } => {
                self.counts.lost = self.counts.lost.saturating_add(*count);
                self.map.lost();
                self.calls.lost();
            }
            Record::Fork(task) if task.pid != task.parent_pid && !task.synthesised => {
                self.map.forked(task.parent_pid, task.pid);
            }
            Record::Comm(comm) if comm.exec => self.map.ended(comm.pid),
            Record::Exit(task) => {
                self.calls.ended(task.tid);
                if task.pid == task.tid {
                    self.map.ended(task.pid);
                }
            }
            _ => {}
        }
        self.spaces.take(record);
    }

    fn take(&mut self, sample: &Sample<'_>, event: HeapEvent) {
        let Some(task) = sample.pid.zip(sample.tid) else { return };
        let Some(details) = sample.details() else { return };
        let Some(raw) = details.raw else { return };
        match event {
            HeapEvent::Call => {
                if let Some(call) = HeapCall::decode(raw, self.endian) {
                    self.calls.called(task, call, &mut self.map);
                }
            }
            HeapEvent::Return => {
                let Some(returned) = HeapReturn::decode(raw, self.endian) else { return };
                let endian = self.endian;
                let read =
                    |at: u64| word_at(&details.stack_user?, at.checked_sub(returned.sp)?, endian);
                let Self { calls, map, .. } = self;
                if let Some(object) = calls.returned(task, returned, map, read) {
                    self.allocated(sample, task.0, object);
                }
            }
        }
    }

    fn allocated(&mut self, sample: &Sample<'_>, pid: i32, object: Allocated) {
        let number = u32::try_from(self.counts.allocations).unwrap_or(u32::MAX);
        self.counts.allocations += 1;
        let Allocated { address, size } = object;
        if !self.wanted.has(object) {
            self.map.clear(pid, address, address.saturating_add(size));
            return;
        }
        let frames = self.frames(sample);
        let new = self.stacks.len() as u32;
        let stack = match self.stacks.get(&frames) {
            Some(&known) => known,
            None if self.stacks.len() >= MOST_STACKS => 0,
            None => {
                self.stacks.insert(frames, new);
                new
            }
        };
        self.map.allocated(pid, (address, size), (stack, number));
    }

    /// Where a call returned to, and its callers: within the calls.
    fn frames(&mut self, sample: &Sample<'_>) -> Vec<ModuleOffset> {
        let in_call = |address| self.spaces.find(CpuMode::User, sample.pid, address);
        let mut frames = Vec::new();
        if let Some(unwound) = self.spaces.unwind(&mut self.walker, sample) {
            for (number, (address, place)) in unwound.into_iter().take(MOST_FRAMES).enumerate() {
                // The first is the address after the call.
                frames.push(if number == 0 { in_call(address.wrapping_sub(1)) } else { place });
            }
        } else {
            each_chain_entry(sample, |entry| {
                if entry.mode == CpuMode::User && frames.len() < MOST_FRAMES {
                    let is_first = frames.is_empty();
                    let address = if is_first { entry.address.wrapping_sub(1) } else { entry.code };
                    frames.push(in_call(address));
                }
            });
        }
        if frames.is_empty() {
            frames.extend(sample.ip.map(|ip| in_call(ip.wrapping_sub(1))));
        }
        frames
    }
}

/// Whether calls leave the return address on the stack, on a machine of this name; on this one where it has none.
fn leaves_return_on_stack(arch: Option<&str>) -> bool {
    arch.map_or(cfg!(target_arch = "x86_64"), |arch| arch.starts_with("x86"))
}

/// The word at an offset in a copy of the stack.
fn word_at(stack: &UserStack<'_>, offset: u64, endian: Endian) -> Option<u64> {
    let bytes = stack.stack().get(usize::try_from(offset).ok()?..)?;
    let word = *bytes.first_chunk::<8>()?;
    Some(match endian {
        Endian::Little => u64::from_le_bytes(word),
        Endian::Big => u64::from_be_bytes(word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_wanted_if_they_reach_into_a_line() {
        let wanted = WantedMemory::lines(vec![0x1080, 0x1000, 0x1080], 64);
        let has = |address, size| wanted.has(Allocated { address, size });
        assert!(has(0x1000, 1) && has(0x103f, 0) && has(0xfff, 2) && has(0, 0x2000));
        assert!(!has(0xfff, 1) && !has(0x1040, 64) && !has(0x10c0, 1000));
        assert!(has(0x1040, 65) && has(0x10bf, 1));
    }
}
