//! How many more threads there can be at once in this process.

use crate::Machine;
use crate::limits::rlimit;

/// Mappings of a thread: its stack, and the page that guards it.
const MAPPINGS: u64 = 2;
/// Memory of a thread that does next to nothing, bytes: its kernel stack and structures, first pages of its
/// own stack, page tables.
const THREAD_BYTES: u64 = 64 << 10;

/// More than the mappings of any process that the kernel's default limit allows.
const MAPS_BYTES: u64 = 16 << 20;

/// Room for threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRoom {
    /// How many more.
    pub threads: u64,
    /// What does not allow more, in words: `kernel.pid_max is 32768`.
    pub limit: String,
}

impl Machine {
    /// Threads that this process could still start, by the narrowest of what the kernel tells: ids,
    /// threads of the machine and of the user, mappings, memory. `None` if it tells nothing. Limits of
    /// cgroups are not among them.
    pub fn thread_room(&self) -> Option<ThreadRoom> {
        let running = self.text("proc/loadavg").ok().and_then(|text| tasks(&text)).unwrap_or(0);
        let own = self.text("proc/self/limits").unwrap_or_default();
        // It does not hold for root.
        let of_user = rlimit(&own, "Max processes")
            .filter(|_| self.rights().euid != Some(0))
            .map(|limit| limit.soft);
        let mappings: Option<u64> = self.number("proc/sys/vm/max_map_count");
        let mapped =
            self.beginning("proc/self/maps", MAPS_BYTES).map_or(0, |text| text.lines().count());
        let room = |limit: Option<u64>, name: &str, used: u64, each: u64| {
            let limit = limit?;
            let threads = limit.saturating_sub(used) / each;
            Some(ThreadRoom { threads, limit: format!("{name} is {limit}") })
        };
        let memory = self.available_bytes().map(|bytes| ThreadRoom {
            threads: bytes / THREAD_BYTES,
            limit: format!("{} MiB of memory is free", bytes >> 20),
        });
        let kernel = |name: &str| self.number(format!("proc/sys/kernel/{name}"));
        [
            room(kernel("pid_max"), "kernel.pid_max", running, 1),
            room(kernel("threads-max"), "kernel.threads-max", running, 1),
            room(of_user, "the process limit (ulimit -u)", running, 1),
            room(mappings, "vm.max_map_count", mapped as u64, MAPPINGS),
            memory,
        ]
        .into_iter()
        .flatten()
        .min_by_key(|room| room.threads)
    }
}

/// Tasks of the machine: the second number of `1/87`.
fn tasks(loadavg: &str) -> Option<u64> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_narrowest_limit_is_named() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(machine.thread_room(), None);
        for folder in ["proc/sys/kernel", "proc/sys/vm", "proc/self"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("proc/loadavg", "1.80 0.90 1.21 2/87 5125\n");
        write("proc/sys/kernel/pid_max", "32768\n");
        let room = |threads, limit: &str| Some(ThreadRoom { threads, limit: limit.to_owned() });
        assert_eq!(machine.thread_room(), room(32_681, "kernel.pid_max is 32768"));
        write("proc/self/maps", "a\nb\n");
        write("proc/sys/vm/max_map_count", "1002\n");
        assert_eq!(machine.thread_room(), room(500, "vm.max_map_count is 1002"));
        write("proc/meminfo", "MemAvailable:   6400 kB\n");
        assert_eq!(machine.thread_room(), room(100, "6 MiB of memory is free"));
        let limits = "Max processes             90     unlimited      processes\n";
        write("proc/self/limits", limits);
        let user = "the process limit (ulimit -u) is 90";
        assert_eq!(machine.thread_room(), room(3, user));
        write("proc/sys/kernel/threads-max", "80\n");
        assert_eq!(machine.thread_room(), room(0, "kernel.threads-max is 80"));
    }
}
