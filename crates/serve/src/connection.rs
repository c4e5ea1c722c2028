//! A connection from accept to close: one request, one answer.
//!
//! ```text
//!  Head ──► Body ──► Working ──► Writing ──► Closing ──► closed
//!   │ refused: 4xx ───────────────▲            │ what the client still sends is thrown away for
//!   └ deadline: closed                         │ a moment, or its kernel would drop our answer
//! ```

use std::io::{ErrorKind, Read, Result as IoResult, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::answer::{Reply, ReplyBody};
use crate::gate::{Admitted, EarlyReply, Gate};
use crate::head::{self, RequestHead};
use crate::limits::ServerLimits;
use crate::{ClientRequest, Routes};

/// Bytes that one turn reads or writes, so that each connection gets its turn.
const TURN: usize = 64 << 10;
/// How long the rest of what a client sends is awaited.
const CLOSING_TIME: Duration = Duration::from_secs(2);
/// Bytes of that rest.
const CLOSING_BYTES: usize = 1 << 20;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    stage: Stage,
    /// When it is closed, whatever stage it is in; `None` while an answer is being made.
    deadline: Option<Instant>,
    /// It has shown the token.
    pub(crate) knows_token: bool,
    /// Bytes of the budget that it holds.
    pub(crate) reserved: usize,
    cross_origin: String,
    is_head: bool,
}

#[derive(Debug)]
enum Stage {
    Head(Vec<u8>),
    Body { request: ClientRequest, length: usize },
    Working,
    Writing(Outgoing),
    Closing { drained: usize },
}

#[derive(Debug)]
struct Outgoing {
    head: Vec<u8>,
    head_sent: usize,
    body: ReplyBody,
    sent: u64,
}

/// What is to be done with a connection.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// It waits for the client.
    Wait,
    /// An answer is to be made.
    Ask(ClientRequest),
    /// It is over.
    Close,
}

/// What connections share.
pub(crate) struct LoopState<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) routes: &'a dyn Routes,
    pub(crate) limits: &'a ServerLimits,
    /// Bytes of [`ServerLimits::memory_bytes`] in use; answers can exceed it.
    pub(crate) used: usize,
    /// Bytes on their way, of whatever connection.
    pub(crate) buffer: Vec<u8>,
}

impl<'a> LoopState<'a> {
    pub(crate) fn new(gate: &'a Gate, routes: &'a dyn Routes, limits: &'a ServerLimits) -> Self {
        Self { gate, routes, limits, used: 0, buffer: vec![0; TURN] }
    }
}

impl Connection {
    /// A connection that was accepted now.
    pub(crate) fn new(stream: TcpStream, limits: &ServerLimits) -> IoResult<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            stage: Stage::Head(Vec::new()),
            deadline: Some(Instant::now() + limits.head_time),
            knows_token: false,
            reserved: 0,
            cross_origin: String::new(),
            is_head: false,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What it waits for.
    pub(crate) fn interest(&self) -> PollFlags {
        match self.stage {
            Stage::Head(_) | Stage::Body { .. } | Stage::Closing { .. } => PollFlags::IN,
            Stage::Working => PollFlags::empty(),
            Stage::Writing(_) => PollFlags::OUT,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether an answer is being made, which then looks for this connection.
    pub(crate) fn is_working(&self) -> bool {
        matches!(self.stage, Stage::Working)
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing { .. })
    }

    /// Goes on, now that the client has sent or taken something.
    pub(crate) fn go_on(&mut self, shared: &mut LoopState<'_>) -> NextStep {
        match &self.stage {
            Stage::Head(_) => self.read_head(shared),
            Stage::Body { .. } => self.read_body(shared),
            Stage::Working => NextStep::Wait,
            Stage::Writing(_) => self.write(shared),
            Stage::Closing { .. } => self.drain(shared),
        }
    }

    fn read_head(&mut self, shared: &mut LoopState<'_>) -> NextStep {
        let Stage::Head(received) = &mut self.stage else { return NextStep::Wait };
        let most = shared.limits.head_bytes.saturating_sub(received.len()).min(TURN);
        let number = match read(&mut self.stream, &mut shared.buffer[..most]) {
            Received::Some(number) => number,
            Received::Nothing => return NextStep::Wait,
            Received::End => return NextStep::Close,
        };
        let searched = received.len().saturating_sub(3);
        received.extend_from_slice(&shared.buffer[..number]);
        // An empty line ends the head; until then nothing is parsed, however small the pieces.
        if !ends_within(&received[searched..]) {
            let is_text = received.first().is_some_and(u8::is_ascii_uppercase);
            return match received.len() < shared.limits.head_bytes {
                true if is_text => NextStep::Wait,
                true => self.answer(shared, Reply::text(400, "bad request")),
                false => self.answer(shared, head::too_large()),
            };
        }
        let received = std::mem::take(received);
        match RequestHead::parse(&received) {
            Err(answer) => self.answer(shared, answer),
            // Empty lines before the request line.
            Ok(None) => self.answer(shared, Reply::text(400, "bad request")),
            Ok(Some(head)) => self.admit(shared, &head, &received[head.length..]),
        }
    }

    fn admit(&mut self, shared: &mut LoopState<'_>, head: &RequestHead, rest: &[u8]) -> NextStep {
        let Admitted { mut request, cross_origin, is_head } =
            match shared.gate.check(head, shared.routes) {
                Ok(admitted) => admitted,
                Err(EarlyReply { answer, cross_origin, knows_token }) => {
                    (self.knows_token, self.cross_origin) = (knows_token, cross_origin);
                    return self.answer(shared, answer);
                }
            };
        (self.knows_token, self.cross_origin, self.is_head) = (true, cross_origin, is_head);
        let length = match (head.is_chunked, head.body_bytes, request.method) {
            (true, ..) | (_, None, crate::Method::Post) => {
                return self.answer(shared, Reply::text(411, "Content-Length is missing"));
            }
            (_, length, _) => length.unwrap_or(0),
        };
        if length > shared.limits.body_bytes {
            let text = format!("at most {} bytes", shared.limits.body_bytes);
            return self.answer(shared, Reply::text(413, &text));
        }
        if shared.used + length > shared.limits.memory_bytes {
            return self.answer(shared, Reply::text(503, "too many requests at once; try again"));
        }
        shared.used += length;
        self.reserved = length;
        request.body.extend_from_slice(&rest[..rest.len().min(length)]);
        if request.body.len() == length {
            return self.ask(request);
        }
        if head.expects_continue {
            // The send buffer is empty, so this is sent; if not, clients go on after a second.
            let _ = self.stream.write(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.deadline = Some(Instant::now() + shared.limits.body_time);
        self.stage = Stage::Body { request, length };
        NextStep::Wait
    }

    fn read_body(&mut self, shared: &mut LoopState<'_>) -> NextStep {
        let Stage::Body { request, length } = &mut self.stage else { return NextStep::Wait };
        let most = (*length - request.body.len()).min(TURN);
        match read(&mut self.stream, &mut shared.buffer[..most]) {
            Received::Some(number) => request.body.extend_from_slice(&shared.buffer[..number]),
            Received::Nothing => return NextStep::Wait,
            Received::End => return NextStep::Close,
        }
        if request.body.len() < *length {
            return NextStep::Wait;
        }
        match std::mem::replace(&mut self.stage, Stage::Working) {
            Stage::Body { request, .. } => self.ask(request),
            _ => NextStep::Close,
        }
    }

    fn ask(&mut self, request: ClientRequest) -> NextStep {
        self.stage = Stage::Working;
        self.deadline = None;
        NextStep::Ask(request)
    }

    /// Begins to send an answer.
    pub(crate) fn answer(&mut self, shared: &mut LoopState<'_>, answer: Reply) -> NextStep {
        let head = answer.head(&self.cross_origin).into_bytes();
        let body = if self.is_head { ReplyBody::from(Vec::new()) } else { answer.body };
        shared.used = shared.used - self.reserved + body.in_memory();
        self.reserved = body.in_memory();
        self.deadline = Some(Instant::now() + shared.limits.write_time);
        self.stage = Stage::Writing(Outgoing { head, head_sent: 0, body, sent: 0 });
        self.write(shared)
    }

    fn write(&mut self, shared: &mut LoopState<'_>) -> NextStep {
        let Stage::Writing(outgoing) = &mut self.stage else { return NextStep::Wait };
        match outgoing.send(&mut self.stream, &mut shared.buffer) {
            Ok(Sent::Nothing) => NextStep::Wait,
            Ok(Sent::Some) => {
                self.deadline = Some(Instant::now() + shared.limits.write_time);
                NextStep::Wait
            }
            Ok(Sent::All) => {
                if self.stream.shutdown(Shutdown::Write).is_err() {
                    return NextStep::Close;
                }
                self.deadline = Some(Instant::now() + CLOSING_TIME);
                self.stage = Stage::Closing { drained: 0 };
                NextStep::Wait
            }
            Err(_) => NextStep::Close,
        }
    }

    fn drain(&mut self, shared: &mut LoopState<'_>) -> NextStep {
        let Stage::Closing { drained } = &mut self.stage else { return NextStep::Wait };
        match read(&mut self.stream, &mut shared.buffer) {
            Received::Some(number) if *drained + number <= CLOSING_BYTES => {
                *drained += number;
                NextStep::Wait
            }
            Received::Nothing => NextStep::Wait,
            Received::Some(_) | Received::End => NextStep::Close,
        }
    }
}

/// Whether an empty line is in `bytes`.
fn ends_within(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

enum Received {
    Some(usize),
    Nothing,
    End,
}

fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Received {
    match stream.read(buffer) {
        Ok(0) => Received::End,
        Ok(number) => Received::Some(number),
        Err(error) if is_later(error.kind()) => Received::Nothing,
        Err(_) => Received::End,
    }
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

enum Sent {
    Nothing,
    Some,
    All,
}

impl Outgoing {
    /// Sends what the client takes now.
    fn send(&mut self, stream: &mut TcpStream, buffer: &mut [u8]) -> IoResult<Sent> {
        let mut sent = Sent::Nothing;
        if self.head_sent < self.head.len() {
            let Some(number) = write(stream, &self.head[self.head_sent..])? else {
                return Ok(sent);
            };
            self.head_sent += number;
            sent = Sent::Some;
            if self.head_sent < self.head.len() {
                return Ok(sent);
            }
        }
        let number = self.body.read_at(self.sent, buffer)?;
        if number == 0 {
            // A file that became shorter: the client sees that bytes are missing.
            return Ok(Sent::All);
        }
        let Some(number) = write(stream, &buffer[..number])? else { return Ok(sent) };
        self.sent += number as u64;
        Ok(if self.sent == self.body.len() { Sent::All } else { Sent::Some })
    }
}

/// Bytes that were taken; `None` if the client takes none now.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> IoResult<Option<usize>> {
    match stream.write(bytes) {
        Ok(0) => Err(ErrorKind::WriteZero.into()),
        Ok(number) => Ok(Some(number)),
        Err(error) if is_later(error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}
