//! What a receiver gets over HTTP, and what is made of its answers.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesPartialSuccess, ExportProfilesServiceRequest, ExportProfilesServiceResponse,
};
use pmuscope_dataset::{FrameRow, Rows, SampleRow, Timestamp};
use pmuscope_delivery::{PushCause, PushFailure, PushSink, Pushed};
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
    let pushed = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a", "b"]));
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
        failures: Vec::new(),
    };
    assert_eq!(pushed, expected);
}

#[test]
fn pprof_is_posted_per_service_with_its_name_and_time() {
    let (endpoint, requests) = receiver(vec![answer("200 OK", "text/plain", b""); 2]);
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a", "b"]));
    let (head, body) = requests.recv().unwrap();
    let query = "/ingest?name=a%7Bhost%3Dweb-1%7D&from=1764028800&until=1764029100&format=pprof&spyName=pmuscope";
    assert!(head.starts_with(&format!("POST {query} HTTP/1.1\r\n")), "{head}");
    assert!(body.starts_with(&[0x1f, 0x8b]), "gzip");
    assert!(requests.recv().unwrap().0.contains("name=b%7B"));
    assert_eq!((pushed.requests, pushed.samples, pushed.rejected_profiles), (2, 6, 0));
}

/// The only reason why something was not taken.
#[track_caller]
fn failure(pushed: &Pushed) -> PushFailure {
    let [failure] = &pushed.failures[..] else { panic!("{pushed:?}") };
    failure.clone()
}

/// Services and their samples.
fn services(failure: &PushFailure) -> Vec<(&str, u64)> {
    failure.services.iter().map(|(name, &samples)| (&**name, samples)).collect()
}

/// `google.rpc.Status`: field 1 is a code, field 2 the message.
fn bad_profile() -> Vec<u8> {
    let status = [&[0x08, 0x03, 0x12, 0x0b][..], b"bad profile"].concat();
    answer("400 Bad Request", PROTOBUF, &status)
}

#[test]
fn a_refusal_has_the_message_of_the_receiver() {
    let (endpoint, _requests) = receiver(vec![bad_profile()]);
    let refused = failure(&PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])));
    let expected = format!(
        "cannot push profiles of a (3 samples) to {endpoint}/: it answered 400: bad profile. \
         Try: the log of the receiver"
    );
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn a_refused_profile_stops_no_other_and_is_counted_by_service() {
    let taken = || answer("200 OK", "text/plain", b"");
    let refused = || answer("400 Bad Request", "text/plain", b"gzip is not welcome");
    let missing = answer("404 Not Found", "text/plain", b"");
    let answers = vec![taken(), refused(), refused(), missing, taken()];
    let (endpoint, requests) = receiver(answers);
    let all = ["a", "gzip-1", "gzip-2", "h", "z"];
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&all));
    assert_eq!((requests.iter().count(), pushed.requests, pushed.samples), (5, 2, 6));
    let [refused, missing] = &pushed.failures[..] else { panic!("{pushed:?}") };
    assert_eq!(services(refused), [("gzip-1", 3), ("gzip-2", 3)]);
    assert_eq!((services(missing), missing.samples()), (vec![("h", 3)], 3));
    let expected = format!(
        "cannot push profiles of gzip-1 (3 samples), gzip-2 (3 samples) to {endpoint}/: \
         it answered 400: gzip is not welcome. Try: the log of the receiver"
    );
    assert_eq!(refused.to_string(), expected);
    assert!(missing.to_string().contains("it answered 404. Try: check the path"), "{missing}");
}

#[test]
fn a_refused_request_is_sent_again_by_service() {
    let taken = || answer("200 OK", PROTOBUF, b"");
    let (endpoint, requests) = receiver(vec![bad_profile(), taken(), bad_profile(), taken()]);
    let pushed = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a", "b", "c"]));
    assert_eq!((pushed.requests, pushed.samples), (2, 6));
    assert_eq!(services(&failure(&pushed)), [("b", 3)]);
    let resources = |(_, body): (String, Vec<u8>)| {
        ExportProfilesServiceRequest::decode(&body[..]).unwrap().resource_profiles.len()
    };
    assert_eq!(requests.iter().map(resources).collect::<Vec<_>>(), [3, 1, 1, 1]);
    // Nothing that is in it would make a receiver without the path take it.
    let (endpoint, requests) = receiver(vec![answer("404 Not Found", "text/plain", b"")]);
    let pushed = PushSink::otlp(&endpoint).unwrap().push(&rows(&["a", "b"]));
    assert_eq!(services(&failure(&pushed)), [("a", 3), ("b", 3)]);
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn answers_that_all_differ_are_ten_messages_and_one() {
    let names: Vec<String> = (10..30).map(|number| format!("s{number}")).collect();
    let refused = |name: &String| answer("400 Bad Request", "text/plain", name.as_bytes());
    let (endpoint, _requests) = receiver(names.iter().map(refused).collect());
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&names));
    let [.., last] = &pushed.failures[..] else { panic!("{pushed:?}") };
    assert_eq!((pushed.failures.len(), last.samples()), (11, 30));
    let named = "cannot push profiles of s20 (3 samples), s21 (3 samples), s22 (3 samples), \
                 s23 (3 samples), s24 (3 samples), 5 more (15 samples) to ";
    assert!(last.to_string().starts_with(named), "{last}");
}

#[test]
fn connections_that_break_twice_end_the_push() {
    let (endpoint, requests) =
        receiver(vec![Vec::new(), answer("200 OK", PROTOBUF, b""), Vec::new(), Vec::new()]);
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a", "b", "c", "d", "e"]));
    assert_eq!((requests.iter().count(), pushed.requests), (4, 1));
    let unsent: Vec<&str> =
        pushed.failures.iter().flat_map(|one| one.services.keys().map(|name| &**name)).collect();
    assert_eq!(unsent.len(), 4, "{pushed:?}");
    assert!(["a", "c", "d", "e"].iter().all(|name| unsent.contains(name)), "{pushed:?}");
}

#[test]
fn a_redirect_is_not_followed() {
    let moved = b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n";
    let (endpoint, requests) = receiver(vec![moved.to_vec()]);
    let error = failure(&PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])));
    assert!(matches!(error.cause, PushCause::Refused { status: 302, .. }), "{error}");
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn credentials_are_sent_and_not_shown() {
    let (endpoint, requests) = receiver(vec![answer("401 Unauthorized", "text/plain", b"")]);
    let endpoint = endpoint.replace("http://", "http://me:secret@");
    let error = failure(&PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"]))).to_string();
    assert!(error.contains("it answered 401") && !error.contains("secret"), "{error}");
    let (head, _) = requests.recv().unwrap();
    assert!(head.contains("authorization: Basic bWU6c2VjcmV0"), "{head}");
}

#[test]
fn a_receiver_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = failure(&PushSink::pprof(&endpoint).unwrap().push(&rows(&["a", "b"])));
    let text = error.to_string();
    let expected = format!("cannot push profiles of a (3 samples), b (3 samples) to {endpoint}/: ");
    assert!(text.starts_with(&format!("{expected}Connection refused")), "{text}");
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
            let error = failure(&PushSink::otlp(&endpoint).unwrap().push(&rows(&["a"])));
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
    let pushed = PushSink::pprof(&endpoint).unwrap().push(&rows(&["a"]));
    assert_eq!(pushed.requests, 1);
    assert!(start.elapsed() < Duration::from_secs(5));
}
