//! Markup of pages and pictures: whatever a name holds, it stays text.
//!
//! Pages are written with [`html!`], which escapes each text that is put into it; a page as a whole then shows as
//! escapes what could act on a reader ([`PageFrame`](crate::html::PageFrame)). [`text`] does both for SVG that is
//! written piece by piece.

use std::borrow::Cow;

use serde::Serialize;

use crate::escape;

pub(crate) use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Markup from what `write` appends, which has to escape foreign text by [`text`].
pub(crate) fn written(write: impl FnOnce(&mut String)) -> Markup {
    let mut out = String::new();
    write(&mut out);
    PreEscaped(out)
}

/// JSON for the script of a page to read: no text in it can end its element.
pub(crate) fn json(value: &impl Serialize) -> Markup {
    // Numbers and texts with texts as keys, which is what pages have, are always JSON.
    let text = serde_json::to_string(value).expect("no map with keys that are not text");
    PreEscaped(text.replace('<', "\\u003c"))
}

/// Text as it may stand between tags and in quoted attributes, in HTML and in XML. What could act on
/// a reader (control characters, marks of direction) is shown as an escape, which also keeps XML
/// well-formed.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let text = escape(text);
    if !text.contains(is_special) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_special(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out.into()
}

/// The last two are no characters to XML.
fn is_special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}')
}

/// The first `most` characters, the last of them `…` where some were cut off.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().nth(most).is_none() {
        return text.into();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        let name = "f<T>(\"a\" & 'b')\u{1b}[31m\u{202e}\u{ffff}</script>";
        let shown = text(name);
        assert_eq!(
            shown,
            "f&lt;T&gt;(&quot;a&quot; &amp; &#39;b&#39;)\\x1b[31m\\u{202e}\u{fffd}&lt;/script&gt;"
        );
        assert!(matches!(text("größe"), Cow::Borrowed("größe")));
    }

    #[test]
    fn json_cannot_end_its_element() {
        let text = json(&["</script><b>", "\"&\\"]).into_string();
        assert!(!text.contains('<'), "{text}");
        let read: [String; 2] = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ["</script><b>", "\"&\\"]);
    }

    #[test]
    fn what_is_cut_says_so() {
        for (most, short) in [(9, "größe"), (5, "größe"), (4, "grö…"), (1, "…"), (0, "…")]
        {
            assert_eq!(cut("größe", most), short);
        }
    }
}
