//! The table of `pmuscope stat` and `pmuscope sweep`: a row per event, per run and per unit of work.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::compare::{Options, compare};
use pmuscope_measure::summary::{RunSummary, SummaryRow, Work, summary};
use pmuscope_measure::{Drift, Estimated, Origin, RunFile, metric};

use crate::compare::{compare_text, push_notes};
use crate::escape::escape;
use crate::number;
use crate::runs::{scaled, value};
use crate::sheet::{Field, Sheet};
use crate::style::{Style, wrap_lines};

/// What limits the reading of counts that were printed interval by interval; empty if nothing does.
pub fn counts_notes(file: &RunFile, metrics: &Metrics, style: &Style) -> String {
    let mut out = String::new();
    push_notes(&mut out, &notes(file, &summary(file, metrics)), style);
    style.text(&out).into_owned()
}

/// Header, table of events, what follows from them, times, notes. `metrics` are the formulas to try.
pub fn counts_text(file: &RunFile, metrics: &Metrics, style: &Style) -> String {
    let summary = summary(file, metrics);
    if file.arms.len() > 1 {
        return arms_text(file, &summary, style);
    }
    let mut out = wrap_lines(&head(file, &summary), style.width, 2);
    out.push('\n');
    out += &table(&summary, style);
    if !summary.metrics.is_empty() {
        out.push('\n');
        out += &metrics_sheet(&summary.metrics).text(style);
    }
    push_notes(&mut out, &notes(file, &summary), style);
    style.text(&out).into_owned()
}

/// Arms side by side, with what differs from the first by pairs of runs.
fn arms_text(file: &RunFile, summary: &RunSummary, style: &Style) -> String {
    let name = file.parameters.get("target").cloned().unwrap_or_default();
    // Without units of work asked for, nothing can be missing.
    let Ok(comparison) = compare(&[(name, file.clone())], &Options::default()) else {
        return String::new();
    };
    let rounds = file.runs.iter().filter_map(|run| run.round).max().map_or(0, |last| last + 1);
    let first = format!(
        "{} interleaved in random order: {}, {}\n{}\n",
        number::counted(file.arms.len() as u64, "command"),
        number::counted(rounds as u64, "round"),
        number::duration(file.duration_s),
        share_counted(summary),
    );
    let mut out = wrap_lines(&first, style.width, 2) + &compare_text(&comparison, style);
    push_notes(&mut out, &notes(file, summary), style);
    style.text(&out).into_owned()
}

/// How much of the time events were counted.
fn share_counted(summary: &RunSummary) -> String {
    let lowest = summary.rows.iter().filter_map(|row| row.measured).min_by(f64::total_cmp);
    match lowest {
        Some(share) if share < number::WHOLE => {
            format!(
                "multiplexed: enabled {} of the time or more, scaled",
                number::percent_at_least(share)
            )
        }
        Some(_) => "counted all the time (enabled 100%)".to_owned(),
        None => "nothing counted".to_owned(),
    }
}

/// What was measured, for how long, and what it cost; what is missing.
fn head(file: &RunFile, summary: &RunSummary) -> String {
    let target = file.parameters.get("target").map_or("-".into(), |text| escape(text));
    let time = |name: &str| {
        let row = summary.rows.iter().find(|row| row.is_time() && row.metric == name)?;
        row.per_run.map(|estimate| format!("{} s", value(&estimate, "s")))
    };
    let mut out = format!("{target}: {}", number::counted(summary.runs, "run"));
    if let Some(wall) = time(metric::WALL) {
        let _ = write!(out, ", {wall}{}", if summary.runs > 1 { " each" } else { "" });
    }
    if let (Some(user), Some(system)) = (time(metric::USER), time(metric::SYSTEM)) {
        let _ = write!(out, " (user {user}, system {system})");
    }
    out.push('\n');
    let mut missing = share_counted(summary);
    if let Some(ended) = &summary.ended {
        let _ = write!(missing, " · ended with {}", escape(ended));
    }
    if summary.failed > 0 {
        let runs = number::counted(summary.failed, "run");
        let _ = write!(missing, " · {runs} left out: {}", why_left_out(file));
    }
    let refused =
        summary.rows.iter().filter(|row| row.per_run.is_none() && row.why.is_some()).count();
    if refused > 0 {
        let _ = write!(missing, " · {} not counted (below)", number::counted(refused, "event"));
    }
    out + &missing + "\n"
}

/// How runs ended that do not count: `exit status 1`, `exit status 1 (2 of 3), SIGKILL`.
fn why_left_out(file: &RunFile) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for run in file.runs.iter().filter(|run| !run.is_good()) {
        let reason = match (&run.why, run.exit) {
            (Some(why), _) => escape(why).into_owned(),
            (None, status) => exit_status(status.unwrap_or_default()),
        };
        *reasons.entry(reason).or_default() += 1;
    }
    let several = reasons.len() > 1;
    let reasons = reasons.iter().map(|(reason, runs)| match several {
        true => format!("{reason} ({})", number::counted(*runs, "run")),
        false => reason.clone(),
    });
    reasons.collect::<Vec<_>>().join(", ")
}

/// A status as a shell has it: above 128 a signal.
fn exit_status(status: i32) -> String {
    match status {
        129.. => format!("exit status {status} (signal {})", status - 128),
        _ => format!("exit status {status}"),
    }
}

/// An event, or a unit of work.
enum CountRow<'a> {
    Event(&'a SummaryRow),
    Work(&'a Work),
}

impl<'a> CountRow<'a> {
    /// The event, where it is one.
    fn event(&self) -> Option<&'a SummaryRow> {
        match self {
            Self::Event(row) => Some(row),
            Self::Work(_) => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Event(row) => marked_name(row),
            Self::Work(work) => work.name.clone(),
        }
    }

    fn per_run(&self) -> Option<Estimated> {
        match self {
            Self::Event(row) => row.per_run,
            Self::Work(work) => work.per_run,
        }
    }

    /// How many for each of `unit`, which is at `at` of all units; nothing where that says nothing.
    fn per(&self, at: usize, unit: &str) -> Option<String> {
        match self {
            Self::Event(row) if row.origin == Origin::Program => Some(String::new()),
            Self::Event(row) => Some(per(&row.per_unit[at]?, &row.unit)),
            Self::Work(work) => Some(if work.name == unit { "1" } else { "" }.to_owned()),
        }
    }

    fn per_second(&self) -> Option<String> {
        let (is_known, rate) = match self {
            Self::Event(row) => (row.per_run.is_none(), row.per_second),
            // A unit of work has a rate wherever an event has one.
            Self::Work(work) => (true, work.per_second),
        };
        match rate {
            Some(rate) => Some(value(&rate, "/s")),
            None => (!is_known).then(String::new),
        }
    }
}

/// The name, with the mark of emulated counters.
fn marked_name(row: &SummaryRow) -> String {
    let mark = if row.origin == Origin::Emulated { " (emu)" } else { "" };
    format!("{}{mark}", row.metric)
}

/// Events, then units of work. A column is there only where it says something.
fn table(summary: &RunSummary, style: &Style) -> String {
    let events = || summary.rows.iter().filter(|row| !row.is_time());
    let units = summary.units.iter();
    let rows: Vec<CountRow<'_>> =
        events().map(CountRow::Event).chain(units.map(CountRow::Work)).collect();
    let part = events().find_map(|row| row.labels.keys().next());
    let is_cut = events().any(|row| row.measured.is_some_and(|share| share < number::WHOLE));
    let (total, spread) =
        if summary.runs > 1 { ("per run (95% CI)", " (95% CI)") } else { ("total", "") };
    let mut fields: Vec<Field<'_, CountRow<'_>>> = Vec::new();
    fields.extend(part.map(|part| {
        let label = move |row: &CountRow<'_>| row.event()?.labels.get(part).cloned();
        Field::text(part.clone(), label).missing_as("").rigid()
    }));
    fields.push(Field::text("event", |row: &CountRow<'_>| Some(row.name())));
    if events().any(|row| !row.unit.is_empty()) {
        let unit = |row: &CountRow<'_>| Some(row.event()?.unit.clone());
        fields.push(Field::text("unit", unit).missing_as("").rigid());
    }
    fields.push(Field::figure(total, |row: &CountRow<'_>| {
        Some(value(&row.per_run()?, row.event().map_or("", |row| &row.unit)))
    }));
    fields.extend(summary.units.iter().enumerate().map(|(at, work)| {
        Field::figure(format!("/{}{spread}", work.name), move |row: &CountRow<'_>| {
            row.per(at, &work.name)
        })
        .optional(if at == 0 { 1 } else { (10 + at).try_into().unwrap_or(u8::MAX) })
    }));
    if !summary.units.is_empty() || events().any(|row| row.per_second.is_some()) {
        fields.push(Field::figure(format!("/s{spread}"), CountRow::per_second).optional(4));
    }
    if is_cut {
        let counted = |row: &CountRow<'_>| match row.event() {
            Some(row) => Some(number::percent(row.measured?, 1)),
            None => Some(String::new()),
        };
        fields.push(Field::figure("enabled", counted).optional(2));
    }
    fields.push(
        Field::figure("n", |row: &CountRow<'_>| {
            Some(row.per_run().map_or(0, |estimate| estimate.n).to_string())
        })
        .optional(5),
    );
    Sheet::new(fields, &rows, rows.len()).text(style)
}

/// Units of what takes so many milliseconds, and how many of them a millisecond has.
const TIMES: [(f64, f64, &str); 3] = [(1.0, 1.0, "ms"), (1e-3, 1e3, "µs"), (0.0, 1e6, "ns")];

/// A quotient: three decimals at least, as the sweeps of network developers have it. What is milliseconds
/// in a run may be nanoseconds for each unit.
fn per(estimate: &Estimated, unit: &str) -> String {
    if unit == "ms" {
        let fits = |(least, ..): &&(f64, f64, &str)| estimate.value.abs() >= *least;
        let (_, factor, unit) = TIMES.iter().find(fits).unwrap_or(&TIMES[2]);
        return format!("{} {unit}", per(&scaled(*estimate, *factor), ""));
    }
    match estimate.interval {
        Some(_) => value(estimate, "/"),
        // What is small is not nothing, and nothing is only what was counted as that.
        None if estimate.value.abs() < 0.1 => number::significant(estimate.value, 3),
        None if estimate.value.abs() < 1000.0 => number::fixed(estimate.value, 3),
        None => number::significant(estimate.value, 4),
    }
}

fn metrics_sheet(rows: &[SummaryRow]) -> Sheet<'_> {
    let fields = vec![
        Field::text("metric", |row: &SummaryRow| Some(marked_name(row))).rigid(),
        Field::text("unit", |row: &SummaryRow| Some(&*row.unit)).rigid(),
        Field::figure("value", |row: &SummaryRow| Some(value(&row.per_run?, &row.unit))),
        Field::count("n", |row: &SummaryRow| row.per_run.map_or(0, |of| of.n as u64)),
    ];
    Sheet::new(fields, rows, rows.len())
}

/// What was not counted and why, each reason once; what else a reader should know.
fn notes(file: &RunFile, summary: &RunSummary) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in summary.rows.iter().filter(|row| row.per_run.is_none()) {
        let Some(why) = row.why.as_deref() else { continue };
        // The reason may name the event.
        let why = why.strip_prefix(&format!("cannot open {} ", row.metric)).unwrap_or(why);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            // Arms have each a row of it.
            Some((_, events)) if events.contains(&row.metric.as_str()) => {}
            Some((_, events)) => events.push(&row.metric),
            None => reasons.push((why, vec![&row.metric])),
        }
    }
    let mut notes: Vec<String> = reasons
        .iter()
        .map(|(why, events)| {
            format!("Not counted: {}. {}", escape(&events.join(", ")), sentence(why))
        })
        .collect();
    for row in summary.rows.iter().filter(|row| row.per_run.is_some()) {
        if let Some(why) = &row.why {
            notes.push(format!("{} lacks some runs: {}.", escape(&row.metric), escape(why)));
        }
    }
    notes.dedup();
    notes.extend(of_runs(file));
    notes
}

/// How alike runs were, and what was said of them.
pub(crate) fn of_runs(file: &RunFile) -> impl Iterator<Item = String> + '_ {
    let drift = file.drift.first().map(drift_note);
    drift.into_iter().chain(file.notices.iter().map(|notice| sentence(notice)))
}

/// How alike runs were.
fn drift_note(drift: &Drift) -> String {
    let spread = number::percent(drift.spread, 2);
    let per = drift.per.as_ref().map_or(String::new(), |per| format!("/{per}"));
    let mut text = format!("runs differ by {spread} in {}{per} (standard deviation)", drift.event);
    if let (true, Some(growth)) = (drift.is_notable(), drift.growth) {
        text += &format!(
            ", and drifted by {} from first to last: metrics of different runs match only that well. Try a quieter \
             machine, or more rounds (-r)",
            number::percent(growth, 1)
        );
    }
    sentence(&text)
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let text = escape(text);
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Drift, Labels, Program, Run, RunValue};

    /// Three runs of 10 million packets, in which `cycles` was counted half of the time.
    fn file() -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        file.parameters.insert("target".into(), "./basic1 \u{1b}[31m".into());
        for index in 0..3 {
            file.runs.push(Run {
                index,
                order: index,
                round: Some(index),
                labels: Labels::new(),
                started: "0".into(),
                duration_s: 0.5,
                exit: Some(0),
                why: None,
                units: [("packet".to_owned(), 10e6)].into(),
            });
            let count = 1_227_000_000.0 + 1e6 * index as f64;
            let value = RunValue {
                enabled_s: Some(0.5),
                running_s: Some(0.25),
                ..RunValue::new(index, Ok(count))
            };
            let counter = ("", Origin::Emulated);
            file.add_value(&Labels::new(), "cycles", counter, value);
            file.add(index, &Labels::new(), "instructions", counter, Ok(2.5 * count));
            let why = "cannot open LLC-loads for thread 7: perf_event_open: ENOENT. Try: less";
            file.add(index, &Labels::new(), "LLC-loads", counter, Err(why.to_owned()));
            file.add(index, &Labels::new(), "Mpps", ("", Origin::Program), Ok(20.0));
            file.add(index, &Labels::new(), "wall", ("s", Origin::Clock), Ok(0.5));
        }
        file.drift.push(Drift {
            event: "cycles".into(),
            per: Some("packet".into()),
            spread: 0.0123,
            growth: Some(0.04),
            growth_half: Some(0.01),
            n: 3,
        });
        file.notices.push("one packet was lost".into());
        file
    }

    #[test]
    fn a_row_per_event_with_its_reason_where_it_has_no_number() {
        let mut metrics = Metrics::builtin();
        metrics.list.retain(|metric| metric.name == "CPI");
        crate::widths::fits("counts", |style| counts_text(&file(), &metrics, style));
        insta::assert_snapshot!(counts_text(&file(), &metrics, &Style::PLAIN), @r"
        ./basic1 \x1b[31m: 3 runs, 0.5 s each
        multiplexed: enabled 50.0% of the time or more, scaled · 1 event not counted (below)

        event                        per run (95% CI)  /packet (95% CI)                 /s (95% CI)  enabled  n
        cycles (emu)        1,228,000,000 ± 2,484,138     122.80 ± 0.25   2,456,000,000 ± 4,968,275    50.0%  3
        instructions (emu)  3,070,000,000 ± 6,210,344       307.0 ± 0.6  6,140,000,000 ± 12,420,689        -  3
        LLC-loads (emu)                             -                 -                           -        -  0
        Mpps                                       20                                                      -  3
        packet                             10,000,000                 1                  20,000,000           3

        metric     unit                            value  n
        CPI (emu)  cycles/instruction  0.40000 ± 0.00004  3

        Not counted: LLC-loads. For thread 7: perf_event_open: ENOENT. Try: less.

        Runs differ by 1.23% in cycles/packet (standard deviation), and drifted by 4.0% from first to last: metrics of different runs match only that well. Try a quieter machine, or more rounds (-r).

        One packet was lost.
        ");
    }

    #[test]
    fn one_run_has_totals_and_no_intervals() {
        let mut file = file();
        file.runs.truncate(1);
        for series in &mut file.series {
            series.values.truncate(1);
        }
        let text = counts_text(&file, &Metrics::default(), &Style::PLAIN);
        let line = text.lines().find(|line| line.starts_with("cycles")).unwrap();
        insta::assert_snapshot!(line, @"cycles (emu)        1,227,000,000  122.700  2,450,000,000    50.0%  1");
    }
}
