//! A list that is longer than the screen: which line is chosen, and which are seen.

use std::ops::Range;

use pmuscope_report::Key;

/// Lines that are shown before one that was jumped to.
const CONTEXT: usize = 5;

/// Where a reader is in a list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListPosition {
    /// The chosen line.
    pub(crate) at: usize,
    /// The first line that is seen.
    first: usize,
    /// Lines that fit, as of the last drawing.
    page: usize,
}

impl ListPosition {
    /// Moves as a key says; whether it is a key that moves.
    pub(crate) fn moves(&mut self, key: Key, lines: usize) -> bool {
        let (last, page) = (lines.saturating_sub(1), self.page.max(1));
        self.at = match key {
            Key::Up => self.at.saturating_sub(1),
            Key::Down => self.at + 1,
            Key::PageUp => self.at.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.at + page,
            Key::Home => 0,
            Key::End => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// Chooses a line, and shows some before it.
    pub(crate) fn jump(&mut self, at: usize) {
        self.at = at;
        if at < self.first || at >= self.first + self.page {
            self.first = at.saturating_sub((self.page / 2).max(CONTEXT));
        }
    }

    /// The chosen line, counted from the first of those that are seen.
    pub(crate) fn line(&self, seen: &Range<usize>) -> usize {
        self.at.saturating_sub(seen.start)
    }

    /// The visible part of a list of `lines` lines, where `page` fit on the screen.
    pub(crate) fn seen(&mut self, lines: usize, page: usize) -> Range<usize> {
        self.page = page.max(1);
        self.at = self.at.min(lines.saturating_sub(1));
        let most = lines.saturating_sub(self.page);
        self.first = self.first.min(self.at).min(most);
        if self.at >= self.first + self.page {
            self.first = self.at + 1 - self.page;
        }
        self.first..(self.first + self.page).min(lines)
    }

    /// The same without a chosen line: the first line is what moves.
    pub(crate) fn scrolled(&mut self, lines: usize, page: usize) -> Range<usize> {
        self.page = page.max(1);
        self.at = self.at.min(lines.saturating_sub(self.page));
        self.at..(self.at + self.page).min(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_line_is_always_seen() {
        let mut list = ListPosition::default();
        let keys =
            [Key::End, Key::Up, Key::PageUp, Key::Home, Key::Down, Key::PageDown, Key::PageDown];
        for (lines, page) in [(100, 7), (3, 7), (0, 7), (1, 1), (100, 0)] {
            for key in keys {
                assert!(list.moves(key, lines));
                let seen = list.seen(lines, page);
                assert!(seen.contains(&list.at) || lines == 0, "{lines} {page} {key:?} {seen:?}");
                assert!(seen.len() == page.max(1).min(lines), "{lines} {page} {seen:?}");
            }
        }
        assert!(!list.moves(Key::Enter, 3));
    }
}
