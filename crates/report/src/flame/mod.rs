//! Flame graphs: a box per function and way to call it, as wide as its share.
//!
//! ```text
//!  depth 0  all
//!  depth 1  command             │ command
//!  depth 2  main       │ start  │ [unknown]
//!  depth 3  f    │ g   │                       siblings: the widest first, equal ones by name
//! ```
//!
//! [`Flame`] is the layout in units of weight; [`svg`] draws it, alone or within a page, and [`data`] hands it to
//! the script of a page. What is too narrow to be seen is left out and counted, so that size follows from the picture.

mod callers;
mod color;
mod data;
mod flat;
mod heaviest;
mod layout;
mod sides;
pub(crate) mod svg;
mod time_order;
mod tree;

use pmuscope_profile::export::{ExportedEvent, Source};

pub(crate) use color::ModuleHues;
pub(crate) use data::FlameData;
pub use flat::FlatRow;
pub(crate) use sides::{FlameSide, FlameSides};
pub use svg::flame_svg;

use layout::{Face, FlameLayout, FlameTree};
use tree::{Name, Tree};

use crate::markup::cut;

/// Deeper calls are cut: a recursion without end is no picture.
const DEEPEST: u32 = 500;
/// Longer names (templates) are cut: every box carries its own.
const LONGEST_NAME: usize = 1000;

/// What is drawn and what is not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlameLimits {
    /// Narrowest box, of the whole width, 0 to 1.
    pub share: f64,
    /// Most boxes: the widest ones.
    pub boxes: usize,
}

impl FlameLimits {
    /// Boxes narrower than `share` are left out too.
    #[must_use]
    pub fn above(self, share: f64) -> Self {
        Self { share: self.share.max(share), ..self }
    }
}

impl Default for FlameLimits {
    /// A twentieth of a pixel of a usual screen, so that there is something to zoom into.
    fn default() -> Self {
        Self { share: 0.000_05, boxes: 8_000 }
    }
}

/// A flame graph of one event.
#[derive(Debug)]
pub struct Flame {
    /// A caller comes before what it calls.
    pub(crate) boxes: Vec<FlameBox>,
    /// Weight of all.
    pub(crate) total: u64,
    /// Largest depth of a box.
    pub(crate) deepest: u32,
    pub(crate) left_out: LeftOut,
    /// What colors stand for, where they are not those of modules.
    legend: Option<Legend>,
    /// Hues of modules, for what stands next to the picture.
    pub(crate) hues: ModuleHues,
    is_flat: bool,
    /// What leads on from boxes that are not drawn, where that was not looked for.
    unseen: Option<&'static str>,
}

/// What a box shows.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Foreign text; `None` where it has no name.
    pub function: Option<&'a str>,
    /// Last part of the module's path. Foreign text.
    pub module: &'a str,
    /// Whether it was inlined into the box above.
    pub inlined: bool,
}

/// A color that is not the module's, and what it stands for in this box.
#[derive(Debug, Clone)]
pub struct Tint {
    /// `#rrggbb`; dark text has to be readable on it.
    pub color: String,
    /// What is said of the box. Foreign text.
    pub note: String,
}

/// What colors stand for.
#[derive(Debug, Clone)]
pub struct Legend {
    /// Of what they tell. Foreign text.
    pub title: String,
    /// Colors with their meanings.
    pub steps: Vec<(String, String)>,
}

/// Gives boxes their colors.
pub struct Painter<'a> {
    /// Of a function.
    pub tint: &'a dyn Fn(&Frame<'_>) -> Tint,
    /// What they stand for.
    pub legend: Legend,
}

impl std::fmt::Debug for Painter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Painter").field("legend", &self.legend).finish_non_exhaustive()
    }
}

/// A function on one way to call it.
#[derive(Debug, PartialEq)]
pub(crate) struct FlameBox {
    pub(crate) name: String,
    pub(crate) module: Option<String>,
    /// `#rrggbb`.
    pub(crate) color: String,
    pub(crate) depth: u32,
    /// Weight of what stands to its left.
    pub(crate) start: u64,
    pub(crate) weight: u64,
    /// Weight that none of its callees has.
    pub(crate) own: u64,
    pub(crate) samples: u64,
    /// What else there is to say of it.
    pub(crate) note: Option<String>,
    /// Details shown instead of its share and samples, where the width alone does not show them.
    pub(crate) figures: Option<String>,
}

/// Boxes that are not drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LeftOut {
    /// How many.
    pub(crate) boxes: usize,
    /// They are narrower than this share.
    pub(crate) below: f64,
    /// Of them, those that lie too deep.
    pub(crate) too_deep: usize,
}

impl Flame {
    /// The layout of one event.
    #[must_use]
    pub fn new(source: &Source<'_>, event: &ExportedEvent, limits: FlameLimits) -> Self {
        Self::painted(source, &[event], limits, None)
    }

    /// The layout of events that are the same one, each of another group or kind of CPU; in other
    /// colors than those of modules, where `painter` has some.
    #[must_use]
    pub fn painted(
        source: &Source<'_>,
        events: &[&ExportedEvent],
        limits: FlameLimits,
        painter: Option<&Painter<'_>>,
    ) -> Self {
        let tree = Tree::new(source, events, Some(limits));
        let hues = ModuleHues::new(source);
        let legend = painter.map(|painter| painter.legend.clone());
        let graph = Self::of(&PaintedTree { tree, source, hues: &hues, painter }, limits);
        Self { legend, hues, unseen: Some("callees"), ..graph }
    }

    /// The layout of any tree.
    fn of(tree: &impl FlameTree, limits: FlameLimits) -> Self {
        Self::laid_out(FlameLayout::new(tree, limits), tree.weight(0))
    }

    /// The picture of boxes that have their places; `total` is the width of all.
    fn laid_out(layout: FlameLayout, total: u64) -> Self {
        let deepest = layout.deepest();
        let FlameLayout { boxes, left_out } = layout;
        Self {
            boxes,
            total,
            deepest,
            left_out,
            legend: None,
            hues: ModuleHues::default(),
            is_flat: false,
            unseen: None,
        }
    }

    /// What its colors stand for, where they are not those of modules.
    #[must_use]
    pub fn legend(&self) -> Option<&Legend> {
        self.legend.as_ref()
    }

    /// Whether it was made without call chains.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.is_flat
    }

    /// Whether there is anything to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// What was left out, in a sentence; `None` if nothing was.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        if self.is_empty() {
            return Some("No samples.".into());
        }
        let LeftOut { boxes, below, too_deep } = self.left_out;
        let (number, narrow) = (crate::number::count, boxes - too_deep);
        let more = self.unseen.map_or(String::new(), |unseen| format!(" and their {unseen}"));
        let mut parts = Vec::new();
        if narrow > 0 {
            let share = crate::number::significant(below * 100.0, 2);
            parts.push(format!("boxes narrower than {share}% ({}{more})", number(narrow as u64)));
        }
        if too_deep > 0 {
            parts.push(format!("boxes deeper than {DEEPEST} ({}{more})", number(too_deep as u64)));
        }
        (!parts.is_empty()).then(|| format!("Not drawn: {}.", parts.join(", ")))
    }
}

/// The tree of one recording, in the colors of modules or of a painter.
struct PaintedTree<'a> {
    tree: Tree,
    source: &'a Source<'a>,
    hues: &'a ModuleHues,
    painter: Option<&'a Painter<'a>>,
}

impl FlameTree for PaintedTree<'_> {
    fn size(&self) -> usize {
        self.tree.nodes.len()
    }

    fn weight(&self, at: u32) -> u64 {
        self.tree.nodes[at as usize].weight
    }

    fn below(&self, at: u32) -> impl Iterator<Item = u32> {
        self.tree.below(at)
    }

    fn name(&self, at: u32) -> &str {
        let name = &self.tree.nodes[at as usize].name;
        match frame(self.source, name) {
            Some((_, frame)) => frame.function.unwrap_or(frame.module),
            None => name.of_no_function(),
        }
    }

    fn face(&self, at: u32) -> Face {
        let node = &self.tree.nodes[at as usize];
        let (name, module, color) = described(self.source, self.hues, &node.name);
        let tint = self.painter.and_then(|of| Some((of.tint)(&frame(self.source, &node.name)?.1)));
        let (color, note) = match tint {
            Some(tint) => (tint.color, Some(tint.note)),
            None => (color, None),
        };
        Face { name, module, color, samples: node.samples, note, figures: None }
    }
}

/// The number of a function's module, and the function as painters see it; `None` where the box is of no function.
fn frame<'a>(source: &'a Source<'_>, name: &Name) -> Option<(u32, Frame<'a>)> {
    let (function, module, inlined) = match name {
        Name::All | Name::Command(_) => return None,
        Name::Function { function, module, inlined } => (Some(*function), *module, *inlined),
        Name::Nameless { module } => (None, *module, false),
    };
    let function = function.map(|id| &*source.counts.functions[id as usize].name);
    Some((module, Frame { function, module: source.module_name(module), inlined }))
}

/// What a box is called, where it is from, and its color.
fn described(
    source: &Source<'_>,
    hues: &ModuleHues,
    name: &Name,
) -> (String, Option<String>, String) {
    match frame(source, name) {
        Some((module, frame)) => {
            let color = hues.function(module, frame.function, frame.inlined);
            (frame.label(), Some(frame.module.to_owned()), color)
        }
        None => (name.of_no_function().to_owned(), None, color::NEUTRAL.to_owned()),
    }
}

impl Frame<'_> {
    /// What its box is called.
    fn label(&self) -> String {
        match self.function {
            Some(name) => {
                let mark = if self.inlined { " (inlined)" } else { "" };
                format!("{}{mark}", cut(name, LONGEST_NAME))
            }
            None => nameless(self.module),
        }
    }
}

/// What stands for code of a module that has no name.
pub(crate) fn nameless(module: &str) -> String {
    if module.starts_with('[') { module.to_owned() } else { format!("[{module}]") }
}

#[cfg(test)]
mod tests;
