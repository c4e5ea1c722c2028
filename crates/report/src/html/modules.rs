//! The table of modules: where symbols are, or why not and what to do.

use pmuscope_profile::export::Source;
use pmuscope_profile::{FunctionTable, ModuleShare};

use super::{dot, number_cell, share_cell};
use crate::flame::ModuleHues;
use crate::markup::{Markup, html};
use crate::number::percent;
use crate::recording::causes::SymbolAdvice;
use crate::recording::symbols;

pub(super) fn part(
    source: &Source<'_>,
    hues: &ModuleHues,
    table: &FunctionTable,
    at: usize,
) -> Markup {
    html! {
        section class="table-part" id={ "modules-" (at) } {
            h2 { "Modules" }
            div class="wide" {
                table class="sortable" {
                    thead {
                        tr {
                            th scope="col" class="num" aria-sort="descending" { "share" }
                            th scope="col" class="num" { "samples" }
                            th scope="col" class="num" { "named" }
                            @for head in ["module", "symbols", "build id"] { th scope="col" { (head) } }
                        }
                    }
                    "\n"
                    tbody { @for row in &table.modules { (module_row(source, hues, row)) } }
                }
            }
        }
        "\n"
    }
}

fn module_row(source: &Source<'_>, hues: &ModuleHues, row: &ModuleShare) -> Markup {
    let Some(module) = source.modules.get(row.module) else { return Markup::default() };
    let state = symbols::effective(module, row);
    let SymbolAdvice { words, advice, .. } = SymbolAdvice::of(&state, module, source.modules);
    let id = module.build_id.as_ref().map(ToString::to_string);
    let named = if row.samples > 0 { row.named as f64 / row.samples as f64 } else { 0.0 };
    html! {
        tr {
            (share_cell(row.share))
            (number_cell(row.samples))
            td class="num" data-v=(format!("{named:.4}")) { (percent(named, 0)) }
            td { (dot(&hues.module(row.module as u32))) (module.path) }
            td class=[advice.is_some().then_some("warn")] {
                (words)
                @if let Some(advice) = &advice { br; small { (advice) } }
            }
            td class="mono dim" { (id.as_deref().map_or("-", symbols::short)) }
        }
        "\n"
    }
}
