//! Tables for people.

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_profile::{EventProfile, Filter, Lost, LostSource, Profile};

use crate::markup::cut;
use crate::number::{count, counted, duration, percent, significant};
use crate::views::Functions;
use crate::{Cell, Column, Paint, Style, Table, escape, wrap, wrap_parts};

use super::causes::SymbolAdvice;
use super::losses::losses_text;
use super::notes::{Note, Taken, notes_on};
use super::{RowLimits, machine_size, stacks, symbols};

/// Characters of a command line in the header.
const LONGEST_SCOPE: usize = 40;

/// Header, one table per event, notes.
#[must_use]
pub fn recording_text(profile: &Profile, file: &str, limits: RowLimits, style: &Style) -> String {
    let mut out = head_text(profile, file, style);
    // Where the file holds something else, no event can have samples.
    let holds_samples = profile.samples_read() > 0 || profile.tally.other_data().is_none();
    for event in profile.events.iter().filter(|_| holds_samples) {
        out.push('\n');
        if profile.events.len() > 1 {
            out.push_str(&paint_line(style, &format!("{}, {}", event_name(event), samples(event))));
        }
        let sheet = Functions::of(profile, event).sheet(limits);
        match sheet.is_empty() && sheet.left_out() == 0 {
            true => out.push_str("no samples\n"),
            false => out.push_str(&sheet.text(style)),
        }
    }
    out.push_str(&losses_text(profile, style));
    push_notes(&mut out, profile, Taken::Recorded, style);
    out
}

/// Header and the modules of each event: where their symbols are, or why not and what to do.
#[must_use]
pub fn modules_text(profile: &Profile, file: &str, limits: RowLimits, style: &Style) -> String {
    let mut out = head_text(profile, file, style);
    let mut advice = Vec::new();
    for event in &profile.events {
        out.push('\n');
        if profile.events.len() > 1 {
            out.push_str(&paint_line(style, &format!("{}, {}", event_name(event), samples(event))));
        }
        let mut table = Table::new([
            Column::number("self"),
            Column::number("samples").optional(2),
            Column::number("named"),
            Column::text("build id").optional(3),
            Column::text("symbols"),
            Column::text("DSO (binary or shared library)").shrink(),
        ]);
        for row in event.modules.iter().filter(|row| row.share >= limits.share) {
            let module = &profile.modules[row.module];
            let id = module.build_id.as_ref().map(ToString::to_string);
            let state = symbols::effective(module, row);
            let SymbolAdvice { words, advice: missing, .. } =
                SymbolAdvice::of(&state, module, &profile.modules);
            let state = Cell::new(words);
            let named = (row.samples > 0).then(|| row.named as f64 / row.samples as f64);
            table.row([
                Cell::new(percent(row.share, 2)),
                Cell::new(count(row.samples)),
                Cell::measured(named, |named| percent(named, 0)),
                Cell::measured(id, |id| symbols::short(&id).to_owned()),
                state.paint(if missing.is_some() { Paint::Warn } else { Paint::Plain }),
                Cell::new(escape(&module.path)),
            ]);
            if let Some(text) = missing {
                let line = format!("{}: {}", escape(module.short_name()), escape(&text));
                if !advice.contains(&line) {
                    advice.push(line);
                }
            }
        }
        out.push_str(&table.render(style));
    }
    if !advice.is_empty() {
        out.push('\n');
    }
    for line in advice {
        push_wrapped(&mut out, &line, style);
    }
    out
}

/// What was measured, its overhead and losses: the two lines above every table.
#[must_use]
pub fn head_text(profile: &Profile, file: &str, style: &Style) -> String {
    let what = match &profile.events[..] {
        [event] => event_name(event),
        events => format!("{} events", events.len()),
    };
    let mut parts = vec![what];
    parts.push(extent(profile));
    parts.push(match &profile.events[..] {
        [event] => samples(event),
        _ => counted(profile.samples(), "sample"),
    });
    parts.extend(rate(profile));
    let line = format!("{}    {}", parts.join(", "), escape(file));
    let mut out = paint_line(style, &line);
    push_account(&mut out, profile, style);
    if let Some(kept) = kept_text(profile) {
        push_wrapped(&mut out, &kept, style);
    }
    if let Some(line) = profile.stacks.as_ref().and_then(|found| stacks::line(profile, found)) {
        push_wrapped(&mut out, &line, style);
    }
    out
}

/// What a filter left, `None` without one: `kept 1,234 of 5,678 samples (21.7%): --comm sh --cpu 0-3`.
#[must_use]
pub fn kept_text(profile: &Profile) -> Option<String> {
    Some(format!("{}: {}", kept(profile), asked(&profile.filtered.as_ref()?.filter)))
}

/// `kept 1,234 of 5,678 samples (21.7%)`.
pub(crate) fn kept(profile: &Profile) -> String {
    let (kept, read) = (profile.samples(), profile.samples_read());
    let share = if read > 0 { kept as f64 / read as f64 } else { 0.0 };
    let (kept, read, share) = (count(kept), counted(read, "sample"), percent(share, 1));
    format!("kept {kept} of {read} ({share})")
}

/// The flags of a filter, as typed and escaped.
pub(crate) fn asked(filter: &Filter) -> String {
    let flag = |(name, value): &(&str, String)| {
        let value = escape(value);
        if value.contains(' ') {
            format!("--{name} \"{value}\"")
        } else {
            format!("--{name} {value}")
        }
    };
    filter.asked.iter().map(flag).collect::<Vec<_>>().join(" ")
}

/// `cycles:u at 999 Hz`.
pub(crate) fn event_name(event: &EventProfile) -> String {
    let name = escape(&event.name);
    match (event.frequency, event.fixed_period) {
        (Some(frequency), _) => format!("{name} at {} Hz", count(frequency)),
        (None, Some(1)) | (None, None) => name.into_owned(),
        (None, Some(period)) if event.is_software_clock() => {
            format!("{name} every {}", duration(period as f64 / 1e9))
        }
        (None, Some(period)) => format!("{name}, sample period {}", count(period)),
    }
}

fn samples(event: &EventProfile) -> String {
    counted(event.samples, "sample")
}

/// `9.98 s of process 4711 on 88 CPUs (2 nodes)`.
pub(crate) fn extent(profile: &Profile) -> String {
    let mut text = profile.duration_s.map_or_else(|| "-".into(), duration);
    let scope = profile.info().map(|info| info.scope.as_str()).unwrap_or_default();
    if !scope.is_empty() && !is_system_wide(profile) {
        text.push_str(" of ");
        text.push_str(&escape(&cut(scope, LONGEST_SCOPE)));
    }
    let (cpus, nodes) = machine_size(profile);
    if let Some(cpus) = cpus {
        text.push_str(&format!(" on {}", counted(cpus, "CPU")));
        if let Some(nodes) = nodes {
            text.push_str(&format!(" ({})", counted(nodes, "NUMA node")));
        }
    }
    text
}

fn is_system_wide(profile: &Profile) -> bool {
    profile.info().is_some_and(|info| info.scope == "system-wide")
}

/// Samples per second as they came: per CPU where all CPUs were recorded.
fn rate(profile: &Profile) -> Option<String> {
    let seconds = profile.duration_s.filter(|&seconds| seconds > 0.0)?;
    let rate = profile.samples() as f64 / seconds;
    match machine_size(profile).0 {
        Some(cpus) if is_system_wide(profile) && profile.filtered.is_none() => {
            Some(format!("{}/s per CPU", significant(rate / f64::from(cpus), 3)))
        }
        _ => Some(format!("{}/s", significant(rate, 3))),
    }
}

/// Appends [`account`]; red where something was lost.
pub(crate) fn push_account(out: &mut String, profile: &Profile, style: &Style) {
    let (line, lost) = (account(profile), lost_text(profile.lost, profile.throttled));
    let line = style.text(&wrap_parts(&line, style.width, 0)).into_owned();
    let lost = lost.split(" · ").next().unwrap_or_default();
    match profile.lost.count {
        0 => out.push_str(&line),
        _ => out.push_str(&line.replacen(lost, &style.paint(Paint::Bad, lost), 1)),
    }
    out.push('\n');
}

/// Overhead, and what is missing.
pub(crate) fn account(profile: &Profile) -> String {
    let mut parts = vec![
        format!("overhead: {}", profile.info().map_or("-".into(), overhead)),
        lost_text(profile.lost, profile.throttled),
    ];
    if profile.events.iter().any(EventProfile::is_software_clock) {
        parts.push("software timer".into());
    }
    if let Some(emulator) = profile.info().and_then(|info| info.machine.emulator.as_deref()) {
        parts.push(format!("times and overhead emulated ({})", escape(emulator)));
    }
    if profile.state != pmuscope_profile::FileState::Closed {
        parts.push("truncated".into());
    }
    parts.join(" · ")
}

/// `lost at least 12 · throttled 3`.
pub(crate) fn lost_text(lost: Lost, throttled: u64) -> String {
    let least = if lost.source == LostSource::Records { "at least " } else { "" };
    format!("lost {least}{} · throttled {}", count(lost.count), count(throttled))
}

fn overhead(info: &RecordingInfo) -> String {
    let cost = &info.cost;
    let share = cost.machine_share.map(|share| {
        let text = significant(share * 100.0, 2);
        format!("{text}% of CPU time")
    });
    let details: Vec<String> = [
        cost.us_per_sample.map(|us| format!("{} µs/sample", significant(us, 2))),
        cost.bytes_per_sample.map(|bytes| format!("{} B/sample", significant(bytes, 3))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let share = share.unwrap_or_else(|| "-".into());
    if details.is_empty() { share } else { format!("{share} ({})", details.join(", ")) }
}

/// What may change any conclusion from a recording, for views that say no more of it; with an empty line
/// before it, and nothing where there is none.
#[must_use]
pub fn warnings_text(profile: &Profile, style: &Style) -> String {
    let mut out = String::new();
    let warnings = notes_on(profile, Taken::Recorded).into_iter().filter(|note| note.warning);
    push_all_notes(&mut out, warnings.collect(), style);
    out
}

/// Appends what is to be said of a profile.
pub(crate) fn push_notes(out: &mut String, profile: &Profile, taken: Taken, style: &Style) {
    push_all_notes(out, notes_on(profile, taken), style);
}

/// Appends notes after an empty line.
pub(crate) fn push_all_notes(out: &mut String, notes: Vec<Note>, style: &Style) {
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let (word, paint) =
            if note.warning { ("warning:", Paint::Warn) } else { ("note:", Paint::Dim) };
        let text = style.text(&note.text);
        let line = wrap(&text, style.width, word.len() + 1);
        out.push_str(&format!("{} {line}\n", style.paint(paint, word)));
    }
}

pub(crate) fn push_wrapped(out: &mut String, line: &str, style: &Style) {
    out.push_str(&wrap_parts(&style.text(line), style.width, 0));
    out.push('\n');
}

pub(crate) fn paint_line(style: &Style, line: &str) -> String {
    let line = wrap(&style.text(line), style.width, 2);
    format!("{}\n", style.paint(Paint::Bold, &line))
}
