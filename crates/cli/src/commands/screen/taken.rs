//! The terminal, while it is ours; given back as it was however that ends.
//!
//! What a panic has to say would be lost on a screen that goes away, so it is kept until then. Not every
//! panic is our end: a fault of a library in reading a file costs the names of that file.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use pmuscope_console::say;
use ratatui_crossterm::crossterm::{cursor, execute, terminal};

/// Panics that are kept: nobody reads more.
const MOST_KEPT: usize = 8;

/// Gives the terminal back when it is dropped.
pub(super) struct Taken {
    kept: Arc<KeptText>,
    give_back: fn(),
}

/// What is kept until the terminal is given back.
struct KeptText {
    is_ours: AtomicBool,
    panics: Mutex<Vec<String>>,
}

impl Taken {
    /// Takes the terminal: no echo, keys at once, a screen of its own.
    pub(super) fn over() -> anyhow::Result<Self> {
        terminal::enable_raw_mode().context(CANNOT_READ)?;
        // From here on it is given back.
        let taken = Self::held(give_back);
        enter()?;
        Ok(taken)
    }

    /// Gives the terminal back for a while.
    pub(super) fn give_back(&self) {
        (self.give_back)();
        self.kept.is_ours.store(false, Ordering::Relaxed);
    }

    /// Takes it again.
    ///
    /// # Errors
    /// It cannot be read or drawn on any more.
    pub(super) fn take_again(&self) -> anyhow::Result<()> {
        self.kept.is_ours.store(true, Ordering::Relaxed);
        terminal::enable_raw_mode().context(CANNOT_READ)?;
        enter()
    }

    fn held(give_back: fn()) -> Self {
        let kept = KeptText { is_ours: AtomicBool::new(true), panics: Mutex::default() };
        let kept = Arc::new(kept);
        let (before, own) = (std::panic::take_hook(), Arc::clone(&kept));
        std::panic::set_hook(Box::new(move |panic| {
            if !own.is_ours.load(Ordering::Relaxed) {
                return before(panic);
            }
            let mut panics = own.panics.lock().unwrap_or_else(PoisonError::into_inner);
            if panics.len() < MOST_KEPT {
                panics.push(panic.to_string());
            }
        }));
        Self { kept, give_back }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.give_back();
        let panics = self.kept.panics.lock().unwrap_or_else(PoisonError::into_inner);
        panics.iter().for_each(|panic| say!("{panic}"));
    }
}

const CANNOT_READ: &str = "cannot read keys from the terminal";

/// A screen of its own.
fn enter() -> anyhow::Result<()> {
    execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
        .context("cannot draw on the terminal")
}

/// Where the terminal is gone, nothing is left to give back.
fn give_back() {
    let mut out = io::stdout();
    let _ = execute!(out, terminal::LeaveAlternateScreen, cursor::Show);
    let _ = out.flush();
    let _ = terminal::disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use super::*;

    static GIVEN_BACK: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_panic_gives_the_terminal_back_and_its_words_are_kept_until_then() {
        let (send, receive) = std::sync::mpsc::channel();
        let ended = std::thread::spawn(move || {
            let taken = Taken::held(|| GIVEN_BACK.store(true, Ordering::Relaxed));
            send.send(Arc::clone(&taken.kept)).unwrap();
            panic!("out of order");
        });
        assert!(ended.join().is_err());
        let kept = receive.recv().unwrap();
        assert!(GIVEN_BACK.load(Ordering::Relaxed) && !kept.is_ours.load(Ordering::Relaxed));
        let panics = kept.panics.lock().unwrap();
        assert!(panics.iter().any(|words| words.contains("out of order")), "{panics:?}");
    }
}
