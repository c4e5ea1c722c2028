//! The same for programs: the result of `pmuscope/watch/1`.

use pmuscope_perfdata::watch::{Access, ValueKind, WatchPoint, WatchTarget};
use pmuscope_profile::hits::{
    Block, CacheLine, Counts, Frequent, HitRecord, HitShare, Matrix, MatrixRow, Site, TargetHits,
    Thread, ValueRead,
};
use pmuscope_stats::Interval;
use serde::Serialize;

use super::WatchView;
use super::words::{value, verdict_word};

/// The schema of [`WatchReport`] in its envelope.
pub(super) const WATCH_SCHEMA: &str = "pmuscope/watch/1";

/// Hits of a recording.
#[derive(Debug, Serialize)]
pub(super) struct WatchReport<'a> {
    file: Option<&'a str>,
    watch: WatchOut<'a>,
    targets: Vec<TargetOut<'a>>,
    cache_lines: Vec<LineOut>,
    notes: Vec<NoteOut>,
}

#[derive(Debug, Serialize)]
struct WatchOut<'a> {
    scope: Option<&'a str>,
    command: &'a [String],
    seconds: f64,
    emulated_by: Option<&'a str>,
    values_read: Option<&'static str>,
    counted_by: &'static str,
    every: u64,
    when: Option<&'a str>,
    when_changed: bool,
    count_only: bool,
    armed_share: Option<f64>,
    took_turns: bool,
    in_hits: Option<f64>,
    most_slowdown: Option<f64>,
    slowdown: Option<f64>,
    hit_cost_ns: Option<f64>,
    hit_cost_margin_ns: Option<f64>,
    hit_cost_n: Option<u32>,
    records: u64,
    call_chains: bool,
}

#[derive(Debug, Serialize)]
struct NoteOut {
    level: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct TargetOut<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    kind: ValueKind,
    address: String,
    bytes: u64,
    access: Access,
    in_kernel: bool,
    file: Option<&'a str>,
    line: Option<u32>,
    notes: &'a [String],
    points: Vec<PointOut>,
    hits: u64,
    exact: bool,
    records: u64,
    written: u64,
    passed: Option<u64>,
    lost: Option<u64>,
    all_the_time: Option<EstimateOut>,
    at_least: Option<EstimateOut>,
    by_steps: Option<u64>,
    per_s: Option<EstimateOut>,
    changed: Option<ShareOut>,
    plus_one: Option<ShareOut>,
    threads: Vec<ThreadOut<'a>>,
    places: Vec<PlaceOut<'a>>,
    places_left_out: usize,
    untold: u64,
    values: ValuesOut,
    changes: ChangesOut,
    history: HistoryOut<'a>,
    blocks: Vec<BlockOut>,
}

#[derive(Debug, Serialize)]
struct PointOut {
    address: String,
    bytes: u8,
}

#[derive(Debug, Serialize)]
struct EstimateOut {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
}

impl EstimateOut {
    fn new(value: f64, interval: Option<Interval>, n: usize) -> Self {
        Self { value, low: interval.map(|of| of.low), high: interval.map(|of| of.high), n }
    }
}

#[derive(Debug, Serialize)]
struct ShareOut {
    share: Option<f64>,
    part: u64,
    of: u64,
    low: Option<f64>,
    high: Option<f64>,
    exact: bool,
}

impl From<HitShare> for ShareOut {
    fn from(share: HitShare) -> Self {
        Self {
            share: share.value(),
            part: share.part,
            of: share.of,
            low: share.interval.map(|of| of.low),
            high: share.interval.map(|of| of.high),
            exact: share.exact,
        }
    }
}

#[derive(Debug, Serialize)]
struct CountsOut {
    hits: u64,
    changed: u64,
    plus_one: u64,
    passed: u64,
}

impl From<Counts> for CountsOut {
    fn from(counts: Counts) -> Self {
        let Counts { hits, changed, plus_one, passed } = counts;
        Self { hits, changed, plus_one, passed }
    }
}

#[derive(Debug, Serialize)]
struct ThreadOut<'a> {
    pid: i32,
    tid: i32,
    command: &'a str,
    #[serde(flatten)]
    counts: CountsOut,
}

#[derive(Debug, Serialize)]
struct SiteOut<'a> {
    function: Option<&'a str>,
    inlined_into: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    module: Option<&'a str>,
    address: Option<String>,
}

impl<'a> SiteOut<'a> {
    fn new(site: Option<&'a Site>) -> Self {
        let line = site.and_then(|site| site.line.as_ref());
        Self {
            function: site.and_then(|site| site.function.as_deref()),
            inlined_into: site.and_then(|site| site.inlined_into.as_deref()),
            file: line.map(|line| &*line.file),
            line: line.and_then(|line| line.number),
            module: site.map(|site| &*site.module),
            address: site.and_then(|site| site.address).map(hex),
        }
    }
}

#[derive(Debug, Serialize)]
struct PlaceOut<'a> {
    #[serde(flatten)]
    site: SiteOut<'a>,
    #[serde(flatten)]
    counts: CountsOut,
    by_thread: Vec<CellOut>,
}

#[derive(Debug, Serialize)]
struct CellOut {
    pid: i32,
    tid: i32,
    hits: u64,
    changed: u64,
}

#[derive(Debug, Serialize)]
struct ValuesOut {
    hits: u64,
    distinct: Option<u64>,
    short_by: u64,
    others: u64,
    rows: Vec<ValueOut>,
}

#[derive(Debug, Serialize)]
struct ValueOut {
    point: u32,
    value: String,
    text: String,
    hits: u64,
}

#[derive(Debug, Serialize)]
struct ChangesOut {
    hits: u64,
    distinct: Option<u64>,
    short_by: u64,
    others: u64,
    rows: Vec<ChangeOut>,
}

#[derive(Debug, Serialize)]
struct ChangeOut {
    point: u32,
    old: String,
    new: String,
    old_text: String,
    new_text: String,
    hits: u64,
}

#[derive(Debug, Serialize)]
struct HistoryOut<'a> {
    first: Vec<HitOut<'a>>,
    between: Vec<HitOut<'a>>,
    last: Vec<HitOut<'a>>,
    left_out: u64,
}

#[derive(Debug, Serialize)]
struct HitOut<'a> {
    number: u64,
    time_s: f64,
    pid: i32,
    tid: Option<i32>,
    command: Option<&'a str>,
    cpu: Option<u32>,
    point: u32,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    old: Option<String>,
    new: Option<String>,
    old_text: Option<String>,
    new_text: Option<String>,
    sequence: Option<u64>,
    stands_for: u64,
}

#[derive(Debug, Serialize)]
struct BlockOut {
    from_s: f64,
    until_s: f64,
    hits_per_s: Option<f64>,
    armed_share: Option<f64>,
    records: u64,
    min: Option<f64>,
    median: Option<f64>,
    max: Option<f64>,
    values: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LineOut {
    address: String,
    bytes: u32,
    pid: Option<u32>,
    verdict: &'static str,
    estimate: bool,
    writes_only: bool,
    hits: u64,
    foreign_share: f64,
    records: u64,
    handovers: u64,
    other_processes: u32,
    words: Vec<WordOut>,
}

#[derive(Debug, Serialize)]
struct WordOut {
    point: u32,
    offset: u32,
    bytes: u8,
    by_thread: Vec<WordHits>,
}

#[derive(Debug, Serialize)]
struct WordHits {
    pid: u32,
    tid: u32,
    hits: u64,
    all_the_time: f64,
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}

impl<'a> WatchReport<'a> {
    /// What is shown.
    #[must_use]
    pub(super) fn new(view: &'a WatchView<'a>) -> Self {
        let targets = view.targets().map(|(target, hits)| TargetOut::new(view, target, hits));
        let notes = view.notes().into_iter().map(|note| NoteOut {
            level: if note.warning { "warning" } else { "note" },
            text: note.text,
        });
        Self {
            file: view.file,
            watch: WatchOut::new(view),
            targets: targets.collect(),
            cache_lines: view.hits.lines.iter().map(LineOut::new).collect(),
            notes: notes.collect(),
        }
    }
}

impl<'a> WatchOut<'a> {
    fn new(view: &WatchView<'a>) -> Self {
        let (hits, info) = (view.hits, &view.hits.info);
        let about = view.recording();
        let exact = hits.targets.iter().all(|target| target.exact);
        Self {
            scope: about.map(|about| &about.scope[..]).filter(|scope| !scope.is_empty()),
            command: about.map_or(&[], |about| &about.command),
            seconds: hits.seconds,
            emulated_by: about.and_then(|about| about.machine.emulator.as_deref()),
            values_read: match hits.value_read {
                ValueRead::After => Some("after"),
                ValueRead::Before => Some("before"),
                ValueRead::Never => None,
            },
            counted_by: if exact { "kernel" } else { "records" },
            every: info.every.max(1),
            when: info.when.as_deref(),
            when_changed: info.when_changed,
            count_only: info.count_only,
            armed_share: hits.armed,
            took_turns: hits.took_turns,
            in_hits: hits.in_hits,
            most_slowdown: info.most_slowdown,
            slowdown: info.slowdown,
            hit_cost_ns: info.hit_cost.map(|cost| cost.ns),
            hit_cost_margin_ns: info.hit_cost.and_then(|cost| cost.margin_ns),
            hit_cost_n: info.hit_cost.map(|cost| cost.n),
            records: hits.records,
            call_chains: hits.has_chains,
        }
    }
}

impl<'a> TargetOut<'a> {
    fn new(view: &WatchView<'a>, target: &'a WatchTarget, hits: &'a TargetHits) -> Self {
        let point = |at: &u32| view.hits.info.points.get(*at as usize);
        let points = hits.points.iter().filter_map(point);
        let point =
            |point: &WatchPoint| PointOut { address: hex(point.address), bytes: point.bytes };
        let (threads, places) = matrix(view, &hits.matrix);
        Self {
            name: &target.name,
            type_name: Some(&target.type_name[..]).filter(|name| !name.is_empty()),
            kind: target.value,
            address: hex(target.address),
            bytes: target.bytes,
            access: target.access,
            in_kernel: target.in_kernel,
            file: target.declared.as_ref().map(|at| &at.0[..]),
            line: target.declared.as_ref().map(|at| at.1),
            notes: &target.notes,
            points: points.map(point).collect(),
            hits: hits.hits,
            exact: hits.exact,
            records: hits.records,
            written: hits.written,
            passed: hits.passed,
            lost: hits.lost,
            all_the_time: hits.estimate.map(|of| EstimateOut::new(of.value, of.interval, of.n)),
            at_least: hits.at_least.map(|of| EstimateOut::new(of.value, of.interval, of.n)),
            by_steps: hits.steps,
            per_s: hits.rate.map(|of| EstimateOut::new(of.value, of.interval, of.n)),
            changed: hits.changed.map(ShareOut::from),
            plus_one: hits.plus_one.map(ShareOut::from),
            threads,
            places_left_out: hits.matrix.rows.len() - places.len(),
            places,
            untold: hits.matrix.untold,
            values: values(view, &hits.values),
            changes: changes(view, &hits.transitions),
            history: HistoryOut::new(view, hits),
            blocks: hits.blocks.iter().map(block).collect(),
        }
    }
}

fn matrix<'a>(view: &WatchView<'a>, matrix: &Matrix) -> (Vec<ThreadOut<'a>>, Vec<PlaceOut<'a>>) {
    let of = |at: u32| view.hits.threads.get(at as usize);
    let thread = |&(at, counts): &(u32, Counts)| {
        let Thread { pid, tid, command } = of(at)?;
        Some(ThreadOut { pid: *pid, tid: *tid, command, counts: counts.into() })
    };
    let cell = |&(at, counts): &(u32, Counts)| {
        let thread = of(at)?;
        let Counts { hits, changed, .. } = counts;
        Some(CellOut { pid: thread.pid, tid: thread.tid, hits, changed })
    };
    let place = |row: &MatrixRow| PlaceOut {
        site: SiteOut::new(view.site(row.site)),
        counts: row.total.into(),
        by_thread: row.cells.iter().filter_map(cell).collect(),
    };
    let threads = matrix.threads.iter().filter_map(thread).collect();
    (threads, matrix.rows.iter().take(view.limits.rows).map(place).collect())
}

fn values(view: &WatchView<'_>, of: &Frequent<(u32, u64)>) -> ValuesOut {
    let row = |&((point, bits), hits): &((u32, u64), u64)| ValueOut {
        point,
        value: hex(bits),
        text: value(view.hits, point, bits),
        hits,
    };
    ValuesOut {
        hits: of.total,
        distinct: of.distinct,
        short_by: of.short_by,
        others: of.others(),
        rows: of.rows.iter().map(row).collect(),
    }
}

fn changes(view: &WatchView<'_>, of: &Frequent<(u32, u64, u64)>) -> ChangesOut {
    let row = |&((point, old, new), hits): &((u32, u64, u64), u64)| ChangeOut {
        point,
        old: hex(old),
        new: hex(new),
        old_text: value(view.hits, point, old),
        new_text: value(view.hits, point, new),
        hits,
    };
    ChangesOut {
        hits: of.total,
        distinct: of.distinct,
        short_by: of.short_by,
        others: of.others(),
        rows: of.rows.iter().map(row).collect(),
    }
}

impl<'a> HistoryOut<'a> {
    fn new(view: &WatchView<'a>, hits: &'a TargetHits) -> Self {
        let history = &hits.history;
        let all = |hits: &'a [HitRecord]| hits.iter().map(|hit| HitOut::new(view, hit)).collect();
        Self {
            first: all(&history.first),
            between: all(&history.between),
            last: all(&history.last),
            left_out: history.left_out,
        }
    }
}

impl<'a> HitOut<'a> {
    fn new(view: &WatchView<'a>, hit: &HitRecord) -> Self {
        let site = SiteOut::new(view.site(hit.site));
        let thread = view.hits.threads.get(hit.thread as usize);
        let shown = |bits: Option<u64>| bits.map(|bits| value(view.hits, hit.point, bits));
        Self {
            number: hit.number,
            time_s: view.seconds(hit),
            pid: hit.pid,
            tid: thread.map(|thread| thread.tid),
            command: thread.map(|thread| &*thread.command),
            cpu: hit.cpu,
            point: hit.point,
            function: site.function,
            file: site.file,
            line: site.line,
            old: hit.old.map(hex),
            new: hit.new.map(hex),
            old_text: shown(hit.old),
            new_text: shown(hit.new),
            sequence: Some(hit.sequence).filter(|sequence| *sequence > 0),
            stands_for: hit.stands_for,
        }
    }
}

fn block(block: &Block) -> BlockOut {
    let values = block.values.as_ref();
    BlockOut {
        from_s: block.from_s,
        until_s: block.until_s,
        hits_per_s: block.hits_per_s,
        armed_share: block.armed,
        records: block.records,
        min: values.map(|values| values.min),
        median: values.map(|values| values.median),
        max: values.map(|values| values.max),
        values: values.map(|values| values.n),
    }
}

impl LineOut {
    fn new(line: &CacheLine) -> Self {
        let words = line.words.iter().map(|word| {
            let hits = line.threads.iter().zip(&word.hits).filter(|(_, hits)| hits.0 > 0);
            let hits = hits.map(|(&(pid, tid), &(hits, all_the_time))| WordHits {
                pid,
                tid,
                hits,
                all_the_time,
            });
            WordOut {
                point: word.point,
                offset: word.offset,
                bytes: word.bytes,
                by_thread: hits.collect(),
            }
        });
        Self {
            address: hex(line.address),
            bytes: line.bytes,
            pid: line.pid,
            verdict: verdict_word(line.verdict),
            estimate: line.is_estimate,
            writes_only: line.writes_only,
            hits: line.hits,
            foreign_share: line.foreign_share,
            records: line.records,
            handovers: line.handovers,
            other_processes: line.other_processes,
            words: words.collect(),
        }
    }
}
