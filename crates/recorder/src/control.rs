//! What readers and the main thread share.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pmuscope_machine::Topology;

use crate::keep::Keeper;
use crate::output::Output;
use crate::strobe::Watch;
use crate::tally::IdIndex;

/// How far the recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Readers drain when there is something.
    Running,
    /// Events are off: readers drain what is left and end.
    Draining,
}

/// Shared by reference between all threads of a recording.
#[derive(Debug)]
pub(crate) struct ControlState<'a> {
    pub(crate) topology: &'a Topology,
    /// Of a strobed recording.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Where files are kept.
    pub(crate) keeper: Option<&'a Keeper>,
    index: Mutex<Arc<IdIndex>>,
    output: Mutex<Arc<Output>>,
    phase: AtomicU8,
    /// By position in `topology.nodes`: the node has no idle CPU.
    busy: Vec<AtomicBool>,
}

impl<'a> ControlState<'a> {
    pub(crate) fn new(
        topology: &'a Topology,
        index: IdIndex,
        output: Arc<Output>,
        watch: Option<Arc<Watch>>,
        keeper: Option<&'a Keeper>,
    ) -> Self {
        Self {
            topology,
            watch,
            keeper,
            index: Mutex::new(Arc::new(index)),
            output: Mutex::new(output),
            phase: AtomicU8::new(0),
            busy: topology.nodes.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Which event an id belongs to.
    pub(crate) fn index(&self) -> Arc<IdIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Descriptors were opened: pairs of id and event.
    pub(crate) fn add_ids(&self, ids: impl IntoIterator<Item = (u64, usize)>) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        *index = Arc::new(index.with(ids));
    }

    /// The file that is being written now.
    pub(crate) fn output(&self) -> Arc<Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Continues in another file; the one before.
    pub(crate) fn switch_to(&self, output: Arc<Output>) -> Arc<Output> {
        let mut current = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, output)
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.phase.load(Ordering::Acquire) == 0 { Phase::Running } else { Phase::Draining }
    }

    /// The readers see it when they are next woken.
    pub(crate) fn start_draining(&self) {
        self.phase.store(1, Ordering::Release);
    }

    /// Whether the node has no idle CPU, as last measured.
    pub(crate) fn is_busy(&self, node: u32) -> bool {
        let position = self.topology.nodes.iter().position(|candidate| candidate.id == node);
        position.is_some_and(|position| self.busy[position].load(Ordering::Relaxed))
    }

    /// Notes what was measured of a node.
    pub(crate) fn set_busy(&self, node: u32, busy: bool) {
        if let Some(position) = self.topology.nodes.iter().position(|n| n.id == node) {
            self.busy[position].store(busy, Ordering::Relaxed);
        }
    }
}
