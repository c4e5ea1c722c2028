//! How often 95% CIs of recordings hold the true value, and how often two recordings of the same program are
//! found to differ: the tables of docs/benchmarks.md.
//!
//! ```text
//! cargo run --release -p pmuscope-profile --example coverage -- [RECORDINGS [PART-OF-NAME]]
//! ```
//!
//! Each case simulates a program in two phases that differ in the functions they run and in their speed, writes
//! RECORDINGS (600) recordings of it, and reads them as `report`, `metrics`, `diff` and `diff --metrics` do.
//! What the program does follows from no assumption of the intervals: phases are exponential (a Markov
//! chain), jittered, exactly periodic or lognormal (a few very long ones), branch misses come in clusters of
//! eight, and sampling is throttled where the name says so. All is seeded: the same table on any machine.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // an example

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::{Reader, RecordingFile};
use pmuscope_profile::diff::{Order, diff};
use pmuscope_profile::metrics::{Table, diff::diff as metric_diff};
use pmuscope_profile::windows::{Options as WindowOptions, Windows};
use pmuscope_profile::{Collected, GroupBy, Options, Profile};
use pmuscope_stats::Interval;
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};
use pmuscope_testkit::simulator::{Form, Function, PhaseLength, Phases, Run, name_at, write};

/// Weight and speed of `common`, `other` and `rare` in the second phase; in the first, weights are
/// [`FIRST`] and the speed is 1.
const SECOND: [(f64, f64); 3] = [(0.2, 0.5), (0.798, 0.5), (0.002, 0.5)];
const FIRST: [f64; 3] = [0.6, 0.39, 0.01];
const NAMES: [&str; 3] = ["common", "other", "rare"];
/// Branch misses per instruction.
const MISSES: f64 = 0.01;
/// What is looked at: shares of functions, and metrics of them.
const LOOKED_AT: [&str; 5] =
    ["share common", "share rare", "CPI common", "CPI rare", "BM/KI common"];
const METRICS: [&str; 2] = ["CPI", "BM/KI"];

const LENGTHS: [(PhaseLength, u32, &str); 5] = [
    (PhaseLength::Exponential, 0, "exponential"),
    (PhaseLength::Jittered, 0, "jittered"),
    (PhaseLength::Periodic, 0, "periodic"),
    (PhaseLength::Lognormal, 0, "lognormal"),
    (PhaseLength::Exponential, 8, "throttled"),
];
/// Seconds of recordings, and of phases, milliseconds.
const TIMES: [(f64, &[f64]); 5] =
    [(0.009, &[0.1]), (0.03, &[1.0]), (0.3, &[1.0, 3.0]), (3.0, &[10.0, 50.0]), (30.0, &[1000.0])];

struct Case {
    name: String,
    seconds: f64,
    phase: f64,
    length: PhaseLength,
    throttles: u32,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (length, throttles, kind) in LENGTHS {
        for (seconds, phases) in TIMES {
            for phase in phases {
                let name = format!("{kind}, {seconds} s, phases of {phase} ms");
                cases.push(Case { name, seconds, phase: phase / 1000.0, length, throttles });
            }
        }
    }
    cases
}

/// True values of what is looked at.
fn truth() -> [f64; 5] {
    let share = |at: usize| f64::midpoint(FIRST[at], SECOND[at].0);
    let cycles_per_instruction =
        |at: usize| (FIRST[at] + SECOND[at].0) / (FIRST[at] + SECOND[at].0 * SECOND[at].1);
    let [common, rare] = [0, 2];
    [
        share(common),
        share(rare),
        cycles_per_instruction(common),
        cycles_per_instruction(rare),
        1000.0 * MISSES,
    ]
}

impl Case {
    /// One cycle is a nanosecond. Visits are so long that few windows have two functions: those that count for none
    /// are not of all phases alike. Some 15,000 windows, but where the recording is too short for that: there
    /// each begins where the last one ended.
    fn run(&self, seed: u64) -> Run {
        let cycles = self.seconds * 1e9;
        let function = |at: usize| Function {
            shape: 1,
            branch_misses: MISSES,
            weight: FIRST[at],
            ..Function::plain(NAMES[at], (cycles / 1e5).clamp(20_000.0, 300_000.0), 1.0)
        };
        let is_short = self.seconds < 0.01;
        Run {
            functions: (0..3).map(function).collect(),
            form: if is_short { Form::BackToBack } else { Form::Strobe },
            cpus: 1,
            cycles,
            period: (cycles / 15_000.0) as u64,
            counts: 2,
            phases: Some(Phases { mean: self.phase * 1e9, length: self.length, second: &SECOND }),
            cluster: 8.0,
            throttles: self.throttles,
            suspended: cycles / 100.0,
            seed,
            ..Run::default()
        }
    }
}

/// A recording, as `report` and `metrics` see it.
fn read(run: &Run) -> (Profile, Windows) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(run, &path);
    let named = |one: &Request<'_>| {
        let symbol = |&address: &u64| {
            name_at(&run.functions, address).map(|name| Symbol::named(name.into()).into())
        };
        Resolved { symbols: one.addresses.iter().map(symbol).collect(), state: State::Found }
    };
    let resolve = |requests: &[Request<'_>]| requests.iter().map(named).collect::<Vec<_>>();
    let running = KernelIdentity::default();
    let mut reader = Reader::open(&path).unwrap();
    let collected = Collected::read(&mut reader, GroupBy::default(), 1, None).unwrap();
    let profile =
        collected.profile(&reader, &running, Options::default(), &mut { resolve }).unwrap();
    let options = WindowOptions { threads: 1, ..WindowOptions::default() };
    let windows = Windows::read(
        &RecordingFile::open(&path).unwrap(),
        &options,
        &Metrics::builtin(),
        &running,
        &mut { resolve },
    )
    .unwrap();
    (profile, windows)
}

/// The intervals of what is looked at, in its order.
fn intervals(profile: &Profile, windows: &Windows, metrics: &Metrics) -> [Option<Interval>; 5] {
    let share = |name: &str| {
        let mut rows = profile.events[0].functions.iter();
        rows.find(|row| profile.function_of(row) == Some(name))?.interval
    };
    let chosen = metrics.chosen(&METRICS).unwrap();
    let table = Table::new(windows, metrics, &chosen);
    let metric = |name: &str, column: usize| {
        let mut rows = windows.rows.iter();
        let row = rows.find(|row| row.key.function.as_deref() == Some(name))?;
        table.cells(row)[column].interval
    };
    [share("common"), share("rare"), metric("common", 0), metric("rare", 0), metric("common", 1)]
}

/// What the recordings of a case came to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// By what is looked at: intervals, and those that hold the truth.
    intervals: [(usize, usize); 5],
    /// By `diff` and `diff --metrics`: pairs of which anything can be said, and those with a claim.
    pairs: [(usize, usize); 2],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        let sums = self.intervals.iter_mut().chain(&mut self.pairs);
        for (sum, more) in sums.zip(other.intervals.iter().chain(&other.pairs)) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
    }

    /// Two recordings of the same program.
    fn pair(case: &Case, seed: u64, metrics: &Metrics) -> Self {
        let mut tally = Self::default();
        let (profiles, windows): (Vec<_>, Vec<_>) =
            [2 * seed, 2 * seed + 1].into_iter().map(|seed| read(&case.run(seed + 1))).unzip();
        for (profile, windows) in profiles.iter().zip(&windows) {
            let found = intervals(profile, windows, metrics).into_iter().zip(truth());
            for (sum, (interval, truth)) in tally.intervals.iter_mut().zip(found) {
                sum.0 += usize::from(interval.is_some());
                sum.1 += usize::from(interval.is_some_and(|one| one.contains(truth)));
            }
        }
        let mut claim = |at: usize, verdicts: Vec<Option<bool>>| {
            tally.pairs[at].0 += usize::from(verdicts.iter().any(Option::is_some));
            tally.pairs[at].1 += usize::from(verdicts.contains(&Some(true)));
        };
        let diffs = diff(&profiles[..1], &profiles[1..], Order::Share);
        claim(0, diffs[0].rows.iter().map(|row| row.differs()).collect());
        let chosen = metrics.chosen(&METRICS).unwrap();
        let diffs = metric_diff(&windows[..1], &windows[1..], metrics, &chosen);
        claim(1, diffs.iter().flat_map(|diff| &diff.rows).map(|row| row.differs()).collect());
        tally
    }

    fn row(&self, recordings: usize) -> String {
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of as f64;
        let cell = |&(all, held): &(usize, usize)| match all {
            0 => "-".to_owned(),
            _ if all == recordings => format!("{:.1}%", percent(held, all)),
            _ => format!("{:.1}% of {:.0}%", percent(held, all), percent(all, recordings)),
        };
        let pairs = |&(all, claims): &(usize, usize)| match all {
            0 => "-".to_owned(),
            _ => format!("{claims} of {all}"),
        };
        let cells: Vec<String> =
            self.intervals.iter().map(cell).chain(self.pairs.iter().map(pairs)).collect();
        cells.join(" | ")
    }
}

fn tally(case: &Case, pairs: usize) -> Tally {
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Tally::default());
    let metrics = Metrics::builtin();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= pairs {
                break;
            }
            let one = Tally::pair(case, at as u64, &metrics);
            sum.lock().unwrap().add(&one);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..pmuscope_profile::available_threads() {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let recordings: usize = args.next().map_or(600, |text| text.parse().unwrap());
    let part = args.next().unwrap_or_default();
    println!("| phases | {} | `diff` claims | `diff --metrics` claims |", LOOKED_AT.join(" | "));
    println!("|---|{}", "---|".repeat(LOOKED_AT.len() + 2));
    let mut all = Tally::default();
    for case in cases().iter().filter(|case| case.name.contains(&part)) {
        let tally = tally(case, recordings / 2);
        println!("| {} | {} |", case.name, tally.row(recordings));
        all.add(&tally);
    }
    let [diffs, metric_diffs] = all.pairs.map(|(pairs, claims)| match pairs {
        0 => "- (no pair has what a claim takes)".to_owned(),
        _ => format!("{claims} of {pairs} ({:.1}%)", 100.0 * claims as f64 / pairs as f64),
    });
    println!("\nclaims of unchanged programs: `diff` {diffs}, `diff --metrics` {metric_diffs}");
}
