//! What the address of a page says of its flame graph: zoom and search, so that the view can be sent to somebody.

use serde_json::json;

use crate::harness::{Scratch, need_full, skip_unless};
use crate::outputs::browse;
use crate::simulated::{program, record};
use crate::webdriver::{Browser, need_browser};
use pmuscope_testkit::simulator::Run;

const SEARCH: &str = "#event-0 .flame-part .tools input";
const MATCHED: &str = "return document.querySelector('#event-0 output.matched').textContent";

/// What is seen of the flame graph: its boxes with their width, what is found, and the direction.
fn view(browser: &Browser) -> serde_json::Value {
    browser.run(
        "const shown = [...document.querySelectorAll('#event-0 svg.flame .b')].filter((b) => b.style.display !== 'none');
         return [shown.map((b) => [b.querySelector('title').textContent, b.getAttribute('width')]),
                 document.querySelector('#event-0 output.matched').textContent,
                 document.querySelector('#event-0 .ways [aria-pressed=true]').textContent]",
    )
}

/// The share of all samples that a search finds, percent.
fn found(browser: &Browser, terms: &str) -> f64 {
    browser.run(&format!("document.querySelector({}).select()", json!(SEARCH)));
    browser.type_into(SEARCH, terms);
    let text = browser.run(MATCHED);
    let text = text.as_str().unwrap().to_owned();
    text.split('%').next().unwrap().parse().unwrap_or_else(|_| panic!("{terms}: {text:?}"))
}

#[test]
fn full_the_address_keeps_zoom_and_search() {
    skip_unless!(need_full().or_else(need_browser));
    let scratch = Scratch::new();
    let run = Run { functions: program(), chains: true, cycles: 1e8, ..Run::default() };
    skip_unless!(record(&scratch, &run));
    scratch.pmuscope(["report", "--symfs", "root", "-o", "page.html"]).exits(0);
    browse(&scratch, "page.html", |browser| {
        // Two boxes side by side, each the only one that has its name: their shares add up.
        let names = browser.run(
            "const all = [...document.querySelectorAll('#event-0 svg.flame .b')].map((box) => [+box.dataset.d, box.querySelector('title').textContent.split('\\n')[0]]);
             const alone = all.filter(([depth, name]) => depth && all.filter(([, other]) => other.includes(name)).length === 1);
             const [depth] = alone.find(([depth]) => alone.filter(([other]) => other === depth).length > 1);
             return alone.filter(([other]) => other === depth).map(([, name]) => name)",
        );
        let [a, b] = [0, 1].map(|at| names[at].as_str().unwrap().to_owned());
        let sum = found(browser, &a) + found(browser, &b);
        let both = found(browser, &format!("{a} | {b}"));
        assert!((both - sum).abs() < 0.02, "{a} | {b}: {both} for {sum}");

        browser.click("#event-0 .flame .b[data-d='2']");
        let address = browser.run("return location.href");
        for way in ["callees", "callers", "time"] {
            if way != "callees" {
                browser.click(&format!("#event-0 .ways button[data-way={way}]"));
                browser.click("#event-0 .flame .b[data-d='1']");
            }
            let (seen, address) = (view(browser), browser.run("return location.href"));
            browser.open_address("about:blank");
            browser.open_address(address.as_str().unwrap());
            assert_eq!(view(browser), seen, "{address}");
        }

        // Foreign addresses do no harm.
        for zoom in ["%5B%22no%20such%22%5D", "x", "3", "%5B%5D"] {
            let plain = address.as_str().unwrap().split('#').next().unwrap();
            browser.open_address("about:blank");
            browser.open_address(&format!("{plain}#flame-0?zoom={zoom}"));
            let zoomed = "return document.querySelector('#event-0 .flame-part .reset').hidden";
            assert_eq!(browser.run(zoomed), json!(true), "{zoom}");
        }

        // Any cell of a row finds its function.
        browser.click("#event-0 table.functions tbody tr:nth-child(2) td:first-child");
        let value = format!("return document.querySelector({}).value", json!(SEARCH));
        let second = browser.run(
            "const cell = document.querySelector('#event-0 table.functions tbody tr:nth-child(2) td:last-child');
             return cell.dataset.find || cell.textContent",
        );
        assert_eq!(browser.run(&value), second);
    });
}
