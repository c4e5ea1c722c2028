//! What the path of a cgroup says.
//!
//! ```text
//!  /system.slice/redis.service                                  unit redis.service, service redis
//!  /system.slice/docker-<64 hex>.scope                          container
//!  /kubepods.slice/…/kubepods-pod<UID>.slice/cri-containerd-<64 hex>.scope     pod (underscores are hyphens), container
//!  /kubepods/burstable/pod<UID>/<64 hex>                        pod, container
//! ```
//! The paths are conventions of systemd, Docker, containerd, CRI-O, Podman and the kubelet; a cgroup that follows none of
//! them says nothing, and its processes are services by their names.

use std::sync::Arc;

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

    /// Whether it says anything.
    pub(super) fn is_known(&self) -> bool {
        *self != Self::default()
    }

    /// The name of the unit, if it is a service of the system.
    pub(super) fn service(&self) -> Option<&str> {
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
