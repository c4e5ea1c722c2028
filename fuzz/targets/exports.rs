//! A `perf.data` file from anywhere, in every form that people and other programs read.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, recording};
use pmuscope_profile::export::{Source, firefox, folded, pprof};
use pmuscope_profile::views::{Direction, call_tree};
use pmuscope_profile::{Detail, Profile};
use pmuscope_report::{
    Flame, FlameLimits, PageLimits, RecordingReport, RowLimits, Separator, Style, Summary,
    TreeLimits, flame_svg, functions_delimited, html_page, modules_text, recording_text, to_json,
    tree_text,
};

const ALL: RowLimits = RowLimits::ALL;

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = recording::profile(&file("perf.data", bytes), Detail::Address) else {
        return;
    };
    for_programs(&profile);
    for_people(&profile);
});

fn for_programs(profile: &Profile) {
    let source = Source::new(profile);
    let mut out = Vec::new();
    pprof::write(&source, &mut out).expect("memory");
    firefox::write(&source, &mut out).expect("memory");
    for separator in [Separator::Comma, Separator::Tab] {
        let table = functions_delimited(&source, ALL, 0, separator);
        assert!(table.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{table:?}");
    }
    for event in &source.events {
        let mut text = Vec::new();
        folded::write(&source, event, folded::Options::default(), &mut text).expect("memory");
        assert!(std::str::from_utf8(&text).is_ok());
    }
    let report = RecordingReport::new(profile, "perf.data", ALL);
    let _ = black_box(to_json(&report));
}

fn for_people(profile: &Profile) {
    let (source, style) = (Source::new(profile), Style::PLAIN);
    let text = recording_text(profile, "perf.data", ALL, &style)
        + &modules_text(profile, "perf.data", ALL, &style);
    let harmless = |c: char| !c.is_control() || c == '\n';
    assert!(text.chars().all(harmless), "{text:?}");
    for event in &source.events {
        let flame = Flame::new(&source, event, FlameLimits::default());
        let svg = flame_svg(&flame, "title", "");
        assert!(svg.chars().all(harmless), "{svg:?}");
        let tree = call_tree(source.counts, event.index, Direction::Callees, 0.0);
        black_box(tree_text(
            &tree,
            Direction::Callees,
            &profile.modules,
            TreeLimits::default(),
            &style,
        ));
    }
    let summary = Summary::new(profile, "perf.data");
    black_box(html_page(&source, &summary, PageLimits::default(), &[], "commit"));
}
