//! Stacks merged by what a box shows: command, function, whether inlined. Only the heaviest are: the next one is always
//! the heaviest that was found, and a callee weighs no more than its caller, so what is drawn is found first.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use pmuscope_profile::aggregate::{FrameId, FunctionId, StackId};
use pmuscope_profile::export::{ExportedEvent, Source};
use pmuscope_profile::views::{StackBranch, StackTree, Sums};
use rustc_hash::FxHashMap;

use super::heaviest::Heaviest;
use super::{DEEPEST, FlameLimits};

/// What a box stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    All,
    Command(Arc<str>),
    Function { function: FunctionId, module: u32, inlined: bool },
    Nameless { module: u32 },
}

impl Name {
    /// What a box is called that stands for no function.
    pub(super) fn of_no_function(&self) -> &str {
        match self {
            Self::Command(command) => command,
            _ => "all",
        }
    }

    pub(super) fn of_frame(source: &Source<'_>, frame: FrameId) -> Self {
        let frame = &source.counts.frames[frame as usize];
        match frame.function {
            Some(function) => {
                Self::Function { function, module: frame.module, inlined: frame.inlined }
            }
            None => Self::Nameless { module: frame.module },
        }
    }
}

/// What boxes of the same weight are ordered by. Foreign text.
pub(super) fn name_text<'n>(source: &'n Source<'_>, name: &'n Name) -> &'n str {
    match name {
        Name::All => "",
        Name::Command(command) => command,
        Name::Function { function, .. } => &source.counts.functions[*function as usize].name,
        Name::Nameless { module } => source.module_name(*module),
    }
}

#[derive(Debug)]
pub(super) struct FlameNode {
    pub(super) name: Name,
    pub(super) parent: u32,
    /// Its own and that of all below.
    pub(super) weight: u64,
    pub(super) samples: u64,
    children: Range<u32>,
}

/// Node 0 is the root; a parent comes before its children.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<FlameNode>,
}

impl Tree {
    /// What is not drawn within the limits has no children, and what is not drawn of these is not there.
    pub(super) fn new(
        source: &Source<'_>,
        events: &[&ExportedEvent],
        limits: Option<FlameLimits>,
    ) -> Self {
        let (keys, names) = names_of_frames(source);
        let (commands, own): (Vec<_>, Vec<_>) = by_command(source, events).into_iter().unzip();
        let stacks = &source.counts.stacks;
        let trees = own.into_iter().map(|own| StackTree::new(stacks, &keys, own)).collect();
        let mut growing = GrowingTree::new(trees, names, &commands);
        growing.grow(limits);
        Self { nodes: growing.nodes }
    }

    /// The nodes right below.
    pub(super) fn below(&self, at: u32) -> Range<u32> {
        self.nodes[at as usize].children.clone()
    }
}

/// The number of each frame's name, and the names.
pub(super) fn names_of_frames(source: &Source<'_>) -> (Vec<u32>, Vec<Name>) {
    let mut known: FxHashMap<Name, u32> = FxHashMap::default();
    let mut names = Vec::new();
    let number = |frame: usize| {
        *known.entry(Name::of_frame(source, frame as FrameId)).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u32 - 1
        })
    };
    let keys = (0..source.counts.frames.len()).map(number).collect();
    (keys, names)
}

/// A command, and what was counted in stacks of it.
type StacksOfCommand<'s> = (&'s Arc<str>, Vec<(StackId, Sums)>);

/// What each command was sampled in.
fn by_command<'s>(source: &Source<'s>, events: &[&ExportedEvent]) -> Vec<StacksOfCommand<'s>> {
    let counts = source.counts;
    let mut known: FxHashMap<&str, usize> = FxHashMap::default();
    let mut found: Vec<StacksOfCommand<'_>> = Vec::new();
    let of_task: Vec<usize> = counts
        .tasks
        .iter()
        .map(|task| {
            *known.entry(&task.command).or_insert_with(|| {
                found.push((&task.command, Vec::new()));
                found.len() - 1
            })
        })
        .collect();
    for event in events {
        for cell in counts.of_event(event.index) {
            let sums = Sums { samples: cell.samples, weight: event.value(cell) };
            found[of_task[cell.task as usize]].1.push((cell.stack, sums));
        }
    }
    found.retain(|(_, own)| !own.is_empty());
    found
}

/// A node without its children, which are not known yet.
#[derive(Debug)]
struct OpenNode {
    node: u32,
    depth: u32,
    /// Index of the command; its tree has the branch.
    command: usize,
    branch: StackBranch,
}

struct GrowingTree<'a> {
    /// By command.
    trees: Vec<StackTree<'a>>,
    /// By key.
    names: Vec<Name>,
    nodes: Vec<FlameNode>,
    open: BinaryHeap<Heaviest<OpenNode>>,
}

impl<'a> GrowingTree<'a> {
    /// The root, and a node for each command.
    fn new(trees: Vec<StackTree<'a>>, names: Vec<Name>, commands: &[&Arc<str>]) -> Self {
        let mut growing = Self { trees, names, nodes: Vec::new(), open: BinaryHeap::new() };
        growing.push(Name::All, 0, Sums::default());
        for (command, name) in commands.iter().enumerate() {
            let branch = growing.trees[command].root();
            let root = &mut growing.nodes[0];
            root.weight = root.weight.saturating_add(branch.total.weight);
            root.samples += branch.total.samples;
            let node = growing.push(Name::Command(Arc::clone(name)), 0, branch.total);
            growing.open(node, 1, command, branch);
        }
        growing.nodes[0].children = 1..growing.nodes.len() as u32;
        growing
    }

    fn push(&mut self, name: Name, parent: u32, total: Sums) -> u32 {
        let Sums { samples, weight } = total;
        self.nodes.push(FlameNode { name, parent, weight, samples, children: 0..0 });
        self.nodes.len() as u32 - 1
    }

    fn open(&mut self, node: u32, depth: u32, command: usize, branch: StackBranch) {
        let weight = branch.total.weight;
        self.open.push(Heaviest::new(
            weight,
            node as usize,
            OpenNode { node, depth, command, branch },
        ));
    }

    /// Finds the children of the heaviest nodes: of all that are drawn, or of all.
    fn grow(&mut self, limits: Option<FlameLimits>) {
        let total = self.nodes[0].weight;
        let least = limits.map_or(0, |limits| (total as f64 * limits.share).ceil() as u64);
        let most = limits.map_or(0, |limits| limits.boxes);
        // The root is drawn, too.
        let mut drawn = 1;
        while let Some(Heaviest { weight, item, .. }) = self.open.pop() {
            let OpenNode { node, depth, command, branch } = item;
            drawn += 1;
            if weight < least || most > 0 && drawn > most {
                return;
            }
            if limits.is_some() && depth > DEEPEST {
                continue;
            }
            let first = self.nodes.len() as u32;
            for below in self.trees[command].callees(&branch) {
                let name = self.names[below.key as usize].clone();
                let node = self.push(name, node, below.total);
                self.open(node, depth + 1, command, below);
            }
            self.nodes[node as usize].children = first..self.nodes.len() as u32;
        }
    }
}
