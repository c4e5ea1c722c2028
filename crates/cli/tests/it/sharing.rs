//! `pmuscope sharing` of simulated recordings: what it prints, and that stock perf counts the same.

use std::collections::BTreeMap;
use std::path::Path;

use pmuscope_perfdata::MemoryNodes;
use pmuscope_perfdata::reader::Reader;
use serde_json::Value;

use crate::harness::{Scratch, need_perf, need_perf_record, skip_unless};
use crate::json::is_documented;
use crate::recording::need_root_clock;
use pmuscope_testkit::sharing_file::{Memory, PID, Pmu, Sharers, example};
use pmuscope_testkit::simulator::{Function, Run, write};

/// A folder with the example as `x.data`.
pub(crate) fn recorded(pmu: Pmu) -> Scratch {
    let scratch = Scratch::new();
    let program = example(pmu);
    program.run().write(&program, &scratch.path("x.data"));
    scratch
}

fn json(scratch: &Scratch, more: &[&str]) -> Value {
    let said = scratch.pmuscope([&["sharing", "x.data", "--json"][..], more].concat());
    serde_json::from_str(&said.exits(0).stdout).unwrap()
}

#[test]
fn a_terminal_shows_lines_then_each_by_offset() {
    let scratch = recorded(Pmu::Pebs);
    let said = scratch.pmuscope(["sharing", "x.data", "--offsets", "2"]);
    let (_, text) = said.exits(0).stdout.split_once("throttled 0\n").unwrap();
    insta::assert_snapshot!(text.trim_end());
}

#[test]
fn every_form_has_the_lines() {
    let scratch = recorded(Pmu::Pebs);
    let found = scratch.pmuscope(["sharing", "x.data", "--json"]);
    is_documented("sharing", &found.exits(0).stdout);
    let csv = scratch.pmuscope(["sharing", "x.data", "--csv"]);
    let csv = &csv.exits(0).stdout;
    assert!(csv.starts_with("line,verdict,offset,object,type,field,contended,"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("0x555500000040,")).count(), 6);
    scratch.pmuscope(["sharing", "x.data", "-o", "x.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    for part in ["cache line 0x555500000040 of process 4000", "false sharing", "Upper bound"] {
        assert!(page.contains(part), "{part}");
    }
}

/// A machine without a PMU for it gets an error that names `sharing --watch`; events of other machines are tested in
/// `pmuscope_events`.
#[test]
fn recording_needs_a_pmu() {
    let scratch = Scratch::new();
    let said = scratch.pmuscope(["record", "--sharing", "-n", "--", "true"]);
    match said.code() {
        0 => drop(said.complains("mem-loads")),
        _ => drop(said.exits(3).complains("--sharing: no PMU here").complains("sharing --watch")),
    }
    let both = scratch.pmuscope(["record", "--sharing", "-e", "cycles", "--", "true"]);
    both.exits(2).complains("--sharing");
}

/// What `--as` shows of a CPU, without the fields that follow from this kernel and from the target.
fn as_on(cpu: &str) -> String {
    let said = Scratch::new().pmuscope(["record", "--sharing", "-n", "--as", cpu]);
    let own = ["type ", "config", "{ bp_addr", "precise_ip", "sample_type"];
    let is_own = |line: &&str| {
        !line.starts_with("  ") || own.iter().any(|field| line[2..].starts_with(field))
    };
    let (fields, population) = said.exits(0).stderr.split_once("samples are of:").unwrap();
    let fields: Vec<&str> = fields.lines().filter(is_own).collect();
    format!("{}\nsamples are of:{population}", fields.join("\n")).trim_end().to_owned()
}

#[test]
fn attributes_of_other_cpus_are_shown() {
    for cpu in ["skylake-x", "sapphire-rapids", "alder-lake", "zen2", "zen4", "zen5"] {
        insta::assert_snapshot!(format!("as_on_{cpu}"), as_on(cpu));
    }
}

/// perf 6.12 selects the same with `perf c2c record` on those CPUs; ldlat there is 0x1f (see `pmuscope_events`).
#[test]
fn attributes_of_other_cpus_are_those_of_perf() {
    let config = |cpu: &str| {
        let text = as_on(cpu);
        let of = |line: &str| Some(line.trim().strip_prefix("config ")?.trim().to_owned());
        text.lines().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(config("skylake-x"), ["0x1cd", "0x82d0"]);
    assert_eq!(config("sapphire-rapids"), ["0x8203", "0x1cd", "0x2cd"]);
    assert_eq!(config("alder-lake"), ["0x5d0", "0x6d0", "0x8203", "0x1cd", "0x2cd"]);
    assert_eq!(config("zen4"), [""; 0]);
}

#[test]
fn spe_is_refused_and_as_is_for_showing_only() {
    let scratch = Scratch::new();
    for cpu in ["neoverse-n1", "neoverse-v2"] {
        let refused = scratch.pmuscope(["record", "--sharing", "--dry-run", "--as", cpu]);
        let refused = refused.exits(3).complains(&format!("--as {cpu}: Arm SPE (arm_spe_0)"));
        refused.complains("Try: perf c2c record").complains("30 cycles or longer");
    }
    for words in [["--sharing", "--as", "zen2"], ["--dry-run", "--as", "zen2"]] {
        let refused = scratch.pmuscope([&["record"][..], &words, &["--", "true"]].concat());
        refused
            .exits(2)
            .complains("--as zen2 only shows what --sharing would open")
            .complains("Try: ");
    }
    let unknown = scratch.pmuscope(["record", "--sharing", "-n", "--as", "zen9"]);
    unknown.exits(2).complains("skylake-x").complains("neoverse-v2");
}

#[test]
fn lines_add_up_by_function_field_and_thread() {
    let scratch = recorded(Pmu::Pebs);
    let all = json(&scratch, &[])["contended"].as_u64();
    for (by, groups) in [("function", 12), ("field", 6), ("thread", 3), ("node", 2)] {
        let found = scratch.pmuscope(["sharing", "x.data", "--by", by, "--json"]);
        is_documented("sharing", &found.exits(0).stdout);
        let found: Value = serde_json::from_str(&found.stdout).unwrap();
        let rows = found["groups"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["contended"].as_u64().unwrap()).sum();
        assert_eq!((rows.len(), Some(sum)), (groups, all), "{by}");
        let text = scratch.pmuscope(["sharing", "x.data", "--by", by]);
        text.exits(0).prints(by).prints("HITM");
    }
    let csv = scratch.pmuscope(["sharing", "x.data", "--by", "thread", "--csv"]);
    assert_eq!(csv.exits(0).stdout.lines().count(), 4);
}

/// The example, and the same where each thread's word of the second line has a line to itself.
#[test]
fn two_recordings_are_compared_by_what_lines_cost() {
    let scratch = recorded(Pmu::Pebs);
    let mut program = example(Pmu::Pebs);
    let lines = program.accesses.iter().map(|access| access.line).max().unwrap() + 1;
    for access in program.accesses.iter_mut().filter(|access| access.line == 1) {
        access.line = lines + access.thread;
    }
    program.run().write(&program, &scratch.path("y.data"));
    let said = scratch.pmuscope(["diff", "--sharing", "x.data", "y.data"]);
    insta::assert_snapshot!(said.exits(0).stdout.trim_end());
    let found = scratch.pmuscope(["diff", "--sharing", "x.data", "y.data", "--json"]);
    is_documented("sharing-diff", &found.exits(0).stdout);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["total"]["is"], "less");
    // What the line cost: a quarter of all.
    let number = |key: &str| found["total"][key].as_f64().unwrap();
    let share = number("change") / number("before");
    assert!((-0.30..-0.20).contains(&share), "{share}");
    assert!(number("change_high") < 0.0);
    // Nothing but chance between a recording and itself.
    let same = scratch.pmuscope(["diff", "--sharing", "x.data", "x.data", "--json"]);
    let same: Value = serde_json::from_str(&same.exits(0).stdout).unwrap();
    assert_eq!(same["total"]["change"].as_f64(), Some(0.0));
    assert_eq!(same["objects"][0]["is"], "unclear");
    let csv = scratch.pmuscope(["diff", "--sharing", "x.data", "y.data", "--csv"]);
    assert!(csv.exits(0).stdout.starts_with("change,"), "{csv}");
    let refused = scratch.pmuscope(["diff", "--sharing", "x.data", "y.data", "-o", "x.html"]);
    refused.exits(2).complains("are not of shared lines");
}

/// Processes that share memory without a file, of which samples have physical addresses.
#[test]
fn lines_by_physical_address_name_their_processes() {
    let scratch = Scratch::new();
    let program = example(Pmu::Pebs);
    let sharers = Sharers {
        path: "/dev/zero (deleted)",
        flags: 1,
        physical: Some(0x1_2340_0000),
        ..Sharers::default()
    };
    program.run().write_shared(&program, &scratch.path("x.data"), &sharers);
    assert_eq!(json(&scratch, &[])["lines"].as_array().unwrap().len(), 8);
    let found = scratch.pmuscope(["sharing", "x.data", "--physical", "--json"]);
    is_documented("sharing", &found.exits(0).stdout);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let line = &found["lines"][1];
    let mappings = line["mappings"].as_array().unwrap();
    assert_eq!((line["physical"].as_str(), mappings.len()), (Some("0x123400040"), 3));
    assert_eq!((mappings[1]["pid"].as_u64(), &line["pid"]), (Some(4001), &Value::Null));
    let text = scratch.pmuscope(["sharing", "x.data", "--physical"]);
    let text = text
        .exits(0)
        .prints("0x555500000040 (physical 0x123400040; 0x555500000040 of process 4000, ");
    text.prints("have no physical address and are in no line").prints("processes");
    let csv = scratch.pmuscope(["sharing", "x.data", "--physical", "--csv"]);
    csv.exits(0).prints("\n0x123400040,");
    let without = recorded(Pmu::Pebs);
    let refused = without.pmuscope(["sharing", "x.data", "--physical"]);
    refused.exits(2).complains("no physical addresses").complains("record --sharing --phys-data");
}

/// Memory of node 1 that is moved to node 0: as perf c2c has it.
#[test]
fn lines_say_on_which_node_their_memory_is() {
    const BLOCK: u64 = 128 << 20;
    let scratch = Scratch::new();
    let program = example(Pmu::Pebs);
    let sharers = Sharers {
        path: "/dev/shm/queue",
        flags: 1,
        physical: Some(9 * BLOCK),
        moved: Some((0.5, 2 * BLOCK)),
        memory_nodes: Some(MemoryNodes::new(BLOCK, [(0, vec![0, 1, 2]), (1, vec![8, 9])])),
    };
    program.run().write_shared(&program, &scratch.path("x.data"), &sharers);
    let text = scratch.pmuscope(["sharing", "x.data"]);
    text.exits(0).prints("memory on NUMA nodes ").prints("in 2 physical pages (moved or copied)");
    let found = json(&scratch, &[]);
    for line in found["lines"].as_array().unwrap() {
        assert_eq!(line["physical_pages"], 2);
        let mut nodes: Vec<&Value> =
            line["page_nodes"].as_array().unwrap().iter().map(|one| &one["node"]).collect();
        nodes.sort_by_key(|node| node.as_u64());
        assert_eq!(nodes, [0, 1]);
    }
    let stayed = Sharers { moved: None, ..sharers };
    program.run().write_shared(&program, &scratch.path("x.data"), &stayed);
    scratch.pmuscope(["sharing", "x.data"]).exits(0).prints(", memory on NUMA node 1, ");
    skip_unless!(need_perf());
    let said = scratch.run("perf", ["c2c", "report", "--stdio", "--no-source", "-i", "x.data"]);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells.get(1)?.starts_with("0x5555").then(|| cells[2].to_owned())
    };
    let table = said.exits(0).stdout.split("Shared Cache Line Distribution Pareto").next().unwrap();
    let nodes: Vec<String> = table.lines().filter_map(row).collect();
    assert!(!nodes.is_empty() && nodes.iter().all(|node| node == "1"), "{said}");
}

/// What perf records of the nodes of memory, and what this program does, is the same.
#[test]
fn nodes_of_memory_are_recorded_as_perf_has_them() {
    skip_unless!(need_root_clock().or_else(need_perf).or_else(|| need_perf_record(true)));
    let blocks = "/sys/devices/system/memory/block_size_bytes";
    skip_unless!((!Path::new(blocks).exists()).then(|| format!("{blocks} is not there")));
    let scratch = Scratch::new();
    let ours = "record -e page-faults -c 1 -d --phys-data -o a.data -- true";
    scratch.pmuscope(ours.split(' ')).exits(0);
    // perf 6.1 aborts over build ids that another recording asks for at the same time.
    let theirs = "record -B -N -e page-faults -c 1 -d --phys-data -o b.data -- true";
    scratch.run("perf", theirs.split(' ')).exits(0);
    let [ours, theirs] = ["a.data", "b.data"].map(|name| {
        let reader = Reader::open(&scratch.path(name)).unwrap();
        reader.metadata().memory_nodes.clone()
    });
    assert!(!ours.is_empty());
    assert_eq!(ours, theirs);
    let header = scratch.run("perf", ["report", "--header-only", "-I", "-i", "a.data"]);
    header.exits(0).prints("memory nodes (nr ");
}

/// What was not sampled is not 0.
#[test]
fn loads_alone_have_no_number_of_stores() {
    let scratch = recorded(Pmu::Pebs);
    let found = json(&scratch, &["-e", "mem-loads"]);
    assert!(found["lines"].as_array().unwrap().iter().all(|line| line["stores"].is_null()));
    let text = scratch.pmuscope(["sharing", "x.data", "-e", "mem-loads"]);
    text.exits(0).prints("no stores sampled").prints("no writes were sampled");
    // IBS samples stores, and does not say where they go.
    let found = json(&recorded(Pmu::Ibs), &[]);
    let line = &found["lines"][0];
    assert!(line["stores"].is_u64() && line["store_l1_hit"].is_null(), "{line}");
}

#[test]
fn lines_may_be_larger() {
    let scratch = recorded(Pmu::Pebs);
    let of = |value: &Value| value["lines"].as_array().unwrap().len();
    assert_eq!(of(&json(&scratch, &[])), 3);
    let pairs = json(&scratch, &["--line-size", "128"]);
    assert_eq!((of(&pairs), pairs["line_bytes"].as_u64()), (2, Some(128)));
    let refused = scratch.pmuscope(["sharing", "x.data", "--line-size", "96"]);
    refused.exits(2).complains("no power of two").complains("Try: 64 or 128");
}

#[test]
fn what_has_no_data_sources_is_refused() {
    let scratch = Scratch::new();
    let functions = vec![Function::plain("a", 50_000.0, 0.5)];
    write(&Run { functions, cycles: 1e6, ..Run::default() }, &scratch.path("w.data"));
    let refused = scratch.pmuscope(["sharing", "w.data"]);
    refused.exits(2).complains("no data addresses with data sources").complains("record --sharing");
}

/// Our line at that address.
fn line_at(found: &Value, address: u64) -> &Value {
    let mut lines = found["lines"].as_array().unwrap().iter();
    lines.find(|line| line["address"] == format!("{address:#x}")).unwrap()
}

/// Rows of perf's table of shared lines, all three: address, then numbers by their column.
fn perf_lines(scratch: &Scratch) -> Vec<(u64, Vec<u64>)> {
    let said = scratch.run("perf", ["c2c", "report", "--stdio", "--no-source", "-i", "x.data"]);
    let table = said.exits(0).stdout.split_once("Shared Data Cache Line Table").unwrap().1;
    let table = table.split_once("Cache Line Distribution Pareto").unwrap().0;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let address = u64::from_str_radix(cells.get(1)?.strip_prefix("0x")?, 16).ok()?;
        // Behind index, address, node, changes of the physical address and a percentage.
        let numbers = cells[5..].iter().map(|cell| cell.parse().unwrap()).collect();
        Some((address, numbers))
    };
    let rows: Vec<(u64, Vec<u64>)> = table.lines().filter_map(row).collect();
    assert_eq!(rows.len(), 3);
    rows
}

/// Columns of that table, and fields that count the same. Total records, total loads and remote memory are not among
/// them: where a load is of another node's cache, perf counts it as one of that node's memory, too.
const SAME: [(usize, &str); 10] = [
    (0, "contended"),
    (5, "stores"),
    (6, "store_l1_hit"),
    (7, "store_l1_miss"),
    (9, "load_fill_buffer"),
    (10, "load_l1"),
    (11, "load_l2"),
    (12, "load_l3"),
    (15, "remote_hitm"),
    (13, "local_hitm"),
];

#[test]
fn perf_c2c_counts_the_same() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Pebs);
    let found = json(&scratch, &[]);
    for (address, numbers) in perf_lines(&scratch) {
        let line = line_at(&found, address);
        for (column, field) in SAME {
            assert_eq!(line[field], numbers[column], "{address:#x} {field}");
        }
    }
}

/// IBS says that a line came from another core by the bits of a remote cache, and that it was of the same node by another
/// field, which perf does not read: all HITM are remote ones there.
#[test]
fn perf_c2c_finds_the_same_lines_of_ibs() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Ibs);
    let found = json(&scratch, &[]);
    for (address, numbers) in perf_lines(&scratch) {
        let line = line_at(&found, address);
        assert_eq!(line["contended"], numbers[0], "{address:#x}");
        assert_eq!(line["stores"], numbers[5], "{address:#x}");
        let (local, remote) = (&line["local_hitm"], &line["remote_hitm"]);
        assert_eq!(local.as_u64().unwrap() + remote.as_u64().unwrap(), numbers[15]);
        assert!(local.as_u64() > Some(0), "{address:#x}");
    }
}

/// Zeroed, and far after the end of the file; the lines of the example, and one that it does not use.
const COUNTERS: &str = "
struct counters {
    char far[100000];
    struct { long spare, total; long rest[6]; } line0 __attribute__((aligned(64)));
    long of_thread[8] __attribute__((aligned(64)));
    struct { long writer; char pad[32]; struct { int read, mostly; } config; } line2 __attribute__((aligned(64)));
    long last[8] __attribute__((aligned(64)));
} counters __attribute__((aligned(64)));
int main(void) { counters.far[1] = 1; return counters.far[2]; }
";

/// The mappings that the kernel makes of the part of a program that is written: of the file, and after its end.
fn mappings(scratch: &Scratch, program: &std::path::Path, base: u64) -> Option<Memory> {
    let mut memory = mappings_of(scratch, program, base, "counters")?;
    // After `far`.
    memory.first += 100_000_u64.next_multiple_of(64);
    Some(memory)
}

/// The same, with the first line where a variable begins.
fn mappings_of(
    scratch: &Scratch,
    program: &std::path::Path,
    base: u64,
    variable: &str,
) -> Option<Memory> {
    let said = scratch.run("sh", ["-c", "readelf -lW x; nm x"]);
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = || said.stdout.lines().map(words);
    let load = lines().find(|words| {
        words.first().is_some_and(|word| word == "LOAD") && words.contains(&"RW".to_owned())
    })?;
    let (offset, start) = (number(&load[1]), number(&load[2]));
    let (in_file, in_memory) = (number(&load[4]), number(&load[5]));
    let found = lines().find(|words| words.last().is_some_and(|word| word == variable))?;
    let (from, to) = (start & !0xfff, (start + in_file).next_multiple_of(0x1000));
    let end = (start + in_memory).next_multiple_of(0x1000);
    let file = program.to_str().unwrap().to_owned();
    let mappings = vec![
        (base + from, to - from, offset & !0xfff, 99, file),
        (base + to, end - to, 0, 0, "//anon".to_owned()),
    ];
    Some(Memory { pid: PID, first: base + number(&found[0]), mappings, code: None })
}

/// Each offset of a line with what it is named by, variable or type, and its field.
fn names_at(found: &Value, line: usize, by: &str, between: &str) -> Vec<String> {
    let offsets = found["lines"][line]["offsets"].as_array().unwrap().iter();
    let text = |offset: &Value| {
        let part = |key: &str| offset[key].as_str().unwrap_or("?").to_owned();
        format!("{} {}{between}{}", offset["offset"], part(by), part("field"))
    };
    offsets.map(text).collect()
}

#[test]
fn fields_of_variables_have_their_names() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("x.c"), COUNTERS).unwrap();
    let program = example(Pmu::Pebs);
    let mut last = None;
    for (flag, base) in [("-no-pie", 0), ("-pie", 0x5555_5555_4000)] {
        let build = format!("cc -g -O1 {flag} -o x x.c");
        if scratch.run("sh", ["-c", &build]).code() != 0 {
            return eprintln!("skipped: no C compiler");
        }
        let Some(memory) = mappings(&scratch, &scratch.path("x"), base) else {
            return eprintln!("skipped: no readelf and nm");
        };
        program.run().write_in(&program, &scratch.path("x.data"), &memory);
        last = Some(memory);
        let found = json(&scratch, &[]);
        let of = |line: usize| names_at(&found, line, "object", "");
        assert_eq!(of(0), ["8 counters.line0.total"], "{flag}");
        let threads = [0, 8, 16].map(|at| format!("{at} counters.of_thread[{}]", at / 8));
        assert_eq!(of(1), threads, "{flag}");
        assert_eq!(of(2), ["0 counters.line2.writer", "40 counters.line2.config.read"], "{flag}");
        let text = scratch.pmuscope(["sharing", "x.data"]);
        text.exits(0).prints("counters.line2.config.read").prints(", counters: false sharing");
        rows_by_field_are_those_of_sharing(&scratch, &found);
    }
    // Without debug information a row is an offset.
    scratch.run("strip", ["--strip-debug", "x"]).exits(0);
    program.run().write_in(&program, &scratch.path("x.data"), &last.unwrap());
    let text = scratch.pmuscope(["report", "x.data", "--by", "field"]);
    text.exits(0).prints("counters+100040");
}

/// Loads, stores and local HITM by field.
fn sums_by_field<'a>(rows: impl Iterator<Item = &'a Value>) -> BTreeMap<String, [u64; 3]> {
    let mut of_fields: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for row in rows {
        let sums = of_fields.entry(format!("{}{}", row["object"], row["field"])).or_default();
        for (sum, key) in sums.iter_mut().zip(["loads", "stores", "local_hitm"]) {
            *sum += row[key].as_u64().unwrap();
        }
    }
    of_fields
}

/// `report --by field` has the fields of all lines, with the same loads and stores.
fn rows_by_field_are_those_of_sharing(scratch: &Scratch, sharing: &Value) {
    let said = scratch.pmuscope(["report", "x.data", "--by", "field,cpu", "--json"]);
    is_documented("data", &said.exits(0).stdout);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cpu"].is_u64() && row["offset"].is_u64()), "{rows:?}");
    let of_report = sums_by_field(rows.iter());
    let lines = sharing["lines"].as_array().unwrap().iter();
    let offsets = lines.flat_map(|line| line["offsets"].as_array().unwrap());
    let of_fields = sums_by_field(offsets);
    assert_eq!(of_fields.len(), 6);
    for (name, sums) in of_fields {
        assert_eq!(of_report.get(&name), Some(&sums), "{name}");
    }
}

/// The example's words as fields of a structure: a counter of all, counters of each thread, a word that one writes next to
/// one that all read.
const ADVISED: &str = "
struct limits { int read, mostly; };
struct shard {
    long spare, total; char name[48];
    long of_thread[8];
    long writer; char pad[32]; struct limits limits; long rest;
};
struct shard shard __attribute__((aligned(64)));
int main(void) { return shard.of_thread[1]; }
";

#[test]
fn a_new_layout_is_shown_where_fields_are_known() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("x.c"), ADVISED).unwrap();
    if scratch.run("sh", ["-c", "cc -g -O1 -no-pie -o x x.c"]).code() != 0 {
        return eprintln!("skipped: no C compiler");
    }
    let Some(memory) = mappings_of(&scratch, &scratch.path("x"), 0, "shard") else {
        return eprintln!("skipped: no readelf and nm");
    };
    let program = example(Pmu::Pebs);
    program.run().write_in(&program, &scratch.path("x.data"), &memory);
    let said = scratch.pmuscope(["sharing", "x.data", "--offsets", "3"]);
    let said = said
        .exits(0)
        .prints("If shard.total only counts or collects: keep a copy for each thread or CPU")
        .prints(
            "Give each element of shard.of_thread[] (long int) its own cache line, alignas(64)",
        );
    // Addresses, which stand before it, depend on the linker.
    let (_, layout) = said.stdout.split_once("Move fields").unwrap();
    insta::assert_snapshot!(format!("Move fields{}", layout.trim_end()));
    let found = scratch.pmuscope(["sharing", "x.data", "--json"]);
    is_documented("sharing", &found.exits(0).stdout);
    let found = json(&scratch, &[]);
    let kinds = |line: usize| {
        let advice = found["lines"][line]["advice"].as_array().unwrap().iter();
        advice.map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!([kinds(0), kinds(1), kinds(2)], [["copies"], ["pad_elements"], ["rearrange"]]);
    let of = |line: usize| &found["lines"][line]["advice"][0];
    let pad = of(1);
    assert_eq!(
        (&pad["bytes"], &pad["new_bytes"], &pad["elements"]),
        (&8.into(), &64.into(), &8.into())
    );
    // The structure has the array, too.
    let share = |of: &Value| of["share"].as_f64().unwrap();
    let both = share(&found["lines"][1]) + share(&found["lines"][2]);
    assert!((share(of(2)) - both).abs() < 0.01, "{both}");
    let fields = of(2)["fields"].as_array().unwrap();
    let writer = fields.iter().find(|field| field["name"] == "writer").unwrap();
    let limits = fields.iter().find(|field| field["name"] == "limits").unwrap();
    let line = |field: &Value| field["new_offset"].as_u64().unwrap() / 64;
    assert_ne!(line(writer), line(limits));
    scratch.pmuscope(["sharing", "x.data", "-o", "x.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    assert!(page.contains("--- cache line 1 ---"), "{page}");
}

/// Objects of the heap at the lines of the example. The first instruction of each function is the access.
const HEAP: &str = "
struct totals { long spare, total; long rest[6]; };
struct counters { long first, second, third; long rest[5]; };
struct config { long writer; char pad[32]; struct { int read, mostly; } options; long tail[2]; };
struct stranger { char bytes[40]; int other; };
#define CODE __attribute__((noinline)) long
CODE set_total(struct totals *t, long to) { t->total = to; return 0; }
CODE get_first(struct counters *c) { return c->first; }
CODE set_first(struct counters *c, long to) { c->first = to; return 0; }
CODE get_second(struct counters *c) { return c->second; }
CODE get_number(long *p) { return *p; }
CODE set_number(long *p, long to) { *p = to; return 0; }
CODE set_writer(struct config *c, long to) { c->writer = to; return 0; }
CODE get_read(struct config *c) { return c->options.read; }
CODE get_other(struct stranger *s) { return s->other; }
int main(void) { return 0; }
";

/// The program's code, mapped, and the instructions at the beginning of `functions`.
pub(crate) fn code_of(scratch: &Scratch, functions: &[&str]) -> Option<Memory> {
    let base = 0x5555_5555_4000;
    let said = scratch.run("sh", ["-c", "readelf -lW x; nm x"]);
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let lines: Vec<Vec<&str>> =
        said.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let is_code = |words: &&Vec<&str>| words.first() == Some(&"LOAD") && words.contains(&"E");
    let load = lines.iter().find(is_code)?;
    let (offset, start, bytes) = (number(load[1]), number(load[2]), number(load[4]));
    let file = scratch.path("x").to_str().unwrap().to_owned();
    let (from, end) = (start & !0xfff, (start + bytes).next_multiple_of(0x1000));
    let address = |name: &&str| {
        let line = lines.iter().find(|words| words.last() == Some(name))?;
        Some(base + number(line[0]))
    };
    let code = functions.iter().map(address).collect::<Option<Vec<u64>>>()?;
    Some(Memory::heap_with(code, (base + from, end - from, offset & !0xfff, 99, file)))
}

/// As `fields_of_variables_have_their_names`, where no symbol has the memory.
#[test]
fn fields_of_the_heap_have_the_names_that_code_has_for_them() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("x.c"), HEAP).unwrap();
    if scratch.run("sh", ["-c", "cc -g -O2 -fcf-protection=none -pie -o x x.c"]).code() != 0
        && scratch.run("sh", ["-c", "cc -g -O2 -pie -o x x.c"]).code() != 0
    {
        return eprintln!("skipped: no C compiler");
    }
    // By thread, in the order of the example's accesses. Nothing says what `number` is a part of.
    let [spare, other] = ["get_number", "set_number"];
    let functions = [
        ["set_total", "get_first", "set_first", spare, other, "set_writer"],
        ["set_total", "get_second", other, spare, other, "get_read"],
        ["set_total", spare, other, spare, other, "get_other"],
    ];
    let Some(memory) = code_of(&scratch, &functions.concat()) else {
        return eprintln!("skipped: no readelf and nm");
    };
    let program = example(Pmu::Pebs);
    program.run().write_in(&program, &scratch.path("x.data"), &memory);
    let found = json(&scratch, &[]);
    let of = |line: usize| names_at(&found, line, "type", " ");
    assert_eq!(of(0), ["8 struct totals .total"]);
    // Of the third only plain numbers are accessed: it is in the object of the others.
    let counters = ["first", "second", "third"];
    let counters = (0..3).map(|at| format!("{} struct counters .{}", at * 8, counters[at]));
    assert_eq!(of(1), counters.collect::<Vec<_>>());
    // One thread takes it for another type.
    assert_eq!(of(2), ["0 struct config .writer", "40 ? ?"]);
    // The layout of an object of the heap is that of its type.
    let advice = &found["lines"][1]["advice"][0];
    assert_eq!(
        (&advice["kind"], &advice["object"]),
        (&"rearrange".into(), &"struct counters".into())
    );
    let of_field = |name: &str| {
        let fields = advice["fields"].as_array().unwrap();
        let field = fields.iter().find(|field| field["name"] == name).unwrap();
        field["new_offset"].as_u64().unwrap() / 64
    };
    let lines: Vec<u64> = ["first", "second", "third"].map(of_field).to_vec();
    assert!(lines[0] != lines[1] && lines[1] != lines[2] && lines[0] != lines[2], "{lines:?}");
    let by_code = &found["fields_by_code"];
    let samples = |line: usize, at: usize| {
        let offset = &found["lines"][line]["offsets"][at];
        offset["loads"].as_u64().unwrap() + offset["stores"].as_u64().unwrap()
    };
    let named = samples(0, 0) + (0..3).map(|at| samples(1, at)).sum::<u64>() + samples(2, 0);
    assert_eq!((by_code["named"].as_u64(), by_code["unknown"].as_u64()), (Some(named), Some(0)));
    assert_eq!(by_code["disagreeing"].as_u64(), Some(samples(2, 1)));
    let text = scratch.pmuscope(["sharing", "x.data"]);
    text.exits(0).prints("(struct counters).third").prints("type and field known from the code");
    text.prints(
        "Move fields of struct counters so that different threads use different cache lines",
    );
    let fields = scratch.pmuscope(["sharing", "x.data", "--by", "field"]);
    fields.exits(0).prints("(struct totals).total");
}
