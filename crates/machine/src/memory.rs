//! Memory of the whole machine.

use crate::Machine;

impl Machine {
    /// Bytes that programs could still take without swapping, by the kernel's estimate
    /// (`/proc/meminfo`, `MemAvailable`).
    pub fn available_bytes(&self) -> Option<u64> {
        self.meminfo("MemAvailable:")
    }

    /// Bytes of memory of the whole machine (`/proc/meminfo`, `MemTotal`).
    pub fn total_bytes(&self) -> Option<u64> {
        self.meminfo("MemTotal:")
    }

    fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.text("proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    }

    /// Bytes of a huge page that the kernel puts in place of small ones by itself
    /// (`/sys/kernel/mm/transparent_hugepage/hpage_pmd_size`); `None` where it has none.
    pub fn huge_page_bytes(&self) -> Option<u64> {
        let text = self.text("sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
        text.trim().parse().ok().filter(|bytes: &u64| bytes.is_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let write = |text: &str| std::fs::write(root.path().join("proc/meminfo"), text).unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(machine.available_bytes(), None);
        write("MemTotal:       24617572 kB\nMemAvailable:   23000000 kB\n");
        assert_eq!(machine.available_bytes(), Some(23_000_000 * 1024));
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
