//! A thread with its tables.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::aggregate::{FrameId, FunctionId, StackId, Stacks};
use crate::export::{Source, UNKNOWN};

use super::tables::{Libs, Strings};
use super::{Of, Time};

/// JavaScript keeps integers up to here.
const EXACT: u64 = 1 << 53;
/// The kind of a resource that is a library.
const LIBRARY: u32 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirefoxThread {
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    name: String,
    is_main_thread: bool,
    process_name: String,
    pid: String,
    tid: u64,
    samples: Samples,
    markers: Markers,
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    native_symbols: NativeSymbols,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    stack: Vec<Option<u32>>,
    time: Vec<f64>,
    weight: Vec<u64>,
    weight_type: &'static str,
    length: usize,
}

/// Nothing but samples is exported.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Markers {
    data: [(); 0],
    name: [(); 0],
    start_time: [(); 0],
    end_time: [(); 0],
    phase: [(); 0],
    category: [(); 0],
    length: usize,
}

#[derive(Default, Serialize)]
struct StackTable {
    frame: Vec<u32>,
    prefix: Vec<Option<u32>>,
    length: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    /// Relative to the library; -1 where it is not known or not exact in JavaScript.
    address: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<u32>,
    subcategory: Vec<u32>,
    func: Vec<u32>,
    native_symbol: Vec<Option<u32>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<u32>,
    line: Vec<Option<u32>>,
    column: Vec<Option<u32>>,
    length: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<u32>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    resource: Vec<u32>,
    source: Vec<Option<u32>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<Option<u32>>,
    length: usize,
}

#[derive(Default, Serialize)]
struct ResourceTable {
    length: usize,
    lib: Vec<u32>,
    name: Vec<u32>,
    host: Vec<Option<u32>>,
    #[serde(rename = "type")]
    kind: Vec<u32>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSymbols {
    lib_index: [(); 0],
    address: [(); 0],
    name: [(); 0],
    function_size: [(); 0],
    length: usize,
}

impl FirefoxThread {
    pub(super) fn new(
        source: &Source<'_>,
        of: &Of<'_>,
        time: Time,
        stacks: &mut StackIds,
        libs: &mut Libs<'_>,
        strings: &mut Strings,
    ) -> Self {
        let who = &source.counts.tasks[of.task as usize];
        stacks.clear();
        let mut tables = ThreadTables { source, libs, strings, stacks, made: Made::default() };
        let samples = samples(of, time, &mut tables);
        let Made { stacks, frames, functions, resources, .. } = tables.made;
        let several = source.events.len() > 1;
        let name = if several {
            format!("{} ({})", who.command, of.event.name)
        } else {
            who.command.to_string()
        };
        // Where threads are not told apart, a task stands for itself.
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
            process_name: of.process.to_owned(),
            pid: who.pid.map_or_else(|| format!("-{}", of.task), |pid| pid.to_string()),
            tid,
            samples,
            markers: Markers::default(),
            stack_table: stacks,
            frame_table: frames,
            func_table: functions,
            resource_table: resources,
            native_symbols: NativeSymbols::default(),
        }
    }

    /// Weight of all samples.
    pub(super) fn weight(&self) -> u64 {
        self.samples.weight.iter().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// Samples in the order of time.
fn samples(of: &Of<'_>, time: Time, tables: &mut ThreadTables<'_, '_, '_>) -> Samples {
    let mut samples = Samples { weight_type: "samples", ..Samples::default() };
    for of_block in of.by_block.chunk_by(|a, b| a.0 == b.0) {
        let part = 1.0 / of_block.len() as f64;
        for (at, (block, stack, weight)) in of_block.iter().enumerate() {
            let blocks = f64::from(*block) + (at as f64 + 0.5) * part;
            samples.stack.push(tables.stack(*stack));
            samples.time.push((blocks * time.block_ms * 1e6).round() / 1e6);
            samples.weight.push(*weight);
        }
    }
    samples.length = samples.stack.len();
    samples
}

/// Tables of one thread, with the indexes of what is in them already.
#[derive(Default)]
struct Made {
    stacks: StackTable,
    frames: FrameTable,
    functions: FuncTable,
    resources: ResourceTable,
    frame_ids: FxHashMap<(FrameId, u32), u32>,
    function_ids: FxHashMap<(u32, Option<FunctionId>), u32>,
    resource_ids: FxHashMap<u32, u32>,
}

/// What stacks are in the table of the thread at hand: a place for each stack, which all threads use.
pub(super) struct StackIds {
    /// Index, and depth of the frame where it is inlined.
    ids: Vec<(u32, u32)>,
    /// Stacks that have one.
    taken: Vec<StackId>,
}

/// The index of a stack that is not in the table.
const NOT_THERE: u32 = u32::MAX;

impl StackIds {
    pub(super) fn new(source: &Source<'_>) -> Self {
        Self { ids: vec![(NOT_THERE, 0); source.counts.stacks.len()], taken: Vec::new() }
    }

    fn clear(&mut self) {
        for stack in self.taken.drain(..) {
            self.ids[stack as usize].0 = NOT_THERE;
        }
    }

    fn get(&self, stack: StackId) -> Option<(u32, u32)> {
        Some(self.ids[stack as usize]).filter(|(index, _)| *index != NOT_THERE)
    }

    fn insert(&mut self, stack: StackId, id: (u32, u32)) {
        self.ids[stack as usize] = id;
        self.taken.push(stack);
    }
}

struct ThreadTables<'t, 's, 'l> {
    source: &'t Source<'s>,
    stacks: &'t mut StackIds,
    libs: &'t mut Libs<'l>,
    strings: &'t mut Strings,
    made: Made,
}

impl ThreadTables<'_, '_, '_> {
    /// Index of a stack; `None` of the empty one.
    fn stack(&mut self, stack: StackId) -> Option<u32> {
        let counts = self.source.counts;
        let mut missing = Vec::new();
        let mut at = stack;
        while at != Stacks::ROOT && self.stacks.get(at).is_none() {
            missing.push(at);
            at = counts.stacks.parent(at)?;
        }
        let mut parent = self.stacks.get(at);
        for stack in missing.into_iter().rev() {
            let frame = counts.stacks.frame(stack)?;
            let inlined = counts.frames[frame as usize].inlined;
            let depth = parent.filter(|_| inlined).map_or(0, |(_, depth)| depth + 1);
            let frame = self.frame(frame, depth);
            let table = &mut self.made.stacks;
            table.frame.push(frame);
            table.prefix.push(parent.map(|(index, _)| index));
            parent = Some((table.length as u32, depth));
            table.length += 1;
            self.stacks.insert(stack, parent?);
        }
        parent.map(|(index, _)| index)
    }

    fn frame(&mut self, frame: FrameId, depth: u32) -> u32 {
        if let Some(&id) = self.made.frame_ids.get(&(frame, depth)) {
            return id;
        }
        let of = &self.source.counts.frames[frame as usize];
        let file = of.line.as_ref().map(|line| self.strings.file(&line.file));
        let function = self.function(of.module, of.function, file);
        let address = of.address.filter(|&address| address < EXACT);
        let table = &mut self.made.frames;
        table.address.push(address.map_or(-1, u64::cast_signed));
        table.inline_depth.push(depth);
        table.category.push(self.libs.kind(of.module) as u32);
        table.subcategory.push(0);
        table.func.push(function);
        table.native_symbol.push(None);
        table.inner_window_id.push(0);
        table.line.push(of.line.as_ref().and_then(|line| line.number));
        table.column.push(None);
        let id = table.length as u32;
        table.length += 1;
        self.made.frame_ids.insert((frame, depth), id);
        id
    }

    fn function(&mut self, module: u32, function: Option<FunctionId>, file: Option<u32>) -> u32 {
        if let Some(&id) = self.made.function_ids.get(&(module, function)) {
            return id;
        }
        let name = match function {
            Some(id) => self.strings.id(&self.source.counts.functions[id as usize].name),
            None => self.strings.id(UNKNOWN),
        };
        let resource = self.resource(module);
        let table = &mut self.made.functions;
        table.name.push(name);
        table.is_js.push(false);
        table.relevant_for_js.push(false);
        table.resource.push(resource);
        table.source.push(file);
        table.line_number.push(None);
        table.column_number.push(None);
        let id = table.length as u32;
        table.length += 1;
        self.made.function_ids.insert((module, function), id);
        id
    }

    fn resource(&mut self, module: u32) -> u32 {
        if let Some(&id) = self.made.resource_ids.get(&module) {
            return id;
        }
        let table = &mut self.made.resources;
        table.lib.push(self.libs.id(module));
        table.name.push(self.strings.id(self.source.module_name(module)));
        table.host.push(None);
        table.kind.push(LIBRARY);
        let id = table.length as u32;
        table.length += 1;
        self.made.resource_ids.insert(module, id);
        id
    }
}
