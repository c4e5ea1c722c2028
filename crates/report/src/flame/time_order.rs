//! The graph in time order: each thread's stacks from its first sample to its last.
//!
//! ```text
//!  depth 0  all
//!  depth 1  worker (thread 7)             │ logger (thread 9)    the thread with the most weight first
//!  depth 2  main                          │ main
//!  depth 3  read │ parse        │ read    │ write                from first to last: a function can have several boxes
//! ```
//!
//! Time is known in blocks ([`Timeline`](pmuscope_profile::aggregate::Timeline)), and counts within a block have no order.
//! There stacks are in the order of a walk through their tree, which begins where the block before ended, so that a stack
//! that goes on is one box:
//!
//! ```text
//!  block 0        block 1        block 2
//!  a   ab  ac  │  ac  a   ab  │  ab  ac  a         `ac` of blocks 0 and 1 is one box, `ab` of 1 and 2 too
//! ```

use std::cmp::Reverse;

use pmuscope_profile::aggregate::{StackId, Stacks, TaskId};
use pmuscope_profile::export::{ExportedEvent, Source};

use super::layout::{Face, FlameLayout};
use super::tree::{Name, names_of_frames};
use super::{DEEPEST, Flame, FlameBox, FlameLimits, LeftOut, ModuleHues, color, described};

/// Most counts (of a stack of a thread in a block) that are put in order; each takes 24 bytes.
const MOST_COUNTS: usize = 4_000_000;

impl Flame {
    /// The layout of one event in time order.
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub(crate) fn time_order(
        source: &Source<'_>,
        event: &ExportedEvent,
        limits: FlameLimits,
    ) -> Result<Self, &'static str> {
        if source.counts.timeline.blocks == 0 {
            return Err("No time order: the samples have no time stamps.");
        }
        let threads = ThreadOrder::new(source, event);
        let counts = ordered(source, event, &threads).ok_or(
            "No time order: more than 4,000,000 counts. Try: --time or --tid, for a part of them.",
        )?;
        let total = counts.iter().fold(0_u64, |sum, one| sum.saturating_add(one.weight));
        let narrowest = ((total as f64 * limits.share).ceil() as u64).max(1);
        let (keys, names) = names_of_frames(source);
        let mut open = OpenPath { narrowest, ..OpenPath::default() };
        let mut path = Vec::new();
        for count in &counts {
            path.clear();
            path.extend(source.counts.stacks.frames(count.stack).map(|at| keys[at as usize]));
            path.push(names.len() as u32 + threads.tasks[count.thread as usize]);
            open.add(path.iter().rev().copied(), count.weight, count.samples);
        }
        let (drawn, left_out) = open.finish(limits.boxes);
        let hues = ModuleHues::new(source);
        let face = |key: u32| match names.get(key as usize) {
            Some(name) => described(source, &hues, name),
            None => (threads.label(source, key - names.len() as u32), None, color::NEUTRAL.into()),
        };
        let all = described(source, &hues, &Name::All);
        let samples = counts.iter().map(|one| u64::from(one.samples)).sum();
        let all = flame_box(all, DrawnBox { weight: total, samples, ..DrawnBox::default() });
        let drawn = drawn.into_iter().map(|one| flame_box(face(one.key), one));
        let mut boxes: Vec<FlameBox> = std::iter::once(all).chain(drawn).collect();
        boxes.sort_by_key(|one| (one.depth, one.start));
        let below = left_out.0 as f64 / total.max(1) as f64;
        let left_out = LeftOut { below, ..left_out.1 };
        Ok(Self { hues, ..Self::laid_out(FlameLayout { boxes, left_out }, total) })
    }
}

fn flame_box((name, module, color): (String, Option<String>, String), one: DrawnBox) -> FlameBox {
    let DrawnBox { depth, start, weight, samples, .. } = one;
    let face = Face { name, module, color, samples, note: None, figures: None };
    FlameBox::new(face, depth, start, (weight, 0))
}

/// Threads from left to right.
struct ThreadOrder {
    tasks: Vec<TaskId>,
    /// By task.
    place: Vec<u32>,
}

impl ThreadOrder {
    fn new(source: &Source<'_>, event: &ExportedEvent) -> Self {
        let counts = source.counts;
        let mut weights = vec![0_u64; counts.tasks.len()];
        for cell in counts.of_event(event.index) {
            let weight = &mut weights[cell.task as usize];
            *weight = weight.saturating_add(event.value(cell));
        }
        let mut tasks: Vec<TaskId> = (0..counts.tasks.len() as TaskId).collect();
        tasks.sort_by_key(|&task| {
            let one = &counts.tasks[task as usize];
            (Reverse(weights[task as usize]), &one.command, one.pid, one.tid)
        });
        let mut place = vec![0; tasks.len()];
        for (at, &task) in tasks.iter().enumerate() {
            place[task as usize] = at as u32;
        }
        Self { tasks, place }
    }

    /// Name of a thread's box.
    fn label(&self, source: &Source<'_>, task: TaskId) -> String {
        let task = &source.counts.tasks[task as usize];
        match task.tid {
            Some(tid) => format!("{} (thread {tid})", task.command),
            None => task.command.to_string(),
        }
    }
}

/// Samples and weight of a stack of a thread in a block of time.
#[derive(Debug, Clone, Copy)]
struct TimedCount {
    thread: u32,
    block: u32,
    stack: StackId,
    samples: u32,
    weight: u64,
}

/// The counts of an event from left to right; `None` where they are too many.
fn ordered(
    source: &Source<'_>,
    event: &ExportedEvent,
    threads: &ThreadOrder,
) -> Option<Vec<TimedCount>> {
    let counts = source.counts;
    let mut found = Vec::new();
    let mut is_too_much = false;
    counts.series.for_each(|cell, count| {
        let Some(cell) = counts.cells.get(cell as usize) else { return };
        if cell.event != event.index || found.len() == MOST_COUNTS {
            is_too_much |= cell.event == event.index;
            return;
        }
        let weight = if event.by_period { count.weight } else { count.samples.into() };
        let thread = threads.place[cell.task as usize];
        let (block, stack, samples) = (count.block, cell.stack, count.samples);
        found.push(TimedCount { thread, block, stack, samples, weight });
    });
    let places = walk(&counts.stacks);
    let place = |one: &TimedCount| places[one.stack as usize];
    found.sort_unstable_by_key(|one| (one.thread, one.block, place(one), one.weight));
    let mut last: Option<TimedCount> = None;
    for block in found.chunk_by_mut(|a, b| (a.thread, a.block) == (b.thread, b.block)) {
        if let Some(last) = last.filter(|last| last.thread == block[0].thread) {
            let first = block.partition_point(|one| place(one) < place(&last));
            block.rotate_left(first);
        }
        last = block.last().copied();
    }
    (!is_too_much).then_some(found)
}

/// The place of each stack in a walk through their tree: those with the same callers are next to each other.
fn walk(stacks: &Stacks) -> Vec<u32> {
    let mut below = vec![1_u32; stacks.len()];
    // A parent comes before its children.
    for stack in (1..stacks.len()).rev() {
        let parent = stacks.parent(stack as StackId).unwrap_or(Stacks::ROOT);
        below[parent as usize] += below[stack];
    }
    let mut place = vec![0_u32; stacks.len()];
    // Where the next child of each stack begins.
    let mut next = vec![1_u32; stacks.len()];
    for stack in 1..stacks.len() {
        let parent = stacks.parent(stack as StackId).unwrap_or(Stacks::ROOT) as usize;
        place[stack] = next[parent];
        next[parent] += below[stack];
        next[stack] = place[stack] + 1;
    }
    place
}

/// Key and place of a box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DrawnBox {
    key: u32,
    depth: u32,
    start: u64,
    weight: u64,
    samples: u64,
}

/// Boxes from left to right: those of the last path are open, until a path comes that is another from there on.
#[derive(Debug, Default)]
struct OpenPath {
    /// Boxes with less weight are left out.
    narrowest: u64,
    /// From depth 1 on. Their weight and samples are those of what stands to their left.
    open: Vec<DrawnBox>,
    /// Weight and samples so far.
    end: (u64, u64),
    drawn: Vec<DrawnBox>,
    left_out: LeftOut,
}

impl OpenPath {
    /// Adds samples and weight of a path, the outermost key first.
    fn add(&mut self, path: impl Iterator<Item = u32>, weight: u64, samples: u32) {
        let mut depth = 0;
        for key in path {
            if self.open.get(depth).is_none_or(|open| open.key != key) {
                self.close(depth);
                let (start, samples) = self.end;
                let at = depth as u32 + 1;
                self.open.push(DrawnBox { key, depth: at, start, weight: 0, samples });
            }
            depth += 1;
        }
        self.close(depth);
        self.end.0 = self.end.0.saturating_add(weight);
        self.end.1 += u64::from(samples);
    }

    /// Ends the boxes from this depth on, 0 being the first that is open.
    fn close(&mut self, depth: usize) {
        for open in self.open.drain(depth..) {
            let weight = self.end.0 - open.start;
            let samples = self.end.1 - open.samples;
            if weight < self.narrowest || open.depth > DEEPEST {
                self.left_out.boxes += 1;
                self.left_out.too_deep += usize::from(weight >= self.narrowest);
            } else {
                self.drawn.push(DrawnBox { weight, samples, ..open });
            }
        }
    }

    /// The boxes, `most` at most where that is not 0: the widest, of equal ones the callers. And what is not among them,
    /// with a width that none of it has.
    fn finish(mut self, most: usize) -> (Vec<DrawnBox>, (u64, LeftOut)) {
        self.close(0);
        if most > 0 && self.drawn.len() > most {
            // A callee is no wider than its caller, so what is drawn is a tree.
            self.drawn.sort_unstable_by_key(|one| (Reverse(one.weight), one.depth, one.start));
            self.narrowest = self.drawn[most].weight + 1;
            self.left_out.boxes += self.drawn.len() - most;
            self.drawn.truncate(most);
        }
        (self.drawn, (self.narrowest, self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn paths() -> impl Strategy<Value = Vec<(Vec<u32>, u64)>> {
        let path = proptest::collection::vec(0_u32..3, 1..5);
        proptest::collection::vec((path, 1_u64..9), 1..30)
    }

    proptest! {
        /// At each unit of weight the boxes one upon the other are the path that was counted there, and boxes are as wide
        /// as they can be.
        #[test]
        fn boxes_stand_where_their_paths_were_counted(paths in paths()) {
            let mut open = OpenPath { narrowest: 1, ..OpenPath::default() };
            let mut expected: Vec<&[u32]> = Vec::new();
            for (path, weight) in &paths {
                open.add(path.iter().copied(), *weight, 1);
                expected.extend(std::iter::repeat_n(&path[..], *weight as usize));
            }
            let (drawn, (_, left_out)) = open.finish(0);
            prop_assert_eq!(left_out.boxes, 0);
            for (at, path) in expected.iter().enumerate() {
                let at = at as u64;
                let above = drawn.iter().filter(|one| (one.start..one.start + one.weight).contains(&at));
                let above: BTreeMap<u32, u32> = above.map(|one| (one.depth, one.key)).collect();
                prop_assert_eq!(above.into_values().collect::<Vec<_>>(), *path);
            }
            for one in &drawn {
                let end = (one.start + one.weight) as usize;
                let ends = |path: &[u32]| path[..one.depth as usize].to_vec();
                let before = expected[end - 1];
                let goes_on = expected.get(end).is_some_and(|next| {
                    next.len() >= one.depth as usize && ends(next) == ends(before)
                });
                prop_assert!(!goes_on, "{:?}", one);
            }
        }

        #[test]
        fn the_widest_boxes_are_drawn_and_the_others_counted(paths in paths(), most in 1_usize..20) {
            let made = |most| {
                let mut open = OpenPath { narrowest: 1, ..OpenPath::default() };
                for (path, weight) in &paths {
                    open.add(path.iter().copied(), *weight, 1);
                }
                open.finish(most)
            };
            let (all, _) = made(0);
            let (drawn, (narrowest, left_out)) = made(most);
            prop_assert_eq!(drawn.len(), most.min(all.len()));
            prop_assert_eq!(left_out.boxes, all.len() - drawn.len());
            let missing = all.iter().filter(|one| !drawn.contains(one));
            for one in missing {
                prop_assert!(one.weight < narrowest);
                prop_assert!(drawn.iter().all(|drawn| drawn.weight >= one.weight));
            }
            for one in drawn.iter().filter(|one| one.depth > 1) {
                let holds = |outer: &DrawnBox| {
                    outer.depth + 1 == one.depth
                        && outer.start <= one.start
                        && outer.start + outer.weight >= one.start + one.weight
                };
                prop_assert!(drawn.iter().any(holds), "{:?}", one);
            }
        }

        #[test]
        fn stacks_of_the_same_callers_are_neighbors(parents in proptest::collection::vec(any::<prop::sample::Index>(), 0..30)) {
            let mut stacks = Stacks::default();
            for (at, parent) in parents.iter().enumerate() {
                stacks.push(parent.index(at + 1) as StackId, 0);
            }
            let places = walk(&stacks);
            for stack in 0..stacks.len() as StackId {
                let callers = |of: StackId| std::iter::successors(Some(of), |&of| stacks.parent(of));
                let inside = (0..stacks.len() as StackId).filter(|&of| callers(of).any(|one| one == stack));
                let mut inside: Vec<u32> = inside.map(|of| places[of as usize]).collect();
                inside.sort_unstable();
                let first = places[stack as usize];
                prop_assert_eq!(inside.clone(), (first..first + inside.len() as u32).collect::<Vec<_>>());
            }
        }
    }
}
