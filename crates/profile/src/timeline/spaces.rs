//! Address spaces over time: what was mapped where, at every moment of the recording.
//!
//! Time is counted in changes of tasks and mappings ([`Epoch`]): what a record with number `n` maps is
//! there from epoch `n + 1` on. A fork is a view of the parent's space as of that epoch; only what maps
//! something of its own gets a space of its own, over that view:
//!
//! ```text
//!  parent   ──map a──┬──map b──────────►            view of the parent: as of now
//!                    │ fork
//!  child             └─────────map c───►            before c: parent as of the fork
//!                                                   then: own space with c, over that
//! ```
//!
//! Mapping over what is mapped moves the older piece to the past, so that each record costs one entry
//! and each entry is moved once.

use std::collections::BTreeMap;

use crate::timeline::modules::ModuleId;

/// Number of changes before a moment.
pub(crate) type Epoch = u32;
/// As of the present, whatever it is.
pub(crate) const NOW: Epoch = Epoch::MAX;

/// Index of a space.
type SpaceId = u32;

/// Index of a [`SpaceView`].
pub(crate) type ViewId = u32;
/// The view of a process of which nothing is known: nothing is mapped.
pub(crate) const NOTHING: ViewId = 0;

/// What a process sees: a space, as of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpaceView {
    space: SpaceId,
    /// [`NOW`] if the process owns the space.
    at: Epoch,
}

/// A mapping; `address + bias` is the place in the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// `None` where a mapping was taken away.
    pub(crate) module: Option<ModuleId>,
    pub(crate) bias: u64,
}

/// What a lookup came to, and how far around it that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookupResult {
    pub(crate) mapping: Option<Mapping>,
    /// Epochs at which it is the same.
    pub(crate) from: Epoch,
    pub(crate) until: Epoch,
    /// Addresses of which the same is true, first and last.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

#[derive(Debug, Clone, Copy)]
struct MappedPiece {
    end: u64,
    from: Epoch,
    mapping: Mapping,
}

/// A piece that was mapped over.
#[derive(Debug, Clone, Copy)]
struct ReplacedPiece {
    start: u64,
    end: u64,
    from: Epoch,
    until: Epoch,
    mapping: Mapping,
}

#[derive(Debug, Default)]
struct Space {
    /// What shows where nothing of its own is mapped.
    below: Option<SpaceView>,
    /// Spaces below.
    depth: u8,
    /// Mappings made in it so far.
    changes: u32,
    /// By first address.
    now: BTreeMap<u64, MappedPiece>,
    /// By `until`.
    past: Vec<ReplacedPiece>,
}

/// Mappings held at most: some 800 MB. A machine full of processes has a few million; a file made for
/// it could ask for any number.
const MOST_MAPPINGS: usize = 16 << 20;
/// Pieces of a space's past at most: a lookup may have to go over them.
const MOST_PAST: usize = 1 << 16;
/// Spaces below one another at most; then they are made one.
const MOST_DEPTH: u8 = 8;

/// All spaces of a recording.
#[derive(Debug)]
pub(crate) struct Spaces {
    spaces: Vec<Space>,
    views: Vec<SpaceView>,
    held: usize,
    most: usize,
    left_out: u64,
}

impl Default for Spaces {
    fn default() -> Self {
        let nothing = SpaceView { space: 0, at: 0 };
        let spaces = vec![Space::default()];
        Self { spaces, views: vec![nothing], held: 0, most: MOST_MAPPINGS, left_out: 0 }
    }
}

impl Spaces {
    /// At most `most` mappings.
    #[cfg(test)]
    pub(crate) fn with_most(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Mappings held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Mappings not taken over for want of memory.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// A space with nothing in it, seen as of now.
    pub(crate) fn create(&mut self) -> ViewId {
        self.own(Space::default())
    }

    /// What a child forked at `epoch` sees of what its parent sees.
    pub(crate) fn fork(&mut self, parent: ViewId, epoch: Epoch) -> ViewId {
        let view = self.views[parent as usize];
        if view.at != NOW {
            return parent; // it does not change any more
        }
        self.view(SpaceView { at: epoch, ..view })
    }

    /// Lays `start..end` over what `view` shows, from behind `epoch` on. Answers the view that shows
    /// it: another one, where this did not own its space.
    pub(crate) fn map(
        &mut self,
        view: ViewId,
        start: u64,
        end: u64,
        mapping: Mapping,
        epoch: Epoch,
    ) -> ViewId {
        if start >= end {
            return view;
        }
        if self.held >= self.most {
            self.left_out += 1;
            return view;
        }
        let SpaceView { space, at } = self.views[view as usize];
        if at == NOW {
            self.insert(space, start, end, mapping, epoch);
            return view;
        }
        let own = self.over(view);
        let space = self.views[own as usize].space;
        self.insert(space, start, end, mapping, epoch);
        own
    }

    /// Everything a view shows, what is covered first: start, end, mapping.
    pub(crate) fn shown(&self, view: ViewId) -> Vec<(u64, u64, Mapping)> {
        let mut pieces = Vec::new();
        self.visible(self.views[view as usize], &mut pieces);
        pieces
    }

    /// A space with these pieces and no past, what is covered first; seen as of now.
    pub(crate) fn create_of(&mut self, pieces: Vec<(u64, u64, Mapping)>) -> ViewId {
        let mut space = Space::default();
        for (start, end, mapping) in pieces {
            space.insert(start, end, mapping, 0, 0);
        }
        space.past.clear();
        self.held += space.now.len();
        self.own(space)
    }

    /// Views and mappings, those nobody looks at any more included.
    pub(crate) fn size(&self) -> usize {
        self.views.len() + self.held
    }

    /// A new space over what a view shows.
    fn over(&mut self, view: ViewId) -> ViewId {
        if view == NOTHING {
            return self.create();
        }
        let below = self.views[view as usize];
        let depth = self.spaces[below.space as usize].depth + 1;
        if depth <= MOST_DEPTH {
            return self.own(Space { below: Some(below), depth, ..Space::default() });
        }
        let mut pieces = Vec::new();
        self.visible(below, &mut pieces);
        let mut flat = Space::default();
        if self.held + pieces.len() > self.most {
            self.left_out += pieces.len() as u64;
            return self.own(flat);
        }
        for (start, end, mapping) in pieces {
            flat.insert(start, end, mapping, 0, 0);
        }
        flat.past.clear();
        self.held += flat.now.len();
        self.own(flat)
    }

    /// Everything a view shows, what is covered first.
    fn visible(&self, view: SpaceView, pieces: &mut Vec<(u64, u64, Mapping)>) {
        let space = &self.spaces[view.space as usize];
        if let Some(below) = space.below {
            self.visible(below, pieces);
        }
        let past = space.past.iter().filter(|past| past.from <= view.at && view.at < past.until);
        pieces.extend(past.map(|past| (past.start, past.end, past.mapping)));
        let now = space.now.iter().filter(|(_, piece)| piece.from <= view.at);
        pieces.extend(now.map(|(&start, piece)| (start, piece.end, piece.mapping)));
    }

    fn own(&mut self, space: Space) -> ViewId {
        self.spaces.push(space);
        self.view(SpaceView { space: (self.spaces.len() - 1) as SpaceId, at: NOW })
    }

    fn view(&mut self, view: SpaceView) -> ViewId {
        self.views.push(view);
        // Each takes a record, of which no file has 2^32 that are kept.
        (self.views.len() - 1) as ViewId
    }

    fn insert(&mut self, space: SpaceId, start: u64, end: u64, mapping: Mapping, epoch: Epoch) {
        let space = &mut self.spaces[space as usize];
        space.changes = space.changes.wrapping_add(1);
        let before = space.now.len() + space.past.len();
        self.left_out += space.insert(start, end, mapping, epoch + 1, MOST_PAST);
        self.held = (self.held + space.now.len() + space.past.len()).saturating_sub(before);
    }

    /// A number that differs once something is mapped in the space that a view shows.
    #[inline]
    pub(crate) fn changes(&self, view: ViewId) -> u64 {
        self.spaces[self.views[view as usize].space as usize].changes.into()
    }

    /// What is mapped at an address.
    pub(crate) fn find(&self, view: ViewId, address: u64, epoch: Epoch) -> LookupResult {
        let SpaceView { space, at } = self.views[view as usize];
        let mut found = self.spaces[space as usize].find(address, at.min(epoch));
        if at != NOW {
            (found.from, found.until) = (0, NOW);
        }
        let mut below = self.spaces[space as usize].below;
        while let (None, Some(view)) = (found.mapping, below) {
            let space = &self.spaces[view.space as usize];
            let deeper = space.find(address, view.at);
            // That it shows here lasts until something is mapped over it.
            found.first = found.first.max(deeper.first);
            found.last = found.last.min(deeper.last);
            found.mapping = deeper.mapping;
            below = space.below;
        }
        found.mapping = found.mapping.filter(|mapping| mapping.module.is_some());
        found
    }
}

impl Space {
    /// Answers how many pieces of the past were forgotten.
    fn insert(&mut self, start: u64, end: u64, mapping: Mapping, from: Epoch, most: usize) -> u64 {
        let first = self.now.range(..start).next_back().filter(|(_, piece)| piece.end > start);
        let first = first.map_or(start, |(&key, _)| key);
        if let Some(piece) = self.now.get(&first)
            && piece.end >= end
            && piece.mapping == mapping
        {
            return 0; // told again, as when protection changes
        }
        let mut forgotten = 0;
        let mut bury = |past: &mut Vec<ReplacedPiece>, key: u64, piece: MappedPiece| {
            let MappedPiece { from: since, mapping, .. } = piece;
            let (start, end) = (key.max(start), piece.end.min(end));
            if past.len() < most {
                past.push(ReplacedPiece { start, end, from: since, until: from, mapping });
            } else {
                forgotten += 1;
            }
        };
        if first < start
            && let Some(piece) = self.now.get_mut(&first)
        {
            let whole = *piece;
            piece.end = start;
            if whole.end > end {
                self.now.insert(end, whole);
            }
            bury(&mut self.past, first, whole);
        }
        while let Some((&key, _)) = self.now.range(start..end).next() {
            let Some(piece) = self.now.remove(&key) else { break };
            if piece.end > end {
                self.now.insert(end, piece);
            }
            bury(&mut self.past, key, piece);
        }
        self.now.insert(start, MappedPiece { end, from, mapping });
        forgotten
    }

    fn find(&self, address: u64, epoch: Epoch) -> LookupResult {
        let before = self.now.range(..=address).next_back();
        let mut until = NOW;
        let mut found = LookupResult { mapping: None, from: 0, until, first: 0, last: u64::MAX };
        match before {
            Some((&start, piece)) if address < piece.end => {
                (found.first, found.last) = (start, piece.end - 1);
                if piece.from <= epoch {
                    return LookupResult {
                        mapping: Some(piece.mapping),
                        from: piece.from,
                        ..found
                    };
                }
                until = piece.from;
            }
            Some((_, piece)) => found.first = piece.end,
            None => {}
        }
        if before.is_none_or(|(_, piece)| address >= piece.end)
            && let Some((&start, _)) = self.now.range(address..).next()
        {
            found.last = start - 1;
        }
        if !self.past.is_empty() {
            (found.first, found.last) = (address, address);
        }
        let later = self.past.partition_point(|past| past.until <= epoch);
        let hit = self.past[later..].iter().find(|past| (past.start..past.end).contains(&address));
        if let Some(past) = hit {
            if past.from <= epoch {
                let (from, until) = (past.from, past.until);
                return LookupResult { mapping: Some(past.mapping), from, until, ..found };
            }
            until = past.from;
        }
        LookupResult { until, ..found }
    }
}

/// Addresses of which the same is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// A kernel may lie there, if nothing says where it does.
    pub(crate) kernel: bool,
}

/// The halves of addresses of 32 bits, and what is beyond them of those of 64 bits: the upper one of each
/// is the kernel's, with few exceptions, which say where they lie.
pub(crate) const HALVES: [Half; 4] = [
    Half { first: 0, last: (1 << 31) - 1, kernel: false },
    Half { first: 1 << 31, last: (1 << 32) - 1, kernel: true },
    Half { first: 1 << 32, last: (1 << 63) - 1, kernel: false },
    Half { first: 1 << 63, last: u64::MAX, kernel: true },
];

/// The half that an address lies in.
pub(crate) fn half_of(address: u64) -> Half {
    let holds = |half: &&Half| address <= half.last;
    HALVES.iter().find(holds).copied().unwrap_or(HALVES[3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Map { view: usize, start: u64, length: u64, hole: bool },
        Fork { parent: usize },
        Create,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0_usize..20, 0_u64..40, 0_u64..20, proptest::bool::weighted(0.2))
                .prop_map(|(view, start, length, hole)| Step::Map { view, start, length, hole }),
            3 => (0_usize..20).prop_map(|parent| Step::Fork { parent }),
            1 => Just(Step::Create),
        ]
    }

    const SIZE: u64 = 64;
    type Table = Vec<Option<u64>>;

    proptest! {
        /// Against tables of every address, copied at every fork and kept for every epoch.
        #[test]
        fn lookups_equal_tables_of_every_moment(steps in proptest::collection::vec(step(), 1..60)) {
            let mut spaces = Spaces::default();
            // Per process: its view and its table, at each epoch.
            let mut now: Vec<(ViewId, Table)> = Vec::new();
            let mut history = vec![now.clone()];
            for (epoch, step) in steps.into_iter().enumerate() {
                let number = epoch as u64 * 1000;
                match step {
                    Step::Create => now.push((spaces.create(), vec![None; SIZE as usize])),
                    Step::Fork { parent } if parent < now.len() => {
                        let (view, table) = now[parent].clone();
                        now.push((spaces.fork(view, epoch as Epoch), table));
                    }
                    Step::Map { view: at, start, length, hole } if at < now.len() => {
                        let module = (!hole).then_some(7);
                        let bias = number.wrapping_sub(start);
                        let mapping = Mapping { module, bias };
                        let (view, table) = &mut now[at];
                        *view = spaces.map(*view, start, start + length, mapping, epoch as Epoch);
                        for address in start..start + length {
                            table[address as usize] = (!hole).then(|| address.wrapping_add(bias));
                        }
                    }
                    _ => {}
                }
                history.push(now.clone());
            }
            for (epoch, processes) in history.iter().enumerate() {
                for (process, (view, table)) in processes.iter().enumerate() {
                    for address in 0..SIZE {
                        let found = spaces.find(*view, address, epoch as Epoch);
                        let place = found.mapping.map(|m| address.wrapping_add(m.bias));
                        prop_assert_eq!(place, table[address as usize]);
                        // What it says of its surroundings is true.
                        prop_assert!((found.first..=found.last).contains(&address));
                        for near in found.first..=found.last.min(SIZE - 1) {
                            let same = found.mapping.map(|m| near.wrapping_add(m.bias));
                            prop_assert_eq!(same, table[near as usize]);
                        }
                        prop_assert!((found.from..found.until).contains(&(epoch as Epoch)));
                        let last = (found.until as usize).min(history.len());
                        for other in &history[found.from as usize..last] {
                            let Some((same_view, table)) = other.get(process) else { continue };
                            if same_view == view {
                                prop_assert_eq!(place, table[address as usize]);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_made_for_it_cannot_take_all_memory() {
        let mut spaces = Spaces::with_most(500);
        let mapping = |bias| Mapping { module: Some(1), bias };
        let mut view = spaces.create();
        for at in 0..100 {
            view = spaces.map(view, at * 10, at * 10 + 5, mapping(0), at as Epoch);
        }
        for epoch in 100..2000 {
            view = spaces.fork(view, epoch);
            view = spaces.map(view, 3, 4, mapping(epoch.into()), epoch);
        }
        assert!(spaces.held() <= 510, "{}", spaces.held());
        assert!(spaces.left_out() > 1000);
    }
}
