//! Requests before they are sent, with the samples that they are of.

use std::collections::VecDeque;

use pmuscope_dataset::{Rows, SampleRow};
use reqwest::Url;

use super::{PushSink, Receiver};
use crate::dictionary::Frames;
use crate::otlp::{OTLP_PATH, OtlpRequest, OtlpRequests};
use crate::pprof::{PprofLimits, PprofProfile, PprofProfiles};

/// Bytes of a request of OTLP at most. The collector takes 20 MiB by default, Pyroscope 4 MiB.
const MOST_BYTES: usize = 4 << 20;

/// A request.
pub(super) struct Outgoing<'s, 'a> {
    pub(super) url: Url,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    /// The samples in it, sorted.
    pub(super) samples: &'s [&'a SampleRow],
}

impl Outgoing<'_, '_> {
    pub(super) fn has_several_services(&self) -> bool {
        self.samples.windows(2).any(|pair| pair[0].service != pair[1].service)
    }
}

/// Makes requests of samples.
pub(super) struct Encoder<'e, 'a> {
    sink: &'e PushSink,
    otlp: OtlpRequests<'a>,
    pprof: PprofProfiles<'a>,
}

impl<'e, 'a> Encoder<'e, 'a> {
    pub(super) fn new(sink: &'e PushSink, frames: &'a Frames<'a>, rows: &'a Rows) -> Self {
        let otlp = OtlpRequests::new(frames, rows, MOST_BYTES);
        let pprof = PprofProfiles::new(frames, rows, PprofLimits::PYROSCOPE);
        Self { sink, otlp, pprof }
    }

    /// Requests for samples that are sorted.
    pub(super) fn encode<'s>(&self, samples: &'s [&'a SampleRow]) -> VecDeque<Outgoing<'s, 'a>> {
        match self.sink.receiver {
            Receiver::Otlp => {
                let url = self.sink.url(OTLP_PATH);
                let request = |(request, samples): (OtlpRequest, _)| Outgoing {
                    url: url.clone(),
                    content_type: "application/x-protobuf",
                    body: request.bytes,
                    samples,
                };
                self.otlp.of(samples).into_iter().map(request).collect()
            }
            Receiver::Pprof => {
                let url = self.sink.url("ingest");
                let request = |(profile, samples): (PprofProfile, _)| Outgoing {
                    url: with_query(url.clone(), &profile),
                    content_type: "application/octet-stream",
                    body: profile.bytes,
                    samples,
                };
                self.pprof.of(samples).into_iter().map(request).collect()
            }
        }
    }

    /// The same samples with requests of their own for each service.
    pub(super) fn by_service<'s>(&self, outgoing: &Outgoing<'s, 'a>) -> Vec<Outgoing<'s, 'a>> {
        let services = outgoing.samples.chunk_by(|a, b| a.service == b.service);
        services.flat_map(|samples| self.encode(samples)).collect()
    }
}

/// What Pyroscope asks of a profile, in its URL.
fn with_query(mut url: Url, profile: &PprofProfile) -> Url {
    let until = profile.end.0.max(0).cast_unsigned().div_ceil(1_000_000);
    url.query_pairs_mut()
        .append_pair("name", &name(profile))
        .append_pair("from", &since_1970(profile.start.0))
        .append_pair("until", &until.to_string())
        .append_pair("format", "pprof")
        .append_pair("spyName", "pmuscope");
    url
}

/// A time as Pyroscope reads it: seconds, or milliseconds where there are 13 digits. Parts of a profile are milliseconds
/// apart.
fn since_1970(us: i64) -> String {
    let ms = us.max(0) / 1000;
    let has_all_digits = (1_000_000_000_000..10_000_000_000_000).contains(&ms);
    if has_all_digits && ms % 1000 != 0 { ms.to_string() } else { (ms / 1000).to_string() }
}

/// Service and labels as Pyroscope reads them: there are letters that end a name or a value, and no quotes.
pub(super) fn name(profile: &PprofProfile) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-./_".contains(letter);
    let plain = |letter| if is_plain(letter) { letter } else { '_' };
    let service: String = profile.service.chars().map(plain).collect();
    let service = if service.is_empty() { "unknown" } else { &service };
    let label =
        |(name, value): &(&str, String)| format!("{name}={}", value.replace([',', '}'], "_"));
    let labels: Vec<String> = profile.labels.iter().map(label).collect();
    format!("{service}{{{}}}", labels.join(","))
}
