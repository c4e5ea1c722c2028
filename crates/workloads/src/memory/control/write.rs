//! The control file as the workload writes it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use pmuscope_machine::child::Usage;

use super::layout::{
    AREA_WORDS, AreaWord, HEADER_WORDS, Head, Layout, MAGIC, THREAD_WORDS, TIMES_WORDS, ThreadWord,
    VERSION,
};
use super::{AreaKind, Control, ControlError, State, ThreadState, times};
use crate::memory::options::Options;
use crate::shared::Shared;

/// A mapped control file.
#[derive(Debug)]
pub(crate) struct Board {
    shared: Shared,
    layout: Layout,
    file: File,
}

/// An area, as its process knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AreaRecord {
    pub(crate) kind: AreaKind,
    pub(crate) thread: Option<usize>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) locked: u64,
}

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTally {
    pub(crate) now_ns: u64,
    pub(crate) rounds: u64,
    pub(crate) bytes: u64,
    pub(crate) loads: u64,
    pub(crate) cpu: u32,
    pub(crate) phase: u64,
}

/// What is only known at a thread's end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) end_ns: u64,
    /// Of the work alone.
    pub(crate) used: Usage,
    pub(crate) reduce_bytes: u64,
    pub(crate) reduce_ns: u64,
}

/// Areas of one process: what all share, its own, and one for each thread.
pub(crate) fn areas_of_process(options: &Options) -> usize {
    let sizes = &options.sizes;
    let threads = if sizes.thread > 0 { options.threads } else { 0 };
    usize::from(sizes.global > 0) + usize::from(sizes.process > 0) + threads
}

impl Board {
    /// Makes a control file of an empty one. `global`: the descriptor of what all processes share.
    pub(crate) fn create(
        file: &File,
        options: &Options,
        global: Option<u32>,
    ) -> Result<Self, ControlError> {
        let text = serde_json::to_vec(options).map_err(io::Error::other)?;
        let areas = options.processes * areas_of_process(options);
        let layout = Layout::new(areas, options.tasks(), options.latency, text.len());
        file.set_len(layout.words() as u64 * 8)?;
        let shared = Shared::map(file, layout.words())?;
        let board = Self { shared, layout, file: file.try_clone()? };
        let text_words = text.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        for (at, word) in (layout.text..).zip(text_words) {
            board.words()[at].store(word, Ordering::Relaxed);
        }
        let set = |field: Head, value: u64| board.head(field).store(value, Ordering::Relaxed);
        set(Head::Version, VERSION);
        set(Head::Areas, layout.areas as u64);
        set(Head::AreaCount, layout.area_count as u64);
        set(Head::Threads, layout.threads as u64);
        set(Head::ThreadCount, layout.thread_count as u64);
        set(Head::Times, layout.times as u64);
        set(Head::Text, layout.text as u64);
        set(Head::TextBytes, layout.text_bytes as u64);
        set(Head::Processes, options.processes as u64);
        set(Head::Parent, std::process::id().into());
        set(Head::Global, global.map_or(0, |descriptor| u64::from(descriptor) + 1));
        board.head(Head::Magic).store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Maps one that another process made.
    pub(crate) fn attach(file: &File) -> Result<Self, ControlError> {
        let layout = Control::of(file.try_clone()?)?.layout;
        let shared = Shared::map(file, layout.words())?;
        Ok(Self { shared, layout, file: file.try_clone()? })
    }

    /// What is run.
    pub(crate) fn options(&self) -> Result<Options, ControlError> {
        self.reader()?.options()
    }

    /// The same file, for reading.
    pub(crate) fn reader(&self) -> Result<Control, ControlError> {
        Control::of(self.file.try_clone()?)
    }

    fn words(&self) -> &[AtomicU64] {
        self.shared.words()
    }

    fn head(&self, field: Head) -> &AtomicU64 {
        const { assert!((Head::Perturbed as usize) < HEADER_WORDS) };
        &self.words()[field as usize]
    }

    /// The process that made it, and its descriptor of what all share.
    pub(crate) fn parent(&self) -> (u32, Option<u32>) {
        let word = |field| self.head(field).load(Ordering::Relaxed);
        (word(Head::Parent) as u32, super::less_one(word(Head::Global)).map(|fd| fd as u32))
    }

    /// Says how far all are.
    pub(crate) fn set_state(&self, state: State) {
        let word = match state {
            State::Preparing => 0,
            State::Running => 1,
            State::Ended => 2,
            State::Failed => 3,
        };
        self.head(Head::State).store(word, Ordering::Release);
    }

    /// Tells all when to begin.
    pub(crate) fn go(&self, at_ns: u64) {
        self.head(Head::Go).store(at_ns, Ordering::Release);
    }

    /// When to begin, once that is known.
    pub(crate) fn when_to_go(&self) -> Option<u64> {
        Some(self.head(Head::Go).load(Ordering::Acquire)).filter(|&go| go > 0)
    }

    /// Tells all to end now.
    pub(crate) fn stop(&self) {
        self.head(Head::Stop).store(1, Ordering::Release);
    }

    /// Whether all are to end now.
    pub(crate) fn is_stopped(&self) -> bool {
        self.head(Head::Stop).load(Ordering::Acquire) != 0
    }

    /// One more thread has touched its memory.
    pub(crate) fn touched(&self) {
        self.head(Head::Touched).fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all threads have touched their memory.
    pub(crate) fn all_touched(&self) -> bool {
        self.head(Head::Touched).load(Ordering::Acquire) >= self.layout.thread_count as u64
    }

    /// One more thread is ready.
    pub(crate) fn ready(&self) {
        self.head(Head::Ready).fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all threads are ready.
    pub(crate) fn all_ready(&self) -> bool {
        self.head(Head::Ready).load(Ordering::Acquire) >= self.layout.thread_count as u64
    }

    /// A thread was moved.
    pub(crate) fn perturbed(&self) {
        self.head(Head::Perturbed).fetch_add(1, Ordering::Relaxed);
    }

    /// Says where the area with this number, of all processes, is.
    pub(crate) fn area(&self, index: usize, (pid, process): (u32, usize), area: &AreaRecord) {
        let at = self.layout.areas + index * AREA_WORDS;
        let set = |field: AreaWord, value: u64| {
            self.words()[at + field as usize].store(value, Ordering::Relaxed);
        };
        set(AreaWord::Pid, pid.into());
        set(AreaWord::Process, process as u64);
        set(AreaWord::Thread, area.thread.map_or(0, |thread| thread as u64 + 1));
        set(AreaWord::Address, area.address);
        set(AreaWord::Bytes, area.bytes);
        set(AreaWord::Locked, area.locked);
        let kind = match area.kind {
            AreaKind::Global => 1,
            AreaKind::Process => 2,
            AreaKind::Thread => 3,
        };
        self.words()[at + AreaWord::Kind as usize].store(kind, Ordering::Release);
    }

    /// Changes the record of a task, so that readers see all of it or nothing.
    fn change(&self, task: usize, set: impl Fn(&dyn Fn(ThreadWord, u64))) {
        let at = self.layout.threads + task * THREAD_WORDS;
        let record = &self.words()[at..at + THREAD_WORDS];
        let sequence = &record[ThreadWord::Sequence as usize];
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        set(&|field, value| record[field as usize].store(value, Ordering::Relaxed));
        sequence.store((before | 1) + 1, Ordering::Release);
    }

    /// A thread is there.
    pub(crate) fn begin(
        &self,
        task: usize,
        (pid, tid): (u32, u32),
        (process, thread): (usize, usize),
    ) {
        self.change(task, |set| {
            set(ThreadWord::State, state(ThreadState::Preparing));
            set(ThreadWord::Pid, pid.into());
            set(ThreadWord::Tid, tid.into());
            set(ThreadWord::Process, process as u64);
            set(ThreadWord::Thread, thread as u64);
        });
    }

    /// A thread begins to work.
    pub(crate) fn start(&self, task: usize, start_ns: u64) {
        self.change(task, |set| {
            set(ThreadWord::State, state(ThreadState::Running));
            set(ThreadWord::Start, start_ns);
            set(ThreadWord::Updated, start_ns);
        });
    }

    /// What a thread has done so far.
    #[inline]
    pub(crate) fn progress(&self, task: usize, is: ThreadState, tally: &ThreadTally) {
        self.change(task, |set| {
            set(ThreadWord::State, state(is));
            set(ThreadWord::Updated, tally.now_ns);
            set(ThreadWord::Rounds, tally.rounds);
            set(ThreadWord::Bytes, tally.bytes);
            set(ThreadWord::Loads, tally.loads);
            set(ThreadWord::Cpu, u64::from(tally.cpu) + 1);
            set(ThreadWord::Phase, tally.phase);
        });
    }

    /// A thread has ended its work.
    pub(crate) fn end(&self, task: usize, totals: &Totals) {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        self.change(task, |set| {
            set(ThreadWord::State, state(ThreadState::Ended));
            set(ThreadWord::End, totals.end_ns);
            set(ThreadWord::User, ns(totals.used.user_s));
            set(ThreadWord::System, ns(totals.used.system_s));
            set(ThreadWord::MinorFaults, totals.used.minor_faults);
            set(ThreadWord::MajorFaults, totals.used.major_faults);
            set(ThreadWord::ReduceBytes, totals.reduce_bytes);
            set(ThreadWord::ReduceTime, totals.reduce_ns);
        });
        self.head(Head::Ended).fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a time of a task, nanoseconds; only where there is room for times.
    #[inline]
    pub(crate) fn count_time(&self, task: usize, ns: u64) {
        if self.layout.times > 0 {
            let at = self.layout.times + task * TIMES_WORDS + times::bucket(ns);
            let count = &self.words()[at];
            // Nobody else writes it.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

fn state(is: ThreadState) -> u64 {
    match is {
        ThreadState::Absent => 0,
        ThreadState::Preparing => 1,
        ThreadState::Running => 2,
        ThreadState::Ended => 3,
    }
}
