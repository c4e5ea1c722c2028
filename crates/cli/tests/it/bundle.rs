//! `pmuscope bundle`.

use std::fs;

use crate::harness::{
    Outcome, Scratch, need_c_compiler, need_kernel_sampling, need_perf, skip_unless,
};

const SOURCE: &str = "
__attribute__((noinline)) static long chew(long x) { return x * 2654435761u ^ (x >> 7); }
__attribute__((noinline)) static long swallow(long x) { return x / 3 + 1; }
int main(void) {
    volatile long sum = 0;
    for (long i = 0; i < 60000000; i++) { sum = chew(sum + i); sum = swallow(sum); }
    return 0;
}
";

/// Records a program of our own.
#[track_caller]
fn record(scratch: &Scratch) {
    fs::write(scratch.path("meal.c"), SOURCE).unwrap();
    let arguments = ["-O1", "-g", "-Wl,--build-id", "-o", "meal", "meal.c"];
    scratch.run("cc", arguments).exits(0);
    let outcome = scratch.pmuscope([
        "record",
        "-e",
        "cpu-clock",
        "-F",
        "2000",
        "-o",
        "a.data",
        "--",
        "./meal",
    ]);
    outcome.exits(0);
}

/// All rows; the header names the file, the notes do not.
fn rows(outcome: &Outcome) -> Vec<String> {
    outcome.stdout.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_bundle_has_the_names_when_the_program_is_gone() {
    skip_unless!(need_c_compiler());
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    record(&scratch);
    let views: [&[&str]; 3] =
        [&["--limit", "all"], &["--limit", "all", "--no-inline"], &["--modules"]];
    let report = |file: &'static str, view: &[&'static str]| {
        let arguments = [&["report", "--no-symbol-cache", "-i", file], view].concat();
        rows(scratch.pmuscope(arguments).exits(0))
    };
    let before: Vec<Vec<String>> = views.iter().map(|view| report("a.data", view)).collect();
    assert!(before[0].iter().any(|row| row.contains("chew")), "{before:#?}");

    let bundled = scratch.pmuscope(["bundle", "-i", "a.data"]);
    bundled.exits(0).is_silent().complains("wrote a.data.bundle (").complains(" symbols of ");
    fs::remove_file(scratch.path("meal")).unwrap();
    let after: Vec<Vec<String>> = views.iter().map(|view| report("a.data.bundle", view)).collect();
    assert_eq!(before, after);
    // What it is good for.
    assert!(!report("a.data", views[0]).iter().any(|row| row.contains("chew")));
}

#[test]
fn a_bundle_is_still_a_recording_for_perf() {
    skip_unless!(need_perf());
    let scratch = Scratch::new();
    skip_unless!(need_c_compiler());
    skip_unless!(need_kernel_sampling());
    record(&scratch);
    scratch.pmuscope(["bundle", "-i", "a.data", "-o", "b.data"]).exits(0);
    let script = |file| scratch.run("perf", ["script", "-i", file, "-F", "tid,time,ip"]);
    let (a, b) = (script("a.data"), script("b.data"));
    assert!(a.stdout.lines().count() > 50, "{a}");
    assert_eq!(a.stdout, b.stdout);
}

#[test]
fn what_cannot_be_bundled_is_refused_and_damage_is_told() {
    let scratch = Scratch::new();
    scratch.pmuscope(["bundle"]).exits(2).complains("no recording here");
    scratch.pmuscope(["bundle", "-i", "none"]).exits(2).complains("none");
    fs::create_dir(scratch.path("folder")).unwrap();
    scratch.pmuscope(["bundle", "-i", "folder"]).exits(2).complains("not a folder");
    let stream = [&b"PERFILE2"[..], &16_u64.to_ne_bytes()].concat();
    fs::write(scratch.path("stream"), stream).unwrap();
    scratch.pmuscope(["bundle", "-i", "stream"]).exits(2).complains("it is a stream");

    skip_unless!(need_c_compiler());
    skip_unless!(need_kernel_sampling());
    record(&scratch);
    scratch.pmuscope(["bundle", "-i", "a.data"]).exits(0);
    scratch.pmuscope(["bundle", "-i", "a.data.bundle"]).exits(2).complains("a bundle already");
    let mut bytes = fs::read(scratch.path("a.data.bundle")).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(scratch.path("damaged"), bytes).unwrap();
    let outcome = scratch.pmuscope(["report", "-i", "damaged"]);
    outcome.exits(0).complains("its symbols are damaged").prints("chew");

    let recording = fs::read(scratch.path("a.data")).unwrap();
    let mut cut = recording[..recording.len() / 2].to_vec();
    cut[48..56].fill(0); // the size of the data, which a killed recorder leaves at what was written
    fs::write(scratch.path("cut"), cut).unwrap();
    scratch.pmuscope(["bundle", "-i", "cut"]).exits(2);
}
