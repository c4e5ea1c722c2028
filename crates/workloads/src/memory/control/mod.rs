//! The control file: by it processes of the workload meet, and whoever watches them reads, while they run, where
//! their memory is and how far each thread has come. Reading takes no more than `pread(2)`, and no time of the
//! workload.
//!
//! A thread writes its record after each piece of memory, 64 KiB to 1 MiB: some ten times in a millisecond, and
//! never within the innermost loop. [`layout`] has the words.

mod layout;
pub(super) mod times;
mod write;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use layout::{
    AREA_WORDS, AreaWord, HEADER_WORDS, Head, Layout, MAGIC, THREAD_WORDS, TIMES_WORDS, ThreadWord,
};

use super::options::Options;

pub(super) use write::{AreaRecord, Board, ThreadTally, Totals, areas_of_process};

/// Longest file: records of all tasks that there can be, with histograms.
const MOST_WORDS: usize = 1 << 25;
/// How often a record is read again that is being written. It takes less than a microsecond, unless its thread
/// lost its CPU meanwhile.
const TRIES: usize = 100;

/// Why a control file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// What the kernel says.
    #[error("cannot read the control file: {0}")]
    Io(#[from] io::Error),
    /// It is there, but its workload has not written it yet: try again.
    #[error("cannot read the control file: the workload has not started yet")]
    NotYet,
    /// Something else, or of another version.
    #[error("cannot read the control file: {0}")]
    Malformed(String),
}

/// How far the workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Processes start and touch their memory.
    Preparing,
    /// All threads began at [`Control::began_ns`], or will within milliseconds.
    Running,
    /// All have ended.
    Ended,
    /// A process ended before its work was done.
    Failed,
}

/// What an area is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AreaKind {
    /// Shared by all processes.
    Global,
    /// Shared by the threads of a process.
    Process,
    /// Of one thread.
    Thread,
}

/// Memory of the workload, as one process has it; what is shared by all is there once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// What it is.
    pub kind: AreaKind,
    /// The process that has it at this address.
    pub pid: u32,
    /// Number of that process, from 0.
    pub process: usize,
    /// Number of the thread within it that it belongs to.
    pub thread: Option<usize>,
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// So many at its beginning are only touched under a lock.
    pub locked: u64,
}

/// How far a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadState {
    /// Not started.
    #[default]
    Absent,
    /// Touches its memory, or waits for the others.
    Preparing,
    /// Works.
    Running,
    /// Has ended its work.
    Ended,
}

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thread {
    /// How far it is.
    pub state: ThreadState,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Number of the process, from 0.
    pub process: usize,
    /// Number of the thread within it, from 0.
    pub index: usize,
    /// CLOCK_MONOTONIC when it began, nanoseconds; `None`: not yet.
    pub start_ns: Option<u64>,
    /// The same, when it ended.
    pub end_ns: Option<u64>,
    /// The same, when it wrote this. Bytes and loads are those up to then.
    pub updated_ns: u64,
    /// Rounds that are whole: in one it goes through all memory that it uses.
    pub rounds: u64,
    /// Bytes loaded and stored.
    pub bytes: u64,
    /// Loads of a chase.
    pub loads: u64,
    /// The CPU it was on when it wrote this.
    pub cpu: Option<u32>,
    /// The phase, from 0.
    pub phase: u64,
    /// User time of the work, nanoseconds; known once it has ended.
    pub user_ns: u64,
    /// System time of the work, nanoseconds; known once it has ended.
    pub system_ns: u64,
    /// Page faults without I/O during the work; known once it has ended.
    pub minor_faults: u64,
    /// Page faults with I/O during the work; known once it has ended.
    pub major_faults: u64,
    /// Bytes read at the end by the first thread of a process.
    pub reduce_bytes: u64,
    /// Nanoseconds that took.
    pub reduce_ns: u64,
}

/// A control file, for reading while the workload runs.
#[derive(Debug)]
pub struct Control {
    file: File,
    layout: Layout,
}

fn word(file: &File, at: usize) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at as u64 * 8)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn words(file: &File, at: usize, count: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    file.read_exact_at(&mut bytes, at as u64 * 8)?;
    let word = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_ne_bytes);
    Ok(bytes.chunks_exact(8).map(word).collect())
}

/// A number that is stored with one more.
fn less_one(word: u64) -> Option<u64> {
    word.checked_sub(1)
}

impl Control {
    /// Opens a control file.
    ///
    /// # Errors
    /// [`ControlError::NotYet`] until the workload has written it; if it is not there or no control file.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        Self::of(File::open(path)?)
    }

    /// Reads from a file that is open.
    pub(super) fn of(file: File) -> Result<Self, ControlError> {
        let length = (file.metadata()?.len() / 8) as usize;
        if length < HEADER_WORDS || word(&file, Head::Magic as usize)? == 0 {
            return Err(ControlError::NotYet);
        }
        let head = words(&file, 0, HEADER_WORDS)?;
        let at = |field: Head| head[field as usize];
        if at(Head::Magic) != MAGIC {
            let what = "it is not from pmuscope workload memory".to_owned();
            return Err(ControlError::Malformed(what));
        }
        if at(Head::Version) != layout::VERSION {
            let what = format!(
                "it has version {}, but this program reads {}",
                at(Head::Version),
                layout::VERSION
            );
            return Err(ControlError::Malformed(what));
        }
        let (areas, threads) = (at(Head::AreaCount) as usize, at(Head::ThreadCount) as usize);
        let text = at(Head::TextBytes) as usize;
        let is_sane = [areas, threads, text].iter().all(|&count| count < MOST_WORDS);
        let layout = is_sane.then(|| Layout::new(areas, threads, at(Head::Times) != 0, text));
        layout.filter(|layout| layout.words() <= length).map_or_else(
            || Err(ControlError::Malformed("it is shorter than its header says".to_owned())),
            |layout| Ok(Self { file, layout }),
        )
    }

    fn head(&self, field: Head) -> io::Result<u64> {
        word(&self.file, field as usize)
    }

    /// How far the workload is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn state(&self) -> io::Result<State> {
        Ok(match self.head(Head::State)? {
            0 => State::Preparing,
            1 => State::Running,
            2 => State::Ended,
            _ => State::Failed,
        })
    }

    /// Whether all threads have touched their memory, and wait to begin or have begun.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_ready(&self) -> io::Result<bool> {
        Ok(self.head(Head::Ready)? >= self.layout.thread_count as u64)
    }

    /// CLOCK_MONOTONIC when all threads began, nanoseconds; `None`: not known yet.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn began_ns(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.head(Head::Go)?).filter(|&go| go > 0))
    }

    /// Whether the process that started the workload is still there; one that was killed leaves the file as it was.
    pub(super) fn is_owned(&self) -> bool {
        let process = self.head(Head::Parent).unwrap_or(0);
        Path::new(&format!("/proc/{process}")).exists()
    }

    /// How often a thread was moved by [`Options::perturb`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn perturbations(&self) -> io::Result<u64> {
        self.head(Head::Perturbed)
    }

    /// What is run.
    ///
    /// # Errors
    /// If the file cannot be read, or it is not as this version writes it.
    pub fn options(&self) -> Result<Options, ControlError> {
        let mut text = vec![0; self.layout.text_bytes];
        self.file.read_exact_at(&mut text, self.layout.text as u64 * 8)?;
        serde_json::from_slice(&text).map_err(|error| ControlError::Malformed(error.to_string()))
    }

    /// All areas that are there, process after process.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn areas(&self) -> io::Result<Vec<Area>> {
        let all = words(&self.file, self.layout.areas, self.layout.area_count * AREA_WORDS)?;
        Ok(all.chunks_exact(AREA_WORDS).filter_map(area).collect())
    }

    /// All threads, process after process, as they were within the last millisecond or so.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn threads(&self) -> io::Result<Vec<Thread>> {
        (0..self.layout.thread_count).map(|index| self.thread(index)).collect()
    }

    /// The record of a thread, read again as long as it changes meanwhile.
    fn thread(&self, index: usize) -> io::Result<Thread> {
        let at = self.layout.threads + index * THREAD_WORDS;
        let mut record = words(&self.file, at, THREAD_WORDS)?;
        for _ in 0..TRIES {
            let sequence = word(&self.file, at + ThreadWord::Sequence as usize)?;
            if sequence.is_multiple_of(2) && sequence == record[ThreadWord::Sequence as usize] {
                break;
            }
            record = words(&self.file, at, THREAD_WORDS)?;
        }
        Ok(thread(&record))
    }

    /// How often a batch of loads took how long, by [`times::bucket`] of its nanoseconds, of all threads
    /// together; `None` where that was not asked for.
    pub(super) fn times(&self) -> io::Result<Option<Vec<u64>>> {
        if self.layout.times == 0 {
            return Ok(None);
        }
        let all = words(&self.file, self.layout.times, self.layout.thread_count * TIMES_WORDS)?;
        let mut sum = vec![0; TIMES_WORDS];
        for times in all.chunks_exact(TIMES_WORDS) {
            sum.iter_mut().zip(times).for_each(|(sum, count)| *sum += count);
        }
        Ok(Some(sum))
    }

    /// Tells all threads to end their work now.
    ///
    /// # Errors
    /// If the file cannot be written to.
    pub fn stop(path: &Path) -> Result<(), ControlError> {
        Self::open(path)?;
        let file = File::options().write(true).open(path)?;
        Ok(file.write_all_at(&1_u64.to_ne_bytes(), Head::Stop as u64 * 8)?)
    }
}

fn area(record: &[u64]) -> Option<Area> {
    let at = |field: AreaWord| record[field as usize];
    let kind = match at(AreaWord::Kind) {
        1 => AreaKind::Global,
        2 => AreaKind::Process,
        3 => AreaKind::Thread,
        _ => return None,
    };
    Some(Area {
        kind,
        pid: at(AreaWord::Pid) as u32,
        process: at(AreaWord::Process) as usize,
        thread: less_one(at(AreaWord::Thread)).map(|thread| thread as usize),
        address: at(AreaWord::Address),
        bytes: at(AreaWord::Bytes),
        locked: at(AreaWord::Locked),
    })
}

fn thread(record: &[u64]) -> Thread {
    let at = |field: ThreadWord| record[field as usize];
    let time = |field: ThreadWord| Some(at(field)).filter(|&ns| ns > 0);
    Thread {
        state: match at(ThreadWord::State) {
            0 => ThreadState::Absent,
            1 => ThreadState::Preparing,
            2 => ThreadState::Running,
            _ => ThreadState::Ended,
        },
        pid: at(ThreadWord::Pid) as u32,
        tid: at(ThreadWord::Tid) as u32,
        process: at(ThreadWord::Process) as usize,
        index: at(ThreadWord::Thread) as usize,
        start_ns: time(ThreadWord::Start),
        end_ns: time(ThreadWord::End),
        updated_ns: at(ThreadWord::Updated),
        rounds: at(ThreadWord::Rounds),
        bytes: at(ThreadWord::Bytes),
        loads: at(ThreadWord::Loads),
        cpu: less_one(at(ThreadWord::Cpu)).map(|cpu| cpu as u32),
        phase: at(ThreadWord::Phase),
        user_ns: at(ThreadWord::User),
        system_ns: at(ThreadWord::System),
        minor_faults: at(ThreadWord::MinorFaults),
        major_faults: at(ThreadWord::MajorFaults),
        reduce_bytes: at(ThreadWord::ReduceBytes),
        reduce_ns: at(ThreadWord::ReduceTime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_no_control_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        assert!(matches!(Control::open(&path), Err(ControlError::Io(_))));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Control::open(&path), Err(ControlError::NotYet)));
        std::fs::write(&path, vec![0; 4096]).unwrap();
        assert!(matches!(Control::open(&path), Err(ControlError::NotYet)));
        std::fs::write(&path, vec![7; 4096]).unwrap();
        assert!(Control::open(&path).unwrap_err().to_string().contains("it is not from"));
        let mut file = vec![0; 4096];
        file[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        std::fs::write(&path, &file).unwrap();
        assert!(Control::open(&path).unwrap_err().to_string().contains("it has version 0"));
        file[8] = 1;
        file[Head::ThreadCount as usize * 8 + 4] = 1;
        std::fs::write(&path, &file).unwrap();
        assert!(Control::open(&path).unwrap_err().to_string().contains("shorter"));
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut options = Options { processes: 2, latency: true, ..Options::default() };
        options.sizes.thread = 1 << 20;
        let board = Board::create(&file, &options, Some(7)).unwrap();
        let control = Control::open(&path).unwrap();
        assert_eq!(control.options().unwrap(), options);
        assert_eq!(
            (control.state().unwrap(), control.began_ns().unwrap()),
            (State::Preparing, None)
        );
        assert_eq!(control.areas().unwrap(), []);
        assert_eq!(control.threads().unwrap(), vec![Thread::default(); 2]);

        let board_of_child = Board::attach(&file).unwrap();
        assert_eq!(board_of_child.options().unwrap(), options);
        let kind = AreaKind::Thread;
        let record = AreaRecord { kind, thread: Some(0), address: 1 << 40, bytes: 5, locked: 0 };
        board_of_child.area(0, (42, 1), &record);
        let tally =
            ThreadTally { rounds: 3, bytes: 1 << 40, loads: 2, phase: 1, ..ThreadTally::default() };
        board_of_child.progress(1, ThreadState::Running, &tally);
        let expected = Area {
            kind,
            pid: 42,
            process: 1,
            thread: Some(0),
            address: 1 << 40,
            bytes: 5,
            locked: 0,
        };
        assert_eq!(control.areas().unwrap(), [expected]);
        let thread = control.threads().unwrap()[1];
        assert_eq!((thread.rounds, thread.bytes, thread.loads), (3, 1 << 40, 2));
        assert_eq!((thread.state, thread.start_ns, thread.phase), (ThreadState::Running, None, 1));
        board_of_child.count_time(1, 1000);
        assert_eq!(control.times().unwrap().unwrap().iter().sum::<u64>(), 1);
        assert!(!board.is_stopped());
        Control::stop(&path).unwrap();
        assert!(board.is_stopped() && board_of_child.is_stopped());
    }
}
