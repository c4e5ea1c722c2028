//! Whatever is shown fits the terminal: tables of any columns, and every view of recordings of other machines.

use std::path::Path;

use pmuscope_abi::SampleType;
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::views::{
    AccessBy, AccessorNames, CallSite, Dimension, Direction, accesses, branches, call_tree,
    neighbors, rows,
};
use pmuscope_profile::{Collected, Filter, GroupBy, Options, Profile, TasksBy};
use pmuscope_symbols::{KernelIdentity, Resolved, State, Symbol, Symbolizer};
use pmuscope_testkit::corpus::corpus;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use crate::document::RecordingView;
use crate::report::Report as _;
use crate::views::{RowsBy, TreeLimits, neighbors_text, rows_text, tree_text};
use crate::{Cell, Column, RowLimits, Style, Table, modules_text, recording_text};

const LIMITS: RowLimits = RowLimits { rows: Some(12), ..RowLimits::ALL };

fn at(width: usize) -> Style {
    Style { width: Some(width), ..Style::PLAIN }
}

/// Holds that no line is longer than the terminal, but for single words; and how it looks at 80 and 120 columns.
pub(crate) fn fits(name: &str, text: impl Fn(&Style) -> String) {
    for width in (60..=200).step_by(10) {
        assert_fits(name, &text(&at(width)), width);
    }
    for width in [80, 120] {
        insta::assert_snapshot!(format!("{name}_{width}"), text(&at(width)));
    }
}

fn assert_fits(name: &str, text: &str, width: usize) {
    for line in text.lines().filter(|line| line.trim_start().contains(' ')) {
        assert!(line.width() <= width, "{name} at {width} columns:\n{line}\nin\n{text}");
    }
}

/// Names as C++ has them, by address.
fn resolve(addresses: &[u64]) -> Resolved {
    let symbol = |address: &u64| {
        let name = format!(
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::part_{}::operator()",
            address >> 12 & 0xff
        );
        Some(Symbol::named(name.into()).into())
    };
    Resolved { state: State::Found, symbols: addresses.iter().map(symbol).collect() }
}

fn profile(path: &Path) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let apart = GroupBy { chains: true, tasks: TasksBy::Process, cpus: true };
    let collected = Collected::in_order(&mut reader, apart, None).unwrap();
    let running = KernelIdentity::default();
    let resolved = collected.profile(&reader, &running, Options::default(), &mut |requests| {
        requests.iter().map(|one| resolve(one.addresses)).collect()
    });
    resolved.unwrap()
}

/// Takes a view: its name, and how it is rendered.
type Show<'a> = &'a mut dyn FnMut(&str, &dyn Fn(&Style) -> String);

/// Every view of a recording.
fn views(path: &Path, file: &str, show: Show<'_>) {
    let profile = profile(path);
    show("functions", &|style| recording_text(&profile, file, LIMITS, style));
    show("modules", &|style| modules_text(&profile, file, LIMITS, style));
    let event = profile.events.iter().max_by_key(|event| event.samples);
    let Some(event) = event.filter(|event| event.samples > 0).map(|event| event.index) else {
        return;
    };
    let (counts, modules) = (&profile.aggregate, &profile.modules);
    for (name, dimensions) in [
        ("by-process", &[Dimension::Process, Dimension::Command][..]),
        (
            "by-cpu-function",
            &[Dimension::Cpu, Dimension::Command, Dimension::Module, Dimension::Function],
        ),
    ] {
        let found = rows(counts, event, dimensions, &|_| Some(0), 10);
        for children in [false, true] {
            let by = RowsBy { dimensions, modules, children };
            let name = format!("{name}{}", if children { "-total" } else { "" });
            show(&name, &|style| rows_text(&found, by, LIMITS, style));
        }
    }
    for (name, direction) in [("callees", Direction::Callees), ("callers", Direction::Callers)] {
        let tree = call_tree(counts, event, direction, TreeLimits::default().share);
        let limits = TreeLimits { lines: 12, ..TreeLimits::default() };
        show(name, &|style| tree_text(&tree, direction, modules, limits, style));
    }
    let named = |site: &CallSite| site.function.is_some();
    if let Some(found) = neighbors(counts, event, &named) {
        let all = found.total.weight;
        show("neighbors", &|style| {
            neighbors_text("any::name", &found, all, modules, Some(5), style)
        });
    }
    let filter = Filter::default();
    let reader = Reader::open(path).unwrap();
    let kinds = |kind| reader.events().iter().any(|one| one.attr.sample_type.contains(kind));
    let view = RecordingView { file, profile: &profile, limits: LIMITS };
    if kinds(SampleType::BRANCH_STACK) {
        let running = KernelIdentity::default();
        let mut reader = Reader::open(path).unwrap();
        let found = branches(&mut reader, &filter, &running, &mut |requests| {
            requests.iter().map(|one| resolve(one.addresses)).collect()
        });
        let found = found.unwrap();
        show("branches", &|style| crate::branches(&found, view).text(style));
    }
    if kinds(SampleType::DATA_SRC) {
        let mut symbolizer = Symbolizer::new(pmuscope_symbols::Options { inlined: false });
        let mut names = AccessorNames { node_of: &|_| None, symbolizer: &mut symbolizer };
        let mut reader = Reader::open(path).unwrap();
        let found = accesses(&mut reader, &filter, AccessBy::default(), &mut names).unwrap();
        show("accesses", &|style| crate::accesses(&found, view).text(style));
        let by = AccessBy { cpu: true, tasks: Some(TasksBy::Thread), ..AccessBy::default() };
        let mut reader = Reader::open(path).unwrap();
        let found = accesses(&mut reader, &filter, by, &mut names).unwrap();
        show("accesses-by", &|style| crate::accesses(&found, view).text(style));
    }
}

#[test]
fn every_view_of_every_recording_fits() {
    for path in corpus().recordings() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        views(&path, &name, &mut |view, text| {
            for width in [60, 80, 100, 120, 200] {
                assert_fits(&format!("{name} {view}"), &text(&at(width)), width);
            }
        });
    }
}

#[test]
fn views_of_recordings_at_80_and_120_columns() {
    for (short, file) in [
        ("chains", "quipper_perf.data.callgraph-3.8"),
        ("branches", "quipper_perf.data.branch-4.14"),
        ("weights", "quipper_perf.data.weight_struct"),
        ("lost", "quipper_perf.data.lost_samples-4.4"),
    ] {
        let path = corpus().recording(file);
        views(&path, file, &mut |view, text| fits(&format!("{short}-{view}"), text));
    }
}

/// Digits of a text, runs of them with their points and commas.
fn numbers(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    text.replace("...", " ")
        .split(|c| !is_part(c))
        .map(|part| part.trim_matches(['.', ',']).to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

proptest! {
    /// Of any table: no line is wider than the terminal, but for a single column of numbers; no number is cut.
    #[test]
    fn tables_fit(
        heads in prop::collection::vec("[a-z]{1,9}( [a-z%]{1,12}){0,2}", 1..9),
        kinds in prop::collection::vec((0..5_u8, 0..4_u8), 9),
        rows in prop::collection::vec(
            prop::collection::vec(("[a-z]{1,6}(::[a-z<>]{1,9}){0,5}", any::<u64>(), 0..4_usize), 9),
            1..6,
        ),
        indent in 0..5_usize,
        unicode in any::<bool>(),
    ) {
        let columns = heads.iter().zip(&kinds).map(|(head, (kind, rank))| {
            let column = match kind {
                0 | 1 => Column::number(head),
                2 => Column::text(head).shrink(),
                3 => Column::text(head).shrink_end(),
                _ => Column::text(head),
            };
            column.optional(*rank)
        });
        let mut table = Table::new(columns).indent(indent);
        for row in &rows {
            table.row(row.iter().zip(&kinds).take(heads.len()).map(|((name, number, digits), (kind, _))| {
                let number = crate::number::count(number >> (16 * digits));
                Cell::new(if *kind < 2 { number } else { format!("{name}_{number}x{name}") })
            }));
        }
        let whole = table.render(&Style { unicode, ..Style::PLAIN });
        let known = numbers(&whole);
        for width in 60..=200 {
            let text = table.render(&Style { unicode, ..at(width) });
            for line in text.lines() {
                let is_alone = !line.trim_start().contains("  ");
                prop_assert!(line.width() <= width || is_alone, "{} columns:\n{}", width, text);
            }
            let body = text.split("columns left out").next().unwrap_or_default();
            for number in numbers(body) {
                prop_assert!(known.contains(&number), "{} is not in\n{}", number, whole);
            }
        }
    }
}
