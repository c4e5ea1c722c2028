//! An agent on this machine: what it delivers is what it sampled, once, also where it is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray as _;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use pmuscope_testkit::need;

use crate::harness::{Busy, Running, Site, counted, files, read, rows, skip_unless, sum, texts};

/// What `sh` belongs to here: the service that the tests run in, if they do, else its name.
fn own_service() -> String {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let is_service = |part: &&str| part.ends_with(".service") && !part.starts_with("user@");
    let unit = path.split('/').rfind(is_service);
    unit.map_or("sh", |unit| unit.trim_end_matches(".service")).to_owned()
}

#[test]
fn a_bin_is_delivered_with_its_stacks_its_cost_and_its_losses() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 2\nversion = \"1.3\"");
    let _busy = Busy::start();
    let printed = site.once();
    assert!(printed.contains(" samples, 0 lost, agent used "), "{printed}");
    let samples = site.table("sink", "samples");
    let intervals = site.table("sink", "intervals");
    assert!(sum(&samples, "samples") > 100, "{printed}");
    assert_eq!(sum(&samples, "samples"), sum(&intervals, "samples"));
    assert_eq!(sum(&intervals, "lost"), 0);
    assert!(sum(&intervals, "recorded_us") >= 2_000_000, "of one event");
    let services = texts(&samples, "service");
    assert!(services.contains(&own_service()), "{services:?}");
    assert_eq!(texts(&samples, "version"), ["1.3".to_owned()].into());
    assert_eq!(texts(&samples, "host"), ["web-1".to_owned()].into());
    let agent = site.table("sink", "agent");
    assert!(sum(&agent, "cpu_us") > 0 && sum(&agent, "rss_bytes") > 0);
    assert_eq!(sum(&agent, "dropped_samples"), 0);
    // Every stack of a sample has a row, and frames.
    let stack = |of: &[PathBuf]| -> BTreeSet<i64> {
        let ids = |file: &PathBuf| {
            let column = |batch: arrow::array::RecordBatch| {
                let ids = batch.column_by_name("stack_id").unwrap().as_primitive::<Int64Type>();
                ids.iter().flatten().collect::<Vec<_>>()
            };
            read(file).into_iter().flat_map(column).collect::<Vec<_>>()
        };
        of.iter().flat_map(ids).collect()
    };
    assert_eq!(stack(&samples), stack(&site.table("sink", "stacks")));
    assert_eq!(stack(&samples), stack(&site.table("sink", "frames")));
    site.has_nothing_waiting();
}

/// Bins begin at multiples of their length on the wall clock, so that those of all hosts can be added.
#[test]
fn bins_are_those_of_the_wall_clock_and_the_last_one_is_kept() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let mut child = site.agent(&[]).spawn().unwrap();
    let began = Instant::now();
    while site.table("sink", "intervals").len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(600), "no three bins in ten minutes");
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid = child.id().to_string();
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    assert!(environment.contains("MALLOC_MMAP_THRESHOLD_=131072"), "memory is given back");
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = child.wait().unwrap();
    assert!(output.success());
    let intervals = site.table("sink", "intervals");
    assert!(intervals.len() > 3, "{intervals:?}");
    for batch in intervals.iter().flat_map(|file| read(file)) {
        let starts =
            batch.column_by_name("start").unwrap().as_primitive::<TimestampMicrosecondType>();
        assert!(starts.iter().flatten().all(|start| start % 1_000_000 == 0));
    }
    // Whole bins but for the first and the last, and nothing between them that is not recorded.
    let recorded = sum(&intervals, "recorded_us");
    let whole = 1_000_000 * intervals.len() as i64;
    // A bin is a hundredth longer or shorter where the clocks are not read at once.
    let most = whole + whole / 100;
    assert!((whole - 2_000_000..=most).contains(&recorded), "{recorded} of {intervals:?}");
    assert_eq!(sum(&site.table("sink", "samples"), "samples"), sum(&intervals, "samples"));
}

/// An agent that is killed at any moment leaves nothing unreadable and nothing twice: what intervals say is what the
/// samples are, after the next agent has delivered the rest.
#[test]
fn an_agent_that_is_killed_delivers_nothing_twice_and_nothing_by_halves() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    kill(8, 7);
}

#[test]
fn full_an_agent_that_is_killed_often_delivers_nothing_twice_and_nothing_by_halves() {
    skip_unless!(need::root().or_else(need::machine_sampling).or_else(need::full));
    kill(50, 3);
}

/// Kills that many agents, each some milliseconds later in its first bin, and starts another.
fn kill(agents: u64, later_ms: u64) {
    let site = Site::new("bin_seconds = 1");
    let _busy = Busy::start();
    for round in 0..agents {
        let before = files(site.folder.path());
        let mut child = site.agent(&[]).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while files(site.folder.path()) == before && began.elapsed() < Duration::from_secs(600) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // From the first file of a bin to the last that is delivered.
        std::thread::sleep(Duration::from_millis(later_ms * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    site.once();
    site.has_nothing_waiting();
    let left = files(&site.folder.path().join("sink"));
    let is_whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
    assert!(left.iter().all(is_whole), "{left:?}");
    let bins = |table: &str| -> BTreeSet<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        site.table("sink", table).iter().map(name).collect()
    };
    for table in ["samples", "stacks", "frames", "hosts", "agent"] {
        assert_eq!(bins(table), bins("intervals"), "{table}");
    }
    let samples = |table: &str| sum(&site.table("sink", table), "samples");
    assert_eq!(samples("samples"), samples("intervals"));
}

#[test]
fn what_cannot_be_delivered_is_kept_and_delivered_later() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    // A machine at rest may have no sample in a whole bin.
    let _busy = Busy::start();
    let sink = site.folder.path().join("sink");
    fs::write(&sink, "no folder").unwrap();
    let printed = site.once();
    assert!(
        printed.contains(" waiting") && printed.contains("warning: cannot write "),
        "{printed}"
    );
    let waiting = sum(&site.table("spool", "samples"), "samples");
    fs::remove_file(&sink).unwrap();
    let printed = site.once();
    assert!(printed.contains("delivered ") && !printed.contains("waiting"), "{printed}");
    let delivered = sum(&site.table("sink", "samples"), "samples");
    assert!(delivered > waiting && waiting > 0, "{delivered} {waiting}");
    assert_eq!(delivered, sum(&site.table("sink", "intervals"), "samples"));
}

/// The spool is on a disk of its own that is soon full, as nothing can be delivered.
#[test]
fn a_full_disk_costs_samples_which_are_counted_and_not_the_agent() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let (spool, sink) = (site.folder.path().join("spool"), site.folder.path().join("sink"));
    fs::create_dir(&spool).unwrap();
    fs::write(&sink, "no folder").unwrap();
    let agent = site.agent(&[]);
    let script = "mount -t tmpfs -o size=128k none \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&spool).arg(agent.get_program());
    command.args(agent.get_args()).stdin(Stdio::null()).stdout(Stdio::null());
    let _busy = Busy::start();
    let running = Running::start(&site, command);
    running.wait_for("full disk", |printed| printed.contains("its samples are dropped"));
    fs::remove_file(&sink).unwrap();
    let known = running.printed().len();
    running.wait_for("delivery", |printed| printed[known..].contains("delivered 7 files"));
    let bins = running.printed().lines().count();
    running.wait_for("two bins more", |printed| printed.lines().count() >= bins + 2);
    let printed = running.end();
    let delivered = sum(&site.table("sink", "samples"), "samples");
    let dropped = sum(&site.table("sink", "agent"), "dropped_samples");
    assert!(dropped > 0, "{printed}");
    assert_eq!(delivered + dropped, counted(&printed), "{printed}");
}

/// Processes that sleep for 20 ms each, one after another: waits whose length is known.
#[test]
fn waits_are_recorded_now_and_then_and_delivered_with_their_stacks() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1\noff_cpu = { seconds = 1, every_seconds = 2 }");
    let _sleeps = Busy::running("while :; do sleep 0.02; done");
    let running = Running::start(&site, site.agent(&[]));
    running.wait_for("waits", |printed| printed.matches("\noff_cpu: ").count() >= 2);
    let printed = running.end();
    site.has_nothing_waiting();
    let waits =
        rows(&site.table("sink", "waits"), ["service", "state", "wait", "length_ns", "waits"]);
    let count = |is: &dyn Fn(&[String; 5]) -> bool| -> i64 {
        waits.iter().filter(|row| is(row)).map(|row| row[4].parse::<i64>().unwrap()).sum()
    };
    // From 2^24 ns on, up to twice that.
    let sleeps = count(&|[service, _, wait, length_ns, _]| {
        service == "sleep" && wait.contains("nanosleep") && length_ns == "16777216"
    });
    assert!(sleeps > 10, "{sleeps}: {printed}\n{waits:?}");
    // The same waits have stacks, for flame graphs; samples of the CPU are as they were.
    let samples = rows(&site.table("sink", "samples"), ["event", "samples"]);
    let of = |is: &dyn Fn(&str) -> bool| -> i64 {
        samples.iter().filter(|row| is(&row[0])).map(|row| row[1].parse::<i64>().unwrap()).sum()
    };
    let blocked = count(&|[_, state, ..]| state == "blocked");
    assert_eq!(of(&|event| event == "off-cpu:blocked"), blocked, "{printed}");
    assert_eq!(of(&|event| !event.starts_with("off-cpu:")), counted(&printed), "{printed}");
    // A second each at most, of two bins: the rest of the time is not recorded.
    let recorded = rows(&site.table("sink", "intervals"), ["event", "recorded_us"]);
    let recorded = recorded.iter().filter(|row| row[0] == "off-cpu:blocked");
    let recorded: i64 = recorded.map(|row| row[1].parse::<i64>().unwrap()).sum();
    let mean = recorded / printed.matches("\noff_cpu: ").count() as i64;
    assert!((300_000..2_000_000).contains(&mean), "{mean} µs: {printed}");
    assert!(sum(&site.table("sink", "agent"), "off_cpu_rss_bytes") > 0);
}

/// Two services in cgroups of their own, one that only computes, one that starts processes, each of which faults its pages in.
/// The hierarchy is mounted anew, where only the agent and they see it.
#[test]
fn counts_of_services_are_those_of_their_cgroups() {
    let needed = need::root().or_else(need::machine_sampling);
    skip_unless!(needed.or_else(need::mount_namespaces));
    let site = Site::new("bin_seconds = 2\ncounts = { seconds = 2, every_seconds = 3600 }");
    let mount = site.folder.path().join("cgroups");
    fs::create_dir(&mount).unwrap();
    let script = "mount -t cgroup2 none \"$1\" || exit 77
        run() { mkdir \"$1\" && sh -c \"echo \\$\\$ > '$1/cgroup.procs'; while :; do $2; done\" & }
        computes=$1/pmuscope-computes-$$.service; starts=$1/pmuscope-starts-$$.service; shift
        run \"$computes\" :; run \"$starts\" 'sh -c :'
        until grep -q . \"$computes/cgroup.procs\" && grep -q . \"$starts/cgroup.procs\"; do sleep 0.01; done
        \"$@\"; status=$?
        for cgroup in \"$computes\" \"$starts\"; do
            until rmdir \"$cgroup\" 2>/dev/null; do kill -KILL $(cat \"$cgroup/cgroup.procs\") 2>/dev/null; done
        done
        exit $status";
    let agent = site.agent(&["--once"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&mount).arg(agent.get_program());
    let output = command.args(agent.get_args()).stdin(Stdio::null()).output().unwrap();
    if output.status.code() == Some(77) {
        eprintln!("skipped: cgroup2 cannot be mounted here");
        return;
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("\ncounts: "), "{printed}");
    let columns = ["service", "event", "count", "cpu_us", "all_cpu_us", "event_set"];
    let counts = rows(&site.table("sink", "counts"), columns);
    let of = |service: &str, event: &str| -> [i64; 2] {
        let is_it = |row: &&[String; 6]| {
            row[0].starts_with(&format!("pmuscope-{service}-")) && row[1] == event
        };
        let found = counts.iter().find(is_it).unwrap_or_else(|| panic!("{event}: {counts:?}"));
        [2, 3].map(|column| found[column].parse().unwrap())
    };
    let [faults, computes_us] = of("computes", "page-faults");
    let [many_faults, starts_us] = of("starts", "page-faults");
    assert!(computes_us > 10_000 && starts_us > 10_000, "{counts:?}");
    // A loop of a shell touches nothing new; a process that starts faults in some hundred pages.
    assert!(many_faults > 500 && many_faults > 100 * faults, "{counts:?}");
    assert!(of("starts", "context-switches")[0] > 1, "{counts:?}");
    // Software events are never multiplexed.
    assert!(counts.iter().filter(|row| row[5].contains("page-faults")).all(|row| row[3] == row[4]));
    let intervals =
        rows(&site.table("sink", "intervals"), ["event", "samples", "lost", "recorded_us"]);
    let counted: Vec<_> = intervals.iter().filter(|row| row[0] == "counts").collect();
    let sum =
        |column: usize| counted.iter().map(|row| row[column].parse::<i64>().unwrap()).sum::<i64>();
    assert!(sum(1) >= 2 && sum(2) == 0, "{intervals:?}");
    // Two seconds, and what it takes to open and to read.
    assert!((2_000_000..4_000_000).contains(&sum(3)), "{intervals:?}");
}

/// This machine has one node, or no PMU: what is missing is said in the line of the bin, and is no failure.
#[test]
fn what_a_machine_lacks_is_said_and_the_rest_goes_on() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1\nwindows = { seconds = 1 }\nlocality = { seconds = 1 }");
    let printed = site.once();
    let nodes = fs::read_dir("/sys/devices/system/node").unwrap();
    let is_node =
        |name: &str| name.strip_prefix("node").is_some_and(|id| id.parse::<u32>().is_ok());
    let nodes =
        nodes.filter(|entry| is_node(&entry.as_ref().unwrap().file_name().to_string_lossy()));
    if nodes.count() == 1 {
        assert!(
            printed.contains("\nlocality: not measured: this machine has one NUMA node"),
            "{printed}"
        );
    } else {
        assert!(printed.contains("\nlocality: ") && !printed.contains("not measured"), "{printed}");
    }
    if need::cycles().is_some() {
        assert!(printed.contains("\nwindows: not measured: no hardware PMU"), "{printed}");
    }
    assert!(!printed.contains("warning"), "{printed}");
    assert!(sum(&site.table("sink", "intervals"), "recorded_us") >= 1_000_000, "{printed}");
    site.has_nothing_waiting();
}

/// Each stack is in the folder of the day once, with the first bin that has it.
#[test]
fn stacks_are_delivered_once_a_day() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let _busy = Busy::start();
    let running = Running::start(&site, site.agent(&[]));
    running.wait_for("bins", |printed| printed.matches(" samples, ").count() >= 4);
    running.end();
    let samples = rows(&site.table("sink", "samples"), ["stack_id"]);
    let hit: BTreeSet<&String> = samples.iter().map(|[id]| id).collect();
    let stacks = rows(&site.table("sink", "stacks"), ["stack_id"]);
    assert_eq!(hit, stacks.iter().map(|[id]| id).collect(), "every stack of a sample is there");
    // One that is there again, in a later bin, has more names than before.
    let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for file in site.table("sink", "frames") {
        let mut of_file: BTreeMap<String, usize> = BTreeMap::new();
        for [id, function] in rows(&[file], ["stack_id", "function"]) {
            *of_file.entry(id).or_default() += usize::from(!function.is_empty());
        }
        of_file.into_iter().for_each(|(id, count)| named.entry(id).or_default().push(count));
    }
    assert!(named.values().all(|counts| counts.is_sorted_by(|a, b| a < b)), "{named:?}");
    let again = samples.len() - hit.len();
    assert!(again > 0, "no stack was hit in two bins");
}

#[test]
fn another_configuration_is_taken_while_it_runs_and_a_bad_one_is_not() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let _busy = Busy::start();
    let running = Running::start(&site, site.agent(&[]));
    let delivers = |version: &str| {
        let began = Instant::now();
        while !texts(&site.table("sink", "samples"), "version").contains(version) {
            assert!(began.elapsed() < Duration::from_secs(600), "{}", running.printed());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    running.wait_for("bin", |printed| printed.contains(" samples, "));
    let file = site.folder.path().join("agent.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("version = \"2\"\n{text}")).unwrap();
    running.signal("-HUP");
    delivers("2");
    fs::write(&file, "nonsense").unwrap();
    running.signal("-HUP");
    running.wait_for("warning", |printed| {
        printed.contains("going on with the configuration as it was")
    });
    let bins = running.printed().lines().count();
    running.wait_for("bin after it", |printed| printed.lines().count() > bins);
    let printed = running.end();
    assert_eq!(sum(&site.table("sink", "samples"), "samples"), counted(&printed), "{printed}");
}

/// A budget that no rate can keep: the rate falls, and rows say it.
#[test]
fn a_budget_lowers_the_rate_and_the_rows_say_so() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1\nbudget_percent = 0.0001\nbudget_seconds = 1");
    let _busy = Busy::start();
    let running = Running::start(&site, site.agent(&[]));
    let falls = "sampling at 47 Hz from now on";
    running.wait_for(falls, |printed| printed.contains(falls));
    // The next bin has the new rate.
    let bins = running.printed().matches(" samples, ").count();
    running.wait_for("bin", |printed| printed.matches(" samples, ").count() > bins);
    let printed = running.end();
    let mut rates = BTreeSet::new();
    for batch in site.table("sink", "agent").iter().flat_map(|file| read(file)) {
        let column = batch.column_by_name("frequency_hz").unwrap().as_primitive::<Int64Type>();
        rates.extend(column.iter().flatten());
    }
    assert!(rates.contains(&199) && rates.contains(&47), "{rates:?}: {printed}");
    assert_eq!(sum(&site.table("sink", "samples"), "samples"), counted(&printed), "{printed}");
}

#[test]
fn a_dry_run_says_how_much_it_would_be_and_delivers_nothing() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let _busy = Busy::start();
    let Output { status, stderr, .. } = site.agent(&["--dry-run"]).output().unwrap();
    let printed = String::from_utf8_lossy(&stderr);
    assert!(status.success() && printed.contains("\n  intervals  "), "{printed}");
    assert!(
        printed.contains("nothing was delivered; at this load ") && printed.contains(" a day"),
        "{printed}"
    );
    assert!(
        !site.folder.path().join("spool").exists() && !site.folder.path().join("sink").exists()
    );
}

/// Nobody listens on port 1: files come all the same, and what was not pushed is a number.
#[test]
fn a_receiver_that_is_away_costs_no_file_and_is_counted() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let receivers = "otlp = \"http://127.0.0.1:1\"\npprof = \"http://127.0.0.1:1\"";
    let site = Site::with_sinks("bin_seconds = 1", receivers);
    let _busy = Busy::start();
    let printed = site.once();
    assert_eq!(
        printed.matches(" to http://127.0.0.1:1/: Connection refused").count(),
        2,
        "{printed}"
    );
    let samples = sum(&site.table("sink", "samples"), "samples");
    assert_eq!(sum(&site.table("sink", "agent"), "unpushed_samples"), 2 * samples, "{printed}");
    assert_eq!(samples, counted(&printed), "{printed}");
}

/// What gives a program with threads another wall clock; `None` where it is not installed.
fn fake_clock() -> Option<String> {
    let asked = ["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"];
    let printed = Command::new("faketime").args(asked).output().ok()?;
    let library = String::from_utf8(printed.stdout).ok()?.trim().to_owned();
    (!library.is_empty()).then(|| library.replace("libfaketime.so", "libfaketimeMT.so"))
}

/// The wall clock is set back by an hour while the agent runs, as by an administrator.
#[test]
fn a_clock_that_is_set_back_neither_loses_nor_repeats_a_bin() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let Some(library) = fake_clock() else { return eprintln!("skipped: no faketime") };
    let site = Site::new("bin_seconds = 1");
    let _busy = Busy::start();
    let offset = site.folder.path().join("offset");
    fs::write(&offset, "+0").unwrap();
    let mut agent = site.agent(&[]);
    agent.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &offset);
    agent.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    let running = Running::start(&site, agent);
    running.wait_for("two bins", |printed| printed.lines().count() >= 2);
    fs::write(&offset, "-3600").unwrap();
    running.wait_for("three bins more", |printed| printed.lines().count() >= 5);
    let printed = running.end();
    let intervals = site.table("sink", "intervals");
    let mut starts: Vec<i64> = Vec::new();
    for batch in intervals.iter().flat_map(|file| read(file)) {
        let column =
            batch.column_by_name("start").unwrap().as_primitive::<TimestampMicrosecondType>();
        starts.extend(column.iter().flatten());
    }
    let (first, last) = (starts.iter().min().unwrap(), starts.iter().max().unwrap());
    assert!((3590..3620).contains(&((last - first) / 1_000_000)), "{starts:?}: {printed}");
    let bins = printed.lines().filter(|line| line.contains(" lost, agent used ")).count();
    assert_eq!(intervals.len(), bins, "{printed}");
    for table in ["samples", "intervals"] {
        assert_eq!(
            sum(&site.table("sink", table), "samples"),
            counted(&printed),
            "{table}: {printed}"
        );
    }
}

/// The kernel takes any bytes for a name.
#[test]
fn a_configuration_may_have_a_name_that_is_no_utf_8() {
    skip_unless!(need::root().or_else(need::machine_sampling));
    let site = Site::new("bin_seconds = 1");
    let name = site.folder.path().join(OsStr::from_bytes(b"agent\xff.toml"));
    fs::rename(site.folder.path().join("agent.toml"), &name).unwrap();
    let program = env!("CARGO_BIN_EXE_pmuscope-fleet");
    let output = Command::new(program).args(["agent", "--once", "--config"]).arg(&name).output();
    let Output { status, stderr, .. } = output.unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

#[test]
fn bad_configurations_are_named_before_anything_is_recorded() {
    let fails = |more: &str, with: &str| {
        let site = Site::new(more);
        let began = Instant::now();
        let Output { status, stderr, .. } = site.agent(&["--once"]).output().unwrap();
        let printed = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(2), "{printed}");
        assert!(printed.starts_with("error: ") && printed.contains(with), "{printed}");
        assert!(began.elapsed() < Duration::from_secs(600), "it recorded a bin");
    };
    fails("bin_seconds = 0", "bin_seconds = 0: must be 1 to 86400");
    fails("bins = 3", "unknown field `bins`");
    let site = Site::with_sinks("", "otlp = \"collector:4318\"");
    let Output { status, stderr, .. } = site.agent(&["--once"]).output().unwrap();
    let printed = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(2) && printed.contains("collector:4318"), "{printed}");
}
