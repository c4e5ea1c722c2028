//! `kill -9` at any moment leaves a file that everyone reads up to the last flush, which is at most a
//! second old.

use std::thread;
use std::time::{Duration, Instant};

use pmuscope_perfdata::reader::FileState;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::actor;
use crate::harness::{Scratch, Started, need_full, need_perf, skip_unless};
use crate::recording::{Recording, has_begun, need_root_clock, rate};

/// Nanoseconds that may pass between a sample and the flush that makes it safe.
const OLDEST: u64 = 1_000_000_000;
/// A machine on which a short sleep takes so much too long says nothing about our own times.
const TOO_BUSY: Duration = Duration::from_millis(100);

const WRITES: [&[&str]; 4] = [&[], &["--aio"], &["-z"], &["-z", "--aio"]];

/// Time stamps of recordings are on this clock.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps; true if the machine let us run again in time.
fn sleep_in_time(duration: Duration) -> bool {
    let start = Instant::now();
    thread::sleep(duration);
    start.elapsed() < duration + TOO_BUSY
}

/// Records the whole machine, is killed so long after the events were enabled, and looks at what there is.
#[track_caller]
fn kill_after(delay: Duration, write: &[&str]) {
    let scratch = Scratch::new();
    let path = scratch.path("x.data");
    let hz = rate(10_000);
    let args = ["record", "-a", "-e", "cpu-clock", "-F", &hz, "-o", "x.data"];
    let pmuscope = scratch.start([&args, write].concat());
    pmuscope.wait_until(|| has_begun(&path));
    let started = now();
    let in_time = sleep_in_time(delay);
    let killed = now();
    pmuscope.signal(Signal::KILL);
    pmuscope.ends().exits(128 + 9);

    let recording = Recording::at(path);
    let samples = recording.by_us().times;
    if need_perf().is_none() {
        assert_eq!(recording.by_perf().times, samples, "by perf and by us, {write:?} {delay:?}");
    }
    assert_eq!(recording.by_linux_perf_data().times.len(), samples.len());
    assert_eq!(recording.read(|_| ()).state(), FileState::NotClosed);
    assert_eq!(recording.by_report() as usize, samples.len());
    if !in_time {
        return eprintln!("skipped: age of the last flush: this machine is too busy");
    }
    let last = samples.last().copied().unwrap_or(started);
    let age = killed.saturating_sub(last);
    assert!(age <= OLDEST, "the last sample is {age} ns old, {write:?} {delay:?}");
}

#[test]
fn written_directly() {
    skip_unless!(need_root_clock());
    kill_after(Duration::from_millis(700), WRITES[0]);
}

#[test]
fn written_compressed_and_asynchronously() {
    skip_unless!(need_root_clock());
    kill_after(Duration::from_millis(1500), WRITES[3]);
}

/// Twenty moments, the same in every run.
#[test]
fn full_at_random_moments() {
    skip_unless!(need_full());
    skip_unless!(need_root_clock());
    let mut random = fastrand::Rng::with_seed(20);
    for round in 0..20 {
        let delay = Duration::from_micros(random.u64(0..3_000_000));
        eprintln!("{delay:?} {:?}", WRITES[round % 4]);
        kill_after(delay, WRITES[round % 4]);
    }
}

/// Before the events are enabled there may be no file yet; one that is there can be read.
#[test]
fn while_starting() {
    skip_unless!(need_root_clock());
    kill_while_starting(8);
}

#[test]
fn full_while_starting() {
    skip_unless!(need_full());
    skip_unless!(need_root_clock());
    kill_while_starting(40);
}

#[track_caller]
fn kill_while_starting(rounds: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..rounds {
        let scratch = Scratch::new();
        let path = scratch.path("x.data");
        let args = ["record", "-a", "-e", "cpu-clock", "-o", "x.data"];
        let pmuscope = scratch.start([&args, WRITES[round % 4]].concat());
        thread::sleep(Duration::from_micros(random.u64(0..80_000)));
        pmuscope.signal(Signal::KILL);
        pmuscope.ends().exits(128 + 9);
        if path.exists() && path.metadata().unwrap().len() > 0 {
            let recording = Recording::at(path);
            let samples = recording.by_us().times.len();
            if need_perf().is_none() {
                assert_eq!(recording.by_perf().times.len(), samples);
            }
        }
    }
}

/// What a killed recorder observed goes on.
#[test]
fn the_observed_process_goes_on() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let actor = Started::of(&mut actor::command("spin 3000"));
    let pid = actor.pid().to_string();
    let pmuscope = scratch.start(["record", "-e", "cpu-clock", "-o", "x.data", "-p", &pid]);
    pmuscope.wait_until(|| has_begun(&scratch.path("x.data")));
    pmuscope.signal(Signal::KILL);
    pmuscope.ends().exits(128 + 9);
    actor.ends().exits(0);
}
