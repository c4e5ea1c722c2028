//! What agents measure where there is a PMU: in an emulated aarch64 machine that has one, as few others of tests do.
//!
//! In this guest an instruction takes 4 cycles and a cycle is a nanosecond, so CPI is 4 and a CPU runs at 1 GHz, whatever runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pmuscope_testkit::{need, skip_unless};

const TARGET: &str = "aarch64-unknown-linux-musl";

/// A service that calls known functions, and what is measured of it. Events of a cgroup can be counted once any controller
/// is enabled for it, as systemd does.
const SCRIPT: &str = "\
write /sys/fs/cgroup/cgroup.subtree_control +pids
mkdir /sys/fs/cgroup/system.slice
write /sys/fs/cgroup/system.slice/cgroup.subtree_control +pids
mkdir /sys/fs/cgroup/system.slice/mix.service
& pmuscope workload function-mix --seconds 60
write /sys/fs/cgroup/system.slice/mix.service/cgroup.procs $1
./measure windows 2 windows
./measure counts 1 counts
kill $1
";

/// The folder of all that cargo builds.
fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
    program.ancestors().nth(2).unwrap().to_owned()
}

/// The program that measures, for guests.
fn measure() -> PathBuf {
    target().join(format!("{TARGET}/guest/examples/measure"))
}

/// The main program, and the one that it runs in guests.
fn pmuscope() -> [Option<PathBuf>; 2] {
    let built = |paths: [String; 2]| {
        paths.into_iter().map(|path| target().join(path)).find(|path| path.exists())
    };
    [
        built(["release", "debug"].map(|profile| format!("{profile}/pmuscope"))),
        built(["guest", "release"].map(|profile| format!("{TARGET}/{profile}/pmuscope"))),
    ]
}

fn need_guest() -> Option<String> {
    if !measure().exists() || pmuscope().contains(&None) {
        return Some(format!(
            "{} or pmuscope is not built: make pmu-guest fleet-guest",
            measure().display()
        ));
    }
    let found = Command::new("qemu-system-aarch64").arg("--version").stdout(Stdio::null()).status();
    found.err().map(|error| format!("cannot run qemu-system-aarch64: {error}"))
}

/// Runs commands in a guest, as tests of the main program do.
fn compile_shell(into: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli/tests/it/guest_shell.rs");
    let program = into.join("guest_shell");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-O", "--target", TARGET, "-C", "linker=rust-lld", "-o"]);
    assert!(rustc.arg(&program).arg(source).status().unwrap().success());
    program
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(status.success(), "{stdout}{stderr}");
    format!("{stdout}{stderr}")
}

/// The rows of CSV without quotes, with the names of their columns.
fn rows(csv: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = csv.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().unwrap().collect();
    lines.map(|row| names.iter().copied().zip(row).collect()).collect()
}

#[track_caller]
fn text<'a>(row: &[(&str, &'a str)], name: &str) -> &'a str {
    row.iter().find(|(one, _)| *one == name).unwrap_or_else(|| panic!("{name}: {row:?}")).1
}

#[track_caller]
fn value(row: &[(&str, &str)], name: &str) -> f64 {
    text(row, name).parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

#[track_caller]
fn near(row: &[(&str, &str)], name: &str, expected: f64) {
    let off = (value(row, name) - expected).abs();
    assert!(off < 1e-3 * expected, "{name} is not {expected}: {row:?}");
}

#[test]
fn full_windows_and_hardware_counts_of_a_guest_with_a_pmu() {
    skip_unless!(need::full());
    skip_unless!(need_guest());
    let [Some(pmuscope), Some(guest)] = pmuscope() else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let shell = compile_shell(folder.path());
    fs::write(path("commands"), SCRIPT).unwrap();
    fs::copy(measure(), path("measure")).unwrap();
    let mut lab = Command::new(pmuscope);
    lab.current_dir(folder.path())
        .args(["lab", "run", "--arch", "aarch64", "--icount", "2", "--cpus", "1"])
        .args(["--timeout", "120", "--program"])
        .arg(guest)
        .args(["--file", "measure", "--file", "commands", "--file"])
        .arg(&shell)
        .args(["--", "workload", "command", "--"])
        .arg(&shell)
        .arg("commands");
    let printed = succeeds(&mut lab);
    let asked = |dataset: &str, args: &[&str]| {
        let mut fleet = Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
        succeeds(fleet.arg("metrics").arg(path(dataset)).args(args))
    };
    let functions = asked("windows", &["--csv"]);
    let functions = rows(&functions);
    let nops = functions.iter().find(|row| text(row, "function").ends_with("::nops"));
    let nops = nops.unwrap_or_else(|| panic!("{printed}{functions:?}"));
    near(nops, "CPI", 4.0);
    // The function with most instructions: a third of them.
    assert!(value(nops, "windows") > 50.0 && value(nops, "%CY") > 20.0, "{nops:?}");
    assert!(text(nops, "module").ends_with("/pmuscope"), "{nops:?}");
    let emulated = "1 host emulated by QEMU TCG: counts are the emulator's";
    assert!(asked("windows", &[]).contains(emulated));

    let services = asked("counts", &["--by", "service", "--csv"]);
    let services = rows(&services);
    let [mix] = &services[..] else { panic!("{printed}{services:?}") };
    assert_eq!(text(mix, "service"), "mix");
    near(mix, "CPI", 4.0);
    near(mix, "GHz", 1.0);
    assert!(value(mix, "PF/s") > 1000.0, "it touches fresh pages: {mix:?}");
}
