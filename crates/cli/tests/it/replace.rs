//! Outputs replace files of their own kind only, unless `--force` is given; inputs are never changed.

use std::fs;

use crate::harness::Scratch;

/// What stands where an output is to go.
const PRECIOUS: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Command lines that write a file, and its name.
const WRITERS: [(&str, &str); 32] = [
    ("stat -e page-faults --json=x.json -- true", "x.json"),
    ("stat -e page-faults --html=x.html -- true", "x.html"),
    ("stat -e page-faults -o x.txt -- true", "x.txt"),
    ("stat -e page-faults -x, -o x.txt -- true", "x.txt"),
    ("stat -e page-faults -j -o x.txt -- true", "x.txt"),
    ("stat -e page-faults -I 50 -o x.txt -- sleep 0.2", "x.txt"),
    ("sweep -e ^page-faults$ -r 2 --json=x.json -- true", "x.json"),
    ("sweep -e ^page-faults$ -r 2 --html=x.html -- true", "x.html"),
    (
        "bench slots --accounts constant --cpus 1 --tasks 1 --threads 1 --ms 1 -r 2 --json=x.json",
        "x.json",
    ),
    (
        "bench slots --accounts constant --cpus 1 --tasks 1 --threads 1 --ms 1 -r 2 -o x.svg",
        "x.svg",
    ),
    ("workload exact-loop --rounds 1000 --json=x.json", "x.json"),
    ("workload command --json=x.json -- true", "x.json"),
    ("record -q -e cpu-clock -o x.data -- true", "x.data"),
    ("bundle -i a.data -o x.data", "x.data"),
    ("report -i a.data -o x.txt", "x.txt"),
    ("report -i a.data -o x.json", "x.json"),
    ("report -i a.data -o x.csv", "x.csv"),
    ("report -i a.data -o x.folded", "x.folded"),
    ("report -i a.data -o x.svg", "x.svg"),
    ("report -i a.data -o x.html", "x.html"),
    ("report -i a.data -o x.pb.gz", "x.pb.gz"),
    ("report -i a.data -o x.json.gz", "x.json.gz"),
    ("report -i a.data --by cpu -o x.csv", "x.csv"),
    ("script -i a.data -o x.txt", "x.txt"),
    ("script -i a.data -o x.json", "x.json"),
    ("script -i a.data -o x.csv", "x.csv"),
    ("diff a.data a.data -o x.json", "x.json"),
    ("diff a.data a.data -o x.html", "x.html"),
    ("diff a.data a.data -o x.svg", "x.svg"),
    ("diff a.data a.data -o x.folded", "x.folded"),
    ("compare a.json --html x.html", "x.html"),
    ("metrics --list -o x.txt", "x.txt"),
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A recording, and a run file.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let record = ["record", "-q", "-e", "cpu-clock", "-o", "a.data", "--", "sh", "-c", spin];
    scratch.pmuscope(record).exits(0);
    scratch.pmuscope(words("stat -r 2 -e page-faults --json=a.json -- true")).exits(0);
    scratch
}

#[test]
fn a_file_of_another_kind_stays_without_force() {
    let scratch = scratch();
    for (line, name) in WRITERS {
        let path = scratch.path(name);
        fs::write(&path, PRECIOUS).unwrap();
        let refused = scratch.pmuscope(words(line));
        refused.exits(2).complains(&format!("cannot write {name}: the file exists and is not "));
        refused.complains("Try: another name, or --force to replace it");
        assert_eq!(fs::read_to_string(&path).unwrap(), PRECIOUS, "{line}");
        let forced = scratch.pmuscope(["--force"].into_iter().chain(words(line)));
        assert!(matches!(forced.code(), 0 | 1), "{line}: {forced}");
        let written = fs::read(&path).unwrap();
        assert_ne!(written, PRECIOUS.as_bytes(), "{line}");
        // A recording is never the last of its name: what it took the place of is there too.
        let old = scratch.path("x.data.old");
        if old.exists() {
            assert_eq!(fs::read_to_string(&old).unwrap(), PRECIOUS);
            fs::remove_file(&old).unwrap();
        }
        // Again, over what it wrote itself.
        let again = scratch.pmuscope(words(line));
        assert!(matches!(again.code(), 0 | 1), "{line}: {again}");
        assert!(!fs::read(&path).unwrap().is_empty(), "{line}");
        fs::remove_file(&path).unwrap();
        let _ = fs::remove_file(&old);
    }
}

/// One kind of ours does not replace another one either: a recording cannot be made again.
#[test]
fn results_do_not_replace_recordings() {
    let scratch = scratch();
    let before = fs::read(scratch.path("a.data")).unwrap();
    for line in ["stat --json=a.data -- true", "report -i a.data -o a.data --format json"] {
        scratch.pmuscope(words(line)).exits(2).complains("the file exists and is not");
    }
    scratch
        .pmuscope(words("report -i a.data -o a.json"))
        .exits(2)
        .complains("a.json: the file exists and is not pmuscope JSON");
    assert_eq!(fs::read(scratch.path("a.data")).unwrap(), before);
}

/// The word after a flag with an optional value is the command.
#[test]
fn an_optional_value_never_takes_the_command() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let wrapper = scratch.path("wrap.sh");
    fs::write(&wrapper, PRECIOUS).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    for command in [
        &["stat", "-e", "page-faults", "--json"][..],
        &["sweep", "-e", "^page-faults$", "-r", "2", "--json"],
    ] {
        let words = command.iter().chain(&["./wrap.sh", "sh", "-c", "exit 0"]);
        let outcome = scratch.pmuscope(words);
        outcome.exits(0).prints("\"schema\": \"pmuscope/");
        assert_eq!(fs::read_to_string(&wrapper).unwrap(), PRECIOUS, "{command:?}");
    }
}

/// A file that a process keeps is read, and what it grew by is the work of the run.
#[test]
fn a_file_of_a_running_process_is_only_read() {
    let scratch = Scratch::new();
    let script =
        "n=1000; while :; do n=$((n+1)); echo packet=$n > new; mv new units.txt; sleep 0.01; done";
    let mut process = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(scratch.path(""))
        .spawn()
        .unwrap();
    while !scratch.path("units.txt").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = process.id().to_string();
    let stat = [
        "stat",
        "-e",
        "page-faults",
        "--timeout",
        "300",
        "--per-file",
        "units.txt",
        "--json",
        "-p",
        &pid,
    ];
    let stat = scratch.pmuscope(stat);
    let sweep = [
        "sweep",
        "-e",
        "^page-faults$",
        "-r",
        "2",
        "--slice",
        "0.3",
        "--per-file",
        "units.txt",
        "--json",
    ];
    let sweep = scratch.pmuscope(sweep.into_iter().chain(["-p", &pid]));
    process.kill().unwrap();
    process.wait().unwrap();
    for outcome in [stat, sweep] {
        let file: serde_json::Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
        for run in file["runs"].as_array().unwrap() {
            let packets = run["units"]["packet"].as_f64().unwrap_or_else(|| panic!("{outcome}"));
            assert!((1.0..1000.0).contains(&packets), "{outcome}");
        }
    }
    assert!(scratch.path("units.txt").exists());
}

/// What an earlier run wrote does not count for one that writes nothing, and stays.
#[test]
fn a_file_that_a_command_did_not_write_does_not_count() {
    let scratch = Scratch::new();
    fs::write(scratch.path("units.txt"), "packet=1000\n").unwrap();
    let stat = |script: &str| {
        let words =
            ["stat", "-e", "page-faults", "--per-file", "units.txt", "--", "sh", "-c", script];
        scratch.pmuscope(words)
    };
    stat("true").exits(125).prints("the run did not write it");
    assert_eq!(fs::read_to_string(scratch.path("units.txt")).unwrap(), "packet=1000\n");
    stat("echo packet=1000 > units.txt").exits(0).prints("/packet");
}
