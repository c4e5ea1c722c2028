//! Stacks merged by what a box shows: command, function, whether inlined.

use std::sync::Arc;

use pmuscope_profile::aggregate::{FrameId, FunctionId, StackId, Stacks};
use pmuscope_profile::export::{ExportedEvent, Source};
use rustc_hash::FxHashMap;

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
    children: Vec<u32>,
}

/// Node 0 is the root; a parent comes before its children.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<FlameNode>,
}

impl Tree {
    pub(super) fn new(source: &Source<'_>, events: &[&ExportedEvent]) -> Self {
        let mut making = Making::new(source);
        let cells = |event: &&'_ ExportedEvent| {
            let event: &ExportedEvent = event;
            source
                .counts
                .of_event(event.index)
                .iter()
                .map(|cell| (event.value(cell), cell))
                .collect::<Vec<_>>()
        };
        for (value, cell) in events.iter().flat_map(cells) {
            let command = &source.counts.tasks[cell.task as usize].command;
            let node = making.node(command, cell.stack);
            let node = &mut making.nodes[node as usize];
            node.weight = node.weight.saturating_add(value);
            node.samples += cell.samples;
        }
        let mut nodes = making.nodes;
        for at in (1..nodes.len()).rev() {
            let FlameNode { parent, weight, samples, .. } = nodes[at];
            let parent = &mut nodes[parent as usize];
            parent.weight = parent.weight.saturating_add(weight);
            parent.samples += samples;
            parent.children.push(at as u32);
        }
        Self { nodes }
    }

    /// The nodes right below.
    pub(super) fn below(&self, at: u32) -> &[u32] {
        &self.nodes[at as usize].children
    }
}

struct Making<'a> {
    source: &'a Source<'a>,
    nodes: Vec<FlameNode>,
    known: FxHashMap<(u32, Name), u32>,
    /// Nodes of stacks, below the node of the command: each stack is looked up once.
    of_stack: FxHashMap<(u32, StackId), u32>,
}

impl<'a> Making<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        let root =
            FlameNode { name: Name::All, parent: 0, weight: 0, samples: 0, children: Vec::new() };
        Self {
            source,
            nodes: vec![root],
            known: FxHashMap::default(),
            of_stack: FxHashMap::default(),
        }
    }

    fn child(&mut self, parent: u32, name: Name) -> u32 {
        if let Some(&at) = self.known.get(&(parent, name.clone())) {
            return at;
        }
        let at = self.nodes.len() as u32;
        let children = Vec::new();
        self.nodes.push(FlameNode { name: name.clone(), parent, weight: 0, samples: 0, children });
        self.known.insert((parent, name), at);
        at
    }

    fn node(&mut self, command: &Arc<str>, stack: StackId) -> u32 {
        let top = self.child(0, Name::Command(command.clone()));
        let stacks = &self.source.counts.stacks;
        let mut missing = Vec::new();
        let mut at = stack;
        let mut node = loop {
            if at == Stacks::ROOT {
                break top;
            }
            if let Some(&node) = self.of_stack.get(&(top, at)) {
                break node;
            }
            missing.push(at);
            at = stacks.parent(at).unwrap_or(Stacks::ROOT);
        };
        for stack in missing.into_iter().rev() {
            if let Some(frame) = stacks.frame(stack) {
                node = self.child(node, Name::of_frame(self.source, frame));
            }
            self.of_stack.insert((top, stack), node);
        }
        node
    }
}
