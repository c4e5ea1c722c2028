//! The other forms of a page's flame graph, in a browser: self shares on top, callers below, as the text has them; and
//! time order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Scratch, need_c_compiler, need_full, need_sampling, skip_unless};
use crate::outputs::browse;
use crate::simulated::{program, record};
use crate::webdriver::{Browser, need_browser};
use pmuscope_testkit::simulator::Run;

/// Of the first event: the simulated recording has several.
const CALLERS: &str = "#event-0 .ways button[data-way=callers]";
const CALLEES: &str = "#event-0 .ways button[data-way=callees]";

/// Boxes of a depth: their names with their shares, the widest first.
fn boxes(browser: &Browser, depth: u32) -> Vec<(String, String)> {
    let titles = browser.run(&format!(
        "return [...document.querySelectorAll('#event-0 svg.flame .b[data-d=\"{depth}\"]')]
            .map((box) => box.querySelector('title').textContent)"
    ));
    let parts = |title: &Value| {
        let (name, about) = title.as_str().unwrap().split_once('\n').unwrap();
        let share = about.rsplit(": ").next().unwrap().split(',').next().unwrap();
        (name.to_owned(), share.to_owned())
    };
    titles.as_array().unwrap().iter().map(parts).collect()
}

/// Functions at the outer level of `report --call-tree=callers`, with their shares.
fn tree(scratch: &Scratch) -> BTreeMap<String, String> {
    let args = ["report", "--symfs", "root", "--call-tree=callers", "--limit", "all", "--wide"];
    let text = scratch.pmuscope(args).exits(0).stdout.clone();
    let (head, rows) = text.split_once("function, callers indented\n").unwrap();
    let name = head.rsplit('\n').next().unwrap().chars().count();
    let outer = rows.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        let function: String = line.chars().skip(name).collect();
        let is_outer = !function.starts_with([' ', '…']);
        // A box of code without a name has that of its module.
        let function = function.strip_prefix("[unknown] ").unwrap_or(&function);
        let function = function.split(" [").next()?.to_owned();
        is_outer.then(|| (function, line.split_whitespace().next().unwrap().to_owned()))
    });
    outer.collect()
}

fn text(browser: &Browser, selector: &str) -> String {
    let script = format!("return document.querySelector({}).textContent", json!(selector));
    browser.run(&script).as_str().unwrap().to_owned()
}

/// Boxes that a zoom hides.
fn hidden(browser: &Browser) -> u64 {
    let script = "return [...document.querySelectorAll('#event-0 svg.flame .b')].filter((b) => b.style.display === 'none').length";
    browser.run(script).as_u64().unwrap()
}

#[test]
fn full_a_flame_graph_turns_to_callers_and_back() {
    skip_unless!(need_full().or_else(need_browser));
    let scratch = Scratch::new();
    let run = Run { functions: program(), chains: true, cycles: 1e8, ..Run::default() };
    skip_unless!(record(&scratch, &run));
    scratch.pmuscope(["report", "--symfs", "root", "-o", "page.html"]).exits(0);
    let tree = tree(&scratch);
    assert!(tree.len() > 3, "{tree:?}");
    browse(&scratch, "page.html", |browser| {
        let callees = boxes(browser, 1);
        browser.click(CALLERS);
        let pressed = "return [...document.querySelectorAll('#event-0 .ways [aria-pressed=true]')].map((b) => b.textContent)";
        assert_eq!(browser.run(pressed), json!(["Callers"]));
        self_shares_are_on_top(browser, &tree);
        search_and_zoom_work_in_both(browser);
        // By keys as well, and nothing is left of the other graph.
        browser.run(&format!("document.querySelector({}).focus()", json!(CALLEES)));
        browser.press(" ");
        assert_eq!(boxes(browser, 1), callees);
    });
}

fn self_shares_are_on_top(browser: &Browser, tree: &BTreeMap<String, String>) {
    let functions = boxes(browser, 1);
    assert_eq!(&functions.iter().cloned().collect::<BTreeMap<_, _>>(), tree);
    let row = browser.run(
        "const [row] = document.querySelectorAll('#event-0 table.functions tbody tr');
         return [[...row.cells].at(-1).textContent, row.cells[0].textContent]",
    );
    assert_eq!(json!([functions[0].0, functions[0].1]), row, "the top function by self");
    assert!(
        text(browser, "#event-0 .flame-part p span:not([hidden])")
            .starts_with("Sampled functions on top")
    );
    // Below it stands what called it, in the end the command.
    let deepest = "return Math.max(...[...document.querySelectorAll('#event-0 .flame .b')].map((b) => +b.dataset.d))";
    assert!(browser.run(deepest).as_u64() > Some(2));
}

fn search_and_zoom_work_in_both(browser: &Browser) {
    const MATCHED: &str = "#event-0 output.matched";
    browser.type_into("#event-0 .flame-part .tools input", "caller");
    let hits = "return document.querySelectorAll('#event-0 .b.hit').length";
    let (of_callers, number) = (text(browser, MATCHED), browser.run(hits));
    assert!(number.as_u64() > Some(0), "{of_callers}");
    browser.click("#event-0 .flame .b[data-d='1']");
    assert!(hidden(browser) > 0, "what is beside it goes");
    browser.click(CALLEES);
    assert_eq!(hidden(browser), 0, "each graph begins without a zoom");
    let of_callees = text(browser, MATCHED);
    // In a stack or under a function: the same samples, in other boxes.
    let share = |text: &str| text.split('%').next().unwrap().to_owned();
    assert_eq!(share(&of_callers), share(&of_callees));
    browser.click("#event-0 .flame .b[data-d='2']");
    assert!(hidden(browser) > 0 || boxes(browser, 2).len() == 1);
    browser.click(CALLERS);
    assert_eq!(hidden(browser), 0);
    assert_eq!(browser.run(hits), number, "a search stays");
}

const PHASES: &str = r"
static volatile unsigned long sink;
static void spin(unsigned long n) { while (n--) sink = sink * 3 + 1; }
void parse(void) { spin(100000000); sink++; }
void write_out(void) { spin(300000000); sink++; }
int main(void) { parse(); write_out(); parse(); return 0; }
";

/// Functions of the program whose boxes are wide, from left to right.
fn phases(browser: &Browser) -> Value {
    browser.run(
        "const wide = [...document.querySelectorAll('#event-0 svg.flame .b')].filter((b) => parseFloat(b.getAttribute('width')) > 5);
         const named = wide.map((b) => [parseFloat(b.getAttribute('x')), b.querySelector('title').textContent.split('\\n')[0]]);
         return named.filter(([, name]) => name === 'parse' || name === 'write_out').sort(([a], [b]) => a - b).map(([, name]) => name)",
    )
}

#[test]
fn full_time_order_shows_which_phase_came_when() {
    skip_unless!(need_full().or_else(need_browser).or_else(need_sampling).or_else(need_c_compiler));
    let scratch = Scratch::new();
    std::fs::write(scratch.path("phases.c"), PHASES).unwrap();
    scratch.run("cc", ["-O0", "-o", "phases", "phases.c"]).exits(0);
    scratch.pmuscope(["record", "--call-graph", "fp", "-F", "499", "--", "./phases"]).exits(0);
    scratch.pmuscope(["report", "-o", "page.html"]).exits(0);
    browse(&scratch, "page.html", |browser| {
        assert_eq!(phases(browser), json!(["write_out", "parse"]), "the widest first");
        let search = |browser: &Browser| {
            browser.run("document.querySelector('#event-0 .flame-part .tools input').select()");
            browser.type_into("#event-0 .flame-part .tools input", "parse");
            text(browser, "#event-0 output.matched").split('%').next().unwrap().to_owned()
        };
        let share = search(browser);
        browser.click("#event-0 .ways button[data-way=time]");
        assert_eq!(phases(browser), json!(["parse", "write_out", "parse"]));
        assert_eq!(search(browser), share, "the same samples");
        let (thread, _) = boxes(browser, 1).remove(0);
        assert!(thread.starts_with("phases (thread "), "{thread}");
        let shape = text(browser, "#event-0 .flame-part p span:not([hidden])");
        assert!(shape.starts_with("Threads on top, in each its stacks in time order"), "{shape}");
    });
}
