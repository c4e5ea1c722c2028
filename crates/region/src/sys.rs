//! Detects a forked child, in which the pages of events are not mapped.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that loaded this code, once
/// [`watch_forks`] was called.
#[inline]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on (those of the C library; a bare `clone` call is not seen).
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the function may be called in any forked child: it changes one atomic word.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
