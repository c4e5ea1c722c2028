//! As much of protocol buffers' wire format as profile.proto takes: numbers, texts, packed numbers
//! and messages in messages.
//!
//! ```text
//!  tag = field number << 3 │ kind    kind 0: varint    kind 2: length (varint), then bytes
//! ```

/// A message in the making.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const BYTES: u64 = 2;

impl Message {
    /// A number; 0 is what a reader takes for an absent one.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.varint(field << 3 | VARINT).varint(value);
        }
        self
    }

    /// A signed number, in two's complement.
    pub(super) fn signed(&mut self, field: u64, value: i64) -> &mut Self {
        self.number(field, value.cast_unsigned())
    }

    /// Text or a message; empty ones too, which count in lists.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        push_head(&mut self.0, field, bytes.len());
        self.0.extend_from_slice(bytes);
        self
    }

    /// A message.
    pub(super) fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }

    /// Numbers one behind the other, zeros too.
    pub(super) fn packed(
        &mut self,
        field: u64,
        values: impl IntoIterator<Item = u64>,
    ) -> &mut Self {
        let mut list = Self::default();
        for value in values {
            list.varint(value);
        }
        if list.0.is_empty() { self } else { self.bytes(field, &list.0) }
    }

    fn varint(&mut self, value: u64) -> &mut Self {
        push_varint(&mut self.0, value);
        self
    }

    /// Its bytes so far, which are taken out.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Appends a number, seven bits a byte, the lowest first.
#[inline]
pub(super) fn push_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Bytes that [`push_varint`] appends.
#[inline]
pub(super) fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends the head of a text, of packed numbers or of a message; `length` bytes follow.
#[inline]
pub(super) fn push_head(to: &mut Vec<u8>, field: u64, length: usize) {
    push_varint(to, field << 3 | BYTES);
    push_varint(to, length as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's own documentation.
    #[test]
    fn bytes_are_those_of_the_documentation() {
        assert_eq!(Message::default().number(1, 150).take(), [0x08, 0x96, 0x01]);
        let testing = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(Message::default().bytes(2, b"testing").take(), testing);
        let mut inner = Message::default();
        inner.number(1, 150);
        assert_eq!(Message::default().message(3, &inner).take(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let packed = [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05];
        assert_eq!(Message::default().packed(6, [3, 270, 86_942]).take(), packed);
    }

    #[test]
    fn lengths_are_those_of_the_bytes() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                push_varint(&mut bytes, value);
                assert_eq!(varint_length(value), bytes.len(), "{value}");
            }
        }
    }

    #[test]
    fn a_negative_number_takes_ten_bytes_and_a_zero_none() {
        assert_eq!(Message::default().signed(1, -1).take().len(), 11);
        assert!(Message::default().number(1, 0).packed(2, []).take().is_empty());
    }
}
