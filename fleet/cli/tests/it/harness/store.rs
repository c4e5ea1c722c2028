//! A small object store: as much of S3's protocol as clients here use, over a folder, with the faults of a network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::files;

/// What the store does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers.
    Well,
    /// Answers 503 to all.
    Overloaded,
    /// Does what is asked, and closes the connection instead of an answer.
    LosesAnswers,
}

/// A store on a port of this machine.
pub(crate) struct Store {
    pub(crate) url: String,
    folder: tempfile::TempDir,
    mood: Arc<Mutex<Mood>>,
}

/// Access to whatever the store has.
pub(crate) const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "key"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("AWS_REGION", "us-east-1"),
];

impl Store {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let mood = Arc::new(Mutex::new(Mood::Well));
        let (root, of_server) = (folder.path().to_owned(), Arc::clone(&mood));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (root, mood) = (root.clone(), Arc::clone(&of_server));
                // A client may go away at any moment.
                std::thread::spawn(move || serve(&connection.ok()?, &root, &mood));
            }
        });
        Self { url, folder, mood }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Files of a table of the dataset `s3://fleet/a`.
    pub(crate) fn table(&self, table: &str) -> Vec<PathBuf> {
        files(&self.folder.path().join("fleet/a/v1").join(table))
    }
}

struct Request {
    method: String,
    /// Bucket and key.
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn serve(stream: &TcpStream, root: &Path, mood: &Mutex<Mood>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let request = request(&mut reader)?;
        let mood = *mood.lock().ok()?;
        let (status, headers, body) = match mood {
            Mood::Overloaded => ("503 Slow Down", String::new(), Vec::new()),
            Mood::Well | Mood::LosesAnswers => answer(root, &request),
        };
        if mood == Mood::LosesAnswers {
            return None;
        }
        // An answer to HEAD has the length of what it does not bring.
        let length = match headers.contains("Content-Length") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut stream = stream;
        write!(stream, "HTTP/1.1 {status}\r\n{headers}{length}\r\n").ok()?;
        stream.write_all(&body).ok()?;
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    (reader.read_line(&mut line).ok()? > 0).then_some(())?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), decoded(value))
    };
    let query = query.split('&').map(pair).collect();
    Some(Request { method, path: decoded(path.trim_matches('/')), query, headers, body })
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

type Answer = (&'static str, String, Vec<u8>);

fn answer(root: &Path, request: &Request) -> Answer {
    let file = root.join(&request.path);
    match request.method.as_str() {
        "PUT" => put(&file, request),
        _ if !request.path.contains('/') => list(root, request),
        _ => get(&file, request),
    }
}

fn put(file: &Path, request: &Request) -> Answer {
    let is_new = request.headers.get("if-none-match").is_some_and(|tag| tag == "*");
    if is_new && file.exists() {
        return ("412 Precondition Failed", String::new(), Vec::new());
    }
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, &request.body).unwrap();
    ("200 OK", "ETag: \"1\"\r\n".into(), Vec::new())
}

fn get(file: &Path, request: &Request) -> Answer {
    let Ok(bytes) = fs::read(file) else {
        return ("404 Not Found", String::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
    };
    let common = "ETag: \"1\"\r\nLast-Modified: Thu, 26 Nov 2026 08:00:00 GMT\r\n";
    if request.method == "HEAD" {
        return ("200 OK", format!("{common}Content-Length: {}\r\n", bytes.len()), Vec::new());
    }
    let range = request.headers.get("range").and_then(|text| text.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return ("200 OK", common.into(), bytes);
    };
    let size = bytes.len();
    let (first, last) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (first, last.min(size - 1)),
        (Ok(first), Err(_)) => (first, size - 1),
        (Err(_), last) => (size - last.unwrap(), size - 1),
    };
    let headers = format!("{common}Content-Range: bytes {first}-{last}/{size}\r\n");
    ("206 Partial Content", headers, bytes[first..=last].to_vec())
}

/// `ListObjectsV2`, all in one page.
fn list(root: &Path, request: &Request) -> Answer {
    let bucket = root.join(&request.path);
    let of = |name: &str| request.query.get(name).map(String::as_str).unwrap_or_default();
    let (prefix, delimiter) = (of("prefix"), of("delimiter"));
    let (mut objects, mut folders) = (String::new(), BTreeSet::new());
    for file in files(&bucket) {
        let key = file.strip_prefix(&bucket).unwrap().to_str().unwrap();
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        match rest.split_once('/') {
            Some((folder, _)) if delimiter == "/" => {
                _ = folders.insert(format!("{prefix}{folder}/"));
            }
            _ => {
                let size = fs::metadata(&file).unwrap().len();
                objects += &format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-11-26T08:00:00.000Z</LastModified>\
                     <ETag>\"1\"</ETag><Size>{size}</Size></Contents>"
                );
            }
        }
    }
    let prefix =
        |folder: String| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
    let folders: String = folders.into_iter().map(prefix).collect();
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{objects}{folders}</ListBucketResult>"
    );
    ("200 OK", "Content-Type: application/xml\r\n".into(), body.into_bytes())
}
