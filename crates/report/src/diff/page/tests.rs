//! The page of two recordings made by hand.

use super::super::text::tests::{event, row};
use super::*;
use crate::{Report as _, Style, top};

/// Before: parse 60%, a hostile name 30%, `[xz]` 10%. After: without the first.
fn recordings() -> [Profile; 2] {
    let (before, mut after) = (top::tests::profile(), top::tests::profile());
    after.aggregate.cells.retain(|cell| cell.samples != 1200);
    [before, after]
}

fn shown<T>(recordings: &[Profile; 2], show: impl FnOnce(&DiffView<'_>) -> T) -> T {
    let rows = vec![
        row(Some("parse"), [0.6, 0.0], Some(0.01), Some(0.0001)),
        row(Some("<b>evil"), [0.3, 0.75], Some(0.01), Some(0.0001)),
        row(None, [0.1, 0.25], Some(0.2), Some(0.5)),
    ];
    let files = ["a<1>.data", "b.data"].map(|file| vec![file.to_owned()]);
    let [before, after] = recordings;
    show(&DiffView {
        events: &[event(rows)],
        files: [&files[0], &files[1]],
        recordings: [std::slice::from_ref(before), std::slice::from_ref(after)],
        one_sided: &["cycles".to_owned()],
        rows: None,
    })
}

fn page(recordings: &[Profile; 2]) -> String {
    shown(recordings, |view| view.page("abc").unwrap())
}

/// What stands between two texts, each of which is there.
#[track_caller]
fn between<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let rest = page.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

#[test]
fn head_notes_graph_and_table_stand_in_this_order() {
    let page = page(&recordings());
    assert_eq!(between(&page, "<h1>", "</h1>"), "cpu-clock: a&lt;1&gt;.data vs b.data");
    let parts = ["<h1>", "<dl class=\"facts\">", "Note:", "id=\"flame-0\"", "id=\"functions-0\""];
    let places: Vec<_> = parts.iter().map(|part| page.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("cpu-clock: 2 of 3 rows changed, most: parse -60.00 points"), "{page}");
    assert!(page.contains("1 recording of 2.00 s") && page.contains("10,000 samples"));
}

#[test]
fn the_first_graph_is_as_wide_as_after_and_the_other_is_hidden() {
    let page = page(&recordings());
    let parts: Vec<&str> = page.split("<div class=\"flame-part\"").skip(1).collect();
    let [after, before] = parts[..] else { panic!("{} graphs", parts.len()) };
    assert!(after.starts_with(" data-width=\"after\">"), "{after}");
    assert!(before.starts_with(" data-width=\"before\" hidden>"), "{before}");
    let gone =
        "parse\ndb: before 60.00% (1,200 samples), after 0.00% (0 samples), change -60.00 points";
    assert!(!after.contains("<title>parse\n") && before.contains(gone), "{before}");
    let both = "before 30.00% (600 samples), after 75.00% (600 samples), change +45.00 points";
    assert!(after.contains(both) && before.contains(both), "{after}");
    assert!(after.contains("Change in percentage points") && after.contains("+20 and beyond"));
}

#[test]
fn the_page_has_the_notes_of_the_terminal() {
    let mut recordings = recordings();
    recordings[1].lost.count = 900;
    let text = shown(&recordings, |view| view.text(&Style::PLAIN)).replace('\n', " ");
    let page = page(&recordings);
    let notes = shown(&recordings, notes);
    assert!(notes.len() >= 4 && notes[0].warning, "{notes:?}");
    for note in &notes {
        let words: Vec<&str> = note.text.split_whitespace().collect();
        assert!(text.contains(&words[..4].join(" ")), "{note:?} {text}");
        let marked = html! { (note.text) }.into_string();
        assert!(page.contains(&marked), "{note:?}");
    }
    assert!(page.contains("b.data: 31.03% of all records were lost"), "{page}");
    assert!(page.contains("0 before, 900 after"), "{page}");
}

#[test]
fn names_stay_text_and_nothing_is_asked_of_a_network() {
    let page = page(&recordings());
    assert!(!page.contains("<b>evil") && !page.contains('\u{1b}') && !page.contains("a<1>"));
    for way in ["src=", "url(", "<link", "href=\"http"] {
        assert!(!page.contains(way), "{way}");
    }
    let picture = shown(&recordings(), |view| view.picture().unwrap());
    assert!(picture.ends_with("</svg>\n") && picture.contains("change +45.00 points"));
    assert!(!picture.contains('\u{1b}'));
}

#[test]
fn rows_stand_by_the_size_of_the_change_which_no_column_is_sorted_by() {
    let page = page(&recordings());
    let table = between(&page, "id=\"functions-0\"", "</section>");
    assert!(!table.contains("aria-sort"), "{table}");
    let places: Vec<_> =
        ["-60.00<", "+45.00<", "+15.00<"].iter().map(|change| table.find(change)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {table}");
    for word in ["less", "more", "inconclusive"] {
        assert!(table.contains(&format!(">{word}</td>")), "{word}: {table}");
    }
}
