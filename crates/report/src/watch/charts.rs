//! Pictures of hits: rates and values over time. They stand without a script; what they are made of is in
//! tables and in the JSON.

use std::fmt::Write as _;

use pmuscope_profile::hits::{Block, TargetHits};

use super::{WatchView, stretches};
use crate::number::{duration, significant};

/// Size of a picture, and of what surrounds the plot, pixels.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// Marks below the axis of time.
const MARKS: u32 = 8;

/// From values to places.
struct Plot {
    seconds: f64,
    low: f64,
    high: f64,
}

impl Plot {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.seconds).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share.clamp(0.0, 1.0)
    }

    /// The picture's begin: frame, axis of time, marks of values.
    fn open(&self, out: &mut String, label: &str) {
        let _ = write!(
            out,
            "<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
             <rect class=\"paper\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            WIDTH - LEFT - RIGHT,
            HEIGHT - TOP - BOTTOM
        );
        for mark in 0..=2 {
            let value = self.low + (self.high - self.low) * f64::from(mark) / 2.0;
            let y = self.y(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                mark_text(value)
            );
        }
        for mark in 0..=MARKS {
            let seconds = self.seconds * f64::from(mark) / f64::from(MARKS);
            let class = match mark {
                0 => "",
                MARKS => " class=\"end\"",
                _ => " class=\"mid\"",
            };
            let _ = write!(
                out,
                "<text{class} x=\"{:.1}\" y=\"{}\">{}</text>",
                self.x(seconds),
                HEIGHT - 7.0,
                duration(seconds)
            );
        }
        out.push('\n');
    }
}

/// A value beside its mark: by its power of ten where all digits have no room.
fn mark_text(value: f64) -> String {
    const ROOM: usize = 11;
    let text = significant(value, 3);
    if text.chars().count() > ROOM { format!("{value:.2e}") } else { text }
}

/// The last moment of a picture; `None` where there is no time.
fn end(blocks: &[Block]) -> Option<f64> {
    blocks.last().map(|block| block.until_s).filter(|end| *end > 0.0)
}

/// Hits per second by block; stretches without armed points stay empty.
pub(super) fn rates(hits: &TargetHits) -> Option<String> {
    let seconds = end(&hits.blocks)?;
    let stretches = stretches(hits);
    let rates = stretches.iter().filter_map(|stretch| stretch.hits_per_s);
    let high = rates.fold(0.0, f64::max);
    if high <= 0.0 {
        return None;
    }
    let plot = Plot { seconds, low: 0.0, high };
    let mut out = String::new();
    plot.open(&mut out, "hits per second over time");
    let mut path = String::new();
    for stretch in &stretches {
        let (from, until) = (plot.x(stretch.from_s), plot.x(stretch.until_s));
        if let Some(rate) = stretch.hits_per_s {
            let (top, base) = (plot.y(rate), plot.y(0.0));
            let _ = write!(path, "M{from:.1} {base:.1}V{top:.1}H{until:.1}V{base:.1}z");
        }
    }
    let _ = write!(out, "<path class=\"bars\" d=\"{path}\"/>\n</svg>\n");
    Some(out)
}

/// Values: the band from the smallest to the largest of each block, their median, and hits one by one.
pub(super) fn values(view: &WatchView<'_>, hits: &TargetHits) -> Option<String> {
    let seconds = end(&hits.blocks)?;
    let bands = || hits.blocks.iter().filter_map(|block| Some((block, block.values?)));
    let low = bands().map(|(_, values)| values.min).reduce(f64::min)?;
    let high = bands().map(|(_, values)| values.max).reduce(f64::max)?;
    let (low, high) = if low < high { (low, high) } else { (low - 1.0, high + 1.0) };
    let plot = Plot { seconds, low, high };
    let mut out = String::new();
    plot.open(&mut out, "values over time");
    let mut band = String::new();
    let mut medians = String::new();
    for (block, values) in bands() {
        let (from, until) = (plot.x(block.from_s), plot.x(block.until_s));
        // A band of one value is still to be seen.
        let (top, base) = (plot.y(values.max) - 0.5, plot.y(values.min) + 0.5);
        let _ = write!(band, "M{from:.1} {base:.1}V{top:.1}H{until:.1}V{base:.1}z");
        let median = plot.y(values.median);
        let _ = write!(medians, "M{from:.1} {median:.1}H{until:.1}");
    }
    let _ =
        write!(out, "<path class=\"band\" d=\"{band}\"/><path class=\"median\" d=\"{medians}\"/>");
    let mut dots = String::new();
    for hit in hits.history.iter() {
        let found = hit.new.or(hit.old);
        let number = found.and_then(|found| view.hits.value(hit.point, found).number());
        if let Some(number) = number {
            let (x, y) = (plot.x(view.seconds(hit)), plot.y(number));
            let _ = write!(dots, "M{:.1} {y:.1}h2", x - 1.0);
        }
    }
    let _ = write!(out, "<path class=\"dots\" d=\"{dots}\"/>\n</svg>\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_room() {
        let texts = [0.0, 11_700.0, 123_456_789.0, 1.8e19, -9.2e18].map(mark_text);
        assert_eq!(texts, ["0", "11,700", "123,000,000", "1.80e19", "-9.20e18"]);
    }
}
