//! What the bytes of a hit mean.

use pmuscope_perfdata::watch::{ValueKind, WatchTarget};

/// A value, read as its target's type says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HitValue<'a> {
    /// A number without sign.
    Unsigned(u64),
    /// A number with one.
    Signed(i64),
    /// A floating point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A character by its code.
    Char(u8),
    /// An address.
    Pointer(u64),
    /// A number, and the name it has. Foreign text.
    Named(i64, Option<&'a str>),
    /// So many bytes of no known type.
    Bytes(u64, u8),
}

impl<'a> HitValue<'a> {
    /// What `bits`, the zero-extended content of `bytes` bytes, are in a target. Where these are not the
    /// whole target they are just bytes.
    #[must_use]
    pub fn of(target: &'a WatchTarget, bytes: u8, bits: u64) -> Self {
        let is_whole = u64::from(bytes) == target.bytes;
        if !is_whole {
            return Self::Bytes(bits, bytes);
        }
        match target.value {
            ValueKind::Unsigned => Self::Unsigned(bits),
            ValueKind::Signed => Self::Signed(extended(bits, bytes)),
            ValueKind::Float if bytes == 4 => Self::Float(f32::from_bits(bits as u32).into()),
            ValueKind::Float if bytes == 8 => Self::Float(f64::from_bits(bits)),
            ValueKind::Bool => Self::Bool(bits != 0),
            ValueKind::Char if bytes == 1 => Self::Char(bits as u8),
            ValueKind::Char => Self::Unsigned(bits),
            ValueKind::Pointer => Self::Pointer(bits),
            ValueKind::Enumeration => {
                let signed = extended(bits, bytes);
                let is = |value: i64| value == signed || u64::try_from(value) == Ok(bits);
                let name = target.names.iter().find(|(value, _)| is(*value));
                Self::Named(
                    name.map_or(signed, |(value, _)| *value),
                    name.map(|(_, name)| name.as_str()),
                )
            }
            ValueKind::Float | ValueKind::Other => Self::Bytes(bits, bytes),
        }
    }

    /// What can be put on an axis: numbers; `None` of what is none.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Unsigned(value) => Some(value as f64),
            Self::Signed(value) | Self::Named(value, _) => Some(value as f64),
            Self::Float(value) => Some(value).filter(|value| value.is_finite()),
            Self::Bool(value) => Some(value.into()),
            Self::Char(value) => Some(value.into()),
            Self::Pointer(_) | Self::Bytes(..) => None,
        }
    }
}

/// What of `bits` belongs to a value of `bytes` bytes.
pub(super) fn masked(bits: u64, bytes: u8) -> u64 {
    match bytes {
        0..=7 => bits & ((1 << (8 * bytes)) - 1),
        _ => bits,
    }
}

/// Two's complement of `bytes` bytes.
fn extended(bits: u64, bytes: u8) -> i64 {
    let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
    (bits << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(value: ValueKind, bytes: u64) -> WatchTarget {
        let names = vec![(-1, "NONE".into()), (2, "TWO".into()), (0xff, "ALL".into())];
        WatchTarget { value, bytes, names, ..WatchTarget::default() }
    }

    #[test]
    fn bytes_are_what_the_type_says() {
        let of = |kind, bytes, bits| {
            let target = target(kind, bytes);
            format!("{:?} {:?}", HitValue::of(&target, bytes as u8, bits), {
                HitValue::of(&target, bytes as u8, bits).number()
            })
        };
        assert_eq!(of(ValueKind::Signed, 4, 0xffff_fffe), "Signed(-2) Some(-2.0)");
        assert_eq!(
            of(ValueKind::Unsigned, 4, 0xffff_fffe),
            "Unsigned(4294967294) Some(4294967294.0)"
        );
        assert_eq!(of(ValueKind::Float, 4, 0x3fc0_0000), "Float(1.5) Some(1.5)");
        assert_eq!(of(ValueKind::Float, 8, f64::NAN.to_bits()), "Float(NaN) None");
        assert_eq!(of(ValueKind::Float, 2, 7), "Bytes(7, 2) None");
        assert_eq!(of(ValueKind::Bool, 1, 7), "Bool(true) Some(1.0)");
        assert_eq!(of(ValueKind::Char, 1, 65), "Char(65) Some(65.0)");
        assert_eq!(of(ValueKind::Pointer, 8, 65), "Pointer(65) None");
        assert_eq!(
            of(ValueKind::Enumeration, 4, 0xffff_ffff),
            "Named(-1, Some(\"NONE\")) Some(-1.0)"
        );
        assert_eq!(of(ValueKind::Enumeration, 1, 0xff), "Named(-1, Some(\"NONE\")) Some(-1.0)");
        assert_eq!(of(ValueKind::Enumeration, 4, 0xff), "Named(255, Some(\"ALL\")) Some(255.0)");
        assert_eq!(of(ValueKind::Enumeration, 4, 3), "Named(3, None) Some(3.0)");
        // A word of an array.
        assert_eq!(HitValue::of(&target(ValueKind::Signed, 16), 8, 5), HitValue::Bytes(5, 8));
    }

    proptest! {
        #[test]
        fn signed_values_come_back(value in any::<i64>(), bytes in 1_u8..=8) {
            let unused = 64 - 8 * u32::from(bytes);
            let value = value << unused >> unused;
            prop_assert_eq!(extended(masked(value as u64, bytes), bytes), value);
        }
    }
}
