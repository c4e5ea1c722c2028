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

/// Processes that have ended of which it is kept what they saw.
const MOST_ENDED: usize = 1 << 20;
/// Name of id 0 where it is not the idle task's alone.
const OTHER_NAMESPACES: &[u8] = b"[other PID namespaces]";
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
    /// The program that it executes: the first file that it mapped.
    program: Option<ModuleId>,
    /// Who forked it, unless it executed another program since.
    parent: Option<i32>,
    /// Tells it from what had its id before, or what it executed before.
    incarnation: u32,
}

impl Default for Process {
    fn default() -> Self {
        Self { view: NOTHING, threads: 0, program: None, parent: None, incarnation: 0 }
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
    /// Whether task id 0 has records of a task.
    other_namespaces: bool,
    /// Bytes that names take, and may take; and how often there was no room for another.
    names_held: usize,
    names_most: usize,
    names_left_out: u64,
    /// Processes that were started, and executed programs.
    incarnations: u32,
    /// Processes by who forked them, unless they executed another program since.
    forked: FxHashMap<i32, i32>,
    /// What processes that ended saw last, where that is asked for.
    ended: Option<FxHashMap<i32, ViewId>>,
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
            other_namespaces: false,
            names_held: 0,
            names_most: memory_limit() / 8,
            names_left_out: 0,
            incarnations: 0,
            forked: FxHashMap::default(),
            ended: None,
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
            let program = process.program.map(|program| own.adopt(modules, program));
            living.processes.insert(pid, Process { view, program, ..*process });
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
            Some(module) => Mapping { module: Some(own.adopt(modules, module)), ..mapping },
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

    /// Whether id 0 stands for tasks of other PID namespaces, too.
    pub(crate) fn has_other_namespaces(&self) -> bool {
        self.other_namespaces
    }

    /// Takes a record of the task with id 0. To a recorder in a container the kernel tells all tasks outside with that id:
    /// they are many, and the idle task itself never has a name, a file or a child.
    pub(crate) fn on_other_namespaces(&mut self) {
        if !std::mem::replace(&mut self.other_namespaces, true) {
            let name = self.intern(OTHER_NAMESPACES);
            self.set_comm(0, name);
            self.epoch += 1;
        }
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

    /// Name of a thread, now; made up from its id where it never told one, as perf does: the name of its process need not
    /// be its own.
    pub(crate) fn comm(&self, tid: i32) -> CommOf {
        let told = self.threads.get(&tid);
        told.map_or(CommOf::Unnamed(tid), |thread| CommOf::Recorded(thread.comm))
    }

    /// Process of a thread that a record has named.
    pub(crate) fn process(&self, tid: i32) -> Option<i32> {
        self.threads.get(&tid).map(|thread| thread.pid)
    }

    /// What a process sees, now; or saw last, if it has ended and that [is kept](Self::keep_ended).
    pub(crate) fn view(&self, pid: i32) -> ViewId {
        let ended = || self.ended.as_ref()?.get(&pid).copied();
        self.processes.get(&pid).map_or_else(|| ended().unwrap_or(NOTHING), |process| process.view)
    }

    /// A number that differs where a process executed another program, or another process has its id.
    pub(crate) fn incarnation(&self, pid: i32) -> u32 {
        self.processes.get(&pid).map_or(0, |process| process.incarnation)
    }

    /// Who forked a process that executes the same program: code that was generated before is in both. Of a process that
    /// was there before the recording it has to be the same file.
    pub(crate) fn forked_by(&self, pid: i32) -> Option<i32> {
        let recorded = self.forked.get(&pid).copied();
        recorded.or_else(|| {
            let own = self.processes.get(&pid)?;
            let parent = own.parent.filter(|_| own.program.is_some())?;
            (self.processes.get(&parent)?.program == own.program).then_some(parent)
        })
    }

    /// From now on, what processes see is kept when they end: samples that sum up their time come later.
    pub(crate) fn keep_ended(&mut self) {
        self.ended = Some(FxHashMap::default());
    }

    pub(crate) fn on_comm(&mut self, comm: &Comm<'_>) {
        self.enter(comm.pid, comm.tid);
        let name = self.intern(comm.name);
        self.set_comm(comm.tid, name);
        if comm.exec {
            self.set_view(comm.pid, NOTHING);
            if let Some(process) = self.processes.get_mut(&comm.pid) {
                process.program = None;
                process.parent = None;
                self.incarnations += 1;
                process.incarnation = self.incarnations;
                self.forked.remove(&comm.pid);
            }
        }
        self.epoch += 1;
    }

    pub(crate) fn on_fork(&mut self, task: &TaskRecord) {
        // One that was there before has had time to take another name than its parent's.
        let parents = [task.parent_tid, task.parent_pid];
        let parent = parents.iter().find_map(|tid| self.threads.get(tid));
        let parent = parent.filter(|_| !task.synthesised).map(|thread| thread.comm);
        if task.pid != task.parent_pid {
            let (view, program) = match self.processes.get(&task.parent_pid) {
                Some(parent) if !task.synthesised => {
                    (self.spaces.fork(parent.view, self.epoch), parent.program)
                }
                _ => (NOTHING, None),
            };
            self.ended.as_mut().map(|ended| ended.remove(&task.pid));
            let parent = Some(task.parent_pid);
            // A process that was there before is the first of its id.
            self.incarnations += u32::from(!task.synthesised);
            let incarnation = if task.synthesised { 0 } else { self.incarnations };
            let process = Process { program, parent, incarnation, ..Process::default() };
            self.processes.insert(task.pid, process);
            self.forked.remove(&task.pid);
            if !task.synthesised && self.forked.len() < MOST_ENDED {
                self.forked.insert(task.pid, task.parent_pid);
            }
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
                let view = process.view;
                if let Some(ended) = self.ended.as_mut().filter(|ended| ended.len() < MOST_ENDED) {
                    ended.insert(pid, view);
                }
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
        let key = ModuleKey::user(mmap, self.incarnation(mmap.pid));
        let view = self.view(mmap.pid);
        let mapping = match key.kind {
            ModuleKind::Jit { pid } => {
                // While it writes code, a runtime may take away the right to execute it.
                let code = ModuleKey::generated(pid, key.incarnation);
                let code = modules.known(&code).filter(|_| key.is_data());
                if code.is_some_and(|code| self.is_all_in(code, mmap.pid, (mmap.start, end))) {
                    return;
                }
                let moved = mmap.executable.then(|| self.moved_text(mmap.pid, (mmap.start, end)));
                let new = || Mapping { module: Some(modules.intern(key)), bias: 0 };
                moved.flatten().unwrap_or_else(new)
            }
            kind => {
                let module = modules.intern(key);
                let bias = mmap.offset.wrapping_sub(mmap.start);
                if kind == ModuleKind::File && mmap.executable {
                    modules.mapped_by(module, mmap.pid, bias);
                    if let Some(process) = self.processes.get_mut(&mmap.pid) {
                        process.program.get_or_insert(module);
                    }
                }
                Mapping { module: Some(module), bias }
            }
        };
        let view = self.spaces.map(view, mmap.start, end, mapping, self.epoch);
        self.set_view(mmap.pid, view);
        self.epoch += 1;
    }

    /// Whether both ends of a range of a process are in one module.
    fn is_all_in(&self, module: ModuleId, pid: i32, (start, end): (u64, u64)) -> bool {
        let Some(process) = self.processes.get(&pid) else { return false };
        let at = |address| {
            let found = self.spaces.find(process.view, address, self.epoch).mapping;
            found.and_then(|mapping| mapping.module) == Some(module)
        };
        at(start) && at(end.saturating_sub(1))
    }

    /// The text of a process's own program, where `range` of memory without a file takes its place: programs copy their
    /// text to huge pages. Of libraries, which can be unloaded, code generated at run time may take the place.
    fn moved_text(&self, pid: i32, (start, end): (u64, u64)) -> Option<Mapping> {
        let Process { view, program, .. } = *self.processes.get(&pid)?;
        let at = |address| self.spaces.find(view, address, self.epoch).mapping;
        let of_program =
            at(start).filter(|found| found.module.is_some() && found.module == program);
        of_program.filter(|found| at(end.saturating_sub(1)) == Some(*found))
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
        let comm = self.intern(format!(":{tid}").as_bytes());
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

    fn name(tasks: &Tasks, tid: i32) -> String {
        match tasks.comm(tid) {
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
        assert_eq!(name(&tasks, 11), "sh");
        tasks.on_comm(&Comm { pid: 11, tid: 11, name: b"ls", exec: true });
        assert_eq!((name(&tasks, 11), name(&tasks, 10)), ("ls".into(), "sh".into()));
        // A thread takes the name of the one that made it, and may change it.
        let thread =
            TaskRecord { tid: 12, parent_tid: 11, pid: 11, parent_pid: 11, synthesised: false };
        tasks.on_fork(&thread);
        assert_eq!(name(&tasks, 12), "ls");
        tasks.on_comm(&Comm { pid: 11, tid: 12, name: b"worker", exec: false });
        assert_eq!(name(&tasks, 12), "worker");
        // One that was never told has no name: it may have another than its process.
        assert_eq!(name(&tasks, 13), ":13");
        tasks.on_fork(&TaskRecord { synthesised: true, tid: 14, ..thread });
        assert_eq!(name(&tasks, 14), ":14");
        tasks.on_exit(&task(11, 10));
        assert_eq!(name(&tasks, 11), "ls");
        assert_eq!((name(&tasks, 0), name(&tasks, 98)), ("swapper".into(), ":98".into()));
    }

    #[test]
    fn memory_is_code_once_it_was_executable_and_else_data() {
        let mut tasks = Tasks::default();
        let mut modules = Modules::default();
        tasks.on_fork(&task(5, 1));
        let mut map = |start, executable, modules: &mut Modules| {
            let path = b"//anon";
            let protection = Some((if executable { 5 } else { 3 }, 2));
            let mapping = Mmap { pid: 5, tid: 5, start, length: 0x1000, path, ..Mmap::default() };
            tasks.on_mmap(&Mmap { executable, protection, ..mapping }, modules);
            let found = tasks.spaces.find(tasks.view(5), start, tasks.epoch).mapping;
            modules.list()[found.unwrap().module.unwrap() as usize].is_data()
        };
        assert!(map(0x1000, false, &mut modules), "written before it is executed");
        assert!(!map(0x1000, true, &mut modules));
        assert!(!map(0x1000, false, &mut modules), "written again");
        assert!(map(0x8000, false, &mut modules), "another place");
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
