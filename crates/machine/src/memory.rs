//! Memory of the whole machine, and what of it is there for us.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::Machine;

/// Blocks of physical memory, which the kernel adds and removes as a whole, by NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Nodes with the numbers of their blocks: block N begins at N times that many bytes.
    pub nodes: Vec<(u32, Vec<u64>)>,
}

impl Machine {
    /// Which node has which memory: `/sys/devices/system/memory/block_size_bytes` and `memoryN` of each node. `None`
    /// of a kernel without memory blocks.
    #[must_use]
    pub fn memory_blocks(&self) -> Option<MemoryBlocks> {
        const NODES: &str = "sys/devices/system/node";
        let size = self.text("sys/devices/system/memory/block_size_bytes").ok()?;
        let block_bytes = u64::from_str_radix(size.trim(), 16).ok()?;
        let nodes = self.numbered(NODES, "node").ok()?;
        let blocks = |node: u32| {
            let blocks = self.numbered(format!("{NODES}/node{node}"), "memory").unwrap_or_default();
            (node, blocks.into_iter().map(u64::from).collect())
        };
        let nodes = nodes.into_iter().map(blocks).collect();
        Some(MemoryBlocks { block_bytes, nodes })
    }

    /// Bytes that programs could still take without swapping, by the kernel's estimate
    /// (`/proc/meminfo`, `MemAvailable`).
    pub fn available_bytes(&self) -> Option<u64> {
        self.meminfo("MemAvailable:")
    }

    /// Bytes of memory that the kernel manages: `MemTotal` of `/proc/meminfo`. The sum over nodes may differ: a
    /// balloon driver of a virtual machine changes what nodes have, and not always this.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.meminfo("MemTotal:")
    }

    fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.text("proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    }

    /// Bytes that this process could still take: [`Machine::available_bytes`], less where a cgroup that it is in
    /// (`memory.max`, `memory.high`; `memory.limit_in_bytes` of version 1), or its own limit of address space,
    /// leaves less. `None` where nothing is known.
    #[must_use]
    pub fn spare_bytes(&self) -> Option<u64> {
        let own = getrlimit(Resource::As).current;
        self.available_bytes().into_iter().chain(self.cgroups_spare()).chain(own).min()
    }

    /// What the cgroups of this process leave, the least of all of them.
    fn cgroups_spare(&self) -> Option<u64> {
        let lines = self.text("proc/self/cgroup").ok()?;
        let of_line = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let mount = match controllers {
                "" => self.path("sys/fs/cgroup"),
                _ if controllers.split(',').any(|one| one == "memory") => {
                    self.path("sys/fs/cgroup/memory")
                }
                _ => return None,
            };
            let below = PathBuf::from(path.trim_start_matches('/'));
            below.ancestors().filter_map(|folder| cgroup_spare(&mount.join(folder))).min()
        };
        lines.lines().filter_map(of_line).min()
    }

    /// Bytes of a huge page that the kernel puts in place of small ones by itself
    /// (`/sys/kernel/mm/transparent_hugepage/hpage_pmd_size`); `None` where it has none.
    pub fn huge_page_bytes(&self) -> Option<u64> {
        let text = self.text("sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
        text.trim().parse().ok().filter(|bytes: &u64| bytes.is_power_of_two())
    }
}

/// What a cgroup's limit leaves: the page cache is given back when memory is asked for.
fn cgroup_spare(folder: &Path) -> Option<u64> {
    let number = |file: &str| -> Option<u64> {
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(number).min()?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes")).unwrap_or(0);
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let of_stat = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let cache = of_stat("inactive_file").unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn what_is_spare_is_the_least_of_the_machine_and_of_all_cgroups() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let machine = Machine::at(root.path());
        write("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n");
        assert_eq!(machine.spare_bytes(), Some(6000 * 1024));
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        write("sys/fs/cgroup/a/memory.max", "5000000\n");
        write("sys/fs/cgroup/a/memory.current", "3000000\n");
        assert_eq!(machine.spare_bytes(), Some(2_000_000));
        write("sys/fs/cgroup/a/memory.stat", "anon 1000000\ninactive_file 1500000\n");
        assert_eq!(machine.spare_bytes(), Some(3_500_000));
        write("proc/self/cgroup", "5:cpu,memory:/c\n");
        write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "70000\n");
        write("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "80000\n");
        assert_eq!(machine.spare_bytes(), Some(0));
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let write = |text: &str| std::fs::write(root.path().join("proc/meminfo"), text).unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(machine.available_bytes(), None);
        write("MemTotal:       24617572 kB\nMemAvailable:   23000000 kB\n");
        assert_eq!(machine.available_bytes(), Some(23_000_000 * 1024));
        assert_eq!(machine.memory_bytes(), Some(24_617_572 * 1024));
    }

    #[test]
    fn the_size_of_huge_pages_is_read() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(machine.huge_page_bytes(), None);
        let folder = root.path().join("sys/kernel/mm/transparent_hugepage");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("hpage_pmd_size"), "2097152\n").unwrap();
        assert_eq!(machine.huge_page_bytes(), Some(2 << 20));
    }
}
