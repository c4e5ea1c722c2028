//! What is said on standard error.
//!
//! Each line begins with one severity word: `error:`, `warning:` or `note:`; there is no name of the program before
//! it, as in clap's own errors. Progress and results have none. An error ends the command and says what failed, why
//! (once), and what to type: `Try: COMMAND`.
//!
//! On a terminal, lines that are too wide for it break at words, the further ones indented. Files and pipes get each
//! message in one line.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use pmuscope_report::wrap_lines;

use crate::terminal;

/// Spaces in front of what a line continues with.
const HANGING: usize = 2;

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Takes `-v` from the command line.
pub fn set_verbose(is_given: bool) {
    VERBOSE.store(is_given, Ordering::Relaxed);
}

/// Whether details are asked for.
pub fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Prints lines; see `say!`.
pub fn print(text: Arguments<'_>) {
    let stderr = std::io::stderr();
    let text = wrap_lines(&text.to_string(), terminal::width_of(&stderr), HANGING);
    let _ = writeln!(stderr.lock(), "{text}");
}

/// As `eprintln!`, but where nobody listens any more (`2>&1 | head`, a full disk), the work goes on: a notice is
/// no reason to panic.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::say::print(format_args!($($words)*)) };
}
