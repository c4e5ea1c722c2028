//! Names of containers, from what their runtimes leave on the host.
//!
//! ```text
//!  Kubernetes   /var/log/containers/POD_NAMESPACE_CONTAINER-<64 hex>.log       readable for all
//!  Docker       /var/lib/docker/containers/<64 hex>/config.v2.json             "Name": "/redis", for root
//!  Podman       /var/lib/containers/storage/overlay-containers/containers.json "names": ["redis"], for root
//! ```
//! No socket of a runtime is asked: its users can do anything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

/// A file of a runtime is read up to this size, bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Containers that are kept at most.
const MOST_CONTAINERS: usize = 4096;

/// Names of containers that were asked for.
#[derive(Debug)]
pub(super) struct ContainerNames {
    root: PathBuf,
    known: BTreeMap<Arc<str>, Arc<str>>,
}

/// `config.v2.json` of Docker.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Name")]
    name: String,
}

/// An entry of Podman's `containers.json`.
#[derive(Deserialize)]
struct PodmanContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

impl ContainerNames {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: BTreeMap::new() }
    }

    /// The name of a container by its id; `None` if no runtime has left any.
    pub(super) fn of(&mut self, id: &Arc<str>) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(id) {
            return Some(Arc::clone(known));
        }
        let found = self.of_kubernetes(id).or_else(|| self.of_docker(id));
        let name: Arc<str> =
            found.or_else(|| self.of_podman(id)).filter(|name| is_plain(name))?.into();
        if self.known.len() >= MOST_CONTAINERS {
            self.known.clear();
        }
        self.known.insert(Arc::clone(id), Arc::clone(&name));
        Some(name)
    }

    fn of_kubernetes(&self, id: &str) -> Option<String> {
        let logs = fs::read_dir(self.root.join("var/log/containers")).ok()?;
        let names = logs.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let container = |name: String| {
            let of_this = name.strip_suffix(".log")?.strip_suffix(id)?.strip_suffix('-')?;
            // Neither a pod nor a namespace has an underscore in its name.
            Some(of_this.rsplit_once('_')?.1.to_owned())
        };
        names.into_iter().find_map(container)
    }

    fn of_docker(&self, id: &str) -> Option<String> {
        let file = format!("var/lib/docker/containers/{id}/config.v2.json");
        let config: DockerConfig = serde_json::from_str(&self.text(&file)?).ok()?;
        Some(config.name.trim_start_matches('/').to_owned())
    }

    fn of_podman(&self, id: &str) -> Option<String> {
        let file = "var/lib/containers/storage/overlay-containers/containers.json";
        let all: Vec<PodmanContainer> = serde_json::from_str(&self.text(file)?).ok()?;
        let mut this = all.into_iter().find(|container| container.id == id)?;
        (!this.names.is_empty()).then(|| this.names.swap_remove(0))
    }

    fn text(&self, file: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.root.join(file)).ok()?;
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// As runtimes allow names: a file can hold anything.
fn is_plain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_name_their_containers() {
        let root = tempfile::tempdir().unwrap();
        let id = |digit: &str| digit.repeat(64);
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(format!("var/log/containers/cart-7d-x_shop_checkout-api-{}.log", id("a")), "");
        let docker = |digit| format!("var/lib/docker/containers/{}/config.v2.json", id(digit));
        write(docker("b"), r#"{"Name": "/redis", "Config": {"Env": ["SECRET=1"]}}"#);
        write(docker("d"), r#"{"Name": "/a\nb"}"#);
        write(docker("e"), "{");
        let podman =
            format!(r#"[{{"id": "{}", "names": ["web"], "layer": "x"}}, {{"id": "f"}}]"#, id("c"));
        write("var/lib/containers/storage/overlay-containers/containers.json".into(), &podman);
        let mut names = ContainerNames::new(root.path());
        let mut of = |digit: &str| names.of(&id(digit).into());
        assert_eq!(of("a").as_deref(), Some("checkout-api"));
        assert_eq!(of("b").as_deref(), Some("redis"));
        assert_eq!(of("c").as_deref(), Some("web"));
        assert_eq!([of("d"), of("e"), of("f")], [None, None, None]);
        // A name stays after the runtime has taken its files away.
        fs::remove_dir_all(root.path().join("var")).unwrap();
        assert_eq!(names.of(&id("b").into()).as_deref(), Some("redis"));
    }
}
