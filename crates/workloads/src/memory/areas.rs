//! The memory of one process: where it is, what it holds, and which part of it a thread goes through.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmuscope_machine::Machine;

use super::control::{AreaKind, AreaRecord, Board, areas_of_process};
use super::options::{Init, LINE, Options, UNIT};
use super::order::Shuffled;
use super::sys::MappedArea;
use crate::error::WorkloadError;

/// Where the kernel does not tell how large huge pages are.
const HUGE: usize = 2 << 20;
/// Lines whose order is made at once.
pub(super) const LINES: usize = 2048;
/// Bytes that are filled between two readings at whether to go on.
const FILLED: usize = 1 << 20;

/// Memory of a process.
#[derive(Debug)]
pub(super) struct Areas {
    global: Option<MappedArea>,
    process: Option<MappedArea>,
    threads: Vec<MappedArea>,
    lock: Mutex<()>,
}

/// What a thread goes through from one end to the other, from somewhere in the middle on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) area: &'a MappedArea,
    /// Bytes from the area's beginning.
    pub(super) from: usize,
    pub(super) bytes: usize,
    /// Where to begin: this of so many that share it.
    pub(super) sharer: (usize, usize),
    /// Under the lock of the process.
    pub(super) locked: bool,
}

impl<'a> Segment<'a> {
    fn whole(area: &'a MappedArea, sharer: (usize, usize)) -> Self {
        Self { area, from: 0, bytes: area.bytes(), sharer, locked: false }
    }

    /// The first of `of` equal parts that this thread begins at, in units of [`UNIT`] bytes.
    pub(super) fn offset(&self, bytes: usize) -> usize {
        let (index, of) = self.sharer;
        let units = bytes / UNIT as usize;
        index * units / of * UNIT as usize
    }

    /// Cache lines.
    pub(super) fn lines(&self) -> u64 {
        self.bytes as u64 / LINE
    }
}

/// Who a thread is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadRole {
    pub(super) process: usize,
    pub(super) thread: usize,
}

impl ThreadRole {
    /// Its number among all threads of all processes.
    pub(super) fn task(self, options: &Options) -> usize {
        self.process * options.threads + self.thread
    }
}

impl Areas {
    /// Maps the memory of a process and says where it is. Nothing is touched yet.
    pub(super) fn map(
        board: &Board,
        options: &Options,
        process: usize,
    ) -> Result<Self, WorkloadError> {
        let sizes = &options.sizes;
        let huge = Machine::host().huge_page_bytes().map_or(HUGE, |bytes| bytes as usize);
        let failed = |what: &str, bytes: u64, error: std::io::Error| {
            WorkloadError::system(format!("map {bytes} bytes of {what} memory"), error)
        };
        let private = |what: &str, bytes: u64| {
            MappedArea::private(bytes as usize, huge, options.thp)
                .map_err(|e| failed(what, bytes, e))
        };
        let global = (sizes.global > 0).then(|| {
            let file = open_global(board)?;
            MappedArea::shared(file.as_fd(), sizes.global as usize, options.thp)
                .map_err(|error| failed("global", sizes.global, error))
        });
        let own = (sizes.process > 0).then(|| private("process", sizes.process));
        let threads = (0..options.threads)
            .filter(|_| sizes.thread > 0)
            .map(|_| private("thread", sizes.thread))
            .collect::<Result<_, _>>()?;
        let lock = Mutex::new(());
        let areas = Self { global: global.transpose()?, process: own.transpose()?, threads, lock };
        areas.tell(board, options, process);
        Ok(areas)
    }

    fn tell(&self, board: &Board, options: &Options, process: usize) {
        let of = |kind, thread, area: &MappedArea, locked| AreaRecord {
            kind,
            thread,
            address: area.address(),
            bytes: area.bytes() as u64,
            locked,
        };
        let global = self.global.iter().map(|area| of(AreaKind::Global, None, area, 0));
        let locked = options.sizes.locked;
        let own = self.process.iter().map(|area| of(AreaKind::Process, None, area, locked));
        let threads = self.threads.iter().enumerate();
        let threads = threads.map(|(thread, area)| of(AreaKind::Thread, Some(thread), area, 0));
        let first = process * areas_of_process(options);
        for (index, area) in (first..).zip(global.chain(own).chain(threads)) {
            board.area(index, (std::process::id(), process), &area);
        }
    }

    /// What a thread goes through in one round of a phase. Memory that is shared it goes through as a whole, from
    /// a place of its own on.
    pub(super) fn segments(
        &self,
        options: &Options,
        who: ThreadRole,
        phase: u64,
    ) -> Vec<Segment<'_>> {
        let threads = options.threads;
        let turn = (who.thread + phase as usize) % threads;
        let mut segments = Vec::new();
        if let Some(area) = &self.global {
            let task = who.process * threads + turn;
            segments.push(Segment::whole(area, (task, options.tasks())));
        }
        if let Some(area) = &self.process {
            let locked = options.sizes.locked as usize;
            let first = Segment { bytes: locked, locked: true, ..Segment::whole(area, (0, 1)) };
            let bytes = area.bytes() - locked;
            let rest = Segment { from: locked, bytes, ..Segment::whole(area, (turn, threads)) };
            segments.extend([first, rest].into_iter().filter(|segment| segment.bytes > 0));
        }
        segments.extend(self.threads.get(turn).map(|area| Segment::whole(area, (0, 1))));
        segments
    }

    /// The memory of all threads.
    pub(super) fn of_threads(&self) -> &[MappedArea] {
        &self.threads
    }

    /// Fills what is this thread's to touch first: its own memory, and its share of what it shares. False if
    /// `go_on` said so before all was done.
    pub(super) fn touch(
        &self,
        options: &Options,
        who: ThreadRole,
        go_on: impl Fn() -> bool,
    ) -> bool {
        let (task, threads) = (who.task(options), options.threads);
        let mut rng = fastrand::Rng::with_seed(options.seed.wrapping_add(task as u64));
        let mut fill = |area: &MappedArea, (index, of): (usize, usize)| {
            let units = area.bytes() / UNIT as usize;
            let unit = |index: usize| index * units / of * UNIT as usize;
            let mut page = [0; UNIT as usize];
            for at in (unit(index)..unit(index + 1)).step_by(UNIT as usize) {
                if at.is_multiple_of(FILLED) && !go_on() {
                    return false;
                }
                if options.init == Init::Random {
                    rng.fill(&mut page);
                }
                area.put(at, &page);
            }
            true
        };
        self.global.iter().all(|area| fill(area, (task, options.tasks())))
            && self.process.iter().all(|area| fill(area, (who.thread, threads)))
            && self.threads.get(who.thread).is_none_or(|area| fill(area, (0, 1)))
    }

    /// Makes the circles of a chase that are this thread's to make: in its own memory; in what it shares if it
    /// is the first.
    pub(super) fn link(&self, options: &Options, who: ThreadRole) {
        for segment in self.segments(options, who, 0) {
            let is_own =
                self.threads.get(who.thread).is_some_and(|own| std::ptr::eq(own, segment.area));
            let is_global =
                self.global.as_ref().is_some_and(|area| std::ptr::eq(area, segment.area));
            let is_first = who.thread == 0 && (who.process == 0 || !is_global);
            if is_own || is_first {
                link(&segment, options.seed.wrapping_add(who.task(options) as u64));
            }
        }
    }

    /// Takes the lock of the process, if a segment needs it.
    pub(super) fn lock_for(&self, segment: &Segment<'_>) -> Option<MutexGuard<'_, ()>> {
        // It guards nothing that could be left half done.
        segment.locked.then(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes one circle through all lines of a segment: each begins with the offset of the next, from the area's
/// beginning.
fn link(segment: &Segment<'_>, seed: u64) {
    let mut shuffled = Shuffled::new(segment.lines(), seed);
    let mut lines = [0; LINES];
    let offset = |line: u64| segment.from as u64 + line * LINE;
    let (mut first, mut last) = (None, None);
    loop {
        let found = shuffled.fill(&mut lines);
        for line in lines[..found].iter().map(|&line| offset(line)) {
            if let Some(before) = last {
                segment.area.put_word(before as usize, line);
            }
            first = first.or(Some(line));
            last = Some(line);
        }
        if found == 0 {
            break;
        }
    }
    if let (Some(first), Some(last)) = (first, last) {
        segment.area.put_word(last as usize, first);
    }
}

fn open_global(board: &Board) -> Result<File, WorkloadError> {
    let (parent, descriptor) = board.parent();
    let descriptor = descriptor.unwrap_or(0);
    File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{parent}/fd/{descriptor}"))
        .map_err(|error| WorkloadError::system("open the memory that all processes share", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::loops;
    use crate::memory::options::Thp;
    use proptest::prelude::*;

    proptest! {
        /// Followed load by load, and by the loop of the workload.
        #[test]
        fn a_chase_is_one_circle_through_all_lines(units in 1..40_usize, skipped in 0..4_usize, seed: u64) {
            let skip = skipped * UNIT as usize;
            let area = MappedArea::private(units * UNIT as usize + skip, 4096, Thp::System).unwrap();
            let bytes = units * UNIT as usize;
            let segment = Segment { area: &area, from: skip, bytes, sharer: (0, 1), locked: false };
            link(&segment, seed);
            let mut seen = std::collections::BTreeSet::new();
            let mut at = skip as u64;
            while seen.insert(at) {
                at = area.word(at as usize);
            }
            prop_assert_eq!(at, skip as u64);
            let expected: Vec<u64> = (0..segment.lines()).map(|line| skip as u64 + line * LINE).collect();
            prop_assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
            let batches = segment.lines() / crate::memory::options::BATCH;
            prop_assert_eq!(loops::chase(&area, skip as u64, batches), skip as u64);
            let mut by_hand = skip as u64;
            (0..16).for_each(|_| by_hand = area.word(by_hand as usize));
            prop_assert_eq!(loops::chase(&area, skip as u64, 1), by_hand);
        }
    }
}
