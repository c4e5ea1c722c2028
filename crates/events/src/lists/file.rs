//! Values as vendors write them: numbers as text, `"0"` and `"null"` for nothing.

use serde::de::{Deserializer, Visitor};

/// Text, a number or a truth value as text; anything else as nothing.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_any(Lenient)
}

struct Lenient;

impl<'de> Visitor<'de> for Lenient {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        let value = value.trim();
        Ok((!value.is_empty() && value != "null").then(|| value.to_owned()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(u8::from(value).to_string()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Decimal, or hexadecimal after `0x`; of a list of numbers the first.
pub(super) fn number(text: &str) -> Option<u64> {
    let first = text.split(',').next()?.trim();
    match first.strip_prefix("0x").or_else(|| first.strip_prefix("0X")) {
        Some(hex) => crate::terms::parse(hex, 16),
        None => crate::terms::parse(first, 10),
    }
}

/// The number, unless it is 0.
pub(super) fn nonzero(text: Option<&String>) -> Option<u64> {
    number(text?).filter(|&number| number != 0)
}

/// At most so many bytes of a text.
pub(super) fn limited(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
