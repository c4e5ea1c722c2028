//! Windows: refused where there is no PMU, and recorded in guests that have one.
//!
//! In these guests an instruction takes 4 cycles, so all counts are multiples of 4, and one CPU is
//! emulated at a time: windows are what they are asked to be, to the cycle.

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::strobe::{Reason, StrobeInfo};

use crate::guest_script::{need_script, run_script};
use crate::harness::{Outcome, Scratch, need_full, skip_unless};
use crate::lab::{lab, need_guests};
use crate::recording::Recording;
use crate::windows::Windows;

/// Why no guest with a PMU can run here.
pub(crate) fn need_pmu_guest() -> Option<String> {
    need_guests("aarch64", "6.1").or_else(|| {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_pmuscope"));
        let target = program.parent()?.parent()?;
        let of = |profile| target.join(format!("aarch64-unknown-linux-musl/{profile}/pmuscope"));
        let is_built = of("guest").exists() || of("release").exists();
        (!is_built).then(|| format!("{} is not built: make pmu-guest", of("guest").display()))
    })
}

/// What an instruction takes in these guests; a cycle is a nanosecond. With twice as many, the shortest
/// window there is would be longer than the usual one; with half as many, a second takes us twice as long.
pub(crate) const CYCLES: u64 = 4;

/// `pmuscope lab` with these arguments, for such a guest with so many CPUs.
pub(crate) fn pmu_guest(cpus: u32) -> [String; 7] {
    let (icount, cpus) = (CYCLES.ilog2().to_string(), cpus.to_string());
    ["run", "--arch", "aarch64", "--icount", &icount, "--cpus", &cpus].map(String::from)
}

/// Runs this in such a guest with so many CPUs.
pub(crate) fn in_guest(scratch: &Scratch, cpus: u32, args: &[&str]) -> Outcome {
    let words = args.iter().map(|&word| word.to_owned());
    lab(scratch, pmu_guest(cpus).into_iter().chain(["--".to_owned()]).chain(words))
}

/// Guests of two CPUs at most.
const TRIES: usize = 3;

/// The usual length, cycles: of so many instructions.
pub(crate) const WINDOW: u64 = 75 * CYCLES;

fn strobe_of(info: &RecordingInfo) -> &StrobeInfo {
    info.strobe.as_ref().expect("a strobed recording")
}

/// What must hold of a recording on one CPU that nobody disturbed.
#[track_caller]
pub(crate) fn holds(recording: &Recording) -> Windows {
    let info = recording.info();
    let strobe = strobe_of(&info);
    assert_eq!((strobe.granule, info.lost()), (CYCLES, Some(0)), "{strobe:?}");
    let windows = Windows::of(recording);
    let all = windows.all();
    // Samples of tries that were not accepted are not in the file.
    assert_eq!(windows.outside, 0, "{strobe:?}");
    // Every window that is not right has a cause, which is a switch.
    assert_eq!((windows.wrong_offset, windows.wrong_length), (0, 0), "{:?}", windows.lengths);
    let lengths: Vec<u64> = windows.lengths.keys().copied().collect();
    assert_eq!(lengths, [WINDOW], "lengths of windows");
    assert!(windows.accepted * 100 >= all * 97, "{} of {all}", windows.accepted);
    // The first and the last of an epoch may be cut in two.
    let epochs = strobe.epochs.len() as u64;
    assert!(windows.unpaired <= 2 * epochs, "{} unpaired", windows.unpaired);
    let reasons = strobe.epochs.iter().map(|epoch| epoch.reason);
    assert!(reasons.skip(1).all(|reason| reason == Reason::Dither), "{strobe:?}");
    let offsets = strobe.epochs.iter().map(|epoch| epoch.offsets[0]);
    assert!(offsets.clone().all(|offset| offset == WINDOW), "{strobe:?}");
    windows
}

#[test]
fn without_a_pmu_windows_are_refused_with_what_can_be_had() {
    skip_unless!(has_pmu());
    let scratch = Scratch::new();
    let refused = scratch.pmuscope(["record", "--strobe", "-a", "--", "true"]);
    refused.exits(3).complains("record -e cpu-clock").complains("pmuscope lab run");
    assert!(!scratch.path("pmuscope.data").exists());
}

/// Why nothing can be refused for want of a PMU: there is one.
fn has_pmu() -> Option<String> {
    let pmus = pmuscope_machine::Machine::host().pmus().unwrap_or_default();
    pmus.iter().any(|pmu| pmu.is_core()).then(|| "this machine has a PMU".into())
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], part: &str| {
        let args = ["record"].iter().chain(args).chain(&["-a", "--", "true"]);
        scratch.pmuscope(args).exits(2).complains(part);
    };
    refused(&["--strobe=often"], "Try: --strobe=WINDOW");
    refused(
        &["--strobe=300,jitter=18446744073709551615"],
        "jitter=18446744073709551615: not a number",
    );
    refused(&["--strobe", "--overwrite"], "without --overwrite");
    refused(&["--strobe", "-F", "99"], "period=");
    refused(&["--metrics", "CPI"], "Try: --strobe --metrics CPI");
}

/// What `doctor` tells of a disturbance of a CPU in a guest of so many: how it was seen, after which
/// windows were right again.
#[track_caller]
fn seen(check: &Outcome, what: &str) -> String {
    let line = check.stdout.lines().find_map(|line| line.strip_prefix(what));
    let line = line.unwrap_or_else(|| panic!("{what}\n{check}"));
    let (seen, right) = line.split_once("; ").unwrap_or_else(|| panic!("{what}\n{check}"));
    let right = right.split(' ').next().and_then(|it| it.parse().ok());
    assert!(right.is_some_and(|right: u64| right > 20), "{check}");
    seen.to_owned()
}

/// Without being asked to disturb, the check touches nothing, and lengths are exact. A foreign period and
/// throttling are seen as what they are, and windows are right again afterwards. Asked to end, it ends in order.
#[test]
fn what_loses_the_phase_is_seen_and_repaired() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let check = run_script(
        &Scratch::new(),
        "pmuscope doctor --strobe-check=1\n\
         pmuscope doctor --strobe-check=0.5 --disturb=period,throttle\n\
         pmuscope stat -e task-clock --timeout 1500 -- pmuscope doctor --strobe-check=60 --disturb\n",
    );
    check.exits(0);
    let (alone, disturbed) = check.stdout.split_once("exit 0: ").unwrap();
    assert!(disturbed.contains("exit 0: "), "{check}");
    assert!(alone.contains("0  0  0  0  0") && alone.contains("the method holds here"), "{check}");
    assert!(!alone.contains("seen by"), "{check}");
    assert_eq!(seen(&check, "a period set by another program, CPU 0: "), "seen by lengths");
    let limit = seen(&check, "a lower sampling rate limit, CPU 0: ");
    assert_eq!(limit, "seen by throttle records");
    assert!(disturbed.contains("interrupted, so there is no verdict"), "{check}");
}

/// With two CPUs only offsets can be right: the emulated PMU of one counts while the other has its
/// turn, and now and then loses an interrupt; throttled, such a guest can hang: then it is started again.
#[test]
fn full_a_cpu_that_goes_and_comes_has_windows_again() {
    skip_unless!(need_full());
    skip_unless!(need_pmu_guest());
    let scratch = Scratch::new();
    let command = ["--timeout", "300", "--", "doctor", "--strobe-check=1", "--disturb=hotplug"];
    let args = pmu_guest(2).into_iter().chain(command.map(String::from));
    let tried = (0..TRIES).map(|_| lab(&scratch, args.clone()));
    let check = tried.into_iter().find(|check| !check.stderr.contains("did not end within"));
    let check = check.unwrap_or_else(|| panic!("the guest hung {TRIES} times"));
    let gone = seen(&check, "a CPU that goes offline and comes back, CPU 1: ");
    assert_eq!(gone, "seen by its absence");
}
