//! Metrics of a simulated program against what it really did.

use std::path::Path;

use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_profile::metrics::{MetricCell, Table, mean_length};
use pmuscope_profile::windows::{
    Attribution, By, Cause, Options, WindowRow, Windows, WindowsError,
};
use pmuscope_stats::{median, t_quantile};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};

use pmuscope_testkit::simulator::{Form, Function, Run, name_at, write};

pub(crate) const METRICS: [&str; 4] = ["CPI", "BM/KI", "CM/KI", "%CM"];

pub(crate) fn read_with(
    run: &Run,
    path: &Path,
    options: &Options,
) -> Result<Windows, WindowsError> {
    let named = |one: &Request<'_>| {
        let symbol = |&address: &u64| {
            name_at(&run.functions, address).map(|name| Symbol::named(name.into()).into())
        };
        Resolved { symbols: one.addresses.iter().map(symbol).collect(), state: State::Found }
    };
    let names = &mut |requests: &[Request<'_>]| requests.iter().map(named).collect::<Vec<_>>();
    Windows::read(
        &RecordingFile::open(path).unwrap(),
        options,
        &Metrics::builtin(),
        &KernelIdentity::default(),
        names,
    )
}

fn simulated_with(run: &Run, options: &Options) -> Windows {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(run, &path);
    read_with(run, &path, options).unwrap()
}

pub(crate) fn options() -> Options {
    Options { threads: 2, ..Options::default() }
}

pub(crate) fn simulated(run: &Run) -> Windows {
    simulated_with(run, &options())
}

pub(crate) fn cells(windows: &Windows, row: &WindowRow) -> Vec<MetricCell> {
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&METRICS).unwrap();
    Table::new(windows, &metrics, &chosen).cells(row)
}

pub(crate) fn row<'a>(windows: &'a Windows, name: &str) -> &'a WindowRow {
    windows.rows.iter().find(|row| row.key.function.as_deref() == Some(name)).unwrap()
}

pub(crate) fn program() -> Vec<Function> {
    vec![
        Function { branch_misses: 0.0001, ..Function::plain("division", 60_000.0, 0.2) },
        Function { branch_misses: 0.03, ..Function::plain("branches", 20_000.0, 0.9) },
        Function {
            cache_references: 0.5,
            cache_misses: 0.4,
            weight: 0.3,
            ..Function::plain("chase", 12_000.0, 0.28)
        },
        Function { calls: Some((0, 0.5)), ..Function::plain("caller", 30_000.0, 2.0) },
        Function::plain("leaf", 150.0, 4.0),
    ]
}

#[test]
fn known_truth_lies_in_nineteen_of_twenty_intervals() {
    let (mut held, mut all) = ([0_u32; 4], [0_u32; 4]);
    for seed in 0..120 {
        let run = Run { functions: program(), seed, cycles: 1.5e8, ..Run::default() };
        let windows = simulated(&run);
        for function in &run.functions[..4] {
            let row = row(&windows, function.name);
            let each = cells(&windows, row).into_iter().zip(function.truth()).enumerate();
            for (at, (cell, truth)) in each {
                let Some(interval) = cell.interval else { continue };
                all[at] += 1;
                held[at] += u32::from(interval.contains(truth));
            }
        }
    }
    assert!(all.iter().all(|&all| all > 400), "{all:?}");
    let (sum, of) = (held.iter().sum::<u32>(), all.iter().sum::<u32>());
    let share = f64::from(sum) / f64::from(of);
    println!("{held:?} of {all:?}: {share:.4}");
    assert!((0.93..=0.97).contains(&share), "{held:?} of {all:?}: {share}");
}

/// Counts of misses are Poisson's here: no method can know their rate better than by `√count`. The
/// instructions of a window spread by a tenth. The width of a single interval scatters, for its variance is known
/// from some 4 to 16 cosines, as Student's quantile says; the median over recordings does not.
#[test]
fn intervals_are_hardly_wider_than_they_must_be() {
    const NAMES: [&str; 4] = ["division", "branches", "chase", "caller"];
    const RUNS: u64 = 16;
    let mut ratios = [const { [const { Vec::new() }; 2] }; NAMES.len()];
    for seed in 0..RUNS {
        let run = Run { functions: program(), seed, cycles: 4e8, skid: 0.0, ..Run::default() };
        let windows = simulated(&run);
        for (name, ratios) in NAMES.iter().zip(&mut ratios) {
            let row = row(&windows, name);
            let cells = cells(&windows, row);
            let kept = row.kept() as f64;
            let instructions = kept * 300.0 / cells[0].value.unwrap();
            let misses = instructions * cells[2].value.unwrap() / 1000.0;
            let best = [0.1 / kept.sqrt(), 1.0 / misses.sqrt()];
            for ((ratios, best), at) in ratios.iter_mut().zip(best).zip([0, 2]) {
                let cell = &cells[at];
                let half = cell.interval.unwrap().half_width() / cell.value.unwrap();
                ratios.push(half / (t_quantile(0.975, cell.freedom.unwrap()) * best));
            }
        }
    }
    let medians = ratios.map(|of_row| of_row.map(|values| median(&values).unwrap()));
    println!("{medians:.3?}");
    assert!(medians.iter().flatten().all(|median| (0.9..1.25).contains(median)), "{medians:?}");
}

#[test]
fn short_and_rare_functions_are_estimates_without_interval() {
    let mut functions = program();
    functions[4].weight = 60.0;
    functions.push(Function { weight: 0.02, ..Function::plain("rare", 30_000.0, 1.0) });
    let windows = simulated(&Run { functions, cycles: 3e8, ..Run::default() });
    let leaf = row(&windows, "leaf");
    assert!(leaf.kept() > 30 && mean_length(leaf).unwrap() < 10.0, "{:?}", mean_length(leaf));
    let rare = row(&windows, "rare");
    assert!((1..30).contains(&rare.kept()), "{}", rare.kept());
    for row in [leaf, rare] {
        for cell in cells(&windows, row) {
            assert!(cell.value.is_some() && cell.interval.is_none(), "{cell:?}");
        }
    }
    let length = mean_length(row(&windows, "division")).unwrap();
    assert!((100.0..400.0).contains(&length), "60,000 cycles are 200 windows: {length}");
}

#[test]
fn every_window_that_does_not_count_has_its_cause() {
    let run =
        Run { functions: program(), switches: 1e-5, throttles: 2, cycles: 2e8, ..Run::default() };
    let windows = simulated(&run);
    let total = &windows.total;
    let rejected: Vec<u64> = Cause::ALL.iter().map(|&cause| total.rejected(cause)).collect();
    assert_eq!(total.kept() + rejected.iter().sum::<u64>(), total.windows());
    // Per CPU two suspensions, behind each of which 50 pairs are at one moment.
    assert_eq!(total.rejected(Cause::AfterThrottle), 4);
    assert_eq!(total.rejected(Cause::WrongOffset), 4 * 49);
    assert!(windows.by_cpu.values().all(|cpu| cpu.wrong_offset == 2 * 49));
    let switched = total.rejected(Cause::ContextSwitch) as f64;
    let expected = total.windows() as f64 * 300.0 * 1e-5;
    assert!((switched - expected).abs() < 5.0 * expected.sqrt() + 2.0, "{switched} {expected}");
    assert!(total.rejected(Cause::NoSymbol) > 0, "the other task's code has no name");
    assert_eq!(total.rejected(Cause::WrongLength), 0);
    let of_rows: u64 = windows.rows.iter().map(WindowRow::windows).sum();
    assert_eq!(of_rows, total.windows());
}

/// The first window after a suspension holds what other counters counted meanwhile.
#[test]
fn a_throttled_stream_of_windows_is_told_by_its_records() {
    let run = Run {
        functions: program(),
        form: Form::BackToBack,
        throttles: 1,
        suspended: 1e6,
        cycles: 6e6,
        cpus: 1,
        ..Run::default()
    };
    let windows = simulated(&run);
    let total = &windows.total;
    assert_eq!(total.rejected(Cause::Throttled) + total.rejected(Cause::AfterThrottle), 2);
    assert!(windows.discards && windows.kind.window == Some(300) && windows.kind.period.is_none());
}

#[test]
fn all_forms_find_the_same() {
    let strobe = Run { functions: program(), cycles: 3e8, ..Run::default() };
    let alternating = Run { form: Form::Alternating, ..strobe.clone() };
    let back_to_back = Run { form: Form::BackToBack, cycles: 1.2e7, ..strobe.clone() };
    for run in [strobe, alternating, back_to_back] {
        let windows = simulated(&run);
        for function in &run.functions[..4] {
            let cells = cells(&windows, row(&windows, function.name));
            for (cell, truth) in cells.iter().zip(function.truth()) {
                let (value, half) =
                    (cell.value.unwrap(), cell.interval.map_or(1e9, |one| one.half_width()));
                let off = (value - truth).abs();
                assert!(off < 2.5 * half, "{:?} {}: {value} {truth}", run.form, function.name);
            }
        }
    }
    let kind = simulated(&Run {
        functions: program(),
        form: Form::Alternating,
        cycles: 1e8,
        ..Run::default()
    })
    .kind;
    assert!(kind.window.unwrap().abs_diff(300) < 20 && kind.period == Some(200_003), "{kind:?}");
}

fn signature(windows: &Windows) -> Vec<String> {
    let of = |row: &WindowRow| {
        let rejected: Vec<u64> = Cause::ALL.iter().map(|&cause| row.rejected(cause)).collect();
        let cells: Vec<String> =
            cells(windows, row).iter().map(|cell| format!("{cell:.9?}")).collect();
        let (function, windows, kept) = (&row.key.function, row.windows(), row.kept());
        format!("{function:?} {windows} {kept} {rejected:?} {cells:?}")
    };
    windows.rows.iter().map(of).collect()
}

/// Threads take pieces of the file in any order.
/// A function without a window in some turn had none of that turn's cycles; the others had them all the
/// same.
#[test]
fn shares_add_up_where_groups_take_turns() {
    let mut functions = program();
    let rare = Function { weight: 0.004, ..Function::plain("rare", 30_000.0, 1.0) };
    functions.extend([Function { name: "rarer", ..rare }, rare]);
    let turns = vec![vec![0], vec![1], vec![2], vec![3]];
    let windows = simulated(&Run { functions, turns, cycles: 3e8, ..Run::default() });
    let kept: Vec<u64> = windows.rows.iter().map(WindowRow::kept).collect();
    assert!(kept.iter().any(|kept| (1..4).contains(kept)), "no row lacks a turn: {kept:?}");
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["%CY"]).unwrap();
    let table = Table::new(&windows, &metrics, &chosen);
    let shares: Vec<f64> =
        windows.rows.iter().filter_map(|row| table.cells(row)[0].value).collect();
    let sum: f64 = shares.iter().sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}: {shares:?} of {kept:?} windows");
}

/// Windows that begin in another function count for none: a function of 13 windows would lose 7% of its
/// share, longer ones a part of that.
#[test]
fn shares_of_short_functions_are_those_of_their_time() {
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["%CY", "%BM"]).unwrap();
    let (mut held, mut all, mut sums) = ([0; 2], [0; 2], [0.0; 2]);
    const RUNS: u64 = 60;
    for seed in 0..RUNS {
        let function = |name, length: f64, time: f64| Function {
            shape: 1,
            weight: time / length,
            ..Function::plain(name, length, 1.0)
        };
        let functions = vec![
            function("short", 2500.0, 0.1),
            function("long", 10_000.0, 0.5),
            function("longer", 20_000.0, 0.4),
        ];
        let run = Run { functions, seed, cycles: 1e9, ..Run::default() };
        let windows = simulated(&run);
        let table = Table::new(&windows, &metrics, &chosen);
        for (at, cell) in table.cells(row(&windows, "short")).iter().enumerate() {
            sums[at] += cell.value.unwrap();
            all[at] += u32::from(cell.interval.is_some());
            held[at] += u32::from(cell.interval.is_some_and(|one| one.contains(10.0)));
        }
        for (row, expected) in [(&windows.total, 100.0), (row(&windows, "long"), 50.0)] {
            let value = table.cells(row)[0].value.unwrap();
            assert!((value / expected - 1.0).abs() < 0.12, "{value} of {expected}");
        }
    }
    println!("{sums:?}: {held:?} of {all:?}");
    assert!(sums.iter().all(|sum| (sum / RUNS as f64 / 10.0 - 1.0).abs() < 0.015), "{sums:?}");
    assert!(all.iter().all(|all| *all > 50), "{all:?}");
    assert!(held.iter().zip(all).all(|(held, all)| f64::from(*held) > 0.88 * f64::from(all)));
}

#[test]
fn windows_do_not_depend_on_threads_or_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    for form in [Form::Strobe, Form::BackToBack] {
        let cycles = if form == Form::Strobe { 6e7 } else { 2e6 };
        let run = Run {
            functions: program(),
            form,
            cycles,
            cpus: 3,
            throttles: 1,
            switches: 1e-6,
            ..Run::default()
        };
        write(&run, &path);
        let one = signature(&read_with(&run, &path, &Options { threads: 1, ..options() }).unwrap());
        for (threads, piece) in [(3, 1), (2, 5000), (4, 70_000)] {
            let pieces = Pieces { part: piece, chunk: piece, packed_chunk: piece };
            let windows =
                read_with(&run, &path, &Options { threads, pieces, ..options() }).unwrap();
            assert_eq!(signature(&windows), one, "{form:?} {threads} threads, pieces of {piece}");
        }
    }
}

#[test]
fn windows_of_two_functions_count_only_where_asked() {
    let mut functions = program();
    functions[1].length = 900.0; // three windows
    functions[1].weight = 10.0;
    let run = Run { functions, ..Run::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(&run, &path);
    let read = |attribution| read_with(&run, &path, &Options { attribution, ..options() }).unwrap();
    let (none, discard) = (read(Attribution::None), read(Attribution::Discard));
    assert_eq!(none.total.windows(), discard.total.windows());
    assert_eq!(none.total.rejected(Cause::OtherSymbol), 0);
    let lost = discard.total.rejected(Cause::OtherSymbol);
    assert_eq!(none.total.kept(), discard.total.kept() + lost);
    // What others counted is not the function's any more.
    let error = |windows: &Windows| {
        let value = cells(windows, row(windows, "branches"))[0].value.unwrap();
        (value - run.functions[1].truth()[0]).abs()
    };
    assert!(error(&discard) < error(&none) / 2.0, "{} {}", error(&discard), error(&none));
    assert_eq!(signature(&read(Attribution::Auto)), signature(&discard));
}

#[test]
fn rows_are_of_what_was_asked_for() {
    let run = Run { functions: program(), cycles: 2e7, ..Run::default() };
    for (by, rows) in [(By::Module, 1), (By::Mode, 1), (By::Line, 5), (By::Inlined, 5)] {
        let windows = simulated_with(&run, &Options { by, ..options() });
        assert!(windows.rows.len().abs_diff(rows) <= 1, "{by:?} {}", windows.rows.len());
        assert_eq!(
            windows.rows.iter().map(WindowRow::windows).sum::<u64>(),
            windows.total.windows()
        );
    }
    let modes = simulated_with(&run, &Options { by: By::Mode, ..options() });
    assert_eq!(modes.rows[0].key.mode, Some("user"));
}

/// Cycles and instructions in windows of cycles, where each window begins with the return from an
/// interrupt: absurd cycles per instruction, while rates per instruction stay right.
#[test]
fn short_windows_count_the_interrupt_that_opens_them() {
    let run = |window| Run {
        functions: program(),
        window,
        interrupt: 250.0,
        skid: 0.0,
        cycles: 6e8,
        ..Run::default()
    };
    let times = |windows: &Windows, name: &str, at: usize| {
        let function = program().into_iter().find(|one| one.name == name).unwrap();
        cells(windows, row(windows, name))[at].value.unwrap() / function.truth()[at]
    };
    let near = |value: f64, expected: f64, by: f64| {
        assert!((value / expected - 1.0).abs() < by, "{value} {expected}");
    };
    let (short, long) = (simulated(&run(300)), simulated(&run(3000)));
    for name in ["division", "branches", "caller"] {
        near(times(&short, name, 0), 300.0 / 50.0, 0.1);
        near(times(&long, name, 0), 3000.0 / 2750.0, 0.03);
    }
    near(times(&short, "branches", 1), 1.0, 0.1);
    let calibrated = simulated_with(&run(300), &Options { interrupt_cost: 250, ..options() });
    near(times(&calibrated, "division", 0), 1.0, 0.1);
}

/// The basic columns of a small recording, by a script that shares nothing with us.
#[test]
fn a_script_finds_the_same_to_the_last_digit() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/metrics.py");
    let python = std::process::Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|out| out.status.success()) {
        println!("skipped: python3 is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["basic"]).unwrap();
    for form in [Form::BackToBack, Form::Alternating] {
        let cycles = if form == Form::BackToBack { 4e5 } else { 5e7 };
        let run = Run { functions: program(), form, cycles, skid: 0.0, ..Run::default() };
        write(&run, &path);
        let windows = read_with(&run, &path, &options()).unwrap();
        let table = Table::new(&windows, &metrics, &chosen);
        let mut ours: Vec<String> = Vec::new();
        for row in windows.rows.iter().filter(|row| row.key.function.is_some()) {
            let number =
                program().iter().position(|one| Some(one.name) == row.key.function.as_deref());
            let value =
                |cell: MetricCell| cell.value.map_or("-".into(), |value| format!("{value:.12e}"));
            let cells: Vec<String> = table.cells(row).into_iter().map(value).collect();
            let discarded = row.windows() - row.kept();
            ours.push(format!(
                "{} {} {discarded} {}",
                number.unwrap(),
                row.windows(),
                cells.join(" ")
            ));
        }
        ours.sort_unstable();
        let out = std::process::Command::new("python3").arg(&script).arg(&path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let theirs = String::from_utf8(out.stdout).unwrap();
        assert!(ours.len() >= 4);
        assert_eq!(ours, theirs.lines().collect::<Vec<_>>(), "{form:?}");
    }
}

/// Windows of 300 cycles all the time, against one of them in a million.
#[test]
fn a_strobed_file_is_a_fiftieth_of_one_of_windows_only() {
    let folder = tempfile::tempdir().unwrap();
    let size = |form| {
        let path = folder.path().join("x.data");
        let period = 1_000_003;
        write(
            &Run { functions: program(), form, period, cycles: 3e8, cpus: 1, ..Run::default() },
            &path,
        );
        std::fs::metadata(&path).unwrap().len()
    };
    let (strobed, constant) = (size(Form::Strobe), size(Form::BackToBack));
    assert!(strobed * 50 < constant, "{strobed} {constant}");
}
