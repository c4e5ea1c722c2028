//! How far metrics are off by length of function, window and attribution: the table and the pictures of
//! docs/metrics.md. `window_study [FOLDER]` writes the pictures there.
//!
//! A function of one instruction in two cycles takes turns with one of three in a cycle that is ten
//! times as long, so that whatever is not its own shows.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // an example

mod plot;
use plot::{Axes, Line, Panel, Point};
use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::metrics::{Table, is_sure, mean_length};
use pmuscope_profile::windows::{Attribution, Options, WindowRow, Windows};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};
use pmuscope_testkit::simulator::{Function, Run, name_at, write};

/// Lengths of the function.
const LENGTHS: [f64; 7] = [100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0, 100_000.0];
const WINDOWS: [u64; 5] = [100, 300, 1000, 3000, 10_000];
/// Lengths whose error the second picture shows by window.
const SHOWN: [usize; 3] = [2, 4, 5];

fn read(run: &Run, attribution: Attribution) -> Windows {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(run, &path);
    let named = |one: &Request<'_>| {
        let symbol = |&address: &u64| {
            name_at(&run.functions, address).map(|name| Symbol::named(name.into()).into())
        };
        Resolved { symbols: one.addresses.iter().map(symbol).collect(), state: State::Found }
    };
    let options = Options { attribution, threads: 2, ..Options::default() };
    let (metrics, running) = (Metrics::builtin(), KernelIdentity::default());
    let resolve = &mut |requests: &[Request<'_>]| requests.iter().map(named).collect::<Vec<_>>();
    Windows::read(&RecordingFile::open(&path).unwrap(), &options, &metrics, &running, resolve)
        .unwrap()
}

/// What became of the function in one simulation.
struct Outcome {
    window: u64,
    length: f64,
    /// Error of its cycles per instruction, in percent, and whether the table would give an interval;
    /// by attribution: none, discard.
    off: [Option<(f64, bool)>; 2],
    /// Share of windows that `discard` keeps, percent.
    kept: f64,
    /// Mean visit, as the ends of windows tell it, cycles.
    seen: Option<f64>,
}

impl Outcome {
    fn of(window: u64, length: f64) -> Self {
        let functions = vec![
            Function::plain("short", length, 0.5),
            Function::plain("other", length * 10.0, 3.0),
        ];
        let cycles = 2e9_f64.min(2e5 * length.max(2000.0));
        let run = Run { functions, window, cycles, cpus: 1, ..Run::default() };
        let truth = run.functions[0].truth()[0];
        let metrics = Metrics::builtin();
        let chosen = metrics.chosen(&["CPI"]).unwrap();
        let mut outcome = Self { window, length, off: [None; 2], kept: 0.0, seen: None };
        for (at, attribution) in [Attribution::None, Attribution::Discard].into_iter().enumerate() {
            let windows = read(&run, attribution);
            let table = Table::new(&windows, &metrics, &chosen);
            let is_it = |row: &&WindowRow| row.key.function.as_deref() == Some("short");
            let row = windows.rows.iter().find(is_it).unwrap();
            let value = table.cells(row)[0].value;
            outcome.off[at] = value.map(|value| (100.0 * (value / truth - 1.0), is_sure(row)));
            outcome.kept = 100.0 * row.kept() as f64 / row.windows() as f64;
            outcome.seen = mean_length(row).map(|seen| seen * window as f64);
        }
        outcome
    }

    fn row(&self) -> String {
        let [none, discard] = self.off.map(|off| {
            off.map_or("-".into(), |(off, is_sure)| {
                format!("{}{off:+.0} %", if is_sure { "" } else { "~" })
            })
        });
        let seen = self.seen.map_or("-".into(), |seen| format!("{seen:.0}"));
        let (window, length, kept) = (self.window, self.length, self.kept);
        format!("| {window} | {length} | {none} | {discard} | {kept:.0} % | {seen} |")
    }
}

fn lines(
    outcomes: &[Outcome],
    is_shown: impl Fn(&Outcome) -> bool,
    x: fn(&Outcome) -> f64,
) -> Vec<Line> {
    let line = |at: usize, name, color| {
        let point = |one: &Outcome| one.off[at].map(|(y, is_sure)| Point { x: x(one), y, is_sure });
        Line {
            name,
            color,
            points: outcomes.iter().filter(|one| is_shown(one)).filter_map(point).collect(),
        }
    };
    vec![line(0, "--attribution none", "#d55e00"), line(1, "--attribution discard", "#0072b2")]
}

/// Error by length of the function, and by length of the window.
fn pictures(outcomes: &[Outcome]) -> [(&'static str, String); 2] {
    const Y: &str = "error of cycles per instruction, %";
    let axes =
        |title, x, from, to| Axes { title, x, y: Y, from, to, low: -100.0, high: 20.0, step: 20.0 };
    let by_length = WINDOWS[1..4].iter().map(|&window| Panel {
        title: format!("windows of {window} cycles"),
        lines: lines(outcomes, |one| one.window == window, |one| one.length),
        marks: vec![(window as f64, "1 window"), (window as f64 * 10.0, "10 windows")],
    });
    let by_window = SHOWN.iter().map(|&at| Panel {
        title: format!("turns of {} cycles", LENGTHS[at]),
        lines: lines(outcomes, |one| one.length == LENGTHS[at], |one| one.window as f64),
        marks: vec![(LENGTHS[at] / 10.0, "a tenth"), (LENGTHS[at], "as long")],
    });
    [
        (
            "windows-by-function.svg",
            plot::svg(
                &axes(
                    "Metrics of functions by their length",
                    "length of a turn of the function, cycles",
                    100.0,
                    100_000.0,
                ),
                &by_length.collect::<Vec<_>>(),
            ),
        ),
        (
            "windows-by-length.svg",
            plot::svg(
                &axes(
                    "Metrics of functions by the length of windows",
                    "length of the windows, cycles",
                    100.0,
                    10_000.0,
                ),
                &by_window.collect::<Vec<_>>(),
            ),
        ),
    ]
}

fn main() {
    println!("| window | turn, cycles | `none` | `discard` | kept | mean visit seen |");
    println!("|---|---|---|---|---|---|");
    let mut outcomes = Vec::new();
    for window in WINDOWS {
        for length in LENGTHS {
            let outcome = Outcome::of(window, length);
            println!("{}", outcome.row());
            outcomes.push(outcome);
        }
    }
    let Some(folder) = std::env::args_os().nth(1) else { return };
    for (name, picture) in pictures(&outcomes) {
        std::fs::write(std::path::Path::new(&folder).join(name), picture).unwrap();
    }
}
