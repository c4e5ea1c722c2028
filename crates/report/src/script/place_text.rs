//! Text that many lines share: names of threads, and what is shown of places. Each is made once.

use std::fmt::Write as _;
use std::sync::Arc;

use pmuscope_profile::{Locator, Symbol};
use rustc_hash::FxHashMap;

use super::pages::Pages;
use super::{Field, Form, ScriptOptions};
use crate::envelope::push_json_string;
use crate::sheet::{Separator, push_field};
use crate::{escape, escape_bytes};

/// What is shown where there is no name.
const UNKNOWN: &str = "[unknown]";

/// Texts by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    /// Numbers are those of [`Locator::comm`].
    pub(super) comms: Pages<CommText>,
    pub(super) places: Pages<PlaceText>,
    /// Numbers of the places that were new when the samples were read, see [`Locator::new_places`].
    pub(super) new_places: Arc<[u32]>,
}

impl Texts {
    /// The text of a place, by what [`Locator::place`] answered.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<&PlaceText> {
        let number = match number.checked_sub(Locator::NEW) {
            Some(index) => *self.new_places.get(index as usize)?,
            None => number,
        };
        self.places.get(number)
    }
}

/// Name of a thread.
#[derive(Debug, Clone)]
pub(super) struct CommText {
    /// As the form quotes it.
    pub(super) text: Arc<str>,
    /// The same, set to the right in 16 columns; for text only.
    pub(super) padded: Arc<str>,
}

/// Place of an address.
#[derive(Debug, Clone)]
pub(super) struct PlaceText {
    /// Function, module and source line, as far as they are shown, with what separates them. Empty for columns.
    pub(super) suffix: Arc<str>,
    /// What few places or forms have.
    pub(super) parts: Option<Arc<PlaceParts>>,
}

/// Parts of a place's text.
#[derive(Debug, Default)]
pub(super) struct PlaceParts {
    /// The function alone: for branches, and for columns if it has a name.
    pub(super) function: Option<Arc<str>>,
    /// Module and source line; for columns, which only the feature `parquet` writes.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub(super) module: Option<Arc<str>>,
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub(super) line: Option<Arc<str>>,
    /// Functions inlined there, the innermost first; for text.
    pub(super) inlined: Box<[Box<str>]>,
}

/// Numbers the texts of places. Those of equal text are one: a function has many addresses.
#[derive(Debug, Default)]
pub(super) struct PlaceNumbers {
    known: FxHashMap<Arc<str>, u32>,
    /// The same for function, module and line in columns.
    columns: FxHashMap<[Option<Arc<str>>; 3], u32>,
}

impl CommText {
    pub(super) fn new(form: Form, name: &[u8]) -> Self {
        let text: Arc<str> = foreign(form, name).into();
        let padded =
            if form == Form::Text { format!("{text:>16}").into() } else { Arc::clone(&text) };
        Self { text, padded }
    }
}

/// Foreign text as a form quotes it.
pub(super) fn foreign(form: Form, text: &[u8]) -> String {
    let mut out = String::new();
    match form {
        Form::Text => out.push_str(&escape_bytes(text)),
        Form::Json => push_json_string(&mut out, &String::from_utf8_lossy(text)),
        Form::Csv => push_field(&mut out, Separator::Comma, &escape_bytes(text)),
        Form::Parquet => out.push_str(&String::from_utf8_lossy(text)),
    }
    out
}

impl PlaceNumbers {
    /// The number in `texts` of what `options` show of a place in the module at `path`.
    pub(super) fn number(
        &mut self,
        texts: &mut Pages<PlaceText>,
        options: &ScriptOptions,
        symbol: Option<&Symbol>,
        path: &[u8],
    ) -> u32 {
        let place = PlaceText::new(options, symbol, path);
        let new = texts.len() as u32;
        let number = match &place.parts {
            None => *self.known.entry(Arc::clone(&place.suffix)).or_insert(new),
            Some(parts) if options.form == Form::Parquet => {
                let PlaceParts { function, module, line, .. } = &**parts;
                let columns = [function, module, line].map(Option::clone);
                *self.columns.entry(columns).or_insert(new)
            }
            Some(_) => new,
        };
        if number == new {
            texts.push(place);
        }
        number
    }
}

impl PlaceText {
    fn new(options: &ScriptOptions, symbol: Option<&Symbol>, path: &[u8]) -> Self {
        let (suffix, parts) = match options.form {
            Form::Text => (text(options, symbol, path), text_parts(options, symbol)),
            Form::Json => (json(options, symbol, path), None),
            Form::Csv => (csv(options, symbol, path), None),
            Form::Parquet => (String::new(), Some(columns(options, symbol, path))),
        };
        Self { suffix: suffix.into(), parts: parts.map(Arc::new) }
    }
}

fn columns(options: &ScriptOptions, symbol: Option<&Symbol>, path: &[u8]) -> PlaceParts {
    let has = |field| options.fields.has(field);
    let line = symbol.filter(|_| has(Field::Srcline)).and_then(source_line);
    PlaceParts {
        function: symbol.map(|symbol| Arc::clone(&symbol.name)),
        module: has(Field::Dso).then(|| String::from_utf8_lossy(path).into()),
        line: line.map(Into::into),
        inlined: Box::default(),
    }
}

/// ` function (module) file:line`
fn text(options: &ScriptOptions, symbol: Option<&Symbol>, path: &[u8]) -> String {
    let has = |field| options.fields.has(field);
    let mut out = String::new();
    if has(Field::Sym) {
        let name = symbol.map_or(UNKNOWN, |symbol| &symbol.name);
        // Writing to a String does not fail.
        let _ = write!(out, " {}", escape(name));
    }
    if has(Field::Dso) {
        let _ = write!(out, " ({})", escape_bytes(path));
    }
    if has(Field::Srcline) {
        let line = symbol.and_then(source_line);
        let _ = write!(out, " {}", escape(line.as_deref().unwrap_or(UNKNOWN)));
    }
    out
}

/// What few lines show.
fn text_parts(options: &ScriptOptions, symbol: Option<&Symbol>) -> Option<PlaceParts> {
    let has = |field| options.fields.has(field);
    let inlined = symbol.filter(|_| has(Field::Sym)).map(|symbol| &symbol.inlined[..]);
    let inlined = inlined.unwrap_or_default();
    if inlined.is_empty() && !has(Field::Brstacksym) {
        return None;
    }
    let name = symbol.map_or(UNKNOWN, |symbol| &symbol.name);
    Some(PlaceParts {
        function: has(Field::Brstacksym).then(|| escape(name).into()),
        inlined: inlined.iter().rev().map(|frame| escape(&frame.name).into()).collect(),
        ..PlaceParts::default()
    })
}

/// `,"sym":"name","inlined":[…],"dso":"path","srcline":"file:line"`
fn json(options: &ScriptOptions, symbol: Option<&Symbol>, path: &[u8]) -> String {
    let mut out = String::new();
    if options.fields.has(Field::Sym) {
        out.push_str(",\"sym\":");
        json_or_null(&mut out, symbol.map(|symbol| &symbol.name[..]));
        let inlined = symbol.map(|symbol| &symbol.inlined[..]).unwrap_or_default();
        for (number, frame) in inlined.iter().rev().enumerate() {
            out.push_str(if number == 0 { ",\"inlined\":[" } else { "," });
            push_json_string(&mut out, &frame.name);
        }
        out.push_str(if inlined.is_empty() { "" } else { "]" });
    }
    if options.fields.has(Field::Dso) {
        out.push_str(",\"dso\":");
        push_json_string(&mut out, &String::from_utf8_lossy(path));
    }
    if options.fields.has(Field::Srcline) {
        out.push_str(",\"srcline\":");
        json_or_null(&mut out, symbol.and_then(source_line).as_deref());
    }
    out
}

/// `name,path,file:line`
fn csv(options: &ScriptOptions, symbol: Option<&Symbol>, path: &[u8]) -> String {
    let (mut out, mut is_first) = (String::new(), true);
    let mut put = |field, value: &str| {
        if options.fields.has(field) {
            out.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
            push_field(&mut out, Separator::Comma, value);
        }
    };
    put(Field::Sym, symbol.map_or("", |symbol| &symbol.name));
    put(Field::Dso, &escape_bytes(path));
    put(Field::Srcline, symbol.and_then(source_line).as_deref().unwrap_or_default());
    out
}

/// File and line of the innermost function.
fn source_line(symbol: &Symbol) -> Option<String> {
    let line = symbol.inlined.last().map_or(&symbol.line, |frame| &frame.line).as_ref()?;
    Some(match line.number {
        Some(number) => format!("{}:{number}", line.file),
        None => line.file.to_string(),
    })
}

fn json_or_null(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => push_json_string(out, text),
        None => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Fields;

    #[test]
    fn foreign_text_is_harmless_in_every_form() {
        let evil = Symbol::named("a,\u{1b}\"b".into());
        let suffix = |form, symbol: Option<&Symbol>| {
            let options =
                ScriptOptions { form, fields: "ip,sym,dso".parse().unwrap(), nanoseconds: false };
            PlaceText::new(&options, symbol, b"/x\x07").suffix.to_string()
        };
        assert_eq!(suffix(Form::Text, Some(&evil)), " a,\\x1b\"b (/x\\x07)");
        assert_eq!(suffix(Form::Text, None), " [unknown] (/x\\x07)");
        assert_eq!(
            suffix(Form::Json, Some(&evil)),
            ",\"sym\":\"a,\\u001b\\\"b\",\"dso\":\"/x\\u0007\""
        );
        assert_eq!(suffix(Form::Json, None), ",\"sym\":null,\"dso\":\"/x\\u0007\"");
        assert_eq!(suffix(Form::Csv, Some(&evil)), "\"a,\\x1b\"\"b\",/x\\x07");
        assert_eq!(suffix(Form::Csv, None), ",/x\\x07");
        let (mut numbers, mut texts) = (PlaceNumbers::default(), Pages::default());
        let (form, fields) = (Form::Text, Fields::default());
        let options = ScriptOptions { form, fields, nanoseconds: false };
        let places = [Some(&evil), None, Some(&evil)];
        let found = places.map(|symbol| numbers.number(&mut texts, &options, symbol, b"/x"));
        assert_eq!((found, texts.len()), ([0, 1, 0], 2));
        let options = ScriptOptions {
            form: Form::Parquet,
            fields: "sym,dso".parse().unwrap(),
            nanoseconds: false,
        };
        let (mut numbers, mut texts) = (PlaceNumbers::default(), Pages::default());
        let places = [(Some(&evil), "/x"), (None, "/x"), (Some(&evil), "/x"), (Some(&evil), "/y")];
        let found = places
            .map(|(symbol, path)| numbers.number(&mut texts, &options, symbol, path.as_bytes()));
        assert_eq!((found, texts.len()), ([0, 1, 0, 2], 3));
        let comm = CommText::new(Form::Text, b"a\x1b");
        assert_eq!((&*comm.text, &*comm.padded), ("a\\x1b", "           a\\x1b"));
        assert_eq!(&*CommText::new(Form::Json, b"a\xff").text, "\"a\u{fffd}\"");
    }
}
