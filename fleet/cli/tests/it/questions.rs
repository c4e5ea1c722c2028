//! Questions as they are typed: recordings in, answers of every form out, mistakes named.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pmuscope_query::NamedQuestion;
use pmuscope_testkit::corpus::corpus;

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

/// One recording as three hosts of version 1 and three of version 2.
fn fleet() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    for host in 1..=6 {
        let (name, version) = (format!("web-{host}"), if host <= 3 { "1" } else { "2" });
        succeeds(&[
            "import",
            "--to",
            to,
            "--service",
            "shop",
            "--version",
            version,
            "--host",
            &name,
            "--started",
            "2025-11-25T12:00:00Z",
            recording.to_str().unwrap(),
        ]);
    }
    folder
}

/// The number after a key of JSON.
fn number(json: &str, key: &str) -> f64 {
    let (_, rest) =
        json.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("{key}: {json}"));
    let end = rest.find([',', '\n']).unwrap();
    rest[..end].parse().unwrap_or_else(|_| panic!("{key}: {}", &rest[..end]))
}

#[test]
fn six_hosts_have_six_times_the_samples_of_one_and_intervals() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let samples = |args: &[&str]| number(&succeeds(args), "samples");
    let one = samples(&["top", to, "--json", "--host", "web-1"]);
    let all = succeeds(&["top", to, "--json"]);
    assert!(one > 0.0 && (number(&all, "samples") - 6.0 * one).abs() < 0.5, "{all}");
    assert!(
        (number(&all, "hosts") - 6.0).abs() < 0.5 && all.contains("\"share_low\": 1.0"),
        "{all}"
    );
    let rows = succeeds(&["report", to, "--csv", "--limit", "all"]);
    let sum: f64 = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "shares of all functions: {sum}");
    let text = succeeds(&["top", to, "--by", "service,version"]);
    assert!(text.contains("6 hosts") && text.contains("95% CI"), "{text}");
    let text = succeeds(&["top", to, "--by", "host"]);
    assert!(text.contains("no CI: a row is of one host") && text.contains("web-6"), "{text}");
    let rows = succeeds(&["report", to, "--by", "host,function", "--csv"]);
    assert!(rows.lines().next().unwrap().ends_with(",host,function"), "{rows}");
}

/// A host is chosen by all of its labels, in every question, whatever is kept in memory.
#[test]
fn labels_choose_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    let recording = recording.to_str().unwrap();
    let import = |host: &str, labels: &[&str]| {
        let started = "2025-11-25T12:00:00Z";
        let mut args = vec!["import", "--to", to, "--host", host, "--started", started, recording];
        labels.iter().for_each(|label| args.extend(["--label", label]));
        succeeds(&args);
    };
    import("web-1", &["team=shop", "region=eu"]);
    import("web-2", &["team=shop", "region=us"]);
    import("web-3", &["team=shopping"]);
    import("web-4", &[]);
    let hosts = |labels: &[&str]| {
        let mut args = vec!["hosts", to, "--csv"];
        labels.iter().for_each(|label| args.extend(["--label", label]));
        let rows = succeeds(&args);
        let names = rows.lines().skip(1).map(|row| row.split(',').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(hosts(&[]), ["web-1", "web-2", "web-3", "web-4"]);
    assert_eq!(hosts(&["team=shop"]), ["web-1", "web-2"]);
    assert_eq!(hosts(&["team=shop", "region=us"]), ["web-2"]);
    let of = |question: &str| {
        number(&succeeds(&[question, to, "--label", "team=shop", "--json"]), "hosts")
    };
    assert!((of("top") - 2.0).abs() < 0.5 && (of("report") - 2.0).abs() < 0.5);
    fails(&["top", to, "--label", "team=sho"], "no samples with all of these filters");
    fails(&["top", to, "--label", "team"], "label team: no value");
}

#[test]
fn equal_versions_do_not_differ_and_too_few_hosts_are_inconclusive() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let text = succeeds(&["diff", to, "--a", "version=1", "--b", "version=2"]);
    assert!(text.contains("before  version 1: 3 hosts") && text.contains("inconclusive"), "{text}");
    assert!(!text.contains("  more") && !text.contains("  less"), "{text}");
    let two = ["diff", to, "--a", "host=web-1", "--b", "host=web-2", "--b", "host=web-3"];
    let text = succeeds(&two);
    assert!(text.contains("after   host web-2, host web-3: 2 hosts"), "{text}");
}

#[test]
fn an_answer_is_written_in_every_form() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, begins) in [
        ("a.json", "{"),
        ("a.csv", "share,"),
        ("a.tsv", "share\t"),
        ("a.html", "<!DOCTYPE html>"),
        ("a.svg", "<svg"),
        ("a.folded", "shop;"),
    ] {
        let path = file(name);
        succeeds(&["report", to, "-o", &path]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(begins), "{name}: {}", &text[..100.min(text.len())]);
    }
    let path = file("a.pb.gz");
    succeeds(&["report", to, "-o", &path]);
    assert_eq!(fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
    // A page that is there is a page of ours, and is replaced; a text of somebody's is not.
    succeeds(&["report", to, "-o", &file("a.html")]);
    fs::write(file("b.html"), "mine").unwrap();
    fails(&["report", to, "-o", &file("b.html")], "--force");
}

/// As people type it: relative to where they are.
#[test]
fn a_dataset_has_the_same_answers_by_a_relative_path() {
    let folder = fleet();
    let absolute = folder.path().to_str().unwrap();
    let (parent, name) = (folder.path().parent().unwrap(), folder.path().file_name().unwrap());
    for question in ["top", "report", "hosts"] {
        let program = env!("CARGO_BIN_EXE_pmuscope-fleet");
        let mut command = Command::new(program);
        command.arg(question).arg(name).arg("--csv").current_dir(parent);
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        assert_eq!(String::from_utf8(stdout).unwrap(), succeeds(&[question, absolute, "--csv"]));
    }
}

#[test]
fn named_questions_are_answered_and_printed() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let sides = ["--a", "version=1", "--b", "version=2"];
    for (name, _) in NamedQuestion::ALL {
        let mut args = vec!["sql", to, "--question", name, "--csv"];
        if ["diff", "sides"].contains(&name) {
            args.extend(sides);
        }
        let rows = succeeds(&args).lines().count();
        // Nothing was recorded by an agent, and no waits, windows or runs.
        let of_others =
            ["agents", "waits", "metrics", "events", "counts", "count-events", "locality", "runs"];
        assert!(rows > 1 || of_others.contains(&name), "{name}");
        args.retain(|one| *one != "--csv");
        args.extend(["--print-sql", "--dialect", "clickhouse"]);
        let text = succeeds(&args);
        assert!(
            text.contains("file('/") && text.contains("agent_files AS SELECT * FROM (SELECT"),
            "{text}"
        );
    }
    let text = succeeds(&[
        "sql",
        to,
        "SELECT host, sum(samples) AS n FROM samples GROUP BY host ORDER BY host",
    ]);
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn mistakes_are_named_with_what_there_is() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    fails(&["top", "/nonexistent"], "Try: pmuscope fleet import");
    fails(&["top", to, "--service", "shpo"], "those with most samples are shop");
    fails(
        &["top", to, "--service", "shop", "--version", "1", "--host", "web-4"],
        "all of these filters",
    );
    fails(&["top", to, "--since", "1m"], "Try: pmuscope fleet hosts");
    fails(&["top", to, "--since", "yesterday"], "Try: 2026-11-25T12:00:00Z, or 2h");
    fails(&["top", to, "--by", "function"], "service, version");
    fails(&["report", to, "--by", "service", "--with-callees"], "Try: --by function");
    fails(&["diff", to, "--a", "version=1", "--b", "version=3"], "--by service,version");
    fails(&["diff", to, "--a", "color=1", "--b", "version=2"], "one of service, version");
    fails(
        &["sql", to, "SELECT nothing FROM samples"],
        "at line 1, column 8: there is no column nothing. Try: one of start, bin_us, host,",
    );
    fails(&["sql", to, "--question", "diff"], "Try: --a version=1.2 --b version=1.3");
    fails(&["report", to, "-o", "x.parquet"], "names no form");
    assert!(!Path::new("x.parquet").exists());
}

#[test]
fn a_name_is_never_empty() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    let recording = recording.to_str().unwrap();
    let refused = |args: &[&str], flag: &str| {
        let (status, _, stderr) = run(args);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains(flag) && stderr.contains("it is empty. Try: "), "{stderr}");
    };
    for flag in ["--service", "--version", "--host", "--unit", "--container", "--pod", "-e"] {
        for question in ["top", "sql"] {
            let sql = (question == "sql").then_some("SELECT 1");
            let args: Vec<&str> = [question, to].into_iter().chain(sql).chain([flag, ""]).collect();
            refused(&args, flag.trim_start_matches('-'));
        }
    }
    for flag in ["--service", "--version", "--host", "--benchmark"] {
        refused(&["import", "--to", to, flag, "", recording], flag);
    }
    assert!(!folder.path().join("v1").exists());
}

/// Names that look like numbers, or like the folders of a dataset, in a folder that looks like a column.
#[test]
fn hosts_are_texts_whatever_they_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("host=7/p");
    let to = to.to_str().unwrap();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    let names = ["00123", "1e5", "a=b"];
    for name in names {
        let started = "2025-11-25T12:00:00Z";
        let recording = recording.to_str().unwrap();
        succeeds(&["import", "--to", to, "--host", name, "--started", started, recording]);
    }
    let sql = ["sql", to, "SELECT DISTINCT host FROM samples ORDER BY host"];
    assert_eq!(succeeds(&[&sql[..], &["--csv"]].concat()), "host\n00123\n1e5\na=b\n");
    let json = succeeds(&[&sql[..], &["--json"]].concat());
    for name in names {
        assert!(json.contains(&format!("\"host\": \"{name}\"")), "{json}");
        let rows = succeeds(&["top", to, "--by", "host", "--host", name, "--csv"]);
        let hosts: Vec<&str> =
            rows.lines().skip(1).filter_map(|row| row.rsplit(',').next()).collect();
        assert_eq!(hosts, [name]);
        let side = format!("host={name}");
        let text = succeeds(&["diff", to, "--a", &side, "--b", "host=00123"]);
        assert!(text.contains(&format!("before  host {name}: 1 host,")), "{text}");
    }
    // Engines that take parts of paths for columns are told not to; only the day is taken from there.
    let printed =
        |dialect: &str| succeeds(&["sql", to, "SELECT 1", "--print-sql", "--dialect", dialect]);
    let (duckdb, clickhouse) = (printed("duckdb"), printed("clickhouse"));
    assert!(
        duckdb.contains("hive_partitioning = false")
            && !duckdb.contains("hive_partitioning = true")
    );
    assert!(
        clickhouse.contains("use_hive_partitioning = 0")
            && !clickhouse.contains("use_hive_partitioning = 1")
    );
}

#[test]
fn rows_of_json_have_the_columns_in_the_order_of_the_select() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let sql = "SELECT version, service, 1 AS b, unit, 2 AS a FROM samples LIMIT 1";
    let json = succeeds(&["sql", to, sql, "--json"]);
    let (_, rows) = json.split_once("\"rows\"").unwrap();
    let keys: Vec<&str> = rows.lines().filter_map(|line| line.trim().split('"').nth(1)).collect();
    assert_eq!(keys, ["version", "service", "b", "unit", "a"], "{json}");
    assert!(rows.contains("\"unit\": null"), "{json}");
    let none =
        succeeds(&["sql", to, "SELECT count(*) AS n FROM samples WHERE unit IS NOT NULL", "--csv"]);
    assert_eq!(none, "n\n0\n");
}

#[test]
fn an_answer_says_which_files_of_other_tables_are_damaged() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    assert!(!succeeds(&["top", to]).contains("cannot read"));
    let day = folder.path().join("v1/stacks/date=2025-11-25");
    let mut files: Vec<_> = fs::read_dir(&day).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let whole = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &whole[..whole.len() / 2]).unwrap();
    let note = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, note) =
            text.split_once("warning: cannot read ").unwrap_or_else(|| panic!("{text}"));
        note.to_owned()
    };
    for question in ["top", "hosts"] {
        let one = note(&succeeds(&[question, to]));
        let named = format!(
            "{}: not needed here, but other questions fail. Try: move it away",
            files[0].display()
        );
        assert!(one.starts_with(&named), "{one}");
    }
    fs::write(&files[1], "no Parquet").unwrap();
    assert!(note(&succeeds(&["top", to])).starts_with("2 files, such as "));
    // Of the days that are asked for.
    fails(&["report", to], "cannot be read");
    // What is wrong with the question is not blamed on a file.
    fails(&["sql", to, "SELECT samples / 0 FROM services"], "a value is divided by 0. Try: nullif");
}

#[test]
fn past_days_are_merged_and_removed() {
    let folder = fleet();
    let to = folder.path().to_str().unwrap();
    let before = succeeds(&["report", to, "--csv", "--limit", "all"]);
    let (status, _, printed) = run(&["compact", to, "--older-than", "1", "--bin", "86400"]);
    assert_eq!(status, 0, "{printed}");
    assert!(
        printed.starts_with("2025-11-25: 36 files (") && printed.contains("merged into 6 files"),
        "{printed}"
    );
    let shares = |text: &str| -> Vec<String> {
        text.lines().map(|row| row.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(shares(&succeeds(&["report", to, "--csv", "--limit", "all"])), shares(&before));
    let (_, _, printed) = run(&["retain", to, "--days", "36000"]);
    assert!(printed.contains("nothing to remove"), "{printed}");
    let (_, _, printed) = run(&["retain", to, "--days", "1", "--dry-run"]);
    assert!(printed.starts_with("2025-11-25: would be removed"), "{printed}");
    let (_, _, printed) = run(&["retain", to, "--days", "1"]);
    assert!(printed.starts_with("2025-11-25: removed 6 files"), "{printed}");
    fails(&["top", to], "has no samples in this time");
}
