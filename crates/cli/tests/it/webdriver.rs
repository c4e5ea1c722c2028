//! A browser under test: chromedriver, spoken to by its protocol (W3C WebDriver: JSON over HTTP on
//! this machine).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::need_program;

/// The protocol's own name for a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// A browser that answers later hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why a test that needs a browser cannot run; `None` if it can.
pub(crate) fn need_browser() -> Option<String> {
    need_program("chromedriver", "--version").or_else(|| need_program("chromium", "--version"))
}

/// A browser with one window. It ends with this value.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Profile of its user: empty at first.
    _user: TempDir,
}

impl Browser {
    /// Starts one that can reach no host by name, with a window of this width.
    pub(crate) fn start(width: u32) -> Self {
        Self::start_with(width, &[], "")
    }

    /// Starts one that takes a port of this machine for a host with a certificate that nobody signed. It can reach no
    /// other host by name.
    pub(crate) fn start_with_host(width: u32, host: &str, port: u16) -> Self {
        let rule = format!("MAP {host}:443 127.0.0.1:{port}, ");
        Self::start_with(width, &["--ignore-certificate-errors"], &rule)
    }

    fn start_with(width: u32, more: &[&str], rule: &str) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port(driver.stdout.take().unwrap());
        let user = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _user: user };
        let user = format!("--user-data-dir={}", browser._user.path().display());
        let window = format!("--window-size={width},900");
        let hosts = format!("--host-resolver-rules={rule}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
        let mut args = vec![
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            &hosts,
            &user,
            &window,
        ];
        args.extend(more);
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args, "perfLoggingPrefs": {"enableNetwork": true}},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let answer =
            browser.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        // Past the browser's own first page.
        browser.post("/url", &json!({"url": "about:blank"}));
        browser.requests();
        browser
    }

    /// Opens a file.
    pub(crate) fn open(&self, path: &Path) {
        self.post("/url", &json!({"url": format!("file://{}", path.display())}));
    }

    /// Opens an address.
    pub(crate) fn open_address(&self, address: &str) {
        self.post("/url", &json!({"url": address}));
    }

    /// What a script of the page gives back; it has `return` where it gives anything.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Clicks the first element that a CSS selector matches, as a mouse does.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        // At the upper edge the head of the page would be clicked.
        let selector = json!(selector);
        self.run(&format!(
            "document.querySelector({selector}).scrollIntoView({{block: 'center'}})"
        ));
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types keys where the first element that a CSS selector matches has the focus. (What the
    /// protocol has for elements does not reach a field within a picture.)
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        self.run(&format!("document.querySelector({}).focus()", json!(selector)));
        self.press(text);
    }

    /// What the page and the browser complained of since this was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// Addresses that were asked for since this was last asked.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "performance"}));
        let message = |entry: &Value| -> Value {
            serde_json::from_str(entry["message"].as_str().unwrap()).unwrap()
        };
        log.as_array()
            .unwrap()
            .iter()
            .map(message)
            .filter(|entry| entry["message"]["method"] == "Network.requestWillBeSent")
            .map(|entry| entry["message"]["params"]["request"]["url"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Opens a page, visits it, and fails on whatever it complains of or asks for but itself.
    pub(crate) fn visit<T>(&self, path: &Path, visit: impl FnOnce(&Self) -> T) -> T {
        self.open(path);
        let seen = visit(self);
        assert_eq!(self.complaints(), Vec::<String>::new(), "{}", path.display());
        let own = format!("file://{}", path.display());
        let requests = self.requests();
        assert!(!requests.is_empty(), "the log has not even the page");
        let foreign: Vec<&String> =
            requests.iter().filter(|url| url.split('#').next() != Some(&own)).collect();
        assert!(foreign.is_empty(), "{} asks for {foreign:?}", path.display());
        seen
    }

    /// Shows pages as on a screen so many pixels wide, to a reader who prefers this scheme: `light`, `dark`.
    pub(crate) fn show_as(&self, width: u32, scheme: &str) {
        let screen =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Presses keys where the focus is.
    pub(crate) fn press(&self, keys: &str) {
        let press = |key: char| {
            ["keyDown", "keyUp"].map(|what| json!({"type": what, "value": key.to_string()}))
        };
        let keys: Vec<Value> = keys.chars().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": keys});
        self.post("/actions", &json!({"actions": [keyboard]}));
    }

    /// A command of the browser's own protocol.
    fn devtools(&self, command: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }

    fn element(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        self.post("/element", &wanted)[ELEMENT].as_str().unwrap().to_owned()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    /// One request on a connection of its own.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        answer.read_exact(&mut bytes).unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        let value = &answer["value"];
        assert!(value.get("error").is_none(), "{method} {path} {body}\n{value:#}");
        value.clone()
    }
}

impl Browser {
    /// Ends the session, also after a failure, where no other may follow.
    fn end(&self) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close";
        if write!(stream, "DELETE {} HTTP/1.1\r\n{head}\r\n\r\n", self.session).is_ok() {
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser when it is told to; a failed test must not leave either.
        if !self.session.is_empty() {
            self.end();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it listens on.
fn port(said: impl std::io::Read) -> u16 {
    let mut said = BufReader::new(said).lines();
    let line = said.find_map(|line| {
        let line = line.unwrap();
        line.contains("started successfully on port").then_some(line)
    });
    let line = line.expect("chromedriver says nothing of a port");
    line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}
