//! Pictures of the study: panels of lines over a logarithmic axis, as SVG.

use std::fmt::Write as _;

const PANEL: f64 = 250.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 62.0;
const GAP: f64 = 40.0;

/// A point: where, and whether the table gives it an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) is_sure: bool,
}

/// Points that belong together.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) color: &'static str,
    pub(crate) points: Vec<Point>,
}

/// One of several pictures side by side.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
    /// Places on the axis that matter, with their names.
    pub(crate) marks: Vec<(f64, &'static str)>,
}

/// What the axes are.
#[derive(Debug)]
pub(crate) struct Axes {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Ends of the logarithmic axis.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Ends of the other one.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Distance of its lines.
    pub(crate) step: f64,
}

impl Axes {
    fn x(&self, panel: usize, value: f64) -> f64 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        LEFT + panel as f64 * (PANEL + GAP) + share * PANEL
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (self.high - value.clamp(self.low, self.high)) / (self.high - self.low) * HEIGHT
    }
}

/// The picture.
pub(crate) fn svg(axes: &Axes, panels: &[Panel]) -> String {
    let width = LEFT + panels.len() as f64 * (PANEL + GAP) + 10.0;
    let height = TOP + HEIGHT + 56.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#16181d\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"15\" font-weight=\"600\">{}</text>\n",
        axes.title, axes.title
    );
    legend(&mut out, panels);
    for (at, panel) in panels.iter().enumerate() {
        grid(&mut out, axes, at, panel);
        panel.lines.iter().for_each(|line| draw(&mut out, axes, at, line));
    }
    // Writing to a String does not fail, here and below.
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>\n",
        width / 2.0,
        height - 10.0,
        axes.x,
        TOP + HEIGHT / 2.0,
        axes.y
    );
    out
}

fn legend(out: &mut String, panels: &[Panel]) {
    let mut x = LEFT;
    let lines = panels.first().map_or(&[][..], |panel| &panel.lines);
    for line in lines {
        let _ = writeln!(
            out,
            "<path d=\"M{x} 32h22\" stroke=\"{0}\" stroke-width=\"2\"/><circle cx=\"{1}\" cy=\"32\" r=\"3.5\" \
             fill=\"{0}\"/><text x=\"{2}\" y=\"36\">{3}</text>",
            line.color,
            x + 11.0,
            x + 28.0,
            line.name
        );
        x += 46.0 + line.name.len() as f64 * 6.6;
    }
    let _ = writeln!(
        out,
        "<circle cx=\"{}\" cy=\"32\" r=\"3.5\" fill=\"#fff\" stroke=\"#16181d\" stroke-width=\"1.4\"/>\
         <text x=\"{}\" y=\"36\">marked ~: no interval is given</text>",
        x + 11.0,
        x + 22.0
    );
}

fn grid(out: &mut String, axes: &Axes, at: usize, panel: &Panel) {
    let (left, right) = (axes.x(at, axes.from), axes.x(at, axes.to));
    let _ = writeln!(
        out,
        "<text x=\"{left:.1}\" y=\"{}\" font-weight=\"600\">{}</text>",
        TOP - 6.0,
        panel.title
    );
    let mut value = axes.low;
    while value <= axes.high + 1e-9 {
        let y = axes.y(value);
        let color = if value == 0.0 { "#16181d" } else { "#dfe3ea" };
        let _ = writeln!(out, "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"{color}\"/>");
        if at == 0 {
            let x = left - 6.0;
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                y + 4.0
            );
        }
        value += axes.step;
    }
    let bottom = TOP + HEIGHT;
    let mut decade = axes.from;
    while decade <= axes.to * 1.001 {
        let x = axes.x(at, decade);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#eef0f4\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{decade}</text>",
            bottom + 17.0
        );
        decade *= 10.0;
    }
    for &(place, name) in panel.marks.iter().filter(|mark| mark.0 <= axes.to) {
        let x = axes.x(at, place);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#667085\" stroke-dasharray=\"3 3\"/>\
             <text x=\"{:.1}\" y=\"{}\" fill=\"#667085\" font-size=\"11\">{name}</text>",
            x + 3.0,
            bottom - 5.0
        );
    }
}

fn draw(out: &mut String, axes: &Axes, at: usize, line: &Line) {
    let place = |point: &Point| (axes.x(at, point.x), axes.y(point.y));
    let path: Vec<String> = line
        .points
        .iter()
        .map(|point| {
            let (x, y) = place(point);
            format!("{x:.1} {y:.1}")
        })
        .collect();
    let color = line.color;
    let _ = writeln!(
        out,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
        path.join("L")
    );
    for point in &line.points {
        let (x, y) = place(point);
        let fill = if point.is_sure { color } else { "#fff" };
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{fill}\" stroke=\"{color}\" \
             stroke-width=\"1.4\"/>"
        );
    }
}
