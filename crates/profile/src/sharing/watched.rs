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
//!
//! Where no type says what is in the line, words are parts of 4 bytes or fewer. Neighbors that the same code of the same
//! threads accesses are parts of one variable:
//!
//! ```text
//!  word         watched        code, thread      words
//!  stats        4 bytes        add, 1  add, 2    stats: 8 bytes, used by both threads
//!  stats+0x4    4 bytes        add, 1  add, 2
//!  stats+0x8    4 bytes        fail, 2           stats+0x8: 4 bytes, used by one
//!  stats+0xc    4 bytes        -
//! ```

use std::collections::BTreeMap;

use pmuscope_perfdata::watch::{Access, ArmedBlock, WatchInfo};

use super::verdict::{LEAST, SLIGHT, of_share};
use crate::hits::estimate::{armed, had_turn, is_always};
use crate::hits::{Hits, SharingVerdict, Successions, Transfer};

/// Writes (or reads) of a word by a thread count if they are at least this share of all accesses to the line.
const RARE: f64 = 0.001;
/// So much of the accesses to each of two parts comes from code and threads that access the other one, where they are one
/// variable.
const COMMON: f64 = 0.9;
/// A word that goes from one thread to another in a smaller share of its accesses is used by one at a time.
const IN_TURNS: f64 = 0.003;
/// A word without hits that was enabled for less may have been missed.
const LEAST_ENABLED_S: f64 = 0.005;
/// Equal parts of the run in each of which a word must have been enabled for a verdict that rests on absent accesses.
const PARTS_OF_RUN: u64 = 4;
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
    /// no other thread accesses); `None` where none contend, or there is a doubt.
    pub false_share: Option<f64>,
    /// The reason for [`SharingVerdict::Inconclusive`].
    pub doubt: Option<WatchDoubt>,
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

/// A reason for no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchDoubt {
    /// Threads use this word (position in [`WatchedLine::words`]), but no type says whether they use the same bytes.
    NoType(u32),
    /// This word was watched for too short a time, or not in all parts of the run, to see who accesses it.
    TooBrief(u32),
    /// This word hardly ever went from one thread to another while it was watched: goroutines that move between threads, or
    /// threads that share a CPU.
    InTurns(u32, Successions),
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
    /// The same as a share of the time of the whole watch.
    pub enabled_share: f64,
    /// Accesses per second for each counted one: the mean of the times that it was watched.
    pub per_access: f64,
    /// Neither a type nor accesses tell whether it is one variable.
    pub is_untyped: bool,
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
    /// No type tells its bounds: it may be a part of a variable, or several.
    is_part: bool,
    successions: Successions,
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
            let counted = words.into_iter().map(|word| (accesses(hits, &word), word));
            let words = joined(counted.map(|(counts, word)| (word, counts)).collect());
            for (number, (_, counts)) in words.iter().enumerate() {
                for (&(site, thread), &(reads, writes)) in counts {
                    let Some(of) = hits.threads.get(thread as usize) else { continue };
                    let access = WatchedAccess { word: number as u32, site, thread, reads, writes };
                    processes.entry(of.pid).or_default().push(access);
                }
            }
            let words: Vec<WordTargets> = words.into_iter().map(|(word, _)| word).collect();
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
                && !target.is_untyped
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
            enabled_s: 0.0,
            enabled_share: 0.0,
            per_access: 0.0,
            is_untyped: target.is_untyped && target.bytes > 1,
        };
        let parts = vec![(writes, reads, both)];
        let successions = hits.targets[reads].successions;
        let is_part = target.is_untyped;
        words.push(WordTargets { word, address, is_part, successions, points, parts });
    }
    for WordTargets { word, points, .. } in &mut words {
        word.enabled_share = armed(&hits.info, points);
        word.enabled_s = word.enabled_share * span;
        word.per_access = per_access(&hits.info, points).unwrap_or(1.0);
    }
    words
}

/// Hits per second for each counted hit of points: the mean of the rates while they were enabled, by the time that each
/// stands for. A turn that ends after some hits counts as much as one without. `None` without hits.
fn per_access(info: &WatchInfo, points: &[u32]) -> Option<f64> {
    let (mut sum, mut time, mut all) = (0.0, 0.0, 0_u64);
    let had_turn = |block: &&ArmedBlock| {
        block.points.is_empty() || points.iter().all(|point| block.points.contains(point))
    };
    for block in info.blocks.iter().filter(had_turn).filter(|block| block.armed_ns > 0) {
        let hits: u64 = points.iter().filter_map(|&at| block.hits.get(at as usize)).sum();
        let span = block.until_ns.saturating_sub(block.from_ns) as f64;
        sum += hits as f64 / block.armed_ns as f64 * span;
        time += span;
        all += hits;
    }
    (all > 0 && time > 0.0).then(|| sum / time * 1e9 / all as f64)
}

/// AccessCounts by code and thread.
type AccessCounts = BTreeMap<(u32, u32), (u64, u64)>;

/// Joins neighboring parts of a variable without a type, two of one size at a time.
fn joined(mut words: Vec<(WordTargets, AccessCounts)>) -> Vec<(WordTargets, AccessCounts)> {
    for size in [1, 2, 4] {
        let mut kept: Vec<(WordTargets, AccessCounts)> = Vec::with_capacity(words.len());
        for (word, counts) in words {
            let goes_on = |before: &&mut (WordTargets, AccessCounts)| {
                let (first, second) = (&before.0, &word);
                let is_half = |one: &WordTargets| one.is_part && one.word.bytes == size;
                is_half(first)
                    && is_half(second)
                    && first.address.is_multiple_of(u64::from(2 * size))
                    && first.address + u64::from(size) == second.address
                    && are_common(&before.1, &counts)
            };
            match kept.last_mut().filter(goes_on) {
                Some(before) => join(before, word, counts),
                None => kept.push((word, counts)),
            }
        }
        words = kept;
    }
    words
}

/// An access to all of a variable hits both parts: those of the part that was enabled longer count.
fn join(before: &mut (WordTargets, AccessCounts), word: WordTargets, counts: AccessCounts) {
    let bytes = before.0.word.bytes + word.word.bytes;
    let is_accessed = !counts.is_empty();
    before.0.points.extend(word.points);
    before.0.parts.extend(word.parts);
    if word.word.enabled_s > before.0.word.enabled_s {
        let WatchedWord { name, offset, .. } = before.0.word.clone();
        before.0.word = WatchedWord { name, offset, ..word.word };
        before.1 = counts;
    }
    before.0.word.bytes = bytes;
    before.0.word.is_untyped = !is_accessed;
}

/// Whether two parts are accessed by the same code and threads.
fn are_common(one: &AccessCounts, other: &AccessCounts) -> bool {
    let all = |counts: &AccessCounts, of: &dyn Fn(&(u32, u32)) -> bool| -> f64 {
        let own = counts.iter().filter(|(key, _)| of(key));
        own.map(|(_, (reads, writes))| reads.saturating_add(*writes) as f64).sum()
    };
    let is_covered = |counts: &AccessCounts, by: &AccessCounts| {
        all(counts, &|key| by.contains_key(key)) >= COMMON * all(counts, &|_| true)
    };
    is_covered(one, other) && is_covered(other, one) && one.is_empty() == other.is_empty()
}

/// Reads and writes of a word by place and thread.
fn accesses(hits: &Hits, word: &WordTargets) -> AccessCounts {
    let mut all = AccessCounts::new();
    let had_turn = |block: &&ArmedBlock| {
        block.points.is_empty() || word.points.iter().all(|point| block.points.contains(point))
    };
    let stretches = hits.info.blocks.iter().filter(had_turn).count() as u64;
    for &(writes, reads, both) in &word.parts {
        let mut part = AccessCounts::new();
        for row in &hits.targets[writes].matrix.rows {
            for (thread, counts) in &row.cells {
                part.entry((row.site, *thread)).or_default().1 += counts.hits;
            }
        }
        for row in &hits.targets[reads].matrix.rows {
            for (thread, counts) in &row.cells {
                let cell = part.entry((row.site, *thread)).or_default();
                cell.0 += match both {
                    true => reads_of(counts.hits, cell.1, stretches),
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
    let uses = uses(words, &accesses);
    let (verdict, false_share) = judge(&uses, in_turn);
    let doubt = doubt(&hits.info, words, &uses, (verdict, in_turn));
    let is_together = is_together(hits, words, &uses);
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
        verdict: doubt.map_or(verdict, |_| SharingVerdict::Inconclusive),
        false_share: false_share.filter(|_| doubt.is_none()),
        doubt,
        is_part: !is_always(&hits.info, &points),
        words: words.iter().map(|word| word.word.clone()).collect(),
        accesses,
        transfers: is_together.then(|| transfers.collect()),
    }
}

/// Whether all words with more than a few accesses were watched at the same time.
fn is_together(hits: &Hits, words: &[WordTargets], uses: &[WatchedUse]) -> bool {
    let all: f64 = uses.iter().map(WatchedUse::all).sum();
    let is_used = |number: u32| {
        let own = uses.iter().filter(|one| one.word == number);
        own.map(WatchedUse::all).sum::<f64>() >= SLIGHT * all
    };
    let used = words.iter().zip(0_u32..).filter(|(_, number)| is_used(*number));
    let points: Vec<u32> = used.flat_map(|(word, _)| word.points.iter().copied()).collect();
    !hits.took_turns || armed(&hits.info, &points) > 0.0
}

/// The reason for which another verdict is possible. Of a word without a type each thread may have bytes of its own.
fn doubt(
    info: &WatchInfo,
    words: &[WordTargets],
    uses: &[WatchedUse],
    (verdict, in_turn): (SharingVerdict, bool),
) -> Option<WatchDoubt> {
    if verdict == SharingVerdict::NotEnough {
        return None;
    }
    let counted = |number: u32| -> u64 {
        uses.iter().filter(|one| one.word == number).map(|one| one.counted).sum()
    };
    let is_of_absence = matches!(verdict, SharingVerdict::OneThread | SharingVerdict::ReadOnly);
    let is_brief = |word: &WordTargets, number: u32| {
        let is_missed = word.word.enabled_s < LEAST_ENABLED_S && counted(number) < LEAST;
        (is_missed || is_of_absence && !is_in_all_parts(info, &word.points))
            && !is_always(info, &word.points)
    };
    if let Some((_, number)) =
        words.iter().zip(0_u32..).find(|(word, number)| is_brief(word, *number))
    {
        return Some(WatchDoubt::TooBrief(number));
    }
    let in_turns = |one: &&WatchedUse| {
        let Successions { of, changes } = words[one.word as usize].successions;
        let is_other = |other: &WatchedUse| other.word == one.word && other.thread != one.thread;
        uses.iter().any(is_other) && of >= LEAST && changes as f64 <= IN_TURNS * of as f64
    };
    let of_word = uses.iter().map(|one| WatchedUse {
        thread: if in_turns(&one) { u32::MAX - one.word } else { one.thread },
        ..*one
    });
    if judge(&of_word.collect::<Vec<_>>(), in_turn).0 != verdict {
        let most = uses.iter().filter(in_turns).max_by_key(|one| counted(one.word));
        let doubt =
            |one: &WatchedUse| WatchDoubt::InTurns(one.word, words[one.word as usize].successions);
        return most.map(doubt);
    }
    let is_untyped = |one: &&WatchedUse| words[one.word as usize].word.is_untyped;
    let other = uses.iter().zip(words.len() as u32..).map(|(one, own)| WatchedUse {
        word: if is_untyped(&one) { own } else { one.word },
        ..*one
    });
    let (other, _) = judge(&other.collect::<Vec<_>>(), in_turn);
    let most = uses.iter().filter(is_untyped).max_by_key(|one| counted(one.word));
    most.filter(|_| other != verdict).map(|one| WatchDoubt::NoType(one.word))
}

/// Whether points were enabled together in each part of the run, so that phases were seen.
fn is_in_all_parts(info: &WatchInfo, points: &[u32]) -> bool {
    let Some((first, last)) = info.span() else { return true };
    let end_of = |part: u64| first.saturating_add(last.saturating_sub(first) / PARTS_OF_RUN * part);
    (0..PARTS_OF_RUN).all(|part| {
        let is_in_part = |block: &ArmedBlock| {
            // A pause belongs to the slice before it.
            let until = block.from_ns.saturating_add(block.armed_ns);
            block.armed_ns > 0 && block.from_ns < end_of(part + 1) && until > end_of(part)
        };
        let had_turn = |block: &ArmedBlock| points.iter().all(|&point| had_turn(block, point));
        info.blocks.iter().any(|block| is_in_part(block) && had_turn(block))
    })
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

impl WatchedUse {
    fn all(&self) -> f64 {
        self.reads + self.writes
    }
}

fn uses(words: &[WordTargets], accesses: &[WatchedAccess]) -> Vec<WatchedUse> {
    let mut uses: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for one in accesses {
        let sum = uses.entry((one.word, one.thread)).or_default();
        *sum = (sum.0.saturating_add(one.reads), sum.1.saturating_add(one.writes));
    }
    let of_word = |((word, thread), (reads, writes)): ((u32, u32), (u64, u64))| {
        let per_s = words[word as usize].word.per_access;
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
    let all: f64 = uses.iter().map(WatchedUse::all).sum();
    let of_thread = |thread: u32| -> f64 {
        let own = uses.iter().filter(|one| one.thread == thread);
        own.map(WatchedUse::all).sum()
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
            others().any(|other| (!word || other.word == one.word) && !is_rare(other.all()))
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

    /// A part of a variable of no known type.
    fn part(address: u64, bytes: u32) -> WordTargets {
        let word = WatchedWord {
            name: format!("{address:#x}").into(),
            offset: (address % 64) as u32,
            bytes,
            enabled_s: 1.0,
            enabled_share: 1.0,
            per_access: 1.0,
            is_untyped: bytes > 1,
        };
        let successions = Successions::default();
        WordTargets {
            word,
            address,
            is_part: true,
            successions,
            points: vec![0],
            parts: Vec::new(),
        }
    }

    /// Code, thread, writes.
    fn writes(counts: &[(u32, u32, u64)]) -> AccessCounts {
        counts.iter().map(|&(site, thread, writes)| ((site, thread), (0, writes))).collect()
    }

    #[test]
    fn parts_with_common_code_and_threads_are_one_variable() {
        let parts = [
            // 8 bytes of two threads.
            (part(0x40, 4), writes(&[(1, 1, 100), (1, 2, 90)])),
            (part(0x44, 4), writes(&[(1, 1, 95), (1, 2, 95)])),
            // A variable of each thread, by the same code.
            (part(0x48, 4), writes(&[(2, 1, 100)])),
            (part(0x4c, 4), writes(&[(2, 2, 100)])),
            // 2 bytes and 2 bytes of them without accesses.
            (part(0x50, 2), writes(&[(3, 1, 10)])),
            (part(0x52, 2), writes(&[])),
            // Nothing there.
            (part(0x58, 4), writes(&[])),
            (part(0x5c, 4), writes(&[])),
            // A single byte by other code makes no other variable.
            (part(0x60, 1), writes(&[(4, 1, 100), (5, 3, 2)])),
            (part(0x61, 1), writes(&[(4, 1, 100)])),
        ];
        let joined = joined(parts.to_vec());
        let words: Vec<_> = joined
            .iter()
            .map(|(one, _)| (one.address, one.word.bytes, one.word.is_untyped))
            .collect();
        let expected = [
            (0x40, 8, false),
            (0x48, 4, true),
            (0x4c, 4, true),
            (0x50, 2, true),
            (0x52, 2, true),
            (0x58, 8, true),
            (0x60, 2, false),
        ];
        assert_eq!(words, expected);
        assert_eq!(joined[0].1, writes(&[(1, 1, 100), (1, 2, 90)]), "an access hits both parts");
    }

    #[test]
    fn without_a_type_a_word_of_several_threads_leaves_a_doubt() {
        let used = |uses: &[(u32, u32)]| -> Vec<WatchedUse> {
            let one = |&(word, thread): &(u32, u32)| WatchedUse {
                word,
                thread,
                reads: 0.0,
                writes: 100.0,
                counted: 100,
            };
            uses.iter().map(one).collect()
        };
        let found = |words: &[WordTargets], uses: &[(u32, u32)]| {
            let uses = used(uses);
            let (verdict, _) = judge(&uses, false);
            doubt(&WatchInfo::default(), words, &uses, (verdict, false))
        };
        let words = [part(0x40, 4), part(0x44, 4), part(0x48, 1)];
        assert_eq!(found(&words, &[(0, 1), (0, 2)]), Some(WatchDoubt::NoType(0)));
        // Words of one thread each.
        assert_eq!(found(&words, &[(0, 1), (1, 2)]), None);
        // One byte is one variable.
        assert_eq!(found(&words, &[(2, 1), (2, 2)]), None);
        // True and false sharing, or false sharing alone.
        assert_eq!(found(&words, &[(0, 1), (0, 2), (1, 1)]), Some(WatchDoubt::NoType(0)));
        assert_eq!(found(&words, &[(0, 1), (1, 1)]), None);
    }

    /// A goroutine that moves to another thread is not two threads that use a word.
    #[test]
    fn a_word_that_hardly_changes_threads_leaves_a_doubt() {
        let one = |word: u32, thread: u32| WatchedUse {
            word,
            thread,
            reads: 0.0,
            writes: 500.0,
            counted: 500,
        };
        let found = |changes: u64, uses: &[WatchedUse]| {
            let successions = Successions { of: 1000, changes };
            let word = |address| WordTargets { successions, ..part(address, 1) };
            let words = [word(0x40), word(0x48)];
            let (verdict, _) = judge(uses, false);
            doubt(&WatchInfo::default(), &words, uses, (verdict, false))
        };
        let moved = [one(0, 1), one(0, 2), one(1, 1), one(1, 2)];
        let successions = Successions { of: 1000, changes: 2 };
        assert!(
            matches!(found(2, &moved), Some(WatchDoubt::InTurns(_, seen)) if seen == successions)
        );
        assert_eq!(found(100, &moved), None, "true sharing");
        assert_eq!(found(2, &[one(0, 1), one(1, 2)]), None, "false sharing");
        assert_eq!(found(0, &[one(0, 1), one(1, 1)]), None, "one thread");
    }

    #[test]
    fn a_word_that_was_hardly_watched_leaves_a_doubt() {
        let (mut hidden, busy) = (part(0x40, 1), part(0x44, 1));
        (hidden.word.enabled_s, hidden.points) = (0.001, vec![1]);
        // Enabled for a thousandth of a second of one.
        let block = |points: Vec<u32>, from_ns: u64, until_ns: u64| ArmedBlock {
            from_ns,
            until_ns,
            armed_ns: until_ns - from_ns,
            hits: vec![1000, 0],
            points,
            ..ArmedBlock::default()
        };
        let blocks =
            vec![block(vec![0], 0, 999_000_000), block(vec![1], 999_000_000, 1_000_000_000)];
        let info = WatchInfo { blocks, ..WatchInfo::default() };
        let uses = [WatchedUse { word: 1, thread: 1, reads: 0.0, writes: 9.0, counted: 1000 }];
        let one_thread = (SharingVerdict::OneThread, false);
        let words = [hidden.clone(), busy];
        assert_eq!(doubt(&info, &words, &uses, one_thread), Some(WatchDoubt::TooBrief(0)));
        // For long enough, but at the end only.
        hidden.word.enabled_s = 0.1;
        let words = [hidden, words[1].clone()];
        assert_eq!(doubt(&info, &words, &uses, one_thread), Some(WatchDoubt::TooBrief(0)));
        // That another thread uses the line is known, whenever it was seen.
        let true_sharing = (SharingVerdict::TrueSharing, false);
        let both = [uses[0], WatchedUse { thread: 2, ..uses[0] }];
        assert_eq!(doubt(&info, &words, &both, true_sharing), None);
        // In each quarter, in turn.
        let turns = (0..8_u64)
            .map(|turn| block(vec![turn as u32 % 2], turn * 125_000_000, (turn + 1) * 125_000_000));
        let info = WatchInfo { blocks: turns.collect(), ..WatchInfo::default() };
        assert_eq!(doubt(&info, &words, &uses, one_thread), None);
    }

    /// A turn ends after 100 hits, a turn without hits after 20 ms: both tell of as much time.
    #[test]
    fn a_rate_is_the_mean_of_the_turns() {
        let block = |armed_ns: u64, hits: u64, from_ns: u64| ArmedBlock {
            from_ns,
            until_ns: from_ns + 20_000_000,
            armed_ns,
            hits: vec![hits],
            points: vec![0],
            ..ArmedBlock::default()
        };
        let blocks = vec![block(1_000_000, 100, 0), block(20_000_000, 0, 20_000_000)];
        let info = WatchInfo { blocks, ..WatchInfo::default() };
        assert_eq!(per_access(&info, &[0]), Some(500.0), "50,000 hits a second, of 100 hits");
        assert_eq!(per_access(&info, &[1]), None);
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
