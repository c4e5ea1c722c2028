//! What this system runs in: a virtual machine, a container, behind filters.

use serde::Serialize;

use crate::{Machine, Processor};

/// What the kernel of an emulated guest of `pmuscope lab` is told; it means nothing to the kernel.
const EMULATED: &str = "pmuscope.acceleration=tcg";

/// The initial pid namespace has this inode number on every kernel (include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What this system runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Virtualization {
    /// The hypervisor, if this is a virtual machine.
    pub hypervisor: Option<Sign>,
    /// What translates its instructions, if the CPU itself does not run them: times and rates are then
    /// the emulator's.
    pub emulator: Option<Sign>,
    /// The container engine, if something of a container is here.
    pub container: Option<Sign>,
    /// Whether all processes of the machine are visible; `None` if the kernel does not tell.
    pub initial_pid_namespace: Option<bool>,
    /// Whether a seccomp filter stands between this process and the kernel.
    pub seccomp: Option<bool>,
}

/// Something recognized, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sign {
    /// What it is: `KVM`, `docker`.
    pub name: String,
    /// The file or flag that tells.
    pub evidence: String,
}

impl Sign {
    fn new(name: &str, evidence: impl Into<String>) -> Self {
        Self { name: name.to_owned(), evidence: evidence.into() }
    }
}

impl Virtualization {
    /// Whether this process is confined to a container. An image that was made for one and runs as a
    /// whole machine is not.
    pub fn is_contained(&self) -> bool {
        match self.initial_pid_namespace {
            Some(initial) => !initial,
            None => self.container.is_some(),
        }
    }
}

impl Machine {
    /// Signs of virtual machines (`/proc/cpuinfo`, DMI, clock sources) and of containers (marker files,
    /// `/proc/1/cgroup`, namespaces, seccomp).
    pub fn virtualization(&self, processor: &Processor) -> Virtualization {
        Virtualization {
            hypervisor: self.hypervisor(processor),
            emulator: self.emulator(processor),
            container: self.container(),
            initial_pid_namespace: std::fs::read_link(self.path("proc/self/ns/pid"))
                .ok()
                .map(|link| link.as_os_str() == INITIAL_PID_NAMESPACE),
            seccomp: self.seccomp(),
        }
    }

    /// What emulates this machine, where something does.
    pub fn emulated_by(&self) -> Option<String> {
        self.emulator(&self.processor()).map(|sign| sign.name)
    }

    fn hypervisor(&self, processor: &Processor) -> Option<Sign> {
        if processor.hypervisor_flag == Some(false) {
            return None;
        }
        let flag = processor.hypervisor_flag == Some(true);
        // DMI names the cloud or the emulator, the clock source the hypervisor itself.
        let named = self.hypervisor_of_clock().or_else(|| self.hypervisor_of_dmi());
        match named {
            Some(sign) => Some(sign),
            None if flag => Some(Sign::new("unknown hypervisor", "/proc/cpuinfo flags")),
            None => None,
        }
    }

    /// Where the kernel was told (guests of `pmuscope lab`), or the CPU says so itself.
    pub(crate) fn emulator(&self, processor: &Processor) -> Option<Sign> {
        let words = self.text_if_any("proc/cmdline").unwrap_or_default();
        if words.split_ascii_whitespace().any(|word| word == EMULATED) {
            return Some(Sign::new("QEMU TCG", "/proc/cmdline"));
        }
        let model = processor.model_name.as_deref().unwrap_or_default();
        model.starts_with("QEMU TCG").then(|| Sign::new("QEMU TCG", "/proc/cpuinfo model name"))
    }

    fn hypervisor_of_clock(&self) -> Option<Sign> {
        let file = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        let sources = self.text(file).ok()?;
        let known = [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen")];
        known
            .into_iter()
            .find(|(start, _)| sources.split_ascii_whitespace().any(|s| s.starts_with(start)))
            .map(|(_, name)| Sign::new(name, format!("/{file}")))
    }

    fn hypervisor_of_dmi(&self) -> Option<Sign> {
        let dmi = |name: &str| self.text_if_any(format!("sys/class/dmi/id/{name}"));
        let product = dmi("product_name").unwrap_or_default();
        let vendor = dmi("sys_vendor").unwrap_or_default();
        if product.ends_with(".metal") {
            return None;
        }
        let known = [
            ("KVM", "KVM"),
            ("QEMU", "QEMU"),
            ("VMware", "VMware"),
            ("VirtualBox", "VirtualBox"),
            ("Virtual Machine", "Hyper-V"),
            ("Amazon EC2", "KVM"),
            ("Google Compute Engine", "KVM"),
            ("Parallels", "Parallels"),
            ("Apple Virtualization", "Apple Virtualization"),
        ];
        known
            .into_iter()
            .find(|(word, _)| product.contains(word) || vendor.contains(word))
            .map(|(_, name)| Sign::new(name, format!("DMI: {vendor} {product}")))
    }

    fn container(&self) -> Option<Sign> {
        let file = "run/systemd/container";
        if let Some(name) = self.text_if_any(file) {
            return Some(Sign::new(&name, format!("/{file}")));
        }
        for (file, name) in [("run/.containerenv", "podman"), (".dockerenv", "docker")] {
            if self.path(file).exists() {
                return Some(Sign::new(name, format!("/{file}")));
            }
        }
        let file = "proc/1/cgroup";
        let groups = self.text(file).unwrap_or_default();
        let known = [
            ("kubepods", "kubernetes"),
            ("docker", "docker"),
            ("libpod", "podman"),
            ("containerd", "containerd"),
            ("lxc", "lxc"),
        ];
        known
            .into_iter()
            .find(|(word, _)| groups.contains(word))
            .map(|(_, name)| Sign::new(name, format!("/{file}")))
    }

    fn seccomp(&self) -> Option<bool> {
        let status = self.text("proc/self/status").ok()?;
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?;
        Some(mode.trim() != "0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_is_told_by_the_command_line_or_the_model() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join("proc").join(name), text).unwrap();
        };
        let machine = Machine::at(root.path());
        let emulator = || machine.virtualization(&machine.processor()).emulator.map(|s| s.evidence);
        write("cpuinfo", "processor : 0\nmodel name : AMD EPYC\n");
        write("cmdline", "console=ttyS0 pmuscope.acceleration=kvm -- lab guest");
        assert_eq!(emulator(), None);
        write("cmdline", "console=ttyS0 pmuscope.acceleration=tcg -- lab guest");
        assert_eq!(emulator().as_deref(), Some("/proc/cmdline"));
        write("cmdline", "quiet");
        write("cpuinfo", "processor : 0\nmodel name : QEMU TCG CPU version 2.5+\n");
        assert_eq!(emulator().as_deref(), Some("/proc/cpuinfo model name"));
    }
}
