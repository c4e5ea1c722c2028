//! Rows by any dimensions, call trees and the neighbors of a function, as text.

mod annotate;
mod details;
mod functions;
mod json;
mod neighbors;
mod page;
mod rows;
mod tree;

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::views::{CallSite, Dimension};

use self::details::UNKNOWN;
use crate::escape;

pub use annotate::AnnotateView;
pub(crate) use annotate::CodePart;
pub use details::{accesses, branches, data};
pub(crate) use functions::Functions;
pub use functions::{functions_delimited, functions_lines};
pub use json::{ROWS_SCHEMA, RowsReport};
pub use neighbors::neighbors_text;
pub use page::{rows_page, side_by_side_page};
pub use rows::{
    EventRows, RowsBy, balance_text, keys_text, rows_delimited, rows_lines, rows_text,
    side_by_side_delimited, side_by_side_text,
};
pub(crate) use rows::{rows_sheet, unit_of};
pub use tree::{TreeLimits, tree_text};

/// `function [module]`, escaped. Some modules have their brackets already.
#[must_use]
pub fn place_text(place: &CallSite, modules: &[ModuleSummary]) -> String {
    let module = module_text(place.module, modules);
    match &place.function {
        None if module == UNKNOWN => UNKNOWN.to_owned(),
        function => {
            let function = escape(function.as_deref().unwrap_or(UNKNOWN));
            format!("{function} [{}]", module.trim_matches(['[', ']']))
        }
    }
}

/// The word for a dimension.
fn dimension_word(dimension: Dimension) -> &'static str {
    Dimension::ALL.iter().find(|(_, one)| *one == dimension).map_or("", |(word, _)| word)
}

/// The head of a dimension's column: perf's and the kernel's terms.
fn dimension_head(dimension: Dimension) -> &'static str {
    match dimension_word(dimension) {
        "command" => "comm",
        "module" => "DSO",
        "cpu" => "CPU",
        "node" => "NUMA node",
        word => word,
    }
}

/// Short name of a module, escaped.
fn module_text(module: u32, modules: &[ModuleSummary]) -> String {
    modules
        .get(module as usize)
        .map_or("-".into(), |module| escape(module.short_name()).into_owned())
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::{ModuleKind, ModuleSummary, SymbolState};

    pub(super) fn modules() -> Vec<ModuleSummary> {
        ["/usr/bin/db", "[kernel.kallsyms]"]
            .map(|path| ModuleSummary {
                kind: ModuleKind::File,
                path: path.into(),
                build_id: None,
                mapped: None,
                symbols: SymbolState::Found,
            })
            .to_vec()
    }
}
