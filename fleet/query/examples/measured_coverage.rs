//! How often intervals of what agents measure now and then hold the truth: metrics of functions and services, waits, locality
//! of memory. Fleets by chance, through files and questions, as users have them.
//!
//! ```text
//! cargo run --release --example measured_coverage -- 1000
//! cargo run --release --example measured_coverage -- 1 DATASET    writes one fleet to a folder, where it stays
//! ```
//! Hosts have loads that differ by 65%. What a function, service or wait takes of the load differs from host to host by 5%, and
//! cycles per instruction by 5% and with the load; misses differ by 30%; memory of a service by 65%, and the part of it that is
//! local is anything (0.3 to 0.7, or 0.8 to 0.95, of most hosts). Each bin of a host differs by 20% from its others. The truth is
//! the ratio of sums over 200,000 hosts.

#![allow(clippy::print_stdout)] // an example

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_dataset::{
    COUNTS_EVENT, CountRow, Dataset, IntervalRow, LOCALITY_EVENT, LocalityRow, Rows, Timestamp,
    WINDOWS_EVENT, WaitRow, WindowSumRow,
};
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_query::{
    Engine, MetricSource, QueryError, Selection, ShareBy, locality, metrics, waits,
};
use pmuscope_stats::Interval;

use crate::synthetic::{BEGINS, BIN_US, CLASSES, Random, Tally, class, class_name, fleets_asked};

mod synthetic;

/// Bins of a host in which something was measured.
const BINS: i64 = 4;
/// Hosts of which the truth is made.
const MANY: u64 = 200_000;
/// The event whose intervals say when waits were recorded.
const WAITS_EVENT: &str = "off-cpu:blocked";

/// A part of a host's load with a name: a function, or a service.
struct Part {
    name: &'static str,
    /// Of the load, on average.
    share: f64,
    /// Cycles per instruction.
    cpi: f64,
    /// Branch misses, or page faults, per 1,000 cycles.
    rate: f64,
    /// Part of the hosts that have it at all.
    hosts: f64,
}

const FUNCTIONS: [Part; 5] = [
    Part { name: "parse", share: 0.40, cpi: 0.8, rate: 4.0, hosts: 1.0 },
    Part { name: "hash", share: 0.25, cpi: 0.5, rate: 0.1, hosts: 1.0 },
    Part { name: "chase", share: 0.15, cpi: 6.0, rate: 0.5, hosts: 1.0 },
    Part { name: "copy", share: 0.05, cpi: 1.5, rate: 0.02, hosts: 1.0 },
    Part { name: "rare", share: 0.15, cpi: 1.2, rate: 2.0, hosts: 0.3 },
];
const SERVICES: [Part; 3] = [
    Part { name: "shop", share: 0.50, cpi: 1.1, rate: 0.4, hosts: 1.0 },
    Part { name: "db", share: 0.30, cpi: 2.0, rate: 0.05, hosts: 1.0 },
    Part { name: "batch", share: 0.20, cpi: 0.9, rate: 3.0, hosts: 0.3 },
];
/// Threads that wait, and the mean length of a wait, microseconds. The first are idle workers, as many on each host.
const WAITS: [(&str, f64, f64); 3] =
    [("ep_poll", 16.0, 5000.0), ("futex_do_wait", 0.8, 300.0), ("io_schedule", 0.05, 80.0)];
/// Memory of a service, MiB, and the local part of it as logarithm of its odds, with the standard deviation of that.
const MEMORY: [(&str, f64, f64, f64); 3] =
    [("shop", 4000.0, 0.0, 0.4), ("db", 30_000.0, 2.0, 0.4), ("cache", 8000.0, 0.5, 1.0)];

/// Metrics of services that windows do not have: those of `pmuscope fleet metrics`.
const PER_TIME: &str = "[time]
GHz = cycles / 1000 / cpu-time
PF/s = 1000000 * page-faults / cpu-time
%TIME = 100 * cpu-time / total(cpu-time)";
const OF_WINDOWS: [&str; 3] = ["CPI", "BM/KI", "%CY"];
const OF_COUNTS: [&str; 4] = ["CPI", "GHz", "PF/s", "%TIME"];

/// Sums of a part: cycles, instructions, branch misses or page faults, CPU time in microseconds.
type Sums = [f64; 4];

/// What was measured of a host in a bin.
struct Bin {
    functions: [Option<Sums>; FUNCTIONS.len()],
    services: [Option<Sums>; SERVICES.len()],
    /// Of hardware events those of one metric are counted at a time.
    counts_cpi: bool,
    /// Time of waits, microseconds, and their number.
    waits: [(f64, f64); WAITS.len()],
    /// Time in which waits were recorded, microseconds: less where there are many, since recordings have a limit.
    waits_recorded: f64,
    /// Memory and local memory by node, bytes.
    memory: [[(f64, f64); 2]; MEMORY.len()],
}

/// Bins of a host by chance.
fn host(random: &mut Random) -> Vec<Bin> {
    let load = random.factor(0.5);
    // Busy hosts have fewer instructions per cycle.
    let slow = load.powf(0.1);
    let traits = |parts: &[Part], random: &mut Random| -> Vec<Option<Sums>> {
        let own = |part: &Part| {
            let is_there = random.unit() < part.hosts;
            let cycles = 3e9 * load * part.share * random.factor(0.05);
            let cpi = part.cpi * slow * random.factor(0.05);
            let events = cycles * part.rate / 1000.0 * random.factor(0.3);
            let time = cycles / 3000.0 * random.factor(0.05);
            is_there.then_some([cycles, cycles / cpi, events, time])
        };
        parts.iter().map(own).collect()
    };
    let (functions, services) = (traits(&FUNCTIONS, random), traits(&SERVICES, random));
    let waiting = WAITS.map(|(name, threads, length)| {
        let threads = threads * if name == "ep_poll" { 1.0 } else { load } * random.factor(0.3);
        (threads, length * random.factor(0.3))
    });
    let placed = MEMORY.map(|(_, mib, odds, spread)| {
        let odds = (odds + spread * random.factor(1.0).ln()).exp();
        (mib * f64::from(1 << 20) * random.factor(0.5), odds)
    });
    let bin = |_| {
        let now = random.factor(0.2);
        let of_bin = |own: &Option<Sums>, random: &mut Random| {
            own.map(|sums| {
                let now = now * random.factor(0.2);
                let [cycles, instructions, events, time] = sums.map(|sum| sum * now);
                [
                    cycles,
                    instructions * random.factor(0.1),
                    events * random.factor(0.2),
                    time * random.factor(0.02),
                ]
            })
        };
        let waits_per_us: f64 = waiting.iter().map(|(threads, length)| threads / length).sum();
        // 45,000 switches are what the limit has room for.
        let waits_recorded = (45_000.0 / (waits_per_us * now)).min(10e6);
        Bin {
            functions: std::array::from_fn(|at| of_bin(&functions[at], random)),
            services: std::array::from_fn(|at| of_bin(&services[at], random)),
            counts_cpi: random.unit() < 0.5,
            waits: waiting.map(|(threads, length)| {
                let time = threads * now * random.factor(0.2) * waits_recorded;
                (time, time / (length * random.factor(0.1)))
            }),
            waits_recorded,
            memory: placed.map(|(bytes, odds)| {
                let bytes = bytes * random.factor(0.1);
                let odds = odds * random.factor(0.2);
                let local = odds / (1.0 + odds);
                let first = 0.5 * random.factor(0.2).min(1.9);
                [first, 1.0 - first].map(|part| (bytes * part, bytes * part * local))
            }),
        }
    };
    (0..BINS).map(bin).collect()
}

/// Writes a fleet of so many hosts into files.
fn write(dataset: &Dataset, hosts: u64, random: &mut Random) {
    let mut rows = Rows::default();
    for number in 0..hosts {
        let name: Arc<str> = format!("host-{number}").into();
        for (bin, measured) in (0..).zip(host(random)) {
            push(&mut rows, &name, Timestamp(BEGINS + bin * BIN_US), &measured);
        }
    }
    dataset.write_all(rows, Timestamp(BEGINS), "fleet").expect("it can be written");
}

fn push(rows: &mut Rows, host: &Arc<str>, start: Timestamp, bin: &Bin) {
    let whole = |sum: f64| sum.round() as i64;
    let interval = |event: &str, recorded_us: f64| IntervalRow {
        start,
        bin_us: BIN_US,
        host: Arc::clone(host),
        event: event.into(),
        cpus: Some(2),
        recorded_us: whole(recorded_us),
        ..IntervalRow::default()
    };
    rows.intervals
        .extend([WINDOWS_EVENT, COUNTS_EVENT, LOCALITY_EVENT].map(|event| interval(event, 10e6)));
    rows.intervals.push(interval(WAITS_EVENT, bin.waits_recorded));
    for (part, sums) in FUNCTIONS.iter().zip(&bin.functions) {
        let Some([cycles, instructions, misses, _]) = *sums else { continue };
        let events =
            [("cycles", cycles), ("instructions", instructions), ("branch-misses", misses)];
        rows.windows.extend(events.map(|(event, count)| WindowSumRow {
            start,
            bin_us: BIN_US,
            host: Arc::clone(host),
            function: Some(part.name.into()),
            module: "/bin/shop".into(),
            event_set: "branch-misses,cycles,instructions".into(),
            event: event.into(),
            windows: 500,
            // A hundredth of the time was in windows.
            count: whole(count / 100.0),
            count_of_all: whole(count / 100.0),
            tested: 510,
            same_at_both_ends: 500,
            ..WindowSumRow::default()
        }));
    }
    for (part, sums) in SERVICES.iter().zip(&bin.services) {
        let Some([cycles, instructions, faults, time]) = *sums else { continue };
        let mut count = |set: &str, event: &str, count: f64| {
            rows.counts.push(CountRow {
                start,
                bin_us: BIN_US,
                host: Arc::clone(host),
                service: part.name.into(),
                event_set: set.into(),
                event: event.into(),
                cgroups: 1,
                count: whole(count),
                cpu_us: whole(time),
                all_cpu_us: whole(time),
                ..CountRow::default()
            });
        };
        count("page-faults", "page-faults", faults);
        let set = if bin.counts_cpi { "cycles,instructions" } else { "cache-misses,cycles" };
        count(set, "cycles", cycles);
        match bin.counts_cpi {
            true => count(set, "instructions", instructions),
            false => count(set, "cache-misses", faults),
        }
    }
    rows.waits.extend(WAITS.iter().zip(&bin.waits).map(|((wait, ..), (time, number))| WaitRow {
        start,
        bin_us: BIN_US,
        host: Arc::clone(host),
        service: "shop".into(),
        state: "blocked".into(),
        wait: Some((*wait).into()),
        length_ns: Some(1 << 14),
        waits: whole(*number),
        time_us: whole(*time),
        ..WaitRow::default()
    }));
    for ((service, ..), nodes) in MEMORY.iter().zip(&bin.memory) {
        rows.locality.extend((0..).zip(nodes).map(|(node, (memory, local))| LocalityRow {
            start,
            bin_us: BIN_US,
            host: Arc::clone(host),
            service: (*service).into(),
            node,
            observations: 1,
            processes: 1,
            cpu_us: 1_000_000,
            memory_bytes: whole(*memory),
            local_bytes: whole(*local),
            ..LocalityRow::default()
        }));
    }
}

/// Values by what they are of: a row, and a column of it.
type Values<T> = BTreeMap<(String, &'static str), T>;

/// What a fleet without end has; of waits what a host of it has in the time that was recorded of it.
fn truth() -> Values<f64> {
    let mut random = Random(12345);
    let mut functions = [[0.0; 4]; FUNCTIONS.len()];
    let mut services = [[0.0; 4]; SERVICES.len()];
    let mut waiting = [[0.0; 3]; WAITS.len()];
    let mut memory = [[0.0; 2]; MEMORY.len()];
    let add = |to: &mut [Sums], from: &[Option<Sums>]| {
        let some = to.iter_mut().zip(from).filter_map(|(to, from)| Some((to, from.as_ref()?)));
        some.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to += from));
    };
    for _ in 0..MANY {
        let bins = host(&mut random);
        for bin in &bins {
            add(&mut functions, &bin.functions);
            add(&mut services, &bin.services);
            for (to, nodes) in memory.iter_mut().zip(&bin.memory) {
                nodes.iter().for_each(|(all, local)| {
                    to[0] += all;
                    to[1] += local;
                });
            }
        }
        let recorded: f64 = bins.iter().map(|bin| bin.waits_recorded).sum();
        for bin in &bins {
            for (to, (time, number)) in waiting.iter_mut().zip(bin.waits) {
                to[0] += time / recorded / MANY as f64;
                to[1] += number / recorded / MANY as f64;
                to[2] += time / bin.waits_recorded / (BINS as f64 * MANY as f64);
            }
        }
    }
    let mut values = Values::new();
    let mut set = |row: &str, column, value| _ = values.insert((row.to_owned(), column), value);
    let cycles: f64 = functions.iter().map(|[cycles, ..]| cycles).sum();
    for (part, sums) in FUNCTIONS.iter().zip(functions) {
        set(part.name, "CPI", sums[0] / sums[1]);
        set(part.name, "BM/KI", 1000.0 * sums[2] / sums[1]);
        set(part.name, "%CY", 100.0 * sums[0] / cycles);
    }
    let time: f64 = services.iter().map(|[.., time]| time).sum();
    for (part, sums) in SERVICES.iter().zip(services) {
        set(part.name, "CPI", sums[0] / sums[1]);
        set(part.name, "GHz", sums[0] / 1000.0 / sums[3]);
        set(part.name, "PF/s", 1e6 * sums[2] / sums[3]);
        set(part.name, "%TIME", 100.0 * sums[3] / time);
    }
    for ((wait, ..), [threads, number, of_all]) in WAITS.iter().zip(waiting) {
        // Busy times count less where recordings end early, within a host.
        let off = 100.0 * (threads / of_all - 1.0);
        println!("threads in {wait}: {off:+.1}% in the time that was recorded");
        set(wait, "threads", threads);
        set(wait, "waits/s", 1e6 * number);
    }
    for ((service, ..), [all, local]) in MEMORY.iter().zip(memory) {
        set(service, "local", local / all);
    }
    values
}

/// Intervals of an answer.
fn asked(
    engine: &Engine,
    known: &Metrics,
    hosts: u64,
) -> Result<Values<Option<Interval>>, QueryError> {
    let mut found = Values::new();
    let select = |event: &str| {
        engine.select(&Selection { event: Some(event.into()), ..Selection::default() }, None)
    };
    let sources = [
        (WINDOWS_EVENT, MetricSource::Windows, ShareBy::Function, &OF_WINDOWS[..]),
        (COUNTS_EVENT, MetricSource::Counts, ShareBy::Service, &OF_COUNTS[..]),
    ];
    for (event, source, by, names) in sources {
        select(event)?;
        let chosen: Vec<&Metric> = known.chosen(names).unwrap_or_default();
        for row in metrics(engine, source, (&[by], 100), known, &chosen)?.rows {
            for (name, metric) in names.iter().zip(&row.metrics) {
                found.insert((row.keys[0].clone(), *name), metric.interval);
            }
        }
    }
    select(WAITS_EVENT)?;
    for row in waits(engine, &[ShareBy::Wait], 100)?.rows {
        // Of a host, as the truth is.
        let of_host = |of: Option<pmuscope_stats::Estimate>| {
            of?.interval.map(|of| Interval {
                low: of.low / hosts as f64,
                high: of.high / hosts as f64,
                ..of
            })
        };
        found.insert((row.keys[0].clone(), "threads"), of_host(row.threads));
        found.insert((row.keys[0].clone(), "waits/s"), of_host(row.rate));
    }
    select(LOCALITY_EVENT)?;
    for row in locality(engine, &[ShareBy::Service], 100)?.rows {
        found.insert((row.keys[0].clone(), "local"), row.locality.and_then(|of| of.interval));
    }
    Ok(found)
}

/// Kinds of what is measured.
const GROUPS: [&str; 6] =
    ["functions", "functions, rare", "services", "services, rare", "waits", "locality"];

fn group_of(row: &str, column: &str) -> &'static str {
    let of =
        |parts: &[Part]| parts.iter().find(|part| part.name == row).map(|part| part.hosts < 1.0);
    let at = match (column, of(&FUNCTIONS), of(&SERVICES)) {
        ("threads" | "waits/s", ..) => 4,
        ("local", ..) => 5,
        (_, Some(is_rare), _) => usize::from(is_rare),
        (_, _, is_rare) => 2 + usize::from(is_rare == Some(true)),
    };
    GROUPS[at]
}

fn main() -> Result<(), QueryError> {
    let mut known = Metrics::builtin();
    known.add(PER_TIME).expect("they are right");
    let truth = truth();
    let mut random = Random(1);
    let mut fleets = CLASSES.map(|_| 0);
    let mut held: Values<[Tally; CLASSES.len()]> = Values::new();
    let kept = std::env::args_os().nth(2).map(PathBuf::from);
    for _ in 0..fleets_asked() {
        let hosts = random.hosts();
        let Some(class) = class(hosts) else { continue };
        fleets[class] += 1;
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = kept.as_deref().unwrap_or(temporary.path());
        write(&Dataset::new(folder), hosts, &mut random);
        let engine = Engine::open(&folder.into())?;
        for (what, interval) in asked(&engine, &known, hosts)? {
            let truth = truth[&what];
            held.entry(what).or_default()[class].add_interval(interval, truth);
        }
    }
    let line = |name: &str, cells: &dyn Fn(usize) -> String| {
        let cells: String =
            (0..=CLASSES.len()).map(|class| format!(" {:16}", cells(class))).collect();
        println!("{name:24}{}", cells.trim_end());
    };
    line("hosts", &|class| if class < CLASSES.len() { class_name(class) } else { "all".into() });
    line("fleets", &|class| match fleets.get(class) {
        Some(fleets) => fleets.to_string(),
        None => fleets.iter().sum::<u64>().to_string(),
    });
    let show = |name: &str, tallies: &[Tally; CLASSES.len()]| {
        let all = tallies.iter().fold(Tally::default(), |all, one| all.plus(one));
        line(name, &|class| tallies.get(class).unwrap_or(&all).to_string());
    };
    for group in GROUPS {
        let of_group = held.iter().filter(|((row, column), _)| group_of(row, column) == group);
        let mut all = [Tally::default(); CLASSES.len()];
        for (_, tallies) in of_group {
            all.iter_mut().zip(tallies).for_each(|(all, one)| *all = all.plus(one));
        }
        show(group, &all);
    }
    for ((row, column), tallies) in &held {
        show(&format!("{column} of {row}"), tallies);
    }
    Ok(())
}
