//! What a process belongs to, by its cgroup.
//!
//! ```text
//!  /system.slice/redis.service                                  unit redis.service, service redis
//!  /system.slice/docker-<64 hex>.scope                          container
//!  /kubepods.slice/…/kubepods-pod<UID>.slice/cri-containerd-<64 hex>.scope     pod (underscores are hyphens), container
//!  /kubepods/burstable/pod<UID>/<64 hex>                        pod, container
//! ```
//! The paths are conventions of systemd, Docker, containerd, CRI-O, Podman and the kubelet; a cgroup that follows none of
//! them says nothing, and its processes are services by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmuscope_dataset::TaskIdentity;
use pmuscope_machine::Machine;
use pmuscope_profile::aggregate::Task;

/// Hexadecimal digits of a container's id at least.
const ID: usize = 32;

/// What the path of a cgroup says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupIdentity {
    /// Unit of systemd.
    pub unit: Option<Arc<str>>,
    /// Id of the container.
    pub container: Option<Arc<str>>,
    /// UID of the Kubernetes pod.
    pub pod: Option<Arc<str>>,
}

impl CgroupIdentity {
    /// Of a path of the unified hierarchy.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let mut found = Self::default();
        for part in path.split('/') {
            if let Some(id) = container(part) {
                found.container = Some(id.into());
            } else if let Some(uid) = pod(part) {
                found.pod = Some(uid.into());
            } else if part.ends_with(".service") || part.ends_with(".scope") {
                found.unit = Some(part.into());
            }
        }
        found
    }

    /// The name of the unit, if it is a service of the system.
    fn service(&self) -> Option<&str> {
        let name = self.unit.as_deref()?.strip_suffix(".service")?;
        // The manager of a user's session: what runs in it is many things.
        (!name.starts_with("user@")).then_some(name)
    }
}

/// `docker-<id>.scope`, `<id>`.
fn container(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() >= ID && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// `pod<UID>`, `kubepods-burstable-pod<UID>.slice`.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name.strip_prefix("kubepods")?.split_once("-pod")?.1,
    };
    let is_uid = |uid: &str| {
        uid.len() >= ID && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    Some(uid.replace('_', "-")).filter(|uid| is_uid(uid))
}

/// Processes that were seen, and what they belong to: those of the current bin, and those that still run.
#[derive(Debug)]
pub struct Services {
    machine: Machine,
    version: Option<Arc<str>>,
    known: BTreeMap<i32, SeenProcess>,
}

/// A process that was seen.
#[derive(Debug, Clone, Default)]
struct SeenProcess {
    cgroup: CgroupIdentity,
    /// Its name when it was seen first, which is that of the shell if that has not run the program yet.
    name: Option<Arc<str>>,
}

impl Services {
    /// None yet. All services have this version, where there is one.
    #[must_use]
    pub fn new(machine: Machine, version: Option<Arc<str>>) -> Self {
        Self { machine, version, known: BTreeMap::new() }
    }

    /// Reads what new processes belong to. A process that begins and ends between two calls stays
    /// unknown.
    pub fn read_new(&mut self) {
        for id in self.machine.processes().unwrap_or_default() {
            let Ok(pid) = i32::try_from(id) else { continue };
            if !self.known.contains_key(&pid)
                && let Some(path) = self.machine.cgroup_path(id)
            {
                let (cgroup, name) = (CgroupIdentity::of(&path), self.process_name(id));
                self.known.insert(pid, SeenProcess { cgroup, name });
            }
        }
    }

    /// Forgets processes that have ended: their numbers will be given to others.
    pub fn forget_ended(&mut self) {
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

    fn process_name(&self, pid: u32) -> Option<Arc<str>> {
        let leader = self.machine.task(pid, pid).ok()?;
        Some(String::from_utf8_lossy(&leader.comm).into())
    }

    /// What a thread's process belongs to: without a unit, the name that the process has now, or had when it was seen.
    #[must_use]
    pub fn identity(&self, task: &Task) -> TaskIdentity {
        let seen = task.pid.and_then(|pid| self.known.get(&pid)).cloned().unwrap_or_default();
        let SeenProcess { cgroup: known, name } = seen;
        let named = match known.service() {
            Some(service) => TaskIdentity::of_service(service.into()),
            None => {
                let pid = task.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
                let name = pid.and_then(|pid| self.process_name(pid)).or(name);
                TaskIdentity::of_thread(&name.unwrap_or_else(|| Arc::clone(&task.command)))
            }
        };
        let CgroupIdentity { unit, container, pod } = known;
        TaskIdentity { version: self.version.clone(), unit, container, pod, ..named }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn of(path: &str) -> [Option<String>; 3] {
        let CgroupIdentity { unit, container, pod } = CgroupIdentity::of(&path.replace("HEX", HEX));
        [unit, container, pod].map(|text| text.map(|text| text.to_string()))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn paths_of_systemd_containers_and_pods() {
        assert_eq!(of("/"), [None, None, None]);
        assert_eq!(of("/system.slice/redis.service"), [some("redis.service"), None, None]);
        assert_eq!(
            of("/user.slice/user-1000.slice/session-2.scope"),
            [some("session-2.scope"), None, None]
        );
        for path in
            ["/system.slice/docker-HEX.scope", "/docker/HEX", "/machine.slice/libpod-HEX.scope"]
        {
            assert_eq!(of(path), [None, some(HEX), None], "{path}");
        }
        let uid = "b9f2c7a4-0d3e-4b6f-8a1c-5e7d9f0b2c4a";
        let systemd = uid.replace('-', "_");
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-HEX.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{systemd}.slice/crio-HEX.scope"),
            format!("/kubepods/besteffort/pod{uid}/HEX"),
        ] {
            assert_eq!(of(&path), [None, some(HEX), some(uid)], "{path}");
        }
        // Neither a pod nor a container.
        assert_eq!(of("/kubepods.slice/podcast-abc"), [None, None, None]);
    }

    /// A process of this machine: while it runs, after its end, and one that nobody has seen.
    #[test]
    fn a_process_keeps_its_name_after_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut services = Services::new(Machine::host(), Some("1.3".into()));
        let task = |pid| Task { command: "a/thread".into(), pid: Some(pid), tid: None };
        assert!(!services.knows(&task(pid)));
        services.read_new();
        assert!(services.knows(&task(pid)));
        let running = services.identity(&task(pid));
        let expected = running.unit.as_deref().and_then(|unit| unit.strip_suffix(".service"));
        assert_eq!(&*running.service, expected.unwrap_or("sleep"));
        assert_eq!(running.version.as_deref(), Some("1.3"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(services.identity(&task(pid)), running);
        services.forget_ended();
        assert!(!services.knows(&task(pid)));
        assert_eq!(&*services.identity(&task(pid)).service, "a");
    }

    #[test]
    fn a_service_is_named_by_its_unit_and_others_by_their_threads() {
        let service = |path: &str| CgroupIdentity::of(path).service().map(str::to_owned);
        assert_eq!(service("/system.slice/redis.service"), some("redis"));
        assert_eq!(service("/user.slice/user-0.slice/session-1.scope"), None);
        assert_eq!(service("/user.slice/user-1000.slice/user@1000.service"), None);
        // A user's own service is one.
        let own = "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service";
        assert_eq!(service(own), some("sync"));
    }
}
