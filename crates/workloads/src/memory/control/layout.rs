//! Where everything stands in a control file, version 1.
//!
//! The file is 64-bit words in the machine's byte order. Offsets and lengths in the header are in words.
//!
//! | words | what |
//! |---|---|
//! | 0 to 63 | header, see the constants below |
//! | from `AREAS` | a record of [`AREA_WORDS`] words for each area of each process |
//! | from `THREADS` | a record of [`THREAD_WORDS`] words for each thread, process after process |
//! | from `TIMES` | a histogram of [`TIMES_WORDS`] words for each thread, with `--latency`, see [`super::times`] |
//! | from `TEXT` | what is run, as JSON: `TEXT_BYTES` bytes |
//!
//! What has a number that may be none, has one more than it, and 0 for none.

/// `PMUSMEM1`, as bytes in a little-endian word. It is written last: where it stands, all else does.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PMUSMEM1");
/// Version of the layout.
pub(crate) const VERSION: u64 = 1;

/// Words of the header.
pub(crate) const HEADER_WORDS: usize = 64;
/// Words of an area's record.
pub(crate) const AREA_WORDS: usize = 8;
/// Words of a thread's record: no two of them share a cache line, nor a pair of lines.
pub(crate) const THREAD_WORDS: usize = 32;
/// Words of a thread's histogram.
pub(crate) const TIMES_WORDS: usize = super::times::BUCKETS;

/// Words of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Head {
    /// [`MAGIC`].
    Magic,
    /// [`VERSION`].
    Version,
    /// See [`super::State`].
    State,
    /// Where records of areas begin.
    Areas,
    /// How many there are.
    AreaCount,
    /// Where records of threads begin.
    Threads,
    /// How many there are.
    ThreadCount,
    /// Where histograms begin; 0: there are none.
    Times,
    /// Where the text begins.
    Text,
    /// Its length.
    TextBytes,
    /// Processes.
    Processes,
    /// Process that started them.
    Parent,
    /// Descriptor of the memory that all share, in that process, plus one.
    Global,
    /// CLOCK_MONOTONIC when all begin, nanoseconds; 0: not known yet.
    Go,
    /// Not 0: all are to end now.
    Stop,
    /// Threads that have touched their memory.
    Touched,
    /// Threads that are ready to begin.
    Ready,
    /// Threads that have ended their work.
    Ended,
    /// How often a thread was moved by `--perturb`.
    Perturbed,
}

/// Words of an area's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum AreaWord {
    /// 0: not there yet; 1 global, 2 process, 3 thread. Written last.
    Kind,
    /// Process that has it at this address.
    Pid,
    /// Number of that process.
    Process,
    /// Number of the thread within it, plus one.
    Thread,
    /// Where it begins, in that process.
    Address,
    /// Its bytes.
    Bytes,
    /// So many at the beginning are under a lock.
    Locked,
}

/// Words of a thread's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ThreadWord {
    /// Odd while the record is being written, and another number after each time.
    Sequence,
    /// See [`super::ThreadState`].
    State,
    /// Its process.
    Pid,
    /// The thread.
    Tid,
    /// Number of the process.
    Process,
    /// Number of the thread within it.
    Thread,
    /// CLOCK_MONOTONIC when it began, nanoseconds.
    Start,
    /// The same, when it ended.
    End,
    /// The same, when the record was written.
    Updated,
    /// Rounds that are whole.
    Rounds,
    /// Bytes loaded and stored.
    Bytes,
    /// Loads of a chase.
    Loads,
    /// The CPU it was on.
    Cpu,
    /// The phase, from 0.
    Phase,
    /// User time of the work, nanoseconds.
    User,
    /// System time of the work, nanoseconds.
    System,
    /// Page faults without I/O during the work.
    MinorFaults,
    /// Page faults with I/O during the work.
    MajorFaults,
    /// Bytes read at the end, with `--reduce`.
    ReduceBytes,
    /// Nanoseconds of that.
    ReduceTime,
}

/// Where the parts of a file begin, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) areas: usize,
    pub(crate) area_count: usize,
    pub(crate) threads: usize,
    pub(crate) thread_count: usize,
    /// 0: none.
    pub(crate) times: usize,
    pub(crate) text: usize,
    pub(crate) text_bytes: usize,
}

impl Layout {
    /// Room for so many.
    pub(crate) fn new(area_count: usize, thread_count: usize, times: bool, text: usize) -> Self {
        let areas = HEADER_WORDS;
        // Records of threads are cache lines of their own.
        let threads = (areas + area_count * AREA_WORDS).next_multiple_of(THREAD_WORDS);
        let end = threads + thread_count * THREAD_WORDS;
        let (times, after) = if times { (end, end + thread_count * TIMES_WORDS) } else { (0, end) };
        Self { areas, area_count, threads, thread_count, times, text: after, text_bytes: text }
    }

    /// Words of the whole file.
    pub(crate) fn words(&self) -> usize {
        self.text + self.text_bytes.div_ceil(8)
    }
}
