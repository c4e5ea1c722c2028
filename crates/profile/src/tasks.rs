//! Processes and threads as the records tell them: names, and what is mapped where.
//!
//! A child shares its parent's mappings until one of the two changes them (copy on write, as the
//! kernel itself does it): a thousand forks cost a thousand references.

use std::sync::Arc;

use pmuscope_perfdata::reader::{Comm, Mmap, Task};
use pmuscope_symbols::RangeMap;
use rustc_hash::FxHashMap;

use crate::modules::{ModuleId, ModuleKey, Modules};

/// Index of a thread's name.
pub(crate) type CommId = u32;

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) module: ModuleId,
    /// As the module counts: an offset in the file, in the vdso, or the address itself.
    pub(crate) address: u64,
}

/// A mapping; `address + bias` is the place in the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    module: ModuleId,
    bias: u64,
}

type Space = RangeMap<Mapping>;

#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: i32,
    comm: CommId,
    alive: bool,
}

#[derive(Debug, Default)]
struct Process {
    space: Arc<Space>,
    threads: usize,
}

/// Mappings of all processes together that copies may add up to: some 800 MB. A machine full of
/// processes has a few million; a file made for it could ask for any number by forks.
const MOST_MAPPINGS: usize = 16 << 20;

/// All processes at one moment of the recording.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// Mappings held, shared ones once.
    held: usize,
    most: usize,
    left_out: u64,
    threads: FxHashMap<i32, Thread>,
    processes: FxHashMap<i32, Process>,
    kernel: Space,
    names: Vec<Vec<u8>>,
    name_ids: FxHashMap<Vec<u8>, CommId>,
}

impl Default for Tasks {
    fn default() -> Self {
        let mut tasks = Self {
            held: 0,
            most: MOST_MAPPINGS,
            left_out: 0,
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            kernel: Space::default(),
            names: Vec::new(),
            name_ids: FxHashMap::default(),
        };
        // The idle task never tells its name.
        let idle = tasks.intern(b"swapper");
        tasks.threads.insert(0, Thread { pid: 0, comm: idle, alive: true });
        tasks
    }
}

impl Tasks {
    pub(crate) fn name(&self, comm: CommId) -> &[u8] {
        self.name_if_any(comm).unwrap_or_default()
    }

    pub(crate) fn name_if_any(&self, comm: CommId) -> Option<&[u8]> {
        self.names.get(comm as usize).map(Vec::as_slice)
    }

    pub(crate) fn intern(&mut self, name: &[u8]) -> CommId {
        if let Some(&id) = self.name_ids.get(name) {
            return id;
        }
        let id = self.names.len() as CommId;
        self.names.push(name.to_vec());
        self.name_ids.insert(name.to_vec(), id);
        id
    }

    /// Name of a thread; made up from its id where it never told one.
    pub(crate) fn comm(&mut self, pid: i32, tid: i32) -> CommId {
        match self.threads.get(&tid) {
            Some(thread) => thread.comm,
            None => self.enter(pid, tid),
        }
    }

    /// Where an address of a process lies.
    pub(crate) fn find(&self, pid: i32, address: u64) -> Option<Place> {
        place(&self.processes.get(&pid)?.space, address)
    }

    /// Where an address of the kernel lies.
    pub(crate) fn find_kernel(&self, address: u64) -> Option<Place> {
        place(&self.kernel, address)
    }

    pub(crate) fn on_comm(&mut self, comm: &Comm<'_>) {
        self.enter(comm.pid, comm.tid);
        let name = self.intern(comm.name);
        if let Some(thread) = self.threads.get_mut(&comm.tid) {
            thread.comm = name;
        }
        if comm.exec
            && let Some(process) = self.processes.get_mut(&comm.pid)
        {
            let space = std::mem::take(&mut process.space);
            self.release(space);
        }
    }

    pub(crate) fn on_fork(&mut self, task: &Task) {
        let parent = [task.parent_tid, task.parent_pid]
            .iter()
            .find_map(|tid| self.threads.get(tid))
            .map(|thread| thread.comm);
        if task.pid != task.parent_pid {
            let inherited = (!task.synthesised)
                .then(|| self.processes.get(&task.parent_pid))
                .flatten()
                .map(|parent| Arc::clone(&parent.space));
            let process = Process { space: inherited.unwrap_or_default(), threads: 0 };
            if let Some(old) = self.processes.insert(task.pid, process) {
                self.release(old.space);
            }
        }
        self.threads.remove(&task.tid);
        self.enter(task.pid, task.tid);
        if let (Some(comm), Some(thread)) = (parent, self.threads.get_mut(&task.tid)) {
            thread.comm = comm;
        }
    }

    /// The name stays for samples on the way out; the mappings go with the last thread.
    pub(crate) fn on_exit(&mut self, task: &Task) {
        let Some(thread) = self.threads.get_mut(&task.tid).filter(|thread| thread.alive) else {
            return;
        };
        thread.alive = false;
        let pid = thread.pid;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads = process.threads.saturating_sub(1);
            if process.threads == 0
                && let Some(process) = self.processes.remove(&pid)
            {
                self.release(process.space);
            }
        }
    }

    fn release(&mut self, space: Arc<Space>) {
        if let Some(space) = Arc::into_inner(space) {
            self.held = self.held.saturating_sub(space.len());
        }
    }

    /// Mappings not taken over for want of memory.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn on_mmap(&mut self, mmap: &Mmap<'_>, modules: &mut Modules) {
        let end = mmap.start.saturating_add(mmap.length);
        if mmap.kernel {
            let module = modules.intern(ModuleKey::kernel(mmap.path, mmap.build_id));
            self.kernel.insert(mmap.start, end, Mapping { module, bias: 0 });
            return;
        }
        self.enter(mmap.pid, mmap.tid);
        let key = ModuleKey::user(mmap.pid, mmap.path, mmap.build_id);
        let bias = match key.kind {
            crate::ModuleKind::Jit { .. } => 0,
            _ => mmap.offset.wrapping_sub(mmap.start),
        };
        let module = modules.intern(key);
        let Some(process) = self.processes.get_mut(&mmap.pid) else { return };
        let before = process.space.len();
        if Arc::get_mut(&mut process.space).is_none() {
            if self.held + before > self.most {
                self.left_out += 1;
                return;
            }
            self.held += before;
        }
        let space = Arc::make_mut(&mut process.space);
        space.insert(mmap.start, end, Mapping { module, bias });
        self.held = (self.held + space.len()).saturating_sub(before);
    }

    /// Notes a thread seen for the first time, or again after its end.
    fn enter(&mut self, pid: i32, tid: i32) -> CommId {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.alive
            && thread.pid == pid
        {
            self.processes
                .entry(pid)
                .or_insert_with(|| Process { threads: 1, ..Process::default() });
            return thread.comm;
        }
        let leader = (tid != pid).then(|| self.threads.get(&pid)).flatten();
        let comm = match leader {
            Some(leader) => leader.comm,
            None => self.intern(format!(":{tid}").as_bytes()),
        };
        self.threads.insert(tid, Thread { pid, comm, alive: true });
        self.processes.entry(pid).or_default().threads += 1;
        comm
    }
}

fn place(space: &Space, address: u64) -> Option<Place> {
    let mapping = space.get(address)?;
    Some(Place { module: mapping.module, address: address.wrapping_add(mapping.bias) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    fn mmap<'a>(pid: i32, start: u64, length: u64, offset: u64, path: &'a [u8]) -> Mmap<'a> {
        Mmap { pid, tid: pid, start, length, offset, path, executable: true, ..Mmap::default() }
    }

    fn task(pid: i32, parent: i32) -> Task {
        Task { pid, parent_pid: parent, tid: pid, parent_tid: parent, synthesised: false }
    }

    #[test]
    fn names_follow_fork_exec_and_end() {
        let mut tasks = Tasks::default();
        let comm = |name: &'static [u8], exec| Comm { pid: 10, tid: 10, name, exec };
        tasks.on_comm(&comm(b"sh", false));
        tasks.on_fork(&task(11, 10));
        let name = |tasks: &mut Tasks, pid, tid| {
            let id = tasks.comm(pid, tid);
            String::from_utf8(tasks.name(id).to_vec()).unwrap()
        };
        assert_eq!(name(&mut tasks, 11, 11), "sh");
        tasks.on_comm(&Comm { pid: 11, tid: 11, name: b"ls", exec: true });
        assert_eq!(
            (name(&mut tasks, 11, 11), name(&mut tasks, 10, 10)),
            ("ls".into(), "sh".into())
        );
        // A thread takes the name of the one that made it, and may change it.
        tasks.on_fork(&Task {
            tid: 12,
            parent_tid: 11,
            pid: 11,
            parent_pid: 11,
            synthesised: false,
        });
        assert_eq!(name(&mut tasks, 11, 12), "ls");
        tasks.on_comm(&Comm { pid: 11, tid: 12, name: b"worker", exec: false });
        assert_eq!(name(&mut tasks, 11, 12), "worker");
        tasks.on_exit(&task(11, 10));
        assert_eq!(name(&mut tasks, 11, 11), "ls");
        assert_eq!(
            (name(&mut tasks, 0, 0), name(&mut tasks, 99, 98)),
            ("swapper".into(), ":98".into())
        );
    }

    #[test]
    fn mappings_go_with_the_last_thread() {
        let (mut tasks, mut modules) = (Tasks::default(), Modules::default());
        tasks.on_fork(&task(5, 1));
        tasks.on_fork(&Task { tid: 6, parent_tid: 5, pid: 5, parent_pid: 5, synthesised: false });
        tasks.on_mmap(&mmap(5, 0x1000, 0x1000, 0, b"/bin/x"), &mut modules);
        tasks.on_exit(&task(5, 1));
        assert!(tasks.find(5, 0x1800).is_some());
        tasks.on_exit(&Task { tid: 6, parent_tid: 5, pid: 5, parent_pid: 5, synthesised: false });
        assert_eq!(tasks.find(5, 0x1800), None);
        assert!(tasks.processes.is_empty());
    }

    #[test]
    fn a_process_that_was_there_before_does_not_inherit() {
        let (mut tasks, mut modules) = (Tasks::default(), Modules::default());
        tasks.on_mmap(&mmap(1, 0x1000, 0x1000, 0, b"/sbin/init"), &mut modules);
        tasks.on_fork(&Task { synthesised: true, ..task(2, 1) });
        assert_eq!(tasks.find(2, 0x1000), None);
        tasks.on_fork(&task(3, 1));
        assert!(tasks.find(3, 0x1000).is_some());
    }

    #[test]
    fn forks_of_a_large_process_cannot_take_all_memory() {
        let (mut tasks, mut modules) =
            (Tasks { most: 500, ..Tasks::default() }, Modules::default());
        for at in 0..100 {
            tasks.on_mmap(&mmap(1, at * 10, 5, 0, b"/f"), &mut modules);
        }
        for pid in 2..50 {
            tasks.on_fork(&task(pid, 1));
            tasks.on_mmap(&mmap(pid, 3, 1, 0, b"/g"), &mut modules);
        }
        assert!(tasks.held <= 510, "{}", tasks.held);
        assert!(tasks.left_out() > 40);
        (1..50).for_each(|pid| tasks.on_exit(&task(pid, 0)));
        assert_eq!(tasks.held, 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Map { pid: i32, start: u64, length: u64, file: u8 },
        Fork { pid: i32, parent: i32 },
        Exec { pid: i32 },
        Exit { pid: i32 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let pid = || 1_i32..6;
        prop_oneof![
            5 => (pid(), 0_u64..50, 0_u64..20, 0_u8..4)
                .prop_map(|(pid, start, length, file)| Step::Map { pid, start, length, file }),
            2 => (pid(), pid()).prop_map(|(pid, parent)| Step::Fork { pid, parent }),
            1 => pid().prop_map(|pid| Step::Exec { pid }),
            1 => pid().prop_map(|pid| Step::Exit { pid }),
        ]
    }

    proptest! {
        /// Against one table per process with an entry per address.
        #[test]
        fn lookups_equal_a_table_of_every_address(steps in proptest::collection::vec(step(), 0..80)) {
            let (mut tasks, mut modules) = (Tasks::default(), Modules::default());
            let mut tables: HashMap<i32, Vec<Option<(u8, u64)>>> = HashMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Map { pid, start, length, file } => {
                        let offset = number as u64 * 1000;
                        let path = format!("/file{file}");
                        tasks.on_mmap(&mmap(pid, start, length, offset, path.as_bytes()), &mut modules);
                        let table = tables.entry(pid).or_insert_with(|| vec![None; 70]);
                        for address in start..start + length {
                            table[address as usize] = Some((file, offset + address - start));
                        }
                    }
                    Step::Fork { pid, parent } if pid != parent => {
                        tasks.on_fork(&task(pid, parent));
                        let table = tables.get(&parent).cloned().unwrap_or_else(|| vec![None; 70]);
                        tables.insert(pid, table);
                    }
                    Step::Fork { .. } => {}
                    Step::Exec { pid } => {
                        tasks.on_comm(&Comm { pid, tid: pid, name: b"new", exec: true });
                        tables.insert(pid, vec![None; 70]);
                    }
                    Step::Exit { pid } => {
                        tasks.on_exit(&task(pid, 0));
                        tables.remove(&pid);
                    }
                }
            }
            for pid in 1..6 {
                for address in 0..70 {
                    let expected = tables.get(&pid).and_then(|table| table[address as usize]);
                    let found = tasks.find(pid, address).map(|place| {
                        let path = &modules.list()[place.module as usize].path;
                        (path[5] - b'0', place.address)
                    });
                    prop_assert_eq!(found, expected, "pid {} address {}", pid, address);
                }
            }
            (1..6).for_each(|pid| tasks.on_exit(&task(pid, 0)));
            prop_assert_eq!(tasks.held, 0);
        }
    }
}
