//! Places to symbols: every distinct address of every module is looked up once, all together.

use std::sync::Arc;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_symbols::{
    BuildId, KernelMatch, Request, Resolved, State as SymbolState, Symbol, Symbolizer,
};
use rustc_hash::FxHashMap;

use crate::collect::{Collected, State};
use crate::counter::Counts;
use crate::modules::{CUT, ModuleKey, ModuleKind};
use crate::series::in_parallel;
use crate::tasks::Place;
use crate::unwinding::Cut;

/// Looks up addresses: for each module with its addresses, each once and in order, one answer.
pub type Resolve<'a> = dyn FnMut(&[Request<'_>]) -> Vec<Resolved> + 'a;

/// What places and modules came to.
#[derive(Debug)]
pub(crate) struct Named {
    /// All distinct places, in order.
    pub(crate) places: Vec<Place>,
    /// By module, one per place.
    pub(crate) symbols: Vec<Vec<Option<Symbol>>>,
    /// For each of [`Collected::counts`] and each of its places: which of `places` it is.
    pub(crate) numbers: Vec<Vec<u32>>,
    /// One per module.
    pub(crate) states: Vec<SymbolState>,
    /// One per module.
    pub(crate) build_ids: Vec<Option<BuildId>>,
}

/// Names all addresses that were hit.
pub(crate) fn name(
    collected: &Collected,
    metadata: &Metadata,
    kernel: KernelMatch,
    resolve: &mut Resolve<'_>,
) -> Named {
    let (places, numbers) = distinct(collected, &same_modules(&collected.state, metadata));
    let modules = collected.state.modules.list();
    let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); modules.len()];
    for place in &places {
        addresses[place.module as usize].push(place.address);
    }
    let (answers, build_ids) =
        look_up(&collected.state, &addresses, metadata, kernel, resolve).into_iter().unzip();
    let answers: Vec<Resolved> = answers;
    let (symbols, states) =
        answers.into_iter().map(|answer| (answer.symbols, answer.state)).unzip();
    Named { places, symbols, numbers, states, build_ids }
}

/// Symbols of addresses of all modules, as many as there are addresses, and the modules' build ids.
pub(crate) fn look_up(
    state: &State,
    addresses: &[Vec<u64>],
    metadata: &Metadata,
    kernel: KernelMatch,
    resolve: &mut Resolve<'_>,
) -> Vec<(Resolved, Option<BuildId>)> {
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
    let answers: Vec<Resolved> = answers.collect();
    answers.into_iter().zip(build_ids).collect()
}

/// The variables and functions at addresses of all modules, as many as there are addresses.
pub(crate) fn objects(
    state: &State,
    addresses: &[Vec<u64>],
    metadata: &Metadata,
    kernel: KernelMatch,
    symbolizer: &Symbolizer,
) -> Vec<Vec<Option<Arc<str>>>> {
    let ids = file_ids(metadata);
    let one = |(module, addresses): (&ModuleKey, &Vec<u64>)| {
        let build_id = build_id(module, &ids);
        // Kernel addresses mean something only while it runs.
        let known = module.kind != ModuleKind::Kernel || kernel.state().is_none();
        let source = module.source(build_id.as_ref()).filter(|_| known && !addresses.is_empty());
        let found = source.map(|source| symbolizer.objects(&source, addresses));
        found.unwrap_or_else(|| vec![None; addresses.len()])
    };
    state.modules.list().iter().zip(addresses).map(one).collect()
}

/// For each module the first one that is the same. The kernel tells a mapping's build id only where the
/// file's first page is in memory at that moment, so one file comes with its id and without; the table
/// at the end of the recording has it for both.
pub(crate) fn same_modules(state: &State, metadata: &Metadata) -> Vec<u32> {
    let ids = file_ids(metadata);
    let mut first: FxHashMap<(ModuleKind, &[u8], Option<BuildId>), u32> = FxHashMap::default();
    let modules = state.modules.list().iter().zip(0..);
    let same = modules.map(|(module, number)| {
        *first.entry((module.kind, &module.path, build_id(module, &ids))).or_insert(number)
    });
    same.collect()
}

/// Each place once, in order of module and address; and which one each counter's are. `same` tells for
/// each module which one it counts as.
fn distinct(collected: &Collected, same: &[u32]) -> (Vec<Place>, Vec<Vec<u32>>) {
    let packed =
        |place: &Place| u128::from(same[place.module as usize]) << 64 | u128::from(place.address);
    let mut all: Vec<u128> =
        collected.counts.iter().flat_map(|counts| counts.places.iter().map(packed)).collect();
    // Without call chains each counter's are in order already, which this sort makes use of.
    all.sort();
    all.dedup();
    let number = |counts: &Counts| {
        let mut next = 0;
        let number = |place: &Place| {
            let place = packed(place);
            let near = all[next..].iter().take(NEAR).position(|&other| other == place);
            let at = near.map(|ahead| next + ahead).or_else(|| all.binary_search(&place).ok());
            let at = at.unwrap_or(0); // each place is in it
            next = at + 1;
            at as u32
        };
        counts.places.iter().map(number).collect()
    };
    let numbers = in_parallel(&collected.counts, number);
    let place = |packed: &u128| Place { module: (packed >> 64) as u32, address: *packed as u64 };
    (all.iter().map(place).collect(), numbers)
}

/// Places ahead of the last one among which the next is looked for, before it is searched for: where
/// counters have theirs in order it is one of them.
const NEAR: usize = 4;

fn without(state: SymbolState, addresses: &[u64]) -> Resolved {
    Resolved { symbols: vec![None; addresses.len()], state }
}

/// Functions whose names the recording has: the address is the number of the name.
fn loaded(state: &State, addresses: &[u64]) -> Resolved {
    named(addresses, |name| String::from_utf8_lossy(state.tasks.name(name as u32)).into_owned())
}

fn named(addresses: &[u64], name: impl Fn(u64) -> String) -> Resolved {
    let symbol = |&at: &u64| Some(Symbol::named(name(at).into()));
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
