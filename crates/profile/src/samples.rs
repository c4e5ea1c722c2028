//! Samples one by one, in the order of time, next to the profile that is made of them.
//!
//! Counters log what they count; what they do not count is not there either. Logs stay as they are: an order of
//! numbers, sorted by time, stands for the whole.
//!
//! ```text
//!  counter 0   stretch 0: t=1 t=4 │ stretch 2: t=9 …      logs, a counter for each thread
//!  counter 1   stretch 1: t=2 t=5 │ …
//!  order       (0,0) (1,0) (0,1) (1,1) (0,2) …
//! ```

use crate::aggregate::{StackId, TaskId};
use crate::count::sample_log::{LoggedSample, SampleLog};
use crate::pool::in_parallel;

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// Time stamp, nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Address of the instruction, as recorded.
    pub ip: Option<u64>,
    /// Units of the event that it stands for, as far as the sample itself carries them.
    pub period: Option<u64>,
    /// Process and thread.
    pub task: Option<(i32, i32)>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Index of the event in the recording, as [`crate::aggregate::SampleCell::event`].
    pub event: u32,
    /// Where it was taken and by which callers, in the profile's [`crate::aggregate::Aggregate::stacks`].
    pub stack: StackId,
    /// Who ran, in the profile's [`crate::aggregate::Aggregate::tasks`].
    pub runner: TaskId,
}

/// What a counter logged, with what its numbers stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogPart {
    pub(crate) log: SampleLog,
    /// By number of the callchain.
    pub(crate) stacks: Vec<StackId>,
    /// By group: event and task.
    pub(crate) groups: Vec<(u32, TaskId)>,
}

/// All samples that count, in the order of time; those of one time as they stand in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    parts: Vec<LogPart>,
    order: Vec<Position>,
}

/// A sample: upper bits are the part, lower ones the number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position(u64);

const PART_SHIFT: u32 = 40;

impl Position {
    fn new(part: usize, at: usize) -> Self {
        Self((part as u64) << PART_SHIFT | at as u64)
    }

    fn part(self) -> usize {
        (self.0 >> PART_SHIFT) as usize
    }

    fn at(self) -> usize {
        (self.0 & ((1 << PART_SHIFT) - 1)) as usize
    }
}

impl Samples {
    pub(crate) fn new(parts: Vec<LogPart>) -> Self {
        let order = in_time(&parts);
        Self { parts, order }
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The samples of a range of numbers, 0 being the earliest.
    ///
    /// # Panics
    /// If the range ends after [`Self::len`].
    pub fn range(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = SampleRow> + '_ {
        self.order[range].iter().map(|&position| self.row(position))
    }

    fn row(&self, position: Position) -> SampleRow {
        let LogPart { log, stacks, groups } = &self.parts[position.part()];
        let sample: &LoggedSample = &log.samples[position.at()];
        let (event, runner) = groups[sample.group as usize];
        SampleRow {
            time: sample.time(),
            ip: sample.ip(),
            period: sample.period(),
            task: sample.task(),
            cpu: sample.cpu(),
            event,
            stack: stacks[sample.node as usize],
            runner,
        }
    }
}

/// All positions in the order of time.
fn in_time(parts: &[LogPart]) -> Vec<Position> {
    let mut stretches: Vec<(u64, usize, std::ops::Range<usize>)> = Vec::new();
    for (part, LogPart { log, .. }) in parts.iter().enumerate() {
        let ends = log.stretches.iter().skip(1).map(|&(_, first)| first);
        let ends = ends.chain(std::iter::once(log.samples.len()));
        let each = log.stretches.iter().zip(ends);
        stretches.extend(each.map(|(&(record, first), end)| (record, part, first..end)));
    }
    // As they stand in the file.
    stretches.sort_unstable_by_key(|(record, part, range)| (*record, *part, range.start));
    let mut found: Vec<(u64, Position)> =
        Vec::with_capacity(parts.iter().map(|part| part.log.samples.len()).sum());
    let mut is_timed = true;
    for (_, part, range) in stretches {
        for at in range {
            let time = parts[part].log.samples[at].time();
            is_timed &= time.is_some();
            found.push((time.unwrap_or_default(), Position::new(part, at)));
        }
    }
    // Where samples have no time, the file's order is all that is known.
    if is_timed {
        let half = found.len().div_ceil(2).max(1);
        in_parallel(found.chunks_mut(half), |half| half.sort_by_key(|(time, _)| *time));
        // A stable sort takes stretches that are in order as they are: this merges two.
        found.sort_by_key(|(time, _)| *time);
    }
    found.into_iter().map(|(_, position)| position).collect()
}
