//! Bytes of lines. Numbers and short texts are written in place, several times as fast as by `write!`.

use std::fmt;

/// Bytes of room after what was written, so that numbers need no further check.
const ROOM: usize = 32;
/// Least growth, bytes.
const STEP: usize = 64 << 10;

/// Decimal digits of 0 to 99.
const DECIMAL: [[u8; 2]; 100] = pairs(10);
/// Hexadecimal digits of 0 to 255.
const HEXADECIMAL: [[u8; 2]; 256] = pairs(16);

const fn pairs<const NUMBERS: usize>(base: usize) -> [[u8; 2]; NUMBERS] {
    let digits = b"0123456789abcdef";
    let (mut table, mut at) = ([[0; 2]; NUMBERS], 0);
    while at < NUMBERS {
        table[at] = [digits[at / base], digits[at % base]];
        at += 1;
    }
    table
}

/// Lines that are being written.
#[derive(Default)]
pub(super) struct LineBuffer {
    /// Longer than what was written by [`ROOM`] or more, once anything was.
    bytes: Vec<u8>,
    length: usize,
}

impl LineBuffer {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Room for `more` bytes, and [`ROOM`] more.
    #[inline]
    fn reserve(&mut self, more: usize) {
        let wanted = self.length + more + ROOM;
        if self.bytes.len() < wanted {
            self.grow(wanted);
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        self.bytes.resize(wanted.max(2 * self.bytes.len()).max(STEP), 0);
    }

    /// The bytes after what was written.
    #[inline]
    fn room(&mut self) -> &mut [u8; ROOM] {
        self.reserve(0);
        // `reserve` leaves that many bytes after what was written.
        self.bytes[self.length..].first_chunk_mut().expect("room was reserved")
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.room()[0] = byte;
        self.length += 1;
    }

    #[inline]
    pub(super) fn spaces(&mut self, number: usize) {
        (0..number).for_each(|_| self.push(b' '));
    }

    #[inline]
    pub(super) fn push_str(&mut self, text: &str) {
        self.extend(text.as_bytes());
    }

    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let to = &mut self.bytes[self.length..self.length + bytes.len()];
        // Two copies of a fixed size, which can overlap, are faster than a call.
        match bytes.len() {
            8..=16 => copy_ends::<8>(bytes, to),
            17..=32 => copy_ends::<16>(bytes, to),
            _ => to.copy_from_slice(bytes),
        }
        self.length += bytes.len();
    }

    /// `{number:>width$}`; `width` is at most 24.
    #[inline]
    pub(super) fn decimal(&mut self, number: u64, width: usize) {
        self.padded(number, width, b' ');
    }

    /// `{number:0width$}`; `width` is at most 24.
    #[inline]
    pub(super) fn zero_padded(&mut self, number: u64, width: usize) {
        self.padded(number, width, b'0');
    }

    #[inline]
    fn padded(&mut self, mut number: u64, width: usize, fill: u8) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let end = digits.max(width).min(ROOM);
        let room = self.room();
        if digits < width {
            room[..24].fill(fill);
        }
        let mut at = end;
        while number >= 100 && at >= 2 {
            at -= 2;
            room[at..at + 2].copy_from_slice(&DECIMAL[(number % 100) as usize]);
            number /= 100;
        }
        let [tens, ones] = DECIMAL[(number % 100) as usize];
        room[at - 1] = ones;
        if number >= 10 {
            room[at - 2] = tens;
        }
        self.length += end;
    }

    /// `{number:>width$}` of a number that can be negative; `width` is at most 20.
    #[inline]
    pub(super) fn signed(&mut self, number: i64, width: usize) {
        if number >= 0 {
            return self.decimal(number.unsigned_abs(), width);
        }
        let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
        self.spaces(width.saturating_sub(digits + 1));
        self.push(b'-');
        self.decimal(number.unsigned_abs(), 0);
    }

    /// `{number:>width$x}`; `width` is at most 24.
    #[inline]
    pub(super) fn hexadecimal(&mut self, mut number: u64, width: usize) {
        // 0 has one digit, too.
        let digits = (67 - (number | 1).leading_zeros() as usize) / 4;
        let end = digits.max(width).min(ROOM);
        let room = self.room();
        if digits < width {
            room[..24].fill(b' ');
        }
        let (first, mut at) = (end - digits, end);
        while at >= first + 2 {
            at -= 2;
            room[at..at + 2].copy_from_slice(&HEXADECIMAL[(number & 0xff) as usize]);
            number >>= 8;
        }
        if at > first {
            room[first] = HEXADECIMAL[(number & 0xf) as usize][1];
        }
        self.length += end;
    }
}

/// Copies the first and the last bytes.
#[inline]
fn copy_ends<const BYTES: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<BYTES>(), to.first_chunk_mut()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<BYTES>(), to.last_chunk_mut()) {
        *to = *from;
    }
}

/// For fields that few lines have.
impl fmt::Write for LineBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(append: impl FnOnce(&mut LineBuffer)) -> String {
        let mut out = LineBuffer::default();
        append(&mut out);
        String::from_utf8(out.as_bytes().to_vec()).unwrap()
    }

    fn check(number: u64, width: usize) {
        assert_eq!(text(|out| out.decimal(number, width)), format!("{number:>width$}"));
        assert_eq!(text(|out| out.zero_padded(number, width)), format!("{number:0width$}"));
        assert_eq!(text(|out| out.hexadecimal(number, width)), format!("{number:>width$x}"));
        let (negative, width) = (number.cast_signed(), width.min(20));
        assert_eq!(text(|out| out.signed(negative, width)), format!("{negative:>width$}"));
    }

    #[test]
    fn numbers_of_every_length_are_those_of_format() {
        for bit in 0..64 {
            for number in [(1_u64 << bit) - 1, 1 << bit, u64::MAX >> bit] {
                [0, 1, 3, 16, 24].iter().for_each(|&width| check(number, width));
            }
        }
        (0..20).map(|digits| 10_u64.pow(digits)).for_each(|power| {
            check(power, 5);
            check(power - 1, 5);
        });
    }

    #[test]
    fn texts_of_every_length_are_copied() {
        let all: String = ('!'..='~').collect();
        let (mut out, mut expected) = (LineBuffer::default(), String::new());
        for length in (0..=all.len()).cycle().take(5000) {
            out.push_str(&all[..length]);
            out.spaces(length % 3);
            expected.push_str(&all[..length]);
            expected.push_str(&"  "[..length % 3]);
            assert_eq!(out.len(), expected.len());
        }
        assert!(out.as_bytes() == expected.as_bytes());
        out.clear();
        assert_eq!((out.len(), out.as_bytes()), (0, &b""[..]));
    }

    proptest! {
        #[test]
        fn any_number_is_that_of_format(number in any::<u64>(), shift in 0..64, width in 0_usize..=24) {
            check(number >> shift, width);
        }
    }
}
