//! Writes a simulated recording of windows: `simulate strobe|constant|alternating CYCLES FILE [chains]`.

#![allow(clippy::unwrap_used)] // an example

use pmuscope_testkit::simulator::{Form, Function, Run, write};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Call chains make files of another kind: asked for by a word more.
    let (words, chains) = match words.split_last() {
        Some((last, rest)) if last == "chains" => (rest, true),
        _ => (&words[..], false),
    };
    let [form, cycles, file] = words else {
        eprintln!("usage: simulate strobe|constant|alternating CYCLES FILE [chains]");
        std::process::exit(2);
    };
    let form = match &form[..] {
        "strobe" => Form::Strobe,
        "constant" => Form::BackToBack,
        _ => Form::Alternating,
    };
    let functions = vec![
        Function::plain("division", 60_000.0, 0.2),
        Function { branch_misses: 0.03, ..Function::plain("branches", 20_000.0, 0.9) },
        Function { cache_misses: 0.4, weight: 0.3, ..Function::plain("chase", 12_000.0, 0.28) },
        Function { calls: Some((0, 0.5)), ..Function::plain("caller", 30_000.0, 2.0) },
    ];
    let run = Run {
        functions,
        form,
        cycles: cycles.parse().unwrap(),
        period: 1_000_003,
        counts: 3,
        chains,
        ..Run::default()
    };
    write(&run, file.as_ref());
}
