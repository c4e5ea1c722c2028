//! The text of tables: columns of numbers, in pieces that are rendered separately.
//!
//! ```text
//!  {"frame":[0,1,2,…],"prefix":[null,0,1,…],"length":3}
//!  text      column   text      column      text          spans ─► blocks of some 512 KiB
//! ```

use std::io::{self, Write};
use std::ops::Range;

use crate::export::gzip::{BLOCK, GzipWriter};

/// Stands for `null` in a column of numbers.
pub(super) const NULL: u32 = u32::MAX;

/// The values of a column.
#[derive(Debug)]
pub(super) enum ColumnValues {
    /// [`NULL`] is `null`.
    Numbers(Vec<u32>),
    Weights(Vec<u64>),
    /// `u64::MAX` is -1.
    Addresses(Vec<u64>),
    /// Milliseconds.
    Times(Vec<f64>),
    /// The same text in each of this number of rows.
    Same(&'static str, usize),
}

/// Text, with columns in it.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<TextPiece>);

#[derive(Debug)]
enum TextPiece {
    Text(Vec<u8>),
    ColumnValues(ColumnValues),
}

/// Rows of a column, or all of a text.
struct Span<'a> {
    piece: &'a TextPiece,
    rows: Range<usize>,
}

impl From<&str> for Pieces {
    fn from(text: &str) -> Self {
        Self(vec![TextPiece::Text(text.into())])
    }
}

impl Pieces {
    pub(super) fn text(&mut self, text: &[u8]) {
        match self.0.last_mut() {
            Some(TextPiece::Text(last)) => last.extend_from_slice(text),
            _ => self.0.push(TextPiece::Text(text.to_owned())),
        }
    }

    /// An object of columns and their number of rows.
    pub(super) fn table<const N: usize>(
        &mut self,
        columns: [(&str, ColumnValues); N],
        length: usize,
    ) {
        let mut before = "{";
        for (name, column) in columns {
            self.text(format!("{before}\"{name}\":").as_bytes());
            self.column(column);
            before = ",";
        }
        self.text(format!(",\"length\":{length}}}").as_bytes());
    }

    pub(super) fn column(&mut self, column: ColumnValues) {
        self.text(b"[");
        self.0.push(TextPiece::ColumnValues(column));
        self.text(b"]");
    }
}

/// Writes texts one after another, on all CPUs.
///
/// # Errors
/// Those of the output.
pub(super) fn write<W: Write>(texts: &[Pieces], out: &mut GzipWriter<W>) -> io::Result<()> {
    let pieces = texts.iter().flat_map(|text| &text.0);
    let mut spans = pieces.flat_map(TextPiece::spans).peekable();
    let blocks = std::iter::from_fn(|| {
        spans.peek()?;
        let (mut block, mut bytes) = (Vec::new(), 0);
        while let Some(span) = spans.next_if(|span| bytes == 0 || bytes + span.bytes() <= BLOCK) {
            bytes += span.bytes();
            block.push(span);
        }
        Some(block)
    });
    out.write_blocks(blocks, |spans: Vec<Span<'_>>, to| {
        spans.iter().for_each(|span| span.append(to));
    })
}

impl TextPiece {
    /// All of it, in spans that each fit a block.
    fn spans(&self) -> impl Iterator<Item = Span<'_>> {
        let (rows, step) = match self {
            Self::Text(_) => (1, 1),
            Self::ColumnValues(column) => (column.length(), BLOCK / 8 / column.row_bytes()),
        };
        let span = move |from| Span { piece: self, rows: from..rows.min(from + step) };
        (0..rows).step_by(step).map(span)
    }
}

impl Span<'_> {
    /// About the length of its text.
    fn bytes(&self) -> usize {
        match self.piece {
            TextPiece::Text(text) => text.len(),
            TextPiece::ColumnValues(column) => self.rows.len() * column.row_bytes(),
        }
    }

    fn append(&self, to: &mut Vec<u8>) {
        match self.piece {
            TextPiece::Text(text) => to.extend_from_slice(text),
            TextPiece::ColumnValues(column) => column.append(self.rows.clone(), to),
        }
    }
}

impl ColumnValues {
    fn length(&self) -> usize {
        match self {
            Self::Numbers(rows) => rows.len(),
            Self::Weights(rows) | Self::Addresses(rows) => rows.len(),
            Self::Times(rows) => rows.len(),
            Self::Same(_, rows) => *rows,
        }
    }

    /// About the length of the text of a row, with its comma.
    fn row_bytes(&self) -> usize {
        match self {
            Self::Numbers(_) => 6,
            Self::Weights(_) => 3,
            Self::Addresses(_) => 9,
            Self::Times(_) => 12,
            Self::Same(text, _) => text.len() + 1,
        }
    }

    fn append(&self, rows: Range<usize>, to: &mut Vec<u8>) {
        let is_first = rows.start == 0;
        match self {
            Self::Numbers(all) => append_each(&all[rows], is_first, to, |&row, to| match row {
                NULL => to.extend_from_slice(b"null"),
                number => push_number(to, number.into()),
            }),
            Self::Weights(all) => {
                append_each(&all[rows], is_first, to, |&row, to| push_number(to, row));
            }
            Self::Addresses(all) => append_each(&all[rows], is_first, to, |&row, to| match row {
                u64::MAX => to.extend_from_slice(b"-1"),
                address => push_number(to, address),
            }),
            Self::Times(all) => append_each(&all[rows], is_first, to, |&row, to| push_ms(to, row)),
            Self::Same(text, _) => {
                append_each(rows, is_first, to, |_, to| to.extend_from_slice(text.as_bytes()));
            }
        }
    }
}

/// Appends rows with a comma before each but the first.
#[inline]
fn append_each<T>(
    rows: impl IntoIterator<Item = T>,
    mut is_first: bool,
    to: &mut Vec<u8>,
    append: impl Fn(T, &mut Vec<u8>),
) {
    for row in rows {
        if !std::mem::take(&mut is_first) {
            to.push(b',');
        }
        append(row, to);
    }
}

/// Appends a number in decimal. A profile has tens of millions of them, as a rule of few digits.
#[inline]
fn push_number(to: &mut Vec<u8>, number: u64) {
    const HIGHER: u64 = 100_000_000;
    if number >= HIGHER {
        push_number(to, number / HIGHER);
        to.extend_from_slice(&(eight_digits((number % HIGHER) as u32) | ZEROS).to_le_bytes());
        return;
    }
    let digits = eight_digits(number as u32);
    // The last digit stands in any case.
    let leading = (digits | 1 << 56).trailing_zeros() / 8;
    // A copy of fixed length is one instruction.
    to.extend_from_slice(&((digits | ZEROS) >> (8 * leading)).to_le_bytes());
    to.truncate(to.len() - leading as usize);
}

/// The character 0, eight times.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The digits of a number below 10^8, a byte each, the first in the lowest byte: all at once, by halves.
#[inline]
fn eight_digits(number: u32) -> u64 {
    let halves = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    // 10486 / 2^20 and 103 / 2^10 are a hundredth and a tenth, which is exact for numbers this short.
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// Appends milliseconds that were rounded to nanoseconds, as JSON has floating-point numbers: the fewest digits that
/// are read as the same number.
fn push_ms(to: &mut Vec<u8>, ms: f64) {
    let ns = ms * 1e6;
    // Up to 15 digits stand for one number only, so the digits of whole nanoseconds are those.
    if !(1e3..1e15).contains(&ns) {
        // A list of bytes takes everything, and no time of a block is infinite.
        return drop(serde_json::to_writer(to, &ms));
    }
    let ns = ns.round() as u64;
    push_number(to, ns / 1_000_000);
    to.push(b'.');
    let mut fraction = ns % 1_000_000;
    let mut digits = 6;
    while digits > 1 && fraction.is_multiple_of(10) {
        fraction /= 10;
        digits -= 1;
    }
    let start = to.len();
    to.resize(start + digits, b'0');
    for digit in to[start..].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        push(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let powers = (0..20)
            .flat_map(|power| [10_u64.pow(power), 10_u64.pow(power) - 1, u64::MAX >> (3 * power)]);
        for number in powers.chain(0..100_000) {
            assert_eq!(text(|to| push_number(to, number)), number.to_string());
        }
    }

    #[test]
    fn rows_are_the_same_in_one_span_and_in_several() {
        let column = ColumnValues::Numbers(vec![7, NULL, 0, 123_456]);
        for split in 0..=4 {
            let both = text(|to| {
                column.append(0..split, to);
                column.append(split..4, to);
            });
            assert_eq!(both, "7,null,0,123456");
        }
        let addresses = ColumnValues::Addresses(vec![u64::MAX, 16]);
        assert_eq!(text(|to| addresses.append(0..2, to)), "-1,16");
        assert_eq!(text(|to| ColumnValues::Same("false", 3).append(1..3, to)), ",false,false");
    }

    #[test]
    fn spans_cover_long_columns_once() {
        let rows = 3 * BLOCK;
        let piece = TextPiece::ColumnValues(ColumnValues::Weights((0..rows as u64).collect()));
        let covered: Vec<usize> = piece.spans().flat_map(|span| span.rows).collect();
        assert!(covered.into_iter().eq(0..rows));
        assert!(piece.spans().count() > 3);
    }

    proptest! {
        #[test]
        fn times_are_written_as_serde_json_does(ns in any::<u64>(), shift in 0_u32..64) {
            let ms = (ns >> shift) as f64 / 1e6;
            prop_assert_eq!(text(|to| push_ms(to, ms)), serde_json::to_string(&ms).unwrap());
        }
    }
}
