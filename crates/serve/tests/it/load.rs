//! Clients that are many, large or slow.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmuscope_serve::ServerLimits;
use pmuscope_testkit::{need, skip_unless};

use crate::harness::{LARGE, Running, read, serve};

/// A few connections, and deadlines that tests can wait for.
fn small() -> ServerLimits {
    ServerLimits {
        connections: 8,
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        write_time: Duration::from_millis(300),
        ..ServerLimits::default()
    }
}

fn post(server: &Running, length: &str, body: &str) -> u16 {
    let head = "POST /TOKEN/open HTTP/1.1\r\nHost: localhost\r\n";
    server.send(&format!("{head}{length}\r\n{body}")).status
}

#[test]
fn huge_heads_are_refused() {
    let server = serve(ServerLimits::default());
    let header = format!("X: {}\r\n", "a".repeat(1 << 20));
    let mut stream = server.connect();
    // The server stops reading, so that not all of it may be taken.
    let text = format!("GET /{}/ HTTP/1.1\r\nHost: localhost\r\n{header}\r\n", server.token);
    let _ = stream.write_all(text.as_bytes());
    assert_eq!(read(&mut stream).status, 431);
    let many = "X: a\r\n".repeat(2000);
    assert_eq!(server.get("/TOKEN/", &many).status, 431);
    let line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 15));
    assert_eq!(server.send(&line).status, 431);
}

#[test]
fn bodies_have_a_limit_and_need_a_length() {
    let server =
        serve(ServerLimits { body_bytes: 1000, memory_bytes: 1500, ..ServerLimits::default() });
    assert_eq!(post(&server, "Content-Length: 1000\r\n", &"a".repeat(1000)), 200);
    assert_eq!(post(&server, "Content-Length: 1001\r\n", &"a".repeat(1001)), 413);
    assert_eq!(post(&server, "Content-Length: 18446744073709551616\r\n", "a"), 413);
    assert_eq!(post(&server, "", "a"), 411);
    assert_eq!(post(&server, "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"), 411);
    assert_eq!(post(&server, "Content-Length: -1\r\n", ""), 400);
    // What was announced is reserved, and free again after the connection.
    let mut first = server.connect();
    let head = "POST /TOKEN/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    first.write_all(head.replace("TOKEN", &server.token).as_bytes()).unwrap();
    while post(&server, "Content-Length: 1000\r\n", &"a".repeat(1000)) != 503 {}
    drop(first);
    while post(&server, "Content-Length: 1000\r\n", &"a".repeat(1000)) != 200 {}
}

#[test]
fn a_client_may_wait_before_it_sends_a_body() {
    let server = serve(ServerLimits::default());
    let mut stream = server.connect();
    let head = "POST /TOKEN/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\
        Expect: 100-continue\r\n\r\n";
    stream.write_all(head.replace("TOKEN", &server.token).as_bytes()).unwrap();
    let mut said = [0; 25];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"ab").unwrap();
    assert_eq!(read(&mut stream).body, "ab");
}

#[test]
fn garbage_is_refused_at_once() {
    let server = serve(ServerLimits::default());
    for text in ["\x16\x03\x01\x02", "\r\n\r\n", "\0", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        assert_eq!(server.send(text).status, 400, "{text:?}");
    }
}

/// Senders that never finish: more of them than there is room for.
#[test]
fn slow_senders_keep_nobody_out_and_are_closed() {
    let server = serve(small());
    let slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.get("/TOKEN/", "").status, 200);
    }
    assert!(server.held() <= small().connections + 1, "{} sockets", server.held());
    for mut stream in slow {
        // Without a byte, or with a reset.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

/// One byte now and then does not move the deadline of a head.
#[test]
fn a_head_in_drops_is_cut_off() {
    let server = serve(small());
    let mut stream = server.connect();
    let mut sent = 0;
    let text =
        format!("GET /{}/ HTTP/1.1\r\nHost: localhost\r\nX: {}", server.token, "a".repeat(9999));
    for byte in text.bytes() {
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(sent < text.len());
}

#[test]
fn slow_readers_block_nobody_and_are_closed() {
    let server = serve(small());
    let get = format!("GET /{}/large HTTP/1.1\r\nHost: localhost\r\n\r\n", server.token);
    let slow: Vec<TcpStream> = (0..6)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(get.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/TOKEN/", "").status, 200);
    let mut fast = server.connect();
    fast.write_all(get.as_bytes()).unwrap();
    assert_eq!(read(&mut fast).body.len() as u64, LARGE);
    // Those who took nothing find less than all of it.
    std::thread::sleep(Duration::from_secs(1));
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!((rest.len() as u64) < LARGE, "{}", rest.len());
    }
}

/// Answers that take long, on all threads, do not keep connections from being accepted and refused.
#[test]
fn long_answers_do_not_stop_the_gate() {
    let server = serve(ServerLimits::default());
    let workers = ServerLimits::default().workers;
    let waiting: Vec<TcpStream> = (0..workers).map(|_| server.wait()).collect();
    while server.routes.waiting.load(Ordering::SeqCst) < workers {}
    assert_eq!(server.get("/x/", "").status, 404);
    server.go_on();
    for mut stream in waiting {
        assert_eq!(read(&mut stream).body, "waited\n");
    }
}

/// With no room but for clients that know the token, newcomers are turned away; nobody is thrown out for them.
#[test]
fn clients_with_the_token_keep_their_place() {
    let server = serve(ServerLimits { connections: 2, workers: 2, ..ServerLimits::default() });
    let waiting = [server.wait(), server.wait()];
    while server.routes.waiting.load(Ordering::SeqCst) < 2 {}
    for _ in 0..10 {
        let mut stream = server.connect();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    server.go_on();
    for mut stream in waiting {
        assert_eq!(read(&mut stream).body, "waited\n");
    }
}

/// As many as 10,000 connections, most of them idle: descriptors stay bounded, and whoever asks is answered.
#[test]
fn full_ten_thousand_connections_are_served_or_refused() {
    skip_unless!(need::full());
    let server = serve(ServerLimits::default());
    let mut idle = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..10_000 {
        idle.push_back(server.connect());
        if idle.len() > 300 {
            idle.pop_front();
        }
        if number % 100 == 0 {
            assert_eq!(server.get("/TOKEN/", "").status, 200, "{number}");
            most = most.max(server.held());
        }
    }
    assert!(most <= ServerLimits::default().connections + 1, "{most} sockets");
}
