//! What a process belongs to: its service, version, unit, container and pod.
//!
//! ```text
//!  /proc/PID/cgroup ─► CgroupIdentity ─► unit, container, pod
//!  runtime's files ──► ContainerNames ─► name of the container
//!  /proc/PID/exe ────► ProgramVersions ─► version
//!
//!  service: name of the unit, else of the container, else of the process; __other__ beyond 1,000 of a bin
//! ```
//! Processes are read soon after they began, and those that ran again at the end of each bin: by then the shell that was
//! seen first runs its program. To find the new ones among thousands, only the ids are looked at that were given since:
//!
//! ```text
//!  read before up to 4711        now 4715 (/proc/loadavg): 4712 to 4715        the next bin: all of /proc
//! ```

mod cgroup_identity;
mod container_names;
mod versions;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmuscope_dataset::TaskIdentity;
use pmuscope_machine::Machine;
use pmuscope_profile::aggregate::Task;

pub use cgroup_identity::CgroupIdentity;

use self::container_names::ContainerNames;
use self::versions::{FileStamp, ProgramVersions};

/// Services of a host and bin at most: names of processes can be anything.
const MOST_SERVICES: usize = 1000;
/// More new ids than this, and the list of all processes is read instead.
const MANY_NEW: u32 = 10_000;
/// The service of all others.
const OTHER: &str = "__other__";

/// Processes that were seen, and what they belong to: those of the current bin, and those that still run.
#[derive(Debug)]
pub struct Services {
    machine: Machine,
    version: Option<Arc<str>>,
    known: BTreeMap<i32, SeenProcess>,
    /// Those of them that were not read again yet.
    new: Vec<i32>,
    /// The id of the newest task when processes were read last, since the bin began.
    newest: Option<u32>,
    containers: ContainerNames,
    versions: ProgramVersions,
    /// Services of this bin.
    named: RefCell<BTreeSet<Arc<str>>>,
}

/// A process that was seen.
#[derive(Debug, Clone, Default)]
struct SeenProcess {
    cgroup: CgroupIdentity,
    /// Path of its cgroup, where that says something.
    path: Option<Arc<str>>,
    /// Name of its container.
    container_name: Option<Arc<str>>,
    name: Option<Arc<str>>,
    program: Option<FileStamp>,
    version: Option<Arc<str>>,
}

impl Services {
    /// None yet. All services have this version, where there is one; otherwise that of their program.
    #[must_use]
    pub fn new(machine: Machine, version: Option<Arc<str>>) -> Self {
        let containers = ContainerNames::new(machine.root());
        let versions = ProgramVersions::new(machine.root());
        let (known, named) = (BTreeMap::new(), RefCell::default());
        Self { machine, version, known, new: Vec::new(), newest: None, containers, versions, named }
    }

    /// Reads what new processes belong to. A process that begins and ends between two calls stays
    /// unknown.
    pub fn read_new(&mut self) {
        let mut new = Vec::new();
        for id in self.perhaps_new() {
            let Ok(pid) = i32::try_from(id) else { continue };
            if !self.known.contains_key(&pid)
                && let Some(path) = self.machine.cgroup_path(id)
            {
                let cgroup = CgroupIdentity::of(&path);
                let path = cgroup.is_known().then(|| Arc::from(path));
                let mut seen = SeenProcess { cgroup, path, ..SeenProcess::default() };
                self.read_process(id, &mut seen);
                self.known.insert(pid, seen);
                new.push(pid);
            }
        }
        self.read_versions(new.iter().copied());
        self.new.append(&mut new);
    }

    /// Processes among which all are that began since the last time.
    fn perhaps_new(&mut self) -> Vec<u32> {
        let newest = self.machine.newest_task();
        let before = std::mem::replace(&mut self.newest, newest);
        match (before, newest) {
            (Some(before), Some(now)) if before <= now && now - before < MANY_NEW => {
                (before + 1..=now).filter(|&id| self.machine.is_process(id)).collect()
            }
            _ => self.machine.processes().unwrap_or_default(),
        }
    }

    /// Reads again what these processes run and how they are called now, and new ones whether they are among them or not;
    /// those that have ended stay as they were.
    pub fn read_again(&mut self, ran: impl Iterator<Item = i32>) {
        let ran: BTreeSet<i32> = ran.chain(self.new.drain(..)).collect();
        let mut known = std::mem::take(&mut self.known);
        for pid in &ran {
            if let Some(seen) = known.get_mut(pid) {
                self.read_process(pid.unsigned_abs(), seen);
            }
        }
        self.known = known;
        self.read_versions(ran.iter().copied());
    }

    /// Versions of the programs that these processes run.
    fn read_versions(&mut self, pids: impl Iterator<Item = i32> + Clone) {
        if self.version.is_some() {
            return;
        }
        let program = |pid: i32| Some((pid.unsigned_abs(), self.known.get(&pid)?.program?));
        self.versions.read(pids.clone().filter_map(program));
        for pid in pids {
            let Some(seen) = self.known.get_mut(&pid) else { continue };
            // A program that is not there any more has the version that it had.
            let version = seen.program.and_then(|program| self.versions.of(program));
            seen.version = version.or(seen.version.take());
        }
    }

    fn read_process(&mut self, pid: u32, seen: &mut SeenProcess) {
        if let Some(name) = self.process_name(pid) {
            seen.name = Some(name);
        }
        if let (Some(id), None) = (&seen.cgroup.container, &seen.container_name) {
            seen.container_name = self.containers.of(id);
        }
        let program = FileStamp::of_process(self.machine.root(), pid);
        if program.is_some() && program != seen.program {
            (seen.program, seen.version) = (program, None);
        }
    }

    /// Forgets processes that have ended: their numbers will be given to others. The next bin begins.
    pub fn forget_ended(&mut self) {
        self.named.get_mut().clear();
        self.newest = None;
        let Ok(running) = self.machine.processes() else { return };
        let running: BTreeSet<u32> = running.into_iter().collect();
        self.known.retain(|&pid, _| u32::try_from(pid).is_ok_and(|pid| running.contains(&pid)));
    }

    /// Whether it is known what a process belongs to.
    #[must_use]
    pub fn knows(&self, task: &Task) -> bool {
        // The kernel's threads and the idle task are in no cgroup that says anything.
        task.pid.is_none_or(|pid| pid <= 0 || self.known.contains_key(&pid))
    }

    /// The cgroups that say something, with what most of them say: what their first process belongs to.
    #[must_use]
    pub fn cgroups(&self) -> BTreeMap<Arc<str>, TaskIdentity> {
        let mut cgroups = BTreeMap::new();
        for (&pid, seen) in &self.known {
            if let Some(path) = &seen.path {
                let identity = || self.identity_of(pid.unsigned_abs());
                cgroups.entry(Arc::clone(path)).or_insert_with(identity);
            }
        }
        cgroups
    }

    /// What a process belongs to that was read before.
    #[must_use]
    pub fn identity_of(&self, pid: u32) -> TaskIdentity {
        self.seen_identity(i32::try_from(pid).ok(), &"-".into())
    }

    /// What a thread's process belongs to; where that was not read, the thread's name says it.
    #[must_use]
    pub fn identity(&self, task: &Task) -> TaskIdentity {
        self.seen_identity(task.pid, &task.command)
    }

    fn seen_identity(&self, pid: Option<i32>, thread: &Arc<str>) -> TaskIdentity {
        let seen = pid.and_then(|pid| self.known.get(&pid)).cloned().unwrap_or_default();
        let SeenProcess { cgroup, container_name, name, version, .. } = seen;
        let named = match cgroup.service().map(Arc::from).or(container_name) {
            Some(service) => TaskIdentity::of_service(service),
            None => TaskIdentity::of_thread(&name.unwrap_or_else(|| Arc::clone(thread))),
        };
        let CgroupIdentity { unit, container, pod } = cgroup;
        let version = self.version.clone().or(version);
        let identity = TaskIdentity { version, unit, container, pod, ..named };
        if self.has_room(&identity.service) {
            identity
        } else {
            TaskIdentity::of_service(OTHER.into())
        }
    }

    /// Whether a service is one of those that this bin has room for.
    fn has_room(&self, service: &Arc<str>) -> bool {
        let mut named = self.named.borrow_mut();
        named.contains(service) || named.len() < MOST_SERVICES && named.insert(Arc::clone(service))
    }

    fn process_name(&self, pid: u32) -> Option<Arc<str>> {
        Some(String::from_utf8_lossy(&self.machine.process_name(pid)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(command: &str, pid: Option<i32>) -> Task {
        Task { command: command.into(), pid, tid: None }
    }

    /// A process of this machine: while it runs, after its end, and one that nobody has seen.
    #[test]
    fn a_process_keeps_its_name_after_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut services = Services::new(Machine::host(), Some("1.3".into()));
        let task = |pid| task("a/thread", Some(pid));
        assert!(!services.knows(&task(pid)));
        services.read_new();
        // By now it surely runs its program.
        services.read_again(std::iter::once(pid));
        assert!(services.knows(&task(pid)));
        let running = services.identity(&task(pid));
        let expected = running.unit.as_deref().and_then(|unit| unit.strip_suffix(".service"));
        assert_eq!(&*running.service, expected.unwrap_or("sleep"));
        assert_eq!(running.version.as_deref(), Some("1.3"));
        child.kill().unwrap();
        child.wait().unwrap();
        services.read_again(std::iter::once(pid));
        assert_eq!(services.identity(&task(pid)), running);
        services.forget_ended();
        assert!(!services.knows(&task(pid)));
        assert_eq!(&*services.identity(&task(pid)).service, "a");
    }

    /// Threads take ids, too, and are no processes.
    #[test]
    fn processes_that_begin_between_two_readings_are_found_by_their_ids() {
        let mut services = Services::new(Machine::host(), None);
        services.read_new();
        let before = services.known.len();
        let thread = std::thread::spawn(|| {
            let path = std::fs::read_link("/proc/thread-self").unwrap();
            path.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap()
        });
        let tid = thread.join().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        services.read_new();
        assert!(services.known.contains_key(&pid));
        assert!(!services.known.contains_key(&tid));
        assert!(services.known.len() > before, "what was known stays");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_of_processes_cannot_make_services_without_end() {
        let services = Services::new(Machine::host(), None);
        let of = |number: usize| services.identity(&task(&format!("worker-{number}"), None));
        for number in 0..MOST_SERVICES {
            assert_eq!(&*of(number).service, format!("worker-{number}"));
        }
        assert_eq!(&*of(MOST_SERVICES).service, "__other__");
        assert_eq!(&*of(5).service, "worker-5", "those that are known stay");
    }

    /// Two processes of a container that has a name, and one of a unit: by the folders that they have in a machine's copy.
    #[test]
    fn containers_and_units_name_services_and_cgroups_are_known_by_their_path() {
        let root = tempfile::tempdir().unwrap();
        let id = "ab".repeat(32);
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mounts".into(), "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        let docker = format!("/system.slice/docker-{id}.scope");
        for (pid, path) in
            [(7, &*docker), (8, &*docker), (9, "/system.slice/redis.service"), (10, "/")]
        {
            write(format!("proc/{pid}/cgroup"), &format!("0::{path}\n"));
        }
        write(format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name": "/shop"}"#);
        let mut services = Services::new(Machine::at(root.path()), None);
        services.read_new();
        let names: Vec<String> =
            [7, 8, 9].map(|pid| services.identity_of(pid).service.to_string()).into();
        assert_eq!(names, ["shop", "shop", "redis"]);
        let cgroups = services.cgroups();
        let paths: Vec<&str> = cgroups.keys().map(|path| &**path).collect();
        assert_eq!(paths, [&*docker, "/system.slice/redis.service"]);
        assert_eq!(cgroups[&*docker].container.as_deref(), Some(&*id));
    }
}
