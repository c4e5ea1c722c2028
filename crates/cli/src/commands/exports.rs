//! Formats that are made of a recording's counts: what they need of it, and how they are written.

use std::io::{self, Write};

use pmuscope_console::output::Format;
use pmuscope_profile::export::{ExportedEvent, Source, firefox, folded, pprof};
use pmuscope_profile::{Annotation, Detail, GroupBy, RankBy, TasksBy};
use pmuscope_report::number::counted;
use pmuscope_report::{
    Flame, FlameLimits, PageLimits, RowLimits, Separator, Summary, escape_lines, flame_svg,
    functions_delimited, html_page,
};

use crate::version::COMMIT;

/// Rows of a table of functions that get an interval: each takes some 50 µs.
const INTERVALS: usize = 10_000;

/// What the counts of a format are grouped by.
pub(super) fn group_by(format: Format, rank: RankBy) -> GroupBy {
    let by_thread = matches!(format, Format::Html | Format::Pprof | Format::Firefox);
    GroupBy {
        chains: format != Format::Text || rank == RankBy::Total,
        tasks: if by_thread { TasksBy::Thread } else { TasksBy::Command },
        cpus: matches!(format, Format::Html | Format::Pprof),
    }
}

/// Whether a format has addresses within a function, or the function only.
pub(super) fn detail(format: Format) -> Detail {
    match format {
        Format::Pprof | Format::Firefox => Detail::Address,
        _ => Detail::Function,
    }
}

/// Which event a format shows that has room for one, and what it leaves out; `None` of others, and where there is one only.
pub(super) fn left_out(format: Format, source: &Source<'_>) -> Option<String> {
    let main = source.main_event().filter(|_| matches!(format, Format::Folded | Format::Svg))?;
    let others = source.events.iter().filter(|event| event.index != main.index);
    let named = |event: &ExportedEvent| {
        format!("{} ({})", escape_lines(&event.name), counted(event.samples, "sample"))
    };
    let others: Vec<String> = others.map(named).collect();
    let (main, text) = (named(main), others.join(", "));
    (!others.is_empty()).then(|| {
        format!("note: the stacks are of {main}. Without {text}: select with --event NAME")
    })
}

/// Writes a format that is made of counts.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    format: Format,
    source: &Source<'_>,
    summary: &Summary,
    cut: RowLimits,
    code: &[Annotation<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Csv => table(source, cut, Separator::Comma, out),
        Format::Tsv => table(source, cut, Separator::Tab, out),
        Format::Folded => match source.main_event() {
            Some(event) => folded::write(source, event, folded::Options::default(), out),
            None => Ok(()),
        },
        Format::Svg => {
            // A picture of nothing, where there is no event.
            let event = source.main_event().cloned().unwrap_or_default();
            out.write_all(picture(source, &event, summary, cut).as_bytes())
        }
        Format::Html => {
            out.write_all(html_page(source, summary, PageLimits::of(cut), code, COMMIT).as_bytes())
        }
        Format::Pprof => pprof::write(source, out),
        Format::Firefox => firefox::write(source, out),
        // Written where they are made.
        Format::Text | Format::Json | Format::JsonLines | Format::Parquet => Ok(()),
    }
}

fn table(
    source: &Source<'_>,
    cut: RowLimits,
    separator: Separator,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(functions_delimited(source, cut, INTERVALS, separator).as_bytes())
}

fn picture(
    source: &Source<'_>,
    event: &ExportedEvent,
    summary: &Summary,
    cut: RowLimits,
) -> String {
    let flame = Flame::new(source, event, FlameLimits::default().above(cut.share));
    let facts: Vec<String> = summary
        .facts
        .iter()
        .filter(|fact| fact.value != "-")
        .map(|fact| format!("{} {}", fact.name.to_lowercase(), fact.value))
        .collect();
    // The title names all events, the picture is of the first.
    let title = match source.events.len() {
        0 | 1 => summary.title.clone(),
        _ => format!("{} of {}", event.name, summary.title),
    };
    flame_svg(&flame, &title, &facts.join(" · "))
}
