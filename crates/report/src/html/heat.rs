//! CPUs over time: a row per CPU, a column per block of time, the stronger the shade the more samples.
//! The numbers behind the picture are in a table.

use std::collections::BTreeSet;

use pmuscope_profile::CpuLosses;
use pmuscope_profile::aggregate::AddsTo;
use pmuscope_profile::export::{ExportedEvent, Source};

use super::grid::{Cells, Grid};
use super::number_cell;
use crate::markup::{Markup, html};
use crate::number::{duration, percent};

/// More rows than this: neighboring CPUs share one.
const MOST_ROWS: usize = 128;

/// Samples by CPU and block.
struct Map {
    /// First and last CPU of each row.
    rows: Vec<(u32, u32)>,
    /// Row by row.
    cells: Vec<Vec<u64>>,
    /// Records lost and suspensions, row by row.
    lost: Vec<Vec<u64>>,
    block_ns: u64,
    most: u64,
}

impl Map {
    /// `Err` says why there is none.
    fn new(source: &Source<'_>, event: &ExportedEvent) -> Result<Self, &'static str> {
        let counts = source.counts;
        let blocks = counts.timeline.blocks as usize;
        if blocks == 0 {
            return Err("The samples of this recording have no time stamps.");
        }
        let cpus = counts.of_event(event.index).iter().filter_map(|cell| cell.cpu);
        let cpus: Vec<u32> = cpus.collect::<BTreeSet<u32>>().into_iter().collect();
        let series = counts.row_series(cpus.len(), false, |cell| {
            let cpu = cell.cpu.filter(|_| cell.event == event.index);
            let row = cpu.and_then(|cpu| cpus.binary_search(&cpu).ok());
            row.map_or(AddsTo::Nothing, AddsTo::Row)
        });
        let samples: Vec<u64> = series.rows.iter().map(|&sum| sum as u64).collect();
        let by_cpu: Vec<(u32, &[u64])> =
            cpus.into_iter().zip(samples.chunks_exact(blocks)).collect();
        if by_cpu.is_empty() {
            return Err(
                "The samples of this recording have no CPU; pmuscope record and perf record \
                 --sample-cpu keep it.",
            );
        }
        let together = by_cpu.len().div_ceil(MOST_ROWS);
        let mut map = Self {
            rows: Vec::new(),
            cells: Vec::new(),
            lost: Vec::new(),
            block_ns: counts.timeline.block_ns,
            most: 1,
        };
        for group in by_cpu.chunks(together) {
            let mut sums = vec![0; blocks];
            for (_, row) in group {
                sums.iter_mut().zip(*row).for_each(|(sum, value)| *sum += value);
            }
            map.most = sums.iter().copied().fold(map.most, u64::max);
            map.rows.push((group[0].0, group[group.len() - 1].0));
            map.cells.push(sums);
        }
        map.lost = map.rows.iter().map(|&row| lost(source.losses, row, blocks)).collect();
        Ok(map)
    }

    fn label(&self, row: usize) -> String {
        match self.rows[row] {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        }
    }
}

/// Records lost and suspensions by block of the CPUs from the first to the last.
fn lost(losses: &[CpuLosses], (first, last): (u32, u32), blocks: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; blocks];
    let is_here = |one: &&CpuLosses| one.cpu.is_some_and(|cpu| (first..=last).contains(&cpu));
    for block in losses.iter().filter(is_here).flat_map(|one| &one.blocks) {
        if let Some(sum) = sums.get_mut(block.block as usize) {
            *sum = sum.saturating_add(block.lost).saturating_add(block.throttled);
        }
    }
    sums
}

pub(super) fn part(source: &Source<'_>, event: &ExportedEvent, at: usize) -> Markup {
    html! {
        section class="heat-part" id={ "cpus-" (at) } {
            h2 { "CPUs over time" }
            @match Map::new(source, event) {
                Ok(map) => (picture(&map)),
                Err(why) => p class="dim" { (why) },
            }
        }
        "\n"
    }
}

fn picture(map: &Map) -> Markup {
    let grid = Grid {
        row: "CPU",
        rows: (0..map.rows.len()).map(|row| map.label(row)).collect(),
        column_s: map.block_ns as f64 / 1e9,
        most: map.most,
        cells: Cells { unit: "samples", values: &map.cells },
        marks: Some(Cells { unit: "lost or suspended", values: &map.lost }),
        legend: "Stripes: samples were lost, or sampling was suspended.",
        told: "Samples by CPU and time; the table below has the sums",
    };
    html! {
        p class="dim" {
            "Samples of each CPU in blocks of " (duration(map.block_ns as f64 / 1e9)) "."
        }
        (grid.html())
        (table(map))
    }
}

/// The same for those who do not see the picture.
fn table(map: &Map) -> Markup {
    let all: u64 = map.cells.iter().flatten().sum();
    let heads =
        ["CPU", "samples", "share", "busiest at", "blocks without samples", "blocks with losses"];
    html! {
        details {
            summary { "Samples of each CPU" }
            div class="wide" {
                table class="sortable" {
                    thead { tr { @for head in heads { th scope="col" class="num" { (head) } } } }
                    tbody { @for (row, cells) in map.cells.iter().enumerate() { (cpu_row(map, row, cells, all)) } }
                }
            }
        }
    }
}

fn cpu_row(map: &Map, row: usize, cells: &[u64], all: u64) -> Markup {
    let sum: u64 = cells.iter().sum();
    // The first of equal ones.
    let busiest = (0..cells.len()).rev().max_by_key(|&at| cells[at]).unwrap_or(0);
    let empty = cells.iter().filter(|&&value| value == 0).count();
    let with_losses = map.lost[row].iter().filter(|&&value| value > 0).count();
    let at = busiest as f64 * map.block_ns as f64 / 1e9;
    let share = sum as f64 / all.max(1) as f64;
    html! {
        tr {
            td class="num" data-v=(row) { (map.label(row)) }
            (number_cell(sum))
            td class="num" data-v=(format!("{share:.6}")) { (percent(share, 2)) }
            td class="num" data-v=(at) { (duration(at)) }
            (number_cell(empty as u64))
            (number_cell(with_losses as u64))
        }
        "\n"
    }
}
