//! What all programs of the house do alike at a terminal: output flags and forms, exit status, messages, colors,
//! which files are replaced.
//!
//! ```text
//!  flags ─► OutputArgs ─► Form ─► text, JSON, CSV, TSV, page ─► standard output, or a file that appears whole
//!           ProgramInfo, --force, --wide, --color, -v: said once, before the command runs
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stderr)]

#[macro_use]
pub mod say;

pub mod exit;
pub mod invocation;
pub mod limit;
pub mod output;
pub mod program;
pub mod replace;
pub mod terminal;
