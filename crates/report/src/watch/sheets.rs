//! The tables of hits: their fields, for all forms.

use pmuscope_perfdata::watch::{WatchPoint, WatchTarget};
use pmuscope_profile::hits::{
    Block, BlockValues, CacheLine, Counts, HitRecord, HitShare, Hits, MatrixRow, ShownRow, Site,
    TargetHits, Thread, Word,
};
use pmuscope_stats::Interval;
use serde_json::{Value as Json, json};

use super::WatchView;
use super::often::{Often, OftenRow};
use super::words::{
    about, accesses, estimate, known, of_all, place, plural, rate, share, thread, value,
    verdict_word, word,
};
use crate::number::{count, fixed, significant};
use crate::sheet::{Field, FieldKind, NAME, Sheet, Value};

/// A target with its hits.
struct TargetRow<'a> {
    at: usize,
    target: &'a WatchTarget,
    hits: &'a TargetHits,
}

/// A row per target; `only` one of them if that is asked.
pub(super) fn targets<'b>(view: &WatchView<'_>, only: Option<usize>) -> Sheet<'b> {
    let all = view.targets().enumerate();
    let rows = all.map(|(at, (target, hits))| TargetRow { at, target, hits });
    let rows: Vec<_> = rows.filter(|row| only.is_none_or(|only| only == row.at)).collect();
    let fields = target_fields(view).into_iter().chain(target_figures(view)).collect();
    Sheet::new(fields, &rows, rows.len()).into_owned()
}

/// What was watched, and what was counted, for programs.
fn target_fields<'r, 'a: 'r>(view: &'r WatchView<'a>) -> Vec<Field<'r, TargetRow<'a>>> {
    type Row<'a> = TargetRow<'a>;
    let point = |point: &WatchPoint| json!({"address": hex(point.address), "bytes": point.bytes});
    let points = move |row: &Row<'_>| {
        let points = row.hits.points.iter();
        points.filter_map(|at| view.hits.info.points.get(*at as usize)).map(point).collect()
    };
    let estimates = |row: &Row<'_>, of: fn(&TargetHits) -> Option<pmuscope_stats::Estimate>| {
        estimate_json(of(row.hits).map(|of| (of.value, of.interval, of.n)))
    };
    let fields = [
        Field::text("name", |row: &Row<'a>| Some(&*row.target.name)),
        Field::text("type", |row: &Row<'a>| {
            Some(&*row.target.type_name).filter(|name| !name.is_empty())
        }),
        Field::json("kind", |row: &Row<'_>| json!(row.target.value)),
        Field::address("address", |row: &Row<'_>| Some(row.target.address)),
        Field::count("bytes", |row: &Row<'_>| row.target.bytes),
        Field::json("access", |row: &Row<'_>| json!(row.target.access)),
        Field::flag("in_kernel", |row: &Row<'_>| row.target.in_kernel),
        Field::text("file", |row: &Row<'a>| Some(&*row.target.declared.as_ref()?.0)),
        Field::count("line", |row: &Row<'_>| Some(row.target.declared.as_ref()?.1.into())),
        Field::json("notes", |row: &Row<'_>| json!(row.target.notes)),
        Field::json("points", points),
        Field::flag("exact", |row: &Row<'_>| row.hits.exact),
        Field::count("written", |row: &Row<'_>| row.hits.written),
        Field::count("lost", |row: &Row<'_>| row.hits.lost),
        Field::json("all_the_time", move |row: &Row<'_>| estimates(row, |hits| hits.estimate)),
        Field::json("at_least", move |row: &Row<'_>| estimates(row, |hits| hits.at_least)),
        Field::count("by_steps", |row: &Row<'_>| row.hits.steps),
        Field::json("per_s", |row: &Row<'_>| {
            estimate_json(row.hits.rate.map(|of| (of.value, of.interval, of.n)))
        }),
        Field::json("changed", |row: &Row<'_>| share_json(row.hits.changed)),
        Field::json("plus_one", |row: &Row<'_>| share_json(row.hits.plus_one)),
        Field::count("untold", |row: &Row<'_>| row.hits.matrix.unattributed),
    ];
    fields.into_iter().map(Field::for_programs).collect()
}

/// What was counted, for people.
fn target_figures<'r, 'a: 'r>(view: &'r WatchView<'a>) -> Vec<Field<'r, TargetRow<'a>>> {
    type Row<'a> = TargetRow<'a>;
    let bound = |row: &Row<'_>| {
        let sign = if row.hits.exact || row.hits.hits == 0 { "" } else { "≥ " };
        format!("{sign}{}", count(row.hits.hits)).into()
    };
    let steps = move |row: &Row<'_>| row.hits.plus_one.filter(|_| view.steps(row.at));
    let part = |of: HitShare| Some((of.value()?, share(&of)));
    vec![
        Field::count("hits", |row: &Row<'_>| row.hits.hits).shown_as(bound),
        figure("estimated total", |row: &Row<'_>| {
            row.hits.estimate.map(|of| (of.value, estimate(&of)))
        })
        .only_if_measured(),
        figure("per s", |row: &Row<'_>| row.hits.rate.map(|of| (of.value, rate(&of)))).optional(1),
        figure("changed", move |row: &Row<'_>| row.hits.changed.and_then(part))
            .only_if_measured()
            .optional(3),
        figure("old+1", move |row: &Row<'_>| steps(row).and_then(part))
            .only_if_measured()
            .optional(4),
        Field::count("passed", |row: &Row<'_>| row.hits.passed)
            .head("condition")
            .only_if_measured()
            .optional(2),
        Field::count("records", |row: &Row<'_>| row.hits.records).optional(5),
        Field::count("threads", |row: &Row<'_>| row.hits.matrix.threads.len() as u64).for_pages(),
        Field::count("places", |row: &Row<'_>| row.hits.matrix.rows.len() as u64)
            .head("call sites")
            .for_pages(),
        Field::text("accesses", |row: &Row<'_>| Some(accesses(row.target.access))).for_pages(),
        Field::text("target", |row: &Row<'_>| {
            Some(format!("{} ({})", row.target.name, about(row.target)))
        })
        .sentence()
        .linked(|row: &Row<'_>| format!("target-{}", row.at))
        .for_people(),
    ]
}

/// A number that people see as a text of its own; programs have its parts.
fn figure<'a, R: 'a>(
    head: &'static str,
    get: impl Fn(&'a R) -> Option<(f64, String)> + Copy + 'a,
) -> Field<'a, R> {
    Field::number(head, move |row| get(row).map(|of| of.0))
        .shown_if_known(move |row| get(row).map(|of| of.1))
        .for_people()
}

fn estimate_json(of: Option<(f64, Option<Interval>, usize)>) -> Json {
    let (low, high) = (|of: Interval| of.low, |of: Interval| of.high);
    json!(of.map(|(value, interval, n)| {
        json!({"value": value, "low": interval.map(low), "high": interval.map(high), "n": n})
    }))
}

fn share_json(of: Option<HitShare>) -> Json {
    json!(of.map(|of| {
        json!({
            "share": of.value(),
            "part": of.part,
            "of": of.of,
            "low": of.interval.map(|of| of.low),
            "high": of.interval.map(|of| of.high),
            "exact": of.exact,
        })
    }))
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}

fn count_fields<'a, R: 'a>(
    of: impl Fn(&'a R) -> Counts + Copy + 'a,
) -> impl Iterator<Item = Field<'a, R>> {
    [
        Field::count("hits", move |row| of(row).hits),
        Field::count("changed", move |row| of(row).changed).for_programs(),
        Field::count("plus_one", move |row| of(row).plus_one).for_programs(),
        Field::count("passed", move |row| of(row).passed).for_programs(),
    ]
    .into_iter()
}

/// Function and line.
fn site_fields<'a, R: 'a>(
    of: impl Fn(&'a R) -> Option<&'a Site> + Copy + 'a,
) -> impl Iterator<Item = Field<'a, R>> {
    let line = move |row| of(row)?.line.as_ref();
    [
        Field::text("function", move |row| of(row)?.function.as_deref()),
        Field::text("file", move |row| Some(&*line(row)?.file)),
        Field::count("line", move |row| Some(line(row)?.number?.into())),
    ]
    .into_iter()
    .map(Field::for_programs)
}

/// Threads that hit a target.
pub(super) fn threads<'a>(all: &'a Hits, hits: &'a TargetHits) -> Sheet<'a> {
    type Row = (u32, Counts);
    let of = |row: &Row| all.threads.get(row.0 as usize);
    let fields = [
        Field::id("pid", move |row| of(row).map(|of| of.pid)),
        Field::id("tid", move |row| of(row).map(|of| of.tid)),
        Field::text("command", move |row| of(row).map(|of| &*of.command)),
    ];
    let rows: Vec<&Row> = hits.matrix.threads.iter().filter(|row| of(row).is_some()).collect();
    let number = rows.len();
    Sheet::new(fields.into_iter().chain(count_fields(|row: &Row| row.1)).collect(), rows, number)
}

/// A call site with its hits, or a sum of several.
struct CallSiteRow<'a> {
    name: String,
    site: Option<&'a Site>,
    /// Of all hits of the target.
    share: f64,
    total: Counts,
    /// By the threads that are columns, then of the others; `None` where they are not known by thread.
    cells: Option<Vec<u64>>,
    by_thread: &'a [(u32, Counts)],
}

/// Call sites by threads, the stronger the shade the more hits.
pub(super) fn call_sites<'b>(view: &WatchView<'_>, target: &TargetHits) -> Sheet<'b> {
    let matrix = &target.matrix;
    let shown = matrix.shown(view.limits.rows, view.limits.threads);
    let all = shown.total.total.hits.saturating_add(matrix.unattributed);
    let row = |row: &ShownRow, name: String| CallSiteRow {
        name,
        site: None,
        share: row.total.hits as f64 / all.max(1) as f64,
        total: row.total,
        cells: Some(row.cells.iter().copied().chain([row.others]).collect()),
        by_thread: &[],
    };
    let sites = shown.rows.iter().zip(&matrix.rows).map(|(of, MatrixRow { cells, .. })| {
        let site = of.site.and_then(|site| view.site(site));
        CallSiteRow { site, by_thread: cells, ..row(of, place(site)) }
    });
    let mut rows: Vec<_> = sites.collect();
    let sites = rows.len();
    rows.extend(shown.others.as_ref().map(|others| {
        let number = shown.other_rows as u64;
        row(
            others,
            format!("{} other {}", count(number), plural(number, "call site", "call sites")),
        )
    }));
    let is_sum = rows.len() > 1;
    if matrix.unattributed > 0 {
        let mut unattributed = ShownRow::default();
        unattributed.total.hits = matrix.unattributed;
        rows.push(CallSiteRow { cells: None, ..row(&unattributed, "not attributed".to_owned()) });
    }
    if is_sum {
        let mut total = shown.total.clone();
        total.total.hits = all;
        rows.push(row(&total, "all call sites".to_owned()));
    }
    let most = rows[..sites].iter().filter_map(|row| row.cells.iter().flatten().max()).max();
    let mut heads: Vec<String> =
        shown.threads.iter().map(|at| thread_head(view.hits, *at)).collect();
    let others = shown.other_threads as u64;
    heads.extend((others > 0).then(|| format!("{} others", count(others))));
    let fields = call_site_fields(view.hits, heads, most.copied().unwrap_or(0));
    Sheet::new(fields, &rows, rows.len()).with_feet(rows.len() - sites).into_owned()
}

fn call_site_fields<'r, 'a: 'r>(
    hits: &'a Hits,
    heads: Vec<String>,
    most: u64,
) -> Vec<Field<'r, CallSiteRow<'a>>> {
    type Row<'a> = CallSiteRow<'a>;
    let part = |row: &Row<'_>| of_all(row.share).into();
    let mut fields =
        vec![Field::part("share", |row: &Row<'_>| Some(row.share)).shown_as(part).for_people()];
    fields.extend(site_fields(|row: &Row<'a>| row.site));
    let programs = [
        Field::text("inlined_into", |row: &Row<'a>| row.site?.inlined_into.as_deref()),
        Field::text("module", |row: &Row<'a>| Some(&*row.site?.module)),
        Field::address("address", |row: &Row<'_>| row.site?.address),
    ];
    fields.extend(programs.map(Field::for_programs));
    fields.extend(count_fields(|row: &Row<'_>| row.total));
    fields.extend(heads.into_iter().enumerate().map(|(at, head)| {
        let cell = move |row: &Row<'_>| row.cells.as_ref().map(|cells| cells[at]);
        Field::count(format!("thread {at}"), cell)
            .head(head)
            // Threads with more hits stand first.
            .optional((2 + at).try_into().unwrap_or(u8::MAX))
            .shown_if_known(move |row: &Row<'_>| cell(row).map(not_zero))
            // Sums have no shade: they would be the darkest.
            .shaded(move |row: &Row<'_>| {
                row.site.and_then(|_| cell(row)).unwrap_or(0) as f64 / most.max(1) as f64
            })
            .for_people()
    }));
    let path = |row: &Row<'_>| {
        let site = row.site?;
        Some(format!("{} in {}", site.line.as_ref()?.file, site.module))
    };
    fields.push(
        Field::text("place", |row: &Row<'_>| Some(row.name.clone()))
            .head("call site")
            .wanted(NAME)
            .titled(path)
            .for_people(),
    );
    fields.push(Field::json("by_thread", |row: &Row<'_>| {
        let cell = |&(at, of): &(u32, Counts)| {
            let Thread { pid, tid, .. } = hits.threads.get(at as usize)?;
            Some(json!({"pid": pid, "tid": tid, "hits": of.hits, "changed": of.changed}))
        };
        row.by_thread.iter().filter_map(cell).collect()
    }));
    fields
}

fn not_zero(hits: u64) -> String {
    if hits == 0 { String::new() } else { count(hits) }
}

/// `4712 worker`, and its process where there are several.
fn thread_head(hits: &Hits, at: u32) -> String {
    let name = thread(hits.threads.get(at as usize));
    let has_several = hits.threads.windows(2).any(|two| two[0].pid != two[1].pid);
    match hits.threads.get(at as usize).filter(|_| has_several) {
        Some(of) if of.pid != of.tid => format!("{name} of {}", of.pid),
        _ => name,
    }
}

/// Values, or changes of them, the most frequent first; `sign` stands before their hits.
pub(super) fn often<'b>(hits: &Hits, of: &Often, rows: &[OftenRow], sign: &str) -> Sheet<'b> {
    let shown = move |row: &OftenRow, bits: u64| value(hits, row.point, bits);
    let first = move |row: &OftenRow, bits: u64| {
        let first = || format!("{}{}", word(hits, row.point), shown(row, bits));
        if row.is_others { "others".to_owned() } else { first() }.into()
    };
    let mut fields = vec![
        Field::part("share", |row: &OftenRow| Some(row.hits as f64 / of.total.max(1) as f64))
            .for_people(),
        Field::count("hits", |row: &OftenRow| row.hits).shown_as(|row: &OftenRow| {
            let sign = if row.is_others && !sign.is_empty() { "~" } else { sign };
            format!("{sign}{}", count(row.hits)).into()
        }),
        Field::count("point", |row: &OftenRow| u64::from(row.point)).for_programs(),
    ];
    let address = |key: &'static str, kind, bits: fn(&OftenRow) -> u64| {
        Field::new(key, kind, move |row: &OftenRow| Value::Address(bits(row)))
    };
    let text = |key: &'static str, bits: fn(&OftenRow) -> u64| {
        Field::text(key, move |row: &OftenRow| Some(shown(row, bits(row)))).for_programs()
    };
    match of.is_pair {
        true => fields.extend([
            address("old", FieldKind::Number, |row| row.old)
                .shown_as(move |row: &OftenRow| first(row, row.old)),
            address("new", FieldKind::Text, |row| row.new).rigid().shown_as(move |row| {
                let arrow = || format!("→ {}", shown(row, row.new));
                if row.is_others { String::new() } else { arrow() }.into()
            }),
            text("old_text", |row| row.old),
            text("new_text", |row| row.new),
        ]),
        false => fields.extend([
            address("value", FieldKind::Number, |row| row.new)
                .shown_as(move |row: &OftenRow| first(row, row.new)),
            text("text", |row| row.new),
        ]),
    }
    let others = rows.iter().filter(|row| row.is_others).count();
    Sheet::new(fields, rows, rows.len()).with_feet(others).into_owned()
}

/// Hits one by one; `has_values`: what they found is shown.
pub(super) fn history<'a>(
    view: WatchView<'a>,
    has_values: bool,
    rows: impl IntoIterator<Item = &'a HitRecord>,
) -> Sheet<'a> {
    type Row = HitRecord;
    let hits = view.hits;
    let thread_of = move |row: &Row| hits.threads.get(row.thread as usize);
    let bits = |key: &'static str, bits: fn(&Row) -> Option<u64>| {
        Field::address(key, move |row: &Row| bits(row)).for_programs()
    };
    let text = |key: &'static str, bits: fn(&Row) -> Option<u64>| {
        let text = move |row: &Row| Some(value(hits, row.point, bits(row)?));
        Field::text(key, text).for_programs()
    };
    let mut fields = vec![
        Field::count("number", |row: &Row| row.number).for_programs(),
        Field::seconds("time_s", move |row| Some(view.seconds(row)))
            .head("time s")
            .shown_as(move |row| fixed(view.seconds(row), 6).into()),
        Field::id("pid", |row: &Row| Some(row.pid)).for_programs(),
        Field::id("tid", move |row| thread_of(row).map(|of| of.tid)).for_programs(),
        Field::text("command", move |row| thread_of(row).map(|of| &*of.command)).for_programs(),
        Field::text("thread", move |row| Some(thread(thread_of(row))))
            .wanted(16)
            .optional(1)
            .for_people(),
        Field::id("cpu", |row: &Row| row.cpu).for_programs(),
        Field::id("CPU", |row: &Row| row.cpu).for_pages(),
        Field::count("point", |row: &Row| u64::from(row.point)).for_programs(),
        bits("old", |row| row.old),
        bits("new", |row| row.new),
        text("old_text", |row| row.old),
        text("new_text", |row| row.new),
        Field::count("sequence", |row: &Row| Some(row.sequence).filter(|number| *number > 0))
            .for_programs(),
        Field::count("stands_for", |row: &Row| row.stands_for).for_programs(),
    ];
    fields.extend(site_fields(move |row: &Row| view.site(row.site)));
    if has_values {
        let old = move |row: &Row| {
            format!("{}{}", word(hits, row.point), known(hits, row.point, row.old))
        };
        let new = move |row: &Row| format!("→ {}", known(hits, row.point, row.new));
        fields.extend([
            Field::new("old", FieldKind::Number, move |row| Value::Text(old(row).into()))
                .for_people(),
            Field::text("new", move |row| Some(new(row))).rigid().for_people(),
        ]);
    }
    let place = Field::text("place", move |row: &Row| Some(place(view.site(row.site))));
    fields.push(place.head("call site").wanted(NAME).for_people());
    let rows: Vec<&Row> = rows.into_iter().collect();
    let number = rows.len();
    Sheet::new(fields, rows, number)
}

/// Hits and values by blocks of time.
pub(super) fn blocks(hits: &TargetHits) -> Sheet<'_> {
    let values = |key: &'static str, of: fn(&BlockValues) -> f64| {
        Field::number(key, move |row: &Block| row.values.as_ref().map(of))
    };
    let fields = vec![
        Field::seconds("from_s", |row: &Block| Some(row.from_s)),
        Field::seconds("until_s", |row: &Block| Some(row.until_s)),
        Field::number("hits_per_s", |row: &Block| row.hits_per_s),
        Field::part("armed_share", |row: &Block| row.armed),
        Field::count("records", |row: &Block| row.records),
        values("min", |of| of.min),
        values("median", |of| of.median),
        values("max", |of| of.max),
        Field::count("values", |row: &Block| row.values.map(|of| of.n)),
    ];
    Sheet::new(fields, &hits.blocks, hits.blocks.len())
}

/// What is known of a cache line.
pub(super) fn line(line: &CacheLine) -> Sheet<'_> {
    let fields = vec![
        Field::address("address", |row: &CacheLine| Some(row.address)),
        Field::count("bytes", |row: &CacheLine| u64::from(row.bytes)),
        Field::id("pid", |row: &CacheLine| row.pid),
        Field::text("verdict", |row: &CacheLine| Some(verdict_word(row.verdict))),
        Field::flag("estimate", |row: &CacheLine| row.is_estimate),
        Field::flag("writes_only", |row: &CacheLine| row.writes_only),
        Field::count("hits", |row: &CacheLine| row.hits),
        Field::part("foreign_share", |row: &CacheLine| Some(row.foreign_share)),
        Field::count("records", |row: &CacheLine| row.records),
        Field::count("handovers", |row: &CacheLine| row.handovers),
        Field::count("other_processes", |row: &CacheLine| u64::from(row.other_processes)),
    ];
    Sheet::new(fields, [line], 1)
}

/// Words of a cache line by threads.
pub(super) fn words<'a>(view: WatchView<'a>, line: &'a CacheLine) -> Sheet<'a> {
    let columns = view.limits.threads.min(line.threads.len());
    let most = line.words.iter().flat_map(|word| &word.hits).map(|hits| hits.1).fold(1.0, f64::max);
    let column = |head: String, from: usize, until: usize| {
        let sum = move |row: &Word| {
            let cells = &row.hits[from.min(row.hits.len())..until.min(row.hits.len())];
            cells.iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        let shown = move |row: &Word| match (sum(row), line.is_estimate) {
            ((0, _), _) => "".into(),
            ((_, estimated), true) => format!("~{}", significant(estimated, 3)).into(),
            ((hits, _), false) => count(hits).into(),
        };
        Field::number(format!("thread {from}"), move |row: &Word| Some(sum(row).1))
            .head(head)
            .optional((2 + from).try_into().unwrap_or(u8::MAX))
            .shown_as(shown)
            .shaded(move |row: &Word| if sum(row).0 == 0 { 0.0 } else { sum(row).1 / most })
            .for_people()
    };
    let bytes = |row: &Word| format!("+{}–{}", row.offset, row.offset + u32::from(row.bytes) - 1);
    let mut fields = vec![
        Field::new("range", FieldKind::Number, move |row| Value::Text(bytes(row).into()))
            .head("bytes")
            .for_people(),
        Field::count("point", |row: &Word| u64::from(row.point)).for_programs(),
        Field::count("offset", |row: &Word| u64::from(row.offset)).for_programs(),
        Field::count("bytes", |row: &Word| u64::from(row.bytes)).for_programs(),
    ];
    fields.extend(line.threads[..columns].iter().enumerate().map(|(at, &(pid, tid))| {
        let is_it = |one: &Thread| (one.pid, one.tid) == (pid as i32, tid as i32);
        let found = view.hits.threads.iter().position(is_it);
        column(found.map_or("-".into(), |found| thread_head(view.hits, found as u32)), at, at + 1)
    }));
    let others = line.threads.len() - columns;
    if others > 0 {
        fields.push(column(format!("{} others", count(others as u64)), columns, usize::MAX));
    }
    fields.push(Field::json("by_thread", |row: &Word| {
        let hits = line.threads.iter().zip(&row.hits).filter(|(_, hits)| hits.0 > 0);
        hits.map(|((pid, tid), (hits, all_the_time))| {
            json!({"pid": pid, "tid": tid, "hits": hits, "all_the_time": all_the_time})
        })
        .collect()
    }));
    Sheet::new(fields, &line.words, line.words.len())
}
