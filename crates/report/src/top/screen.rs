//! The screen of what runs: its state, what keys do to it, and how it is drawn. It knows no terminal.
//!
//! ```text
//!  cpu-clock every 1.00 ms, 2.00 s on 2 CPUs, 3,986 samples, 996/s per CPU    now
//!  overhead: 1.1% of CPU time · lost 0 · throttled 0 · software timer
//!  by function, largest first · rows 1-18 of 214 · filter: xz · paused
//!     self  95% CI  samples  comm  DSO                function
//!   50.22%   ±1.23    6,014  xz    liblzma.so.5.4.1   lzma_code
//!  …
//!  q quit  space pause  f function  c comm  p process  u CPU  n node  s sort  / filter  ? help
//! ```

use std::collections::BTreeMap;

use pmuscope_profile::Profile;
use pmuscope_profile::views::{Key as RowKey, Row};
use ratatui_core::style::{Modifier, Style as CellStyle};
use ratatui_core::terminal::Frame;

use super::{TopBy, TopView};
use crate::recording::{RowLimits, event_name, head_text};
use crate::views::{RowsBy, rows_text};
use crate::{Style, escape, number};

/// Rows that get an interval: nobody scrolls further to see one.
const INTERVALS: usize = 100;
/// Lines that are no rows: two of the head, the state, the table's head, the keys.
const OTHER_LINES: usize = 5;
/// Characters of a filter: more than any name is looked for by.
const LONGEST_FILTER: usize = 80;

const KEYS: &str =
    "q quit  space pause  f function  c comm  p process  u CPU  n node  s sort  / filter  ? help";

const HELP: [&str; 17] = [
    "q, Ctrl-C   quit",
    "space       pause, resume",
    "f           rows by function, with DSO and comm",
    "c           rows by comm (thread name)",
    "p           rows by process",
    "u           rows by CPU",
    "n           rows by NUMA node",
    "e           next event, where there are several",
    "s           sort by share, by name",
    "/           filter rows by text; Enter applies, Esc clears",
    "arrows      up and down; PgUp, PgDn by pages; Home the first row",
    "?, h        this help",
    "",
    "self        percentage of all samples of the interval; with a software timer idle CPUs are sampled too",
    "95% CI      half width of the confidence interval; - with too few samples",
    "overhead    CPU time of pmuscope; time the kernel spends on sampling is not included",
    "lost        records that found the buffer full: lower the frequency (-F)",
];

/// A key as the screen understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Deletes the character before.
    Backspace,
    /// A row up.
    Up,
    /// A row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// To the left, or back.
    Left,
    /// To the right.
    Right,
    /// The next of several.
    Tab,
    /// The one before.
    BackTab,
    /// The end, whatever is shown.
    Interrupt,
    /// Back to the shell for a while.
    Suspend,
}

/// What follows from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Draw.
    GoOn,
    /// Leave.
    Quit,
}

/// In which order rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Share,
    Name,
}

/// What is shown.
pub struct Screen {
    /// What the terminal can show.
    style: Style,
    /// The node of each CPU.
    nodes: BTreeMap<u32, u32>,
    by: TopBy,
    sort: Sort,
    filter: String,
    /// Keys go to the filter.
    typing: bool,
    paused: bool,
    help: bool,
    /// Number of the event among those of the profile.
    event: usize,
    /// The first row that is shown.
    first: usize,
    /// Rows that fit, as of the last drawing.
    page: usize,
    profile: Option<Profile>,
    rows: Vec<Row>,
    /// Why nothing new comes.
    over: Option<String>,
}

impl Screen {
    /// Nothing yet; `nodes` has the node of each CPU.
    #[must_use]
    pub fn new(by: TopBy, style: Style, nodes: BTreeMap<u32, u32>) -> Self {
        Self {
            style: Style { color: false, ..style },
            nodes,
            by,
            sort: Sort::Share,
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            event: 0,
            first: 0,
            page: 1,
            profile: None,
            rows: Vec::new(),
            over: None,
        }
    }

    /// The next interval; left out while paused.
    pub fn take(&mut self, profile: Profile) {
        if !self.paused {
            self.profile = Some(profile);
            self.count();
        }
    }

    /// Nothing will come any more.
    pub fn end(&mut self, why: &str) {
        self.over = Some(why.to_owned());
    }

    /// Does what a key says.
    pub fn key(&mut self, key: Key) -> Next {
        match key {
            Key::Interrupt => return Next::Quit,
            _ if self.typing => self.type_filter(key),
            Key::Char('q') => return Next::Quit,
            // Any key leaves the help.
            _ if self.help => self.help = false,
            Key::Char('?' | 'h') => self.help = true,
            Key::Char(' ') => self.paused = !self.paused,
            Key::Char('f') => self.show_by(TopBy::Function),
            Key::Char('c') => self.show_by(TopBy::Command),
            Key::Char('p') => self.show_by(TopBy::Process),
            Key::Char('u') => self.show_by(TopBy::Cpu),
            Key::Char('n') => self.show_by(TopBy::Node),
            Key::Char('e') => self.next_event(),
            Key::Char('s') => {
                self.sort = if self.sort == Sort::Share { Sort::Name } else { Sort::Share };
                self.count();
            }
            Key::Char('/') => self.typing = true,
            Key::Escape => {
                self.filter.clear();
                self.count();
            }
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.scroll(1),
            Key::PageUp => self.first = self.first.saturating_sub(self.page),
            Key::PageDown => self.scroll(self.page),
            Key::Home => self.first = 0,
            _ => {}
        }
        Next::GoOn
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.filter.chars().count() < LONGEST_FILTER => self.filter.push(c),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.first = 0;
        self.count();
    }

    fn show_by(&mut self, by: TopBy) {
        (self.by, self.first) = (by, 0);
        self.count();
    }

    fn next_event(&mut self) {
        let events = self.profile.as_ref().map_or(1, |profile| profile.events.len().max(1));
        (self.event, self.first) = ((self.event + 1) % events, 0);
        self.count();
    }

    fn scroll(&mut self, rows: usize) {
        self.first = (self.first + rows).min(self.rows.len().saturating_sub(self.page));
    }

    /// Makes rows of what was counted.
    fn count(&mut self) {
        self.rows.clear();
        let Some(profile) = &self.profile else { return };
        let Some(event) = profile.events.get(self.event) else { return };
        let node_of = |cpu: u32| self.nodes.get(&cpu).copied();
        let view = TopView { profile, node_of: &node_of };
        let mut rows = view.rows(event, self.by, INTERVALS);
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.keys.iter().any(|key| holds(key, profile, &wanted)));
        if self.sort == Sort::Name {
            let name = |row: &Row| row.keys.iter().rev().cloned().collect::<Vec<_>>();
            rows.sort_by_cached_key(name);
        }
        self.rows = rows;
        self.scroll(0);
    }

    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.page = usize::from(area.height).saturating_sub(OTHER_LINES).max(1);
        self.scroll(0);
        let lines = self.lines(area.width.into(), area.height.into());
        let buffer = frame.buffer_mut();
        for (y, (text, cell_style)) in (area.y..area.bottom()).zip(&lines) {
            buffer.set_stringn(area.x, y, text, area.width.into(), *cell_style);
        }
    }

    /// The lines of the screen, which are no more than it has.
    fn lines(&self, width: usize, height: usize) -> Vec<(String, CellStyle)> {
        let (plain, bold) = (CellStyle::new(), CellStyle::new().add_modifier(Modifier::BOLD));
        let dim = CellStyle::new().add_modifier(Modifier::DIM);
        let style = Style { width: Some(width), ..self.style };
        let show = |text: &str| style.text(text).into_owned();
        let mut lines: Vec<(String, CellStyle)> = Vec::new();
        match &self.profile {
            None => lines.push((show("counting the first interval …"), plain)),
            Some(profile) => {
                // Cut, not wrapped: lines below must stay where they are.
                let head = head_text(profile, "now", &Style { width: None, ..style });
                let cell_styles = [bold, plain];
                lines.extend(
                    head.lines()
                        .zip(cell_styles)
                        .map(|(line, cell_style)| (line.to_owned(), cell_style)),
                );
                lines.push((show(&self.state(profile)), plain));
            }
        }
        if self.help {
            lines.extend(HELP.map(|line| (show(line), plain)));
        } else if let Some(profile) = &self.profile {
            let end = (self.first + self.page).min(self.rows.len());
            let rows = &self.rows[self.first.min(end)..end];
            let (dimensions, modules) = (self.by.dimensions(), &*profile.modules);
            let by = RowsBy { dimensions, modules, children: false };
            let limits = RowLimits::ALL;
            let table = rows_text(rows, by, limits, &style);
            let cell_styles = std::iter::once(bold).chain(std::iter::repeat(plain));
            lines.extend(
                table
                    .lines()
                    .zip(cell_styles)
                    .map(|(line, cell_style)| (line.to_owned(), cell_style)),
            );
        }
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), (String::new(), plain));
        lines.push((show(KEYS), dim));
        lines
    }

    /// What is shown of it.
    fn state(&self, profile: &Profile) -> String {
        let word = TopBy::ALL.iter().find(|(_, by)| *by == self.by).map_or("", |(word, _)| word);
        let order = if self.sort == Sort::Share { "largest first" } else { "by name" };
        let mut parts = vec![format!("by {word}, {order}")];
        if let Some(event) = profile.events.get(self.event).filter(|_| profile.events.len() > 1) {
            parts.push(format!("event {}", event_name(event)));
        }
        let end = (self.first + self.page).min(self.rows.len());
        let count = |number: usize| number::count(number as u64);
        parts.push(match self.rows.len() {
            0 => "no rows".into(),
            all => format!("rows {}-{} of {}", count(self.first + 1), count(end), count(all)),
        });
        if self.typing || !self.filter.is_empty() {
            let cursor = if self.typing { "_" } else { "" };
            parts.push(format!("filter: {}{cursor}", escape(&self.filter)));
        }
        parts.extend(self.paused.then(|| "paused".to_owned()));
        parts.extend(self.over.clone());
        parts.join(" · ")
    }
}

/// Whether what is shown for a key holds a text, in lower case.
fn holds(key: &RowKey, profile: &Profile, wanted: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(wanted);
    match key {
        RowKey::Name(name) => holds(name),
        RowKey::Module(module) => {
            profile.modules.get(*module as usize).is_some_and(|module| holds(&module.path))
        }
        RowKey::Number(number) => holds(&number.to_string()),
        RowKey::Unknown => holds("[unknown]"),
        RowKey::Line(_) | RowKey::Address(_) => false,
    }
}
