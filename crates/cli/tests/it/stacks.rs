//! Stacks of `--call-graph dwarf`: unwound as perf unwinds them, by our recorder and by perf's.

use std::collections::BTreeMap;
use std::fs;

use pmuscope_machine::{Machine, UprobeDefinition, UprobeEvents, UprobePlace};
use pmuscope_symbols::function_offsets;

use crate::harness::{
    Outcome, Scratch, need_libc_symbols, need_perf, need_perf_that_reads, need_program, skip_unless,
};
use crate::json::is_documented;
use crate::recording::need_root_clock;

/// In a shared library: what its callers hand over is called back.
const LIBRARY: &str = "
#include <stdint.h>
uint64_t hash(uint64_t x, int n) {
    for (int i = 0; i < n; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}
uint64_t fold(uint64_t x, int n, uint64_t (*each)(uint64_t)) {
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) sum += each(hash(x + i, 50));
    return sum;
}
";

/// Threads, recursion, inlined functions, a realigned stack, a callback of the C library, a signal
/// handler.
const PROGRAM: &str = "
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
uint64_t hash(uint64_t x, int n);
uint64_t fold(uint64_t x, int n, uint64_t (*each)(uint64_t));
static inline __attribute__((always_inline)) uint64_t spread(uint64_t x) {
    for (int i = 0; i < 20; i++) x ^= x >> (i + 1);
    return x;
}
static volatile uint64_t seen;
__attribute__((noinline)) static uint64_t each(uint64_t x) { return spread(x) + 1; }
__attribute__((noinline)) static uint64_t walk(int depth, uint64_t x) {
    char local[48];
    memset(local, (int)x, sizeof local);
    if (depth == 0) return fold(x, 40, each) + local[x % 48];
    return walk(depth - 1, x + 1) * 3 + local[x % 48] + spread(x);
}
static int less(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return hash(x, 3) < hash(y, 3) ? -1 : 1;
}
__attribute__((noinline)) static uint64_t aligned(uint64_t x) {
    volatile uint64_t wide[16] __attribute__((aligned(64)));
    for (int i = 0; i < 16; i++) wide[i] = x + i;
    return wide[x % 16] + fold(x, 10, each);
}
static void handler(int signal) { seen += fold(signal, 20, each); }
static void *work(void *arg) {
    uint64_t sum = (uintptr_t)arg, list[64];
    for (int i = 0; i < ROUNDS; i++) {
        sum += walk(i % 25, sum);
        for (int k = 0; k < 64; k++) list[k] = sum + hash(k, 5);
        qsort(list, 64, sizeof *list, less);
        sum += list[7] + aligned(sum);
        if (i % 4 == 0) raise(SIGUSR1);
    }
    return (void *)(uintptr_t)sum;
}
int main(void) {
    signal(SIGUSR1, handler);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)i);
    work((void *)9);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
";

/// Builds the program and its library in the folder of a test; why not, where there is no compiler.
fn need_program_of_our_own(scratch: &Scratch) -> Option<String> {
    if let Some(why) = need_program("cc", "--version") {
        return Some(why);
    }
    fs::write(scratch.path("fold.c"), LIBRARY).unwrap();
    fs::write(scratch.path("main.c"), PROGRAM).unwrap();
    let plain = ["-O2", "-fomit-frame-pointer", "-Wl,--build-id"];
    let library = ["-fPIC", "-shared", "-o", "libfold.so", "fold.c"];
    scratch.run("cc", [&plain[..], &library].concat()).exits(0);
    let program = ["-DROUNDS=20000", "-o", "folder", "main.c", "-L.", "-lfold", "-lpthread"];
    let path = ["-Wl,-rpath,$ORIGIN"];
    scratch.run("cc", [&plain[..], &program, &path].concat()).exits(0);
    None
}

fn record(scratch: &Scratch, file: &str, graph: &str) {
    let flags = ["record", "-e", "cpu-clock", "-F", "2000", "--call-graph", graph];
    let said = scratch.pmuscope([&flags[..], &["-o", file, "--", "./folder"]].concat());
    // 125 where a busy machine lost some samples, which are not missed here.
    assert!(matches!(said.code(), 0 | 125) && scratch.path(file).exists(), "{said}");
}

/// Address and mapped file.
type Frame = (u64, String);
/// By thread and time: the program's frames, the innermost first.
type Stacks = BTreeMap<(String, String), Vec<Frame>>;

/// What `script -F tid,time,ip,dso` of perf or of ours says. Addresses of the kernel are left out.
fn stacks(script: &Outcome) -> Stacks {
    let mut found = Stacks::new();
    for block in script.stdout.split("\n\n") {
        let mut lines = block.trim_matches('\n').lines();
        let Some(head) = lines.next() else { continue };
        let mut words = head.split_whitespace();
        let (Some(tid), Some(time)) = (words.next(), words.next()) else { continue };
        let frame = |line: &str| {
            let (address, file) = line.trim().split_once(' ').unwrap();
            (u64::from_str_radix(address, 16).unwrap(), file.to_owned())
        };
        // Where we say what is missing perf just ends.
        let is_user = |(address, file): &Frame| address >> 63 == 0 && file != "([cut])";
        let frames = lines.map(frame).filter(is_user).collect();
        found.insert((tid.to_owned(), time.to_owned()), frames);
    }
    found
}

/// perf 6.1 prints addresses of unwound frames as its symbol tables count them, we as recorded: what
/// lies between is one number per file, for there is one process.
fn bases(ours: &Stacks, theirs: &Stacks) -> BTreeMap<String, u64> {
    let mut votes: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for (key, their) in theirs {
        for ((our, file), (their, _)) in ours[key].iter().zip(their) {
            *votes.entry((file.clone(), our.wrapping_sub(*their))).or_default() += 1;
        }
    }
    let mut votes: Vec<_> = votes.into_iter().map(|(base, votes)| (votes, base)).collect();
    votes.sort();
    votes.into_iter().map(|(_, base)| base).collect()
}

/// Fails unless at least 95 % of the stacks are the same; says what the others are.
#[track_caller]
fn agree(scratch: &Scratch, file: &str) {
    let fields = ["-F", "tid,time,ip,dso", "--ns"];
    let by_us = scratch.pmuscope([&["script", "-i", file][..], &fields].concat());
    let inline = ["script", "-f", "--no-inline", "-i", file];
    let by_perf = scratch.run("perf", [&inline[..], &fields].concat());
    if by_perf.is_abort_of_perf() {
        return;
    }
    let (ours, theirs) = (stacks(by_us.exits(0)), stacks(by_perf.exits(0)));
    assert!(theirs.len() > 300, "{} stacks", theirs.len());
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut equal = 0;
    let bases = bases(&ours, &theirs);
    let counted = |(address, file): &Frame| {
        (address.wrapping_sub(bases.get(file).copied().unwrap_or(0)), file.clone())
    };
    for (key, their) in &theirs {
        let our: Vec<Frame> = ours[key].iter().map(counted).collect();
        if our == *their {
            equal += 1;
            continue;
        }
        let same = our.iter().zip(their).take_while(|(one, other)| one == other).count();
        let next = |frames: &[Frame]| match frames.get(same) {
            Some((address, file)) => format!("{address:#x} {file}"),
            None => "the end".into(),
        };
        *classes.entry(format!("we {}, perf {}", next(&our), next(their))).or_default() += 1;
    }
    let share = f64::from(equal) / theirs.len() as f64;
    eprintln!("{file}: {equal} of {} stacks equal; {classes:#?}", theirs.len());
    assert!(share >= 0.95, "{share:.4} of {} stacks: {classes:#?}", theirs.len());
}

/// What cut stacks of `report --json`, and how many of how many are complete.
#[track_caller]
fn summary(scratch: &Scratch, file: &str) -> (BTreeMap<String, u64>, u64, u64) {
    let report = scratch.pmuscope(["report", "--json", "-i", file]);
    let value: serde_json::Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    is_documented("report", &report.stdout);
    let stacks = &value["recording"]["stacks"];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let mut cut: BTreeMap<String, u64> = BTreeMap::new();
    for row in stacks["cut"].as_array().unwrap() {
        *cut.entry(row["reason"].as_str().unwrap().to_owned()).or_default() +=
            number(&row["stacks"]);
    }
    (cut, number(&stacks["complete"]), number(&stacks["unwound"]))
}

const TOO_SHORT: &str = "stack copy too short";

#[test]
fn stacks_that_are_deeper_than_their_copy_are_marked_as_cut() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    skip_unless!(need_program_of_our_own(&scratch));
    record(&scratch, "large.data", "dwarf,32768");
    record(&scratch, "small.data", "dwarf,2048");
    let (cut, complete, all) = summary(&scratch, "large.data");
    assert_eq!(complete + cut.values().sum::<u64>(), all);
    assert!(complete * 100 >= all * 95, "{complete} of {all}; {cut:?}");
    assert!(!cut.contains_key(TOO_SHORT), "{cut:?}");
    let (cut, complete, all) = summary(&scratch, "small.data");
    // How many follows from how long the program is how deep: 19% to 30% were seen.
    assert!(cut[TOO_SHORT] > all / 10 && complete > 0, "{complete} of {all}; {cut:?}");

    let tree = scratch.pmuscope(["report", "--call-tree", "-i", "small.data"]);
    tree.exits(0).prints("[cut: stack copy too short]");
    scratch.pmuscope(["report", "-i", "small.data"]).prints("--call-graph dwarf,65528");
    scratch.pmuscope(["report", "-i", "small.data", "-o", "small.folded"]).exits(0);
    let folded = fs::read_to_string(scratch.path("small.folded")).unwrap();
    let (mut marked, mut whole) = (0, 0);
    for line in folded.lines() {
        let (stack, samples) = line.rsplit_once(' ').unwrap();
        let samples: u64 = samples.parse().unwrap();
        match stack.split(';').nth(1) {
            Some("[cut: stack copy too short]") => marked += samples,
            _ => whole += samples,
        }
    }
    assert_eq!(marked, cut[TOO_SHORT]);
    assert!(whole >= complete, "{whole} of {complete}");
}

/// What a report has of stacks: without the first line, which names the file.
fn shown(scratch: &Scratch, file: &str) -> Vec<String> {
    let views = [&["--call-tree", "--limit", "all"][..], &["--by", "function,module"]];
    let lines = |view: &&[&str]| {
        let view = [&["report", "--no-symbol-cache", "-i", file], *view].concat();
        let report = scratch.pmuscope(view);
        report.exits(0).stdout.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    views.iter().flat_map(lines).collect()
}

#[test]
fn a_bundle_unwinds_without_the_programs() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    skip_unless!(need_program_of_our_own(&scratch));
    record(&scratch, "a.data", "dwarf,1024");
    let before = shown(&scratch, "a.data");
    assert!(before.iter().any(|line| line.contains("walk")), "{before:#?}");
    scratch.pmuscope(["bundle", "-i", "a.data"]).exits(0);
    for file in ["folder", "libfold.so"] {
        fs::remove_file(scratch.path(file)).unwrap();
    }
    assert_eq!(shown(&scratch, "a.data.bundle"), before);
    // What it is good for.
    let (cut, ..) = summary(&scratch, "a.data");
    assert!(cut["file missing or from another build"] > 0, "{cut:?}");
}

#[test]
fn frames_are_those_that_perf_finds() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    skip_unless!(need_program_of_our_own(&scratch));
    skip_unless!(need_perf_that_reads(&scratch.path("folder")));
    record(&scratch, "ours.data", "dwarf");
    // -B: perf 6.1 aborts on build ids of its own recording.
    let theirs = ["record", "-B", "-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf"];
    let command = ["-o", "theirs.data", "--", "./folder"];
    scratch.run("perf", [&theirs[..], &command].concat()).exits(0);
    for file in ["ours.data", "theirs.data"] {
        agree(&scratch, file);
        let report = scratch.pmuscope(["report", "--call-tree", "-i", file]);
        report.exits(0).prints("stacks: ").prints("walk");
    }
    skip_unless!(need_libc_symbols());
    for file in ["ours.data", "theirs.data"] {
        let report = scratch.pmuscope(["report", "--call-tree", "-i", file]);
        report.exits(0).prints("start_thread");
    }
}

/// A coroutine on a stack of its own, whose outermost return address makecontext(3) has put there.
const COROUTINE: &str = "
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
static ucontext_t outside, inside;
static volatile long sum;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 300000; i++) sum += i; }
__attribute__((noinline)) void coroutine(void) { for (;;) { work(); swapcontext(&inside, &outside); } }
int main(int n, char **args) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = malloc(65536);
    inside.uc_stack.ss_size = 65536;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) swapcontext(&outside, &inside);
}
";

/// Recorded and unwound stacks of the program `name`, built from `source`, as JSON.
fn unwound(scratch: &Scratch, name: &str, source: &str, events: &[&str]) -> serde_json::Value {
    let file = format!("{name}.c");
    fs::write(scratch.path(&file), source).unwrap();
    scratch.run("cc", ["-O1", "-fomit-frame-pointer", "-w", "-o", name, &file]).exits(0);
    let own = ["record", "-e", "cpu-clock", "--call-graph", "dwarf", "-o", "x.data"];
    let program = format!("./{name}");
    scratch.pmuscope([&own[..], events, &["--", &program]].concat()).exits(0);
    let report = scratch.pmuscope(["report", "-i", "x.data", "--json"]);
    serde_json::from_str(&report.exits(0).stdout).unwrap()
}

#[test]
fn stacks_of_coroutines_are_complete() {
    skip_unless!(need_root_clock());
    skip_unless!(need_program("cc", "--version"));
    let scratch = Scratch::new();
    let report = unwound(&scratch, "coroutine", COROUTINE, &[]);
    let share = report["recording"]["stacks"]["complete_share"].as_f64().unwrap();
    assert!(share > 0.98, "{share}");
}

/// A function that a return probe is on, with the time in what it calls.
const PROBED: &str = "
#include <time.h>
static volatile long sum;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 300000; i++) sum += i; }
__attribute__((noinline)) void probed(void) { work(); sum++; }
__attribute__((noinline)) void caller(void) { probed(); sum++; }
int main(void) { for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) caller(); }
";

#[test]
fn stacks_that_a_return_probe_cuts_name_it() {
    skip_unless!(need_root_clock());
    skip_unless!(need_program("cc", "--version"));
    let scratch = Scratch::new();
    let machine = Machine::host();
    fs::write(scratch.path("probed.c"), PROBED).unwrap();
    scratch.run("cc", ["-O1", "-fomit-frame-pointer", "-w", "-o", "probed", "probed.c"]).exits(0);
    let program = scratch.path("probed");
    let offset = function_offsets(&program, &["probed"]).unwrap()[0].unwrap();
    let place = UprobePlace { file: program, offset, arguments: String::new() };
    let definition = UprobeDefinition { name: "probed", at_return: true, places: vec![place] };
    let probe = UprobeEvents::define(&machine, &[definition]).unwrap();
    let event = format!("pmuscope_{}:probed", std::process::id());
    let own = ["record", "--call-graph", "dwarf", "-o", "x.data", "-e", "cpu-clock", "-e", &event];
    scratch.pmuscope([&own[..], &["--", "./probed"]].concat()).exits(0);
    drop(probe);
    let report = scratch.pmuscope(["report", "-i", "x.data"]).exits(0).stdout.clone();
    assert!(report.contains("return probe") && !report.contains("unwind-tables"), "{report}");
    // At the return itself the address is the true one.
    let at_return =
        scratch.pmuscope(["report", "-i", "x.data", "-o", "x.folded", "--event", &event]);
    at_return.exits(0);
    let folded = fs::read_to_string(scratch.path("x.folded")).unwrap();
    assert!(
        !folded.is_empty() && folded.lines().all(|line| line.contains("main;caller")),
        "{folded}"
    );
}
