//! Run files in, answers about benchmarks out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `pmuscope stat -r 5 --per MiB=1 -e … --json=stat.json -- gzip -kf data` wrote, with the parts of the machine that are read.
const RUN_FILE: &str = include_str!("../../../dataset/tests/data/stat.json");

fn run(args: &[&str]) -> (i32, String, String) {
    let program = env!("CARGO_BIN_EXE_pmuscope-fleet");
    let Output { status, stdout, stderr } = Command::new(program).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[track_caller]
fn succeeds(args: &[&str]) -> String {
    let (status, stdout, stderr) = run(args);
    assert_eq!(status, 0, "{stderr}");
    stdout
}

#[track_caller]
fn fails(args: &[&str], with: &str) {
    let (status, _, stderr) = run(args);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(with), "{stderr}");
}

/// Whole files of a table, of any day.
fn files(root: &Path, table: &str) -> Vec<PathBuf> {
    let Ok(days) = fs::read_dir(root.join("v1").join(table)) else { return Vec::new() };
    let of_day = |day: fs::DirEntry| fs::read_dir(day.path()).unwrap();
    let files = days.map(Result::unwrap).flat_map(of_day).map(|file| file.unwrap().path());
    files.collect()
}

struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn dataset(&self) -> String {
        self.folder.path().join("profiles").to_str().unwrap().to_owned()
    }

    /// One run file as these hosts, which differ by the region that they are in.
    fn fleet(&self, hosts: &[&str]) -> String {
        let (file, to) = (self.file("runs.json", RUN_FILE), self.dataset());
        for host in hosts {
            let region = if *host == "web-1" { "region=eu" } else { "region=us" };
            succeeds(&[
                "import",
                "--to",
                &to,
                "--host",
                host,
                "--version",
                "1.3",
                "--label",
                region,
                &file,
            ]);
        }
        to
    }
}

#[test]
fn a_run_file_is_known_by_its_contents_and_imported_twice_is_there_once() {
    let site = Site::new();
    let (file, to) = (site.file("perf.data", RUN_FILE), site.dataset());
    let (status, _, printed) = run(&["import", "--to", &to, &file]);
    assert_eq!(status, 0, "{printed}");
    assert!(printed.contains("perf.data: 5 runs, "), "{printed}");
    let there = || ["runs", "run_values", "hosts"].map(|table| files(Path::new(&to), table).len());
    assert_eq!(there(), [1, 1, 1]);
    succeeds(&["import", "--to", &to, &file]);
    assert_eq!(there(), [1, 1, 1]);
    let count = "SELECT count(*) AS n FROM runs";
    assert_eq!(succeeds(&["sql", &to, count, "--csv"]), "n\n5\n");
    // Another name is another import.
    succeeds(&["import", "--to", &to, "--benchmark", "compress", &file]);
    assert_eq!(there(), [2, 2, 2]);
    let names =
        succeeds(&["sql", &to, "SELECT DISTINCT benchmark FROM runs ORDER BY benchmark", "--csv"]);
    assert_eq!(names, "benchmark\ncompress\ngzip\n");
}

#[test]
fn benchmarks_are_answered_over_hosts_in_every_form() {
    let site = Site::new();
    let to = site.fleet(&["web-1", "web-2", "web-3"]);
    let text = succeeds(&["runs", &to]);
    assert!(text.starts_with("3 hosts, 15 runs\n") && text.contains("95% CI"), "{text}");
    let rows = succeeds(&["runs", &to, "-e", "wall", "--csv"]);
    let lines: Vec<&str> = rows.lines().collect();
    assert_eq!(lines.len(), 2, "{rows}");
    assert!(
        lines[0].starts_with("mean,mean_low,mean_high,unit,hosts,runs,name,part,origin,"),
        "{rows}"
    );
    assert!(lines[1].contains(",s,3,15,wall,,clock,gzip,"), "{rows}");
    let of_us = succeeds(&["runs", &to, "-e", "wall", "--label", "region=us", "--json"]);
    assert!(of_us.contains("\"hosts\": 2") && of_us.contains("\"mean_low\": null"), "{of_us}");
    let by_host = succeeds(&["runs", &to, "-e", "wall", "--by", "host", "--csv"]);
    assert_eq!(by_host.lines().count(), 4, "{by_host}");
    let page = site.folder.path().join("runs.html");
    succeeds(&["runs", &to, "-o", page.to_str().unwrap()]);
    assert!(fs::read_to_string(page).unwrap().contains("Runs by benchmark, arm"));
    assert!(succeeds(&["sql", &to, "--question", "runs", "--csv"]).lines().count() > 3);
    // Of two hosts nothing says how hosts differ.
    let text = succeeds(&["runs", &to, "--label", "region=us"]);
    assert!(text.contains("note: no CI: they need 3 hosts or more"), "{text}");
    let limited = succeeds(&["runs", &to, "--limit", "1"]);
    assert!(limited.contains("--limit all"), "{limited}");
}

#[test]
fn every_run_stays_a_row_when_days_are_merged() {
    let site = Site::new();
    let to = site.fleet(&["web-1", "web-2", "web-3"]);
    let before = succeeds(&["runs", &to, "--csv"]);
    let values = "SELECT * FROM run_values ORDER BY host, name, part, origin, run";
    let rows = succeeds(&["sql", &to, values, "--csv"]);
    succeeds(&["compact", &to, "--older-than", "1"]);
    assert_eq!(files(Path::new(&to), "runs").len(), 1);
    assert_eq!(succeeds(&["runs", &to, "--csv"]), before);
    assert_eq!(succeeds(&["sql", &to, values, "--csv"]), rows);
    // What comes once more after that counts once all the same.
    site.fleet(&["web-1"]);
    assert_eq!(files(Path::new(&to), "runs").len(), 2);
    assert_eq!(succeeds(&["runs", &to, "--csv"]), before);
}

#[test]
fn what_is_no_run_file_is_named_and_nothing_is_imported() {
    let site = Site::new();
    let to = site.dataset();
    let truncated = site.file("truncated.json", &RUN_FILE[..RUN_FILE.len() / 2]);
    fails(&["import", "--to", &to, &truncated], "truncated.json is not a run file: EOF");
    fails(&["import", "--to", &to, &truncated], "Try: a file of stat, sweep or bench");
    let foreign = site.file("foreign.json", "{\"version\": 3}");
    fails(&["import", "--to", &to, &foreign], "missing field `schema`");
    let report = site.file("report.json", "{\"schema\": \"pmuscope/report/1\"}");
    fails(&["import", "--to", &to, &report], "has schema \"pmuscope/report/1\"");
    let no_host = site.file("no-host.json", &RUN_FILE.replace("\"hostname\"", "\"nodename\""));
    fails(&["import", "--to", &to, &no_host], "Try: --host NAME");
    let whole = site.file("whole.json", RUN_FILE);
    let started = ["import", "--to", &to, "--started", "2025-11-25T12:00:00Z", &whole];
    fails(&started, "Try: without --started");
    assert!(!Path::new(&to).exists());
}

#[test]
fn mistakes_are_named() {
    let site = Site::new();
    let to = site.fleet(&["web-1"]);
    fails(&["runs", &to, "--unit", "a.service"], "runs have no unit. Try: --service");
    fails(&["runs", &to, "--benchmark", "zstd"], "has no runs of this selection");
    fails(&["runs", &to, "-e", "sunspots"], "no values of sunspots");
    fails(&["runs", &to, "--by", "function"], "cpu_model");
    // A dataset of runs alone is one.
    fails(&["top", &to], "has no samples in this time");
    fails(&["waits", &to, "--by", "benchmark"], "service");
}

/// Of the newest pmuscope that was built here.
fn pmuscope() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let built = ["debug", "release"].map(|profile| target.join(profile).join("pmuscope"));
    let modified = |path: &PathBuf| path.metadata().and_then(|about| about.modified()).ok();
    let newest = built.into_iter().filter(|path| path.is_file()).max_by_key(modified);
    newest.ok_or_else(|| "pmuscope is not built. Try: make build".to_owned())
}

#[test]
fn what_stat_writes_can_be_imported() {
    let program = match pmuscope() {
        Ok(program) => program,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    let site = Site::new();
    let file = site.folder.path().join("runs.json");
    let json = format!("--json={}", file.display());
    let stat = ["stat", "-r", "3", "-e", "page-faults", &json, "--", "true"];
    // What it cannot count here is in the file, too: with the reason.
    let output = Command::new(program).args(stat).output().unwrap();
    assert!(file.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let to = site.dataset();
    succeeds(&["import", "--to", &to, file.to_str().unwrap()]);
    let rows = succeeds(&["runs", &to, "-e", "wall", "--csv"]);
    assert!(rows.lines().nth(1).unwrap().contains(",s,1,3,wall,,clock,true,"), "{rows}");
}
