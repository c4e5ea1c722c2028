//! What pages are made of: links to their parts, filters, cells, a flame graph with its tools.

use std::fmt::Write as _;

use crate::flame::{Flame, Legend, svg};
use crate::markup::text;
use crate::number::{count, percent};

/// A field that filters the rows of the table below it; there once the script is.
pub(crate) const FILTER: &str = "<div class=\"tools\" hidden><input type=\"search\" class=\"filter\" \
    placeholder=\"Filter rows\" aria-label=\"Filter rows\"> <output class=\"shown\"></output></div>\n";

/// Links to parts: their ids and names.
pub(crate) fn push_contents<'a>(
    out: &mut String,
    parts: impl IntoIterator<Item = (String, &'a str)>,
) {
    out.push_str("<nav aria-label=\"Parts\">");
    for (id, name) in parts {
        // Writing to a String does not fail, here and below.
        let _ = write!(out, "<a href=\"#{id}\">{}</a>", text(name));
    }
    out.push_str("</nav>\n");
}

/// A share with a bar behind it.
pub(crate) fn share_cell(share: f64) -> String {
    format!(
        "<td class=\"bar num\" data-v=\"{share:.6}\" style=\"--w:{:.2}%\">{}</td>",
        share * 100.0,
        percent(share, 2)
    )
}

/// An exact number.
pub(crate) fn number_cell(value: u64) -> String {
    format!("<td class=\"num\" data-v=\"{value}\">{}</td>", count(value))
}

/// What colours stand for.
pub(crate) fn push_legend(out: &mut String, legend: &Legend) {
    let _ = write!(out, "<ul class=\"legend\"><li>{}</li>", text(&legend.title));
    for (colour, values) in &legend.steps {
        let _ = write!(out, "<li><i style=\"background:{colour}\"></i> {}</li>", text(values));
    }
    out.push_str("</ul>\n");
}

/// A flame graph: `at` is the number of its event, `shape` says what stands where, `legend` is markup.
pub(crate) fn push_flame(
    out: &mut String,
    flame: &Flame,
    (at, name): (usize, &str),
    shape: &str,
    legend: impl FnOnce(&mut String),
) {
    let _ = write!(
        out,
        "<section class=\"flame-part\" id=\"flame-{at}\">\n<h2>Flame graph</h2>\n\
         <p class=\"dim\">{shape}. A click or Enter zooms in, Escape goes back, arrows walk.</p>\n{}\n",
        svg::tools("")
    );
    legend(out);
    out.push_str("<div class=\"picture\">\n");
    svg::graph_svg(out, flame, name);
    out.push_str("</div>\n<p class=\"detail mono\" aria-live=\"polite\"></p>\n");
    if let Some(note) = flame.note() {
        let _ = writeln!(out, "<p class=\"dim\">{}</p>", text(&note));
    }
    out.push_str("</section>\n");
}
