//! Files of `/proc` and `/sys` that describe processes and the kernel: the first byte says which.

#![no_main]

use std::fs;
use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::folder;
use pmuscope_machine::Machine;

const FILES: [&str; 12] = [
    "proc/7/maps",
    "proc/7/status",
    "proc/7/numa_maps",
    "proc/7/task/7/sched",
    "proc/vmstat",
    "proc/kallsyms",
    "proc/modules",
    "proc/cpuinfo",
    "proc/stat",
    "sys/kernel/notes",
    "sys/devices/system/cpu/online",
    "sys/bus/event_source/devices/odd/format/event",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let path = folder().join(FILES[usize::from(which) % FILES.len()]);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("space for a file");
    let machine = Machine::at(folder());
    black_box((
        machine.mappings(7).is_ok(),
        machine.task(7, 7).is_ok(),
        machine.cpu_times().is_ok(),
    ));
    black_box((machine.kernel_text(), machine.modules(), machine.kernel_build_id()));
    black_box((machine.topology().is_ok(), machine.processor(), machine.pmus().is_ok()));
    black_box((
        machine.numa_maps(7).is_ok(),
        machine.numa_task(7, 7).is_ok(),
        machine.numa_counters().is_ok(),
    ));
    let _ = fs::remove_file(path);
});
