//! Keys from the terminal.
//!
//! ```text
//!  bytes ──► what was read ──► decode ──► a key, at once
//!                  ▲              └─ nothing whole: poll(2), 100 ms ─┬─ bytes ───► read on
//!                  └────────────────────────────────────────────────┤─ SIGWINCH ─► Resized
//!                                                                    ├─ hung up ──► Gone
//!                                                                    └─ else ─────► Nothing
//! ```
//! crossterm 0.29 is not asked for events. It learns of each piece of input once, and where a signal and keys arrive
//! together it forgets the keys until more are typed; it also waits for the rest of a sequence that was cut, and reads
//! the end of a terminal that went away for ever.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use pmuscope_report::Key;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::decode::{Decoded, decode, decode_last};
use crate::signals::resize_pipe;

/// Keys, signals and news are looked for this often.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The rest of a sequence that was cut is waited for so long; then Escape was pressed. Terminals write a sequence at
/// once, and a network delivers its parts one after the other.
const REST_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };

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
pub(super) struct Keys {
    terminal: OwnedFd,
    /// Gets a byte whenever the terminal has another size.
    sizes: OwnedFd,
    /// Bytes that were read and are no keys yet.
    unread: Vec<u8>,
}

impl Keys {
    /// Those of standard input, or of the controlling terminal where that is none.
    pub(super) fn new() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let terminal = match stdin.is_terminal() {
            true => rustix::io::dup(&stdin).map_err(io::Error::from),
            false => File::open("/dev/tty").map(OwnedFd::from),
        };
        let terminal = terminal.context(CANNOT_READ)?;
        let sizes = resize_pipe().context("cannot listen for signals")?;
        Ok(Self { terminal, sizes, unread: Vec::new() })
    }

    /// The next key, within a tenth of a second.
    pub(super) fn next(&mut self) -> anyhow::Result<TerminalInput> {
        let mut wait = &LOOK_EVERY;
        loop {
            match decode(&self.unread) {
                Decoded::Key(key, length) => return Ok(self.taken(Some(key), length)),
                Decoded::Unknown(length) => return Ok(self.taken(None, length)),
                Decoded::Cut if !self.unread.is_empty() => wait = &REST_WITHIN,
                Decoded::Cut => {}
            }
            match self.read(wait)? {
                Arrived::Bytes => {}
                Arrived::Size => return Ok(TerminalInput::Resized),
                Arrived::End => return Ok(TerminalInput::Gone),
                Arrived::Nothing if self.unread.is_empty() => return Ok(TerminalInput::Nothing),
                Arrived::Nothing => {
                    let (key, length) = decode_last(&self.unread);
                    return Ok(self.taken(key, length));
                }
            }
        }
    }

    /// Whether the terminal has gone away.
    pub(super) fn is_gone(&self) -> bool {
        let mut now = [PollFd::new(&self.terminal, PollFlags::IN)];
        let looked = poll(&mut now, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        looked.is_ok() && now[0].revents().intersects(GONE)
    }

    /// Removes the bytes of a key, `length` of them.
    fn taken(&mut self, key: Option<Key>, length: usize) -> TerminalInput {
        self.unread.drain(..length);
        key.map_or(TerminalInput::Nothing, TerminalInput::Key)
    }

    /// Waits for something, and reads bytes.
    fn read(&mut self, wait: &Timespec) -> anyhow::Result<Arrived> {
        let (terminal, size) = {
            let mut both = [
                PollFd::new(&self.terminal, PollFlags::IN),
                PollFd::new(&self.sizes, PollFlags::IN),
            ];
            match poll(&mut both, Some(wait)) {
                Ok(_) => (both[0].revents(), both[1].revents()),
                // What a signal has to say is looked for at once.
                Err(Errno::INTR) => return Ok(Arrived::Nothing),
                Err(error) => return Err(io::Error::from(error)).context(CANNOT_READ),
            }
        };
        let mut bytes = [0; 1024];
        if terminal.intersects(GONE) {
            return Ok(Arrived::End);
        }
        if size.contains(PollFlags::IN) {
            // Many changes are one.
            rustix::io::read(&self.sizes, &mut bytes).map_err(io::Error::from)?;
            return Ok(Arrived::Size);
        }
        if !terminal.contains(PollFlags::IN) {
            return Ok(Arrived::Nothing);
        }
        match rustix::io::read(&self.terminal, &mut bytes) {
            Ok(0) | Err(Errno::IO) => Ok(Arrived::End),
            Ok(length) => {
                self.unread.extend_from_slice(&bytes[..length]);
                Ok(Arrived::Bytes)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(Arrived::Nothing),
            Err(error) => Err(io::Error::from(error)).context(CANNOT_READ),
        }
    }
}

/// What a wait ended with.
enum Arrived {
    Bytes,
    Size,
    End,
    Nothing,
}

/// What poll(2) says of a terminal that has gone away.
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);

const CANNOT_READ: &str = "cannot read keys from the terminal";
