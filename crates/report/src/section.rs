//! A part of a result: what it is, then tables, sentences and pictures, in text and on pages.
//!
//! ```text
//!            ┌─ title     Hits per second                <section class="table-part" id=…><h2>…
//!  Section ──┤  about     what the columns are            <p class="dim">…
//!            └─ bodies    sheets, sentences, pictures     <table>, <p>, <svg>
//! ```

use crate::flame::Legend;
use crate::markup::{Markup, html};
use crate::recording::push_wrapped;
use crate::sheet::Sheet;
use crate::{Paint, Style, escape};

/// A part of a result.
#[derive(Debug, Default)]
pub(crate) struct Section<'a> {
    /// What links on a page lead to.
    id: String,
    /// Its heading, foreign text or ours.
    title: String,
    /// What stands below the heading.
    about: Option<String>,
    bodies: Vec<Body<'a>>,
}

/// What a part holds.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// A table.
    Sheet(Sheet<'a>),
    /// A sentence.
    Line(String),
    /// A picture, on pages only; its numbers are elsewhere, too.
    Picture(Markup),
    /// What the colors of a table stand for, on pages only.
    Legend(Legend),
    /// Room between what stands before and after it, in text.
    Gap,
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
        (self.id.clone(), &self.title)
    }

    /// Appends it for a terminal, after an empty line.
    pub(crate) fn push_text(&self, out: &mut String, style: &Style) {
        let title = style.text(&escape(&self.title)).into_owned();
        out.push_str(&format!("\n{}\n", style.paint(Paint::Bold, &title)));
        if let Some(about) = &self.about {
            push_wrapped(out, about, style);
        }
        for body in &self.bodies {
            match body {
                Body::Sheet(sheet) => out.push_str(&sheet.text(style)),
                Body::Line(line) => push_wrapped(out, line, style),
                Body::Gap => out.push('\n'),
                Body::Picture(_) | Body::Legend(_) => {}
            }
        }
    }

    /// It for a page.
    pub(crate) fn html(&self) -> Markup {
        html! {
            section class="table-part" id=(self.id) {
                h2 { (self.title) }
                @if let Some(about) = &self.about { p class="dim" { (about) } }
                @for body in &self.bodies {
                    @match body {
                        Body::Sheet(sheet) => (sheet.html()),
                        Body::Line(line) => p { (line) },
                        Body::Picture(picture) => div class="wide" { (picture) },
                        Body::Legend(legend) => (crate::html::legend(legend)),
                        Body::Gap => {},
                    }
                }
            }
            "\n"
        }
    }
}

/// Parts one after another, with links to them where there are several.
pub(crate) fn sections_html(sections: &[Section<'_>]) -> Markup {
    html! {
        @if sections.len() > 1 { (crate::html::contents(sections.iter().map(Section::link))) }
        @for section in sections { (section.html()) }
    }
}
