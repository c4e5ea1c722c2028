//! Places to symbols: every distinct address of every module is looked up once, all together.

use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::reader::{FileSymbols, Metadata};
use pmuscope_symbols::{
    BuildId, CodeOrigin, FileOrigin, GeneratedCode, Inode, KernelMatch, Module, Request, Resolved,
    State as SymbolState, Symbol, demangle,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::count::collect::{Collected, CountState};
use crate::count::counter::Counts;
use crate::count::sampled_addresses;
use crate::count::unwinding::Cut;
use crate::profile::ModuleSummary;
use crate::timeline::modules::{CUT, KERNEL, ModuleId, ModuleKey, ModuleKind, RecordedFiles};
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;

/// Looks up addresses: for each module with its addresses, each once and in order, one answer.
pub type Resolve<'a> = dyn FnMut(&[Request<'_>]) -> Vec<Resolved> + 'a;

/// Gives names to addresses.
pub trait Names {
    /// Before anything is looked up: a process left a description of the code that it made.
    fn jit_dump(&mut self, pid: i32, path: &Path);

    /// As [`Resolve`].
    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved>;
}

/// For those who know all addresses by themselves.
impl<F: FnMut(&[Request<'_>]) -> Vec<Resolved>> Names for F {
    fn jit_dump(&mut self, _: i32, _: &Path) {}

    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        self(requests)
    }
}

/// What places and modules came to.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) places: Places,
    /// By module, one per address.
    pub(crate) symbols: Vec<Vec<Option<Arc<Symbol>>>>,
    /// For each module the one that it counts as.
    pub(crate) same: Vec<ModuleId>,
    pub(crate) modules: Vec<ModuleSummary>,
}

/// Distinct places, numbered in the order of modules and addresses.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// By module, each address once and in order.
    pub(crate) addresses: Vec<Vec<u64>>,
    /// The number of each module's first.
    firsts: Vec<u32>,
}

impl Places {
    fn new(addresses: Vec<Vec<u64>>) -> Self {
        let firsts = addresses.iter().scan(0, |behind, addresses| {
            let first = *behind;
            *behind += addresses.len() as u32;
            Some(first)
        });
        Self { firsts: firsts.collect(), addresses }
    }

    /// The numbers of places of modules as they stand in `same`, quickly if they are in order.
    pub(crate) fn numbers(&self, places: &[ModuleAddress], same: &[ModuleId]) -> Vec<u32> {
        let mut next = (0, 0);
        let number = |place: &ModuleAddress| {
            let module = same[place.module as usize] as usize;
            let all = &self.addresses[module];
            let ahead = if next.0 == module { next.1 } else { 0 };
            let near = all[ahead..].iter().take(NEAR).position(|&other| other == place.address);
            let at = near.map(|at| ahead + at).or_else(|| all.binary_search(&place.address).ok());
            let at = at.unwrap_or(0); // each place is in it
            next = (module, at + 1);
            self.firsts[module] + at as u32
        };
        places.iter().map(number).collect()
    }
}

/// Places ahead of the last one among which the next is looked for, before it is searched for: where
/// counters have theirs in order it is one of them.
const NEAR: usize = 4;

/// Names all addresses that were hit; marks of places are used up.
pub(crate) fn name(
    collected: &mut Collected,
    metadata: &Metadata,
    kernel: KernelMatch,
    resolve: &mut Resolve<'_>,
) -> Named {
    let same = same_modules(&collected.state, metadata);
    let places = Places::new(match &mut collected.counted {
        CountState::All(counts) => distinct(counts, &same),
        CountState::Places(marks, _) => sampled_addresses::addresses(std::mem::take(marks), &same),
    });
    let found = look_up(&collected.state, &places.addresses, metadata, kernel, resolve);
    let (symbols, modules) = found.into_iter().unzip();
    Named { places, symbols, same, modules }
}

/// Symbols of addresses of all modules, as many as there are addresses, and what is known of the modules.
pub(crate) fn look_up(
    state: &Sideband,
    addresses: &[Vec<u64>],
    metadata: &Metadata,
    kernel: KernelMatch,
    resolve: &mut Resolve<'_>,
) -> Vec<(Vec<Option<Arc<Symbol>>>, ModuleSummary)> {
    let modules = state.modules.list();
    let ids = file_ids(metadata);
    let build_ids: Vec<Option<BuildId>> =
        modules.iter().map(|module| build_id(module, &ids)).collect();
    let mapped = mapped_files(state, metadata);
    let origins = code_origins(state, metadata);
    // What a process left describes the program that it executed last.
    let mut latest: FxHashMap<i32, u32> = FxHashMap::default();
    for module in modules {
        if let ModuleKind::Jit { pid } = module.kind {
            let last = latest.entry(pid).or_default();
            *last = (*last).max(module.incarnation);
        }
    }
    let of_kernel = modules.iter().map(|module| module.kind == ModuleKind::Kernel);
    let moved: Vec<Option<Moved>> = of_kernel
        .zip(addresses)
        .map(|(is_of_kernel, addresses)| Moved::new(kernel, addresses).filter(|_| is_of_kernel))
        .collect();
    let mut answers: Vec<Option<Resolved>> = Vec::new();
    let mut requests = Vec::new();
    let each = (0..).zip(modules).zip(addresses).zip(build_ids.iter().zip(&mapped));
    for (((number, module), addresses), (build_id, mapped)) in each {
        let answer = match (module.kind, kernel.state()) {
            _ if number == CUT => Some(named(addresses, |at| Cut::name(at, modules))),
            (ModuleKind::KernelLoaded, _) => Some(loaded(state, addresses)),
            (ModuleKind::Kernel, Some(state)) => match &moved[number as usize] {
                Some(moved) => {
                    let addresses = &moved.addresses;
                    requests.push(Request { module: Module::Kernel, addresses });
                    None
                }
                None => Some(without(state, addresses)),
            },
            (ModuleKind::Other, _) if module.is_special_mapping(number) => {
                Some(named(addresses, |_| String::from_utf8_lossy(&module.path).into_owned()))
            }
            (ModuleKind::Vdso, _) if !kernel.same_image() => {
                Some(without(SymbolState::OtherKernel, addresses))
            }
            (ModuleKind::Jit { pid }, _) if latest.get(&pid) != Some(&module.incarnation) => {
                Some(without(SymbolState::NoPerfMap, addresses))
            }
            _ => match with_origin(module.source(build_id.as_ref(), mapped.as_deref()), &origins) {
                Some(module) if !addresses.is_empty() => {
                    // Places of code by time are behind all addresses.
                    let by_address =
                        addresses.partition_point(|&at| at < GeneratedCode::FIRST_PLACE);
                    let is_code = matches!(module, Module::Jit { .. });
                    let end = if is_code { by_address } else { addresses.len() };
                    requests.push(Request { module, addresses: &addresses[..end] });
                    None
                }
                _ => Some(without(SymbolState::NotMapped, addresses)),
            },
        };
        answers.push(answer);
    }
    let mut resolved = resolve(&requests).into_iter();
    let each = answers.into_iter().zip(addresses).zip(&moved);
    let answers = each.map(|((answer, addresses), moved)| {
        let answer = answer.or_else(|| resolved.next());
        let mut answer = answer.unwrap_or_else(|| without(SymbolState::NotMapped, addresses));
        if let Some(moved) = moved {
            answer.symbols.splice(0..0, std::iter::repeat_n(None, moved.first));
        }
        // One per address, whatever came back.
        answer.symbols.resize(addresses.len(), None);
        answer
    });
    let mut answers: Vec<Resolved> = answers.collect();
    for ((number, addresses), answer) in (0..).zip(addresses).zip(&mut answers) {
        if let Some(code) = state.modules.code(number) {
            name_code(code, addresses, answer);
        }
    }
    ask_maps(state, &origins, addresses, &mut answers, resolve);
    let recorded = Recorded::new(metadata);
    for ((module, addresses), answer) in modules.iter().zip(addresses).zip(&mut answers) {
        recorded.fill(module, addresses, answer);
    }
    let summaries = modules.iter().zip(answers).zip(build_ids.into_iter().zip(mapped));
    let summary = |((module, answer), (build_id, mapped)): ((&ModuleKey, Resolved), _)| {
        let path = String::from_utf8_lossy(&module.path).into_owned();
        let (kind, symbols) = (module.kind, answer.state);
        (answer.symbols, ModuleSummary { kind, path, build_id, mapped, symbols })
    };
    summaries.map(summary).collect()
}

/// Addresses of the recorded kernel's text where the running kernel has the same functions.
struct Moved {
    /// Recorded addresses below the text.
    first: usize,
    addresses: Vec<u64>,
}

impl Moved {
    /// The part of ascending addresses in the text of a moved kernel; `None` if that is empty.
    fn new(kernel: KernelMatch, recorded: &[u64]) -> Option<Self> {
        let KernelMatch::Moved(shift) = kernel else { return None };
        let first = recorded.iter().position(|&at| shift.address(at).is_some())?;
        let addresses = recorded[first..].iter().map_while(|&at| shift.address(at)).collect();
        Some(Self { first, addresses })
    }
}

/// Names places of code by time.
fn name_code(code: &GeneratedCode, addresses: &[u64], answer: &mut Resolved) {
    let first = addresses.partition_point(|&at| at < GeneratedCode::FIRST_PLACE);
    let mut latest: Option<Arc<Symbol>> = None;
    for (&place, symbol) in addresses.iter().zip(&mut answer.symbols).skip(first) {
        let Some(found) = code.symbol(place) else { continue };
        // Neighbors share one.
        let known = latest.take().filter(|known| **known == found);
        *symbol = Some(Arc::clone(latest.insert(known.unwrap_or_else(|| Arc::new(found)))));
        answer.state = SymbolState::Found;
    }
}

/// Asks descriptions of generated code further: of a process that has none, those of the process that forked it; and of a
/// runtime's own file those of its processes, where the file has no name. V8 lists code of its file, too.
fn ask_maps(
    state: &Sideband,
    origins: &FxHashMap<i32, CodeOrigin>,
    addresses: &[Vec<u64>],
    answers: &mut [Resolved],
    resolve: &mut Resolve<'_>,
) {
    /// Unnamed addresses of a module, as a process has them, with their positions.
    struct MapRequest {
        module: usize,
        pid: i32,
        positions: Vec<usize>,
        addresses: Vec<u64>,
    }
    let modules = state.modules.list();
    let generating: FxHashSet<i32> = modules
        .iter()
        .filter_map(|module| match module.kind {
            ModuleKind::Jit { pid } => Some(pid),
            _ => None,
        })
        .collect();
    let asked = |(module, key): (usize, &ModuleKey)| {
        let answer = &answers[module];
        let (pid, bias) = match key.kind {
            ModuleKind::Jit { pid }
                if matches!(
                    answer.state,
                    SymbolState::NoPerfMap | SymbolState::StalePerfMap(_)
                ) =>
            {
                (state.tasks.forked_by(pid)?, 0)
            }
            ModuleKind::File => {
                let mut processes = state.modules.processes(module as ModuleId);
                processes.find(|(pid, _)| generating.contains(pid))?
            }
            _ => return None,
        };
        let unnamed = answer.symbols.iter().enumerate().filter(|(_, symbol)| symbol.is_none());
        let positions: Vec<usize> = unnamed.map(|(position, _)| position).collect();
        let address = |&position: &usize| addresses[module][position].wrapping_sub(bias);
        let addresses = positions.iter().map(address).collect();
        (!positions.is_empty()).then_some(MapRequest { module, pid, positions, addresses })
    };
    let questions: Vec<MapRequest> = modules.iter().enumerate().filter_map(asked).collect();
    if questions.is_empty() {
        return;
    }
    let request = |question| {
        let MapRequest { pid, addresses, .. }: &MapRequest = question;
        Request { module: Module::Jit { pid: *pid, origin: origins.get(pid) }, addresses }
    };
    let requests: Vec<Request<'_>> = questions.iter().map(request).collect();
    for (question, found) in questions.iter().zip(resolve(&requests)) {
        let answer = &mut answers[question.module];
        let found = question.positions.iter().zip(found.symbols);
        for (&position, symbol) in found.filter(|(_, symbol)| symbol.is_some()) {
            answer.symbols[position] = symbol;
            answer.state = SymbolState::Found;
        }
    }
}

/// Facts in the recording about processes that generated code, and about their parents.
fn code_origins(state: &Sideband, metadata: &Metadata) -> FxHashMap<i32, CodeOrigin> {
    let files = RecordedFiles::new(metadata);
    let generating = state.modules.list().iter().filter_map(|module| match module.kind {
        ModuleKind::Jit { pid } => Some(pid),
        _ => None,
    });
    let with_parents = generating.flat_map(|pid| [Some(pid), state.tasks.forked_by(pid)]);
    let origin = |pid: i32| (pid, files.code_of(pid, state.started(pid, metadata)));
    with_parents.flatten().map(origin).collect()
}

/// The same module with what is known of its process.
fn with_origin<'a>(
    module: Option<Module<'a>>,
    origins: &'a FxHashMap<i32, CodeOrigin>,
) -> Option<Module<'a>> {
    module.map(|module| match module {
        Module::Jit { pid, .. } => Module::Jit { pid, origin: origins.get(&pid) },
        other => other,
    })
}

/// What the recording says of each module that is a file.
fn mapped_files(state: &Sideband, metadata: &Metadata) -> Vec<Option<Arc<FileOrigin>>> {
    let files = RecordedFiles::new(metadata);
    let numbers = 0..state.modules.list().len() as ModuleId;
    numbers.map(|module| state.modules.mapped(module, &files).map(Arc::new)).collect()
}

/// Symbols that the recorder kept in the recording, because files may not be at hand later.
struct Recorded<'a> {
    by_path: FxHashMap<&'a [u8], &'a FileSymbols>,
    /// Those at the addresses where the code ran.
    absolute: Vec<&'a FileSymbols>,
    kernel: Vec<&'a FileSymbols>,
}

impl<'a> Recorded<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        let mut recorded =
            Self { by_path: FxHashMap::default(), absolute: Vec::new(), kernel: Vec::new() };
        for file in metadata.symbols.iter().filter(|file| !file.is_empty()) {
            if file.absolute {
                recorded.absolute.push(file);
            } else if file.path == KERNEL {
                recorded.kernel.push(file);
            } else {
                recorded.by_path.insert(&file.path, file);
            }
        }
        recorded
    }

    /// Names what nothing else named.
    fn fill(&self, module: &ModuleKey, addresses: &[u64], answer: &mut Resolved) {
        let own;
        let (files, absolute) = match module.kind {
            ModuleKind::Kernel => (&self.kernel[..], true),
            ModuleKind::Jit { .. } => (&self.absolute[..], true),
            _ => {
                own = self.by_path.get(&module.path[..]).copied();
                (own.as_slice(), false)
            }
        };
        if files.is_empty() {
            return;
        }
        let mut latest: Option<(&str, Arc<Symbol>)> = None;
        for (&address, symbol) in addresses.iter().zip(&mut answer.symbols) {
            let raw = |file: &&'a FileSymbols| {
                let bias = if absolute { 0 } else { file.bias };
                file.name(address.wrapping_add(bias))
            };
            let Some(raw) = files.iter().find_map(raw).filter(|_| symbol.is_none()) else {
                continue;
            };
            let known = latest.take().filter(|(name, _)| *name == raw);
            let (_, named) = latest
                .insert(known.unwrap_or_else(|| (raw, Arc::new(Symbol::named(demangle(raw))))));
            *symbol = Some(Arc::clone(named));
            answer.state = SymbolState::Found;
        }
    }
}

/// What `find` knows of data at addresses of all modules, or at groups of addresses, as many as there are of these.
pub(crate) fn objects<A, T: Clone>(
    state: &Sideband,
    addresses: &[Vec<A>],
    metadata: &Metadata,
    kernel: KernelMatch,
    find: impl Fn(&Module<'_>, &[A]) -> Vec<Option<T>>,
) -> Vec<Vec<Option<T>>> {
    let ids = file_ids(metadata);
    let mapped = mapped_files(state, metadata);
    let one = |((module, addresses), mapped): ((&ModuleKey, &Vec<A>), &Option<Arc<FileOrigin>>)| {
        let build_id = build_id(module, &ids);
        // Kernel addresses mean something only while it runs.
        let known = module.kind != ModuleKind::Kernel || kernel.state().is_none();
        let source = module.source(build_id.as_ref(), mapped.as_deref());
        let source = source.filter(|_| known && !addresses.is_empty());
        let found = source.map(|source| find(&source, addresses));
        found.unwrap_or_else(|| vec![None; addresses.len()])
    };
    state.modules.list().iter().zip(addresses).zip(&mapped).map(one).collect()
}

/// For each module the first one that is the same. The kernel tells a mapping's build id only where the
/// file's first page is in memory at that moment, so one file comes with its id and without; the table
/// at the end of the recording has it for both.
pub(crate) fn same_modules(state: &Sideband, metadata: &Metadata) -> Vec<u32> {
    let ids = file_ids(metadata);
    type Identity<'a> = (ModuleKind, &'a [u8], Option<BuildId>, Option<Inode>, u32);
    let mut first: FxHashMap<Identity<'_>, u32> = FxHashMap::default();
    let modules = state.modules.list().iter().zip(0..);
    let same = modules.map(|(module, number)| {
        let id = build_id(module, &ids);
        let inode = module.inode.filter(|_| id.is_none());
        *first.entry((module.kind, &module.path, id, inode, module.incarnation)).or_insert(number)
    });
    same.collect()
}

/// By module the addresses of all counters, each once and in order.
fn distinct(counts: &[Counts], same: &[ModuleId]) -> Vec<Vec<u64>> {
    let mut addresses = vec![Vec::new(); same.len()];
    for place in counts.iter().flat_map(|counts| counts.by.places()) {
        addresses[same[place.module as usize] as usize].push(place.address);
    }
    for addresses in &mut addresses {
        addresses.sort_unstable();
        addresses.dedup();
    }
    addresses
}

fn without(state: SymbolState, addresses: &[u64]) -> Resolved {
    Resolved { symbols: vec![None; addresses.len()], state }
}

/// Functions whose names the recording has: the address is the number of the name.
fn loaded(state: &Sideband, addresses: &[u64]) -> Resolved {
    named(addresses, |name| String::from_utf8_lossy(state.tasks.name(name as u32)).into_owned())
}

fn named(addresses: &[u64], name: impl Fn(u64) -> String) -> Resolved {
    let symbol = |&at: &u64| Some(Arc::new(Symbol::named(name(at).into())));
    Resolved { symbols: addresses.iter().map(symbol).collect(), state: SymbolState::Found }
}

/// Build ids by path, for mappings that came without.
fn file_ids(metadata: &Metadata) -> FxHashMap<&[u8], &[u8]> {
    metadata
        .build_ids
        .iter()
        .filter(|entry| !entry.kernel)
        .map(|entry| (&entry.path[..], &entry.id[..]))
        .collect()
}

fn build_id(module: &ModuleKey, ids: &FxHashMap<&[u8], &[u8]>) -> Option<BuildId> {
    let id = module.build_id.as_deref().or_else(|| ids.get(&module.path[..]).copied())?;
    BuildId::new(id).ok()
}
