//! Keys out of the bytes that a terminal sends for them.
//!
//! ```text
//!  k                    the character, in UTF-8
//!  ESC [ 1 ; 5 A        a control sequence: parameters, then one letter that says which key (ECMA-48, section 5.4)
//!  ESC O A              the same key in a terminal's "application" mode
//!  ESC k                Escape and then the character; Alt and a character are the same bytes
//! ```
//! Which letters and numbers are sent is in xterm's "Control Sequences", section "PC-Style Function Keys"; `1~`, `4~`,
//! `7~`, and `8~` are Home and End of rxvt, screen, and the Linux console.

use pmuscope_report::Key;

const ESCAPE: u8 = 0x1b;
/// A longer one is none.
const LONGEST_SEQUENCE: usize = 32;

/// What the first bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A key, and the number of its bytes.
    Key(Key, usize),
    /// Number of bytes that mean nothing here.
    Unknown(usize),
    /// More bytes would say what it is; also of no bytes.
    Cut,
}

/// The first key of these bytes.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    match bytes {
        [] | [ESCAPE] => Decoded::Cut,
        [ESCAPE, b'[', rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', rest @ ..] => match rest {
            [] => Decoded::Cut,
            // F1 of the VT100 and its heirs.
            [b'P', ..] => Decoded::Key(HELP, 3),
            [letter, ..] => known(key_of_letter(*letter), 3),
        },
        [ESCAPE, ..] => Decoded::Key(Key::Escape, 1),
        [byte @ (..=0x1f | 0x7f), ..] => known(key_of_control(*byte), 1),
        _ => character(bytes),
    }
}

/// The first key of bytes that nothing follows; of what is cut, Escape or nothing, and its length.
pub(super) fn decode_last(bytes: &[u8]) -> (Option<Key>, usize) {
    match decode(bytes) {
        Decoded::Key(key, length) => (Some(key), length),
        Decoded::Unknown(length) => (None, length),
        Decoded::Cut if bytes.first() == Some(&ESCAPE) => (Some(Key::Escape), 1),
        Decoded::Cut => (None, bytes.len()),
    }
}

/// Help, as `?`.
const HELP: Key = Key::Char('?');

fn known(key: Option<Key>, length: usize) -> Decoded {
    key.map_or(Decoded::Unknown(length), |key| Decoded::Key(key, length))
}

/// A sequence after its "ESC [".
fn control_sequence(rest: &[u8]) -> Decoded {
    // F1 to F5 of the Linux console: no sequence of the standard.
    if let [b'[', after @ ..] = rest {
        return after
            .first()
            .map_or(Decoded::Cut, |letter| known((*letter == b'A').then_some(HELP), 4));
    }
    let mut first = rest.iter().take(LONGEST_SEQUENCE);
    let Some(end) = first.position(|byte| !(0x20..=0x3f).contains(byte)) else {
        return match rest.len() {
            LONGEST_SEQUENCE.. => Decoded::Unknown(2 + LONGEST_SEQUENCE),
            _ => Decoded::Cut,
        };
    };
    let length = 2 + end;
    match rest[end] {
        b'~' => known(key_of_number(&rest[..end]), length + 1),
        letter @ 0x40..=0x7e => known(key_of_letter(letter), length + 1),
        // It was broken off: the byte is not its own.
        _ => Decoded::Unknown(length),
    }
}

fn key_of_letter(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        b'P' => HELP,
        b'Z' => Key::BackTab,
        _ => return None,
    })
}

/// The key of "ESC [ NUMBER ~"; what follows a semicolon says which modifiers were held.
fn key_of_number(parameters: &[u8]) -> Option<Key> {
    let number = parameters.split(|byte| *byte == b';').next()?;
    Some(match number {
        b"1" | b"7" => Key::Home,
        b"4" | b"8" => Key::End,
        b"5" => Key::PageUp,
        b"6" => Key::PageDown,
        b"11" => HELP,
        _ => return None,
    })
}

fn key_of_control(byte: u8) -> Option<Key> {
    Some(match byte {
        // In raw mode it is no signal.
        0x03 => Key::Interrupt,
        0x1a => Key::Suspend,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Tab,
        b'\r' | b'\n' => Key::Enter,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> Decoded {
    let first = bytes.utf8_chunks().next();
    match first.map(|chunk| (chunk.valid().chars().next(), chunk.invalid())) {
        Some((Some(c), _)) => Decoded::Key(Key::Char(c), c.len_utf8()),
        // Of a character that could go on, as UTF-8 defines it, all that is there is one piece.
        Some((None, broken)) if broken.len() == bytes.len() && may_go_on(broken) => Decoded::Cut,
        Some((None, broken)) => Decoded::Unknown(broken.len()),
        None => Decoded::Cut,
    }
}

/// Whether more bytes could make a character of these.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All keys of these bytes, as if nothing followed.
    fn keys(mut bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        while !bytes.is_empty() {
            let (key, length) = decode_last(bytes);
            keys.extend(key);
            bytes = &bytes[length..];
        }
        keys
    }

    #[test]
    fn keys_of_common_terminals() {
        for (bytes, expected) in [
            (&b"k"[..], Key::Char('k')),
            ("ß".as_bytes(), Key::Char('ß')),
            ("語".as_bytes(), Key::Char('語')),
            (b"\r", Key::Enter),
            (b"\n", Key::Enter),
            (b"\t", Key::Tab),
            (b"\x7f", Key::Backspace),
            (b"\x08", Key::Backspace),
            (b"\x03", Key::Interrupt),
            (b"\x1a", Key::Suspend),
            (b"\x1b", Key::Escape),
            (b"\x1b[A", Key::Up),
            (b"\x1bOA", Key::Up),
            (b"\x1b[1;5A", Key::Up),
            (b"\x1b[B", Key::Down),
            (b"\x1b[C", Key::Right),
            (b"\x1b[D", Key::Left),
            (b"\x1b[H", Key::Home),
            (b"\x1bOH", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[7~", Key::Home),
            (b"\x1b[F", Key::End),
            (b"\x1b[4~", Key::End),
            (b"\x1b[8~", Key::End),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6;2~", Key::PageDown),
            (b"\x1b[Z", Key::BackTab),
            (b"\x1bOP", Key::Char('?')),
            (b"\x1b[11~", Key::Char('?')),
            (b"\x1b[[A", Key::Char('?')),
        ] {
            assert_eq!(keys(bytes), [expected], "{bytes:?}");
        }
    }

    #[test]
    fn what_means_nothing_takes_no_other_key_along() {
        for (bytes, expected) in [
            (&b"\x1b[3~q"[..], &[Key::Char('q')][..]),
            (b"\x1b[24~q", &[Key::Char('q')]),
            (b"\x1b[[Bq", &[Key::Char('q')]),
            (b"\x1bOxq", &[Key::Char('q')]),
            (b"\x01q", &[Key::Char('q')]),
            (b"\xffq", &[Key::Char('q')]),
            (b"\xe8\xaaq", &[Key::Char('q')]),
            (b"\x1b[1;\x1b[A", &[Key::Up]),
            (b"\x1bq", &[Key::Escape, Key::Char('q')]),
            (b"\x1b\x1b[A", &[Key::Escape, Key::Up]),
            (b"9v\x1b2", &[Key::Char('9'), Key::Char('v'), Key::Escape, Key::Char('2')]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    /// A terminal's bytes, with sequences among them.
    fn typed() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "\\x1b[\\[O][0-9;]{0,40}[A-Za-z~]".prop_map(String::into_bytes),
            "\\PC{0,3}".prop_map(String::into_bytes),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// Bytes that come one by one are the keys that they are together: what is cut is never taken for another.
        #[test]
        fn pieces_make_the_same_keys(bytes in typed()) {
            let (mut unread, mut found) = (Vec::new(), Vec::new());
            for byte in &bytes {
                unread.push(*byte);
                loop {
                    let length = match decode(&unread) {
                        Decoded::Key(key, length) => {
                            found.push(key);
                            length
                        }
                        Decoded::Unknown(length) => length,
                        Decoded::Cut => break,
                    };
                    prop_assert!(length > 0 && length <= unread.len());
                    unread.drain(..length);
                }
                prop_assert!(unread.len() <= 3 + LONGEST_SEQUENCE);
            }
            found.extend(keys(&unread));
            prop_assert_eq!(found, keys(&bytes));
        }
    }
}
