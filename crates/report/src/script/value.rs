//! What a record says, as names and values: for everything that is not laid out for people.

use std::fmt::Write as _;

use crate::envelope::push_json_string;
use crate::escape_bytes;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptValue<'a> {
    None,
    Number(u64),
    Signed(i64),
    Address(u64),
    Flag(bool),
    /// Our own words.
    Word(String),
    /// Foreign text.
    Text(&'a [u8]),
    /// Bytes, hexadecimal.
    Bytes(&'a [u8]),
    List(Vec<ScriptValue<'a>>),
    Object(Vec<NamedValue<'a>>),
}

/// A name and its value.
pub(super) type NamedValue<'a> = (&'static str, ScriptValue<'a>);

/// Integers up to here are the same in every program that reads JSON.
pub(super) const MOST_EXACT: u64 = 1 << 53;

impl ScriptValue<'_> {
    /// For people: no space within, so that names and values can be told apart.
    pub(super) fn text(&self, out: &mut String) {
        // Writing to a String does not fail.
        let _ = match self {
            Self::None => write!(out, "-"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Signed(number) => write!(out, "{number}"),
            Self::Address(address) => write!(out, "{address:#x}"),
            Self::Flag(flag) => write!(out, "{}", if *flag { "yes" } else { "no" }),
            Self::Word(word) => write!(out, "{word}"),
            Self::Text(text) => write!(out, "{}", escape_bytes(text)),
            Self::Bytes(bytes) => hex(out, bytes),
            Self::List(values) => {
                for (number, value) in values.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    value.text(out);
                }
                Ok(())
            }
            Self::Object(pairs) => {
                for (number, (name, value)) in pairs.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { ":" });
                    let _ = write!(out, "{name}=");
                    value.text(out);
                }
                Ok(())
            }
        };
    }

    pub(super) fn json(&self, out: &mut String) {
        // Writing to a String does not fail.
        let _ = match self {
            Self::None => write!(out, "null"),
            Self::Number(number @ ..=MOST_EXACT) => write!(out, "{number}"),
            Self::Number(number) => write!(out, "\"{number}\""),
            Self::Signed(number) => write!(out, "{number}"),
            Self::Address(address) => write!(out, "\"{address:#x}\""),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Word(word) => {
                push_json_string(out, word);
                Ok(())
            }
            Self::Text(text) => {
                push_json_string(out, &String::from_utf8_lossy(text));
                Ok(())
            }
            Self::Bytes(bytes) => {
                out.push('"');
                let done = hex(out, bytes);
                out.push('"');
                done
            }
            Self::List(values) => {
                out.push('[');
                for (number, value) in values.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    value.json(out);
                }
                out.push(']');
                Ok(())
            }
            Self::Object(pairs) => {
                out.push('{');
                json_pairs(out, pairs);
                out.push('}');
                Ok(())
            }
        };
    }
}

/// `"name":value,…`
pub(super) fn json_pairs(out: &mut String, pairs: &[NamedValue<'_>]) {
    for (number, (name, value)) in pairs.iter().enumerate() {
        out.push_str(if number == 0 { "" } else { "," });
        push_json_string(out, name);
        out.push(':');
        value.json(out);
    }
}

fn hex(out: &mut String, bytes: &[u8]) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

pub(super) fn number(value: impl Into<u64>) -> ScriptValue<'static> {
    ScriptValue::Number(value.into())
}

pub(super) fn id(value: i32) -> ScriptValue<'static> {
    ScriptValue::Signed(value.into())
}

pub(super) fn or_none<'a, T>(
    value: Option<T>,
    make: impl FnOnce(T) -> ScriptValue<'a>,
) -> ScriptValue<'a> {
    value.map_or(ScriptValue::None, make)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_people_and_for_programs() {
        let both = |value: &ScriptValue<'_>| {
            let (mut text, mut json) = (String::new(), String::new());
            value.text(&mut text);
            value.json(&mut json);
            (text, json)
        };
        let is = |value: ScriptValue<'_>, text: &str, json: &str| {
            assert_eq!(both(&value), (text.to_owned(), json.to_owned()));
        };
        is(ScriptValue::None, "-", "null");
        is(ScriptValue::Number(u64::MAX), "18446744073709551615", "\"18446744073709551615\"");
        is(ScriptValue::Address(255), "0xff", "\"0xff\"");
        is(ScriptValue::Text(b"a\x1bb"), "a\\x1bb", "\"a\\u001bb\"");
        is(ScriptValue::Bytes(&[1, 0xab]), "01ab", "\"01ab\"");
        let list = ScriptValue::List(vec![ScriptValue::Signed(-1), ScriptValue::Flag(true)]);
        is(list, "-1,yes", "[-1,true]");
        let object = ScriptValue::Object(vec![("a", number(1_u32)), ("b", ScriptValue::None)]);
        is(object, "a=1:b=-", "{\"a\":1,\"b\":null}");
    }
}
