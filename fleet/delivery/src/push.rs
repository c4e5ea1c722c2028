//! Pushes profiles to a receiver over HTTP: best effort, each request once.
//!
//! ```text
//!  OTLP    POST ENDPOINT/v1development/profiles                                              application/x-protobuf
//!  pprof   POST ENDPOINT/ingest?name=SERVICE{host=…}&from=…&until=…&format=pprof&spyName=…   gzip
//! ```
//! The first is described in <https://opentelemetry.io/docs/specs/otlp/#otlphttp>, the second in
//! <https://grafana.com/docs/pyroscope/latest/reference-server-api/>.

use std::time::{Duration, Instant};

use pmuscope_dataset::Rows;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::runtime::{Builder, Runtime};

use crate::otlp::{OTLP_PATH, otlp_requests};
use crate::pprof::{PprofProfile, pprof_profiles};

mod answer;
mod error;

pub use error::{EndpointError, PushCause, PushError};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Time for a request with its answer.
const REQUEST: Duration = Duration::from_secs(10);
/// Time for all requests of a bin.
const PUSH: Duration = Duration::from_secs(30);
/// Receivers close connections that nobody uses; what is pushed next is a bin later.
const IDLE: Duration = Duration::from_secs(5);
/// Bytes of a request at most. The collector takes 20 MiB by default.
const MOST_BYTES: usize = 4 << 20;
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

/// What a receiver took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Requests.
    pub requests: u64,
    /// Samples in them, with those of profiles that were rejected.
    pub samples: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Profiles that the receiver says it rejected, of requests that it took. OTLP only; each event has two.
    pub rejected_profiles: u64,
    /// What the receiver says about them, or warns of.
    pub messages: Vec<String>,
}

/// A request in the making.
struct Outgoing {
    url: Url,
    content_type: &'static str,
    body: Vec<u8>,
    samples: u64,
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

    /// Pushes all samples: nothing is sent again, not even later. Waits for the receiver, up to 10 s per request and
    /// 30 s in all.
    ///
    /// # Errors
    /// [`PushError`] with the first request that failed; those after it were not sent.
    pub fn push(&self, rows: &Rows) -> Result<Pushed, PushError> {
        let outgoing = match self.receiver {
            Receiver::Otlp => self.otlp_outgoing(rows),
            Receiver::Pprof => self.pprof_outgoing(rows),
        };
        let mut pushed = Pushed::default();
        let end = Instant::now() + PUSH;
        for request in outgoing {
            let (samples, bytes) = (request.samples, request.body.len() as u64);
            let time = REQUEST.min(end.saturating_duration_since(Instant::now()));
            let sent = self.runtime.block_on(self.send(request, time));
            let body = match sent {
                Ok(body) => body,
                Err(cause) => {
                    let url = self.shown.clone();
                    return Err(PushError { url, cause, pushed: Box::new(pushed) });
                }
            };
            pushed.requests += 1;
            pushed.samples += samples;
            pushed.bytes += bytes;
            if self.receiver == Receiver::Otlp {
                let (rejected, message) = answer::partial_success(&body);
                pushed.rejected_profiles += rejected;
                pushed.messages.extend(message);
            }
        }
        Ok(pushed)
    }

    fn otlp_outgoing(&self, rows: &Rows) -> Vec<Outgoing> {
        let url = self.url(OTLP_PATH);
        otlp_requests(rows, MOST_BYTES)
            .into_iter()
            .map(|request| Outgoing {
                url: url.clone(),
                content_type: "application/x-protobuf",
                samples: request.samples,
                body: request.bytes,
            })
            .collect()
    }

    fn pprof_outgoing(&self, rows: &Rows) -> Vec<Outgoing> {
        let url = self.url("ingest");
        let outgoing = |profile: PprofProfile| {
            let mut url = url.clone();
            let seconds = |us: i64| us.max(0).cast_unsigned().div_ceil(1_000_000).to_string();
            url.query_pairs_mut()
                .append_pair("name", &name(&profile))
                .append_pair("from", &(profile.start.0.max(0) / 1_000_000).to_string())
                .append_pair("until", &seconds(profile.end.0))
                .append_pair("format", "pprof")
                .append_pair("spyName", "pmuscope");
            Outgoing {
                url,
                content_type: "application/octet-stream",
                samples: profile.samples,
                body: profile.bytes,
            }
        };
        pprof_profiles(rows).into_iter().map(outgoing).collect()
    }

    /// The endpoint with a path after its own.
    fn url(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        let whole = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }

    /// The body of the answer.
    async fn send(&self, outgoing: Outgoing, time: Duration) -> Result<Vec<u8>, PushCause> {
        let request = self
            .client
            .post(outgoing.url)
            .timeout(time)
            .header("content-type", outgoing.content_type)
            .body(outgoing.body);
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

/// Service and labels as Pyroscope reads them: there are letters that end a name or a value, and no quotes.
fn name(profile: &PprofProfile) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-./_".contains(letter);
    let plain = |letter| if is_plain(letter) { letter } else { '_' };
    let service: String = profile.service.chars().map(plain).collect();
    let service = if service.is_empty() { "unknown" } else { &service };
    let label =
        |(name, value): &(&str, String)| format!("{name}={}", value.replace([',', '}'], "_"));
    let labels: Vec<String> = profile.labels.iter().map(label).collect();
    format!("{service}{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests;
