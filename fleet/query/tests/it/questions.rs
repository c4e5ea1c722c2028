//! Questions over small fleets whose sums are known.

use std::sync::Arc;

use pmuscope_dataset::{
    AgentRow, CountRow, Dataset, FrameRow, IntervalRow, LocalityRow, Rows, SampleRow, StackRow,
    Timestamp, WaitRow, WindowSumRow,
};
use pmuscope_query::{
    ColumnFilter, Dialect, Engine, FleetStacks, FoundDataset, NamedQuestion, QueryError, Selection,
    ShareBy, ShareRow, Sides, choose_event, diff, hosts, shares, stacks, waits,
};

/// 2025-11-25, midnight UTC.
pub(crate) const DAY: i64 = 1_764_028_800_000_000;
/// Five minutes.
const BIN_US: i64 = 300_000_000;

/// A sample row: host, service, version, stack, bin, milliseconds of CPU time.
pub(crate) type Used<'a> = (&'a str, &'a str, Option<&'a str>, i64, i64, i64);

fn sample(&(host, service, version, stack_id, bin, ms): &Used<'_>) -> SampleRow {
    SampleRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        boot: None,
        service: service.into(),
        version: version.map(Arc::from),
        unit: None,
        container: None,
        pod: None,
        event: "cpu-clock".into(),
        stack_id,
        samples: ms / 10,
        weight: ms * 1000,
        weight_unit: "us".into(),
        batch: 1,
    }
}

pub(crate) fn interval(host: &str, bin: i64, samples: i64) -> IntervalRow {
    IntervalRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        boot: None,
        event: "cpu-clock".into(),
        cpus: Some(4),
        recorded_us: BIN_US,
        samples,
        lost: Some(1),
        throttled: 0,
        own_cpu_us: Some(1000),
        recorder: None,
        batch: 1,
    }
}

fn window(host: &str) -> WindowSumRow {
    WindowSumRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: Some("shop".into()),
        function: Some("f1".into()),
        module: "/bin/shop".into(),
        event_set: "cycles,instructions".into(),
        event: "cycles".into(),
        windows: 10,
        count: 3000,
        count_of_all: 3000,
        tested: 10,
        same_at_both_ends: 10,
        batch: 1,
        ..WindowSumRow::default()
    }
}

fn count(host: &str) -> CountRow {
    CountRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: "shop".into(),
        event_set: "page-faults".into(),
        event: "page-faults".into(),
        cgroups: 1,
        count: 10,
        cpu_us: 1000,
        all_cpu_us: 1000,
        batch: 1,
        ..CountRow::default()
    }
}

fn locality(host: &str) -> LocalityRow {
    LocalityRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: "shop".into(),
        observations: 1,
        processes: 1,
        cpu_us: 1000,
        memory_bytes: 1 << 20,
        local_bytes: 1 << 19,
        batch: 1,
        ..LocalityRow::default()
    }
}

/// Stack `id`: its leaf is `f<id>`, called from `main`.
fn stack(id: i64) -> (StackRow, [FrameRow; 2]) {
    let frame = |depth: i64, function: String| FrameRow {
        stack_id: id,
        depth,
        inline_depth: 0,
        build_id: None,
        address: Some(16 * id),
        function: Some(function.into()),
        module: "/bin/shop".into(),
        file: None,
        line: None,
    };
    let row = StackRow {
        stack_id: id,
        digest: format!("{id:032x}").into(),
        leaf: Some(format!("f{id}").into()),
        leaf_module: "/bin/shop".into(),
        depth: 2,
    };
    (row, [frame(0, format!("f{id}")), frame(1, "main".to_owned())])
}

/// A dataset of these rows, a file for each host and bin, as agents deliver them: each with all stacks.
pub(crate) fn dataset(used: &[Used<'_>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    let mut files: Vec<(&str, i64)> = used.iter().map(|one| (one.0, one.4)).collect();
    files.sort_unstable();
    files.dedup();
    for (host, bin) in files {
        let own: Vec<SampleRow> =
            used.iter().filter(|one| (one.0, one.4) == (host, bin)).map(sample).collect();
        let known: Vec<(StackRow, [FrameRow; 2])> = (1..=3).map(stack).collect();
        let samples = own.iter().map(|row| row.samples).sum();
        let when = Timestamp(DAY + bin * BIN_US);
        let name = format!("{host}-{bin}");
        let agent = AgentRow {
            start: when,
            bin_us: BIN_US,
            host: host.into(),
            boot: None,
            agent: "test".into(),
            cpu_us: 3_000_000,
            rss_bytes: Some(1 << 20),
            unidentified_samples: 0,
            dropped_samples: 0,
            waiting_files: 0,
            frequency_hz: Some(100),
            unpushed_samples: None,
            off_cpu_rss_bytes: None,
            measurement_rss_bytes: None,
            batch: 1,
        };
        dataset.write(vec![agent], when, &name).unwrap();
        let rows = Rows {
            samples: own,
            frames: known.iter().flat_map(|(_, frames)| frames.clone()).collect(),
            stacks: known.into_iter().map(|(stack, _)| stack).collect(),
            waits: vec![wait(&(host, "shop", Some("futex"), Some(1 << 20), 1, 1))],
            windows: vec![window(host)],
            counts: vec![count(host)],
            locality: vec![locality(host)],
            intervals: vec![interval(host, bin, samples)],
            ..Rows::default()
        };
        dataset.write_all(rows, when, &name).unwrap();
    }
    folder
}

pub(crate) const SHOP: [Used<'static>; 8] = [
    ("a", "shop", Some("1"), 1, 0, 60_000),
    ("a", "shop", Some("1"), 2, 0, 30_000),
    ("a", "shop", Some("2"), 1, 1, 30_000),
    ("a", "cron", None, 3, 1, 30_000),
    ("b", "shop", Some("1"), 1, 0, 90_000),
    ("b", "shop", Some("2"), 2, 1, 60_000),
    ("c", "shop", Some("1"), 2, 0, 120_000),
    ("c", "cron", None, 3, 0, 30_000),
];

fn opened(folder: &tempfile::TempDir, conditions: &[(&str, &str)]) -> Engine {
    let engine = Engine::open(&folder.path().into()).unwrap();
    let condition = |(column, value): &(&str, &str)| {
        ColumnFilter::new(column, vec![(*value).to_owned()]).unwrap()
    };
    let mut selection = Selection {
        conditions: conditions.iter().map(condition).collect(),
        ..Selection::default()
    };
    let chosen = choose_event(&engine, &mut selection).unwrap();
    assert_eq!((chosen.event.as_deref(), chosen.is_time()), (Some("cpu-clock"), true));
    engine
}

#[test]
fn rows_are_sums_over_hosts_and_add_up() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[]);
    let found = shares(&engine, &[ShareBy::Service], 10, false, true).unwrap();
    assert_eq!((found.fleet.samples, found.fleet.weight), (45_000, 450_000_000));
    let rows: Vec<_> =
        found.rows.iter().map(|row| (&*row.keys[0], row.weight, row.hosts)).collect();
    assert_eq!(rows, [("shop", 390_000_000, 3), ("cron", 60_000_000, 2)]);
    let [shop, cron] = [0, 1].map(|at| found.rows[at].share.unwrap());
    assert!((shop.value - 390.0 / 450.0).abs() < 1e-12 && shop.interval.is_some());
    assert!((shop.value + cron.value - 1.0).abs() < 1e-12);
    // Two hosts used 150 s in two bins of 300 s, the third as much in one.
    let cores = found.fleet.cores.unwrap();
    assert!((cores.value - (0.25 + 0.25 + 0.5)).abs() < 1e-12, "{cores:?}");
}

#[test]
fn rows_by_host_add_up_and_have_no_intervals() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[]);
    let found = shares(&engine, &[ShareBy::Host], 10, false, true).unwrap();
    let cores = |row: &ShareRow| (row.keys.join(" "), row.cores.unwrap().value);
    let mut rows: Vec<(String, f64)> = found.rows.iter().map(cores).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(rows, [("a", 0.25), ("b", 0.25), ("c", 0.5)].map(|(k, v)| (k.to_owned(), v)));
    let has_interval = |row: &ShareRow| {
        [row.share, row.cores].iter().flatten().any(|estimate| estimate.interval.is_some())
    };
    assert!(!found.rows.iter().any(has_interval) && found.fleet.cores.unwrap().interval.is_some());
    let by = [ShareBy::Function, ShareBy::Host];
    for with_callees in [false, true] {
        let found = shares(&engine, &by, 100, with_callees, true).unwrap();
        assert!(found.rows.iter().all(|row| row.hosts == 1 && row.keys.len() == 2));
        assert!(found.rows.iter().any(|row| row.keys[1] == "c"), "{:?}", found.rows);
    }
    let found = waits(&engine, &[ShareBy::Wait, ShareBy::Host], 100).unwrap();
    assert!(found.rows.iter().all(|row| row.hosts == 1), "{:?}", found.rows);
}

#[test]
fn functions_are_named_once_however_many_files_name_them() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[("service", "shop")]);
    let by = [ShareBy::Version, ShareBy::Function];
    let found = shares(&engine, &by, 10, false, true).unwrap();
    let rows: Vec<_> = found.rows.iter().map(|row| (row.keys.join(" "), row.samples)).collect();
    let expected = [("1 f1", 15_000), ("1 f2", 15_000), ("2 f2", 6000), ("2 f1", 3000)];
    assert_eq!(rows, expected.map(|(keys, samples)| (keys.to_owned(), samples)));
    let with_callees = shares(&engine, &[ShareBy::Function], 1, true, true).unwrap();
    assert_eq!(with_callees.rows[0].keys, ["main"]);
    assert_eq!(with_callees.rows[0].weight, with_callees.fleet.weight);
}

/// Frames of one stack without a name on one host and with names, also inlined ones, on another; and two without a name
/// in two modules.
#[test]
fn a_sample_counts_once_for_each_function_whatever_other_hosts_know() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    let frame = |depth, inline_depth, function: Option<&str>, module: &str| FrameRow {
        stack_id: 1,
        depth,
        inline_depth,
        build_id: Some("ab".into()),
        address: Some(16 * depth),
        function: function.map(Arc::from),
        module: module.into(),
        ..FrameRow::default()
    };
    let (shop, other, libc) = ("/bin/shop", "/overlay/bin/shop", "/lib/libc.so");
    let without = [0, 1, 2]
        .map(|depth| frame(depth, 0, None, shop))
        .into_iter()
        .chain([frame(3, 0, None, libc)]);
    let with = [
        frame(0, 0, Some("main"), other),
        frame(0, 1, Some("inlined"), other),
        frame(1, 0, Some("main"), other),
    ];
    let used = |host| sample(&(host, "shop", None, 1, 0, 1000));
    for (host, frames) in [("a", without.collect::<Vec<_>>()), ("b", with.to_vec())] {
        let (row, _) = stack(1);
        let leaf = (host == "b").then(|| Arc::from("inlined"));
        let rows = Rows {
            samples: vec![used(host)],
            frames,
            stacks: vec![StackRow { leaf, ..row }],
            intervals: vec![interval(host, 0, 100)],
            ..Rows::default()
        };
        dataset.write_all(rows, Timestamp(DAY), host).unwrap();
    }
    let engine = opened(&folder, &[]);
    let total = |by: &[ShareBy]| -> Vec<(String, i64)> {
        let rows = shares(&engine, by, 10, true, true).unwrap().rows;
        let mut rows: Vec<_> =
            rows.into_iter().map(|row| (row.keys.join(" "), row.samples)).collect();
        rows.sort();
        rows
    };
    let all =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 200)).collect::<Vec<_>>();
    assert_eq!(total(&[ShareBy::Function]), all(&["[unknown]", "inlined", "main"]));
    assert_eq!(
        total(&[ShareBy::Function, ShareBy::Module]),
        all(&[
            "[unknown] /bin/shop",
            "[unknown] /lib/libc.so",
            "inlined /overlay/bin/shop",
            "main /overlay/bin/shop"
        ])
    );
    let own = shares(&engine, &[ShareBy::Function], 10, false, true).unwrap().rows;
    assert_eq!(
        own.iter().map(|row| (&*row.keys[0], row.samples)).collect::<Vec<_>>(),
        [("inlined", 200)]
    );
    let folded = folded(&stacks(&engine, "cpu-clock", 100).unwrap());
    assert_eq!(folded.lines().count(), 1, "{folded}");
    assert!(folded.ends_with(";main;main;inlined 2000000\n"), "{folded}");
}

#[test]
fn a_limit_leaves_out_rows_and_changes_no_share() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[]);
    let [all, one] =
        [10, 1].map(|limit| shares(&engine, &[ShareBy::Function], limit, false, true).unwrap());
    assert_eq!((all.rows.len(), one.rows.len()), (3, 1));
    assert_eq!(all.rows[0], one.rows[0]);
    assert_eq!(all.fleet, one.fleet);
}

#[test]
fn hosts_have_what_was_recorded_whatever_is_selected() {
    let folder = dataset(&SHOP);
    let coverage = hosts(&opened(&folder, &[("service", "cron")])).unwrap();
    let rows: Vec<_> = coverage
        .hosts
        .iter()
        .map(|host| (&*host.host, host.bins, host.samples, host.lost))
        .collect();
    assert_eq!(
        rows,
        [("a", 2, 15_000, Some(2)), ("b", 2, 15_000, Some(2)), ("c", 1, 15_000, Some(1))]
    );
    assert_eq!(coverage.span_us, Some((DAY, DAY + 2 * BIN_US)));
    assert!((coverage.share().unwrap() - 5.0 / 6.0).abs() < 1e-12);
    assert_eq!(coverage.lost(), Some(5));
}

#[test]
fn a_host_that_two_agents_record_is_named() {
    let folder = dataset(&SHOP);
    assert_eq!(hosts(&opened(&folder, &[])).unwrap().twice, [""; 0]);
    let other = Rows { intervals: vec![interval("b", 1, 10)], ..Rows::default() };
    Dataset::new(folder.path()).write_all(other, Timestamp(DAY), "other").unwrap();
    assert_eq!(hosts(&opened(&folder, &[])).unwrap().twice, ["b"]);
}

#[test]
fn sides_are_compared_on_hosts_that_ran_both() {
    let used: Vec<Used<'_>> = ["a", "b", "c", "d"]
        .into_iter()
        .flat_map(|host| {
            [
                (host, "shop", Some("1"), 1, 0, 10_000),
                (host, "shop", Some("1"), 2, 0, 30_000),
                (host, "shop", Some("2"), 1, 1, 20_000),
                (host, "shop", Some("2"), 2, 1, 30_000),
            ]
        })
        .collect();
    let folder = dataset(&used);
    let engine = opened(&folder, &[]);
    let version =
        |version: &str| vec![ColumnFilter::new("version", vec![version.to_owned()]).unwrap()];
    let sides = Sides { a: version("1"), b: version("2") };
    engine.select(&Selection::default(), Some(&sides)).unwrap();
    let found = diff(&engine, 10, true).unwrap();
    assert_eq!((found.paired, found.sides[0].hosts, found.sides[1].samples), (Some(4), 4, 20_000));
    // 40 s and 50 s of CPU time in 300 s.
    let cores = found.sides[1].cores_per_host.unwrap().value;
    assert!((cores - 50.0 / 300.0).abs() < 1e-12, "{cores}");
    let cost = found.cost.unwrap().ratio.unwrap();
    assert!((cost.value - 1.25).abs() < 1e-12, "{cost:?}");
    let f1 = found.rows.iter().find(|row| row.key == "f1").unwrap();
    assert!((f1.ratio.unwrap().value - 0.4 / 0.25).abs() < 1e-12, "{f1:?}");
    assert_eq!(f1.samples, [4000, 8000]);
}

/// Stacks as folded text.
fn folded(stacks: &FleetStacks) -> String {
    let (source, mut folded) = (stacks.source(), Vec::new());
    let event = source.events[0].clone();
    let options = pmuscope_profile::export::folded::Options::default();
    pmuscope_profile::export::folded::write(&source, &event, options, &mut folded).unwrap();
    String::from_utf8(folded).unwrap()
}

#[test]
fn stacks_keep_their_weight_and_their_order() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[]);
    let found = stacks(&engine, "cpu-clock", 100).unwrap();
    assert_eq!(found.samples(), 45_000);
    let folded = folded(&found);
    let expected = "cron;main;f3 60000000\nshop;main;f1 180000000\nshop;main;f2 210000000\n";
    assert_eq!(folded, expected);
}

#[test]
fn times_narrow_to_bins_and_their_days() {
    let (today, tomorrow) =
        (("a", "shop", None, 1, 0, 10_000), ("a", "shop", None, 1, 288, 20_000));
    let folder = dataset(&[today, tomorrow]);
    let engine = Engine::open(&folder.path().into()).unwrap();
    let samples = |since: Option<i64>, until: Option<i64>| {
        let [since, until] = [since, until].map(|us| us.map(|us| Timestamp(DAY + us)));
        let mut selection = Selection { since, until, ..Selection::default() };
        choose_event(&engine, &mut selection).unwrap();
        shares(&engine, &[ShareBy::Service], 10, false, true).unwrap().fleet.samples
    };
    let day = 288 * BIN_US;
    assert_eq!(samples(None, None), 3000);
    assert_eq!(samples(Some(1), None), 2000);
    assert_eq!(samples(None, Some(day)), 1000);
    assert_eq!(samples(Some(day), Some(day + 1)), 2000);
    assert_eq!(samples(Some(day + 1), None), 0);
}

#[test]
fn every_named_question_has_an_answer() {
    let folder = dataset(&SHOP);
    let engine = opened(&folder, &[]);
    let side =
        |version: &str| vec![ColumnFilter::new("version", vec![version.to_owned()]).unwrap()];
    let sides = Sides { a: side("1"), b: side("2") };
    engine.select(&Selection::default(), Some(&sides)).unwrap();
    for (name, question) in NamedQuestion::ALL {
        let answer = engine.run(&question.sql(&[ShareBy::Service, ShareBy::Version], 10)).unwrap();
        let rows: usize = answer.batches.iter().map(|batch| batch.num_rows()).sum();
        // Runs have a fleet of their own (tests/runs.rs).
        assert!(rows > 0 || name == "runs", "{name}");
    }
}

/// What --print-sql prints for DataFusion is what its own shell takes: it makes its tables itself.
#[test]
fn printed_statements_make_the_same_views_from_files_alone() {
    let folder = dataset(&SHOP);
    let views = {
        let dataset = FoundDataset::find(&folder.path().into()).unwrap();
        Selection::default().views(Dialect::DataFusion, &dataset, None)
    };
    // Files of 13 tables, their views, and 8 of these without missing texts.
    assert_eq!(views.len(), 13 + 13 + 8);
    assert!(views[0].contains("LOCATION '") && views[0].contains("/v1/samples/'"), "{}", views[0]);
    // Nobody wrote a row of hosts: engines would refuse the folder that is not there.
    assert!(
        views[9].contains("hosts_files AS SELECT * FROM (SELECT CAST(NULL AS TIMESTAMP) AS seen")
    );
}

#[test]
fn what_is_no_dataset_and_no_sql_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = Engine::open(&empty.path().into()).unwrap_err();
    assert!(matches!(error, QueryError::NoDataset(_)) && error.to_string().contains("Try: "));
    let folder = dataset(&SHOP[..1]);
    let engine = opened(&folder, &[]);
    let error = engine.run("SELECT nothing FROM samples").unwrap_err().to_string();
    assert!(error.contains("nothing") && !error.contains("bug"), "{error}");
}

/// Bytes that nobody has written so: an answer, or an error that names the file; never a panic.
#[test]
fn a_damaged_file_is_named() {
    let folder = dataset(&SHOP);
    let path = folder.path().join("v1/samples/date=2025-11-25/a-0.parquet");
    let whole = std::fs::read(&path).unwrap();
    let mut named = 0;
    for (round, at) in (0..whole.len()).step_by(whole.len() / 20).enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (round % 8);
        damaged[at / 2] ^= 0xff;
        std::fs::write(&path, damaged).unwrap();
        let engine = Engine::open(&folder.path().into()).unwrap();
        let found = choose_event(&engine, &mut Selection::default())
            .and_then(|_| shares(&engine, &[ShareBy::Version, ShareBy::Function], 10, false, true));
        if let Err(error) = found {
            let text = error.to_string();
            // Some damage only shows in what a question reads: then the engine's own words have to do.
            named += usize::from(text.contains("a-0.parquet"));
            assert!(!text.is_empty());
        }
    }
    assert!(named > 6, "{named} of 20 named");
    std::fs::write(&path, "no Parquet").unwrap();
    let error =
        Engine::open(&folder.path().into()).unwrap().run("SELECT sum(samples) FROM samples_files");
    let text = error.unwrap_err().to_string();
    assert!(text.contains("a-0.parquet cannot be read") && text.contains("Try: "), "{text}");
}

/// A wait row: host, service, function of the kernel, length, how many, milliseconds of all.
type Waited<'a> = (&'a str, &'a str, Option<&'a str>, Option<i64>, i64, i64);

fn wait(&(host, service, wait, length_ns, waits, ms): &Waited<'_>) -> WaitRow {
    WaitRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: service.into(),
        state: if wait.is_some() { "blocked" } else { "preempted" }.into(),
        wait: wait.map(Arc::from),
        function: wait.map(|_| "lock".into()),
        length_ns,
        waits,
        time_us: ms * 1000,
        queued_us: waits * 10,
        batch: 1,
        ..WaitRow::default()
    }
}

#[test]
fn waits_are_threads_per_time_recorded_with_lengths_of_all_hosts() {
    let rows: [Waited<'_>; 7] = [
        ("a", "db", Some("futex"), Some(1 << 20), 99, 2000),
        ("a", "db", Some("futex"), Some(1 << 23), 1, 1000),
        ("a", "db", Some("futex"), None, 1, 3000),
        ("b", "db", Some("futex"), Some(1 << 20), 50, 3000),
        ("c", "db", Some("futex"), Some(1 << 21), 50, 9000),
        ("c", "cron", Some("nanosleep"), Some(1 << 29), 1, 1000),
        ("b", "db", None, Some(0), 7, 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    for host in ["a", "b", "c"] {
        let waits: Vec<WaitRow> = rows.iter().filter(|row| row.0 == host).map(wait).collect();
        // Ten seconds of the bin were recorded.
        let event = |event: &str, recorded_us| IntervalRow {
            event: event.into(),
            recorded_us,
            ..interval(host, 0, 100)
        };
        let intervals = vec![event("off-cpu:blocked", 10_000_000), event("cpu-clock", BIN_US)];
        let own = Rows { waits, intervals, ..Rows::default() };
        dataset.write_all(own, Timestamp(DAY), host).unwrap();
        // Another event, with less time.
        let samples = vec![sample(&(host, "db", None, 1, 0, 1000))];
        let rows = Rows { samples, ..Rows::default() };
        dataset.write_all(rows, Timestamp(DAY), &format!("{host}-samples")).unwrap();
    }
    let engine = Engine::open(&folder.path().into()).unwrap();
    let mut selection = Selection::default();
    let chosen = choose_event(&engine, &mut selection).unwrap();
    assert_eq!(chosen.event.as_deref(), Some("cpu-clock"), "time off the CPU is asked for");
    assert_eq!(chosen.others, ["off-cpu:blocked"]);
    let event = Some("off-cpu:blocked".to_owned());
    engine.select(&Selection { event, ..Selection::default() }, None).unwrap();
    let found = waits(&engine, &[ShareBy::Service, ShareBy::Wait], 10).unwrap();
    assert_eq!(found.waits, 209);
    let [futex, cron, preempted] = &found.rows[..] else { panic!("{found:?}") };
    assert_eq!(futex.keys, ["db", "futex"]);
    assert_eq!((futex.waits, futex.hosts, futex.time_us), (201, 3, 18_000_000));
    // 18 s of waits in 30 s of three hosts: 0.6 threads a host, 1.8 of all.
    let threads = futex.threads.unwrap();
    assert!((threads.value - 1.8).abs() < 1e-9 && threads.interval.is_some(), "{threads:?}");
    assert!((futex.rate.unwrap().value - 20.1).abs() < 1e-9);
    assert!((futex.mean_queued_us().unwrap() - 10.0).abs() < 1e-9);
    assert_eq!(futex.lengths.values().sum::<i64>(), 200, "one of unknown length");
    assert_eq!(
        (futex.shorter_than_ns(0.5), futex.shorter_than_ns(0.99)),
        (Some(1 << 21), Some(1 << 22))
    );
    assert_eq!(cron.keys, ["cron", "nanosleep"]);
    assert!(cron.threads.unwrap().interval.is_none(), "one host had it");
    assert_eq!(preempted.keys, ["db", "[preempted]"]);
    // Filters are those of samples.
    let service = ColumnFilter::new("service", vec!["cron".into()]).unwrap();
    let selection = Selection { conditions: vec![service], ..Selection::default() };
    engine.select(&selection, None).unwrap();
    assert_eq!(waits(&engine, &[ShareBy::State], 10).unwrap().waits, 1);
}
