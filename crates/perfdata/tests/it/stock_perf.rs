//! Files by the `perf` of this machine, against what the same `perf` reads out of them.

use pmuscope_testkit::{need, skip_unless};
use std::path::{Path, PathBuf};

use super::read;

/// Records `sh -c work` with `perf record args`.
fn record(dir: &Path, args: &[&str]) -> PathBuf {
    let path = dir.join(format!("{}.data", args.join("")));
    let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls / >/dev/null";
    let output = pmuscope_testkit::perf()
        // Without build ids: perf 6.1 dies of one that is longer than 20 bytes.
        .args(["record", "-q", "-B", "-N", "-o"])
        .arg(&path)
        .args(args)
        .args(["--", "sh", "-c", work])
        .output()
        .unwrap();
    assert!(output.status.success(), "perf record {args:?}: {output:?}");
    path
}

/// Number and sum of the instruction addresses that `perf script` prints; `None`, with the reason
/// printed, where perf cannot read its own file: beside a recording with build ids the kernel marks
/// the mappings of all sessions as having one, and perf 6.1 dies of such a mark.
fn by_perf(path: &Path) -> Option<(u64, u64)> {
    let output = pmuscope_testkit::perf()
        .args(["script", "-G", "-F", "ip", "-i"])
        .arg(path)
        .output()
        .expect("perf was there a moment ago");
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: perf script: {}: {}", output.status, why.trim());
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let addresses = text.split_whitespace().filter_map(|word| u64::from_str_radix(word, 16).ok());
    Some(addresses.fold((0, 0), |(count, sum), ip| (count + 1, ip.wrapping_add(sum))))
}

#[test]
fn every_form_that_perf_records_gives_the_samples_that_perf_reads() {
    skip_unless!(need::perf_record(true));
    let dir = tempfile::tempdir().unwrap();
    let forms: [&[&str]; 6] = [
        &["-e", "cpu-clock", "-F", "999"],
        &["-e", "cpu-clock", "-c", "1000000"],
        &["-e", "cpu-clock", "-F", "999", "-g"],
        &["-e", "cpu-clock", "-F", "5000", "-z"],
        &["-e", "cpu-clock,page-faults", "-F", "999"],
        &["-e", "cpu-clock", "-F", "999", "-a"],
    ];
    for form in forms {
        let path = record(dir.path(), form);
        let found = read(&path).unwrap();
        let samples: u64 = found.samples.iter().sum();
        let sum = found.ip_sums.iter().fold(0_u64, |sum, ip| sum.wrapping_add(*ip));
        if let Some(theirs) = by_perf(&path) {
            assert_eq!((samples, sum), theirs, "{form:?}");
        }
        assert!(samples > 0, "{form:?}");
        assert_eq!(found.out_of_order, 0, "{form:?}");
        assert_eq!(found.callchain_entries > 0, form.contains(&"-g"), "{form:?}");
        assert!(found.mmaps > 5 && found.tally.stopped.is_none(), "{form:?}: {:?}", found.tally);
    }
}
