//! The table of functions for spreadsheets and scripts.

use pmuscope_profile::export::{Event, FunctionRow, Source, functions};

use crate::recording::RowLimits;
use crate::sheet::{Field, Separator, Sheet};

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

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: RowLimits = RowLimits { rows: None, share: 0.0 };

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
