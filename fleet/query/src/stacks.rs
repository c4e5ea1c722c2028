//! Stacks of a fleet as a profile's counts, for flame graphs and for files of other programs.

use std::sync::Arc;

use pmuscope_profile::aggregate::{
    Aggregate, CodeFrame, FrameId, Function, FunctionId, SampleCell, StackId, Stacks, Task, TaskId,
};
use pmuscope_profile::export::{About, ExportedEvent, Source};
use pmuscope_profile::{ModuleKind, ModuleSummary, SymbolState};
use rustc_hash::FxHashMap;

use crate::engine::{Engine, QueryError};
use crate::question::NamedQuestion;

/// Counts of stacks; services are their commands.
#[derive(Debug, Default)]
pub struct FleetStacks {
    counts: Aggregate,
    modules: Vec<ModuleSummary>,
    event: ExportedEvent,
}

impl FleetStacks {
    /// The counts, for what draws or exports them.
    #[must_use]
    pub fn source(&self) -> Source<'_> {
        Source {
            counts: &self.counts,
            modules: &self.modules,
            events: vec![self.event.clone()],
            losses: &[],
            about: About::default(),
        }
    }

    /// Samples in it.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.event.samples
    }
}

/// The largest stacks of the engine's selection, of this event.
///
/// # Errors
/// Those of the engine.
pub fn stacks(engine: &Engine, event: &str, limit: u64) -> Result<FleetStacks, QueryError> {
    let rows = engine.rows(&NamedQuestion::Stacks.sql(&[], limit))?;
    let (services, ids) = (rows.texts("service")?, rows.numbers("stack_id")?);
    let (weights, samples) = (rows.numbers("weight")?, rows.numbers("samples")?);
    let (functions, modules) = (rows.optional_texts("function")?, rows.texts("module")?);
    let (addresses, inline_depths) =
        (rows.optional_numbers("address")?, rows.numbers("inline_depth")?);
    let mut making = StackCounts::default();
    let mut at = 0;
    while at < ids.len() {
        // Rows of one stack of one service follow one another, the outermost frame first.
        let is_same = |row: usize| ids[row] == ids[at] && services[row] == services[at];
        let end = (at..ids.len()).find(|&row| !is_same(row)).unwrap_or(ids.len());
        let mut stack = Stacks::ROOT;
        for row in at..end {
            let module = making.module(&modules[row]);
            let frame = making.frame(&NamedFrame {
                function: functions[row].as_deref().filter(|name| !name.is_empty()),
                module,
                address: addresses[row],
                inlined: inline_depths[row] > 0,
            });
            stack = making.stack(stack, frame);
        }
        making.count(stack, &services[at], weights[at], samples[at]);
        at = end;
    }
    Ok(making.finish(event))
}

/// A frame as a row has it.
struct NamedFrame<'a> {
    function: Option<&'a str>,
    module: u32,
    address: Option<i64>,
    inlined: bool,
}

/// Counts in the making: each thing once.
#[derive(Default)]
struct StackCounts {
    counts: Aggregate,
    modules: Vec<ModuleSummary>,
    known_modules: FxHashMap<String, u32>,
    known_functions: FxHashMap<(Arc<str>, u32), FunctionId>,
    known_frames: FxHashMap<CodeFrame, FrameId>,
    known_stacks: FxHashMap<(StackId, FrameId), StackId>,
    known_tasks: FxHashMap<Arc<str>, TaskId>,
    sums: FxHashMap<(StackId, TaskId), (u64, u64)>,
}

impl StackCounts {
    /// Modules of one path are one, without a build id: builds differ from host to host.
    fn module(&mut self, path: &str) -> u32 {
        if let Some(&known) = self.known_modules.get(path) {
            return known;
        }
        let kind = match path {
            "[vdso]" => ModuleKind::Vdso,
            _ if path.starts_with("[kernel") => ModuleKind::Kernel,
            _ if path.starts_with('[') => ModuleKind::Other,
            _ => ModuleKind::File,
        };
        let number = self.modules.len() as u32;
        self.modules.push(ModuleSummary {
            kind,
            path: path.to_owned(),
            build_id: None,
            mapped: None,
            symbols: SymbolState::Found,
        });
        self.known_modules.insert(path.to_owned(), number);
        number
    }

    /// Places in one function are one; where there is none, addresses are told apart.
    fn frame(&mut self, named: &NamedFrame<'_>) -> FrameId {
        let &NamedFrame { function, module, address, inlined } = named;
        let function = function.map(|name| self.function(name, module));
        let address = address.filter(|_| function.is_none()).map(|address| address as u64);
        let frame = CodeFrame { function, module, address, line: None, inlined };
        let frames = &mut self.counts.frames;
        *self.known_frames.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            (frames.len() - 1) as FrameId
        })
    }

    fn function(&mut self, name: &str, module: u32) -> FunctionId {
        let key = (Arc::from(name), module);
        let functions = &mut self.counts.functions;
        *self.known_functions.entry(key).or_insert_with_key(|(name, module)| {
            functions.push(Function { name: Arc::clone(name), module: *module, overloads: 0 });
            (functions.len() - 1) as FunctionId
        })
    }

    fn stack(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let stacks = &mut self.counts.stacks;
        *self.known_stacks.entry((parent, frame)).or_insert_with(|| stacks.push(parent, frame))
    }

    fn count(&mut self, stack: StackId, service: &str, weight: i64, samples: i64) {
        let tasks = &mut self.counts.tasks;
        let task = *self.known_tasks.entry(Arc::from(service)).or_insert_with_key(|name| {
            tasks.push(Task { command: Arc::clone(name), pid: None, tid: None });
            (tasks.len() - 1) as TaskId
        });
        let sum = self.sums.entry((stack, task)).or_default();
        sum.0 += u64::try_from(samples).unwrap_or(0);
        sum.1 += u64::try_from(weight).unwrap_or(0);
    }

    fn finish(mut self, event: &str) -> FleetStacks {
        let cell = |((stack, task), (samples, weight)): ((StackId, TaskId), (u64, u64))| {
            SampleCell { event: 0, stack, task, cpu: None, samples, weight }
        };
        let mut cells: Vec<SampleCell> = self.sums.into_iter().map(cell).collect();
        cells.sort_unstable_by_key(|cell| (cell.stack, cell.task));
        let samples = cells.iter().map(|cell| cell.samples).sum();
        self.counts.cells = cells;
        let event = ExportedEvent {
            name: event.to_owned(),
            by_period: true,
            samples,
            ..ExportedEvent::default()
        };
        FleetStacks { counts: self.counts, modules: self.modules, event }
    }
}
