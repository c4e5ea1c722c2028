//! What the place that text goes to can show.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the place that text goes to can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours and bold type, by ANSI sequences.
    pub colour: bool,
    /// Characters beyond ASCII; otherwise `±` becomes `+-`, and so on.
    pub unicode: bool,
    /// Columns of the terminal; `None` if lines may have any length.
    pub width: Option<usize>,
}

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paint {
    /// Not at all.
    #[default]
    Plain,
    /// Titles.
    Bold,
    /// Less important.
    Dim,
    /// As it should be.
    Good,
    /// Not quite.
    Warn,
    /// Wrong.
    Bad,
}

impl Style {
    /// For files and pipes: no colour, any width, all characters.
    pub const PLAIN: Self = Self { colour: false, unicode: true, width: None };

    /// `text` with the characters this place can show.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '±' => out.push_str("+-"),
                '·' => out.push('|'),
                '×' => out.push('x'),
                'µ' => out.push('u'),
                '…' => out.push_str("..."),
                '–' | '—' | '─' => out.push('-'),
                '≤' => out.push_str("<="),
                '≥' => out.push_str(">="),
                '→' => out.push_str("->"),
                '✓' | '●' => out.push('*'),
                '✗' => out.push('x'),
                ' ' => out.push(' '),
                c if c.is_ascii() => out.push(c),
                _ => out.push('?'),
            }
        }
        Cow::Owned(out)
    }

    /// `text` with ANSI sequences around it, if this place has colours.
    pub fn paint<'a>(&self, paint: Paint, text: &'a str) -> Cow<'a, str> {
        let code = match paint {
            Paint::Plain => return Cow::Borrowed(text),
            _ if !self.colour || text.is_empty() => return Cow::Borrowed(text),
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }
}

/// Breaks `text` at spaces into lines of at most `width` columns, the second and later ones indented.
/// Words that are longer stay whole. The first line is taken to start at column `indent` already.
pub fn wrap(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut out = String::with_capacity(text.len() + 16);
    let mut column = indent;
    for word in text.split(' ') {
        let space = usize::from(column > indent);
        if column > indent && column + space + word.width() > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if space == 1 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.width();
    }
    out
}

/// As much of `text` as leaves room for `mark` within `width` columns, and `mark`.
pub fn truncate(text: &str, width: usize, mark: &str) -> String {
    let room = width.saturating_sub(mark.width());
    let mut out = String::new();
    let mut columns = 0;
    for c in text.chars() {
        columns += c.width().unwrap_or(0);
        if columns > room {
            break;
        }
        out.push(c);
    }
    out.push_str(mark);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_places_get_ascii() {
        let ascii = Style { unicode: false, ..Style::PLAIN };
        let text = ascii.text("1.12 ±0.03 µs · 2 × 3 … größer");
        assert_eq!(text, "1.12 +-0.03 us | 2 x 3 ... gr??er");
        assert_eq!(Style::PLAIN.text("µs"), "µs");
    }

    #[test]
    fn colour_only_where_there_is_some() {
        let colour = Style { colour: true, ..Style::PLAIN };
        assert_eq!(colour.paint(Paint::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(colour.paint(Paint::Plain, "no"), "no");
        assert_eq!(Style::PLAIN.paint(Paint::Bad, "no"), "no");
    }

    #[test]
    fn lines_break_at_spaces_and_hang() {
        assert_eq!(wrap("one two three four", Some(13), 3), "one two\n   three four");
        assert_eq!(wrap("incomprehensibilities a", Some(8), 2), "incomprehensibilities\n  a");
        assert_eq!(wrap("one two", None, 3), "one two");
        assert_eq!(wrap("", Some(5), 3), "");
    }

    #[test]
    fn cutting_respects_columns() {
        assert_eq!(truncate("abcdefg", 6, "…"), "abcde…");
        assert_eq!(truncate("abcdefg", 6, "..."), "abc...");
        assert_eq!(truncate("函数函数", 5, "…"), "函数…");
        assert_eq!(truncate("函数函数", 4, "…"), "函…");
    }
}
