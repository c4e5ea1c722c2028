//! A comparison as one page: dots with intervals, ratios on one axis, what explains the change.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmuscope_measure::compare::{
    ComparedMetric, Comparison, Explanation, FileHead, Pair, Trend, Verdict,
};
use pmuscope_measure::{Estimated, RunFile};

use super::{Fact, PageFrame, Summary, filter};
use crate::Note;
use crate::compare::notes::{of_comparison, of_files, short_names};
use crate::compare::scale::Scale;
use crate::compare::{
    COMPARE_SCHEMA, TREND_SCHEMA, mean_text, p_text, signed, unit_text, verdict_words,
};
use crate::counts::of_runs;
use crate::markup::{text, written};
use crate::number;
use crate::runs::value;

/// Width of a plot, pixels.
const WIDTH: f64 = 200.0;
/// Height of a dot's line, pixels.
const LINE: f64 = 14.0;
/// The axis of ratios goes from 1 / this to this; what lies beyond is drawn at its end.
const LARGEST_RATIO: f64 = 4.0;
/// Colours of files.
const COLOURS: usize = 6;
/// Height of the plot of a figure over time, pixels.
const HEIGHT: f64 = 64.0;
/// Beside it: the ends of its scale.
const SCALE: f64 = 72.0;

/// The page of `pmuscope compare --html`; `commit` is what the program was built from.
#[must_use]
pub(crate) fn compare_page(comparison: &Comparison, commit: &str) -> String {
    page(comparison, Vec::new(), commit)
}

/// The page of one file's figures: `comparison` is of it alone.
#[must_use]
pub fn figures_page(comparison: &Comparison, file: &RunFile, commit: &str) -> String {
    page(comparison, of_runs(file).collect(), commit)
}

fn page(comparison: &Comparison, more: Vec<String>, commit: &str) -> String {
    let names = short_names(&comparison.files);
    let mut facts = vec![figures(comparison.rows.len())];
    if names.len() > 1 {
        let tests = number::counted(comparison.tests as u64, "test");
        let claimed = number::percent(comparison.alpha, 0);
        facts.push(Fact::new("Claimed at", claimed, format!("of {tests} together (Holm)")));
    }
    let mut notes = of_comparison(comparison);
    notes.extend(more);
    let summary = summary(names.join(", "), facts, notes, &comparison.files);
    PageFrame { schema: COMPARE_SCHEMA, commit }.page(
        &summary,
        &written(|out| {
            push_files(out, &comparison.files, &names);
            for explanation in &comparison.explanations {
                push_explanation(out, explanation, &names);
            }
            push_rows(out, comparison, &names);
        }),
    )
}

/// The page of `pmuscope compare --trend DIR --html`; `commit` is what the program was built from.
#[must_use]
pub(crate) fn trend_page(trend: &Trend, commit: &str) -> String {
    let names = short_names(&trend.files);
    let title = format!("{} files over time", names.len());
    let claimed = Fact::new(
        "Claimed at",
        number::percent(trend.alpha, 0),
        "changes of level, for all figures together".to_owned(),
    );
    let facts = vec![figures(trend.rows.len()), claimed];
    let summary = summary(title, facts, of_files(&trend.files), &trend.files);
    PageFrame { schema: TREND_SCHEMA, commit }
        .page(&summary, &written(|out| push_trend(out, trend, &names)))
}

fn figures(number: usize) -> Fact {
    Fact::new("Figures", number::count(number as u64), "means ±95 %".to_owned())
}

/// The head: what is compared, and whether a machine was measured at all.
fn summary(title: String, mut facts: Vec<Fact>, notes: Vec<String>, files: &[FileHead]) -> Summary {
    let emulators: BTreeSet<&str> =
        files.iter().filter_map(|file| file.emulator.as_deref()).collect();
    if !emulators.is_empty() {
        let names: Vec<&str> = emulators.into_iter().collect();
        facts.push(Fact::emulated(&names.join(", ")));
    }
    let note = |text| Note { text, warning: false };
    let notes = notes.into_iter().map(note).collect();
    Summary { title, facts, notes, command: String::new() }
}

/// What each file is, and its colour.
fn push_files(out: &mut String, files: &[FileHead], names: &[String]) {
    out.push_str("<ul class=\"files\">\n");
    for (at, (name, file)) in names.iter().zip(files).enumerate() {
        let line = crate::compare::of_file(name, file);
        // Writing to a String does not fail, here and below.
        let _ = writeln!(out, "<li>{} {}</li>", chip(at), text(line.trim_end()));
    }
    out.push_str("</ul>\n");
}

/// A dot in the colour of a file.
fn chip(file: usize) -> String {
    format!("<i class=\"f{}\"></i>", file % COLOURS)
}

fn push_rows(out: &mut String, comparison: &Comparison, names: &[String]) {
    let several = names.len() > 1;
    let ratios = if several {
        format!(
            ", each figure on its own scale; ratios of means on one scale, from 1/{LARGEST_RATIO} to \
             {LARGEST_RATIO}"
        )
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"figures\">\n<h2>Figures</h2>\n<p class=\"dim\">Means with \
         95 % intervals{ratios}.</p>\n{}\
         <div class=\"wide\"><table class=\"sortable\"><thead><tr><th scope=\"col\">figure</th>\
         <th scope=\"col\">unit</th>",
        filter().0
    );
    if several {
        out.push_str("<th scope=\"col\" class=\"fixed\">values</th>");
    }
    out.push_str("<th scope=\"col\" class=\"num\">mean ±95 %</th>");
    if several {
        out.push_str(
            "<th scope=\"col\" class=\"num\">difference</th><th scope=\"col\" class=\"fixed\">ratios</th>\
             <th scope=\"col\" class=\"num\">ratio</th><th scope=\"col\" class=\"num\">p</th>\
             <th scope=\"col\">verdict</th>",
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &comparison.rows {
        push_row(out, row, &comparison.files, names);
        if several {
            push_pairs(out, row, names);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

/// A figure in each file.
fn push_row(out: &mut String, row: &ComparedMetric, files: &[FileHead], names: &[String]) {
    let scale = Scale::of_row(row);
    let labels: Vec<String> = row.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let means: Vec<Option<Estimated>> =
        row.columns.iter().map(|column| column.as_ref().and_then(|column| column.mean)).collect();
    // One alone has nothing to stand beside.
    let plot =
        if names.len() > 1 { format!("<td>{}</td>", dots(&means, names)) } else { String::new() };
    let _ = write!(
        out,
        "<tr><td class=\"name\">{} <small>{}</small></td><td>{}</td>{plot}<td class=\"num\" data-v=\"{}\">",
        text(&row.metric),
        text(&labels.join(" ")),
        text(&unit_text(row, files)),
        means.iter().flatten().next().map_or(String::new(), |mean| sorted_by(mean.value)),
    );
    for (at, column) in row.columns.iter().enumerate() {
        let shown = match column.as_ref().map(|column| (column, column.mean)) {
            Some((column, Some(mean))) => format!("{} (n {})", mean_text(column, &scale), mean.n),
            Some((column, None)) if column.beyond.is_some() => mean_text(column, &scale),
            Some((column, None)) => {
                column.why.as_ref().map_or("-".to_owned(), |why| format!("-: {why}"))
            }
            None => "-".to_owned(),
        };
        let _ = write!(out, "<div class=\"line\">{} {}</div>", chip(at), text(&shown));
    }
    out.push_str("</td>");
}

/// A number to sort by. Its last digits are none of the figure's: a file that is read again may have others.
fn sorted_by(value: f64) -> String {
    format!("{value:.9e}")
}

/// What is said of each pair of files.
fn push_pairs(out: &mut String, row: &ComparedMetric, names: &[String]) {
    let scale = Scale::of_row(row);
    let each = |of: &dyn Fn(&Pair) -> String| -> String {
        row.pairs
            .iter()
            .map(|pair| format!("<div class=\"line\">{}</div>", text(&of(pair))))
            .collect()
    };
    let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let first = |of: &dyn Fn(&Pair) -> Option<f64>| {
        row.pairs.first().and_then(of).map_or(String::new(), sorted_by)
    };
    let _ = write!(
        out,
        "<td class=\"num\" data-v=\"{}\">{}</td><td>{}</td><td class=\"num\" data-v=\"{}\">{}</td>\
         <td class=\"num\" data-v=\"{}\">{}</td><td>{}</td>",
        first(&|pair| pair.difference.map(|difference| difference.value)),
        each(&|pair| or(pair.difference.map(|d| signed(&scale.apply(&d), &scale.unit)))),
        ratios(&row.pairs, names),
        first(&|pair| pair.ratio.map(|ratio| ratio.value)),
        each(&|pair| or(pair.ratio.map(|ratio| value(&ratio, "")))),
        first(&|pair| pair.p_adjusted),
        each(&|pair| or(pair.p_adjusted.map(p_text))),
        each(&|pair| verdict_words(pair.verdict).to_owned()),
    );
}

/// Ends of intervals.
fn ends(estimate: &Estimated) -> (f64, f64) {
    estimate.interval.map_or((estimate.value, estimate.value), |i| (i.low, i.high))
}

/// One dot with its interval per file, on a scale that holds them all.
fn dots(means: &[Option<Estimated>], names: &[String]) -> String {
    let all = || means.iter().flatten().map(ends);
    let low = all().map(|(low, _)| low).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, high)| high).fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() {
        return "-".to_owned();
    }
    let span = if high > low { high - low } else { 1.0 };
    let x = |value: f64| 8.0 + (WIDTH - 16.0) * (value - low) / span;
    let mut out = svg(means.len());
    for (at, mean) in means.iter().enumerate().filter_map(|(at, mean)| Some((at, (*mean)?))) {
        let (low, high) = ends(&mean);
        push_dot(&mut out, at, at, (x(low), x(mean.value), x(high)), &names[at]);
    }
    out + "</svg>"
}

/// Ratios of all pairs on the axis that all figures share.
fn ratios(pairs: &[Pair], names: &[String]) -> String {
    let limit = LARGEST_RATIO.ln();
    let x = |ratio: f64| WIDTH / 2.0 * (1.0 + ratio.ln().clamp(-limit, limit) / limit * 0.96);
    let mut out = svg(pairs.len());
    let height = LINE * pairs.len() as f64;
    let _ = write!(
        out,
        "<line class=\"one\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{height}\"/>",
        x(1.0)
    );
    for (at, pair) in pairs.iter().enumerate() {
        let Some(ratio) = pair.ratio.filter(|ratio| ratio.value > 0.0) else { continue };
        let (low, high) = ends(&ratio);
        let title = format!("{} to {}", names[pair.base], names[pair.other]);
        let sure = matches!(pair.verdict, Verdict::More | Verdict::Less);
        if !sure {
            out.push_str("<g class=\"unsure\">");
        }
        push_dot(&mut out, at, pair.other, (x(low.max(1e-9)), x(ratio.value), x(high)), &title);
        if !sure {
            out.push_str("</g>");
        }
    }
    out + "</svg>"
}

fn svg(lines: usize) -> String {
    let height = LINE * lines as f64;
    format!(
        "<svg class=\"dots\" role=\"img\" aria-label=\"values with intervals; the numbers stand beside\" \
         width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">"
    )
}

fn push_dot(
    out: &mut String,
    line: usize,
    colour: usize,
    (low, x, high): (f64, f64, f64),
    title: &str,
) {
    let y = LINE * (line as f64 + 0.5);
    let _ = write!(
        out,
        "<g class=\"f{}\"><title>{}</title><line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y}\" y2=\"{y}\"/>\
         <circle cx=\"{x:.1}\" cy=\"{y}\" r=\"3.5\"/></g>",
        colour % COLOURS,
        text(title)
    );
}

fn push_explanation(out: &mut String, explanation: &Explanation, names: &[String]) {
    let block = crate::compare::explanation_text(explanation, names);
    let _ = writeln!(
        out,
        "<section>\n<h2>What goes with the change</h2>\n<div class=\"wide\"><pre>{}</pre></div>\n</section>",
        // Line by line: what could act on a reader is escaped, line feeds are ours.
        block.lines().map(|line| text(line).into_owned()).collect::<Vec<_>>().join("\n")
    );
}

fn push_trend(out: &mut String, trend: &Trend, names: &[String]) {
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"figures\">\n<h2>Figures over time</h2>\n<p class=\"dim\">{} to \
         {}: means with 95 % intervals, each figure on a scale of its own, whose ends stand beside it. A line marks where the level \
         changed.</p>\n{}<div class=\"wide\"><table>\
         <thead><tr><th scope=\"col\">figure</th><th scope=\"col\">unit</th>\
         <th scope=\"col\" class=\"num\">first ±95 %</th><th scope=\"col\">over time</th>\
         <th scope=\"col\" class=\"num\">last ±95 %</th><th scope=\"col\">changed at</th></tr></thead><tbody>\n",
        text(names.first().map_or("-", String::as_str)),
        text(names.last().map_or("-", String::as_str)),
        filter().0,
    );
    let emulated = trend.files.iter().any(|file| file.emulator.is_some());
    for row in &trend.rows {
        let end = |point: Option<&Estimated>| {
            point.map_or("-".to_owned(), |point| text(&value(point, &row.unit)).into_owned())
        };
        let labels: Vec<String> = row.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let at: Vec<usize> = row.shifts.iter().map(|shift| shift.at).collect();
        let shifts: String = row
            .shifts
            .iter()
            .map(|s| {
                let (before, after) =
                    (number::significant(s.before, 4), number::significant(s.after, 4));
                let line = format!("{}: {before} to {after}", names[s.at]);
                format!("<div class=\"line\">{}</div>", text(&line))
            })
            .collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"name\">{} <small>{}</small></td><td>{}</td><td class=\"num\">{}</td><td>{}</td>\
             <td class=\"num\">{}</td><td>{}</td></tr>",
            text(&row.metric),
            text(&labels.join(" ")),
            text(&crate::compare::trend_unit(row, emulated)),
            end(row.points.iter().flatten().next()),
            over_time(&row.points, &at, names),
            end(row.points.iter().flatten().next_back()),
            if shifts.is_empty() { "-" } else { &shifts },
        );
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn over_time(points: &[Option<Estimated>], shifts: &[usize], names: &[String]) -> String {
    let all = || points.iter().flatten().map(ends);
    let low = all().map(|(low, _)| low).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, high)| high).fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() {
        return "-".to_owned();
    }
    let span = if high > low { high - low } else { 1.0 };
    let width = 2.0 * WIDTH;
    let step = (width - 16.0) / points.len().max(2) as f64;
    let x = |at: usize| 8.0 + step * (at as f64 + 0.5);
    let y = |value: f64| HEIGHT - 6.0 - (HEIGHT - 12.0) * (value - low) / span;
    let mut out = format!(
        "<svg class=\"dots\" role=\"img\" aria-label=\"values over time; JSON has the numbers\" \
         width=\"{all}\" height=\"{HEIGHT}\" viewBox=\"0 0 {all} {HEIGHT}\">",
        all = width + SCALE
    );
    for &at in shifts {
        let x = x(at) - step / 2.0;
        let _ = write!(
            out,
            "<line class=\"shift\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>"
        );
    }
    for (at, point) in points.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))) {
        let (low, high) = ends(&point);
        let title = format!("{}: {}", names[at], value(&point, ""));
        let _ = write!(
            out,
            "<g class=\"f0\"><title>{}</title><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" \
             y2=\"{:.1}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"/></g>",
            text(&title),
            y(low),
            y(high),
            y(point.value),
            x = x(at),
        );
    }
    for (end, value) in [(high, y(high)), (low, y(low))] {
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            width + 4.0,
            value + 4.0,
            text(&number::significant(end, 3))
        );
    }
    out + "</svg>"
}
