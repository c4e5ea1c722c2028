use pmuscope_perfdata::reader::AccessClass;
use pmuscope_profile::views::{AccessBy, Accessor, ClassCounts, DataBy, DataSums, Weights};
use pmuscope_profile::{TasksBy, Walked};
use pmuscope_stats::Interval;

use super::*;
use crate::sheet::Separator;
use crate::{Report as _, Style};

fn found(rows: Vec<DataRow>) -> DataAddresses {
    let with_address = rows.iter().map(|row| row.sums.samples).sum();
    let mut classes = ClassCounts::default();
    rows.iter().for_each(|row| classes.add(&row.sums.classes));
    DataAddresses { rows, with_address, classes, ..DataAddresses::default() }
}

fn table(found: &DataAddresses) -> Sheet<'_> {
    let all = found.with_address;
    let limits = RowLimits::ALL;
    sheet(data_fields(found), &found.rows, limits, |row| share_of(row.sums.samples, all))
}

fn counts(of: &[(AccessClass, u64)]) -> ClassCounts {
    let mut counts = ClassCounts::default();
    for (class, samples) in of {
        (0..*samples).for_each(|_| counts.add(&ClassCounts::one(Some(*class))));
    }
    counts
}

fn row(object: Option<&str>, module: &str, sums: DataSums) -> DataRow {
    DataRow {
        object: object.map(Into::into),
        field: None,
        offset: None,
        accessor: Accessor::default(),
        module: module.into(),
        sums,
        interval: object.map(|_| Interval { low: 0.375, high: 0.4375, level: 0.95 }),
    }
}

fn heap() -> DataRow {
    row(None, "[heap]", DataSums { samples: 60, ..DataSums::default() })
}

fn rows() -> Vec<DataRow> {
    let mut weights = Weights::one(Some(66));
    weights.add(&Weights::one(Some(1234)));
    let told = DataSums {
        samples: 40,
        weights,
        with_source: 40,
        classes: counts(&[
            (AccessClass::LoadL3, 23),
            (AccessClass::LoadLocalHitm, 5),
            (AccessClass::LoadRemoteHitm, 2),
            (AccessClass::StoreL1Hit, 9),
            (AccessClass::StoreL1Miss, 1),
        ]),
        remote: 5,
        hitm: 7,
    };
    vec![heap(), row(Some("table\u{7}"), "/usr/bin/db", told)]
}

#[test]
fn columns_are_those_that_were_recorded() {
    let heap = found(vec![heap()]);
    crate::widths::fits("views-details", |style| table(&heap).text(style));
    insta::assert_snapshot!(table(&heap).text(&Style::PLAIN), @r"
      share  95% CI  samples  DSO     data
    100.00%       -       60  [heap]  [unknown]
    ");
    let all = found(rows());
    crate::widths::fits("views-details-2", |style| table(&all).text(style));
    insta::assert_snapshot!(table(&all).text(&Style::PLAIN), @r"
     share  95% CI  samples  mean weight  max weight  loads  stores  local HITM  remote HITM  store L1 hit  store L1 miss  remote  DSO     data
    60.00%       -       60            -           -      -       -           -            -             -              -       -  [heap]  [unknown]
    40.00%   ±3.75       40          650       1,234     30      10           5            2             9              1       5  db      table\x07
    ");
}

#[test]
fn programs_get_every_column_and_full_names() {
    let all = found(rows());
    insta::assert_snapshot!(table(&all).delimited(Separator::Comma), @r"
    share,share_low,share_high,samples,weight_mean,weight_max,weight_of,loads,stores,local_hitm,remote_hitm,local_peer,remote_peer,store_l1_hit,store_l1_miss,remote,hitm,source_of,module,object
    0.6,,,60,,,0,,,,,,,,,,,0,[heap],
    0.4,0.375,0.4375,40,650,1234,2,30,10,5,2,,,9,1,5,7,40,/usr/bin/db,table\x07
    ");
    let json = serde_json::to_value(table(&all)).unwrap();
    assert_eq!(
        json[1],
        serde_json::json!({
            "share": 0.4, "share_low": 0.375, "share_high": 0.4375, "samples": 40, "weight_mean": 650.0,
            "weight_max": 1234, "weight_of": 2, "loads": 30, "stores": 10, "local_hitm": 5, "remote_hitm": 2,
            "local_peer": null, "remote_peer": null, "store_l1_hit": 9, "store_l1_miss": 1, "remote": 5, "hitm": 7,
            "source_of": 40, "module": "/usr/bin/db", "object": "table\u{7}",
        })
    );
    assert!(json[0]["why"].is_string() && json[0]["object"].is_null(), "{json}");
}

#[test]
fn a_row_below_the_limits_is_left_out() {
    let all = found(rows());
    let limits = RowLimits { share: 0.5, ..RowLimits::ALL };
    let sheet = sheet(data_fields(&all), &all.rows, limits, |row| share_of(row.sums.samples, 100));
    assert_eq!(sheet.left_out(), 1);
    assert!(sheet.text(&Style::PLAIN).ends_with("… 1 more: --percent-limit 0\n"));
}

#[test]
fn the_ends_of_a_branch_are_objects() {
    let end = |function: Option<&str>, address| BranchEnd {
        function: function.map(Into::into),
        address,
        module: "/usr/bin/db".into(),
    };
    let sums = pmuscope_profile::views::BranchSums {
        branches: 4,
        predicted: 3,
        mispredicted: 1,
        ..Default::default()
    };
    let (from, to) = (end(Some("get"), None), end(None, Some(0x40)));
    let rows = [BranchRow { from, to, sums, interval: None }];
    let fields =
        end_fields(|row| &row.from, ["from", "from.function", "from.module", "from.address"])
            .into_iter()
            .chain(end_fields(|row| &row.to, ["to", "to.function", "to.module", "to.address"]));
    let sheet = Sheet::new(fields.collect(), &rows, 1);
    crate::widths::fits("views-details-3", |style| sheet.text(style));
    insta::assert_snapshot!(sheet.text(&Style::PLAIN), @r"
    from      to
    get [db]  0x40 [db]
    ");
    assert_eq!(
        serde_json::to_value(&sheet).unwrap()[0],
        serde_json::json!({
            "from": {"function": "get", "module": "/usr/bin/db", "address": null},
            "to": {"function": null, "module": "/usr/bin/db", "address": "0x40"},
        })
    );
    insta::assert_snapshot!(sheet.delimited(Separator::Tab), @r"
    from_function	from_module	from_address	to_function	to_module	to_address
    get	/usr/bin/db			/usr/bin/db	0x40
    ");
}

#[test]
fn an_access_says_level_and_hit_once() {
    use pmuscope_profile::views::AccessKind;
    let text = |level: &'static str, hit, remote| {
        let kind = AccessKind { level: Some(level), hit, remote, ..AccessKind::default() };
        let (accessor, weights) = (Accessor::default(), Weights::default());
        level_text(&AccessRow { kind, accessor, samples: 1, weights, interval: None })
    };
    assert_eq!(text("L3", Some(true), false).unwrap(), "L3 hit");
    assert_eq!(text("RAM", Some(false), true).unwrap(), "remote RAM miss");
    assert_eq!(text("Any cache hit", Some(true), false).unwrap(), "Any cache hit");
}

#[test]
fn nothing_recorded_says_what_to_type() {
    let found = DataAddresses { samples: Walked::default(), ..DataAddresses::default() };
    let profile = crate::top::tests::profile();
    let limits = RowLimits::ALL;
    let view = RecordingView { file: "x.data", profile: &profile, limits };
    let document = data(&found, view);
    assert!(document.nothing().is_some());
    assert!(document.text(&Style::PLAIN).contains("pmuscope record -d"));
    let page = document.page("abc").unwrap();
    assert!(page.contains("pmuscope record -d"));
    assert!(crate::title::tests::of_page(&page).starts_with("Data addresses: "));
}

/// Fields, or offsets where none is known; who accessed them.
#[test]
fn rows_say_where_in_a_variable_and_who() {
    let code = |function: Option<&str>, address| BranchEnd {
        function: function.map(Into::into),
        address,
        module: "/usr/bin/db".into(),
    };
    let who = |code, tid| Accessor {
        code: Some(code),
        command: Some("worker".into()),
        pid: Some(40),
        tid: Some(tid),
        cpu: Some(3),
        node: Some(1),
    };
    let stores = DataSums {
        samples: 30,
        with_source: 30,
        classes: counts(&[(AccessClass::StoreOther, 30)]),
        ..DataSums::default()
    };
    let head = DataRow {
        field: Some(".head".into()),
        offset: Some(8),
        accessor: who(code(Some("push"), None), 41),
        ..row(Some("queue"), "/usr/bin/db", stores)
    };
    let unnamed = DataRow {
        offset: Some(16),
        accessor: who(code(None, Some(0x1234)), 42),
        ..row(Some("counters"), "/usr/bin/db", stores)
    };
    let tasks = Some(TasksBy::Thread);
    let accessor = AccessBy { function: true, tasks, cpu: true, node: true };
    let all = found(vec![head, unnamed]);
    let all = DataAddresses { by: DataBy { field: true, accessor }, ..all };
    crate::widths::fits("views-details-4", |style| table(&all).text(style));
    // No loads were sampled, and nothing says where stores went: no columns for these.
    insta::assert_snapshot!(table(&all).text(&Style::PLAIN), @r"
     share       95% CI  samples  stores  remote  node  CPU  pid  tid  command  function   DSO  data
    50.00%  37.50–43.75       30      30       0     1    3   40   41  worker   push       db   queue.head
    50.00%  37.50–43.75       30      30       0     1    3   40   42  worker   db+0x1234  db   counters+16
    ");
    insta::assert_snapshot!(table(&all).delimited(Separator::Comma), @r"
    share,share_low,share_high,samples,weight_mean,weight_max,weight_of,loads,stores,local_hitm,remote_hitm,local_peer,remote_peer,store_l1_hit,store_l1_miss,remote,hitm,source_of,node,cpu,pid,tid,command,function,code_module,code_address,module,object,field,offset
    0.5,0.375,0.4375,30,,,0,,30,,,,,,,0,0,30,1,3,40,41,worker,push,/usr/bin/db,,/usr/bin/db,queue,.head,8
    0.5,0.375,0.4375,30,,,0,,30,,,,,,,0,0,30,1,3,40,42,worker,,/usr/bin/db,0x1234,/usr/bin/db,counters,,16
    ");
}
