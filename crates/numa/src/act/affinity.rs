//! Pins threads of other processes to nodes, those that are born later too, and lets them go again.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use pmuscope_machine::{CpuSet, Machine, Topology, place};

use super::ActError;
use super::state::{ProcessState, Restored, StateFile, ThreadState, restore_process};

/// Who is pinned to what.
#[derive(Debug)]
pub(super) struct Pinner {
    machine: Machine,
    /// CPUs of each node, by its number.
    nodes: Vec<(u32, CpuSet)>,
    state: StateFile,
    pinned: BTreeMap<u32, Pinned>,
}

#[derive(Debug, Clone)]
struct Pinned {
    state: ProcessState,
    cpus: CpuSet,
}

/// A refusal of `sched_setaffinity(2)` or `sched_getaffinity(2)`, in words.
pub(super) fn call(pid: u32, tid: u32, source: io::Error) -> ActError {
    match source.raw_os_error() {
        Some(ESRCH) => ActError::Gone { pid },
        _ if source.kind() == io::ErrorKind::PermissionDenied => ActError::NotPermitted { pid },
        _ => ActError::Affinity { pid, tid, source },
    }
}

/// No such process.
pub(super) const ESRCH: i32 = 3;

impl Pinner {
    /// Notes what it changes in a file in `folder`.
    pub(super) fn new(
        machine: &Machine,
        topology: &Topology,
        folder: &Path,
    ) -> Result<Self, ActError> {
        Ok(Self {
            machine: machine.clone(),
            nodes: topology.nodes.iter().map(|node| (node.id, node.cpus.clone())).collect(),
            state: StateFile::new(machine, folder)?,
            pinned: BTreeMap::new(),
        })
    }

    /// The CPUs that each thread of a process might run on if it were not for us.
    pub(super) fn allowed(&self, pid: u32) -> Result<Vec<CpuSet>, ActError> {
        if let Some(pinned) = self.pinned.get(&pid) {
            let threads = pinned.state.threads.iter();
            return Ok(threads.map(|thread| thread.original.clone()).collect());
        }
        let mut all = Vec::new();
        for tid in self.machine.threads(pid)? {
            match place::affinity_of(tid) {
                Ok(cpus) => all.push(cpus),
                // It ended since.
                Err(error) if error.raw_os_error() == Some(ESRCH) => {}
                Err(error) => return Err(call(pid, tid, error)),
            }
        }
        if all.is_empty() { Err(ActError::Gone { pid }) } else { Ok(all) }
    }

    /// Lets all threads of a process run on these nodes only. How many it has.
    pub(super) fn pin(&mut self, pid: u32, nodes: &[u32]) -> Result<usize, ActError> {
        let mut cpus = CpuSet::new();
        for (_, of_node) in self.nodes.iter().filter(|(id, _)| nodes.contains(id)) {
            cpus = cpus.union(of_node);
        }
        let mut pinned = match self.pinned.get(&pid) {
            Some(known) => Pinned { cpus, ..known.clone() },
            None => Pinned { state: self.found(pid)?, cpus },
        };
        pinned.refresh(&self.machine)?;
        let before = self.pinned.insert(pid, pinned.clone());
        self.note()?;
        match pinned.apply() {
            Ok(threads) => Ok(threads),
            Err(error) => {
                // Half of it may be done.
                match before {
                    Some(before) => {
                        let _ = before.apply();
                        self.pinned.insert(pid, before);
                    }
                    None => self.let_go(pid)?,
                }
                Err(error)
            }
        }
    }

    /// A process as it is before it is touched.
    fn found(&self, pid: u32) -> Result<ProcessState, ActError> {
        let start = self.machine.task(pid, pid)?.start;
        let original = place::affinity_of(pid).map_err(|error| call(pid, pid, error))?;
        Ok(ProcessState { pid, start, original, threads: Vec::new() })
    }

    /// Pins threads that were born since. Processes that ended are forgotten.
    pub(super) fn refresh(&mut self) -> Result<(), ActError> {
        let mut changed = Vec::new();
        let mut gone = Vec::new();
        for (&pid, pinned) in &mut self.pinned {
            match pinned.refresh(&self.machine) {
                Ok(true) => changed.push(pid),
                Ok(false) => {}
                Err(_) => gone.push(pid),
            }
        }
        for pid in &gone {
            self.pinned.remove(pid);
        }
        if !changed.is_empty() || !gone.is_empty() {
            self.note()?;
        }
        for pid in changed {
            if let Some(pinned) = self.pinned.get(&pid) {
                // What cannot be pinned runs where its creator was let run: that is no reason to end.
                let _ = pinned.apply();
            }
        }
        Ok(())
    }

    /// Lets the threads of a process run where they could before.
    pub(super) fn let_go(&mut self, pid: u32) -> Result<(), ActError> {
        let Some(pinned) = self.pinned.get(&pid) else { return Ok(()) };
        // Those that were born since have what their creator was given.
        let outcome = restore_process(&self.machine, &pinned.state);
        if let Restored::Refused { why } = outcome {
            return Err(ActError::NotRestored { pid, why });
        }
        self.pinned.remove(&pid);
        self.note()
    }

    /// The file says what there is; none if there is nothing.
    fn note(&self) -> Result<(), ActError> {
        if self.pinned.is_empty() {
            self.state.remove();
            return Ok(());
        }
        let states = self.pinned.values().map(|pinned| pinned.state.clone());
        Ok(self.state.write(states.collect())?)
    }
}

impl Drop for Pinner {
    /// Whatever happened: nobody stays pinned.
    fn drop(&mut self) {
        for pid in self.pinned.keys().copied().collect::<Vec<_>>() {
            // What is left is in the file, for `numa restore`.
            let _ = self.let_go(pid);
        }
    }
}

impl Pinned {
    /// Notes all threads, and what each is to be given. Whether anything is to be done.
    fn refresh(&mut self, machine: &Machine) -> Result<bool, ActError> {
        let pid = self.state.pid;
        if machine.task(pid, pid)?.start != self.state.start {
            return Err(ActError::Gone { pid });
        }
        let given: Vec<CpuSet> =
            self.state.threads.iter().filter_map(|thread| thread.set.clone()).collect();
        let mut threads = Vec::new();
        let mut changed = false;
        for tid in machine.threads(pid)? {
            let (Ok(now), Ok(task)) = (place::affinity_of(tid), machine.task(pid, tid)) else {
                continue;
            };
            let known =
                self.state.threads.iter().find(|it| it.tid == tid && it.start == task.start);
            let original = match known {
                Some(known) => known.original.clone(),
                // Its creator had been pinned.
                None if given.contains(&now) => self.state.original.clone(),
                None => now,
            };
            let wanted = original.intersection(&self.cpus);
            let set = (!wanted.is_empty()).then_some(wanted);
            changed |= known.is_none_or(|known| known.set != set);
            threads.push(ThreadState { tid, start: task.start, original, set });
        }
        self.state.threads = threads;
        Ok(changed)
    }

    fn apply(&self) -> Result<usize, ActError> {
        let mut count = 0;
        for thread in &self.state.threads {
            let Some(cpus) = &thread.set else { continue };
            match place::set_affinity_of(thread.tid, cpus) {
                Ok(()) => count += 1,
                Err(error) if error.raw_os_error() == Some(ESRCH) => {}
                Err(error) => return Err(call(self.state.pid, thread.tid, error)),
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Child, Command};

    use super::*;
    use crate::act::{ActError, restore};
    use crate::nodes::tests::topology;

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A process to pin, and two CPUs that it may use, as nodes 0 and 1; `None` where there is one CPU.
    fn sleeper() -> Option<(Sleeper, Topology, [CpuSet; 3])> {
        let all = place::affinity().unwrap();
        let [first, second] = [all.iter().next()?, all.iter().nth(1)?];
        let sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
        let one = |cpu| CpuSet::from_iter([cpu]);
        let topology = topology(&[(0, &[first]), (1, &[second])]);
        Some((sleeper, topology, [all, one(first), one(second)]))
    }

    #[test]
    fn threads_are_pinned_and_let_go_and_the_note_goes() {
        let Some((sleeper, topology, [all, first, second])) = sleeper() else {
            return eprintln!("skipped: one CPU only");
        };
        let pid = sleeper.0.id();
        let folder = tempfile::tempdir().unwrap();
        let mut pinner = Pinner::new(&Machine::host(), &topology, folder.path()).unwrap();
        assert_eq!(pinner.allowed(pid).unwrap(), std::slice::from_ref(&all));
        assert_eq!(pinner.pin(pid, &[1]).unwrap(), 1);
        assert_eq!(place::affinity_of(pid).unwrap(), second);
        assert_eq!(pinner.allowed(pid).unwrap(), std::slice::from_ref(&all), "as found");
        let note = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        assert_eq!(note.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        pinner.pin(pid, &[0]).unwrap();
        assert_eq!(place::affinity_of(pid).unwrap(), first);
        pinner.let_go(pid).unwrap();
        assert_eq!(place::affinity_of(pid).unwrap(), all);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        pinner.pin(pid, &[1]).unwrap();
        drop(pinner);
        assert_eq!(place::affinity_of(pid).unwrap(), all, "also when it is dropped");
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_is_left_alone() {
        let Some((sleeper, topology, [_, first, _])) = sleeper() else {
            return eprintln!("skipped: one CPU only");
        };
        let pid = sleeper.0.id();
        let folder = tempfile::tempdir().unwrap();
        let mut pinner = Pinner::new(&Machine::host(), &topology, folder.path()).unwrap();
        pinner.pin(pid, &[1]).unwrap();
        place::set_affinity_of(pid, &first).unwrap();
        pinner.let_go(pid).unwrap();
        assert_eq!(place::affinity_of(pid).unwrap(), first);
    }

    #[test]
    fn a_refusal_names_the_right_that_is_missing() {
        let said = |errno| call(7, 8, io::Error::from_raw_os_error(errno)).to_string();
        assert!(said(1).contains("CAP_SYS_NICE") && said(1).contains("-p 7"), "{}", said(1));
        assert_eq!(said(ESRCH), "process 7 has ended");
        assert!(said(22).contains("thread 8 of process 7"), "{}", said(22));
    }

    #[test]
    fn a_process_that_ended_is_told_of() {
        let Some((mut sleeper, topology, _)) = sleeper() else {
            return eprintln!("skipped: one CPU only");
        };
        let pid = sleeper.0.id();
        let folder = tempfile::tempdir().unwrap();
        let mut pinner = Pinner::new(&Machine::host(), &topology, folder.path()).unwrap();
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        assert!(matches!(pinner.pin(pid, &[1]), Err(ActError::Gone { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_killed_run_is_put_right_from_its_note() {
        let Some((sleeper, topology, [all, _, second])) = sleeper() else {
            return eprintln!("skipped: one CPU only");
        };
        let pid = sleeper.0.id();
        let machine = Machine::host();
        let folder = tempfile::tempdir().unwrap();
        let mut pinner = Pinner::new(&machine, &topology, folder.path()).unwrap();
        pinner.pin(pid, &[1]).unwrap();
        std::mem::forget(pinner);
        let restored = || restore(&machine, folder.path(), &[]).unwrap();
        let own = std::process::id();
        assert_eq!(restored(), [(pid, Restored::Held { by: own })]);
        assert_eq!(place::affinity_of(pid).unwrap(), second);
        // As if another process had had our number, and had been killed.
        let note = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&note).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["start"] = 1.into();
        std::fs::write(&note, json.to_string()).unwrap();
        assert_eq!(restore(&machine, folder.path(), &[pid + 1]).unwrap(), []);
        assert_eq!(restored(), [(pid, Restored::Threads { restored: 1, left: 0 })]);
        assert_eq!(place::affinity_of(pid).unwrap(), all);
        assert_eq!(restored(), []);
        // A process that has the number of one that ended is not touched.
        json["processes"][0]["start"] = 1.into();
        std::fs::write(&note, json.to_string()).unwrap();
        assert_eq!(restored(), [(pid, Restored::Ended)]);
        std::fs::write(&note, "{").unwrap();
        let error = restore(&machine, folder.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("is not a state file of numa balance"), "{error}");
    }
}
