//! Pages and pictures of `pmuscope metrics`, of a simulated program whose functions have names.

use crate::harness::{Scratch, need_full, skip_unless};
use crate::outputs::browse;
use crate::simulated::{program, record};
use crate::webdriver::{Browser, need_browser};
use pmuscope_testkit::simulator::Run;

/// What has no reliable value.
const GREY: &str = "#c3c7ce";

fn run(chains: bool) -> Run {
    Run { functions: program(), chains, cycles: 6e8, ..Run::default() }
}

/// What a file of `pmuscope metrics` holds.
#[track_caller]
fn written(scratch: &Scratch, file: &str, args: &[&str]) -> String {
    let all = ["metrics", "--symfs", "root", "-o", file];
    scratch.pmuscope(all.iter().chain(args)).exits(0).is_silent();
    std::fs::read_to_string(scratch.path(file)).unwrap()
}

/// What is said of each box of a picture.
fn boxes(picture: &str) -> Vec<String> {
    let titles =
        picture.split("<title>").skip(1).map(|rest| rest.split("</title>").next().unwrap());
    let of_boxes = titles.filter(|title| title.contains(" samples"));
    of_boxes.map(|title| title.replace('\n', " ")).collect()
}

/// The color of the box of a function.
fn fill<'a>(picture: &'a str, function: &str) -> &'a str {
    let at = picture.find(&format!("<title>{function}\n")).unwrap();
    picture[at..].split("fill=\"").nth(1).unwrap().split('"').next().unwrap()
}

#[test]
fn functions_stand_below_their_modules_where_there_are_no_chains() {
    let scratch = Scratch::new();
    skip_unless!(record(&scratch, &run(false)));
    let picture = written(&scratch, "x.svg", &[]);
    let boxes = boxes(&picture);
    assert!(
        boxes[0].starts_with("all 100.00%") && boxes[1].starts_with("simulated "),
        "{boxes:#?}"
    );
    let of = |function: &str| {
        let is_it = |one: &&String| one.starts_with(&format!("{function} simulated: "));
        boxes.iter().find(is_it).unwrap_or_else(|| panic!("{function} is not in {boxes:#?}"))
    };
    assert!(of("division").contains(", CPI 4.99"), "{boxes:#?}");
    assert!(of("leaf").contains(", CPI ~0."), "{boxes:#?}");
    assert_eq!(fill(&picture, "leaf"), GREY);
    let colored = ["division", "branches", "chase", "caller"].map(|name| fill(&picture, name));
    assert!(!colored.contains(&GREY) && colored[0] != colored[3], "{colored:?}");
    assert!(picture.contains(">CPI [cycles/instruction]</text>"), "no legend");
}

/// Events of CPUs are of all tasks; the widths are of those that the windows are of.
#[test]
fn a_flame_graph_is_of_the_threads_that_were_asked_for() {
    let samples = |only_threads: &[u32]| -> Option<u64> {
        let scratch = Scratch::new();
        let asked = Run { only_threads: only_threads.to_vec(), cycles: 1e8, ..run(true) };
        if let Some(why) = record(&scratch, &asked) {
            eprintln!("skipped: {why}");
            return None;
        }
        let boxes = boxes(&written(&scratch, "x.svg", &[]));
        let words: Vec<&str> = boxes[0].split(' ').collect();
        let at = words.iter().position(|word| word.starts_with("samples")).unwrap();
        let report = scratch.pmuscope(["report", "--symfs", "root", "pmuscope.data"]);
        let told = report.exits(0).stdout.contains("was requested, but events cover all tasks");
        assert_eq!(told, !only_threads.is_empty(), "{report}");
        Some(words[at - 1].replace(',', "").parse().unwrap())
    };
    let [Some(all), Some(first), Some(second)] = [&[][..], &[100], &[101]].map(samples) else {
        return;
    };
    assert!(first > 0 && second > 0 && first + second == all, "{first} + {second} of {all}");
}

#[test]
fn with_call_chains_callers_stand_above_what_they_call() {
    let scratch = Scratch::new();
    skip_unless!(record(&scratch, &run(true)));
    let picture = written(&scratch, "x.svg", &["--color-by", "BM/KI"]);
    let depth = |box_: &str| -> u32 {
        box_.split("data-d=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let divisions: Vec<u32> = picture
        .split("<svg class=\"b")
        .filter(|one| one.contains("<title>division\n"))
        .map(|one| depth(&format!("<svg class=\"b{one}")))
        .collect();
    assert_eq!(divisions, [2, 3], "called from outside, and by caller");
    assert!(boxes(&picture).iter().any(|one| one.contains(", BM/KI 30")), "{picture}");
    let page = written(&scratch, "x.html", &["--metrics", "CPI"]);
    assert!(page.contains("Callers on top") && page.contains("windows that end in the function"));
}

#[test]
fn a_page_can_be_read_without_a_script() {
    let scratch = Scratch::new();
    skip_unless!(record(&scratch, &run(false)));
    let page = written(&scratch, "x.html", &["--color-by", "CM/KI", "--metrics", "CPI,DTLB/KI"]);
    let row = |name: &str| {
        let end = page.find(&format!("<td class=\"name\">{name}</td>")).unwrap();
        page[..end].rsplit("<tr>").next().unwrap().to_owned()
    };
    // Share, windows, CPI, DTLB/KI which was not counted, CM/KI in a color, kept.
    let division = row("division");
    assert!(
        division.contains(">4.990 ± 0.022<") && division.contains("data-v=\"-1\">-</td>"),
        "{division}"
    );
    assert!(division.contains("style=\"--t:#fff6c9\""), "the least of all");
    assert!(row("chase").contains("style=\"--t:#d95a45\""), "the most of all");
    assert!(row("leaf").contains(&format!("style=\"--t:{GREY}\"")), "too short for windows");
    assert!(page.contains("CM/KI [/1000 instructions]") && page.contains("no reliable value"));
    assert!(page.contains("No call stacks") && page.contains("Rejected windows"));
    let lines = written(&scratch, "y.html", &["--by", "module"]);
    assert!(!lines.contains("Flame graph</h2>") && lines.contains("simulated"));
}

#[test]
fn what_cannot_be_drawn_is_told() {
    let scratch = Scratch::new();
    skip_unless!(record(&scratch, &run(false)));
    let run = |args: &[&str]| scratch.pmuscope(["metrics"].iter().chain(args));
    run(&["--color-by", "CPI"]).exits(2).complains("Try: -o FILE.html");
    run(&["--by", "line", "-o", "x.svg"]).exits(2).complains("Try: --by function");
    run(&["--color-by", "DTLB/KI", "-o", "x.svg"]).exits(2).complains("was not counted");
    run(&["--color-by", "CPU", "-o", "x.svg"]).exits(2).complains("no metric or group \"CPU\"");
    assert!(!scratch.path("x.svg").exists());
}

#[test]
fn full_a_page_of_metrics_sorts_filters_and_finds_without_any_network() {
    skip_unless!(need_full().or_else(need_browser));
    let scratch = Scratch::new();
    skip_unless!(record(&scratch, &run(true)));
    written(&scratch, "page.html", &[]);
    browse(&scratch, "page.html", |browser| {
        let names = |browser: &Browser| -> Vec<String> {
            let texts = browser.run(
                "return [...document.querySelectorAll('table.functions tbody tr')]
                    .filter((r) => !r.hidden).map((r) => [...r.cells].at(-1).textContent)",
            );
            texts.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(browser)[0], "division");
        // CPI, from the largest; then from the smallest.
        browser.click("table.functions th:nth-child(3) button");
        let falling = names(browser);
        browser.click("table.functions th:nth-child(3) button");
        let mut rising = names(browser);
        rising.reverse();
        assert_eq!((&falling[0][..], &falling), ("division", &rising));
        browser.type_into("input.filter", "bran");
        assert_eq!(names(browser), ["branches"]);
        browser.click("table.functions tr:not([hidden]) td.name");
        let hit = browser.run("return document.querySelector('.b.hit title').textContent");
        assert!(hit.as_str().unwrap().starts_with("branches"), "{hit}");
    });
}
