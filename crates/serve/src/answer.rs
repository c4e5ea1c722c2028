//! What a client gets.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// What an answer consists of.
#[derive(Debug, Clone)]
pub enum ReplyBody {
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
    /// The first bytes of a file, which is read as the client takes it. It may be shared by answers.
    File {
        /// The file.
        file: Arc<File>,
        /// Number of its bytes, which stay as they are.
        length: u64,
    },
}

impl ReplyBody {
    /// Length, bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it holds in memory.
    pub(crate) fn in_memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File { .. } => 0,
        }
    }

    /// Copies bytes from `offset` on into `buffer`; how many. None at the end.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                let rest = rest.unwrap_or_default();
                let number = rest.len().min(buffer.len());
                buffer[..number].copy_from_slice(&rest[..number]);
                Ok(number)
            }
            Self::File { file, length } => {
                let rest = length.saturating_sub(offset).min(buffer.len() as u64) as usize;
                file.read_at(&mut buffer[..rest], offset)
            }
        }
    }
}

impl From<String> for ReplyBody {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// An answer of a route.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status, such as 200.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The body is gzip, to be unpacked by the client (`Content-Encoding`).
    pub is_gzip: bool,
    /// What the page may do (`Content-Security-Policy`).
    pub policy: &'static str,
    /// Name under which a browser saves it; `None`: it is shown. ASCII letters, digits, `.`, `-` and `_`.
    pub save_as: Option<&'static str>,
    /// What is sent.
    pub body: ReplyBody,
}

/// Nothing may be loaded or run.
const NO_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

impl Reply {
    /// An answer with status 200.
    #[must_use]
    pub fn new(content_type: &'static str, body: impl Into<ReplyBody>) -> Self {
        let (policy, body) = (NO_POLICY, body.into());
        Self { status: 200, content_type, is_gzip: false, policy, save_as: None, body }
    }

    /// A line of text with a status.
    #[must_use]
    pub fn text(status: u16, text: &str) -> Self {
        let answer = Self::new("text/plain; charset=utf-8", format!("{text}\n"));
        Self { status, ..answer }
    }

    /// What is answered where there is nothing: also to all who do not know the token.
    #[must_use]
    pub fn not_found() -> Self {
        Self::text(404, "not found")
    }

    /// Status line and headers.
    pub(crate) fn head(&self, cross_origin: &str) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        // 204 has no body, and must not announce one.
        if self.status != 204 {
            let (kind, length) = (self.content_type, self.body.len());
            // Writing to a string does not fail.
            let _ = write!(head, "Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        }
        if self.is_gzip {
            head.push_str("Content-Encoding: gzip\r\n");
        }
        if let Some(name) = self.save_as {
            let _ = write!(head, "Content-Disposition: attachment; filename=\"{name}\"\r\n");
        }
        let _ = write!(head, "Content-Security-Policy: {}\r\n", self.policy);
        head.push_str(cross_origin);
        head.push_str(ALWAYS);
        head
    }
}

/// Headers of every answer: it is not kept, not guessed at, not framed, and its address is not passed on.
const ALWAYS: &str = "Cache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Vary: Origin\r\n\
    Connection: close\r\n\r\n";

/// What a status is called.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "ClientRequest Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}
