//! What lies over a view: a menu, a line that is typed, the help, a command.

use pmuscope_report::Key;
use pmuscope_text::wrap;

use crate::flags::PRINTED;
use crate::list::ListPosition;
use crate::subject::{Action, Choice};

/// Characters that can be typed: more than any name is looked for by.
const LONGEST: usize = 200;

/// Views by digit.
pub(crate) const VIEWS: [(char, &str); 9] = [
    ('1', "functions"),
    ('2', "call tree from the outermost function"),
    ('3', "call tree from the sampled function"),
    ('4', "threads"),
    ('5', "processes"),
    ('6', "comms"),
    ('7', "CPUs"),
    ('8', "DSOs"),
    ('9', "time"),
];

/// What lies over a view.
pub(crate) enum Overlay {
    Text(TextBox),
    Menu(Menu),
    Prompt(Prompt),
}

/// How long lines of a text are broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    AtSpaces,
    /// It is copied as it is, or has no spaces.
    Anywhere,
}

/// A text to be read. Keys that move scroll it where it does not fit; all others close it.
pub(crate) struct TextBox {
    title: String,
    paragraphs: Vec<String>,
    breaks: Breaks,
    list: ListPosition,
    /// Lines as of the last drawing, where they did not fit.
    lines: Option<usize>,
}

impl TextBox {
    pub(crate) fn new(title: impl Into<String>, paragraphs: Vec<String>, breaks: Breaks) -> Self {
        let (title, list) = (title.into(), ListPosition::default());
        Self { title, paragraphs, breaks, list, lines: None }
    }

    /// Whether it stays open.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        self.lines.is_some_and(|lines| self.list.moves(key, lines))
    }

    /// The title, and the lines of at most `width` columns that are seen.
    pub(crate) fn seen(&mut self, width: usize, height: usize) -> (String, Vec<String>) {
        let width = width.max(8);
        let break_up = |text: &String| -> Vec<String> {
            match self.breaks {
                Breaks::AtSpaces => wrap(text, Some(width), 0).lines().map(str::to_owned).collect(),
                Breaks::Anywhere => {
                    let all: Vec<char> = text.chars().collect();
                    all.chunks(width).map(|part| part.iter().collect()).collect()
                }
            }
        };
        let lines: Vec<String> = self
            .paragraphs
            .iter()
            .flat_map(|text| if text.is_empty() { vec![String::new()] } else { break_up(text) })
            .collect();
        if lines.len() <= height {
            self.lines = None;
            return (self.title.clone(), lines);
        }
        self.lines = Some(lines.len());
        let seen = self.list.scrolled(lines.len(), height);
        let title = format!("{}, {}-{} of {}", self.title, seen.start + 1, seen.end, lines.len());
        // As wide as the widest of all lines, so that scrolling moves nothing else.
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let mut shown = lines[seen].to_vec();
        if let Some(first) = shown.first_mut() {
            let missing = widest.saturating_sub(first.chars().count());
            first.push_str(&" ".repeat(missing));
        }
        (title, shown)
    }
}

/// What is typed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptFor {
    Filter,
    /// A span of time.
    Span,
    /// The file that the view is written to.
    Export,
}

/// A line that is typed.
pub(crate) struct Prompt {
    pub(crate) what: PromptFor,
    pub(crate) text: String,
}

impl Prompt {
    pub(crate) fn new(what: PromptFor, text: String) -> Self {
        Self { what, text }
    }

    pub(crate) fn label(&self) -> &'static str {
        match self.what {
            PromptFor::Filter => "/",
            PromptFor::Span => "keep seconds FROM-TO, as in 2.5-10: ",
            PromptFor::Export => "export to (.csv, .json, .html, .txt): ",
        }
    }

    pub(crate) fn key(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.text.chars().count() < LONGEST => self.text.push(c),
            Key::Backspace => {
                self.text.pop();
            }
            _ => {}
        }
    }
}

/// An entry of a menu.
enum MenuEntry {
    Choice(Choice),
    /// A view of what was counted.
    OpenView(char, &'static str),
    /// A view that a command prints.
    Print(char, &'static str),
}

/// What a key in a menu comes to.
pub(crate) enum MenuPick {
    Close,
    Stay,
    Act(Action),
    OpenView(char),
    Print(char),
}

/// A menu.
pub(crate) struct Menu {
    pub(crate) title: &'static str,
    entries: Vec<MenuEntry>,
    list: ListPosition,
}

impl Menu {
    /// What can be done with a line.
    pub(crate) fn of_line(choices: Vec<Choice>) -> Self {
        let entries = choices.into_iter().map(MenuEntry::Choice).collect();
        Self { title: "this line", entries, list: ListPosition::default() }
    }

    /// All views.
    pub(crate) fn of_views() -> Self {
        let views = VIEWS.iter().map(|&(key, title)| MenuEntry::OpenView(key, title));
        let printed = PRINTED.iter().map(|view| MenuEntry::Print(view.key, view.title));
        Self {
            title: "views",
            entries: views.chain(printed).collect(),
            list: ListPosition::default(),
        }
    }

    pub(crate) fn key(&mut self, key: Key) -> MenuPick {
        if let Key::Char(letter) = key
            && let Some(entry) = self.entries.iter().find(|entry| entry.key() == letter)
        {
            return entry.pick();
        }
        match key {
            Key::Enter | Key::Right => {
                self.entries.get(self.list.at).map_or(MenuPick::Close, MenuEntry::pick)
            }
            Key::Escape | Key::Left | Key::Char(_) => MenuPick::Close,
            key => {
                self.list.moves(key, self.entries.len());
                MenuPick::Stay
            }
        }
    }

    /// The lines that are seen, and which of them is chosen.
    pub(crate) fn lines(&mut self, height: usize) -> (Vec<String>, usize) {
        let seen = self.list.seen(self.entries.len(), height);
        let chosen = self.list.line(&seen);
        let line = |entry: &MenuEntry| format!("{}  {}", entry.key(), entry.text());
        (self.entries[seen].iter().map(line).collect(), chosen)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl MenuEntry {
    fn key(&self) -> char {
        match self {
            Self::Choice(choice) => choice.key,
            Self::OpenView(key, _) | Self::Print(key, _) => *key,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Choice(choice) => &choice.text,
            Self::OpenView(_, title) | Self::Print(_, title) => title,
        }
    }

    fn pick(&self) -> MenuPick {
        match self {
            Self::Choice(choice) => MenuPick::Act(choice.action.clone()),
            Self::OpenView(key, _) => MenuPick::OpenView(*key),
            Self::Print(key, _) => MenuPick::Print(*key),
        }
    }
}
