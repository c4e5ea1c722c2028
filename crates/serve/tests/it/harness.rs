//! A server with a few routes, and a client that sends what it is given.

use std::io::{PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pmuscope_serve::{
    ClientRequest, ListenAddress, Method, Reply, ReplyBody, Routes, Server, ServerLimits,
};

/// The origin that may read `/open`.
pub(crate) const VIEWER: &str = "https://viewer.example";

/// Bytes of `/large`.
pub(crate) const LARGE: u64 = 64 << 20;

/// Routes of the tests.
#[derive(Default)]
pub(crate) struct TestRoutes {
    /// Requests of `/wait` so far.
    pub(crate) waiting: AtomicUsize,
    /// `/wait` answers when this is true.
    pub(crate) goes_on: Mutex<bool>,
    pub(crate) changed: Condvar,
}

impl Routes for TestRoutes {
    fn is_for_viewer(&self, path: &str) -> bool {
        path == "/open"
    }

    fn answer(&self, request: &ClientRequest) -> Reply {
        match (request.method, &*request.path) {
            (Method::Get, "/") => Reply::text(200, &request.base),
            (_, "/open") => Reply::new("application/json", request.body.clone()),
            (Method::Get, "/large") => {
                let file = tempfile::tempfile().unwrap();
                file.set_len(LARGE).unwrap();
                Reply::new("text/plain", ReplyBody::File { file: Arc::new(file), length: LARGE })
            }
            (Method::Get, "/wait") => {
                let goes_on = self.goes_on.lock().unwrap();
                self.waiting.fetch_add(1, Ordering::SeqCst);
                drop(self.changed.wait_while(goes_on, |goes_on| !*goes_on).unwrap());
                Reply::text(200, "waited")
            }
            (Method::Get, "/panic") => panic!("a route that fails"),
            _ => Reply::not_found(),
        }
    }
}

/// A server on its own thread, until this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) routes: Arc<TestRoutes>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// Serves with `limits`.
pub(crate) fn serve(limits: ServerLimits) -> Running {
    let server = Server::bind(ListenAddress::default()).unwrap().allow_origin(VIEWER).limit(limits);
    let (address, token) = (server.address(), server.token().as_str().to_owned());
    assert!(address.ip().is_loopback() && server.url().contains(&token));
    let (asked, stop) = std::io::pipe().unwrap();
    let routes = Arc::new(TestRoutes::default());
    let shared: Arc<dyn Routes> = Arc::clone(&routes) as Arc<dyn Routes>;
    let thread = std::thread::spawn(move || {
        use std::os::fd::AsFd as _;
        server.run(&shared, asked.as_fd()).unwrap();
    });
    Running { address, token, routes, stop: Some(stop), thread: Some(thread) }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.go_on();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = |line: &'_ str| line.split_once(": ").map(|(name, _)| name.to_lowercase());
        let found = self.head.lines().find(|one| line(one).as_deref() == Some(name))?;
        found.split_once(": ").map(|(_, value)| value)
    }
}

impl Running {
    /// A client that waits for `/wait`.
    pub(crate) fn wait(&self) -> TcpStream {
        let mut stream = self.connect();
        let get = format!("GET /{}/wait HTTP/1.1\r\nHost: localhost\r\n\r\n", self.token);
        stream.write_all(get.as_bytes()).unwrap();
        stream
    }

    /// Lets `/wait` answer.
    pub(crate) fn go_on(&self) {
        *self.routes.goes_on.lock().unwrap() = true;
        self.routes.changed.notify_all();
    }

    /// Sockets that the server holds: those at its port that were accepted. Others of this process do not count.
    pub(crate) fn held(&self) -> usize {
        let port = format!(":{:04X}", self.address.port());
        let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let is_held = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (state, inode) = (fields[3], fields[9]);
            fields[1].ends_with(&port) && state != "0A" && inode != "0"
        };
        text.lines().skip(1).filter(is_held).count()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        stream
    }

    /// Sends `text`, in which `TOKEN` stands for the token, and reads to the end.
    pub(crate) fn send(&self, text: &str) -> Got {
        let mut stream = self.connect();
        stream.write_all(text.replace("TOKEN", &self.token).as_bytes()).unwrap();
        read(&mut stream)
    }

    /// GET with the right host and these headers, each with `\r\n` at its end.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Got {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address))
    }
}

/// All that a server sends until it closes.
pub(crate) fn read(stream: &mut TcpStream) -> Got {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let text = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Got { status, head: head.to_owned(), body: body.to_owned() }
}
