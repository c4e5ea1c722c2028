//! What to run: sizes, what is done with the memory, in which order, and where.

use pmuscope_machine::{CpuSet, MemoryPolicy};
use serde::{Deserialize, Serialize};

use super::NAME;
use crate::error::WorkloadError;

/// More than any machine has CPUs; a slip of the keyboard should not start a million tasks.
const MOST_TASKS: usize = 8192;
/// Areas are whole multiples of so many bytes.
pub(super) const UNIT: u64 = 4096;
/// Bytes of a cache line: what one step in random order touches.
pub const LINE: u64 = 64;
/// Loads of a pointer chase between two readings of the clock, with [`Options::latency`].
pub const BATCH: u64 = 16;

pub(super) fn refused(what: impl Into<String>) -> WorkloadError {
    WorkloadError::Options { workload: NAME, what: what.into() }
}

/// An enum whose values have names on the command line and in JSON.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $value,)+
        }

        impl $name {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];
            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// Name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text),+ }
            }

            /// The one with this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

names! {
    /// What is done with memory. Bytes are counted as they are loaded and stored.
    Access {
        /// All of it is loaded.
        Read = "read",
        /// All of it is stored to.
        Write = "write",
        /// As [`Self::Write`], past the caches where the CPU has such stores for vectors.
        Stream = "stream",
        /// All of it is loaded, added to and stored: each byte counts twice.
        Both = "both",
        /// Stores of zeroes, by the C library's memset.
        Zero = "zero",
        /// The first half of each area is loaded, and stored to the second.
        Copy = "copy",
        /// As [`Self::Copy`], with the stores of [`Self::Stream`].
        CopyStream = "copy-stream",
    }
}

names! {
    /// In which order.
    Order {
        /// From the first byte to the last.
        Forward = "forward",
        /// From the last to the first.
        Backward = "backward",
        /// Forward and backward by turns, from round to round.
        Alternate = "alternate",
        /// Each cache line once in each round, in an order of its own for each thread and round.
        Random = "random",
        /// Each load says where the next one goes: one circle through all cache lines in random order.
        Chase = "chase",
    }
}

names! {
    /// What memory holds at the start.
    Init {
        /// Zeroes, stored: so that no page is the one page of zeroes that all share.
        Zero = "zero",
        /// Random numbers.
        Random = "random",
    }
}

names! {
    /// Who touches memory first, and so decides on which node it lies at the start.
    FirstTouch {
        /// Each thread its own memory, and its share of what it shares, from where it runs then.
        Own = "own",
        /// The same, from the node of the first CPU that this process may use.
        Node0 = "node0",
    }
}

names! {
    /// Huge pages.
    Thp {
        /// Asked for: `MADV_HUGEPAGE`.
        Always = "always",
        /// Not wanted: `MADV_NOHUGEPAGE`.
        Never = "never",
        /// As the system is set.
        System = "system",
    }
}

/// Bytes of the four kinds of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Shared by all processes.
    pub global: u64,
    /// Of each process, shared by its threads.
    pub process: u64,
    /// So much at the beginning of [`Self::process`] is only touched under a lock of the process.
    pub locked: u64,
    /// Of each thread.
    pub thread: u64,
}

impl Sizes {
    /// All memory of so many processes with so many threads; `None` beyond 2^64.
    #[must_use]
    pub fn total(&self, processes: usize, threads: usize) -> Option<u64> {
        let threads = self.thread.checked_mul(threads as u64)?;
        let each = threads.checked_add(self.process)?;
        each.checked_mul(processes as u64)?.checked_add(self.global)
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Processes.
    pub processes: usize,
    /// Threads of each.
    pub threads: usize,
    /// Memory.
    pub sizes: Sizes,
    /// What is done with it.
    pub access: Access,
    /// In which order.
    pub order: Order,
    /// Seconds of work at most; `None`: until the rounds are done.
    pub seconds: Option<f64>,
    /// Rounds of each thread: in one it goes through all memory that it uses. `None`: as many as fit into the
    /// time.
    pub rounds: Option<u64>,
    /// What memory holds at the start.
    pub init: Init,
    /// Who touches it first.
    pub first_touch: FirstTouch,
    /// Huge pages.
    pub thp: Thp,
    /// CPUs of each task, thread after thread and process after process; those beyond run wherever the
    /// scheduler puts them.
    pub cpus: Vec<CpuSet>,
    /// Nodes that each task's memory is bound to, as [`Self::cpus`]; those beyond have [`Self::policy`].
    pub memory_nodes: Vec<CpuSet>,
    /// Where new pages of all tasks are taken from.
    pub policy: MemoryPolicy,
    /// At each of so many phases threads move on to the memory of the next thread of their process.
    pub phases: u64,
    /// At the end the first thread of each process reads the memory of all its threads.
    pub reduce: bool,
    /// Each time so many seconds have passed, the first thread of the first process pins itself to the last
    /// CPU that it may use, or if it is there to the first, and lets go.
    pub perturb: Option<f64>,
    /// Time every few loads of a chase, for percentiles.
    pub latency: bool,
    /// Nanoseconds that each thread spins after each piece of memory (64 KiB): less load.
    pub pause_ns: u64,
    /// Where orders and numbers come from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            processes: 1,
            threads: 1,
            sizes: Sizes::default(),
            access: Access::Read,
            order: Order::Forward,
            seconds: Some(5.0),
            rounds: None,
            init: Init::Random,
            first_touch: FirstTouch::Own,
            thp: Thp::System,
            cpus: Vec::new(),
            memory_nodes: Vec::new(),
            policy: MemoryPolicy::Default,
            phases: 1,
            reduce: false,
            perturb: None,
            latency: false,
            pause_ns: 0,
            seed: 1,
        }
    }
}

impl Options {
    /// Threads of all processes.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.processes * self.threads
    }

    /// The policy of a task.
    #[must_use]
    pub fn policy_of(&self, task: usize) -> MemoryPolicy {
        self.memory_nodes
            .get(task)
            .map_or_else(|| self.policy.clone(), |n| MemoryPolicy::Bind(n.clone()))
    }

    /// Whether options make sense, wherever it runs.
    ///
    /// # Errors
    /// Says which does not, and what would.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let (processes, threads) = (self.processes, self.threads);
        let tasks = processes.checked_mul(threads).filter(|tasks| (1..=MOST_TASKS).contains(tasks));
        if tasks.is_none() {
            return Err(refused(format!(
                "{processes} processes with {threads} threads each: use 1 to {MOST_TASKS} threads in all"
            )));
        }
        self.check_sizes()?;
        self.check_end()?;
        self.check_order()?;
        self.check_threads()
    }

    fn check_sizes(&self) -> Result<(), WorkloadError> {
        let Sizes { global, process, locked, thread } = self.sizes;
        let kinds = [
            ("--global", global),
            ("--process", process),
            ("--process-locked", locked),
            ("--thread", thread),
        ];
        if let Some((flag, bytes)) = kinds.iter().find(|(_, bytes)| !bytes.is_multiple_of(UNIT)) {
            return Err(refused(format!(
                "{flag} {bytes}: use a multiple of {UNIT} bytes, such as 64K or 256M"
            )));
        }
        if global == 0 && process == 0 && thread == 0 {
            return Err(refused(
                "no memory to work on. Try: a size for --global, --process or --thread, such as \
                 --thread 256M",
            ));
        }
        if locked > process {
            return Err(refused(format!(
                "--process-locked {locked}: it is a part of --process; use at most its {process} \
                 bytes"
            )));
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), WorkloadError> {
        let is_time = |seconds: f64| seconds > 0.0 && seconds <= 1e6;
        if self.rounds == Some(0) || self.seconds.is_some_and(|seconds| !is_time(seconds)) {
            return Err(refused(
                "use --rounds of at least 1, and --seconds above 0 and up to 1000000",
            ));
        }
        if self.rounds.is_none() && self.seconds.is_none() {
            return Err(refused("the workload would never end. Try: --seconds or --rounds"));
        }
        if let Some(every) = self.perturb.filter(|&every| !is_time(every)) {
            return Err(refused(format!("--perturb {every}: use seconds above 0, such as 5")));
        }
        Ok(())
    }

    fn check_order(&self) -> Result<(), WorkloadError> {
        if self.order == Order::Chase && self.access != Access::Read {
            return Err(refused("--order chase only loads. Try: --access read"));
        }
        let only_forward =
            matches!(self.access, Access::Copy | Access::CopyStream | Access::Stream);
        if only_forward && self.order != Order::Forward {
            let access = self.access.name();
            return Err(refused(format!(
                "--access {access} only runs forward. Try: --order forward"
            )));
        }
        if self.latency && self.order != Order::Chase {
            return Err(refused("--latency times dependent loads. Try: --order chase"));
        }
        Ok(())
    }

    fn check_threads(&self) -> Result<(), WorkloadError> {
        if self.phases == 0 {
            return Err(refused("--phases 0: use 1 or more"));
        }
        if self.phases > 1 && (self.threads < 2 || self.sizes.thread == 0) {
            return Err(refused(
                "--phases moves threads to the memory of the next thread of their process. Try: \
                 --threads 2 or more, and a size for --thread",
            ));
        }
        if self.reduce && self.sizes.thread == 0 {
            return Err(refused("--reduce reads the memory of threads. Try: a size for --thread"));
        }
        let is_bound = !self.memory_nodes.is_empty() || self.policy != MemoryPolicy::Default;
        if self.first_touch == FirstTouch::Node0 && is_bound {
            return Err(refused(
                "--first-touch node0, --policy and --memory-nodes all choose where memory is \
                 allocated. Try: only one of them",
            ));
        }
        for (flag, list) in [("--cpus", &self.cpus), ("--memory-nodes", &self.memory_nodes)] {
            if list.len() > self.tasks() {
                return Err(refused(format!(
                    "{flag} names {} tasks, but there are {}: {} processes with {} threads each",
                    list.len(),
                    self.tasks(),
                    self.processes,
                    self.threads
                )));
            }
            if list.iter().any(CpuSet::is_empty) {
                return Err(refused(format!("{flag}: a task with an empty set")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Options {
        let sizes = Sizes { thread: 4096, ..Sizes::default() };
        Options { threads: 2, sizes, ..Options::default() }
    }

    #[test]
    fn names_are_found_again() {
        assert!(Access::ALL.iter().all(|one| Access::named(one.name()) == Some(*one)));
        assert_eq!((Order::named("chase"), Order::named("x")), (Some(Order::Chase), None));
        assert_eq!(Thp::NAMES, ["always", "never", "system"]);
    }

    #[test]
    fn options_survive_json() {
        let cpus = vec![CpuSet::parse("0-3").unwrap()];
        let policy = MemoryPolicy::Interleave(CpuSet::parse("0-1").unwrap());
        let options = Options { cpus, policy, perturb: Some(0.5), ..small() };
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
    }

    #[test]
    fn options_without_sense_are_told() {
        small().check().unwrap();
        let refused = |change: &dyn Fn(&mut Options), part: &str| {
            let mut options = small();
            change(&mut options);
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with("workload memory: ") && error.contains(part), "{error}");
        };
        refused(&|o| o.processes = 0, "use 1 to 8192 threads in all");
        refused(&|o| o.threads = usize::MAX, "use 1 to 8192 threads in all");
        refused(&|o| o.sizes.thread = 0, "such as --thread 256M");
        refused(&|o| o.sizes.thread = 100, "a multiple of 4096");
        refused(&|o| o.sizes.locked = 4096, "use at most its 0 bytes");
        refused(&|o| o.seconds = Some(0.0), "--seconds above 0");
        refused(&|o| o.seconds = None, "would never end");
        refused(&|o| o.rounds = Some(0), "--rounds of at least 1");
        refused(&|o| o.perturb = Some(-1.0), "--perturb -1");
        refused(&|o| o.latency = true, "Try: --order chase");
        refused(&|o| (o.order, o.access) = (Order::Chase, Access::Both), "--access read");
        refused(&|o| (o.order, o.access) = (Order::Random, Access::Copy), "copy only runs forward");
        refused(&|o| o.phases = 0, "--phases 0");
        refused(&|o| (o.phases, o.threads) = (2, 1), "--threads 2 or more");
        refused(
            &|o| (o.sizes, o.reduce) = (Sizes { global: 4096, ..Sizes::default() }, true),
            "--reduce",
        );
        let one = CpuSet::from_iter([0]);
        refused(&|o| o.cpus = vec![one.clone(); 3], "--cpus names 3 tasks, but there are 2");
        let empty = "--memory-nodes: a task with an empty set";
        refused(&|o| o.memory_nodes = vec![CpuSet::new()], empty);
        let both = |o: &mut Options| {
            (o.first_touch, o.policy) = (FirstTouch::Node0, MemoryPolicy::Local);
        };
        refused(&both, "--first-touch node0, --policy");
    }
}
