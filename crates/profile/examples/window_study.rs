//! How far metrics are off by length of function, window and attribution: the tables of docs/metrics.md.
//!
//! A function of one instruction in two cycles takes turns with one of three in a cycle that is ten
//! times as long, so that whatever is not its own shows.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // an example

#[path = "../tests/it/simulator.rs"]
mod simulator;

use pmuscope_events::metrics::Metrics;
use pmuscope_profile::metrics::{Table, is_sure, mean_length};
use pmuscope_profile::windows::{Attribution, Options, Windows};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};
use simulator::{Function, Run, name_at, write};

/// Lengths of the function.
const LENGTHS: [f64; 7] = [100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0, 100_000.0];
const WINDOWS: [u64; 3] = [300, 1000, 3000];

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
    let resolve = &mut |requests: &[Request<'_>]| requests.iter().map(named).collect();
    Windows::read(&path, &options, &metrics, &running, resolve).unwrap()
}

/// `+12 %`, with `~` where the table would not give an interval; and the share of windows kept.
fn off(run: &Run, attribution: Attribution) -> (String, f64, Option<f64>) {
    let windows = read(run, attribution);
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["CPI"]).unwrap();
    let table = Table::new(&windows, &metrics, &chosen);
    let row = windows.rows.iter().find(|row| row.key.function.as_deref() == Some("short")).unwrap();
    let value = table.cells(row)[0].value;
    let off = value.map(|value| 100.0 * (value / run.functions[0].truth()[0] - 1.0));
    let mark = if is_sure(row) { "" } else { "~" };
    let text = off.map_or("-".into(), |off| format!("{mark}{off:+.0} %"));
    (text, row.kept() as f64 / row.windows() as f64, mean_length(row))
}

fn main() {
    println!("| window | function | none | discard | kept | mean length seen |");
    println!("|---|---|---|---|---|---|");
    for window in WINDOWS {
        for length in LENGTHS {
            let functions = vec![
                Function::plain("short", length, 0.5),
                Function::plain("other", length * 10.0, 3.0),
            ];
            let cycles = 2e9_f64.min(2e5 * length.max(2000.0));
            let run = Run { functions, window, cycles, cpus: 1, ..Run::default() };
            let (none, ..) = off(&run, Attribution::None);
            let (discard, kept, seen) = off(&run, Attribution::Discard);
            let seen = seen.map_or("-".into(), |seen| format!("{:.0}", seen * window as f64));
            let kept = 100.0 * kept;
            println!("| {window} | {length} | {none} | {discard} | {kept:.0} % | {seen} |");
        }
    }
}
