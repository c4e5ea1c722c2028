//! Symbols that a recording brings along, and what lies in the kernel.

use pmuscope_abi::record::misc;
use pmuscope_symbols::State;

use pmuscope_testkit::plain_file::{
    PlainFile, SymbolFile, attr, simpleperf_files, simpleperf_records,
};

const KERNEL: u64 = 0xffff_ff80_8800_0000;

/// Modules and functions of the samples, and the state of a module's symbols.
fn functions(file: &PlainFile, module: &str) -> (Vec<String>, Option<State>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    std::fs::write(&path, file.file()).unwrap();
    let profile = crate::profile(&path).unwrap();
    let mut found: Vec<String> = profile.events[0]
        .functions
        .iter()
        .map(|row| {
            let module = &profile.modules[row.module].path;
            let name = profile.name_of(row);
            format!("{} {name} {}", module.rsplit('/').next().unwrap(), row.samples)
        })
        .collect();
    found.sort();
    let module = profile.modules.iter().find(|one| one.path == module);
    (found, module.map(|one| one.symbols.clone()))
}

#[test]
fn functions_of_a_phone_have_the_names_that_simpleperf_kept() {
    for in_records in [false, true] {
        check_functions_of_a_phone(in_records);
    }
}

/// Symbols are in a feature section, or in records, as they were in 2016.
fn check_functions_of_a_phone(in_records: bool) {
    let mut file = PlainFile { attrs: vec![attr(0, 0)], ..PlainFile::default() };
    let library = "/system/lib64/libnot_here.so";
    file.map(true, 0, u64::MAX, 0, "[kernel.kallsyms]");
    file.map(false, 0x7000_0000, 0x10000, 0x2000, library);
    file.map(false, 0x9c9e_b7f0, 0x200, 0x3c78, "app.data_jit_app_cache:15480-17544");
    let compiled = "java.lang.Thread.sleep";
    let symbols: [SymbolFile<'_>; 3] = [
        ("[kernel.kallsyms]", 0, 0, &[(KERNEL + 0x100, 0x40, "gic_handle_irq")]),
        (library, 2, 0x20000, &[(0x22200, 0x20, "g"), (0x22100, 0x20, "_ZN3art1fEv")]),
        ("app.data_jit_app_cache:15480-17544", 2, 0, &[(0x9c9e_b7f0, 0x180, compiled)]),
    ];
    if in_records {
        file.data.extend(simpleperf_records(&symbols));
    } else {
        file.features = vec![(128, simpleperf_files(&symbols))];
    }
    for (mode, ip) in [
        (misc::KERNEL, KERNEL + 0x110),
        (misc::USER, 0x7000_0100),
        (misc::USER, 0x7000_0110),
        (misc::USER, 0x7000_0210),
        (misc::USER, 0x7000_0500),
        (misc::USER, 0x9c9e_b800),
    ] {
        file.sample(0, mode, ip, ip % 1000, &[]);
    }
    let (found, state) = functions(&file, library);
    let expected = [
        "[kernel.kallsyms] gic_handle_irq 1",
        "libnot_here.so [unknown] 1",
        "libnot_here.so art::f 2",
        "libnot_here.so g 1",
        "perf-7.map java.lang.Thread.sleep 1",
    ];
    assert_eq!((&found[..], state), (&expected.map(str::to_owned)[..], Some(State::Found)));
}

/// The kernel touches a program's code only by mistake: such samples are of no known code.
#[test]
fn addresses_of_programs_are_not_the_kernels_in_any_mode() {
    for hidden in [true, false] {
        let mut file = PlainFile { attrs: vec![attr(0, 0)], ..PlainFile::default() };
        let (start, length) = if hidden { (0, u64::MAX) } else { (KERNEL, 0x100_0000) };
        file.map(true, start, length, start, "[kernel.kallsyms]_text");
        file.map(false, 0x40_0000, 0x1000, 0, "/not/here");
        for ip in [0x40_0100, 0x5570_f730_1234, KERNEL + 0x10, 0xc000_1000] {
            file.sample(0, misc::KERNEL, ip, ip % 1000, &[]);
        }
        let found = functions(&file, "").0;
        assert_eq!(found, ["[kernel.kallsyms] [unknown] 2", "[unknown] [unknown] 2"], "{hidden}");
    }
}
