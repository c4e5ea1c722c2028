//! The table of modules: where symbols are, or why not and what to do.

use std::fmt::Write as _;

use pmuscope_profile::FunctionTable;
use pmuscope_profile::export::Source;

use crate::markup::text;
use crate::number::percent;
use crate::recording::symbols;

use super::{chip, number_cell, share_cell};

pub(super) fn push(out: &mut String, source: &Source<'_>, table: &FunctionTable, at: usize) {
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"modules-{at}\">\n<h2>Modules</h2>\n\
         <div class=\"wide\"><table class=\"sortable\">\n<thead><tr>\
         <th scope=\"col\" class=\"num\" aria-sort=\"descending\">share</th>\
         <th scope=\"col\" class=\"num\">samples</th><th scope=\"col\" class=\"num\">named</th>\
         <th scope=\"col\">module</th><th scope=\"col\">symbols</th>\
         <th scope=\"col\">build id</th></tr></thead>\n<tbody>\n"
    );
    for row in &table.modules {
        let Some(module) = source.modules.get(row.module) else { continue };
        let state = symbols::effective(module, row);
        let advice = symbols::advice(&state, module.kind);
        let id = module.build_id.as_ref().map(ToString::to_string);
        let named = if row.samples > 0 { row.named as f64 / row.samples as f64 } else { 0.0 };
        let class = if advice.is_some() { " class=\"warn\"" } else { "" };
        let advice = advice
            .map_or_else(String::new, |advice| format!("<br><small>{}</small>", text(&advice)));
        let _ = writeln!(
            out,
            "<tr>{}{}<td class=\"num\" data-v=\"{named:.4}\">{}</td><td>{} {}</td><td{class}>{}{advice}</td>\
             <td class=\"mono dim\">{}</td></tr>",
            share_cell(row.share),
            number_cell(row.samples),
            percent(named, 0),
            chip(source, row.module as u32),
            text(&module.path),
            symbols::words(&state),
            id.as_deref().map_or("-", symbols::short),
        );
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}
