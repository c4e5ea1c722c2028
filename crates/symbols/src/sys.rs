//! Files mapped into memory: the unsafe part of this crate.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps `file` for reading.
///
/// Debug information of a large program is gigabytes, of which a report needs a few pages: a mapping
/// reads those and takes no memory of ours.
///
/// # Errors
/// Those of mmap(2); an empty file cannot be mapped.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private, and is handed out only as bytes. Another program
    // may change them while we look: every parser here checks each value it reads, and keeps none
    // that it checked to read it again. If the file gets shorter, access ends in SIGBUS, as it does in
    // every program that maps files; symbols are read from files that were executed, which the kernel
    // does not let anyone write to while they run.
    unsafe { Mmap::map(file) }
}
