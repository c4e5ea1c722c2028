//! What receivers answer.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceResponse;
use prost::Message;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

/// Letters of a message at most.
const LONGEST_MESSAGE: usize = 300;

/// `google.rpc.Status` of an OTLP receiver that refuses a request, as far as a person reads it.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

pub(super) fn is_protobuf(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-protobuf"))
}

/// How many profiles of a request an OTLP receiver rejected, and what it says about that. A receiver may warn in this way
/// without rejecting any. An answer that is no message says nothing: the request was taken.
pub(super) fn partial_success(body: &[u8]) -> (u64, Option<String>) {
    let response = ExportProfilesServiceResponse::decode(body).unwrap_or_default();
    let Some(partial) = response.partial_success else { return (0, None) };
    let message = readable(&partial.error_message);
    (
        partial.rejected_profiles.max(0).cast_unsigned(),
        Some(message).filter(|text| !text.is_empty()),
    )
}

/// What a receiver says that refuses a request.
pub(super) fn refusal(body: &[u8], is_protobuf: bool) -> String {
    let status = is_protobuf.then(|| Status::decode(body).ok()).flatten();
    readable(&status.map_or_else(|| String::from_utf8_lossy(body).into_owned(), |one| one.message))
}

/// A line of text: what others send may have anything in it.
pub(super) fn readable(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).collect();
    let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    words.chars().take(LONGEST_MESSAGE).collect::<String>().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_says_becomes_one_short_line() {
        let status = Status { message: "no profiles\n\there.".to_owned() };
        assert_eq!(refusal(&status.encode_to_vec(), true), "no profiles here");
        assert_eq!(refusal(b"404 page not found\n", false), "404 page not found");
        assert_eq!(refusal(&[0xff; 8], true), "\u{fffd}".repeat(8));
        assert_eq!(refusal("x".repeat(1000).as_bytes(), false).len(), LONGEST_MESSAGE);
        assert_eq!(refusal(b"", false), "");
    }

    #[test]
    fn an_empty_or_damaged_answer_rejects_nothing() {
        for body in [&b""[..], b"\xff\xff", b"{}"] {
            assert_eq!(partial_success(body), (0, None));
        }
    }
}
