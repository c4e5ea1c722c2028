//! Why profiles were not pushed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;

use pmuscope_dataset::SampleRow;
use reqwest::Url;

use super::answer::readable;

/// An endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is no URL of HTTP.
    #[error("cannot push profiles to {endpoint:?}: {cause}. Try: {example}")]
    Url {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
        /// What such an endpoint looks like.
        example: &'static str,
    },
    /// There is no HTTP client on this machine.
    #[error("cannot make an HTTP client: {0}. Try: install CA certificates")]
    Client(String),
}

/// Samples that a receiver did not take, for one cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot push profiles of {} to {url}: {cause}", in_words(.services))]
pub struct PushFailure {
    /// The endpoint, without credentials.
    pub url: String,
    /// Why.
    pub cause: PushCause,
    /// Samples by service.
    pub services: BTreeMap<String, u64>,
}

impl PushFailure {
    pub(super) fn new(url: &str, cause: &PushCause) -> Self {
        let (url, cause) = (url.to_owned(), cause.clone());
        Self { url, cause, services: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, samples: &[&SampleRow]) {
        for row in samples {
            let sum = self.services.entry(row.service.to_string()).or_default();
            *sum += row.samples.max(0).cast_unsigned();
        }
    }

    /// Samples of all its services.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.services.values().sum()
    }
}

/// Services that a message names.
const NAMED: usize = 5;

/// The services with most samples, and how many more there are.
fn in_words(services: &BTreeMap<String, u64>) -> String {
    let counted = |samples: u64| match samples {
        1 => "1 sample".to_owned(),
        _ => format!("{samples} samples"),
    };
    let mut all: Vec<(&String, u64)> =
        services.iter().map(|(name, &samples)| (name, samples)).collect();
    all.sort_by_key(|&(name, samples)| (Reverse(samples), name));
    let (named, others) = all.split_at(all.len().min(NAMED));
    let named =
        named.iter().map(|&(name, samples)| format!("{} ({})", readable(name), counted(samples)));
    let samples = others.iter().map(|(_, samples)| samples).sum();
    let others =
        (!others.is_empty()).then(|| format!("{} more ({})", others.len(), counted(samples)));
    named.chain(others).collect::<Vec<_>>().join(", ")
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushCause {
    /// There is no connection.
    #[error("{0}. Try: check that the receiver runs, and its address")]
    Connection(String),
    /// The receiver is too slow: more than 2 s for a connection, 10 s for an answer, or 30 s for all requests.
    #[error("no answer in time. Try: a receiver that is nearer, or check its load")]
    Time,
    /// The connection broke.
    #[error("{0}. Try: the log of the receiver")]
    Broken(String),
    /// The receiver refused the request.
    #[error("it answered {status}{}{message}. Try: {}", if message.is_empty() { "" } else { ": " }, advice(*status))]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the receiver says, without line breaks; may be empty.
        message: String,
    },
    /// More than ten other causes.
    #[error("of other answers. Try: the log of the receiver")]
    Other,
}

impl PushCause {
    /// Whether the receiver said something.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether a part of what was sent may be taken: the request was refused for what is in it.
    pub(super) fn is_of_contents(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422, .. })
    }

    pub(super) fn of(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            Self::Time
        } else if error.is_connect() {
            Self::Connection(root_cause(error))
        } else {
            Self::Broken(root_cause(error))
        }
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        300..=399 => "the address that it redirects to",
        401 | 403 => "https://USER:PASSWORD@HOST as endpoint",
        404 | 405 => {
            "check the path, and that the receiver takes profiles (the collector with \
             --feature-gates=service.profilesSupport)"
        }
        413 => "a higher limit of the receiver for the size of a request",
        429 | 503 => "a higher limit of the receiver, or fewer hosts that push to it",
        _ => "the log of the receiver",
    }
}

/// The innermost cause, which names what happened: those around it repeat the URL.
pub(super) fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The URL of an endpoint; its query and fragment have no meaning.
pub(super) fn endpoint(text: &str, example: &'static str) -> Result<Url, EndpointError> {
    let failed = |endpoint: &str, cause: &str| EndpointError::Url {
        endpoint: endpoint.to_owned(),
        cause: cause.to_owned(),
        example,
    };
    // Credentials are before the last @.
    let shown = text.rsplit('@').next().unwrap_or_default();
    let url = Url::parse(text).map_err(|error| failed(shown, &error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(failed(shown, "it begins with neither http:// nor https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(failed(shown, "it has more than a host and a path"));
    }
    Ok(url)
}

/// The URL as messages may show it.
pub(super) fn without_credentials(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only where a URL has no host; those of HTTP have one.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}
