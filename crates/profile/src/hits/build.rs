//! What was seen, and what the kernel counted, to the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmuscope_perfdata::reader::Reader;
use pmuscope_perfdata::watch::WatchInfo;
use pmuscope_stats::share_over_time;
use pmuscope_symbols::{KernelIdentity, Request, Symbol, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::estimate::{armed, is_always, least_hits, too_much_in_hits, true_hits};
use super::matrix::{Counts, Matrix, MatrixCells, Site};
use super::over_time::{ArmedPart, Sum};
use super::pass::{Pass, TargetStats, address_of, traps_behind};
use super::sharing::{ByThread, lines};
use super::steps::steps;
use super::{HitShare, Hits, Options, Rate, TargetHits, ValueRead};
use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::names::naming::Names;
use crate::timeline::modules::ModuleKind;

pub(super) fn build(
    mut pass: Pass,
    reader: &Reader,
    info: WatchInfo,
    options: &Options,
    running: &KernelIdentity,
    names: &mut dyn Names,
) -> Hits {
    let writers = Writers::new(&mut pass, reader, &info);
    let metadata = reader.metadata().clone();
    for (pid, path) in pass.present.jit_dumps() {
        names.jit_dump(*pid, path);
    }
    let resolve = &mut |requests: &[Request<'_>]| names.resolve(requests);
    let spots = pass.spots.list.iter().copied();
    let symbols = pass.present.symbols(spots, &metadata, running, resolve);
    let (sites, of_spot) = sites(&pass.present, &pass.spots.list, &symbols);
    let by_thread = writers.as_ref().map_or(&pass.by_thread, |writers| &writers.by_thread);
    let lines = lines(&info, by_thread, &pass.handovers);
    let span = pass.over_time.span();
    let seconds = seconds(&info, metadata.info.as_ref().map(|info| info.duration_s), span);
    let started = metadata.info.as_ref().map(|info| info.started_clock_ns).filter(|at| *at > 0);
    let is_complete = metadata.info.as_ref().is_some_and(|info| info.complete);
    let shared = BuildContext { info: &info, of_spot: &of_spot, seconds, is_complete, options };
    let seen = std::mem::take(&mut pass.targets);
    let targets = seen.into_iter().enumerate().map(|(at, stats)| {
        let writers = writers.as_ref().map(|writers| &writers.targets[at]);
        shared.target(at, stats, writers, &pass)
    });
    let targets = targets.collect();
    let transfers = std::mem::take(&mut pass.transfers);
    let site = |spot: u32| of_spot.get(spot as usize).copied().unwrap_or(spot);
    let transfers = transfers.finish(site);
    let took_turns = info.blocks.iter().any(|block| !block.points.is_empty());
    Hits {
        targets,
        sites,
        lines,
        transfers,
        value_read: pass.read,
        // A command that waited goes on before the recording says that it has begun.
        start_ns: started.into_iter().chain(span.map(|span| span.0)).min().unwrap_or(0),
        seconds,
        armed: info.armed_share(),
        took_turns,
        in_hits: too_much_in_hits(&info),
        records: pass.records,
        has_chains: pass.has_chains,
        points_to: BTreeMap::new(),
        state: reader.state(),
        tally: reader.tally().clone(),
        threads: pass.threads,
        pointers: pass.pointers,
        present: pass.present,
        metadata,
        info,
    }
}

/// Seconds that were watched: by the stretches that tell it, by the recorder, by the records.
fn seconds(info: &WatchInfo, told: Option<f64>, span: Option<(u64, u64)>) -> f64 {
    let told = told.filter(|seconds| *seconds > 0.0);
    let by_blocks = info.span().map(|(first, last)| (last - first) as f64 / 1e9);
    let by_blocks = by_blocks.filter(|seconds| *seconds > 0.0);
    by_blocks.or(told).or(span.map(|span| span.1 as f64 / 1e9)).unwrap_or(0.0)
}

/// What the kernel counted of a target.
#[derive(Debug, Clone, Default)]
struct KernelCounts {
    cells: MatrixCells,
    total: Counts,
    /// Hits of a process's first kind: they have no value before.
    without_before: u64,
}

/// The kernel's table of writers.
struct Writers {
    targets: Vec<KernelCounts>,
    by_thread: ByThread,
}

impl Writers {
    /// `None` where the recording has none.
    fn new(pass: &mut Pass, reader: &Reader, info: &WatchInfo) -> Option<Self> {
        let is_there = !info.writers.is_empty()
            || info.unattributed.iter().any(|unattributed| *unattributed > 0);
        // Nothing was hit, which is an answer as well.
        let is_closed = reader.metadata().info.as_ref().is_some_and(|info| info.complete);
        let by_kernel = info.means == pmuscope_perfdata::watch::Means::Bpf;
        if !(is_there || is_closed && by_kernel && pass.records == 0) {
            return None;
        }
        let traps_behind = traps_behind(reader.metadata());
        let mut targets = vec![KernelCounts::default(); info.targets.len()];
        let mut by_thread = ByThread::new();
        let mut first = FxHashSet::default();
        for writer in &info.writers {
            let Some(point) = info.points.get(writer.point as usize) else { continue };
            let Some(target) = targets.get_mut(point.target as usize) else { continue };
            let address = address_of(info, writer, traps_behind);
            let nowhere = ModuleOffset { module: 0, address: 0 };
            let spot = pass.writers.get(&address).copied();
            let spot = spot.unwrap_or_else(|| pass.spots.number(nowhere));
            let (pid, tid) = (writer.pid as i32, writer.tid as i32);
            let thread = pass.thread(pid, tid);
            let counts = Counts {
                hits: writer.hits,
                changed: writer.changed,
                plus_one: writer.plus_one,
                passed: writer.passed,
            };
            target.cells.entry((spot, thread)).or_default().add(&counts);
            target.total.add(&counts);
            let key = (writer.point, writer.pid, writer.tid);
            let sum = by_thread.entry(key).or_default();
            *sum = sum.saturating_add(writer.hits);
            let is_first = first.insert((writer.point, pid));
            if is_first && !pass.known_before.contains(&(writer.point, pid)) {
                target.without_before += 1;
            }
        }
        Some(Self { targets, by_thread })
    }
}

/// Functions and lines of spots, and the number of each spot's.
fn sites(
    present: &AddressSpaces,
    spots: &[ModuleOffset],
    symbols: &FxHashMap<ModuleOffset, Symbol>,
) -> (Vec<Site>, Vec<u32>) {
    let site = |spot: &ModuleOffset| {
        let module = present.module(spot.module);
        let path = String::from_utf8_lossy(module.path).as_ref().into();
        Site::new(symbols.get(spot), path, spot.address)
    };
    Site::numbered(&spots.iter().map(site).collect::<Vec<_>>())
}

struct BuildContext<'a> {
    info: &'a WatchInfo,
    of_spot: &'a [u32],
    seconds: f64,
    is_complete: bool,
    options: &'a Options,
}

impl BuildContext<'_> {
    fn target(
        &self,
        at: usize,
        stats: TargetStats,
        writers: Option<&KernelCounts>,
        pass: &Pass,
    ) -> TargetHits {
        let info = self.info;
        let points = info.points.iter().zip(0_u32..);
        let points: Vec<u32> = points
            .filter(|(point, _)| point.target as usize == at)
            .map(|(_, number)| number)
            .collect();
        let sum = |list: &[u64]| {
            let of = points.iter().filter_map(|&point| list.get(point as usize));
            of.fold(0, |sum: u64, count| sum.saturating_add(*count))
        };
        let unattributed = sum(&info.unattributed);
        let lost = (!info.lost.is_empty()).then(|| sum(&info.lost));
        // Without a table of writers the kernel may still have counted the points; what was not closed has
        // counts of some moment before.
        let by_blocks = info.blocks.iter().map(|block| sum(&block.hits));
        let by_blocks = by_blocks.reduce(u64::saturating_add).filter(|_| self.is_complete);
        let hits = match (writers, by_blocks) {
            (Some(writers), _) => writers.total.hits.saturating_add(unattributed),
            (None, Some(counted)) => counted.max(stats.written),
            (None, None) => stats.written.saturating_add(lost.unwrap_or(0)),
        };
        let estimate = true_hits(info, &points).filter(|_| self.is_complete);
        let whole = hits == stats.written && lost.unwrap_or(0) == 0;
        let parts: Vec<ArmedPart> =
            info.blocks.iter().filter_map(|block| ArmedPart::of(block, &points)).collect();
        let sums = pass.over_time.sums(at);
        // A hit that is missing for any reason makes the records a sample.
        let is_all = writers.is_some() && is_always(info, &points);
        let share = |of: fn(&Counts) -> u64, sum: fn(&Sum) -> u64| match writers {
            Some(writers) => {
                let known = writers.total.hits.saturating_sub(writers.without_before);
                let part = of(&writers.total).min(known);
                let interval = if is_all { None } else { interval(sums, sum) };
                (known > 0).then_some(HitShare { part, of: known, interval, exact: true })
            }
            None => {
                let all = |of: fn(&Sum) -> u64| sums.iter().map(of).sum::<u64>();
                let (part, of) = (all(sum), all(|sum| sum.pairs));
                let interval = interval(sums, sum);
                (of > 0).then_some(HitShare { part, of, interval, exact: false })
            }
        };
        let (cells, unattributed) = match writers {
            Some(writers) => (&writers.cells, unattributed),
            None => (&stats.cells, hits - stats.written + stats.unattributed),
        };
        let mut by_site = MatrixCells::default();
        for (&(spot, thread), counts) in cells {
            by_site.entry((self.of_spot[spot as usize], thread)).or_default().add(counts);
        }
        let mut history = stats.keeper.finish();
        history.iter_mut().for_each(|one| one.site = self.of_spot[one.site as usize]);
        let total = |of: fn(&Sum) -> u64| sums.iter().map(of).sum::<u64>();
        let (pairs, plus_one) = (total(|sum| sum.pairs), total(|sum| sum.plus_one));
        // Without a hit that was not written down: that one may not have added 1.
        let is_known = whole && estimate.is_none() && !is_always(info, &points);
        let known = info.targets.get(at).filter(|_| is_known && pass.read == ValueRead::After);
        let steps = known.and_then(|target| steps(target, &history, pairs, plus_one, hits));
        TargetHits {
            hits,
            exact: writers.is_some() || by_blocks.is_some(),
            has_writers: writers.is_some(),
            records: stats.records,
            successions: stats.successions,
            written: stats.written,
            passed: writers.filter(|_| info.when.is_some()).map(|writers| match &info.passed[..] {
                [] => writers.total.passed,
                passed => sum(passed),
            }),
            lost,
            rate: self.rate(
                hits,
                estimate.as_ref(),
                (armed(info, &points) > 0.0 || points.len() > 1)
                    && too_much_in_hits(info).is_none(),
            ),
            estimate,
            at_least: least_hits(info, &points).filter(|_| self.is_complete),
            steps,
            changed: share(|counts| counts.changed, |sum| sum.changed),
            plus_one: share(|counts| counts.plus_one, |sum| sum.plus_one),
            matrix: Matrix::new(by_site, unattributed),
            history,
            values: stats.values.finish(self.options.values),
            transitions: stats.transitions.finish(self.options.values),
            blocks: pass.over_time.blocks(at, &parts, !whole && !parts.is_empty()),
            points,
        }
    }

    fn rate(
        &self,
        hits: u64,
        estimate: Option<&pmuscope_stats::Estimate>,
        was_armed: bool,
    ) -> Option<Rate> {
        let seconds = Some(self.seconds).filter(|seconds| *seconds > 0.0 && was_armed)?;
        Some(match estimate {
            Some(total) => Rate {
                value: total.value / seconds,
                interval: total.interval.map(|interval| interval.map(|hits| hits / seconds)),
                n: total.n,
            },
            None => Rate { value: hits as f64 / seconds, interval: None, n: 0 },
        })
    }
}

/// Of a share of the hits with a value before, over blocks of time.
fn interval(sums: &[Sum], part: fn(&Sum) -> u64) -> Option<pmuscope_stats::Interval> {
    let blocks: Vec<(f64, f64)> =
        sums.iter().map(|sum| (part(sum) as f64, sum.pairs as f64)).collect();
    share_over_time(&blocks)
}

/// What lies at addresses that pointers held, of all that can be shown.
pub(super) fn pointers(hits: &Hits, symbolizer: &Symbolizer) -> BTreeMap<u64, Arc<str>> {
    let mut held: BTreeSet<u64> = BTreeSet::new();
    for target in &hits.targets {
        let history = target.history.iter().flat_map(|one| [one.old, one.new]).flatten();
        held.extend(history);
        held.extend(target.values.rows.iter().map(|row| row.0.1));
        held.extend(target.transitions.rows.iter().flat_map(|row| [row.0.1, row.0.2]));
    }
    let find = |value: &u64| {
        let spot = hits.pointers.get(value)?;
        let kind = hits.present.module(spot.module).kind;
        let has_names = !matches!(kind, ModuleKind::Jit { .. }) && spot.address != 0;
        has_names.then_some((*spot, *value))
    };
    let spots: Vec<(ModuleOffset, u64)> = held.iter().filter_map(find).collect();
    let places = spots.iter().map(|one| one.0);
    let running = symbolizer.running_kernel();
    let names = hits.present.objects(places, &hits.metadata, &running, |module, addresses| {
        symbolizer.objects(module, addresses)
    });
    let named = |(spot, value)| Some((value, Arc::clone(names.get(&spot)?)));
    spots.into_iter().filter_map(named).collect()
}
