//! `pmuscope watch` on other kernels: where hits find the old value, and where the kernel's own variables
//! have names.

use std::process::{Command, Stdio};

use pmuscope_perfdata::watch::HitFlags;

use crate::harness::{Scratch, need_program, skip_unless};
use crate::lab::{lab, need_guests};
use crate::recording::Recording;
use crate::strobe::{need_pmu_guest, pmu_guest};
use crate::watch::{hits, watch_of};

const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// The watched program, static: a guest has no libraries of that kind.
fn compile(scratch: &Scratch) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/watched.c");
    let flags = ["-g", "-O1", "-static", "-pthread", "-o", "watched", source];
    let mut command = Command::new(COMPILER);
    let compiled = command.args(flags).current_dir(scratch.path("")).stdin(Stdio::null()).status();
    assert!(compiled.unwrap().success());
}

#[test]
fn on_arm64_every_hit_is_seen_with_the_old_value() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_program(COMPILER, "--version"));
    let scratch = Scratch::new();
    compile(&scratch);
    let words = ["--file", "watched", "--", "watch", "-o", "x.data", "counter", "level", "--"];
    let command = ["./watched", "3", "20"];
    let words = words.into_iter().chain(command).map(String::from);
    lab(&scratch, pmu_guest(1).into_iter().chain(words)).exits(0).prints("counter 60");
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    let watch = watch_of(&info);
    let of_target = |target: u32| {
        let own = |point: u32| watch.points[point as usize].target == target;
        let writers = watch.writers.iter().filter(|writer| own(writer.point));
        writers.fold((0, 0, 0), |sum, writer| {
            (sum.0 + writer.hits, sum.1 + writer.changed, sum.2 + writer.plus_one)
        })
    };
    // A hit is compared with the one before, so the first tells nothing. Of level's three writes the second
    // writes what is there.
    assert_eq!((of_target(0), of_target(1)), ((60, 59, 59), (3, 1, 0)));
    let mut values = Vec::new();
    for (hit, ip) in hits(&recording) {
        assert_eq!(hit.flags, HitFlags::VALUE);
        if ip == watch.writers[0].ip {
            values.push(hit.value);
        }
    }
    values.sort_unstable();
    assert!(values.into_iter().eq(0..60), "what was there before each write");
}

#[test]
fn the_kernels_own_variables_are_watched_on_all_cpus() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let watch = ["watch", "-a", "--timeout", "1500", "-o", "x.data", "kernel!jiffies/8"];
    lab(&scratch, ["run", "--cpus", "2", "--"].iter().chain(&watch)).exits(0);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let writers = &watch_of(&info).writers;
    assert!(writers.iter().all(|writer| writer.in_kernel), "{writers:?}");
    let hits: u64 = writers.iter().map(|writer| writer.hits).sum();
    let steps: u64 = writers.iter().map(|writer| writer.plus_one).sum();
    // An emulated CPU that waits for its host misses ticks, and makes up for several with one write.
    assert!(hits > 4 && steps > 0, "{hits} writes, {steps} by one");
}
