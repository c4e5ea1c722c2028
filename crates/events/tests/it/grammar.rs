//! Texts and the attributes that must come of them.

use pmuscope_abi::{AttrFlags as F, BranchSampleType, event_type};
use pmuscope_events::{CallGraph, Origin, Sampling, default_event, describe, list_known, parse};

use crate::fixtures::{amd, arm, event, events, groups, hybrid, intel, power, vm};

/// Type, config, config1, config2.
fn words(text: &str, on: &crate::fixtures::Fixture) -> (u32, u64, u64, u64) {
    let attr = event(text, on).attr;
    (attr.event_type, attr.config, attr.config1, attr.config2)
}

#[test]
fn what_is_selected() {
    let intel = intel();
    for (text, expected) in [
        ("cycles", (0, 0, 0, 0)),
        ("cpu-cycles", (0, 0, 0, 0)),
        ("instructions:u", (0, 1, 0, 0)),
        ("branches", (0, 4, 0, 0)),
        ("idle-cycles-backend", (0, 8, 0, 0)),
        ("ref-cycles", (0, 9, 0, 0)),
        ("cpu-clock", (1, 0, 0, 0)),
        ("cs", (1, 3, 0, 0)),
        ("cgroup-switches", (1, 11, 0, 0)),
        ("L1-dcache-load-misses", (3, 0x1_0000, 0, 0)),
        ("LLC-stores", (3, 0x102, 0, 0)),
        ("r1a8", (4, 0x1a8, 0, 0)),
        ("r0x1A8:k", (4, 0x1a8, 0, 0)),
        ("rffffffffffffffff", (4, u64::MAX, 0, 0)),
        ("1:3", (1, 3, 0, 0)),
        ("4:0x1a8:u", (4, 0x1a8, 0, 0)),
        ("cpu/event=0x3c,umask=0x01/", (4, 0x13c, 0, 0)),
        ("cpu/event=60,umask=1,inv,cmask=2/u", (4, 0x0280_013c, 0, 0)),
        ("cpu/r1a8/", (4, 0x1a8, 0, 0)),
        ("cpu/r0x1a8,umask=2/", (4, 0x2a8, 0, 0)),
        ("cpu/config=0x1a8,config1=7,config2=0x8/", (4, 0x1a8, 7, 8)),
        ("cpu/cpu-cycles/", (4, 0x3c, 0, 0)),
        ("cpu/cycles/", (0, 0, 0, 0)),
        ("cpu/LLC-load-misses/", (3, 0x1_0002, 0, 0)),
        ("cpu/mem-loads/P", (4, 0x1cd, 3, 0)),
        ("cpu/mem-loads,ldlat=30/P", (4, 0x1cd, 30, 0)),
        ("mem-loads", (4, 0x1cd, 3, 0)),
        ("cpu/event=0xb7,offcore_rsp=0xffffffffffffffff/", (4, 0xb7, u64::MAX, 0)),
        ("msr/tsc/", (9, 0, 0, 0)),
        ("tsc", (9, 0, 0, 0)),
        ("power/energy-pkg/", (17, 2, 0, 0)),
        ("uncore_imc_1/cas_count_read/", (15, 0x304, 0, 0)),
        ("sched:sched_switch", (2, 318, 0, 0)),
        ("sched:sched_switch:u", (2, 318, 0, 0)),
        ("mem:0x1000", (5, 0, 0x1000, 4)),
        ("mem:4096/8:w", (5, 0, 0x1000, 8)),
        ("mem:0x1000:x", (5, 0, 0x1000, if cfg!(target_arch = "x86_64") { 8 } else { 4 })),
        ("mem:0x1000/2", (5, 0, 0x1000, 2)),
        ("mem:0x1000/1/name=flag/u", (5, 0, 0x1000, 1)),
        ("mem:0x1000:rw:u", (5, 0, 0x1000, 4)),
        ("mem:0x1000:u", (5, 0, 0x1000, 4)),
    ] {
        assert_eq!(words(text, &intel), expected, "{text}");
    }
    assert_eq!(words("cpu/event=0x28f,umask=0x3/", &amd()), (4, 0x2_0000_038f, 0, 0));
    assert_eq!(words("ibs_op/cnt_ctl=1,swfilt/", &amd()), (11, 1 << 19, 0, 1));
    assert_eq!(words("armv8_pmuv3_0/event=0x11,long=1/", &arm()), (8, 0x11, 1, 0));
    assert_eq!(words("armv8_pmuv3/l1d_cache_refill/", &arm()), (8, 3, 0, 0));
    assert_eq!(words("arm_smmuv3_pmcg/cycles/", &arm()), (12, 0, 0, 0));
    let open = "hv_24x7/HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE,core=5/";
    assert_eq!(words(open, &power()), (13, 0xe0_0005_0002, 0, 0));
}

#[test]
fn breakpoints_watch_what_the_letters_say() {
    for (text, bp_type) in [
        ("mem:1", 3),
        ("mem:1:r", 1),
        ("mem:1:w", 2),
        ("mem:1:wr", 3),
        ("mem:1:x", 4),
        ("mem:1/8:rwx", 7),
    ] {
        assert_eq!(event(text, &vm()).attr.bp_type, bp_type, "{text}");
    }
}

#[test]
fn modifiers_exclude_what_they_do_not_name() {
    let host = F::EXCLUDE_GUEST;
    for (text, flags, precise) in [
        ("cycles", host, 0),
        ("cycles:u", host | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, 0),
        ("cycles:k", host | F::EXCLUDE_USER | F::EXCLUDE_HV, 0),
        ("cycles:h", host | F::EXCLUDE_USER | F::EXCLUDE_KERNEL, 0),
        ("cycles:uk", host | F::EXCLUDE_HV, 0),
        ("cycles:ukh", host, 0),
        ("cycles:G", F::EXCLUDE_HOST, 0),
        ("cycles:H", host, 0),
        ("cycles:GH", F::empty(), 0),
        ("cycles:I", host | F::EXCLUDE_IDLE, 0),
        ("cycles:D", host | F::PINNED, 0),
        ("cycles:e", host | F::EXCLUSIVE, 0),
        ("cycles:upp", host | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, 2),
        ("cycles/period=5/ppp", host, 3),
        ("cycles//u", host | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, 0),
        ("cycles//:u", host | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, 0),
        // Uncore units refuse exclusion.
        ("power/energy-pkg/", F::empty(), 0),
        ("power/energy-pkg/u", F::EXCLUDE_KERNEL | F::EXCLUDE_HV, 0),
        ("msr/tsc/H", host, 0),
    ] {
        let found = event(text, &intel()).attr;
        assert_eq!((found.flags, found.precise_ip), (flags, precise), "{text}");
    }
    assert!(event("cycles:P", &intel()).max_precise);
    assert!(groups("cycles:S", &intel())[0].leader_sampling);
    assert!(groups("cycles:W", &intel())[0].weak);
}

#[test]
fn the_command_line_of_the_strobing_patches() {
    let text = "{cycles/period=999700,alt-period=300,alt-period-jitter=1/,instructions,branch-misses,\
                cache-references,cache-misses}:uS";
    let groups = groups(text, &intel());
    assert_eq!(groups.len(), 1);
    let group = &groups[0];
    assert!(group.leader_sampling && group.braces && !group.weak);
    assert_eq!(group.events.len(), 5);
    let leader = &group.events[0];
    assert_eq!(leader.sampling, Some(Sampling::Period(999_700)));
    assert_eq!((leader.alternate_period, leader.alternate_jitter), (Some(300), Some(1)));
    for event in &group.events {
        assert!(event.attr.flags.contains(F::EXCLUDE_KERNEL | F::EXCLUDE_HV), "{}", event.name);
    }
    let names: Vec<&str> = group.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cycles/period=999700,alt-period=300,alt-period-jitter=1/u",
            "instructions:u",
            "branch-misses:u",
            "cache-references:u",
            "cache-misses:u"
        ]
    );
}

#[test]
fn terms_for_any_event() {
    let text = "cycles/freq=99,call-graph=dwarf,stack-size=4096,max-stack=10,time=0,no-inherit,\
                branch_type=any+u/";
    let found = event(text, &intel());
    assert_eq!(found.sampling, Some(Sampling::Frequency(99)));
    assert_eq!(found.call_graph, Some(CallGraph::Dwarf));
    assert_eq!((found.stack_size, found.max_stack), (Some(4096), Some(10)));
    assert_eq!((found.time, found.inherit), (Some(false), Some(false)));
    assert_eq!(found.branch_type, Some(BranchSampleType::ANY | BranchSampleType::USER));
    for (text, graph) in
        [("fp", CallGraph::FramePointer), ("no", CallGraph::None), ("lbr", CallGraph::Lbr)]
    {
        let found = event(&format!("sched:sched_switch/call-graph={text}/"), &vm());
        assert_eq!(found.call_graph, Some(graph));
    }
    assert_eq!(event("r1a/name=x/", &intel()).name, "x");
}

#[test]
fn names_are_kept_as_typed_or_given() {
    for (text, name) in [
        ("cycles:u", "cycles:u"),
        ("cpu/event=0x3c,umask=0/uk", "cpu/event=0x3c,umask=0/uk"),
        ("cpu/event=0xa8,name=LSD.UOPS/", "LSD.UOPS"),
        ("cpu/event=0xa8,name='a,b/c:d=1'/u", "a,b/c:d=1"),
        ("mem:0x1000/8:w", "mem:0x1000/8:w"),
        ("sched:sched_switch:u", "sched:sched_switch:u"),
        ("{cycles:k}:up", "cycles:kup"),
        ("{cpu/event=1/}:u", "cpu/event=1/u"),
        ("{cycles:u}:u", "cycles:u"),
        ("{cycles/name=c/}:u", "c"),
        ("{mem:0x10:w}:u", "mem:0x10:w:u"),
    ] {
        assert_eq!(event(text, &intel()).name, name, "{text}");
    }
}

#[test]
fn a_group_adds_to_its_members() {
    let found = event("{cycles:kp}:uS", &intel());
    assert_eq!(found.attr.flags, F::EXCLUDE_HV | F::EXCLUDE_GUEST);
    assert_eq!(found.attr.precise_ip, 1);
    let all = groups("best{cycles,instructions}:DW", &intel());
    assert_eq!(all[0].name.as_deref(), Some("best"));
    assert!(all[0].weak);
    assert!(all[0].events[0].attr.flags.contains(F::PINNED));
    assert!(!all[0].events[1].attr.flags.contains(F::PINNED));
    assert!(groups("{cycles:S,instructions}", &intel())[0].leader_sampling);
}

#[test]
fn lists_split_at_their_own_commas_only() {
    let text = "cycles, {cpu/event=1,umask=2/u,cs}:S ,mem:0x10/4:rw,cpu/name='x,y'/,sched:sched_*";
    let all = groups(text, &intel());
    let sizes: Vec<usize> = all.iter().map(|group| group.events.len()).collect();
    assert_eq!(sizes, [1, 2, 1, 1, 1, 1, 1]);
    let braces: Vec<bool> = all.iter().map(|group| group.braces).collect();
    assert_eq!(braces, [false, true, false, false, false, false, false]);
}

#[test]
fn patterns_mean_every_tracepoint_they_match() {
    let names =
        |text: &str| -> Vec<String> { events(text, &vm()).into_iter().map(|e| e.name).collect() };
    assert_eq!(
        names("sched:*:u"),
        ["sched:sched_switch:u", "sched:sched_wakeup:u", "sched:sched_process_exec:u"]
    );
    assert_eq!(
        names("*syscalls:sys_enter*"),
        ["raw_syscalls:sys_enter", "syscalls:sys_enter_read", "syscalls:sys_enter_write"]
    );
    let group = &groups("{sched:sched_[sw]*,cs}", &vm())[0];
    assert_eq!(group.events.len(), 3);
    assert_eq!(group.events[0].typed, "sched:sched_[sw]*");
}

#[test]
fn origins() {
    for (text, origin) in [
        ("cycles", Origin::Hardware),
        ("LLC-loads", Origin::Hardware),
        ("r1a8", Origin::Hardware),
        ("cpu/event=1/", Origin::Hardware),
        ("0:1", Origin::Hardware),
        ("cpu-clock", Origin::SoftwareClock),
        ("1:1", Origin::SoftwareClock),
        ("software/config=1/", Origin::SoftwareClock),
        ("faults", Origin::Software),
        ("sched:sched_switch", Origin::Tracepoint),
        ("mem:0x10", Origin::Breakpoint),
        ("msr/tsc/", Origin::Pmu),
        ("uncore_imc_0/cas_count_read/", Origin::Pmu),
    ] {
        assert_eq!(event(text, &intel()).origin, origin, "{text}");
    }
    assert!(Origin::Breakpoint.samples_each() && !Origin::Software.samples_each());
}

#[test]
fn nothing_about_sampling_is_set() {
    for text in
        ["cycles/period=5,time=0/u", "mem:0x10:w", "sched:sched_switch", "cpu/event=1,freq=3/"]
    {
        let attr = event(text, &intel()).attr;
        let identity = pmuscope_abi::Attr {
            event_type: attr.event_type,
            config: attr.config,
            config1: attr.config1,
            config2: attr.config2,
            bp_type: attr.bp_type,
            flags: attr.flags,
            ..pmuscope_abi::Attr::default()
        };
        assert_eq!(attr, identity, "{text}");
    }
}

#[test]
fn the_default_is_cycles_where_there_are_counters() {
    let (groups, notice) = default_event(&intel()).unwrap();
    assert_eq!((groups[0].events[0].name.as_str(), notice), ("cycles:P", None));
    assert!(groups[0].events[0].max_precise);
    let (groups, notice) = default_event(&hybrid()).unwrap();
    assert_eq!((groups.len(), notice), (2, None));
    let (groups, notice) = default_event(&vm()).unwrap();
    assert_eq!(groups[0].events[0].name, "cpu-clock");
    insta::assert_snapshot!(notice.unwrap().message, @"no hardware PMU (typical in VMs); sampling cpu-clock instead of cycles");
}

/// Whatever is offered must be understood, and by its own name.
#[test]
fn every_known_name_is_understood() {
    for machine in [vm(), intel(), amd(), hybrid(), arm()] {
        let known: Vec<_> = list_known(&machine).collect();
        assert!(known.len() >= 13);
        for name in known.iter().flat_map(|k| [Some(k.name.as_str()), k.synonym]).flatten() {
            let groups = parse(name, &machine).unwrap_or_else(|error| panic!("{error}"));
            assert!(!groups.is_empty(), "{name}");
        }
    }
    let on_vm = list_known(&vm()).count();
    assert_eq!(on_vm, 12 + 1, "software events and msr/tsc/");
}

#[test]
fn an_attribute_in_the_words_of_perf() {
    let mut attr = event("cpu/event=0xcd,ldlat=3/upp", &intel()).attr;
    attr.sample = 4000;
    attr.flags |=
        F::FREQ | F::DISABLED | F::SAMPLE_ID_ALL | F::USE_CLOCKID | F::from_bits_retain(1 << 60);
    attr.sample_type = pmuscope_abi::SampleType::IP
        | pmuscope_abi::SampleType::TID
        | pmuscope_abi::SampleType::from_bits_retain(1 << 40);
    attr.read_format = pmuscope_abi::ReadFormat::ID | pmuscope_abi::ReadFormat::LOST;
    attr.clockid = 1;
    let lines: Vec<String> =
        describe(&attr).into_iter().map(|(name, value)| format!("{name:34} {value}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    type                               4
    size                               136
    config                             0xcd
    { sample_period, sample_freq }     4000
    sample_type                        IP|TID|0x10000000000
    read_format                        ID|LOST
    disabled                           1
    exclude_kernel                     1
    exclude_hv                         1
    freq                               1
    precise_ip                         2
    sample_id_all                      1
    exclude_guest                      1
    use_clockid                        1
    { bp_addr, config1 }               0x3
    clockid                            1
    "#);
    let dummy = event("dummy", &vm()).attr;
    assert_eq!(dummy.event_type, event_type::SOFTWARE);
}
