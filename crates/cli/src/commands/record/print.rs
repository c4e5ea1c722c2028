//! What `pmuscope record` says, all of it on stderr: stdout belongs to the command.

use std::fmt::Write as _;

use pmuscope_events::describe;
use pmuscope_recorder::{EndReason, Preview, Summary};
use pmuscope_report::number;

/// Each attribute and reader, in perf's words.
pub(super) fn preview(preview: &Preview) -> String {
    let mut out = String::new();
    for request in &preview.requests {
        let group =
            request.leader.map_or_else(String::new, |leader| format!(", member of group {leader}"));
        let cpus = request.cpus.as_ref().map_or_else(String::new, |cpus| format!(", CPUs {cpus}"));
        let _ = writeln!(out, "{}{group}{cpus}:", request.name);
        for (name, value) in describe(&request.attr) {
            let _ = writeln!(out, "  {name:<30} {value}");
        }
    }
    for (number, rings) in preview.readers.iter().enumerate() {
        let _ = writeln!(out, "reader {number}: rings of CPUs {rings}");
    }
    out
}

/// The file, or how many and the last of them.
fn files(summary: &Summary) -> String {
    let last = summary.paths.last().map(|path| path.display().to_string()).unwrap_or_default();
    match summary.paths.len() {
        0 | 1 => last,
        count => format!("{count} files, the last {last}"),
    }
}

/// What was recorded, what it cost, what is missing.
pub(super) fn summary(summary: &Summary) -> String {
    let info = &summary.info;
    let mut out = String::new();
    let lost = info.lost().map_or_else(|| "-".to_owned(), number::count);
    let _ = writeln!(
        out,
        "pmuscope: {}, {:.2} s: {} samples, lost {lost}, {} in {}",
        info.scope,
        info.duration_s,
        number::count(info.samples()),
        number::bytes(info.cost.bytes),
        files(summary),
    );
    let dash = || "-".to_owned();
    let cost = &info.cost;
    let _ = writeln!(
        out,
        "pmuscope: cost {} of the machine ({} µs/sample, {} B/sample), start-up {:.3} s, close {:.3} s of CPU",
        cost.machine_share.map_or_else(dash, |share| format!("{:.2} %", share * 100.0)),
        cost.us_per_sample.map_or_else(dash, |us| format!("{us:.3}")),
        cost.bytes_per_sample.map_or_else(dash, |bytes| format!("{bytes:.1}")),
        cost.startup_s,
        cost.close_s,
    );
    if !matches!(summary.ended, EndReason::Command | EndReason::Interrupted) {
        let _ = writeln!(out, "pmuscope: ended because {}", summary.ended);
    }
    for notice in &info.notices {
        let _ = writeln!(out, "pmuscope: {notice}");
    }
    out
}
