//! A part of a result: what it is, then tables, sentences and pictures, in text and on pages.
//!
//! ```text
//!            ┌─ title     Hits per second                <section class="table-part" id=…><h2>…
//!  Section ──┤  about     what the columns are            <p class="dim">…
//!            └─ bodies    sheets, sentences, pictures     <table>, <p>, <svg>
//!                         and parts of their own          <section> with <h3>
//! ```

use crate::flame::Legend;
use crate::markup::{Markup, html};
use crate::recording::push_wrapped;
use crate::sheet::Sheet;
use crate::{Paint, Style, escape, wrap};

/// A part of a result.
#[derive(Debug, Default)]
pub(crate) struct Section<'a> {
    /// What links on a page lead to; empty where there are none.
    id: String,
    /// What these links say; empty: its heading.
    link: &'static str,
    /// Its heading, foreign text or ours.
    title: String,
    /// What stands below the heading.
    about: Option<String>,
    /// A terminal shows an empty line instead of the heading and what stands below it.
    is_bare: bool,
    /// A terminal does not show it.
    is_for_pages: bool,
    /// A page has it beside the part before, where there is room.
    is_beside: bool,
    /// Its heading should worry.
    worries: bool,
    bodies: Vec<Body<'a>>,
}

/// What a part holds.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// A table.
    Sheet(Sheet<'a>),
    /// A sentence.
    Line(String),
    /// Lines that are shown as they are. Foreign text in them is escaped.
    Listing(String),
    /// A picture, on pages only; its numbers are elsewhere, too.
    Picture(Markup),
    /// What the colors of a table stand for, on pages only.
    Legend(Legend),
    /// Room between what stands before and after it, in text.
    Gap,
    /// A part of the part. At a terminal its table says what it is: it has no heading there.
    Part(Section<'a>),
}

impl<'a> Section<'a> {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// What stands below the heading.
    pub(crate) fn about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    /// At a terminal, an empty line stands for heading and explanation.
    pub(crate) fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Not at a terminal, if `is`.
    pub(crate) fn for_pages(mut self, is: bool) -> Self {
        self.is_for_pages = is;
        self
    }

    /// On a page beside the part before, where there is room.
    pub(crate) fn beside(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Links of a page say this instead of its heading.
    pub(crate) fn linked_as(mut self, link: &'static str) -> Self {
        self.link = link;
        self
    }

    /// Its heading should worry, if `does`.
    pub(crate) fn which_worries(mut self, does: bool) -> Self {
        self.worries = does;
        self
    }

    /// A part of it, where that holds anything.
    pub(crate) fn part(self, part: Section<'a>) -> Self {
        if part.bodies.is_empty() { self } else { self.with(Body::Part(part)) }
    }

    pub(crate) fn with(mut self, body: Body<'a>) -> Self {
        self.bodies.push(body);
        self
    }

    /// A table, where it has rows.
    pub(crate) fn sheet(self, sheet: Sheet<'a>) -> Self {
        if sheet.is_empty() { self } else { self.with(Body::Sheet(sheet)) }
    }

    /// A sentence, where there is one.
    pub(crate) fn line(self, line: Option<String>) -> Self {
        match line {
            Some(line) => self.with(Body::Line(line)),
            None => self,
        }
    }

    /// Lines that are shown as they are, where there are any.
    pub(crate) fn listing(self, lines: Option<String>) -> Self {
        match lines {
            Some(lines) => self.with(Body::Listing(lines)),
            None => self,
        }
    }

    /// A picture, where there is one.
    pub(crate) fn picture(self, picture: Option<Markup>) -> Self {
        match picture {
            Some(picture) => self.with(Body::Picture(picture)),
            None => self,
        }
    }

    /// What colors stand for, where there are any.
    pub(crate) fn legend(self, legend: Option<Legend>) -> Self {
        match legend {
            Some(legend) => self.with(Body::Legend(legend)),
            None => self,
        }
    }

    /// Id and title, for the links of a page to its parts.
    pub(crate) fn link(&self) -> (String, &str) {
        (self.id.clone(), if self.link.is_empty() { &self.title } else { self.link })
    }

    /// Appends it for a terminal, after an empty line.
    pub(crate) fn push_text(&self, out: &mut String, style: &Style) {
        out.push('\n');
        if !self.is_bare {
            let title = wrap(&style.text(&escape(&self.title)), style.width, 2);
            out.push_str(&format!("{}\n", style.paint(Paint::Bold, &title)));
            if let Some(about) = &self.about {
                push_wrapped(out, about, style);
            }
        }
        self.push_bodies(out, style);
    }

    fn push_bodies(&self, out: &mut String, style: &Style) {
        for (at, body) in self.bodies.iter().enumerate() {
            match body {
                Body::Sheet(sheet) => out.push_str(&sheet.text(style)),
                Body::Line(line) => push_wrapped(out, line, style),
                Body::Listing(lines) => out.push_str(&format!("{}\n", style.text(lines))),
                Body::Gap => out.push('\n'),
                Body::Part(part) if !part.is_for_pages => {
                    let has_table = part.bodies.iter().any(|body| matches!(body, Body::Sheet(_)));
                    out.push_str(if at > 0 && has_table { "\n" } else { "" });
                    part.push_bodies(out, style);
                }
                Body::Picture(_) | Body::Legend(_) | Body::Part(_) => {}
            }
        }
    }

    /// It for a page.
    pub(crate) fn html(&self) -> Markup {
        self.html_at(false)
    }

    /// It within another part of a page.
    pub(crate) fn inner_html(&self) -> Markup {
        self.html_at(true)
    }

    fn html_at(&self, is_inner: bool) -> Markup {
        let has_parts = self.bodies.iter().any(|body| matches!(body, Body::Part(_)));
        let id = Some(&self.id).filter(|id| !id.is_empty());
        html! {
            section class={ (if has_parts { "target" } else { "table-part" }) @if self.is_beside { " beside" } } id=[id] {
                @if is_inner && !self.title.is_empty() {
                    h3 { (self.title) }
                } @else if !self.title.is_empty() {
                    h2 class=[self.worries.then_some("bad")] { (self.title) }
                }
                @if let Some(about) = &self.about { p class="dim" { (about) } }
                @for body in &self.bodies {
                    @match body {
                        Body::Sheet(sheet) => (sheet.html()),
                        Body::Line(line) => p { (line) },
                        Body::Listing(lines) => div class="wide" { pre { (lines) } },
                        Body::Picture(picture) => div class="wide" { (picture) },
                        Body::Legend(legend) => (crate::html::legend(legend)),
                        Body::Gap => {},
                        Body::Part(part) => (part.html_at(true)),
                    }
                }
            }
            "\n"
        }
    }
}

/// Parts one after another, with links to them where there are several.
pub(crate) fn sections_html(sections: &[Section<'_>]) -> Markup {
    let links = sections.iter().filter(|section| !section.id.is_empty());
    html! {
        @if sections.len() > 1 {
            (crate::html::contents(links.map(Section::link)))
        }
        @for section in sections { (section.html()) }
    }
}
