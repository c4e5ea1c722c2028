//! Where the memory of a process lies, by the kernel's account of each mapping.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::process::gone;
use crate::{Machine, MachineError};

/// About a million mappings.
const NUMA_MAPS_BYTES: u64 = 1 << 27;

/// A mapping with its memory by nodes: a line of `/proc/PID/numa_maps` (`show_numa_map` in fs/proc/task_mmu.c).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NumaMapping {
    /// First address.
    pub address: u64,
    /// The memory policy in the kernel's words: `default`, `bind:0`, `interleave:0-3`, `prefer (many):1`.
    pub policy: String,
    /// Path of the file, if there is one. Raw bytes: escape them before printing.
    #[serde(skip)]
    pub file: Option<Vec<u8>>,
    /// The heap (`brk`).
    pub is_heap: bool,
    /// The stack of the main thread.
    pub is_stack: bool,
    /// Of hugetlbfs.
    pub is_huge: bool,
    /// Bytes of a page in which the kernel counts here.
    pub page_bytes: u64,
    /// Bytes that are not a file's.
    pub anon_bytes: u64,
    /// Bytes that were written to.
    pub dirty_bytes: u64,
    /// Bytes by node.
    pub nodes: BTreeMap<u32, u64>,
}

impl NumaMapping {
    /// All its memory that is present, bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl Machine {
    /// The memory of a process by mappings and nodes: `/proc/PID/numa_maps`. Expensive: the kernel walks all page
    /// tables of the process and holds its lock of mappings meanwhile.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended; an error with [`is_denied`](MachineError::is_denied) for
    /// another user's process; unreadable on kernels without NUMA.
    pub fn numa_maps(&self, pid: u32) -> Result<Vec<NumaMapping>, MachineError> {
        let file = format!("proc/{pid}/numa_maps");
        let text = self.bytes(&file, NUMA_MAPS_BYTES).map_err(|error| gone(error, pid))?;
        let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                parse(line).ok_or_else(|| {
                    let found = String::from_utf8_lossy(line);
                    MachineError::malformed(&self.path(&file), "a mapping with nodes", &found)
                })
            })
            .collect()
    }
}

/// The policy of a line.
pub(super) fn policy(line: &str) -> Option<String> {
    parse(line.as_bytes()).map(|mapping| mapping.policy)
}

/// `7f0c1a000000 bind:0-1 anon=512 dirty=512 active=0 N0=256 N1=256 kernelpagesize_kB=4`.
fn parse(line: &[u8]) -> Option<NumaMapping> {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).peekable();
    let address = u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?;
    let mut policy = String::from_utf8_lossy(words.next()?).into_owned();
    // Two policies have a space in their name (`policy_modes` in mm/mempolicy.c).
    let goes_on = |next: &[u8]| match policy.as_str() {
        "weighted" => next.starts_with(b"interleave"),
        "prefer" => next.starts_with(b"(many)"),
        _ => false,
    };
    if words.peek().is_some_and(|next| goes_on(next)) {
        policy = format!("{policy} {}", String::from_utf8_lossy(words.next()?));
    }
    let mut found = NumaMapping { address, policy, ..NumaMapping::default() };
    let mut pages = NumaPages::default();
    for word in words {
        match word {
            b"heap" => found.is_heap = true,
            b"stack" => found.is_stack = true,
            b"huge" => found.is_huge = true,
            _ => match word.strip_prefix(b"file=") {
                Some(path) => found.file = Some(unescape(path)),
                None => pages.count(word),
            },
        }
    }
    // A mapping without pages has no size of pages either.
    found.page_bytes = pages.kib.checked_mul(1024)?;
    let bytes = |count: u64| count.saturating_mul(found.page_bytes);
    found.nodes = pages.nodes.iter().map(|(node, count)| (*node, bytes(*count))).collect();
    (found.anon_bytes, found.dirty_bytes) = (bytes(pages.anon), bytes(pages.dirty));
    Some(found)
}

/// Numbers of pages as they stand in the line.
#[derive(Debug, Default)]
struct NumaPages {
    anon: u64,
    dirty: u64,
    nodes: BTreeMap<u32, u64>,
    kib: u64,
}

impl NumaPages {
    /// `N0=256` and the like; words of later kernels are passed over.
    fn count(&mut self, word: &[u8]) {
        let Ok(word) = std::str::from_utf8(word) else { return };
        let Some((name, value)) = word.split_once('=') else { return };
        let Ok(value) = value.parse() else { return };
        match name {
            "anon" => self.anon = value,
            "dirty" => self.dirty = value,
            "kernelpagesize_kB" => self.kib = value,
            _ => {
                let node = name.strip_prefix('N').and_then(|number| number.parse().ok());
                self.nodes.extend(node.map(|node| (node, value)));
            }
        }
    }
}

/// Spaces, tabs, line feeds and equals signs of a path are three octal digits (`seq_file_path`).
fn unescape(path: &[u8]) -> Vec<u8> {
    const ESCAPED: [(&[u8], u8); 4] =
        [(b"\\040", b' '), (b"\\011", b'\t'), (b"\\012", b'\n'), (b"\\075", b'=')];
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped =
            ESCAPED.iter().find_map(|(text, byte)| Some((rest.strip_prefix(*text)?, *byte)));
        let (next, byte) = escaped.unwrap_or((tail, byte));
        out.push(byte);
        rest = next;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(line: &str) -> Vec<(u32, u64)> {
        parse(line.as_bytes()).unwrap().nodes.into_iter().collect()
    }

    #[test]
    fn pages_are_counted_in_the_size_that_the_line_names() {
        let line =
            "7f0c1a000000 bind:0-1 anon=512 dirty=500 active=0 N0=200 N3=312 kernelpagesize_kB=4";
        let mapping = parse(line.as_bytes()).unwrap();
        assert_eq!((mapping.address, mapping.policy.as_str()), (0x7f0c_1a00_0000, "bind:0-1"));
        assert_eq!(nodes(line), [(0, 200 << 12), (3, 312 << 12)]);
        assert_eq!((mapping.anon_bytes, mapping.dirty_bytes), (512 << 12, 500 << 12));
        assert_eq!(mapping.bytes(), 512 << 12);
        let huge = "7f00 default file=/dev/hugepages/x huge dirty=3 N1=3 kernelpagesize_kB=2048";
        assert_eq!(nodes(huge), [(1, 3 << 21)]);
        assert!(parse(huge.as_bytes()).unwrap().is_huge);
    }

    #[test]
    fn policies_may_have_a_space() {
        for (line, expected) in [
            (
                "1000 weighted interleave:0-3 anon=1 N0=1 kernelpagesize_kB=4",
                "weighted interleave:0-3",
            ),
            ("1000 prefer (many):0-1 N0=1 kernelpagesize_kB=4", "prefer (many):0-1"),
            ("1000 prefer:1 heap N0=1 kernelpagesize_kB=4", "prefer:1"),
            ("1000 interleave=static:0-1", "interleave=static:0-1"),
            ("1000 default", "default"),
        ] {
            assert_eq!(policy(line).unwrap(), expected);
        }
        assert!(parse(b"1000 prefer:1 heap N0=1 kernelpagesize_kB=4").unwrap().is_heap);
    }

    #[test]
    fn paths_come_back_as_they_were() {
        let line = b"1000 default file=/a\\040b\\075c\\134\\012 mapped=1 N0=1 kernelpagesize_kB=4";
        assert_eq!(parse(line).unwrap().file.unwrap(), b"/a b=c\\134\n");
    }

    #[test]
    fn lines_of_other_kinds_are_refused() {
        for line in ["", "1000", "xyz default", "1000000000000000000000 default"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&line);
        }

        #[test]
        fn what_is_written_is_read(pages in proptest::collection::btree_map(0u32..64, 1u64..1 << 30, 0..5), kib in prop_oneof![Just(4u64), Just(64), Just(2048)]) {
            let words: Vec<String> = pages.iter().map(|(node, count)| format!("N{node}={count}")).collect();
            let line = format!("7f00 default anon=1 {} kernelpagesize_kB={kib}", words.join(" "));
            let expected: Vec<(u32, u64)> = pages.iter().map(|(node, count)| (*node, count * kib * 1024)).collect();
            prop_assert_eq!(nodes(&line), expected);
        }
    }
}
