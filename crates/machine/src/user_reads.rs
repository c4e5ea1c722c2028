//! Whether programs may read their own hardware counters without a system call.

use crate::Machine;

/// Why programs may not read counters themselves: a sentence without full stop, with what to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoUserReads(pub String);

impl Machine {
    /// What this kernel's settings say about reading counters in user space; the page of each event says
    /// then whether this one can be. `arch` is as in [`std::env::consts::ARCH`].
    ///
    /// x86: `/sys/bus/event_source/devices/cpu/rdpmc` (0 never, 1 for events of one's own, 2 always;
    /// Linux 4.0). arm64: `kernel.perf_user_access` (Linux 5.17, off by default).
    ///
    /// # Errors
    /// [`NoUserReads`] with the reason.
    pub fn user_reads(&self, arch: &str) -> Result<(), NoUserReads> {
        match arch {
            "x86_64" => self.rdpmc(),
            "aarch64" => self.perf_user_access(),
            _ => Err(NoUserReads(format!("pmuscope does not support it on {arch}"))),
        }
    }

    fn rdpmc(&self) -> Result<(), NoUserReads> {
        // The parts of a hybrid CPU have one setting each.
        for unit in ["cpu", "cpu_core"] {
            let file = format!("sys/bus/event_source/devices/{unit}/rdpmc");
            match self.number::<u32>(&file) {
                None => {}
                Some(0) => {
                    let fix = format!("echo 1 | sudo tee /{file}");
                    return Err(NoUserReads(format!("/{file} is 0. Try: {fix}")));
                }
                Some(_) => return Ok(()),
            }
        }
        Err(NoUserReads("no hardware PMU".to_owned()))
    }

    fn perf_user_access(&self) -> Result<(), NoUserReads> {
        match self.number::<u32>("proc/sys/kernel/perf_user_access") {
            Some(0) => Err(NoUserReads(
                "kernel.perf_user_access is 0. Try: sudo sysctl kernel.perf_user_access=1"
                    .to_owned(),
            )),
            Some(_) => Ok(()),
            None => Err(NoUserReads(
                "this kernel has no kernel.perf_user_access (Linux 5.17, with a PMU)".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What a machine with this file in it says.
    fn says(arch: &str, file: &str, text: &str) -> Result<(), String> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        Machine::at(root.path()).user_reads(arch).map_err(|NoUserReads(why)| why)
    }

    #[test]
    fn settings_decide_and_the_reason_says_what_to_type() {
        let (core, hybrid) = (
            "sys/bus/event_source/devices/cpu/rdpmc",
            "sys/bus/event_source/devices/cpu_core/rdpmc",
        );
        for file in [core, hybrid] {
            assert_eq!(says("x86_64", file, "1\n"), Ok(()));
            assert_eq!(says("x86_64", file, "2\n"), Ok(()));
            let why = says("x86_64", file, "0\n").unwrap_err();
            assert!(why.contains(&format!("echo 1 | sudo tee /{file}")), "{why}");
        }
        let sysctl = "proc/sys/kernel/perf_user_access";
        assert_eq!(says("aarch64", sysctl, "1\n"), Ok(()));
        assert!(says("aarch64", sysctl, "0\n").unwrap_err().contains("perf_user_access=1"));
        assert!(says("x86_64", sysctl, "1\n").unwrap_err().contains("no hardware PMU"));
        assert!(says("aarch64", core, "1\n").unwrap_err().contains("Linux 5.17"));
        assert!(says("s390x", core, "1\n").unwrap_err().contains("s390x"));
    }
}
