//! How a browser is drawn.
//!
//! ```text
//!  x.data: cpu-clock, 12,345 samples in 10.0 s, 2 CPUs                  head of the report: what was read,
//!  overhead 0.4% · lost 0                                               what it cost, what is missing
//!  warning: 32.1% of the call stacks lead through … (!: 2 more)         the gravest note, where there is one
//!  3,210 samples, 26.0% · filter: thread 4711 > rows with xz            what the filters leave, and which they are
//!  functions by self · 1 of 214                                         the view
//!    total    self  95% CI  comm  DSO  function
//!  …
//!  Enter menu  a annotate  t thread  …                                  keys, or what the last one came to
//! ```

use pmuscope_report::number::{count, percent};
use pmuscope_report::{Style, TableLines, escape, head_text};
use pmuscope_text::{wrap, wrap_parts};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style as CellStyle};
use ratatui_core::terminal::Frame;

use crate::browser::{Browser, Completeness, LATER, OpenView, note_text};
use crate::keys;
use crate::overlay::{Menu, Overlay};
use crate::sgr::{StyledPiece, pieces};

/// Lines of the head of the report, and from which height on they are wrapped: below it, they are cut.
const HEAD: usize = 2;
const WRAPS_FROM: u16 = 16;
/// A space where a line is not broken.
const NO_BREAK: &str = "\u{a0}";

const BOLD: CellStyle = CellStyle::new().add_modifier(Modifier::BOLD);
const DIM: CellStyle = CellStyle::new().add_modifier(Modifier::DIM);
const CHOSEN: CellStyle = CellStyle::new().add_modifier(Modifier::REVERSED);

/// A grid of characters that is written from the top.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    style: Style,
    line: u16,
}

impl Canvas<'_> {
    /// Lines that are left above the last one.
    fn room(&self) -> usize {
        usize::from(self.area.height.saturating_sub(self.line).saturating_sub(1))
    }

    /// A line of text with the program's own styles in it.
    fn line(&mut self, text: &str, style: CellStyle) {
        if self.room() > 0 {
            self.put(self.line, 0, text, style);
        }
        self.line += 1;
    }

    /// A line of pieces with styles of their own.
    fn pieces(&mut self, pieces: &[StyledPiece], style: CellStyle) {
        if self.room() > 0 {
            self.put_pieces(self.line, 0, pieces, style);
        }
        self.line += 1;
    }

    fn put(&mut self, line: u16, column: u16, text: &str, style: CellStyle) {
        self.put_pieces(line, column, &pieces(text), style);
    }

    fn put_pieces(&mut self, line: u16, column: u16, pieces: &[StyledPiece], style: CellStyle) {
        let (x, y) = (self.area.x + column, self.area.y + line);
        let mut left = usize::from(self.area.width.saturating_sub(column));
        let mut at = x;
        for (text, own) in pieces {
            let shown = self.style.text(text);
            let (next, _) = self.buffer.set_stringn(at, y, &*shown, left, own.patch(style));
            left = left.saturating_sub(usize::from(next - at));
            at = next;
        }
        // A chosen line is marked over its whole width.
        if style.add_modifier.contains(Modifier::REVERSED) {
            let rest = Rect { x: at, y, width: left as u16, height: 1 };
            self.buffer.set_style(rest, style);
        }
    }
}

impl Browser {
    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let style = Style { width: Some(area.width.into()), ..self.style };
        let mut canvas = Canvas { buffer: frame.buffer_mut(), area, style, line: 0 };
        if area.height == 0 || area.width == 0 {
            return;
        }
        self.head(&mut canvas);
        self.view(&mut canvas);
        self.last_line(&mut canvas);
        match &mut self.overlay {
            Some(Overlay::Text(text)) => {
                let width = usize::from(area.width).saturating_sub(4);
                let height = usize::from(area.height).saturating_sub(2).max(1);
                let (title, lines) = text.seen(width, height);
                let lines: Vec<String> = lines
                    .iter()
                    .map(|line| canvas.style.text(&escape(line)).into_owned())
                    .collect();
                boxed(&mut canvas, &title, &lines, None);
            }
            Some(Overlay::Menu(menu)) => draw_menu(&mut canvas, menu),
            Some(Overlay::Prompt(_)) | None => {}
        }
    }

    fn head(&self, canvas: &mut Canvas<'_>) {
        let style = Style { width: None, color: false, ..canvas.style };
        let head = head_text(self.counts.profile(), &self.origin.file, &style);
        let width = (canvas.area.height >= WRAPS_FROM).then(|| usize::from(canvas.area.width));
        let mut head = head.lines().chain(std::iter::repeat("")).take(HEAD);
        for line in wrap(head.next().unwrap_or_default(), width, 2).lines() {
            canvas.line(line, BOLD);
        }
        for line in wrap_parts(head.next().unwrap_or_default(), width, 0).lines() {
            canvas.line(line, CellStyle::new());
        }
        if let Some(line) = self.note_line(&canvas.style) {
            canvas.line(&line, CellStyle::new());
        }
        for line in wrap(&self.crumbs(), width, 2).lines() {
            canvas.line(&line.replace(NO_BREAK, " "), CellStyle::new());
        }
        canvas.line(&self.state(), CellStyle::new());
    }

    /// The gravest note, and how many more `!` shows.
    fn note_line(&self, style: &Style) -> Option<String> {
        let (mut notes, width) = (self.notes(), style.width.unwrap_or(80));
        let text = style.text(&escape(&note_text(&notes.next()?))).into_owned();
        let more = notes.count();
        let length = text.chars().count();
        let end = match more {
            0 if length <= width => return Some(text),
            0 => " (!: all)".to_owned(),
            more => format!(" (!: {more} more)"),
        };
        let room = width.saturating_sub(end.len());
        if length <= room {
            return Some(text + &end);
        }
        let dots = style.text(" …");
        let cut: String = text.chars().take(room.saturating_sub(dots.chars().count())).collect();
        Some(format!("{}{dots}{end}", cut.trim_end()))
    }

    /// What the filters leave, and which they are. Each stays on one line if it can.
    fn crumbs(&self) -> String {
        let (samples, _) = self.counts.left();
        let event = self.counts.event();
        let mut out = format!("{} samples", count(samples));
        if self.counts.profile().events.len() > 1 {
            out += &format!(" of {}", escape(event.map_or("", |event| &event.name)));
        }
        if !self.counts.steps().is_empty() {
            let all = event.map_or(0, |event| event.samples);
            out += &format!(", {}", percent(samples as f64 / all.max(1) as f64, 1));
        }
        let filters = self.filters();
        match filters.is_empty() {
            true => format!("{out}, all that was read · no filter{}", self.later()),
            false => {
                let filters = filters.iter().map(|one| one.replace(' ', NO_BREAK));
                let filters = filters.collect::<Vec<_>>().join(&format!(" >{NO_BREAK}"));
                format!("{out} · filter: {filters}{}", self.later())
            }
        }
    }

    /// All filters, in the order in which they were set.
    fn filters(&self) -> Vec<String> {
        let time = self.counts.time();
        let steps = self.counts.steps().iter().map(|step| step.label(time));
        let text = match &self.view {
            OpenView::Rows(view) => Some(view.filter()).filter(|text| !text.is_empty()),
            _ => None,
        };
        let text = text.map(|text| format!("rows with {text}"));
        let all = self.origin.labels().into_iter().chain(steps).chain(text);
        all.map(|label| escape(&label).into_owned()).collect()
    }

    /// What is not there yet.
    fn later(&self) -> String {
        match &self.completeness {
            Completeness::Whole => String::new(),
            Completeness::FunctionsOnly => format!(" · {LATER} are being read"),
            Completeness::Failed(_) => format!(" · {LATER} could not be read"),
        }
    }

    /// The view, and where in it the reader is.
    fn state(&self) -> String {
        let (state, (at, all), searched) = match &self.view {
            OpenView::Rows(view) => (view.state(), view.position(), ""),
            OpenView::Tree(view) => (view.state(), view.position(), ""),
            OpenView::Neighbors(view) => (view.state(&self.counts), view.position(), ""),
            OpenView::Time(view) => (view.state(&self.counts), view.position(), ""),
            OpenView::Document(view) => {
                (escape(&view.state()).into_owned(), view.position(), view.text_searched())
            }
            OpenView::Code(view) => {
                (escape(&view.state()).into_owned(), view.position(), view.text_searched())
            }
        };
        let place = match all {
            0 => "no lines".to_owned(),
            all => format!("{} of {}", count(at as u64 + 1), count(all as u64)),
        };
        match searched {
            "" => format!("{state} · {place}"),
            text => format!("{state} · {place} · search: {}", escape(text)),
        }
    }

    fn view(&mut self, canvas: &mut Canvas<'_>) {
        let (room, style) = (canvas.room(), canvas.style);
        match &mut self.view {
            OpenView::Rows(view) => draw_table(canvas, view.lines(&self.counts, room, &style)),
            OpenView::Tree(view) => draw_table(canvas, view.lines(&self.counts, room, &style)),
            OpenView::Neighbors(view) => draw_table(canvas, view.lines(&self.counts, room, &style)),
            OpenView::Time(view) => {
                let drawn = view.lines(&self.counts, room, &style);
                for (at, line) in drawn.lines.iter().enumerate() {
                    let style = if drawn.chosen == Some(at) { BOLD } else { CellStyle::new() };
                    let y = canvas.line;
                    canvas.line(line, style);
                    let last = at + 1 == drawn.lines.len();
                    let columns = drawn.span.start.min(canvas.area.width.into()) as u16
                        ..drawn.span.end.min(canvas.area.width.into()) as u16;
                    if !last && y + 1 < canvas.area.height {
                        let (x, y) = (canvas.area.x + columns.start, canvas.area.y + y);
                        let span = Rect { x, y, width: columns.end - columns.start, height: 1 };
                        canvas.buffer.set_style(span, CHOSEN);
                    }
                }
            }
            OpenView::Document(view) => {
                draw_failure(canvas, view.failure());
                let (lines, column) = view.seen(canvas.room());
                for line in lines {
                    let mut skip = column;
                    let shown: Vec<StyledPiece> = line
                        .iter()
                        .map(|(text, style)| {
                            let all = text.chars().count();
                            let shown: String = text.chars().skip(skip).collect();
                            skip = skip.saturating_sub(all);
                            (shown, *style)
                        })
                        .collect();
                    canvas.pieces(&shown, CellStyle::new());
                }
            }
            OpenView::Code(view) => {
                draw_failure(canvas, view.failure());
                if view.failure().is_none() && !view.is_running() {
                    let (head, lines, chosen) = view.lines(canvas.room(), &style);
                    canvas.line(&head, BOLD);
                    for (at, line) in lines.iter().enumerate() {
                        let over = if at == chosen { CHOSEN } else { CellStyle::new() };
                        canvas.pieces(line, over);
                    }
                }
            }
        }
    }

    fn last_line(&self, canvas: &mut Canvas<'_>) {
        let y = canvas.area.height - 1;
        if let Some(Overlay::Prompt(prompt)) = &self.overlay {
            let text = format!("{}{}_", prompt.label(), escape(&prompt.text));
            canvas.put(y, 0, &text, BOLD);
            return;
        }
        match &self.message {
            Some(message) => canvas.put(y, 0, &escape(message), BOLD),
            None => {
                let keys = match &self.view {
                    OpenView::Time(_) => keys::TIME_LINE,
                    OpenView::Document(_) => keys::TEXT_LINE,
                    OpenView::Code(_) => keys::CODE_LINE,
                    _ => keys::LINE,
                };
                canvas.put(y, 0, keys, DIM);
            }
        }
    }
}

fn draw_failure(canvas: &mut Canvas<'_>, why: Option<&str>) {
    let Some(why) = why else { return };
    for line in wrap(&escape(why), canvas.style.width, 0).lines() {
        canvas.line(line, BOLD);
    }
}

fn draw_table(canvas: &mut Canvas<'_>, (lines, chosen): (TableLines, usize)) {
    for line in &lines.head {
        canvas.line(line.trim_end(), BOLD);
    }
    for (at, line) in lines.rows.iter().enumerate() {
        let style = if at == chosen { CHOSEN } else { CellStyle::new() };
        canvas.line(line.trim_end(), style);
    }
}

fn draw_menu(canvas: &mut Canvas<'_>, menu: &mut Menu) {
    let room = usize::from(canvas.area.height).saturating_sub(4).max(1);
    let (lines, chosen) = menu.lines(room.min(menu.len()));
    let lines: Vec<String> = lines.iter().map(|line| escape(line).into_owned()).collect();
    boxed(canvas, menu.title, &lines, Some(chosen));
}

/// Lines in a frame, over what is there; `chosen` is marked.
fn boxed(canvas: &mut Canvas<'_>, title: &str, lines: &[String], chosen: Option<usize>) {
    let area = canvas.area;
    let [line, side, corners @ ..] = match canvas.style.unicode {
        true => ["─", "│", "┌", "┐", "└", "┘"],
        false => ["-", "|", "+", "+", "+", "+"],
    };
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (widest.max(title.chars().count() + 2) + 4).min(area.width.into());
    let height = (lines.len() + 2).min(area.height.into());
    let left = (usize::from(area.width) - width) / 2;
    let top = (usize::from(area.height) - height) / 2;
    let inner = width.saturating_sub(4);
    for row in 0..height {
        let y = (top + row) as u16;
        let text = if row == 0 {
            let title = format!("{}{line} {title} ", corners[0]);
            let rest = width.saturating_sub(title.chars().count() + 1);
            format!("{title}{}{}", line.repeat(rest), corners[1])
        } else if row + 1 == height {
            format!("{}{}{}", corners[2], line.repeat(width.saturating_sub(2)), corners[3])
        } else {
            let cut: String = lines[row - 1].chars().take(inner).collect();
            let fill = " ".repeat(inner.saturating_sub(cut.chars().count()));
            format!("{side} {cut}{fill} {side}")
        };
        let blank = Rect { x: area.x + left as u16, y: area.y + y, width: width as u16, height: 1 };
        canvas.buffer.set_style(blank, CellStyle::reset());
        let style = if row > 0 && chosen == Some(row - 1) { CHOSEN } else { CellStyle::reset() };
        canvas.buffer.set_stringn(blank.x, blank.y, &text, width, style);
    }
}
