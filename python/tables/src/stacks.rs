//! Call stacks: one a row, or a frame a row.

use std::sync::Arc;

use arrow_array::ListArray;
use arrow_array::builder::Int32Builder;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, Field};
use pmuscope_profile::aggregate::{Aggregate, CodeFrame, StackId};
use pmuscope_profile::{EventProfile, Profile};

use crate::columns::RowColumns;
use crate::dictionary::{Dictionary, column, dictionary_type};
use crate::table::ArrowTable;

/// Samples of an event in a stack.
#[derive(Debug, Clone, Copy)]
struct StackSum {
    event: usize,
    stack: StackId,
    samples: u64,
    weight: u64,
}

/// A row per event and distinct stack with samples, the largest weight of each event first.
pub(crate) fn stacks(
    profile: &Profile,
    events: &[&EventProfile],
) -> Result<ArrowTable, ArrowError> {
    let counts = &profile.aggregate;
    let rows: Vec<StackSum> = events.iter().flat_map(|event| sums(profile, event)).collect();
    let event = |row: &StackSum| &profile.events[row.event];
    let total = |row: &StackSum| -> u64 {
        counts.of_event(event(row).index).iter().map(|cell| cell.weight).sum()
    };
    let totals: Vec<u64> = profile
        .events
        .iter()
        .map(|event| counts.of_event(event.index).iter().map(|cell| cell.weight).sum())
        .collect();
    debug_assert!(rows.first().is_none_or(|row| totals[row.event] == total(row)));
    let weight = |row: &StackSum| {
        let event = event(row);
        if event.by_period {
            Some(row.weight)
        } else {
            row.samples.checked_mul(event.fixed_period?)
        }
    };
    let leaf = |row: &StackSum| -> Option<&CodeFrame> {
        Some(&counts.frames[counts.stacks.frame(row.stack)? as usize])
    };
    RowColumns::new(&rows)
        .text("event", |row| Some(&event(row).name))
        .u32("stack_id", "", |row| Some(row.stack))
        .u64("samples", "", |row| Some(row.samples))
        .u64("weight", "events; ns of a clock", weight)
        .f64("share", "", |row| Some(row.weight as f64 / totals[row.event].max(1) as f64))
        .text("function", |row| name(counts, leaf(row)?))
        .text("module", |row| module(profile, leaf(row)?))
        .u32("depth", "frames", |row| Some(counts.stacks.frames(row.stack).count() as u32))
        .list("functions", lists(counts, &rows)?)
        .finish()
}

/// A row per frame of each distinct stack with samples; 0 is the innermost.
pub(crate) fn frames(profile: &Profile) -> Result<ArrowTable, ArrowError> {
    let counts = &profile.aggregate;
    let mut with_samples: Vec<StackId> = counts.cells.iter().map(|cell| cell.stack).collect();
    with_samples.sort_unstable();
    with_samples.dedup();
    let of_stack = |&stack: &StackId| {
        let frames = counts.stacks.frames(stack);
        frames.zip(0_u32..).map(move |(frame, depth)| (stack, depth, frame))
    };
    let rows: Vec<(StackId, u32, u32)> = with_samples.iter().flat_map(of_stack).collect();
    let code = |row: &(StackId, u32, u32)| &counts.frames[row.2 as usize];
    RowColumns::new(&rows)
        .u32("stack_id", "", |row| Some(row.0))
        .u32("depth", "frames", |row| Some(row.1))
        .text("function", |row| name(counts, code(row)))
        .text("module", |row| module(profile, code(row)))
        .text("file", |row| Some(&*code(row).line.as_ref()?.file))
        .u32("line", "", |row| code(row).line.as_ref()?.number)
        .u64("address", "", |row| code(row).address)
        .flag("inlined", |row| Some(code(row).inlined))
        .finish()
}

/// Stacks of an event, added up over all that ran there.
fn sums(profile: &Profile, event: &EventProfile) -> Vec<StackSum> {
    let at = profile.events.iter().position(|other| other.index == event.index).unwrap_or(0);
    let mut sums: Vec<StackSum> = Vec::new();
    // Cells are in the order of stacks.
    for cell in profile.aggregate.of_event(event.index) {
        match sums.last_mut().filter(|last| last.stack == cell.stack) {
            Some(last) => {
                last.samples += cell.samples;
                last.weight = last.weight.saturating_add(cell.weight);
            }
            None => sums.push(StackSum {
                event: at,
                stack: cell.stack,
                samples: cell.samples,
                weight: cell.weight,
            }),
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.weight));
    sums
}

/// Functions of each stack, the outermost first, as flame graphs have them.
fn lists(counts: &Aggregate, rows: &[StackSum]) -> Result<ListArray, ArrowError> {
    let mut dictionary = Dictionary::default();
    let number =
        |function: &pmuscope_profile::aggregate::Function| dictionary.number(&function.name);
    let functions: Vec<i32> = counts.functions.iter().map(number).collect();
    let mut keys = Int32Builder::new();
    let mut lengths = Vec::with_capacity(rows.len());
    for row in rows {
        let frames: Vec<u32> = counts.stacks.frames(row.stack).collect();
        lengths.push(frames.len());
        for frame in frames.into_iter().rev() {
            let function = counts.frames[frame as usize].function;
            keys.append_option(function.map(|function| functions[function as usize]));
        }
    }
    let values = column(keys.finish(), &dictionary.values())?;
    let field = Arc::new(Field::new("item", dictionary_type(), true));
    ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, None)
}

/// Name of a frame's function, if it has one.
pub(crate) fn name<'a>(counts: &'a Aggregate, frame: &CodeFrame) -> Option<&'a str> {
    Some(&counts.functions[frame.function? as usize].name)
}

/// Path of the module that a frame is in.
pub(crate) fn module<'a>(profile: &'a Profile, frame: &CodeFrame) -> Option<&'a str> {
    Some(&profile.modules.get(frame.module as usize)?.path)
}
