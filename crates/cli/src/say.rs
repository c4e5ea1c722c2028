//! What is said on standard error.
//!
//! Each line begins with one severity word: `error:`, `warning:` or `note:`; there is no name of the program before
//! it, as in clap's own errors. Progress and results have none. An error ends the command and says what failed, why
//! (once), and what to type: `Try: COMMAND`.

use std::sync::atomic::{AtomicBool, Ordering};

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Takes `-v` from the command line.
pub(crate) fn set_verbose(is_given: bool) {
    VERBOSE.store(is_given, Ordering::Relaxed);
}

/// Whether details are asked for.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// As `eprintln!`, but where nobody listens any more (`2>&1 | head`, a full disk), the work goes on: a notice is
/// no reason to panic.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
