//! Who gets an answer.

use pmuscope_serve::ServerLimits;

use crate::harness::{VIEWER, serve};

#[test]
fn the_token_opens_and_any_other_is_not_found() {
    let server = serve(ServerLimits::default());
    let got = server.get("/TOKEN/", "");
    let expected = format!("http://{}/{}\n", server.address, server.token);
    assert_eq!((got.status, &*got.body), (200, &*expected));
    for header in ["cache-control", "referrer-policy", "x-content-type-options"] {
        assert!(got.header(header).is_some(), "{header}: {}", got.head);
    }
    let wrong = "0".repeat(server.token.len());
    let (start, last) = server.token.split_at(server.token.len() - 1);
    let nearly = format!("{start}{}", if last == "0" { 1 } else { 0 });
    let refused = server.get("/", "");
    assert_eq!((refused.status, &*refused.body), (404, "not found\n"));
    let cut = &server.token[..8];
    for path in [
        "/open".to_owned(),
        "/favicon.ico".to_owned(),
        format!("/{wrong}/"),
        format!("/{wrong}/open"),
        format!("/{nearly}/"),
        format!("/{cut}"),
        format!("//{}/", server.token),
        format!("/x/../{}/", server.token),
        format!("/?{}", server.token),
        format!("/%2e/{}/", server.token),
        format!("http://{}/{}/", server.address, server.token),
    ] {
        assert_eq!(server.get(&path, ""), refused, "{path}");
        // Nor does anything else change the answer.
        let headers = format!("Origin: {VIEWER}\r\n");
        assert_eq!(server.get(&path, &headers), refused, "{path}");
        let text =
            format!("POST {path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\nab");
        assert_eq!(server.send(&text), refused, "{path}");
    }
}

#[test]
fn paths_are_taken_as_sent() {
    let server = serve(ServerLimits::default());
    assert_eq!(server.get("/TOKEN/open", "").status, 200);
    assert_eq!(server.get("/TOKEN/open?x=1#y", "").status, 200);
    for path in
        ["/../open", "/%2e%2e/etc/passwd", "/..%2fopen", "/o%70en", "//open", "/open/", "/./open"]
    {
        assert_eq!(server.get(&format!("/TOKEN{path}"), "").status, 404, "{path}");
    }
}

#[test]
fn hosts_that_are_not_loopback_are_refused() {
    let server = serve(ServerLimits::default());
    let with = |host: &str| server.send(&format!("GET /TOKEN/ HTTP/1.1\r\n{host}\r\n")).status;
    for host in ["localhost", "localhost:9", "127.0.0.1:9", "[::1]:9"] {
        assert_eq!(with(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in ["rebound.example", "rebound.example:80", "10.0.0.1", "localhost.evil.example"] {
        assert_eq!(with(&format!("Host: {host}\r\n")), 403, "{host}");
    }
    assert_eq!(with(""), 403);
    assert_eq!(with("Host: localhost\r\nHost: evil.example\r\n"), 400);
}

#[test]
fn the_base_is_where_the_client_sees_us() {
    let server = serve(ServerLimits::default());
    let got = server.send("GET /TOKEN/ HTTP/1.1\r\nHost: localhost:9999\r\n\r\n");
    assert_eq!(got.body, format!("http://localhost:9999/{}\n", server.token));
}

#[test]
fn foreign_origins_are_refused() {
    let server = serve(ServerLimits::default());
    for origin in [
        "https://evil.example",
        "null",
        "http://viewer.example",
        "https://viewer.example:444",
        "https://viewer.example.evil.example",
        "https://evil-viewer.example",
        "https://VIEWER.example",
        "",
    ] {
        let got = server.get("/TOKEN/open", &format!("Origin: {origin}\r\n"));
        assert_eq!(
            (got.status, got.header("access-control-allow-origin")),
            (403, None),
            "{origin}"
        );
        let got = server.send(&format!(
            "OPTIONS /TOKEN/open HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\
            Access-Control-Request-Method: POST\r\n\r\n"
        ));
        assert_eq!(
            (got.status, got.header("access-control-allow-origin")),
            (403, None),
            "{origin}"
        );
    }
    let own = format!("Origin: http://{}\r\n", server.address);
    assert_eq!(server.get("/TOKEN/", &own).status, 200);
    assert_eq!(server.get("/TOKEN/open", "Origin: http://localhost:1\r\n").status, 403);
}

#[test]
fn the_viewer_may_read_what_is_for_it() {
    let server = serve(ServerLimits::default());
    let origin = format!("Origin: {VIEWER}\r\n");
    let got = server.get("/TOKEN/open", &origin);
    assert_eq!((got.status, got.header("access-control-allow-origin")), (200, Some(VIEWER)));
    assert_eq!(got.header("vary"), Some("Origin"));
    assert_eq!(got.header("access-control-allow-credentials"), None);
    let got = server.get("/TOKEN/", &origin);
    assert_eq!((got.status, got.header("access-control-allow-origin")), (403, None));
    // Without an origin there is no header.
    assert_eq!(server.get("/TOKEN/open", "").header("access-control-allow-origin"), None);
}

#[test]
fn preflights_are_answered_for_local_networks_too() {
    let server = serve(ServerLimits::default());
    let ask = |more: &str| {
        server.send(&format!(
            "OPTIONS /TOKEN/open HTTP/1.1\r\nHost: localhost\r\nOrigin: {VIEWER}\r\n\
            Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\
            {more}\r\n"
        ))
    };
    let got = ask("");
    assert_eq!((got.status, &*got.body), (204, ""));
    assert_eq!(got.header("access-control-allow-origin"), Some(VIEWER));
    assert_eq!(got.header("access-control-allow-methods"), Some("GET, POST"));
    assert_eq!(got.header("access-control-allow-headers"), Some("Content-Type"));
    assert_eq!(got.header("access-control-allow-private-network"), None);
    assert_eq!(got.header("content-length"), None);
    let got = ask("Access-Control-Request-Private-Network: true\r\n");
    assert_eq!(got.header("access-control-allow-private-network"), Some("true"));
}

#[test]
fn methods_that_change_things_are_refused() {
    let server = serve(ServerLimits::default());
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "get"] {
        let got = server.send(&format!("{method} /TOKEN/ HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(got.status, 405, "{method}");
    }
    let got = server.send("HEAD /TOKEN/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((got.status, &*got.body), (200, ""));
    assert_ne!(got.header("content-length"), Some("0"));
}

#[test]
fn a_route_that_panics_is_an_error_and_no_end() {
    let server = serve(ServerLimits::default());
    assert_eq!(server.get("/TOKEN/panic", "").status, 500);
    assert_eq!(server.get("/TOKEN/", "").status, 200);
}
