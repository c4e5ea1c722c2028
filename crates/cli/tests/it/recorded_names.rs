//! What recordings say of tracepoints and functions, in the program's own words.

use std::process::Command;

use pmuscope_abi::record::misc;
use pmuscope_perfdata::writer::TracingData;

use crate::harness::{Scratch, need_program, skip_unless};
use pmuscope_testkit::plain_file::{PlainFile, attr, tracepoint, tracing_record};

const FORMAT: &str = "name: main\nID: 1329\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int state;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:char comm[8];\toffset:12;\tsize:8;\tsigned:1;\n\n\
    print fmt: \"comm=%s state=%s\", REC->comm, __print_flags(REC->state, \"|\", { 1, \"S\" }, { 2, \"D\" })\n";

fn traced() -> (PlainFile, Vec<u8>) {
    let mut file = PlainFile { attrs: vec![tracepoint(1329)], ..PlainFile::default() };
    let mut raw = [0; 20];
    raw[8..12].copy_from_slice(&3_i32.to_ne_bytes());
    raw[12..17].copy_from_slice(b"sh\x1b\0x");
    file.sample(0, misc::USER, 0x40_1000, 1000, &raw);
    let formats = vec![("probe_here".to_owned(), FORMAT.as_bytes().to_vec())];
    let formats = TracingData { page_bytes: 4096, formats, ..TracingData::default() }.to_bytes();
    (file, formats)
}

#[test]
fn tracepoints_are_named_and_their_arguments_printed() {
    let scratch = Scratch::new();
    let (file, formats) = traced();
    let front = tracing_record(&formats, false);
    let whole = PlainFile { features: vec![(1, formats)], ..file.clone() };
    for bytes in [whole.file(), file.stream(&front)] {
        std::fs::write(scratch.path("x.data"), bytes).unwrap();
        let text = scratch.pmuscope(["script", "-i", "x.data"]);
        text.exits(0).prints("probe_here:main:  comm=sh\\x1b state=S|D").is_silent();
        let json = scratch.pmuscope(["script", "-i", "x.data", "--json", "-F", "event,trace"]);
        json.prints("\"event\":\"probe_here:main\",\"trace\":\"comm=sh\\u001b state=S|D\"");
        let csv = scratch.pmuscope(["script", "-i", "x.data", "--csv", "-F", "+addr"]);
        csv.prints("event,trace,addr");
        let without = scratch.pmuscope(["script", "-i", "x.data", "-F", "-trace"]);
        assert!(!without.stdout.contains("state="), "{without}");
    }
}

#[test]
fn overloads_are_one_row_that_says_so_or_rows_with_parameters() {
    skip_unless!(need_program("g++", "--version"));
    skip_unless!(need_program("nm", "--version"));
    let scratch = Scratch::new();
    let source =
        "int work(int n) { return n * 3; }\nlong work(long n, char c) { return n * 5 + c; }\n";
    std::fs::write(scratch.path("x.cc"), source).unwrap();
    let library = scratch.path("x.so");
    let library = library.to_str().unwrap();
    let compile = ["-shared", "-fPIC", "-O1", "-Wl,--build-id=none", "-o", library];
    let source = scratch.path("x.cc");
    assert!(Command::new("g++").args(compile).arg(source).status().unwrap().success());
    let symbols = Command::new("nm").arg(library).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let mut file = PlainFile { attrs: vec![attr(0, 0)], ..PlainFile::default() };
    // A file without any feature was never closed.
    file.features = vec![(3, [&8_u32.to_ne_bytes()[..], b"machine\0"].concat())];
    file.map(false, 0x7000_0000, 0x10000, 0, library);
    for line in symbols.lines().filter(|line| line.contains(" T _Z4work")) {
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        file.sample(0, misc::USER, 0x7000_0000 + address + 1, address, &[]);
    }
    std::fs::write(scratch.path("x.data"), file.file()).unwrap();
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(0).prints("1 function name combines 2 overloads").prints("--signatures");
    assert!(!report.stdout.contains("work("), "{report}");
    let apart = scratch.pmuscope(["report", "-i", "x.data", "--signatures"]);
    apart.exits(0).prints("work(int)").prints("work(long, char)");
    assert!(!apart.stdout.contains("overloads"), "{apart}");
    let script = scratch.pmuscope(["script", "-i", "x.data", "--signatures"]);
    script.prints("work(long, char)");
}
