//! System calls on perf events, and the mapped ring buffer: the unsafe part of this crate.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use pmuscope_abi::{ATTR_SIZE_VER9, OpenFlags, mmap_page};

/// The attribute, aligned as the kernel's structure is.
#[repr(C, align(8))]
struct AlignedAttr([u8; ATTR_SIZE_VER9]);

pub(crate) fn perf_event_open(
    attr: &[u8; ATTR_SIZE_VER9],
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
    flags: OpenFlags,
) -> io::Result<OwnedFd> {
    let attr = AlignedAttr(*attr);
    let group = group.map_or(-1, |fd| fd.as_raw_fd());
    // SAFETY: `attr` outlives the call and its `size` field says how many bytes may be read (or, on
    // E2BIG, that the size field may be written, which `AlignedAttr` being a local copy allows).
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, group, flags.bits())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub(crate) fn ioctl_value(event: BorrowedFd<'_>, request: u32, value: u32) -> io::Result<()> {
    // SAFETY: the requests passed here take their argument by value; no memory is involved.
    check(unsafe {
        libc::ioctl(event.as_raw_fd(), request_of(request), libc::c_ulong::from(value))
    })
}

pub(crate) fn ioctl_fd(event: BorrowedFd<'_>, request: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: SET_OUTPUT and SET_BPF take a descriptor by value, and `fd` is open for the duration of the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), request_of(request), fd.as_raw_fd()) })
}

pub(crate) fn ioctl_read_u64(event: BorrowedFd<'_>, request: u32) -> io::Result<u64> {
    let mut value = 0_u64;
    // SAFETY: the request writes one u64 through the pointer, and `value` outlives the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), request_of(request), &raw mut value) })?;
    Ok(value)
}

pub(crate) fn ioctl_write_u64(event: BorrowedFd<'_>, request: u32, value: u64) -> io::Result<()> {
    // SAFETY: the request reads one u64 through the pointer, and `value` outlives the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), request_of(request), &raw const value) })
}

pub(crate) fn read_words(event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for `size_of_val(words)` bytes, and any bytes are valid u64s.
    let bytes =
        unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(words)) };
    if bytes < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes as usize / 8) }
}

/// Request numbers are `c_ulong` in glibc and `c_int` in musl.
#[allow(clippy::cast_lossless)]
fn request_of(request: u32) -> libc::Ioctl {
    request as libc::Ioctl
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A mapped ring buffer: a control page and a data area of a power of two bytes.
///
/// ```text
///   base        base + page                    base + page + data
///   │ control   │ data area, written by the kernel            │
///       data_head: written by the kernel, read here (Acquire)
///       data_tail: written here (Release), read by the kernel
/// ```
#[derive(Debug)]
pub struct RingMemory {
    base: NonNull<u8>,
    page: usize,
    data: usize,
}

// SAFETY: the mapping belongs to this value alone within the process, the control words are accessed
// atomically, and the data area is only read.
unsafe impl Send for RingMemory {}
// SAFETY: as above; shared access only loads.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    pub(crate) fn map(event: BorrowedFd<'_>, data: usize, writable: bool) -> io::Result<Self> {
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        Self::mmap(event.as_raw_fd(), data, access, libc::MAP_SHARED)
    }

    /// Memory of the same shape that no kernel writes, for tests.
    pub(crate) fn anonymous(data: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        Self::mmap(-1, data, libc::PROT_READ | libc::PROT_WRITE, flags)
    }

    fn mmap(fd: i32, data: usize, access: i32, flags: i32) -> io::Result<Self> {
        let page = rustix::param::page_size();
        assert!(data.is_power_of_two() && data >= page, "the caller checked the size");
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), page + data, access, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page, data })
    }

    /// Bytes of the data area.
    pub(crate) fn data_size(&self) -> usize {
        self.data
    }

    /// Bytes the kernel has published since the start. What lies before is visible after this load.
    pub(crate) fn head(&self) -> u64 {
        // The page may be mapped for reading only, where no other loads than relaxed ones are defined.
        let head = self.control(mmap_page::DATA_HEAD).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        head
    }

    /// Gives everything before `tail` back to the kernel. Loads before this store are done.
    pub(crate) fn set_tail(&self, tail: u64) {
        self.control(mmap_page::DATA_TAIL).store(tail, Ordering::Release);
    }

    /// The bytes at free-running positions `from..to`, in one or two pieces.
    ///
    /// The caller holds back the tail for as long as it uses them: `from` is at or behind the tail
    /// last set, `to` at or before a head that was read.
    pub(crate) fn bytes(&self, from: u64, to: u64) -> (&[u8], &[u8]) {
        let len = to.wrapping_sub(from) as usize;
        assert!(len <= self.data, "more bytes pending than the ring buffer holds");
        let start = from as usize & (self.data - 1);
        let first = len.min(self.data - start);
        // SAFETY: both pieces lie inside the data area (start < data, first + rest <= data). The kernel
        // does not write to positions between tail and head, and `Ring`, the only caller, keeps
        // its tail at or before `from` while the slices live (it needs `&mut self` to move it).
        unsafe {
            let data = self.base.as_ptr().add(self.page);
            (
                std::slice::from_raw_parts(data.add(start), first),
                std::slice::from_raw_parts(data, len - first),
            )
        }
    }

    /// A copy of `len` bytes at position `from`, both multiples of 8, of a ring that the kernel goes on
    /// writing to. Words that are written meanwhile come out old or new; the caller cuts them off.
    pub(crate) fn copy_while_written(&self, from: u64, len: usize) -> Vec<u8> {
        assert!(len <= self.data, "more bytes than the ring buffer holds");
        let mut bytes = Vec::with_capacity(len);
        for word in 0..len / 8 {
            let at = (from as usize).wrapping_add(word * 8) & (self.data - 1) & !7;
            // SAFETY: `at` is a multiple of 8 inside the data area, which is mapped for as long as `self`
            // and page-aligned; the word is read atomically because the kernel may write it.
            let word =
                unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(self.page + at).cast()) };
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        fence(Ordering::Acquire);
        bytes
    }

    /// Writes records as the kernel would.
    #[cfg(test)]
    pub(crate) fn produce(&self, bytes: &[u8]) {
        let head = self.head();
        for (i, byte) in bytes.iter().enumerate() {
            let at = (head as usize + i) & (self.data - 1);
            // SAFETY: `at` is inside the data area, which for tests is anonymous writable memory.
            unsafe { self.base.as_ptr().add(self.page + at).write(*byte) };
        }
        let head = head + bytes.len() as u64;
        self.control(mmap_page::DATA_HEAD).store(head, Ordering::Release);
    }

    /// Writes a record as the kernel does into a ring with `write_backward`.
    #[cfg(test)]
    pub(crate) fn produce_backward(&self, bytes: &[u8]) {
        let head = self.head().wrapping_sub(bytes.len() as u64);
        for (i, byte) in bytes.iter().enumerate() {
            let at = (head as usize).wrapping_add(i) & (self.data - 1);
            // SAFETY: `at` is inside the data area, which for tests is anonymous writable memory.
            unsafe { self.base.as_ptr().add(self.page + at).write(*byte) };
        }
        self.control(mmap_page::DATA_HEAD).store(head, Ordering::Release);
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped for as long as `self`, the offsets are those of aligned u64
        // fields in its first 4096 bytes, and both sides access them as single words.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `mmap` returned; slices into it borrow `self` and are gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}
