//! Lists of CPUs, as the kernel and users write them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_machine::CpuSet;

fuzz_target!(|text: &str| {
    let Ok(cpus) = CpuSet::parse(text) else { return };
    let again = CpuSet::parse(&cpus.to_string()).expect("what was written can be read");
    assert_eq!(again, cpus);
    assert_eq!(cpus.iter().count(), cpus.len());
});
