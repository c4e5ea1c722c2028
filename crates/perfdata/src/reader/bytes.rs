//! Decodes fields of either byte order. Everything that may be missing is an `Option`.

use std::ffi::CStr;

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// A u16 at the start of `bytes`.
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The bytes of a u64.
    pub(crate) fn bytes(self, word: u64) -> [u8; 8] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }
}

/// Takes fields from the front of a slice; `None` when there are too few bytes left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| self.endian.u16(bytes))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| self.endian.u32(bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| self.endian.u64(bytes))
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(head)
    }

    pub(crate) fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// A string of the header: its length in bytes (padding and zeros included), then its bytes.
    pub(crate) fn string(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        let bytes = self.take(length)?;
        Some(String::from_utf8_lossy(until_zero(bytes)).into_owned())
    }
}

/// What stands before the first zero byte; everything if there is none.
pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_nothing_beyond_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(Fields::new(&bytes, Endian::Little).u64(), Some(0x0807_0605_0403_0201));
        let mut fields = Fields::new(&bytes, Endian::Big);
        assert_eq!(fields.u64(), Some(0x0102_0304_0506_0708));
        assert_eq!(fields.u16(), None);
        assert_eq!(fields.take(2), None);
        assert_eq!(fields.rest(), [9]);
    }

    #[test]
    fn a_string_longer_than_its_section_is_none() {
        let mut good = vec![8, 0, 0, 0];
        good.extend_from_slice(b"perf\0\0\0\0");
        assert_eq!(Fields::new(&good, Endian::Little).string().as_deref(), Some("perf"));
        assert_eq!(Fields::new(&[255, 255, 255, 255, 0], Endian::Little).string(), None);
    }
}
