//! The terminal that `top` and `browse` draw on: whether there is one, its keys, and that it is given back.

mod taken;

use std::io::{self, IsTerminal};
use std::time::Duration;

use pmuscope_report::Key;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

pub(crate) use taken::Taken;

/// Keys, signals and news are looked for this often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

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

/// What a key press means here; `None` for what means nothing.
pub(crate) fn key(pressed: KeyEvent) -> Option<Key> {
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
