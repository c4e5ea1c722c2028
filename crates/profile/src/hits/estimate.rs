//! How often something would have been hit, had all points been armed all the time.

use pmuscope_perfdata::watch::{ArmedBlock, WatchInfo};
use pmuscope_stats::{Estimate, Stretch, total_of_stretches};

/// Armed for so much of the time: all of it.
const ALWAYS: f64 = 0.999;

/// Whether a point had its turn.
fn had_turn(block: &ArmedBlock, point: u32) -> bool {
    block.points.is_empty() || block.points.contains(&point)
}

fn length(block: &ArmedBlock) -> f64 {
    block.until_ns.saturating_sub(block.from_ns) as f64
}

/// Share of the time that all of `points` were armed together, were they armed at all: 1 where nothing
/// tells of times that they were not.
pub(super) fn armed(info: &WatchInfo, points: &[u32]) -> f64 {
    let time: f64 = info.blocks.iter().map(length).sum();
    let all = |block: &&ArmedBlock| points.iter().all(|&point| had_turn(block, point));
    let armed: f64 = info.blocks.iter().filter(all).map(|block| block.armed_ns as f64).sum();
    if time > 0.0 { (armed / time).min(1.0) } else { 1.0 }
}

/// Whether points were armed all the time, so that counts are no estimates.
pub(super) fn is_always(info: &WatchInfo, points: &[u32]) -> bool {
    armed(info, points) >= ALWAYS
}

/// Hits of points together; `None` where they were armed all the time, or one of them never.
pub(super) fn true_hits(info: &WatchInfo, points: &[u32]) -> Option<Estimate> {
    if is_always(info, points) {
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

fn series(info: &WatchInfo, (turns, points): &(Vec<bool>, Vec<u32>)) -> Vec<Stretch> {
    let one = |(block, is_armed): (&ArmedBlock, &bool)| {
        let hits = points.iter().filter_map(|&point| block.hits.get(point as usize));
        Stretch {
            length: length(block),
            seen: if *is_armed { block.armed_ns as f64 } else { 0.0 },
            count: hits.map(|hits| *hits as f64).sum(),
        }
    };
    info.blocks.iter().zip(turns).map(one).collect()
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
}
