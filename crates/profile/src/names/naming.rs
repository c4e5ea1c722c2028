//! Places to symbols: every distinct address of every module is looked up once, all together.

use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::reader::{FileSymbols, Metadata};
use pmuscope_symbols::{
    BuildId, KernelMatch, Module, Request, Resolved, State as SymbolState, Symbol, demangle,
};
use rustc_hash::FxHashMap;

use crate::count::collect::{Collected, CountState};
use crate::count::counter::Counts;
use crate::count::sampled_addresses;
use crate::count::unwinding::Cut;
use crate::profile::ModuleSummary;
use crate::timeline::modules::{CUT, KERNEL, ModuleId, ModuleKey, ModuleKind};
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
    let mut answers: Vec<Option<Resolved>> = Vec::new();
    let mut requests = Vec::new();
    let each = (0..).zip(modules).zip(addresses).zip(&build_ids);
    for (((number, module), addresses), build_id) in each {
        let answer = match (module.kind, kernel.state()) {
            _ if number == CUT => Some(named(addresses, |at| Cut::name(at, modules))),
            (ModuleKind::KernelLoaded, _) => Some(loaded(state, addresses)),
            (ModuleKind::Kernel, Some(state)) => Some(without(state, addresses)),
            (ModuleKind::Vdso, _) if !kernel.same_image() => {
                Some(without(SymbolState::OtherKernel, addresses))
            }
            _ => match module.source(build_id.as_ref()) {
                Some(module) if !addresses.is_empty() => {
                    requests.push(Request { module, addresses });
                    None
                }
                _ => Some(without(SymbolState::NotMapped, addresses)),
            },
        };
        answers.push(answer);
    }
    let mut resolved = resolve(&requests).into_iter();
    let answers = answers.into_iter().zip(addresses).map(|(answer, addresses)| {
        let answer = answer.or_else(|| resolved.next());
        let mut answer = answer.unwrap_or_else(|| without(SymbolState::NotMapped, addresses));
        // One per address, whatever came back.
        answer.symbols.resize(addresses.len(), None);
        answer
    });
    let mut answers: Vec<Resolved> = answers.collect();
    let recorded = Recorded::new(metadata);
    for ((module, addresses), answer) in modules.iter().zip(addresses).zip(&mut answers) {
        recorded.fill(module, addresses, answer);
    }
    let summaries = modules.iter().zip(answers).zip(build_ids);
    let summary = |((module, answer), build_id): ((&ModuleKey, Resolved), _)| {
        let path = String::from_utf8_lossy(&module.path).into_owned();
        let (kind, symbols) = (module.kind, answer.state);
        (answer.symbols, ModuleSummary { kind, path, build_id, symbols })
    };
    summaries.map(summary).collect()
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
    let one = |(module, addresses): (&ModuleKey, &Vec<A>)| {
        let build_id = build_id(module, &ids);
        // Kernel addresses mean something only while it runs.
        let known = module.kind != ModuleKind::Kernel || kernel.state().is_none();
        let source = module.source(build_id.as_ref()).filter(|_| known && !addresses.is_empty());
        let found = source.map(|source| find(&source, addresses));
        found.unwrap_or_else(|| vec![None; addresses.len()])
    };
    state.modules.list().iter().zip(addresses).map(one).collect()
}

/// For each module the first one that is the same. The kernel tells a mapping's build id only where the
/// file's first page is in memory at that moment, so one file comes with its id and without; the table
/// at the end of the recording has it for both.
pub(crate) fn same_modules(state: &Sideband, metadata: &Metadata) -> Vec<u32> {
    let ids = file_ids(metadata);
    let mut first: FxHashMap<(ModuleKind, &[u8], Option<BuildId>), u32> = FxHashMap::default();
    let modules = state.modules.list().iter().zip(0..);
    let same = modules.map(|(module, number)| {
        *first.entry((module.kind, &module.path, build_id(module, &ids))).or_insert(number)
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
