//! Aligned tables for people.
//!
//! A table is never wider than its terminal. What gives way first to last: heads break at words, text is shortened
//! to a comfortable width, optional columns are left out (a line below the table names them), text is shortened as
//! far as it can be read, further columns are left out. Numbers are shown whole or not at all.

use std::borrow::Cow;
use std::collections::HashSet;

use unicode_width::UnicodeWidthStr;

use crate::style::{Paint, ShortenAt, Style, shorten, wrap};

/// Spaces between columns.
const GAP: usize = 2;
/// Text is shortened to this before optional columns are left out.
const COMFORTABLE: usize = 16;
/// The longest name of a column in the line of what is left out.
const LONGEST_NAME: usize = 24;
/// Text is not shortened below this.
const LEAST: usize = 8;
/// A longer word of a head is shortened where the table has no room.
const LONGEST_HEAD_WORD: usize = 14;
/// The flag that shows all columns.
const SHOW_ALL: &str = "--wide shows all";

/// Which side of a column its cells lean to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Words of heads that stay on the line of the word before them.
const UNITS: [&str; 17] = [
    "%", "B", "CI", "CI)", "CPU", "GB/s", "GiB", "Hz", "KiB", "MB/s", "MHz", "MiB", "ms", "ns",
    "s", "us", "µs",
];
/// A space at which no line breaks.
const NO_BREAK: char = '\u{a0}';

/// A head whose units stay with what they are of.
fn with_units(head: &str) -> String {
    let mut out = String::with_capacity(head.len());
    for (at, word) in head.split(' ').enumerate() {
        if at > 0 {
            out.push(if UNITS.contains(&word) { NO_BREAK } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

/// The head of a column and how its cells are set.
#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    align: Align,
    /// Where its text is cut, and to which width without a thought; `None` if that is a last resort.
    shrinks: Option<(ShortenAt, usize)>,
    /// 0 for what a table is about; the higher, the earlier it is left out.
    rank: u8,
}

impl Column {
    /// A column of text.
    pub fn text(head: impl Into<String>) -> Self {
        Self { head: with_units(&head.into()), align: Align::Left, shrinks: None, rank: 0 }
    }

    /// A column of numbers: its cells lean to the right, and are never cut.
    pub fn number(head: impl Into<String>) -> Self {
        Self { align: Align::Right, ..Self::text(head) }
    }

    /// Puts a unit into the head, so that cells need none: `wall s`.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        if !unit.is_empty() {
            self.head.push(NO_BREAK);
            self.head.push_str(unit);
        }
        self
    }

    /// Names: cells are shortened in the middle where the terminal is too narrow for the table.
    #[must_use]
    pub fn shrink(mut self) -> Self {
        self.shrinks = Some((ShortenAt::Middle, COMFORTABLE));
        self
    }

    /// The same, of names that say little below this width.
    #[must_use]
    pub fn shrink_to(mut self, width: usize) -> Self {
        self.shrinks = Some((ShortenAt::Middle, width));
        self
    }

    /// Sentences: cells are shortened at the end where the terminal is too narrow for the table.
    #[must_use]
    pub fn shrink_end(mut self) -> Self {
        self.shrinks = Some((ShortenAt::End, COMFORTABLE));
        self
    }

    /// The column is left out where the terminal is too narrow for the table: of several, the highest rank first.
    #[must_use]
    pub fn optional(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    fn is_number(&self) -> bool {
        self.align == Align::Right
    }
}

/// One field of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A field of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), paint: Paint::Plain }
    }

    /// The number formatted by `format`, or `-` if it was not measured.
    pub fn measured<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> Self {
        value.map_or_else(|| Self::new("-"), |value| Self::new(format(value)))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Makes it stand out.
    #[must_use]
    pub fn paint(mut self, paint: Paint) -> Self {
        self.paint = paint;
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// A table of text cells under heads.
///
/// Widths are counted in terminal columns. Cells are printed as they are: foreign text is to be
/// escaped before (`pmuscope_report::escape`). A table whose heads are all empty has no head line.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

/// The lines of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLines {
    /// Heads of the columns, in as many lines as they need.
    pub head: Vec<String>,
    /// One line for each row.
    pub rows: Vec<String>,
    /// Which columns had no room.
    pub left_out: Option<String>,
}

/// Which columns are shown, and how wide.
struct TableLayout {
    widths: Vec<usize>,
    shown: Vec<bool>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), indent: 0 }
    }

    /// Puts this many spaces in front of every line.
    #[must_use]
    pub fn indent(mut self, spaces: usize) -> Self {
        self.indent = spaces;
        self
    }

    /// Adds a row. Missing cells stay empty; there are no more cells than columns.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert!(cells.len() <= self.columns.len(), "more cells than columns");
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table, each with a line feed; a last one for columns that had no room.
    pub fn render(&self, style: &Style) -> String {
        let TableLines { head, rows, left_out } = self.lines(style);
        head.into_iter().chain(rows).chain(left_out).collect()
    }

    /// The lines of the table by what they are, each with a line feed.
    pub fn lines(&self, style: &Style) -> TableLines {
        let TableLayout { widths, shown } = self.layout(style);
        let line = |cells: &[Cell]| {
            let mut out = String::new();
            self.line(&mut out, cells, &widths, &shown, style);
            out
        };
        let has_head = self.columns.iter().any(|column| !column.head.is_empty());
        let heads = if has_head { self.heads(&widths, &shown, style) } else { Vec::new() };
        TableLines {
            head: heads.iter().map(|cells| line(cells)).collect(),
            rows: self.rows.iter().map(|cells| line(cells)).collect(),
            left_out: shown.contains(&false).then(|| self.left_out(&shown, style)),
        }
    }

    /// `columns left out: samples, module; --wide shows all`.
    fn left_out(&self, shown: &[bool], style: &Style) -> String {
        let hidden = self.columns.iter().zip(shown).filter(|(_, shown)| !**shown);
        let names: Vec<String> = hidden
            .map(|(column, _)| style.text(&column.head.replace(NO_BREAK, " ")).into_owned())
            .filter(|name| !name.is_empty())
            .map(|name| shorten(&name, LONGEST_NAME, &style.text("…"), ShortenAt::Middle))
            .collect();
        let mut seen = HashSet::new();
        let names: Vec<String> =
            names.into_iter().filter(|name| seen.insert(name.clone())).collect();
        let names = match &names[..] {
            [] => String::new(),
            names => format!(": {}", names.join(", ")),
        };
        let text = format!("columns left out{names}; {SHOW_ALL}");
        let lines = wrap(&text, style.width.map(|width| width.saturating_sub(self.indent)), 0);
        let indent = " ".repeat(self.indent);
        lines.lines().map(|line| format!("{indent}{}\n", style.paint(Paint::Dim, line))).collect()
    }

    /// Natural widths; on a narrow terminal what fits.
    fn layout(&self, style: &Style) -> TableLayout {
        let width_of = |text: &str| style.text(text).width();
        let mut body = vec![0; self.columns.len()];
        for row in &self.rows {
            for (width, cell) in body.iter_mut().zip(row) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        let heads: Vec<usize> = self.columns.iter().map(|column| width_of(&column.head)).collect();
        let natural: Vec<usize> =
            body.iter().zip(&heads).map(|(body, head)| *body.max(head)).collect();
        let mut shown = vec![true; self.columns.len()];
        let total = |widths: &[usize], shown: &[bool]| {
            let kept = widths.iter().zip(shown).filter(|(_, shown)| **shown);
            let (number, sum) = kept.fold((0, 0), |all, (width, _)| (all.0 + 1, all.1 + width));
            self.indent + GAP * usize::saturating_sub(number, 1) + sum
        };
        let Some(limit) = style.width.filter(|&limit| total(&natural, &shown) > limit) else {
            return TableLayout { widths: natural, shown };
        };
        let words: Vec<usize> = self
            .columns
            .iter()
            .map(|column| {
                let words = column.head.split(' ').map(width_of);
                words.max().unwrap_or(0).min(LONGEST_HEAD_WORD)
            })
            .collect();
        // Least widths: with broken heads and comfortable text, then with text as short as it can be.
        let floor = |text: &dyn Fn(&Column) -> usize| -> Vec<usize> {
            let columns = self.columns.iter().zip(body.iter().zip(&words));
            columns.map(|(column, (body, word))| (*body).min(text(column)).max(*word)).collect()
        };
        let comfortable = floor(&|column| match column.shrinks {
            Some((_, width)) if !column.is_number() => width,
            _ => usize::MAX,
        });
        let least = floor(&|column| if column.is_number() { usize::MAX } else { LEAST });
        let mut floor = &comfortable;
        loop {
            if total(floor, &shown) <= limit {
                break;
            }
            let optional =
                (0..self.columns.len()).filter(|&at| shown[at] && self.columns[at].rank > 0);
            let Some(at) = optional.max_by_key(|&at| (self.columns[at].rank, at)) else { break };
            shown[at] = false;
        }
        if total(floor, &shown) > limit {
            floor = &least;
        }
        // Further columns from the right, those with text after those with numbers; the first one stays.
        while total(floor, &shown) > limit {
            let others = (1..self.columns.len()).filter(|&at| shown[at]);
            let Some(at) = others.max_by_key(|&at| (self.columns[at].is_number(), at)) else {
                break;
            };
            shown[at] = false;
        }
        let mut widths = floor.clone();
        let mut room = limit.saturating_sub(total(&widths, &shown));
        // What room is left goes to text first, then to heads.
        for wanted in [&body, &natural] {
            while room > 0 {
                let short = (0..widths.len()).filter(|&at| shown[at] && widths[at] < wanted[at]);
                // Names that need more get more.
                let share = |at: &usize| 1000 * widths[*at] / floor[*at].max(1);
                let Some(at) = short.min_by_key(share) else { break };
                widths[at] += 1;
                room -= 1;
            }
        }
        TableLayout { widths, shown }
    }

    /// Lines of heads: as many as the one with most lines has, all ending on the last one.
    fn heads(&self, widths: &[usize], shown: &[bool], style: &Style) -> Vec<Vec<Cell>> {
        let mark = style.text("…");
        let broken: Vec<Vec<String>> = self
            .columns
            .iter()
            .zip(widths)
            .zip(shown)
            .map(|((column, &width), shown)| {
                if !shown {
                    return Vec::new();
                }
                let is_broken = style.text(&column.head).width() > width;
                let lines = wrap(&column.head, is_broken.then_some(width), 0);
                let fit = |line: &str| {
                    let line = line.replace(NO_BREAK, " ");
                    shorten(&style.text(&line), width, &mark, ShortenAt::Middle)
                };
                lines.lines().map(fit).collect()
            })
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let cell = |lines: &Vec<String>| {
                let skipped = height - lines.len();
                let text = at.checked_sub(skipped).map_or("", |at| &*lines[at]);
                Cell::new(text).paint(Paint::Bold)
            };
            broken.iter().map(cell).collect()
        };
        (0..height).map(line).collect()
    }

    fn line(
        &self,
        out: &mut String,
        cells: &[Cell],
        widths: &[usize],
        shown: &[bool],
        style: &Style,
    ) {
        out.extend(std::iter::repeat_n(' ', self.indent));
        // Spaces are held back until something follows, so that no line ends with them.
        let mut spaces = 0;
        let columns = self.columns.iter().zip(widths).zip(shown);
        for (((column, &width), shown), cell) in columns.zip(cells) {
            if !shown {
                continue;
            }
            let mut text = style.text(&cell.text);
            if !column.is_number() && text.width() > width {
                let cut = column.shrinks.map_or(ShortenAt::Middle, |(cut, _)| cut);
                text = Cow::Owned(shorten(&text, width, &style.text("…"), cut));
            }
            let fill = width.saturating_sub(text.width());
            let (before, after) = match column.align {
                Align::Left => (0, fill),
                Align::Right => (fill, 0),
            };
            spaces += before;
            if !text.is_empty() {
                out.extend(std::iter::repeat_n(' ', spaces));
                out.push_str(&style.paint(cell.paint, &text));
                spaces = 0;
            }
            // An empty cell is all fill, whichever side it leans to.
            spaces += after + GAP;
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests;
