//! Threads by `pthread_create` alone. The standard library maps a page for a signal stack around each of
//! its threads, which takes as long as what a thread is created to find out.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// Threads that wait until they are let go; all have ended when it is dropped.
#[derive(Debug)]
pub(super) struct Threads {
    ids: Vec<libc::pthread_t>,
    /// 1: let go. In a place of its own, as threads have its address; an `Arc`, as a `Box` may not be moved
    /// while others look at what is in it.
    gone: Arc<AtomicU32>,
}

/// What a thread does: it waits for the word behind `gone`.
extern "C" fn wait(gone: *mut c_void) -> *mut c_void {
    // SAFETY: `Threads` keeps the word where it is until it has joined this thread, and everybody reads
    // and writes it by atomic operations.
    let gone = unsafe { &*gone.cast::<AtomicU32>() };
    while gone.load(Ordering::Acquire) == 0 {
        // Whatever made it return, the word tells.
        let _ = futex::wait(gone, futex::Flags::PRIVATE, 0, None);
    }
    ptr::null_mut()
}

impl Threads {
    /// Creates so many; on an error those that were created have ended.
    pub(super) fn create(number: usize) -> io::Result<Self> {
        let mut threads = Self { ids: Vec::with_capacity(number), gone: Arc::default() };
        for _ in 0..number {
            let word = Arc::as_ptr(&threads.gone).cast_mut().cast();
            // Libraries differ in what a number of a thread is.
            let mut id = MaybeUninit::<libc::pthread_t>::uninit();
            // SAFETY: `id` may be written, no attributes means the default ones, and `wait` gets the
            // address of a word that outlives the thread (see there).
            let refused = unsafe { libc::pthread_create(id.as_mut_ptr(), ptr::null(), wait, word) };
            if refused != 0 {
                return Err(io::Error::from_raw_os_error(refused));
            }
            // SAFETY: the call succeeded, so it is written.
            threads.ids.push(unsafe { id.assume_init() });
        }
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.gone.store(1, Ordering::Release);
        // Fails only for addresses that are none.
        let _ = futex::wake(&self.gone, futex::Flags::PRIVATE, i32::MAX as u32);
        for id in self.ids.drain(..) {
            // SAFETY: each id is of a thread that was created here and joined by nobody else.
            unsafe { libc::pthread_join(id, ptr::null_mut()) };
        }
    }
}
