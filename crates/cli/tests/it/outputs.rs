//! `pmuscope report -o`: each format against what reads it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};

use crate::harness::{
    Outcome, Scratch, need_c_compiler, need_full, need_kernel_sampling, need_perf,
    need_perf_record, need_perf_that_reads, need_program, skip_unless,
};
use crate::webdriver::{Browser, need_browser};

/// Calls that keep their frames, in two processes, one of them with a blank in its name.
const SOURCE: &str = "
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
volatile unsigned long sink;
#define KEPT __attribute__((noinline, noclone))
KEPT void leaf_one(long n) { while (n--) sink = sink * 3 + 1; sink++; }
KEPT void leaf_two(long n) { while (n--) sink = sink / 3 + 7; sink++; }
KEPT void system_calls(long n) { while (n--) getppid(); sink++; }
KEPT void recurse(int depth, long n) { if (depth) recurse(depth - 1, n); else leaf_one(n); sink++; }
KEPT void work(void) { recurse(5, 30000000); leaf_two(10000000); system_calls(300000); sink++; }
int main(void) {
    if (fork() == 0) { prctl(PR_SET_NAME, \"a child\"); leaf_two(20000000); return 0; }
    work(); wait(0);
    return 0;
}
";

/// Its functions.
const FUNCTIONS: [&str; 6] = ["leaf_one", "leaf_two", "system_calls", "recurse", "work", "main"];

/// Records the program with call chains by perf, and nothing else: of what other tests run the files may be gone when
/// the recording is read again, and with them names.
#[track_caller]
fn record(scratch: &Scratch, file: &str) {
    record_with(scratch, file, &[]);
}

/// The same with more flags.
#[track_caller]
fn record_with(scratch: &Scratch, file: &str, more: &[&str]) {
    let source = scratch.path("calls.c");
    fs::write(&source, SOURCE).unwrap();
    let plain = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    scratch.run("cc", plain.iter().chain(&["-o", "calls", "calls.c"])).exits(0);
    let args = ["record", "-q", "-B", "-N", "-g", "-e", "cpu-clock", "-F", "2000", "-o", file];
    scratch.run("perf", args.iter().chain(more).chain(&["--", "./calls"])).exits(0);
}

fn report(scratch: &Scratch, args: &[&str]) -> Outcome {
    scratch.pmuscope(["report", "-i", "a.data"].iter().chain(args))
}

/// Lines of folded stacks.
fn lines(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (stack, samples) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), samples.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// What inferno makes of `perf script`; `None` where that aborts.
fn by_inferno(scratch: &Scratch) -> Option<String> {
    let script = scratch.run("perf", ["script", "-f", "--no-inline", "-i", "a.data"]);
    if script.is_abort_of_perf() {
        return None;
    }
    script.exits(0);
    let mut options = Options::default();
    options.nthreads = 1;
    let mut folded = Vec::new();
    Folder::from(options).collapse(script.stdout.as_bytes(), &mut folded).unwrap();
    Some(String::from_utf8(folded).unwrap())
}

#[test]
fn folded_stacks_are_infernos() {
    skip_unless!(need_perf());
    skip_unless!(need_c_compiler());
    skip_unless!(need_perf_record(true));
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    skip_unless!(need_perf_that_reads(&scratch.path("calls")));
    let Some(theirs) = by_inferno(&scratch) else { return };
    // Which functions were inlined depends on the debug information that a tool finds.
    report(&scratch, &["--no-inline", "-o", "a.folded"]).exits(0).prints_nothing();
    let ours = fs::read_to_string(scratch.path("a.folded")).unwrap();
    let of_program = |text: &str| -> BTreeMap<String, u64> {
        let keep = |(stack, _): &(String, u64)| {
            stack.starts_with("calls;") || stack.starts_with("a_child;")
        };
        lines(text).into_iter().filter(keep).collect()
    };
    let (mine, inferno) = (of_program(&ours), of_program(&theirs));
    let own = |stacks: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        let is_own = |stack: &str| FUNCTIONS.contains(&stack.rsplit(';').next().unwrap());
        stacks.clone().into_iter().filter(|(stack, _)| is_own(stack)).collect()
    };
    assert_eq!(own(&mine), own(&inferno));
    assert!(own(&mine).keys().any(|stack| stack.contains(";recurse;recurse;recurse;")), "{ours}");
    // Where the system's libraries have several names for one address, tools choose differently.
    let depths = |stacks: &BTreeMap<String, u64>| {
        let mut depths: BTreeMap<(String, usize), u64> = BTreeMap::new();
        for (stack, weight) in stacks {
            let mut names = stack.split(';');
            let command = names.next().unwrap().to_owned();
            *depths.entry((command, names.count())).or_default() += weight;
        }
        depths
    };
    assert_eq!(depths(&mine), depths(&inferno));
    let order: Vec<&str> = ours.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert!(order.is_sorted(), "{ours}");
    // Standard output takes it too.
    assert_eq!(report(&scratch, &["--no-inline", "--format", "folded"]).exits(0).stdout, ours);
}

#[test]
fn full_go_tool_pprof_reads_the_profile() {
    skip_unless!(need_full());
    skip_unless!(need_perf());
    skip_unless!(need_program("go", "version"));
    skip_unless!(need_c_compiler());
    skip_unless!(need_perf_record(true));
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    report(&scratch, &["-o", "a.pb.gz"]).exits(0).prints_nothing();
    let pprof = |args: &[&str]| {
        let words = ["tool", "pprof", "-symbolize=none"].iter().chain(args).chain(&["a.pb.gz"]);
        let outcome = scratch.run("go", words);
        outcome.exits(0);
        outcome.stdout
    };
    let raw = pprof(&["-raw"]);
    for part in ["samples/count", "cpu-clock/nanoseconds", "command:[calls]", "leaf_one"] {
        assert!(raw.contains(part), "{part}\n{raw}");
    }
    let total: u64 = raw
        .lines()
        .skip_while(|line| !line.starts_with("samples/count"))
        .skip(1)
        .take_while(|line| !line.starts_with("Locations"))
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(values, _)| values.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    report(&scratch, &["-o", "a.folded"]).exits(0);
    let folded = fs::read_to_string(scratch.path("a.folded")).unwrap();
    assert_eq!(total, lines(&folded).values().sum::<u64>());
    // Shares of a function are those of the folded stacks.
    let top = pprof(&["-top", "-sample_index=cpu-clock", "-unit=ns"]);
    let leaf: u64 = lines(&folded)
        .iter()
        .filter(|(stack, _)| stack.ends_with(";leaf_one"))
        .map(|(_, n)| n)
        .sum();
    let row =
        top.lines().find(|line| line.ends_with(" leaf_one")).unwrap_or_else(|| panic!("{top}"));
    assert_eq!(row.split_whitespace().next(), Some(&*format!("{leaf}ns")), "{top}");
}

#[test]
fn a_spreadsheet_and_the_firefox_profiler_get_all_samples() {
    skip_unless!(need_perf());
    skip_unless!(need_c_compiler());
    skip_unless!(need_perf_record(true));
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    let outcome = report(&scratch, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let event = &json["events"][0];
    let (samples, period) = (event["samples"].as_u64(), event["period"].as_u64());
    report(&scratch, &["-o", "a.csv"]).exits(0);
    let csv = fs::read_to_string(scratch.path("a.csv")).unwrap();
    let mut rows = csv.lines();
    let head: Vec<&str> = rows.next().unwrap().split(',').collect();
    let at = head.iter().position(|column| *column == "samples").unwrap();
    // Numbers stand before names, so nothing quoted comes before them but the event.
    let sum: u64 = rows.map(|row| row.split(',').nth(at).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(Some(sum), samples);

    report(&scratch, &["-o", "a.json.gz"]).exits(0);
    let file = fs::File::open(scratch.path("a.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    let weights = profile["threads"].as_array().unwrap().iter();
    let sum: u64 = weights
        .flat_map(|thread| thread["samples"]["weight"].as_array().unwrap())
        .map(|weight| weight.as_u64().unwrap())
        .sum();
    assert_eq!(Some(sum), period);
    let names: Vec<&str> = profile["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"calls") && names.contains(&"a child"), "{names:?}");
}

#[test]
fn an_output_nobody_knows_is_told_which_there_are() {
    let scratch = Scratch::new();
    fs::write(scratch.path("a.data"), "").unwrap();
    let outcome = report(&scratch, &["-o", "a.pdf"]);
    outcome.exits(2).complains("a.pdf").complains(".html").complains("--format");
    assert!(!scratch.path("a.pdf").exists());
    report(&scratch, &["-o", "none/a.csv", "--json"]).exits(2);
}

/// Opens the page as a user does, and fails on any complaint or request.
pub(crate) fn browse(scratch: &Scratch, file: &str, visit: impl FnOnce(&Browser)) {
    Browser::start(1400).visit(&scratch.path(file), visit);
}

/// Why there is nothing to draw.
fn need_drawing() -> Option<String> {
    need_c_compiler().or_else(|| need_perf_record(true))
}

/// A page and a picture to open.
#[track_caller]
fn drawn() -> Scratch {
    let scratch = Scratch::new();
    // A map of CPUs over time is of whole machines.
    record_with(&scratch, "a.data", &["-a"]);
    for file in ["page.html", "graph.svg"] {
        report(&scratch, &["-o", file]).exits(0).prints_nothing();
    }
    scratch
}

/// Keys, as the protocol has them.
const UP: &str = "\u{e013}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// Selects the widest box of `leaf_one`, by a class of its own: a sample whose stack could not be
/// followed has one of another caller.
const MARK: &str = "
    const boxes = [...document.querySelectorAll('svg.flame .b')];
    const leaf = boxes.filter((box) => box.querySelector('title').textContent.startsWith('leaf_one'))
        .sort((a, b) => parseFloat(a.getAttribute('width')) - parseFloat(b.getAttribute('width'))).pop();
    leaf.classList.add('wanted');
    return [leaf.getAttribute('x'), leaf.getAttribute('width')];";
const WIDTH: &str = "return document.querySelector('.wanted').getAttribute('width')";
const HIDDEN: &str = "return [...document.querySelectorAll('svg.flame .b')].filter((b) => b.style.display === 'none').length";

/// Zooms and searches; the same in a page and in a picture alone.
fn use_flame_graph(browser: &Browser) {
    let before = browser.run(MARK);
    browser.click(".wanted");
    assert_eq!(browser.run(WIDTH), "100%");
    assert!(browser.run(HIDDEN).as_u64().unwrap() > 0, "what is beside it goes");
    browser.click(".reset");
    let after = browser.run(WIDTH);
    let number = |text: &serde_json::Value| -> f64 {
        text.as_str().unwrap().trim_end_matches('%').parse().unwrap()
    };
    assert!((number(&after) - number(&before[1])).abs() < 1e-3, "{before} {after}");
    assert_eq!(browser.run(HIDDEN), 0);

    browser.type_into(".flame-part .tools input", "LEAF_ONE");
    let hits = browser.run(
        "return [...document.querySelectorAll('.b.hit')].map((b) => b.querySelector('title').textContent)",
    );
    let hits = hits.as_array().unwrap();
    assert!(!hits.is_empty());
    assert!(hits.iter().all(|hit| hit.as_str().unwrap().starts_with("leaf_one")), "{hits:?}");
    let matched = browser.run("return document.querySelector('.matched').textContent");
    assert!(matched.as_str().unwrap().contains("% in "), "{matched}");

    // Without a mouse: to the caller, zoom there, and back.
    browser.run("document.querySelector('.wanted').focus()");
    browser.type_into(".wanted", UP);
    let focused = "return document.activeElement.querySelector('title').textContent";
    assert!(
        browser.run(focused).as_str().unwrap().starts_with("recurse"),
        "{}",
        browser.run(focused)
    );
    browser.run("document.activeElement.classList.add('caller')");
    browser.type_into(".caller", ENTER);
    assert_eq!(
        browser.run("return document.querySelector('.caller').getAttribute('width')"),
        "100%"
    );
    browser.type_into(".caller", ESCAPE);
    assert_eq!(browser.run(HIDDEN), 0);
}

#[test]
fn full_a_picture_zooms_and_searches_without_any_network() {
    skip_unless!(need_full().or_else(need_browser).or_else(need_perf));
    skip_unless!(need_drawing());
    let scratch = drawn();
    browse(&scratch, "graph.svg", use_flame_graph);
}

#[test]
fn full_a_page_sorts_filters_zooms_and_searches_without_any_network() {
    skip_unless!(need_full().or_else(need_browser).or_else(need_perf));
    skip_unless!(need_drawing());
    let scratch = drawn();
    browse(&scratch, "page.html", |browser| {
        use_flame_graph(browser);
        sort_and_filter(browser);
        find_from_the_table(browser);
        point_at_the_map(browser);
        screens(browser);
    });
}

/// A telephone shows the name of a function above its numbers, with their heads; a desk the flame graph at once.
fn screens(browser: &Browser) {
    browser.show_as(400, "dark");
    // A DSO with a name that is wider than the screen, as any program on the machine may have.
    browser.run(
        "const dso = [...document.querySelector('table.functions tbody tr:not([hidden])').cells].at(-2);
         dso.textContent = 'a-long-name-'.repeat(20)",
    );
    let row = browser.run(
        "const row = document.querySelector('table.functions tbody tr:not([hidden])');
         const [name, number] = ['td.name', 'td.num'].map((cell) => row.querySelector(cell));
         const [above, below] = [name, number].map((cell) => cell.getBoundingClientRect());
         return [above.bottom <= below.top + 1, above.right <= innerWidth && above.width > 300,
            getComputedStyle(number, '::before').content, above.width, above.right, innerWidth, name.textContent]",
    );
    assert!(row[0] == true && row[1] == true, "{row}");
    assert!(row[2].as_str().unwrap().contains("self"), "{row}");
    browser.show_as(1400, "light");
    let top = browser
        .run("scrollTo(0, 0); return document.querySelector('.flame').getBoundingClientRect().top");
    assert!(top.as_f64().unwrap() < 600.0, "{top}");
}

/// Texts of a column of the table of functions that are shown.
fn column(browser: &Browser, at: &str) -> Vec<String> {
    let script = format!(
        "return [...document.querySelectorAll('table.functions tbody tr')].filter((r) => !r.hidden)
            .map((r) => [...r.cells].at({at}).textContent.trim())"
    );
    let texts = browser.run(&script);
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn sort_and_filter(browser: &Browser) {
    let shares = |browser: &Browser| -> Vec<f64> {
        let texts = column(browser, "0");
        texts.iter().map(|text| text.trim_end_matches(['%', ' ']).parse().unwrap()).collect()
    };
    let falling = |values: &[f64]| values.windows(2).all(|pair| pair[0] >= pair[1]);
    assert!(falling(&shares(browser)) && shares(browser).len() > 3);
    browser.click("table.functions th:last-child button");
    let names = column(browser, "-1");
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let first_letters: Vec<char> = lower
        .iter()
        .filter_map(|name| name.chars().next().filter(char::is_ascii_lowercase))
        .collect();
    assert!(first_letters.is_sorted(), "{names:?}");
    assert!(!falling(&shares(browser)), "the order has not changed");
    browser.click("table.functions th:last-child button");
    let mut turned = column(browser, "-1");
    turned.reverse();
    assert_eq!(turned.first().map(|name| name.to_lowercase()), lower.first().cloned());
    browser.click("table.functions th:first-child button");
    assert!(falling(&shares(browser)));

    browser.type_into("input.filter", "leaf_");
    let left = column(browser, "-1");
    assert!(!left.is_empty() && left.iter().all(|name| name.contains("leaf_")), "{left:?}");
    let shown = browser.run("return document.querySelector('.shown').textContent");
    assert!(shown.as_str().unwrap().contains("% in "), "{shown}");
}

fn find_from_the_table(browser: &Browser) {
    browser.run("document.querySelector('.tools input[aria-label^=Search]').value = ''");
    browser.run(
        "[...document.querySelectorAll('td.name')].find((c) => c.textContent === 'leaf_two').classList.add('cell')",
    );
    browser.click("td.cell");
    let hits = browser.run("return document.querySelector('.b.hit title').textContent");
    assert!(hits.as_str().unwrap().starts_with("leaf_two"), "{hits}");
}

fn point_at_the_map(browser: &Browser) {
    browser.run(
        "const map = document.querySelector('.map'); const area = map.getBoundingClientRect();
         map.dispatchEvent(new MouseEvent('mousemove',
            {clientX: area.left + area.width / 2, clientY: area.top + 2, bubbles: true}))",
    );
    let told = browser.run("return document.querySelector('.heat-part .detail').textContent");
    let told = told.as_str().unwrap();
    assert!(told.starts_with("CPU ") && told.ends_with(" samples"), "{told}");
}

/// Files of our own recordings too, whose header has more to tell.
#[test]
fn a_page_of_our_own_recording_tells_its_cost() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let args = ["record", "-e", "cpu-clock", "-F", "2000", "-o", "a.data", "--", "sh", "-c", work];
    scratch.pmuscope(args).exits(0);
    report(&scratch, &["-o", "page.html"]).exits(0).prints_nothing();
    let page = fs::read_to_string(scratch.path("page.html")).unwrap();
    for part in ["Overhead", "µs/sample", "<table class=\"sortable functions named\"", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
}
