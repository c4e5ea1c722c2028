//! Aligned tables for people.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::style::{Paint, Style, truncate};

/// Spaces between columns.
const GAP: usize = 2;

/// Which side of a column its cells lean to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// The head of a column and how its cells are set.
#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    align: Align,
    may_shrink: bool,
}

impl Column {
    /// A column of text.
    pub fn text(head: impl Into<String>) -> Self {
        Self { head: head.into(), align: Align::Left, may_shrink: false }
    }

    /// A column of numbers: its cells lean to the right.
    pub fn number(head: impl Into<String>) -> Self {
        Self { head: head.into(), align: Align::Right, may_shrink: false }
    }

    /// Puts a unit into the head, so that cells need none: `wall s`.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        if !unit.is_empty() {
            self.head.push(' ');
            self.head.push_str(unit);
        }
        self
    }

    /// Cells may be cut where the terminal is too narrow for the table.
    #[must_use]
    pub fn shrink(mut self) -> Self {
        self.may_shrink = true;
        self
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

    /// The lines of the table, each with a line feed.
    pub fn render(&self, style: &Style) -> String {
        let widths = self.widths(style);
        let mut out = String::new();
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            let heads: Vec<Cell> = self
                .columns
                .iter()
                .map(|column| Cell::new(&column.head).paint(Paint::Bold))
                .collect();
            self.line(&mut out, &heads, &widths, style);
        }
        for row in &self.rows {
            self.line(&mut out, row, &widths, style);
        }
        out
    }

    /// Natural widths; shrunk from the last column that may, as far as the terminal asks for.
    fn widths(&self, style: &Style) -> Vec<usize> {
        let width_of = |text: &str| style.text(text).width();
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width_of(&c.head)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        let Some(limit) = style.width else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut excess = (self.indent + gaps + widths.iter().sum::<usize>()).saturating_sub(limit);
        for (column, width) in self.columns.iter().zip(&mut widths).rev() {
            if column.may_shrink {
                let least = width_of(&column.head).max(8).min(*width);
                let less = excess.min(*width - least);
                *width -= less;
                excess -= less;
            }
        }
        widths
    }

    fn line(&self, out: &mut String, cells: &[Cell], widths: &[usize], style: &Style) {
        out.extend(std::iter::repeat_n(' ', self.indent));
        // Spaces are held back until something follows, so that no line ends with them.
        let mut spaces = 0;
        for ((column, &width), cell) in self.columns.iter().zip(widths).zip(cells) {
            let mut text = style.text(&cell.text);
            if column.may_shrink && text.width() > width {
                text = Cow::Owned(truncate(&text, width, &style.text("…")));
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
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([
            Column::number("share"),
            Column::number("samples"),
            Column::text("command"),
            Column::text("function").shrink(),
        ]);
        table.row(["31.42 %", "6,786,720", "bt.B.x", "y_solve_._omp_fn.0"]);
        table.row(["-", "", "größe", "函数"]);
        table.row([Cell::new("0.31 %"), Cell::measured(None::<u64>, |n| n.to_string())]);
        table
    }

    #[test]
    fn numbers_lean_right_and_text_left() {
        insta::assert_snapshot!(sample().render(&Style::PLAIN), @r"
          share    samples  command  function
        31.42 %  6,786,720  bt.B.x   y_solve_._omp_fn.0
              -             größe    函数
         0.31 %          -
        ");
    }

    #[test]
    fn a_narrow_terminal_cuts_only_what_may_be_cut() {
        let narrow = Style { width: Some(40), ..Style::PLAIN };
        let text = sample().indent(1).render(&narrow);
        insta::assert_snapshot!(text, @r"
          share    samples  command  function
        31.42 %  6,786,720  bt.B.x   y_solve_.…
              -             größe    函数
         0.31 %          -
        ");
        assert!(text.lines().all(|line| line.width() <= 40));
        // Not even the longest number is cut.
        let absurd = Style { width: Some(3), ..Style::PLAIN };
        assert!(sample().render(&absurd).contains("6,786,720"));
    }

    #[test]
    fn cutting_without_unicode_stays_within_the_width() {
        let narrow = Style { width: Some(39), unicode: false, ..Style::PLAIN };
        let text = sample().render(&narrow);
        assert!(text.contains("y_solve...\n"), "{text}");
    }

    #[test]
    fn a_table_without_heads_has_no_head_line() {
        let mut table = Table::new([Column::text(""), Column::number("")]);
        table.row(["nodes", "2"]);
        table.row(["CPUs", "128"]);
        assert_eq!(table.render(&Style::PLAIN), "nodes    2\nCPUs   128\n");
    }

    #[test]
    fn colour_does_not_move_columns() {
        let mut table = Table::new([Column::text("a"), Column::text("b")]);
        table.row([Cell::new("x").paint(Paint::Bad), Cell::new("y")]);
        let colour = Style { colour: true, ..Style::PLAIN };
        let text = table.render(&colour);
        assert_eq!(text, "\u{1b}[1ma\u{1b}[0m  \u{1b}[1mb\u{1b}[0m\n\u{1b}[31mx\u{1b}[0m  y\n");
    }

    #[test]
    fn units_stand_in_the_head() {
        let mut table =
            Table::new([Column::number("wall").unit("s"), Column::number("n").unit("")]);
        table.row(["1.25 ±0.03", "15"]);
        let ascii = Style { unicode: false, ..Style::PLAIN };
        assert_eq!(table.render(&ascii), "     wall s   n\n1.25 +-0.03  15\n");
    }
}
