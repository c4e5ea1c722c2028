//! The terminal that `top` and `browse` draw on: whether there is one, its keys, and that it is given back.

mod decode;
mod keys;
mod taken;

use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;

use anyhow::Context as _;
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_crossterm::CrosstermBackend;

use keys::Keys;
pub(crate) use keys::TerminalInput;
use taken::Taken;

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

/// The terminal while it is ours: keys come from it, and it is drawn on. Given back when this is dropped.
pub(crate) struct OurTerminal {
    /// Never dropped: it would show the cursor, which [`Taken`] does, and panics where the terminal is gone, because it
    /// cannot print why that failed.
    drawn: ManuallyDrop<Terminal<CrosstermBackend<io::Stdout>>>,
    keys: Keys,
    _taken: Taken,
}

impl OurTerminal {
    /// Takes it.
    ///
    /// # Errors
    /// There is none, or it does not say its size.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let keys = Keys::new()?;
        let taken = Taken::over()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).context(CANNOT)?;
        Ok(Self { drawn: ManuallyDrop::new(terminal), keys, _taken: taken })
    }

    /// What came from it, within a tenth of a second.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn next(&mut self) -> anyhow::Result<TerminalInput> {
        self.keys.next()
    }

    /// Draws. A terminal that goes away meanwhile says so with the next input: nobody sees what is missing.
    ///
    /// # Errors
    /// It is there and cannot be drawn on.
    pub(crate) fn draw(&mut self, what: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        match self.drawn.draw(what) {
            Ok(_) => Ok(()),
            Err(_) if self.keys.is_gone() => Ok(()),
            Err(error) => Err(error).context(CANNOT),
        }
    }
}

/// Error text for a failure to draw.
const CANNOT: &str = "cannot draw on the terminal";
