//! Programs and libraries without section headers.

use std::path::Path;

use pmuscope_symbols::unwind::{Arch, Gap, Rule, UnwindScratch};
use pmuscope_symbols::{
    Module, Options, State, Symbolizer, dynamic_loader, function_offsets, read_build_id,
};

use crate::programs::{compile, file_offset, remove_section_headers, resolve};

/// Rules of all places of the first pages of code.
fn rules(program: &Path, arch: Arch) -> Vec<Result<Rule, Gap>> {
    let symbolizer = Symbolizer::new(Options { inlined: false });
    let table = symbolizer.unwinder().table(&Module::file(program, None), arch, true);
    let mut scratch = UnwindScratch::default();
    (0x1000..0x1400).map(|place| table.rule(place, &mut scratch)).collect()
}

#[test]
fn exported_functions_have_names_however_they_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    for (style, kind) in [("sysv", "-rdynamic"), ("gnu", "-rdynamic"), ("gnu", "-shared")] {
        let style = format!("-Wl,--hash-style={style}");
        let Some(program) = compile(dir.path(), "program", &["-fPIC", kind, &style]) else {
            return;
        };
        let Some(offset) = file_offset(&program, "outer") else { return };
        let id = read_build_id(&program).unwrap();
        assert!(id.is_some());
        remove_section_headers(&program, false);
        assert_eq!(read_build_id(&program).unwrap(), id);
        let found = resolve(&program, id.as_ref(), offset, true);
        assert_eq!(found, (State::Found, vec!["outer".into()]), "{style} {kind}");
    }
}

#[test]
fn stacks_are_unwound_as_with_section_headers() {
    let Some(arch) = Arch::of_this_program() else {
        return eprintln!("skipped: no unwinding on this machine");
    };
    let dir = tempfile::tempdir().unwrap();
    for kind in ["-pie", "-no-pie"] {
        let Some(program) = compile(dir.path(), "program", &[kind]) else { return };
        let before = rules(&program, arch);
        assert!(before.iter().flatten().count() > 100, "{kind}");
        remove_section_headers(&program, false);
        let after = rules(&program, arch);
        let differ = after.iter().zip(&before).filter(|(after, before)| after != before);
        assert_eq!(differ.count(), 0, "{kind}");
    }
}

#[test]
fn headers_that_were_cut_off_are_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &["-rdynamic"]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap();
    remove_section_headers(&program, true);
    let found = resolve(&program, id.as_ref(), offset, true);
    assert_eq!(found, (State::Found, vec!["outer".into()]));
    // Of a file without all of its code nothing is said.
    let bytes = std::fs::read(&program).unwrap();
    std::fs::write(&program, &bytes[..0x1010]).unwrap();
    let (state, names) = resolve(&program, None, offset, true);
    assert!(matches!(state, State::Unreadable(_)), "{state:?}");
    assert!(names.is_empty());
}

#[test]
fn probes_and_data_are_found_as_with_section_headers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &["-rdynamic"]) else { return };
    let all = |program: &Path| {
        let functions = function_offsets(program, &["outer", "main", "absent"]);
        let symbolizer = Symbolizer::new(Options { inlined: false });
        // The first exported constant of the C runtime.
        let offsets: Vec<u64> = (0x2000..0x2010).collect();
        let data = symbolizer.objects(&Module::file(program, None), &offsets);
        (functions, data, dynamic_loader(program))
    };
    let before = all(&program);
    assert!(before.0.as_ref().is_some_and(|found| found[0].is_some() && found[2].is_none()));
    assert!(before.1.iter().flatten().count() > 0 && before.2.is_some());
    remove_section_headers(&program, false);
    assert_eq!(all(&program), before);
}
