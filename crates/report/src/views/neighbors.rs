//! A function between its callers and what it calls.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::views::{Neighbor, Neighbors};

use super::place_text;
use crate::number::{count, percent};
use crate::sheet::NAME;
use crate::{Cell, Column, Paint, Style, Table};

/// Callers above, the function in the middle, what it calls below; shares are of all samples of the
/// event, `all` by weight. At most `rows` callers and callees each.
#[must_use]
pub fn neighbors_text(
    name: &str,
    found: &Neighbors,
    all: u64,
    modules: &[ModuleSummary],
    rows: Option<usize>,
    style: &Style,
) -> String {
    let mut table = Table::new([
        Column::number("total"),
        Column::number("samples").optional(1),
        Column::text("function").shrink_to(NAME),
    ]);
    let share = |weight: u64| percent(weight as f64 / all.max(1) as f64, 2);
    let mut side = |neighbors: &[Neighbor], arrow: &str, none: &str| {
        let shown = rows.map_or(neighbors.len(), |most| most.min(neighbors.len()));
        for one in &neighbors[..shown] {
            let place = one.place.as_ref();
            let text = place.map_or(none.to_owned(), |place| place_text(place, modules));
            table.row([
                Cell::new(share(one.sums.weight)),
                Cell::new(count(one.sums.samples)),
                Cell::new(format!("  {arrow} {text}")),
            ]);
        }
        let rest = &neighbors[shown..];
        if !rest.is_empty() {
            let weight = rest.iter().map(|one| one.sums.weight).sum();
            let samples = rest.iter().map(|one| one.sums.samples).sum();
            let more = format!("  … {} more: --limit all", count(rest.len() as u64));
            let texts = [share(weight), count(samples), more];
            table.row(texts.map(|text| Cell::new(text).paint(Paint::Dim)));
        }
        if arrow == "from" {
            let texts =
                [share(found.total.weight), count(found.total.samples), crate::escape(name).into()];
            table.row(texts.map(|text| Cell::new(text).paint(Paint::Bold)));
        }
    };
    side(&found.callers, "from", "[none: outermost function]");
    side(&found.callees, "to", "[self]");
    table.render(style)
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::views::{CallSite, Sums};

    use super::*;
    use crate::views::tests::modules;

    #[test]
    fn a_function_stands_between_callers_and_callees() {
        let sums = |samples| Sums { samples, weight: samples };
        let one = |name: Option<&str>, samples| Neighbor {
            place: name.map(|name| CallSite { function: Some(name.into()), module: 0 }),
            sums: sums(samples),
        };
        let found = Neighbors {
            total: sums(80),
            callers: vec![one(Some("main"), 60), one(Some("retry"), 20)],
            callees: vec![
                one(Some("lex"), 50),
                one(None, 20),
                one(Some("a"), 7),
                one(Some("b"), 3),
            ],
        };
        let text = neighbors_text("parse", &found, 100, &modules(), Some(3), &Style::PLAIN);
        insta::assert_snapshot!(text);
    }
}
