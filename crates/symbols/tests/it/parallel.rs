//! Many modules at once.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use pmuscope_symbols::{
    BuildId, Module, Options, Request, Resolved, Sources, State, Symbolizer, read_build_id,
};

use crate::programs::compile;

/// What this machine has to offer: our own program, the C library, a compiled one.
fn programs(dir: &std::path::Path) -> Vec<(PathBuf, Option<BuildId>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        // Other tests map programs of theirs, which they remove.
        .filter(|path| !path.starts_with(std::env::temp_dir()))
        .collect();
    paths.dedup();
    paths.extend(compile(dir, "program", &[]));
    let with_id = |path: PathBuf| {
        let id = read_build_id(&path).ok().flatten();
        (path, id)
    };
    paths.into_iter().map(with_id).collect()
}

fn ask(
    programs: &[(PathBuf, Option<BuildId>)],
    addresses: &[u64],
    threads: usize,
    inlined: bool,
) -> Vec<Resolved> {
    let requests: Vec<Request<'_>> = programs
        .iter()
        .map(|(path, id)| Request { module: Module::file(path, id.as_ref()), addresses })
        .collect();
    let sources = Sources { threads: NonZeroUsize::new(threads), ..Sources::default() };
    Symbolizer::with_sources(Options { inlined }, sources).resolve_all(&requests)
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let programs = programs(dir.path());
    // Enough for several pieces of a file.
    let addresses: Vec<u64> = (0..5000).map(|index| 0x1000 + index * 64).collect();
    for inlined in [false, true] {
        let one = ask(&programs, &addresses, 1, inlined);
        assert_eq!(one.len(), programs.len());
        assert!(one.iter().any(|found| found.state == State::Found));
        for threads in [2, 5] {
            assert_eq!(ask(&programs, &addresses, threads, inlined), one, "{threads} threads");
        }
    }
}

#[test]
fn one_build_at_two_paths_is_found_at_either() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(outer) = crate::programs::file_offset(&program, "outer") else { return };
    let Some(main) = crate::programs::file_offset(&program, "main") else { return };
    let id = read_build_id(&program).unwrap();
    let gone = dir.path().join("gone");
    let module = |path| Module::file(path, id.as_ref());
    let requests = [
        Request { module: module(&gone), addresses: &[outer, main] },
        Request { module: module(&program), addresses: &[main] },
    ];
    let found = Symbolizer::new(Options { inlined: false }).resolve_all(&requests);
    let names: Vec<Vec<&str>> = found
        .iter()
        .map(|found| found.symbols.iter().flatten().map(|symbol| &*symbol.name).collect())
        .collect();
    assert_eq!(names, [vec!["outer", "main"], vec!["main"]]);
}

#[test]
fn the_order_of_addresses_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let programs = programs(dir.path());
    let mut addresses: Vec<u64> = (0..300).map(|index| 0x1000 + index * 640).collect();
    let forward = ask(&programs, &addresses, 2, true);
    addresses.reverse();
    let mut backward = ask(&programs, &addresses, 2, true);
    for found in &mut backward {
        found.symbols.reverse();
    }
    assert_eq!(forward, backward);
}
