//! Foreign text made harmless: it must not move the cursor, change colors or reorder a line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Replaces control characters, line breaks and characters that reorder or hide text by escapes such
/// as `\x1b` and `\u{202e}`. Printable text of any script stays as it is.
pub fn escape(text: &str) -> Cow<'_, str> {
    // Almost all text is printable ASCII, which is fast to see.
    let is_plain = text.bytes().fold(true, |is_plain, byte| is_plain & matches!(byte, b' '..=b'~'));
    if is_plain || !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push(&mut out, c);
    }
    Cow::Owned(out)
}

/// [`escape`] for a text of several lines: it keeps its line breaks.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && is_unsafe(c)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    Cow::Owned(lines.join("\n"))
}

/// [`escape`] for bytes that should be UTF-8; others appear as `\xff`.
pub fn escape_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return escape(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(&mut out, c));
        for byte in chunk.invalid() {
            // Writing to a String does not fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

fn push(out: &mut String, c: char) {
    // Writing to a String does not fail.
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\t' => write!(out, "\\t"),
        '\0'..='\u{7f}' if is_unsafe(c) => write!(out, "\\x{:02x}", u32::from(c)),
        c if is_unsafe(c) => write!(out, "\\u{{{:x}}}", u32::from(c)),
        c => write!(out, "{c}"),
    };
}

/// Control characters of both ranges, line and paragraph separators, zero-width and direction marks.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines() {
        assert!(matches!(escape_lines("a\nb\n"), Cow::Borrowed("a\nb\n")));
        assert_eq!(escape_lines("a\u{1b}\n\tb\n"), "a\\x1b\n\\tb\n");
    }

    #[test]
    fn printable_text_stays() {
        for text in ["", "cat", "größe", "函数<T>::λ", "C:\\n", "a b"] {
            assert_eq!(escape(text), text);
        }
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_remains() {
        assert_eq!(escape("\u{1b}[31mred\u{7}"), "\\x1b[31mred\\x07");
        assert_eq!(escape("a\nb\tc\rd\u{7f}"), "a\\nb\\tc\\x0dd\\x7f");
        assert_eq!(escape("\u{9b}2J\u{202e}gpj\u{200b}"), "\\u{9b}2J\\u{202e}gpj\\u{200b}");
        for code in 0..0x3000u32 {
            let Some(c) = char::from_u32(code) else { continue };
            assert!(!escape(&c.to_string()).contains(is_unsafe), "{code:x}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(escape_bytes(b"ab\xff\xfec\x1b"), "ab\\xff\\xfec\\x1b");
        assert_eq!(escape_bytes("größe".as_bytes()), "größe");
    }
}
