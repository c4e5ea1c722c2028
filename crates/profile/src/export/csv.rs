//! The table of functions as comma-separated values, for spreadsheets and scripts.
//!
//! Fields are quoted as RFC 4180 says; lines end in a line feed, as they do on Unix. A number that
//! was not measured is an empty field. A spreadsheet takes text that starts with `=`, `+`, `-` or
//! `@` for a formula, and names come from whoever was recorded: such text gets an apostrophe in
//! front, by which spreadsheets know text. Who needs names to the letter reads `--json`.

use std::borrow::Cow;
use std::io::{self, Write};

use super::{Event, FunctionRow, Source, clean, functions};

/// Names of the columns. Shares are 0 to 1; `weight` is in units of the event; the last two are the share
/// if all lost samples were elsewhere, and if all were here.
pub const COLUMNS: [&str; 13] = [
    "event",
    "share",
    "share_low",
    "share_high",
    "samples",
    "weight",
    "total_share",
    "total_samples",
    "command",
    "module",
    "function",
    "with_lost_low",
    "with_lost_high",
];

/// Which rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Most rows per event; `None` writes all.
    pub rows: Option<usize>,
    /// Smallest share of a function or of what it called, 0 to 1.
    pub share: f64,
    /// Rows per event that get an interval, where the recording allows one.
    pub intervals: usize,
}

/// Writes a head and one row per event, command and function, the largest share of each event first.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &Source<'_>, limits: Limits, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for event in &source.events {
        let rows = functions(source.counts, event, limits.intervals);
        let large = rows.iter().filter(|row| row.total_share >= limits.share);
        for row in large.take(limits.rows.unwrap_or(usize::MAX)) {
            write_row(source, event, row, out)?;
        }
    }
    Ok(())
}

fn write_row(
    source: &Source<'_>,
    event: &Event,
    row: &FunctionRow,
    out: &mut dyn Write,
) -> io::Result<()> {
    let bounds = |bounds: Option<(f64, f64)>| match bounds {
        Some((low, high)) => (low.to_string(), high.to_string()),
        None => (String::new(), String::new()),
    };
    let (low, high) = bounds(row.interval.map(|interval| (interval.low, interval.high)));
    let (lost_low, lost_high) = bounds(event.with_lost(row.share));
    let weight = if event.by_period {
        Some(row.weight)
    } else {
        event.period.map(|period| period.saturating_mul(row.samples))
    };
    let weight = weight.map_or_else(String::new, |weight| weight.to_string());
    let module = source.modules.get(row.module as usize).map(|module| &*module.path);
    let function = row.function.map(|id| &*source.counts.functions[id as usize].name);
    writeln!(
        out,
        "{},{},{low},{high},{},{weight},{},{},{},{},{},{lost_low},{lost_high}",
        field(&event.name),
        row.share,
        row.samples,
        row.total_share,
        row.total_samples,
        field(&row.command),
        field(module.unwrap_or_default()),
        field(function.unwrap_or_default()),
    )
}

/// A text as a field.
#[must_use]
pub fn field(text: &str) -> Cow<'_, str> {
    let text = clean(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if !is_formula && !text.contains([',', '"']) {
        return text;
    }
    let mark = if is_formula { "'" } else { "" };
    format!("\"{mark}{}\"", text.replace('"', "\"\"")).into()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn rows_have_all_columns() {
        let mut out = Vec::new();
        write(&sample::made().source(), Limits::default(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,command,module,function,with_lost_low,with_lost_high
        cpu-clock,0.2916666666666667,,,35,35000000,0.5,60,my app,/usr/bin/my app,memcpy;x,,
        cpu-clock,0.25,,,30,30000000,0.25,30,my app,/usr/bin/my app,recurse,,
        cpu-clock,0.20833333333333334,,,25,25000000,0.20833333333333334,25,my app,[kernel.kallsyms],copy_page(struct page *),,
        cpu-clock,0.16666666666666666,,,20,20000000,0.16666666666666666,20,"<b>""evil"";","/opt/=1,""x"".so",,,
        cpu-clock,0.08333333333333333,,,10,10000000,0.8333333333333334,100,my app,/usr/bin/my app,main,,
        page-faults,1,,,3,3,1,3,"<b>""evil"";","/opt/=1,""x"".so",,,
        "#);
    }

    #[test]
    fn lost_samples_bound_each_share() {
        let made = sample::made();
        let mut source = made.source();
        (source.events[0].samples, source.events[0].lost_at_most) = (120, 30);
        let mut out = Vec::new();
        write(&source, Limits { rows: Some(1), ..Limits::default() }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let first: Vec<&str> = text.lines().nth(1).unwrap().rsplit(',').take(2).collect();
        let bounds: Vec<f64> = first.iter().rev().map(|field| field.parse().unwrap()).collect();
        // 35 of 120 samples: 35 to 65 of 150.
        assert!((bounds[0] - 35.0 / 150.0).abs() < 1e-12, "{bounds:?}");
        assert!((bounds[1] - 65.0 / 150.0).abs() < 1e-12, "{bounds:?}");
        assert!(text.lines().nth(2).unwrap().ends_with(",,"), "of another event nothing was lost");
    }

    #[test]
    fn no_text_is_a_formula_or_ends_its_field() {
        for (text, written) in [
            ("main", "main"),
            ("a b", "a b"),
            ("f<int, 2>", "\"f<int, 2>\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("-[NSObject init]", "\"'-[NSObject init]\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1\r\n", "\u{fffd}=1\u{fffd}\u{fffd}"),
            ("", ""),
        ] {
            assert_eq!(field(text), written);
        }
    }
}
