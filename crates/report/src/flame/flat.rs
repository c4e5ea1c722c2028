//! Functions below their modules: where there are no call chains.

use super::{
    DEEPEST, Flame, FlameBox, FlameLimits, Frame, LONGEST_NAME, LeftOut, Painter, color, nameless,
};
use crate::markup::cut;

/// A function, and what it weighs.
#[derive(Debug, Clone, Copy)]
pub struct FlatRow<'a> {
    /// Foreign text; `None` where it has no name.
    pub function: Option<&'a str>,
    /// Last part of the module's path. Foreign text.
    pub module: &'a str,
    /// Samples.
    pub weight: u64,
}

impl Flame {
    /// The layout of functions without callers: all, modules, functions; the widest first.
    #[must_use]
    pub fn flat(rows: &[FlatRow<'_>], limits: FlameLimits, painter: &Painter<'_>) -> Self {
        let total: u64 = rows.iter().map(|row| row.weight).sum();
        let narrowest = ((total as f64 * limits.share).ceil() as u64).max(1);
        let mut layout = FlatLayout { boxes: Vec::new(), left_out: 0, narrowest };
        layout.push(FlameBox::plain("all".into(), 0, 0, total));
        let mut modules: Vec<(&str, Vec<&FlatRow<'_>>)> = Vec::new();
        for row in rows {
            match modules.iter_mut().find(|(module, _)| *module == row.module) {
                Some((_, rows)) => rows.push(row),
                None => modules.push((row.module, vec![row])),
            }
        }
        let weight = |rows: &[&FlatRow<'_>]| rows.iter().map(|row| row.weight).sum::<u64>();
        modules.sort_by_key(|(module, rows)| (std::cmp::Reverse(weight(rows)), *module));
        let mut start = 0;
        for (module, mut rows) in modules {
            let name = cut(module, LONGEST_NAME).into_owned();
            layout.push(FlameBox::plain(name, 1, start, weight(&rows)));
            rows.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.function));
            let mut inner = start;
            for row in &rows {
                layout.push(FlameBox::of(row, inner, painter));
                inner += row.weight;
            }
            start = inner;
        }
        layout.boxes.sort_by_key(|one| (one.depth, one.start));
        let left_out = LeftOut {
            boxes: layout.left_out,
            below: narrowest as f64 / total.max(1) as f64,
            too_deep: 0,
        };
        let deepest = layout.boxes.iter().map(|one| one.depth).max().unwrap_or(0).min(DEEPEST);
        let legend = Some(painter.legend.clone());
        let hues = super::ModuleHues::default();
        Self {
            boxes: layout.boxes,
            total,
            deepest,
            left_out,
            legend,
            hues,
            is_flat: true,
            unseen: None,
        }
    }
}

struct FlatLayout {
    boxes: Vec<FlameBox>,
    left_out: usize,
    narrowest: u64,
}

impl FlatLayout {
    fn push(&mut self, one: FlameBox) {
        if one.weight < self.narrowest {
            self.left_out += 1;
        } else {
            self.boxes.push(one);
        }
    }
}

impl FlameBox {
    fn plain(name: String, depth: u32, start: u64, weight: u64) -> Self {
        let color = color::NEUTRAL.to_owned();
        let (module, note, figures) = (None, None, None);
        Self { name, module, color, depth, start, weight, own: 0, samples: weight, note, figures }
    }

    fn of(row: &FlatRow<'_>, start: u64, painter: &Painter<'_>) -> Self {
        let frame = Frame { function: row.function, module: row.module, inlined: false };
        let tint = (painter.tint)(&frame);
        let name = row
            .function
            .map_or_else(|| nameless(row.module), |name| cut(name, LONGEST_NAME).into_owned());
        Self {
            module: Some(row.module.to_owned()),
            color: tint.color,
            own: row.weight,
            note: Some(tint.note),
            ..Self::plain(name, 2, start, row.weight)
        }
    }
}
