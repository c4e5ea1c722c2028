//! How often something would have been hit, had all points been armed all the time.

use pmuscope_perfdata::watch::{ArmedBlock, WatchInfo};
use pmuscope_stats::{Estimate, Interval, Stratum, stratified_total};

/// Where hits take more of the time than this while points are armed, what is left is known too badly to
/// tell how often the target would have been there without them.
const MOST_IN_HITS: f64 = 0.5;
/// The same where the target's CPU time is not known block by block: hits do not count then.
const MOST_IN_HITS_BY_CLOCK: f64 = 0.1;
/// A block's hits cannot have cost more than its time but for this.
const LEAST_OWN: f64 = 0.1;

/// Share of the target's CPU time that its hits took while points were armed, 0 to 1 and more where a hit
/// cost less than was measured; `None` where nothing tells.
pub(super) fn in_hits(info: &WatchInfo) -> Option<f64> {
    let hits: u64 = info.blocks.iter().flat_map(|block| &block.hits).sum();
    let by_block: Option<u64> = info.blocks.iter().map(|block| block.armed_cpu_ns).sum();
    let cpu = match by_block {
        Some(cpu) => cpu as f64,
        None => info.target_cpu_ns? as f64 * info.armed_share()?,
    };
    (cpu > 0.0).then_some(hits as f64 * info.hit_cost?.ns / cpu)
}

/// The same, where it is too much for an estimate of what was missed.
pub(super) fn too_much_in_hits(info: &WatchInfo) -> Option<f64> {
    let points: Vec<u32> = (0..info.points.len() as u32).collect();
    let by_cpu = OwnTime::by_cpu(info);
    let most = if by_cpu.is_some() { MOST_IN_HITS } else { MOST_IN_HITS_BY_CLOCK };
    in_hits(info).filter(|share| *share > most && !is_always(info, &points))
}

/// What hits go with. Of a target that waits for something (a timer, a request) they go with the clock,
/// however long a hit takes; of one that computes, with its own CPU time, as it does not get on while a hit
/// is dealt with. Which it is nobody tells, so both are asked.
#[derive(Debug, Clone, Copy)]
struct OwnTime<'a> {
    info: &'a WatchInfo,
    by_cpu: bool,
    /// Time in hits counts too.
    with_hits: bool,
}

impl<'a> OwnTime<'a> {
    fn by_clock(info: &'a WatchInfo) -> Self {
        Self { info, by_cpu: false, with_hits: false }
    }

    /// `None` where the CPU time is not known block by block.
    fn by_cpu(info: &'a WatchInfo) -> Option<Self> {
        let known = |block: &ArmedBlock| block.cpu_ns.is_some() && block.armed_cpu_ns.is_some();
        let is_known = info.hit_cost.is_some() && info.blocks.iter().all(known);
        is_known.then_some(Self { info, by_cpu: true, with_hits: false })
    }

    /// CPU time with what hits took of it: without hits the target does at least as much in that time.
    /// `None` where it is not known block by block.
    fn with_hits(info: &'a WatchInfo) -> Option<Self> {
        Self::by_cpu(info).map(|time| Self { with_hits: true, ..time })
    }

    /// Nanoseconds that hits of a block took, where they do not count.
    fn in_hits(self, block: &ArmedBlock) -> f64 {
        if self.with_hits {
            return 0.0;
        }
        let hits: u64 = block.hits.iter().sum();
        hits as f64 * self.info.hit_cost.map_or(0.0, |cost| cost.ns)
    }

    /// While points were armed.
    fn armed(self, block: &ArmedBlock) -> f64 {
        match block.armed_cpu_ns.filter(|_| self.by_cpu) {
            Some(cpu) => (cpu as f64 - self.in_hits(block)).max(cpu as f64 * LEAST_OWN),
            None => block.armed_ns as f64,
        }
    }

    /// Of all blocks together, less what `own` of them had while armed; and the same by the clock.
    fn besides(self, own: &[&ArmedBlock], span_ns: f64) -> (f64, f64) {
        let armed: u64 = own.iter().map(|block| block.armed_ns).sum();
        let clock = (span_ns - armed as f64).max(0.0);
        if !self.by_cpu {
            return (clock, clock);
        }
        let all = |block: &ArmedBlock| block.cpu_ns.unwrap_or(0) as f64 - self.in_hits(block);
        let all: f64 = self.info.blocks.iter().map(all).sum();
        let armed: f64 = own.iter().map(|block| self.armed(block)).sum();
        ((all - armed).max(0.0), clock)
    }
}

/// Whether a point had its turn.
pub(crate) fn had_turn(block: &ArmedBlock, point: u32) -> bool {
    block.points.is_empty() || block.points.contains(&point)
}

/// Share of the time that all of `points` were armed together, were they armed at all: 1 where nothing
/// tells of times that they were not.
pub(crate) fn armed(info: &WatchInfo, points: &[u32]) -> f64 {
    let Some((first, last)) = info.span().filter(|span| span.1 > span.0) else { return 1.0 };
    let all = |block: &&ArmedBlock| points.iter().all(|&point| had_turn(block, point));
    let armed: f64 = info.blocks.iter().filter(all).map(|block| block.armed_ns as f64).sum();
    (armed / (last - first) as f64).min(1.0)
}

/// Whether points were armed all the time, so that counts are no estimates. A pause of a thousandth of the time
/// counts as well: without traps a program that writes in a loop makes most of its writes in it.
pub(crate) fn is_always(info: &WatchInfo, points: &[u32]) -> bool {
    armed(info, points) >= 1.0
}

/// Hits of points together; `None` where they were armed all the time, or one of them never.
pub(super) fn true_hits(info: &WatchInfo, points: &[u32]) -> Option<Estimate> {
    if is_always(info, points) || too_much_in_hits(info).is_some() {
        return None;
    }
    let by_clock = total(OwnTime::by_clock(info), points)?;
    Some(match OwnTime::by_cpu(info).and_then(|time| total(time, points)) {
        Some(by_cpu) => between(by_clock, by_cpu),
        None => by_clock,
    })
}

/// Hits of points that there would have been at least, where hits took too much of the time to estimate them
/// ([`too_much_in_hits`]): the rate per CPU time while armed, hits included, over all of the CPU time. A target
/// without hits does more in that time. `None` where the CPU time is not known block by block.
pub(super) fn least_hits(info: &WatchInfo, points: &[u32]) -> Option<Estimate> {
    too_much_in_hits(info)?;
    total(OwnTime::with_hits(info)?, points)
}

/// Hits of points over all of the time; `None` where one of them was never armed.
fn total(time: OwnTime<'_>, points: &[u32]) -> Option<Estimate> {
    let info = time.info;
    // Points that are always armed together are one series: they may well be hit together.
    let mut groups: Vec<(Vec<bool>, Vec<u32>)> = Vec::new();
    for &point in points {
        let turns: Vec<bool> = info.blocks.iter().map(|block| had_turn(block, point)).collect();
        match groups.iter_mut().find(|group| group.0 == turns) {
            Some(group) => group.1.push(point),
            None => groups.push((turns, vec![point])),
        }
    }
    let series: Vec<Vec<Stratum>> = groups.iter().map(|group| series(time, group)).collect();
    stratified_total(&series)
}

/// What holds whichever of the two is right.
fn between(one: Estimate, other: Estimate) -> Estimate {
    let interval = one.interval.zip(other.interval).map(|(one, other)| Interval {
        low: one.low.min(other.low),
        high: one.high.max(other.high),
        level: one.level,
    });
    Estimate { value: 0.5 * (one.value + other.value), interval, ..one }
}

/// Blocks of points that are armed together, each up to the next one of theirs: what lies between was
/// others' turn.
fn series(time: OwnTime<'_>, (turns, points): &(Vec<bool>, Vec<u32>)) -> Vec<Stratum> {
    let info = time.info;
    let Some((first, last)) = info.span() else { return Vec::new() };
    let mut own: Vec<&ArmedBlock> =
        info.blocks.iter().zip(turns).filter(|(_, turn)| **turn).map(|(block, _)| block).collect();
    own.sort_by_key(|block| block.from_ns);
    let ends = own.iter().skip(1).map(|block| block.from_ns).chain([last]);
    let starts = [first].into_iter().chain(own.iter().skip(1).map(|block| block.from_ns));
    // Others' turns and pauses, in which the target got on as fast as it did there on the whole.
    let (besides, clock) = time.besides(&own, (last - first) as f64);
    let one = |((block, from), until): ((&&ArmedBlock, u64), u64)| {
        let seen = time.armed(block);
        let hits = points.iter().filter_map(|&point| block.hits.get(point as usize));
        // A block that is armed for longer than it lasts ends where the next begins.
        let not_armed = (until.saturating_sub(from) as f64 - block.armed_ns as f64).max(0.0);
        let passed = if clock > 0.0 { not_armed / clock * besides } else { 0.0 };
        Stratum { length: seen + passed, seen, count: hits.map(|hits| *hits as f64).sum() }
    };
    let stretches = own.iter().zip(starts).zip(ends).map(one);
    if turns.iter().all(|turn| *turn) {
        return stretches.collect();
    }
    let goes_on = own.windows(2).map(|pair| pair[1].from_ns <= pair[0].until_ns);
    whole_turns(stretches, std::iter::once(false).chain(goes_on))
}

/// Blocks of a turn together: what follows it was all of it others' turn, not only behind its last block.
fn whole_turns(
    stretches: impl Iterator<Item = Stratum>,
    goes_on: impl Iterator<Item = bool>,
) -> Vec<Stratum> {
    let mut whole: Vec<Stratum> = Vec::new();
    for (stretch, goes_on) in stretches.zip(goes_on) {
        match whole.last_mut().filter(|_| goes_on) {
            Some(turn) => {
                turn.length += stretch.length;
                turn.seen += stretch.seen;
                turn.count += stretch.count;
            }
            None => whole.push(stretch),
        }
    }
    whole
}

/// What a counted hit of a point stands for, over all the time.
pub(super) fn expansion(info: &WatchInfo, point: u32) -> f64 {
    let counted: u64 = info.blocks.iter().filter_map(|block| block.hits.get(point as usize)).sum();
    match true_hits(info, &[point]) {
        Some(total) if counted > 0 => total.value / counted as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(blocks: &[(u64, &[u64], &[u32])]) -> WatchInfo {
        let blocks = blocks.iter().zip(0..).map(|(&(armed_ns, hits, points), at)| ArmedBlock {
            from_ns: at * 100,
            until_ns: (at + 1) * 100,
            armed_ns,
            hits: hits.to_vec(),
            points: points.to_vec(),
            ..ArmedBlock::default()
        });
        WatchInfo { blocks: blocks.collect(), ..WatchInfo::default() }
    }

    #[test]
    fn what_was_always_armed_is_no_estimate() {
        let always = info(&[(100, &[3, 4], &[]), (100, &[5, 6], &[])]);
        assert_eq!((armed(&always, &[0, 1]), true_hits(&always, &[0, 1])), (1.0, None));
        assert_eq!(true_hits(&WatchInfo::default(), &[0]), None);
        assert_eq!(expansion(&always, 0), 1.0);
    }

    #[test]
    fn a_short_pause_makes_a_count_incomplete() {
        let blocks: Vec<_> =
            (0..2000).map(|at| (if at == 999 { 1 } else { 100 }, &[3_u64][..], &[][..])).collect();
        assert!(!is_always(&info(&blocks), &[0]));
    }

    #[test]
    fn points_that_take_turns_are_estimated_each() {
        let turns = [0, 1].repeat(10);
        let hits: [&[u64]; 2] = [&[10, 0], &[0, 30]];
        let points: [&[u32]; 2] = [&[0], &[1]];
        let blocks: Vec<_> = turns.iter().map(|&at| (100, hits[at], points[at])).collect();
        let info = info(&blocks);
        assert_eq!((armed(&info, &[0]), armed(&info, &[0, 1])), (0.5, 0.0));
        let value = |points: &[u32]| true_hits(&info, points).unwrap().value;
        assert_eq!((value(&[0]), value(&[1]), value(&[0, 1])), (200.0, 600.0, 800.0));
        assert_eq!((expansion(&info, 0), expansion(&info, 1)), (2.0, 2.0));
    }

    #[test]
    fn time_in_hits_is_not_the_targets_own() {
        let block = |at: u64| ArmedBlock {
            from_ns: at * 1000,
            until_ns: at * 1000 + 1000,
            armed_ns: 200,
            hits: vec![4],
            cpu_ns: Some(1000),
            armed_cpu_ns: Some(200),
            ..ArmedBlock::default()
        };
        let blocks = (0..20).map(block).collect();
        let watched = |ns| WatchInfo {
            points: vec![Default::default()],
            hit_cost: Some(pmuscope_perfdata::watch::HitCost { ns, ..Default::default() }),
            blocks: Vec::clone(&blocks),
            ..WatchInfo::default()
        };
        // By the clock five times as many. Of 200 ns a fifth goes to hits: 4 in 160 ns of work, of which there
        // are 960 a block.
        let (by_clock, by_cpu) = (20.0 * 4.0 * 5.0, 20.0 * 4.0 * 960.0 / 160.0);
        let total = true_hits(&watched(10.0), &[0]).unwrap();
        assert!((total.value - 0.5 * (by_clock + by_cpu)).abs() < 1e-6, "{total:?}");
        let interval = total.interval.unwrap();
        assert!(interval.contains(by_clock) && interval.contains(by_cpu), "{interval:?}");
        assert_eq!(too_much_in_hits(&watched(10.0)), None);
        assert_eq!(
            (true_hits(&watched(30.0), &[0]), too_much_in_hits(&watched(30.0))),
            (None, Some(0.6))
        );
        // 4 in 200 ns of CPU time with hits, of which there are 1,000 a block: 20 a block at least.
        assert_eq!(least_hits(&watched(10.0), &[0]), None);
        let least = least_hits(&watched(30.0), &[0]).unwrap();
        assert!((least.value - 20.0 * 20.0).abs() < 1e-6, "{least:?}");
    }

    /// A burst at the end of a program that waits: what was missed goes with its CPU time, of which pauses
    /// have little.
    #[test]
    fn of_a_burst_there_is_a_lower_estimate() {
        let block = |at: u64| {
            let (armed_ns, hits, cpu) = match at {
                0..10 => (1000, 0, 0),
                10..40 if at.is_multiple_of(2) => (1000, 200, 1000),
                _ => (0, 0, 100),
            };
            ArmedBlock {
                from_ns: at * 1000,
                until_ns: at * 1000 + 1000,
                armed_ns,
                hits: vec![hits],
                cpu_ns: Some(cpu),
                armed_cpu_ns: Some(if armed_ns > 0 { cpu } else { 0 }),
                ..ArmedBlock::default()
            }
        };
        let info = WatchInfo {
            points: vec![Default::default()],
            hit_cost: Some(pmuscope_perfdata::watch::HitCost { ns: 5.0, ..Default::default() }),
            blocks: (0..40).map(block).collect(),
            ..WatchInfo::default()
        };
        assert_eq!((true_hits(&info, &[0]), too_much_in_hits(&info)), (None, Some(1.0)));
        // 3,000 hits in 15,000 ns of CPU time, and 1,500 ns of it in pauses.
        let least = least_hits(&info, &[0]).unwrap();
        assert!(least.value > 3000.0 && least.value < 3600.0, "{least:?}");
    }

    /// Two blocks to a turn: the one before the others' turn does not stand for all of that.
    #[test]
    fn blocks_of_a_turn_stand_for_what_follows_together() {
        let blocks: Vec<(u64, &[u64], &[u32])> = [
            (100, &[30, 0][..], &[0][..]),
            (100, &[10, 0], &[0]),
            (100, &[0, 5], &[1]),
            (100, &[0, 5], &[1]),
        ]
        .repeat(10);
        let info = info(&blocks);
        assert_eq!(true_hits(&info, &[0]).unwrap().value, 800.0);
        assert_eq!(true_hits(&info, &[1]).unwrap().value, 200.0);
        assert_eq!(true_hits(&info, &[0]).unwrap().n, 10);
    }

    /// While one point is watched the target does not get on as fast, nor while the other is.
    #[test]
    fn others_turns_slow_the_target_too() {
        let block = |at: u64| ArmedBlock {
            from_ns: at * 1000,
            until_ns: at * 1000 + 1000,
            armed_ns: 1000,
            hits: if at.is_multiple_of(2) { vec![10, 0] } else { vec![0, 10] },
            cpu_ns: Some(500),
            armed_cpu_ns: Some(500),
            points: vec![(at % 2) as u32],
        };
        let info = WatchInfo {
            points: vec![Default::default(); 2],
            hit_cost: Some(pmuscope_perfdata::watch::HitCost { ns: 20.0, ..Default::default() }),
            blocks: (0..40).map(block).collect(),
            ..WatchInfo::default()
        };
        let total = true_hits(&info, &[0]).unwrap().value;
        assert!((total - 400.0).abs() < 1e-6, "{total}");
    }

    /// As a long watch has them: turns of a point put together, over the time of the others' turns.
    #[test]
    fn blocks_that_reach_into_each_other_are_the_same_time() {
        let block = |from_ns, point: u32| ArmedBlock {
            from_ns,
            until_ns: from_ns + 400,
            armed_ns: 250,
            hits: if point == 0 { vec![50, 0] } else { vec![0, 75] },
            points: vec![point],
            ..ArmedBlock::default()
        };
        let both = |at: u64| [block(at * 500, 0), block(at * 500 + 100, 1)];
        let info = WatchInfo { blocks: (0..20).flat_map(both).collect(), ..WatchInfo::default() };
        assert_eq!((info.span(), info.armed_share()), (Some((0, 10_000)), Some(1.0)));
        let value = |points: &[u32]| true_hits(&info, points).unwrap().value;
        assert_eq!((value(&[0]), value(&[0, 1])), (2000.0, 5000.0));
    }
}
