//! Resolves requests: cache, symbol tables, debug information, then the cache again.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pmuscope_machine::Machine;
use rustc_hash::FxHashMap;

use crate::cache::{CacheKey, SymbolCache, identity};
use crate::codec::Stored;
use crate::demangle::Demangler;
use crate::dwarf::{DebugInfo, Places};
use crate::file::{DebugAddress, DebugWork, FromTables};
use crate::jit::CodeProcess;
use crate::locate::Locator;
use crate::{
    BuildId, Bundle, Doubt, MissingSplit, Module, ModuleFile, Options, Request, Resolved,
    ResolvedFrom, Sources, State, Symbol, Symbolizer, bundle, file, jit, kernel, pool,
};

/// More threads than this wait for memory and disk rather than for each other.
const MOST_THREADS: usize = 16;
/// Fewer addresses of one file are not divided among threads: each has to read the list of units.
const PIECE: usize = 1000;

/// One group of requests on its way.
#[derive(Debug)]
struct PendingGroup<'a> {
    /// Ascending.
    addresses: Cow<'a, [u64]>,
    symbols: Vec<Option<Arc<Symbol>>>,
    debug: Option<DebugWork>,
    /// Why addresses could not be looked up.
    failed: Option<State>,
    keep: Option<Keep>,
    /// The file that was read, if one was.
    file: Option<PathBuf>,
    /// Why the file may not be the one that ran.
    doubt: Option<Doubt>,
    /// Split debug information that could not be used.
    split: Option<MissingSplit>,
}

/// What goes to the cache.
#[derive(Debug)]
struct Keep {
    key: CacheKey,
    absent: Vec<PathBuf>,
    /// What was there already.
    stored: Option<Stored>,
    /// Other addresses change their meaning.
    within: Option<Range<u64>>,
    /// The file, if it is known by its path only.
    path: Option<PathBuf>,
    /// Identity of the file at the recorded path; empty if there is none.
    origin: Vec<u8>,
}

/// What all requests share.
struct ResolveContext<'a> {
    symbolizer: &'a Symbolizer,
    locator: Locator<'a>,
    cache: Option<SymbolCache>,
    kernel: OnceLock<Option<(BuildId, String)>>,
}

pub(crate) fn all(symbolizer: &Symbolizer, requests: &[Request<'_>]) -> Vec<ResolvedFrom> {
    let Symbolizer { options, sources, bundle, .. } = symbolizer;
    let bundled = |request: &Request<'_>| {
        let resolved = from_bundle(bundle.as_ref()?, *options, request)?;
        Some(ResolvedFrom { resolved, file: None })
    };
    let mut resolved: Vec<Option<ResolvedFrom>> = requests.iter().map(bundled).collect();
    let groups = group(requests, |index| resolved[index].is_none());
    let shared = ResolveContext {
        symbolizer,
        locator: Locator::new(sources),
        cache: sources
            .cache
            .as_ref()
            .and_then(|folder| SymbolCache::open(folder, *options, sources)),
        kernel: OnceLock::new(),
    };
    let threads = threads(sources);
    let found = pool::run(&groups, threads, |group| shared.look_up(group));
    let mut answers: Vec<PendingGroup<'_>> = found
        .into_iter()
        .zip(&groups)
        .map(|(answer, group)| answer.unwrap_or_else(|| PendingGroup::broken(group)))
        .collect();
    ask_debug_information(&mut answers, threads, *options);
    if let Some(cache) = &shared.cache {
        let kept: Vec<&PendingGroup<'_>> =
            answers.iter().filter(|answer| answer.keep.is_some()).collect();
        if !kept.is_empty() {
            pool::run(&kept, threads, |answer| answer.store(cache));
            cache.tidy();
        }
    }
    for (answer, group) in answers.into_iter().zip(&groups) {
        let (&last, others) = group.members.split_last().unwrap_or((&0, &[]));
        let file = answer.file.clone();
        let from = |resolved| Some(ResolvedFrom { resolved, file: file.clone() });
        for &member in others {
            resolved[member] = from(answer.part(requests[member].addresses));
        }
        resolved[last] = from(answer.finish(requests[last].addresses));
    }
    let nothing = |request: &Request<'_>| ResolvedFrom {
        resolved: Resolved {
            symbols: vec![None; request.addresses.len()],
            state: State::NoSymbols,
        },
        file: None,
    };
    let with_requests = resolved.into_iter().zip(requests);
    with_requests.map(|(found, request)| found.unwrap_or_else(|| nothing(request))).collect()
}

/// Requests for one and the same thing: the same build at several paths (containers), the kernel and
/// its modules.
struct ModuleRequests<'a> {
    module: Module<'a>,
    /// The file at each of its paths, if it is one.
    files: Vec<ModuleFile<'a>>,
    /// Ascending.
    addresses: Cow<'a, [u64]>,
    /// Numbers of the requests.
    members: Vec<usize>,
}

/// What takes longest goes first, so that threads end together.
fn group<'a>(requests: &[Request<'a>], wanted: impl Fn(usize) -> bool) -> Vec<ModuleRequests<'a>> {
    let mut groups: Vec<ModuleRequests<'a>> = Vec::new();
    let mut known: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    for (index, request) in requests.iter().enumerate().filter(|(index, _)| wanted(*index)) {
        let file = match request.module {
            Module::File(file) => Some(file),
            _ => None,
        };
        let identity = match file.and_then(|file| file.build_id) {
            Some(id) => [b"f", id.significant()].concat(),
            None => bundle::key_of(&request.module),
        };
        match known.entry(identity) {
            Entry::Vacant(new) => {
                new.insert(groups.len());
                groups.push(ModuleRequests {
                    module: request.module,
                    files: file.into_iter().collect(),
                    addresses: Cow::Borrowed(request.addresses),
                    members: vec![index],
                });
            }
            Entry::Occupied(group) => {
                let group = &mut groups[*group.get()];
                let is_known =
                    |new: &ModuleFile<'_>| group.files.iter().any(|one| one.path == new.path);
                let new = file.filter(|file| !is_known(file));
                group.files.extend(new);
                group.addresses.to_mut().extend(request.addresses);
                group.members.push(index);
            }
        }
    }
    for group in &mut groups {
        if !group.addresses.is_sorted_by(|a, b| a < b) {
            let addresses = group.addresses.to_mut();
            addresses.sort_unstable();
            addresses.dedup();
        }
    }
    groups.sort_by_key(|group| match group.module {
        Module::Kernel => 0,
        _ => usize::MAX - group.addresses.len(),
    });
    groups
}

fn from_bundle(bundle: &Bundle, options: Options, request: &Request<'_>) -> Option<Resolved> {
    let (stored, state) = bundle.get(&request.module, request.addresses.first().copied())?;
    let mut reader = stored.reader();
    // A bundle has all that could be found out.
    let as_asked = |symbol: Arc<Symbol>| {
        let has_more = symbol.line.is_some() || !symbol.inlined.is_empty();
        if has_more && !options.inlined {
            let Symbol { name, signature, .. } = &*symbol;
            let (name, signature) = (Arc::clone(name), signature.clone());
            Arc::new(Symbol { signature, ..Symbol::named(name) })
        } else {
            symbol
        }
    };
    let symbol = |&at: &u64| reader.get(at).flatten().map(as_asked);
    let symbols = request.addresses.iter().map(symbol).collect();
    Some(Resolved { symbols, state: state.clone() })
}

fn threads(sources: &Sources) -> usize {
    let available =
        || std::thread::available_parallelism().map_or(1, |number| number.get().min(MOST_THREADS));
    sources.threads.map_or_else(available, |threads| threads.get())
}

impl ResolveContext<'_> {
    fn look_up<'a>(&self, group: &ModuleRequests<'a>) -> PendingGroup<'a> {
        let Symbolizer { options, sources, jit_dumps, .. } = self.symbolizer;
        let debug_files_alone = self.symbolizer.debug_files_alone;
        let addresses = group.addresses.clone();
        match group.module {
            Module::File(ModuleFile { path, build_id, mapped }) => {
                let by_path = build_id.is_none() && sources.symfs.is_none();
                // Without an id it may be the file at this very path, which then has to be the one that ran.
                let doubt = mapped.filter(|_| by_path).map(|mapped| mapped.judge(path));
                let path = Some(path).filter(|_| by_path && !matches!(doubt, Some(Err(_))));
                let doubt = doubt.and_then(Result::ok).flatten();
                let key = self.cache.as_ref().and_then(|cache| match (build_id, path) {
                    (Some(id), _) => cache.of_file(id),
                    (None, path) => cache.of_path(path?),
                });
                let mut answer =
                    self.through_cache(addresses, key, self.origin(group), |addresses| {
                        let reading = |file: &ModuleFile<'_>| {
                            file::of_file(&self.locator, *options, *file, addresses)
                        };
                        let mut tries = group.files.iter().map(reading);
                        let first = tries.next().unwrap_or(Err(State::FileMissing));
                        let found = first.or_else(|state| tries.find_map(Result::ok).ok_or(state));
                        let found = match (found, build_id) {
                            (Err(state), Some(id)) if debug_files_alone => {
                                file::of_debug_file(&self.locator, *options, id, addresses, state)
                            }
                            (found, _) => found,
                        };
                        Ok((found?, None))
                    });
                if let Some(keep) = &mut answer.keep {
                    keep.path = path.map(Path::to_path_buf);
                }
                answer.doubt = doubt;
                answer
            }
            Module::Kernel => {
                let key = self.cache.as_ref().zip(self.kernel());
                let key = key.and_then(|(cache, (id, boot))| cache.of_kernel(id, boot));
                let id = self.kernel().map(|(id, _)| id);
                self.through_cache(addresses, key, Vec::new(), |addresses| {
                    let kernel = kernel::of_running(&self.locator, *options, id, addresses)?;
                    // Without knowing where the kernel's own text is, nothing is kept.
                    Ok((kernel.found, Some(kernel.image.unwrap_or(0..0))))
                })
            }
            Module::Vdso => PendingGroup::of(file::of_vdso(&addresses), addresses),
            Module::Jit { pid, origin } => {
                let told = jit_dumps.get(&pid).map_or(&[][..], Vec::as_slice);
                let process = CodeProcess { pid, origin, told };
                PendingGroup::of(jit::of_process(sources, process, &addresses), addresses)
            }
        }
    }

    /// Build id and boot id of the running kernel.
    fn kernel(&self) -> Option<&(BuildId, String)> {
        let machine = Machine::host;
        let ask = || {
            let id = BuildId::new(&machine().kernel_build_id()?).ok()?;
            Some((id, machine().boot_id()?))
        };
        self.kernel.get_or_init(ask).as_ref()
    }

    /// Identity of the first of a module's files that is there; empty if none is.
    fn origin(&self, group: &ModuleRequests<'_>) -> Vec<u8> {
        let symfs = self.symbolizer.sources.symfs.as_deref();
        let at = |path: &Path| match symfs {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)).metadata(),
            None => path.metadata(),
        };
        let file = group.files.iter().find_map(|file| at(file.path).ok());
        file.as_ref().map(identity).unwrap_or_default()
    }

    /// Asks the cache first, then `resolve` for what it does not know. An address that had no name in another file than
    /// `origin` is asked for again.
    fn through_cache<'a>(
        &self,
        addresses: Cow<'a, [u64]>,
        key: Option<CacheKey>,
        origin: Vec<u8>,
        resolve: impl FnOnce(&[u64]) -> Result<(FromTables, Option<Range<u64>>), State>,
    ) -> PendingGroup<'a> {
        let stored = self.cache.as_ref().zip(key.as_ref()).and_then(|(cache, key)| cache.load(key));
        let mut answer = PendingGroup::empty(addresses);
        let mut missing: Vec<u32> = (0..answer.addresses.len() as u32).collect();
        let mut is_any_new = stored.is_none();
        if let Some(stored) = &stored {
            answer.split = MissingSplit::of_paths(&stored.absent().collect::<Vec<_>>());
            let is_same_file = origin.is_empty() || origin == stored.origin();
            let mut reader = stored.reader();
            missing.retain(|&index| match reader.get(answer.addresses[index as usize]) {
                Some(symbol) => {
                    let is_known = symbol.is_some() || is_same_file;
                    answer.symbols[index as usize] = symbol;
                    !is_known
                }
                None => {
                    is_any_new = true;
                    true
                }
            });
        }
        if missing.is_empty() {
            return answer;
        }
        let wanted: Vec<u64> =
            missing.iter().map(|&index| answer.addresses[index as usize]).collect();
        match resolve(&wanted) {
            // Of what was known to have no name it still is not known.
            Err(state) => answer.failed = Some(state).filter(|_| is_any_new),
            Ok((found, within)) => {
                for (&index, symbol) in missing.iter().zip(shared(found.symbols)) {
                    answer.symbols[index as usize] = symbol;
                }
                answer.debug = found.debug.map(|work| DebugWork {
                    addresses: work
                        .addresses
                        .iter()
                        .map(|&one| DebugAddress { index: missing[one.index as usize], ..one })
                        .collect(),
                    ..work
                });
                answer.failed = found.lacking;
                answer.file = Some(found.file).filter(|file| !file.as_os_str().is_empty());
                answer.keep = key.map(|key| {
                    let mut absent = found.absent;
                    let mut before: Vec<PathBuf> = stored.iter().flat_map(Stored::absent).collect();
                    before.retain(|path| !absent.contains(path));
                    absent.extend(before);
                    Keep { key, absent, stored, within, path: None, origin }
                });
            }
        }
        answer
    }
}

impl<'a> PendingGroup<'a> {
    fn empty(addresses: Cow<'a, [u64]>) -> Self {
        let symbols = vec![None; addresses.len()];
        Self {
            addresses,
            symbols,
            debug: None,
            failed: None,
            keep: None,
            file: None,
            doubt: None,
            split: None,
        }
    }

    fn of(found: Result<Vec<Option<Symbol>>, State>, addresses: Cow<'a, [u64]>) -> Self {
        match found {
            Ok(symbols) => Self { symbols: shared(symbols).collect(), ..Self::empty(addresses) },
            Err(state) => Self { failed: Some(state), ..Self::empty(addresses) },
        }
    }

    /// The answer where a library could not stand the file.
    fn broken(group: &ModuleRequests<'a>) -> Self {
        let why = State::Unreadable(
            "an internal error while reading it; please report it with the file".into(),
        );
        Self { failed: Some(why), ..Self::empty(group.addresses.clone()) }
    }

    fn store(&self, cache: &SymbolCache) {
        let Some(keep) = &self.keep else { return };
        if keep.path.as_ref().is_some_and(|path| cache.of_path(path).as_ref() != Some(&keep.key)) {
            return; // replaced while it was read
        }
        let within =
            |address: &u64| keep.within.as_ref().is_none_or(|range| range.contains(address));
        let new = || self.addresses.iter().copied().zip(self.symbols.iter().map(Option::as_deref));
        let new = || new().filter(|(address, _)| within(address));
        if new().next().is_none() {
            return;
        }
        let Some(stored) = &keep.stored else {
            cache.store(&keep.key, new(), &keep.absent, &keep.origin);
            return;
        };
        let mut reader = stored.reader();
        let is_same_file = keep.origin == stored.origin();
        let old: Vec<(u64, Option<Arc<Symbol>>)> = stored
            .addresses()
            .filter(|address| self.addresses.binary_search(address).is_err())
            .map(|address| (address, reader.get(address).flatten()))
            .filter(|(_, symbol)| symbol.is_some() || is_same_file)
            .collect();
        let mut all: Vec<(u64, Option<&Symbol>)> = old
            .iter()
            .map(|(address, symbol)| (*address, symbol.as_deref()))
            .chain(new())
            .collect();
        all.sort_unstable_by_key(|(address, _)| *address);
        if cache.store(&keep.key, all.into_iter(), &keep.absent, &keep.origin).is_none() {
            cache.store(&keep.key, new(), &keep.absent, &keep.origin);
        }
    }

    /// Notes which units of debug information could not be used.
    fn note_missing(&mut self, info: &DebugInfo) {
        let Some(missing) = info.split().missing() else { return };
        self.split = Some(missing);
        if let Some(keep) = &mut self.keep {
            let absent = info.split().absent();
            keep.absent.retain(|path| !absent.contains(path));
            keep.absent.extend(absent);
        }
    }

    /// Symbols of all addresses that were asked for, `wanted`, in their order.
    fn finish(self, wanted: &[u64]) -> Resolved {
        if self.addresses[..] != *wanted {
            return self.part(wanted);
        }
        let state = self.state(&self.symbols);
        Resolved { symbols: self.symbols, state }
    }

    /// Symbols of `wanted`, in their order.
    fn part(&self, wanted: &[u64]) -> Resolved {
        let at = |address| self.addresses.binary_search(address).ok();
        let symbol = |address| at(address).and_then(|index| self.symbols[index].clone());
        let symbols: Vec<Option<Arc<Symbol>>> = wanted.iter().map(symbol).collect();
        let state = self.state(&symbols);
        Resolved { symbols, state }
    }

    fn state(&self, symbols: &[Option<Arc<Symbol>>]) -> State {
        let found = symbols.iter().flatten().count();
        match &self.failed {
            // What an earlier run found is no reason to hide why most is not.
            Some(state) if found == 0 || found * 2 < symbols.len() => state.clone(),
            _ if found > 0 => match (self.doubt, &self.split) {
                (Some(doubt), _) => State::Unproven(doubt),
                (None, Some(missing)) => State::SplitMissing(missing.clone()),
                (None, None) => State::Found,
            },
            _ if symbols.is_empty() => State::Found,
            _ => State::NoSymbols,
        }
    }
}

/// Symbols, of which equal neighbors are one.
fn shared(symbols: Vec<Option<Symbol>>) -> impl Iterator<Item = Option<Arc<Symbol>>> {
    let mut latest = None;
    symbols.into_iter().map(move |symbol| share(&mut latest, symbol))
}

/// `symbol`, or `latest` if that is the same; it is the latest one then.
fn share(latest: &mut Option<Arc<Symbol>>, symbol: Option<Symbol>) -> Option<Arc<Symbol>> {
    let symbol = symbol?;
    match latest {
        Some(latest) if **latest == symbol => {}
        _ => *latest = Some(Arc::new(symbol)),
    }
    latest.clone()
}

/// A part of a file's addresses.
struct AddressRange {
    answer: usize,
    info: Arc<DebugInfo>,
    addresses: Vec<DebugAddress>,
}

/// Adds what debug information says. Neighboring addresses are mostly of one unit, which is the
/// piece of work that a thread should not share, so pieces are contiguous.
fn ask_debug_information(answers: &mut [PendingGroup<'_>], threads: usize, options: Options) {
    let mut pieces: Vec<AddressRange> = Vec::new();
    for (answer, work) in answers.iter_mut().enumerate() {
        let Some(DebugWork { info, mut addresses }) = work.debug.take() else { continue };
        addresses.sort_unstable_by_key(|one| one.address);
        let number = (addresses.len() / PIECE).clamp(1, threads.max(1));
        for part in addresses.chunks(addresses.len().div_ceil(number).max(1)) {
            pieces.push(AddressRange { answer, info: Arc::clone(&info), addresses: part.to_vec() });
        }
    }
    pieces.sort_by_key(|piece| usize::MAX - piece.addresses.len());
    let found = pool::run(&pieces, threads, |piece| {
        let addresses = piece.addresses.iter().map(|one| one.address);
        piece.info.look_up(addresses, &mut Demangler::default())
    });
    for piece in &pieces {
        answers[piece.answer].note_missing(&piece.info);
    }
    for (piece, places) in pieces.iter().zip(found) {
        let symbols = &mut answers[piece.answer].symbols;
        let places: Vec<Option<Places>> = places.unwrap_or_default();
        let mut latest = None;
        for (one, places) in piece.addresses.iter().zip(places) {
            let symbol = &mut symbols[one.index as usize];
            if let Some(places) = places {
                let is_better = one.is_doubtful && places.has_name();
                let known = symbol.take().filter(|_| !is_better);
                let mut complete = known.map(Arc::unwrap_or_clone);
                places.complete(&mut complete, options.inlined);
                *symbol = share(&mut latest, complete);
            }
        }
    }
}
