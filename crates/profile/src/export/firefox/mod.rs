//! The Firefox Profiler's processed profile, as JSON, gzip: what <https://profiler.firefox.com> and
//! `samply load` open.
//!
//! ```text
//!  threads[] ─► samples: stack, time, weight          one per thread, stack and block of time
//!               stackTable ─► frameTable ─► funcTable ─► resourceTable
//!  shared.stringArray ◄─ names          libs ◄─ modules
//! ```
//!
//! Every table is columns of one length, and rows point to each other by index. Times are those of
//! blocks: counts do not keep when in a block a sample was taken, so those of one block are spread
//! evenly over it. The weight of a sample is what shares are made of: units of the event where
//! samples carry their period, else the number of samples.

mod columns;
mod tables;
mod thread;

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::aggregate::{SampleCell, StackId, TaskId};
use crate::export::FunctionRanges;
use crate::pool::in_parallel;

use super::gzip::GzipWriter;
use super::{About, ExportedEvent, Source};

use tables::SharedNumbers;

pub(crate) use tables::breakpad_id;

/// The version of the processed format that is written; the viewer reads it and all older ones.
pub const FORMAT_VERSION: u32 = 58;
/// The version of Gecko's own format of that time, which viewers look at but do not need.
const GECKO_VERSION: u32 = 32;
/// More samples than this make the viewer slow: then neighboring blocks of time are merged.
const MOST_SAMPLES: usize = 500_000;
/// Samples that are made into tables at a time, as far as they are of several threads: with all that they point to, each
/// takes some 100 bytes.
const AT_ONCE: usize = 100_000;
/// The level of deflate: two thirds of the time of the default, 6, for 2% more bytes.
const LEVEL: u32 = 3;
/// Threads that are shown at first; the others are behind the menu of tracks.
const SHOWN_THREADS: usize = 15;

/// Writes all events of the source, a thread of the recording as a thread of the profile; where there
/// are several events, each has threads of its own.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &Source<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_with(source, MOST_SAMPLES, &FunctionRanges::default(), out)
}

/// The same with the ranges of functions, which the viewer asks a server's instructions for
/// ([`crate::code::symbol_api`]).
///
/// # Errors
/// Those of `out`.
pub fn write_with_functions(
    source: &Source<'_>,
    functions: &FunctionRanges,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_with(source, MOST_SAMPLES, functions, out)
}

fn write_with(
    source: &Source<'_>,
    most: usize,
    functions: &FunctionRanges,
    out: &mut dyn Write,
) -> io::Result<()> {
    let time = Time::new(source, most);
    let mut threads = threads(source, time);
    let shared = SharedNumbers::new(source, &threads, functions);
    let head = ProfileHead {
        meta: Meta::new(source, time, shown(&threads)),
        libs: shared.libs(),
        pages: [],
        shared: shared.tables(),
    };
    let mut out = GzipWriter::new(out, LEVEL)?;
    let mut text = serde_json::to_vec(&head)?;
    // The object goes on with the threads.
    text.pop();
    out.write_all(&text)?;
    drop((head, text));
    let mut before = ",\"threads\":[";
    while !threads.is_empty() {
        let now: Vec<Of<'_>> = threads.drain(..at_once(&threads)).collect();
        let texts = in_parallel(now, |of| thread::text(source, &of, time, &shared));
        let mut pieces = Vec::new();
        for text in texts {
            pieces.push(columns::Pieces::from(before));
            pieces.push(text?);
            before = ",";
        }
        columns::write(&pieces, &mut out)?;
    }
    out.write_all(if before == "," { b"]}" } else { b",\"threads\":[]}" })?;
    out.finish().map(drop)
}

/// Number of threads of which samples become tables at a time.
fn at_once(threads: &[Of<'_>]) -> usize {
    let mut samples = 0;
    let fits = |of: &&Of<'_>| {
        samples += of.by_block.len();
        samples <= AT_ONCE
    };
    threads.iter().take_while(fits).count().max(1)
}

/// All of a profile but its threads.
#[derive(Serialize)]
struct ProfileHead<'a> {
    meta: Meta,
    libs: Vec<tables::Lib>,
    pages: [(); 0],
    shared: tables::SharedTables<'a>,
}

/// Blocks of time as samples of the profile have them.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// Length of a block, milliseconds.
    block_ms: f64,
    /// Neighboring blocks are merged by twos as often as this.
    shift: u32,
}

impl Time {
    fn new(source: &Source<'_>, most: usize) -> Self {
        let shift = merging(source, most);
        let block_ms = source.counts.timeline.block_ns as f64 / 1e6 * f64::from(1 << shift);
        Self { block_ms, shift }
    }

    /// The end of the last block, milliseconds. The viewer leaves out samples that come after the end of the profile, and a
    /// recording can end within a block.
    fn end_ms(self, source: &Source<'_>) -> f64 {
        f64::from(source.counts.timeline.blocks.div_ceil(1 << self.shift)) * self.block_ms
    }
}

/// Threads of the profile: events in their order, the threads of each in the order of their processes.
fn threads<'a>(source: &'a Source<'_>, time: Time) -> Vec<Of<'a>> {
    let mains: FxHashMap<i32, TaskId> = (0..)
        .zip(&source.counts.tasks)
        .filter(|(_, task)| task.pid == task.tid)
        .filter_map(|(id, task)| Some((task.pid?, id)))
        .collect();
    let of_event = |event: &'a ExportedEvent| {
        let process = |task| process(source, &mains, task);
        let threads = tasks(source, event, time.shift).into_iter();
        threads
            .map(|(task, by_block)| Of { event, task, process: process(task), by_block })
            .collect::<Vec<_>>()
    };
    source.events.iter().flat_map(of_event).collect()
}

/// Numbers of the threads that are shown at first: those with the largest weights.
fn shown(threads: &[Of<'_>]) -> Vec<usize> {
    let weight = |of: &Of<'_>| {
        of.by_block.iter().fold(0_u64, |sum, (.., weight)| sum.saturating_add(*weight))
    };
    let mut by_weight: Vec<(usize, u64)> = threads.iter().map(weight).enumerate().collect();
    by_weight.sort_by_key(|&(_, weight)| std::cmp::Reverse(weight));
    by_weight.truncate(SHOWN_THREADS);
    by_weight.into_iter().map(|(at, _)| at).collect()
}

/// What a thread of the profile is of.
struct Of<'a> {
    event: &'a ExportedEvent,
    task: TaskId,
    /// Name of the process.
    process: &'a str,
    by_block: ByBlock,
}

/// Block, stack and weight.
type TimedCount = (u32, StackId, u64);
/// Counts in the order of blocks, then stacks; each once.
type ByBlock = Vec<TimedCount>;

/// Tasks with their counts of an event, in the order of their processes. Blocks are of 2^`shift` of
/// the recording's.
fn tasks(source: &Source<'_>, event: &ExportedEvent, shift: u32) -> Vec<(TaskId, ByBlock)> {
    let is_one_block =
        source.counts.timeline.blocks.checked_sub(1).is_some_and(|last| last >> shift == 0);
    let by_task = match is_one_block {
        true => in_one_block(source, event),
        false => by_block(source, event, shift),
    };
    let tasks = (0..).zip(by_task).filter(|(_, by_block)| !by_block.is_empty());
    let mut tasks: Vec<(TaskId, ByBlock)> = tasks.collect();
    tasks.sort_unstable_by_key(|&(task, _)| {
        let who = &source.counts.tasks[task as usize];
        (who.pid, who.tid, task)
    });
    tasks
}

/// Counts of an event by task, all in one block of time: cells are in the order of stacks already.
fn in_one_block(source: &Source<'_>, event: &ExportedEvent) -> Vec<ByBlock> {
    let cells = source.counts.of_event(event.index);
    let mut by_task = rooms(source, cells);
    for cell in cells {
        by_task[cell.task as usize].push((0, cell.stack, event.value(cell)));
    }
    by_task.iter_mut().for_each(add_up);
    by_task
}

/// Counts of an event by task.
fn by_block(source: &Source<'_>, event: &ExportedEvent, shift: u32) -> Vec<ByBlock> {
    let mut by_task = rooms(source, source.counts.of_event(event.index));
    source.counts.series.for_each(|cell, count| {
        let cell = &source.counts.cells[cell as usize];
        if cell.event == event.index {
            let value = if event.by_period { count.weight } else { count.samples.into() };
            by_task[cell.task as usize].push((count.block >> shift, cell.stack, value));
        }
    });
    in_parallel(by_task, |mut by_block| {
        by_block.sort_unstable();
        add_up(&mut by_block);
        by_block
    })
}

/// An empty list for each task, with room for its cells.
fn rooms(source: &Source<'_>, cells: &[SampleCell]) -> Vec<ByBlock> {
    let mut numbers = vec![0; source.counts.tasks.len()];
    cells.iter().for_each(|cell| numbers[cell.task as usize] += 1);
    numbers.into_iter().map(Vec::with_capacity).collect()
}

/// Adds up neighbors of one block and stack.
fn add_up(by_block: &mut ByBlock) {
    by_block.dedup_by(|next, before| {
        let is_same = (next.0, next.1) == (before.0, before.1);
        if is_same {
            before.2 = before.2.saturating_add(next.2);
        }
        is_same
    });
}

/// A process is called as its first thread, if that is there.
fn process<'a>(source: &'a Source<'_>, mains: &FxHashMap<i32, TaskId>, task: TaskId) -> &'a str {
    let pid = source.counts.tasks[task as usize].pid;
    let main = pid.and_then(|pid| mains.get(&pid).copied()).unwrap_or(task);
    &source.counts.tasks[main as usize].command
}

/// How often blocks of time must be merged by twos so that at most `most` samples are left, or only
/// one block.
fn merging(source: &Source<'_>, most: usize) -> u32 {
    let counts = source.counts;
    let mut entries = 0;
    counts.series.for_each(|_, _| entries += 1);
    if entries <= most {
        return 0;
    }
    // Cells of one event, stack and task follow one another, and are one here.
    let key = |cell: u32| {
        let cell = &counts.cells[cell as usize];
        (cell.event, cell.stack, cell.task)
    };
    let mut first_of = Vec::with_capacity(counts.cells.len());
    for cell in 0..counts.cells.len() as u32 {
        let same = cell.checked_sub(1).filter(|&before| key(before) == key(cell));
        first_of.push(same.map_or(cell, |before| first_of[before as usize]));
    }
    let last = counts.timeline.blocks.max(1).next_power_of_two().trailing_zeros();
    // However long blocks are, each key that was counted is left.
    let keys = (0..).zip(&first_of).zip(&counts.cells);
    let keys = keys.filter(|&((cell, first), counted)| cell == *first && counted.samples > 0);
    if keys.count() > most {
        return last;
    }
    let mut met: Vec<u64> = Vec::with_capacity(entries);
    counts.series.for_each(|cell, count| {
        met.push(u64::from(first_of[cell as usize]) << 32 | u64::from(count.block));
    });
    met.sort_unstable();
    // Neighbors of one key become one where their blocks do: behind the highest bit in which these differ.
    let mut stay_apart = [0_usize; 33];
    for pair in met.windows(2) {
        let is_same = pair[0] >> 32 == pair[1] >> 32;
        let differ = if is_same { 64 - (pair[0] ^ pair[1]).leading_zeros() } else { 32 };
        stay_apart[differ as usize] += 1;
    }
    let number = |shift: u32| 1 + stay_apart[shift as usize + 1..].iter().sum::<usize>();
    (0..last).find(|&shift| number(shift) <= most).unwrap_or(last)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    /// Milliseconds between samples.
    interval: f64,
    /// Milliseconds since 1970.
    start_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    profiling_start_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profiling_end_time: Option<f64>,
    process_type: u32,
    extensions: Extensions,
    categories: Vec<Category>,
    product: String,
    stackwalk: u32,
    debug: bool,
    version: u32,
    preprocessed_profile_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    abi: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oscpu: Option<String>,
    platform: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    arguments: String,
    #[serde(rename = "logicalCPUs", skip_serializing_if = "Option::is_none")]
    logical_cpus: Option<u32>,
    #[serde(rename = "CPUName", skip_serializing_if = "Option::is_none")]
    cpu_name: Option<String>,
    /// Nothing is left to look up: the viewer asks no server for symbols.
    symbolicated: bool,
    marker_schema: [(); 0],
    sample_units: SampleUnits,
    imported_from: &'static str,
    uses_only_one_stack_type: bool,
    source_code_is_not_on_searchfox: bool,
    initial_visible_threads: Vec<usize>,
    initial_selected_threads: Vec<usize>,
}

#[derive(Serialize)]
struct Extensions {
    id: [(); 0],
    name: [(); 0],
    #[serde(rename = "baseURL")]
    base_url: [(); 0],
    length: u32,
}

#[derive(Serialize)]
struct Category {
    name: &'static str,
    color: &'static str,
    subcategories: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleUnits {
    time: &'static str,
    event_delay: &'static str,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: &'static str,
}

/// What a frame is colored by: index into [`CATEGORIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameCategory {
    Other,
    User,
    Kernel,
    Jit,
}

/// Names and colors of [`FrameCategory`], in its order; the format wants a grey one.
const CATEGORIES: [(&str, &str); 4] =
    [("Other", "grey"), ("User", "yellow"), ("Kernel", "orange"), ("JIT", "green")];

impl Meta {
    fn new(source: &Source<'_>, time: Time, visible: Vec<usize>) -> Self {
        let About { duration_s, arch, kernel, cpu_model, cpus, command, .. } = &source.about;
        let event = source.events.first();
        let start_time = source.about.started_unix_ns.map_or(0.0, |ns| ns as f64 / 1e6);
        let category = |&(name, color): &(&'static str, &'static str)| Category {
            name,
            color,
            subcategories: ["Other"],
        };
        Self {
            interval: event.map_or(1.0, interval_ms),
            start_time,
            profiling_start_time: duration_s.map(|_| 0.0),
            profiling_end_time: duration_s.map(|seconds| (seconds * 1e3).max(time.end_ms(source))),
            process_type: 0,
            extensions: Extensions { id: [], name: [], base_url: [], length: 0 },
            categories: CATEGORIES.iter().map(category).collect(),
            product: event.map_or_else(|| "pmuscope".into(), |event| event.name.clone()),
            stackwalk: 1,
            debug: false,
            version: GECKO_VERSION,
            preprocessed_profile_version: FORMAT_VERSION,
            abi: arch.clone(),
            oscpu: kernel.as_ref().map(|release| format!("Linux {release}")),
            platform: "Linux",
            arguments: command.join(" "),
            logical_cpus: *cpus,
            cpu_name: cpu_model.clone(),
            symbolicated: true,
            marker_schema: [],
            sample_units: SampleUnits { time: "ms", event_delay: "ms", thread_cpu_delta: "ns" },
            imported_from: "pmuscope",
            uses_only_one_stack_type: true,
            source_code_is_not_on_searchfox: true,
            initial_selected_threads: visible.iter().take(1).copied().collect(),
            initial_visible_threads: visible,
        }
    }
}

/// As it was asked for; a millisecond where that is not known or not a time.
fn interval_ms(event: &ExportedEvent) -> f64 {
    match (event.frequency, event.period) {
        (Some(frequency), _) if frequency > 0 => 1e3 / frequency as f64,
        (_, Some(period)) if event.is_clock() && period > 0 => period as f64 / 1e6,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests;
