//! Addresses to functions: every distinct address of a module is looked up once.

use std::sync::Arc;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_symbols::{BuildId, KernelMatch, Module, Resolved, State, Symbol};
use rustc_hash::FxHashMap;

use crate::collect::Collected;
use crate::modules::{ModuleId, ModuleKey, ModuleKind};

/// Looks up addresses of one module.
pub(crate) type Resolve<'a> = dyn FnMut(&Module<'_>, &[u64]) -> Resolved + 'a;

/// A function as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Function {
    /// The innermost one.
    pub(crate) name: Arc<str>,
    /// The function that holds its code, if it was inlined there.
    pub(crate) inlined_into: Option<Arc<str>>,
}

/// Index of a function within all of a profile.
pub(crate) type FunctionId = u32;

/// What addresses and modules came to.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) functions: Vec<Function>,
    by_address: FxHashMap<(ModuleId, u64), FunctionId>,
    /// One per module.
    pub(crate) states: Vec<State>,
    /// One per module.
    pub(crate) build_ids: Vec<Option<BuildId>>,
}

impl Named {
    pub(crate) fn get(&self, module: ModuleId, address: u64) -> Option<FunctionId> {
        self.by_address.get(&(module, address)).copied()
    }
}

/// Names all addresses that were hit.
pub(crate) fn name(
    collected: &Collected,
    metadata: &Metadata,
    kernel: KernelMatch,
    resolve: &mut Resolve<'_>,
) -> Named {
    let modules = collected.modules.list();
    let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); modules.len()];
    for (key, _) in collected.counts.cells() {
        addresses[key.module as usize].push(key.address);
    }
    let ids = file_ids(metadata);
    let mut named = Named {
        functions: Vec::new(),
        by_address: FxHashMap::default(),
        states: Vec::new(),
        build_ids: Vec::new(),
    };
    let mut known = FxHashMap::default();
    for (id, (module, mut addresses)) in modules.iter().zip(addresses).enumerate() {
        addresses.sort_unstable();
        addresses.dedup();
        let build_id = build_id(module, &ids);
        let resolved = match (module.kind, kernel.state()) {
            (ModuleKind::KernelLoaded, _) => loaded(collected, &addresses),
            (ModuleKind::Kernel, Some(state)) => without(state, &addresses),
            (ModuleKind::Vdso, _) if !kernel.same_image() => {
                without(State::OtherKernel, &addresses)
            }
            _ => match module.source(build_id.as_ref()) {
                Some(source) if !addresses.is_empty() => resolve(&source, &addresses),
                _ => without(State::NotMapped, &addresses),
            },
        };
        for (address, symbol) in addresses.iter().zip(resolved.symbols) {
            let Some(symbol) = symbol else { continue };
            let function = function(&symbol);
            let index = *known.entry(function.clone()).or_insert_with(|| {
                named.functions.push(function);
                named.functions.len() as FunctionId - 1
            });
            named.by_address.insert((id as ModuleId, *address), index);
        }
        named.states.push(resolved.state);
        named.build_ids.push(build_id);
    }
    named
}

fn function(symbol: &Symbol) -> Function {
    Function {
        name: Arc::clone(symbol.innermost()),
        inlined_into: (!symbol.inlined.is_empty()).then(|| Arc::clone(&symbol.name)),
    }
}

fn without(state: State, addresses: &[u64]) -> Resolved {
    Resolved { symbols: vec![None; addresses.len()], state }
}

/// Functions whose names the recording has: the address is the number of the name.
fn loaded(collected: &Collected, addresses: &[u64]) -> Resolved {
    let symbol = |name: &u64| {
        let name = String::from_utf8_lossy(collected.tasks.name(*name as u32));
        Some(Symbol { name: name.into(), line: None, inlined: Box::default() })
    };
    Resolved { symbols: addresses.iter().map(symbol).collect(), state: State::Found }
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
