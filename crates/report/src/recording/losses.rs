//! Where and when records were lost and sampling was suspended.

use pmuscope_profile::{CpuLosses, LossBlock, Profile};
use serde::Serialize;

use super::json::Count;
use crate::number::{count, duration, percent};
use crate::{Cell, Column, Paint, Style, Table, wrap};

/// CPUs that have a row, those with the most losses.
const MOST_ROWS: usize = 16;
/// Moments that are named.
const MOST_MOMENTS: usize = 5;

/// A table of CPUs and a line of moments; nothing where nothing was lost.
pub(super) fn losses_text(profile: &Profile, style: &Style) -> String {
    if profile.losses.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::number("CPU"),
        Column::number("samples").optional(1),
        Column::number("lost"),
        Column::number("of records"),
        Column::number("throttled"),
        Column::number("suspended"),
    ]);
    for losses in largest(&profile.losses) {
        let share = |samples: u64| losses.lost as f64 / (losses.lost + samples).max(1) as f64;
        table.row([
            Cell::measured(losses.cpu, |cpu| cpu.to_string()),
            Cell::measured(losses.samples, count),
            Cell::new(count(losses.lost)).paint(if losses.lost > 0 {
                Paint::Bad
            } else {
                Paint::Plain
            }),
            Cell::measured(losses.samples, |samples| percent(share(samples), 2)),
            Cell::new(count(losses.throttled)),
            Cell::measured((losses.suspended_ns > 0).then_some(losses.suspended_ns), |ns| {
                duration(ns as f64 / 1e9)
            }),
        ]);
    }
    let mut out = format!("\n{}", table.render(style));
    let more = profile.losses.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        out.push_str(&format!("{}: --json lists all\n", crate::number::counted(more, "more CPU")));
    }
    let lost = moments(profile, "lost", |block| block.lost);
    let throttled = moments(profile, "throttled", |block| block.throttled);
    for line in lost.into_iter().chain(throttled) {
        out.push_str(&wrap(&style.text(&line), style.width, 0));
        out.push('\n');
    }
    out
}

/// In the order of CPUs.
fn largest(losses: &[CpuLosses]) -> Vec<&CpuLosses> {
    let mut rows: Vec<&CpuLosses> = losses.iter().collect();
    rows.sort_by_key(|losses| std::cmp::Reverse((losses.lost, losses.throttled)));
    rows.truncate(MOST_ROWS);
    rows.sort_by_key(|losses| losses.cpu);
    rows
}

/// `lost, blocks of 4.19 ms: 1,234 at 1.20 s, 17 at 2.00 s, 3 more moments`.
fn moments(profile: &Profile, word: &str, of: impl Fn(&LossBlock) -> u64) -> Option<String> {
    let mut blocks: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    for block in profile.losses.iter().flat_map(|losses| &losses.blocks) {
        let number = of(block);
        if number > 0 {
            *blocks.entry(block.block).or_default() += number;
        }
    }
    let mut blocks: Vec<(u32, u64)> = blocks.into_iter().collect();
    blocks.sort_by_key(|&(block, number)| (std::cmp::Reverse(number), block));
    let more = blocks.len().saturating_sub(MOST_MOMENTS);
    blocks.truncate(MOST_MOMENTS);
    blocks.sort_unstable();
    let block_s = profile.aggregate.timeline.block_ns as f64 / 1e9;
    let one = |(block, number): &(u32, u64)| {
        format!("{} at {}", count(*number), duration(f64::from(*block) * block_s))
    };
    let mut parts: Vec<String> = blocks.iter().map(one).collect();
    if more > 0 {
        parts.push(format!("{} more moments", count(more as u64)));
    }
    (!parts.is_empty()).then(|| {
        let parts = parts.join(", ");
        format!("{word}, in blocks of {} from the first sample: {parts}", duration(block_s))
    })
}

/// What a CPU lost, for programs.
#[derive(Debug, Serialize)]
pub(super) struct CpuLoss {
    /// `null` for records that do not tell theirs.
    cpu: Option<u32>,
    samples: Option<Count>,
    lost: Count,
    throttled: Count,
    /// Seconds.
    suspended_s: f64,
    blocks: Vec<LossBlockOut>,
}

#[derive(Debug, Serialize)]
struct LossBlockOut {
    /// Seconds from the first sample to the start of the block.
    start_s: f64,
    lost: Count,
    throttled: Count,
}

/// All CPUs that lost something.
pub(super) fn by_cpu(profile: &Profile) -> Vec<CpuLoss> {
    let block_s = profile.aggregate.timeline.block_ns as f64 / 1e9;
    let one = |losses: &CpuLosses| CpuLoss {
        cpu: losses.cpu,
        samples: losses.samples.map(Count),
        lost: Count(losses.lost),
        throttled: Count(losses.throttled),
        suspended_s: losses.suspended_ns as f64 / 1e9,
        blocks: losses
            .blocks
            .iter()
            .map(|block| LossBlockOut {
                start_s: f64::from(block.block) * block_s,
                lost: Count(block.lost),
                throttled: Count(block.throttled),
            })
            .collect(),
    };
    profile.losses.iter().map(one).collect()
}
