//! The terminal that `top` and `browse` draw on: whether there is one, its keys, and that it is given back.

mod keys;
mod taken;

use std::io::{self, IsTerminal as _};

pub(crate) use keys::{Keys, TerminalInput};
pub(crate) use taken::Taken;

/// What is said where drawing fails.
pub(crate) const CANNOT: &str = "cannot draw on the terminal";

/// Why nothing can be drawn; `None` if it can.
pub(crate) fn refusal() -> Option<&'static str> {
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return Some("TERM=dumb cannot be drawn on");
    }
    if !io::stdout().is_terminal() {
        return Some("standard output is not one");
    }
    None
}
