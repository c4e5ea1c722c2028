//! `pmuscope report --serve` and `--open`: a real recording, asked as browsers and the Firefox Profiler ask.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Outcome, Scratch, Started, need_c_compiler, need_program, need_sampling, skip_unless,
};

/// A function with another inlined into it takes nearly all of the time.
const SOURCE: &str = "\
volatile unsigned long sink;
static inline __attribute__((always_inline)) void twist(long n) {
    while (n--) sink = sink * 3 + 1;
}
__attribute__((noinline)) void busy(long n) {
    twist(n);
    sink++;
}
int main(void) {
    for (int i = 0; i < 60; i++) busy(2000000);
    return 0;
}
";

/// The origin of the Firefox Profiler.
const VIEWER: &str = "Origin: https://profiler.firefox.com\r\n";

pub(crate) fn recorded() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path("busy.c"), SOURCE).unwrap();
    let source = scratch.path("busy.c");
    let cc = ["-g", "-O1", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", "busy"];
    scratch.run("cc", cc.iter().map(|word| word.as_ref()).chain([source.as_os_str()])).exits(0);
    let record = ["record", "-g", "-e", "cpu-clock", "-F", "1000", "-o", "a.data", "--", "./busy"];
    scratch.pmuscope(record).exits(0);
    scratch
}

/// A server that runs.
pub(crate) struct Served {
    program: Started,
    /// `127.0.0.1:4000`.
    pub(crate) host: String,
    pub(crate) token: String,
}

/// An answer.
struct Got {
    status: u16,
    head: String,
    body: Vec<u8>,
}

pub(crate) fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["report", "-i", "a.data"]).args(args).stdin(Stdio::null());
    command.current_dir(scratch.path("")).env("PMUSCOPE_CACHE", scratch.path("cache"));
    for name in
        ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "SSH_CONNECTION", "SSH_TTY"]
    {
        command.env_remove(name);
    }
    command
}

pub(crate) fn serve(command: &mut Command) -> Served {
    let program = Started::of(command);
    program.wait_until(|| program.said("ssh -N -L "));
    let text = program.printed();
    let url = text.split_whitespace().find_map(|word| word.strip_prefix("http://")).unwrap();
    let (host, token) = url.trim_end_matches('/').split_once('/').unwrap();
    let (host, token) = (host.to_owned(), token.to_owned());
    let port = host.rsplit(':').next().unwrap();
    assert!(text.contains(&format!("ssh -N -L {port}:127.0.0.1:{port} ")), "{text}");
    Served { program, host, token }
}

impl Served {
    /// Sends a request with these headers, each with `\r\n` at its end.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        let (host, length) = (&self.host, body.len());
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
        stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, head, body: all[end + 4..].to_vec() }
    }

    fn get(&self, path: &str, headers: &str) -> Got {
        self.send("GET", &format!("/{}{path}", self.token), headers, "")
    }

    /// Asks as the Firefox Profiler does.
    fn ask(&self, path: &str, question: &Value) -> Value {
        let path = format!("/{}{path}", self.token);
        let got = self.send("POST", &path, VIEWER, &question.to_string());
        assert_eq!(got.status, 200, "{}", got.head);
        assert!(got.head.contains("Access-Control-Allow-Origin: https://profiler.firefox.com"));
        serde_json::from_slice(&got.body).unwrap()
    }

    /// The profile that the viewer is given.
    fn profile(&self) -> Value {
        let got = self.get("/profile.json", VIEWER);
        assert!(got.head.contains("Content-Encoding: gzip"), "{}", got.head);
        let mut text = String::new();
        GzDecoder::new(&got.body[..]).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Frames of a program in a profile: address, name of the function, whether it is inlined.
fn frames(profile: &Value, lib: usize) -> Vec<(u64, String, bool)> {
    let thread = &profile["threads"][0];
    let (frames, functions) = (&thread["frameTable"], &thread["funcTable"]);
    let number = |column: &Value, at: usize| column[at].as_u64().unwrap() as usize;
    let length = frames["length"].as_u64().unwrap() as usize;
    let one = |at: usize| {
        let function = number(&frames["func"], at);
        let resource = number(&functions["resource"], function);
        let name = &profile["shared"]["stringArray"][number(&functions["name"], function)];
        let is_of_it = number(&thread["resourceTable"]["lib"], resource) == lib;
        let inlined = number(&frames["inlineDepth"], at) > 0;
        let found = (frames["address"][at].as_u64()?, name.as_str().unwrap().to_owned(), inlined);
        is_of_it.then_some(found)
    };
    (0..length).filter_map(one).collect()
}

/// Index, name and id of the program's library.
fn program(profile: &Value) -> (usize, String, String) {
    let libs = profile["libs"].as_array().unwrap();
    let at = libs.iter().position(|lib| lib["name"] == "busy").unwrap();
    let text = |name: &str| libs[at][name].as_str().unwrap().to_owned();
    (at, text("debugName"), text("breakpadId"))
}

/// Innermost first: function and line, as addr2line has them.
fn by_addr2line(scratch: &Scratch, address: u64) -> Vec<(String, u64)> {
    let address = format!("{address:#x}");
    let said = scratch.run("addr2line", ["-f", "-i", "-e", "busy", &address]);
    let lines: Vec<&str> = said.exits(0).stdout.lines().collect();
    let line = |text: &str| {
        let number = text.rsplit(':').next().unwrap();
        number.split(' ').next().unwrap().parse().unwrap_or(0)
    };
    lines.chunks(2).map(|pair| (pair[0].to_owned(), line(pair[1]))).collect()
}

#[test]
fn the_viewer_gets_symbols_source_and_instructions() {
    skip_unless!(need_sampling().or_else(need_c_compiler));
    skip_unless!(
        need_program("addr2line", "--version").or_else(|| need_program("objdump", "--version"))
    );
    let scratch = recorded();
    let served = serve(&mut command(&scratch, &["--serve"]));
    let profile = served.profile();
    let (lib, name, id) = program(&profile);
    let frames = frames(&profile, lib);
    assert!(frames.iter().any(|(_, name, inlined)| name == "twist" && *inlined), "{frames:?}");

    // Every address has the functions of the report and of addr2line.
    let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
    let stack: Vec<Value> = addresses.iter().map(|at| json!([0, at])).collect();
    let job = json!({"memoryMap": [[name, id], ["none", "0"]], "stacks": [stack]});
    let answer = served.ask("/symbolicate/v5", &json!({"jobs": [job]}));
    let result = &answer["results"][0];
    assert_eq!(result["found_modules"], json!({format!("busy/{id}"): true, "none/0": null}));
    for (at, (address, name, inlined)) in frames.iter().enumerate() {
        let found = &result["stacks"][0][at];
        assert_eq!(found["module_offset"], format!("{address:#x}"));
        let expected = by_addr2line(&scratch, *address);
        if expected[0].1 == 0 {
            // Startup code of the C library, where a sample falls now and then, has no lines.
            continue;
        }
        let inlines = found["inlines"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<(String, u64)> = inlines
            .iter()
            .chain([found])
            .map(|one| (one["function"].as_str().unwrap().into(), one["line"].as_u64().unwrap()))
            .collect();
        assert_eq!(names, expected, "{address:#x}");
        let expected = if *inlined { names.remove(0).0 } else { names.pop().unwrap().0 };
        assert_eq!(&expected, name, "{address:#x}");
    }

    // The function that all of it is in, its source, and its instructions.
    let symbols = &profile["threads"][0]["nativeSymbols"];
    let text = |at: &Value| profile["shared"]["stringArray"][at.as_u64().unwrap() as usize].clone();
    let names = symbols["name"].as_array().unwrap();
    let at = names.iter().position(|name| text(name) == "busy").unwrap();
    let (start, size) = (symbols["address"][at].as_u64().unwrap(), &symbols["functionSize"][at]);
    let source = scratch.path("busy.c").canonicalize().unwrap();
    let question = json!({"debugName": name, "debugId": id, "moduleOffset": format!("{start:#x}"), "file": source});
    assert_eq!(served.ask("/source/v1", &question)["source"], SOURCE);
    let question = json!({
        "debugName": name, "debugId": id, "name": name, "codeId": null,
        "startAddress": format!("{start:#x}"), "size": format!("{size:#x}", size = size.as_u64().unwrap()),
        "continueUntilFunctionEnd": false,
    });
    let answer = served.ask("/asm/v1", &question);
    let instructions = answer["instructions"].as_array().unwrap();
    let objdump =
        scratch.run("objdump", ["-d", "--no-show-raw-insn", "--disassemble=busy", "busy"]);
    let listed = objdump.stdout.lines().filter(|line| line.contains(":\t")).count();
    assert!(instructions.len() == listed && listed > 3, "{answer}\n{objdump}");
    assert_eq!(
        (instructions[0][0].as_u64(), &answer["startAddress"]),
        (Some(0), &question["startAddress"])
    );
}

#[test]
fn only_source_of_the_recording_is_served() {
    skip_unless!(need_sampling().or_else(need_c_compiler));
    let scratch = recorded();
    let served = serve(&mut command(&scratch, &["--serve"]));
    let profile = served.profile();
    let (lib, name, id) = program(&profile);
    let address = frames(&profile, lib)[0].0;
    let source = scratch.path("busy.c").canonicalize().unwrap();
    let ask = |name: &str, id: &str, address: u64, file: &str| {
        let at = format!("{address:#x}");
        let question = json!({"debugName": name, "debugId": id, "moduleOffset": at, "file": file});
        served.ask("/source/v1", &question)
    };
    let path = source.to_str().unwrap();
    assert_eq!(ask(&name, &id, address, path)["source"], SOURCE);
    let folder = source.parent().unwrap().display();
    let refused = [
        (name.as_str(), id.as_str(), address, "/etc/passwd".to_owned()),
        (&name, &id, address, format!("{path}/../../../../../etc/passwd")),
        (&name, &id, address, format!("{folder}/./busy.c")),
        (&name, &id, address, format!("{folder}/a.data")),
        (&name, &id, address, "busy.c".to_owned()),
        (&name, &id, address, String::new()),
        (&name, &id, 0, path.to_owned()),
        (&name, &id, u64::MAX, path.to_owned()),
        (&name, "0", address, path.to_owned()),
        ("busybox", &id, address, path.to_owned()),
        ("/etc/passwd", "", address, "/etc/passwd".to_owned()),
    ];
    for (name, id, address, file) in refused {
        let answer = ask(name, id, address, &file);
        assert!(answer["error"].is_string() && answer["source"].is_null(), "{file}: {answer}");
    }
    // The name leads elsewhere now.
    fs::write(scratch.path("secret"), "key").unwrap();
    fs::create_dir(scratch.path("inner")).unwrap();
    fs::remove_file(&source).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &source).unwrap();
    let answer = ask(&name, &id, address, path);
    assert!(answer["error"].as_str().unwrap().contains("outside"), "{answer}");
    for path in ["/%2e%2e/a.data", "/../a.data", "/a.data", "/busy.c", "/page.html/../a.data"] {
        assert_eq!(served.get(path, "").status, 404, "{path}");
    }
    for question in
        ["", "{", "[]", "{\"jobs\":1}", "{\"memoryMap\":[],\"stacks\":[[[0,-1],[9,9]]]}"]
    {
        let path = format!("/{}/symbolicate/v5", served.token);
        let got = served.send("POST", &path, "", question);
        assert!(
            got.status == 200 && serde_json::from_slice::<Value>(&got.body).is_ok(),
            "{question}"
        );
    }
}

#[test]
fn pages_and_files_are_those_of_the_report() {
    skip_unless!(need_sampling().or_else(need_c_compiler));
    let scratch = recorded();
    let served = serve(&mut command(&scratch, &["--serve=127.0.0.1:0", "--annotate-top", "1"]));
    let index = String::from_utf8(served.get("/", "").body).unwrap();
    let viewer = format!(
        "https://profiler.firefox.com/from-url/http%3A%2F%2F{}%2F{}%2Fprofile.json/?symbolServer=",
        served.host.replace(':', "%3A"),
        served.token
    );
    assert!(index.contains(&viewer) && index.contains("href=\"page.html\""), "{index}");
    let page = String::from_utf8(served.get("/page.html", "").body).unwrap();
    assert!(page.contains("while (n--) sink = sink * 3 + 1;"), "the code of the hottest function");
    scratch.pmuscope(["report", "-i", "a.data", "-o", "x.pb.gz"]).exits(0);
    assert!(served.get("/profile.pb.gz", "").body == fs::read(scratch.path("x.pb.gz")).unwrap());
    // Nothing without the token, and nothing for other sites.
    let wrong = "0".repeat(served.token.len());
    for path in ["/", "/profile.json", &format!("/{wrong}/"), &format!("/{wrong}/profile.json")] {
        let got = served.send("GET", path, VIEWER, "");
        assert_eq!((got.status, &*got.body), (404, &b"not found\n"[..]), "{path}");
        assert!(!got.head.contains("Access-Control"), "{}", got.head);
    }
    for (path, headers) in [
        ("/profile.json", "Origin: https://evil.example\r\n"),
        ("/profile.json", "Origin: null\r\n"),
        ("/page.html", VIEWER),
        ("/profile.pb.gz", VIEWER),
    ] {
        assert_eq!(served.get(path, headers).status, 403, "{path} {headers}");
    }
    let asks = format!(
        "{VIEWER}Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n"
    );
    let path = format!("/{}/source/v1", served.token);
    let got = served.send("OPTIONS", &path, &asks, "");
    assert_eq!(got.status, 204);
    assert!(got.head.contains("Access-Control-Allow-Private-Network: true"), "{}", got.head);
}

#[test]
fn signals_end_it_in_order() {
    skip_unless!(need_sampling().or_else(need_c_compiler));
    let scratch = recorded();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let served = serve(&mut command(&scratch, &["--serve"]));
        // A client that says nothing delays nothing.
        let _idle = TcpStream::connect(&served.host).unwrap();
        served.program.signal(signal);
        served.program.ends().exits(0).is_silent();
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_what_to_type() {
    let scratch = Scratch::new();
    let report = |args: &[&str]| scratch.pmuscope(["report"].iter().chain(args));
    fs::write(scratch.path("a.data"), "no recording").unwrap();
    for address in ["--serve=0.0.0.0:8000", "--serve=[::]:8000", "--serve=192.0.2.1:8000"] {
        let said = refused(&scratch, address);
        said.complains("is reachable from other machines")
            .complains("ssh -N -L 8000:127.0.0.1:8000 ");
    }
    refused(&scratch, "--serve=nowhere").complains("is no address").complains("Try: --serve");
    report(&["-i", "none.data", "--serve"]).exits(2).complains("none.data");
    report(&["-i", "a.data", "--serve", "--json"]).exits(2).complains("--json");
    report(&["-i", "a.data", "--open", "-o", "x.html"]).exits(2).complains("--output");
}

/// Refused before the recording is looked at.
fn refused(scratch: &Scratch, flag: &str) -> Outcome {
    let said = scratch.pmuscope(["report", "-i", "a.data", flag]);
    said.exits(2);
    said
}

/// A browser that writes what it was given to `opened`.
fn browser(scratch: &Scratch) -> String {
    let path = scratch.path("browser");
    fs::write(&path, "#!/bin/sh\nprintf '%s' \"$1\" > opened.part && mv opened.part opened\n")
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_page_is_opened_in_the_browser() {
    skip_unless!(need_sampling().or_else(need_c_compiler));
    let scratch = recorded();
    let browser = browser(&scratch);
    Outcome::of(command(&scratch, &["--open"]).env("BROWSER", &browser)).exits(0).is_silent();
    let opened = fs::read_to_string(scratch.path("opened")).unwrap();
    let page = fs::read_to_string(&opened).unwrap();
    assert!(page.contains("<title>") && page.contains("busy"), "{opened}");
    let folder = Path::new(&opened).parent().unwrap();
    assert!(folder.starts_with(scratch.path("cache")), "{opened}");
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o077, 0);

    // Without a browser the page is there, and its path.
    let said = Outcome::of(&mut command(&scratch, &["--open"]));
    said.exits(3).complains("there is no display").complains(&opened);
    let said = Outcome::of(
        command(&scratch, &["--open"]).env("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22"),
    );
    said.exits(3).complains("SSH session has no display").complains("report --serve");

    // A served page is opened by a file that leads there: command lines are public.
    fs::remove_file(scratch.path("opened")).unwrap();
    let served = serve(command(&scratch, &["--serve", "--open"]).env("BROWSER", &browser));
    served.program.wait_until(|| scratch.path("opened").exists());
    let opened = fs::read_to_string(scratch.path("opened")).unwrap();
    let page = fs::read_to_string(&opened).unwrap();
    assert!(
        page.contains(&format!("url=http://{}/{}/page.html", served.host, served.token)),
        "{page}"
    );
    assert_eq!(fs::metadata(&opened).unwrap().permissions().mode() & 0o077, 0);
    served.program.signal(Signal::TERM);
    served.program.ends().exits(0);
    assert!(!Path::new(&opened).exists());
}
