//! Call trees of two sides merged by names: a flame graph as wide as one side, in the colors of what changed.
//!
//! ```text
//!  recordings before ─┐  each one's weights as parts      ┌─ as wide as before ─┐
//!                     ├─ of its total, summed over a ─ tree                     ├─ same names, same colors
//!  recordings after ──┘  side's recordings                └─ as wide as after ──┘
//! ```
//!
//! Ids of functions and modules differ from recording to recording, so names are compared, as rows of the table are:
//! command, last part of the module's path, function.

use std::sync::Arc;

use pmuscope_profile::export::{ExportedEvent, Source};
use rustc_hash::FxHashMap;

use super::tree::{Name, Tree};
use super::{Face, Flame, FlameLimits, FlameTree, Frame, Legend, frame};
use crate::number::{counted, fixed, percent, signed};
use crate::tint;

/// All samples of a side. Parts are whole numbers, so that sums are exact.
const WHOLE: u64 = 1_000_000_000_000_000;

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlameSide {
    Before,
    After,
}

/// The merged tree. A parent comes before its children.
#[derive(Debug)]
pub(crate) struct FlameSides {
    nodes: Vec<SidesNode>,
    known: FxHashMap<(u32, Name), u32>,
    names: MergedNames,
}

#[derive(Debug)]
struct SidesNode {
    name: Name,
    parent: u32,
    children: Vec<u32>,
    /// Before and after; with all below once the tree is finished.
    weights: [u64; 2],
    samples: [u64; 2],
}

impl SidesNode {
    fn new(name: Name, parent: u32) -> Self {
        Self { name, parent, children: Vec::new(), weights: [0; 2], samples: [0; 2] }
    }

    fn add(&mut self, side: FlameSide, weight: u64, samples: u64) {
        self.weights[side as usize] += weight;
        self.samples[side as usize] += samples;
    }

    fn shares(&self) -> [f64; 2] {
        self.weights.map(|weight| weight as f64 / WHOLE as f64)
    }
}

impl FlameSides {
    /// Of the recordings of both sides, each with its event, where that has samples.
    pub(crate) fn new(sides: [&[(Source<'_>, Option<ExportedEvent>)]; 2]) -> Self {
        let root = SidesNode::new(Name::All, 0);
        let mut made =
            Self { nodes: vec![root], known: FxHashMap::default(), names: MergedNames::default() };
        for (side, recordings) in [FlameSide::Before, FlameSide::After].into_iter().zip(sides) {
            for (source, event) in recordings {
                if let Some(event) = event {
                    made.add(side, recordings.len(), source, event);
                }
            }
        }
        made.sum();
        made
    }

    /// The graph of one side.
    pub(crate) fn flame(&self, side: FlameSide, limits: FlameLimits) -> Flame {
        let title = "Change in percentage points".to_owned();
        let legend = Some(Legend { title, steps: tint::changes() });
        Flame { legend, ..Flame::of(&OneSide { sides: self, side }, limits) }
    }

    /// Adds the self weight of each node of one recording, out of the number of recordings on its side.
    fn add(
        &mut self,
        side: FlameSide,
        recordings: usize,
        source: &Source<'_>,
        event: &ExportedEvent,
    ) {
        let tree = Tree::new(source, &[event], None);
        let whole = u128::from(tree.nodes[0].weight.max(1)) * recordings as u128;
        let part = |weight: u64| (u128::from(weight) * u128::from(WHOLE) / whole) as u64;
        let mut merged = vec![0_u32; tree.nodes.len()];
        for (at, node) in tree.nodes.iter().enumerate() {
            if at > 0 {
                let name = self.names.name(source, &node.name);
                merged[at] = self.child(merged[node.parent as usize], name);
            }
            let below = tree.below(at as u32).map(|child| &tree.nodes[child as usize]);
            let (weight, samples) = below.fold((0, 0), |(weight, samples): (u64, u64), child| {
                (weight.saturating_add(child.weight), samples + child.samples)
            });
            let own = part(node.weight.saturating_sub(weight));
            self.nodes[merged[at] as usize].add(side, own, node.samples - samples);
        }
    }

    fn child(&mut self, parent: u32, name: Name) -> u32 {
        if let Some(&at) = self.known.get(&(parent, name.clone())) {
            return at;
        }
        let at = self.nodes.len() as u32;
        self.nodes.push(SidesNode::new(name.clone(), parent));
        self.nodes[parent as usize].children.push(at);
        self.known.insert((parent, name), at);
        at
    }

    /// Adds to each node what is below it.
    fn sum(&mut self) {
        for at in (1..self.nodes.len()).rev() {
            let SidesNode { parent, weights, samples, .. } = self.nodes[at];
            for side in [FlameSide::Before, FlameSide::After] {
                self.nodes[parent as usize].add(
                    side,
                    weights[side as usize],
                    samples[side as usize],
                );
            }
        }
    }

    /// Details of a node: both sides, whichever is drawn.
    fn figures(node: &SidesNode) -> String {
        let [before, after] = node.shares();
        let change = (after - before) * 100.0;
        format!(
            "before {} ({}), after {} ({}), change {} points",
            percent(before, 2),
            counted(node.samples[0], "sample"),
            percent(after, 2),
            counted(node.samples[1], "sample"),
            signed(&fixed(change, 2), change)
        )
    }
}

/// The tree as one side has it: what that side has no weight of is not there.
struct OneSide<'a> {
    sides: &'a FlameSides,
    side: FlameSide,
}

impl OneSide<'_> {
    fn node(&self, at: u32) -> &SidesNode {
        &self.sides.nodes[at as usize]
    }
}

impl FlameTree for OneSide<'_> {
    fn size(&self) -> usize {
        self.sides.nodes.len()
    }

    fn weight(&self, at: u32) -> u64 {
        self.node(at).weights[self.side as usize]
    }

    fn below(&self, at: u32) -> impl Iterator<Item = u32> {
        self.node(at).children.iter().copied().filter(|&child| self.weight(child) > 0)
    }

    fn name(&self, at: u32) -> &str {
        let name = &self.node(at).name;
        match self.sides.names.frame(name) {
            Some(frame) => frame.function.unwrap_or(frame.module),
            None => name.of_no_function(),
        }
    }

    fn face(&self, at: u32) -> Face {
        let node = self.node(at);
        let [before, after] = node.shares();
        let (name, module) = match self.sides.names.frame(&node.name) {
            Some(frame) => (frame.label(), Some(frame.module.to_owned())),
            None => (node.name.of_no_function().to_owned(), None),
        };
        Face {
            name,
            module,
            color: tint::change((after - before) * 100.0).to_owned(),
            samples: node.samples[self.side as usize],
            note: None,
            figures: Some(FlameSides::figures(node)),
        }
    }
}

/// Names of functions and modules of all recordings, each with one number.
#[derive(Debug, Default)]
struct MergedNames {
    texts: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
}

impl MergedNames {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let (number, text) = (self.texts.len() as u32, Arc::<str>::from(text));
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// A name of a recording by the numbers of all.
    fn name(&mut self, source: &Source<'_>, name: &Name) -> Name {
        let Some((_, frame)) = frame(source, name) else { return name.clone() };
        let module = self.number(frame.module);
        match frame.function {
            Some(function) => {
                let function = self.number(function);
                Name::Function { function, module, inlined: frame.inlined }
            }
            None => Name::Nameless { module },
        }
    }

    /// What a name stands for; `None` where that is no function.
    fn frame(&self, name: &Name) -> Option<Frame<'_>> {
        let text = |number: u32| &*self.texts[number as usize];
        let (function, module, inlined) = match name {
            Name::All | Name::Command(_) => return None,
            Name::Function { function, module, inlined } => (Some(*function), *module, *inlined),
            Name::Nameless { module } => (None, *module, false),
        };
        Some(Frame { function: function.map(text), module: text(module), inlined })
    }
}

#[cfg(test)]
mod tests;
