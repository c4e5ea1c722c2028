//! The secret in the address.

use std::fmt;
use std::hint::black_box;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of a token: 192 bits.
const BYTES: usize = 24;

/// A secret of 48 hexadecimal digits, made at random for each server.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one, by getrandom(2).
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0_u8; BYTES];
        let mut filled = 0;
        while filled < BYTES {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The digits, for the address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is it. Takes the same time for every wrong one of the same length.
    #[must_use]
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        if shown.len() != own.len() {
            return false;
        }
        let pairs = own.iter().zip(shown);
        black_box(pairs.fold(0, |differing, (a, b)| black_box(differing | (a ^ b)))) == 0
    }
}

/// A secret is not printed.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_192_bits_and_differ() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(one.as_str().len(), 48);
        assert!(one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(one.is(one.as_str().as_bytes()) && !one.is(other.as_str().as_bytes()));
        assert!(!one.is(b"") && !one.is(&one.as_str().as_bytes()[1..]));
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
