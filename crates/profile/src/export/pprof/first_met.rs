//! What a part of the samples points to, in the order in which it is met: parts are looked through on all CPUs.

use rustc_hash::FxHashSet;

use crate::aggregate::{FrameId, StackId, TaskId};
use crate::export::Source;

use super::samples::SampleRange;

/// Something that a sample points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Met {
    /// A location of one frame.
    Frame(FrameId),
    /// A location of several: those inlined there and the one that holds them, the innermost first.
    Inlined(Vec<FrameId>),
    Task(TaskId),
    Cpu(u32),
}

/// What samples so far pointed to.
pub(super) struct FirstMet<'a> {
    source: &'a Source<'a>,
    /// A bit for each stack that is the innermost one of a location; all its callers are met, too.
    stacks: Vec<u64>,
    frames: Vec<bool>,
    inlined: FxHashSet<Vec<FrameId>>,
    tasks: Vec<bool>,
    cpus: FxHashSet<u32>,
    found: Vec<Met>,
}

impl<'a> FirstMet<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        let counts = source.counts;
        Self {
            source,
            stacks: vec![0; counts.stacks.len().div_ceil(64)],
            frames: vec![false; counts.frames.len()],
            inlined: FxHashSet::default(),
            tasks: vec![false; counts.tasks.len()],
            cpus: FxHashSet::default(),
            found: Vec::new(),
        }
    }

    /// All that samples point to, each once: of a sample first its locations, the innermost first, then its task and
    /// its CPU.
    pub(super) fn all(mut self, samples: Vec<SampleRange<'_>>) -> Vec<Met> {
        let mut frames = Vec::new();
        for samples in samples {
            samples.for_each(|(stack, task, cpu), _| {
                self.meet_stack(stack, &mut frames);
                if !std::mem::replace(&mut self.tasks[task as usize], true) {
                    self.found.push(Met::Task(task));
                }
                if let Some(cpu) = cpu.filter(|&cpu| self.cpus.insert(cpu)) {
                    self.found.push(Met::Cpu(cpu));
                }
            });
        }
        self.found
    }

    fn meet_stack(&mut self, stack: StackId, frames: &mut Vec<FrameId>) {
        let mut at = stack;
        while self.source.counts.stacks.parent(at).is_some() {
            let (word, bit) = (&mut self.stacks[at as usize / 64], 1 << (at % 64));
            if *word & bit != 0 {
                return;
            }
            *word |= bit;
            at = location_end(self.source, at, frames);
            match frames[..] {
                [frame] => {
                    if !std::mem::replace(&mut self.frames[frame as usize], true) {
                        self.found.push(Met::Frame(frame));
                    }
                }
                _ => {
                    if !self.inlined.contains(&frames[..]) {
                        self.inlined.insert(frames.clone());
                        self.found.push(Met::Inlined(frames.clone()));
                    }
                }
            }
        }
    }
}

/// The stack that called the location of a stack's innermost frames. `frames` becomes these: the inlined ones and the
/// one that holds them.
pub(super) fn location_end(
    source: &Source<'_>,
    stack: StackId,
    frames: &mut Vec<FrameId>,
) -> StackId {
    let counts = source.counts;
    frames.clear();
    let mut at = stack;
    while let Some((frame, parent)) = counts.stacks.frame(at).zip(counts.stacks.parent(at)) {
        frames.push(frame);
        at = parent;
        if !counts.frames[frame as usize].inlined {
            break;
        }
    }
    at
}
