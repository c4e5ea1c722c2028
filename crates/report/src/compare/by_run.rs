//! Pictures of the runs of one file: a dot for each run with the mean and its interval, or a line over time where
//! counts are of intervals.

use std::collections::BTreeMap;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::counting::INTERVAL;
use pmuscope_measure::summary::{SummaryRow, summary};
use pmuscope_measure::{Estimated, Run, RunFile, Series};

use super::dots::{dot, ends, picture, pixels, scale};
use crate::markup::{Markup, html};
use crate::number;
use crate::runs::value;

/// Charts on a page: more are no help, and JSON has all.
const MOST: usize = 48;
/// Room for dots, pixels.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 72.0;
/// Beside it: the ends of the scale of values.
const SCALE: f64 = 64.0;
/// Below it: the first and the last run.
const AXIS: f64 = 14.0;
/// Most points over time that have a dot each, which shows its value.
const MOST_DOTS: usize = 120;

/// The values of an event, in the order of runs.
struct Chart<'a> {
    row: &'a SummaryRow,
    /// Number of the run or seconds, and the value where there is one.
    points: Vec<(f64, Option<f64>)>,
    is_over_time: bool,
}

/// A chart of each figure of a file that has several values; empty where none has, and where arms are compared.
pub(super) fn charts(file: &RunFile) -> Markup {
    let summary = summary(file, &Metrics::default());
    let is_over_time = file.runs.iter().any(|run| run.labels.contains_key(INTERVAL));
    let runs: BTreeMap<usize, &Run> = match is_over_time {
        true => file.runs.iter().map(|run| (run.index, run)).collect(),
        false => file.counting_runs().map(|run| (run.index, run)).collect(),
    };
    if file.arms.len() > 1 || runs.len() < 2 {
        return html! {};
    }
    let all: Vec<Chart<'_>> = summary
        .rows
        .iter()
        .filter_map(|row| {
            let is_it = |of: &&Series| of.metric == row.metric && of.labels == row.labels;
            let series = file.series.iter().find(is_it)?;
            Some(Chart { row, points: points(series, &runs), is_over_time })
        })
        .collect();
    let (drawn, not_drawn): (Vec<_>, Vec<_>) = all.into_iter().partition(Chart::has_several);
    let what = if is_over_time { "Over time" } else { "By run" };
    html! {
        @if !drawn.is_empty() {
            section id="runs" {
                h2 { (what) }
                p class="dim" { (about(is_over_time)) }
                div class="charts" { @for chart in drawn.iter().take(MOST) { (chart.html()) } }
                @for line in left_out(drawn.len(), &not_drawn) { p { (line) } }
            }
            "\n"
        }
    }
}

fn about(is_over_time: bool) -> &'static str {
    match is_over_time {
        true => {
            "The count of each interval at its end; each event on its own scale. Gaps were not measured."
        }
        false => {
            "A dot per run; the line is the mean, the band its 95% CI. Each event on its own scale, which need not \
             begin at 0."
        }
    }
}

/// What has no chart, and why.
fn left_out(drawn: usize, not_drawn: &[Chart<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    if drawn > MOST {
        let more = number::count((drawn - MOST) as u64);
        lines.push(format!(
            "{more} more are not drawn: see the table below, or --json for all runs."
        ));
    }
    if !not_drawn.is_empty() {
        let names: Vec<String> = not_drawn.iter().map(Chart::why_not).collect();
        lines.push(format!("Not drawn: {}.", names.join("; ")));
    }
    lines
}

fn points(series: &Series, runs: &BTreeMap<usize, &Run>) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<(f64, Option<f64>)> = series
        .values
        .iter()
        .filter_map(|value| {
            let run = runs.get(&value.run)?;
            let at = match run.labels.get(INTERVAL) {
                Some(seconds) => seconds.parse().ok()?,
                None => run.round.unwrap_or(run.order) as f64 + 1.0,
            };
            Some((at, value.value.filter(|value| value.is_finite())))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

impl Chart<'_> {
    fn known(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().filter_map(|(at, value)| Some((*at, (*value)?)))
    }

    fn has_several(&self) -> bool {
        self.known().nth(1).is_some()
    }

    fn name(&self) -> String {
        let labels: Vec<String> =
            self.row.labels.iter().map(|(key, value)| format!("{key} {value}")).collect();
        match labels.is_empty() {
            true => self.row.metric.clone(),
            false => format!("{} ({})", self.row.metric, labels.join(", ")),
        }
    }

    /// `LLC-loads (no such counter)`.
    fn why_not(&self) -> String {
        let why = match (self.known().next(), &self.row.why) {
            (Some(_), _) => "a single value",
            (None, Some(why)) => why,
            (None, None) => "not measured",
        };
        format!("{} ({why})", self.name())
    }

    /// What values are measured against: intervals of one run depend on each other, so their mean has no interval.
    fn mean(&self) -> Option<Estimated> {
        self.row.per_run.filter(|_| !self.is_over_time)
    }

    /// A moment or a run, for people.
    fn when(&self, at: f64) -> String {
        match self.is_over_time {
            true => number::duration(at),
            false => format!("run {}", number::fixed(at, 0)),
        }
    }

    fn shown(&self, of: f64) -> String {
        let of = Estimated { value: of, interval: None, n: 1, why: None };
        format!("{} {}", value(&of, &self.row.unit), self.row.unit).trim_end().to_owned()
    }

    fn html(&self) -> Markup {
        let mean = self.mean();
        let unit = if self.row.unit == "B" { "" } else { &*self.row.unit };
        html! {
            figure {
                figcaption {
                    b { (self.name()) }
                    @if let Some(mean) = &mean { " " (value(mean, &self.row.unit)) }
                    @if !unit.is_empty() { " " (unit) }
                }
                (self.drawn(mean.as_ref()))
            }
        }
    }

    fn drawn(&self, mean: Option<&Estimated>) -> Markup {
        let plain = |value| Estimated { value, interval: None, n: 1, why: None };
        let all = self.known().map(|(_, value)| plain(value)).chain(mean.copied());
        let Some((low, span)) = scale(all) else { return html! {} };
        let (first, last) = (self.points[0].0, self.points[self.points.len() - 1].0);
        let length = if last > first { last - first } else { 1.0 };
        let x = |at: f64| 8.0 + (WIDTH - 16.0) * (at - first) / length;
        let y = |value: f64| HEIGHT - 6.0 - (HEIGHT - 12.0) * (value - low) / span;
        let band = mean.map(|mean| ends(mean).map(y));
        let is_dotted = !self.is_over_time || self.points.len() <= MOST_DOTS;
        let how = if self.is_over_time { "over time" } else { "by run" };
        let label = format!("{} {how}; JSON has the numbers", self.name());
        picture(
            (WIDTH + SCALE, HEIGHT + AXIS),
            &label,
            &html! {
                @if let Some([bottom, middle, top]) = band {
                    rect class="band" x="0" width=(WIDTH) y=(pixels(top)) height=(pixels(bottom - top)) {}
                    line class="one" x1="0" x2=(WIDTH) y1=(pixels(middle)) y2=(pixels(middle)) {}
                }
                @if self.is_over_time { path class="over" d=(path(&self.points, x, y)) {} }
                @if is_dotted {
                    @for (at, value) in self.known() {
                        @let title = format!("{}: {}", self.when(at), self.shown(value));
                        (dot(0, &title, [(x(at), y(value)); 3], 3.0))
                    }
                }
                @for end in [low + span, low] {
                    text x=(WIDTH + 4.0) y=(pixels(y(end) + 4.0)) { (number::significant(end, 3)) }
                }
                text x="0" y=(HEIGHT + AXIS - 3.0) { (self.when(first)) }
                text class="end" x=(WIDTH) y=(HEIGHT + AXIS - 3.0) { (self.when(last)) }
            },
        )
    }
}

/// Lines between neighbors that were both measured; one alone is a point.
fn path(points: &[(f64, Option<f64>)], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in points {
        if let Some(value) = value {
            let (x, y) = (pixels(x(*at)), pixels(y(*value)));
            let step = if is_drawing { format!("L{x} {y}") } else { format!("M{x} {y}h0") };
            path.push_str(&step);
        }
        is_drawing = value.is_some();
    }
    path
}

#[cfg(test)]
mod tests {
    use pmuscope_measure::{Labels, Origin, Run};

    use super::*;
    use crate::sample_runs::{empty_file, sample_run};

    /// Values of `cycles<b>` by run or interval; another event has no counter.
    fn file(values: &[Option<f64>], by_interval: bool) -> RunFile {
        let mut file = empty_file();
        for (index, value) in values.iter().enumerate() {
            let until = by_interval.then_some((1 + index) as f64);
            file.runs.push(Run { duration_s: 1.0, ..sample_run(index, until) });
            let counter = ("", Origin::Hardware);
            let value = value.ok_or_else(|| "lost".to_owned());
            file.add(index, &Labels::new(), "cycles<b>", counter, value);
            file.add(index, &Labels::new(), "LLC-loads", counter, Err("no <counter>".into()));
        }
        file
    }

    fn page(file: &RunFile) -> String {
        charts(file).into_string()
    }

    #[test]
    fn each_run_is_a_dot_and_what_was_not_measured_is_named() {
        let page = page(&file(&[Some(100.0), None, Some(104.0), Some(102.0)], false));
        assert_eq!(page.matches("<circle").count(), 3, "{page}");
        assert_eq!(page.matches("class=\"band\"").count(), 1, "{page}");
        assert!(page.contains("<title>run 1: 100</title>"), "{page}");
        assert!(page.contains("run 4</text>"), "{page}");
        assert!(page.contains("Not drawn: LLC-loads (no &lt;counter&gt;)."), "{page}");
        assert!(page.contains("cycles&lt;b&gt;"), "{page}");
        assert!(!page.contains("<path"), "{page}");
    }

    #[test]
    fn intervals_are_a_line_with_gaps() {
        let values = [Some(1.0), Some(2.0), None, Some(4.0)];
        let page = page(&file(&values, true));
        let path = page.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(!page.contains("class=\"band\""), "{page}");
        assert!(page.contains("Over time") && page.contains("4.00 s</text>"), "{page}");
    }

    #[test]
    fn a_single_number_is_no_chart() {
        assert_eq!(page(&file(&[Some(100.0)], false)), "");
        assert_eq!(page(&file(&[None, None, None], false)), "");
        let mut arms = file(&[Some(1.0), Some(2.0)], false);
        let arm = |name: &str| pmuscope_measure::Arm { name: name.into(), command: vec![] };
        arms.arms = vec![arm("a"), arm("b")];
        assert_eq!(page(&arms), "");
    }
}
