//! Viewers that read what `report --serve` and `-o` give them: the Firefox Profiler's own code, speedscope, a browser.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
        .env("NODE_COMPILE_CACHE", scratch.path("compiled"))
        .stdin(Stdio::null());
    Outcome::of(&mut command)
}

/// The first output that is not empty: with a slow background process the command ends with status 0 and prints nothing.
fn profiler_answer(scratch: &Scratch, args: &[&str]) -> Outcome {
    let mut answer = profiler(scratch, args);
    wait_for("an answer of the profiler", || {
        let is_answered = answer.code() != 0 || !answer.stdout.is_empty();
        if !is_answered {
            answer = profiler(scratch, args);
        }
        is_answered
    });
    answer
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
    // Its background process is given half a second, and stays where that is too short: the more of them, the slower.
    wait_for("the profiler to load", || {
        let is_loaded = profiler(&scratch, &["load", &symbols, &profile]).code() == 0;
        if !is_loaded {
            let path = installed(&scratch, ".bin/profiler-cli");
            let _ = Command::new("pkill").arg("-f").arg(path).status();
        }
        is_loaded
    });
    let functions = profiler_answer(&scratch, &["thread", "functions"]);
    let line = functions.exits(0).stdout.lines().find(|line| line.contains("twist"));
    let handle = line.and_then(|line| line.split_whitespace().find_map(handle));
    let handle = handle.unwrap_or_else(|| panic!("{functions}"));
    let source =
        profiler_answer(&scratch, &["function", "annotate", &handle, "--mode", "src", &symbols]);
    source.exits(0).prints("while (n--) sink = sink * 3 + 1;");
    let code =
        profiler_answer(&scratch, &["function", "annotate", &handle, "--mode", "asm", &symbols]);
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
    for file in ["x.folded", "x.pb.gz"] {
        let browser = open_in_speedscope(&scratch, file);
        let body = || browser.run("return document.body.innerText");
        // The view with a table of functions.
        browser.press("3");
        wait_for("the table", || body().as_str().is_some_and(|text| text.contains("busy")));
    }
}

/// The recording in speedscope, as its own command line opens a file.
fn open_in_speedscope(scratch: &Scratch, file: &str) -> Browser {
    scratch.pmuscope(["report", "-i", "a.data", "-o", file]).exits(0);
    let text = scratch.run("base64", ["-w0", file]).stdout;
    let script = scratch.path("load.js");
    fs::write(&script, format!("speedscope.loadFileFromBase64({file:?}, {text:?})")).unwrap();
    let browser = Browser::start(1200);
    let page = installed(scratch, "speedscope/dist/release/index.html");
    let (page, script) = (page.display(), script.display());
    browser.open_address(&format!("file://{page}#localProfilePath={script}"));
    wait_for("speedscope", || {
        let body = browser.run("return document.body.innerText");
        body.as_str().is_some_and(|text| text.contains("Sandwich"))
    });
    browser
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

/// A recording of one thread in thirty functions of different cost.
fn recorded_thirty() -> Scratch {
    let scratch = Scratch::new();
    let mut source = String::from("static volatile unsigned long sink;\n");
    let mut calls = String::new();
    for at in 1..=30 {
        let _ = writeln!(
            source,
            "__attribute__((noinline)) static void work_{at:02}(void) {{ for (long n = {at} * 40000L; n--;) sink += n; }}"
        );
        let _ = write!(calls, "work_{at:02}(); ");
    }
    let _ = writeln!(source, "int main(void) {{ for (int i = 0; i < 60; i++) {{ {calls} }} }}");
    fs::write(scratch.path("thirty.c"), source).unwrap();
    let flags = "-g -O1 -fno-omit-frame-pointer -o thirty thirty.c";
    scratch.run("cc", flags.split(' ')).exits(0);
    let record =
        ["record", "-g", "-e", "cpu-clock", "-F", "2000", "-o", "a.data", "--", "./thirty"];
    scratch.pmuscope(record).exits(0);
    scratch
}

/// The twenty largest functions of `report`, and their samples.
fn twenty_largest(scratch: &Scratch) -> Vec<(String, u64)> {
    let args = ["report", "-i", "a.data", "--by", "function", "-o", "top.csv"];
    scratch.pmuscope(args).exits(0);
    let csv = fs::read_to_string(scratch.path("top.csv")).unwrap();
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|one| *one == name).unwrap();
    let (samples, function) = (column("samples"), column("function"));
    let rows = lines.take(20).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[function].to_owned(), cells[samples].parse().unwrap())
    });
    let rows: Vec<(String, u64)> = rows.collect();
    assert!(rows.len() == 20 && rows[19].1 > 5, "{rows:?}");
    rows
}

/// Fails where a viewer counted another number of samples for one of those functions.
#[track_caller]
fn assert_counts(viewer: &str, found: &BTreeMap<String, u64>, expected: &[(String, u64)]) {
    for (function, samples) in expected {
        assert_eq!(found.get(function), Some(samples), "{function} in {viewer}: {found:?}");
    }
}

#[test]
fn full_firefox_profiler_and_speedscope_count_the_twenty_largest_as_report_does() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler).or_else(need_browser));
    let scratch = recorded_thirty();
    let expected = twenty_largest(&scratch);
    skip_unless!(need_npm(&scratch, "@firefox-devtools/profiler-cli"));
    scratch.pmuscope(["report", "-i", "a.data", "-o", "x.json.gz"]).exits(0);
    wait_for("the profiler to load", || profiler(&scratch, &["load", "x.json.gz"]).code() == 0);
    let words = ["thread", "functions", "--limit", "0", "--include-idle", "--json"];
    let listed = profiler(&scratch, &words);
    let listed: Value = serde_json::from_str(&listed.exits(0).stdout).unwrap();
    profiler(&scratch, &["stop", "--all"]);
    let row = |row: &Value| {
        Some((row["name"].as_str()?.to_owned(), row["selfSamples"].as_f64()?.round() as u64))
    };
    let rows = listed["functions"].as_array().unwrap().iter().filter_map(row).collect();
    assert_counts("the Firefox Profiler", &rows, &expected);

    skip_unless!(need_npm(&scratch, "speedscope"));
    let browser = open_in_speedscope(&scratch, "x.folded");
    browser.press("3");
    let cells = "return [...document.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.innerText))";
    let table = || -> BTreeMap<String, u64> {
        let rows = browser.run(cells);
        let rows = rows.as_array().unwrap().iter().filter_map(|row| {
            let cells: Vec<&str> = row.as_array()?.iter().filter_map(Value::as_str).collect();
            let number = |text: &str| text.split(' ').next()?.replace(',', "").parse().ok();
            Some(((*cells.get(2)?).to_owned(), number(cells.get(1)?)?))
        });
        rows.collect()
    };
    wait_for("the table", || table().len() >= 20);
    assert_counts("speedscope", &table(), &expected);
}

/// The Firefox Profiler's web app, on a port of this machine.
#[derive(Debug)]
struct ServedApp {
    server: Child,
    port: u16,
}

/// Why the Firefox Profiler's web app cannot be served; `None` if it can.
fn need_app() -> Option<String> {
    let folder = std::env::var("PMUSCOPE_FIREFOX_PROFILER").unwrap_or_default();
    if folder.is_empty() {
        return Some(
            "PMUSCOPE_FIREFOX_PROFILER names no app: scripts/firefox-profiler builds it".to_owned(),
        );
    }
    if !Path::new(&folder).join("index.html").exists() {
        return Some(format!("PMUSCOPE_FIREFOX_PROFILER: {folder} has no index.html"));
    }
    need_program("openssl", "version").or_else(|| need_program("python3", "--version"))
}

/// A server of files over TLS: any path that is no file gives the app, which looks at its address itself.
const APP_SERVER: &str = "\
import functools, http.server, os, ssl, sys
root = sys.argv[1]
class Files(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        file = super().translate_path(path)
        return file if os.path.isfile(file) else os.path.join(root, 'index.html')
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Files, directory=root))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

impl ServedApp {
    fn start(scratch: &Scratch) -> Self {
        let certificate = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost";
        scratch.run("openssl", certificate.split(' ')).exits(0);
        let mut server = Command::new("python3")
            .args(["-c", APP_SERVER])
            .arg(std::env::var_os("PMUSCOPE_FIREFOX_PROFILER").unwrap())
            .current_dir(scratch.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap(), server }
    }
}

impl Drop for ServedApp {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn full_the_firefox_profilers_web_app_counts_the_twenty_largest_as_report_does() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler).or_else(need_browser));
    let scratch = recorded_thirty();
    skip_unless!(need_app());
    let expected = twenty_largest(&scratch);
    let app = ServedApp::start(&scratch);
    let served = serve(&mut command(&scratch, &["--serve"]));
    let browser = Browser::start_with_host(1600, "profiler.firefox.com", app.port);
    browser.open_address(&format!("http://{}/{}/", served.host, served.token));
    // Where the link on our page leads, with the callers below each function: the first level has self samples.
    let link = "return document.querySelector(\"a[href^='https://profiler.firefox.com/']\").href";
    let link = browser.run(link);
    browser.open_address(&format!("{}&invertCallstack", link.as_str().unwrap()));
    let cells = "const of = (name) => [...document.querySelectorAll('.treeViewRow' + name)]\
        .map((row) => [...row.children].map((cell) => cell.innerText));\
        return [of('FixedColumns'), of('ScrolledColumns')]";
    let table = || -> Option<BTreeMap<String, u64>> {
        let both = browser.run(cells);
        let (numbers, names) = (both[0].as_array()?, both[1].as_array()?);
        let rows = numbers.iter().zip(names).filter_map(|(numbers, names)| {
            let samples = numbers[3].as_str()?.replace(',', "").parse().ok()?;
            Some((names[3].as_str()?.to_owned(), samples))
        });
        Some(rows.collect())
    };
    wait_for("the call tree", || table().is_some_and(|rows| rows.len() >= 20));
    assert_counts("the Firefox Profiler's web app", &table().unwrap(), &expected);
}

#[test]
fn full_go_tool_pprof_counts_the_twenty_largest_as_report_does() {
    skip_unless!(need_full().or_else(need_sampling).or_else(need_c_compiler));
    skip_unless!(need_program("go", "version"));
    let scratch = recorded_thirty();
    let expected = twenty_largest(&scratch);
    scratch.pmuscope(["report", "-i", "a.data", "-o", "x.pb.gz"]).exits(0);
    let words = "tool pprof -symbolize=none -top -sample_index=samples -nodecount=1000 -nodefraction=0 x.pb.gz";
    let top = scratch.run("go", words.split(' ')).exits(0).stdout.clone();
    // "  2309  5.80%  5.80%  2311  5.81%  function"
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        Some(((*cells.get(5)?).to_owned(), cells[0].parse().ok()?))
    };
    assert_counts("pprof", &top.lines().filter_map(row).collect(), &expected);
}
