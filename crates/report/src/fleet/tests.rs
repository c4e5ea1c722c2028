//! Fleet answers in every form.

use pmuscope_stats::Interval;
use serde_json::Value;

use super::*;
use crate::report::Report;
use crate::sheet::Separator;
use crate::{Style, to_json};

fn head(hosts: u64) -> FleetHead {
    FleetHead {
        dataset: "profiles".into(),
        selection: "service shop".into(),
        event: "cpu-clock".into(),
        from: Some("2026-11-26 05:00:00".into()),
        until: Some("2026-11-26 06:00:00".into()),
        hosts,
        recorded: Some(0.98),
        samples: 12_345,
        lost: Some(7),
        notes: Vec::new(),
        no_ci: false,
        counted: FleetCounted::Samples,
    }
}

fn with(value: f64, low: f64, high: f64) -> Option<(f64, Option<Interval>)> {
    Some((value, Some(Interval { low, high, level: 0.95 })))
}

fn json(report: &impl Report) -> Value {
    serde_json::from_str(&to_json(&report.json()).unwrap()).unwrap()
}

#[test]
fn shares_have_their_intervals_in_every_form_and_foreign_names_stay_text() {
    let rows = [
        FleetShare {
            keys: vec!["<script>".into(), String::new()],
            samples: 100,
            hosts: 3,
            share: with(0.25, 0.2, 0.31),
            cores: with(2.0, 1.5, 2.7),
        },
        FleetShare {
            keys: vec!["g".into(), "/bin/b".into()],
            samples: 1,
            hosts: 1,
            share: Some((0.001, None)),
            cores: None,
        },
    ];
    let (head, by) = (head(3), ["function", "module"]);
    let view = FleetSharesView {
        head: &head,
        by: &by,
        with_callees: false,
        rows: &rows,
        cores: with(8.0, 7.0, 9.0),
        price: Some(0.5),
        stacks: None,
    };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    cpu-clock, 3 hosts, 12,345 samples, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 98.0% recorded
    service shop

    CPUs in use: 8.00 (95% CI 7.00 to 9.00)

      self           95% CI  cores      95% CI  cost/day  hosts  samples  function  module
    25.00%  20.00 to 31.00%   2.00  1.5 to 2.7      24.0      3      100  <script>  -
     0.10%                -      -           -         -      1        1  g         /bin/b
    "#);
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @r#"
    share,share_low,share_high,cores,cores_low,cores_high,cost_per_day,hosts,samples,function,module
    0.25,0.2,0.31,2,1.5,2.7,24,3,100,<script>,
    0.001,,,,,,,1,1,g,/bin/b
    "#);
    let value = json(&view);
    assert_eq!((&value["rows"][0]["share_low"], &value["cores_high"]), (&0.2.into(), &9.0.into()));
    assert_eq!(value["rows"][1]["cores"], Value::Null);
    let page = view.page("c").unwrap();
    assert!(page.contains("&lt;script&gt;") && page.contains("service shop"), "{page}");
}

#[test]
fn changes_say_what_is_known_and_why_not() {
    let change = |key: &str, samples: [u64; 2], ratio, differs: Option<bool>| FleetChange {
        key: key.into(),
        samples,
        shares: samples.map(|samples| (samples > 0).then_some(samples as f64 / 1000.0)),
        ratio,
        p: differs.map(|differs| if differs { 0.001 } else { 0.5 }),
        differs,
    };
    let rows = [
        change("more", [100, 150], with(1.5, 1.2, 1.9), Some(true)),
        change("same", [100, 101], with(1.01, 0.9, 1.2), Some(false)),
        change("new", [0, 50], None, None),
        change("few", [5, 6], Some((1.2, None)), None),
    ];
    let side = |name: &str| FleetSide {
        name: name.into(),
        hosts: 4,
        samples: 1000,
        recorded_s: 300.0,
        cores_per_host: Some(1.5),
    };
    let (head, sides) = (head(4), [side("version 1"), side("version 2")]);
    let cost = change("", [1000, 1000], with(1.1, 1.05, 1.15), Some(true));
    let view = FleetDiffView {
        head: &head,
        sides: &sides,
        paired: Some(4),
        cost: Some(&cost),
        rows: &rows,
    };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    cpu-clock, 4 hosts, 12,345 samples, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 98.0% recorded
    service shop

    before  version 1: 4 hosts, 1,000 samples, 1.50 CPUs in use per host
    after   version 2: 4 hosts, 1,000 samples, 1.50 CPUs in use per host
    compared: 4 hosts that ran both, each with itself
    CPUs per host: +10.0% (95% CI +5.0% to +15.0%): more

    change            95% CI  verdict       before   after  function
    +50.0%  +20.0% to +90.0%  more          10.00%  15.00%  more
     +1.0%  -10.0% to +20.0%  inconclusive  10.00%  10.10%  same
         -                 -  only after         -   5.00%  new
    +20.0%                 -  inconclusive   0.50%   0.60%  few
    "#);
    let value = json(&view);
    assert_eq!(value["rows"][0]["verdict"], "more");
    assert_eq!(value["rows"][2]["verdict"], Value::Null);
    assert_eq!(value["cost"][0]["ratio"], 1.1);
    assert!(view.page("c").unwrap().contains("version 1 and version 2"));
}

#[test]
fn hosts_have_their_gaps_and_two_hosts_no_interval() {
    let host = |name: &str, missing: Option<u64>| FleetHost {
        host: name.into(),
        cpus: Some(8),
        recorded_s: 1800.0,
        recorded: Some(0.5),
        cores: Some(3.25),
        samples: 4000,
        lost: None,
        throttled: 2,
        own_cores: missing.map(|_| 0.006),
        missing,
    };
    let rows = [host("a", Some(12)), host("b", None)];
    let head = FleetHead { recorded: Some(0.5), ..head(2) };
    let view = FleetHostsView { head: &head, rows: &rows };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    cpu-clock, 2 hosts, 12,345 samples, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 50.0% recorded
    service shop
    warning: only 50.0% of the time was recorded on these hosts; the rest is not in any figure

    host  CPUs  recorded  cores  samples  lost  throttled  agent  missing
    a        8    50.00%   3.25    4,000     -          2  0.60%       12
    b        8    50.00%   3.25    4,000     -          2      -        -
    "#);
    assert_eq!(json(&view)["rows"][1]["missing"], Value::Null);
    assert!(head.summary("x").notes.iter().any(|note| note.text.starts_with("no CI")));
}

#[test]
fn any_rows_keep_their_types() {
    let column = |name: &str, values| AnyColumn { name: name.into(), values };
    let table = AnyTable {
        columns: vec![
            column("who", AnyValues::Texts(vec![Some("a".into()), None])),
            column("n", AnyValues::Whole(vec![Some(-3), Some(1_000_000)])),
            column("x", AnyValues::Numbers(vec![Some(0.5), None])),
        ],
        rows: 2,
    };
    insta::assert_snapshot!(table.text(&Style::PLAIN), @r#"
    who        n      x
    a         -3  0.500
    -    1000000      -
    "#);
    assert_eq!(table.delimited(Separator::Tab).unwrap(), "who\tn\tx\na\t-3\t0.5\n\t1000000\t\n");
    // Columns keep their order, and what is missing is no empty text.
    let rows = r#"{"rows":[{"who":"a","n":-3,"x":0.5},{"who":null,"n":1000000,"x":null}]}"#;
    assert_eq!(serde_json::to_string(&table.json()).unwrap(), rows);
}

#[test]
fn waits_say_how_many_threads_wait_and_bound_their_lengths() {
    let rows = [
        FleetWaitRow {
            keys: vec!["db".into(), "futex_do_wait".into(), "<b>lock".into()],
            threads: with(12.5, 10.0, 15.5),
            rate: with(250.0, 200.0, 310.0),
            waits: 2500,
            mean_s: Some(0.05),
            run_queue_s: Some(0.002),
            median_below_s: Some(0.033_554_432),
            p99_below_s: Some(0.134_217_728),
            hosts: 3,
        },
        FleetWaitRow {
            keys: vec!["cron".into(), "[preempted]".into(), String::new()],
            threads: Some((0.0001, None)),
            rate: Some((0.1, None)),
            waits: 1,
            mean_s: Some(0.001),
            run_queue_s: None,
            median_below_s: None,
            p99_below_s: None,
            hosts: 1,
        },
    ];
    let by = ["service", "wait", "function"];
    let head = FleetHead {
        event: "off-cpu:blocked".into(),
        recorded: Some(0.017),
        counted: FleetCounted::Waits,
        ..head(3)
    };
    let view = FleetWaitsView { head: &head, by: &by, rows: &rows };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @"
    off-cpu:blocked, 3 hosts, 12,345 waits, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 1.7% recorded
    service shop

     threads    95% CI  waits/s     mean  run queue    median      p99  waits  hosts  service  wait           function
        12.5  10 to 16      250  50.0 ms    2.00 ms  <33.6 ms  <134 ms  2,500      3  db       futex_do_wait  <b>lock
    0.000100         -    0.100  1.00 ms          -         -        -      1      1  cron     [preempted]    -
    ");
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @"
    threads,threads_low,threads_high,waits_per_s,waits_per_s_low,waits_per_s_high,mean_s,run_queue_s,median_below_s,p99_below_s,waits,hosts,service,wait,function
    12.5,10,15.5,250,200,310,0.05,0.002,0.033554432,0.134217728,2500,3,db,futex_do_wait,<b>lock
    0.0001,,,0.1,,,0.001,,,,1,1,cron,[preempted],
    ");
    assert_eq!(json(&view)["rows"][0]["threads_low"], 10.0);
    let page = view.page("").unwrap();
    assert!(page.contains("&lt;b&gt;lock") && !page.contains("<b>lock"));
}

/// Time off the CPU is of threads, not of CPUs.
#[test]
fn shares_of_time_off_the_cpu_are_of_threads() {
    let rows = [FleetShare {
        keys: vec!["db".into()],
        samples: 100,
        hosts: 3,
        share: with(1.0, 1.0, 1.0),
        cores: with(2.0, 1.5, 2.7),
    }];
    let head = FleetHead { counted: FleetCounted::Waits, recorded: Some(0.017), ..head(3) };
    let view = FleetSharesView {
        head: &head,
        by: &["service"],
        with_callees: false,
        rows: &rows,
        cores: with(2.0, 1.5, 2.7),
        price: None,
        stacks: None,
    };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @"
    cpu-clock, 3 hosts, 12,345 waits, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 1.7% recorded
    service shop

    threads off the CPU: 2.00 (95% CI 1.50 to 2.70)

      share             95% CI  threads      95% CI  hosts  waits  service
    100.00%  100.00 to 100.00%     2.00  1.5 to 2.7      3    100  db
    ");
    let value = json(&view);
    assert_eq!((&value["threads"], &value["cores"]), (&2.0.into(), &Value::Null));
    assert_eq!(value["rows"][0]["threads_high"], 2.7);
}

#[test]
fn metrics_have_intervals_over_hosts_or_say_that_they_are_estimates() {
    let cell = |value, interval: Option<(f64, f64)>, at_most| FleetMetricCell {
        value: Some((value, interval.map(|(low, high)| Interval { low, high, level: 0.95 }))),
        at_most,
    };
    let missing = FleetMetricCell { value: None, at_most: None };
    let row = |function: &str, metrics| FleetMetricsRow {
        keys: vec![function.into(), "/bin/<b>".into()],
        counted: 1200,
        hosts: 3,
        metrics,
    };
    let rows = [
        row(
            "parse",
            vec![cell(1.25, Some((1.2, 1.3)), None), cell(0.0, None, Some(0.02)), missing],
        ),
        row("", vec![cell(2.5, None, None), cell(3.0, Some((2.0, 4.5)), None), missing]),
    ];
    let column = |name: &str, about: &str| FleetMetricColumn {
        name: name.into(),
        unit: "x".into(),
        about: about.into(),
    };
    let columns = [
        column("CPI", "cycles per instruction"),
        column("BM/KI", "mispredicted branches"),
        column("CM/KI", "cache misses"),
    ];
    let total = row("", vec![cell(1.5, Some((1.4, 1.6)), None), missing, missing]);
    let head = FleetHead { event: "windows".into(), counted: FleetCounted::Windows, ..head(3) };
    let view = FleetMetricsView {
        head: &head,
        of: FleetMetricsOf::Windows,
        by: &["function", "module"],
        event_sets: &["branch-misses,cycles,instructions".into()],
        columns: &columns,
        rows: &rows,
        total: &total,
    };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @"
    windows, 3 hosts, 12,345 windows, 7 lost
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 98.0% recorded
    service shop

    counted: branch-misses,cycles,instructions
    all functions: CPI 1.50 (1.40 to 1.60)

    windows  hosts                  CPI                BM/KI  function  module
      1,200      3  1.25 (1.20 to 1.30)           0 (≤0.020)  parse     /bin/<b>
      1,200      3                ~2.50  3.00 (2.00 to 4.50)  -         /bin/<b>
    ");
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @"
    windows,hosts,CPI,CPI_low,CPI_high,CPI_at_most,BM/KI,BM/KI_low,BM/KI_high,BM/KI_at_most,function,module
    1200,3,1.25,1.2,1.3,,0,,,0.02,parse,/bin/<b>
    1200,3,2.5,,,,3,2,4.5,,,/bin/<b>
    ");
    let value = json(&view);
    assert_eq!(
        (&value["rows"][0]["CPI_low"], &value["total"][0]["CPI"]),
        (&1.2.into(), &1.5.into())
    );
    assert_eq!(value["columns"][2]["name"], "CM/KI");
    let page = view.page("").unwrap();
    assert!(page.contains("/bin/&lt;b&gt;") && !page.contains("/bin/<b>"));
}

#[test]
fn runs_have_their_unit_and_name_hosts_that_stand_out() {
    let rows = [
        FleetRunRow {
            keys: vec!["gzip".into(), String::new()],
            name: "wall".into(),
            part: String::new(),
            unit: "s".into(),
            origin: "clock".into(),
            mean: with(1.25, 1.2, 1.3),
            hosts: 50,
            runs: 250,
            standing_out: ["web-7", "<b>", "web-9"].map(|host| (host.into(), Some(1.5))).into(),
        },
        FleetRunRow {
            keys: vec!["gzip".into(), String::new()],
            name: "cycles".into(),
            part: ";cpu=0;".into(),
            unit: String::new(),
            origin: "hardware".into(),
            mean: Some((12_345.0, None)),
            hosts: 2,
            runs: 10,
            standing_out: Vec::new(),
        },
    ];
    let head = FleetHead {
        counted: FleetCounted::Runs,
        recorded: None,
        lost: None,
        samples: 250,
        ..head(50)
    };
    let by = ["benchmark", "arm"];
    let view = FleetRunsView { head: &head, by: &by, rows: &rows, all: 3 };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    50 hosts, 250 runs
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC
    service shop

      mean        95% CI  unit  hosts  runs  value   part     origin    benchmark  stands out
      1.25  1.20 to 1.30  s        50   250  wall    -        clock     gzip       web-7 ×1.50, <b> ×1.50, 1 more
    12,300             -  -         2    10  cycles  ;cpu=0;  hardware  gzip       -
    … 1 more: --limit all
    "#);
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @r#"
    mean,mean_low,mean_high,unit,hosts,runs,name,part,origin,benchmark,arm,outliers,outlier,outlier_ratio
    1.25,1.2,1.3,s,50,250,wall,,clock,gzip,,3,web-7,1.5
    12345,,,,2,10,cycles,;cpu=0;,hardware,gzip,,0,,
    "#);
    let value = json(&view);
    assert_eq!(
        (&value["rows"][0]["mean_low"], &value["rows"][1]["mean_low"]),
        (&1.2.into(), &Value::Null)
    );
    assert_eq!((&value["lost"], &value["recorded"]), (&Value::Null, &Value::Null));
    assert_eq!(value["rows"][0]["arm"], Value::Null);
    let page = view.page("c").unwrap();
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "host names stay text");
    assert!(!page.contains("of all services"), "nothing is lost of runs");
}

#[test]
fn modules_that_got_names_later_say_where_from_and_why_not() {
    use pmuscope_profile::SymbolState;
    let row = |module: &str, addresses, named, state, file: Option<&str>| SymbolizedModule {
        build_id: "b2bcad6d2356b2bcad6d2356b2bcad6d2356b2bc".into(),
        module: module.into(),
        addresses,
        named,
        state,
        file: file.map(str::to_owned),
    };
    let unreadable = SymbolState::Unreadable("debug file /d/b2.debug: no ELF".into());
    let rows = [
        row("/usr/bin/a", 2000, 1990, SymbolState::Found, Some("/d/a.debug")),
        row("/usr/bin/<b>", 30, 0, unreadable, None),
        row("/usr/bin/c", 20, 0, SymbolState::DebugFileDiffers("/d/c.debug".into()), None),
        row("/usr/bin/d", 10, 0, SymbolState::FileMissing, None),
    ];
    let view =
        SymbolizeView { dataset: "profiles", dry_run: false, files: 4, rows: &rows, limit: None };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    2,060 addresses without a name in 4 modules: 1,990 named, 4 files written

    addresses  named  build id      symbols           from        DSO
        2,000  1,990  b2bcad6d2356  found             /d/a.debug  /usr/bin/a
           30      0  b2bcad6d2356  file unreadable   -           /usr/bin/<b>
           20      0  b2bcad6d2356  other debug file  -           /usr/bin/c
           10      0  b2bcad6d2356  file missing      -           /usr/bin/d

    /usr/bin/<b>: debug file /d/b2.debug: no ELF
    /usr/bin/c: /d/c.debug is of another build and was not used
    "#);
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @r#"
    addresses,named,build_id,state,file,reason,module
    2000,1990,b2bcad6d2356b2bcad6d2356b2bcad6d2356b2bc,found,/d/a.debug,,/usr/bin/a
    30,0,b2bcad6d2356b2bcad6d2356b2bcad6d2356b2bc,unreadable,,debug file /d/b2.debug: no ELF,/usr/bin/<b>
    20,0,b2bcad6d2356b2bcad6d2356b2bcad6d2356b2bc,debug_file_differs,,/d/c.debug is of another build and was not used,/usr/bin/c
    10,0,b2bcad6d2356b2bcad6d2356b2bcad6d2356b2bc,file_missing,,,/usr/bin/d
    "#);
    let value = json(&view);
    assert_eq!((&value["addresses"], &value["named"]), (&2060.into(), &1990.into()));
    assert_eq!(value["rows"][3]["file"], Value::Null);
    assert!(rows[1].has_unusable_file() && !rows[2].has_unusable_file());
    let dry = SymbolizeView { dry_run: true, files: 0, rows: &rows[..1], ..view };
    assert!(dry.text(&Style::PLAIN).starts_with(
        "2,000 addresses without a name in 1 module: 1,990 can be named, nothing written"
    ));
    let none = SymbolizeView { rows: &[], limit: Some(1), ..dry };
    assert!(none.text(&Style::PLAIN).starts_with("nothing to name"));
}

#[test]
fn locality_leads_with_its_share_and_names_are_text() {
    let row = |service: &str, locality, memory_bytes| FleetLocalityRow {
        keys: vec![service.into()],
        locality,
        memory_bytes,
        remote_bytes: memory_bytes / 4.0,
        idle_bytes: 0.0,
        cpu_by_node: (memory_bytes > 0.0).then(|| vec![0.25, 0.75]),
        memory_by_node: (memory_bytes > 0.0).then(|| vec![1.0, 0.0]),
        hosts: 3,
    };
    let rows = [row("<db>", with(0.75, 0.7, 0.8), 4_294_967_296.0), row("idle", None, 0.0)];
    let counted = FleetCounted::Processes;
    let head = FleetHead { event: "locality".into(), samples: 12, counted, ..head(3) };
    let view = FleetLocalityView { head: &head, by: &["service"], rows: &rows };
    insta::assert_snapshot!(view.text(&Style::PLAIN), @r#"
    locality, 3 hosts, 12 processes, 7 left out
    2026-11-26 05:00:00 to 2026-11-26 06:00:00 UTC, 98.0% recorded
    service shop

    local          95% CI  memory  remote  idle  CPU by node  memory by node  hosts  service
    75.0%  70.0% to 80.0%   4 GiB   1 GiB   0 B      25% 75%         100% 0%      3  <db>
        -               -     0 B     0 B   0 B            -               -      3  idle
    "#);
    insta::assert_snapshot!(view.delimited(Separator::Comma).unwrap(), @r#"
    local,local_low,local_high,memory_bytes,remote_bytes,idle_bytes,cpu_by_node,memory_by_node,hosts,service
    0.75,0.7,0.8,4294967296,1073741824,0,25% 75%,100% 0%,3,<db>
    ,,,0,0,0,,,3,idle
    "#);
    let value = json(&view);
    assert_eq!(
        (&value["rows"][0]["local_low"], &value["rows"][1]["local"]),
        (&0.7.into(), &Value::Null)
    );
    let page = view.page("").unwrap();
    assert!(page.contains("&lt;db&gt;") && !page.contains("<db>"), "service names stay text");
}
