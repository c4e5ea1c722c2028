//! How often something would have been hit, had all points been armed all the time.

use pmuscope_perfdata::watch::{ArmedBlock, WatchInfo};
use pmuscope_stats::{Estimate, Stretch, total_of_stretches};

/// Armed for so much of the time: all of it.
const ALWAYS: f64 = 0.999;

/// Where hits take more of the time than this while points are armed, what is left is known too badly to
/// tell how often the target would have been there without them.
const MOST_IN_HITS: f64 = 0.5;

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
    in_hits(info).filter(|share| *share > MOST_IN_HITS && !is_always(info, &points))
}

/// Share of a block's armed time in which the target did its work.
fn at_work(info: &WatchInfo, block: &ArmedBlock, elsewhere: f64) -> f64 {
    let hits: u64 = block.hits.iter().sum();
    let share = match (block.armed_cpu_ns, info.hit_cost) {
        (Some(cpu), Some(cost)) if cpu > 0 => hits as f64 * cost.ns / cpu as f64,
        _ => elsewhere,
    };
    (1.0 - share).clamp(1.0 - MOST_IN_HITS, 1.0)
}

/// Whether a point had its turn.
fn had_turn(block: &ArmedBlock, point: u32) -> bool {
    block.points.is_empty() || block.points.contains(&point)
}

/// Share of the time that all of `points` were armed together, were they armed at all: 1 where nothing
/// tells of times that they were not.
pub(super) fn armed(info: &WatchInfo, points: &[u32]) -> f64 {
    let Some((first, last)) = info.span().filter(|span| span.1 > span.0) else { return 1.0 };
    let all = |block: &&ArmedBlock| points.iter().all(|&point| had_turn(block, point));
    let armed: f64 = info.blocks.iter().filter(all).map(|block| block.armed_ns as f64).sum();
    (armed / (last - first) as f64).min(1.0)
}

/// Whether points were armed all the time, so that counts are no estimates.
pub(super) fn is_always(info: &WatchInfo, points: &[u32]) -> bool {
    armed(info, points) >= ALWAYS
}

/// Hits of points together; `None` where they were armed all the time, or one of them never.
pub(super) fn true_hits(info: &WatchInfo, points: &[u32]) -> Option<Estimate> {
    if is_always(info, points) || too_much_in_hits(info).is_some() {
        return None;
    }
    // Points that are always armed together are one series: they may well be hit together.
    let mut groups: Vec<(Vec<bool>, Vec<u32>)> = Vec::new();
    for &point in points {
        let turns: Vec<bool> = info.blocks.iter().map(|block| had_turn(block, point)).collect();
        match groups.iter_mut().find(|group| group.0 == turns) {
            Some(group) => group.1.push(point),
            None => groups.push((turns, vec![point])),
        }
    }
    let series: Vec<Vec<Stretch>> = groups.iter().map(|group| series(info, group)).collect();
    total_of_stretches(&series)
}

/// Blocks of points that are armed together, each up to the next one of theirs: what lies between was
/// others' turn.
fn series(info: &WatchInfo, (turns, points): &(Vec<bool>, Vec<u32>)) -> Vec<Stretch> {
    let Some((first, last)) = info.span() else { return Vec::new() };
    let mut own: Vec<&ArmedBlock> =
        info.blocks.iter().zip(turns).filter(|(_, turn)| **turn).map(|(block, _)| block).collect();
    own.sort_by_key(|block| block.from_ns);
    let ends = own.iter().skip(1).map(|block| block.from_ns).chain([last]);
    let starts = [first].into_iter().chain(own.iter().skip(1).map(|block| block.from_ns));
    let elsewhere = in_hits(info).unwrap_or(0.0);
    // Time counts as the target's own: while a hit is dealt with it does not get on.
    let one = |((block, from), until): ((&&ArmedBlock, u64), u64)| {
        let seen = block.armed_ns as f64 * at_work(info, block, elsewhere);
        let hits = points.iter().filter_map(|&point| block.hits.get(point as usize));
        // A block that is armed for longer than it lasts ends where the next begins.
        Stretch {
            length: (until.saturating_sub(from) as f64 - block.armed_ns as f64).max(0.0) + seen,
            seen,
            count: hits.map(|hits| *hits as f64).sum(),
        }
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
    stretches: impl Iterator<Item = Stretch>,
    goes_on: impl Iterator<Item = bool>,
) -> Vec<Stretch> {
    let mut whole: Vec<Stretch> = Vec::new();
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
        // Of 200 ns a fifth goes to hits: 4 in 160 ns of work, of which there are 960 a block.
        let total = true_hits(&watched(10.0), &[0]).unwrap().value;
        assert!((total - 20.0 * 4.0 * 960.0 / 160.0).abs() < 1e-6, "{total}");
        assert_eq!(too_much_in_hits(&watched(10.0)), None);
        assert_eq!(
            (true_hits(&watched(30.0), &[0]), too_much_in_hits(&watched(30.0))),
            (None, Some(0.6))
        );
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
