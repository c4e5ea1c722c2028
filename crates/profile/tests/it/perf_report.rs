//! The same samples per function as `perf report`, for recordings that this machine's perf makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_profile::Profile;
use pmuscope_testkit::{need, skip_unless};

use super::profile;

/// Three functions whose names are in no other file, called from children and threads of one program.
const SOURCE: &str = "
#include <unistd.h>
#include <sys/wait.h>
volatile unsigned long sink;
__attribute__((noinline)) void mix_first(long n) { while (n--) sink = sink * 3 + 1; }
__attribute__((noinline)) void mix_second(long n) { while (n--) sink = sink / 3 + 7; }
__attribute__((noinline)) void mix_third(long n) { while (n--) getppid(); }
int main(void) {
    if (fork() == 0) { mix_second(9000000); return 0; }
    mix_first(20000000); mix_third(200000); wait(0);
    return 0;
}
";

/// Samples by command, module and function; `None` stands for no function.
type Table = BTreeMap<(String, String, Option<String>), u64>;

fn program(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("mix.c"), dir.join("mixprogram"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    program
}

fn record(dir: &Path, program: &Path, args: &[&str]) -> PathBuf {
    let path = dir.join(format!("{}.data", args.join("")));
    let output = pmuscope_testkit::perf()
        // Without build ids: perf 6.1 dies of one that is longer than 20 bytes.
        .args(["record", "-q", "-B", "-N", "-o"])
        .arg(&path)
        .args(args)
        .arg("--")
        .arg(program)
        .output()
        .unwrap();
    assert!(output.status.success(), "perf record {args:?}: {output:?}");
    path
}

/// One table per event with samples; `None`, with the reason printed, where perf fails.
fn by_perf(path: &Path) -> Option<Vec<Table>> {
    let output = pmuscope_testkit::perf()
        .args(["report", "--stdio", "--no-inline", "-g", "none", "--no-children"])
        .args(["-F", "sample,comm,dso,sym", "-t", "|", "-i"])
        .arg(path)
        .output()
        .unwrap();
    if !output.status.success() {
        eprintln!("skipped: perf report: {output:?}");
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut tables: Vec<Table> = Vec::new();
    for line in text.lines() {
        if line.starts_with("# Samples:") {
            tables.push(Table::new());
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let ([samples, comm, dso, symbol], false) = (&fields[..], line.starts_with('#')) else {
            continue;
        };
        let (Ok(samples), Some(table)) = (samples.parse::<u64>(), tables.last_mut()) else {
            continue;
        };
        // "[.] name", or "[.] 0x…" where there is none.
        let name = symbol.get(4..).filter(|name| !name.starts_with("0x"));
        let key = ((*comm).to_owned(), (*dso).to_owned(), name.map(str::to_owned));
        *table.entry(key).or_default() += samples;
    }
    tables.retain(|table| !table.is_empty());
    Some(tables)
}

fn by_us(profile: &Profile) -> Vec<Table> {
    let table = |event: &pmuscope_profile::EventProfile| {
        let mut table = Table::new();
        for row in &event.functions {
            let key = (
                profile.command_of(row).to_owned(),
                profile.modules[row.module].short_name().to_owned(),
                profile.function_of(row).map(str::to_owned),
            );
            *table.entry(key).or_default() += row.samples;
        }
        table
    };
    profile.events.iter().filter(|event| event.samples > 0).map(table).collect()
}

/// Only our program's: what else runs on this machine may well be named otherwise.
fn by_module(table: &Table) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for ((comm, module, _), samples) in table {
        let module = if comm == "mixprogram" { module } else { "anything else" };
        *sums.entry(module).or_default() += samples;
    }
    sums
}

/// Counts of the kernel's functions, without names: several names of one address are all right.
fn kernel_counts(table: &Table) -> Vec<u64> {
    let kernel = table
        .iter()
        .filter(|((comm, module, _), _)| comm == "mixprogram" && module == "[kernel.kallsyms]");
    let mut counts: Vec<u64> = kernel.map(|(_, samples)| *samples).collect();
    counts.sort_unstable();
    counts
}

/// perf before 6.3 does not know stubs in `.plt.sec` and takes them for what comes before. The one that
/// all stubs go on to at their first call has no name with us, and is `_init` with perf as well.
fn without_stubs(name: Option<&str>) -> String {
    match name {
        None | Some("_init") => "[stubs]".to_owned(),
        Some(name) if name.ends_with("@plt") => "[stubs]".to_owned(),
        Some(name) => name.to_owned(),
    }
}

#[test]
fn perf_report_counts_the_same() {
    skip_unless!(need::c_compiler());
    skip_unless!(need::perf_record(true));
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    skip_unless!(need::perf_that_reads(&program));
    let forms: [&[&str]; 5] = [
        &["-e", "cpu-clock", "-F", "2000"],
        &["-e", "cpu-clock", "-F", "2000", "-g"],
        &["-e", "cpu-clock", "-F", "2000", "-z"],
        &["-e", "cpu-clock,page-faults", "-c", "100000"],
        &["-e", "cpu-clock", "-F", "2000", "-a"],
    ];
    for form in forms {
        let path = record(dir.path(), &program, form);
        let profile = profile(&path).unwrap();
        let (ours, Some(theirs)) = (by_us(&profile), by_perf(&path)) else { continue };
        assert_eq!(ours.len(), theirs.len(), "{form:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(by_module(ours), by_module(theirs), "{form:?}");
            let of_program = |table: &Table| -> Table {
                let rows = table.iter().filter(|((_, module, _), _)| module == "mixprogram");
                let mut table = Table::new();
                for ((comm, module, name), samples) in rows {
                    let name = Some(without_stubs(name.as_deref()));
                    *table.entry((comm.clone(), module.clone(), name)).or_default() += samples;
                }
                table
            };
            assert_eq!(of_program(ours), of_program(theirs), "{form:?}");
            assert_eq!(kernel_counts(ours), kernel_counts(theirs), "{form:?}");
        }
        let names: Vec<&str> = ours[0].keys().filter_map(|(_, _, name)| name.as_deref()).collect();
        assert!(names.contains(&"mix_first") && names.contains(&"mix_second"), "{names:?}");
    }
}
