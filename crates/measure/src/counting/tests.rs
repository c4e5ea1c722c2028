//! Counts over parts of machines that exist only here.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use pmuscope_abi::software;
use pmuscope_counters::fake::FakeKernel;
use pmuscope_events::{MachineCatalog, parse};
use pmuscope_machine::{Machine, Target};
use tempfile::TempDir;

use super::*;
use crate::run_file::{Labels, RunFile};
use crate::{MeasureError, Program};

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// Two processors of two dies, each with two cores of two threads; second threads come last. A meter of
/// energy per processor, and two memory controllers that count on the first CPU of theirs.
fn machine() -> (TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "sys/devices/system/cpu/online", "0-15");
    write(root, "sys/devices/system/cpu/possible", "0-15");
    for cpu in 0..16 {
        let core = cpu % 8;
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let facts = [
            ("physical_package_id", (core / 4).to_string()),
            ("die_id", (core / 2 % 2).to_string()),
            ("core_id", (core % 2).to_string()),
            ("core_cpus_list", format!("{core},{}", core + 8)),
        ];
        for (name, text) in facts {
            write(root, &format!("{topology}/{name}"), &text);
        }
    }
    write(root, "sys/devices/system/node/online", "0-1");
    for (node, cpus) in [(0, "0-3,8-11"), (1, "4-7,12-15")] {
        write(root, &format!("sys/devices/system/node/node{node}/cpulist"), cpus);
    }
    let units = [
        (
            "power",
            "20",
            "0,4",
            "energy-pkg",
            "event=0x02",
            "2.3283064365386962890625e-10",
            "Joules",
        ),
        ("uncore_imc_0", "30", "0", "cas_count_read", "event=0x04", "6.103515625e-5", "MiB"),
        ("uncore_imc_1", "31", "4", "cas_count_read", "event=0x04", "6.103515625e-5", "MiB"),
    ];
    for (unit, number, cpus, event, terms, scale, name) in units {
        let unit = format!("sys/bus/event_source/devices/{unit}");
        let files = [
            ("type".to_owned(), number),
            ("cpumask".to_owned(), cpus),
            ("format/event".to_owned(), "config:0-7"),
            (format!("events/{event}"), terms),
            (format!("events/{event}.scale"), scale),
            (format!("events/{event}.unit"), name),
        ];
        for (file, text) in files {
            write(root, &format!("{unit}/{file}"), text);
        }
    }
    let machine = Machine::at(root);
    (folder, machine)
}

fn options(text: &str, target: Target, machine: &Machine) -> Options {
    let catalog = MachineCatalog::new(machine).unwrap();
    let command = if target == Target::Command { vec!["true".into()] } else { Vec::new() };
    Options {
        target,
        inherit: false,
        groups: parse(text, &catalog).unwrap(),
        pinned: false,
        command,
        output: CommandOutput::Inherited,
        delay: None,
        timeout: Some(Duration::from_millis(1)),
        interval: None,
        intervals: None,
    }
}

/// Counts 3,000,000 on every descriptor over `target`; the values by part, and the CPUs they were opened on.
fn count(
    text: &str,
    target: Target,
    aggregation: Aggregation,
) -> Result<(BTreeMap<String, f64>, Vec<i32>), MeasureError> {
    let (_folder, machine) = machine();
    let kernel = FakeKernel::default();
    kernel.answer_reads(&[3_000_000, 1000, 1000]);
    let options = options(text, target, &machine);
    let counter = RepeatedCount::new(&kernel, &machine, &options).unwrap();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let (counted, refused) = counter.count(Signal(reader.as_fd()), &mut |_, _| {})?;
    let (labels, arm) = (Labels::new(), Labels::new());
    let recorded = Recorded { order: 0, round: None, labels, arm, aggregation };
    let tool = Program { name: "t".into(), version: "1".into() };
    let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
    recorded.add(&mut file, &counter, (&counted, &refused));
    let of_parts = file.series.iter().filter(|series| series.metric != "wall").map(|series| {
        let part = series.labels.values().next().cloned().unwrap_or_default();
        let name = format!("{}{part} {}", series.metric, series.unit);
        (name.trim().to_owned(), series.values[0].value.unwrap())
    });
    // Nodes are opened at the same time.
    let mut cpus: Vec<i32> = kernel.opened().iter().map(|call| call.cpu).collect();
    cpus.sort_unstable();
    Ok((of_parts.collect(), cpus))
}

#[test]
fn every_part_of_a_machine_has_the_sum_of_its_cpus() {
    for (aggregation, parts, first) in [
        (Aggregation::Global, 1, "cs"),
        (Aggregation::Cpu, 16, "cs0"),
        (Aggregation::Core, 8, "csS0-D0-C0"),
        (Aggregation::Die, 4, "csS0-D0"),
        (Aggregation::Socket, 2, "cs0"),
        (Aggregation::Node, 2, "cs0"),
    ] {
        let (values, cpus) = count("cs", Target::System, aggregation).unwrap();
        assert_eq!((values.len(), cpus.len()), (parts, 16), "{values:?}");
        let each = 16.0 / parts as f64 * 3e6;
        assert!(values.values().all(|value| *value == each), "{values:?}");
        assert!(values.contains_key(first), "{values:?}");
    }
    let (values, _) = count("cs", Target::System, Aggregation::Core).unwrap();
    let names: Vec<&str> = values.keys().map(String::as_str).collect();
    assert_eq!(names[..3], ["csS0-D0-C0", "csS0-D0-C1", "csS0-D1-C0"]);
    assert_eq!(names[7], "csS1-D1-C1");
}

#[test]
fn cpus_that_are_offline_are_named() {
    let (_folder, machine) = machine();
    let options = options("cs", Target::System, &machine);
    let notices = |offline: &[i32]| {
        let refused = [software::CONTEXT_SWITCHES, software::DUMMY];
        let kernel = offline.iter().fold(FakeKernel::default(), |kernel, &cpu| {
            refused.iter().fold(kernel, |kernel, &of| kernel.refusing(of, cpu, libc::ENODEV))
        });
        let counter = RepeatedCount::new(&kernel, &machine, &options).unwrap();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        counter.count(Signal(reader.as_fd()), &mut |_, _| {}).unwrap().0.notices
    };
    assert!(notices(&[]).is_empty());
    let opened = "offline when events were opened: nothing was measured there";
    assert_eq!(notices(&[2]), [format!("CPU 2 was {opened}")]);
    assert_eq!(notices(&[2, 3, 9]), [format!("CPUs 2-3,9 were {opened}")]);
}

#[test]
fn units_outside_of_cores_are_opened_where_their_mask_says_in_the_kernels_unit() {
    let energy = "power/energy-pkg/";
    let (values, cpus) = count(energy, Target::System, Aggregation::Socket).unwrap();
    assert_eq!(cpus, [0, 4]);
    let joules = 3e6 * 2.3283064365386963e-10;
    let expected = ["0", "1"].map(|socket| (format!("{energy}{socket} Joules"), joules));
    assert_eq!(values, BTreeMap::from(expected));
    let (values, cpus) =
        count("uncore_imc/cas_count_read/", Target::System, Aggregation::Global).unwrap();
    assert_eq!(cpus, [0, 4]);
    // Each controller is an event of its own.
    assert_eq!(values.len(), 2, "{values:?}");
    assert!(values.iter().all(|(name, value)| name.ends_with("MiB") && *value == 183.10546875));
}

#[test]
fn units_outside_of_cores_count_for_nobody_in_particular() {
    let error = count("power/energy-pkg/", Target::Command, Aggregation::Global).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("counts per CPU, socket or node, not per process. Try: -a"), "{text}");
    let elsewhere = Target::Cpus("1-3".parse().unwrap());
    let error = count("power/energy-pkg/", elsewhere, Aggregation::Global).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("is counted only on CPU 0,4, not on 1-3. Try: -a"), "{text}");
    let absent = Target::Cpus("15-17".parse().unwrap());
    let error = count("cs", absent, Aggregation::Global).unwrap_err();
    assert_eq!(error.to_string(), "CPU 16-17 is not online (online: 0-15)");
}
