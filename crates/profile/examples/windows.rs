//! How long windows take: `cargo run --release --example windows -- FILE [THREADS]`. Names are made
//! of addresses, 64 KiB each, as the simulator lays functions out: no file is read for them. The figures of
//! docs/benchmarks.md that name it come from here.

#![allow(clippy::print_stdout)] // that is its purpose

use std::path::PathBuf;
use std::time::Instant;

use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::available_threads;
use pmuscope_profile::windows::{Options, Windows};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};

fn named(one: &Request<'_>) -> Resolved {
    let symbol = |&address: &u64| Some(Symbol::named(format!("f{}", address >> 16).into()).into());
    Resolved { symbols: one.addresses.iter().map(symbol).collect(), state: State::Found }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().map(PathBuf::from).ok_or("FILE [THREADS]")?;
    let threads = args.next().map_or_else(|| Ok(available_threads()), |text| text.parse())?;
    let options = Options { threads, ..Options::default() };
    let start = Instant::now();
    let windows = Windows::read(
        &RecordingFile::open(&file)?,
        &options,
        &Metrics::builtin(),
        &KernelIdentity::default(),
        &mut |requests: &[Request<'_>]| requests.iter().map(named).collect::<Vec<_>>(),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    let samples: u64 = windows.tally.records;
    println!(
        "{samples} records, {} windows, {threads} threads: {seconds:.3} s ({:.2} M/s/thread)",
        windows.total.windows(),
        samples as f64 / seconds / 1e6 / threads as f64
    );
    Ok(())
}
