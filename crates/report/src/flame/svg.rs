//! A flame graph as SVG.
//!
//! A box is an `<svg>` of its own at a place in percent: it clips its text and follows the width of
//! the window without a script. The script only zooms and searches; tooltips are `<title>`s.

use std::fmt::Write as _;

use crate::markup::{cut, text};
use crate::number::{count, percent};

use super::{Flame, FlameBox, Legend};

/// Pixels from one depth to the next, and of a box.
pub(super) const PITCH: u32 = 18;
const HEIGHT: u32 = 17;
/// The width in pixels that text is cut for where no script adapts it, and of a character.
const WIDTH: f64 = 1180.0;
const CHARACTER: f64 = 6.7;
/// Narrower boxes have no border, which would hide them.
const BORDERED: f64 = 3.0;
/// Fewer characters say nothing.
const FEWEST: usize = 3;

/// The script of flame graphs, alone and in a page.
pub(crate) const SCRIPT: &str = include_str!("flame.js");
/// Their look.
pub(crate) const LOOK: &str = include_str!("flame.css");

/// A file of its own: title, search, graph. It grows downwards as one reads: chains that were recorded
/// badly can be hundreds of boxes deep, and would push the picture out of sight. Foreign text in `title` and `subtitle` is escaped here.
#[must_use]
pub fn flame_svg(flame: &Flame, title: &str, subtitle: &str) -> String {
    const TOP: u32 = 74;
    const BOTTOM: u32 = 44;
    const LEGEND: u32 = 24;
    let graph = height(flame);
    let top = TOP + if flame.legend().is_some() { LEGEND } else { 0 };
    let whole = top + graph + BOTTOM;
    let note = flame.note().unwrap_or_default();
    let mut out = String::new();
    // Writing to a String does not fail, here and below.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame-part alone\" width=\"100%\" \
         height=\"{whole}\" font-family=\"system-ui,sans-serif\" font-size=\"13\">\n\
         <style>{LOOK}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"ink\" x=\"12\" y=\"26\" font-size=\"17\" font-weight=\"600\">{}</text>\n\
         <text class=\"dim\" x=\"12\" y=\"46\">{}</text>\n\
         <foreignObject x=\"12\" y=\"50\" width=\"97%\" height=\"24\">{}</foreignObject>\n",
        text(title),
        text(subtitle),
        tools("http://www.w3.org/1999/xhtml", ""),
    );
    if let Some(legend) = flame.legend() {
        push_legend(&mut out, legend, TOP + 15);
    }
    let _ = writeln!(out, "<svg x=\"1%\" y=\"{top}\" width=\"98%\" height=\"{graph}\">");
    graph_svg(&mut out, flame, title);
    let _ = write!(
        out,
        "</svg>\n<text class=\"ink detail\" x=\"12\" y=\"{}\"></text>\n\
         <text class=\"dim\" x=\"12\" y=\"{}\">{}</text>\n\
         <script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n",
        whole - 26,
        whole - 9,
        text(&note),
    );
    out
}

/// What colors stand for, in a line.
fn push_legend(out: &mut String, legend: &Legend, y: u32) {
    let mut x = 12.0;
    let _ = writeln!(out, "<text class=\"ink\" x=\"{x}\" y=\"{y}\">{}</text>", text(&legend.title));
    x += legend.title.chars().count() as f64 * CHARACTER + 20.0;
    for (color, meaning) in &legend.steps {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{color}\"/>\
             <text class=\"ink\" x=\"{:.0}\" y=\"{y}\">{}</text>",
            y - 10,
            x + 15.0,
            text(meaning),
        );
        x += meaning.chars().count() as f64 * CHARACTER + 32.0;
    }
}

/// Search and reset, and `more` markup before them; hidden until the script is there.
pub(crate) fn tools(namespace: &str, more: &str) -> String {
    let namespace =
        if namespace.is_empty() { String::new() } else { format!(" xmlns=\"{namespace}\"") };
    format!(
        "<div{namespace} class=\"tools\" hidden=\"\">{more}\
         <input type=\"search\" placeholder=\"Search functions\" aria-label=\"Search functions\"/> \
         <button type=\"button\" class=\"reset\" hidden=\"\">Reset zoom</button> \
         <output class=\"matched\"></output></div>"
    )
}

/// The graph alone, for a page.
pub(crate) fn graph_svg(out: &mut String, flame: &Flame, label: &str) {
    let _ = writeln!(
        out,
        "<svg class=\"flame\" width=\"100%\" height=\"{}\" role=\"group\" aria-label=\"{}\" \
         font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"11\">",
        height(flame),
        text(&format!("Flame graph, {label}")),
    );
    for one in &flame.boxes {
        draw(out, flame, one);
    }
    out.push_str("</svg>\n");
}

pub(crate) fn height(flame: &Flame) -> u32 {
    (flame.deepest + 1) * PITCH
}

fn draw(out: &mut String, flame: &Flame, one: &FlameBox) {
    let y = one.depth * PITCH;
    let total = flame.total.max(1) as f64;
    let (start, width) = (one.start as f64 / total, one.weight as f64 / total);
    let own = if one.own > 0 && one.own < one.weight {
        format!(", {} itself", percent(one.own as f64 / total, 2))
    } else {
        String::new()
    };
    let module =
        one.module.as_ref().map_or_else(String::new, |module| format!("{}: ", text(module)));
    let note = one.note.as_ref().map_or_else(String::new, |note| format!(", {}", text(note)));
    let figures = match &one.figures {
        Some(figures) => text(figures).into_owned(),
        None => format!("{}, {} samples{own}", percent(width, 2), count(one.samples)),
    };
    let _ = write!(
        out,
        "<svg class=\"{}\" data-d=\"{}\" x=\"{}%\" y=\"{y}\" width=\"{}%\" height=\"{HEIGHT}\">\
         <title>{}\n{module}{figures}{note}</title>\
         <rect width=\"100%\" height=\"100%\" rx=\"2\" fill=\"{}\"/>",
        if width * WIDTH < BORDERED { "b n" } else { "b" },
        one.depth,
        places(start * 100.0),
        places(width * 100.0),
        text(&one.name),
        one.color,
    );
    let room = ((width * WIDTH - 6.0) / CHARACTER).max(0.0) as usize;
    let name = if room >= FEWEST { cut(&one.name, room) } else { "".into() };
    let _ = writeln!(out, "<text x=\"3\" y=\"12.5\">{}</text></svg>", text(&name));
}

/// Four digits behind the point, at most: a thousandth of a pixel.
fn places(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
