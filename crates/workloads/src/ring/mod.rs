//! Packets through a ring in shared memory, within one process or from one to another: what a cache line
//! that goes back and forth costs.

mod queue;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pmuscope_machine::CpuSet;
use pmuscope_machine::place::{current_cpu, set_affinity};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::WorkloadError;
use crate::facts::{RingFacts, WorkloadFacts};
use crate::place;
use crate::shared::Shared;
use queue::{Side, buffer_words, words};

/// Name on the command line.
pub const NAME: &str = "ring";

/// Longest packet, bytes.
const LONGEST: usize = 64 << 10;
/// A side that waits so long gives up its CPU, for the other may need it.
const SPINS: u32 = 1000;
/// In front of the ring: words by which processes meet.
const MEETING: usize = 8;
const READY: usize = 0;
const GO: usize = 1;
const SUM: usize = 2;
const CPU: usize = 3;

/// How a side knows what is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Indices of both sides.
    Basic,
    /// The slot itself.
    FastForward,
}

impl Mode {
    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::FastForward => "fastforward",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How a side knows what is full.
    pub mode: Mode,
    /// 1: one process does both; 2: one on each side.
    pub processes: usize,
    /// Packets to send.
    pub packets: u64,
    /// Packets in a row before the other side has its turn, where one process does both.
    pub burst: u64,
    /// Bytes of each packet that the producer writes.
    pub bytes_written: usize,
    /// Bytes of each packet that the consumer reads.
    pub bytes_read: usize,
    /// Keep each process on a CPU of its own.
    pub pin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Basic,
            processes: 2,
            packets: 10_000_000,
            burst: 100,
            bytes_written: 0,
            bytes_read: 0,
            pin: true,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), WorkloadError> {
        let wrong =
            |what: &str| Err(WorkloadError::Options { workload: NAME, what: what.to_owned() });
        if !(1..=2).contains(&self.processes) {
            return wrong("--processes: use 1 or 2");
        }
        if self.packets == 0 || self.burst == 0 || self.burst > queue::SLOTS as u64 {
            return wrong("use --packets of at least 1, and --burst of 1 to 1024");
        }
        if self.bytes_written.max(self.bytes_read) > LONGEST {
            return wrong("--bytes-written, --bytes-read: use at most 65536");
        }
        Ok(())
    }

    fn buffer(&self) -> usize {
        buffer_words(self.bytes_written.max(self.bytes_read))
    }

    fn words(&self) -> usize {
        MEETING + words(self.buffer())
    }

    /// What a consumer's numbers must add up to: each packet's number, and once more for each word that was
    /// both written and read.
    fn expected(&self) -> u64 {
        let numbers = (u128::from(self.packets) * u128::from(self.packets - 1) / 2) as u64;
        let words = self.bytes_written.div_ceil(8).min(self.bytes_read.div_ceil(8)) as u64;
        numbers.wrapping_mul(1 + words)
    }
}

/// Sends packets. With two processes, the other one is `program workload ring --attach …`.
///
/// # Errors
/// Wrong options; what the kernel says to shared memory, processes and places; packets that were lost.
pub fn run(program: &Path, options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    options.check()?;
    let file = File::from(
        memfd_create("pmuscope-ring", MemfdFlags::CLOEXEC)
            .map_err(|error| WorkloadError::system("create shared memory", error))?,
    );
    file.set_len((options.words() * 8) as u64)
        .map_err(|error| WorkloadError::system("size shared memory", error))?;
    let shared = map(&file, options)?;
    let (meeting, ring) = shared.words().split_at(MEETING);
    // Before this process has a CPU of its own: the other inherits where it may run.
    let mut consumer =
        (options.processes == 2).then(|| consumer(program, &file, options)).transpose()?;
    if let Err(error) = pin(options, 0) {
        // Nobody will tell it to begin.
        let _ = consumer.as_mut().map(|child| child.kill().and_then(|()| child.wait()));
        return Err(error);
    }
    let mut cpus = vec![current_cpu()];
    let (time_s, sum) = match consumer {
        None => alone(ring, options),
        Some(consumer) => {
            let through = between_two(meeting, ring, options, consumer)?;
            cpus.push(meeting[CPU].load(Ordering::Relaxed) as u32);
            through
        }
    };
    if sum != options.expected() {
        let what = "transfer all packets".to_owned();
        let source = std::io::Error::other("their checksum is wrong");
        return Err(WorkloadError::System { what, source });
    }
    let mut facts = place::facts(NAME, 1, time_s)?;
    facts.ring = Some(RingFacts {
        mode: options.mode.name().to_owned(),
        processes: options.processes,
        packets: options.packets,
        mpps: options.packets as f64 / time_s / 1e6,
        cpus,
    });
    Ok(facts)
}

/// The consumer's process: finds the ring at `path`.
///
/// # Errors
/// As [`run`].
pub fn attach(path: &Path, options: &Options) -> Result<(), WorkloadError> {
    options.check()?;
    let opened = File::options().read(true).write(true).open(path);
    let file = opened.map_err(|error| WorkloadError::system("open the ring", error))?;
    let shared = map(&file, options)?;
    let (meeting, ring) = shared.words().split_at(MEETING);
    pin(options, 1)?;
    meeting[CPU].store(current_cpu().into(), Ordering::Relaxed);
    meeting[READY].store(1, Ordering::Release);
    wait_for(&meeting[GO]);
    let mut side = Side::new(ring, options.mode, options.buffer());
    let words = options.bytes_read.div_ceil(8);
    let (mut sum, mut waited) = (0_u64, 0);
    while side.at() < options.packets {
        match side.take(words) {
            Some(read) => {
                sum = sum.wrapping_add(read);
                waited = 0;
            }
            None => idle(&mut waited),
        }
    }
    meeting[SUM].store(sum, Ordering::Relaxed);
    meeting[READY].store(2, Ordering::Release);
    Ok(())
}

fn map(file: &File, options: &Options) -> Result<Shared, WorkloadError> {
    Shared::map(file, options.words()).map_err(|e| WorkloadError::system("map shared memory", e))
}

/// Both sides in turn; seconds and the sum of what came out.
fn alone(ring: &[AtomicU64], options: &Options) -> (f64, u64) {
    let side = || Side::new(ring, options.mode, options.buffer());
    let (mut producer, mut consumer) = (side(), side());
    let (written, read) = (options.bytes_written.div_ceil(8), options.bytes_read.div_ceil(8));
    let mut sum = 0_u64;
    let started = Instant::now();
    while consumer.at() < options.packets {
        let end = (producer.at() + options.burst).min(options.packets);
        while producer.at() < end && producer.put(written) {}
        while let Some(number) = consumer.take(read) {
            sum = sum.wrapping_add(number);
        }
    }
    (started.elapsed().as_secs_f64(), sum)
}

fn between_two(
    meeting: &[AtomicU64],
    ring: &[AtomicU64],
    options: &Options,
    mut consumer: Child,
) -> Result<(f64, u64), WorkloadError> {
    // Until it is there, and whenever it is waited for, its end is looked for: it may have failed.
    let mut met = |value: u64| {
        while meeting[READY].load(Ordering::Acquire) < value {
            let ended = consumer
                .try_wait()
                .map_err(|e| WorkloadError::system("wait for the consumer", e))?;
            if ended.is_some() && meeting[READY].load(Ordering::Acquire) < value {
                let what = "continue without the consumer, which ended".to_owned();
                return Err(WorkloadError::System { what, source: std::io::Error::other("gone") });
            }
            std::thread::yield_now();
        }
        Ok(())
    };
    met(1)?;
    let mut side = Side::new(ring, options.mode, options.buffer());
    let words = options.bytes_written.div_ceil(8);
    let mut waited = 0;
    let started = Instant::now();
    meeting[GO].store(1, Ordering::Release);
    while side.at() < options.packets {
        if side.put(words) {
            waited = 0;
        } else {
            idle(&mut waited);
        }
    }
    met(2)?;
    let seconds = started.elapsed().as_secs_f64();
    consumer.wait().map_err(|error| WorkloadError::system("wait for the consumer", error))?;
    Ok((seconds, meeting[SUM].load(Ordering::Relaxed)))
}

fn wait_for(word: &AtomicU64) {
    let mut waited = 0;
    while word.load(Ordering::Acquire) == 0 {
        idle(&mut waited);
    }
}

#[inline]
fn idle(waited: &mut u32) {
    *waited += 1;
    if waited.is_multiple_of(SPINS) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// The first side on the first CPU that this process may use, the second on the next.
fn pin(options: &Options, side: usize) -> Result<(), WorkloadError> {
    if !options.pin {
        return Ok(());
    }
    let cpus = place::cpus()?;
    let cpu = cpus[side % cpus.len()];
    set_affinity(&CpuSet::from_iter([cpu]))
        .map_err(|error| WorkloadError::system(format!("move to CPU {cpu}"), error))
}

fn consumer(program: &Path, file: &File, options: &Options) -> Result<Child, WorkloadError> {
    use std::os::fd::AsRawFd as _;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let mut argv: Vec<OsString> = ["workload", NAME, "--attach"].map(OsString::from).into();
    argv.push(path.into());
    let mut add = |flag: &str, value: String| argv.extend([flag.into(), value.into()]);
    add("--mode", options.mode.name().to_owned());
    add("--packets", options.packets.to_string());
    add("--bytes-written", options.bytes_written.to_string());
    add("--bytes-read", options.bytes_read.to_string());
    if !options.pin {
        argv.push("--no-pin".into());
    }
    Command::new(program)
        .args(argv)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| WorkloadError::system("start the consumer", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_gets_all_packets_through() {
        for mode in [Mode::Basic, Mode::FastForward] {
            let options = Options {
                mode,
                processes: 1,
                packets: 50_000,
                bytes_written: 60,
                bytes_read: 17,
                pin: false,
                ..Options::default()
            };
            let facts = run(Path::new("/nonexistent"), &options).unwrap();
            let ring = facts.ring.unwrap();
            assert_eq!((ring.packets, &ring.mode[..]), (50_000, mode.name()));
            assert!(ring.mpps > 0.0 && ring.cpus.len() == 1);
        }
    }

    #[test]
    fn wrong_options_are_named() {
        let refused = |options: Options| run(Path::new("/x"), &options).unwrap_err().to_string();
        assert!(refused(Options { processes: 3, ..Options::default() }).contains("1 or 2"));
        assert!(refused(Options { packets: 0, ..Options::default() }).contains("--packets"));
        assert!(refused(Options { bytes_read: 1 << 20, ..Options::default() }).contains("65536"));
    }
}
