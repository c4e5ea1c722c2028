//! What every page has: one head, one style, one script, one foot.
//!
//! A page is a single file that asks nothing of any network; its own policy forbids it to. Its tables and
//! pictures are complete without the script, which adds sorting, filters, search, zoom and keys.

use std::fmt::Write as _;

use super::Summary;
use crate::flame::svg;
use crate::markup::text;

/// No request can leave the page, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// Colours, by the scheme that the reader prefers; for pages, and for pictures that stand alone.
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
    /// The page: its head from `summary`, and what `body` adds.
    pub(crate) fn page(&self, summary: &Summary, body: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        push_open(&mut out, &summary.title);
        push_header(&mut out, summary);
        out.push_str("<main>\n");
        body(&mut out);
        out.push_str("</main>\n");
        self.push_close(&mut out);
        out
    }

    fn push_close(&self, out: &mut String) {
        // Writing to a String does not fail, here and below.
        let _ = write!(
            out,
            "<footer>Written by pmuscope {}, commit {}. The same numbers as JSON: {}. This file needs no network \
             and no other file.</footer>\n<script>\n{}{}</script>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
            text(self.commit),
            self.schema,
            svg::SCRIPT,
            include_str!("page.js")
        );
    }
}

fn push_open(out: &mut String, title: &str) {
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"pmuscope {}\">\n\
         <title>{} · pmuscope</title>\n<style>\n{PALETTE}{}{}</style>\n</head>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        text(title),
        include_str!("page.css"),
        svg::LOOK,
    );
}

/// Title, command, facts, notes.
fn push_header(out: &mut String, summary: &Summary) {
    let _ = write!(out, "<header>\n<h1>{}</h1>\n", text(&summary.title));
    if !summary.command.is_empty() {
        let _ = writeln!(out, "<p class=\"command\"><code>{}</code></p>", text(&summary.command));
    }
    out.push_str("<dl class=\"facts\">\n");
    for fact in &summary.facts {
        let class = if fact.warning { " class=\"warn\"" } else { "" };
        let _ = writeln!(
            out,
            "<div{class}><dt>{}</dt><dd>{}</dd><dd class=\"detail\">{}</dd></div>",
            fact.name,
            text(&fact.value),
            text(&fact.detail)
        );
    }
    out.push_str("</dl>\n");
    for note in &summary.notes {
        let (class, word) = if note.warning { ("warn", "Warning") } else { ("", "Note") };
        let note = text(&note.text);
        let _ = writeln!(out, "<p class=\"note {class}\"><strong>{word}:</strong> {note}</p>");
    }
    out.push_str("</header>\n");
}
