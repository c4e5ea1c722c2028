//! The picture of `pmuscope bench slots`: a panel for each case, a curve for each account and number of tasks, over
//! the number of CPUs; both axes are logarithmic, so that what grows in proportion is a straight line.

use pmuscope_measure::arms::join;
use std::fmt::Write as _;

use pmuscope_measure::{Estimated, RunFile, SCHEMA};

use super::slots::{CASES, TITLE, accounts, case_title, how};
use super::{BenchKind, arms};
use crate::html::{Fact, PALETTE, PageFrame, Summary};
use crate::markup::{PreEscaped, html, text};
use crate::number;
use crate::runs::{distinct, scaled, value};
use crate::style::Style;
use crate::title::title;

/// A panel, pixels.
const WIDTH: f64 = 270.0;
const HEIGHT: f64 = 250.0;
/// Around panels: left of the first, between them and right of the last, above, below.
const LEFT: f64 = 62.0;
const GAP: f64 = 34.0;
const TOP: f64 = 108.0;
const BELOW: f64 = 58.0;
/// Patterns of lines, by number of tasks.
const DASHES: [&str; 4] = ["", "6 4", "2 3", "9 3 2 3"];
/// Colors of accounts.
const COLORS: usize = 5;

/// A picture of its own.
#[must_use]
pub fn slots_svg(file: &RunFile) -> String {
    draw(file, PALETTE)
}

/// The picture with this style before its own.
fn draw(file: &RunFile, style: &str) -> String {
    let growth = Growth::of(file);
    let (width, height) = growth.size();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"growth\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n\
         <style>\n{style}{}</style>\n{}</svg>\n",
        include_str!("slots_plot.css"),
        growth.inside()
    )
}

/// A page: the picture, and the tables; `commit` is what the program was built from.
#[must_use]
pub fn slots_page(file: &RunFile, commit: &str) -> String {
    let runs = Fact::new("Runs", number::count(file.runs.len() as u64), how(file));
    let extents = [number::counted(file.runs.len(), "run"), number::duration(file.duration_s)];
    let summary = Summary {
        title: title("bench slots", "", &extents),
        facts: vec![runs, Fact::new("Duration", number::duration(file.duration_s), String::new())],
        notes: Vec::new(),
        command: join(&file.command),
    };
    let body = html! {
        section class="wide" { h2 { "Growth" } (PreEscaped(draw(file, ""))) }
        section {
            h2 { "Tables" }
            div class="wide" { pre { (BenchKind::Slots.text(file, &Style::PLAIN)) } }
        }
    };
    PageFrame { schema: SCHEMA, commit }.page(&summary, &body)
}

/// A point: number of CPUs, nanoseconds.
type Point = (u64, Estimated);

/// Times over CPUs.
struct Curve {
    account: usize,
    tasks: usize,
    points: Vec<Point>,
}

struct Panel {
    title: String,
    curves: Vec<Curve>,
}

/// All that is drawn.
struct Growth {
    how: String,
    accounts: Vec<String>,
    tasks: Vec<String>,
    cpus: Vec<u64>,
    /// A row for each number of threads.
    rows: Vec<Vec<Panel>>,
    /// Powers of ten of nanoseconds, from and to.
    decades: (i32, i32),
}

impl Growth {
    fn of(file: &RunFile) -> Self {
        let (accounts, tasks) = (accounts(file), distinct(file, "tasks"));
        let cpus = distinct(file, "cpus").iter().filter_map(|text| text.parse().ok()).collect();
        let row = |threads: &String| {
            let of_threads = file.part("threads", threads);
            let panel = |(case, what): (&str, &str)| {
                let curves = curves(&of_threads.part("case", case), &accounts, &tasks);
                let title = case_title(what, threads);
                (!curves.is_empty()).then_some(Panel { title, curves })
            };
            CASES.into_iter().filter_map(panel).collect::<Vec<Panel>>()
        };
        let rows: Vec<Vec<Panel>> = distinct(file, "threads").iter().map(row).collect();
        let points =
            || rows.iter().flatten().flat_map(|panel| &panel.curves).flat_map(|c| &c.points);
        let low = points().map(|(_, time)| time.value).fold(f64::INFINITY, f64::min);
        let high = points().map(|(_, time)| time.value).fold(0.0, f64::max);
        let decades = if high > 0.0 {
            (low.log10().floor() as i32, high.log10().ceil() as i32)
        } else {
            (0, 1)
        };
        let decades = (decades.0, decades.1.max(decades.0 + 1));
        Self { how: how(file), accounts, tasks, cpus, rows, decades }
    }

    fn size(&self) -> (f64, f64) {
        let panels = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let width = LEFT + panels as f64 * (WIDTH + GAP);
        (width, TOP + self.rows.len().max(1) as f64 * (HEIGHT + BELOW))
    }

    /// Pixels right of a panel's left edge.
    fn x(&self, cpus: u64) -> f64 {
        let of = |cpus: u64| (cpus.max(1) as f64).ln();
        let (low, high) = match (self.cpus.iter().min(), self.cpus.iter().max()) {
            (Some(&low), Some(&high)) if high > low => (of(low), of(high)),
            _ => return WIDTH / 2.0,
        };
        14.0 + (WIDTH - 28.0) * (of(cpus) - low) / (high - low)
    }

    /// Pixels below a panel's upper edge.
    fn y(&self, nanoseconds: f64) -> f64 {
        let (low, high) = (f64::from(self.decades.0), f64::from(self.decades.1));
        let at = nanoseconds.max(f64::MIN_POSITIVE).log10().clamp(low, high);
        HEIGHT - HEIGHT * (at - low) / (high - low)
    }

    fn inside(&self) -> String {
        let mut out = String::from("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
        let _ = write!(
            out,
            "<title>{0}</title>\n<text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"600\">{0}</text>\n\
             <text class=\"dim\" x=\"12\" y=\"44\">{1}</text>\n",
            text(TITLE),
            text(&self.how),
        );
        self.push_legend(&mut out);
        for (row, panels) in self.rows.iter().enumerate() {
            for (column, panel) in panels.iter().enumerate() {
                let left = LEFT + column as f64 * (WIDTH + GAP);
                let top = TOP + row as f64 * (HEIGHT + BELOW);
                let _ = writeln!(out, "<g transform=\"translate({left} {top})\">");
                self.push_axes(&mut out, &panel.title, column == 0);
                panel.curves.iter().for_each(|curve| self.push_curve(&mut out, curve));
                out.push_str("</g>\n");
            }
        }
        out
    }

    /// Colors are accounts, patterns are numbers of tasks.
    fn push_legend(&self, out: &mut String) {
        let mut x = 12.0;
        let mut entry = |class: &str, dashes: &str, name: &str| {
            let _ = writeln!(
                out,
                "<g class=\"{class}\"><path class=\"curve\" stroke-dasharray=\"{dashes}\" \
                 d=\"M{x} 64h26\"/><text x=\"{}\" y=\"68\">{}</text></g>",
                x + 32.0,
                text(name)
            );
            x += 52.0 + 7.0 * name.chars().count() as f64;
        };
        for (at, name) in self.accounts.iter().enumerate() {
            entry(&color(at), "", name);
        }
        for (at, tasks) in self.tasks.iter().enumerate() {
            let name = tasks
                .parse()
                .map_or_else(|_| tasks.clone(), |tasks: u64| number::counted(tasks, "task"));
            entry("all", dashes(at), &name);
        }
    }

    fn push_axes(&self, out: &mut String, title: &str, is_first: bool) {
        let _ = writeln!(out, "<text y=\"-10\" font-weight=\"600\">{}</text>", text(title));
        for decade in self.decades.0..=self.decades.1 {
            let y = self.y(10_f64.powi(decade));
            let _ = writeln!(out, "<path class=\"grid\" d=\"M0 {y:.1}H{WIDTH}\"/>");
            if is_first {
                let _ = writeln!(
                    out,
                    "<text class=\"dim\" x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    y + 4.0,
                    decade_text(decade)
                );
            }
        }
        for &cpus in &self.cpus {
            let _ = writeln!(
                out,
                "<text class=\"dim\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(cpus),
                HEIGHT + 18.0,
                number::count(cpus)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">CPUs</text>",
            WIDTH / 2.0,
            HEIGHT + 36.0
        );
    }

    fn push_curve(&self, out: &mut String, curve: &Curve) {
        let at = |(cpus, time): &Point| format!("{:.1} {:.1}", self.x(*cpus), self.y(time.value));
        let path: Vec<String> = curve.points.iter().map(at).collect();
        let _ = writeln!(
            out,
            "<g class=\"{}\"><path class=\"curve\" stroke-dasharray=\"{}\" d=\"M{}\"/>",
            color(curve.account),
            dashes(curve.tasks),
            path.join("L")
        );
        let tasks = self.tasks.get(curve.tasks).and_then(|tasks| tasks.parse().ok());
        let tasks = tasks.map_or("-".to_owned(), |tasks: u64| number::counted(tasks, "task"));
        for (cpus, time) in &curve.points {
            let title = format!(
                "{}, {}, {tasks}: {} ns",
                self.accounts.get(curve.account).map_or("-", String::as_str),
                number::counted(*cpus, "CPU"),
                value(time, "ns")
            );
            let (low, high) =
                time.interval.map_or((time.value, time.value), |limits| (limits.low, limits.high));
            let _ = writeln!(
                out,
                "<g class=\"mark\"><title>{}</title><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" \
                 y2=\"{:.1}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"/></g>",
                text(&title),
                self.y(low),
                self.y(high),
                self.y(time.value),
                x = self.x(*cpus),
            );
        }
        out.push_str("</g>\n");
    }
}

/// Of one case and number of threads.
fn curves(file: &RunFile, accounts: &[String], tasks: &[String]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (account, name) in accounts.iter().enumerate() {
        let of_account = file.part("account", name);
        for (at, tasks) in tasks.iter().enumerate() {
            let points = arms(&of_account.part("tasks", tasks), &["cpus"]);
            let points = points.iter().filter_map(|arm| {
                Some((arm.label("cpus").parse().ok()?, scaled(arm.per_unit()?, 1e9)))
            });
            let points: Vec<Point> = points.collect();
            if !points.is_empty() {
                curves.push(Curve { account, tasks: at, points });
            }
        }
    }
    curves
}

fn color(account: usize) -> String {
    format!("a{}", account % COLORS)
}

fn dashes(tasks: usize) -> &'static str {
    DASHES[tasks % DASHES.len()]
}

/// A power of ten of nanoseconds: `10 µs`.
fn decade_text(decade: i32) -> String {
    let (unit, power) = match decade {
        ..0 => return format!("{} ns", number::plain(10_f64.powi(decade), 1)),
        0..3 => ("ns", decade),
        3..6 => ("µs", decade - 3),
        6..9 => ("ms", decade - 6),
        _ => ("s", decade - 9),
    };
    format!("{} {unit}", number::fixed(10_f64.powi(power), 0))
}

#[cfg(test)]
mod tests {
    use super::super::slots::tests::file;
    use super::*;

    #[test]
    fn what_grows_with_cpus_rises_and_what_does_not_stays_level() {
        let svg = slots_svg(&file(0));
        assert!(svg.contains("<title>naive, 256 CPUs, 1 task: 2,020 ± 50 ns</title>"), "{svg}");
        let curve = |class: &str| -> Vec<f64> {
            let start =
                format!("<g class=\"{class}\"><path class=\"curve\" stroke-dasharray=\"\" d=\"M");
            // The first is that of the legend.
            let path = svg.split(&start).nth(2).unwrap().split('"').next().unwrap();
            path.split('L').map(|at| at.split(' ').nth(1).unwrap().parse().unwrap()).collect()
        };
        let (naive, none) = (curve("a0"), curve("a1"));
        // A decade is a quarter of the height, from 1 ns to 10 µs; downwards is less.
        assert!((naive[0] - naive[1] - HEIGHT / 2.0).abs() < 0.2, "{naive:?}");
        assert_eq!(none[0], none[1]);
        for tick in ["1 ns", "10 ns", "100 ns", "1 µs", "10 µs"] {
            assert!(svg.contains(&format!("text-anchor=\"end\">{tick}</text>")), "{tick}");
        }
    }

    #[test]
    fn a_page_has_the_picture_and_the_tables_and_asks_nothing_of_the_network() {
        let page = slots_page(&file(0), "abc");
        assert!(page.contains("<svg") && page.contains("from the first row to the last"));
        assert!(!page.contains("src=") && !page.contains("href=\"http"));
    }

    #[test]
    fn a_file_without_runs_is_an_empty_picture() {
        let mut none = file(0);
        none.runs.clear();
        none.series.clear();
        assert!(slots_svg(&none).ends_with("</svg>\n"));
    }
}
