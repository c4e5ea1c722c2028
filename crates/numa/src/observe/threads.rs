//! Where the threads of a process run.

use std::collections::BTreeMap;

use pmuscope_machine::{Machine, MachineError};
use serde::{Deserialize, Serialize};

use crate::Nodes;
use crate::placement::ByNode;

/// Where a thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    /// Thread id.
    pub tid: u32,
    /// The CPU it runs on or ran on last.
    pub cpu: u32,
    /// The place of that CPU's node among [`Nodes`].
    pub node: usize,
    /// It runs, or could if there were a CPU for it.
    pub runnable: bool,
    /// Nanoseconds on a CPU since the last observation; `None` at the first, and where the kernel does not report it.
    pub ran_ns: Option<u64>,
}

/// What says how much a thread counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weighed {
    /// By how long each ran since the last observation.
    RunningTime,
    /// Those that run or could count alike: how long is not known.
    Runnable,
    /// All count alike: none ran.
    Alike,
}

/// How much ran on each node, and what says so. A thread that moved between two observations counts where it was
/// found at the second.
#[must_use]
pub fn by_node(threads: &[ThreadPlace], nodes: &Nodes) -> (ByNode, Weighed) {
    let sum = |weight: &dyn Fn(&ThreadPlace) -> f64| {
        let mut sum = nodes.zeroes();
        for thread in threads {
            sum[thread.node] += weight(thread);
        }
        sum
    };
    if threads.iter().any(|thread| thread.ran_ns.is_some_and(|ns| ns > 0)) {
        return (sum(&|thread| thread.ran_ns.unwrap_or(0) as f64), Weighed::RunningTime);
    }
    if threads.iter().any(|thread| thread.runnable && thread.ran_ns.is_none()) {
        return (sum(&|thread| f64::from(u8::from(thread.runnable))), Weighed::Runnable);
    }
    (sum(&|_| 1.0), Weighed::Alike)
}

/// Looks at threads, and remembers how long each had run.
#[derive(Debug, Default)]
pub struct ThreadSampler {
    ran: BTreeMap<(u32, u32), u64>,
}

impl ThreadSampler {
    /// All threads of a process.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended, also while whoever started it has not noticed yet.
    pub fn sample(
        &mut self,
        machine: &Machine,
        nodes: &Nodes,
        pid: u32,
    ) -> Result<Vec<ThreadPlace>, MachineError> {
        let tids = machine.threads(pid)?;
        let mut places = Vec::with_capacity(tids.len());
        for &tid in &tids {
            let run = match machine.thread_run(pid, tid) {
                Ok(run) => run,
                // It ended between the list and here.
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(error),
            };
            if run.ended {
                continue;
            }
            // On a CPU that came online later; the next observation of the machine knows it.
            let Some(node) = nodes.of_cpu(run.cpu) else { continue };
            let before =
                run.on_cpu_ns.and_then(|ns| self.ran.insert((pid, tid), ns).map(|old| (old, ns)));
            let ran_ns = before.map(|(old, ns)| ns.saturating_sub(old));
            places.push(ThreadPlace { tid, cpu: run.cpu, node, runnable: run.runnable, ran_ns });
        }
        self.ran.retain(|&(of, tid), _| of != pid || tids.binary_search(&tid).is_ok());
        if places.is_empty() { Err(MachineError::Gone { pid }) } else { Ok(places) }
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: u32) {
        self.ran.retain(|&(of, _), _| of != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::topology;

    #[test]
    fn threads_count_by_what_is_known_of_them() {
        let nodes = Nodes::new(&topology(&[(0, &[0]), (1, &[1])]));
        let thread =
            |node, runnable, ran_ns| ThreadPlace { tid: 1, cpu: 0, node, runnable, ran_ns };
        let of = |threads: &[ThreadPlace]| by_node(threads, &nodes);
        let worked =
            [thread(0, true, Some(10)), thread(1, true, Some(0)), thread(1, false, Some(30))];
        assert_eq!(of(&worked), (vec![10.0, 30.0], Weighed::RunningTime));
        let first = [thread(0, true, None), thread(0, false, None), thread(1, false, None)];
        assert_eq!(of(&first), (vec![1.0, 0.0], Weighed::Runnable));
        let idle = [thread(0, false, Some(0)), thread(1, false, Some(0)), thread(1, false, None)];
        assert_eq!(of(&idle), (vec![1.0, 2.0], Weighed::Alike));
    }

    #[test]
    fn own_threads_are_found_with_what_they_ran() {
        let machine = Machine::host();
        let nodes = Nodes::new(&machine.topology().unwrap());
        let mut sampler = ThreadSampler::default();
        let first = sampler.sample(&machine, &nodes, std::process::id()).unwrap();
        assert!(first.iter().all(|thread| thread.ran_ns.is_none()));
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let mut work = 1u64;
        while (0..1_000_000).all(|_| {
            work = std::hint::black_box(work.wrapping_mul(3));
            true
        }) {
            let again = sampler.sample(&machine, &nodes, std::process::id()).unwrap();
            let this = again.iter().find(|thread| thread.tid == own).unwrap();
            assert!(this.runnable);
            match this.ran_ns {
                Some(0) => {}
                Some(_) => break,
                None => {
                    eprintln!("skipped: no schedstat on this kernel");
                    break;
                }
            }
        }
        assert!(sampler.sample(&machine, &nodes, u32::MAX >> 1).unwrap_err().is_gone());
    }
}
