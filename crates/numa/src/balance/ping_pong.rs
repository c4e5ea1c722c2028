//! Pages that go back and forth: somebody else moves them too, or the decision keeps changing.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

/// What was moved in the last windows, by process.
#[derive(Debug, Clone)]
pub struct PingPong {
    windows: u64,
    moves: HashMap<u32, VecDeque<Move>>,
}

#[derive(Debug, Clone, Copy)]
struct Move {
    window: u64,
    from: u32,
    to: u32,
    bytes: u64,
}

/// Why a process's pages are to be left where they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum BackAndForth {
    /// They would go back to where they were brought from.
    Back {
        /// Bytes brought from there in the last windows.
        bytes: u64,
        /// Brought from this node, where they are to go to now.
        from: u32,
        /// Brought to this node.
        to: u32,
    },
    /// More was moved than the process has: somebody (the kernel's balancing) moves them away again.
    TooMuch {
        /// Moved in the last windows, and to be moved now, over the process's memory.
        ratio: f64,
    },
}

/// Pages that go back are noticed if they are more than this share of the process's memory.
const SHARE: f64 = 0.1;
/// Moving all of the memory once, and half of it again, is no ping-pong yet.
const RATIO: f64 = 1.5;

impl PingPong {
    /// Remembers this many windows.
    #[must_use]
    pub fn new(windows: u64) -> Self {
        Self { windows, moves: HashMap::new() }
    }

    /// Bytes of a process were moved from node to node.
    pub fn record(&mut self, window: u64, pid: u32, (from, to): (u32, u32), bytes: u64) {
        let moves = self.moves.entry(pid).or_default();
        match moves.back_mut() {
            Some(last) if (last.window, last.from, last.to) == (window, from, to) => {
                last.bytes += bytes;
            }
            _ => moves.push_back(Move { window, from, to, bytes }),
        }
    }

    /// A move that was undone is as if it had not been.
    pub fn forget(&mut self, pid: u32) {
        self.moves.remove(&pid);
    }

    /// Whether moving these bytes of a process that has `memory` would be ping-pong.
    pub fn check(
        &mut self,
        window: u64,
        pid: u32,
        memory: u64,
        wanted: &[((u32, u32), u64)],
    ) -> Option<BackAndForth> {
        let moves = self.moves.get_mut(&pid)?;
        while moves.front().is_some_and(|old| old.window + self.windows < window) {
            moves.pop_front();
        }
        for &((from, to), bytes) in wanted {
            let brought = moves.iter().filter(|past| (past.from, past.to) == (to, from));
            let brought: u64 = brought.map(|past| past.bytes).sum();
            if brought.min(bytes) as f64 > SHARE * memory as f64 {
                return Some(BackAndForth::Back { bytes: brought, from: to, to: from });
            }
        }
        let past: u64 = moves.iter().map(|past| past.bytes).sum();
        let wanted: u64 = wanted.iter().map(|(_, bytes)| bytes).sum();
        let ratio = (past + wanted) as f64 / memory.max(1) as f64;
        (past > 0 && ratio > RATIO).then_some(BackAndForth::TooMuch { ratio })
    }
}

impl std::fmt::Display for BackAndForth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Back { bytes, from, to } => write!(
                f,
                "pages would move back from node {to} to node {from}, where {} MiB came from",
                bytes >> 20
            ),
            Self::TooMuch { ratio } => write!(
                f,
                "pages do not stay: {ratio:.1} times its memory would have moved; is \
                 kernel.numa_balancing on?"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_to_where_they_came_from_within_the_windows() {
        let mut seen = PingPong::new(4);
        assert_eq!(seen.check(0, 1, 100, &[((0, 1), 100)]), None);
        seen.record(0, 1, (0, 1), 40);
        seen.record(0, 1, (0, 1), 20);
        let back = Some(BackAndForth::Back { bytes: 60, from: 0, to: 1 });
        assert_eq!(seen.check(2, 1, 100, &[((1, 0), 50)]), back);
        assert_eq!(seen.check(2, 2, 100, &[((1, 0), 50)]), None, "another process");
        assert_eq!(seen.check(2, 1, 100, &[((1, 0), 5)]), None, "a few pages");
        assert_eq!(seen.check(2, 1, 100, &[((1, 2), 50)]), None, "on to a third node");
        assert_eq!(seen.check(5, 1, 100, &[((1, 0), 50)]), None, "long ago");
    }

    #[test]
    fn the_same_again_and_again() {
        let mut seen = PingPong::new(10);
        seen.record(0, 1, (0, 1), 100);
        assert_eq!(seen.check(1, 1, 100, &[((0, 1), 40)]), None);
        let found = seen.check(1, 1, 100, &[((0, 1), 80)]);
        assert_eq!(found, Some(BackAndForth::TooMuch { ratio: 1.8 }));
        seen.forget(1);
        assert_eq!(seen.check(1, 1, 100, &[((0, 1), 80)]), None);
    }
}
