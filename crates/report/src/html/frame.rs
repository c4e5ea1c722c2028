//! What every page has: one head, one style, one script, one foot.
//!
//! A page is a single file that asks nothing of any network; its own policy forbids it to. Its tables and
//! pictures are complete without the script, which adds sorting, filters, search, zoom and keys.

use super::Summary;
use crate::escape_lines;
use crate::flame::svg;
use crate::markup::{DOCTYPE, Markup, PreEscaped, html};

/// No request can leave the page, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// Colors, by the scheme that the reader prefers; for pages, and for pictures that stand alone.
pub(crate) const PALETTE: &str = include_str!("palette.css");

/// Which page it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageFrame<'a> {
    /// Kind and version of the JSON that has the same numbers.
    pub(crate) schema: &'a str,
    /// Commit that the program was built from, as `--version` tells it.
    pub(crate) commit: &'a str,
}

impl PageFrame<'_> {
    /// The page: its head from `summary`, then `body`. What could act on a reader (control characters, marks of
    /// direction) is shown as an escape.
    pub(crate) fn page(&self, summary: &Summary, body: &Markup) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let page = html! {
            (DOCTYPE) "\n"
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content={ "pmuscope " (version) };
                    title { (summary.title) " · pmuscope" }
                    style { (PreEscaped(PALETTE)) (PreEscaped(include_str!("page.css"))) (PreEscaped(svg::LOOK)) }
                }
                "\n"
                body {
                    (header(summary)) "\n"
                    main { (body) } "\n"
                    footer {
                        "Written by pmuscope " (version) ", commit " (self.commit) ". The same numbers as JSON: "
                        (self.schema) ". This file needs no network and no other file."
                    }
                    script { (PreEscaped(svg::SCRIPT)) (PreEscaped(include_str!("page.js"))) }
                }
            }
            "\n"
        };
        escape_lines(&page.into_string()).into_owned()
    }
}

/// Title, command, facts, notes.
fn header(summary: &Summary) -> Markup {
    html! {
        header {
            h1 { (summary.title) }
            @if !summary.command.is_empty() {
                p class="command" { code { (summary.command) } }
            }
            dl class="facts" {
                @for fact in &summary.facts {
                    div class=[fact.warning.then_some("warn")] {
                        dt { (fact.name) }
                        dd { (fact.value) }
                        dd class="detail" { (fact.detail) }
                    }
                }
            }
            @for note in &summary.notes {
                p class={ "note" @if note.warning { " warn" } } {
                    strong { (if note.warning { "Warning:" } else { "Note:" }) } " " (note.text)
                }
            }
        }
    }
}
