//! How long each stage of a report takes: `cargo run --release --example read -- FILE [THREADS]
//! [chains] [no-symbols] [in-order] [only-read]`. The figures of docs/benchmarks.md that name it come from here.

#![allow(clippy::print_stdout)] // that is its purpose

use std::path::PathBuf;
use std::time::Instant;

use pmuscope_machine::Machine;
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::{Collected, GroupBy, Intervals, Options, available_threads};
use pmuscope_symbols::{KernelIdentity, Options as SymbolOptions, Symbolizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let file = args.first().map(PathBuf::from).ok_or("FILE [THREADS] [chains] [no-symbols]")?;
    let threads = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or_else(available_threads);
    let apart = GroupBy { chains: has("chains"), ..GroupBy::default() };
    let start = Instant::now();
    let mut reader = Reader::open(&file)?;
    let collected = if has("in-order") {
        Collected::in_order(&mut reader, apart, None)?
    } else {
        Collected::read(&mut reader, apart, threads, None)?
    };
    let read = start.elapsed().as_secs_f64();
    if has("only-read") {
        println!("read {read:.3} s");
        return Ok(());
    }
    let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: false });
    let running = KernelIdentity::of_running(&Machine::host());
    let (mut named, mut addresses) = (0.0, 0);
    let options =
        Options { rows: Some(40), intervals: Intervals::Largest(40), ..Options::default() };
    let profile = collected.profile(&reader, &running, options, &mut |requests| {
        let start = Instant::now();
        addresses = requests.iter().map(|request| request.addresses.len()).sum();
        let found = if has("no-symbols") { Vec::new() } else { symbolizer.resolve_all(requests) };
        named = start.elapsed().as_secs_f64();
        found
    })?;
    let all = start.elapsed().as_secs_f64();
    let samples = profile.samples() as f64;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let memory = |key: &str| status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    println!(
        "{samples} samples, {threads} threads: read {read:.3} s ({:.1} M/s/thread), {addresses} addresses \
         named {named:.3} s, rest {:.3} s, all {all:.3} s; {} frames, {} stacks, {} cells; {}",
        samples / read / 1e6 / threads as f64,
        all - read - named,
        profile.aggregate.frames.len(),
        profile.aggregate.stacks.len(),
        profile.aggregate.cells.len(),
        memory("VmHWM"),
    );
    Ok(())
}
