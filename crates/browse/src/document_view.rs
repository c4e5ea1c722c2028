//! What a command prints, to be scrolled and searched.

use std::ops::Range;

use pmuscope_report::Key;

use crate::command::CommandLine;
use crate::hints::{line_without_hints, without_hints};
use crate::list::ListPosition;
use crate::sgr::{StyledPiece, pieces};

/// Columns that a key moves sideways.
const SIDEWAYS: usize = 8;
/// Lines that are kept: a listing of all samples is for a file.
const MOST_LINES: usize = 200_000;

/// How far the command is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CommandState {
    Runs,
    Ended,
    Failed(String),
}

/// The view.
#[derive(Clone)]
pub(crate) struct DocumentView {
    title: String,
    command: CommandLine,
    state: CommandState,
    lines: Vec<Vec<StyledPiece>>,
    left_out: usize,
    list: ListPosition,
    column: usize,
    search: String,
}

impl DocumentView {
    pub(crate) fn new(title: &str, command: CommandLine) -> Self {
        Self {
            title: title.to_owned(),
            command,
            state: CommandState::Runs,
            lines: Vec::new(),
            left_out: 0,
            list: ListPosition::default(),
            column: 0,
            search: String::new(),
        }
    }

    /// What the command printed, and why it failed.
    pub(crate) fn take(&mut self, text: &str, failure: Option<&str>) {
        let failure = failure.map(without_hints);
        let all = text.lines().map(line_without_hints);
        self.lines = all.clone().take(MOST_LINES).map(pieces).collect();
        self.left_out = all.skip(MOST_LINES).count();
        self.state = failure.map_or(CommandState::Ended, CommandState::Failed);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == CommandState::Runs
    }

    pub(crate) fn command(&self) -> CommandLine {
        self.command.clone()
    }

    pub(crate) fn state(&self) -> String {
        let mut out = self.title.clone();
        match &self.state {
            CommandState::Runs => out += ", running …",
            CommandState::Ended => {}
            CommandState::Failed(_) => out += ", failed",
        }
        if self.left_out > 0 {
            out += &format!(", {} further lines left out", self.left_out);
        }
        out
    }

    /// What went wrong, to be shown above the lines.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            CommandState::Failed(why) => Some(why),
            _ => None,
        }
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.lines.len())
    }

    pub(crate) fn text_searched(&self) -> &str {
        &self.search
    }

    /// Goes to the first line from here on that has a text.
    pub(crate) fn search(&mut self, text: &str) {
        text.clone_into(&mut self.search);
        self.find(0, true);
    }

    /// Whether the key was one of the view's.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        match key {
            Key::Right => self.column += SIDEWAYS,
            Key::Left if self.column > 0 => self.column = self.column.saturating_sub(SIDEWAYS),
            Key::Char('n') => self.find(1, true),
            Key::Char('N') => self.find(1, false),
            key => return self.list.moves(key, self.lines.len()),
        }
        true
    }

    fn find(&mut self, from: usize, forward: bool) {
        if self.search.is_empty() {
            return;
        }
        let wanted = self.search.to_lowercase();
        let lines = self.lines.len();
        let has = |at: &usize| {
            let text: String = self.lines[*at].iter().map(|(text, _)| &**text).collect();
            text.to_lowercase().contains(&wanted)
        };
        let steps = (from..lines + from).map(|step| match forward {
            true => (self.list.at + step) % lines,
            false => (self.list.at + lines - step % lines) % lines,
        });
        if let Some(at) = steps.into_iter().find(has) {
            self.list.at = at;
        }
    }

    /// The lines that are seen.
    pub(crate) fn seen(&mut self, height: usize) -> (&[Vec<StyledPiece>], usize) {
        let seen: Range<usize> = self.list.scrolled(self.lines.len(), height);
        (&self.lines[seen], self.column)
    }
}
