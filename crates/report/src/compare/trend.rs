//! Metrics over commits or days.

use pmuscope_measure::Estimated;
use pmuscope_measure::compare::{Shift, Trend, TrendRow};
use pmuscope_stats::Interval;
use serde::Serialize;

use super::dots::over_time;
use super::notes::{of_files, short_names};
use super::sheet::label_fields;
use super::{p_text, page, push_notes, unit_per};
use crate::number;
use crate::report::Report;
use crate::runs::value;
use crate::sheet::{Field, Sheet, SheetForm};
use crate::style::{Paint, Style, wrap, wrap_lines};

/// The table of `pmuscope compare --trend`: a row per figure, its first and last level, and where it
/// changed.
pub(super) fn trend_text(trend: &Trend, style: &Style) -> String {
    let names = short_names(&trend.files);
    let mut out = format!(
        "{} over {}, earliest first: mean with 95% CI, level changes claimed at {}\n",
        number::counted(trend.rows.len(), "metric"),
        number::counted(names.len(), "file"),
        number::percent(trend.alpha, 0)
    );
    out = wrap_lines(&out, style.width, 2);
    out += &wrap(&names.join(", "), style.width, 0);
    out += "\n\n";
    out += &sheet(trend, &names).text(style);
    push_notes(&mut out, &of_files(&trend.files), style);
    style.text(&out).into_owned()
}

/// The figures.
pub(super) fn sheet<'a>(trend: &'a Trend, names: &'a [String]) -> Sheet<'a> {
    let emulated = trend.files.iter().any(|file| file.emulator.is_some());
    let unit = move |row: &TrendRow| {
        Some(unit_per(&row.unit, row.per.as_deref(), row.origin.into_iter(), emulated))
    };
    let end = |key, of: fn(&TrendRow) -> Option<Estimated>| {
        let interval = |of: Estimated| {
            of.interval.map(|of| Interval { low: of.low, high: of.high, level: of.level })
        };
        Field::estimate(key, move |row: &TrendRow| of(row).map(|of| (of.value, interval(of))))
            .shown_if_known(move |row| Some(value(&of(row)?, &row.unit)))
    };
    let mut fields = label_fields(&trend.rows, |row| &row.labels);
    fields.extend([
        Field::text("metric", |row: &TrendRow| Some(&*row.metric)),
        Field::text("unit", unit).rigid(),
        Field::count("files", |row: &TrendRow| row.points.iter().flatten().count() as u64)
            .optional(2)
            .only_in(&[SheetForm::Text]),
        end("first", |row| row.points.iter().flatten().next().copied()),
        Field::drawn("over time", |row| over_time(row, names)),
        end("last", |row| row.points.iter().flatten().next_back().copied()),
        Field::lines("changed at", |row: &TrendRow| {
            row.shifts.iter().map(|shift| shift_text(shift, names)).collect()
        })
        .rigid()
        .painted(|row| if row.shifts.is_empty() { Paint::Dim } else { Paint::Bold }),
    ]);
    Sheet::new(fields, &trend.rows, trend.rows.len())
}

fn shift_text(shift: &Shift, names: &[String]) -> String {
    format!(
        "{}: {} to {} (p {})",
        names[shift.at],
        number::significant(shift.before, 4),
        number::significant(shift.after, 4),
        p_text(shift.p_adjusted)
    )
}

impl Report for Trend {
    fn schema(&self) -> &'static str {
        super::TREND_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        trend_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(page::trend_page(self, commit))
    }
}
