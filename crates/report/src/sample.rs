//! Counts made by hand, for the tests of pictures and pages.

use pmuscope_profile::aggregate::{
    Aggregate, BlockCount, CodeFrame, FrameId, Function, SampleCell, Series, StackId, Stacks, Task,
    Timeline,
};
use pmuscope_profile::export::{About, ExportedEvent, Source};
use pmuscope_profile::{CpuLosses, ModuleKind, ModuleSummary, SymbolState};
use pmuscope_symbols::BuildId;

#[derive(Debug, Clone)]
pub(crate) struct MadeSample {
    pub(crate) counts: Aggregate,
    pub(crate) modules: Vec<ModuleSummary>,
    pub(crate) events: Vec<ExportedEvent>,
    pub(crate) losses: Vec<CpuLosses>,
    counted: Vec<(u32, BlockCount)>,
}

impl MadeSample {
    fn new() -> Self {
        let module = |kind, path: &str, symbols| {
            let build_id = (kind == ModuleKind::File).then(|| BuildId::new(&[0xab; 20]).unwrap());
            ModuleSummary { kind, path: path.into(), build_id, mapped: None, symbols }
        };
        Self {
            counts: Aggregate {
                timeline: Timeline { start: 7, block_ns: 50_000_000, blocks: 40 },
                ..Aggregate::default()
            },
            modules: vec![
                module(ModuleKind::Other, "[unknown]", SymbolState::NotMapped),
                module(ModuleKind::File, "/usr/bin/my app", SymbolState::Found),
                module(ModuleKind::Kernel, "[kernel.kallsyms]", SymbolState::Found),
                module(ModuleKind::File, "/opt/=1.so", SymbolState::NoSymbols),
            ],
            events: vec![ExportedEvent {
                name: "cpu-clock".into(),
                period: Some(1_000_000),
                ..ExportedEvent::default()
            }],
            losses: Vec::new(),
            counted: Vec::new(),
        }
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            counts: &self.counts,
            modules: &self.modules,
            events: self.events.clone(),
            losses: &self.losses,
            about: About::default(),
        }
    }

    fn frame(&mut self, name: &str, module: u32, inlined: bool) -> FrameId {
        let function = (!name.is_empty()).then(|| {
            self.counts.functions.push(Function { name: name.into(), module, overloads: 0 });
            self.counts.functions.len() as u32 - 1
        });
        self.counts.frames.push(CodeFrame {
            function,
            module,
            address: Some(16),
            line: None,
            inlined,
        });
        self.counts.frames.len() as FrameId - 1
    }

    fn task(&mut self, command: &str) -> u32 {
        self.counts.tasks.push(Task { command: command.into(), pid: None, tid: None });
        self.counts.tasks.len() as u32 - 1
    }

    /// Samples in blocks one after the other; cells must come in the order of their stacks.
    fn cell(&mut self, stack: StackId, task: u32, cpu: u32, samples: u64, first: u32) {
        let cell = self.counts.cells.len() as u32;
        for at in 0..samples as u32 {
            let block = (first + at) % 40;
            self.counted.push((cell, BlockCount { block, samples: 1, weight: 1 }));
        }
        self.counts.series = Series::from_counts(self.counted.iter().copied());
        let cpu = Some(cpu);
        self.counts.cells.push(SampleCell { event: 0, stack, task, cpu, samples, weight: samples });
    }
}

/// A program that calls itself, the kernel and an inlined function; and one with a hostile name.
pub(crate) fn made() -> MadeSample {
    let mut made = MadeSample::new();
    let [main, recurse, copy, kernel, nameless] = [
        ("main", 1, false),
        ("recurse", 1, false),
        ("memcpy<T>", 1, true),
        ("copy_page", 2, false),
        ("", 3, false),
    ]
    .map(|(name, module, inlined)| made.frame(name, module, inlined));
    let (app, evil) = (made.task("my app"), made.task("<b>evil</b>"));
    let stacks = &mut made.counts.stacks;
    let main = stacks.push(Stacks::ROOT, main);
    let first = stacks.push(main, recurse);
    let second = stacks.push(first, recurse);
    let copy = stacks.push(main, copy);
    let page = stacks.push(copy, kernel);
    let evil_stack = stacks.push(Stacks::ROOT, nameless);
    made.cell(main, app, 0, 10, 0);
    made.cell(second, app, 0, 30, 5);
    made.cell(copy, app, 1, 35, 0);
    made.cell(page, app, 1, 25, 10);
    made.cell(evil_stack, evil, 3, 20, 20);
    made
}

/// A function that calls itself so often.
pub(crate) fn recursion(depth: usize) -> MadeSample {
    let mut made = MadeSample::new();
    let frame = made.frame("recurse", 1, false);
    let task = made.task("deep");
    let stacks = &mut made.counts.stacks;
    let stack = (0..depth).fold(Stacks::ROOT, |parent, _| stacks.push(parent, frame));
    made.cell(stack, task, 0, 1, 0);
    made
}

/// A thread that reads, parses and reads again, each from within a block of time to within another; and one that logs.
pub(crate) fn phases() -> MadeSample {
    let mut made = MadeSample::new();
    let [main, read, parse] = ["main", "read", "parse"].map(|name| made.frame(name, 1, false));
    let (worker, logger) = (made.task("worker"), made.task("logger"));
    (made.counts.tasks[0].tid, made.counts.tasks[1].tid) = (Some(7), Some(9));
    let stacks = &mut made.counts.stacks;
    let main = stacks.push(Stacks::ROOT, main);
    let [read, parse] = [read, parse].map(|frame| stacks.push(main, frame));
    made.cell(main, worker, 0, 1, 5);
    made.cell(main, logger, 1, 3, 0);
    made.cell(read, worker, 0, 2, 0);
    made.cell(read, worker, 1, 1, 2);
    made.cell(parse, worker, 0, 2, 1);
    made
}

/// Stacks of functions in a command, the outermost first, with their samples. Each frame is a function of its own,
/// whatever its name.
pub(crate) fn of_stacks(stacks: &[(String, Vec<String>, u64)]) -> MadeSample {
    let mut made = MadeSample::new();
    for (command, functions, samples) in stacks {
        let task = made.task(command);
        let mut stack = Stacks::ROOT;
        for function in functions {
            let frame = made.frame(function, 1, false);
            stack = made.counts.stacks.push(stack, frame);
        }
        made.cell(stack, task, 0, *samples, 0);
    }
    made
}
