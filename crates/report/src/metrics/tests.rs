//! Metrics of a simulated program; a name is wider than a terminal.

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::windows::{By, Options};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};

use super::*;
use pmuscope_testkit::simulator::{Function, Run, name_at, write};

/// As C++ has them.
const LONG: &str = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_find(char)";

fn windows(by: By) -> Windows {
    let functions = vec![
        Function::plain("parse", 60_000.0, 0.8),
        Function { branch_misses: 0.03, ..Function::plain(LONG, 20_000.0, 1.9) },
        Function::plain("tiny", 150.0, 4.0),
    ];
    let run = Run { functions, cycles: 4e7, ..Run::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(&run, &path);
    let named = |one: &Request<'_>| {
        let symbol = |&address: &u64| {
            name_at(&run.functions, address).map(|name| Symbol::named(name.into()).into())
        };
        Resolved { symbols: one.addresses.iter().map(symbol).collect(), state: State::Found }
    };
    let names = &mut |requests: &[Request<'_>]| requests.iter().map(named).collect::<Vec<_>>();
    let options = Options { by, threads: 1, ..Options::default() };
    let recording = RecordingFile::open(&path).unwrap();
    let (metrics, running) = (Metrics::builtin(), KernelIdentity::default());
    Windows::read(&recording, &options, &metrics, &running, names).unwrap()
}

#[test]
fn metrics_fit_the_terminal() {
    let metrics = Metrics::builtin();
    let limits = RowLimits::ALL;
    for (name, by, needs) in
        [("metrics", By::Function, false), ("metrics-needs", By::Inlined, true)]
    {
        let windows = windows(by);
        let chosen = metrics.chosen(&["CPI", "IPC", "BM/KI", "CM/KI", "%CM"]).unwrap();
        let view = MetricsView::new(&windows, "x.data", &metrics, &chosen, limits, needs);
        crate::widths::fits(name, |style| view.text(style));
    }
}
