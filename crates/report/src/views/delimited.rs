//! Tables of functions, of rows by any dimensions, and of events side by side, for spreadsheets and scripts.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::export::{Event, FunctionRow, Source, functions};
use pmuscope_profile::views::{Dimension, Key, Row, SideRow};

use super::dimension_word;
use crate::recording::RowLimits;
use crate::sheet::{Field, Kind, Separator, Sheet, Value};

/// Functions by event and command, the largest share of each event first, as many as `limits` allow of each
/// event. `intervals` rows of each event get one, where the recording allows it.
#[must_use]
pub fn functions_delimited(
    source: &Source<'_>,
    limits: RowLimits,
    intervals: usize,
    separator: Separator,
) -> String {
    let of_event = |event| {
        let rows = functions(source.counts, event, intervals).into_iter();
        let large = rows.filter(|row| row.total_share >= limits.share);
        large.take(limits.rows.unwrap_or(usize::MAX)).map(move |row| (event, row))
    };
    let rows: Vec<(&Event, FunctionRow)> = source.events.iter().flat_map(of_event).collect();
    type Of<'a> = (&'a Event, FunctionRow);
    let fields: Vec<Field<'_, Of<'_>>> = vec![
        Field::text("event", |(event, _): &Of<'_>| Some(&*event.name)),
        Field::share("share", |(_, row): &Of<'_>| (row.share, row.interval)),
        Field::count("samples", |(_, row): &Of<'_>| row.samples),
        Field::count("weight", |(event, row): &Of<'_>| weight(event, row)),
        Field::part("total_share", |(_, row): &Of<'_>| Some(row.total_share)),
        Field::count("total_samples", |(_, row): &Of<'_>| row.total_samples),
        Field::text("command", |(_, row): &Of<'_>| Some(&*row.command)),
        Field::text("module", |(_, row): &Of<'_>| {
            source.modules.get(row.module as usize).map(|module| &*module.path)
        }),
        Field::text("function", |(_, row): &Of<'_>| {
            row.function.map(|id| &*source.counts.functions[id as usize].name)
        }),
        Field::part("with_lost_low", |(event, row): &Of<'_>| {
            event.with_lost(row.share).map(|(low, _)| low)
        }),
        Field::part("with_lost_high", |(event, row): &Of<'_>| {
            event.with_lost(row.share).map(|(_, high)| high)
        }),
    ];
    Sheet::new(fields, &rows, rows.len()).delimited(separator)
}

/// In units of the event.
fn weight(event: &Event, row: &FunctionRow) -> Option<u64> {
    if event.by_period {
        return Some(row.weight);
    }
    event.period.map(|period| period.saturating_mul(row.samples))
}

/// Rows of events, which come with their names. `children` adds what is in or under a row, where stacks
/// were recorded.
#[must_use]
pub fn rows_delimited(
    events: &[(&str, Vec<Row>)],
    by: &[Dimension],
    modules: &[ModuleSummary],
    children: bool,
    limits: RowLimits,
    separator: Separator,
) -> String {
    let size = |row: &Row| if children { row.total_share } else { row.share };
    let most = limits.rows.unwrap_or(usize::MAX);
    type Of<'a> = (&'a str, &'a Row);
    let mut shown: Vec<Of<'_>> = Vec::new();
    for (event, rows) in events {
        let large = rows.iter().filter(|row| size(row) >= limits.share).take(most);
        shown.extend(large.map(|row| (*event, row)));
    }
    let mut fields: Vec<Field<'_, Of<'_>>> = vec![
        Field::text("event", |(event, _): &Of<'_>| Some(*event)),
        Field::share("share", |(_, row): &Of<'_>| (row.share, row.interval)),
        Field::count("samples", |(_, row): &Of<'_>| row.own.samples),
        Field::count("weight", |(_, row): &Of<'_>| row.own.weight),
    ];
    if children {
        fields.push(Field::part("total_share", |(_, row): &Of<'_>| Some(row.total_share)));
        fields.push(Field::count("total_samples", |(_, row): &Of<'_>| row.total.samples));
    }
    fields.extend(by.iter().enumerate().map(|(at, dimension)| {
        Field::new(dimension_word(*dimension), Kind::Text, move |(_, row): &Of<'_>| {
            key_value(&row.keys[at], modules)
        })
    }));
    Sheet::new(fields, &shown, shown.len()).delimited(separator)
}

/// Rows with four columns for each of `events`, their names.
#[must_use]
pub fn side_by_side_delimited(
    rows: &[SideRow],
    events: &[&str],
    by: &[Dimension],
    modules: &[ModuleSummary],
    limits: RowLimits,
    separator: Separator,
) -> String {
    let large = rows.iter().filter(|row| row.largest() >= limits.share);
    let rows: Vec<&SideRow> = large.take(limits.rows.unwrap_or(usize::MAX)).collect();
    let mut fields: Vec<Field<'_, &SideRow>> = Vec::new();
    fields.extend(by.iter().enumerate().map(|(at, dimension)| {
        Field::new(dimension_word(*dimension), Kind::Text, move |row: &&SideRow| {
            key_value(&row.keys[at], modules)
        })
    }));
    for (at, event) in events.iter().enumerate() {
        // An event without a sample there has counted 0, not nothing.
        fields.push(Field::share(format!("{event} share"), move |row: &&SideRow| {
            row.shares[at].map_or((0.0, None), |one| (one.share, one.interval))
        }));
        fields.push(Field::count(format!("{event} samples"), move |row: &&SideRow| {
            row.shares[at].map_or(0, |one| one.samples)
        }));
    }
    Sheet::new(fields, &rows, rows.len()).delimited(separator)
}

fn key_value<'a>(key: &'a Key, modules: &'a [ModuleSummary]) -> Value<'a> {
    match key {
        Key::Unknown => Value::Missing,
        Key::Name(name) => Value::Text((&**name).into()),
        Key::Number(number) => Value::Text(number.to_string().into()),
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

#[cfg(test)]
mod tests {
    use pmuscope_profile::views::{SideShare, Sums};
    use pmuscope_stats::Interval;

    use super::super::tests::modules;
    use super::*;

    const ALL: RowLimits = RowLimits { rows: None, share: 0.0 };
    const BY: [Dimension; 3] = [Dimension::Function, Dimension::Module, Dimension::Cpu];

    fn keys(name: &str, module: u32) -> Vec<Key> {
        vec![Key::Name(name.into()), Key::Module(module), Key::Number(3)]
    }

    fn interval() -> Interval {
        Interval { low: 0.5, high: 0.75, level: 0.95 }
    }

    #[test]
    fn rows_have_their_dimensions_behind_their_numbers() {
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
        let events = [("cycles", rows)];
        let limits = RowLimits { rows: None, share: 0.2 };
        insta::assert_snapshot!(rows_delimited(&events, &BY, &modules(), false, limits, Separator::Comma), @r#"
        event,share,share_low,share_high,samples,weight,function,module,cpu
        cycles,0.625,0.5,0.75,5,50,"get<a, b>",/usr/bin/db,3
        cycles,0.25,,,2,20,"'=read",[kernel.kallsyms],3
        "#);
        let limits = RowLimits { rows: Some(1), share: 0.0 };
        insta::assert_snapshot!(rows_delimited(&events, &BY, &modules(), true, limits, Separator::Comma), @r#"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,function,module,cpu
        cycles,0.625,0.5,0.75,5,50,0.625,5,"get<a, b>",/usr/bin/db,3
        "#);
    }

    #[test]
    fn events_stand_side_by_side() {
        let share = |samples, interval| SideShare { samples, share: 0.625, interval };
        let rows = [
            SideRow { keys: keys("a", 0), shares: vec![Some(share(5, Some(interval()))), None] },
            SideRow { keys: vec![Key::Unknown; 3], shares: vec![None, Some(share(2, None))] },
        ];
        let events = ["cycles", "cache-misses,x"];
        insta::assert_snapshot!(side_by_side_delimited(&rows, &events, &BY, &modules(), ALL, Separator::Comma), @r#"
        function,module,cpu,cycles share,cycles share_low,cycles share_high,cycles samples,"cache-misses,x share","cache-misses,x share_low","cache-misses,x share_high","cache-misses,x samples"
        a,/usr/bin/db,3,0.625,0.5,0.75,5,0,,,0
        ,,,0,,,0,0.625,,,2
        "#);
    }

    #[test]
    fn lost_samples_bound_each_share() {
        let made = crate::sample::made();
        let mut source = made.source();
        (source.events[0].samples, source.events[0].lost_at_most) = (120, 30);
        let text = functions_delimited(&source, ALL, 0, Separator::Comma);
        let first: Vec<&str> = text.lines().nth(1).unwrap().rsplit(',').take(2).collect();
        let bounds: Vec<f64> = first.iter().rev().map(|field| field.parse().unwrap()).collect();
        // 35 of 120 samples: 35 to 65 of 150.
        assert!((bounds[0] - 35.0 / 150.0).abs() < 1e-12, "{bounds:?}");
        assert!((bounds[1] - 65.0 / 150.0).abs() < 1e-12, "{bounds:?}");
    }

    #[test]
    fn functions_have_all_columns() {
        let text = functions_delimited(&crate::sample::made().source(), ALL, 0, Separator::Comma);
        insta::assert_snapshot!(text, @r"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,command,module,function,with_lost_low,with_lost_high
        cpu-clock,0.2916666666666667,,,35,35000000,0.5,60,my app,/usr/bin/my app,memcpy<T>,,
        cpu-clock,0.25,,,30,30000000,0.25,30,my app,/usr/bin/my app,recurse,,
        cpu-clock,0.20833333333333334,,,25,25000000,0.20833333333333334,25,my app,[kernel.kallsyms],copy_page,,
        cpu-clock,0.16666666666666666,,,20,20000000,0.16666666666666666,20,<b>evil</b>,/opt/=1.so,,,
        cpu-clock,0.08333333333333333,,,10,10000000,0.8333333333333334,100,my app,/usr/bin/my app,main,,
        ");
    }
}
