//! What a hit costs here: a thread of ours writes to a word of ours, with and without a breakpoint on it
//! that runs a program like the target's: without its condition, on a shallow stack.
//!
//! It is a test at the same time. On arm64 kernels before 6.6 a thread never gets past a breakpoint whose
//! hits go to a program (they single-step only over those whose hits become samples): ours is let
//! go after a while, and nobody else's thread is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pmuscope_bpf::BpfError;
use pmuscope_counters::Kernel;
use pmuscope_machine::child::thread_cpu_ns;
use pmuscope_perfdata::watch::{Access, HitCost, ValueKind};
use pmuscope_stats::{LEVEL, mean_interval};

use crate::points::{Opened, Point, PointError, PointScope};
use crate::program::{Memory, ProgramPoint, load};
use crate::session::WatchOptions;

/// Hits of a measurement, and measurements.
const HITS: u64 = 500;
const ROUNDS: usize = 8;
/// A round takes a few milliseconds on hardware, a hundred times that in an emulator.
const LONGEST_ROUND: Duration = Duration::from_secs(5);

/// Why the cost is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// No program, or no map for it.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// No breakpoint.
    #[error(transparent)]
    Point(#[from] PointError),
    /// A thread of ours did not get past its own breakpoint.
    #[error(
        "this kernel cannot continue after a breakpoint that runs a BPF program (a test thread \
         hung for {} s): arm64 needs Linux 6.6 or later. No watchpoint was enabled in the target",
        LONGEST_ROUND.as_secs()
    )]
    Stuck,
    /// A thread could not be started, or has ended before its time.
    #[error("cannot measure the overhead of a hit: {0}")]
    Thread(String),
}

/// What a hit does, as far as its cost depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HitKind {
    /// A hit becomes a record.
    pub(crate) records: bool,
    /// Frames of the call stacks.
    pub(crate) depth: u16,
    /// The program reads the value.
    pub(crate) values: bool,
    /// Reads hit as well. If the program reads the value, it does so with the watchpoint still enabled: that is a trap
    /// within the trap, in the kernel. In a virtual machine a hit took 6 times as long as that of a write (45 µs for 7).
    pub(crate) reads: bool,
}

impl HitKind {
    /// Of the most expensive of the points.
    pub(crate) fn of(options: &WatchOptions) -> Self {
        let reads = |point: &Point| matches!(point.access, Access::Read | Access::ReadWrite);
        Self {
            records: !options.count_only,
            depth: options.depth,
            values: options.values,
            reads: options.points.iter().any(reads),
        }
    }
}

/// Measures with a program like the target's.
///
/// # Errors
/// [`CostError`].
pub(crate) fn measure(kernel: &dyn Kernel, kind: HitKind) -> Result<HitCost, CostError> {
    let word = AtomicU64::new(0);
    let (to_worker, requests) = channel();
    let (answers, from_worker) = channel();
    std::thread::scope(|threads| {
        let written = &word;
        let worker = std::thread::Builder::new()
            .name("hit-cost".into())
            .spawn_scoped(threads, move || work(written, &requests, &answers));
        if let Err(error) = worker {
            return Err(CostError::Thread(error.to_string()));
        }
        // Dropped at the end of this block, which ends the worker.
        let ask = to_worker;
        rounds(kernel, &word, kind, &ask, &from_worker)
    })
}

/// Writes to the word as often as asked, and answers how long it took; first of all who it is.
fn work(word: &AtomicU64, requests: &Receiver<u64>, answers: &Sender<Duration>) {
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    // The other end is there as long as it asks; the first answer is a number of a thread.
    let _ = answers.send(Duration::from_nanos(me as u64));
    while let Ok(writes) = requests.recv() {
        let start = thread_cpu_ns();
        for value in 0..writes {
            word.store(value, Ordering::Relaxed);
        }
        let _ = answers.send(Duration::from_nanos(thread_cpu_ns().saturating_sub(start)));
    }
}

fn rounds(
    kernel: &dyn Kernel,
    word: &AtomicU64,
    kind: HitKind,
    ask: &Sender<u64>,
    answers: &Receiver<Duration>,
) -> Result<HitCost, CostError> {
    let gone = |_| CostError::Thread("its thread has ended".into());
    let tid = answers.recv().map_err(|_| CostError::Thread("its thread has ended".into()))?;
    let address = word.as_ptr().addr() as u64;
    let memory = Memory::new(1)?;
    let program = load(
        &memory,
        &ProgramPoint {
            point: 0,
            address,
            bytes: kind.values.then_some(8),
            argument: None,
            in_kernel: false,
            is_shared: false,
            kind: ValueKind::Unsigned,
            when: None,
            when_changed: false,
            records: kind.records,
            depth: kind.depth,
        },
    )?;
    let point = Point {
        target: 0,
        address,
        bytes: 8,
        access: if kind.reads { Access::ReadWrite } else { Access::Write },
        in_kernel: false,
        is_shared: false,
        is_brief: false,
    };
    let thread = PointScope::Thread(tid.as_nanos() as u32);
    let (points, programs) = ([point], [program]);
    let mut opened = Opened::none(&points, &[0]);
    opened.add(kernel, &points, &programs, thread)?;
    let time = |armed: bool| {
        if armed {
            opened.arm(kernel)?;
        }
        ask.send(HITS).map_err(|_| CostError::Thread("its thread has ended".into()))?;
        let answer = answers.recv_timeout(LONGEST_ROUND);
        opened.disarm(kernel)?;
        match answer {
            Ok(time) => Ok(time.as_secs_f64() * 1e9 / HITS as f64),
            Err(RecvTimeoutError::Timeout) => {
                // Disarmed, it goes on; its answer is waited for so that the thread can be joined.
                answers.recv().map_err(gone)?;
                Err(CostError::Stuck)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(CostError::Thread("its thread has ended".into()))
            }
        }
    };
    let mut costs = Vec::with_capacity(ROUNDS);
    // The first round brings code and tables into the caches.
    for round in 0..=ROUNDS {
        let cost = time(true)? - time(false)?;
        memory.ring().drain(|_| {});
        if round > 0 {
            costs.push(cost);
        }
    }
    let interval = mean_interval(&costs, LEVEL);
    let mean = costs.iter().sum::<f64>() / ROUNDS as f64;
    Ok(HitCost {
        ns: mean,
        margin_ns: interval.and_then(|estimate| estimate.interval).map(|i| i.half_width()),
        n: ROUNDS as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::Host;

    #[test]
    fn a_hit_costs_more_than_a_store_and_nothing_stays_armed() {
        for (values, reads) in [(true, false), (true, true), (false, true)] {
            let kind = HitKind { records: true, depth: 16, values, reads };
            let cost = match measure(&Host, kind) {
                Ok(cost) => cost,
                Err(CostError::Program(error)) if error.is_permission() => {
                    eprintln!("skipped: programs of BPF are not allowed here ({error})");
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            assert!(cost.ns > 100.0, "{cost:?}");
            assert_eq!(cost.n, 8);
        }
    }
}
