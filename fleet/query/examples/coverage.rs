//! How often intervals over hosts hold the truth, and how often a change is claimed where there is none: fleets by chance,
//! through files and questions, as users have them.
//!
//! ```text
//! cargo run --release --example coverage -- 1000
//! ```
//! Hosts differ by 5% in how much they use each function, and have loads that differ by 65%; each bin of a host differs
//! by 20% from its others. Fleets have 3 to 200 hosts, small ones as often as large ones. Half of the hosts of a fleet run
//! version 2, which is the same as version 1; in a second fleet all hosts run both, one after the other.

#![allow(clippy::print_stdout)] // an example

use std::sync::Arc;

use pmuscope_dataset::{Dataset, FrameRow, IntervalRow, Rows, SampleRow, StackRow, Timestamp};
use pmuscope_query::{
    ColumnFilter, Engine, FleetDiff, QueryError, Selection, ShareBy, Sides, choose_event, diff,
    shares,
};

use crate::synthetic::{BEGINS, BIN_US, CLASSES, Random, Tally, class, class_name, fleets_asked};

mod synthetic;

/// Bins of a host.
const BINS: i64 = 24;
/// What functions use of a host's CPU time, on average; the rest is of the last one.
const FUNCTIONS: [f64; 6] = [0.30, 0.20, 0.10, 0.05, 0.02, 0.33];
/// CPU time of a bin, microseconds, on average.
const USED_US: f64 = 150e6;

/// CPU time by bin and function of a host, microseconds.
fn host(random: &mut Random) -> Vec<[f64; FUNCTIONS.len()]> {
    let own = FUNCTIONS.map(|share| share * random.factor(0.05));
    let load = random.factor(0.5) * USED_US / 1.13;
    (0..BINS)
        .map(|_| {
            let bin = load * random.factor(0.2);
            own.map(|share| share * bin * random.factor(0.2))
        })
        .collect()
}

/// A fleet of so many hosts, in files; `both` hosts run both versions.
fn write(dataset: &Dataset, hosts: u64, both: bool, random: &mut Random) {
    let mut rows = Rows::default();
    for number in 0..hosts {
        let name: Arc<str> = format!("host-{number}").into();
        for (bin, used) in host(random).into_iter().enumerate() {
            let start = Timestamp(BEGINS + bin as i64 * BIN_US);
            let is_second = if both { bin as i64 >= BINS / 2 } else { number % 2 == 1 };
            let version: Arc<str> = if is_second { "2" } else { "1" }.into();
            rows.samples.extend(used.iter().enumerate().map(|(function, us)| SampleRow {
                start,
                bin_us: BIN_US,
                host: Arc::clone(&name),
                boot: None,
                service: "shop".into(),
                version: Some(Arc::clone(&version)),
                unit: None,
                container: None,
                pod: None,
                event: "cpu-clock".into(),
                stack_id: function as i64,
                samples: (us / 1e4) as i64,
                weight: *us as i64,
                weight_unit: "us".into(),
                batch: 1,
            }));
            rows.intervals.push(IntervalRow {
                start,
                bin_us: BIN_US,
                host: Arc::clone(&name),
                boot: None,
                event: "cpu-clock".into(),
                cpus: Some(2),
                recorded_us: BIN_US,
                samples: used.iter().map(|us| (us / 1e4) as i64).sum(),
                lost: Some(0),
                throttled: 0,
                own_cpu_us: None,
                recorder: None,
                batch: 1,
            });
        }
    }
    for function in 0..FUNCTIONS.len() as i64 {
        let name: Arc<str> = format!("f{function}").into();
        rows.stacks.push(StackRow {
            stack_id: function,
            digest: "".into(),
            leaf: Some(Arc::clone(&name)),
            leaf_module: "/bin/shop".into(),
            depth: 1,
        });
        rows.frames.push(FrameRow {
            stack_id: function,
            depth: 0,
            inline_depth: 0,
            build_id: None,
            address: None,
            function: Some(name),
            module: "/bin/shop".into(),
            file: None,
            line: None,
        });
    }
    dataset.write_all(rows, Timestamp(BEGINS), "fleet").expect("it can be written");
}

/// What a fleet without end has: shares of functions, and CPUs in use per host.
fn truth() -> ([f64; FUNCTIONS.len()], f64) {
    let mut random = Random(12345);
    let (mut sums, mut hosts) = ([0.0; FUNCTIONS.len()], 0.0);
    for _ in 0..100_000 {
        hosts += 1.0;
        for bin in host(&mut random) {
            bin.iter().zip(&mut sums).for_each(|(us, sum)| *sum += us);
        }
    }
    let all: f64 = sums.iter().sum();
    (sums.map(|sum| sum / all), all / (hosts * (BINS * BIN_US) as f64))
}

/// Fleets of a size.
#[derive(Default)]
struct Class {
    fleets: u64,
    shares: Tally,
    cores: Tally,
    /// Comparisons that claim anything; of two halves, then of each host with itself.
    claims: [Tally; 2],
}

impl Class {
    fn plus(&self, other: &Self) -> Self {
        Self {
            fleets: self.fleets + other.fleets,
            shares: self.shares.plus(&other.shares),
            cores: self.cores.plus(&other.cores),
            claims: [0, 1].map(|at| self.claims[at].plus(&other.claims[at])),
        }
    }
}

fn main() -> Result<(), QueryError> {
    let (true_shares, true_cores) = truth();
    let mut random = Random(1);
    let mut classes = CLASSES.map(|_| Class::default());
    for _ in 0..fleets_asked() {
        let hosts = random.hosts();
        let Some(class) = class(hosts) else { continue };
        let class = &mut classes[class];
        class.fleets += 1;
        for both in [false, true] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            write(&Dataset::new(folder.path()), hosts, both, &mut random);
            let engine = Engine::open(&folder.path().into())?;
            let mut selection = Selection::default();
            choose_event(&engine, &mut selection)?;
            if !both {
                let found = shares(&engine, &[ShareBy::Function], 100, false, true)?;
                for row in &found.rows {
                    let number: usize = row.keys[0][1..].parse().unwrap_or(0);
                    let share = row.share.and_then(|share| share.interval);
                    class.shares.add_interval(share, true_shares[number]);
                }
                let cores = found.fleet.cores.and_then(|cores| cores.interval);
                class.cores.add_interval(cores, true_cores * hosts as f64);
            }
            let version = |version: &str| {
                ColumnFilter::new("version", vec![version.to_owned()]).into_iter().collect()
            };
            let sides = Sides { a: version("1"), b: version("2") };
            engine.select(&selection, Some(&sides))?;
            let FleetDiff { rows, cost, .. } = diff(&engine, 100, true)?;
            let differs: Vec<Option<bool>> =
                rows.iter().chain(&cost).map(|row| row.differs()).collect();
            if differs.iter().any(Option::is_some) {
                class.claims[usize::from(both)].add(differs.contains(&Some(true)));
            }
        }
    }
    println!("hosts   fleets  shares held          CPUs held          A/A halves     A/A pairs");
    let show = |name: &str, class: &Class| {
        let Class { fleets, shares, cores, claims: [halves, pairs] } = class;
        println!("{name:7} {fleets:6}  {shares:20} {cores:18} {halves:14} {pairs}");
    };
    classes.iter().enumerate().for_each(|(number, class)| show(&class_name(number), class));
    show("all", &classes.iter().fold(Class::default(), |all, one| all.plus(one)));
    Ok(())
}
