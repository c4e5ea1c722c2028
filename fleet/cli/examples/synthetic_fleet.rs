//! Writes a dataset of a fleet that never was, with known sums and a known change, as agents would deliver it: to
//! measure questions by size, and to try them.
//!
//! ```text
//! cargo run --release --example synthetic_fleet -- --to DATASET --hosts 100 --hours 1 RECORDING...
//! ```
//! Stacks are those of real recordings, with their names; each service has some of them, by Zipf's law. Hosts differ by 5%
//! in how much they use each function, and twofold in load. Half of the hosts run version 2 of the first service from the
//! middle on, in which its most frequent function costs `--change` times as much.

#![allow(clippy::print_stdout)] // an example

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use pmuscope_dataset::{
    AgentRow, Dataset, FrameRow, ImportOrigin, IntervalRow, PROFILE, Rows, SampleRow, StackRow,
    TaskIdentity, Timestamp, WaitRow, rows,
};
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::{Collected, GroupBy, Unwinding, available_threads};
use pmuscope_symbols::{Options as SymbolOptions, Symbolizer};

#[derive(Debug, Clone, Parser)]
struct Args {
    /// Folder of the dataset.
    #[arg(long)]
    to: PathBuf,
    /// Hosts.
    #[arg(long, default_value = "10")]
    hosts: u64,
    /// Hours.
    #[arg(long, default_value = "1")]
    hours: i64,
    /// CPUs of a host, half of them busy.
    #[arg(long, default_value = "2")]
    cpus: i64,
    /// Samples per second and CPU.
    #[arg(long, default_value = "100")]
    hertz: i64,
    /// Services.
    #[arg(long, default_value = "8")]
    services: usize,
    /// Stacks of a service.
    #[arg(long, default_value = "20000")]
    stacks: usize,
    /// Seconds of a bin.
    #[arg(long, default_value = "300")]
    bin: i64,
    /// Bins of a file.
    #[arg(long, default_value = "3")]
    bins_per_file: i64,
    /// What the most frequent function of the first service costs in version 2, by what it costs in version 1.
    #[arg(long, default_value = "1.2")]
    change: f64,
    /// Seed.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Recordings with call stacks.
    #[arg(required = true)]
    recordings: Vec<PathBuf>,
}

/// Functions of the kernel that wait; the first has no name.
const WAITS: [&str; 5] = ["", "futex_do_wait", "do_epoll_wait", "do_nanosleep", "worker_thread"];

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// 2025-11-25, midnight UTC.
const BEGINS: i64 = 1_764_028_800_000_000;

/// Random numbers: splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly normal: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A stack with its frames.
struct Known {
    row: StackRow,
    frames: Vec<FrameRow>,
}

/// Stacks of recordings that have names.
fn known(paths: &[PathBuf]) -> Vec<Known> {
    let mut all: std::collections::BTreeMap<i64, Known> = std::collections::BTreeMap::new();
    for path in paths {
        let recording = RecordingFile::open(path).expect("a recording");
        let mut reader = recording.reader().expect("a recording");
        let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: true });
        let running = symbolizer.running_kernel();
        let chains = GroupBy { chains: true, ..GroupBy::default() };
        let collected = {
            let unwinder = symbolizer.unwinder();
            let unwinding = Unwinding { unwinder: &unwinder, running: &running };
            Collected::read(&mut reader, chains, available_threads(), Some(unwinding))
                .expect("a recording")
        };
        let resolve =
            &mut |requests: &[pmuscope_symbols::Request<'_>]| symbolizer.resolve_all(requests);
        let profile = collected.profile(&reader, &running, PROFILE, resolve).expect("a profile");
        let origin = ImportOrigin {
            host: Some("x".into()),
            started: Some(Timestamp(BEGINS)),
            bin: Duration::from_secs(3600),
            batch: 0,
        };
        let found =
            rows(&profile, &origin, &|_| TaskIdentity::of_service("x".into())).expect("rows");
        for row in found.stacks {
            all.entry(row.stack_id).or_insert(Known { row, frames: Vec::new() });
        }
        for frame in found.frames {
            let stack = all.get_mut(&frame.stack_id).expect("frames are of stacks");
            stack.frames.push(frame);
        }
    }
    // A frame for each recording that has it, otherwise.
    for stack in all.values_mut() {
        stack.frames.sort_by_key(|frame| (frame.depth, frame.inline_depth));
        stack.frames.dedup_by_key(|frame| (frame.depth, frame.inline_depth));
    }
    all.into_values().collect()
}

/// Stacks of a service, from the most to the least frequent: indices into all, and sums of their frequencies.
struct Service {
    name: Arc<str>,
    stacks: Vec<usize>,
    upto: Vec<f64>,
}

impl Service {
    fn new(number: usize, args: &Args, all: usize) -> Self {
        let mut random = Random(args.seed ^ (number as u64) << 32);
        let stacks: Vec<usize> =
            (0..args.stacks).map(|_| (random.next() % all as u64) as usize).collect();
        let mut sum = 0.0;
        let upto = (1..=stacks.len()).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let upto = upto.collect();
        Self { name: format!("service-{number}").into(), stacks, upto }
    }

    /// A stack by chance.
    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.upto[self.upto.len() - 1];
        self.stacks[self.upto.partition_point(|&sum| sum < at).min(self.stacks.len() - 1)]
    }
}

/// What a host is like.
struct Host<'a> {
    args: &'a Args,
    all: &'a [Known],
    services: &'a [Service],
    name: Arc<str>,
    boot: Arc<str>,
    random: Random,
    /// How busy it is, by the usual.
    load: f64,
    /// How much it uses a stack, by others: kept where samples are drawn.
    own: Vec<f32>,
    updates: bool,
    batch: i64,
}

impl Host<'_> {
    /// Rows of a bin: samples by service and stack.
    fn bin(&mut self, bin: i64, sums: &mut Vec<u32>) -> (Vec<SampleRow>, i64) {
        let args = self.args;
        let all = self.all.len();
        sums.clear();
        sums.resize(all * self.services.len(), 0);
        let samples = (args.cpus * args.hertz * args.bin) as f64 / 2.0 * self.load;
        let is_new = self.updates && bin * args.bin >= args.hours * 1800;
        let hot = self.services[0].stacks[0];
        let hot = self.all[hot].row.leaf.clone();
        let mut taken = 0_i64;
        let wanted = samples as i64;
        while taken < wanted {
            let which = (self.random.next() % self.services.len() as u64) as usize;
            let stack = self.services[which].draw(&mut self.random);
            // Some stacks are kept less often here than elsewhere.
            let kept = f64::from(self.own[stack]);
            let is_hot = which == 0 && self.all[stack].row.leaf == hot;
            let more = if is_hot && is_new { args.change } else { 1.0 };
            if self.random.unit() * 1.5 * args.change.max(1.0) < kept * more {
                sums[which * all + stack] += 1;
                taken += 1;
            }
        }
        let start = Timestamp(BEGINS + bin * args.bin * 1_000_000);
        let us = 1_000_000 / args.hertz;
        let rows = sums.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, &n)| {
            let service = at / all;
            let version = if service == 0 && is_new { "2" } else { "1" };
            SampleRow {
                start,
                bin_us: args.bin * 1_000_000,
                host: Arc::clone(&self.name),
                boot: Some(Arc::clone(&self.boot)),
                service: Arc::clone(&self.services[service].name),
                version: Some(version.into()),
                unit: Some(Arc::clone(&self.services[service].name)),
                container: None,
                pod: None,
                event: "cpu-clock".into(),
                stack_id: self.all[at % all].row.stack_id,
                samples: i64::from(n),
                weight: i64::from(n) * us,
                weight_unit: "us".into(),
                batch: self.batch,
            }
        });
        (rows.collect(), taken)
    }

    /// Waits of ten seconds in a bin: lengths of each function are spread over five powers of two.
    fn waits(&self, bin: i64) -> Vec<WaitRow> {
        let mut random = Random(self.args.seed ^ (self.batch as u64) << 32 ^ bin as u64);
        let mut waits = Vec::new();
        for service in self.services {
            for (number, wait) in WAITS.iter().enumerate() {
                for power in 0..5 {
                    let waits_of_length = (random.next() % 400) as i64;
                    let length_ns = 1_i64 << (12 + 3 * number + power);
                    waits.push(WaitRow {
                        start: Timestamp(BEGINS + bin * self.args.bin * 1_000_000),
                        bin_us: self.args.bin * 1_000_000,
                        host: Arc::clone(&self.name),
                        boot: Some(Arc::clone(&self.boot)),
                        service: Arc::clone(&service.name),
                        version: Some("1".into()),
                        state: "blocked".into(),
                        wait: (number > 0).then(|| (*wait).into()),
                        function: Some(format!("function_{number}").into()),
                        module: Some("/usr/bin/service".into()),
                        length_ns: (power > 0).then_some(length_ns),
                        waits: waits_of_length,
                        time_us: waits_of_length * length_ns / 700,
                        queued_us: waits_of_length,
                        batch: self.batch,
                        ..WaitRow::default()
                    });
                }
            }
        }
        waits
    }

    /// When waits were recorded.
    fn interval_of_waits(&self, bin: i64, waits: &[WaitRow]) -> IntervalRow {
        IntervalRow {
            event: "off-cpu:blocked".into(),
            recorded_us: 10_000_000,
            own_cpu_us: None,
            ..self.interval(bin, waits.iter().map(|row| row.waits).sum())
        }
    }

    fn interval(&self, bin: i64, samples: i64) -> IntervalRow {
        let args = self.args;
        IntervalRow {
            start: Timestamp(BEGINS + bin * args.bin * 1_000_000),
            bin_us: args.bin * 1_000_000,
            host: Arc::clone(&self.name),
            boot: Some(Arc::clone(&self.boot)),
            event: "cpu-clock".into(),
            cpus: Some(args.cpus),
            recorded_us: args.bin * 1_000_000,
            samples,
            lost: Some(0),
            throttled: 0,
            own_cpu_us: Some(args.bin * 5000),
            recorder: Some("synthetic".into()),
            batch: self.batch,
        }
    }
}

fn main() {
    let args = Args::parse();
    let all = known(&args.recordings);
    println!("{} stacks with names", all.len());
    let services: Vec<Service> =
        (0..args.services).map(|number| Service::new(number, &args, all.len())).collect();
    let threads = available_threads();
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (args, all, services) = (&args, &all, &services);
            scope.spawn(move || {
                (0..args.hosts)
                    .filter(|number| number % threads as u64 == thread)
                    .for_each(|number| write_host(number, args, all, services));
            });
        }
    });
}

fn write_host(number: u64, args: &Args, all: &[Known], services: &[Service]) {
    let dataset = Dataset::new(&args.to);
    let mut random = Random(args.seed.wrapping_mul(1_000_003) ^ number);
    let load = (0.35 * random.normal()).exp().clamp(0.5, 1.9);
    let own =
        (0..all.len()).map(|_| (0.05 * random.normal()).exp().clamp(0.6, 1.45) as f32).collect();
    let mut host = Host {
        args,
        all,
        services,
        name: format!("host-{number:05}").into(),
        boot: format!("{number:032x}").into(),
        random,
        load,
        own,
        updates: number.is_multiple_of(2),
        batch: number as i64,
    };
    let mut sums = Vec::new();
    // Each stack once a day, as agents deliver them.
    let (mut known, mut known_day) = (std::collections::BTreeSet::new(), 0);
    let bins = args.hours * 3600 / args.bin;
    for file in 0..bins.div_euclid(args.bins_per_file).max(1) {
        let mut made = Rows::default();
        let mut agents = Vec::new();
        for bin in file * args.bins_per_file..((file + 1) * args.bins_per_file).min(bins) {
            let (samples, taken) = host.bin(bin, &mut sums);
            made.samples.extend(samples);
            made.intervals.push(host.interval(bin, taken));
            agents.push(AgentRow {
                start: Timestamp(BEGINS + bin * args.bin * 1_000_000),
                bin_us: args.bin * 1_000_000,
                host: Arc::clone(&host.name),
                boot: Some(Arc::clone(&host.boot)),
                agent: "synthetic".into(),
                cpu_us: args.bin * 5000,
                rss_bytes: Some(50 << 20),
                unidentified_samples: 0,
                dropped_samples: 0,
                waiting_files: 0,
                frequency_hz: Some(100),
                unpushed_samples: None,
                off_cpu_rss_bytes: None,
                measurement_rss_bytes: None,
                batch: host.batch,
            });
        }
        let first = file * args.bins_per_file;
        made.waits = host.waits(first);
        made.intervals.push(host.interval_of_waits(first, &made.waits));
        let used: std::collections::BTreeSet<i64> =
            made.samples.iter().map(|row| row.stack_id).collect();
        let day = (BEGINS + first * args.bin * 1_000_000).div_euclid(DAY_US);
        if std::mem::replace(&mut known_day, day) != day {
            known.clear();
        }
        for stack in all.iter().filter(|stack| used.contains(&stack.row.stack_id)) {
            if !known.insert(stack.row.stack_id) {
                continue;
            }
            made.stacks.push(stack.row.clone());
            made.frames.extend(stack.frames.iter().cloned());
        }
        let when = Timestamp(BEGINS + file * args.bins_per_file * args.bin * 1_000_000);
        let name = format!("{}-{file:04}", host.name);
        dataset.write(agents, when, &name).expect("it can be written");
        dataset.write_all(made, when, &name).expect("it can be written");
    }
}
