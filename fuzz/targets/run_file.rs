//! A file of measured runs, and what `pmuscope compare` makes of it; patterns that take numbers from
//! the output of a program.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::file;
use pmuscope_measure::compare::{Explain, Options, compare, medians, trend};
use pmuscope_measure::versus::versus;
use pmuscope_measure::{Extract, load};
use pmuscope_report::{Report, Separator, Style};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some((pattern, output)) = text.split_once('\n')
        && let Ok(extract) = Extract::new("m", "s", pattern)
    {
        let _ = extract.find(output);
    }
    let Ok(runs) = load(&file("runs.json", bytes)) else { return };
    black_box(versus(&runs, "arm", "none"));
    let files = [("a".to_owned(), runs.clone()), ("b".to_owned(), runs)];
    black_box(medians::compare(&files));
    let plain = Options::default();
    for explain in [None, Some(Explain::default())] {
        let options = Options { explain, ..plain.clone() };
        if let Ok(comparison) = compare(&files, &options) {
            black_box(comparison.text(&Style::PLAIN));
            black_box(comparison.delimited(Separator::Tab));
            black_box(comparison.page("commit"));
        }
    }
    if let Ok(trend) = trend(&files, &plain) {
        black_box(trend.text(&Style::PLAIN));
        black_box(trend.page("commit"));
    }
});
