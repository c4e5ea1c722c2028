//! Every sample, as columns.
//!
//! What a sample's stack comes to is looked up once for each stack; a sample then is a few numbers. Batches are made on all
//! CPUs and share their dictionaries.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::builder::{Int32Builder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pmuscope_profile::samples::{SampleRow, Samples};
use pmuscope_profile::{Profile, available_threads};

use crate::dictionary::{Dictionary, column, dictionary_type};
use crate::stacks::{module, name};
use crate::table::{ArrowTable, field};

/// RowColumns of a batch at most.
const BATCH: usize = 1 << 18;

/// All samples, in the order of time; `by_name`: those in stacks that a filter by name left.
pub(crate) fn table(
    profile: &Profile,
    samples: &Samples,
    by_name: bool,
) -> Result<ArrowTable, ArrowError> {
    let kept = by_name.then(|| stacks_with_samples(profile));
    let names = Names::new(profile);
    let schema = schema();
    let ranges: Vec<Range<usize>> = (0..samples.len())
        .step_by(BATCH)
        .map(|start| start..(start + BATCH).min(samples.len()))
        .collect();
    let made: Mutex<Vec<Option<Result<RecordBatch, ArrowError>>>> =
        Mutex::new(ranges.iter().map(|_| None).collect());
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = ranges.get(at) else { return };
            let batch = names.batch(samples, range.clone(), kept.as_deref(), &schema);
            made.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(batch);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..available_threads().min(ranges.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    let batches = made.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    Ok(ArrowTable::new(schema, batches))
}

/// By stack: whether it has samples. What a filter by name leaves out are whole stacks.
fn stacks_with_samples(profile: &Profile) -> Vec<bool> {
    let mut has = vec![false; profile.aggregate.stacks.len()];
    profile.aggregate.cells.iter().for_each(|cell| has[cell.stack as usize] = true);
    has
}

fn schema() -> SchemaRef {
    let text = |name: &str| field(name, dictionary_type(), "");
    Arc::new(Schema::new(vec![
        field("time", DataType::UInt64, "ns"),
        text("event"),
        text("comm"),
        field("pid", DataType::Int32, ""),
        field("tid", DataType::Int32, ""),
        field("cpu", DataType::UInt32, ""),
        field("period", DataType::UInt64, "events; ns of a clock"),
        field("ip", DataType::UInt64, ""),
        text("function"),
        text("module"),
        text("file"),
        field("line", DataType::UInt32, ""),
        field("stack_id", DataType::UInt32, ""),
    ]))
}

/// What the innermost frame of a stack comes to: numbers of texts.
#[derive(Debug, Clone, Copy, Default)]
struct Leaf {
    function: Option<i32>,
    module: Option<i32>,
    file: Option<i32>,
    line: Option<u32>,
}

/// An event's number among the names, and its fixed period.
#[derive(Debug, Clone, Copy)]
struct EventKey {
    name: i32,
    fixed_period: Option<u64>,
}

/// What the numbers of samples stand for.
struct Names {
    /// By stack.
    leaves: Vec<Leaf>,
    /// By task.
    comms: Vec<i32>,
    /// By event of the recording.
    events: Vec<Option<EventKey>>,
    function_values: ArrayRef,
    module_values: ArrayRef,
    file_values: ArrayRef,
    comm_values: ArrayRef,
    event_values: ArrayRef,
}

impl Names {
    fn new(profile: &Profile) -> Self {
        let counts = &profile.aggregate;
        let [mut functions, mut modules, mut files, mut comms, mut events] =
            std::array::from_fn(|_| Dictionary::default());
        let frames: Vec<Leaf> = counts
            .frames
            .iter()
            .map(|frame| Leaf {
                function: name(counts, frame).map(|name| functions.number(name)),
                module: module(profile, frame).map(|path| modules.number(path)),
                file: frame.line.as_ref().map(|line| files.number(&line.file)),
                line: frame.line.as_ref().and_then(|line| line.number),
            })
            .collect();
        let leaf = |stack: u32| {
            counts.stacks.frame(stack).map_or_else(Leaf::default, |frame| frames[frame as usize])
        };
        let leaves = (0..counts.stacks.len() as u32).map(leaf).collect();
        let comms_of = counts.tasks.iter().map(|task| comms.number(&task.command)).collect();
        let mut by_event: Vec<Option<EventKey>> = Vec::new();
        for event in &profile.events {
            let at = event.index as usize;
            by_event.resize(by_event.len().max(at + 1), None);
            let key =
                EventKey { name: events.number(&event.name), fixed_period: event.fixed_period };
            by_event[at] = Some(key);
        }
        Self {
            leaves,
            comms: comms_of,
            events: by_event,
            function_values: functions.values(),
            module_values: modules.values(),
            file_values: files.values(),
            comm_values: comms.values(),
            event_values: events.values(),
        }
    }

    fn batch(
        &self,
        samples: &Samples,
        range: Range<usize>,
        kept: Option<&[bool]>,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, ArrowError> {
        let rows = range.len();
        let numbers = || UInt64Builder::with_capacity(rows);
        let keys = || Int32Builder::with_capacity(rows);
        let small = || UInt32Builder::with_capacity(rows);
        let (mut time, mut period, mut ip) = (numbers(), numbers(), numbers());
        let (mut cpu, mut line, mut stack) = (small(), small(), small());
        let (mut pid, mut tid, mut event, mut comm) = (keys(), keys(), keys(), keys());
        let (mut function, mut module, mut file) = (keys(), keys(), keys());
        let is_kept = |row: &SampleRow| kept.is_none_or(|kept| kept[row.stack as usize]);
        for row in samples.range(range).filter(is_kept) {
            let of = self.events.get(row.event as usize).copied().flatten();
            let leaf = self.leaves[row.stack as usize];
            time.append_option(row.time);
            event.append_option(of.map(|event| event.name));
            comm.append_value(self.comms[row.runner as usize]);
            pid.append_option(row.task.map(|(pid, _)| pid));
            tid.append_option(row.task.map(|(_, tid)| tid));
            cpu.append_option(row.cpu);
            period.append_option(row.period.or_else(|| of?.fixed_period));
            ip.append_option(row.ip);
            function.append_option(leaf.function);
            module.append_option(leaf.module);
            file.append_option(leaf.file);
            line.append_option(leaf.line);
            stack.append_value(row.stack);
        }
        let texts = |mut keys: Int32Builder, values| column(keys.finish(), values);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(time.finish()),
            texts(event, &self.event_values)?,
            texts(comm, &self.comm_values)?,
            Arc::new(pid.finish()),
            Arc::new(tid.finish()),
            Arc::new(cpu.finish()),
            Arc::new(period.finish()),
            Arc::new(ip.finish()),
            texts(function, &self.function_values)?,
            texts(module, &self.module_values)?,
            texts(file, &self.file_values)?,
            Arc::new(line.finish()),
            Arc::new(stack.finish()),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}
