//! Texts: of users, of the kernel, of programs.

use std::time::UNIX_EPOCH;

use pmuscope_machine::{FileKind, Replace};
use pmuscope_measure::{Labels, Origin, Program, Run, RunFile, save};

use crate::{Result, Seeds};

/// A line each.
const EVENTS: &str = "cycles:u\ninstructions:k,cycles\n{cycles,instructions}:S\nr1a3\n\
    cpu_core/event=0x3c,umask=1,name=x/ppp\nsched:sched_switch\nsched:*\nmem:0x1000/8:rw\n\
    L1-dcache-load-misses\nuncore_imc/cas_count_read/\ncpu-clock/freq=99,call-graph=fp/\n\
    page-faults/period=1/\nmsr/tsc/\ncpu/mem-loads,ldlat=30/P\nany_call,u,k\nconfig1:0-7,16-31\n\
    config:0-63\nevent=0x1,umask=0x2\n";
/// Event lists in each form, the table of CPUs, and an index without its first line.
const EVENT_LISTS: [&str; 6] = [
    r#"{"Header":{},"Events":[{"EventCode":"0xB7, 0xBB","UMask":"0x01","EventName":"OFFCORE.X","Counter":"0,1,2,3","CounterHTOff":"0,1,2,3,4,5,6,7","MSRIndex":"0x1a6,0x1a7","MSRValue":"0x10001","TakenAlone":"0","CounterMask":"1","Invert":"1","EdgeDetect":"1","AnyThread":"1","PEBS":"2","BriefDescription":"a"}]}"#,
    r#"[{"Unit":"CBO","EventCode":"0x34","UMask":"0x11","UMaskExt":"0x1","EventName":"UNC_X","Counter":"Fixed counter 1","Filter":"f","ExtSel":"1","PortMask":"1","FCMask":"7"}]"#,
    r#"{"product_configuration":{"part_num":"0xd0c","implementer":"0x41"},"events":{"CPU_CYCLES":{"code":"0x11","title":"t","description":"d","accesses":["PMU"]}}}"#,
    r#"[{"Unit":"cpu","EventName":"x.y","Encoding":"cpu/event=0x51,umask=0x1,ldlat=3/"}]"#,
    "GenuineIntel-6-55-[56789ABCDEF],V1,/CLX/core.json,core,0x20,0x1,Atom\n",
    r#"{"stamps":[],"contents":{"maps":[],"files":[{"path":"a.json","product":null,"number":1,"block":[0,30]}],"notes":[]}}
[{"n":"a","t":"event=1","c":{"general":1,"general_smt":null,"fixed":0,"alone":false,"extra":null}}]
"#,
];
const CPU_LISTS: [&str; 5] = ["0-3,8", "0", "0-1023", "1,3,5-7,4095", ""];
/// As compilers write them.
const MANGLED: [&str; 14] = [
    "_ZN4core3fmt5write17h0123456789abcdefE",
    "_RNvC6_123foo3bar",
    "_RNvMs0_NtCs1_3std4vecINtB5_3VechE4push",
    "_RINvNtC3std3mem8align_ofdE",
    "_ZNKSt6vectorIiSaIiEE4sizeEv",
    "_Z3foov.llvm.123",
    "_Z1fIiEvT_DpT0_",
    "_ZN1AIXadL_Z1gvEEE1fEv",
    "_ZZ4mainENKUlvE_clEv",
    "_ZN12_GLOBAL__N_11fEv.part.0.isra.1",
    "_Z1fIXplLi1ELi2EEEvv",
    "_ZSt4moveIRSsEONSt16remove_referenceIT_E4typeEOS2_",
    "_ZTv0_n24_N1AD1Ev",
    "_ZGVZ1fvE1x",
];
const KALLSYMS: &str = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n\
    ffffffff81000000 T _text\nffffffff81000100 t do_one\nffffffff81000100 T do_other\n\
    ffffffff82000000 T _etext\nffffffffc0401000 t ext4_sync\t[ext4]\n";
/// Below `/proc` and `/sys`, in the order of the target `proc`.
const FILES: [&str; 9] = [
    "/proc/self/maps",
    "/proc/self/status",
    "/proc/kallsyms",
    "/proc/modules",
    "/proc/cpuinfo",
    "/proc/stat",
    "/sys/kernel/notes",
    "/sys/devices/system/cpu/online",
    "/sys/bus/event_source/devices/msr/format/event",
];
/// Enough of a long file.
const MOST: usize = 4096;

/// Adds inputs for all targets that take text.
pub(crate) fn add(seeds: &Seeds) -> Result {
    for (number, line) in EVENTS.lines().enumerate() {
        seeds.add("events", &number.to_string(), line.as_bytes())?;
    }
    seeds.add("events", "odd", b"config:0-3,8-9\na=1,b=2")?;
    for (number, text) in EVENT_LISTS.iter().enumerate() {
        seeds.add("event_lists", &number.to_string(), text.as_bytes())?;
    }
    for (number, text) in CPU_LISTS.iter().enumerate() {
        seeds.add("cpu_list", &number.to_string(), text.as_bytes())?;
    }
    for (number, name) in MANGLED.iter().enumerate() {
        seeds.add("demangle", &number.to_string(), name.as_bytes())?;
    }
    seeds.add("kallsyms", "short", KALLSYMS.as_bytes())?;
    seeds.add(
        "perf_map",
        "map",
        b"1000 40 first\n1020 10 second\n0x40 ff LazyCompile:~f a.js:1\n",
    )?;
    for (number, path) in (0_u8..).zip(FILES) {
        let bytes = std::fs::read(path).unwrap_or_default();
        let front = &bytes[..bytes.len().min(MOST)];
        seeds.add("proc", &number.to_string(), &[&[number], front].concat())?;
        if path.ends_with("kallsyms") {
            seeds.add("kallsyms", "host", front)?;
        }
    }
    run_file(seeds)
}

fn run_file(seeds: &Seeds) -> Result {
    let tool = Program { name: "pmuscope".into(), version: "0".into() };
    let mut file = RunFile::new(tool, vec!["pmuscope".into(), "bench".into()], UNIX_EPOCH);
    for (index, arm) in ["none", "record"].into_iter().cycle().take(8).enumerate() {
        let labels: Labels = [("arm".to_owned(), arm.to_owned())].into();
        file.runs.push(Run {
            index,
            order: index,
            round: Some(index / 2),
            labels: labels.clone(),
            started: "0".into(),
            duration_s: 1.0,
            exit: Some(0),
            why: None,
            units: [("item".to_owned(), 3.0)].into(),
        });
        let value = 1.0 + index as f64 / 100.0;
        file.add(index, &labels, "wall", ("s", Origin::Clock), Ok(value));
    }
    let path = std::env::temp_dir().join(format!("seed-{}.json", std::process::id()));
    save(&file, &path, Replace::Own(FileKind::RunFile))?;
    seeds.add("run_file", "runs", &std::fs::read(&path)?)?;
    std::fs::remove_file(&path)?;
    seeds.add("run_file", "pattern", b"took ([0-9.]+) (ms|s)\nit took 12.5 ms\n")
}
