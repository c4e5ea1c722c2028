//! A thread with its tables.

use std::io;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::aggregate::{CodeFrame, FrameId, FunctionId, StackId, Stacks};
use crate::export::Source;
use crate::table::{HashIndex, mix};

use super::columns::{ColumnValues, NULL, Pieces};
use super::tables::SharedNumbers;
use super::{Of, Time};

/// JavaScript keeps integers up to here.
const EXACT: u64 = 1 << 53;
/// The kind of a resource that is a library.
const LIBRARY: u32 = 1;
/// Tables that are always empty: nothing but samples is exported.
const MARKERS: &str =
    r#"{"data":[],"name":[],"startTime":[],"endTime":[],"phase":[],"category":[],"length":0}"#;

/// What a thread has besides its tables.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadHead<'a> {
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    name: &'a str,
    is_main_thread: bool,
    process_name: &'a str,
    pid: String,
    tid: u64,
}

impl<'a> ThreadHead<'a> {
    fn new(source: &Source<'a>, of: &Of<'a>, name: &'a str) -> Self {
        let who = &source.counts.tasks[of.task as usize];
        // Where threads are not counted separately, a task stands for itself.
        let tid = who.tid.or(who.pid).map_or(u64::from(of.task), |id| u64::from(id.unsigned_abs()));
        Self {
            process_type: "default",
            process_startup_time: 0.0,
            process_shutdown_time: None,
            register_time: 0.0,
            unregister_time: None,
            paused_ranges: [],
            name,
            is_main_thread: who.pid == who.tid || who.tid.is_none(),
            process_name: of.process,
            pid: who.pid.map_or_else(|| format!("-{}", of.task), |pid| pid.to_string()),
            tid,
        }
    }
}

/// The text of a thread.
///
/// # Errors
/// Those of serde_json, which has none for texts and numbers.
pub(super) fn text(
    source: &Source<'_>,
    of: &Of<'_>,
    time: Time,
    shared: &SharedNumbers<'_>,
) -> io::Result<Pieces> {
    let command = &*source.counts.tasks[of.task as usize].command;
    let several = source.events.len() > 1;
    let name = several.then(|| format!("{command} ({})", of.event.name));
    let head = ThreadHead::new(source, of, name.as_deref().unwrap_or(command));
    let mut head = serde_json::to_vec(&head)?;
    // The object goes on with the tables.
    head.pop();
    let mut text = Pieces::default();
    text.text(&head);
    add_tables(&mut text, source, of, time, shared);
    Ok(text)
}

fn add_tables(
    text: &mut Pieces,
    source: &Source<'_>,
    of: &Of<'_>,
    time: Time,
    shared: &SharedNumbers<'_>,
) {
    let mut tables = ThreadTables::new(source, shared);
    let samples = samples(of, time, &mut tables);
    let ThreadTables { stacks, frames, functions, resources, native, .. } = tables;
    text.text(b",\"samples\":{\"stack\":");
    let length = samples.stack.len();
    text.column(ColumnValues::Numbers(samples.stack));
    text.text(b",\"time\":");
    text.column(ColumnValues::Times(samples.time));
    text.text(b",\"weight\":");
    text.column(ColumnValues::Weights(samples.weight));
    text.text(format!(",\"weightType\":\"samples\",\"length\":{length}}}").as_bytes());
    text.text(format!(",\"markers\":{MARKERS},\"stackTable\":").as_bytes());
    let length = stacks.frame.len();
    text.table(
        [
            ("frame", ColumnValues::Numbers(stacks.frame)),
            ("prefix", ColumnValues::Numbers(stacks.prefix)),
        ],
        length,
    );
    text.text(b",\"frameTable\":");
    frames.add_to(text);
    text.text(b",\"funcTable\":");
    functions.add_to(text);
    let length = resources.lib.len();
    text.text(format!(",\"resourceTable\":{{\"length\":{length},\"lib\":").as_bytes());
    text.column(ColumnValues::Numbers(resources.lib));
    text.text(b",\"name\":");
    text.column(ColumnValues::Numbers(resources.name));
    text.text(b",\"host\":");
    text.column(ColumnValues::Same("null", length));
    text.text(b",\"type\":");
    text.column(ColumnValues::Numbers(vec![LIBRARY; length]));
    text.text(b"},\"nativeSymbols\":");
    native.add_to(text);
    text.text(b"}");
}

#[derive(Default)]
struct ThreadSamples {
    stack: Vec<u32>,
    time: Vec<f64>,
    weight: Vec<u64>,
}

#[derive(Default)]
struct StackTable {
    frame: Vec<u32>,
    prefix: Vec<u32>,
}

#[derive(Default)]
struct FrameTable {
    /// Relative to the library; `u64::MAX` where it is not known or not exact in JavaScript.
    address: Vec<u64>,
    inline_depth: Vec<u32>,
    category: Vec<u32>,
    func: Vec<u32>,
    native: Vec<u32>,
    line: Vec<u32>,
}

#[derive(Default)]
struct FuncTable {
    name: Vec<u32>,
    resource: Vec<u32>,
    source: Vec<u32>,
}

#[derive(Default)]
struct ResourceTable {
    lib: Vec<u32>,
    name: Vec<u32>,
}

impl FrameTable {
    fn add_to(self, text: &mut Pieces) {
        let length = self.address.len();
        let columns = [
            ("address", ColumnValues::Addresses(self.address)),
            ("inlineDepth", ColumnValues::Numbers(self.inline_depth)),
            ("category", ColumnValues::Numbers(self.category)),
            ("subcategory", ColumnValues::Same("0", length)),
            ("func", ColumnValues::Numbers(self.func)),
            ("nativeSymbol", ColumnValues::Numbers(self.native)),
            ("innerWindowID", ColumnValues::Same("0", length)),
            ("line", ColumnValues::Numbers(self.line)),
            ("column", ColumnValues::Same("null", length)),
        ];
        text.table(columns, length);
    }
}

/// Functions of symbol tables, into which others may be inlined.
#[derive(Default)]
struct NativeSymbols {
    lib: Vec<u32>,
    address: Vec<u64>,
    name: Vec<u32>,
    size: Vec<u64>,
}

impl NativeSymbols {
    fn add_to(self, text: &mut Pieces) {
        let length = self.lib.len();
        let columns = [
            ("libIndex", ColumnValues::Numbers(self.lib)),
            ("address", ColumnValues::Addresses(self.address)),
            ("name", ColumnValues::Numbers(self.name)),
            ("functionSize", ColumnValues::Addresses(self.size)),
        ];
        text.table(columns, length);
    }
}

impl FuncTable {
    fn add_to(self, text: &mut Pieces) {
        let length = self.name.len();
        let columns = [
            ("name", ColumnValues::Numbers(self.name)),
            ("isJS", ColumnValues::Same("false", length)),
            ("relevantForJS", ColumnValues::Same("false", length)),
            ("resource", ColumnValues::Numbers(self.resource)),
            ("source", ColumnValues::Numbers(self.source)),
            ("lineNumber", ColumnValues::Same("null", length)),
            ("columnNumber", ColumnValues::Same("null", length)),
        ];
        text.table(columns, length);
    }
}

/// Samples in the order of time.
fn samples(of: &Of<'_>, time: Time, tables: &mut ThreadTables<'_>) -> ThreadSamples {
    let mut samples = ThreadSamples::default();
    for of_block in of.by_block.chunk_by(|a, b| a.0 == b.0) {
        let part = 1.0 / of_block.len() as f64;
        for (at, (block, stack, weight)) in of_block.iter().enumerate() {
            let blocks = f64::from(*block) + (at as f64 + 0.5) * part;
            samples.stack.push(tables.stack(*stack));
            samples.time.push((blocks * time.block_ms * 1e6).round() / 1e6);
            samples.weight.push(*weight);
        }
    }
    samples
}

/// Tables of one thread, with the indexes of what is in them already.
struct ThreadTables<'a> {
    source: &'a Source<'a>,
    shared: &'a SharedNumbers<'a>,
    stacks: StackTable,
    frames: FrameTable,
    functions: FuncTable,
    resources: ResourceTable,
    native: NativeSymbols,
    /// The stack of each row.
    stack_rows: Vec<StackId>,
    stack_ids: HashIndex,
    /// The frame of each row.
    frame_rows: Vec<FrameId>,
    /// By frame and depth.
    frame_ids: HashIndex,
    function_ids: FxHashMap<(u32, Option<FunctionId>), u32>,
    resource_ids: FxHashMap<u32, u32>,
    /// By module and start.
    native_ids: FxHashMap<(u32, u64), u32>,
    missing: Vec<StackId>,
}

impl<'a> ThreadTables<'a> {
    fn new(source: &'a Source<'a>, shared: &'a SharedNumbers<'a>) -> Self {
        Self {
            source,
            shared,
            stacks: StackTable::default(),
            frames: FrameTable::default(),
            functions: FuncTable::default(),
            resources: ResourceTable::default(),
            native: NativeSymbols::default(),
            stack_rows: Vec::new(),
            stack_ids: HashIndex::default(),
            frame_rows: Vec::new(),
            frame_ids: HashIndex::default(),
            function_ids: FxHashMap::default(),
            resource_ids: FxHashMap::default(),
            native_ids: FxHashMap::default(),
            missing: Vec::new(),
        }
    }

    /// Index of a stack; [`NULL`] of the empty one.
    fn stack(&mut self, stack: StackId) -> u32 {
        let stacks = &self.source.counts.stacks;
        let mut prefix = NULL;
        let mut at = stack;
        while at != Stacks::ROOT {
            let is_it = |row: u32| self.stack_rows[row as usize] == at;
            if let Some(row) = self.stack_ids.find(mix(0, at.into()), is_it) {
                prefix = row;
                break;
            }
            self.missing.push(at);
            at = stacks.parent(at).unwrap_or(Stacks::ROOT);
        }
        while let Some(stack) = self.missing.pop() {
            let Some(frame) = stacks.frame(stack) else { continue };
            let frame = self.frame(frame, self.depth(frame, prefix));
            self.stacks.frame.push(frame);
            self.stacks.prefix.push(prefix);
            prefix = self.stack_rows.len() as u32;
            self.stack_rows.push(stack);
            self.stack_ids.find_or_insert(mix(0, stack.into()), prefix, |_| false);
        }
        prefix
    }

    /// Number of frames that a frame is inlined into, in a stack of which `prefix` is the caller.
    fn depth(&self, frame: FrameId, prefix: u32) -> u32 {
        if prefix == NULL || !self.shared.is_inlined(frame) {
            return 0;
        }
        let caller = self.stacks.frame[prefix as usize];
        self.frames.inline_depth[caller as usize] + 1
    }

    fn frame(&mut self, frame: FrameId, depth: u32) -> u32 {
        let new = self.frame_rows.len() as u32;
        let id = self.frame_ids.find_or_insert(mix(depth.into(), frame.into()), new, |row| {
            self.frame_rows[row as usize] == frame
                && self.frames.inline_depth[row as usize] == depth
        });
        if id < new {
            return id;
        }
        self.frame_rows.push(frame);
        let of = &self.source.counts.frames[frame as usize];
        let function = self.function(of.module, of.function, self.shared.file(frame));
        let address = of.address.filter(|&address| address < EXACT);
        let native = address.map_or(NULL, |address| self.native_symbol(of, address));
        let line = of.line.as_ref().and_then(|line| line.number);
        let table = &mut self.frames;
        table.address.push(address.unwrap_or(u64::MAX));
        table.inline_depth.push(depth);
        table.category.push(self.shared.kind(of.module) as u32);
        table.func.push(function);
        table.native.push(native);
        table.line.push(line.unwrap_or(NULL));
        id
    }

    fn function(&mut self, module: u32, function: Option<FunctionId>, file: u32) -> u32 {
        if let Some(&id) = self.function_ids.get(&(module, function)) {
            return id;
        }
        let resource = self.resource(module);
        let table = &mut self.functions;
        let id = table.name.len() as u32;
        table.name.push(self.shared.function_name(function));
        table.resource.push(resource);
        table.source.push(file);
        self.function_ids.insert((module, function), id);
        id
    }

    /// The function that holds the code of a frame; [`NULL`] where no range is known. It has the name of its first frame
    /// that is not inlined, which comes before those that are.
    fn native_symbol(&mut self, frame: &CodeFrame, address: u64) -> u32 {
        let Some(range) = self.shared.range(frame.module, address) else { return NULL };
        let key = (frame.module, range.start);
        if let Some(&id) = self.native_ids.get(&key) {
            return id;
        }
        if frame.inlined || frame.function.is_none() {
            return NULL;
        }
        let id = self.native.lib.len() as u32;
        self.native.lib.push(self.shared.module(frame.module).0);
        self.native.address.push(range.start);
        self.native.name.push(self.shared.function_name(frame.function));
        self.native.size.push(range.end - range.start);
        self.native_ids.insert(key, id);
        id
    }

    fn resource(&mut self, module: u32) -> u32 {
        let table = &mut self.resources;
        *self.resource_ids.entry(module).or_insert_with(|| {
            let (lib, name) = self.shared.module(module);
            table.lib.push(lib);
            table.name.push(name);
            table.lib.len() as u32 - 1
        })
    }
}
