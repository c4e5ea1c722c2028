//! Threads that wait for what is known, for times that are known, and are woken by a known thread.
//!
//! ```text
//!  waits-waker   sleeps ─── wakes both ─ sleeps ─── wakes both ─ …
//!  waits-futex   park ────────┘park ──────────────────┘park
//!  waits-pipe    read ────────┘read ──────────────────┘read
//!  waits-sleep   sleep ───────┘sleep ─────────────────┘
//! ```

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pmuscope_machine::{Machine, ThreadSwitches};

use crate::error::WorkloadError;
use crate::facts::{WaitingThread, WaitsFacts, WorkloadFacts};
use crate::place::{self, Placement};

/// Name on the command line.
pub const NAME: &str = "waits";
/// Name of the thread that wakes.
pub const WAKER: &str = "waits-waker";

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Waits of each thread.
    pub rounds: u64,
    /// How long each of them is to last.
    pub length: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 50, length: Duration::from_millis(20) }
    }
}

/// Waits, and tells how long.
///
/// # Errors
/// Options without sense, or threads or a pipe that cannot be made.
pub fn run(options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    if options.rounds == 0 || options.length.is_zero() {
        let what = "no rounds or no length. Try: at least 1 round of 1 ms".to_owned();
        return Err(WorkloadError::Options { workload: NAME, what });
    }
    let pipe =
        rustix::pipe::pipe().map_err(|error| WorkloadError::system("create a pipe", error))?;
    let started = Instant::now();
    let team = WaitTeam {
        options,
        ready: AtomicUsize::new(0),
        round: AtomicU64::new(0),
        sleeper: OnceLock::new(),
        reader: Mutex::new(pipe.0.into()),
        writer: Mutex::new(Some(pipe.1.into())),
    };
    let placement = Placement { threads: THREADS.len(), pin_to: &[] };
    let waited = place::run_team(NAME, &placement, |index| team.work(index))?;
    let told = waited.into_iter().zip(&THREADS).map(|(waited, thread)| waited.told(thread));
    let told = told.collect::<Result<Vec<_>, _>>()?;
    let mut facts = place::facts(NAME, told.len(), started.elapsed().as_secs_f64())?;
    let (pid, length_s) = (std::process::id(), options.length.as_secs_f64());
    facts.waits = Some(WaitsFacts { pid, length_s, threads: told });
    Ok(facts)
}

/// A thread: its name, the function that it waits in, and who wakes it.
struct Role {
    name: &'static CStr,
    function: &'static str,
    woken_by: Option<&'static str>,
}

const THREADS: [Role; 4] = [
    Role { name: c"waits-futex", function: "wait_for_futex", woken_by: Some(WAKER) },
    Role { name: c"waits-pipe", function: "wait_for_pipe", woken_by: Some(WAKER) },
    Role { name: c"waits-sleep", function: "wait_for_time", woken_by: None },
    Role { name: c"waits-waker", function: "wait_for_time", woken_by: None },
];

/// What all threads share.
struct WaitTeam<'a> {
    options: &'a Options,
    /// Threads that are there. They look again and again: to wait for one another would be a wait as well.
    ready: AtomicUsize,
    round: AtomicU64,
    sleeper: OnceLock<Thread>,
    reader: Mutex<File>,
    /// Taken by the one that writes, so that the pipe ends with it.
    writer: Mutex<Option<File>>,
}

impl WaitTeam<'_> {
    fn work(&self, index: usize) -> Waited {
        // Only a name: without it the thread waits as well.
        let _ = rustix::thread::set_name(THREADS[index].name);
        let length = self.options.length;
        match index {
            0 => {
                self.sleeper.get_or_init(thread::current);
                self.waited(|number| wait_for_futex(&self.round, number))
            }
            1 => {
                let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
                self.waited(|_| wait_for_pipe(&mut reader))
            }
            2 => self.waited(|_| wait_for_time(length)),
            _ => {
                let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.waited(|number| {
                    wait_for_time(length);
                    wake(&self.round, number, self.sleeper.get(), writer.as_mut());
                })
            }
        }
    }

    /// Waits so often, once all threads are there.
    fn waited(&self, mut wait: impl FnMut(u64)) -> Waited {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let reading = || Machine::host().thread_switches(std::process::id(), tid).ok();
        self.ready.fetch_add(1, Ordering::AcqRel);
        while self.ready.load(Ordering::Acquire) < THREADS.len() {
            thread::yield_now();
        }
        let before = reading();
        let (started, mut waited) = (Instant::now(), Duration::ZERO);
        for number in 1..=self.options.rounds {
            let since = Instant::now();
            wait(number);
            waited += since.elapsed();
        }
        let (waits, time) = (self.options.rounds, started.elapsed());
        Waited { tid, waits, waited, time, before, after: reading() }
    }
}

/// What a thread came to.
struct Waited {
    tid: u32,
    waits: u64,
    waited: Duration,
    time: Duration,
    before: Option<ThreadSwitches>,
    after: Option<ThreadSwitches>,
}

impl Waited {
    fn told(self, role: &Role) -> Result<WaitingThread, WorkloadError> {
        let name = role.name.to_string_lossy().into_owned();
        let missing = || std::io::Error::other("the kernel does not report its context switches");
        let what = format!("read the context switches of thread {name}");
        let (before, after) =
            self.before.zip(self.after).ok_or_else(|| WorkloadError::system(what, missing()))?;
        let seconds = |from: Option<u64>, to: Option<u64>| {
            from.zip(to).map(|(from, to)| to.saturating_sub(from) as f64 / 1e9)
        };
        Ok(WaitingThread {
            name,
            tid: self.tid,
            function: role.function.to_owned(),
            woken_by: role.woken_by.map(str::to_owned),
            waits: self.waits,
            waited_s: self.waited.as_secs_f64(),
            time_s: self.time.as_secs_f64(),
            voluntary_switches: after.voluntary,
            involuntary_switches: after.involuntary,
            on_cpu_s: seconds(before.on_cpu_ns, after.on_cpu_ns),
            run_queue_s: seconds(before.queued_ns, after.queued_ns),
        })
    }
}

/// Until the round of that number has come. `park` waits for a futex.
#[inline(never)]
fn wait_for_futex(round: &AtomicU64, number: u64) {
    while round.load(Ordering::Acquire) < number {
        thread::park();
    }
}

#[inline(never)]
fn wait_for_pipe(reader: &mut File) {
    // The end of the pipe ends the wait as well.
    let _ = reader.read(&mut [0]);
}

#[inline(never)]
fn wait_for_time(length: Duration) {
    thread::sleep(length);
}

/// Wakes both.
#[inline(never)]
fn wake(round: &AtomicU64, number: u64, sleeper: Option<&Thread>, writer: Option<&mut File>) {
    round.store(number, Ordering::Release);
    if let Some(sleeper) = sleeper {
        sleeper.unpark();
    }
    if let Some(writer) = writer {
        // It fails only where the reader has ended.
        let _ = writer.write_all(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_waits_as_often_as_asked_and_at_least_as_long() {
        let options = Options { rounds: 3, length: Duration::from_millis(5) };
        let facts = run(&options).unwrap();
        let waits = facts.waits.unwrap();
        let names: Vec<&str> = waits.threads.iter().map(|thread| &*thread.name).collect();
        assert_eq!(names, ["waits-futex", "waits-pipe", "waits-sleep", WAKER]);
        for thread in &waits.threads {
            assert_eq!(thread.waits, 3);
            assert!(
                thread.waited_s <= thread.time_s && thread.voluntary_switches >= 1,
                "{thread:?}"
            );
        }
        let least = |name: &str| {
            let found = waits.threads.iter().find(|thread| thread.name == name).unwrap();
            assert!(found.waited_s >= 0.015, "{found:?}");
        };
        least("waits-sleep");
        least(WAKER);
    }

    #[test]
    fn no_waits_are_refused() {
        let none = Options { rounds: 0, ..Options::default() };
        assert!(run(&none).unwrap_err().to_string().contains("at least 1 round"));
    }
}
