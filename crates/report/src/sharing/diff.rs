//! Shared cache lines of two sides of recordings.

use pmuscope_profile::hits::SharingVerdict;
use pmuscope_profile::sharing::{SharingChange, SharingDiff};
use pmuscope_stats::Estimate;
use serde::Serialize;

use super::words::short_module;
use crate::diff::runs_note;
use crate::number::{count, estimate, signed, significant};
use crate::recording::{Note, paint_line, push_all_notes, push_wrapped};
use crate::report::Report;
use crate::sheet::{Field, NAME, Separator, Sheet, SheetObject};
use crate::watch::{verdict, verdict_word};
use crate::{Style, escape};

/// The schema of the JSON.
const SHARING_DIFF_SCHEMA: &str = "pmuscope/sharing-diff/1";
/// A change with a larger p-value is not claimed.
const LEVEL: f64 = 0.05;

/// What contended loads cost on two sides.
#[derive(Debug, Clone, Copy)]
pub struct SharingDiffView<'a> {
    /// What was compared.
    pub diff: &'a SharingDiff,
    /// Files of the side before and the one after.
    pub files: [&'a [String]; 2],
    /// Most rows; `None` shows all.
    pub rows: Option<usize>,
}

/// `more`, `less`, `unclear`; `None` without an interval.
fn is_what(row: &SharingChange) -> Option<&'static str> {
    let p = row.p?;
    Some(match row.change.value {
        _ if p >= LEVEL => "unclear",
        value if value < 0.0 => "less",
        _ => "more",
    })
}

/// Millions of cycles per second; loads per second where none has a latency.
fn scale(diff: &SharingDiff) -> (f64, &'static str) {
    if diff.has_cost { (1e-6, "Mcycles/s") } else { (1.0, "loads/s") }
}

fn side_text(side: &Estimate, scale: f64) -> String {
    match side.interval {
        Some(of) => estimate(side.value * scale, of.low * scale, of.high * scale),
        None => significant(side.value * scale, 3),
    }
}

impl<'a> SharingDiffView<'a> {
    /// `latency of contended loads: 12.3 ± 0.4 → 0.56 ± 0.08 Mcycles/s (-95.4%)`.
    fn head(&self) -> String {
        let (factor, unit) = scale(self.diff);
        let total = &self.diff.total;
        let [before, after] = &total.sides;
        let share = (before.value > 0.0).then(|| total.change.value / before.value * 100.0);
        let share = share.map_or_else(String::new, |share| {
            format!(" ({}%)", signed(&significant(share, 3), share))
        });
        let what =
            if self.diff.has_cost { "latency of contended loads" } else { "contended loads" };
        format!(
            "{what}: {} → {} {unit}{share}",
            side_text(before, factor),
            side_text(after, factor)
        )
    }

    fn sheet(&self) -> Sheet<'a> {
        let (factor, unit) = scale(self.diff);
        let scaled = move |of: &Estimate| {
            (of.value * factor, of.interval.map(|of| of.map(|end| end * factor)))
        };
        let mut fields = vec![
            Field::estimate("change", move |row: &SharingChange| Some(scaled(&row.change)))
                .head(format!("change {unit}"))
                .shown_as(move |row| {
                    signed(&side_text(&row.change, factor), row.change.value).into()
                }),
            Field::text("is", |row: &SharingChange| Some(is_what(row)?.to_owned()))
                .shown_if_known(|row| is_what(row).map(str::to_owned))
                .rigid(),
        ];
        for (at, side) in ["before", "after"].into_iter().enumerate() {
            fields.extend([
                Field::estimate(side, move |row: &SharingChange| Some(scaled(&row.sides[at])))
                    .shown_as(move |row| significant(row.sides[at].value * factor, 3).into()),
                Field::count(format!("{side}_contended"), move |row: &SharingChange| {
                    row.contended[at]
                })
                .for_programs(),
                Field::text(format!("{side}_verdict"), move |row: &SharingChange| {
                    Some(verdict_word(row.verdicts[at]?).to_owned())
                })
                .for_programs(),
            ]);
        }
        fields.extend([
            Field::number("p", |row: &SharingChange| row.p).for_programs(),
            Field::text("verdict", |row: &SharingChange| Some(verdicts(row.verdicts)))
                .rigid()
                .optional(3)
                .for_people(),
            Field::text("object", |row: &'a SharingChange| Some(&*row.object))
                .shown_as(|row| short_module(&row.object).into())
                .wanted(NAME),
        ]);
        let shown = self.diff.rows.iter().take(self.rows.unwrap_or(usize::MAX));
        Sheet::new(fields, shown, self.diff.rows.len()).by_another_order()
    }

    fn notes(&self) -> Vec<Note> {
        let runs = self.files.map(<[String]>::len);
        let note = runs_note(runs, None, ("the costs", "diff --sharing"));
        note.map(|text| Note { warning: false, text }).into_iter().collect()
    }
}

/// `false sharing → -`.
fn verdicts(sides: [Option<SharingVerdict>; 2]) -> String {
    let [before, after] = sides.map(|side| side.map_or("-", verdict));
    if before == after { before.to_owned() } else { format!("{before} → {after}") }
}

#[derive(Debug, Serialize)]
struct SharingDiffReport<'a> {
    before: &'a [String],
    after: &'a [String],
    unit: &'static str,
    total: SheetObject<'a>,
    objects: Sheet<'a>,
    objects_left_out: usize,
}

impl Report for SharingDiffView<'_> {
    fn schema(&self) -> &'static str {
        SHARING_DIFF_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = paint_line(style, &self.head());
        for (word, (at, files)) in ["before", "after "].iter().zip(self.files.iter().enumerate()) {
            let loads = count(self.diff.total.contended[at]);
            let files = escape(&files.join(" ")).into_owned();
            push_wrapped(&mut out, &format!("{word}  {loads} contended loads    {files}"), style);
        }
        out.push('\n');
        match self.diff.rows.is_empty() {
            true => out.push_str("no contended loads\n"),
            false => out.push_str(&self.sheet().text(style)),
        }
        push_all_notes(&mut out, self.notes(), style);
        out
    }

    fn json(&self) -> impl Serialize {
        let total = std::slice::from_ref(&self.diff.total);
        let all = SharingDiff { rows: total.to_vec(), ..self.diff.clone() };
        let all = SharingDiffView { diff: &all, files: self.files, rows: None };
        SharingDiffReport {
            before: self.files[0],
            after: self.files[1],
            unit: scale(self.diff).1,
            total: SheetObject(all.sheet().into_owned()),
            objects: self.sheet(),
            objects_left_out: self.rows.map_or(0, |rows| self.diff.rows.len().saturating_sub(rows)),
        }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet().delimited(separator))
    }
}
