//! Counts made by hand, for the tests of all formats.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pmuscope_symbols::{BuildId, Line};
use proptest::prelude::*;

use super::{About, ExportedEvent, Source};
use crate::aggregate::{
    Aggregate, BlockCount, CodeFrame, FrameId, Function, FunctionId, SampleCell, Series, StackId,
    Stacks, Task, TaskId, Timeline,
};
use crate::profile::ModuleSummary;
use crate::timeline::modules::ModuleKind;
use crate::{SymbolState, export};

/// Counts and what they point to.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) counts: Aggregate,
    pub(crate) modules: Vec<ModuleSummary>,
    events: Vec<ExportedEvent>,
}

impl Made {
    pub(crate) fn events(&self) -> &[ExportedEvent] {
        &self.events
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            counts: &self.counts,
            modules: &self.modules,
            events: self.events.clone(),
            losses: &[],
            about: About {
                started_unix_ns: Some(1_700_000_000_000_000_000),
                duration_s: Some(2.0),
                command: vec!["pmuscope".into(), "record".into()],
                cpus: Some(2),
                ..About::default()
            },
        }
    }
}

/// Event, stack, task, CPU; then block; samples and weight.
type Hits = BTreeMap<(u32, StackId, TaskId, Option<u32>), BTreeMap<u32, (u32, u64)>>;

/// Counts in the making.
#[derive(Default)]
pub(crate) struct Builder {
    counts: Aggregate,
    known: HashMap<(StackId, FrameId), StackId>,
    hits: Hits,
}

impl Builder {
    pub(crate) fn function(&mut self, name: &str, module: u32) -> FunctionId {
        self.counts.functions.push(Function { name: name.into(), module, overloads: 0 });
        self.counts.functions.len() as FunctionId - 1
    }

    pub(crate) fn frame(&mut self, frame: CodeFrame) -> FrameId {
        self.counts.frames.push(frame);
        self.counts.frames.len() as FrameId - 1
    }

    /// A frame of a new function, at an address of its own.
    fn named(&mut self, name: &str, module: u32) -> FrameId {
        let function = Some(self.function(name, module));
        let address = Some(0x1000 + 16 * self.counts.frames.len() as u64);
        self.frame(CodeFrame { function, module, address, line: None, inlined: false })
    }

    /// The outermost frame first.
    pub(crate) fn stack(&mut self, frames: &[FrameId]) -> StackId {
        let counts = &mut self.counts;
        frames.iter().fold(Stacks::ROOT, |parent, &frame| {
            *self.known.entry((parent, frame)).or_insert_with(|| counts.stacks.push(parent, frame))
        })
    }

    pub(crate) fn task(&mut self, command: &str, pid: i32, tid: i32) -> TaskId {
        let command: Arc<str> = command.into();
        self.counts.tasks.push(Task { command, pid: Some(pid), tid: Some(tid) });
        self.counts.tasks.len() as TaskId - 1
    }

    fn hit(&mut self, cell: (u32, StackId, TaskId, Option<u32>), block: u32, samples: u32) {
        let count = self.hits.entry(cell).or_default().entry(block).or_default();
        count.0 += samples;
        count.1 += u64::from(samples) * 1_000_000;
    }

    pub(crate) fn finish(mut self, blocks: u32) -> Aggregate {
        let counts = &mut self.counts;
        counts.timeline = Timeline { start: 5_000_000_000, block_ns: 50_000_000, blocks };
        let mut counted = Vec::new();
        for ((event, stack, task, cpu), by_block) in self.hits {
            let cell = counts.cells.len() as u32;
            let samples = by_block.values().map(|count| u64::from(count.0)).sum();
            let weight = by_block.values().map(|count| count.1).sum();
            let count = |(block, (samples, weight))| BlockCount { block, samples, weight };
            counted.extend(by_block.into_iter().map(|one| (cell, count(one))));
            counts.cells.push(SampleCell { event, stack, task, cpu, samples, weight });
        }
        counts.series = Series::from_counts(counted);
        self.counts
    }
}

fn module(kind: ModuleKind, path: &str) -> ModuleSummary {
    let build_id = (kind == ModuleKind::File).then(|| BuildId::new(&[0xab; 20]).unwrap());
    ModuleSummary { kind, path: path.into(), build_id, mapped: None, symbols: SymbolState::Found }
}

fn made_modules() -> Vec<ModuleSummary> {
    vec![
        module(ModuleKind::Other, export::UNKNOWN),
        module(ModuleKind::File, "/usr/bin/my app"),
        module(ModuleKind::Kernel, "[kernel.kallsyms]"),
        module(ModuleKind::File, "/opt/=1,\"x\".so"),
    ]
}

fn events() -> Vec<ExportedEvent> {
    let event = |index, name: &str, period| ExportedEvent {
        index,
        name: name.into(),
        period,
        ..ExportedEvent::default()
    };
    vec![event(0, "cpu-clock", Some(1_000_000)), event(1, "page-faults", Some(1))]
}

/// A program that calls itself, the kernel and an inlined function; and one whose names are hostile.
pub(crate) fn made() -> Made {
    let mut made = Builder::default();
    let main = made.named("main", 1);
    let recurse = made.named("recurse", 1);
    let line = Some(Line { file: "src/copy.c".into(), number: Some(42) });
    let function = Some(made.function("memcpy;x", 1));
    let copy =
        made.frame(CodeFrame { function, module: 1, address: Some(0x2000), line, inlined: true });
    let kernel = made.named("copy_page(struct page *)", 2);
    made.counts.frames[kernel as usize].address = Some(0xffff_ffff_8123_4567);
    let nameless = made.frame(CodeFrame {
        function: None,
        module: 3,
        address: Some(0x77),
        line: None,
        inlined: false,
    });
    let app = made.task("my app", 7, 7);
    let evil = made.task("<b>\"evil\";", 8, 9);
    let stacks = [
        (vec![main], 10),
        (vec![main, recurse, recurse], 30),
        (vec![main, copy], 35),
        (vec![main, copy, kernel], 25),
    ];
    for (frames, samples) in stacks {
        let stack = made.stack(&frames);
        for at in 0..samples {
            made.hit((0, stack, app, Some(at % 2)), at, 1);
        }
    }
    let stack = made.stack(&[nameless]);
    made.hit((0, stack, evil, Some(1)), 39, 20);
    made.hit((1, stack, evil, Some(0)), 3, 3);
    Made { counts: made.finish(40), modules: made_modules(), events: events() }
}

/// Any counts over a few functions.
pub(crate) fn arbitrary() -> impl Strategy<Value = Made> {
    let frames = proptest::collection::vec(0_u32..6, 1..6);
    let hit = (frames, 0_u32..2, 0_u32..3, proptest::option::of(0_u32..3), 0_u32..40, 1_u32..9);
    proptest::collection::vec(hit, 0..40).prop_map(|hits| {
        let mut made = Builder::default();
        for number in 0..6_u32 {
            let function = (number > 0).then(|| made.function(&format!("f{}", number / 2), 1));
            // Some frames are places of the same function.
            let function = if number == 3 { Some(1) } else { function };
            let (module, address) = (1 + number % 2, Some(u64::from(number) * 8));
            made.frame(CodeFrame { function, module, address, line: None, inlined: number == 4 });
        }
        for (tid, name) in ["a", "b", "a"].into_iter().enumerate() {
            made.task(name, 1, 1 + tid as i32);
        }
        for (frames, event, task, cpu, block, samples) in hits {
            let stack = made.stack(&frames);
            made.hit((event, stack, task, cpu), block, samples);
        }
        Made { counts: made.finish(40), modules: made_modules(), events: events() }
    })
}
