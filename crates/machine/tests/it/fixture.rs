//! Small copies of `/sys` and `/proc` in a temporary folder.

use std::fs;

use pmuscope_machine::Machine;
use tempfile::TempDir;

/// A tree of files that goes away with the value.
pub(crate) struct Tree {
    folder: TempDir,
}

/// One CPU of a fixture.
pub(crate) struct CpuFacts<'a> {
    pub(crate) id: u32,
    pub(crate) package: i32,
    pub(crate) die: i32,
    pub(crate) core: u32,
    pub(crate) siblings: &'a str,
    /// CPUs that share the third-level cache.
    pub(crate) l3: Option<&'a str>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::at(self.folder.path())
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn online(&self, online: &str, possible: &str) -> &Self {
        self.file("sys/devices/system/cpu/online", format!("{online}\n"));
        self.file("sys/devices/system/cpu/possible", format!("{possible}\n"))
    }

    pub(crate) fn cpu(&self, cpu: &CpuFacts<'_>) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{}", cpu.id);
        let line = |value: &dyn std::fmt::Display| format!("{value}\n");
        self.file(&format!("{folder}/topology/physical_package_id"), line(&cpu.package));
        self.file(&format!("{folder}/topology/die_id"), line(&cpu.die));
        self.file(&format!("{folder}/topology/core_id"), line(&cpu.core));
        self.file(&format!("{folder}/topology/core_cpus_list"), line(&cpu.siblings));
        for (index, level, kind) in [(0, 1, "Data"), (1, 1, "Instruction"), (2, 2, "Unified")] {
            let folder = format!("{folder}/cache/index{index}");
            self.file(&format!("{folder}/level"), line(&level));
            self.file(&format!("{folder}/type"), line(&kind));
            self.file(&format!("{folder}/shared_cpu_list"), line(&cpu.siblings));
        }
        if let Some(l3) = cpu.l3 {
            self.file(&format!("{folder}/cache/index3/level"), "3\n");
            self.file(&format!("{folder}/cache/index3/type"), "Unified\n");
            self.file(&format!("{folder}/cache/index3/shared_cpu_list"), line(&l3));
        }
        self
    }

    pub(crate) fn node(&self, id: u32, cpus: &str, distances: &str, mib: u64) -> &Self {
        let folder = format!("sys/devices/system/node/node{id}");
        let (total, free) = (mib * 1024, mib * 512);
        self.file(&format!("{folder}/cpulist"), format!("{cpus}\n"));
        self.file(&format!("{folder}/distance"), format!("{distances}\n"));
        self.file(
            &format!("{folder}/meminfo"),
            format!("Node {id} MemTotal:       {total} kB\nNode {id} MemFree:        {free} kB\n"),
        )
    }
}
