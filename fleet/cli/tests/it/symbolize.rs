//! Names that come later: a program without symbols where it ran, its debug file here.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pmuscope_symbols::read_build_id;
use pmuscope_testkit::{need, perf};

use crate::harness::store::{CREDENTIALS, Store};
use crate::harness::{files, rows, skip_unless};

/// Two functions by themselves, and two that are inlined into one of them.
const SOURCE: &str = "
static inline __attribute__((always_inline)) long inner(long x) { for (int i = 0; i < 9; i++) x = x * 31 + i; return x; }
static inline __attribute__((always_inline)) long middle(long x) { return inner(x) ^ 5; }
__attribute__((noinline)) long outer(long n) { long s = 0; for (long i = 0; i < n; i++) s += middle(i); return s; }
__attribute__((noinline)) long other(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * s + 3; return s; }
int main(void) { volatile long n = 20000000; return (int)(outer(n) + other(n)); }
";
const STARTED: &str = "2025-11-25T12:00:00Z";

fn tool(name: &str, args: &[&OsStr]) {
    let Output { status, stderr, .. } = Command::new(name).args(args).output().unwrap();
    assert!(status.success(), "{name}: {}", String::from_utf8_lossy(&stderr));
}

/// A program that was recorded, and what was taken out of it.
struct Recorded {
    folder: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
    recording: PathBuf,
}

impl Recorded {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (program, debug) = (file("program"), file("taken.debug"));
        let recording = file("perf.data");
        fs::write(file("program.c"), SOURCE).unwrap();
        let flags =
            ["-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o"].map(OsStr::new);
        tool("cc", &[&flags[..], &[program.as_ref(), file("program.c").as_ref()]].concat());
        let keep = OsStr::new("--only-keep-debug");
        tool("objcopy", &[keep, program.as_ref(), debug.as_ref()]);
        let mut record = perf();
        record.args(["record", "-q", "-N", "-e", "cpu-clock", "-F", "997", "-g", "-o"]);
        let Output { status, stderr, .. } = record.args([&recording, &program]).output().unwrap();
        let printed = String::from_utf8_lossy(&stderr);
        assert!(recording.is_file(), "{status}: {printed}");
        Self { folder, program, debug, recording }
    }

    fn dataset(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Where a debug file of this build belongs, below a folder of debug files.
    fn place(&self, name: &str) -> (String, PathBuf) {
        let id = read_build_id(&self.debug).unwrap().unwrap().to_string();
        let dir = self.folder.path().join(name);
        let folder = dir.join(".build-id").join(&id[..2]);
        fs::create_dir_all(&folder).unwrap();
        (dir.to_str().unwrap().to_owned(), folder.join(format!("{}.debug", &id[2..])))
    }

    /// A folder of debug files with that of the program.
    fn debug_dir(&self) -> String {
        let (dir, place) = self.place("debug");
        fs::copy(&self.debug, place).unwrap();
        dir
    }

    fn import(&self, to: &str, host: &str) {
        let recording = self.recording.to_str().unwrap();
        let args =
            ["import", "--to", to, "--host", host, "--service", "shop", "--started", STARTED];
        succeeds(&[&args[..], &[recording]].concat());
    }

    /// A dataset with all names; afterwards the program is gone.
    fn with_names(&self) -> String {
        let to = self.dataset("with");
        self.import(&to, "web-1");
        fs::rename(&self.program, self.folder.path().join("moved")).unwrap();
        to
    }
}

fn fleet(args: &[&str]) -> (i32, String, String) {
    run(Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet")).args(args))
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[track_caller]
fn succeeds(args: &[&str]) -> String {
    let (status, stdout, stderr) = fleet(args);
    assert_eq!(status, 0, "{args:?}: {stderr}");
    stdout
}

/// Self and total of all functions, and all stacks.
fn answers(dataset: &str) -> [String; 3] {
    let report = ["report", dataset, "--csv", "--limit", "all"];
    let stacks = Path::new(dataset).with_extension("folded");
    succeeds(&["report", dataset, "--force", "-o", stacks.to_str().unwrap()]);
    [
        succeeds(&report),
        succeeds(&[&report[..], &["--with-callees"]].concat()),
        fs::read_to_string(stacks).unwrap(),
    ]
}

fn skip() -> Option<String> {
    need::c_compiler().or_else(|| need::perf_record(false))
}

/// With the debug file alone, and with the stripped program next to it: every question has the answer that it has where
/// symbols were there from the beginning, also after a merge. A second run has nothing to add.
#[test]
fn names_that_come_later_are_those_of_an_import_with_symbols() {
    skip_unless!(skip());
    let recorded = Recorded::new();
    let with = recorded.with_names();
    let expected = answers(&with);
    for name in ["outer", "other", "inner", "main"] {
        assert!(expected[1].contains(name), "{}", expected[1]);
    }
    let debug_dir = recorded.debug_dir();
    for is_stripped in [false, true] {
        if is_stripped {
            let moved = recorded.folder.path().join("moved");
            tool("strip", &["-o".as_ref(), recorded.program.as_ref(), moved.as_ref()]);
        }
        let to = recorded.dataset(if is_stripped { "stripped" } else { "without" });
        recorded.import(&to, "web-1");
        assert!(!answers(&to)[1].contains("outer"));
        let before = files(Path::new(&to));
        let symbolize = ["symbolize", &to, "--debug-dir", &debug_dir, "--csv"];
        let dry = succeeds(&[&symbolize[..], &["--dry-run"]].concat());
        assert_eq!(files(Path::new(&to)), before, "a dry run writes nothing");
        let table = succeeds(&symbolize);
        assert_eq!(table, dry);
        let row = table.lines().find(|row| row.ends_with("/program")).unwrap();
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!((cells[0], cells[3]), (cells[1], "found"), "{table}");
        assert!(cells[4].starts_with(&debug_dir), "{table}");
        assert_eq!(answers(&to), expected);
        let after = files(Path::new(&to));
        assert_eq!(after.len(), before.len() + 2, "{after:?}");
        let again = succeeds(&symbolize);
        assert!(!again.contains("/program"), "{again}");
        assert_eq!(files(Path::new(&to)), after, "nothing is left to add");
        let names = |dataset: &str| {
            let mut rows = rows(
                &files(&Path::new(dataset).join("v1/frames")),
                [
                    "stack_id",
                    "depth",
                    "inline_depth",
                    "build_id",
                    "address",
                    "function",
                    "file",
                    "line",
                ],
            );
            rows.sort();
            rows
        };
        for dataset in [&to, &with] {
            succeeds(&["compact", dataset, "--older-than", "1"]);
        }
        assert_eq!(answers(&to), expected);
        if !is_stripped {
            assert_eq!(names(&to), names(&with));
        }
    }
}

#[test]
fn a_damaged_file_is_named_and_keeps_no_other_module_from_names_and_another_build_is_not_used() {
    skip_unless!(skip());
    // Debug information has the path of the source, so these are two builds.
    let (recorded, other) = (Recorded::new(), Recorded::new());
    let to = recorded.dataset("both");
    for one in [&recorded, &other] {
        fs::rename(&one.program, one.folder.path().join("moved")).unwrap();
        one.import(&to, "web-1");
    }
    let named = || {
        let sql = "SELECT DISTINCT module FROM frames WHERE function = 'outer' ORDER BY module";
        succeeds(&["sql", &to, sql, "--csv"]).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let (dir, place) = recorded.place("debug");
    fs::write(&place, "no ELF").unwrap();
    let (status, stdout, stderr) =
        fleet(&["symbolize", &to, "--debug-dir", &dir, "--debug-dir", &other.debug_dir()]);
    assert_eq!(status, 1, "{stdout}{stderr}");
    assert!(stdout.contains("file unreadable"), "{stdout}");
    let place_text = place.to_str().unwrap();
    assert!(stderr.starts_with("error: cannot name ") && stderr.contains(place_text), "{stderr}");
    assert_eq!(named(), [other.program.to_str().unwrap()]);
    // Another build in the place of this one.
    fs::copy(&other.debug, &place).unwrap();
    let table = succeeds(&["symbolize", &to, "--debug-dir", &dir]);
    assert!(table.contains("other debug file") && table.contains("was not used"), "{table}");
    assert_eq!(named().len(), 1);
}

#[test]
fn names_are_added_to_an_object_store() {
    skip_unless!(skip());
    let recorded = Recorded::new();
    let expected = answers(&recorded.with_names());
    let (store, dataset) = (Store::start(), "s3://fleet/a");
    let on_store = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
        command.envs(CREDENTIALS).env("AWS_ENDPOINT_URL", &store.url).args(args);
        let (status, stdout, stderr) = run(&mut command);
        assert_eq!(status, 0, "{args:?}: {stderr}");
        stdout
    };
    let recording = recorded.recording.to_str().unwrap();
    let import = ["import", "--to", dataset, "--host", "web-1", "--service", "shop", "--started"];
    on_store(&[&import[..], &[STARTED, recording]].concat());
    let report = ["report", dataset, "--csv", "--limit", "all"];
    assert_ne!(on_store(&report), expected[0]);
    let dir = recorded.debug_dir();
    for _ in 0..2 {
        on_store(&["symbolize", dataset, "--debug-dir", &dir]);
        assert_eq!(on_store(&report), expected[0]);
        assert_eq!((store.table("frames").len(), store.table("stacks").len()), (2, 2));
    }
}

#[test]
fn what_cannot_be_looked_up_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let fails = |args: &[&str], status: i32, with: &str| {
        let (found, _, stderr) = fleet(args);
        assert_eq!(found, status, "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(with), "{stderr}");
    };
    fails(&["symbolize", to], 2, "Try: pmuscope fleet import");
    fails(
        &["symbolize", to, "--debug-dir", "/nowhere"],
        2,
        "--debug-dir /nowhere: there is no such folder",
    );
    fails(
        &["symbolize", to, "--symfs", "/nowhere"],
        2,
        "--symfs /nowhere: there is no such folder",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
    command.env_remove("DEBUGINFOD_URLS").args(["symbolize", to, "--debuginfod"]);
    let (status, _, stderr) = run(&mut command);
    assert!(status == 3 && stderr.contains("DEBUGINFOD_URLS names no server"), "{stderr}");
}
