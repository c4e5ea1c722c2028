//! Memory of the whole machine.

use crate::Machine;

impl Machine {
    /// Bytes that programs could still take without swapping, by the kernel's estimate
    /// (`/proc/meminfo`, `MemAvailable`).
    pub fn available_bytes(&self) -> Option<u64> {
        let text = self.text("proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
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
}
