//! Processes and threads as the records tell them, in the order of time: names, and what they see.
//!
//! What changes is noted with its epoch, so that samples can be looked up afterwards at any moment
//! ([`super::lookup::History`]), or right away ([`Tasks::comm`], [`Tasks::view`]).

use std::borrow::Cow;

use pmuscope_perfdata::reader::{Comm, Ksymbol, Mmap, TaskRecord, memory_limit};
use rustc_hash::FxHashMap;

use crate::timeline::modules::{KERNEL_LOADED, ModuleId, ModuleKey, ModuleKind, Modules};
use crate::timeline::spaces::{Epoch, HALVES, Mapping, NOTHING, Spaces, ViewId};

/// Index of a thread's name.
pub(crate) type CommId = u32;

/// Stands for names that there was no memory for.
const NOT_KEPT: &[u8] = b"[name not kept]";
/// Bytes of a name's entries in the tables, in addition to the name.
const NAME_COST: usize = 2 * size_of::<Vec<u8>>() + 96;

/// The name of samples that do not tell their thread.
pub(crate) const NAMELESS: CommId = 1;

/// Name of a thread: one that was told, or made up from its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CommOf {
    Recorded(CommId),
    Unnamed(i32),
}

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ModuleAddress {
    pub(crate) module: ModuleId,
    /// As the module counts: an offset in the file, in the vdso, or the address itself; the number of
    /// the name for functions that the kernel told.
    pub(crate) address: u64,
}

#[derive(Debug, Clone, Copy)]
struct TaskThread {
    pid: i32,
    comm: CommId,
    alive: bool,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    view: ViewId,
    threads: usize,
}

impl Default for Process {
    fn default() -> Self {
        Self { view: NOTHING, threads: 0 }
    }
}

/// That a task has a property from an epoch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) id: i32,
    pub(crate) from: Epoch,
    pub(crate) value: u32,
}

/// All processes of a recording.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub(crate) spaces: Spaces,
    /// The kernel with its modules, and what it loaded and told by name.
    pub(crate) kernel: ViewId,
    pub(crate) loaded: ViewId,
    epoch: Epoch,
    threads: FxHashMap<i32, TaskThread>,
    processes: FxHashMap<i32, Process>,
    names: Vec<Vec<u8>>,
    name_ids: FxHashMap<Vec<u8>, CommId>,
    /// Bytes that names take, and may take; and how often there was no room for another.
    names_held: usize,
    names_most: usize,
    names_left_out: u64,
    /// Whether to note changes.
    keeps_past: bool,
    pub(crate) comms: Vec<Change>,
    pub(crate) views: Vec<Change>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Tasks {
    /// No process yet. `keeps_past`: whether moments that are over will be asked for.
    pub(crate) fn new(keeps_past: bool) -> Self {
        let mut spaces = Spaces::default();
        let (kernel, loaded) = (spaces.create(), spaces.create());
        let mut tasks = Self {
            spaces,
            kernel,
            loaded,
            epoch: 0,
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            names: Vec::new(),
            name_ids: FxHashMap::default(),
            names_held: 0,
            names_most: memory_limit() / 8,
            names_left_out: 0,
            keeps_past,
            comms: Vec::new(),
            views: Vec::new(),
        };
        // The idle task never tells its name.
        let idle = tasks.intern(b"swapper");
        tasks.threads.insert(0, TaskThread { pid: 0, comm: idle, alive: true });
        tasks.comms.push(Change { id: 0, from: 0, value: idle });
        // In the order of their numbers.
        tasks.intern(b"-");
        tasks
    }

    /// The same present without a past, and its modules: threads that have ended, their names and what
    /// they saw are gone.
    pub(crate) fn living(&self, modules: &Modules) -> (Self, Modules) {
        let (mut living, mut own) = (Self::new(false), Modules::default());
        for (from, kernel) in [(self.kernel, true), (self.loaded, false)] {
            let mut pieces = self.spaces.shown(from);
            for (_, _, mapping) in &mut pieces {
                *mapping = living.adopted(*mapping, self, modules, &mut own);
            }
            let view = living.spaces.create_of(pieces);
            *(if kernel { &mut living.kernel } else { &mut living.loaded }) = view;
        }
        for (&tid, thread) in self.threads.iter().filter(|(_, thread)| thread.alive) {
            let comm = living.intern(self.name(thread.comm));
            living.threads.insert(tid, TaskThread { comm, ..*thread });
        }
        for (&pid, process) in &self.processes {
            let mut pieces = self.spaces.shown(process.view);
            for (_, _, mapping) in &mut pieces {
                *mapping = living.adopted(*mapping, self, modules, &mut own);
            }
            let view = if pieces.is_empty() { NOTHING } else { living.spaces.create_of(pieces) };
            living.processes.insert(pid, Process { view, ..*process });
        }
        (living, own)
    }

    /// A mapping of `all`, by the numbers of modules and names here.
    fn adopted(
        &mut self,
        mapping: Mapping,
        all: &Self,
        modules: &Modules,
        own: &mut Modules,
    ) -> Mapping {
        match mapping.module {
            None => mapping,
            // A function that the kernel loaded is the number of its name.
            Some(KERNEL_LOADED) => {
                let name = self.intern(all.name(mapping.bias as CommId));
                Mapping { bias: name.into(), ..mapping }
            }
            Some(module) => {
                let module = Some(own.intern(modules.list()[module as usize].clone()));
                Mapping { module, ..mapping }
            }
        }
    }

    /// What is held of processes, living and ended: views, mappings, threads and names.
    pub(crate) fn size(&self) -> usize {
        self.spaces.size() + self.threads.len() + self.names.len()
    }

    /// Number of changes so far.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn name(&self, comm: CommId) -> &[u8] {
        self.names.get(comm as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// A thread's name as it is shown: made up from its id where it never told one.
    pub(crate) fn shown(&self, comm: CommOf) -> Cow<'_, [u8]> {
        match comm {
            CommOf::Recorded(comm) => Cow::Borrowed(self.name(comm)),
            CommOf::Unnamed(tid) => Cow::Owned(format!(":{tid}").into_bytes()),
        }
    }

    /// Names that were not kept.
    pub(crate) fn names_left_out(&self) -> u64 {
        self.names_left_out
    }

    /// The number of a name; where memory is at its limit, new ones are one.
    pub(crate) fn intern(&mut self, name: &[u8]) -> CommId {
        if let Some(&id) = self.name_ids.get(name) {
            return id;
        }
        // They are kept twice, and once more where they are shown.
        let cost = 3 * name.len() + NAME_COST;
        if self.names_held + cost > self.names_most && name != NOT_KEPT {
            self.names_left_out += 1;
            return self.intern(NOT_KEPT);
        }
        self.names_held += cost;
        let id = self.names.len() as CommId;
        self.names.push(name.to_vec());
        self.name_ids.insert(name.to_vec(), id);
        id
    }

    /// Name of a thread, now; that of its process where it never told one.
    pub(crate) fn comm(&self, pid: i32, tid: i32) -> CommOf {
        let told = self.threads.get(&tid).or_else(|| self.threads.get(&pid));
        told.map_or(CommOf::Unnamed(tid), |thread| CommOf::Recorded(thread.comm))
    }

    /// What a process sees, now.
    pub(crate) fn view(&self, pid: i32) -> ViewId {
        self.processes.get(&pid).map_or(NOTHING, |process| process.view)
    }

    pub(crate) fn on_comm(&mut self, comm: &Comm<'_>) {
        self.enter(comm.pid, comm.tid);
        let name = self.intern(comm.name);
        self.set_comm(comm.tid, name);
        if comm.exec {
            self.set_view(comm.pid, NOTHING);
        }
        self.epoch += 1;
    }

    pub(crate) fn on_fork(&mut self, task: &TaskRecord) {
        let parent = [task.parent_tid, task.parent_pid]
            .iter()
            .find_map(|tid| self.threads.get(tid))
            .map(|thread| thread.comm);
        if task.pid != task.parent_pid {
            let view = match self.processes.get(&task.parent_pid) {
                Some(parent) if !task.synthesised => self.spaces.fork(parent.view, self.epoch),
                _ => NOTHING,
            };
            self.processes.insert(task.pid, Process::default());
            self.set_view(task.pid, view);
        }
        self.threads.remove(&task.tid);
        self.enter(task.pid, task.tid);
        if let Some(comm) = parent {
            self.set_comm(task.tid, comm);
        }
        self.epoch += 1;
    }

    /// The name stays for samples on the way out; the mappings go with the last thread.
    pub(crate) fn on_exit(&mut self, task: &TaskRecord) {
        let Some(thread) = self.threads.get_mut(&task.tid).filter(|thread| thread.alive) else {
            return;
        };
        thread.alive = false;
        let pid = thread.pid;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads = process.threads.saturating_sub(1);
            if process.threads == 0 {
                self.set_view(pid, NOTHING);
                self.processes.remove(&pid);
            }
        }
        self.epoch += 1;
    }

    pub(crate) fn on_mmap(&mut self, mmap: &Mmap<'_>, modules: &mut Modules) {
        let end = mmap.start.saturating_add(mmap.length);
        if mmap.kernel {
            let module = Some(modules.intern(ModuleKey::kernel(mmap.path, mmap.build_id)));
            let mapping = Mapping { module, bias: 0 };
            if mmap.start > 0 {
                self.map_kernel(self.kernel, [(mmap.start, end)], mapping);
                return;
            }
            // A kernel that hides where it lies is recorded as mapped everywhere. Programs are not in it.
            let halves = HALVES.iter().filter(|half| half.kernel);
            let ranges = halves.map(|half| (half.first, half.last.saturating_add(1).min(end)));
            self.map_kernel(self.kernel, ranges, mapping);
            return;
        }
        self.enter(mmap.pid, mmap.tid);
        let key = ModuleKey::user(mmap.pid, mmap.path, mmap.build_id);
        let bias = match key.kind {
            ModuleKind::Jit { .. } => 0,
            _ => mmap.offset.wrapping_sub(mmap.start),
        };
        let module = Some(modules.intern(key));
        let (view, mapping) = (self.view(mmap.pid), Mapping { module, bias });
        let view = self.spaces.map(view, mmap.start, end, mapping, self.epoch);
        self.set_view(mmap.pid, view);
        self.epoch += 1;
    }

    /// A function the kernel loaded; its address in the module `[bpf]` is the number of its name.
    pub(crate) fn on_ksymbol(&mut self, function: &Ksymbol<'_>) {
        let end = function.start.saturating_add(function.length.into());
        let mapping = if function.unregistered {
            Mapping { module: None, bias: 0 }
        } else {
            let name = self.intern(function.name);
            Mapping { module: Some(KERNEL_LOADED), bias: name.into() }
        };
        self.map_kernel(self.loaded, [(function.start, end)], mapping);
    }

    /// The kernel owns its spaces, so what it sees stays the same view. All of a record is one change.
    fn map_kernel(
        &mut self,
        view: ViewId,
        ranges: impl IntoIterator<Item = (u64, u64)>,
        mapping: Mapping,
    ) {
        for (start, end) in ranges {
            self.spaces.map(view, start, end, mapping, self.epoch);
        }
        self.epoch += 1;
    }

    fn set_comm(&mut self, tid: i32, comm: CommId) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.comm = comm;
            self.note_comm(tid, comm);
        }
    }

    fn note_comm(&mut self, tid: i32, comm: CommId) {
        if self.keeps_past {
            self.comms.push(Change { id: tid, from: self.epoch + 1, value: comm });
        }
    }

    fn set_view(&mut self, pid: i32, view: ViewId) {
        if let Some(process) = self.processes.get_mut(&pid) {
            let is_same = process.view == view;
            process.view = view;
            // A process with the number of one that is over starts from nothing, too.
            if self.keeps_past && !(is_same && view != NOTHING) {
                self.views.push(Change { id: pid, from: self.epoch + 1, value: view });
            }
        }
    }

    /// Notes a thread seen for the first time, or again after its end.
    fn enter(&mut self, pid: i32, tid: i32) {
        if let Some(thread) = self.threads.get(&tid)
            && thread.alive
            && thread.pid == pid
        {
            self.processes.entry(pid).or_insert(Process { threads: 1, ..Process::default() });
            return;
        }
        let leader = (tid != pid).then(|| self.threads.get(&pid)).flatten();
        let comm = match leader {
            Some(leader) => leader.comm,
            None => self.intern(format!(":{tid}").as_bytes()),
        };
        self.threads.insert(tid, TaskThread { pid, comm, alive: true });
        self.note_comm(tid, comm);
        self.processes.entry(pid).or_default().threads += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: i32, parent: i32) -> TaskRecord {
        TaskRecord { pid, parent_pid: parent, tid: pid, parent_tid: parent, synthesised: false }
    }

    fn name(tasks: &Tasks, pid: i32, tid: i32) -> String {
        match tasks.comm(pid, tid) {
            CommOf::Recorded(comm) => String::from_utf8(tasks.name(comm).to_vec()).unwrap(),
            CommOf::Unnamed(tid) => format!(":{tid}"),
        }
    }

    fn map(tasks: &mut Tasks, pid: i32, start: u64) {
        let view = tasks.view(pid);
        let mapping = Mapping { module: Some(9), bias: 0 };
        let view = tasks.spaces.map(view, start, start + 0x1000, mapping, tasks.epoch);
        tasks.set_view(pid, view);
    }

    fn sees(tasks: &Tasks, pid: i32, address: u64) -> bool {
        tasks.spaces.find(tasks.view(pid), address, tasks.epoch() + 1).mapping.is_some()
    }

    #[test]
    fn names_take_bounded_memory() {
        let mut tasks = Tasks { names_most: 1 << 20, ..Tasks::default() };
        let ids: Vec<CommId> =
            (0..2000).map(|number| tasks.intern(format!("{number:1000}").as_bytes())).collect();
        let kept = ids.iter().filter(|&&id| tasks.name(id) != NOT_KEPT).count();
        assert!((200..1000).contains(&kept), "{kept}");
        assert_eq!(tasks.names_left_out(), 2000 - kept as u64);
        assert_eq!(tasks.intern(format!("{:1000}", 0).as_bytes()), ids[0]);
    }

    #[test]
    fn names_follow_fork_exec_and_end() {
        let mut tasks = Tasks::default();
        let comm = |name: &'static [u8], exec| Comm { pid: 10, tid: 10, name, exec };
        tasks.on_comm(&comm(b"sh", false));
        tasks.on_fork(&task(11, 10));
        assert_eq!(name(&tasks, 11, 11), "sh");
        tasks.on_comm(&Comm { pid: 11, tid: 11, name: b"ls", exec: true });
        assert_eq!((name(&tasks, 11, 11), name(&tasks, 10, 10)), ("ls".into(), "sh".into()));
        // A thread takes the name of the one that made it, and may change it.
        let thread =
            TaskRecord { tid: 12, parent_tid: 11, pid: 11, parent_pid: 11, synthesised: false };
        tasks.on_fork(&thread);
        assert_eq!(name(&tasks, 11, 12), "ls");
        tasks.on_comm(&Comm { pid: 11, tid: 12, name: b"worker", exec: false });
        assert_eq!(name(&tasks, 11, 12), "worker");
        // One that was never told has the name of its process.
        assert_eq!(name(&tasks, 11, 13), "ls");
        tasks.on_exit(&task(11, 10));
        assert_eq!(name(&tasks, 11, 11), "ls");
        assert_eq!((name(&tasks, 0, 0), name(&tasks, 99, 98)), ("swapper".into(), ":98".into()));
    }

    #[test]
    fn mappings_go_with_the_last_thread() {
        let mut tasks = Tasks::default();
        tasks.on_fork(&task(5, 1));
        tasks.on_fork(&TaskRecord {
            tid: 6,
            parent_tid: 5,
            pid: 5,
            parent_pid: 5,
            synthesised: false,
        });
        map(&mut tasks, 5, 0x1000);
        tasks.on_exit(&task(5, 1));
        assert!(sees(&tasks, 5, 0x1800));
        tasks.on_exit(&TaskRecord {
            tid: 6,
            parent_tid: 5,
            pid: 5,
            parent_pid: 5,
            synthesised: false,
        });
        assert!(!sees(&tasks, 5, 0x1800));
        assert!(tasks.processes.is_empty());
    }

    #[test]
    fn a_process_that_was_there_before_does_not_inherit() {
        let mut tasks = Tasks::default();
        tasks.enter(1, 1);
        map(&mut tasks, 1, 0x1000);
        tasks.epoch += 1;
        tasks.on_fork(&TaskRecord { synthesised: true, ..task(2, 1) });
        assert!(!sees(&tasks, 2, 0x1000));
        tasks.on_fork(&task(3, 1));
        assert!(sees(&tasks, 3, 0x1000));
    }
}
