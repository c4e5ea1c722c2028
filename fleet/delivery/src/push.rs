//! Pushes profiles to a receiver over HTTP: best effort, nothing is kept for later.
//!
//! ```text
//!  OTLP    POST ENDPOINT/v1development/profiles                                              application/x-protobuf
//!  pprof   POST ENDPOINT/ingest?name=SERVICE{host=…}&from=…&until=…&format=pprof&spyName=…   gzip
//! ```
//! The first is described in <https://opentelemetry.io/docs/specs/otlp/#otlphttp>, the second in
//! <https://grafana.com/docs/pyroscope/latest/reference-server-api/>.
//!
//! What is wrong with one service must not cost the others: a request that is refused ends nothing, and one of several
//! services whose contents are refused is sent again, service by service.

use std::time::{Duration, Instant};

use pmuscope_dataset::Rows;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::runtime::{Builder, Runtime};

use crate::dictionary::Frames;
use crate::group;

mod answer;
mod error;
mod outgoing;

pub use error::{EndpointError, PushCause, PushFailure};

use outgoing::{Encoder, Outgoing};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Time for a request with its answer.
const REQUEST: Duration = Duration::from_secs(10);
/// Time for all requests of a bin.
const PUSH: Duration = Duration::from_secs(30);
/// Receivers close connections that nobody uses; what is pushed next is a bin later.
const IDLE: Duration = Duration::from_secs(5);
/// Causes that are told apart: receivers may name what they refuse.
const MOST_CAUSES: usize = 10;
/// Requests without an answer, one after another, after which no more are sent.
const MOST_UNANSWERED: usize = 2;
/// Bytes that are read of an answer: more than a receiver has to say.
const LONGEST_ANSWER: usize = 1 << 16;

/// A receiver of profiles. It must not be used or dropped inside an async runtime, because it has its own.
#[derive(Debug)]
pub struct PushSink {
    receiver: Receiver,
    endpoint: Url,
    /// The endpoint without credentials.
    shown: String,
    client: Client,
    runtime: Runtime,
}

/// What a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Otlp,
    Pprof,
}

/// What a receiver took, and what it did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Requests that it took.
    pub requests: u64,
    /// Samples in them, with those of profiles that were rejected.
    pub samples: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Profiles that the receiver says it rejected, of requests that it took. OTLP only; each event has two.
    pub rejected_profiles: u64,
    /// What the receiver says about them, or warns of.
    pub messages: Vec<String>,
    /// What was not taken, by cause.
    pub failures: Vec<PushFailure>,
}

impl Pushed {
    fn took(
        &mut self,
        outgoing: &Outgoing<'_, '_>,
        bytes: usize,
        receiver: Receiver,
        answer: &[u8],
    ) {
        self.requests += 1;
        self.samples += group::number_of_samples(outgoing.samples);
        self.bytes += bytes as u64;
        if receiver == Receiver::Otlp {
            let (rejected, message) = answer::partial_success(answer);
            self.rejected_profiles += rejected;
            self.messages.extend(message);
        }
    }

    fn failed(&mut self, outgoing: &Outgoing<'_, '_>, url: &str, cause: &PushCause) {
        let is_known = self.failures.iter().any(|failure| failure.cause == *cause);
        let cause =
            if is_known || self.failures.len() < MOST_CAUSES { cause } else { &PushCause::Other };
        let at = self.failures.iter().position(|failure| failure.cause == *cause);
        let at = at.unwrap_or_else(|| {
            self.failures.push(PushFailure::new(url, cause));
            self.failures.len() - 1
        });
        self.failures[at].add(outgoing.samples);
    }
}

impl PushSink {
    /// A receiver of OTLP profiles over HTTP, such as `http://localhost:4318`.
    ///
    /// # Errors
    /// [`EndpointError`] if that is no URL, or if there is no HTTP client on this machine.
    pub fn otlp(endpoint: &str) -> Result<Self, EndpointError> {
        Self::new(Receiver::Otlp, endpoint)
    }

    /// A receiver of pprof profiles that has Pyroscope's interface, such as `http://localhost:4040`.
    ///
    /// # Errors
    /// As [`PushSink::otlp`].
    pub fn pprof(endpoint: &str) -> Result<Self, EndpointError> {
        Self::new(Receiver::Pprof, endpoint)
    }

    fn new(receiver: Receiver, endpoint: &str) -> Result<Self, EndpointError> {
        let example = match receiver {
            Receiver::Otlp => "http://HOST:4318",
            Receiver::Pprof => "http://HOST:4040",
        };
        let url = error::endpoint(endpoint, example)?;
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            // A redirected POST would become a GET.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("pmuscope-fleet/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|source| EndpointError::Client(error::root_cause(&source)))?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| EndpointError::Client(source.to_string()))?;
        Ok(Self {
            receiver,
            shown: error::without_credentials(&url),
            endpoint: url,
            client,
            runtime,
        })
    }

    /// The endpoint, without credentials.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.shown
    }

    /// Pushes all samples; what is not taken is not sent later. Waits for the receiver, up to 10 s per request and 30 s in
    /// all. Nothing more is sent after two requests in a row that had no answer, or if there is no connection.
    #[must_use]
    pub fn push(&self, rows: &Rows) -> Pushed {
        let frames = Frames::new(&rows.frames);
        let sorted = group::sorted(rows);
        let encoder = Encoder::new(self, &frames, rows);
        let mut waiting = encoder.encode(&sorted);
        let mut pushed = Pushed::default();
        let (end, mut unanswered) = (Instant::now() + PUSH, 0);
        while let Some(mut outgoing) = waiting.pop_front() {
            let time = REQUEST.min(end.saturating_duration_since(Instant::now()));
            let bytes = outgoing.body.len();
            let cause = match self.runtime.block_on(self.send(&mut outgoing, time)) {
                Ok(answer) => {
                    pushed.took(&outgoing, bytes, self.receiver, &answer);
                    unanswered = 0;
                    continue;
                }
                Err(cause) => cause,
            };
            if cause.is_of_contents() && outgoing.has_several_services() {
                encoder.by_service(&outgoing).into_iter().rev().for_each(|one| {
                    waiting.push_front(one);
                });
                continue;
            }
            pushed.failed(&outgoing, &self.shown, &cause);
            unanswered = if cause.is_answer() { 0 } else { unanswered + 1 };
            if matches!(cause, PushCause::Connection(_)) || unanswered == MOST_UNANSWERED {
                waiting.iter().for_each(|rest| pushed.failed(rest, &self.shown, &cause));
                break;
            }
        }
        pushed
    }

    /// The endpoint with a path after its own.
    fn url(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        let whole = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }

    /// Sends the body of a request; the body of the answer.
    async fn send(
        &self,
        outgoing: &mut Outgoing<'_, '_>,
        time: Duration,
    ) -> Result<Vec<u8>, PushCause> {
        let request = self
            .client
            .post(outgoing.url.clone())
            .timeout(time)
            .header("content-type", outgoing.content_type)
            .body(std::mem::take(&mut outgoing.body));
        let response = request.send().await.map_err(|error| PushCause::of(&error))?;
        let (status, is_protobuf) = (response.status(), answer::is_protobuf(&response));
        let body = read(response).await?;
        match status {
            StatusCode::OK | StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(body),
            _ => Err(PushCause::Refused {
                status: status.as_u16(),
                message: answer::refusal(&body, is_protobuf),
            }),
        }
    }
}

/// The beginning of an answer: a receiver that never ends it costs no memory.
async fn read(mut response: Response) -> Result<Vec<u8>, PushCause> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| PushCause::of(&error))? {
        let room = LONGEST_ANSWER - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == LONGEST_ANSWER {
            break;
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests;
