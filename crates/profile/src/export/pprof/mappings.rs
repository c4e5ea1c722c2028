//! Mappings: modules with the range of addresses that samples hit.

use rustc_hash::FxHashMap;

use crate::export::protobuf::Message;
use crate::export::{Source, UNKNOWN};
use crate::timeline::modules::ModuleKind;

use super::tables::Strings;

/// Length of the name of a thread in the kernel, without the zero at its end.
const LONGEST_COMMAND: usize = 15;
/// A mapping is made of pages.
const PAGE: u64 = 4096;

/// Modules that were hit, the program first: pprof takes its name from the first mapping.
pub(super) struct Mappings {
    /// In the order of their numbers, which start at 1.
    pub(super) modules: Vec<u32>,
    ids: FxHashMap<u32, u64>,
}

impl Mappings {
    pub(super) fn new(source: &Source<'_>) -> Self {
        let mut modules: Vec<u32> = source.counts.frames.iter().map(|frame| frame.module).collect();
        modules.sort_unstable();
        modules.dedup();
        if let Some(program) = program(source) {
            modules.sort_by_key(|&module| module != program);
        }
        let ids = modules.iter().zip(1..).map(|(&module, id)| (module, id)).collect();
        Self { modules, ids }
    }

    pub(super) fn id(&self, module: u32) -> u64 {
        self.ids.get(&module).copied().unwrap_or(0)
    }

    pub(super) fn messages(&self, source: &Source<'_>, strings: &mut Strings) -> Vec<Message> {
        let mut ranges: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for frame in &source.counts.frames {
            let Some(address) = frame.address else { continue };
            let range = ranges.entry(frame.module).or_insert((address, address));
            *range = (range.0.min(address), range.1.max(address));
        }
        let message = |&module: &u32| {
            let (low, high) = ranges.get(&module).copied().unwrap_or((0, 0));
            let start = low / PAGE * PAGE;
            let summary = source.modules.get(module as usize);
            let path = summary.map_or(UNKNOWN, |module| module.path.as_str());
            let build_id = summary.and_then(|module| module.build_id.as_ref());
            let build_id = build_id.map_or_else(String::new, ToString::to_string);
            let mut message = Message::default();
            message
                .number(1, self.id(module))
                .number(2, start)
                .number(3, (high / PAGE).saturating_add(1).saturating_mul(PAGE))
                .number(4, start)
                .number(5, strings.id(path))
                .number(6, strings.id(&build_id));
            // Names, files, lines and inlined functions: what could be found is in the locations.
            for has in 7..=10 {
                message.number(has, 1);
            }
            message
        };
        self.modules.iter().map(message).collect()
    }
}

/// The file that the commands are named after, else the one with the most samples.
pub(super) fn program(source: &Source<'_>) -> Option<u32> {
    let event = source.main_event()?;
    let is_file = |module: &u32| {
        source.modules.get(*module as usize).is_some_and(|module| module.kind == ModuleKind::File)
    };
    let counts = source.counts;
    let mut weights: FxHashMap<u32, u64> = FxHashMap::default();
    for cell in counts.of_event(event.index) {
        if let Some(frame) = counts.stacks.frame(cell.stack) {
            let weight = weights.entry(counts.frames[frame as usize].module).or_default();
            *weight = weight.saturating_add(event.value(cell));
        }
    }
    let mut files: Vec<(u32, u64)> =
        weights.into_iter().filter(|(module, _)| is_file(module)).collect();
    files.sort_unstable_by_key(|&(module, weight)| (std::cmp::Reverse(weight), module));
    let files: Vec<u32> = files.into_iter().map(|(module, _)| module).collect();
    let is_command = |module: &&u32| {
        let name = source.module_name(**module);
        let name = name.get(..LONGEST_COMMAND.min(name.len())).unwrap_or(name);
        source.counts.tasks.iter().any(|task| &*task.command == name)
    };
    files.iter().find(is_command).or(files.first()).copied()
}
