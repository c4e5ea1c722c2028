//! Times questions over a dataset with both readers of small files, in turn: the engine's, and our own.
//!
//! ```text
//! cargo run --release -p pmuscope-query --example both_readers -- DATASET ROUNDS A B
//! ```
//! A and B are versions that are compared. Prints the seconds of each round; the ratio of one reader to the other is what counts.

#![allow(clippy::print_stdout)] // an example

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use pmuscope_query::{
    ColumnFilter, Engine, QueryError, Selection, ShareBy, Sides, choose_event, diff, shares,
};

/// Files of at most this many bytes are read by our own reader: none, and those that [`Engine::open`] takes for small.
const READERS: [(&str, u64); 2] = [("engine", 0), ("own", 2 << 20)];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dataset, rounds, a, b] = &words[..] else {
        eprintln!("usage: both_readers DATASET ROUNDS A B");
        return ExitCode::from(2);
    };
    let rounds: usize = rounds.parse().unwrap_or(3);
    for round in 0..rounds {
        for (name, small) in READERS {
            match times(Path::new(dataset), small, [a, b]) {
                Ok([top, report, diff]) => {
                    println!(
                        "{round} {name}: top {top:.2} s, report {report:.2} s, diff {diff:.2} s"
                    );
                }
                Err(error) => {
                    eprintln!("error: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// Seconds of services, of functions by service, and of two versions.
fn times(dataset: &Path, small: u64, versions: [&str; 2]) -> Result<[f64; 3], QueryError> {
    let opened = || -> Result<(Engine, Selection), QueryError> {
        let engine = Engine::open_reading(&dataset.into(), small)?;
        let mut selection = Selection::default();
        engine.keep_sums(&selection)?;
        choose_event(&engine, &mut selection)?;
        Ok((engine, selection))
    };
    let began = Instant::now();
    let (engine, _) = opened()?;
    shares(&engine, &[ShareBy::Service], 20, false, true)?;
    let top = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let (engine, selection) = opened()?;
    engine.keep_stacks(&selection)?;
    engine.select(&selection, None)?;
    shares(&engine, &[ShareBy::Service, ShareBy::Function], 20, false, true)?;
    let report = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let (engine, selection) = opened()?;
    engine.keep_stacks(&selection)?;
    let side = |version: &str| ColumnFilter::new("version", vec![version.to_owned()]);
    let [a, b] = versions.map(|version| side(version).into_iter().collect());
    let sides = Sides { a, b };
    engine.select(&selection, Some(&sides))?;
    diff(&engine, 20, true)?;
    Ok([top, report, began.elapsed().as_secs_f64()])
}
