//! What samples point to, numbered in the order in which it is met: locations, functions and texts.

use rustc_hash::FxHashMap;

use crate::aggregate::{FrameId, FunctionId, StackId, TaskId};
use crate::export::Source;
use crate::export::protobuf::Message;
use crate::pool::{available_threads, in_parallel};

use super::first_met::{FirstMet, Met, location_end};
use super::mappings::Mappings;
use super::samples::{SampleKey, SampleRange};
use super::{profile, sample_field};

/// Everything once, by number.
pub(super) struct SampleTables<'a> {
    source: &'a Source<'a>,
    pub(super) strings: Strings,
    pub(super) mappings: Mappings,
    functions: FxHashMap<FunctionId, u64>,
    /// Locations of frames that nothing is inlined into, by frame; 0 where there is none yet.
    plain: Vec<u32>,
    /// Locations of those inlined somewhere and the one that holds them, the innermost first.
    inlined: FxHashMap<Vec<FrameId>, u32>,
    locations: u32,
    /// By frame.
    is_inlined: Vec<bool>,
    /// Labels of each task; empty where it has no sample.
    tasks: Vec<Vec<u8>>,
    cpus: FxHashMap<u32, Vec<u8>>,
    /// Messages of locations and functions, in the order in which they were met.
    pub(super) messages: Message,
}

/// Texts by number; 0 is the empty one.
#[derive(Default)]
pub(super) struct Strings {
    pub(super) list: Vec<Box<str>>,
    known: FxHashMap<Box<str>, u64>,
}

impl Strings {
    pub(super) fn id(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        self.list.push(text.into());
        let id = self.list.len() as u64;
        self.known.insert(text.into(), id);
        id
    }
}

impl<'a> SampleTables<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            strings: Strings::default(),
            mappings: Mappings::new(source),
            functions: FxHashMap::default(),
            plain: vec![0; source.counts.frames.len()],
            inlined: FxHashMap::default(),
            locations: 0,
            is_inlined: source.counts.frames.iter().map(|frame| frame.inlined).collect(),
            tasks: vec![Vec::new(); source.counts.tasks.len()],
            cpus: FxHashMap::default(),
            messages: Message::default(),
        }
    }

    /// Numbers all that samples point to, in their order.
    pub(super) fn number(&mut self, samples: SampleRange<'_>) {
        let mut blocks = samples.blocks();
        let size = blocks.len().div_ceil(available_threads()).max(1);
        let parts = std::iter::from_fn(|| {
            let part: Vec<SampleRange<'_>> = blocks.drain(..size.min(blocks.len())).collect();
            (!part.is_empty()).then_some(part)
        });
        let source = self.source;
        let met = in_parallel(parts, |part| FirstMet::new(source).all(part));
        for one in met.into_iter().flatten() {
            match one {
                Met::Frame(frame) => drop(self.location(&[frame])),
                Met::Inlined(frames) => drop(self.location(&frames)),
                Met::Task(task) if self.tasks[task as usize].is_empty() => {
                    self.tasks[task as usize] = self.task_labels(task);
                }
                Met::Cpu(cpu) if !self.cpus.contains_key(&cpu) => {
                    let label = self.number_label("cpu", cpu.into());
                    self.cpus.insert(cpu, label);
                }
                Met::Task(_) | Met::Cpu(_) => {}
            }
        }
    }

    /// Hands out the number of a stack's innermost location, and returns the stack that called it; `None` of the
    /// empty one. `frames` is room for the frames of a location.
    #[inline]
    pub(super) fn innermost(
        &self,
        stack: StackId,
        frames: &mut Vec<FrameId>,
    ) -> Option<(u32, StackId)> {
        let stacks = &self.source.counts.stacks;
        let (frame, parent) = stacks.frame(stack).zip(stacks.parent(stack))?;
        if !self.is_inlined[frame as usize] {
            return Some((self.plain[frame as usize], parent));
        }
        let caller = location_end(self.source, stack, frames);
        let location = match frames[..] {
            [frame] => self.plain[frame as usize],
            _ => self.inlined.get(&frames[..]).copied().unwrap_or(0),
        };
        Some((location, caller))
    }

    /// Labels of a sample, as they stand in it: of its task, and of its CPU.
    pub(super) fn labels(&self, (_, task, cpu): SampleKey) -> [&[u8]; 2] {
        let of_cpu = cpu.and_then(|cpu| self.cpus.get(&cpu));
        [&self.tasks[task as usize], of_cpu.map_or(&[], |label| label)]
    }

    fn task_labels(&mut self, task: TaskId) -> Vec<u8> {
        let task = &self.source.counts.tasks[task as usize];
        let mut label = Message::default();
        label.number(1, self.strings.id("command")).number(2, self.strings.id(&task.command));
        let mut labels = Message::default().message(sample_field::LABEL, &label).take();
        for (name, number) in [("pid", task.pid), ("tid", task.tid)] {
            if let Some(number) = number {
                labels.extend(self.number_label(name, number.into()));
            }
        }
        labels
    }

    fn number_label(&mut self, name: &str, number: i64) -> Vec<u8> {
        let mut label = Message::default();
        label.number(1, self.strings.id(name)).signed(3, number);
        Message::default().message(sample_field::LABEL, &label).take()
    }

    /// The location of frames: one, or those inlined there and the one that holds them.
    fn location(&mut self, frames: &[FrameId]) -> u32 {
        let known = match frames {
            [frame] => Some(self.plain[*frame as usize]).filter(|&id| id > 0),
            _ => self.inlined.get(frames).copied(),
        };
        known.unwrap_or_else(|| self.new_location(frames))
    }

    fn new_location(&mut self, frames: &[FrameId]) -> u32 {
        self.locations += 1;
        let id = self.locations;
        match frames {
            [frame] => self.plain[*frame as usize] = id,
            _ => drop(self.inlined.insert(frames.to_vec(), id)),
        }
        let counts = self.source.counts;
        let mut location = Message::default();
        location.number(1, id.into());
        if let Some(holder) = frames.last().map(|&frame| &counts.frames[frame as usize]) {
            location.number(2, self.mappings.id(holder.module));
            location.number(3, holder.address.unwrap_or(0));
        }
        for &frame in frames {
            let frame = &counts.frames[frame as usize];
            let Some(function) = frame.function else { continue };
            let number = frame.line.as_ref().and_then(|line| line.number).unwrap_or(0);
            let file = frame.line.as_ref().map(|line| &*line.file);
            let mut line = Message::default();
            line.number(1, self.function(function, file)).number(2, number.into());
            location.message(4, &line);
        }
        self.messages.message(profile::LOCATION, &location);
        id
    }

    fn function(&mut self, function: FunctionId, file: Option<&str>) -> u64 {
        if let Some(&id) = self.functions.get(&function) {
            return id;
        }
        let next = self.functions.len() as u64 + 1;
        self.functions.insert(function, next);
        let name = self.strings.id(&self.source.counts.functions[function as usize].name);
        let mut message = Message::default();
        message.number(1, next).number(2, name).number(3, name);
        message.number(4, self.strings.id(file.unwrap_or_default()));
        self.messages.message(profile::FUNCTION, &message);
        next
    }
}
