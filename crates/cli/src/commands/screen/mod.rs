//! The terminal that `top` and `browse` draw on: whether there is one, its keys, and that it is given back.

mod decode;
mod keys;
mod taken;

use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_report::Key;
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_crossterm::CrosstermBackend;
use rustix::process::{Signal, kill_current_process_group};

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
    drawn: ManuallyDrop<Drawing>,
    keys: Keys,
    taken: Taken,
}

impl OurTerminal {
    /// Takes it.
    ///
    /// # Errors
    /// There is none, or it does not say its size.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let keys = Keys::new()?;
        let taken = Taken::over()?;
        Ok(Self { drawn: drawing()?, keys, taken })
    }

    /// What came from it, within a tenth of a second. Ctrl-Z stops the program until it is continued, and is another size
    /// then: all is to be drawn anew.
    ///
    /// # Errors
    /// It cannot be read, or not be taken again.
    pub(crate) fn next(&mut self) -> anyhow::Result<TerminalInput> {
        match self.keys.next()? {
            TerminalInput::Key(Key::Suspend) => self.suspend(),
            input => Ok(input),
        }
    }

    fn suspend(&mut self) -> anyhow::Result<TerminalInput> {
        self.taken.give_back();
        // As the terminal would do: the commands that run stop too. Without a shell that could continue us, the system
        // does not stop us.
        let stopped = kill_current_process_group(Signal::TSTP);
        // Another thread may be the one that the system stops first.
        std::thread::sleep(STOPS_WITHIN);
        self.taken.take_again()?;
        stopped.map_err(io::Error::from).context("cannot stop this program")?;
        // It knows of no cell that is drawn; clearing the old one would ask the terminal where its cursor is, and wait.
        self.drawn = drawing()?;
        Ok(TerminalInput::Resized)
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

type Drawing = Terminal<CrosstermBackend<io::Stdout>>;

fn drawing() -> anyhow::Result<ManuallyDrop<Drawing>> {
    Ok(ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout())).context(CANNOT)?))
}

/// How long it takes at most until all threads are stopped.
const STOPS_WITHIN: Duration = Duration::from_millis(20);

/// Error text for a failure to draw.
const CANNOT: &str = "cannot draw on the terminal";
