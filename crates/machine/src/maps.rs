//! The memory mappings of a process.

use serde::{Serialize, Serializer};

use crate::process::gone;
use crate::{Machine, MachineError};

/// About a million mappings, far beyond the kernel's usual limit of 65,530.
const MAPS_BYTES: u64 = 1 << 27;

/// One mapping of a process: a line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Where in the file it starts, bytes.
    pub offset: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Writes go to the file (`MAP_SHARED`).
    pub shared: bool,
    /// Major number of the device of the file, 0 without one.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode number, 0 without a file.
    pub inode: u64,
    /// Path of the file as its process sees it, with ` (deleted)` behind it if it is; or `[heap]`,
    /// `[vdso]`, …; or empty. Raw bytes: escape them before printing.
    #[serde(serialize_with = "lossy")]
    pub path: Vec<u8>,
}

fn lossy<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(path))
}

impl Machine {
    /// The mappings of a process, by address: `/proc/PID/maps`. Kernel threads and zombies have none.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended; an error with
    /// [`is_denied`](MachineError::is_denied) for another user's process.
    pub fn mappings(&self, pid: u32) -> Result<Vec<Mapping>, MachineError> {
        let file = format!("proc/{pid}/maps");
        let text = self.bytes(&file, MAPS_BYTES).map_err(|error| gone(error, pid))?;
        let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                parse(line).ok_or_else(|| {
                    let found = String::from_utf8_lossy(line);
                    MachineError::malformed(&self.path(&file), "a mapping", &found)
                })
            })
            .collect()
    }
}

/// `5614e22ab000-5614e22b0000 r-xp 00002000 fe:00 247026                     /usr/bin/cat`.
fn parse(line: &[u8]) -> Option<Mapping> {
    let (start, rest) = number(line, 16)?;
    let (end, rest) = number(rest.strip_prefix(b"-")?, 16)?;
    let (flags, rest) = rest.strip_prefix(b" ")?.split_at_checked(4)?;
    let (offset, rest) = number(rest.strip_prefix(b" ")?, 16)?;
    let (major, rest) = number(rest.strip_prefix(b" ")?, 16)?;
    let (minor, rest) = number(rest.strip_prefix(b":")?, 16)?;
    let (inode, rest) = number(rest.strip_prefix(b" ")?, 10)?;
    let name = rest.iter().position(|&byte| byte != b' ').map_or(&[][..], |at| &rest[at..]);
    Some(Mapping {
        start,
        end,
        offset,
        readable: flags[0] == b'r',
        writable: flags[1] == b'w',
        executable: flags[2] == b'x',
        shared: flags[3] == b's',
        major: major.try_into().ok()?,
        minor: minor.try_into().ok()?,
        inode,
        path: unescape(name),
    })
}

/// The digits in front of `text` and what follows them; by hand, for millions of lines.
fn number(text: &[u8], radix: u32) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut length = 0;
    for &byte in text {
        let Some(digit) = char::from(byte).to_digit(radix) else { break };
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// Of all bytes the kernel escapes only the line feed here (`show_map_vma` in fs/proc/task_mmu.c), and
/// not the backslash: every other sequence is part of the name.
fn unescape(path: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = b"\\012";
    if !path.contains(&b'\\') {
        return path.to_vec();
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        match rest.strip_prefix(ESCAPED) {
            Some(tail) => {
                out.push(b'\n');
                rest = tail;
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_field() {
        let line = b"5614e22ab000-5614e22b0000 r-xp 00002000 fe:01 247026                     /usr/bin/a cat (deleted)";
        let expected = Mapping {
            start: 0x5614_e22a_b000,
            end: 0x5614_e22b_0000,
            offset: 0x2000,
            readable: true,
            writable: false,
            executable: true,
            shared: false,
            major: 0xfe,
            minor: 1,
            inode: 247_026,
            path: b"/usr/bin/a cat (deleted)".to_vec(),
        };
        assert_eq!(parse(line), Some(expected));
        let anonymous = parse(b"7f00-7f01 rw-s 00000000 00:00 0 ").unwrap();
        assert!(anonymous.shared && anonymous.writable && anonymous.path.is_empty());
        let gate = parse(
            b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
        );
        assert_eq!(gate.unwrap().path, b"[vsyscall]");
    }

    #[test]
    fn only_the_line_feed_is_escaped_in_a_path() {
        assert_eq!(unescape(b"/a\\012b"), b"/a\nb");
        assert_eq!(unescape(b"/a\\040\\134\\"), b"/a\\040\\134\\");
        assert_eq!(unescape(b"\\0\\012\\01"), b"\\0\n\\01");
        assert_eq!(unescape(b"/\xff\\012"), b"/\xff\n");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&line);
        }

        #[test]
        fn a_cut_line_is_refused_or_shorter(cut in 0usize..60) {
            let line = b"5614e22ab000-5614e22b0000 r-xp 00002000 fe:01 247026        /usr/bin/cat";
            let whole = parse(line).unwrap();
            if let Some(part) = parse(&line[..cut]) {
                prop_assert!(whole.path.starts_with(&part.path));
            }
        }
    }
}
