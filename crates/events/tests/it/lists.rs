//! Event lists: small files in each form, written here.

use std::fs;
use std::path::Path;

use pmuscope_events::lists::{
    ArmKind, Folder, Identity, ListError, Lists, MadeFor, NotCountable, Precision, Product, import,
    read,
};
use pmuscope_events::schedule::{Constraint, Extra};
use pmuscope_events::{Event, Group, NameKind, list_known, parse};
use pmuscope_machine::{CpuSet, Machine, Midr};
use proptest::prelude::*;

use crate::fixtures::{Fixture, arm, error, event, hybrid, intel, vm};

/// A core's list, below a header.
const CORE: &str = r#"{
  "Header": {"Info": "made for a test"},
  "Events": [
    {"EventCode": "0x00", "UMask": "0x01", "EventName": "INST_RETIRED.ANY", "Counter": "Fixed counter 0",
     "CounterHTOff": "Fixed counter 0", "BriefDescription": "Instructions retired.", "MSRIndex": "0"},
    {"EventCode": "0x24", "UMask": "0x21", "EventName": "L2_RQSTS.DEMAND_DATA_RD_MISS",
     "BriefDescription": "Misses.", "PublicDescription": "Misses at length.", "Counter": "0,1,2,3",
     "CounterHTOff": "0,1,2,3,4,5,6,7", "SampleAfterValue": "200003", "MSRIndex": "0", "MSRValue": "0",
     "TakenAlone": "0", "CounterMask": "0", "Invert": "0", "AnyThread": "0", "EdgeDetect": "0",
     "PEBS": "0", "Errata": "null", "Deprecated": "0"},
    {"EventCode": "0xA3", "UMask": "0x08", "EventName": "CYCLE_ACTIVITY.CYCLES_L1D_PENDING",
     "Counter": "2", "CounterHTOff": "2", "CounterMask": "8", "Errata": "X1", "PEBS": "1"},
    {"EventCode": "0x0e", "UMask": "0x01", "EventName": "UOPS_ISSUED.STALLS", "Counter": "0,1,2,3",
     "CounterMask": "1", "Invert": "1", "EdgeDetect": "1", "Deprecated": "1"},
    {"EventCode": "0xCD", "UMask": "0x01", "EventName": "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4",
     "Counter": "3", "CounterHTOff": "3", "MSRIndex": "0x3F6", "MSRValue": "0x4", "TakenAlone": "1",
     "PEBS": "2"},
    {"EventCode": "0xB7, 0xBB", "UMask": "0x01", "EventName": "OFFCORE_RESPONSE.X", "Offcore": "1",
     "Counter": "0,1,2,3", "MSRIndex": "0x1a6,0x1a7", "MSRValue": "0x3FBFC00001"},
    {"EventCode": "0xc6", "UMask": "0x01", "EventName": "FRONTEND_RETIRED.X", "Counter": "0,1,2,3",
     "MSRIndex": "0x3F7", "MSRValue": "0x11"},
    {"EventCode": "0xd0", "EventName": "ODD_REGISTER", "MSRIndex": "0x3E0", "MSRValue": "1"},
    {"MetricName": "none", "MetricExpr": "1"}
  ]
}"#;

const UNCORE: &str = r#"[
  {"Unit": "iMC", "EventCode": "0x04", "UMask": "0x03", "EventName": "UNC_M_CAS_COUNT.RD",
   "BriefDescription": "Reads", "Counter": "0,1,2,3", "UMaskExt": "0x0", "Filter": "na"},
  {"Unit": "CBO", "EventCode": "0x34", "UMask": "0x11", "EventName": "UNC_C_LLC_LOOKUP.WRITE",
   "Counter": "0,1", "Filter": "CBoFilter0[23:17]"},
  {"Unit": "QPI LL", "EventCode": "0x38", "EventName": "UNC_Q_X", "ExtSel": "1", "Counter": "0"}
]"#;

const ARM: &str = r#"{
  "_type": "PMU_Specification",
  "product_configuration": {"product_name": "Test", "part_num": "0xd0c", "implementer": "0x41"},
  "events": {
    "L1D_CACHE_REFILL": {"code": "0x0003", "title": "Level 1 refill", "description": "At length.",
                         "accesses": ["PMU", "ETE"]},
    "CPU_CYCLES": {"code": "0x0011", "title": "Cycle"},
    "TRACE_ONLY": {"code": "0x4000", "title": "For traces", "accesses": ["ETE"]}
  }
}"#;

/// As `perf list -j` prints it: generic events have no encoding, metrics no event.
const PERF: &str = r#"[
  {"Unit": "default_core", "EventName": "cycles", "EventType": "Hardware event"},
  {"Unit": "cpu", "Topic": "cache", "EventName": "l1d.replacement",
   "EventType": "Kernel PMU event", "BriefDescription": "Lines brought in",
   "Encoding": "cpu/event=0x51,umask=0x1/"},
  {"Unit": "cpu", "EventName": "offcore_response.y",
   "Encoding": "cpu/event=0xb7,umask=0x1,offcore_rsp=0x10001/"},
  {"Unit": "uncore_imc_0", "EventName": "unc_m_x", "Encoding": "uncore_imc_0/event=0x1/"},
  {"MetricName": "IPC", "MetricExpr": "instructions / cycles"}
]"#;

const MAPFILE: &str = "Family-model,Version,Filename,EventType,Core Type,Native Model ID,Core Role Name\n\
    GenuineIntel-6-3F,V29,/HSX/events/core.json,core,,,\n\
    GenuineIntel-6-3F,V29,/HSX/events/uncore.json,uncore,,,\n\
    GenuineIntel-6-55-[56789ABCDEF],V1,/CLX/events/core.json,core,,,\n\
    GenuineIntel-6-97,V1,/ADL/events/atom.json,hybridcore,0x20,0x1,Atom\n\
    GenuineIntel-6-97,V1,/ADL/events/big.json,hybridcore,0x40,0x1,Core\n";

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// What a vendor's download looks like, for three kinds of CPU.
fn download(folder: &Path) {
    let atom = CORE.replace("0x24", "0x25").replace("INST_RETIRED.ANY", "INST_RETIRED.ANY_P");
    put(
        folder,
        &[
            ("mapfile.csv", MAPFILE),
            ("HSX/events/core.json", CORE),
            ("HSX/events/uncore.json", UNCORE),
            ("CLX/events/core.json", &CORE.replace("0x24", "0x99")),
            ("ADL/events/atom.json", &atom),
            ("ADL/events/big.json", CORE),
            ("HSX/metrics/metrics.json", r#"[{"MetricName": "x", "MetricExpr": "1"}]"#),
            ("HSX/events/.hidden.json", "{"),
            ("README.md", "not a list"),
        ],
    );
}

fn x86(model: u32, stepping: u32) -> Identity {
    let (vendor, stepping) = ("GenuineIntel".to_owned(), Some(stepping));
    Identity::X86 { vendor, family: 6, model, stepping }
}

/// A CPU with these cores: MIDR_EL1, and the unit that counts on them.
fn arm_cpu(cores: &[(&str, Option<&str>)]) -> Identity {
    let kind = |&(midr, unit): &(&str, Option<&str>)| ArmKind {
        midr: Midr::of_register(u64::from_str_radix(&midr[2..], 16).unwrap()),
        unit: unit.map(str::to_owned),
    };
    Identity::Arm(cores.iter().map(kind).collect())
}

/// As Arm's machine-readable lists have it, for the core with this CPU id.
fn arm_list(name: &str, id: &str, event: &str) -> String {
    format!(
        r#"{{"_type": "Events", "implementer": "A", "cpuid": "{id}", "cpu": "{name}", "architecture": "armv8",
        "events": [{{"code": 17, "name": "CPU_CYCLES"}}, {{"code": 192, "name": "{event}"}}]}}"#
    )
}

fn lists_of(text: &str) -> Lists {
    let mut lists = Lists::default();
    lists.extend(read(text.as_bytes()).unwrap().events);
    lists
}

fn with(fixture: Fixture, texts: &[&str]) -> Fixture {
    let mut lists = Lists::default();
    for text in texts {
        lists.extend(read(text.as_bytes()).unwrap().events);
    }
    fixture.with_lists(lists)
}

fn words(event: &Event) -> String {
    let attr = &event.attr;
    format!("{} {:#x} {:#x}", event.pmu, attr.config, attr.config1)
}

#[test]
fn each_form_is_told_by_its_content() {
    let intel = read(CORE.as_bytes()).unwrap();
    assert_eq!(intel.events.len(), 8);
    assert_eq!(intel.made_for, MadeFor::X86 { vendor: None });
    let names: Vec<String> =
        read(ARM.as_bytes()).unwrap().events.into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["CPU_CYCLES", "L1D_CACHE_REFILL"]);
    let products = vec![Product { implementer: 0x41, part: 0xd0c, revision: None }];
    let name = Some("Test".to_owned());
    assert_eq!(read(ARM.as_bytes()).unwrap().made_for, MadeFor::Arm { name, products });
    assert_eq!(read(PERF.as_bytes()).unwrap().events.len(), 3);
    let older =
        r#"{"cpu": "Cortex", "counters": 6, "events": [{"code": 1, "name": "L1I_CACHE_REFILL"}]}"#;
    assert_eq!(read(older.as_bytes()).unwrap().events[0].terms, "event=0x1");
    for wrong in
        ["", "x", "[1]", "[{\"EventName\"}]", "{\"Events\": 3}", "{\"events\": [{\"code\": {}}"]
    {
        assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn constraints_and_encodings_are_the_vendors() {
    let lists = lists_of(CORE);
    let one = |name: &str| lists.named(name)[0].clone();
    let miss = one("l2_rqsts.demand_data_rd_miss");
    assert_eq!(
        (&miss.name[..], &miss.terms[..]),
        ("L2_RQSTS.DEMAND_DATA_RD_MISS", "event=0x24,umask=0x21")
    );
    assert_eq!((&miss.brief[..], miss.long.as_deref()), ("Misses.", Some("Misses at length.")));
    assert_eq!((miss.period, miss.errata, miss.deprecated), (Some(200_003), None, false));
    let shared = Constraint { general: 0xff, general_smt: Some(0xf), ..Constraint::any() };
    assert_eq!(miss.constraint, shared);
    let pending = one("CYCLE_ACTIVITY.CYCLES_L1D_PENDING");
    assert_eq!(pending.constraint, Constraint { general: 4, ..Constraint::any() });
    assert_eq!(
        (&pending.terms[..], pending.precision),
        ("event=0xa3,umask=0x8,cmask=0x8", Precision::Can)
    );
    assert_eq!(pending.errata.as_deref(), Some("X1"));
    let stalls = one("UOPS_ISSUED.STALLS");
    assert_eq!(stalls.terms, "event=0xe,umask=0x1,cmask=0x1,inv=0x1,edge=0x1");
    assert!(stalls.deprecated);
    let latency = one("MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4");
    assert_eq!(
        (&latency.terms[..], latency.precision),
        ("event=0xcd,umask=0x1,ldlat=0x4", Precision::Must)
    );
    let extra = Some(Extra { registers: vec![0x3f6], value: 4 });
    assert_eq!(
        latency.constraint,
        Constraint { general: 8, alone: true, extra, ..Constraint::any() }
    );
    let offcore = one("OFFCORE_RESPONSE.X");
    assert_eq!(offcore.terms, "event=0xb7,umask=0x1,offcore_rsp=0x3fbfc00001");
    assert_eq!(offcore.constraint.extra.unwrap().registers, [0x1a6, 0x1a7]);
    // The pseudo code of the fixed counter is not the kernel's, and any counter counts instructions.
    let instructions = one("INST_RETIRED.ANY");
    assert_eq!(instructions.terms, "event=0xc0");
    assert_eq!(instructions.constraint, Constraint::any().or_fixed(0));
    let uncore = lists_of(UNCORE);
    let unit = |name: &str| uncore.named(name)[0].unit.clone().unwrap();
    assert_eq!(unit("UNC_M_CAS_COUNT.RD"), "uncore_imc");
    assert_eq!(unit("UNC_C_LLC_LOOKUP.WRITE"), "uncore_cbox");
    assert_eq!(uncore.named("UNC_Q_X")[0].terms, "event=0x138");
    assert_eq!(
        uncore.named("unc_c_llc_lookup.write")[0].filter.as_deref(),
        Some("CBoFilter0[23:17]")
    );
    let perf = lists_of(PERF);
    assert_eq!(
        perf.named("offcore_response.y")[0].constraint.extra.as_ref().unwrap().value,
        0x10001
    );
}

#[test]
fn names_of_lists_are_events() {
    let on = with(intel(), &[CORE, UNCORE, PERF]);
    let miss = event("L2_RQSTS.DEMAND_DATA_RD_MISS:u", &on);
    assert_eq!(words(&miss), "cpu 0x2124 0x0");
    assert_eq!(miss.name, "L2_RQSTS.DEMAND_DATA_RD_MISS:u");
    assert_eq!(miss.needs().general_smt, Some(0xf));
    assert_eq!(words(&event("l2_rqsts.demand_data_rd_miss/period=7/", &on)), "cpu 0x2124 0x0");
    assert_eq!(
        words(&event("cpu/L2_RQSTS.Demand_Data_RD_Miss,cmask=1/", &on)),
        "cpu 0x1002124 0x0"
    );
    assert_eq!(words(&event("OFFCORE_RESPONSE.X", &on)), "cpu 0x1b7 0x3fbfc00001");
    assert_eq!(words(&event("l1d.replacement", &on)), "cpu 0x151 0x0");
    // It can be sampled; a count would be 0.
    let latency = event("MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4:pp", &on);
    let why = NotCountable::PebsThreshold("MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4".to_owned());
    assert_eq!((words(&latency), latency.not_countable), ("cpu 0x1cd 0x4".to_owned(), Some(why)));
    let groups: Vec<Group> = parse("UNC_M_CAS_COUNT.RD", &on).unwrap();
    let all: Vec<String> = groups.iter().flat_map(|group| &group.events).map(words).collect();
    assert_eq!(all, ["uncore_imc_0 0x304 0x0", "uncore_imc_1 0x304 0x0"]);
    assert_eq!(groups[1].events[0].name, "uncore_imc_1/UNC_M_CAS_COUNT.RD/");
    assert_eq!(groups[1].events[0].cpus, Some("0,28".parse::<CpuSet>().unwrap()));
    // The names are known, each once, and suggested too.
    let known = list_known(&on).filter(|known| known.name == "UNC_M_CAS_COUNT.RD");
    assert_eq!(known.map(|known| known.kind).collect::<Vec<_>>(), [NameKind::Listed]);
    assert!(error("l2_rqsts.demand_data_rd_mis", &on).contains("L2_RQSTS.DEMAND_DATA_RD_MISS"));
}

#[test]
fn the_kernels_own_names_come_first() {
    let mine = r#"[{"EventName": "branch-misses", "EventCode": "0x1"}, {"EventName": "cpu-cycles", "EventCode": "0x1"}]"#;
    let on = with(intel(), &[mine]);
    assert_eq!(words(&event("cpu/cpu-cycles/", &on)), "cpu 0x3c 0x0");
    assert_eq!(event("branch-misses", &on).attr.event_type, 0);
}

#[test]
fn what_cannot_be_is_told_with_the_reason() {
    insta::assert_snapshot!(error("INST_RETIRED.ANY", &with(vm(), &[CORE])), @"event 'INST_RETIRED.ANY': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU");
    insta::assert_snapshot!(error("UNC_C_LLC_LOOKUP.WRITE", &with(vm(), &[UNCORE])), @"event 'UNC_C_LLC_LOOKUP.WRITE': it counts on uncore_cbox, which this machine lacks. It has: breakpoint, msr, software, tracepoint");
    insta::assert_snapshot!(error("OFFCORE_RESPONSE.X", &with(arm(), &[CORE])), @"event 'OFFCORE_RESPONSE.X': this kernel cannot count it as listed (armv8_pmuv3_0/event=0xb7,umask=0x1,offcore_rsp=0x3fbfc00001/): armv8_pmuv3_0 has no such term or event. Its terms: event, long, rdpmc");
    insta::assert_snapshot!(error("odd_register", &with(intel(), &[CORE])), @"event 'odd_register': this kernel cannot count it as listed (cpu/event=0xd0/): needs register 0x3e0, for which cpu has no term");
    let other = CORE.replace("0x21", "0x22");
    insta::assert_snapshot!(error("L2_RQSTS.DEMAND_DATA_RD_MISS", &with(intel(), &[CORE, &other])), @"event 'L2_RQSTS.DEMAND_DATA_RD_MISS': several events in the lists have this name. Try: cpu/event=0x24,umask=0x21/, cpu/event=0x24,umask=0x22/");
}

#[test]
fn lists_are_chosen_for_the_cpu() {
    let dir = tempfile::tempdir().unwrap();
    download(dir.path());
    let lists = |identity: &Identity| Lists::load(dir.path(), Some(identity), None).unwrap();
    let haswell = lists(&x86(0x3f, 2));
    assert_eq!(haswell.len(), 11);
    assert_eq!(haswell.named("L2_RQSTS.DEMAND_DATA_RD_MISS")[0].terms, "event=0x24,umask=0x21");
    let cascade = lists(&x86(0x55, 7));
    assert_eq!(cascade.named("L2_RQSTS.DEMAND_DATA_RD_MISS")[0].terms, "event=0x99,umask=0x21");
    let none = lists(&x86(0x55, 4));
    assert!(none.is_empty());
    assert!(none.notes()[0].contains("for this CPU (GenuineIntel-6-55-4)"), "{:?}", none.notes());
    let all = Lists::load(dir.path(), None, None).unwrap();
    assert!(all.len() > haswell.len());
}

#[test]
fn kinds_of_cores_have_lists_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    download(dir.path());
    let lists = Lists::load(dir.path(), Some(&x86(0x97, 1)), None).unwrap();
    let on = hybrid().with_lists(lists);
    let found: Vec<String> = parse("L2_RQSTS.DEMAND_DATA_RD_MISS", &on)
        .unwrap()
        .iter()
        .flat_map(|group| &group.events)
        .map(words)
        .collect();
    assert_eq!(found, ["cpu_atom 0x2125 0x0", "cpu_core 0x2124 0x0"]);
    assert_eq!(event("INST_RETIRED.ANY", &on).pmu, "cpu_core");
}

#[test]
fn arm_lists_say_themselves_what_they_are_for() {
    let dir = tempfile::tempdir().unwrap();
    let other = ARM.replace("0xd0c", "0xd40").replace("L1D_CACHE_REFILL", "OTHER");
    put(dir.path(), &[("n1.json", ARM), ("v1.json", &other)]);
    let identity = arm_cpu(&[("0x413fd0c1", None)]);
    let lists = Lists::load(dir.path(), Some(&identity), None).unwrap();
    assert_eq!((lists.len(), lists.named("other").len()), (2, 0));
    let on = arm().with_lists(lists);
    assert_eq!(words(&event("l1d_cache_refill", &on)), "armv8_pmuv3_0 0x3 0x0");
    assert_eq!(words(&event("CPU_CYCLES", &on)), "armv8_pmuv3_0 0x11 0x0");
    assert_eq!(event("CPU_CYCLES", &on).needs().fixed, 2);
}

#[test]
fn lists_of_arm_are_for_the_cores_that_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let n1 = arm_list("Neoverse N1", "0x41d0c", "OF_N1");
    let r82 = arm_list("Cortex-R82", "0x41d15", "KITE_LOAD");
    put(dir.path(), &[("n1.json", &n1), ("r82.json", &r82)]);
    let load = |identity: &Identity| Lists::load(dir.path(), Some(identity), None).unwrap();
    let on_n1 = load(&arm_cpu(&[("0x413fd0c1", None)]));
    assert_eq!((on_n1.named("OF_N1").len(), on_n1.named("KITE_LOAD").len()), (1, 0));
    // What only another core's list has is no event here, and the reason names both.
    let why = error("KITE_LOAD", &arm().with_lists(on_n1));
    assert!(why.contains("is listed for Cortex-R82 (implementer 0x41 part 0xd15)"), "{why}");
    assert!(why.contains("this CPU is Arm implementer 0x41 part 0xd0c r3p1"), "{why}");
    // QEMU's own core, AMD's, one that nobody knows: nothing is for them.
    let others = [
        arm_cpu(&[("0x000f0510", None)]),
        Identity::X86 { vendor: "AuthenticAMD".into(), family: 25, model: 17, stepping: Some(1) },
        Identity::Other("IBM POWER9".into()),
    ];
    for identity in others {
        let lists = load(&identity);
        assert!(lists.is_empty(), "{identity}");
        let note = &lists.notes()[0];
        assert!(note.contains(&identity.to_string()) && note.contains("Cortex-R82"), "{note}");
        let refused = import(dir.path(), &dir.path().join("to"), Some(&identity)).unwrap_err();
        assert!(matches!(refused, ListError::OtherCpus { .. }), "{refused}");
        assert!(refused.to_string().contains("perf list -j"), "{refused}");
        let mut found = lists.of_other_cpus();
        found.retain(|(event, _)| event.name == "KITE_LOAD");
        assert_eq!(found[0].1, "Cortex-R82 (implementer 0x41 part 0xd15)");
    }
}

#[test]
fn lists_of_x86_are_not_for_arm_nor_intels_for_amd() {
    let dir = tempfile::tempdir().unwrap();
    let intel = CORE.replace("made for a test", "Performance Monitoring Events for Intel(R) Test");
    put(dir.path(), &[("core.json", &intel), ("perf.json", PERF)]);
    let load = |identity: &Identity| Lists::load(dir.path(), Some(identity), None).unwrap();
    assert!(load(&arm_cpu(&[("0x413fd0c1", None)])).is_empty());
    let amd =
        Identity::X86 { vendor: "AuthenticAMD".into(), family: 25, model: 17, stepping: Some(1) };
    assert_eq!(load(&amd).len(), 3, "what perf list -j printed on some x86");
    assert_eq!(load(&x86(0x3f, 2)).len(), 11);
}

#[test]
fn each_kind_of_core_takes_its_own_list() {
    let dir = tempfile::tempdir().unwrap();
    let little = arm_list("Cortex-A55", "0x41d05", "OF_LITTLE");
    let big = arm_list("Cortex-A78", "0x41d41", "OF_BIG");
    put(dir.path(), &[("a55.json", &little), ("a78.json", &big)]);
    let cores =
        [("0x412fd050", Some("armv8_cortex_a55")), ("0x411fd411", Some("armv8_cortex_a78"))];
    let lists = Lists::load(dir.path(), Some(&arm_cpu(&cores)), None).unwrap();
    let unit = |name: &str| lists.named(name)[0].unit.clone();
    assert_eq!(unit("OF_LITTLE").as_deref(), Some("armv8_cortex_a55"));
    assert_eq!(unit("OF_BIG").as_deref(), Some("armv8_cortex_a78"));
    assert_eq!(lists.named("CPU_CYCLES").len(), 2);
}

#[test]
fn of_lists_for_several_revisions_the_cores_own_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    for (file, id, event) in [
        ("any.json", "0x41d0c", "OF_ANY"),
        ("r1.json", "0x411d0c", "OF_R1"),
        ("r3p0.json", "0x413fd0c0", "OF_R3P0"),
        ("r4.json", "0x414d0c", "OF_R4"),
    ] {
        put(dir.path(), &[(file, &arm_list("Neoverse N1", id, event))]);
    }
    let names = |midr: &str| -> Vec<String> {
        let lists = Lists::load(dir.path(), Some(&arm_cpu(&[(midr, None)])), None).unwrap();
        let names = lists.iter().map(|event| event.name.clone());
        names.filter(|name| name != "CPU_CYCLES").collect()
    };
    assert_eq!(names("0x413fd0c1"), ["OF_ANY", "OF_R3P0"]);
    assert_eq!(names("0x412fd0c0"), ["OF_ANY", "OF_R1"]);
    assert_eq!(names("0x414fd0c1"), ["OF_ANY", "OF_R4"]);
    // Where all are for later ones, the earliest of them, and import says so.
    assert_eq!(names("0x410fd0c0"), ["OF_ANY", "OF_R1"]);
    let identity = arm_cpu(&[("0x410fd0c0", None)]);
    let done = import(dir.path(), &dir.path().join("to"), Some(&identity)).unwrap();
    assert_eq!(done.newer.len(), 1, "{:?}", done.newer);
    assert!(done.newer[0].contains("newer than this CPU (r0p0)"), "{:?}", done.newer);
}

#[test]
fn the_kernels_map_of_arm_cores_names_the_least_revision() {
    let dir = tempfile::tempdir().unwrap();
    let map = "0x00000000413fd0c1,v1,arm/n1,core\n";
    put(dir.path(), &[("mapfile.csv", map), ("arm/n1/core.json", &arm_list("N1", "0x41d0c", "X"))]);
    let number =
        |midr: &str| Lists::load(dir.path(), Some(&arm_cpu(&[(midr, None)])), None).unwrap().len();
    assert_eq!((number("0x413fd0c1"), number("0x414fd0c0")), (2, 2));
    assert_eq!((number("0x413fd0c0"), number("0x413fd401")), (0, 0));
}

#[test]
fn a_machine_is_identified_by_its_cores_and_their_units() {
    let dir = tempfile::tempdir().unwrap();
    let cpus = "sys/devices/system/cpu";
    let devices = "sys/bus/event_source/devices";
    for (cpu, midr) in [(0, "0x410fd050"), (1, "0x411fd411")] {
        put(dir.path(), &[(&format!("{cpus}/cpu{cpu}/regs/identification/midr_el1"), midr)]);
    }
    for (unit, cpu) in [("armv8_cortex_a55", "0"), ("armv8_cortex_a78", "1")] {
        put(dir.path(), &[(&format!("{devices}/{unit}/type"), "8")]);
        put(dir.path(), &[(&format!("{devices}/{unit}/cpus"), cpu)]);
    }
    let expected =
        [("0x410fd050", Some("armv8_cortex_a55")), ("0x411fd411", Some("armv8_cortex_a78"))];
    assert_eq!(Identity::of(&Machine::at(dir.path())), arm_cpu(&expected));
    let amd = tempfile::tempdir().unwrap();
    let cpuinfo = "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 17\nstepping: 1\n";
    put(amd.path(), &[("proc/cpuinfo", cpuinfo)]);
    assert_eq!(Identity::of(&Machine::at(amd.path())).to_string(), "AuthenticAMD-25-11-1");
    let nothing = Identity::of(&Machine::at(amd.path().join("none")));
    assert!(matches!(nothing, Identity::Other(_)));
}

#[test]
fn codes_that_the_pmu_does_not_implement_are_no_events_of_it() {
    let on = arm();
    for text in ["r4", "armv8_pmuv3_0/event=0x4/", "armv8_pmuv3_0/r4/", "8:4", "4:4"] {
        let why = error(text, &on);
        assert!(why.contains("armv8_pmuv3_0 does not implement it"), "{text}: {why}");
        assert!(why.contains("nor the kernel lists event 0x4"), "{text}: {why}");
        assert!(parse(text, &on).unwrap_err().is_of_machine(), "{text}");
    }
    // What the PMU lists, what is outside of its bitmap, and generic events are as ever.
    for text in ["r3", "armv8_pmuv3_0/event=0x3/", "rc2", "cycles", "armv8_pmuv3_0/cycles/"] {
        assert_eq!(event(text, &on).pmu, "armv8_pmuv3_0", "{text}");
    }
    // Lists for all cores name events that this one does not have.
    let common = r#"{"cpu": "common ARMv8.0", "architecture": "armv8-a", "events": [
        {"code": 3, "name": "L1D_CACHE_REFILL"}, {"code": 4, "name": "L1D_CACHE"}]}"#;
    let on = with(arm(), &[common]);
    assert_eq!(event("L1D_CACHE_REFILL", &on).attr.config, 3);
    assert!(error("L1D_CACHE", &on).contains("does not implement it"));
}

#[test]
fn what_was_read_once_is_kept_until_a_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (lists, cache) = (dir.path().join("lists"), dir.path().join("cache/events"));
    download(&lists);
    let load = || Lists::load(&lists, Some(&x86(0x3f, 2)), Some(&cache)).unwrap();
    let events = |lists: &Lists| lists.iter().cloned().collect::<Vec<_>>();
    let first = events(&load());
    let kept: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "nothing unfinished is left");
    assert_eq!(events(&load()), first);
    // The answer does come from there: nobody else could know this name.
    let text = fs::read_to_string(&kept[0]).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    let rest = rest.replace("UOPS_ISSUED.STALLS", "UOPS_ISSUED.KEPT__");
    let forge = |rest: &str| {
        let checksum = crc32fast::hash(rest.as_bytes());
        fs::write(&kept[0], format!("pmuscope/events-index/2 {checksum:08x}\n{rest}")).unwrap();
    };
    forge(&rest);
    assert_eq!(load().named("UOPS_ISSUED.KEPT__").len(), 1);
    // A damaged one is read anew, and one whose blocks are none gives nothing, without harm.
    fs::write(&kept[0], &text.as_bytes()[..text.len() - 1]).unwrap();
    assert_eq!(events(&load()), first);
    forge(&rest.replace("\"block\":[", "\"block\":[9999999"));
    assert!(load().is_empty());
    // A file that changes makes all be read again.
    put(
        &lists,
        &[("HSX/events/core.json", &CORE.replace("UOPS_ISSUED.STALLS", "UOPS_ISSUED.NEW"))],
    );
    assert_eq!(load().named("uops_issued.new").len(), 1);
    // Where others may write nothing is believed.
    let shared = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    forge(&rest);
    fs::set_permissions(&cache, shared).unwrap();
    assert!(load().named("UOPS_ISSUED.KEPT__").is_empty());
}

#[test]
fn damaged_files_are_told_and_others_read() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &[("good.json", CORE), ("bad.json", "[{]"), ("sub/none.json", "[]")]);
    let folder = Folder::read(dir.path(), None).unwrap();
    assert_eq!((folder.len(), folder.notes().len()), (1, 1));
    let note = &folder.notes()[0];
    assert!(
        note.contains("bad.json: line 1, character 3") && note.contains("perf list -j"),
        "{note}"
    );
    let error = Folder::read(&dir.path().join("bad.json"), None).unwrap_err();
    assert!(matches!(error, ListError::Form { .. }), "{error}");
    let error = Folder::read(&dir.path().join("nowhere"), None).unwrap_err();
    assert!(matches!(error, ListError::Io { .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Folder::read(empty.path(), None), Err(ListError::Empty(_))));
}

#[test]
fn import_takes_what_fits_and_replaces_what_was() {
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (dir.path().join("per fmon"), dir.path().join("data/events"));
    download(&from);
    let identity = x86(0x3f, 2);
    let done = import(&from, &into, Some(&identity)).unwrap();
    assert_eq!((done.files, done.events, done.left_out), (2, 11, 3));
    assert_eq!(done.to, into.join("per-fmon"));
    let again = import(&from, &into, Some(&identity)).unwrap();
    assert_eq!(again.to, done.to);
    assert_eq!(fs::read_dir(&into).unwrap().count(), 1, "nothing unfinished is left");
    // Another source lies beside it, under no foreign mapfile.
    put(dir.path(), &[("mine.json", PERF)]);
    import(&dir.path().join("mine.json"), &into, Some(&identity)).unwrap();
    let lists = Lists::load(&into, Some(&identity), None).unwrap();
    assert_eq!(lists.len(), 14);
    let error = import(&from, &into, Some(&x86(0x1, 1))).unwrap_err().to_string();
    assert!(
        error.contains(
            "none of its 5 lists is for this CPU (GenuineIntel-6-1-1), only for GenuineIntel-6-"
        ) && error.contains("--all to keep it"),
        "{error}"
    );
    assert_eq!(import(&from, &into, None).unwrap().files, 5);
}

proptest! {
    /// Whatever a list says, reading ends in events or in an error, and an event in an attribute or in
    /// a message.
    #[test]
    fn any_entry_is_harmless(
        fields in proptest::collection::vec((0_usize..20, "[0-9a-fx,A-Z./={} \\n]{0,12}"), 0..20),
    ) {
        const KEYS: [&str; 20] = [
            "EventName", "EventCode", "UMask", "UMaskExt", "CounterMask", "Invert", "EdgeDetect",
            "AnyThread", "Counter", "CounterHTOff", "MSRIndex", "MSRValue", "TakenAlone", "Unit",
            "PEBS", "ExtSel", "PortMask", "Encoding", "BriefDescription", "Deprecated",
        ];
        let entry: std::collections::BTreeMap<&str, String> =
            fields.into_iter().map(|(key, value)| (KEYS[key], value)).collect();
        let text = serde_json::to_string(&[entry]).unwrap();
        let list = read(text.as_bytes()).unwrap();
        for listed in &list.events {
            let mut lists = Lists::default();
            lists.extend([listed.clone()]);
            match parse(&listed.name, &intel().with_lists(lists)) {
                Ok(groups) => prop_assert!(!groups.is_empty()),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}

/// As many bytes as a user's whole download has: every list is read once, then only what fits is.
#[test]
fn full_a_download_of_40_mb_is_read_once() {
    if std::env::var_os("PMUSCOPE_FULL").is_none_or(|value| value.is_empty() || value == "0") {
        return eprintln!("skipped: slow, make test-full runs it");
    }
    const CPUS: u32 = 40;
    const FILES: usize = 4;
    const EVENTS: usize = 320;
    let dir = tempfile::tempdir().unwrap();
    let (lists, cache) = (dir.path().join("lists"), dir.path().join("cache"));
    let mut map = String::from("Family-model,Version,Filename,EventType\n");
    let mut bytes = 0;
    let words = "Counts what this event of the test counts, at some length. ".repeat(8);
    for cpu in 0..CPUS {
        for file in 0..FILES {
            let path = format!("C{cpu}/events/{file}.json");
            map.push_str(&format!("GenuineIntel-6-{cpu:X},V1,/{path},core\n"));
            let entries: Vec<String> = (0..EVENTS)
                .map(|event| {
                    format!(
                        r#"{{"EventCode": "0x{event:x}", "UMask": "0x{file:02x}", "EventName": "F{file}.E{event}",
                        "BriefDescription": "{event}", "PublicDescription": "{words}{cpu}",
                        "Counter": "0,1,2,3", "CounterHTOff": "0,1,2,3,4,5,6,7",
                        "SampleAfterValue": "200003", "MSRIndex": "0", "MSRValue": "0",
                        "TakenAlone": "0", "CounterMask": "0", "Invert": "0", "AnyThread": "0",
                        "EdgeDetect": "0", "PEBS": "0", "Errata": "null", "Deprecated": "0"}}"#
                    )
                })
                .collect();
            let text = format!("{{\"Header\": {{}}, \"Events\": [{}]}}", entries.join(",\n"));
            bytes += text.len();
            put(&lists, &[(&path, &text)]);
        }
    }
    put(&lists, &[("mapfile.csv", &map)]);
    assert!(bytes > 40_000_000, "{bytes}");
    let load = |identity| {
        let start = std::time::Instant::now();
        (Lists::load(&lists, identity, Some(&cache)).unwrap(), start.elapsed())
    };
    let identity = x86(7, 1);
    let (first, reading) = load(Some(&identity));
    let (again, kept) = load(Some(&identity));
    let (all, everything) = load(None);
    println!(
        "{} MB in {} files: {reading:?} the first time, {kept:?} afterwards, {everything:?} for all CPUs",
        bytes / 1_000_000,
        CPUS as usize * FILES,
    );
    assert_eq!(first.len(), FILES * EVENTS);
    assert!(first.iter().eq(again.iter()));
    assert_eq!(all.len(), first.len(), "the same encodings for all");
}

/// A line break in a list's value stays out of messages.
#[test]
fn a_line_break_in_a_value_is_not_printed() {
    let text = r#"[{"EventName": "0", "EventCode": "0,", "Unit": "=\nA"}]"#;
    let list = read(text.as_bytes()).unwrap();
    let mut lists = Lists::default();
    lists.extend([list.events[0].clone()]);
    let error = parse(&list.events[0].name, &intel().with_lists(lists)).unwrap_err().to_string();
    assert!(error.contains("which this machine lacks"), "{error:?}");
    assert!(!error.contains('\n'), "{error:?}");
}
