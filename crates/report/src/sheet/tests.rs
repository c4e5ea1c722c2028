use proptest::prelude::*;

use super::*;
use crate::Style;
use crate::markup::html;

struct Row {
    name: &'static str,
    hits: Option<u64>,
}

fn sheet(rows: &[Row]) -> Sheet<'_> {
    let all: u64 = rows.iter().filter_map(|row| row.hits).sum();
    let interval = Interval { low: 0.25, high: 0.5, level: 0.95 };
    let share = move |row: &Row| row.hits.unwrap_or(0) as f64 / all.max(1) as f64;
    let fields = vec![
        Field::share("share", move |row: &Row| (share(row), row.hits.map(|_| interval))),
        Field::count("hits", |row: &Row| row.hits),
        Field::number("rate", |row: &Row| row.hits.map(|hits| hits as f64 / 3.0)).head("per s"),
        Field::count("never", |_: &Row| None).only_if_measured(),
        Field::address("where.address", |_: &Row| Some(0x40)).for_programs(),
        Field::flag("where.known", |row: &Row| row.hits.is_some()).for_programs(),
        Field::text("name", |row: &Row| Some(row.name)),
    ];
    Sheet::new(fields, rows, rows.len())
}

const ROWS: [Row; 2] =
    [Row { name: "<b>\u{1b}[31m", hits: Some(7) }, Row { name: "=a,\tb", hits: None }];

/// One declaration is a column in all forms: the same names, the same values.
#[test]
fn a_field_is_in_every_form() {
    crate::widths::fits("sheet", |style| sheet(&ROWS).text(style));
    insta::assert_snapshot!(sheet(&ROWS).text(&Style::PLAIN), @r"
      share       95% CI  hits  per s  name
    100.00%  25.00–50.00     7   2.33  <b>\x1b[31m
      0.00%            -     -      -  =a,\tb
    ");
    insta::assert_snapshot!(sheet(&ROWS).delimited(Separator::Comma), @r#"
    share,share_low,share_high,hits,rate,never,where_address,where_known,name
    1,0.25,0.5,7,2.3333333333333335,,0x40,true,<b>\x1b[31m
    0,,,,,,0x40,false,"'=a,\tb"
    "#);
    insta::assert_snapshot!(sheet(&ROWS).delimited(Separator::Tab), @r"
    share	share_low	share_high	hits	rate	never	where_address	where_known	name
    1	0.25	0.5	7	2.3333333333333335		0x40	true	<b>\x1b[31m
    0						0x40	false	'=a,\tb
    ");
    insta::assert_snapshot!(serde_json::to_string_pretty(&sheet(&ROWS[..1])).unwrap(), @r#"
    [
      {
        "share": 1.0,
        "share_low": 0.25,
        "share_high": 0.5,
        "hits": 7,
        "rate": 2.3333333333333335,
        "never": null,
        "where": {
          "address": "0x40",
          "known": true
        },
        "name": "<b>\u001b[31m"
      }
    ]
    "#);
    let html = sheet(&ROWS).html().into_string();
    assert!(html.contains("<td class=\"name\">&lt;b&gt;\\x1b[31m</td>"), "{html}");
    assert!(html.contains("<th scope=\"col\" class=\"num\">per s</th>"), "{html}");
    assert!(!html.contains("never"), "{html}");
}

/// A total is a row for people; JSON has it as an object, if asked, and fields of an object wherever they stand.
#[test]
fn a_total_is_the_last_row_for_people() {
    let fields = || {
        vec![
            Field::estimate("before.value", |row: &Row| row.hits.map(|hits| (hits as f64, None)))
                .spaced(),
            Field::text("name", |row: &Row| Some(row.name)).names_rows(),
            Field::count("before.hits", |row: &Row| row.hits).absent_if_missing(),
            Field::lines("seen", |row: &Row| vec![row.name.to_owned(); 2])
                .sorted_by(|row| row.hits.map(|hits| hits as f64))
                .for_people(),
            Field::drawn("picture", |_: &Row| html! { svg {} }),
            Field::number("rate", |row: &Row| row.hits.map(|hits| hits as f64 / 3.0))
                .tinted(|_| "#fff6c9".to_owned())
                .painted(|_| Paint::Dim)
                .only_in(&[SheetForm::Page]),
        ]
    };
    let rows = [Row { name: "<a>", hits: Some(7) }, Row { name: "b", hits: Some(2) }];
    let total = Row { name: "", hits: None };
    let sheet = Sheet::totalled(fields(), &rows, 3, &total);
    crate::widths::fits("sheet-2", |style| sheet.text(style));
    insta::assert_snapshot!(sheet.text(&Style::PLAIN), @r"
    before.value  name        before.hits                   seen
           ~7.00  <a>                   7               <a>; <a>
           ~2.00  b                     2                   b; b
                                           … 1 more: --limit all
               -  all 3 rows            -                     ;
    ");
    insta::assert_snapshot!(sheet.delimited(Separator::Comma), @r"
    before,before low,before high,name,before_hits
    7,,,<a>,7
    2,,,b,2
    ");
    insta::assert_snapshot!(serde_json::to_string(&sheet).unwrap(), @r#"[{"before":{"value":7.0,"low":null,"high":null,"hits":7},"name":"<a>"},{"before":{"value":2.0,"low":null,"high":null,"hits":2},"name":"b"}]"#);
    let object = SheetObject(Sheet::new(fields(), [&total], 1));
    insta::assert_snapshot!(serde_json::to_string(&object).unwrap(), @r#"{"before":{"value":null,"low":null,"high":null},"name":""}"#);
    let html = sheet.into_owned().html().into_string();
    for part in [
        "<td class=\"num\" data-v=\"7\"><div class=\"line\">&lt;a&gt;</div>",
        "<td><svg></svg></td>",
        "<th scope=\"col\" class=\"fixed\">picture</th>",
        "<td class=\"num dim tint\" data-v=\"0.6666666666666666\" style=\"--t:#fff6c9\">0.667</td>",
        "1 more row left out",
        "all 3 rows",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
}

/// RFC 4180, as a reader takes it.
fn read(line: &str, separator: Separator) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            c if c == separator.char() && !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

proptest! {
    /// Whatever a name holds, it stays one field of one line, and no spreadsheet takes it for a formula.
    #[test]
    fn a_text_is_one_field(
        texts in prop::collection::vec("[-=+@,\"'a\t\r\n\u{0}\u{1b}\u{7f}\u{2028}\u{202e}é]{0,6}", 1..4),
    ) {
        for separator in [Separator::Comma, Separator::Tab] {
            let mut line = String::new();
            for (at, text) in texts.iter().enumerate() {
                if at > 0 {
                    line.push(separator.char());
                }
                push_field(&mut line, separator, text);
            }
            let unsafe_ones = line.chars().filter(|&c| c != '\t' && crate::escape::is_unsafe(c));
            prop_assert_eq!(unsafe_ones.count(), 0);
            let fields = read(&line, separator);
            prop_assert_eq!(fields.len(), texts.len());
            for (field, text) in fields.iter().zip(&texts) {
                let text = crate::escape(text);
                prop_assert_eq!(field.strip_prefix('\'').filter(|_| !text.starts_with('\'')).unwrap_or(field), &*text);
                prop_assert!(!field.starts_with(['=', '+', '@', '-']));
            }
        }
    }

    /// A minus before a number is no formula.
    #[test]
    fn a_number_stays_a_number(value in any::<f64>()) {
        let mut field = String::new();
        push_field(&mut field, Separator::Comma, &value.to_string());
        prop_assert_eq!(field, value.to_string());
    }
}

#[test]
fn what_shows_the_rows_that_are_left_out_is_what_left_them_out() {
    let limits = |rows| RowLimits { rows, share: 0.02, ..RowLimits::ALL };
    let of = |rows| {
        let all = sheet(&ROWS);
        Sheet { left_out: 3, ..all }.limited_by(limits(rows))
    };
    let text = |rows| of(rows).text(&Style::PLAIN);
    assert!(text(Some(2)).contains("… 3 more: --limit all"), "{}", text(Some(2)));
    assert!(text(None).contains("… 3 more: --percent-limit 0"), "{}", text(None));
    let page = of(None).html().into_string();
    assert!(page.contains("3 more rows left out: --percent-limit 0 shows them"), "{page}");
}
