//! How a cache line goes from thread to thread: after each write, the first access of each other thread.
//!
//! A word that is watched twice, for writes and for reads and writes (x86 has no watchpoint of reads alone), hits both
//! watchpoints with a write, in either order, and one with a read:
//!
//! ```text
//!  records   thread 1  rw @a  w @a     thread 2  rw @b     thread 2  rw @b     thread 1  w @a  rw @a
//!  accesses            write            read                read                write
//!  transfers                            1 ─► 2              (has it still)      2 had it: 1 takes it again
//! ```
//! Every hit has to be there: where one in several was written down, there are no transfers.

use rustc_hash::FxHashMap;

use super::pass::WatchedEvent;
use pmuscope_perfdata::watch::{Access, WatchInfo};

/// Pairs that are kept; further ones are not counted.
const MOST_PAIRS: usize = 1 << 16;
/// Threads of a line that may have it.
const MOST_THREADS: usize = 1024;

/// One side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferEnd {
    /// First byte of the word.
    pub address: u64,
    /// Position in [`Hits::sites`](super::Hits::sites).
    pub site: u32,
    /// Position in [`Hits::threads`](super::Hits::threads).
    pub thread: u32,
}

/// A write and the access of another thread that needed the line then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transfer {
    /// The write.
    pub from: TransferEnd,
    /// The access.
    pub to: TransferEnd,
    /// It was a write, too.
    pub to_write: bool,
}

/// What is known of a line at a moment.
#[derive(Debug, Default)]
struct LineState {
    writer: Option<TransferEnd>,
    /// Threads that accessed it since.
    have_it: Vec<u32>,
    /// The last record of each thread: of which access, whether of a watchpoint of writes, and the transfer that it was
    /// taken for.
    last: FxHashMap<u32, (TransferEnd, bool, Option<Transfer>)>,
}

/// Transfers in the making.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    lines: FxHashMap<(u64, Option<u32>), LineState>,
    pub(super) pairs: FxHashMap<Transfer, u64>,
    /// Watched for both.
    words: Vec<u64>,
}

impl Transfers {
    /// Of words that are watched for writes and for reads.
    pub(super) fn new(info: &WatchInfo) -> Self {
        let of = |wanted: fn(Access) -> bool| {
            let is_wanted = move |point: &&pmuscope_perfdata::watch::WatchPoint| {
                info.targets.get(point.target as usize).is_some_and(|one| wanted(one.access))
            };
            info.points.iter().filter(is_wanted).map(|point| point.address)
        };
        let is_read = |access| matches!(access, Access::Read | Access::ReadWrite);
        let reads: Vec<u64> = of(is_read).collect();
        let mut words: Vec<u64> =
            of(|access| access == Access::Write).filter(|at| reads.contains(at)).collect();
        words.sort_unstable();
        if info.every > 1 || info.when.is_some() || info.when_changed {
            words.clear();
        }
        Self { words, ..Self::default() }
    }

    pub(super) fn add(&mut self, event: &WatchedEvent, pid: Option<u32>, who: TransferEnd) {
        if self.words.binary_search(&who.address).is_err() {
            return;
        }
        let is_write = event.access == Access::Write;
        let line = self.lines.entry((event.line, pid)).or_default();
        let before = line.last.remove(&who.thread);
        if let Some((_, was_write, transfer)) =
            before.filter(|(access, was_write, _)| *access == who && *was_write != is_write)
        {
            // The other half of a write.
            if !was_write {
                if let Some(transfer) = transfer {
                    self.uncount(transfer);
                    self.count(Transfer { to_write: true, ..transfer });
                }
                self.wrote((event.line, pid), who);
            }
            return;
        }
        let has_it = line.have_it.contains(&who.thread);
        let writer = line.writer.filter(|writer| writer.thread != who.thread && !has_it);
        let transfer = writer.map(|from| Transfer { from, to: who, to_write: is_write });
        if line.last.len() < MOST_THREADS {
            line.last.insert(who.thread, (who, is_write, transfer));
        }
        if !has_it && line.have_it.len() < MOST_THREADS {
            line.have_it.push(who.thread);
        }
        transfer.into_iter().for_each(|transfer| self.count(transfer));
        if is_write {
            self.wrote((event.line, pid), who);
        }
    }

    fn wrote(&mut self, line: (u64, Option<u32>), who: TransferEnd) {
        let line = self.lines.entry(line).or_default();
        line.writer = Some(who);
        line.have_it.clear();
        line.have_it.push(who.thread);
    }

    fn count(&mut self, transfer: Transfer) {
        if self.pairs.len() < MOST_PAIRS || self.pairs.contains_key(&transfer) {
            *self.pairs.entry(transfer).or_default() += 1;
        }
    }

    fn uncount(&mut self, transfer: Transfer) {
        if let Some(number) = self.pairs.get_mut(&transfer) {
            *number -= 1;
            if *number == 0 {
                self.pairs.remove(&transfer);
            }
        }
    }

    /// Those with the most first; `site` numbers sites anew.
    pub(super) fn finish(self, site: impl Fn(u32) -> u32) -> Vec<(Transfer, u64)> {
        let end = |end: TransferEnd| TransferEnd { site: site(end.site), ..end };
        let mut pairs: FxHashMap<Transfer, u64> = FxHashMap::default();
        for (transfer, number) in self.pairs {
            let to = Transfer { from: end(transfer.from), to: end(transfer.to), ..transfer };
            *pairs.entry(to).or_default() += number;
        }
        let mut pairs: Vec<(Transfer, u64)> = pairs.into_iter().collect();
        pairs.sort_unstable_by_key(|&(transfer, number)| (std::cmp::Reverse(number), transfer));
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::watch::{WatchPoint, WatchTarget};

    const WORDS: [u64; 2] = [0x1040, 0x1048];

    fn info() -> WatchInfo {
        let accesses = [Access::Write, Access::ReadWrite];
        let targets = WORDS.iter().flat_map(|_| accesses);
        let points = WORDS.iter().flat_map(|&address| [address; 2]).zip(0..);
        WatchInfo {
            targets: targets
                .map(|access| WatchTarget { access, ..WatchTarget::default() })
                .collect(),
            points: points
                .map(|(address, at)| WatchPoint { event: at, target: at, address, bytes: 8 })
                .collect(),
            ..WatchInfo::default()
        }
    }

    /// Each access as the records that it makes, `w` of a write or `r` of a read: thread, word, site.
    fn transfers(accesses: &[(char, u32, usize, u32)], write_first: bool) -> Vec<(Transfer, u64)> {
        let mut found = Transfers::new(&info());
        for &(kind, thread, word, site) in accesses {
            let who = TransferEnd { address: WORDS[word], site, thread };
            let mut halves = match kind {
                'w' => vec![Access::Write, Access::ReadWrite],
                _ => vec![Access::ReadWrite],
            };
            if !write_first {
                halves.reverse();
            }
            for access in halves {
                found.add(&WatchedEvent::of_line(access, 0x1040), Some(1), who);
            }
        }
        found.finish(|site| site)
    }

    fn transfer(from: (usize, u32, u32), to: (usize, u32, u32), to_write: bool) -> Transfer {
        let end = |(word, site, thread)| TransferEnd { address: WORDS[word], site, thread };
        Transfer { from: end(from), to: end(to), to_write }
    }

    #[test]
    fn a_line_goes_to_whoever_accesses_it_after_a_write() {
        for write_first in [true, false] {
            let accesses = [
                ('w', 1, 0, 10),
                ('r', 2, 1, 20),
                ('r', 2, 1, 20), // has it still
                ('w', 1, 0, 10), // nobody else wrote
                ('r', 2, 1, 20),
                ('r', 3, 1, 30),
                ('w', 2, 1, 21),
                ('w', 1, 0, 10),
            ];
            let found = transfers(&accesses, write_first);
            let expected = [
                (transfer((0, 10, 1), (1, 20, 2), false), 2),
                (transfer((0, 10, 1), (1, 30, 3), false), 1),
                (transfer((1, 21, 2), (0, 10, 1), true), 1),
            ];
            assert_eq!(found, expected, "{write_first}");
        }
    }

    #[test]
    fn a_write_right_after_a_read_of_the_same_code_is_its_own() {
        // A loop of one instruction that only writes.
        let found = transfers(&[('w', 1, 0, 10), ('w', 2, 0, 10), ('w', 2, 0, 10)], false);
        assert_eq!(found, [(transfer((0, 10, 1), (0, 10, 2), true), 1)]);
    }

    #[test]
    fn one_in_several_hits_says_nothing_of_transfers() {
        let every = WatchInfo { every: 2, ..info() };
        assert!(Transfers::new(&every).words.is_empty());
        assert_eq!(Transfers::new(&info()).words, WORDS);
    }
}
