//! The object around every JSON result.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmuscope_machine::Facts;
use serde::Serialize;

use crate::escape::is_unsafe;

/// What every JSON output has in common, with the fields of the result beside it.
#[derive(Debug, Serialize)]
pub struct Envelope<'a, T> {
    /// `pmuscope/KIND/1`.
    pub schema: &'static str,
    /// Who wrote it.
    pub tool: Tool,
    /// What is known of the machine; absent where the result describes another one.
    pub machine: Option<&'a Facts>,
    /// The command line, program first.
    pub command: &'a [String],
    /// When it started, nanoseconds since 1970-01-01 UTC; as text, for it is beyond 2^53.
    #[serde(serialize_with = "nanoseconds")]
    pub started: SystemTime,
    /// How long it took.
    #[serde(serialize_with = "seconds")]
    pub duration_s: Duration,
    /// The exit status of the program.
    pub status: u8,
    /// The result; a struct.
    #[serde(flatten)]
    pub result: T,
}

/// Name and version of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl Tool {
    /// This program.
    pub const PMUSCOPE: Self = Self { name: "pmuscope", version: env!("CARGO_PKG_VERSION") };
}

fn nanoseconds<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    serializer.collect_str(&since.as_nanos())
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// A value as indented JSON with a line feed behind it. What could act on a terminal is escaped as
/// `\u001b`, also where JSON itself would let it pass.
///
/// # Errors
/// If the value cannot be JSON, such as a map whose keys are no text.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(value)?;
    let mut out = String::with_capacity(text.len() + 1);
    // Line feeds are the layout's: those inside strings are escaped already.
    push_harmless(&mut out, &text, |c| c == '\n');
    out.push('\n');
    Ok(out)
}

/// Appends `text` as a JSON string; what could act on a terminal is escaped as in [`to_json`].
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    // Strings cannot fail to serialize.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    push_harmless(out, &quoted, |_| false);
}

/// Appends JSON; characters that could act on a terminal stand in strings only, where each has an escape.
fn push_harmless(out: &mut String, json: &str, is_layout: impl Fn(char) -> bool) {
    use std::fmt::Write as _;

    if !json.contains(is_unsafe) {
        out.push_str(json);
        return;
    }
    for c in json.chars() {
        if is_layout(c) || !is_unsafe(c) {
            out.push(c);
        } else {
            // Writing to a String does not fail; all of these are below 0x10000.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Result {
        names: Vec<String>,
    }

    fn envelope(names: &[&str]) -> String {
        let result = Result { names: names.iter().map(ToString::to_string).collect() };
        let envelope = Envelope {
            schema: "pmuscope/test/1",
            tool: Tool { name: "pmuscope", version: "1.2.3" },
            machine: None,
            command: &["pmuscope".to_owned(), "test".to_owned()],
            started: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
            duration_s: Duration::from_millis(1500),
            status: 0,
            result,
        };
        to_json(&envelope).unwrap()
    }

    #[test]
    fn the_result_lies_beside_the_common_fields() {
        insta::assert_snapshot!(envelope(&["a"]), @r#"
        {
          "schema": "pmuscope/test/1",
          "tool": {
            "name": "pmuscope",
            "version": "1.2.3"
          },
          "machine": null,
          "command": [
            "pmuscope",
            "test"
          ],
          "started": "1700000000123456789",
          "duration_s": 1.5,
          "status": 0,
          "names": [
            "a"
          ]
        }
        "#);
    }

    #[test]
    fn no_text_acts_on_a_terminal_and_all_comes_back() {
        let names = ["\u{1b}[31m", "\u{9b}2J", "\u{202e}x", "\u{7f}", "größe \"q\" \\ \n"];
        let text = envelope(&names);
        assert!(!text.contains(|c| c != '\n' && is_unsafe(c)), "{text:?}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let back: Vec<&str> =
            value["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(back, names);
    }
}
