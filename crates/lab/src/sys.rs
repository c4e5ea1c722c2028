//! The unsafe part of this crate: the shared memory of a guest, and children that die with us.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Memory that a guest shares with the program that started it.
#[derive(Debug)]
pub(crate) struct SharedRegion(MmapRaw);

impl SharedRegion {
    /// Maps the first `bytes` of `file`, a memory BAR in sysfs.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn map(file: &File, bytes: usize) -> io::Result<Self> {
        Ok(Self(MmapOptions::new().len(bytes).map_raw(file)?))
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The word at `offset`, which the other side may write at any time.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8, or the word does not fit.
    pub(crate) fn load(&self, offset: usize) -> u64 {
        assert!(
            offset.is_multiple_of(8) && offset.checked_add(8).is_some_and(|end| end <= self.len())
        );
        fence(Ordering::SeqCst);
        // SAFETY: the word lies within the mapping, as checked above, and is aligned: mappings start at a page.
        // A volatile load allows for the other side's stores.
        unsafe { self.0.as_ptr().add(offset).cast::<u64>().read_volatile() }
    }

    /// Writes `bytes` from `offset` on, in whole words of 8 bytes; the last is filled up with zeros.
    /// Earlier stores are visible to the other side before later ones.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8, or the words do not fit.
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len().next_multiple_of(8));
        assert!(offset.is_multiple_of(8) && end.is_some_and(|end| end <= self.len()));
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: the word lies within the mapping, as checked above, and is aligned: mappings
            // start at a page. Nobody in this process holds a reference into it. The other side may
            // read at any time, which volatile stores allow for.
            unsafe {
                let place = self.0.as_mut_ptr().add(offset + i * 8).cast::<u64>();
                place.write_volatile(u64::from_ne_bytes(word));
            }
        }
        fence(Ordering::SeqCst);
    }
}

/// Lets the kernel kill the child when the thread that starts it ends, however it ends: a guest whose
/// owner was killed would go on to use the CPUs.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call (prctl) and allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_stored_is_seen_through_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let region = SharedRegion::map(&file, 4096).unwrap();
        region.store(16, b"0123456789");
        assert_eq!(region.load(24), u64::from_ne_bytes(*b"89\0\0\0\0\0\0"));
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(&bytes[8..40], b"\0\0\0\0\0\0\0\x000123456789\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn nothing_is_stored_beyond_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        SharedRegion::map(&file, 4096).unwrap().store(4088, &[1; 9]);
    }
}
