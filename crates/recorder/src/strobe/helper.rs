//! Who sets the phase: this thread, or a child of ours inside the cgroup that the events are limited to.
//! They count nobody else, and the steps between the two calls have to be counted.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;
#[cfg(test)]
use std::sync::Arc;

use pmuscope_counters::spawn::{Server, WORDS};
use pmuscope_counters::{Host, Kernel};

use super::phase::{self, Achieved, EdgeDifferences, Failure, MOST_EDGES, PhaseOrder};
use crate::sys;

/// Sets phases.
#[derive(Debug)]
pub(crate) enum Helper {
    /// The calling thread.
    Here,
    /// The calling thread, on a simulated CPU.
    #[cfg(test)]
    Simulated(Arc<super::simulated::Pmu>),
    /// A child; it has only those descriptors that were open when it began.
    Child(Server),
}

impl Helper {
    /// A child that the cgroup in this directory counts.
    ///
    /// # Errors
    /// Those of starting it and of moving it there.
    pub(crate) fn in_cgroup(directory: &Path) -> io::Result<Self> {
        let server = Server::new(errand)?;
        std::fs::write(directory.join("cgroup.procs"), server.pid().to_string())?;
        Ok(Self::Child(server))
    }

    /// Sets the phase of `edges` on `cpu`.
    pub(crate) fn set(
        &mut self,
        kernel: &dyn Kernel,
        cpu: u32,
        edges: &[BorrowedFd<'_>],
        order: &PhaseOrder,
    ) -> Result<Achieved, Failure> {
        match self {
            Self::Here => {
                let allowed = pmuscope_machine::place::affinity();
                let result = on_cpu(kernel, cpu, edges, order);
                if let Ok(allowed) = allowed {
                    // A CPU that went away meanwhile must not keep us from going on.
                    let _ = pmuscope_machine::place::set_affinity(&allowed);
                }
                result
            }
            #[cfg(test)]
            Self::Simulated(pmu) => phase::set(kernel, edges, order, &|steps| pmu.spin(steps)),
            Self::Child(server) => {
                let answer = server.ask(&request(cpu, edges, order)).map_err(Failure::Call)?;
                read_answer(&answer)
            }
        }
    }
}

/// Goes to the CPU, ahead of others if that is allowed, and sets the phase there. Does not allocate.
fn on_cpu(
    kernel: &dyn Kernel,
    cpu: u32,
    edges: &[BorrowedFd<'_>],
    order: &PhaseOrder,
) -> Result<Achieved, Failure> {
    sys::pin(cpu).map_err(Failure::Call)?;
    // Without the right to it more tries are disturbed, and seen to be.
    let ahead = sys::realtime(true).is_ok();
    let result = phase::set(kernel, edges, order, &sys::spin);
    if ahead {
        let _ = sys::realtime(false);
    }
    result
}

/// `cpu, edges, period, window, tolerance, granule, known turns + 1 or 0, clock, descriptors…`
fn request(cpu: u32, edges: &[BorrowedFd<'_>], order: &PhaseOrder) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = u64::from(cpu);
    words[1] = edges.len() as u64;
    words[2] = order.period;
    words[3] = order.window;
    words[4] = order.tolerance;
    words[5] = order.granule;
    words[6] = order.turns.map_or(0, |turns| turns + 1);
    words[7] = order.clockid as u64;
    for (word, edge) in words[8..].iter_mut().zip(edges) {
        *word = edge.as_raw_fd() as u64;
    }
    words
}

/// What the child does.
fn errand(words: &[u64; WORDS]) -> [u64; WORDS] {
    let order = PhaseOrder {
        period: words[2],
        window: words[3],
        tolerance: words[4],
        granule: words[5],
        turns: words[6].checked_sub(1),
        clockid: words[7] as i32,
    };
    let count = (words[1] as usize).min(MOST_EDGES);
    let edges: [BorrowedFd<'_>; MOST_EDGES] =
        std::array::from_fn(|edge| sys::inherited(words[8 + edge] as i32));
    answer(on_cpu(&Host, words[0] as u32, &edges[..count], &order))
}

const DONE: u64 = 0;
const CALL: u64 = 1;
const NOT_SCHEDULED: u64 = 2;
const NEVER_NEAR: u64 = 3;

/// `what, turns or errno or offset, rejected, from, offsets…, before…`
fn answer(result: Result<Achieved, Failure>) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    match result {
        Ok(achieved) => {
            words[0] = DONE;
            words[1] = achieved.turns;
            words[2] = u64::from(achieved.rejected);
            words[3] = achieved.from_ns;
            let apart = achieved.offsets.iter().chain(&achieved.before);
            words[4..].iter_mut().zip(apart).for_each(|(word, apart)| *word = *apart);
        }
        Err(Failure::Call(error)) => {
            words[0] = CALL;
            words[1] = error.raw_os_error().unwrap_or(libc::EIO) as u64;
        }
        Err(Failure::NotScheduled) => words[0] = NOT_SCHEDULED,
        Err(Failure::NeverNear { offset }) => {
            words[0] = NEVER_NEAR;
            words[1] = offset;
        }
    }
    words
}

fn read_answer(words: &[u64; WORDS]) -> Result<Achieved, Failure> {
    match words[0] {
        DONE => {
            let apart =
                |from: usize| -> EdgeDifferences { std::array::from_fn(|edge| words[from + edge]) };
            let (offsets, before) = (apart(4), apart(4 + MOST_EDGES - 1));
            let (turns, rejected, from_ns) = (words[1], words[2] as u32, words[3]);
            Ok(Achieved { from_ns, offsets, before, turns, rejected })
        }
        CALL => Err(Failure::Call(io::Error::from_raw_os_error(words[1] as i32))),
        NOT_SCHEDULED => Err(Failure::NotScheduled),
        _ => Err(Failure::NeverNear { offset: words[1] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_through_the_pipe_as_they_were() {
        let (offsets, before) = ([300, 600, 0, 0, 0, 0, 9], [1, 2, 3, 4, 5, 6, u64::MAX]);
        let achieved = Achieved { from_ns: 5, offsets, before, turns: 67, rejected: 3 };
        assert_eq!(read_answer(&answer(Ok(achieved))).unwrap(), achieved);
        let back = |failure| read_answer(&answer(Err(failure))).unwrap_err();
        let errno = io::Error::from_raw_os_error(libc::ENODEV);
        assert!(
            matches!(back(Failure::Call(errno)), Failure::Call(e) if e.raw_os_error() == Some(libc::ENODEV))
        );
        assert!(matches!(back(Failure::NotScheduled), Failure::NotScheduled));
        assert!(matches!(back(Failure::NeverNear { offset: 7 }), Failure::NeverNear { offset: 7 }));
    }
}
