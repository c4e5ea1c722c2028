//! Samples with callers to nodes of a tree of places, see [`crate::count::chains`]. The program's part of a
//! call chain may have to be [unwound](crate::count::unwinding) first.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::chains::{FrameRole, Last, StackFrame, steps};
use crate::count::stack_room::StackRoom;
use crate::count::task_cache::{SampleTask, TaskCache};
use crate::count::tree::{Node, Tree};
use crate::count::unwinding::{End, Walked, Walker};
use crate::table::{Interned, mix};
use crate::timeline::finder::{AddressTable, UNKNOWN_PLACE, effective};
use crate::timeline::lookup::{Holds, Lookup};
use crate::timeline::spaces::ViewId;
use crate::timeline::tasks::ModuleAddress;

/// Grows the tree.
#[derive(Debug)]
pub(crate) struct Callers<'a> {
    places: Numbered,
    tree: Tree,
    /// By slot of the thread.
    last: Vec<Last<u32>>,
    steps: Vec<StackFrame>,
    /// Unwinds stacks, where they are asked for.
    pub(crate) walker: Option<Walker<'a>>,
    frames: Vec<u32>,
    /// Samples without their callers, for want of room.
    without_callers: u64,
}

/// What it came to.
#[derive(Debug)]
pub(crate) struct Called {
    /// What nodes are of.
    pub(crate) places: Vec<ModuleAddress>,
    /// Each distinct chain: its innermost place, and the node of its callers, which comes before.
    pub(crate) nodes: Vec<Node>,
    pub(crate) walked: Option<Walked>,
    /// Samples that count for their place alone: there was no [room](StackRoom) for their callers.
    pub(crate) without_callers: u64,
}

/// Numbers of places, through a table of addresses.
#[derive(Debug, Default)]
struct Numbered {
    table: AddressTable<u32>,
    places: Interned<ModuleAddress>,
}

impl Numbered {
    /// The number of the place of an address, and how long it holds.
    #[inline]
    fn number<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        step: StackFrame,
    ) -> (u32, Holds) {
        let Self { table, places } = self;
        table.find((lookup, at), view, (step.mode, step.address), |place| intern(places, place))
    }

    fn intern(&mut self, place: ModuleAddress) -> u32 {
        intern(&mut self.places, place)
    }
}

fn intern(places: &mut Interned<ModuleAddress>, place: ModuleAddress) -> u32 {
    places.intern(mix(place.address, place.module.into()), place)
}

impl Callers<'_> {
    pub(crate) fn new(room: StackRoom) -> Self {
        Self {
            places: Numbered::default(),
            tree: Tree::within(room),
            last: vec![Last::default(); TaskCache::SLOTS],
            steps: Vec::new(),
            walker: None,
            frames: Vec::new(),
            without_callers: 0,
        }
    }

    /// The node of a sample's call chain, whose innermost place is where it was taken.
    pub(crate) fn node<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        ran: SampleTask,
        hit: &SampleFields<'_>,
    ) -> u32 {
        let node = match self.walk(lookup, at, ran.view, hit) {
            Some(end) => self.unwound(lookup, at, ran.view, hit, end),
            None => self.recorded(lookup, at, ran, hit),
        };
        let node = match hit.ip {
            Some(_) => node,
            None => self.tree.child(node, self.places.intern(UNKNOWN_PLACE)),
        };
        if node == Tree::LEFT_OUT { self.without_callers(lookup, at, ran.view, hit) } else { node }
    }

    /// The node of where the present sample was taken.
    #[cold]
    fn without_callers<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        hit: &SampleFields<'_>,
    ) -> u32 {
        self.without_callers += 1;
        let place = match (hit.ip, self.steps.first()) {
            (Some(_), Some(&step)) => self.places.number(lookup, at, view, step).0,
            _ => self.places.intern(UNKNOWN_PLACE),
        };
        self.tree.without_callers(&[place])
    }

    /// The node of a call chain as the recording has it, from its thread's last one on.
    fn recorded<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        ran: SampleTask,
        hit: &SampleFields<'_>,
    ) -> u32 {
        let Self { places, tree, last, steps: chain, .. } = self;
        let last = &mut last[ran.slot];
        steps(hit, chain);
        let shared = last.keep_shared(ran.view, lookup.stamp(at), chain);
        let (node, mut holds) = last.end();
        let mut node = node.unwrap_or(Tree::ROOT);
        for &step in chain.iter().rev().skip(shared) {
            let (place, held) = places.number(lookup, at, ran.view, step);
            node = tree.child(node, place | step.role.mark());
            holds = holds.and(held);
            last.push(step, node, holds);
        }
        node
    }

    /// The node of a call chain whose part of the program was walked, to `end`.
    fn unwound<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        hit: &SampleFields<'_>,
        end: End,
    ) -> u32 {
        let Self { places, tree, steps: chain, frames, .. } = self;
        steps(hit, chain);
        let is_of_program = |step: &StackFrame| effective(step.mode, step.address) == CpuMode::User;
        let (leaf, callers) = chain.split_at(usize::from(hit.ip.is_some()));
        let mut node = Tree::ROOT;
        if let End::Cut(cut) = end {
            node = tree.child(node, places.intern(cut.place()));
        }
        // The sample's own address is the first of the program's, unless the kernel was sampled or the callchain begins
        // there.
        let is_own = |step: &StackFrame| is_of_program(step) && step.role == FrameRole::Plain;
        let own = usize::from(leaf.iter().any(is_own));
        let frames = frames.get(own..).unwrap_or_default();
        node = frames.iter().rev().fold(node, |node, &place| tree.child(node, place));
        let of_kernel = callers.iter().rev().filter(|step| !is_of_program(step));
        for &step in of_kernel.chain(leaf) {
            let (place, _) = places.number(lookup, at, view, step);
            node = tree.child(node, place | step.role.mark());
        }
        node
    }

    /// Puts what the program's stack comes to into `frames`, the interrupted place first.
    fn walk<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        hit: &SampleFields<'_>,
    ) -> Option<End> {
        let is_guest = matches!(hit.mode, CpuMode::GuestKernel | CpuMode::GuestUser);
        let details = hit.user.filter(|_| !is_guest && self.walker.is_some())?.decode()?;
        let Self { places, walker, frames, .. } = self;
        frames.clear();
        let place = |address| {
            let step = StackFrame { mode: CpuMode::User, address, role: FrameRole::Plain };
            let (number, _) = places.number(lookup, at, view, step);
            (number, places.places.list[number as usize])
        };
        walker.as_mut()?.walk(&details, lookup.modules(), place, frames)
    }

    /// The end.
    pub(crate) fn finish(self) -> Called {
        Called {
            places: self.places.places.list,
            nodes: self.tree.into_nodes(),
            walked: self.walker.map(Walker::finish),
            without_callers: self.without_callers,
        }
    }
}
