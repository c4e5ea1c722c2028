//! The terminal that `top` and `browse` draw on: whether there is one, its keys, and that it is given back.

mod keys;
mod taken;

use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;

use anyhow::Context as _;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;

pub(crate) use keys::{Keys, TerminalInput};
pub(crate) use taken::Taken;

/// Error text for a failure to draw.
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

/// What is drawn on. It is never dropped: it would show the cursor, which [`Taken`] does, and panics where the terminal is
/// gone, because it cannot print why that failed.
///
/// # Errors
/// The terminal does not say its size.
pub(crate) fn terminal() -> anyhow::Result<ManuallyDrop<Terminal<CrosstermBackend<io::Stdout>>>> {
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).context(CANNOT)?;
    Ok(ManuallyDrop::new(terminal))
}
