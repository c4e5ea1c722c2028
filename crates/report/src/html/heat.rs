//! CPUs over time: a row per CPU, a column per block of time, the stronger the shade the more samples.
//!
//! The picture is one path for each of [`LEVELS`] shades, however many cells there are. The numbers
//! behind it are in a table, and, for the script that tells them under the pointer, in JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmuscope_profile::CpuLosses;
use pmuscope_profile::aggregate::AddsTo;
use pmuscope_profile::export::{Event, Source};

use crate::number::{count, duration, percent};

/// Shades of the picture.
const LEVELS: u64 = 12;
/// More rows than this: neighbouring CPUs share one.
const MOST_ROWS: usize = 128;
/// Labels beside the rows.
const MOST_LABELS: usize = 24;
/// Marks below the columns.
const MARKS: u32 = 6;

/// Samples by CPU and block.
struct Map {
    /// First and last CPU of each row.
    rows: Vec<(u32, u32)>,
    /// Row by row.
    cells: Vec<Vec<u64>>,
    /// Records lost and suspensions, row by row.
    lost: Vec<Vec<u64>>,
    blocks: usize,
    block_ns: u64,
    most: u64,
}

impl Map {
    /// `Err` says why there is none.
    fn new(source: &Source<'_>, event: &Event) -> Result<Self, &'static str> {
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
                "The samples of this recording do not tell their CPU; pmuscope record -a and perf \
                        record --sample-cpu keep it.",
            );
        }
        let together = by_cpu.len().div_ceil(MOST_ROWS);
        let mut map = Self {
            rows: Vec::new(),
            cells: Vec::new(),
            lost: Vec::new(),
            blocks,
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

    /// Paths, the palest first; cells without samples are not drawn.
    fn paths(&self) -> Vec<String> {
        let mut paths = vec![String::new(); LEVELS as usize];
        for (y, row) in self.cells.iter().enumerate() {
            let mut x = 0;
            while x < row.len() {
                let level = self.level(row[x]);
                // Neighbours of one shade are one rectangle.
                let run = row[x..].iter().take_while(|&&value| self.level(value) == level).count();
                if let Some(level) = level {
                    let _ = write!(paths[level], "M{x} {y}h{run}v1h-{run}z");
                }
                x += run;
            }
        }
        paths
    }

    /// A path of the cells where something is missing.
    fn marks(&self) -> String {
        let mut path = String::new();
        for (y, row) in self.lost.iter().enumerate() {
            for x in (0..row.len()).filter(|&x| row[x] > 0) {
                // A stripe at the lower edge: the shade stays to be seen.
                let _ = write!(path, "M{x} {y}.7h1v.3h-1z");
            }
        }
        path
    }

    fn level(&self, value: u64) -> Option<usize> {
        (value > 0).then(|| ((value * LEVELS).div_ceil(self.most).clamp(1, LEVELS) - 1) as usize)
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

pub(super) fn push(out: &mut String, source: &Source<'_>, event: &Event, at: usize) {
    let _ =
        write!(out, "<section class=\"heat-part\" id=\"cpus-{at}\">\n<h2>CPUs over time</h2>\n");
    match Map::new(source, event) {
        Ok(map) => push_map(out, &map),
        Err(why) => {
            let _ = writeln!(out, "<p class=\"dim\">{why}</p>");
        }
    }
    out.push_str("</section>\n");
}

fn push_map(out: &mut String, map: &Map) {
    let block = duration(map.block_ns as f64 / 1e9);
    let _ = write!(
        out,
        "<p class=\"dim\">Samples of each CPU in blocks of {block}; the strongest shade is {}.</p>\n<div class=\"heat\">\n",
        count(map.most)
    );
    let rows = map.rows.len();
    let pixels = (320 / rows).clamp(4, 22);
    let every = rows.div_ceil(MOST_LABELS);
    let _ = write!(out, "<div class=\"cpus\" aria-hidden=\"true\" style=\"--row:{pixels}px\">");
    for row in 0..rows {
        let label = if row % every == 0 { map.label(row) } else { String::new() };
        let _ = write!(out, "<span>{label}</span>");
    }
    let _ = write!(
        out,
        "</div>\n<svg class=\"map\" viewBox=\"0 0 {} {rows}\" preserveAspectRatio=\"none\" height=\"{}\" \
         role=\"img\" aria-label=\"Samples by CPU and time; the table below has the sums\">",
        map.blocks,
        rows * pixels
    );
    for (level, path) in map.paths().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let strength = 0.10 + 0.90 * (level + 1) as f64 / LEVELS as f64;
        let _ = write!(out, "<path fill-opacity=\"{strength:.2}\" d=\"{path}\"/>");
    }
    let marks = map.marks();
    if !marks.is_empty() {
        let _ = write!(out, "<path class=\"lost\" d=\"{marks}\"/>");
    }
    out.push_str("</svg>\n<div></div><div class=\"axis\" aria-hidden=\"true\">");
    for mark in 0..=MARKS {
        let ns = map.block_ns as f64 * map.blocks as f64 * f64::from(mark) / f64::from(MARKS);
        let _ = write!(out, "<span>{}</span>", duration(ns / 1e9));
    }
    if !marks.is_empty() {
        out.push_str("</div><div></div><div class=\"dim\">Stripes: samples were lost, or sampling was suspended.");
    }
    out.push_str("</div>\n</div>\n<p class=\"detail mono\" aria-live=\"polite\"></p>\n");
    push_table(out, map);
    push_data(out, map);
}

/// The same for those who do not see the picture.
fn push_table(out: &mut String, map: &Map) {
    let all: u64 = map.cells.iter().flatten().sum();
    out.push_str(
        "<details><summary>Samples of each CPU</summary><table class=\"sortable\"><thead><tr>\
         <th scope=\"col\" class=\"num\">CPU</th><th scope=\"col\" class=\"num\">samples</th>\
         <th scope=\"col\" class=\"num\">share</th><th scope=\"col\" class=\"num\">busiest at</th>\
         <th scope=\"col\" class=\"num\">blocks without samples</th>\
         <th scope=\"col\" class=\"num\">blocks with losses</th></tr></thead><tbody>\n",
    );
    for (row, cells) in map.cells.iter().enumerate() {
        let sum: u64 = cells.iter().sum();
        // The first of equal ones.
        let busiest = (0..cells.len()).rev().max_by_key(|&at| cells[at]).unwrap_or(0);
        let empty = cells.iter().filter(|&&value| value == 0).count();
        let with_losses = map.lost[row].iter().filter(|&&value| value > 0).count();
        let at = busiest as f64 * map.block_ns as f64 / 1e9;
        let share = sum as f64 / all.max(1) as f64;
        let _ = writeln!(
            out,
            "<tr><td class=\"num\" data-v=\"{row}\">{}</td>{}<td class=\"num\" data-v=\"{share:.6}\">{}</td>\
             <td class=\"num\" data-v=\"{at}\">{}</td>{}{}</tr>",
            map.label(row),
            super::number_cell(sum),
            percent(share, 2),
            duration(at),
            super::number_cell(empty as u64),
            super::number_cell(with_losses as u64),
        );
    }
    out.push_str("</tbody></table></details>\n");
}

/// Numbers only: nothing in it is foreign text.
fn push_data(out: &mut String, map: &Map) {
    let labels: Vec<String> = (0..map.rows.len()).map(|row| map.label(row)).collect();
    let data = serde_json::json!({
        "cpus": labels,
        "block_s": map.block_ns as f64 / 1e9,
        "samples": map.cells,
        "lost": map.lost,
    });
    let _ = writeln!(out, "<script type=\"application/json\" class=\"heat-data\">{data}</script>");
}
