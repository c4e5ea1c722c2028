//! The grammar of `-e`: text to pieces that know where they stand. Nothing here knows an event.
//!
//! ```text
//! list  := item (',' item)*
//! item  := event | name? '{' event (',' event)* '}' (':' modifiers)?
//! event := 'mem:' addr ('/' len)? (':' rwx)? terms? modifiers?
//!        | head (':' part)* (terms ':'? modifiers?)?
//! terms := '/' (term (',' term)*)? '/'        term := name ('=' (value | "'" any "'"))?
//! ```

use crate::error::{Fault, Reason};

/// A slice of the text and the byte offset it starts at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPiece<'t> {
    pub(crate) text: &'t str,
    pub(crate) at: usize,
}

impl<'t> TextPiece<'t> {
    /// An error about this piece.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault::new(self.at, self.text.len(), reason)
    }

    /// An error about the character at byte `offset` of this piece.
    pub(crate) fn fault_at(&self, offset: usize, reason: Reason) -> Fault {
        let len = self.text.get(offset..).and_then(|t| t.chars().next()).map_or(0, char::len_utf8);
        Fault::new(self.at + offset, len, reason)
    }

    fn split_once(&self, separator: char) -> Option<(TextPiece<'t>, TextPiece<'t>)> {
        let (before, after) = self.text.split_once(separator)?;
        let at = self.at + before.len() + separator.len_utf8();
        Some((TextPiece { text: before, at: self.at }, TextPiece { text: after, at }))
    }
}

/// One `name`, `name=value` or `name='value'` between slashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term<'t> {
    pub(crate) name: TextPiece<'t>,
    pub(crate) value: Option<TextPiece<'t>>,
}

/// What stands before terms and modifiers.
#[derive(Debug, Clone)]
pub(crate) enum SyntaxHead<'t> {
    /// `cycles`, `sched:sched_switch`, `0:1`, `cycles:u`: what the colons mean depends on the name.
    Named { head: TextPiece<'t>, parts: Vec<TextPiece<'t>> },
    /// `mem:addr/len:access`.
    Breakpoint { addr: TextPiece<'t>, len: Option<TextPiece<'t>>, access: Option<TextPiece<'t>> },
}

/// One event as written.
#[derive(Debug, Clone)]
pub(crate) struct EventSyntax<'t> {
    pub(crate) whole: TextPiece<'t>,
    pub(crate) head: SyntaxHead<'t>,
    /// The terms, if there were slashes, and the piece between the slashes.
    pub(crate) terms: Option<(TextPiece<'t>, Vec<Term<'t>>)>,
    /// Modifiers after the terms (or after a breakpoint).
    pub(crate) modifiers: Option<TextPiece<'t>>,
}

/// One event or one pair of braces.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxItem<'t> {
    pub(crate) name: Option<TextPiece<'t>>,
    pub(crate) braces: bool,
    pub(crate) events: Vec<EventSyntax<'t>>,
    pub(crate) modifiers: Option<TextPiece<'t>>,
}

/// Splits a whole `-e` argument.
pub(crate) fn list(text: &str) -> Result<Vec<SyntaxItem<'_>>, Fault> {
    Ok(items(text)?.into_iter().map(|(_, item)| item).collect())
}

/// The same, each with its text.
pub(crate) fn items(text: &str) -> Result<Vec<(&str, SyntaxItem<'_>)>, Fault> {
    let mut cursor = Cursor { text, at: 0 };
    let mut items = Vec::new();
    loop {
        let start = cursor.at;
        let item = item(&mut cursor)?;
        items.push((text[start..cursor.at].trim(), item));
        cursor.skip_space();
        match cursor.peek() {
            None => return Ok(items),
            Some(',') => cursor.bump(),
            Some('}') => return Err(cursor.here(Reason::Unbalanced { missing: '{' })),
            Some(found) => return Err(cursor.here(Reason::Unexpected { found, expected: "','" })),
        }
    }
}

fn item<'t>(cursor: &mut Cursor<'t>) -> Result<SyntaxItem<'t>, Fault> {
    cursor.skip_space();
    let start = cursor.at;
    let name = cursor.take_while(|c| !is_separator(c));
    cursor.skip_space();
    if cursor.peek() == Some('{') {
        let name = (!name.text.is_empty()).then_some(name);
        return braces(cursor, name);
    }
    cursor.at = start;
    let event = event(cursor)?;
    Ok(SyntaxItem { name: None, braces: false, events: vec![event], modifiers: None })
}

fn braces<'t>(
    cursor: &mut Cursor<'t>,
    name: Option<TextPiece<'t>>,
) -> Result<SyntaxItem<'t>, Fault> {
    let open = cursor.at;
    cursor.bump();
    let mut events = Vec::new();
    loop {
        cursor.skip_space();
        if cursor.peek() == Some('{') {
            return Err(cursor.here(Reason::NestedGroup));
        }
        events.push(event(cursor)?);
        cursor.skip_space();
        match cursor.peek() {
            Some(',') => cursor.bump(),
            Some('}') => break cursor.bump(),
            Some('{') => return Err(cursor.here(Reason::NestedGroup)),
            Some(found) => {
                return Err(cursor.here(Reason::Unexpected { found, expected: "',' or '}'" }));
            }
            None => return Err(cursor.char_at(open, Reason::Unbalanced { missing: '}' })),
        }
    }
    let modifiers = cursor.eat(':').then(|| cursor.take_while(|c| !is_separator(c)));
    Ok(SyntaxItem { name, braces: true, events, modifiers })
}

fn event<'t>(cursor: &mut Cursor<'t>) -> Result<EventSyntax<'t>, Fault> {
    let start = cursor.at;
    let is_mem = cursor.rest().starts_with("mem:");
    let head = if is_mem { breakpoint(cursor) } else { named(cursor)? };
    let terms = if cursor.peek() == Some('/') { Some(terms(cursor)?) } else { None };
    let colon = (is_mem || terms.is_some()) && cursor.eat(':');
    let modifiers = if colon || terms.is_some() {
        Some(cursor.take_while(|c| !is_separator(c))).filter(|m| colon || !m.text.is_empty())
    } else {
        None
    };
    Ok(EventSyntax { whole: cursor.since(start), head, terms, modifiers })
}

fn named<'t>(cursor: &mut Cursor<'t>) -> Result<SyntaxHead<'t>, Fault> {
    let head = cursor.take_while(|c| !is_separator(c));
    if head.text.is_empty() {
        return Err(cursor.here(Reason::Missing { what: "an event name" }));
    }
    let mut parts = Vec::new();
    while cursor.eat(':') {
        parts.push(cursor.take_while(|c| !is_separator(c)));
    }
    Ok(SyntaxHead::Named { head, parts })
}

fn breakpoint<'t>(cursor: &mut Cursor<'t>) -> SyntaxHead<'t> {
    cursor.at += "mem:".len();
    let addr = cursor.take_while(|c| !is_separator(c));
    // A slash opens the terms unless a length follows it.
    let len = cursor
        .rest()
        .strip_prefix('/')
        .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    let len = len.then(|| {
        cursor.bump();
        cursor.take_while(|c| !is_separator(c))
    });
    let is_access = |t: &str| {
        let word: String = t.chars().take_while(|&c| !is_separator(c)).collect();
        !word.is_empty() && word.chars().all(|c| "rwx".contains(c))
    };
    let access = cursor.rest().strip_prefix(':').is_some_and(is_access).then(|| {
        cursor.bump();
        cursor.take_while(|c| !is_separator(c))
    });
    SyntaxHead::Breakpoint { addr, len, access }
}

fn terms<'t>(cursor: &mut Cursor<'t>) -> Result<(TextPiece<'t>, Vec<Term<'t>>), Fault> {
    let open = cursor.at;
    cursor.bump();
    let start = cursor.at;
    let mut terms = Vec::new();
    loop {
        let from = cursor.at;
        let mut quoted = false;
        let term = cursor.take_while(|c| {
            quoted ^= c == '\'';
            quoted || !matches!(c, ',' | '/')
        });
        if quoted {
            return Err(cursor.char_at(from, Reason::Unbalanced { missing: '\'' }));
        }
        let last = match cursor.peek() {
            Some(',') => false,
            Some(_) => true,
            None => return Err(cursor.char_at(open, Reason::Unbalanced { missing: '/' })),
        };
        if !(last && terms.is_empty() && term.text.is_empty()) {
            terms.push(split_term(term)?);
        }
        if last {
            let inside = cursor.since(start);
            cursor.bump();
            return Ok((inside, terms));
        }
        cursor.bump();
    }
}

fn split_term(term: TextPiece<'_>) -> Result<Term<'_>, Fault> {
    let (name, value) = match term.split_once('=') {
        Some((name, value)) => (name, Some(unquote(value))),
        None => (term, None),
    };
    if name.text.is_empty() {
        return Err(term.fault(Reason::Missing { what: "a term" }));
    }
    if value.is_some_and(|v| v.text.is_empty()) {
        return Err(term.fault(Reason::Missing { what: "a value after '='" }));
    }
    Ok(Term { name, value })
}

fn unquote(value: TextPiece<'_>) -> TextPiece<'_> {
    let inner = value.text.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    inner.map_or(value, |text| TextPiece { text, at: value.at + 1 })
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ':' | '/' | '{' | '}') || c.is_whitespace()
}

struct Cursor<'t> {
    text: &'t str,
    /// Always a character boundary.
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.bump();
        }
        found
    }

    fn take_while(&mut self, mut keep: impl FnMut(char) -> bool) -> TextPiece<'t> {
        let start = self.at;
        let rest = self.rest();
        self.at += rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.since(start)
    }

    fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn since(&self, start: usize) -> TextPiece<'t> {
        TextPiece { text: self.text.get(start..self.at).unwrap_or(""), at: start }
    }

    fn here(&self, reason: Reason) -> Fault {
        self.char_at(self.at, reason)
    }

    fn char_at(&self, at: usize, reason: Reason) -> Fault {
        TextPiece { text: self.text, at: 0 }.fault_at(at, reason)
    }
}
