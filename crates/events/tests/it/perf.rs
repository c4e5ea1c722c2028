//! The same text to stock perf and to us: the attributes must select the same.

use std::collections::BTreeMap;

use pmuscope_events::{MachineCatalog, describe, parse};
use pmuscope_machine::Machine;
use pmuscope_testkit::{need, skip_unless};

// Periods of clocks are long here: one that is shorter than a sample takes stops the CPU for good.

/// What the text of an event decides, as against the options of the command.
const SELECTING: [&str; 15] = [
    "type",
    "config",
    "config3",
    "pinned",
    "exclusive",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_idle",
    "exclude_host",
    "precise_ip",
    "bp_type",
    "{ bp_addr, config1 }",
    "{ bp_len, config2 }",
    "sample_max_stack",
];

type Fields = BTreeMap<String, String>;

/// The first attribute that `perf COMMAND` opens for `text`; `None` if it opens none.
fn perf_opens(command: &[&str], text: &str) -> Option<Fields> {
    let output =
        pmuscope_testkit::perf().args(command).args(["-vv", "-e", text, "true"]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let block = said.split("perf_event_attr:").nth(1)?;
    let lines = block.lines().skip(1).take_while(|line| line.starts_with("  "));
    Some(lines.filter_map(field).collect())
}

/// Name and value of a line; newer versions of perf add a word in brackets, and print some zeros.
fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.trim().rsplit_once("  ")?;
    let value = value.split(" (").next()?;
    (value != "0").then(|| (name.trim().to_owned(), value.trim().to_owned()))
}

fn selecting(fields: Fields) -> Fields {
    fields.into_iter().filter(|(name, _)| SELECTING.contains(&name.as_str())).collect()
}

#[test]
fn perf_opens_the_same() {
    skip_unless!(need::perf());
    let machine = Machine::host();
    let catalog = MachineCatalog::new(&machine).unwrap();
    let (mut compared, mut refused) = (0, Vec::new());
    for text in [
        "cpu-clock",
        "task-clock:u",
        "cpu-clock:k",
        "cpu-clock:h",
        "cpu-clock:hku",
        "cpu-clock:uI",
        "cpu-clock:G",
        "cpu-clock:H",
        "cpu-clock:GH",
        "cpu-clock:p",
        "cpu-clock:ppp",
        "faults",
        "cs:D",
        "migrations:e",
        "minor-faults",
        "major-faults:uk",
        "alignment-faults",
        "emulation-faults",
        "dummy:u",
        "bpf-output/period=1/",
        "cgroup-switches",
        "task-clock/period=100000000,name=foo/u",
        "1:3:u",
        "msr/tsc/",
        "msr/event=0x5/",
        "msr/config=2,config1=3,config2=0x44/",
        "tsc",
        "sched:sched_switch",
        "sched:sched_wakeup:u",
        "syscalls:sys_enter_write",
        "mem:0x1000",
        "mem:0x1000:w",
        "mem:0x1000/8:rw",
        "mem:4096/1:r:u",
        "mem:0x1000:x:u",
        "{cpu-clock:k,task-clock}:uS",
        // Where there are counters.
        "cycles",
        "instructions:u",
        "r1a8:u",
        "LLC-load-misses",
        "branch-loads:k",
        "cpu/event=0x3c,umask=0x1/u",
        "cpu/config=0x1a8/",
    ] {
        let (theirs, ours) = (perf_opens(&["stat"], text), parse(text, &catalog));
        match (theirs, ours) {
            (Some(theirs), Ok(groups)) => {
                let ours: Fields = describe(&groups[0].events[0].attr).into_iter().collect();
                assert_eq!(selecting(ours), selecting(theirs), "{text}");
                compared += 1;
            }
            (_, Err(error)) => refused.push(error.to_string()),
            (None, Ok(_)) => refused.push(format!("{text}: perf opens nothing")),
        }
    }
    for why in &refused {
        eprintln!("skipped: {why}");
    }
    assert!(compared >= 20, "only {compared} texts could be compared: {refused:?}");
}

/// Every line that perf prints about an attribute we can print too, in the same form.
#[test]
fn perf_describes_the_same() {
    skip_unless!(need::perf());
    let Some(theirs) =
        perf_opens(&["record", "-BN", "-o", "/dev/null"], "task-clock/period=100000000/u")
    else {
        return eprintln!("skipped: perf opens nothing here");
    };
    use pmuscope_abi::{AttrFlags as F, ReadFormat as R, SampleType as S};
    let catalog_machine = Machine::host();
    let catalog = MachineCatalog::new(&catalog_machine).unwrap();
    let mut attr =
        parse("task-clock/period=100000000/u", &catalog).unwrap().remove(0).events.remove(0).attr;
    attr.sample = 100_000_000;
    attr.sample_type = S::IP | S::TID | S::TIME;
    attr.read_format = R::ID | R::LOST;
    for flag in theirs.keys() {
        let known = F::all().iter_names().find(|(name, _)| name.to_lowercase() == *flag);
        attr.flags |= known.map_or(F::empty(), |(_, flag)| flag);
    }
    let ours: Fields = describe(&attr).into_iter().collect();
    let without_size = |mut fields: Fields| {
        fields.remove("size");
        // Kernels before 6.0 have no LOST.
        fields.remove("read_format");
        fields
    };
    assert_eq!(without_size(ours), without_size(theirs));
}
