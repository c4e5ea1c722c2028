//! Places to frames, by their symbols: a function, or several where functions are inlined.

use std::sync::Arc;

use pmuscope_symbols::{Line, Symbol};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher as _;

use crate::aggregate::{CodeFrame, FrameId, Function, FunctionId, Stacks};
use crate::count::tree::Tree;
use crate::names::naming::Places;
use crate::profile::Detail;
use crate::table::{HashIndex, Interned, mix};
use crate::timeline::modules::{ModuleId, ModuleKind, Modules};

/// Overloads of a function that are counted, at most.
const MOST_OVERLOADS: usize = 64;

/// What places came to.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) functions: Vec<Function>,
    pub(crate) frames: Interned<CodeFrame>,
    /// Frames of all distinct paths, the outermost first, and where each path ends.
    steps: Vec<FrameId>,
    ends: Vec<u32>,
    known: HashIndex,
    /// By place.
    of_place: Vec<u32>,
    function_ids: FxHashMap<(u32, Arc<str>), FunctionId>,
    /// Distinct signatures of each function.
    signatures: FxHashMap<FunctionId, Vec<Arc<str>>>,
    /// The path that is being made.
    making: Vec<FrameId>,
}

impl Paths {
    /// Paths of `places`, by the symbols of each module, as far as `detail` tells apart.
    pub(crate) fn new(
        modules: &Modules,
        places: &Places,
        symbols: Vec<Vec<Option<Arc<Symbol>>>>,
        detail: Detail,
    ) -> Self {
        let mut paths = Self::default();
        let all = modules;
        let modules = (0..).zip(all.list());
        for ((module, key), (addresses, symbols)) in
            modules.zip(places.addresses.iter().zip(symbols))
        {
            let is_address = !matches!(key.kind, ModuleKind::Other | ModuleKind::KernelLoaded);
            // Places are in order, so the next is often of the same symbol.
            let mut latest: Option<(&Arc<Symbol>, u32)> = None;
            let code = all.code(module);
            for (&place, symbol) in addresses.iter().zip(&symbols) {
                let address = code.and_then(|code| code.address(place)).unwrap_or(place);
                let symbol = symbol.as_ref();
                let known = latest.filter(|(latest, _)| {
                    detail < Detail::Address && symbol.is_some_and(|one| Arc::ptr_eq(one, latest))
                });
                let number = known.map_or_else(
                    || paths.add(module, is_address.then_some(address), symbol, detail),
                    |(_, number)| number,
                );
                paths.of_place.push(number);
                latest = symbol.map(|symbol| (symbol, number));
            }
        }
        paths
    }

    /// The number of the path of a place.
    pub(crate) fn number(&self, place: u32) -> u32 {
        self.of_place[place as usize]
    }

    /// Only paths by their own numbers are asked for from now on.
    pub(crate) fn forget_places(&mut self) {
        self.of_place = Vec::new();
    }

    /// The frames of a place, the outermost first.
    pub(crate) fn of(&self, place: u32) -> &[FrameId] {
        path(&self.steps, &self.ends, self.number(place))
    }

    /// Whether two frames are of the same function, or of none in the same module.
    pub(crate) fn same_function(&self, a: FrameId, b: FrameId) -> bool {
        let [a, b] = [a, b].map(|frame| &self.frames.list[frame as usize]);
        (a.module, a.function) == (b.module, b.function)
    }

    /// For each frame a number that is the same for all of one function, or of none in the same module.
    pub(crate) fn functions_of_frames(&self) -> Vec<u32> {
        let mut known: FxHashMap<(u32, Option<FunctionId>), u32> = FxHashMap::default();
        let number = |frame: &CodeFrame| {
            let next = known.len() as u32;
            *known.entry((frame.module, frame.function)).or_insert(next)
        };
        self.frames.list.iter().map(number).collect()
    }

    /// All paths as stacks, and which one each path is.
    pub(crate) fn stacks(&self) -> (Stacks, Vec<u32>) {
        let mut tree = Tree::default();
        let node = |number| tree.below(Tree::ROOT, path(&self.steps, &self.ends, number));
        let nodes: Vec<u32> = (0..self.ends.len() as u32).map(node).collect();
        let (stacks, renumbered) = tree.in_order();
        (stacks, nodes.into_iter().map(|node| renumbered[node as usize]).collect())
    }

    /// The number of the path that a symbol makes.
    fn add(
        &mut self,
        module: ModuleId,
        address: Option<u64>,
        symbol: Option<&Arc<Symbol>>,
        detail: Detail,
    ) -> u32 {
        self.making.clear();
        match symbol {
            None => {
                self.push(CodeFrame {
                    function: None,
                    module,
                    address,
                    line: None,
                    inlined: false,
                });
            }
            Some(symbol) => {
                let address = address.filter(|_| detail == Detail::Address);
                let line =
                    |line: &Option<Line>| line.as_ref().filter(|_| detail >= Detail::Line).cloned();
                let outer = (&symbol.name, symbol.signature.as_ref());
                self.named(module, outer, address, line(&symbol.line), false);
                for inner in &symbol.inlined {
                    let name = (&inner.name, inner.signature.as_ref());
                    self.named(module, name, address, line(&inner.line), true);
                }
            }
        }
        let Self { steps, ends, known, making, .. } = self;
        let new = ends.len() as u32;
        let hash = making.iter().fold(making.len() as u64, |hash, &id| mix(hash, id.into()));
        let number = known.find_or_insert(hash, new, |other| path(steps, ends, other) == *making);
        if number == new {
            steps.extend_from_slice(making);
            ends.push(steps.len() as u32);
        }
        number
    }

    fn named(
        &mut self,
        module: ModuleId,
        (name, signature): (&Arc<str>, Option<&Arc<str>>),
        address: Option<u64>,
        line: Option<Line>,
        inlined: bool,
    ) {
        let functions = &mut self.functions;
        let function = *self.function_ids.entry((module, Arc::clone(name))).or_insert_with(|| {
            functions.push(Function { name: Arc::clone(name), module, overloads: 0 });
            (functions.len() - 1) as FunctionId
        });
        if let Some(signature) = signature {
            let known = self.signatures.entry(function).or_default();
            if known.len() < MOST_OVERLOADS && !known.contains(signature) {
                known.push(Arc::clone(signature));
                let number = known.len() as u32;
                self.functions[function as usize].overloads = if number > 1 { number } else { 0 };
            }
        }
        self.push(CodeFrame { function: Some(function), module, address, line, inlined });
    }

    fn push(&mut self, frame: CodeFrame) {
        let hash = mix(FxBuildHasher.hash_one(&frame), 0);
        self.making.push(self.frames.intern(hash, frame));
    }
}

fn path<'a>(steps: &'a [FrameId], ends: &[u32], number: u32) -> &'a [FrameId] {
    let start = number.checked_sub(1).map_or(0, |before| ends[before as usize]);
    &steps[start as usize..ends[number as usize] as usize]
}
