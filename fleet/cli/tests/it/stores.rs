//! Datasets in an object store: delivered once whatever the network does, and answered from like folders.

use std::process::{Command, Output};

use pmuscope_testkit::corpus::corpus;
use pmuscope_testkit::need;

use crate::harness::store::{CREDENTIALS, Mood, Store};
use crate::harness::{Busy, Running, Site, counted, skip_unless, sum};

const DATASET: &str = "s3://fleet/a";

/// The program with access to a store.
fn fleet(store: &Store, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
    command.envs(CREDENTIALS).env("AWS_ENDPOINT_URL", &store.url).args(args);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[track_caller]
fn succeeds(store: &Store, args: &[&str]) -> String {
    let (status, stdout, stderr) = fleet(store, args);
    assert_eq!(status, 0, "{args:?}: {stderr}");
    stdout
}

/// An agent that delivers to its folder and to the store.
fn site(store: &Store) -> Site {
    let sinks = format!("s3 = \"{DATASET}\"\ns3_endpoint = \"{}\"", store.url);
    Site::with_sinks("bin_seconds = 1", &sinks)
}

fn agent(site: &Site) -> Running {
    let mut command = site.agent(&[]);
    command.envs(CREDENTIALS);
    Running::start(site, command)
}

#[test]
fn an_agent_delivers_to_a_store_and_a_folder_alike() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let store = Store::start();
    let site = site(&store);
    let _busy = Busy::start();
    let running = agent(&site);
    running.wait_for("two bins", |printed| printed.matches("delivered ").count() >= 2);
    let printed = running.end();
    assert!(!printed.contains("warning"), "{printed}");
    for table in ["samples", "stacks", "frames", "intervals", "hosts", "agent"] {
        let read = |files: Vec<std::path::PathBuf>| {
            let contents = |file: &std::path::PathBuf| {
                (file.file_name().unwrap().to_owned(), std::fs::read(file).unwrap())
            };
            files.iter().map(contents).collect::<Vec<_>>()
        };
        let (here, there) = (read(site.table("sink", table)), read(store.table(table)));
        assert!(!here.is_empty() && here == there, "{table}: {} {}", here.len(), there.len());
    }
    assert_eq!(sum(&store.table("samples"), "samples"), counted(&printed));
    // The same answer from both.
    let folder = site.folder.path().join("sink");
    let from = |dataset: &str| succeeds(&store, &["top", dataset, "--csv"]);
    let rows = from(DATASET);
    assert!(rows.lines().count() > 1, "{rows}");
    assert_eq!(rows, from(folder.to_str().unwrap()));
}

/// A store that is overloaded, and one whose answers get lost: every file is delivered, and delivered once.
#[test]
fn a_store_in_trouble_gets_all_later_and_nothing_twice() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let store = Store::start();
    let site = site(&store);
    let _busy = Busy::start();
    store.set(Mood::Overloaded);
    let running = agent(&site);
    running
        .wait_for("warning", |printed| printed.contains("warning: cannot write s3://fleet/a/v1/"));
    store.set(Mood::LosesAnswers);
    running.wait_for("first object", |_| !store.table("frames").is_empty());
    store.set(Mood::Well);
    let before = running.printed().lines().count();
    running.wait_for("delivery", |printed| {
        printed
            .lines()
            .skip(before)
            .any(|line| line.contains("delivered ") && !line.contains("waiting"))
    });
    let printed = running.end();
    assert_eq!(sum(&store.table("samples"), "samples"), counted(&printed), "{printed}");
    assert_eq!(sum(&store.table("intervals"), "samples"), counted(&printed), "{printed}");
    site.has_nothing_waiting();
}

#[test]
fn recordings_are_imported_into_a_store_once_and_answered_from_it() {
    let store = Store::start();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    let mut import = vec!["import", "--to", DATASET, "--service", "shop"];
    import.extend(["--started", "2025-11-25T12:00:00Z", recording.to_str().unwrap()]);
    for _ in 0..2 {
        succeeds(&store, &import);
    }
    assert_eq!(store.table("samples").len(), 1);
    let answer = succeeds(&store, &["top", DATASET, "--csv"]);
    assert!(answer.lines().nth(1).is_some_and(|row| row.contains("shop")), "{answer}");
    let sql = ["sql", DATASET, "SELECT sum(samples) AS n FROM samples", "--csv"];
    let count = succeeds(&store, &sql);
    assert_eq!(count.lines().nth(1).unwrap().parse(), Ok(sum(&store.table("samples"), "samples")));
    let print = ["sql", DATASET, "--question", "services", "--print-sql", "--dialect"];
    let dialects = [
        ("duckdb", "read_parquet('s3://fleet/a/v1/samples/*/*.parquet'"),
        ("spark", "path 's3a://fleet/a/v1/samples'"),
        ("clickhouse", "s3('s3://fleet/a/v1/samples/*/*.parquet', 'Parquet')"),
    ];
    for (dialect, part) in dialects {
        let printed = succeeds(&store, &[&print[..], &[dialect]].concat());
        assert!(printed.contains(part), "{printed}");
    }
}

#[test]
fn what_a_store_does_not_do_is_named() {
    let store = Store::start();
    let fails = |args: &[&str], with: &str| {
        let (status, _, stderr) = fleet(&store, args);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(with), "{stderr}");
    };
    fails(&["top", "s3://fleet/none"], "s3://fleet/none holds no dataset");
    fails(&["top", "gs://fleet/a"], "gs://fleet/a: only folders and s3:// are known");
    fails(&["compact", DATASET], "only folders can be compacted");
    store.set(Mood::Overloaded);
    fails(&["top", DATASET], "cannot read s3://fleet/a/v1");
}
