//! Kernel settings.

use std::path::PathBuf;

/// Writes a setting: a name of sysctl(8), or a path below `/proc` or `/sys`.
pub(super) fn set(name: &str, value: &str) -> Result<(), String> {
    let path = path_of(name);
    std::fs::write(&path, value).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "this kernel does not have it".to_owned(),
            _ => error.to_string(),
        };
        format!("--set {name}={value}: cannot write {}: {why}", path.display())
    })
}

fn path_of(name: &str) -> PathBuf {
    if name.starts_with('/') {
        return name.into();
    }
    // As sysctl has it: dots separate, unless a slash comes first.
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    let path = if first == Some(b'/') { name.to_owned() } else { name.replace('.', "/") };
    PathBuf::from("/proc/sys").join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_paths() {
        for (name, path) in [
            ("kernel.numa_balancing", "/proc/sys/kernel/numa_balancing"),
            ("net/ipv4/conf/eth0.1/mtu", "/proc/sys/net/ipv4/conf/eth0.1/mtu"),
            ("/sys/kernel/mm/numa/demotion_enabled", "/sys/kernel/mm/numa/demotion_enabled"),
        ] {
            assert_eq!(path_of(name), PathBuf::from(path));
        }
    }

    #[test]
    fn a_setting_that_is_not_there_is_named() {
        let error = set("kernel.no_such_thing", "1").unwrap_err();
        assert!(error.contains("--set kernel.no_such_thing=1"), "{error}");
        assert!(error.contains("does not have it"), "{error}");
    }
}
