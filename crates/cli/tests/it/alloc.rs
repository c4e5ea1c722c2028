//! `record --alloc`: objects of real programs, by the functions that allocated them. Page faults have the addresses of
//! the memory that was touched first, on every machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::heap::AccessedObjects;
use pmuscope_symbols::{Options, Symbolizer};

use crate::json::is_documented;
use crate::sharing::code_of;
use pmuscope_testkit::sharing_file::{Access, Does, HeapStep, MEMORY, Pmu, Program};

use crate::harness::{Outcome, Scratch, need_perf, need_program, need_root, skip_unless};

fn compiled(scratch: &Scratch, compiler: &str, how: &[&str], name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/heap").join(name);
    let program = scratch.path("heap");
    let mut command = Command::new(compiler);
    command.args(how).arg("-o").arg(&program).arg(source);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    program
}

fn record(scratch: &Scratch, program: &Path, how: &[&str]) -> Outcome {
    let own = ["record", "-e", "page-faults", "-c", "1", "-d", "-o", "x.data"];
    let program = program.to_string_lossy();
    scratch.pmuscope(own.iter().chain(how).chain(&["--", &program]))
}

/// Objects by the function that allocated them and their size, with the source lines of their sites.
type Found = BTreeMap<(String, u64), Vec<u32>>;

fn objects(scratch: &Scratch) -> (AccessedObjects, Found) {
    let recording = RecordingFile::open(&scratch.path("x.data")).unwrap();
    let mut symbolizer = Symbolizer::new(Options { inlined: true });
    let objects = AccessedObjects::read(&recording, &mut symbolizer).unwrap();
    let mut found = Found::new();
    for (_, object, _) in &objects.objects {
        let site = &objects.stacks[object.stack as usize].site;
        let function = site.function.as_deref().unwrap_or("?").to_owned();
        let line = site.line.as_ref().and_then(|line| line.number);
        found.entry((function, object.size)).or_default().extend(line);
    }
    (objects, found)
}

/// The line of a file with this text.
fn line_of(name: &str, text: &str) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/heap").join(name);
    let source = std::fs::read_to_string(path).unwrap();
    source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1
}

fn check_c(scratch: &Scratch, program: &Path) {
    record(scratch, program, &["--alloc"]).exits(0);
    let (objects, found) = objects(scratch);
    assert_eq!(objects.counts.lost, 0);
    for (function, size) in [
        ("by_malloc", 40_000),
        ("by_calloc", 300_000),
        ("by_realloc", 40_128),
        ("by_posix_memalign", 40_192),
        ("by_aligned_alloc", 40_256),
        ("by_malloc", 40_512),
        ("by_malloc", 41_024),
    ] {
        let lines = found.get(&(function.to_owned(), size));
        let lines = lines.unwrap_or_else(|| panic!("{function} of {size}: {found:?}"));
        let wanted = line_of("heap.c", &format!("site {function} "));
        assert!(lines.iter().all(|line| *line == wanted), "{function}: {lines:?}, not {wanted}");
    }
    // The child wrote to an object that its parent had allocated.
    let pids: Vec<i32> =
        objects.objects.iter().filter(|one| one.1.size == 300_000).map(|one| one.0).collect();
    assert_eq!(pids.len(), 2, "{:?}", objects.objects);
    let stack = objects.objects.iter().find(|one| one.1.size == 40_128).unwrap().1.stack;
    let frames = objects.stacks[stack as usize].frames.iter();
    let names: Vec<&str> = frames.filter_map(|frame| frame.function.as_deref()).collect();
    assert_eq!(names[..2], ["by_realloc", "main"], "{names:?}");
}

#[test]
fn objects_of_c_have_their_sites() {
    skip_unless!(need_root());
    skip_unless!(need_program("gcc", "--version"));
    let scratch = Scratch::new();
    for how in [&["-O0", "-g", "-pthread"][..], &["-O2", "-g", "-pthread"]] {
        let program = compiled(&scratch, "gcc", how, "heap.c");
        check_c(&scratch, &program);
    }
}

#[test]
fn objects_of_static_programs_have_their_sites() {
    skip_unless!(need_root());
    skip_unless!(need_program("gcc", "--version"));
    let scratch = Scratch::new();
    let program = compiled(&scratch, "gcc", &["-O1", "-g", "-pthread", "-static"], "heap.c");
    check_c(&scratch, &program);
}

#[test]
fn objects_of_cpp_have_the_sites_that_call_new_or_a_container() {
    skip_unless!(need_root());
    skip_unless!(need_program("g++", "--version"));
    let scratch = Scratch::new();
    for how in [["-std=c++17", "-O0", "-g"], ["-std=c++17", "-O2", "-g"]] {
        let program = compiled(&scratch, "g++", &how, "heap.cpp");
        record(&scratch, &program, &["--alloc"]).exits(0);
        let (_, found) = objects(&scratch);
        for (function, size) in
            [("app::by_new", 40_000), ("app::by_aligned_new", 40_064), ("app::by_vector", 50_000)]
        {
            assert!(found.contains_key(&(function.to_owned(), size)), "{function}: {found:?}");
        }
        let shared = found.keys().find(|key| key.0 == "app::by_make_shared");
        assert!(shared.is_some_and(|key| (40_000..40_064).contains(&key.1)), "{found:?}");
    }
}

#[test]
fn objects_of_rust_have_sites_in_the_program() {
    skip_unless!(need_root());
    skip_unless!(need_program("rustc", "--version"));
    let scratch = Scratch::new();
    for how in [["-g", "-Copt-level=0"], ["-g", "-Copt-level=3"]] {
        let program = compiled(&scratch, "rustc", &how, "heap.rs");
        record(&scratch, &program, &["--alloc"]).exits(0);
        let (_, found) = objects(&scratch);
        for (function, size) in [
            ("heap::by_vec", 40_000),
            ("heap::by_box", 40_000),
            ("heap::by_growing", 65_536),
            ("heap::by_zeroed", 300_000),
        ] {
            assert!(found.contains_key(&(function.to_owned(), size)), "{function}: {found:?}");
        }
    }
}

#[test]
fn perf_reads_the_same_file() {
    skip_unless!(need_root());
    skip_unless!(need_perf());
    skip_unless!(need_program("gcc", "--version"));
    let scratch = Scratch::new();
    let program = compiled(&scratch, "gcc", &["-O1", "-g", "-pthread"], "heap.c");
    record(&scratch, &program, &["--alloc"]).exits(0);
    let shown =
        pmuscope_testkit::perf().args(["script", "-i"]).arg(scratch.path("x.data")).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let calls = shown.lines().filter(|line| line.contains("alloc:call:")).count();
    let returns = shown.lines().filter(|line| line.contains("alloc:return:")).count();
    assert!(returns >= 7 && calls > returns, "{calls} {returns}\n{shown}");
    assert!(shown.contains("function=1 arg1=0x9c40"), "{shown}");
    assert!(shown.contains("by_posix_memalign"), "{shown}");
}

#[test]
fn nothing_is_left_in_the_kernel() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    record(&scratch, Path::new("/bin/true"), &["--alloc"]).exits(0);
    let machine = pmuscope_machine::Machine::host();
    let left = machine.tracepoints().unwrap();
    // Those of recordings that run now belong to a living process.
    let is_abandoned = |system: &str| {
        let pid = system.strip_prefix("pmuscope_");
        pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    assert!(!left.iter().any(|(system, _)| is_abandoned(system)), "{left:?}");
}

#[test]
fn a_target_without_an_allocator_is_refused() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let outcome = record(&scratch, Path::new("/bin/true"), &["--alloc=/nonexistent/lib.so"]);
    outcome.exits(2).complains("--alloc=/nonexistent/lib.so: there is no such file. Try: --alloc");
}

/// Each thread counts in an object of its own. The first instructions of the first four functions are the accesses.
const COUNTERS: &str = "
#include <stdlib.h>
struct counter { long number, limit, spare; };
#define CODE __attribute__((noinline)) long
CODE get_number(struct counter *c) { return c->number; }
CODE set_number(struct counter *c, long to) { c->number = to; return 0; }
__attribute__((noinline)) struct counter *new_counter(void) {
    struct counter *new = calloc(1, sizeof *new);
    if (new) new->limit = 7;
    return new;
}
__attribute__((noinline)) void start_worker(struct counter **own) {
    *own = new_counter();
    (*own)->spare = 1;
}
int main(void) { struct counter *own; start_worker(&own); return get_number(own) + set_number(own, 0); }
";

/// Two threads, whose objects are 32 bytes apart, as `malloc` has them.
fn counters() -> Program {
    let access = |thread: usize, does| {
        let offset = 16 + 32 * thread as u64;
        Access { thread, line: 0, offset, does, weight: 1.0 }
    };
    let each = (0..2).flat_map(|thread| [access(thread, Does::Load), access(thread, Does::Store)]);
    Program {
        pmu: Pmu::Pebs,
        threads: 2,
        cpus_per_node: 2,
        accesses: each.collect(),
        steps: 200_000,
        period: 50,
        seed: 1,
        timed: true,
    }
}

#[test]
fn heap_objects_have_their_allocation_sites() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("counter.c"), COUNTERS).unwrap();
    if scratch.run("sh", ["-c", "cc -g -O2 -pie -o x counter.c"]).code() != 0 {
        return eprintln!("skipped: no C compiler");
    }
    let code =
        ["get_number", "set_number", "get_number", "set_number", "new_counter", "start_worker"];
    let Some(memory) = code_of(&scratch, &code) else {
        return eprintln!("skipped: no readelf and nm");
    };
    let callers = [memory.code()[4] + 6, memory.code()[5] + 6];
    let program = counters();
    let allocate =
        |thread: u64| HeapStep::Allocate { address: MEMORY + 16 + 32 * thread, size: 24, callers };
    let heap = [(0.0, 0, allocate(0)), (0.0, 0, allocate(1))];
    program.run().write_heap_in(&program, &scratch.path("x.data"), &memory, &heap);

    let found = scratch.pmuscope(["sharing", "x.data", "--json"]);
    found.exits(0);
    is_documented("sharing", &found.stdout);
    let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let line = &found["lines"][0];
    let objects = line["heap_objects"].as_array().unwrap();
    assert_eq!(objects.len(), 2, "{line}");
    for object in objects {
        assert_eq!((&object["function"], &object["size"]), (&"new_counter".into(), &24.into()));
        assert_eq!(object["stack"][1]["function"], "start_worker");
        assert_eq!(object["certain"], true);
    }
    let places: Vec<_> = (line["rows"].as_array().unwrap().iter())
        .map(|row| {
            (row["offset"].as_u64(), row["heap_object"].as_u64(), row["heap_offset"].as_u64())
        })
        .collect();
    let [first, second] = [(Some(16), Some(0), Some(0)), (Some(48), Some(1), Some(0))];
    assert_eq!(places, [first, first, second, second]);
    let named = found["allocations"]["named"].as_u64();
    assert_eq!(named, found["accesses"].as_u64());

    let text = scratch.pmuscope(["sharing", "x.data", "--offsets", "1"]);
    text.exits(0).prints("2 × new_counter counter.c:").prints("(24 B)");
    text.prints("2 objects of the heap share this line");
    println!("{}", text.stdout);
    let by = scratch.pmuscope(["sharing", "x.data", "--by", "object"]);
    by.exits(0).prints("new_counter counter.c:");
    let csv = scratch.pmuscope(["sharing", "x.data", "--csv"]);
    csv.exits(0).prints("heap_site").prints("new_counter counter.c:");
}
