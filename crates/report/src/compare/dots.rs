//! Pictures of a comparison: dots with their intervals by file, as ratios, and over time.

use pmuscope_measure::Estimated;
use pmuscope_measure::compare::{ComparedMetric, TrendRow, Verdict};

use crate::markup::{Markup, html};
use crate::number;
use crate::runs::value;

/// Width of a plot, pixels.
const WIDTH: f64 = 200.0;
/// Height of a dot's line, pixels.
const LINE: f64 = 14.0;
/// The axis of ratios goes from 1 / this to this; what lies beyond is drawn at its end.
pub(super) const LARGEST_RATIO: f64 = 4.0;
/// Colors of files.
const COLORS: usize = 6;
/// Height of the plot of a figure over time, pixels.
const HEIGHT: f64 = 64.0;
/// Beside it: the ends of its scale.
const SCALE: f64 = 72.0;

/// A dot in the color of a file.
pub(super) fn chip(file: usize) -> Markup {
    html! { i class={ "f" (file % COLORS) } {} " " }
}

/// One dot with its interval per file, on a scale that holds them all.
pub(super) fn values(row: &ComparedMetric, names: &[String]) -> Markup {
    let means = || row.columns.iter().map(|column| column.as_ref()?.mean);
    let Some((low, span)) = scale(means().flatten()) else { return html! { "-" } };
    let x = |value: f64| 8.0 + (WIDTH - 16.0) * (value - low) / span;
    let files = means().zip(names).enumerate();
    picture(
        (WIDTH, LINE * names.len() as f64),
        "values with 95% CI; the table has the numbers",
        &html! {
            @for (at, mean, name) in files.filter_map(|(at, (mean, name))| Some((at, mean?, name))) {
                (dot(at, name, ends(&mean).map(|value| (x(value), middle(at))), 3.5))
            }
        },
    )
}

/// Ratios of all pairs on the axis that all figures share.
pub(super) fn ratios(row: &ComparedMetric, names: &[String]) -> Markup {
    let limit = LARGEST_RATIO.ln();
    let x =
        |ratio: f64| WIDTH / 2.0 * (1.0 + ratio.max(1e-9).ln().clamp(-limit, limit) / limit * 0.96);
    let height = LINE * row.pairs.len() as f64;
    let known =
        row.pairs.iter().enumerate().filter_map(|(at, pair)| {
            Some((at, pair, pair.ratio.filter(|ratio| ratio.value > 0.0)?))
        });
    picture(
        (WIDTH, height),
        "ratios with 95% CI; the table has the numbers",
        &html! {
            line class="one" x1=(x(1.0)) x2=(x(1.0)) y1="0" y2=(height) {}
            @for (at, pair, ratio) in known {
                @let is_sure = matches!(pair.verdict, Verdict::More | Verdict::Less);
                @let title = format!("{} to {}", names[pair.base], names[pair.other]);
                g class=[(!is_sure).then_some("unsure")] {
                    (dot(pair.other, &title, ends(&ratio).map(|value| (x(value), middle(at))), 3.5))
                }
            }
        },
    )
}

/// A figure over time; a line marks where its level changed.
pub(super) fn over_time(row: &TrendRow, names: &[String]) -> Markup {
    let points = || row.points.iter().zip(names).enumerate();
    let Some((low, span)) = scale(row.points.iter().flatten().copied()) else {
        return html! { "-" };
    };
    let width = 2.0 * WIDTH;
    let step = (width - 16.0) / row.points.len().max(2) as f64;
    let x = |at: usize| 8.0 + step * (at as f64 + 0.5);
    let y = |value: f64| HEIGHT - 6.0 - (HEIGHT - 12.0) * (value - low) / span;
    picture(
        (width + SCALE, HEIGHT),
        "values over time; JSON has the numbers",
        &html! {
            @for at in row.shifts.iter().map(|shift| pixels(x(shift.at) - step / 2.0)) {
                line class="shift" x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
            }
            @for (at, point, name) in points().filter_map(|(at, (point, name))| Some((at, (*point)?, name))) {
                @let title = format!("{name}: {}", value(&point, ""));
                (dot(0, &title, ends(&point).map(|value| (x(at), y(value))), 3.0))
            }
            @for end in [low + span, low] {
                text x=(width + 4.0) y=(pixels(y(end) + 4.0)) { (number::significant(end, 3)) }
            }
        },
    )
}

/// The end of a scale that holds all values with their intervals, and its length; `None` without values.
pub(super) fn scale(values: impl Iterator<Item = Estimated>) -> Option<(f64, f64)> {
    let ends = values.flat_map(|value| ends(&value));
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let is_known = low.is_finite() && high.is_finite();
    is_known.then_some((low, if high > low { high - low } else { 1.0 }))
}

/// The lower end of the interval, the value, the upper end.
pub(super) fn ends(estimate: &Estimated) -> [f64; 3] {
    let value = estimate.value;
    estimate.interval.map_or([value; 3], |interval| [interval.low, value, interval.high])
}

/// The middle of a line.
fn middle(line: usize) -> f64 {
    LINE * (line as f64 + 0.5)
}

pub(super) fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

pub(super) fn picture((width, height): (f64, f64), label: &str, marks: &Markup) -> Markup {
    html! {
        svg class="dots" role="img" aria-label=(label) width=(width) height=(height)
            viewBox=(format!("0 0 {width} {height}")) { (marks) }
    }
}

/// A dot, and a line from one end of its interval to the other.
pub(super) fn dot(
    file: usize,
    title: &str,
    [low, at, high]: [(f64, f64); 3],
    radius: f64,
) -> Markup {
    html! {
        g class={ "f" (file % COLORS) } {
            title { (title) }
            line x1=(pixels(low.0)) x2=(pixels(high.0)) y1=(pixels(low.1)) y2=(pixels(high.1)) {}
            circle cx=(pixels(at.0)) cy=(pixels(at.1)) r=(radius) {}
        }
    }
}
