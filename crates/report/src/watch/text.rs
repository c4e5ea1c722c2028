//! Hits for people.

use std::fmt::Write as _;

use pmuscope_perfdata::watch::WatchTarget;
use pmuscope_profile::hits::{CacheLine, HitRecord, ShownRow, TargetHits};

use super::words::{
    about, consequence, estimate, first_line, known, of_all, percents, place, plural, rate,
    second_line, share, thread, value, verdict, word,
};
use super::{WatchView, stretches};
use crate::number::{self, agree, count, duration, exact, fixed, percent, significant};
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

/// Cache lines that are shown.
const MOST_LINES: usize = 8;

/// Head, targets, and for each who hit it, values and history; cache lines; notes.
#[must_use]
pub(super) fn watch_text(view: &WatchView<'_>, style: &Style) -> String {
    let file = view.file.map_or_else(String::new, |file| format!("    {}", escape(file)));
    let first = format!("{}{file}", first_line(view));
    let first = style.text(&first).into_owned();
    let second = second_line(view).join(" · ");
    let mut out = format!("{}\n{}\n\n", style.paint(Paint::Bold, &first), style.text(&second));
    out.push_str(&targets(view).render(style));
    for (at, (target, hits)) in view.targets().enumerate() {
        push_target(&mut out, view, (at, target, hits), style);
    }
    for line in view.hits.lines.iter().take(MOST_LINES) {
        push_line(&mut out, view, line, style);
    }
    let more = view.hits.lines.len().saturating_sub(MOST_LINES);
    if more > 0 {
        let _ = write!(out, "\n{} more cache lines\n", count(more as u64));
    }
    let notes = view.notes();
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let word = if note.warning { "warning" } else { "note" };
        let lines = wrap(&format!("{word}: {}", note.text), style.width, 0);
        let _ = writeln!(out, "{}", style.text(&lines));
    }
    out
}

/// One row per target.
fn targets(view: &WatchView<'_>) -> Table {
    let any = |is: &dyn Fn(usize, &TargetHits) -> bool| {
        view.hits.targets.iter().enumerate().any(|(at, target)| is(at, target))
    };
    let estimates = any(&|_, target| target.estimate.is_some());
    let changes = any(&|_, target| target.changed.is_some());
    let steps = any(&|at, target| view.steps(at) && target.plus_one.is_some());
    let passed = any(&|_, target| target.passed.is_some());
    let mut columns = vec![Column::number("hits")];
    columns.extend(estimates.then(|| Column::number("all the time")));
    columns.push(Column::number("per s"));
    columns.extend(changes.then(|| Column::number("changed")));
    columns.extend(steps.then(|| Column::number("old + 1")));
    columns.extend(passed.then(|| Column::number("condition")));
    columns.push(Column::number("records"));
    columns.push(Column::text("target").shrink());
    let mut table = Table::new(columns);
    for (at, (target, hits)) in view.targets().enumerate() {
        let mut cells = vec![counted(hits)];
        cells.extend(estimates.then(|| Cell::measured(hits.estimate.as_ref(), estimate)));
        cells.push(Cell::measured(hits.rate.as_ref(), rate));
        cells.extend(changes.then(|| Cell::measured(hits.changed.as_ref(), share)));
        let one = hits.plus_one.as_ref().filter(|_| view.steps(at));
        cells.extend(steps.then(|| Cell::measured(one, share)));
        cells.extend(passed.then(|| Cell::measured(hits.passed, count)));
        cells.push(Cell::new(count(hits.records)));
        cells.push(Cell::new(format!("{} ({})", escape(&target.name), about(target))));
        table.row(cells);
    }
    table
}

fn counted(hits: &TargetHits) -> Cell {
    let is_bound = !hits.exact && hits.hits > 0;
    Cell::new(format!("{}{}", if is_bound { "≥ " } else { "" }, count(hits.hits)))
}

fn push_target(
    out: &mut String,
    view: &WatchView<'_>,
    (at, target, hits): (usize, &WatchTarget, &TargetHits),
    style: &Style,
) {
    if hits.hits == 0 && hits.records == 0 {
        return;
    }
    let name = escape(&target.name);
    let _ = write!(out, "\n{}\n", style.paint(Paint::Bold, &style.text(&name)));
    out.push_str(&matrix(view, hits).render(style));
    for line in [over_time(hits), values(view, hits)].into_iter().flatten() {
        let _ = writeln!(out, "{}", style.text(&wrap(&line, style.width, 0)));
    }
    let frequent = frequent(view, at, hits);
    if !frequent.is_empty() {
        let _ = write!(out, "\n{}", frequent.render(style));
    }
    push_history(out, view, hits, style);
}

/// Places by threads.
fn matrix(view: &WatchView<'_>, hits: &TargetHits) -> Table {
    let shown = hits.matrix.shown(view.limits.rows, view.limits.threads);
    let name = |at: &u32| thread(view.hits.threads.get(*at as usize));
    let has_others = shown.other_threads > 0;
    let mut columns = vec![Column::number("share"), Column::number("hits")];
    columns.extend(shown.threads.iter().map(|at| Column::number(name(at))));
    let others = format!("{} others", count(shown.other_threads as u64));
    columns.extend(has_others.then(|| Column::number(others)));
    columns.push(Column::text("place").shrink());
    let all = shown.total.total.hits.saturating_add(hits.matrix.untold);
    let line = |row: &ShownRow, name: String| {
        let share = row.total.hits as f64 / all.max(1) as f64;
        let mut cells = vec![Cell::new(of_all(share)), Cell::new(count(row.total.hits))];
        let cell = |hits: &u64| if *hits == 0 { Cell::new("") } else { Cell::new(count(*hits)) };
        cells.extend(row.cells.iter().map(cell));
        cells.extend(has_others.then(|| cell(&row.others)));
        cells.push(Cell::new(name));
        cells
    };
    let mut table = Table::new(columns);
    for row in &shown.rows {
        table.row(line(row, place(row.site.and_then(|site| view.site(site)))));
    }
    if let Some(row) = &shown.others {
        let rows = shown.other_rows as u64;
        table.row(line(row, format!("{} other {}", count(rows), plural(rows, "place", "places"))));
    }
    if hits.matrix.untold > 0 {
        let share = hits.matrix.untold as f64 / all.max(1) as f64;
        let blank = shown.threads.len() + usize::from(has_others);
        let mut cells = vec![Cell::new(of_all(share)), Cell::new(count(hits.matrix.untold))];
        cells.extend((0..blank).map(|_| Cell::new("-")));
        cells.push(Cell::new("not told apart"));
        table.row(cells);
    }
    if shown.rows.len() + usize::from(shown.others.is_some()) > 1 {
        let mut total = shown.total.clone();
        total.total.hits = all;
        table.row(line(&total, "all places".to_owned()));
    }
    table
}

/// How rates spread.
fn over_time(hits: &TargetHits) -> Option<String> {
    let stretches = stretches(hits);
    let rates: Vec<f64> = stretches.iter().filter_map(|stretch| stretch.hits_per_s).collect();
    let first = stretches.first()?;
    if rates.len() < 10 || hits.hits == 0 {
        return None;
    }
    let mut sorted = rates.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |p: f64| significant(pmuscope_stats::quantile_sorted(&sorted, p).unwrap_or(0.0), 3);
    Some(format!(
        "over time: {} to {} hits/s, median {}, in {} blocks of {}",
        at(0.0),
        at(1.0),
        at(0.5),
        count(rates.len() as u64),
        duration(first.until_s - first.from_s)
    ))
}

/// How values spread.
fn values(view: &WatchView<'_>, hits: &TargetHits) -> Option<String> {
    let of = &hits.values;
    if of.total == 0 {
        return None;
    }
    let distinct = match of.distinct {
        Some(1) => "1 value".to_owned(),
        Some(number) => format!("{} different values", count(number)),
        None => "more different values than could be counted".to_owned(),
    };
    let blocks = || hits.blocks.iter().filter_map(|block| block.values);
    let least = blocks().map(|block| block.min).reduce(f64::min);
    let most = blocks().map(|block| block.max).reduce(f64::max);
    let ends = least.zip(most).filter(|(least, most)| least < most && view.has_values(hits));
    let ends = ends.map_or_else(String::new, |(least, most)| {
        format!(", {} to {}", exact(least, 6), exact(most, 6))
    });
    Some(format!("values: {distinct}{ends}, in {}", of_hits(hits, of.total)))
}

/// Among how many hits values were counted, and what is known of that.
pub(super) fn of_hits(hits: &TargetHits, all: u64) -> String {
    if hits.records == all {
        number::counted(all, "hit")
    } else {
        format!(
            "{}, which {} for ~{}",
            number::counted(hits.records, "record"),
            agree(hits.records, "stands", "stand"),
            number::counted(all, "hit")
        )
    }
}

/// What stands before the hits of a value: counts may be too small by `short`, or stand for more.
pub(super) fn sign_of(short: u64, hits: &TargetHits) -> &'static str {
    match (short > 0, hits.written > hits.records) {
        (true, _) => "≥ ",
        (false, true) => "~",
        (false, false) => "",
    }
}

/// A value, or a change of values, has a row only if it is that large a part.
const FREQUENT: f64 = 0.01;

/// Whether hits of a value, or of a change, are worth a row.
pub(super) fn is_frequent(hits: u64, all: u64) -> bool {
    hits > 1 && hits as f64 >= FREQUENT * all.max(1) as f64
}

/// The most frequent changes; of what never changed the values.
fn frequent(view: &WatchView<'_>, at: usize, hits: &TargetHits) -> Table {
    let limit = view.limits.values;
    let changes = &hits.transitions;
    let rows = changes.rows.iter().map(|&((point, old, new), hits)| {
        let (old, new) = (value(view.hits, point, old), value(view.hits, point, new));
        (hits, word(view, point), old, Some(new))
    });
    let values = hits.values.rows.iter().map(|&((point, bits), hits)| {
        (hits, word(view, point), value(view.hits, point, bits), None)
    });
    let (rows, all, short): (Vec<_>, u64, u64) = if changes.total > 0 {
        (rows.collect(), changes.total, changes.short_by)
    } else {
        (values.collect(), hits.values.total, hits.values.short_by)
    };
    let large = |row: &&(u64, String, String, Option<String>)| is_frequent(row.0, all);
    let is_pair = changes.total > 0;
    let mut columns = vec![Column::number("share"), Column::number("hits")];
    if is_pair {
        columns.extend([Column::number("old"), Column::text("new")]);
    } else {
        columns.push(Column::number("value"));
    }
    let mut table = Table::new(columns);
    let mut others = all;
    let shown: Vec<_> = rows.iter().filter(large).take(limit).collect();
    // A counter that runs on has as many values as hits.
    if shown.is_empty() || self_evident(view, at, hits) {
        return table;
    }
    let sign = sign_of(short, hits);
    for (hits, word, old, new) in &shown {
        others = others.saturating_sub(*hits);
        let share = percent(*hits as f64 / all.max(1) as f64, 2);
        let mut cells = vec![
            Cell::new(share),
            Cell::new(format!("{sign}{}", count(*hits))),
            Cell::new(format!("{word}{old}")),
        ];
        cells.extend(new.as_ref().map(|new| Cell::new(format!("→ {new}"))));
        table.row(cells);
    }
    if others > 0 {
        let share = percent(others as f64 / all.max(1) as f64, 2);
        let sign = if sign.is_empty() { "" } else { "~" };
        let hits = Cell::new(format!("{sign}{}", count(others)));
        table.row([Cell::new(share), hits, Cell::new("others")]);
    }
    table
}

/// Nothing but steps of one.
fn self_evident(view: &WatchView<'_>, at: usize, hits: &TargetHits) -> bool {
    let all = hits.plus_one.is_some_and(|share| share.part == share.of);
    view.steps(at) && all && hits.values.distinct.is_none_or(|distinct| distinct > 100)
}

fn push_history(out: &mut String, view: &WatchView<'_>, hits: &TargetHits, style: &Style) {
    let all: Vec<&HitRecord> = hits.history.iter().collect();
    let limit = view.limits.history;
    if all.is_empty() || limit == 0 {
        return;
    }
    let has_values = view.has_values(hits);
    let mut columns = vec![Column::number("time s"), Column::text("thread")];
    if has_values {
        columns.extend([Column::number("old"), Column::text("new")]);
    }
    columns.push(Column::text("place").shrink());
    let mut table = Table::new(columns);
    let row = |hit: &HitRecord| {
        let mut cells = vec![
            Cell::new(fixed(view.seconds(hit), 6)),
            Cell::new(thread(view.hits.threads.get(hit.thread as usize))),
        ];
        if has_values {
            let word = word(view, hit.point);
            cells.push(Cell::new(format!("{word}{}", known(view, hit.point, hit.old))));
            cells.push(Cell::new(format!("→ {}", known(view, hit.point, hit.new))));
        }
        cells.push(Cell::new(place(view.site(hit.site))));
        cells
    };
    let from_end = all.len().saturating_sub(limit).max(limit.min(all.len()));
    all.iter().take(limit).for_each(|hit| table.row(row(hit)));
    let between = hits.records.saturating_sub((all.len().min(limit) + all.len() - from_end) as u64);
    if between > 0 {
        table.row([Cell::new("…"), Cell::new(format!("{} between", count(between)))]);
    }
    all[from_end..].iter().for_each(|hit| table.row(row(hit)));
    let _ = write!(out, "\n{}", table.render(style));
}

/// Words of a cache line by threads.
fn push_line(out: &mut String, view: &WatchView<'_>, line: &CacheLine, style: &Style) {
    let of = line.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    let about = if line.is_estimate { "estimate: " } else { "" };
    let head = format!("cache line {:#x}{of}: {about}{}", line.address, verdict(line.verdict));
    let head = style.text(&head).into_owned();
    let _ = write!(out, "\n{}\n", style.paint(Paint::Bold, &head));
    for text in [evidence(line), consequence(line.verdict).to_owned()] {
        let _ = writeln!(out, "{}", style.text(&wrap(&text, style.width, 0)));
    }
    if line.hits == 0 {
        return;
    }
    let columns = line.threads.iter().take(view.limits.threads);
    let name = |&(pid, tid): &(u32, u32)| {
        let is_it =
            |one: &&pmuscope_profile::hits::Thread| (one.pid, one.tid) == (pid as i32, tid as i32);
        thread(view.hits.threads.iter().find(is_it))
    };
    let others = line.threads.len().saturating_sub(view.limits.threads);
    let heads = columns.map(|thread| Column::number(name(thread)));
    let mut table = Table::new(
        [Column::number("offset"), Column::number("bytes")].into_iter().chain(heads).chain(
            (others > 0).then(|| Column::number(format!("{} others", count(others as u64)))),
        ),
    );
    for word in &line.words {
        let shown = |(counted, estimated): (u64, f64)| match (counted, line.is_estimate) {
            (0, _) => Cell::new(""),
            (_, true) => Cell::new(format!("~{}", significant(estimated, 3))),
            (hits, false) => Cell::new(count(hits)),
        };
        let mut cells =
            vec![Cell::new(format!("+{}", word.offset)), Cell::new(word.bytes.to_string())];
        let (head, tail) = word.hits.split_at(view.limits.threads.min(word.hits.len()));
        cells.extend(head.iter().map(|hits| shown(*hits)));
        let rest = tail.iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        cells.extend((others > 0).then(|| shown(rest)));
        table.row(cells);
    }
    out.push_str(&table.render(style));
}

/// What a verdict rests on.
pub(super) fn evidence(line: &CacheLine) -> String {
    let mut parts = vec![
        format!(
            "{} of {}",
            number::counted(line.hits, "hit"),
            number::counted(line.threads.len(), "thread")
        ),
        format!("{} by another thread than the word's main one", percents(line.foreign_share)),
    ];
    if line.records > 1 && !line.is_estimate {
        let of = (line.records - 1) as f64;
        parts.push(format!(
            "the thread changed from hit to hit in {} of {}",
            percents(line.handovers as f64 / of),
            count(line.records - 1)
        ));
    }
    if line.writes_only {
        parts.push("readers were not watched".to_owned());
    }
    if line.other_processes > 0 {
        parts.push(
            "other processes use the address too, if it is the same memory or not".to_owned(),
        );
    }
    parts.join(", ")
}
