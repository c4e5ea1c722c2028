//! Memory that processes share, seen as words that each may change at any time.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A file's first words, shared with whoever maps them too.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: MmapRaw,
    words: usize,
}

impl Shared {
    /// Maps the first `words` words of `file`, which must not become shorter.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn map(file: &File, words: usize) -> io::Result<Self> {
        let memory = MmapOptions::new().len(words * size_of::<AtomicU64>()).map_raw(file)?;
        Ok(Self { memory, words })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is of that many words, starts at a page and lives as long as `self`; any
        // bytes are valid words. Everybody, other processes too, touches them by atomic operations
        // only, which may share memory.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.words) }
    }
}
