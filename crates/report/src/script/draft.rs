//! Text with gaps for names of functions that are not known yet.
//!
//! Names are looked up for many samples at once, since opening a file and reading its tables is what
//! costs. Until then, lines wait:
//!
//! ```text
//!  text    sh  4711 12.000123:  cpu-clock:  55d0c0de1234 ▢ (/bin/dash)⏎ …
//!  gaps                                                  └ module 7, address 0x1234, plain
//! ```

use std::fmt::Write as _;
use std::io;

use pmuscope_profile::{ModuleOffset, Symbol};
use rustc_hash::FxHashMap;

use crate::envelope::push_json_string;
use crate::escape;
use crate::sheet::{Separator, push_field};

/// What is shown where there is no name.
const UNKNOWN: &str = "[unknown]";

/// Names by place; `None` where there is none.
pub type Names = FxHashMap<ModuleOffset, Option<Symbol>>;

/// How a name goes into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameGap {
    /// The function, for people.
    Function,
    /// The function, between commas.
    CsvFunction,
    /// `"name"` or `null`.
    JsonFunction,
    /// `,"inlined":[…]`, the innermost first, or nothing.
    JsonInlined,
    /// A line for each function inlined there, the innermost first.
    InlinedLines { ip: Option<u64> },
    /// File and line, for people.
    Line,
    /// File and line, between commas.
    CsvLine,
    /// `"file:line"` or `null`.
    JsonLine,
}

/// Lines that wait for names.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    gaps: Vec<(usize, ModuleOffset, NameGap)>,
}

impl Draft {
    /// Leaves a gap at the end of the text.
    pub(super) fn gap(&mut self, spot: ModuleOffset, gap: NameGap) {
        self.gaps.push((self.text.len(), spot, gap));
    }

    /// Places whose names are wanted, with repetitions.
    pub(super) fn spots(&self) -> impl Iterator<Item = ModuleOffset> + '_ {
        self.gaps.iter().map(|&(_, spot, _)| spot)
    }

    pub(super) fn spots_len(&self) -> usize {
        self.gaps.len()
    }

    /// Writes everything, with `names` in the gaps, and is empty then.
    pub(super) fn write(&mut self, names: &Names, out: &mut dyn io::Write) -> io::Result<()> {
        let (mut from, mut filled) = (0, String::new());
        for &(at, spot, gap) in &self.gaps {
            out.write_all(&self.text.as_bytes()[from..at])?;
            from = at;
            filled.clear();
            fill(&mut filled, names.get(&spot).and_then(Option::as_ref), gap);
            out.write_all(filled.as_bytes())?;
        }
        out.write_all(&self.text.as_bytes()[from..])?;
        self.text.clear();
        self.gaps.clear();
        Ok(())
    }
}

fn fill(out: &mut String, symbol: Option<&Symbol>, gap: NameGap) {
    let name = symbol.map(|symbol| &symbol.name[..]);
    let line = || symbol.and_then(source_line);
    match gap {
        NameGap::Function => out.push_str(&escape(name.unwrap_or(UNKNOWN))),
        NameGap::CsvFunction => push_field(out, Separator::Comma, name.unwrap_or_default()),
        NameGap::JsonFunction => json_or_null(out, name),
        NameGap::JsonInlined => {
            let inlined = symbol.map(|symbol| &symbol.inlined[..]).unwrap_or_default();
            for (number, frame) in inlined.iter().rev().enumerate() {
                out.push_str(if number == 0 { ",\"inlined\":[" } else { "," });
                push_json_string(out, &frame.name);
            }
            out.push_str(if inlined.is_empty() { "" } else { "]" });
        }
        NameGap::InlinedLines { ip } => {
            let inlined = symbol.map(|symbol| &symbol.inlined[..]).unwrap_or_default();
            for frame in inlined.iter().rev() {
                out.push('\t');
                if let Some(ip) = ip {
                    // Writing to a String does not fail.
                    let _ = write!(out, "{ip:16x} ");
                }
                let _ = writeln!(out, "{} (inlined)", escape(&frame.name));
            }
        }
        NameGap::Line => out.push_str(&escape(&line().unwrap_or_else(|| UNKNOWN.into()))),
        NameGap::CsvLine => push_field(out, Separator::Comma, &line().unwrap_or_default()),
        NameGap::JsonLine => json_or_null(out, line().as_deref()),
    }
}

/// File and line of the innermost function.
pub(super) fn source_line(symbol: &Symbol) -> Option<String> {
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

    #[test]
    fn names_come_where_gaps_were_left_and_foreign_text_is_harmless() {
        let spot = |address| ModuleOffset { module: 1, address };
        let mut draft = Draft::default();
        for address in [1, 2] {
            draft.text.push('<');
            draft.gap(spot(address), NameGap::Function);
            draft.text.push('|');
            draft.gap(spot(address), NameGap::JsonFunction);
            draft.text.push('|');
            draft.gap(spot(address), NameGap::CsvFunction);
            draft.text.push_str(">\n");
        }
        assert_eq!(draft.spots().count(), 6);
        let evil = Symbol::named("a,\u{1b}\"b".into());
        let names = Names::from_iter([(spot(1), Some(evil)), (spot(2), None)]);
        let mut out = Vec::new();
        draft.write(&names, &mut out).unwrap();
        let expected = "<a,\\x1b\"b|\"a,\\u001b\\\"b\"|\"a,\\x1b\"\"b\">\n<[unknown]|null|>\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!((draft.text.len(), draft.spots().count()), (0, 0));
    }
}
