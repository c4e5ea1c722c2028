//! What a receiver gets over HTTP, and what is made of its answers.

#![allow(clippy::unwrap_used)] // clippy takes helpers of a test binary for no tests

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesPartialSuccess, ExportProfilesServiceRequest, ExportProfilesServiceResponse,
};
use pmuscope_dataset::{FrameRow, Rows, SampleRow, Timestamp};
use pmuscope_delivery::{PushCause, PushSink, Pushed};
use prost::Message as _;

/// A sample of each service.
fn rows(services: &[&str]) -> Rows {
    let sample = |&service: &&str| SampleRow {
        start: Timestamp(1_764_028_800_000_000),
        bin_us: 300_000_000,
        host: "web-1".into(),
        boot: None,
        service: service.into(),
        version: None,
        unit: None,
        container: None,
        pod: None,
        event: "cpu-clock".into(),
        stack_id: 1,
        samples: 3,
        weight: 3000,
        weight_unit: "us".into(),
        batch: 1,
    };
    let frame = FrameRow {
        stack_id: 1,
        depth: 0,
        inline_depth: 0,
        build_id: None,
        address: Some(16),
        function: Some("main".into()),
        module: "/bin/checkout".into(),
        file: None,
        line: None,
    };
    let samples = services.iter().map(sample).collect();
    Rows { samples, frames: vec![frame], ..Rows::default() }
}

/// A request: its head, and its body.
type Request = (String, Vec<u8>);

/// A receiver on this machine that gives each connection the next answer; its endpoint, and what it got.
fn receiver(answers: Vec<Vec<u8>>) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&mut stream);
            stream.write_all(&answer).unwrap();
            sender.send(request).unwrap();
        }
    });
    (endpoint, requests)
}

fn read(stream: &mut TcpStream) -> Request {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if bytes.len() == end + 4 + length.parse::<usize>().unwrap() {
            return (head, bytes.split_off(end + 4));
        }
    }
}

fn answer(status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

const PROTOBUF: &str = "application/x-protobuf";

#[test]
fn otlp_is_posted_whole_and_a_partial_success_is_reported() {
    let partial =
        ExportProfilesPartialSuccess { rejected_profiles: 1, error_message: "too old".to_owned() };
    let response = ExportProfilesServiceResponse { partial_success: Some(partial) };
    let (endpoint, requests) =
        receiver(vec![answer("200 OK", PROTOBUF, &response.encode_to_vec())]);
    let pushed = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a", "b"])).unwrap();
    let (head, body) = requests.recv().unwrap();
    assert!(head.starts_with("POST /v1development/profiles HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let message = ExportProfilesServiceRequest::decode(&body[..]).unwrap();
    assert_eq!(message.resource_profiles.len(), 2);
    let expected = Pushed {
        requests: 1,
        samples: 6,
        bytes: body.len() as u64,
        rejected_profiles: 1,
        messages: vec!["too old".to_owned()],
    };
    assert_eq!(pushed, expected);
}

#[test]
fn pprof_is_posted_per_service_with_its_name_and_time() {
    let (endpoint, requests) = receiver(vec![answer("200 OK", "text/plain", b""); 2]);
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a", "b"])).unwrap();
    let (head, body) = requests.recv().unwrap();
    let query = "/ingest?name=a%7Bhost%3Dweb-1%7D&from=1764028800&until=1764029100&format=pprof&spyName=pmuscope";
    assert!(head.starts_with(&format!("POST {query} HTTP/1.1\r\n")), "{head}");
    assert!(body.starts_with(&[0x1f, 0x8b]), "gzip");
    assert!(requests.recv().unwrap().0.contains("name=b%7B"));
    assert_eq!((pushed.requests, pushed.samples, pushed.rejected_profiles), (2, 6, 0));
}

#[test]
fn a_refusal_has_the_message_of_the_receiver_and_stops_the_push() {
    // google.rpc.Status: field 1 is a code, field 2 the message.
    let status = [&[0x08, 0x03, 0x12, 0x0b][..], b"bad profile"].concat();
    let (endpoint, _requests) = receiver(vec![answer("400 Bad Request", PROTOBUF, &status)]);
    let error = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])).unwrap_err();
    let expected = format!(
        "cannot push profiles to {endpoint}/: it answered 400: bad profile. Try: the log of the receiver"
    );
    assert_eq!(error.to_string(), expected);

    let answers =
        vec![answer("200 OK", "text/plain", b""), answer("404 Not Found", "text/plain", b"")];
    let (endpoint, requests) = receiver(answers);
    let error = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a", "b", "c"])).unwrap_err();
    assert!(error.to_string().contains("it answered 404. Try: check the path"), "{error}");
    assert_eq!((error.pushed.requests, error.pushed.samples), (1, 3));
    assert_eq!(requests.iter().count(), 2);
}

#[test]
fn a_redirect_is_not_followed() {
    let moved = b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n";
    let (endpoint, requests) = receiver(vec![moved.to_vec()]);
    let error = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])).unwrap_err();
    assert!(matches!(error.cause, PushCause::Refused { status: 302, .. }), "{error}");
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn credentials_are_sent_and_not_shown() {
    let (endpoint, requests) = receiver(vec![answer("401 Unauthorized", "text/plain", b"")]);
    let endpoint = endpoint.replace("http://", "http://me:secret@");
    let error = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])).unwrap_err().to_string();
    assert!(error.contains("it answered 401") && !error.contains("secret"), "{error}");
    let (head, _) = requests.recv().unwrap();
    assert!(head.contains("authorization: Basic bWU6c2VjcmV0"), "{head}");
}

#[test]
fn a_receiver_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot push profiles to {endpoint}/: Connection refused")));
    assert!(matches!(error.cause, PushCause::Connection(_)), "{text}");
}

#[test]
fn a_receiver_that_never_answers_or_never_ends_costs_ten_seconds() {
    let begun = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbeginning";
    let waiting = [("", false), (begun, true)].map(|(beginning, _)| {
        thread::spawn(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                read(&mut stream);
                stream.write_all(beginning.as_bytes()).unwrap();
                // Until the other side gives up.
                stream.read(&mut [0])
            });
            let start = Instant::now();
            let error = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])).unwrap_err();
            let took = start.elapsed();
            assert_eq!(error.cause, PushCause::Time);
            assert!((9..20).contains(&took.as_secs()), "{took:?}");
            let _ = server.join().unwrap();
        })
    });
    waiting.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
    let (endpoint, _requests) = receiver(vec![[head, vec![b'x'; 1 << 20]].concat()]);
    let start = Instant::now();
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a"])).unwrap();
    assert_eq!(pushed.requests, 1);
    assert!(start.elapsed() < Duration::from_secs(5));
}
