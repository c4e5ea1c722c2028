//! The page of counts made by hand.

use super::*;
use pmuscope_profile::{CpuLosses, LossBlock};

use crate::Note;
use crate::number::percent;
use crate::sample::{self, MadeSample};

fn summary() -> Summary {
    Summary {
        title: "<script>alert(1)</script>.data".into(),
        facts: vec![Fact {
            name: "Lost",
            value: "12".into(),
            detail: "a \"b\" & c".into(),
            warning: true,
        }],
        notes: vec![Note { warning: true, text: "12 records <were> lost.".into() }],
        command: "pmuscope record -- sh -c 'a && b'".into(),
    }
}

fn page(made: &MadeSample, limits: PageLimits) -> String {
    html_page(&made.source(), &summary(), limits, &[], "abc<1>")
}

/// Cells of each row of the table of functions.
fn rows(page: &str) -> Vec<Vec<String>> {
    let table = page.split("<table class=\"sortable functions named\"").nth(1).unwrap();
    let body = table.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let cells = |row: &str| {
        let cells = row.split("<td").skip(1);
        cells
            .map(|cell| {
                let contents = cell.split_once('>').unwrap().1.split("</td>").next().unwrap();
                // Behind the dot in the color of the module.
                contents.rsplit("</i> ").next().unwrap().to_owned()
            })
            .collect()
    };
    body.split("<tr>").skip(1).map(cells).collect()
}

#[test]
fn the_table_is_there_without_a_script() {
    let page = page(&sample::made(), PageLimits::default());
    let rows: Vec<String> = rows(&page).iter().map(|row| row.join(" | ")).collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    29.17% | - | 50.00% | 35 | my app | my app | memcpy&lt;T&gt; (inlined into main)
    25.00% | - | 25.00% | 30 | my app | my app | recurse
    20.83% | - | 20.83% | 25 | my app | [kernel.kallsyms] | copy_page
    16.67% | - | 16.67% | 20 | &lt;b&gt;evil&lt;/b&gt; | =1.so | [unknown]
    8.33% | - | 83.33% | 10 | my app | my app | main
    ");
}

#[test]
fn lost_samples_have_a_column_where_some_were_lost() {
    let whole = page(&sample::made(), PageLimits::default());
    assert!(!whole.contains("±lost"), "nothing was lost");
    let mut made = sample::made();
    (made.events[0].samples, made.events[0].lost_at_most) = (120, 30);
    let page = page(&made, PageLimits::default());
    assert!(page.contains(">±lost</th>") && page.contains("the most that lost samples can change"));
    // 35 of 120 samples: 35 to 65 of 150, which is 14.17 points more at most.
    let row = &rows(&page)[0];
    assert_eq!((&*row[0], &*row[2]), ("29.17%", "14.17"), "{row:?}");
}

/// What the script draws the graph of callers from.
fn callers(page: &str) -> serde_json::Value {
    let data = page.split("data-form=\"callers\">").nth(1).unwrap();
    serde_json::from_str(data.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn functions_have_their_self_shares_in_the_graph_of_callers() {
    let page = page(&sample::made(), PageLimits::default());
    let data = callers(&page);
    let numbers: Vec<u64> =
        data["boxes"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
    let total = data["total"].as_u64().unwrap() as f64;
    let first = numbers.chunks(4).filter(|one| one[1] == 1);
    let first: Vec<(String, String)> = first
        .map(|one| {
            let name = data["names"][one[0] as usize][0].as_str().unwrap().to_owned();
            (name, percent(one[2] as f64 / total, 2))
        })
        .collect();
    let plain = |cell: &String| cell.replace("&lt;", "<").replace("&gt;", ">");
    let name = |cell: &String| plain(cell).split(" (inlined").next().unwrap().to_owned();
    let rows = rows(&page);
    let table = rows.iter().map(|row| (name(&row[6]), row[0].clone()));
    let named = |(name, share): (String, String)| (name.replace("[unknown]", "[=1.so]"), share);
    assert_eq!(first, table.map(named).collect::<Vec<_>>());
    // A page without the script shows callees, whole.
    assert!(page.contains("<div class=\"tools\" hidden=\"\"><span class=\"ways\""));
    assert!(page.contains("<span data-way=\"callers\" hidden>"));
}

#[test]
fn a_switch_is_there_only_where_callers_were_recorded() {
    let mut made = sample::made();
    // All samples of the program are in its outermost function.
    let outermost = made.counts.cells[0].stack;
    made.counts.cells[1..4].iter_mut().for_each(|cell| cell.stack = outermost);
    let page = page(&made, PageLimits::default());
    assert!(page.contains("class=\"flame\"") && !page.contains("data-way=\"callers\""));
}

#[test]
fn nothing_foreign_is_markup() {
    let page = page(&sample::made(), PageLimits::default());
    assert!(
        !page.contains("<script>alert") && !page.contains("<b>evil") && !page.contains("<were>")
    );
    for shown in
        ["&lt;b&gt;evil&lt;/b&gt;", "memcpy&lt;T&gt;", "&lt;were&gt;", "&quot;b&quot; &amp; c"]
    {
        assert!(page.contains(shown), "{shown}");
    }
}

#[test]
fn the_page_asks_for_nothing() {
    let page = page(&sample::made(), PageLimits::default());
    assert!(page.contains("default-src 'none'"));
    for way in [
        "src=",
        "@import",
        "url(",
        "<link",
        "<iframe",
        "<img",
        "fetch(",
        "XMLHttpRequest",
        "href=\"http",
    ] {
        assert!(!page.contains(way), "{way}");
    }
    // One script, the numbers of the map and of two more forms of the graph; none can be ended early.
    assert_eq!(page.matches("<script").count(), 4);
    assert_eq!(page.matches("</script>").count(), 4);
}

#[test]
fn what_is_left_out_has_a_line_and_its_share() {
    let limits = PageLimits { rows: 2, ..PageLimits::default() };
    let page = page(&sample::made(), limits);
    // The two with the most samples of their own, and those with the largest totals.
    let functions: Vec<String> = rows(&page).iter().map(|row| row[6].clone()).collect();
    assert_eq!(functions, ["memcpy&lt;T&gt; (inlined into main)", "recurse", "main"]);
    assert!(page.contains("2 more rows left out: pmuscope report -o FILE.csv has all"), "{page}");
    assert!(page.contains("<td class=\"num\">37.50%</td>"), "{page}");
}

#[test]
fn a_map_has_all_samples_of_each_cpu() {
    let page = page(&sample::made(), PageLimits::default());
    let data =
        page.split("class=\"heat-data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["rows"], serde_json::json!(["0", "1", "3"]));
    let sums: Vec<u64> = data["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum())
        .collect();
    assert_eq!(sums, [40, 60, 20]);
}

#[test]
fn what_a_recording_lacks_is_said() {
    let mut made = sample::made();
    made.counts.cells.iter_mut().for_each(|cell| cell.cpu = None);
    assert!(page(&made, PageLimits::default()).contains("recording have no CPU"));
    made.counts.timeline.blocks = 0;
    assert!(page(&made, PageLimits::default()).contains("have no time stamps"));
    made.counts.cells.clear();
    assert!(page(&made, PageLimits::default()).contains("No samples."));
    made.events.clear();
    assert!(page(&made, PageLimits::default()).contains("No samples."));
}

#[test]
fn many_cpus_share_rows() {
    let mut made = sample::made();
    let cell = made.counts.cells[0].clone();
    made.counts.cells = (0..1000)
        .map(|cpu| pmuscope_profile::aggregate::SampleCell { cpu: Some(cpu), ..cell.clone() })
        .collect();
    let page = page(&made, PageLimits::default());
    assert!(page.contains(">0-7<") && page.contains("992-999"), "{page}");
}

#[test]
fn losses_are_marked_on_their_cpu_and_time() {
    let mut made = sample::made();
    assert!(!page(&made, PageLimits::default()).contains("class=\"lost\""));
    let block = |block| LossBlock { block, lost: 7, throttled: 1 };
    made.losses = vec![
        CpuLosses { cpu: Some(1), blocks: vec![block(3), block(39)], ..CpuLosses::default() },
        CpuLosses { cpu: None, blocks: vec![block(5)], ..CpuLosses::default() },
    ];
    let page = page(&made, PageLimits::default());
    // The second row; a stripe per block.
    assert!(page.contains("<path class=\"lost\" d=\"M3 1.7h1v.3h-1zM39 1.7h1v.3h-1z\"></path>"));
    assert!(page.contains("Stripes: samples were lost"));
}
