//! The source lines and instructions of a function: their fields, for JSON and CSV.

use std::collections::HashMap;

use pmuscope_profile::views::{FunctionHits, Hit};
use pmuscope_profile::{Annotation, Line, Listed};

use super::{by_address, outside};
use crate::sheet::{Field, Sheet, SheetObject};

/// An instruction, or a sampled address without one.
struct InstructionRow<'a> {
    at: u64,
    listed: Option<&'a Listed>,
    hit: Option<&'a Hit<u64>>,
    /// The innermost function inlined there.
    inlined: Option<&'a str>,
}

/// A sampled line with its text, where the source is here.
struct LineRow<'a> {
    hit: &'a Hit<Line>,
    text: Option<&'a str>,
    inlined: Option<&'a str>,
}

/// Samples in all of the function.
pub(super) fn own_object(own: &Hit<()>) -> SheetObject<'_> {
    SheetObject(Sheet::new(number_fields(|hit: &Hit<()>| Some(hit)).into(), [own], 1))
}

/// All instructions, then sampled addresses without one.
pub(super) fn instructions<'a>(
    annotation: &'a Annotation<'a>,
    hits: &'a FunctionHits,
) -> Sheet<'a> {
    let here = by_address(&hits.addresses);
    let listings = annotation.listings.as_deref().unwrap_or_default();
    let listed = listings.iter().flat_map(|listing| &listing.instructions);
    let listed = listed.map(|one| {
        let (hit, inlined) = (here.get(&one.at).copied(), one.inlined.as_deref());
        InstructionRow { at: one.at, listed: Some(one), hit, inlined }
    });
    let unlisted = outside(&hits.addresses, listings).into_iter();
    let unlisted = unlisted.map(|hit| {
        let inlined = annotation.inlined.addresses.get(&hit.key).map(|name| &**name);
        InstructionRow { at: hit.key, listed: None, hit: Some(hit), inlined }
    });
    instructions_sheet(&listed.chain(unlisted).collect::<Vec<_>>()).into_owned()
}

fn instructions_sheet<'a>(rows: &'a [InstructionRow<'a>]) -> Sheet<'a> {
    type Row<'a> = InstructionRow<'a>;
    let line = |row: &Row<'a>| row.listed?.line.as_ref();
    let mut fields: Vec<_> = number_fields(|row: &Row<'a>| row.hit).into();
    fields.extend([
        Field::address("address", |row: &Row<'_>| Some(row.listed?.address)),
        Field::address("sampled_address", |row: &Row<'_>| Some(row.at)),
        Field::text("file", move |row: &'a Row<'a>| Some(&*line(row)?.file)),
        Field::count("line", move |row: &'a Row<'a>| line(row)?.number.map(u64::from)),
        Field::text("text", |row: &Row<'a>| Some(&*row.listed?.text)).column("instruction"),
        Field::text("inlined", |row: &Row<'a>| row.inlined),
    ]);
    Sheet::new(fields, rows, rows.len())
}

/// Lines with samples.
pub(super) fn lines<'a>(annotation: &'a Annotation<'a>, hits: &'a FunctionHits) -> Sheet<'a> {
    let sources = annotation.sources.iter();
    let texts: HashMap<&str, &[String]> =
        sources.filter_map(|source| Some((&*source.path, source.text.as_deref().ok()?))).collect();
    let text = |line: &Line| {
        let text = texts.get(&*line.file)?.get((line.number? as usize).checked_sub(1)?)?;
        Some(&**text)
    };
    let inlined = |line: &Line| annotation.inlined.lines.get(line).map(|name| &**name);
    let row = |hit| LineRow { hit, text: text(&hit.key), inlined: inlined(&hit.key) };
    let rows: Vec<_> = hits.lines.iter().map(row).collect();
    let mut fields: Vec<_> = number_fields(|row: &LineRow<'a>| Some(row.hit)).into();
    fields.extend([
        Field::text("file", |row: &LineRow<'a>| Some(&*row.hit.key.file)),
        Field::count("line", |row: &LineRow<'_>| row.hit.key.number.map(u64::from)),
        Field::text("text", |row: &LineRow<'a>| row.text),
        Field::text("inlined", |row: &LineRow<'a>| row.inlined),
    ]);
    Sheet::new(fields, &rows, rows.len()).into_owned()
}

/// Samples and their share of the event; none where there is no hit.
fn number_fields<'a, R: 'a, K: 'a>(
    of: impl Fn(&'a R) -> Option<&'a Hit<K>> + Copy + 'a,
) -> [Field<'a, R>; 2] {
    let share = move |row| Some(of(row).map_or((0.0, None), |hit| (hit.share, hit.interval)));
    [
        Field::estimate("share", share),
        Field::count("samples", move |row| of(row).map_or(0, |hit| hit.sums.samples)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::{Separator, delimited_by};
    use pmuscope_profile::views::Sums;
    use pmuscope_stats::{Interval, LEVEL};

    #[test]
    fn instructions_have_a_line_each() {
        let hit = |key: u64, samples: u64, low: Option<f64>| Hit {
            key,
            sums: Sums { samples, weight: samples },
            share: samples as f64 / 8.0,
            interval: low.map(|low| Interval { low, high: low + 0.25, level: LEVEL }),
        };
        let hits = [hit(0x1020, 4, Some(0.375)), hit(0x1fff, 0, None)];
        let listed = Listed {
            at: 0x1020,
            address: 0x40_1020,
            text: "mov %rax,%rbx".into(),
            line: Some(Line { file: "/src/a.c".into(), number: Some(12) }),
            inlined: Some("min".into()),
        };
        let rows = [
            InstructionRow {
                at: 0x1020,
                listed: Some(&listed),
                hit: Some(&hits[0]),
                inlined: listed.inlined.as_deref(),
            },
            InstructionRow { at: 0x1fff, listed: None, hit: Some(&hits[1]), inlined: None },
        ];
        let sheets = [("cycles", instructions_sheet(&rows))];
        insta::assert_snapshot!(delimited_by("event", &sheets, Separator::Comma), @r#"
        event,share,share_low,share_high,samples,address,sampled_address,file,line,instruction,inlined
        cycles,0.5,0.375,0.625,4,0x401020,0x1020,/src/a.c,12,"mov %rax,%rbx",min
        cycles,0,,,0,,0x1fff,,,,
        "#);
    }
}
