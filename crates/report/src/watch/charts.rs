//! Pictures of hits: rates and values over time. They stand without a script; what they are made of is in
//! tables and in the JSON.

use std::fmt::Write as _;

use pmuscope_profile::hits::{Block, TargetHits};

use super::{WatchView, stretches};
use crate::html::{tick, ticks};
use crate::markup::{Markup, html};
use crate::number::significant;

/// Size of a picture, and of what surrounds the plot, pixels.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

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

    /// Frame, axis of time, marks of values; then the paths, each of a class.
    fn picture(&self, label: &str, paths: &[(&str, String)]) -> Markup {
        let marks = (0..=2).map(|mark| self.low + (self.high - self.low) * f64::from(mark) / 2.0);
        let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        html! {
            svg class="plot" role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } {
                rect class="paper" x=(LEFT) y=(TOP) width=(width) height=(height) {}
                @for value in marks {
                    line class="grid" x1=(LEFT) x2=(WIDTH - RIGHT) y1=(self.y(value)) y2=(self.y(value)) {}
                    text class="end" x=(LEFT - 6.0) y=(self.y(value) + 4.0) { (mark_text(value)) }
                }
                @for seconds in ticks(self.seconds) {
                    text class=[(seconds > 0.0).then_some("mid")] x=(self.x(seconds)) y=(HEIGHT - 7.0) { (tick(seconds)) }
                }
                @for (class, path) in paths { path class=(class) d=(path) {} }
            }
            "\n"
        }
    }

    /// A box from one moment to another, of these values.
    fn push_box(&self, path: &mut String, (from_s, until_s): (f64, f64), top: f64, base: f64) {
        let (from, until) = (self.x(from_s), self.x(until_s));
        // Writing to a String does not fail, here and below.
        let _ = write!(path, "M{from:.1} {base:.1}V{top:.1}H{until:.1}V{base:.1}z");
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
pub(super) fn rates(hits: &TargetHits) -> Option<Markup> {
    let seconds = end(&hits.blocks)?;
    let stretches = stretches(hits);
    let high = stretches.iter().filter_map(|of| of.hits_per_s).fold(0.0, f64::max);
    if high <= 0.0 {
        return None;
    }
    let plot = Plot { seconds, low: 0.0, high };
    let mut bars = String::new();
    for stretch in &stretches {
        if let Some(rate) = stretch.hits_per_s {
            let time = (stretch.from_s, stretch.until_s);
            plot.push_box(&mut bars, time, plot.y(rate), plot.y(0.0));
        }
    }
    Some(plot.picture("hits per second over time", &[("bars", bars)]))
}

/// Values: the band from the smallest to the largest of each block, their median, and hits one by one.
pub(super) fn values(view: &WatchView<'_>, hits: &TargetHits) -> Option<Markup> {
    let seconds = end(&hits.blocks)?;
    let bands = || hits.blocks.iter().filter_map(|block| Some((block, block.values?)));
    let low = bands().map(|(_, values)| values.min).reduce(f64::min)?;
    let high = bands().map(|(_, values)| values.max).reduce(f64::max)?;
    let (low, high) = if low < high { (low, high) } else { (low - 1.0, high + 1.0) };
    let plot = Plot { seconds, low, high };
    let (mut band, mut medians, mut dots) = (String::new(), String::new(), String::new());
    for (block, values) in bands() {
        // A band of one value is still to be seen.
        let (top, base) = (plot.y(values.max) - 0.5, plot.y(values.min) + 0.5);
        plot.push_box(&mut band, (block.from_s, block.until_s), top, base);
        let (from, until) = (plot.x(block.from_s), plot.x(block.until_s));
        let _ = write!(medians, "M{from:.1} {:.1}H{until:.1}", plot.y(values.median));
    }
    for hit in hits.history.iter() {
        let found = hit.new.or(hit.old);
        if let Some(number) = found.and_then(|of| view.hits.value(hit.point, of).number()) {
            let x = plot.x(view.seconds(hit)) - 1.0;
            let _ = write!(dots, "M{x:.1} {:.1}h2", plot.y(number));
        }
    }
    Some(plot.picture("values over time", &[("band", band), ("median", medians), ("dots", dots)]))
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
