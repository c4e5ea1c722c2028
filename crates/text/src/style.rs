//! What the place that text goes to can show.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the place that text goes to can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colors and bold type, by ANSI sequences.
    pub color: bool,
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
    /// For files and pipes: no color, any width, all characters.
    pub const PLAIN: Self = Self { color: false, unicode: true, width: None };

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

    /// The same with room for whole tables: what `--wide` asks for.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { width: None, ..self }
    }

    /// `text` with ANSI sequences around it, if this place has colors.
    pub fn paint<'a>(&self, paint: Paint, text: &'a str) -> Cow<'a, str> {
        let code = match paint {
            Paint::Plain => return Cow::Borrowed(text),
            _ if !self.color || text.is_empty() => return Cow::Borrowed(text),
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
            out.truncate(out.trim_end_matches(' ').len());
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

/// As [`wrap`], of parts with dots between, each of which stays on one line if it can: `lost 0 · throttled 0`.
pub fn wrap_parts(text: &str, width: Option<usize>, indent: usize) -> String {
    const NO_BREAK: &str = "\u{a0}";
    let Some(room) = width.map(|width| width.saturating_sub(indent + 2)) else {
        return text.to_owned();
    };
    let whole = |part: &str| match part.width() <= room {
        true => part.replace(' ', NO_BREAK),
        false => part.to_owned(),
    };
    let parts: Vec<String> = text.split(" · ").map(whole).collect();
    if parts.len() < 2 {
        return wrap(text, width, indent);
    }
    wrap(&parts.join("\u{a0}· "), width, indent).replace(NO_BREAK, " ")
}

/// The same for each line of `text` that is too long.
pub fn wrap_lines(text: &str, width: Option<usize>, indent: usize) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if width.is_none_or(|width| line.width() <= width) {
            out.push_str(line);
        } else {
            let begin = line.len() - line.trim_start_matches(' ').len();
            out.push_str(&line[..begin]);
            out.push_str(&wrap_parts(&line[begin..], width, begin + indent));
        }
        out.push_str(end);
    }
    out
}

/// Where text is cut that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortenAt {
    /// Names: their beginnings and their ends differ most.
    Middle,
    /// Sentences.
    End,
}

/// `text` within `width` columns: what does not fit is replaced by `mark`. A number is never cut: it stays whole, or
/// goes as a whole. Of a name with `::` whole parts stay if they can: `std::__cxx11::…::operator()`.
pub fn shorten(text: &str, width: usize, mark: &str, cut: ShortenAt) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(mark.width());
    if cut == ShortenAt::End {
        return format!("{}{mark}", head(text, room));
    }
    // Indentation shows the depth of a tree; half of the width is enough for it.
    let name = text.trim_start_matches(' ');
    let indent = (text.len() - name.len()).min(width / 2);
    if indent > 0 {
        return format!("{}{}", " ".repeat(indent), shorten(name, width - indent, mark, cut));
    }
    if let Some(parts) = whole_parts(name, width, mark) {
        return parts;
    }
    let end = tail(name, room / 2);
    match head(name, room - end.width()) {
        // It begins with a number, which has room only without the end: an address.
        "" if !end.is_empty() => {
            let begin = head(name, room);
            format!("{begin}{mark}{}", tail(name, room - begin.width()))
        }
        begin => format!("{begin}{mark}{end}"),
    }
}

/// The longest beginning of `text` within `width` columns that ends beside a number, not in one.
fn head(text: &str, width: usize) -> &str {
    let mut columns = 0;
    let fits = |c: char| {
        columns += c.width().unwrap_or(0);
        columns <= width
    };
    let mut end = text.len() - text.trim_start_matches(fits).len();
    while is_in_number(text, end) {
        end -= 1;
    }
    &text[..end]
}

/// The same at the end of `text`.
fn tail(text: &str, width: usize) -> &str {
    let mut columns = 0;
    let fits = |c: char| {
        columns += c.width().unwrap_or(0);
        columns <= width
    };
    let mut begin = text.trim_end_matches(fits).len();
    while is_in_number(text, begin) {
        begin += 1;
    }
    &text[begin..]
}

/// Whether digits are on both sides of a position, or its point or comma: all of them one byte long.
fn is_in_number(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_gap = |at: usize| matches!(bytes.get(at), Some(b'.' | b',')) && is_digit(at + 1);
    let before = |at: usize| at > 0 && is_digit(at - 1);
    if at == 0 || at >= bytes.len() {
        return false;
    }
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let begin = at - bytes[..at].iter().rev().take_while(|byte| is_word(byte)).count();
    let is_hex = bytes[begin..].starts_with(b"0x") && bytes.get(at).is_some_and(is_word);
    // `0x1|f`, `1|2`, `1|.5`, `1.|5`
    is_hex && begin < at
        || before(at) && (is_digit(at) || is_gap(at))
        || is_gap(at - 1) && before(at - 1)
}

/// First and last parts of a name with `::` between them; `None` where not even one of each fits.
fn whole_parts(name: &str, width: usize, mark: &str) -> Option<String> {
    let parts = parts(name);
    let (last, others) = parts.split_last()?;
    let mut begin = format!("{}::", others.first()?);
    let mut end = format!("::{last}");
    let room = width.checked_sub(mark.width() + begin.width() + end.width())?;
    let mut left = room;
    let mut inner = &others[1..];
    // From the front, then from the back, as long as whole parts fit.
    while let Some((next, rest)) = inner.split_first().filter(|(next, _)| next.width() + 2 <= left)
    {
        begin = format!("{begin}{next}::");
        left -= next.width() + 2;
        inner = rest;
    }
    while let Some((next, rest)) = inner.split_last().filter(|(next, _)| next.width() + 2 <= left) {
        end = format!("::{next}{end}");
        left -= next.width() + 2;
        inner = rest;
    }
    Some(format!("{begin}{mark}{end}"))
}

/// Parts of a name that `::` separates, outside of brackets.
fn parts(name: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at >= from && bytes.get(at + 1) == Some(&b':') => {
                parts.push(&name[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&name[from..]);
    parts
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
    fn color_only_where_there_is_some() {
        let color = Style { color: true, ..Style::PLAIN };
        assert_eq!(color.paint(Paint::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(color.paint(Paint::Plain, "no"), "no");
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
        let end = |text, width, mark| shorten(text, width, mark, ShortenAt::End);
        assert_eq!(end("abcdefg", 6, "…"), "abcde…");
        assert_eq!(end("abcdefg", 6, "..."), "abc...");
        assert_eq!(end("函数函数函", 5, "…"), "函数…");
        assert_eq!(end("函数函数函", 4, "…"), "函…");
        assert_eq!(end("abc", 3, "…"), "abc");
    }

    #[test]
    fn names_keep_beginning_and_end() {
        let middle = |text, width| shorten(text, width, "…", ShortenAt::Middle);
        let name = "std::__cxx11::basic_string<char, std::allocator<char> >::operator()";
        assert_eq!(middle(name, 32), "std::__cxx11::…::operator()");
        assert_eq!(middle(name, 20), "std::…::operator()");
        assert_eq!(middle(name, 12), "std::_…tor()");
        assert_eq!(middle("a_function_of_c", 9), "a_fu…of_c");
        assert_eq!(
            middle("        deep::er::name", 16),
            "        de…::name".replace("de…::name", "deep…ame")
        );
    }

    #[test]
    fn numbers_stay_whole() {
        for width in 1..20 {
            let text = shorten("at 1,234,567 of x", width, "…", ShortenAt::Middle);
            assert!(
                !text.contains(|c: char| c.is_ascii_digit()) || text.contains("1,234,567"),
                "{text}"
            );
            assert!(text.width() <= width, "{text}");
        }
        assert_eq!(shorten("took 12.5 ms", 9, "…", ShortenAt::End), "took …");
        let address =
            |width| shorten("0xffff8000 [kernel.kallsyms]", width, "…", ShortenAt::Middle);
        assert_eq!(
            [28, 22, 14, 9].map(address),
            [
                "0xffff8000 [kernel.kallsyms]",
                "0xffff8000 ….kallsyms]",
                "0xffff8000 [k…",
                "…allsyms]"
            ]
        );
    }
}
