//! The code of a function with its samples: source lines, or instructions.
//!
//! ```text
//!  function  samples  line                                  of the function or of all samples: p
//!                           /src/parse.c                    file
//!     0.79%        1    41  for (; *at; at++)
//!    74.07%      161    42  > sum += hash(*at);             the line under the cursor; > marks an inlined function
//! ```
//! Input: the JSON of `report --annotate`.

use std::collections::{BTreeMap, HashMap};

use pmuscope_report::number::{count, counted, percent};
use pmuscope_report::{Key, Style};
use ratatui_core::style::{Color, Modifier, Style as CellStyle};
use serde::Deserialize;

use crate::command::CommandLine;
use crate::hints::without_hints;
use crate::list::ListPosition;
use crate::sgr::StyledPiece;

/// Columns that a key moves sideways.
const SIDEWAYS: usize = 8;
/// Part of the function from which a line is hot, and very hot.
const WARM: f64 = 0.01;
const HOT: f64 = 0.05;

/// Source lines or instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeForm {
    Source,
    Assembly,
}

/// How far the command is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CodeState {
    Runs,
    Ended,
    Failed(String),
}

/// The view.
#[derive(Clone)]
pub(crate) struct CodeView {
    title: String,
    command: CommandLine,
    state: CodeState,
    listing: CodeForm,
    source: CodeList,
    assembly: CodeList,
    /// Share of the function, 0 to 1.
    own: f64,
    /// Percentages are of the function, else of all samples.
    of_function: bool,
    column: usize,
    search: String,
}

/// Lines of a listing.
#[derive(Clone, Default)]
struct CodeList {
    rows: Vec<CodeRow>,
    /// Those with samples, the hottest first; of the marked function before all others.
    hottest: Vec<usize>,
    list: ListPosition,
}

/// A line.
#[derive(Clone, Default)]
struct CodeRow {
    share: f64,
    samples: u64,
    /// Line number or address.
    place: String,
    text: String,
    is_marked: bool,
    /// It says where the lines below are from, or what is missing.
    is_aside: bool,
    /// Source file and line.
    line: Option<(String, u64)>,
}

/// The shown part of the result of `report --annotate --json`.
#[derive(Deserialize)]
struct AnnotatedFunction {
    marked: Option<String>,
    events: Vec<AnnotatedEvent>,
    #[serde(default)]
    sources: Vec<SourceExtract>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct AnnotatedEvent {
    share: f64,
    samples: u64,
    lines: Vec<PlaceHits>,
    instructions: Vec<PlaceHits>,
}

/// Samples of a line or an instruction.
#[derive(Deserialize)]
struct PlaceHits {
    share: f64,
    samples: u64,
    address: Option<String>,
    sampled_address: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    text: Option<String>,
    inlined: Option<String>,
}

#[derive(Deserialize)]
struct SourceExtract {
    file: String,
    first_line: u64,
    lines: Vec<String>,
}

impl CodeView {
    pub(crate) fn new(title: &str, listing: CodeForm, command: CommandLine) -> Self {
        Self {
            title: title.to_owned(),
            command,
            state: CodeState::Runs,
            listing,
            source: CodeList::default(),
            assembly: CodeList::default(),
            own: 0.0,
            of_function: true,
            column: 0,
            search: String::new(),
        }
    }

    /// What the command printed, or why it failed. The hottest line is chosen.
    pub(crate) fn take(&mut self, text: &str, failure: Option<&str>) {
        if let Some(why) = failure {
            self.state = CodeState::Failed(without_hints(why));
            return;
        }
        let found: AnnotatedFunction = match serde_json::from_str(text) {
            Ok(found) => found,
            Err(error) => {
                self.state =
                    CodeState::Failed(format!("the command's output has an error: {error}"));
                return;
            }
        };
        self.state = CodeState::Ended;
        let Some(event) = found.events.first() else {
            self.state = CodeState::Failed("no sample of this event is in its code".into());
            return;
        };
        self.own = event.share;
        self.source = CodeList::new(source_rows(&found, event));
        self.assembly = CodeList::new(assembly_rows(&found, event));
        if self.source.hottest.is_empty() {
            self.listing = CodeForm::Assembly;
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == CodeState::Runs
    }

    pub(crate) fn command(&self) -> CommandLine {
        self.command.clone()
    }

    /// What went wrong, to be shown above the lines.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            CodeState::Failed(why) => Some(why),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> String {
        let title = &self.title;
        match &self.state {
            CodeState::Runs => return format!("{title}, running …"),
            CodeState::Failed(_) => return format!("{title}, failed"),
            CodeState::Ended => {}
        }
        let listing = match self.listing {
            CodeForm::Source => "source",
            CodeForm::Assembly => "assembly",
        };
        let of = if self.of_function { "function" } else { "all samples" };
        let CodeList { hottest, list, .. } = self.shown();
        let hot = match hottest.iter().position(|at| *at == list.at) {
            Some(place) => format!(", hottest {} of {}", place + 1, hottest.len()),
            None => String::new(),
        };
        format!("{title} · {listing}, % of {of}{hot}")
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.shown().list.at, self.shown().rows.len())
    }

    pub(crate) fn text_searched(&self) -> &str {
        &self.search
    }

    fn shown(&self) -> &CodeList {
        match self.listing {
            CodeForm::Source => &self.source,
            CodeForm::Assembly => &self.assembly,
        }
    }

    fn shown_mut(&mut self) -> &mut CodeList {
        match self.listing {
            CodeForm::Source => &mut self.source,
            CodeForm::Assembly => &mut self.assembly,
        }
    }

    /// Goes to the first line from here on that has a text.
    pub(crate) fn search(&mut self, text: &str) {
        text.clone_into(&mut self.search);
        self.find(0, true);
    }

    /// Whether the key was one of the view's. What it came to, where there is something to say.
    pub(crate) fn key(&mut self, key: Key) -> Option<Option<&'static str>> {
        match key {
            Key::Char('H') => return Some(self.shown_mut().next_hottest()),
            Key::Char('s') => return Some(self.turn()),
            Key::Char('p') => self.of_function = !self.of_function,
            Key::Right => self.column += SIDEWAYS,
            Key::Left if self.column > 0 => self.column = self.column.saturating_sub(SIDEWAYS),
            Key::Char('n') => self.find(1, true),
            Key::Char('N') => self.find(1, false),
            key => {
                let CodeList { rows, list, .. } = self.shown_mut();
                return list.moves(key, rows.len()).then_some(None);
            }
        }
        Some(None)
    }

    /// From source to assembly, or back; the same line is chosen where the other has it.
    fn turn(&mut self) -> Option<&'static str> {
        let other = match self.listing {
            CodeForm::Source => CodeForm::Assembly,
            CodeForm::Assembly => CodeForm::Source,
        };
        let shown = self.shown();
        // Instructions of the line that is chosen, or the next line above that is one.
        let above = shown.rows.iter().take(shown.list.at + 1).rev();
        let line = above.into_iter().find_map(|row| row.line.clone());
        let before = std::mem::replace(&mut self.listing, other);
        let list = self.shown_mut();
        if list.rows.iter().all(|row| row.is_aside) {
            self.listing = before;
            return Some(match other {
                CodeForm::Source => "there is no source: the file has no debug information",
                CodeForm::Assembly => "there are no instructions",
            });
        }
        let of_line = |at: &&usize| list.rows[**at].line == line;
        let hottest = list.hottest.iter().find(of_line).copied();
        let first = || list.rows.iter().position(|row| !row.is_aside && row.line == line);
        if let Some(at) = hottest.or_else(first).or_else(|| list.hottest.first().copied()) {
            list.list.jump(at);
        }
        None
    }

    fn find(&mut self, from: usize, forward: bool) {
        if self.search.is_empty() {
            return;
        }
        let wanted = self.search.to_lowercase();
        let CodeList { rows, list, .. } = self.shown_mut();
        let lines = rows.len();
        let has = |at: &usize| rows[*at].text.to_lowercase().contains(&wanted);
        let mut steps = (from..lines + from).map(|step| match forward {
            true => (list.at + step) % lines,
            false => (list.at + lines - step % lines) % lines,
        });
        if let Some(at) = steps.find(has) {
            list.jump(at);
        }
    }

    /// The head, the lines that are seen, and which of them is chosen.
    pub(crate) fn lines(
        &mut self,
        height: usize,
        style: &Style,
    ) -> (String, Vec<Vec<StyledPiece>>, usize) {
        let (own, of_function, column) = (self.own, self.of_function, self.column);
        let listing = self.listing;
        let CodeList { rows, list, .. } = self.shown_mut();
        let seen = list.seen(rows.len(), height.saturating_sub(1));
        let place = rows.iter().map(|row| row.place.len()).max().unwrap_or(0).max(7);
        let has_marks = rows.iter().any(|row| row.is_marked);
        let of = if of_function { "function" } else { "all" };
        let what = match listing {
            CodeForm::Source => "line",
            CodeForm::Assembly => "address",
        };
        let head = format!("{of:>8}  {:>9}  {what:>place$}", "samples");
        let lines = rows[seen.clone()].iter().map(|row| {
            let part = if own > 0.0 { row.share / own } else { 0.0 };
            let numbers = match row.samples {
                0 => format!("{:>8}  {:>9}", "", ""),
                samples => {
                    let share = percent(if of_function { part } else { row.share }, 2);
                    format!("{share:>8}  {:>9}", count(samples))
                }
            };
            let mark = match (has_marks, row.is_marked) {
                (false, _) => "",
                (true, true) => "> ",
                (true, false) => "  ",
            };
            let text: String = row.text.chars().skip(column).collect();
            let heat = if row.samples > 0 { heat(part, style) } else { CellStyle::new() };
            let dim = CellStyle::new().add_modifier(Modifier::DIM);
            let code = if row.is_aside { dim } else { CellStyle::new() };
            vec![
                (numbers, heat),
                (format!("  {:>place$}  ", row.place), dim),
                (mark.to_owned(), CellStyle::new().add_modifier(Modifier::BOLD)),
                (text, code),
            ]
        });
        let (lines, chosen) = (lines.collect(), list.line(&seen));
        (head, lines, chosen)
    }
}

/// How a part of a function is drawn: red, yellow; without colors, bold.
fn heat(part: f64, style: &Style) -> CellStyle {
    let plain = CellStyle::new();
    match style.color {
        true if part >= HOT => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
        true if part >= WARM => plain.fg(Color::Yellow),
        false if part >= HOT => plain.add_modifier(Modifier::BOLD),
        _ => plain,
    }
}

impl CodeList {
    fn new(rows: Vec<CodeRow>) -> Self {
        let mut hottest: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].samples > 0).collect();
        hottest.sort_by(|&a, &b| {
            let marked = rows[b].is_marked.cmp(&rows[a].is_marked);
            marked.then(rows[b].share.total_cmp(&rows[a].share)).then(a.cmp(&b))
        });
        let mut list = ListPosition::default();
        list.jump(hottest.first().copied().unwrap_or(0));
        Self { rows, hottest, list }
    }

    /// Chooses the hottest line after the chosen one, or the hottest of all.
    fn next_hottest(&mut self) -> Option<&'static str> {
        let place = self.hottest.iter().position(|at| *at == self.list.at);
        let next = place.map_or(0, |place| (place + 1) % self.hottest.len());
        match self.hottest.get(next) {
            Some(&at) => self.list.jump(at),
            None => return Some("no line has samples"),
        }
        None
    }
}

/// What is missing, in lines.
fn notes(found: &AnnotatedFunction) -> impl Iterator<Item = CodeRow> + '_ {
    found.notes.iter().map(|note| CodeRow {
        text: format!("note: {}", without_hints(note)),
        is_aside: true,
        ..CodeRow::default()
    })
}

/// Source lines by file, that with the most samples first.
fn source_rows(found: &AnnotatedFunction, event: &AnnotatedEvent) -> Vec<CodeRow> {
    let mut files: BTreeMap<&str, BTreeMap<u64, &PlaceHits>> = BTreeMap::new();
    for hit in &event.lines {
        if let (Some(file), Some(line)) = (&hit.file, hit.line) {
            files.entry(file).or_default().insert(line, hit);
        }
    }
    let share = |hits: &BTreeMap<u64, &PlaceHits>| hits.values().map(|hit| hit.share).sum::<f64>();
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by(|a, b| share(&b.1).total_cmp(&share(&a.1)));
    // Lines without samples are of the marked function where its instructions say so.
    let marked: HashMap<(&str, u64), &str> = event
        .instructions
        .iter()
        .filter_map(|one| Some(((one.file.as_deref()?, one.line?), one.inlined.as_deref()?)))
        .collect();
    let mut rows = Vec::new();
    for (file, hits) in files {
        rows.push(CodeRow { text: file.to_owned(), is_aside: true, ..CodeRow::default() });
        let extract = found.sources.iter().find(|source| source.file == file);
        let row = |line: u64, text: Option<&String>| {
            let hit = hits.get(&line);
            let inlined = hit.and_then(|hit| hit.inlined.as_deref());
            let inlined = inlined.or_else(|| marked.get(&(file, line)).copied());
            CodeRow {
                share: hit.map_or(0.0, |hit| hit.share),
                samples: hit.map_or(0, |hit| hit.samples),
                place: line.to_string(),
                text: text.map_or_else(|| "(no source)".into(), |text| tabs(text)),
                is_marked: found.marked.is_some() && inlined == found.marked.as_deref(),
                is_aside: false,
                line: Some((file.to_owned(), line)),
            }
        };
        match extract {
            Some(SourceExtract { first_line, lines, .. }) => {
                rows.extend((*first_line..).zip(lines).map(|(at, text)| row(at, Some(text))));
                let end = first_line + lines.len() as u64;
                rows.extend(hits.range(end..).map(|(line, _)| row(*line, None)));
            }
            None => rows.extend(hits.keys().map(|line| row(*line, None))),
        }
    }
    rows.extend(notes(found));
    rows
}

/// Instructions below the source lines that they are of.
fn assembly_rows(found: &AnnotatedFunction, event: &AnnotatedEvent) -> Vec<CodeRow> {
    let text_of = |file: &str, line: u64| {
        let source = found.sources.iter().find(|source| source.file == file)?;
        source.lines.get(usize::try_from(line.checked_sub(source.first_line)?).ok()?)
    };
    let mut rows = Vec::new();
    let mut before: Option<(&str, u64)> = None;
    for one in &event.instructions {
        let line = one.file.as_deref().zip(one.line);
        if let Some((file, number)) = line.filter(|_| line != before) {
            let short = file.rsplit('/').next().unwrap_or(file);
            let text = text_of(file, number).map_or_else(String::new, |text| tabs(text));
            rows.push(CodeRow {
                text: format!("{short}:{number}  {}", text.trim_start()),
                is_aside: true,
                ..CodeRow::default()
            });
            before = line;
        }
        let address = one.address.as_ref().or(one.sampled_address.as_ref());
        rows.push(CodeRow {
            share: one.share,
            samples: one.samples,
            place: address.cloned().unwrap_or_default(),
            text: one.text.as_deref().map_or_else(String::new, |text| format!("  {}", tabs(text))),
            is_marked: found.marked.is_some() && one.inlined == found.marked,
            is_aside: false,
            line: line.map(|(file, line)| (file.to_owned(), line)),
        });
    }
    let placed: u64 = event.instructions.iter().map(|one| one.samples).sum();
    if placed < event.samples {
        let text =
            format!("note: {} have no code address", counted(event.samples - placed, "sample"));
        rows.push(CodeRow { text, is_aside: true, ..CodeRow::default() });
    }
    rows.extend(notes(found));
    rows
}

/// With tabs as terminals show them, since columns are counted.
fn tabs(text: &str) -> String {
    let text = text.trim_end().replace('\t', "        ");
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
