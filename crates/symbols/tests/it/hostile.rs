//! Files made to harm: whatever is in them, there is an answer.

use std::fs;
use std::sync::OnceLock;

use pmuscope_symbols::{Module, Options, Symbolizer, read_build_id};
use proptest::prelude::*;

use crate::programs::{compile, remove_section_headers};

/// A program with a symbol table and debug information; empty where there is no compiler.
fn program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        compile(dir.path(), "program", &[]).map_or_else(Vec::new, |path| fs::read(path).unwrap())
    })
}

/// The same without section headers, with exported functions.
fn sectionless() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let Some(program) = compile(dir.path(), "program", &["-rdynamic"]) else {
            return Vec::new();
        };
        remove_section_headers(&program, false);
        fs::read(program).unwrap()
    })
}

fn ask(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let module = Module::file(file.path(), None);
    let addresses: Vec<u64> = (0..0x2000).step_by(64).chain([u64::MAX]).collect();
    let found = Symbolizer::new(Options { inlined: true }).resolve(&module, &addresses);
    assert_eq!(found.symbols.len(), addresses.len());
    let said = format!("{:?}", found.state);
    assert!(!said.contains("an internal error while reading it"), "a library panicked");
    let _ = read_build_id(file.path());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
    ) {
        let mut bytes = program().to_vec();
        if !bytes.is_empty() {
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            ask(&bytes);
        }
    }

    /// Headers and tables lie at the two ends.
    #[test]
    fn changed_headers_do_no_harm(
        changes in proptest::collection::vec((0_usize..4000, any::<u8>()), 1..12),
    ) {
        let mut bytes = program().to_vec();
        if !bytes.is_empty() {
            for (at, value) in changes {
                let end = bytes.len() - 1;
                bytes[if at < 2000 { at } else { end - (at - 2000).min(end) }] = value;
            }
            ask(&bytes);
        }
    }

    /// Headers of segments and tables of exported functions are in front of the code, `PT_DYNAMIC` is at the end.
    #[test]
    fn changed_files_without_section_headers_do_no_harm(
        changes in proptest::collection::vec((0_usize..4000, any::<u8>()), 1..12),
    ) {
        let mut bytes = sectionless().to_vec();
        if !bytes.is_empty() {
            for (at, value) in changes {
                let end = bytes.len() - 1;
                bytes[if at < 2800 { at } else { end - (at - 2800).min(end) }] = value;
            }
            ask(&bytes);
        }
    }

    #[test]
    fn cut_files_do_no_harm(at in any::<prop::sample::Index>()) {
        let bytes = program();
        if !bytes.is_empty() {
            ask(&bytes[..at.index(bytes.len())]);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        ask(&[b"\x7fELF\x02\x01\x01", &bytes[..]].concat());
    }
}
