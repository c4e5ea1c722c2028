//! A table of rows by any dimensions.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::views::{Balance, Dimension, Key, Row, SideRow};

use super::{dimension_word, module_text};
use crate::number::{count, counted, fixed, percent, significant};
use crate::recording::RowLimits;
use crate::{Cell, Column, Paint, Style, Table, escape};

/// The table. `children` adds the share of what is in or under a row, where stacks were recorded.
#[must_use]
pub fn rows_text(
    rows: &[Row],
    by: &[Dimension],
    modules: &[ModuleSummary],
    children: bool,
    limits: RowLimits,
    style: &Style,
) -> String {
    if rows.is_empty() {
        return "no samples\n".into();
    }
    let mut table = Table::new(columns(by, children));
    let size = |row: &Row| if children { row.total_share } else { row.share };
    let large: Vec<&Row> = rows.iter().filter(|row| size(row) >= limits.share).collect();
    let shown = limits.rows.map_or(large.len(), |most| most.min(large.len()));
    for row in &large[..shown] {
        table.row(cells(row, modules, children));
    }
    if shown < rows.len() {
        // What is under a row is in other rows too, so only shares in rows add up.
        let share: f64 = rows.iter().map(|row| row.share).sum::<f64>()
            - large[..shown].iter().map(|row| row.share).sum::<f64>();
        let more = format!("… {}: --limit all", counted(rows.len() - shown, "more row"));
        let samples = |rows: &[&Row]| rows.iter().map(|row| row.own.samples).sum::<u64>();
        let all: u64 = rows.iter().map(|row| row.own.samples).sum();
        let mut cells = vec![percent(share.max(0.0), 2), String::new()];
        cells.extend(children.then(String::new));
        cells.push(count(all - samples(&large[..shown])));
        cells.extend(by.iter().skip(1).map(|_| "-".to_owned()));
        cells.push(more);
        table.row(cells.into_iter().map(|text| Cell::new(text).paint(Paint::Dim)));
    }
    table.render(style)
}

/// Events side by side: a column for the share of each, with its interval. `rows` have a share for each
/// of `events`, their names.
#[must_use]
pub fn side_by_side_text(
    rows: &[SideRow],
    events: &[&str],
    by: &[Dimension],
    modules: &[ModuleSummary],
    limits: RowLimits,
    style: &Style,
) -> String {
    if rows.is_empty() {
        return "no samples\n".into();
    }
    let of_event = |name: &&str| [Column::number(&*escape(name)), Column::number("±95 %")];
    let columns = events.iter().flat_map(of_event);
    let mut table = Table::new(columns.chain(by.iter().map(|one| column(*one))));
    let large: Vec<&SideRow> = rows.iter().filter(|row| row.largest() >= limits.share).collect();
    let shown = limits.rows.map_or(large.len(), |most| most.min(large.len()));
    let mut left = vec![1.0; events.len()];
    for row in &large[..shown] {
        let mut cells = Vec::new();
        for (share, left) in row.shares.iter().zip(&mut left) {
            // Nothing was sampled: that is a share of nothing, not one that is not known.
            let own = share.map_or(0.0, |one| one.share);
            *left -= own;
            cells.push(Cell::new(percent(own, 2)));
            cells.push(Cell::measured(share.and_then(|one| one.interval), |interval| {
                fixed(interval.half_width() * 100.0, 2)
            }));
        }
        cells.extend(row.keys.iter().map(|key| key_cell(key, modules)));
        table.row(cells);
    }
    if shown < rows.len() {
        let more = format!("… {}: --limit all", counted(rows.len() - shown, "more row"));
        let shares = left.iter().flat_map(|left| [percent(left.max(0.0), 2), String::new()]);
        let dashes = by.iter().skip(1).map(|_| "-".to_owned());
        let texts = shares.chain(dashes).chain([more]);
        table.row(texts.map(|text| Cell::new(text).paint(Paint::Dim)));
    }
    table.render(style)
}

/// `balance of 8 CPUs: busiest 3 with 14.20 %, …`, a line.
#[must_use]
pub fn balance_text(of: Dimension, balance: &Balance) -> String {
    let units = if of == Dimension::Node { "nodes" } else { "CPUs" };
    let (mean, busiest, idlest) = (balance.mean(), balance.busiest, balance.idlest);
    format!(
        "balance of {} {units}: busiest {} with {}, idlest {} with {}, mean {}; the busiest has {} times \
         the mean\n",
        count(balance.units as u64),
        busiest.0,
        percent(busiest.1, 2),
        idlest.0,
        percent(idlest.1, 2),
        percent(mean, 2),
        significant(busiest.1 / mean, 3),
    )
}

fn columns(by: &[Dimension], children: bool) -> Vec<Column> {
    let self_share = if children { "self" } else { "share" };
    let mut columns = vec![Column::number(self_share), Column::number("±95 %")];
    columns.extend(children.then(|| Column::number("children")));
    columns.push(Column::number("samples"));
    columns.extend(by.iter().map(|dimension| column(*dimension)));
    columns
}

fn column(dimension: Dimension) -> Column {
    let word = dimension_word(dimension);
    match dimension {
        Dimension::Process
        | Dimension::Thread
        | Dimension::Cpu
        | Dimension::Node
        | Dimension::Address => Column::number(word),
        _ => Column::text(word).shrink(),
    }
}

fn cells(row: &Row, modules: &[ModuleSummary], children: bool) -> Vec<Cell> {
    let mut cells = vec![
        Cell::new(percent(row.share, 2)),
        Cell::measured(row.interval, |interval| fixed(interval.half_width() * 100.0, 2)),
    ];
    cells.extend(children.then(|| Cell::new(percent(row.total_share, 2))));
    cells.push(Cell::new(count(row.own.samples)));
    cells.extend(row.keys.iter().map(|key| key_cell(key, modules)));
    cells
}

fn key_cell(key: &Key, modules: &[ModuleSummary]) -> Cell {
    match key {
        Key::Unknown => Cell::new("[unknown]").paint(Paint::Dim),
        Key::Name(name) => Cell::new(escape(name)),
        Key::Number(number) => Cell::new(number.to_string()),
        Key::Module(module) => Cell::new(module_text(*module, modules)),
        Key::Line(line) => {
            let number = line.number.map_or("?".into(), |number| number.to_string());
            Cell::new(format!("{}:{number}", escape(&line.file)))
        }
        Key::Address(address) => Cell::new(format!("{address:#x}")),
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::views::{SideShare, Sums};

    use super::*;
    use crate::views::tests::modules;

    fn row(keys: Vec<Key>, own: u64, total: u64) -> Row {
        let sums = |samples| Sums { samples, weight: samples };
        Row {
            keys,
            own: sums(own),
            total: sums(total),
            share: own as f64 / 100.0,
            total_share: total as f64 / 100.0,
            interval: None,
        }
    }

    fn text(children: bool, rows_shown: Option<usize>) -> String {
        let name = |name: &str| Key::Name(name.into());
        let rows = [
            row(vec![name("par\u{7}se"), Key::Number(3), Key::Module(0)], 60, 60),
            row(vec![name("main"), Key::Number(3), Key::Module(0)], 30, 90),
            row(vec![Key::Unknown, Key::Unknown, Key::Module(1)], 10, 10),
        ];
        let by = [Dimension::Function, Dimension::Cpu, Dimension::Module];
        let limits = RowLimits { rows: rows_shown, share: 0.0 };
        rows_text(&rows, &by, &modules(), children, limits, &Style::PLAIN)
    }

    #[test]
    fn rows_have_a_column_per_dimension() {
        insta::assert_snapshot!(text(true, None));
    }

    #[test]
    fn rows_left_out_have_their_share() {
        insta::assert_snapshot!(text(false, Some(1)));
    }

    #[test]
    fn events_stand_side_by_side() {
        let share = |samples: u64| {
            Some(SideShare { samples, share: samples as f64 / 100.0, interval: None })
        };
        let side = |name: &str, shares| SideRow { keys: vec![Key::Name(name.into())], shares };
        let rows = [
            side("parse", vec![share(60), share(5)]),
            side("copy", vec![share(40), share(85)]),
            side("page_fault", vec![None, share(10)]),
        ];
        let limits = RowLimits { rows: Some(2), share: 0.0 };
        let (events, by) = (["cycles", "cache-misses"], [Dimension::Function]);
        let text = side_by_side_text(&rows, &events, &by, &modules(), limits, &Style::PLAIN);
        insta::assert_snapshot!(text, @r"
         cycles  ±95 %  cache-misses  ±95 %  function
        60.00 %      -        5.00 %      -  parse
        40.00 %      -       85.00 %      -  copy
         0.00 %              10.00 %         … 1 more row: --limit all
        ");
    }

    #[test]
    fn the_balance_is_a_line() {
        let balance = Balance { units: 4, busiest: (3, 0.4), idlest: (0, 0.1) };
        assert_eq!(
            balance_text(Dimension::Cpu, &balance),
            "balance of 4 CPUs: busiest 3 with 40.00 %, idlest 0 with 10.00 %, mean 25.00 %; the \
             busiest has 1.60 times the mean\n"
        );
    }
}
