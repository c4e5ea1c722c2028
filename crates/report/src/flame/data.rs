//! A graph as numbers, for a script that draws it: a box takes some ten bytes instead of the three hundred that it
//! takes as SVG.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{Flame, FlameBox, svg};
use crate::escape;

/// What the script reads.
#[derive(Debug, Serialize)]
pub(crate) struct FlameData<'a> {
    /// Pixels from one depth to the next.
    pitch: u32,
    /// Pixels of all.
    height: u32,
    /// Weight of all.
    total: u64,
    /// Name, module and color of what boxes stand for; `None` of gaps. Foreign text, escaped for readers.
    names: Vec<Option<(String, Option<String>, &'a str)>>,
    /// Four numbers a box: of its name, depth, weight, samples. A box comes before those that lie on it, and these
    /// from left to right with gaps as boxes, so that their places follow.
    boxes: Vec<u64>,
}

impl<'a> FlameData<'a> {
    pub(crate) fn new(flame: &'a Flame) -> Self {
        let mut known: FxHashMap<(&str, Option<&str>, &str), u64> = FxHashMap::default();
        let mut names = Vec::new();
        let mut numbers = Vec::new();
        let mut gap = None;
        // By depth: where the next box begins.
        let mut next: Vec<u64> = vec![0];
        let mut boxes: Vec<&FlameBox> = flame.boxes.iter().collect();
        boxes.sort_by_key(|one| (one.start, one.depth));
        for one in boxes {
            let module = one.module.as_deref();
            let name = *known.entry((&one.name, module, &one.color)).or_insert_with(|| {
                let module = module.map(|module| escape(module).into_owned());
                names.push(Some((escape(&one.name).into_owned(), module, &*one.color)));
                names.len() as u64 - 1
            });
            let depth = one.depth as usize;
            next.resize(next.len().max(depth + 2), 0);
            if one.start > next[depth] {
                let gap = *gap.get_or_insert_with(|| {
                    names.push(None);
                    names.len() as u64 - 1
                });
                numbers.extend([gap, one.depth.into(), one.start - next[depth], 0]);
            }
            (next[depth], next[depth + 1]) = (one.start + one.weight, one.start);
            numbers.extend([name, one.depth.into(), one.weight, one.samples]);
        }
        let (pitch, height) = (svg::PITCH, svg::height(flame));
        Self { pitch, height, total: flame.total, names, boxes: numbers }
    }
}
