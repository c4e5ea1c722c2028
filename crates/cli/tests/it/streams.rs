//! However a recording is streamed, stock perf, linux-perf-data and we read from it exactly the
//! samples that pmuscope says it took, in the order of time, and none is lost at a moderate rate.

use pmuscope_machine::CpuSet;

use crate::harness::{Scratch, need_full, skip_unless};
use crate::recording::{Recording, busy, need_root_clock, online, rate};

/// Ways to write.
const WRITES: [&[&str]; 4] = [&[], &["--aio"], &["-z"], &["-z", "--aio"]];
/// Where a reader may go.
const AFFINITIES: [&str; 4] = ["sys", "node", "cpu", "auto"];

/// Each half of the CPUs read from the other half, as an explicit `--readers` says it: on two CPUs
/// "0/1:1/0".
fn crossed() -> String {
    let cpus: Vec<u32> = online().iter().collect();
    let (low, high) = cpus.split_at(cpus.len() / 2);
    if low.is_empty() {
        return format!("{0}/{0}", online());
    }
    let (low, high): (CpuSet, CpuSet) =
        (low.iter().copied().collect(), high.iter().copied().collect());
    format!("{low}/{high}:{high}/{low}")
}

/// Records the whole machine, all CPUs busy, and compares what everyone reads.
#[track_caller]
fn check(write: &[&str], readers: &str, affinity: &str, hz: u64, seconds: &'static str) {
    let scratch = Scratch::new();
    let hz = rate(hz);
    let mut args = vec!["record", "-a", "-e", "cpu-clock", "-F", &hz, "-o", "x.data"];
    args.extend(write);
    args.extend(["--readers", readers, "--affinity", affinity, "--"]);
    args.extend(busy(seconds));
    scratch.pmuscope(args).exits(0);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    assert_eq!(info.lost(), Some(0), "{write:?} {readers} {affinity}");
    assert_eq!(info.rings.len(), online().len());
    for ring in &info.rings {
        assert!(ring.samples > 0, "no sample from {ring:?}");
    }
    let streaming = info.streaming;
    assert_eq!(streaming.aio.is_some(), write.contains(&"--aio"));
    assert_eq!(streaming.compression.is_some(), write.contains(&"-z"));
}

#[test]
fn what_is_chosen_by_default() {
    skip_unless!(need_root_clock());
    check(&[], "auto", "auto", 10_000, "0.8");
}

#[test]
fn direct_by_one_reader_that_goes_to_each_cpu() {
    skip_unless!(need_root_clock());
    check(&[], "serial", "cpu", 10_000, "0.8");
}

#[test]
fn asynchronous_by_a_reader_per_cpu() {
    skip_unless!(need_root_clock());
    check(&["--aio"], "cpu", "auto", 10_000, "0.8");
}

#[test]
fn compressed_by_a_reader_per_cpu() {
    skip_unless!(need_root_clock());
    check(&["-z"], "cpu", "node", 10_000, "0.8");
}

#[test]
fn compressed_and_asynchronous_by_crossed_readers() {
    skip_unless!(need_root_clock());
    check(&["-z", "--aio"], &crossed(), "sys", 10_000, "0.8");
}

/// Every combination, at the rate of the benchmarks.
#[test]
fn full_matrix() {
    skip_unless!(need_full());
    skip_unless!(need_root_clock());
    for write in WRITES {
        for readers in ["serial", "cpu", "node"] {
            for affinity in AFFINITIES {
                eprintln!("{write:?} --readers {readers} --affinity {affinity}");
                check(write, readers, affinity, 20_000, "0.4");
            }
        }
        // These stay where they are told, whatever the affinity.
        check(write, &crossed(), "sys", 20_000, "0.4");
    }
}

/// Where no reader can run, and more writes than anybody has: refused, not passed over.
#[test]
fn what_cannot_be_done_is_refused() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let all = online().to_string();
    let nowhere = format!("{all}/8191");
    let record = |flags: [&str; 2]| {
        scratch.pmuscope(["record", "-a", "-e", "cpu-clock", flags[0], flags[1], "--", "true"])
    };
    record(["--readers", &nowhere]).exits(2).complains("no reader can run on CPU 8191");
    record(["--aio=4000000000", "-q"]).exits(2).complains("at most 1024 writes");
}
