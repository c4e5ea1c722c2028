//! The head of a request: what is needed of it.

use crate::answer::Reply;

/// Headers of a request; browsers send some twenty.
const HEADERS: usize = 64;

/// Request line and headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// As sent.
    pub(crate) method: String,
    /// As sent, without query and fragment.
    pub(crate) path: String,
    /// The name that the client used for this server.
    pub(crate) host: Option<String>,
    /// The page that asks, if it is one.
    pub(crate) origin: Option<String>,
    /// Bytes that follow; `None` where that is not announced.
    pub(crate) body_bytes: Option<usize>,
    /// The body comes in chunks, which are not read.
    pub(crate) is_chunked: bool,
    /// The client waits before it sends the body.
    pub(crate) expects_continue: bool,
    /// A browser asks whether a page may use a local address.
    pub(crate) asks_private_network: bool,
    /// Where the body begins.
    pub(crate) length: usize,
}

impl RequestHead {
    /// The head that `bytes` begin with; `None` if more is to come.
    ///
    /// # Errors
    /// The answer to a request that is malformed or ambiguous.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Self>, Reply> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(too_large()),
            Err(_) => return Err(malformed()),
        };
        let target = request.path.unwrap_or_default();
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let method = request.method.unwrap_or_default();
        let mut head = Self { method: method.into(), path: path.into(), length, ..Self::default() };
        for header in request.headers.iter() {
            head.take(header)?;
        }
        Ok(Some(head))
    }

    fn take(&mut self, header: &httparse::Header<'_>) -> Result<(), Reply> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let text = || std::str::from_utf8(header.value).map(str::trim).map_err(|_| malformed());
        if is("host") {
            once(&mut self.host, text()?.to_owned())?;
        } else if is("origin") {
            once(&mut self.origin, text()?.to_owned())?;
        } else if is("content-length") {
            let text = text()?;
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // What does not fit a number is too large for every limit.
            let number = text.parse().unwrap_or(usize::MAX);
            once(&mut self.body_bytes, if is_number { number } else { return Err(malformed()) })?;
        } else if is("transfer-encoding") {
            self.is_chunked = true;
        } else if is("expect") {
            self.expects_continue = text()?.eq_ignore_ascii_case("100-continue");
        } else if is("access-control-request-private-network")
            || is("access-control-request-local-network")
        {
            self.asks_private_network = text()? == "true";
        }
        Ok(())
    }
}

/// Two values of one header can be read in two ways.
fn once<T>(value: &mut Option<T>, new: T) -> Result<(), Reply> {
    if value.replace(new).is_some() { Err(malformed()) } else { Ok(()) }
}

fn malformed() -> Reply {
    Reply::text(400, "bad request")
}

/// The answer to a head without end.
pub(crate) fn too_large() -> Reply {
    Reply::text(431, "headers too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<RequestHead>, u16> {
        RequestHead::parse(text.as_bytes()).map_err(|answer| answer.status)
    }

    #[test]
    fn what_is_needed_is_read_and_the_rest_passed_over() {
        let text = "POST /t/a%2f..?q=/x HTTP/1.1\r\nHOST: localhost:1 \r\nAccept: */*\r\n\
            Content-Length: 5\r\nExpect: 100-Continue\r\nOrigin: null\r\n\r\nhello";
        let head = parsed(text).unwrap().unwrap();
        let expected = RequestHead {
            method: "POST".into(),
            path: "/t/a%2f..".into(),
            host: Some("localhost:1".into()),
            origin: Some("null".into()),
            body_bytes: Some(5),
            expects_continue: true,
            length: text.len() - 5,
            ..RequestHead::default()
        };
        assert_eq!(head, expected);
        for end in 0..text.len() - 5 {
            assert_eq!(parsed(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let with = |headers: &str| parsed(&format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n"));
        for headers in [
            "Host: a\r\nHost: b",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Content-Length: ",
            "Origin: a\r\norigin: a",
            "Host : a",
            "Host: \u{e9}\r\n x",
        ] {
            assert_eq!(with(headers), Err(400), "{headers}");
        }
        let huge = with("Content-Length: 99999999999999999999999").unwrap().unwrap();
        assert_eq!(huge.body_bytes, Some(usize::MAX));
        assert_eq!(with(&vec!["A: b"; HEADERS + 1].join("\r\n")), Err(431));
    }
    /// Whatever comes, it is a head, the start of one, or an answer with a status of the client's fault.
    #[test]
    fn no_bytes_can_harm() {
        let words: [&[u8]; 16] = [
            b"GET ",
            b"POST",
            b" ",
            b"/",
            b"/..%2f",
            b" HTTP/1.1\r\n",
            b" HTTP/1.0\n",
            b"\r\n",
            b"\n",
            b"Host:",
            b"Origin: null",
            b"content-length: ",
            b"9",
            b"Expect: 100-continue",
            b"\0",
            b"\xff",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        let mut complete = 0;
        for _ in 0..100_000 {
            let number = random.usize(..24);
            let mut bytes: Vec<u8> =
                (0..number).flat_map(|_| words[random.usize(..words.len())]).copied().collect();
            if random.bool() {
                bytes.splice(..0, *b"GET / HTTP/1.1\r\n");
            }
            match RequestHead::parse(&bytes) {
                Ok(Some(head)) => {
                    assert!(head.length <= bytes.len());
                    complete += 1;
                }
                Ok(None) => {}
                Err(answer) => assert!(matches!(answer.status, 400 | 431), "{}", answer.status),
            }
        }
        assert!(complete > 1000, "{complete}");
    }
}
