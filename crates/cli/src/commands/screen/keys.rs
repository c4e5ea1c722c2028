//! Keys from the terminal.
//!
//! ```text
//!  poll(2) of the terminal, 100 ms ─┬─ hung up ─► Gone
//!                                   └─ else ─► crossterm, without waiting ─► Key, Resized, or Nothing
//! ```
//! A terminal that goes away is at its end of file for ever, and crossterm 0.29, once it waits, reads that end again and
//! again and returns to nobody. So we wait ourselves, and crossterm is asked only for what is there.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_report::Key;
use ratatui_crossterm::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Keys, signals and news are looked for this often.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What came from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Nothing, or nothing that means anything here.
    Nothing,
    /// The terminal is not there any more.
    Gone,
}

/// Where keys come from.
pub(crate) struct Keys {
    terminal: OwnedFd,
}

impl Keys {
    /// Those of standard input, or of the controlling terminal where that is none, as crossterm does it.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let terminal = match stdin.is_terminal() {
            true => rustix::io::dup(&stdin).map_err(io::Error::from),
            false => File::open("/dev/tty").map(OwnedFd::from),
        };
        Ok(Self { terminal: terminal.context(CANNOT_READ)? })
    }

    /// The next key, within a tenth of a second.
    pub(crate) fn next(&self) -> anyhow::Result<TerminalInput> {
        let mut wait = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut wait, Some(&LOOK_EVERY)) {
            // Another size of the terminal comes as a signal.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error)).context(CANNOT_READ),
        }
        if wait[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(TerminalInput::Gone);
        }
        if !event::poll(Duration::ZERO).context(CANNOT_READ)? {
            return Ok(TerminalInput::Nothing);
        }
        Ok(match event::read().context(CANNOT_READ)? {
            Event::Key(pressed) => key(pressed).map_or(TerminalInput::Nothing, TerminalInput::Key),
            Event::Resize(..) => TerminalInput::Resized,
            _ => TerminalInput::Nothing,
        })
    }
}

const CANNOT_READ: &str = "cannot read keys from the terminal";

/// What a key press means here; `None` for what means nothing.
fn key(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    if pressed.modifiers.contains(KeyModifiers::CONTROL) {
        // In raw mode it is no signal.
        return (pressed.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match pressed.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::F(1) => Key::Char('?'),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    })
}
