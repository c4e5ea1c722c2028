//! Viewers that read what `report --serve` and `-o` give them: the Firefox Profiler's own code, speedscope, a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{
    Outcome, Scratch, need_c_compiler, need_full, need_program, need_sampling, skip_unless,
    wait_for,
};
use crate::serve::{command, recorded, serve};
use crate::webdriver::{Browser, need_browser};

/// Installs a package of npm below the folder of a test; why that cannot be done.
fn need_npm(scratch: &Scratch, package: &str) -> Option<String> {
    need_program("npm", "--version").or_else(|| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        npm.arg(scratch.path("npm")).arg(package).current_dir(scratch.path(""));
        let said = Outcome::of(&mut npm);
        (said.code() != 0).then(|| format!("npm cannot install {package}"))
    })
}

fn installed(scratch: &Scratch, path: &str) -> PathBuf {
    scratch.path("npm/node_modules").join(path)
}

/// Runs the Firefox Profiler's command line, which has the viewer's code to load a profile and ask a symbol server.
fn profiler(scratch: &Scratch, args: &[&str]) -> Outcome {
    let mut command = Command::new(installed(scratch, ".bin/profiler-cli"));
    command
        .args(args)
        .current_dir(scratch.path(""))
        .env("HOME", scratch.path(""))
        .stdin(Stdio::null());
    Outcome::of(&mut command)
}

#[test]
fn full_the_firefox_profilers_own_code_reads_profile_source_and_assembly() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler));
    skip_unless!(need_program("objdump", "--version"));
    let scratch = recorded();
    skip_unless!(need_npm(&scratch, "@firefox-devtools/profiler-cli"));
    let served = serve(&mut command(&scratch, &["--serve"]));
    let base = format!("http://{}/{}", served.host, served.token);
    let (profile, symbols) = (format!("{base}/profile.json"), format!("--symbol-server={base}"));
    // Its background process gives up after half a second on a busy machine.
    wait_for("the profiler to load", || {
        profiler(&scratch, &["load", &symbols, &profile]).code() == 0
    });
    let functions = profiler(&scratch, &["thread", "functions"]);
    let line = functions.exits(0).stdout.lines().find(|line| line.contains("twist"));
    let handle = line.and_then(|line| line.split_whitespace().find_map(handle));
    let handle = handle.unwrap_or_else(|| panic!("{functions}"));
    let source = profiler(&scratch, &["function", "annotate", &handle, "--mode", "src", &symbols]);
    source.exits(0).prints("while (n--) sink = sink * 3 + 1;");
    let code = profiler(&scratch, &["function", "annotate", &handle, "--mode", "asm", &symbols]);
    code.exits(0).prints("ret");
    profiler(&scratch, &["stop", "--all"]);
}

/// `f-12`, with whatever stands around it.
fn handle(word: &str) -> Option<String> {
    let from = word.find("f-")?;
    let digits: String = word[from + 2..].chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then(|| format!("f-{digits}"))
}

#[test]
fn full_speedscope_reads_folded_stacks_and_pprof() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler).or_else(need_browser));
    let scratch = recorded();
    skip_unless!(need_npm(&scratch, "speedscope"));
    skip_unless!(need_program("base64", "--version"));
    let page = installed(&scratch, "speedscope/dist/release/index.html");
    for file in ["x.folded", "x.pb.gz"] {
        scratch.pmuscope(["report", "-i", "a.data", "-o", file]).exits(0);
        let text = scratch.run("base64", ["-w0", file]).stdout;
        // As speedscope's own command line opens a file.
        let script = scratch.path("load.js");
        let call = format!("speedscope.loadFileFromBase64({file:?}, {text:?})");
        fs::write(&script, call).unwrap();
        let browser = Browser::start(1200);
        browser.open_address(&format!(
            "file://{}#localProfilePath={}",
            page.display(),
            script.display()
        ));
        let body = || browser.run("return document.body.innerText");
        wait_for("speedscope", || body().as_str().is_some_and(|text| text.contains("Sandwich")));
        // The view with a table of functions.
        browser.press("3");
        wait_for("the table", || body().as_str().is_some_and(|text| text.contains("busy")));
    }
}

#[test]
fn full_served_pages_work_under_their_policy() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler).or_else(need_browser));
    let scratch = recorded();
    let served = serve(&mut command(&scratch, &["--serve"]));
    let browser = Browser::start(1200);
    let address = |path: &str| format!("http://{}/{}{path}", served.host, served.token);
    browser.open_address(&address("/"));
    assert_eq!(browser.run("return document.links.length"), 3);
    browser.click("a[href='page.html']");
    let title = || browser.run("return document.querySelector('table.functions')?.innerText ?? ''");
    wait_for("the page", || title().as_str().is_some_and(|text| text.contains("busy")));
    // Its script runs.
    browser.click("table.functions th:last-child button");
    let complaints = browser.complaints();
    let of_page = |text: &&String| !text.contains("favicon.ico");
    assert_eq!(complaints.iter().filter(of_page).collect::<Vec<_>>(), Vec::<&String>::new());
    let own = format!("http://{}/", served.host);
    let foreign: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with(&own)).collect();
    assert_eq!(foreign, Vec::<String>::new());
    // A page of another origin cannot read the profile, whatever it knows.
    let other = scratch.path("other.html");
    fs::write(&other, "<title>other</title>").unwrap();
    browser.open(Path::new(&other));
    let script = format!(
        "return fetch({:?}).then((answer) => 'read', () => 'refused')",
        address("/profile.json")
    );
    assert_eq!(browser.run(&script), Value::from("refused"));
}
