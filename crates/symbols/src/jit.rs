//! Code that a JIT runtime generated in memory, as the runtime describes it: `jit-PID.dump`, which
//! has lines, and `/tmp/perf-PID.map`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::demangle::Demangler;
use crate::jit_dump::JitDump;
use crate::locate::below;
use crate::symbol::InternedNames;
use crate::{PerfMap, Sources, State, Symbol, namespaces};

/// Folders of dumps in `~/.debug/jit` that are looked into; agents of perf(1) make one per run.
const MOST_FOLDERS: usize = 4096;

/// Symbols of addresses in process `pid`; `told` are the dumps it is known to have written.
pub(crate) fn of_process(
    sources: &Sources,
    pid: i32,
    told: &[PathBuf],
    addresses: &[u64],
) -> Result<Vec<Option<Symbol>>, State> {
    let mut symbols = vec![None; addresses.len()];
    let mut read_any = false;
    let mut failed = None;
    let mut demangler = Demangler::default();
    for path in dumps(sources, pid, told) {
        match JitDump::read(&path, &mut demangler) {
            Ok(dump) => {
                read_any = true;
                fill(&mut symbols, addresses, |address| dump.get(address));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some(reason(&path, &error)),
        }
    }
    let mut names = InternedNames::default();
    for path in maps(sources, pid) {
        if symbols.iter().all(Option::is_some) {
            break;
        }
        match PerfMap::read_with(&path, &mut names) {
            Ok(map) => {
                read_any = true;
                let symbol = |address| map.get(address).map(|name| Symbol::named(Arc::clone(name)));
                fill(&mut symbols, addresses, symbol);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some(reason(&path, &error)),
        }
    }
    match (read_any, failed) {
        (true, _) => Ok(symbols),
        (false, Some(reason)) => Err(State::Unreadable(reason)),
        (false, None) => Err(State::NoPerfMap),
    }
}

fn fill(
    symbols: &mut [Option<Symbol>],
    addresses: &[u64],
    look_up: impl Fn(u64) -> Option<Symbol>,
) {
    for (symbol, &address) in
        symbols.iter_mut().zip(addresses).filter(|(symbol, _)| symbol.is_none())
    {
        *symbol = look_up(address);
    }
}

fn reason(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Where a map of `pid` may be: the other root first, then here, then in the container it runs in.
fn maps(sources: &Sources, pid: i32) -> Vec<PathBuf> {
    let here = PerfMap::path(pid);
    let mut paths: Vec<PathBuf> = sources.symfs.iter().map(|root| below(root, &here)).collect();
    paths.push(here);
    if let Some((root, inner)) = namespaces::of_process(pid) {
        paths.push(below(&root, &PerfMap::path(inner)));
    }
    paths
}

/// Where a dump of `pid` may be: where the recording says, in the current folder (as V8 and wasmtime
/// write it), in `/tmp`, and in the folders of perf's own agents.
fn dumps(sources: &Sources, pid: i32, told: &[PathBuf]) -> Vec<PathBuf> {
    let name = format!("jit-{pid}.dump");
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in told {
        paths.extend(sources.symfs.iter().map(|root| below(root, path)));
        paths.push(path.clone());
    }
    paths.extend([PathBuf::from(&name), Path::new("/tmp").join(&name)]);
    let homes = ["JITDUMPDIR", "HOME"].into_iter().filter_map(std::env::var_os);
    for folder in homes.map(|home| PathBuf::from(home).join(".debug/jit")) {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        paths.extend(entries.flatten().take(MOST_FOLDERS).map(|entry| entry.path().join(&name)));
    }
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths {
        // One dump under two names is one dump.
        let Ok(real) = path.canonicalize() else { continue };
        if !known.contains(&real) {
            known.push(real);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_below_another_root_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        // No process has this number.
        let map = dir.path().join("tmp/perf-2147483000.map");
        std::fs::write(&map, "1000 10 compiled\n").unwrap();
        let sources = Sources { symfs: Some(dir.path().into()), ..Sources::default() };
        let found = of_process(&sources, 2_147_483_000, &[], &[0x1008, 0x1010]).unwrap();
        assert_eq!(found, [Some(Symbol::named("compiled".into())), None]);
        let none = of_process(&Sources::default(), 2_147_483_000, &[], &[0x1008]);
        assert_eq!(none, Err(State::NoPerfMap));
    }

    #[test]
    fn a_dump_that_is_damaged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dump = dir.path().join("jit-2147483000.dump");
        std::fs::write(&dump, "no dump, but long enough for a header of forty bytes").unwrap();
        let found = of_process(&Sources::default(), 2_147_483_000, &[dump], &[1]);
        let Err(State::Unreadable(reason)) = found else { panic!("{found:?}") };
        assert!(reason.contains("jit-2147483000.dump"), "{reason}");
    }
}
