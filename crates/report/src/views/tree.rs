//! A call tree as indented lines.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::views::{CallNode, CallTree, Direction};

use super::place_text;
use crate::number::{count, percent};
use crate::sheet::NAME;
use crate::{Cell, Column, Paint, Style, Table};

/// What of a tree is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeLimits {
    /// Smallest share of a node, of all, 0 to 1.
    pub share: f64,
    /// Most lines.
    pub lines: usize,
    /// Most calls deep.
    pub depth: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { share: 0.005, lines: 200, depth: 60 }
    }
}

/// The tree, one line a node, the heaviest way first. What is left out below a node is one line with
/// its sum, so that each level adds up.
#[must_use]
pub fn tree_text(
    tree: &CallTree,
    direction: Direction,
    modules: &[ModuleSummary],
    limits: TreeLimits,
    style: &Style,
) -> String {
    let all = tree.nodes[0].total.weight;
    if all == 0 {
        return "no samples\n".into();
    }
    let head = match direction {
        Direction::Callees => "function, callees indented",
        Direction::Callers => "function, callers indented",
    };
    let mut table = Table::new([
        Column::number("total"),
        Column::number("self"),
        Column::number("samples").optional(1),
        Column::text(head).shrink_to(NAME),
    ]);
    let mut lines = TreeLines { tree, all, modules, limits, rows: Vec::new() };
    lines.children(0, 0);
    for cells in lines.rows {
        table.row(cells);
    }
    table.render(style)
}

struct TreeLines<'a> {
    tree: &'a CallTree,
    all: u64,
    modules: &'a [ModuleSummary],
    limits: TreeLimits,
    rows: Vec<[Cell; 4]>,
}

impl TreeLines<'_> {
    /// A stack of its own: calls can be deeper than ours may.
    fn children(&mut self, root: usize, depth: usize) {
        let mut open = vec![Open::Below(root, depth)];
        while let Some(next) = open.pop() {
            match next {
                Open::Node(at, depth) => {
                    self.node(at, depth);
                    open.push(Open::Below(at, depth + 1));
                }
                Open::LeftOut(left_out, depth) => self.left_out(left_out, depth),
                Open::Below(at, depth) => self.below(at, depth, &mut open),
            }
        }
    }

    fn below(&self, at: usize, depth: usize, open: &mut Vec<Open>) {
        let children = &self.tree.nodes[at].children;
        let room = depth < self.limits.depth && self.rows.len() < self.limits.lines;
        let large = |&&at: &&usize| {
            room && self.share(self.tree.nodes[at].total.weight) >= self.limits.share
        };
        let shown = children.iter().take_while(large).count();
        let rest = &children[shown..];
        if !rest.is_empty() {
            let sums = rest.iter().map(|&at| &self.tree.nodes[at].total);
            let (samples, weight) =
                sums.fold((0, 0), |sum, next| (sum.0 + next.samples, sum.1 + next.weight));
            open.push(Open::LeftOut(LeftOut { ways: rest.len(), samples, weight }, depth));
        }
        open.extend(children[..shown].iter().rev().map(|&at| Open::Node(at, depth)));
    }

    fn node(&mut self, at: usize, depth: usize) {
        let CallNode { place, own, total, .. } = &self.tree.nodes[at];
        let name = place.as_ref().map_or(String::new(), |place| place_text(place, self.modules));
        self.rows.push([
            Cell::new(percent(self.share(total.weight), 2)),
            Cell::new(percent(self.share(own.weight), 2)),
            Cell::new(count(total.samples)),
            Cell::new(format!("{}{name}", indent(depth))),
        ]);
    }

    fn left_out(&mut self, left_out: LeftOut, depth: usize) {
        let ways = if left_out.ways == 1 { "path" } else { "paths" };
        let text = format!("{}… {} {ways} more", indent(depth), count(left_out.ways as u64));
        let share = percent(self.share(left_out.weight), 2);
        let texts = [share, String::new(), count(left_out.samples), text];
        self.rows.push(texts.map(|text| Cell::new(text).paint(Paint::Dim)));
    }

    fn share(&self, weight: u64) -> f64 {
        weight as f64 / self.all as f64
    }
}

/// What is still to be written.
enum Open {
    Node(usize, usize),
    Below(usize, usize),
    LeftOut(LeftOut, usize),
}

/// Children that are not shown.
#[derive(Clone, Copy)]
struct LeftOut {
    ways: usize,
    samples: u64,
    weight: u64,
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::views::{CallSite, Sums};

    use super::*;
    use crate::views::tests::modules;

    fn node(name: Option<&str>, own: u64, total: u64, children: Vec<usize>) -> CallNode {
        let sums = |samples| Sums { samples, weight: samples };
        let place = name.map(|name| CallSite { function: Some(name.into()), module: 0 });
        CallNode { place, own: sums(own), total: sums(total), children }
    }

    /// main calls parse (60, of which 40 in lex) and, 4 times, something small.
    fn tree() -> CallTree {
        let mut nodes = vec![
            node(None, 0, 100, vec![1]),
            node(Some("main"), 36, 100, vec![2, 4, 5, 6, 7]),
            node(Some("parse"), 20, 60, vec![3]),
            node(Some("lex"), 40, 40, vec![]),
        ];
        nodes.extend((0..4).map(|_| node(Some("small"), 1, 1, vec![])));
        CallTree { nodes }
    }

    #[test]
    fn heavy_ways_are_lines_and_light_ones_a_sum() {
        let limits = TreeLimits { share: 0.02, ..TreeLimits::default() };
        let text = tree_text(&tree(), Direction::Callees, &modules(), limits, &Style::PLAIN);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_very_deep_recursion_is_cut() {
        let mut nodes = vec![node(None, 0, 1, vec![1])];
        nodes.extend((1..100_000).map(|at| node(Some("f"), 0, 1, vec![at + 1])));
        nodes.push(node(Some("f"), 1, 1, vec![]));
        let tree = CallTree { nodes };
        let text =
            tree_text(&tree, Direction::Callees, &modules(), TreeLimits::default(), &Style::PLAIN);
        assert_eq!(text.lines().count(), 1 + 60 + 1);
        assert!(text.ends_with("… 1 path more\n"), "{text}");
    }
}
