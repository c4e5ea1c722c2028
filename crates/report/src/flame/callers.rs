//! The graph from its other end: the sampled function first, its callers after it.
//!
//! ```text
//!  depth 0  all
//!  depth 1  f                │ g               self, as in the table of functions
//!  depth 2  main  │ start    │ main            what called it, and what called that
//!  depth 3  command          │ command
//! ```
//!
//! Stacks that are read from their inner end share little, so the whole tree can be far larger than that of callees.
//! It is never made: the heaviest box is drawn next, and only what is drawn is taken apart into its callers. Memory
//! follows from distinct stacks and from the limits of the picture.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pmuscope_profile::aggregate::{FrameId, StackId, Stacks, Task};
use pmuscope_profile::export::{ExportedEvent, Source};
use rustc_hash::FxHashMap;

use super::heaviest::Heaviest;
use super::layout::{Face, FlameLayout};
use super::tree::{Name, name_text};
use super::{DEEPEST, Flame, FlameBox, FlameLimits, LeftOut, ModuleHues, described};

impl Flame {
    /// The layout of one event from the sampled functions to their callers. A function is one box, inlined or not,
    /// as in the table of functions.
    #[must_use]
    pub(crate) fn callers(source: &Source<'_>, event: &ExportedEvent, limits: FlameLimits) -> Self {
        let rests = distinct_stacks(source, event);
        let total = rests.iter().fold(0_u64, |sum, one| sum.saturating_add(one.weight));
        let narrowest = ((total as f64 * limits.share).ceil() as u64).max(1);
        let keys = Keys::new(source);
        let mut drawing = Drawing { source, keys, nodes: Vec::new(), left_out: LeftOut::default() };
        let narrowest = drawing.grow(rests, narrowest, limits.boxes);
        let hues = ModuleHues::new(source);
        let boxes = drawing.boxes(&hues);
        let below = narrowest as f64 / total.max(1) as f64;
        let left_out = LeftOut { below, ..drawing.left_out };
        let graph = Self::laid_out(FlameLayout { boxes, left_out }, total);
        Self { hues, unseen: Some("callers"), ..graph }
    }
}

/// What one command was sampled with in one stack, and which part of the stack is still to be read.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// What has not been read; `None` once the command was, too.
    stack: Option<StackId>,
    task: u32,
    weight: u64,
    samples: u64,
}

/// Distinct stacks of each task, unread. Cells of one stack and task, which differ in their CPU, follow one another.
fn distinct_stacks(source: &Source<'_>, event: &ExportedEvent) -> Vec<Rest> {
    let mut all: Vec<Rest> = Vec::new();
    for cell in source.counts.of_event(event.index) {
        let (task, stack, weight) = (cell.task, Some(cell.stack), event.value(cell));
        match all.last_mut().filter(|last| (last.task, last.stack) == (task, stack)) {
            Some(last) => {
                last.weight = last.weight.saturating_add(weight);
                last.samples += cell.samples;
            }
            None => all.push(Rest { stack, task, weight, samples: cell.samples }),
        }
    }
    all
}

/// Names of boxes by number: those that frames come to, then commands.
struct Keys {
    of_frame: Vec<u32>,
    of_task: Vec<u32>,
    names: Vec<Name>,
}

impl Keys {
    fn new(source: &Source<'_>) -> Self {
        let counts = source.counts;
        let mut known: FxHashMap<Name, u32> = FxHashMap::default();
        let mut names = Vec::new();
        let mut number = |name: Name| {
            *known.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32 - 1
            })
        };
        let of_frame = (0..counts.frames.len() as FrameId)
            .map(|frame| {
                number(match Name::of_frame(source, frame) {
                    Name::Function { function, module, .. } => {
                        Name::Function { function, module, inlined: false }
                    }
                    other => other,
                })
            })
            .collect();
        let command = |task: &Task| number(Name::Command(task.command.clone()));
        let of_task = counts.tasks.iter().map(command).collect();
        Self { of_frame, of_task, names }
    }
}

/// A box that is drawn.
#[derive(Debug)]
struct CallerNode {
    name: Name,
    /// The node that it calls; that of the root is the root.
    callee: usize,
    depth: u32,
    weight: u64,
    samples: u64,
}

/// A box that may be drawn, with the stacks that lead on from it.
#[derive(Debug)]
struct OpenCaller {
    node: CallerNode,
    rests: Vec<Rest>,
}

impl OpenCaller {
    fn new(name: Name, callee: usize, depth: u32, rests: Vec<Rest>) -> Self {
        let weight = rests.iter().fold(0_u64, |sum, one| sum.saturating_add(one.weight));
        let samples = rests.iter().map(|one| one.samples).sum();
        Self { node: CallerNode { name, callee, depth, weight, samples }, rests }
    }

    fn found(self, number: usize) -> Heaviest<Self> {
        Heaviest::new(self.node.weight, number, self)
    }
}

struct Drawing<'s, 'a> {
    source: &'s Source<'a>,
    keys: Keys,
    /// What a node calls comes before it.
    nodes: Vec<CallerNode>,
    left_out: LeftOut,
}

impl Drawing<'_, '_> {
    /// Draws the heaviest boxes, `most` at most where that is not 0, and returns the smallest weight that is drawn. A
    /// caller weighs no more than what it is a caller of, so what is drawn is a tree.
    fn grow(&mut self, rests: Vec<Rest>, narrowest: u64, most: usize) -> u64 {
        let mut narrowest = narrowest;
        let mut found = 0;
        let mut open = BinaryHeap::from([OpenCaller::new(Name::All, 0, 0, rests).found(found)]);
        while let Some(Heaviest { item: OpenCaller { node, rests }, .. }) = open.pop() {
            if most > 0 && self.nodes.len() >= most {
                narrowest = narrowest.max(node.weight + 1);
            }
            if node.weight < narrowest || node.depth > DEEPEST {
                self.left_out.boxes += 1;
                self.left_out.too_deep += usize::from(node.weight >= narrowest);
                continue;
            }
            let (callee, depth) = (self.nodes.len(), node.depth + 1);
            self.nodes.push(node);
            for (name, rests) in self.by_caller(&rests) {
                found += 1;
                open.push(OpenCaller::new(name, callee, depth, rests).found(found));
            }
        }
        narrowest
    }

    /// The stacks by what comes next in them.
    fn by_caller(&self, rests: &[Rest]) -> Vec<(Name, Vec<Rest>)> {
        let mut next: Vec<(u32, Rest)> = rests.iter().filter_map(|&rest| self.next(rest)).collect();
        next.sort_by_key(|(key, _)| *key);
        let same = next.chunk_by(|(a, _), (b, _)| a == b);
        let caller = |same: &[(u32, Rest)]| {
            let name = self.keys.names[same[0].0 as usize].clone();
            (name, same.iter().map(|(_, rest)| *rest).collect())
        };
        same.map(caller).collect()
    }

    /// The name of what comes next in a stack, and what is left of it then: at its outer end stands the command.
    fn next(&self, rest: Rest) -> Option<(u32, Rest)> {
        let stacks = &self.source.counts.stacks;
        let stack = rest.stack?;
        let key = match stacks.frame(stack) {
            Some(frame) => self.keys.of_frame[frame as usize],
            None => self.keys.of_task[rest.task as usize],
        };
        let left = (stack != Stacks::ROOT).then(|| stacks.parent(stack).unwrap_or(Stacks::ROOT));
        Some((key, Rest { stack: left, ..rest }))
    }

    /// Boxes in their order: by depth, from left to right, the widest first and equal ones by name.
    fn boxes(&self, hues: &ModuleHues) -> Vec<FlameBox> {
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().skip(1) {
            callers[node.callee].push(at);
        }
        let key = |at: usize| {
            let node = &self.nodes[at];
            (Reverse(node.weight), name_text(self.source, &node.name), at)
        };
        let mut starts = vec![0_u64; self.nodes.len()];
        // What a node calls has its place before the node gets one.
        for (at, mut callers) in callers.into_iter().enumerate() {
            callers.sort_by(|&a, &b| key(a).cmp(&key(b)));
            let mut next = starts[at];
            for caller in callers {
                starts[caller] = next;
                next += self.nodes[caller].weight;
            }
        }
        let mut boxes: Vec<FlameBox> = self
            .nodes
            .iter()
            .zip(starts)
            .map(|(node, start)| {
                let (name, module, color) = described(self.source, hues, &node.name);
                let CallerNode { depth, weight, samples, .. } = *node;
                let face = Face { name, module, color, samples, note: None, figures: None };
                FlameBox::new(face, depth, start, (weight, 0))
            })
            .collect();
        boxes.sort_by_key(|one| (one.depth, one.start));
        boxes
    }
}
