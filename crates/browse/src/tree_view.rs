//! The call tree from either end, taken apart only where it is open.

use std::collections::HashSet;

use pmuscope_profile::views::{CallersTree, Direction, StackTree, Sums};
use pmuscope_report::number::{count, percent};
use pmuscope_report::{Cell, Column, Key, Style, Table, TableLines, place_text};

use crate::command::CommandLine;
use crate::list::ListPosition;
use crate::seen::SeenCounts;
use crate::subject::Subject;

/// What is open where nothing was said: what weighs at least this part of all.
const OPEN_FROM: f64 = 0.1;
/// The same after "expand all".
const OPEN_ALL_FROM: f64 = 0.001;
/// Lines of the tree: more than anybody scrolls through.
const MOST_LINES: usize = 20_000;
/// Deeper calls are indented as these are.
const DEEPEST: usize = 40;
/// Columns that names get at least.
const NAME: usize = 24;

/// A line.
#[derive(Clone)]
struct TreeLine {
    /// Call sites from the root on.
    path: Vec<u32>,
    own: Sums,
    total: Sums,
    /// Whether anything is below it, and whether that is shown.
    below: bool,
    open: bool,
}

/// The tree.
#[derive(Clone)]
pub(crate) struct TreeView {
    direction: Direction,
    /// What is open unless it was closed.
    open_from: f64,
    /// What a reader opened or closed, against the rule.
    turned: HashSet<Vec<u32>>,
    list: ListPosition,
    lines: Vec<TreeLine>,
    /// Lines that are not there.
    cut: bool,
    all: u64,
}

impl TreeView {
    pub(crate) fn new(direction: Direction) -> Self {
        Self {
            direction,
            open_from: match direction {
                Direction::Callees => OPEN_FROM,
                // Each root is a function: a reader opens the one he wants.
                Direction::Callers => f64::INFINITY,
            },
            turned: HashSet::new(),
            list: ListPosition::default(),
            lines: Vec::new(),
            cut: false,
            all: 0,
        }
    }

    pub(crate) fn count(&mut self, counts: &SeenCounts) {
        let chosen = self.lines.get(self.list.at).map(|line| line.path.clone());
        let Some(event) = counts.event() else { return };
        let seen = counts.chains();
        let cells = seen.of_event(event.index).iter();
        let own =
            cells.map(|cell| (cell.stack, Sums { samples: cell.samples, weight: cell.weight }));
        let keys = &counts.sites().of_frame[..];
        match self.direction {
            Direction::Callees => {
                let tree = StackTree::new(&seen.stacks, keys, own);
                let sums = |branch: &_| tree.own(branch);
                self.grow(counts, &tree.root(), |b| tree.callees(b), |b| (b.key, b.total), sums);
            }
            Direction::Callers => {
                let tree = CallersTree::new(&seen.stacks, keys, own);
                let sums = |branch: &_| tree.own(branch);
                self.grow(counts, tree.root(), |b| tree.callers(b), |b| (b.key, b.total), sums);
            }
        }
        let found = chosen.and_then(|path| self.lines.iter().position(|line| line.path == path));
        self.list.at =
            found.unwrap_or_else(|| self.list.at.min(self.lines.len().saturating_sub(1)));
    }

    fn grow<B>(
        &mut self,
        counts: &SeenCounts,
        root: &B,
        below: impl Fn(&B) -> Vec<B>,
        what: impl Fn(&B) -> (u32, Sums),
        own: impl Fn(&B) -> Sums,
    ) {
        self.lines.clear();
        self.cut = false;
        self.all = what(root).1.weight;
        let names = &counts.sites().list;
        let sorted = |branch: &B| {
            let mut all = below(branch);
            all.sort_by(|a, b| {
                let ((a, of_a), (b, of_b)) = (what(a), what(b));
                let names = || names[a as usize].cmp(&names[b as usize]);
                of_b.weight.cmp(&of_a.weight).then_with(names)
            });
            all
        };
        // Calls can be deeper than ours may: what is left to do is kept here.
        let mut open: Vec<(Vec<u32>, B)> = Vec::new();
        open.extend(sorted(root).into_iter().rev().map(|branch| (Vec::new(), branch)));
        while let Some((above, branch)) = open.pop() {
            if self.lines.len() == MOST_LINES {
                self.cut = true;
                return;
            }
            let (key, total) = what(&branch);
            let path = [above, vec![key]].concat();
            let children = below(&branch).len();
            let is_open = children > 0 && self.is_open(&path, total);
            if is_open {
                let children = sorted(&branch).into_iter().rev();
                open.extend(children.map(|child| (path.clone(), child)));
            }
            let own = own(&branch);
            self.lines.push(TreeLine { path, own, total, below: children > 0, open: is_open });
        }
    }

    fn is_open(&self, path: &[u32], total: Sums) -> bool {
        let share = total.weight as f64 / self.all.max(1) as f64;
        (share >= self.open_from) != self.turned.contains(path)
    }

    /// Whether the key was one of the tree's.
    pub(crate) fn key(&mut self, key: Key, counts: &SeenCounts) -> bool {
        match key {
            Key::Enter | Key::Char('+') => self.turn(counts, |_| true),
            // What has nothing to be opened is shown in full.
            Key::Right if self.can_open() => self.turn(counts, |line| !line.open),
            Key::Char('E') => self.open_all(counts, OPEN_ALL_FROM),
            Key::Char('C') => self.open_all(counts, f64::INFINITY),
            key => return self.list.moves(key, self.lines.len()),
        }
        true
    }

    /// Closes the chosen line; `false` where it is not open.
    pub(crate) fn close(&mut self, counts: &SeenCounts) -> bool {
        let is_open = self.lines.get(self.list.at).is_some_and(|line| line.open);
        if is_open {
            self.turn(counts, |_| true);
        }
        is_open
    }

    fn can_open(&self) -> bool {
        self.lines.get(self.list.at).is_some_and(|line| line.below && !line.open)
    }

    fn turn(&mut self, counts: &SeenCounts, when: impl Fn(&TreeLine) -> bool) {
        let Some(line) = self.lines.get(self.list.at).filter(|line| line.below && when(line))
        else {
            return;
        };
        let path = line.path.clone();
        if !self.turned.remove(&path) {
            self.turned.insert(path);
        }
        self.count(counts);
    }

    fn open_all(&mut self, counts: &SeenCounts, from: f64) {
        self.open_from = from;
        self.turned.clear();
        self.count(counts);
    }

    pub(crate) fn subject(&self, counts: &SeenCounts) -> Subject {
        let last = self.lines.get(self.list.at).and_then(|line| line.path.last());
        last.map(|&key| Subject::of_site(&counts.sites().list[key as usize])).unwrap_or_default()
    }

    pub(crate) fn state(&self) -> String {
        let what = match self.direction {
            Direction::Callees => "call tree, callees indented",
            Direction::Callers => "callers of sampled functions, indented",
        };
        let cut = if self.cut { ", further lines left out" } else { "" };
        format!("{what}{cut}")
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.lines.len())
    }

    pub(crate) fn lines(
        &mut self,
        counts: &SeenCounts,
        height: usize,
        style: &Style,
    ) -> (TableLines, usize) {
        let seen = self.list.seen(self.lines.len(), height.saturating_sub(1));
        // Seen from the sampled function, the samples of a caller are all of what it called.
        let has_own = self.direction == Direction::Callees;
        let mut heads = vec![Column::number(if has_own { "total" } else { "share" })];
        heads.extend(has_own.then(|| Column::number("self")));
        heads.push(Column::number("samples").optional(1));
        heads.push(Column::text("function").shrink_to(NAME));
        let mut table = Table::new(heads);
        let share = |sums: Sums| percent(sums.weight as f64 / self.all.max(1) as f64, 2);
        for line in &self.lines[seen.clone()] {
            let site = line.path.last().map(|&key| &counts.sites().list[key as usize]);
            let name = site.map_or_else(String::new, |site| place_text(site, counts.modules()));
            let mark = match (line.below, line.open) {
                (false, _) => ' ',
                (true, false) => '+',
                (true, true) => '-',
            };
            let indent = "  ".repeat((line.path.len() - 1).min(DEEPEST));
            let mut cells = vec![share(line.total)];
            cells.extend(has_own.then(|| share(line.own)));
            cells.push(count(line.total.samples));
            cells.push(format!("{indent}{mark} {name}"));
            table.row(cells.into_iter().map(Cell::new));
        }
        let chosen = self.list.line(&seen);
        (table.lines(style), chosen)
    }

    pub(crate) fn command(&self, line: CommandLine) -> CommandLine {
        line.with([match self.direction {
            Direction::Callees => "--call-tree",
            Direction::Callers => "--call-tree=callers",
        }])
    }
}
