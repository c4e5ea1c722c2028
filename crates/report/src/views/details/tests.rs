use pmuscope_profile::Walked;
use pmuscope_profile::views::{DataSums, Weights};
use pmuscope_stats::Interval;

use super::*;
use crate::sheet::Separator;
use crate::{Report as _, Style};

fn table(rows: &[DataRow]) -> Sheet<'_> {
    let all = rows.iter().map(|row| row.sums.samples).sum();
    let limits = RowLimits { rows: None, share: 0.0 };
    sheet(data_fields(all), rows, limits, |row| share_of(row.sums.samples, all))
}

fn row(object: Option<&str>, module: &str, sums: DataSums) -> DataRow {
    DataRow {
        object: object.map(Into::into),
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
        loads: 30,
        stores: 10,
        remote: 5,
        hitm: 7,
    };
    vec![heap(), row(Some("table\u{7}"), "/usr/bin/db", told)]
}

#[test]
fn columns_are_those_that_were_recorded() {
    crate::widths::fits("views-details", |style| table(&[heap()]).text(style));
    insta::assert_snapshot!(table(&[heap()]).text(&Style::PLAIN), @r"
      share  95% CI  samples  DSO     data
    100.00%       -       60  [heap]  [unknown]
    ");
    crate::widths::fits("views-details-2", |style| table(&rows()).text(style));
    insta::assert_snapshot!(table(&rows()).text(&Style::PLAIN), @r"
     share  95% CI  samples  mean weight  max weight  loads  stores  remote  HITM  DSO     data
    60.00%       -       60            -           -      -       -       -     -  [heap]  [unknown]
    40.00%   ±3.12       40          650       1,234     30      10       5     7  db      table\x07
    ");
}

#[test]
fn programs_get_every_column_and_full_names() {
    insta::assert_snapshot!(table(&rows()).delimited(Separator::Comma), @r"
    share,share_low,share_high,samples,weight_mean,weight_max,weight_of,loads,stores,remote,hitm,source_of,module,object
    0.6,,,60,,,0,,,,,0,[heap],
    0.4,0.375,0.4375,40,650,1234,2,30,10,5,7,40,/usr/bin/db,table\x07
    ");
    let rows = rows();
    let json = serde_json::to_value(table(&rows)).unwrap();
    assert_eq!(
        json[1],
        serde_json::json!({
            "share": 0.4, "share_low": 0.375, "share_high": 0.4375, "samples": 40, "weight_mean": 650.0,
            "weight_max": 1234, "weight_of": 2, "loads": 30, "stores": 10, "remote": 5, "hitm": 7,
            "source_of": 40, "module": "/usr/bin/db", "object": "table\u{7}",
        })
    );
    assert!(json[0]["why"].is_string() && json[0]["object"].is_null(), "{json}");
}

#[test]
fn a_row_below_the_limits_is_left_out() {
    let rows = rows();
    let limits = RowLimits { rows: None, share: 0.5 };
    let sheet = sheet(data_fields(100), &rows, limits, |row| share_of(row.sums.samples, 100));
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
        level_text(&AccessRow { kind, samples: 1, weights: Weights::default(), interval: None })
    };
    assert_eq!(text("L3", Some(true), false).unwrap(), "L3 hit");
    assert_eq!(text("RAM", Some(false), true).unwrap(), "remote RAM miss");
    assert_eq!(text("Any cache hit", Some(true), false).unwrap(), "Any cache hit");
}

#[test]
fn nothing_recorded_says_what_to_type() {
    let found = DataAddresses { rows: Vec::new(), samples: Walked::default(), with_address: 0 };
    let profile = crate::top::tests::profile();
    let limits = RowLimits { rows: None, share: 0.0 };
    let view = RecordingView { file: "x.data", profile: &profile, limits };
    let document = data(&found, view);
    assert!(document.nothing().is_some());
    assert!(document.text(&Style::PLAIN).contains("pmuscope record -d"));
    let page = document.page("abc").unwrap();
    assert!(page.contains("pmuscope record -d"));
    assert!(crate::title::tests::of_page(&page).starts_with("Data addresses: "));
}
