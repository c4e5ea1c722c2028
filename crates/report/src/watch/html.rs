//! Hits as one page: facts, targets with pictures, the matrix as a heat map, values, history, cache lines.

use std::fmt::Write as _;

use pmuscope_perfdata::watch::WatchTarget;
use pmuscope_profile::hits::{CacheLine, HitRecord, SharingVerdict, ShownRow, TargetHits, Thread};

use super::text::{evidence, is_frequent, of_hits, sign_of};
use super::words::{
    about, accesses, consequence, estimate, known, missed, of_all, percents, place, plural, rate,
    share, slowdown, subject, value, verdict, word, written,
};
use super::{WATCH_SCHEMA, WatchView, charts};
use crate::html::{Fact, PageFrame, Summary, contents, filter, number_cell, share_cell};
use crate::markup::{self, text};
use crate::number::{count, counted, duration, fixed, interval, significant};

/// The strongest shade, percent: text stays readable on it, on light and on dark paper.
const STRONGEST: f64 = 45.0;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn watch_page(view: &WatchView<'_>, commit: &str) -> String {
    PageFrame { schema: WATCH_SCHEMA, commit }.page(
        &summary(view),
        &markup::written(|out| {
            let names: Vec<(String, &str)> = view
                .targets()
                .enumerate()
                .map(|(at, (target, _))| (format!("target-{at}"), &*target.name))
                .collect();
            let lines = (!view.hits.lines.is_empty()).then(|| ("lines".to_owned(), "Cache lines"));
            let first = ("targets".to_owned(), "Targets");
            out.push_str(&contents(std::iter::once(first).chain(names).chain(lines)).0);
            push_targets(out, view);
            for (at, (target, hits)) in view.targets().enumerate() {
                push_target(out, view, at, target, hits);
            }
            if !view.hits.lines.is_empty() {
                push_lines(out, view);
            }
        }),
    )
}

/// The recording, or what was watched where it is not kept.
fn title(view: &WatchView<'_>) -> String {
    view.file.map_or_else(|| subject(&view.hits.info), str::to_owned)
}

fn summary(view: &WatchView<'_>) -> Summary {
    let (hits, info) = (view.hits, &view.hits.info);
    let all = hits.targets.iter().fold(0_u64, |sum, one| sum.saturating_add(one.hits));
    let scope = view.recording().map_or("", |info| &info.scope);
    let lost = (!info.lost.is_empty())
        .then(|| info.lost.iter().fold(0_u64, |sum, lost| sum.saturating_add(*lost)));
    let mut facts = vec![
        Fact::new("Watched", subject(info), scope.to_owned()),
        Fact::new(
            "Hits",
            count(all),
            [
                missed(view),
                Some(counted(hits.records, "record")),
                Some(written(info, hits.is_part())),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        ),
        Fact::new(
            "Duration",
            if hits.seconds > 0.0 { duration(hits.seconds) } else { "-".to_owned() },
            hits.armed.map_or_else(String::new, |armed| {
                let turns = if hits.took_turns { ", in turns" } else { "" };
                format!("armed {} of it{turns}", percents(armed))
            }),
        ),
        Fact::new("Lost", lost.map_or("-".into(), count), "records without room")
            .which_warns(lost.is_some_and(|lost| lost > 0)),
    ];
    if let Some(cost) = info.hit_cost {
        let us = match cost.margin_ns {
            Some(margin) => interval(cost.ns / 1e3, margin / 1e3),
            None => format!("~{}", significant(cost.ns / 1e3, 3)),
        };
        let of = slowdown(info).unwrap_or_default();
        facts.push(Fact::new("Cost", format!("{us} µs/hit"), of));
    }
    if let Some(emulator) = view.recording().and_then(|info| info.machine.emulator.as_deref()) {
        facts.push(Fact::emulated(emulator));
    }
    facts.extend(Fact::machine(&hits.metadata));
    let told = view.recording().map(|info| &info.command).filter(|command| !command.is_empty());
    Summary {
        title: title(view),
        facts,
        notes: view.notes(),
        command: told.unwrap_or(&hits.metadata.command).join(" "),
    }
}

fn push_targets(out: &mut String, view: &WatchView<'_>) {
    let passed = view.hits.targets.iter().any(|target| target.passed.is_some());
    // Writing to a String does not fail, here and below.
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"targets\">\n<h2>Targets</h2>\n<p class=\"dim\">Hits while points \
         were armed; ± is the 95 % interval, ~ an estimate, ≥ what records alone tell.</p>\n\
         {}<div class=\"wide\"><table class=\"sortable\"><thead><tr>\
         <th scope=\"col\" class=\"num\">hits</th>\
         <th scope=\"col\" class=\"num\">all the time</th><th scope=\"col\" class=\"num\">per s</th>\
         <th scope=\"col\" class=\"num\">changed</th><th scope=\"col\" class=\"num\">old + 1</th>\
         {}<th scope=\"col\" class=\"num\">records</th><th scope=\"col\" class=\"num\">threads</th>\
         <th scope=\"col\" class=\"num\">places</th><th scope=\"col\">target</th></tr></thead>\n<tbody>\n",
        filter().0,
        if passed { "<th scope=\"col\" class=\"num\">condition</th>" } else { "" }
    );
    for (at, (target, hits)) in view.targets().enumerate() {
        let bound = if hits.exact || hits.hits == 0 { "" } else { "≥ " };
        let _ = write!(
            out,
            "<tr><td class=\"num\" data-v=\"{}\">{bound}{}</td>",
            hits.hits,
            count(hits.hits)
        );
        let cell = |value: Option<f64>, shown: Option<String>| {
            let shown = shown.unwrap_or_else(|| "-".to_owned());
            format!("<td class=\"num\" data-v=\"{}\">{}</td>", value.unwrap_or(-1.0), text(&shown))
        };
        let one = hits.plus_one.as_ref().filter(|_| view.steps(at));
        out.push_str(&cell(hits.estimate.map(|of| of.value), hits.estimate.as_ref().map(estimate)));
        out.push_str(&cell(hits.rate.map(|of| of.value), hits.rate.as_ref().map(rate)));
        let changed = hits.changed.as_ref();
        out.push_str(&cell(
            changed.and_then(pmuscope_profile::hits::HitShare::value),
            changed.map(share),
        ));
        out.push_str(&cell(one.and_then(pmuscope_profile::hits::HitShare::value), one.map(share)));
        if passed {
            out.push_str(&cell(hits.passed.map(|of| of as f64), hits.passed.map(count)));
        }
        out.push_str(&number_cell(hits.records).0);
        out.push_str(&number_cell(hits.matrix.threads.len() as u64).0);
        out.push_str(&number_cell(hits.matrix.rows.len() as u64).0);
        let _ = writeln!(
            out,
            "<td class=\"name\"><a href=\"#target-{at}\">{}</a> <small>{}, {}</small></td></tr>",
            text(&target.name),
            text(&about(target)),
            accesses(target.access)
        );
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn push_target(
    out: &mut String,
    view: &WatchView<'_>,
    at: usize,
    target: &WatchTarget,
    hits: &TargetHits,
) {
    let _ = write!(
        out,
        "<article class=\"target\" id=\"target-{at}\">\n<h2>{}</h2>\n<p class=\"dim\">{}</p>\n",
        text(&target.name),
        text(&about(target))
    );
    if hits.hits == 0 && hits.records == 0 {
        out.push_str("<p>No hits.</p>\n</article>\n");
        return;
    }
    push_matrix(out, view, hits);
    if let Some(picture) = charts::rates(hits) {
        let _ = write!(out, "<h3>Hits per second</h3>\n<div class=\"wide\">{picture}</div>\n");
    }
    if let Some(picture) = charts::values(view, hits) {
        let _ = write!(
            out,
            "<h3>Values</h3>\n<p class=\"dim\">Band: from the smallest to the largest of a block of time; \
             line: their median; dots: single hits.</p>\n\
             <div class=\"wide\">{picture}</div>\n"
        );
    }
    push_frequent(out, view, hits);
    push_history(out, view, hits);
    out.push_str("</article>\n");
}

fn thread_head(thread: Option<&Thread>) -> String {
    thread.map_or("-".into(), |one| {
        format!(
            "{} <small>{}{}</small>",
            text(&one.command),
            one.tid,
            if one.pid == one.tid { String::new() } else { format!(" of {}", one.pid) }
        )
    })
}

/// Places by threads, the stronger the shade the more hits.
fn push_matrix(out: &mut String, view: &WatchView<'_>, hits: &TargetHits) {
    let shown = hits.matrix.shown(view.limits.rows, view.limits.threads);
    let all = shown.total.total.hits.saturating_add(hits.matrix.untold);
    let has_others = shown.other_threads > 0;
    let cells = shown.rows.iter().flat_map(|row| row.cells.iter().chain([&row.others]));
    let most = cells.copied().max().unwrap_or(0).max(1);
    out.push_str(
        "<section class=\"table-part\">\n<h3>Who, from where</h3>\n<div class=\"wide\">\
         <table class=\"sortable matrix\"><thead><tr><th scope=\"col\" class=\"num\" \
         aria-sort=\"descending\">share</th><th scope=\"col\" class=\"num\">hits</th>",
    );
    for &thread in &shown.threads {
        let name = thread_head(view.hits.threads.get(thread as usize));
        let _ = write!(out, "<th scope=\"col\" class=\"num\">{name}</th>");
    }
    if has_others {
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"num\">others <small>{}</small></th>",
            counted(shown.other_threads, "thread")
        );
    }
    out.push_str("<th scope=\"col\">place</th></tr></thead>\n<tbody>\n");
    let push = |out: &mut String, row: &ShownRow, name: &str, title: &str| {
        let share = row.total.hits as f64 / all.max(1) as f64;
        let _ = write!(out, "<tr>{}{}", share_cell(share).0, number_cell(row.total.hits).0);
        for hits in row.cells.iter().chain(has_others.then_some(&row.others)) {
            out.push_str(&heat_cell(*hits, most));
        }
        let _ = writeln!(out, "<td class=\"name\"{title}>{}</td></tr>", text(name));
    };
    for row in &shown.rows {
        let site = row.site.and_then(|site| view.site(site));
        let path = site.and_then(|site| Some((site, site.line.as_ref()?)));
        let title = path.map_or_else(String::new, |(site, line)| {
            format!(" title=\"{} in {}\"", text(&line.file), text(&site.module))
        });
        push(out, row, &place(site), &title);
    }
    out.push_str("</tbody>\n<tfoot>");
    if let Some(row) = &shown.others {
        let rows = shown.other_rows as u64;
        let name = format!("{} other {}", count(rows), plural(rows, "place", "places"));
        push(out, row, &name, "");
    }
    if hits.matrix.untold > 0 {
        let untold = hits.matrix.untold;
        let blank = shown.threads.len() + usize::from(has_others);
        let _ = writeln!(
            out,
            "<tr><td class=\"num\">{}</td>{}{}<td>not told apart</td></tr>",
            of_all(untold as f64 / all.max(1) as f64),
            number_cell(untold).0,
            "<td class=\"num\">-</td>".repeat(blank)
        );
    }
    out.push_str("</tfoot></table></div>\n</section>\n");
}

fn heat_cell(hits: u64, most: u64) -> String {
    if hits == 0 {
        return "<td class=\"num\" data-v=\"0\"></td>".to_owned();
    }
    let strength = (STRONGEST * hits as f64 / most as f64).max(4.0);
    format!(
        "<td class=\"num cell\" data-v=\"{hits}\" style=\"--s:{strength:.0}%\">{}</td>",
        count(hits)
    )
}

fn push_frequent(out: &mut String, view: &WatchView<'_>, hits: &TargetHits) {
    if hits.values.total == 0 {
        return;
    }
    out.push_str("<div class=\"side\">\n");
    let values = hits.values.rows.iter().map(|&((point, bits), hits)| {
        (format!("{}{}", word(view, point), value(view.hits, point, bits)), hits)
    });
    let values = values.take(view.limits.values).collect();
    push_rows(out, "value", values, &hits.values, hits);
    let changes = hits.transitions.rows.iter().map(|&((point, old, new), hits)| {
        let (old, new) = (value(view.hits, point, old), value(view.hits, point, new));
        (format!("{}{old} → {new}", word(view, point)), hits)
    });
    let changes = changes.take(view.limits.values).collect();
    push_rows(out, "change", changes, &hits.transitions, hits);
    out.push_str("</div>\n");
}

fn push_rows<K>(
    out: &mut String,
    what: &str,
    rows: Vec<(String, u64)>,
    of: &pmuscope_profile::hits::Frequent<K>,
    target: &TargetHits,
) {
    if of.total == 0 {
        return;
    }
    let distinct = match of.distinct {
        Some(number) => format!("{} different", count(number)),
        None => "more than could be counted one by one".to_owned(),
    };
    let short = match of.short_by {
        0 => String::new(),
        short => format!("; counts may be too small by up to {}", count(short)),
    };
    let _ = write!(
        out,
        "<section>\n<h3>Most frequent {what}s</h3>\n<p class=\"dim\">{distinct}, in {}{short}.</p>\n\
         <div class=\"wide\"><table>",
        of_hits(target, of.total)
    );
    let sign = sign_of(of.short_by, target);
    let cell =
        |hits: u64| format!("<td class=\"num\" data-v=\"{hits}\">{sign}{}</td>", count(hits));
    if !rows.iter().any(|row| is_frequent(row.1, of.total)) {
        let seldom = match rows.iter().map(|row| row.1).max() {
            Some(2..) => "None has 1 % of them.",
            _ => "None came twice.",
        };
        let _ = write!(
            out,
            "<tbody>\n<tr><td class=\"dim\">{seldom}</td></tr>\n</tbody></table></div>\n</section>\n"
        );
        return;
    }
    let _ = write!(
        out,
        "<thead><tr><th scope=\"col\" class=\"num\">share</th><th scope=\"col\" class=\"num\">hits</th>\
         <th scope=\"col\">{what}</th></tr></thead>\n<tbody>\n"
    );
    let mut others = of.total;
    for (name, hits) in rows.into_iter().filter(|row| is_frequent(row.1, of.total)) {
        others = others.saturating_sub(hits);
        let share = hits as f64 / of.total as f64;
        let _ = writeln!(
            out,
            "<tr>{}{}<td class=\"mono\">{}</td></tr>",
            share_cell(share).0,
            cell(hits),
            text(&name)
        );
    }
    if others > 0 {
        let share = others as f64 / of.total as f64;
        let _ = writeln!(
            out,
            "<tr>{}{}<td class=\"dim\">others</td></tr>",
            share_cell(share).0,
            cell(others)
        );
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn push_history(out: &mut String, view: &WatchView<'_>, hits: &TargetHits) {
    let history = &hits.history;
    let limit = view.limits.history;
    if history.first.is_empty() || limit == 0 {
        return;
    }
    let has_values = view.has_values(hits);
    out.push_str(
        "<section>\n<h3>Hits one by one</h3>\n<div class=\"wide\"><table class=\"hits\"><thead><tr>\
         <th scope=\"col\" class=\"num\">time s</th><th scope=\"col\">thread</th>\
         <th scope=\"col\" class=\"num\">CPU</th>",
    );
    let values = "<th scope=\"col\" class=\"num\">old</th><th scope=\"col\" class=\"num\">new</th>";
    out.push_str(if has_values { values } else { "" });
    out.push_str("<th scope=\"col\">place</th></tr></thead>\n<tbody>\n");
    let push = |out: &mut String, hit: &HitRecord| {
        let thread = view.hits.threads.get(hit.thread as usize);
        let _ = write!(
            out,
            "<tr><td class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td>",
            fixed(view.seconds(hit), 6),
            text(&super::words::thread(thread)),
            hit.cpu.map_or("-".into(), |cpu| cpu.to_string())
        );
        if has_values {
            let old = format!("{}{}", word(view, hit.point), known(view, hit.point, hit.old));
            let new = known(view, hit.point, hit.new);
            let _ = write!(
                out,
                "<td class=\"num mono\">{}</td><td class=\"num mono\">{}</td>",
                text(&old),
                text(&new)
            );
        }
        let _ = writeln!(out, "<td class=\"name\">{}</td></tr>", text(&place(view.site(hit.site))));
    };
    let first = history.first.iter().take(limit);
    let last = &history.last[history.last.len().saturating_sub(limit)..];
    let shown = first.len() + last.len();
    first.for_each(|hit| push(out, hit));
    let between = hits.records.saturating_sub(shown as u64);
    if between > 0 {
        let columns = 4 + 2 * usize::from(has_values);
        let _ = writeln!(
            out,
            "<tr><td colspan=\"{columns}\" class=\"dim\">{} between</td></tr>",
            count(between)
        );
    }
    last.iter().for_each(|hit| push(out, hit));
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn push_lines(out: &mut String, view: &WatchView<'_>) {
    const MOST: usize = 50;
    out.push_str("<section id=\"lines\" class=\"target\">\n<h2>Cache lines</h2>\n");
    for line in view.hits.lines.iter().take(MOST) {
        push_line(out, view, line);
    }
    let more = view.hits.lines.len().saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(out, "<p class=\"dim\">{} more lines.</p>", count(more as u64));
    }
    out.push_str("</section>\n");
}

fn push_line(out: &mut String, view: &WatchView<'_>, line: &CacheLine) {
    let bad = match line.verdict {
        SharingVerdict::FalseSharing | SharingVerdict::Both => " bad",
        _ => "",
    };
    let of = line.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    let about = if line.is_estimate { "estimate: " } else { "" };
    let _ = write!(
        out,
        "<h3>{:#x}{of}</h3>\n<p><span class=\"verdict{bad}\">{about}{}</span>: {}.</p>\n\
         <p class=\"dim\">{}.</p>\n",
        line.address,
        verdict(line.verdict),
        text(consequence(line.verdict)),
        text(&evidence(line))
    );
    if line.hits == 0 {
        return;
    }
    out.push_str(
        "<div class=\"wide\"><table class=\"matrix words\"><thead><tr><th scope=\"col\">bytes</th>",
    );
    let columns = view.limits.threads;
    for &(pid, tid) in line.threads.iter().take(columns) {
        let is_it = |one: &&Thread| (one.pid, one.tid) == (pid as i32, tid as i32);
        let name = thread_head(view.hits.threads.iter().find(is_it));
        let _ = write!(out, "<th scope=\"col\" class=\"num\">{name}</th>");
    }
    let others = line.threads.len().saturating_sub(columns);
    if others > 0 {
        let _ = write!(out, "<th scope=\"col\" class=\"num\">{} others</th>", count(others as u64));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let most = line.words.iter().flat_map(|word| &word.hits).map(|hits| hits.1).fold(1.0, f64::max);
    for word in &line.words {
        let end = word.offset + u32::from(word.bytes) - 1;
        let _ = write!(out, "<tr><th scope=\"row\" class=\"mono\">+{}–{end}</th>", word.offset);
        let (head, tail) = word.hits.split_at(columns.min(word.hits.len()));
        let rest = tail.iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        for &(counted, estimated) in head.iter().chain((others > 0).then_some(&rest)) {
            if counted == 0 {
                out.push_str("<td></td>");
                continue;
            }
            let strength = (STRONGEST * (estimated / most).min(1.0)).max(4.0);
            let shown = match line.is_estimate {
                true => format!("~{}", significant(estimated, 3)),
                false => count(counted),
            };
            let _ = write!(out, "<td class=\"num cell\" style=\"--s:{strength:.0}%\">{shown}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
