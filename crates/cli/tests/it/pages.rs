//! Pages of all kinds in a browser: one style, which every one of them has to keep. What each kind shows is
//! tested beside its command.

use serde_json::{Value, json};

use crate::compare::ring;
use crate::diff::write_after;
use crate::harness::{Scratch, need_full, skip_unless};
use crate::simulated::{program, record};
use crate::watch_report::line;
use crate::webdriver::{Browser, need_browser};
use pmuscope_testkit::simulator::Run;

/// A page or a picture with the JSON schema of the same numbers, where its foot names one.
struct Page {
    file: &'static str,
    schema: Option<&'static str>,
}

/// Writes one of each kind; those that this machine cannot have are told.
fn write(scratch: &Scratch) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut add = |file: &'static str, schema: Option<&'static str>, args: &[&str]| {
        scratch.pmuscope(args).exits(0);
        pages.push(Page { file, schema });
    };
    let stat = ["stat", "-r", "2", "-e", "page-faults,context-switches", "--html", "stat.html"];
    add("stat.html", Some("pmuscope/compare/2"), &[&stat[..], &["--", "true"]].concat());
    let compare = |files: &[&'static str]| [&["compare"], files, &["--html"]].concat();
    add(
        "sweep.html",
        Some("pmuscope/compare/2"),
        &[&compare(&["a.json"])[..], &["sweep.html"]].concat(),
    );
    let files = compare(&["a.json", "b.json", "--explain"]);
    add("compare.html", Some("pmuscope/compare/2"), &[&files[..], &["compare.html"]].concat());
    let days = scratch.path("days");
    std::fs::create_dir(&days).unwrap();
    for name in ["a.json", "b.json"] {
        std::fs::copy(scratch.path(name), days.join(name)).unwrap();
    }
    let trend = ["compare", "--trend", "days", "--html", "trend.html"];
    add("trend.html", Some("pmuscope/trend/1"), &trend);
    line().write(&scratch.path("watch.data"));
    let watch = ["watch", "--input", "watch.data", "--report", "watch.html"];
    add("watch.html", Some("pmuscope/watch/1"), &watch);
    let show = ["numa", "show", "-I", "20", "-o", "numa.html", "--", "sleep", "0.1"];
    add("numa.html", Some("pmuscope/numa-show/1"), &show);
    let slots = ["bench", "slots", "--cpus", "1,3", "--tasks", "1", "--threads", "1"];
    let slots = [&slots[..], &["--ms", "1", "-r", "2", "-o"]].concat();
    add("slots.html", Some("pmuscope/runs/1"), &[&slots[..], &["slots.html"]].concat());
    add("slots.svg", None, &[&slots[..], &["slots.svg"]].concat());
    let run = Run { functions: program(), chains: true, cycles: 1e8, ..Run::default() };
    if let Some(reason) = record(scratch, &run) {
        eprintln!("skipped: pages of recordings: {reason}");
        return pages;
    }
    let of = |command, file| [command, "--symfs", "root", "-o", file];
    add("metrics.html", Some("pmuscope/metrics/1"), &of("metrics", "metrics.html"));
    add("metrics.svg", None, &of("metrics", "metrics.svg"));
    add("report.html", Some("pmuscope/report/1"), &of("report", "report.html"));
    let code = [&of("report", "code.html")[..], &["--annotate-top", "3"]].concat();
    add("code.html", Some("pmuscope/report/1"), &code);
    add("report.svg", None, &of("report", "report.svg"));
    write_after(scratch, run);
    let diff = ["diff", "--symfs", "root", "pmuscope.data", "after.data", "-o"];
    add("diff.html", Some("pmuscope/diff/1"), &[&diff[..], &["diff.html"]].concat());
    add("diff.svg", None, &[&diff[..], &["diff.svg"]].concat());
    pages
}

/// The narrowest screen that is looked at, pixels, and a desk's.
const NARROW: u32 = 360;
const DESK: u32 = 1280;

/// Fails if the page is wider than its window; what may be wider has a box that scrolls.
#[track_caller]
fn fits(browser: &Browser, page: &str) {
    let over = browser.run(
        "const wide = document.documentElement.scrollWidth - innerWidth;
         return wide <= 0 ? null : [wide, [...document.querySelectorAll('body *')]
            .filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest('.wide, .picture, nav'))
            .map((one) => one.outerHTML.slice(0, 80))]",
    );
    assert_eq!(over, Value::Null, "{page} is too wide");
}

/// The color behind everything.
fn paper(browser: &Browser) -> String {
    let color = browser.run(
        "const paper = document.querySelector('rect.paper');
         const own = document.body || !paper ? getComputedStyle(document.body).backgroundColor : getComputedStyle(paper).fill;
         return own",
    );
    color.as_str().unwrap().to_owned()
}

/// Fails unless ink is to be read on paper (WCAG 2.2: 4.5 to 1), for all that is text, heads before
/// numbers included.
#[track_caller]
fn is_legible(browser: &Browser, page: &str) {
    let pale = browser.run(
        "const parse = (color) => { const n = color.match(/[0-9.]+/g).map(Number); return color.includes('srgb')
            ? [n[0] * 255, n[1] * 255, n[2] * 255, n.length > 3 ? n[3] : 1] : [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
         const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
            .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
         const behind = (one) => { let on = [0, 0, 0, 0];
            for (; one; one = one.parentElement) {
                const under = parse(getComputedStyle(one).backgroundColor); const share = under[3] * (1 - on[3]);
                on = [0, 1, 2].map((at) => on[at] + under[at] * share).concat(on[3] + share); }
            return on; };
         const texts = [...document.querySelectorAll('body :not(svg *):not(script):not(style)')]
            .filter((one) => one.offsetParent && [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
         const parts = texts.flatMap((one) => [[one, null], [one, '::before']])
            .filter(([one, part]) => !part || !['none', 'normal', '\"\"'].includes(getComputedStyle(one, part).content));
         return [texts.length, parts.map(([one, part]) => {
            const [a, b] = [light(parse(getComputedStyle(one, part).color)), light(behind(one))].sort((x, y) => x - y);
            return [(b + 0.05) / (a + 0.05), part, one.outerHTML.slice(0, 80)]; })
            .filter(([ratio]) => ratio < 4.5).slice(0, 5)]",
    );
    assert!(pale[0].as_u64() > Some(5), "{page}: no texts were found");
    assert_eq!(pale[1], json!([]), "{page} has text that is hard to read");
}

/// Keys, as the protocol has them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Sorts the first table without a mouse; whether there is one.
fn sort_by_keys(browser: &Browser, page: &str) -> bool {
    const FIRST: &str = "const button = document.querySelector('table.sortable th button');
        if (button && !button.offsetParent) document.querySelector('details').open = true;";
    if browser.run(&format!("{FIRST} return !button")) == json!(true) {
        return false;
    }
    // By Tab from the head of the page, as far as it takes.
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)");
    let at_button = "return document.activeElement.matches('table.sortable th button')";
    let reached = (0..40).any(|_| {
        browser.press(TAB);
        browser.run(at_button) == json!(true)
    });
    assert!(reached, "{page}: no head of a column is reached by Tab");
    let ring = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.run(ring), json!("solid"), "{page}: the focus is not to be seen");
    let column = "const head = document.activeElement.closest('th'); return [head.getAttribute('aria-sort'),
        [...head.closest('table').tBodies[0].rows].map((row) => row.cells[head.cellIndex].textContent)]";
    browser.press(ENTER);
    let once = browser.run(column);
    browser.press(ENTER);
    let twice = browser.run(column);
    assert_ne!(once[0], twice[0], "{page}: {once} {twice}");
    assert!(once[0].is_string() && twice[0].is_string(), "{page}: {once} {twice}");
    let sorted = |column: &Value| -> Vec<String> {
        let mut rows: Vec<String> =
            column.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted(&once[1]), sorted(&twice[1]), "{page}: rows came or went");
    if sorted(&once[1]).first() != sorted(&once[1]).last() {
        assert_ne!(once[1], twice[1], "{page}: the order has not changed");
    }
    true
}

/// Goes to the search by a slash, if the page has one; whether it has.
fn search_by_keys(browser: &Browser, page: &str) -> bool {
    const FIELDS: &str = "return [...document.querySelectorAll('input[type=search]')].filter((one) => one.offsetParent !== null || one.closest('.alone')).length";
    if browser.run(FIELDS) == json!(0) {
        return false;
    }
    browser.run("const one = document.activeElement; if (one && one.blur) one.blur()");
    browser.press("/");
    let field = browser.run("return document.activeElement.getAttribute('type')");
    assert_eq!(field, json!("search"), "{page}");
    browser.press("zzz/");
    assert_eq!(browser.run("return document.activeElement.value"), json!("zzz/"), "{page}");
    true
}

#[test]
fn full_pages_of_all_kinds_have_one_style_that_suits_every_reader() {
    skip_unless!(need_full().or_else(need_browser));
    let scratch = ring();
    let pages = write(&scratch);
    let browser = Browser::start(DESK);
    let (mut sorted, mut searched) = (Vec::new(), Vec::new());
    let mut styles = std::collections::BTreeSet::new();
    for Page { file, schema } in &pages {
        browser.show_as(DESK, "light");
        browser.visit(&scratch.path(file), |browser| {
            let light = paper(browser);
            if let Some(schema) = schema {
                let head = browser.run(
                    "return [document.title, document.querySelector('h1').textContent,
                        document.querySelector('footer').textContent,
                        [...document.querySelectorAll('style')][0].textContent]",
                );
                assert_eq!(head[0], format!("{} · pmuscope", head[1].as_str().unwrap()), "{file}");
                let foot = head[2].as_str().unwrap();
                assert!(foot.contains(schema) && foot.contains(", commit "), "{file}: {foot}");
                styles.insert(head[3].to_string());
                fits(browser, file);
                is_legible(browser, file);
            }
            browser.show_as(NARROW, "dark");
            let dark = paper(browser);
            assert_ne!(light, dark, "{file} knows no dark scheme");
            if schema.is_some() {
                fits(browser, file);
                is_legible(browser, file);
            }
            sorted.extend(sort_by_keys(browser, file).then_some(*file));
            searched.extend(search_by_keys(browser, file).then_some(*file));
        });
    }
    assert_eq!(styles.len(), 1, "pages have styles of their own");
    for page in pages.iter().filter(|page| page.schema.is_some()) {
        let has_table = page.file != "slots.html";
        assert_eq!(sorted.contains(&page.file), has_table, "{}: {sorted:?}", page.file);
    }
    for page in ["stat.html", "sweep.html", "compare.html", "trend.html", "watch.html", "numa.html"]
    {
        assert!(searched.contains(&page), "{page}: {searched:?}");
    }
}
