//! Symbols for callers that ask repeatedly, such as a live view: what was found once stays in memory, and
//! `/proc/kallsyms`, which takes the kernel tens of milliseconds to write, is read once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::bundle::key_of;
use crate::demangle::Demangler;
use crate::kallsyms::Kallsyms;
use crate::{KernelIdentity, Module, Request, Resolved, State, Symbol, Symbolizer};

/// Addresses that are kept: some 100 MB with their names. Then all is forgotten, and asked for anew.
const MOST: usize = 1 << 20;
/// Names of a module that nobody asks for are forgotten after so long: where programs come and go, as with compilers, all of
/// them together would take more and more.
const KEEP_UNUSED: Duration = Duration::from_secs(30 * 60);
/// An address that the kernel's table does not know may be of a module loaded since; it is read again
/// after so long at the earliest.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Finds symbols, and remembers them.
#[derive(Debug)]
pub struct Resident {
    symbolizer: Symbolizer,
    modules: FxHashMap<Vec<u8>, Known>,
    kernel: Option<(Kallsyms, Instant)>,
    held: usize,
    most: usize,
    keep_unused: Duration,
}

/// What is known of a module.
#[derive(Debug)]
struct Known {
    /// When somebody asked for it.
    used: Instant,
    symbols: FxHashMap<u64, Option<Arc<Symbol>>>,
    /// As of the last time that something was not known.
    state: State,
}

impl Resident {
    /// Remembers what `symbolizer` finds.
    #[must_use]
    pub fn new(symbolizer: Symbolizer) -> Self {
        let (modules, kernel) = (FxHashMap::default(), None);
        Self { symbolizer, modules, kernel, held: 0, most: MOST, keep_unused: KEEP_UNUSED }
    }

    /// As [`Symbolizer::running_kernel`].
    #[must_use]
    pub fn running_kernel(&self) -> KernelIdentity {
        self.symbolizer.running_kernel()
    }

    /// As [`Symbolizer::add_jit_dump`].
    pub fn add_jit_dump(&mut self, pid: i32, path: PathBuf) {
        self.symbolizer.add_jit_dump(pid, path);
    }

    /// As [`Symbolizer::resolve_all`]. Code that runtimes make is asked for each time: it changes.
    pub fn resolve_all(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        if self.held > self.most {
            self.modules.clear();
            self.held = 0;
        }
        let now = Instant::now();
        for request in requests {
            if let Some(known) = self.modules.get_mut(&key_of(&request.module)) {
                known.used = now;
            }
        }
        self.modules.retain(|_, known| {
            let stays = now.duration_since(known.used) <= self.keep_unused;
            self.held -= if stays { 0 } else { known.symbols.len() };
            stays
        });
        let missing: Vec<Vec<u64>> = requests.iter().map(|one| self.missing(one)).collect();
        let asked: Vec<usize> = (0..requests.len())
            .filter(|&at| !missing[at].is_empty() && requests[at].module != Module::Kernel)
            .collect();
        let wanted: Vec<Request<'_>> = asked
            .iter()
            .map(|&at| Request { module: requests[at].module, addresses: &missing[at] })
            .collect();
        let mut answers: Vec<Option<Resolved>> = requests.iter().map(|_| None).collect();
        for (&at, answer) in asked.iter().zip(self.symbolizer.resolve_all(&wanted)) {
            answers[at] = Some(answer);
        }
        for (at, request) in requests.iter().enumerate() {
            if request.module == Module::Kernel && !missing[at].is_empty() {
                answers[at] = Some(self.kernel(&missing[at]));
            }
        }
        requests
            .iter()
            .zip(missing)
            .zip(answers)
            .map(|((request, missing), answer)| self.together(request, &missing, answer))
            .collect()
    }

    /// What has to be asked for.
    fn missing(&self, request: &Request<'_>) -> Vec<u64> {
        let known = self.modules.get(&key_of(&request.module)).filter(|_| stays(&request.module));
        let is_missing =
            |address: &&u64| known.is_none_or(|known| !known.symbols.contains_key(*address));
        request.addresses.iter().filter(is_missing).copied().collect()
    }

    /// Remembers an answer to what was missing, and answers all.
    fn together(
        &mut self,
        request: &Request<'_>,
        missing: &[u64],
        answer: Option<Resolved>,
    ) -> Resolved {
        if !stays(&request.module)
            && let Some(answer) = answer
        {
            return answer;
        }
        let new =
            || Known { used: Instant::now(), symbols: FxHashMap::default(), state: State::Found };
        let known = self.modules.entry(key_of(&request.module)).or_insert_with(new);
        if let Some(answer) = answer {
            self.held += missing.len();
            known.symbols.extend(missing.iter().copied().zip(answer.symbols));
            known.state = answer.state;
        }
        let symbol = |address| known.symbols.get(address).cloned().flatten();
        let symbols: Vec<Option<Arc<Symbol>>> = request.addresses.iter().map(symbol).collect();
        let found = symbols.iter().flatten().count();
        let state = match &known.state {
            why @ (State::Unproven(_) | State::SplitMissing(_)) if found > 0 => why.clone(),
            State::Found | State::NoSymbols if found > 0 || symbols.is_empty() => State::Found,
            State::Found | State::NoSymbols => State::NoSymbols,
            // Names that were found before are no reason to hide why most are not.
            why if found == 0 || found * 2 < symbols.len() => why.clone(),
            _ => State::Found,
        };
        Resolved { symbols, state }
    }

    /// Functions of the kernel and its modules.
    fn kernel(&mut self, addresses: &[u64]) -> Resolved {
        let lacks = |table: &Kallsyms| addresses.iter().any(|&at| table.get(at).is_none());
        let is_good = self.kernel.as_ref().is_some_and(|(table, read)| {
            table.are_visible() && (!lacks(table) || read.elapsed() < READ_AGAIN)
        });
        if !is_good {
            // What cannot be read has no names; the symbolizer knows the words for why.
            let table = Kallsyms::of_running().ok().filter(Kallsyms::are_visible);
            self.kernel = table.map(|table| (table, Instant::now()));
        }
        let Some((table, _)) = &self.kernel else {
            let request = Request { module: Module::Kernel, addresses };
            let nothing =
                || Resolved { symbols: vec![None; addresses.len()], state: State::NoSymbols };
            return self.symbolizer.resolve_all(&[request]).pop().unwrap_or_else(nothing);
        };
        let mut demangler = Demangler::default();
        let mut names: FxHashMap<u32, Arc<Symbol>> = FxHashMap::default();
        let mut symbol = |&address: &u64| {
            let (number, raw) = table.get(address)?;
            let named = || Arc::new(Symbol::named(demangler.name(raw)));
            Some(Arc::clone(names.entry(number).or_insert_with(named)))
        };
        Resolved { symbols: addresses.iter().map(&mut symbol).collect(), state: State::Found }
    }
}

/// Whether an address means the same the next time.
fn stays(module: &Module<'_>) -> bool {
    !matches!(module, Module::Jit { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use pmuscope_machine::Machine;
    use std::path::Path;

    fn resident() -> Resident {
        Resident::new(Symbolizer::new(Options { inlined: false }))
    }

    /// Offsets in the file of this test: some have functions, some have none.
    fn request<'a>(path: &'a Path, addresses: &'a [u64]) -> Request<'a> {
        Request { module: Module::file(path, None), addresses }
    }

    #[test]
    fn what_was_found_once_is_the_same_without_the_file() {
        let file = tempfile::tempdir().unwrap();
        let path = file.path().join("program");
        let bytes = std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let addresses: Vec<u64> = (0..4000).map(|at| at * (bytes / 4000)).collect();
        let whole = [request(&path, &addresses)];
        let expected = Symbolizer::new(Options { inlined: false }).resolve_all(&whole);
        assert!(expected[0].symbols.iter().flatten().count() > 100);
        let mut resident = resident();
        resident.resolve_all(&[request(&path, &addresses[..2500])]);
        assert_eq!(resident.resolve_all(&whole), expected);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(resident.resolve_all(&whole), expected);
        resident.most = 0;
        assert_eq!(resident.resolve_all(&whole)[0].state, State::FileMissing);
    }

    #[test]
    fn modules_that_nobody_asks_for_are_forgotten() {
        let (one, other) = (Path::new("/bin/sh"), std::env::current_exe().unwrap());
        let addresses = [0x5000, 0x6000];
        let mut resident = resident();
        resident.resolve_all(&[request(one, &addresses), request(&other, &addresses)]);
        assert_eq!((resident.modules.len(), resident.held), (2, 4));
        // Nothing is kept that is not asked for now.
        resident.keep_unused = Duration::ZERO;
        resident.resolve_all(&[request(&other, &addresses)]);
        assert_eq!((resident.modules.len(), resident.held), (1, 2));
    }

    #[test]
    fn the_kernels_names_are_those_of_a_symbolizer() {
        let Some(text) = Machine::host().kernel_text() else {
            eprintln!("skipped: this kernel hides its addresses");
            return;
        };
        let addresses: Vec<u64> = (0..500).map(|at| text.start + at * 4099).collect();
        let request = [Request { module: Module::Kernel, addresses: &addresses }];
        let expected = Symbolizer::new(Options { inlined: false }).resolve_all(&request);
        let mut resident = resident();
        for _ in 0..2 {
            assert_eq!(resident.resolve_all(&request), expected);
        }
    }
}
