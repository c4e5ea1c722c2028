//! Who reads and writes the words of a cache line, as watchpoints counted it: the exact side of a sampled line.
//!
//! Each word has two watchpoints, one of writes and one of reads (x86: of both, so reads are what is left):
//!
//! ```text
//!  word         watchpoint     thread 1   thread 2          access of      needs bytes that another thread writes    true
//!  queue.head   writes            1,000          0          a thread       only the line is written by another      false
//!               both              1,000        700                         nobody else writes the line               -
//! ```
//! A write also waits for those who only read: it takes the line from their caches.

use std::collections::BTreeMap;

use pmuscope_perfdata::watch::Access;

use super::verdict::{LEAST, SLIGHT, of_share};
use crate::hits::estimate::{armed, is_always};
use crate::hits::{Hits, SharingVerdict, Transfer};

/// Writes (or reads) of a word by a thread count if they are at least this share of all accesses to the line.
const RARE: f64 = 0.001;
/// Bytes of a line where the recording does not say.
const LINE: u32 = 64;

/// A cache line whose words were watched.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedLine {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u32,
    /// The process.
    pub pid: i32,
    /// What goes on.
    pub verdict: SharingVerdict,
    /// Share of the accesses that contend for the line which need only bytes that no other thread writes (a write: that
    /// no other thread accesses); `None` where none contend.
    pub false_share: Option<f64>,
    /// Watchpoints were not all enabled all the time, so counts are a part.
    pub is_part: bool,
    /// Its words, by address.
    pub words: Vec<WatchedWord>,
    /// By word, the most accesses first.
    pub accesses: Vec<WatchedAccess>,
    /// Transfers between words of the line, the most frequent first; `None` where not all words were watched at the same
    /// time.
    pub transfers: Option<Vec<(Transfer, u64)>>,
}

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedWord {
    /// As the target is named: `queue.head`; an address where it has no name. Foreign text.
    pub name: std::sync::Arc<str>,
    /// First byte, from that of the line.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Seconds that its watchpoints were enabled.
    pub enabled_s: f64,
}

/// Accesses to a word from one place in code by one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedAccess {
    /// Position in [`WatchedLine::words`].
    pub word: u32,
    /// Position in [`Hits::sites`].
    pub site: u32,
    /// Position in [`Hits::threads`].
    pub thread: u32,
    /// Reads while its watchpoints were enabled.
    pub reads: u64,
    /// Writes, also those that read the word first.
    pub writes: u64,
}

/// A word in the making: its targets of writes and of reads.
#[derive(Debug, Clone)]
struct WordTargets {
    word: WatchedWord,
    address: u64,
    points: Vec<u32>,
    /// Targets by part of the word: writes, and reads with whether writes are among them.
    parts: Vec<(usize, usize, bool)>,
}

/// Targets at one address: of writes, and of reads with whether writes are among them.
#[derive(Debug, Clone, Copy, Default)]
struct PartTargets {
    writes: Option<usize>,
    reads: Option<(usize, bool)>,
}

impl WatchedLine {
    /// The lines of a recording in which words were watched for writes and for reads, by process, those with the most
    /// accesses first.
    #[must_use]
    pub fn all(hits: &Hits) -> Vec<Self> {
        let bytes = hits.info.cache_line.filter(|bytes| bytes.is_power_of_two()).unwrap_or(LINE);
        let mut lines: BTreeMap<u64, Vec<WordTargets>> = BTreeMap::new();
        for word in words(hits, bytes) {
            lines.entry(word.address & !u64::from(bytes - 1)).or_default().push(word);
        }
        let mut found = Vec::new();
        for (address, words) in lines {
            let mut processes: BTreeMap<i32, Vec<WatchedAccess>> = BTreeMap::new();
            for (number, word) in words.iter().enumerate() {
                for (key, (reads, writes)) in accesses(hits, word) {
                    let (site, thread) = key;
                    let Some(of) = hits.threads.get(thread as usize) else { continue };
                    let access = WatchedAccess { word: number as u32, site, thread, reads, writes };
                    processes.entry(of.pid).or_default().push(access);
                }
            }
            let line = |(pid, accesses)| line(hits, (address, bytes, pid), &words, accesses);
            found.extend(processes.into_iter().map(line));
        }
        let all = |line: &Self| line.accesses.iter().map(WatchedAccess::all).sum::<u64>();
        found.sort_by_key(|line| (std::cmp::Reverse(all(line)), line.address, line.pid));
        found
    }

    /// Whether several threads write and access it.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        use SharingVerdict::{Both, FalseSharing, TrueSharing};
        matches!(self.verdict, FalseSharing | TrueSharing | Both)
    }
}

impl WatchedAccess {
    /// Reads and writes.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// Words that have both kinds of watchpoints, by address; parts of a word have one name.
fn words(hits: &Hits, line_bytes: u32) -> Vec<WordTargets> {
    let mut parts: BTreeMap<u64, PartTargets> = BTreeMap::new();
    for (target, number) in hits.info.targets.iter().zip(0_usize..) {
        let part = parts.entry(target.address).or_default();
        match target.access {
            Access::Write => part.writes = Some(number),
            Access::Read => part.reads = Some((number, false)),
            Access::ReadWrite => part.reads = Some((number, true)),
            Access::Execute => {}
        }
    }
    let span = hits.info.span().map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
    let mut words: Vec<WordTargets> = Vec::new();
    for (address, part) in parts {
        let (Some(writes), Some((reads, both))) = (part.writes, part.reads) else { continue };
        let target = &hits.info.targets[writes];
        let points = [writes, reads].map(|one| hits.targets[one].points.clone()).concat();
        let goes_on = |word: &&mut WordTargets| {
            let same_line = word.address / u64::from(line_bytes) == address / u64::from(line_bytes);
            *word.word.name == *target.name
                && same_line
                && word.address + u64::from(word.word.bytes) == address
        };
        if let Some(word) = words.last_mut().filter(goes_on) {
            word.word.bytes += target.bytes as u32;
            word.points.extend(points);
            word.parts.push((writes, reads, both));
            continue;
        }
        let word = WatchedWord {
            name: target.name.as_str().into(),
            offset: (address % u64::from(line_bytes)) as u32,
            bytes: target.bytes as u32,
            enabled_s: armed(&hits.info, &points) * span,
        };
        words.push(WordTargets { word, address, points, parts: vec![(writes, reads, both)] });
    }
    words
}

/// Reads and writes of a word by place and thread.
fn accesses(hits: &Hits, word: &WordTargets) -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut all: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for &(writes, reads, both) in &word.parts {
        let mut part: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        for row in &hits.targets[writes].matrix.rows {
            for (thread, counts) in &row.cells {
                part.entry((row.site, *thread)).or_default().1 += counts.hits;
            }
        }
        for row in &hits.targets[reads].matrix.rows {
            for (thread, counts) in &row.cells {
                let cell = part.entry((row.site, *thread)).or_default();
                cell.0 += match both {
                    true => reads_of(counts.hits, cell.1, hits.info.blocks.len() as u64),
                    false => counts.hits,
                };
            }
        }
        for (key, (reads, writes)) in part {
            let cell = all.entry(key).or_default();
            *cell = (cell.0.saturating_add(reads), cell.1.saturating_add(writes));
        }
    }
    all.retain(|_, (reads, writes)| *reads + *writes > 0);
    all
}

/// Hits of both kinds less the writes. The two watchpoints are enabled one after the other, so a few hits at the edges of
/// each stretch of time are of one of them only: so few are no reads.
fn reads_of(both: u64, writes: u64, stretches: u64) -> u64 {
    let edges = (2 * stretches).max(writes / 1000);
    let left = both.saturating_sub(writes);
    if writes > 0 && left <= edges { 0 } else { left }
}

fn line(
    hits: &Hits,
    (address, bytes, pid): (u64, u32, i32),
    words: &[WordTargets],
    mut accesses: Vec<WatchedAccess>,
) -> WatchedLine {
    let points: Vec<u32> = words.iter().flat_map(|word| word.points.iter().copied()).collect();
    let in_turn = hits.lines.iter().any(|line| {
        (line.address, line.pid) == (address, Some(pid as u32))
            && line.verdict == SharingVerdict::InTurn
    });
    let (verdict, false_share) = judge(&uses(words, &accesses), in_turn);
    accesses.sort_by_key(|one| (one.word, std::cmp::Reverse(one.all()), one.site, one.thread));
    let of_line = |transfer: &Transfer| {
        let thread = hits.threads.get(transfer.to.thread as usize);
        transfer.to.address & !u64::from(bytes - 1) == address
            && thread.is_some_and(|thread| thread.pid == pid)
    };
    let transfers = hits.transfers.iter().filter(|(transfer, _)| of_line(transfer)).copied();
    WatchedLine {
        address,
        bytes,
        pid,
        verdict,
        false_share,
        is_part: !is_always(&hits.info, &points),
        words: words.iter().map(|word| word.word.clone()).collect(),
        accesses,
        transfers: (!hits.took_turns).then(|| transfers.collect()),
    }
}

/// What a thread does with a word: reads and writes per second that the word was watched.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WatchedUse {
    word: u32,
    thread: u32,
    reads: f64,
    writes: f64,
    counted: u64,
}

fn uses(words: &[WordTargets], accesses: &[WatchedAccess]) -> Vec<WatchedUse> {
    let mut uses: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for one in accesses {
        let sum = uses.entry((one.word, one.thread)).or_default();
        *sum = (sum.0.saturating_add(one.reads), sum.1.saturating_add(one.writes));
    }
    let of_word = |((word, thread), (reads, writes)): ((u32, u32), (u64, u64))| {
        let enabled = words[word as usize].word.enabled_s;
        let per_s = if enabled > 0.0 { 1.0 / enabled } else { 1.0 };
        let counted = reads.saturating_add(writes);
        let (reads, writes) = (reads as f64 * per_s, writes as f64 * per_s);
        WatchedUse { word, thread, reads, writes, counted }
    };
    uses.into_iter().map(of_word).collect()
}

/// The verdict, and the share of false sharing.
fn judge(uses: &[WatchedUse], in_turn: bool) -> (SharingVerdict, Option<f64>) {
    let counted: u64 = uses.iter().map(|one| one.counted).sum();
    if counted < LEAST {
        return (SharingVerdict::NotEnough, None);
    }
    let all: f64 = uses.iter().map(|one| one.reads + one.writes).sum();
    let of_thread = |thread: u32| -> f64 {
        let own = uses.iter().filter(|one| one.thread == thread);
        own.map(|one| one.reads + one.writes).sum()
    };
    let uses: Vec<&WatchedUse> =
        uses.iter().filter(|one| of_thread(one.thread) >= SLIGHT * all).collect();
    let is_rare = |number: f64| number < RARE * all || number <= 0.0;
    let (mut of_true, mut of_false) = (0.0, 0.0);
    for one in &uses {
        let others = || uses.iter().filter(|other| other.thread != one.thread);
        let writes = |word: bool| {
            others().any(|other| (!word || other.word == one.word) && !is_rare(other.writes))
        };
        let accesses = |word: bool| {
            others().any(|other| {
                (!word || other.word == one.word) && !is_rare(other.reads + other.writes)
            })
        };
        let mut add = |number: f64, same: bool, near: bool| match (same, near) {
            _ if is_rare(number) => {}
            (true, _) => of_true += number,
            (false, true) => of_false += number,
            (false, false) => {}
        };
        add(one.reads, writes(true), writes(false));
        add(one.writes, accesses(true), accesses(false));
    }
    let false_share = (of_true + of_false > 0.0).then(|| of_false / (of_true + of_false));
    let mut threads: Vec<u32> = uses.iter().map(|one| one.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let verdict = match false_share {
        _ if threads.len() < 2 => SharingVerdict::OneThread,
        None => SharingVerdict::ReadOnly,
        Some(_) if in_turn => SharingVerdict::InTurn,
        Some(share) => of_share(share),
    };
    (verdict, false_share.filter(|_| threads.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word, thread, reads, writes.
    fn verdict(uses: &[(u32, u32, u32, u32)]) -> (SharingVerdict, Option<f64>) {
        let one = |&(word, thread, reads, writes): &(u32, u32, u32, u32)| WatchedUse {
            word,
            thread,
            reads: reads.into(),
            writes: writes.into(),
            counted: u64::from(reads + writes),
        };
        judge(&uses.iter().map(one).collect::<Vec<_>>(), false)
    }

    #[test]
    fn a_line_is_judged_by_who_writes_what_others_access() {
        use SharingVerdict::{Both, FalseSharing, NotEnough, OneThread, ReadOnly, TrueSharing};
        let cases = [
            // Counters of each thread.
            (&[(0, 1, 0, 500), (1, 2, 0, 500)][..], (FalseSharing, Some(1.0))),
            // One counter.
            (&[(0, 1, 0, 500), (0, 2, 0, 500)], (TrueSharing, Some(0.0))),
            // A queue: one writes, one reads.
            (&[(0, 1, 0, 500), (0, 2, 500, 0)], (TrueSharing, Some(0.0))),
            // Settings that all read next to a counter that one writes.
            (&[(0, 1, 400, 0), (0, 2, 400, 0), (1, 1, 0, 200)], (FalseSharing, Some(1.0))),
            // A shared counter, and one of each thread.
            (&[(0, 1, 0, 250), (0, 2, 0, 250), (1, 1, 0, 250), (2, 2, 0, 250)], (Both, Some(0.5))),
            (&[(0, 1, 500, 0), (0, 2, 500, 0), (1, 2, 100, 0)], (ReadOnly, None)),
            (&[(0, 1, 100, 500), (1, 1, 0, 500)], (OneThread, None)),
            (&[(0, 1, 1, 5), (1, 2, 0, 5)], (NotEnough, None)),
            // The main thread set it up.
            (&[(0, 1, 1000, 0), (0, 2, 1000, 0), (0, 3, 0, 5)], (ReadOnly, None)),
            // A write in ten thousand reads is none, one in a hundred is one.
            (&[(0, 1, 100_000, 10), (0, 2, 100_000, 0)], (ReadOnly, None)),
            (&[(0, 1, 100_000, 1000), (0, 2, 100_000, 0)], (TrueSharing, Some(0.0))),
        ];
        for (uses, expected) in cases {
            assert_eq!(verdict(uses), expected, "{uses:?}");
        }
    }

    #[test]
    fn hits_at_the_edges_of_stretches_are_no_reads() {
        assert_eq!(reads_of(1010, 1000, 5), 0);
        assert_eq!(reads_of(1011, 1000, 5), 11);
        assert_eq!(reads_of(998, 1000, 5), 0);
        assert_eq!(reads_of(7, 0, 5), 7);
        assert_eq!(reads_of(100_100, 100_000, 5), 0);
    }
}
