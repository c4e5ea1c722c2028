//! Mappings and tasks of a flight recorder: in rings apart from the samples, which are drained into memory
//! all the time, so that a process has a name however long ago it began.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmuscope_counters::{Ring, SamplingSet};
use rustix::event::{PollFd, PollFlags, poll};

use crate::wake::Wake;

/// Bytes that are kept at most: half a million records. Beyond it the oldest go.
const MOST: usize = 64 << 20;
/// Drains are collected in pieces of so many bytes.
const PIECE: usize = 256 << 10;

/// What was told of mappings and tasks.
pub(super) struct Sideband(Mutex<SidebandState>);

struct SidebandState {
    rings: Vec<Ring>,
    kept: Kept,
}

/// The newest records.
#[derive(Debug, Default)]
struct Kept {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: bool,
}

impl Sideband {
    pub(super) fn new(rings: Vec<Ring>) -> Self {
        Self(Mutex::new(SidebandState { rings, kept: Kept::default() }))
    }

    /// Drains whenever a ring is a quarter full, until `stop` rings.
    pub(super) fn keep_up(&self, set: &SamplingSet, stop: &Wake) {
        let mut owners = self.owners(set);
        loop {
            let mut watched: Vec<PollFd<'_>> =
                owners.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            watched.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
            // Interrupted: what waits is drained, and the next round waits again.
            let _ = poll(&mut watched, None);
            let ready: Vec<PollFlags> = watched.iter().map(PollFd::revents).collect();
            self.drain();
            if ready.last().is_some_and(|flags| !flags.is_empty()) {
                return;
            }
            // A ring whose tasks are all gone would wake us for ever.
            let over = |flags: &PollFlags| flags.intersects(PollFlags::HUP | PollFlags::ERR);
            let mut over = ready.iter().map(over);
            owners.retain(|_| !over.next().unwrap_or(false));
        }
    }

    /// A descriptor of each ring.
    fn owners<'a>(&self, set: &'a SamplingSet) -> Vec<BorrowedFd<'a>> {
        let is_ours = |event: &usize| {
            let flags = set.requests()[*event].attr.flags;
            !flags.contains(pmuscope_abi::AttrFlags::WRITE_BACKWARD)
        };
        let mut seen = rustc_hash::FxHashSet::default();
        let ours = set.events().iter().filter(|opened| is_ours(&opened.event));
        ours.filter(|opened| seen.insert(opened.ring)).map(|opened| opened.fd()).collect()
    }

    /// Moves what waits in the rings to memory.
    fn drain(&self) {
        let mut state = self.state();
        let SidebandState { rings, kept } = &mut *state;
        for ring in rings {
            let end = {
                let pending = ring.pending();
                kept.push(pending.first, pending.second);
                pending.end()
            };
            ring.release(end);
        }
    }

    /// All that is kept, up to now, and whether older records were dropped.
    pub(super) fn all(&self) -> (Vec<Vec<u8>>, bool) {
        self.drain();
        let state = self.state();
        (state.kept.pieces.iter().cloned().collect(), state.kept.dropped)
    }

    fn state(&self) -> MutexGuard<'_, SidebandState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Adds whole records, which may lie in two pieces.
    fn push(&mut self, first: &[u8], second: &[u8]) {
        let bytes = first.len() + second.len();
        if bytes == 0 {
            return;
        }
        match self.pieces.back_mut().filter(|piece| piece.len() + bytes <= PIECE) {
            Some(piece) => piece.extend([first, second].concat()),
            None => self.pieces.push_back([first, second].concat()),
        }
        self.bytes += bytes;
        while self.bytes > MOST {
            let oldest = self.pieces.pop_front().map_or(0, |piece| piece.len());
            self.bytes -= oldest;
            self.dropped = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_whole() {
        let mut kept = Kept::default();
        kept.push(&[], &[]);
        kept.push(&[1; 8], &[2; 8]);
        kept.push(&[3; 8], &[]);
        assert_eq!((kept.pieces.len(), kept.bytes, kept.dropped), (1, 24, false));
        let piece = vec![9; PIECE];
        for _ in 0..MOST / PIECE {
            kept.push(&piece, &[]);
        }
        assert!(kept.dropped && kept.bytes == MOST);
        assert!(kept.pieces.iter().all(|piece| piece.len() == PIECE));
    }
}
