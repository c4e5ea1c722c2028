//! The state of looking around: which view, which filters, what keys do to them.

use pmuscope_profile::Profile;
use pmuscope_profile::views::{CallSite, Direction};
use pmuscope_report::{Key, Note, Style, browser_notes};

use crate::code_view::CodeView;
use crate::command::CommandLine;
use crate::document_view::DocumentView;
use crate::flags::{PRINTED, RecordingFlags};
use crate::hints::without_hints;
use crate::keys;
use crate::neighbors_view::NeighborsView;
use crate::overlay::{Breaks, Menu, MenuPick, Overlay, Prompt, PromptFor, TextBox};
use crate::rows_view::{RowsKind, RowsView};
use crate::seen::SeenCounts;
use crate::step::{FilterStep, typed_span};
use crate::subject::{Action, CodeOf, Subject};
use crate::time_view::TimeView;
use crate::tree_view::TreeView;

/// Views that a reader can go back to.
const MOST_BEFORE: usize = 100;

/// What a command has printed does not follow filters.
const NOT_IN_TEXT: &str = "filters are set in tables. Esc goes back to one";

/// What is read after functions.
pub(crate) const LATER: &str = "callers, threads, and CPUs";

/// What follows from a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// Draw.
    GoOn,
    /// Leave.
    Quit,
    /// Leave, and print the command of what was seen.
    QuitWith(CommandLine),
    /// Run a command and hand in what came of it; one that runs is of no use any more.
    Run(CommandJob),
    /// Stop the command that runs.
    Cancel,
}

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandJob {
    /// Which one it is.
    pub number: u64,
    /// The command.
    pub command: CommandLine,
}

/// Output of a command, or its error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Standard output.
    pub text: String,
    /// Standard error.
    pub messages: String,
    /// Why it failed.
    pub failure: Option<String>,
}

/// One of the views.
#[derive(Clone)]
pub(crate) enum OpenView {
    Rows(RowsView),
    Tree(TreeView),
    Neighbors(NeighborsView),
    Time(TimeView),
    Document(DocumentView),
    Code(CodeView),
}

/// How much of the recording is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Completeness {
    Whole,
    /// Functions by command; callers, threads, and CPUs are being read.
    FunctionsOnly,
    /// These could not be read, for this reason.
    Failed(String),
}

/// Where a reader was.
struct FormerView {
    view: OpenView,
    steps: Vec<FilterStep>,
}

/// A profile, looked around in.
pub struct Browser {
    pub(crate) counts: SeenCounts,
    pub(crate) origin: RecordingFlags,
    /// What the terminal can show.
    pub(crate) style: Style,
    pub(crate) view: OpenView,
    before: Vec<FormerView>,
    pub(crate) overlay: Option<Overlay>,
    /// What the last key came to, until the next one.
    pub(crate) message: Option<String>,
    pub(crate) completeness: Completeness,
    /// Warnings and notes of the recording, the gravest first.
    pub(crate) notes: Vec<Note>,
    /// The file is another one than the one that was read.
    pub(crate) is_replaced: bool,
    /// Number of the last command, and whether it writes a file.
    job: u64,
    export: Option<String>,
}

impl Browser {
    /// Functions of all that was read. `nodes` has the node of each CPU.
    #[must_use]
    pub fn new(
        profile: Profile,
        origin: RecordingFlags,
        nodes: std::collections::BTreeMap<u32, u32>,
        style: Style,
    ) -> Self {
        let notes = browser_notes(&profile);
        let counts = SeenCounts::new(profile, nodes);
        let mut view = RowsView::new(RowsKind::Functions);
        view.count(&counts);
        Self {
            counts,
            origin,
            style,
            view: OpenView::Rows(view),
            before: Vec::new(),
            overlay: None,
            message: None,
            completeness: Completeness::Whole,
            notes,
            is_replaced: false,
            job: 0,
            export: None,
        }
    }

    /// The same, where the profile has only functions by command: callers, threads, and CPUs are still being read,
    /// and [`Browser::take_whole`] is called with them.
    #[must_use]
    pub fn of_functions_first(self) -> Self {
        Self { completeness: Completeness::FunctionsOnly, ..self }
    }

    /// The profile of the same samples with all that is kept; or why there is none. The reader stays where he is.
    pub fn take_whole(&mut self, whole: Result<Profile, String>) {
        match whole {
            Ok(profile) => {
                self.notes = browser_notes(&profile);
                if let OpenView::Rows(view) = &mut self.view {
                    view.put_aside(&self.counts);
                }
                let modules = self.counts.replace_profile(profile);
                let before = self.before.iter_mut().map(|former| &mut former.view);
                for view in before.chain([&mut self.view]) {
                    if let OpenView::Rows(view) = view {
                        view.renumber(&modules);
                    }
                }
                count(&mut self.view, &self.counts);
                self.completeness = Completeness::Whole;
            }
            Err(why) => self.completeness = Completeness::Failed(why),
        }
    }

    /// Whether something must be refused because it takes what is not read yet.
    fn is_too_early(&mut self) -> bool {
        self.message = match &self.completeness {
            Completeness::Whole => return false,
            Completeness::FunctionsOnly => Some(format!("{LATER} are still being read")),
            Completeness::Failed(why) => Some(format!("{LATER} could not be read: {why}")),
        };
        true
    }

    /// Does what a key says.
    pub fn key(&mut self, key: Key) -> After {
        self.message = None;
        if key == Key::Interrupt {
            return After::Quit;
        }
        match self.overlay.take() {
            None => self.view_key(key),
            Some(Overlay::Text(mut text)) => {
                if text.key(key) {
                    self.overlay = Some(Overlay::Text(text));
                }
                After::GoOn
            }
            Some(Overlay::Menu(menu)) => self.menu_key(menu, key),
            Some(Overlay::Prompt(prompt)) => self.prompt_key(prompt, key),
        }
    }

    /// Does what can wait until no key does: intervals. Whether what is drawn differs then.
    pub fn rest(&mut self) -> bool {
        let has_counted = matches!(self.view, OpenView::Rows(_)) && self.counts.count_intervals();
        if has_counted && self.counts.note_long_phases() {
            self.notes = browser_notes(self.counts.profile());
        }
        has_counted
    }

    /// Takes the output of a command, or its error.
    pub fn take(&mut self, number: u64, output: &CommandOutput) {
        if number != self.job {
            return;
        }
        let CommandOutput { text, messages, failure } = output;
        let failure = failure.as_deref();
        if let Some(file) = self.export.take() {
            self.message = Some(match failure {
                None => format!("wrote {file}"),
                Some(why) => format!("{file} was not written: {}", without_hints(why)),
            });
            return;
        }
        match &mut self.view {
            OpenView::Document(view) if view.is_running() => {
                let text = match messages.trim_end() {
                    "" => text.clone(),
                    messages => format!("{messages}\n\n{text}"),
                };
                view.take(&text, failure);
            }
            OpenView::Code(view) if view.is_running() => view.take(text, failure),
            _ => {}
        }
    }

    /// The file is another one now, or was changed: commands would read something else than what is shown.
    pub fn set_replaced(&mut self) {
        self.is_replaced = true;
    }

    /// Whether something must be refused because it would read another file.
    fn is_too_late(&mut self) -> bool {
        if self.is_replaced {
            self.message = Some(format!("{} was replaced: browse it anew", self.origin.file));
        }
        self.is_replaced
    }

    fn view_key(&mut self, key: Key) -> After {
        let counts = &self.counts;
        let is_done = match &mut self.view {
            OpenView::Rows(view) => view.key(key, counts),
            OpenView::Tree(view) => view.key(key, counts) || key == Key::Left && view.close(counts),
            OpenView::Neighbors(view) => view.key(key),
            OpenView::Time(view) => view.key(key, counts),
            OpenView::Document(view) => view.key(key),
            OpenView::Code(view) => {
                let done = view.key(key);
                self.message = done.flatten().map(str::to_owned);
                done.is_some()
            }
        };
        if is_done { After::GoOn } else { self.common_key(key) }
    }

    fn common_key(&mut self, key: Key) -> After {
        match key {
            Key::Char('q') => return After::Quit,
            Key::Char('Q') => return After::QuitWith(self.command()),
            Key::Char('?' | 'h') => {
                let help = keys::HELP.map(str::to_owned).to_vec();
                self.open_text("keys", help, Breaks::AtSpaces);
            }
            Key::Char(':') => {
                let command = vec![self.command().shell()];
                self.open_text("the command that prints this view", command, Breaks::Anywhere);
            }
            Key::Char('!') => self.show_notes(),
            Key::Right => self.show_in_full(),
            Key::Escape | Key::Left => return self.back(),
            Key::Char('z') => self.drop_steps(1),
            Key::Char('Z') => self.drop_steps(usize::MAX),
            Key::Char('v') => self.overlay = Some(Overlay::Menu(Menu::of_views())),
            Key::Char('/') if matches!(self.view, OpenView::Time(_)) => self.ask(PromptFor::Span),
            Key::Char('/') => self.ask(PromptFor::Filter),
            Key::Char('e' | 'P') => self.ask(PromptFor::Export),
            Key::Char('k') => self.keep_kernel(),
            Key::Char('i') => return self.print('i'),
            Key::Tab => self.turn_event(true),
            Key::BackTab => self.turn_event(false),
            Key::Char(digit @ '1'..='9') => self.go_to(digit),
            Key::Enter => return self.enter(),
            Key::Char('m') => self.open_menu(),
            Key::Char(letter) => return self.act_by(letter),
            _ => {}
        }
        After::GoOn
    }

    /// Enter on a line.
    fn enter(&mut self) -> After {
        match &mut self.view {
            OpenView::Time(view) => {
                if let Some(step) = view.enter(&self.counts) {
                    self.keep(step);
                }
            }
            OpenView::Neighbors(view) if !view.is_at_function() => {
                if let Some(site) = view.chosen().cloned() {
                    self.open(OpenView::Neighbors(NeighborsView::new(site)));
                }
            }
            _ => self.open_menu(),
        }
        After::GoOn
    }

    fn subject(&self) -> Subject {
        match &self.view {
            OpenView::Rows(view) => view.subject(&self.counts),
            OpenView::Tree(view) => view.subject(&self.counts),
            OpenView::Neighbors(view) => view.subject(),
            OpenView::Time(view) => view.subject(),
            OpenView::Document(_) | OpenView::Code(_) => Subject::default(),
        }
    }

    fn open_text(&mut self, title: &str, paragraphs: Vec<String>, breaks: Breaks) {
        self.overlay = Some(Overlay::Text(TextBox::new(title, paragraphs, breaks)));
    }

    /// All warnings and notes.
    fn show_notes(&mut self) {
        let notes: Vec<String> = self.notes().map(|note| note_text(&note)).collect();
        match notes.is_empty() {
            true => self.message = Some("there are no warnings and notes on this recording".into()),
            false => self.open_text("warnings and notes", notes, Breaks::AtSpaces),
        }
    }

    /// Warnings and notes, the gravest first.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> + '_ {
        let replaced = self.is_replaced.then(|| Note {
            warning: true,
            text: format!(
                "{} was replaced or changed after it was read. What is shown is what was read; code and views of v need \
                 browse anew.",
                self.origin.file
            ),
        });
        replaced.into_iter().chain(self.notes.iter().cloned())
    }

    /// The names of the line, which a table may have shortened.
    fn show_in_full(&mut self) {
        let names = self.subject().in_full(self.counts.modules());
        if !names.is_empty() {
            self.open_text("this line", names, Breaks::Anywhere);
        }
    }

    fn open_menu(&mut self) {
        let choices = self.subject().choices(self.counts.modules());
        if choices.is_empty() {
            self.message = Some("nothing can be done with this line".into());
            return;
        }
        self.overlay = Some(Overlay::Menu(Menu::of_line(choices)));
    }

    fn act_by(&mut self, letter: char) -> After {
        let choices = self.subject().choices(self.counts.modules());
        match choices.into_iter().find(|choice| choice.key == letter) {
            Some(choice) => self.act(choice.action),
            None => {
                self.message = Some(format!("{letter}: no such key here (? lists them)"));
                After::GoOn
            }
        }
    }

    fn act(&mut self, action: Action) -> After {
        match action {
            Action::Keep(step) => self.keep(step),
            Action::Neighbors(site, comm) => self.open_neighbors(site, comm),
            Action::Annotate(code) => return self.annotate(&code),
        }
        After::GoOn
    }

    /// Callers and callees, in a comm where the row is of one.
    fn open_neighbors(&mut self, site: CallSite, comm: Option<std::sync::Arc<str>>) {
        if self.is_too_early() {
            return;
        }
        let before = self.counts.steps().to_vec();
        let left = self.counts.left();
        if let Some(step) = comm.map(FilterStep::Comm).filter(|step| !before.contains(step)) {
            self.counts.set_steps([&before[..], &[step]].concat());
            // A filter that leaves everything says nothing.
            if self.counts.left() == left {
                self.counts.set_steps(before.clone());
            }
        }
        self.open_from(OpenView::Neighbors(NeighborsView::new(site)), before);
    }

    fn annotate(&mut self, code: &CodeOf) -> After {
        if self.is_too_late() {
            return After::GoOn;
        }
        let CodeOf { function, inlined_into, module, listing } = code;
        let name = function.as_deref().unwrap_or("[unknown]");
        let line = self.origin.annotate(self.counts.steps(), self.counts.time());
        let mut line = self.of_event(line).with(["--annotate", name]);
        let mut title = format!("code of {name}");
        if let Some(module) = self.counts.modules().get(*module as usize) {
            let same = self.counts.modules().iter().filter(|one| one.path == module.path);
            let id = module.build_id.as_ref().filter(|_| same.count() > 1);
            let dso = id.map_or_else(|| module.path.clone(), ToString::to_string);
            line = line.with(["--dso".to_owned(), dso]);
            title += &format!(" in {}", module.short_name());
        }
        if let Some(outer) = inlined_into {
            line = line.with(["--inlined-into", outer]);
            title += &format!(", inlined into {outer}");
        }
        self.open(OpenView::Code(CodeView::new(&title, *listing, line.clone())));
        (self.job, self.export) = (self.job + 1, None);
        After::Run(CommandJob { number: self.job, command: line.with(["--json"]) })
    }

    fn print(&mut self, key: char) -> After {
        let Some(view) = PRINTED.iter().find(|view| view.key == key) else { return After::GoOn };
        if self.is_too_late() {
            return After::GoOn;
        }
        let time = *self.counts.time();
        let (line, left_out) = view.command(&self.origin, self.counts.steps(), &time);
        let title = match left_out {
            0 => view.title.to_owned(),
            1 => format!("{} (1 filter does not apply)", view.title),
            more => format!("{} ({more} filters do not apply)", view.title),
        };
        self.open_document(&title, line)
    }

    fn open_document(&mut self, title: &str, command: CommandLine) -> After {
        self.open(OpenView::Document(DocumentView::new(title, command.clone())));
        (self.job, self.export) = (self.job + 1, None);
        // Colors of the text are kept.
        let command = command.with(["--color", if self.style.color { "always" } else { "never" }]);
        After::Run(CommandJob { number: self.job, command })
    }

    fn go_to(&mut self, digit: char) {
        if digit != '1' && self.is_too_early() {
            return;
        }
        let view = match digit {
            '1' => OpenView::Rows(RowsView::new(RowsKind::Functions)),
            '2' => OpenView::Tree(TreeView::new(Direction::Callees)),
            '3' => OpenView::Tree(TreeView::new(Direction::Callers)),
            '4' => OpenView::Rows(RowsView::new(RowsKind::Threads)),
            '5' => OpenView::Rows(RowsView::new(RowsKind::Processes)),
            '6' => OpenView::Rows(RowsView::new(RowsKind::Comms)),
            '7' => OpenView::Rows(RowsView::new(RowsKind::Cpus)),
            '8' => OpenView::Rows(RowsView::new(RowsKind::Dsos)),
            _ => OpenView::Time(TimeView::new()),
        };
        self.open(view);
    }

    /// Shows a view; the one before is gone back to.
    fn open(&mut self, view: OpenView) {
        let steps = self.counts.steps().to_vec();
        self.open_from(view, steps);
    }

    /// Opens a view; the former one keeps its filters, `steps`.
    fn open_from(&mut self, mut view: OpenView, steps: Vec<FilterStep>) {
        count(&mut view, &self.counts);
        let view = std::mem::replace(&mut self.view, view);
        self.remember(FormerView { view, steps });
    }

    fn remember(&mut self, mut former: FormerView) {
        if let OpenView::Rows(view) = &mut former.view {
            view.put_aside(&self.counts);
        }
        if self.before.len() == MOST_BEFORE {
            self.before.remove(0);
        }
        self.before.push(former);
    }

    /// One filter more.
    fn keep(&mut self, step: FilterStep) {
        if self.is_too_early() {
            return;
        }
        if self.counts.steps().contains(&step) {
            self.message = Some("that filter is set already".into());
            return;
        }
        if self.is_text() {
            self.message = Some(NOT_IN_TEXT.into());
            return;
        }
        let before = self.counts.steps().to_vec();
        let label = step.label(self.counts.time());
        self.counts.set_steps([&before[..], &[step]].concat());
        if self.counts.left().0 == 0 {
            self.counts.set_steps(before);
            self.message = Some(format!("no sample would be left: {label} is not set"));
            return;
        }
        self.remember(FormerView { view: self.view.clone(), steps: before });
        count(&mut self.view, &self.counts);
        // A filter asks for the largest rows that are left, not for the row chosen before.
        if let OpenView::Rows(view) = &mut self.view {
            view.choose_first();
        }
    }

    fn keep_span(&mut self, text: &str) {
        match typed_span(self.counts.time(), text) {
            Ok(blocks) => self.keep(FilterStep::Blocks(blocks)),
            Err(why) => self.message = Some(format!("{text}: {why}")),
        }
    }

    fn keep_kernel(&mut self) {
        let kernel = self.counts.modules().iter().find(|module| module.path == "[kernel.kallsyms]");
        match kernel.map(|module| FilterStep::Dso(module.path.clone())) {
            Some(step) => self.keep(step),
            None => self.message = Some("the recording has no samples in the kernel".into()),
        }
    }

    fn set_steps(&mut self, steps: Vec<FilterStep>) {
        self.counts.set_steps(steps);
        count(&mut self.view, &self.counts);
    }

    fn drop_steps(&mut self, number: usize) {
        if self.is_text() {
            self.message = Some(NOT_IN_TEXT.into());
            return;
        }
        let mut number = number;
        let has_text = matches!(&self.view, OpenView::Rows(view) if !view.filter().is_empty());
        if has_text {
            self.set_filter("");
            number -= 1;
        }
        let mut steps = self.counts.steps().to_vec();
        if steps.is_empty() && !has_text {
            self.message = Some(match self.origin.labels().is_empty() {
                true => "no filter is set".into(),
                false => "only filters of the command line are left".into(),
            });
        }
        let left = steps.len().saturating_sub(number);
        if left < steps.len() {
            steps.truncate(left);
            self.set_steps(steps);
        }
    }

    /// Whether a command's text is shown.
    fn is_text(&self) -> bool {
        matches!(self.view, OpenView::Document(_) | OpenView::Code(_))
    }

    fn back(&mut self) -> After {
        if let OpenView::Time(view) = &mut self.view
            && view.forget_mark()
        {
            return After::GoOn;
        }
        let was_running = match &self.view {
            OpenView::Document(view) => view.is_running(),
            OpenView::Code(view) => view.is_running(),
            _ => false,
        };
        match self.before.pop() {
            Some(FormerView { view, steps }) => {
                self.view = view;
                if steps != self.counts.steps() {
                    self.counts.set_steps(steps);
                }
                count(&mut self.view, &self.counts);
            }
            None => self.message = Some("this is the first view. q quits".into()),
        }
        if was_running { After::Cancel } else { After::GoOn }
    }

    fn turn_event(&mut self, forward: bool) {
        self.counts.turn_event(forward);
        count(&mut self.view, &self.counts);
        if self.counts.left().0 == 0 && !self.counts.steps().is_empty() {
            self.message =
                Some("the filters leave no sample of this event. Z drops all filters".into());
        }
    }

    fn ask(&mut self, what: PromptFor) {
        let text = match (what, &self.view) {
            (PromptFor::Export, _) => self.export_name(),
            (PromptFor::Span, _) => String::new(),
            (PromptFor::Filter, OpenView::Rows(view)) => view.filter().to_owned(),
            (PromptFor::Filter, OpenView::Document(view)) => view.text_searched().to_owned(),
            (PromptFor::Filter, OpenView::Code(view)) => view.text_searched().to_owned(),
            (PromptFor::Filter, _) => {
                self.message = Some("this view has no filter by text".into());
                return;
            }
        };
        self.overlay = Some(Overlay::Prompt(Prompt::new(what, text)));
    }

    /// A file name with the ending of a form that the view can be written in.
    fn export_name(&self) -> String {
        match &self.view {
            OpenView::Rows(_) => "rows.csv".into(),
            OpenView::Tree(_) | OpenView::Neighbors(_) => "calls.txt".into(),
            OpenView::Time(_) => "profile.html".into(),
            OpenView::Document(_) | OpenView::Code(_) => "report.txt".into(),
        }
    }

    fn menu_key(&mut self, mut menu: Menu, key: Key) -> After {
        match menu.key(key) {
            MenuPick::Close => After::GoOn,
            MenuPick::Stay => {
                self.overlay = Some(Overlay::Menu(menu));
                After::GoOn
            }
            MenuPick::Act(action) => self.act(action),
            MenuPick::OpenView(digit) => {
                self.go_to(digit);
                After::GoOn
            }
            MenuPick::Print(key) => self.print(key),
        }
    }

    fn prompt_key(&mut self, mut prompt: Prompt, key: Key) -> After {
        let is_filter = prompt.what == PromptFor::Filter;
        match key {
            Key::Escape => {
                if is_filter {
                    self.set_filter("");
                }
                return After::GoOn;
            }
            Key::Enter if is_filter => {
                let text = prompt.text.clone();
                if self.is_text() {
                    self.set_filter(&text);
                }
                return After::GoOn;
            }
            Key::Enter if prompt.what == PromptFor::Span => {
                self.keep_span(&prompt.text);
                return After::GoOn;
            }
            Key::Enter => return self.export(prompt.text),
            key => prompt.key(key),
        }
        if is_filter {
            let text = prompt.text.clone();
            self.set_filter(&text);
        }
        self.overlay = Some(Overlay::Prompt(prompt));
        After::GoOn
    }

    fn set_filter(&mut self, text: &str) {
        match &mut self.view {
            OpenView::Rows(view) => view.set_filter(text, &self.counts),
            OpenView::Document(view) => view.search(text),
            OpenView::Code(view) => view.search(text),
            _ => {}
        }
    }

    fn export(&mut self, file: String) -> After {
        if file.is_empty() || self.is_too_late() {
            return After::GoOn;
        }
        let command = match &self.view {
            // A page has time for itself; its command says -o already.
            OpenView::Time(_) => self.report(),
            _ => self.command(),
        };
        let command = command.with(["-o".to_owned(), file.clone()]);
        self.message = Some(format!("writing {file} …"));
        (self.job, self.export) = (self.job + 1, Some(file));
        After::Run(CommandJob { number: self.job, command })
    }

    /// `report` of what the filters leave, of the event that is shown where there are several.
    fn report(&self) -> CommandLine {
        self.of_event(self.origin.report(self.counts.steps(), self.counts.time()))
    }

    /// A command of the event that is shown, where there are several.
    fn of_event(&self, report: CommandLine) -> CommandLine {
        match self.counts.event().filter(|_| self.counts.profile().events.len() > 1) {
            Some(event) => report.with(["--event", &*event.name]),
            None => report,
        }
    }

    /// The command that prints what is seen.
    pub(crate) fn command(&self) -> CommandLine {
        let report = self.report();
        match &self.view {
            OpenView::Rows(view) => view.command(report),
            OpenView::Tree(view) => view.command(report),
            OpenView::Neighbors(view) => view.command(report),
            OpenView::Time(_) => report.with(["-o", "profile.html"]),
            OpenView::Document(view) => view.command(),
            OpenView::Code(view) => view.command(),
        }
    }
}

/// Makes what a view shows anew.
fn count(view: &mut OpenView, counts: &SeenCounts) {
    match view {
        OpenView::Rows(view) => view.count(counts),
        OpenView::Tree(view) => view.count(counts),
        OpenView::Neighbors(view) => view.count(counts),
        OpenView::Time(view) => view.count(counts),
        OpenView::Document(_) | OpenView::Code(_) => {}
    }
}

/// `warning: …`, as reports print it.
pub(crate) fn note_text(note: &Note) -> String {
    let word = if note.warning { "warning" } else { "note" };
    format!("{word}: {}", note.text)
}
