//! Rows by any dimensions: of one event, and of events side by side.

use std::borrow::Cow;

use pmuscope_profile::views::{Balance, Dimension, Key, Row, SideRow};
use pmuscope_profile::{EventProfile, ModuleSummary};

use super::details::UNKNOWN;
use super::{dimension_head, dimension_word};
use crate::number::{count, percent, significant};
use crate::recording::RowLimits;
use crate::sheet::{Field, FieldKind, NAME, Separator, Sheet, Value, delimited_by, shown};
use crate::{Style, TableLines, escape};

/// How rows are read.
#[derive(Debug, Clone, Copy)]
pub struct RowsBy<'a> {
    /// What rows are by.
    pub dimensions: &'a [Dimension],
    /// Modules, as keys number them.
    pub modules: &'a [ModuleSummary],
    /// Whether stacks were recorded: rows have totals, samples in a function and its callees, too.
    pub children: bool,
}

/// Rows of one event.
#[derive(Debug)]
pub struct EventRows<'a> {
    /// The event's name.
    pub name: &'a str,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Units of the event that a row's weight counts; `None` where samples do not say it.
    pub unit: Option<u64>,
    /// How even it is, by CPU or node where rows are by them.
    pub balance: Vec<(Dimension, Balance)>,
}

/// Units of an event that the weight of its rows counts: one where samples have periods, else the fixed period.
pub(crate) fn unit_of(event: &EventProfile) -> Option<u64> {
    if event.by_period { Some(1) } else { event.fixed_period }
}

impl<'a> EventRows<'a> {
    /// Rows of `event`.
    #[must_use]
    pub fn new(
        event: &'a EventProfile,
        rows: Vec<Row>,
        balance: Vec<(Dimension, Balance)>,
    ) -> Self {
        Self { name: &event.name, rows, unit: unit_of(event), balance }
    }

    /// The rows as a table.
    pub(super) fn sheet(&'a self, by: RowsBy<'a>, limits: RowLimits) -> Sheet<'a> {
        rows_sheet(&self.rows, self.unit, by, limits)
    }
}

/// Rows of an event as a table. `unit` is what their weight counts.
pub(crate) fn rows_sheet<'a>(
    rows: &'a [Row],
    unit: Option<u64>,
    by: RowsBy<'a>,
    limits: RowLimits,
) -> Sheet<'a> {
    let size = |row: &Row| if by.children { row.total_share } else { row.share };
    let large = rows.iter().filter(|row| size(row) >= limits.share);
    let shown: Vec<&Row> = large.take(limits.rows.unwrap_or(usize::MAX)).collect();
    // What is under a row is in other rows too, so only shares in rows add up.
    let share = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.share).sum::<f64>();
    let samples =
        |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.own.samples).sum::<u64>();
    let left_share = share(&mut rows.iter()) - share(&mut shown.iter().copied());
    let left_samples = samples(&mut rows.iter()) - samples(&mut shown.iter().copied());
    Sheet::new(row_fields(by, unit), shown, rows.len())
        .with_rest(vec![
            ("share".into(), Value::Share(left_share.max(0.0), None)),
            ("samples".into(), Value::Count(left_samples)),
        ])
        .limited_by(limits)
}

fn row_fields(by: RowsBy<'_>, unit: Option<u64>) -> Vec<Field<'_, Row>> {
    let is_code = by.dimensions.contains(&Dimension::Function);
    let own = if by.children || is_code { "self" } else { "share" };
    let weight = move |row: &Row| unit.map(|unit| unit.saturating_mul(row.own.weight));
    let mut fields = vec![Field::share("share", |row: &Row| (row.share, row.interval)).head(own)];
    let under = |row: &Row| Some(row.total_share);
    if by.children {
        fields.push(Field::part("children_share", under).head("total").for_people());
    }
    fields.push(Field::count("samples", |row: &Row| row.own.samples).optional(4));
    fields.push(Field::count("weight", weight).for_programs());
    if by.children {
        fields.push(Field::part("children_share", under).column("total_share").for_programs());
        let samples = Field::count("children_samples", |row: &Row| row.total.samples);
        fields.push(samples.column("total_samples").for_programs());
    }
    fields.extend(key_fields(by, |row: &Row| &row.keys));
    fields
}

/// A field for each dimension.
fn key_fields<'a, R: 'a>(
    by: RowsBy<'a>,
    keys: impl Fn(&'a R) -> &'a [Key] + Copy + 'a,
) -> impl Iterator<Item = Field<'a, R>> {
    by.dimensions.iter().enumerate().map(move |(at, dimension)| {
        let kind = match dimension {
            Dimension::Process
            | Dimension::Thread
            | Dimension::Cpu
            | Dimension::Node
            | Dimension::Address => FieldKind::Number,
            _ => FieldKind::Text,
        };
        let value = move |row| key_value(&keys(row)[at], by.modules);
        let field = Field::new(dimension_word(*dimension), kind, value)
            .head(dimension_head(*dimension))
            .missing_as(UNKNOWN);
        let field = if *dimension == Dimension::Function { field.wanted(NAME) } else { field };
        if *dimension != Dimension::Module {
            return field;
        }
        field.shown_as(move |row| short_module(&keys(row)[at], by.modules))
    })
}

/// What a row is of, in one line: `4711 worker`.
#[must_use]
pub fn keys_text(keys: &[Key], modules: &[ModuleSummary]) -> String {
    let text = |key: &Key| match (key, shown(&key_value(key, modules))) {
        (Key::Module(_), _) => short_module(key, modules).into_owned(),
        (_, shown) => shown.unwrap_or(UNKNOWN.into()).into_owned(),
    };
    let words: Vec<String> = keys.iter().map(|key| escape(&text(key)).into_owned()).collect();
    words.join(" ")
}

fn key_value<'a>(key: &'a Key, modules: &'a [ModuleSummary]) -> Value<'a> {
    match key {
        Key::Unknown => Value::Missing,
        Key::Name(name) => Value::Text((&**name).into()),
        Key::Number(number) => Value::Id(*number),
        Key::Module(module) => modules
            .get(*module as usize)
            .map_or(Value::Missing, |one| Value::Text((&*one.path).into())),
        Key::Line(line) => {
            let number = line.number.map_or("?".into(), |number| number.to_string());
            Value::Text(format!("{}:{number}", line.file).into())
        }
        Key::Address(address) => Value::Address(*address),
    }
}

fn short_module<'a>(key: &'a Key, modules: &'a [ModuleSummary]) -> Cow<'a, str> {
    match key {
        Key::Module(module) => {
            modules.get(*module as usize).map_or("-".into(), |module| module.short_name().into())
        }
        _ => UNKNOWN.into(),
    }
}

/// The table for people.
#[must_use]
pub fn rows_text(rows: &[Row], by: RowsBy<'_>, limits: RowLimits, style: &Style) -> String {
    if rows.is_empty() {
        return "no samples\n".into();
    }
    rows_sheet(rows, None, by, limits).text(style)
}

/// The table for people line by line: the row of each line is known.
#[must_use]
pub fn rows_lines(rows: &[Row], by: RowsBy<'_>, style: &Style) -> TableLines {
    let limits = RowLimits::ALL;
    rows_sheet(rows, None, by, limits).table().0.lines(style)
}

/// Rows of events for spreadsheets and scripts.
#[must_use]
pub fn rows_delimited(
    events: &[EventRows<'_>],
    by: RowsBy<'_>,
    limits: RowLimits,
    separator: Separator,
) -> String {
    let sheets: Vec<_> = events.iter().map(|event| (event.name, event.sheet(by, limits))).collect();
    delimited_by("event", &sheets, separator)
}

/// Events side by side: for each of `events`, their names, its share and samples in each row.
pub(super) fn side_by_side<'a>(
    rows: &'a [SideRow],
    events: &'a [&str],
    by: RowsBy<'a>,
    limits: RowLimits,
    keys_first: bool,
) -> Sheet<'a> {
    let large = rows.iter().filter(|row| row.largest() >= limits.share);
    let shown: Vec<&SideRow> = large.take(limits.rows.unwrap_or(usize::MAX)).collect();
    // An event without a sample there has counted 0, not nothing.
    let own = |row: &SideRow, at: usize| row.shares[at].map_or(0.0, |one| one.share);
    let mut fields = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let interval = move |row: &SideRow| row.shares[at].and_then(|one| one.interval);
        let share = move |row: &SideRow| (own(row, at), interval(row));
        fields.push(Field::share(format!("{event} share"), share).head(escape(event).into_owned()));
        let samples = move |row: &SideRow| row.shares[at].map_or(0, |one| one.samples);
        fields.push(Field::count(format!("{event} samples"), samples).for_programs());
    }
    let keys = key_fields(by, |row: &SideRow| &row.keys);
    let fields = if keys_first {
        keys.chain(fields).collect()
    } else {
        fields.into_iter().chain(keys).collect()
    };
    let left = |at: usize| 1.0 - shown.iter().map(|row| own(row, at)).sum::<f64>();
    let rest = events.iter().enumerate().map(|(at, event)| {
        (format!("{event} share").into(), Value::Share(left(at).max(0.0), None))
    });
    let rest = rest.collect();
    Sheet::new(fields, shown, rows.len()).with_rest(rest).limited_by(limits)
}

/// Events side by side: a column for the share of each, with its interval.
#[must_use]
pub fn side_by_side_text(
    rows: &[SideRow],
    events: &[&str],
    by: RowsBy<'_>,
    limits: RowLimits,
    style: &Style,
) -> String {
    if rows.is_empty() {
        return "no samples\n".into();
    }
    side_by_side(rows, events, by, limits, false).text(style)
}

/// The same for spreadsheets and scripts.
#[must_use]
pub fn side_by_side_delimited(
    rows: &[SideRow],
    events: &[&str],
    by: RowsBy<'_>,
    limits: RowLimits,
    separator: Separator,
) -> String {
    side_by_side(rows, events, by, limits, true).delimited(separator)
}

/// `balance of 8 CPUs: busiest 3 with 14.20 %, …`, a line.
#[must_use]
pub fn balance_text(of: Dimension, balance: &Balance) -> String {
    let units = if of == Dimension::Node { "NUMA nodes" } else { "CPUs" };
    let (mean, busiest, idlest) = (balance.mean(), balance.busiest, balance.idlest);
    format!(
        "balance of {} {units}: busiest {} with {}, idlest {} with {}, mean {} (busiest / mean {})\n",
        count(balance.units as u64),
        busiest.0,
        percent(busiest.1, 2),
        idlest.0,
        percent(idlest.1, 2),
        percent(mean, 2),
        significant(busiest.1 / mean, 3),
    )
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::views::{SideShare, Sums};
    use pmuscope_stats::Interval;

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
        let limits = RowLimits { rows: rows_shown, ..RowLimits::ALL };
        let modules = modules();
        let by = RowsBy { dimensions: &by, modules: &modules, children };
        rows_text(&rows, by, limits, &Style::PLAIN)
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
        let limits = RowLimits { rows: Some(2), ..RowLimits::ALL };
        let (events, by) = (["cycles", "cache-misses"], [Dimension::Function]);
        let by = RowsBy { dimensions: &by, modules: &modules(), children: false };
        let text = side_by_side_text(&rows, &events, by, limits, &Style::PLAIN);
        insta::assert_snapshot!(text, @r"
        cycles  95% CI  cache-misses  95% CI  function
        60.00%       -         5.00%       -  parse
        40.00%       -        85.00%       -  copy
         0.00%                10.00%          … 1 more: --limit all
        ");
    }

    #[test]
    fn the_balance_is_a_line() {
        let balance = Balance { units: 4, busiest: (3, 0.4), idlest: (0, 0.1) };
        assert_eq!(
            balance_text(Dimension::Cpu, &balance),
            "balance of 4 CPUs: busiest 3 with 40.00%, idlest 0 with 10.00%, mean 25.00% (busiest / mean 1.60)\n"
        );
    }

    const ALL: RowLimits = RowLimits::ALL;
    const BY: [Dimension; 3] = [Dimension::Function, Dimension::Module, Dimension::Cpu];

    fn by(modules: &[ModuleSummary], children: bool) -> RowsBy<'_> {
        RowsBy { dimensions: &BY, modules, children }
    }

    fn keys(name: &str, module: u32) -> Vec<Key> {
        vec![Key::Name(name.into()), Key::Module(module), Key::Number(3)]
    }

    fn interval() -> Interval {
        Interval { low: 0.5, high: 0.75, level: 0.95 }
    }

    #[test]
    fn programs_get_rows_with_their_dimensions_after_their_numbers() {
        let row = |name: &str, module, samples: u64| {
            let sums = Sums { samples, weight: 10 * samples };
            let share = samples as f64 / 8.0;
            let interval = (samples > 4).then(interval);
            Row {
                keys: keys(name, module),
                own: sums,
                total: sums,
                share,
                total_share: share,
                interval,
            }
        };
        let rows = vec![row("get<a, b>", 0, 5), row("=read", 1, 2), row("rare", 1, 1)];
        let events = [EventRows { name: "cycles", rows, unit: Some(100), balance: Vec::new() }];
        let limits = RowLimits { share: 0.2, ..RowLimits::ALL };
        insta::assert_snapshot!(rows_delimited(&events, by(&modules(), false), limits, Separator::Comma), @r#"
        event,share,share_low,share_high,samples,weight,function,module,cpu
        cycles,0.625,0.5,0.75,5,5000,"get<a, b>",/usr/bin/db,3
        cycles,0.25,,,2,2000,"'=read",[kernel.kallsyms],3
        "#);
        let limits = RowLimits { rows: Some(1), ..RowLimits::ALL };
        insta::assert_snapshot!(rows_delimited(&events, by(&modules(), true), limits, Separator::Comma), @r#"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,function,module,cpu
        cycles,0.625,0.5,0.75,5,5000,0.625,5,"get<a, b>",/usr/bin/db,3
        "#);
    }

    #[test]
    fn programs_get_events_side_by_side() {
        let share = |samples, interval| SideShare { samples, share: 0.625, interval };
        let rows = [
            SideRow { keys: keys("a", 0), shares: vec![Some(share(5, Some(interval()))), None] },
            SideRow { keys: vec![Key::Unknown; 3], shares: vec![None, Some(share(2, None))] },
        ];
        let events = ["cycles", "cache-misses,x"];
        insta::assert_snapshot!(side_by_side_delimited(&rows, &events, by(&modules(), false), ALL, Separator::Comma), @r#"
        function,module,cpu,cycles share,cycles share_low,cycles share_high,cycles samples,"cache-misses,x share","cache-misses,x share_low","cache-misses,x share_high","cache-misses,x samples"
        a,/usr/bin/db,3,0.625,0.5,0.75,5,0,,,0
        ,,,0,,,0,0.625,,,2
        "#);
    }
}
