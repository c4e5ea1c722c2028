//! One process of the workload: it maps its memory and runs its threads.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use super::areas::Areas;
use super::control::{Board, ControlError};
use super::worker::Team;
use crate::error::WorkloadError;

impl From<ControlError> for WorkloadError {
    fn from(error: ControlError) -> Self {
        let source = match error {
            ControlError::Io(source) => source,
            other => std::io::Error::other(other.to_string()),
        };
        Self::system("use the control file", source)
    }
}

/// Runs one process of a workload that [`super::run`] started, by its control file.
///
/// # Errors
/// What the kernel says to memory, threads and places; then all processes end.
pub fn attach(control: &Path, process: usize) -> Result<(), WorkloadError> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(control)
        .map_err(|error| WorkloadError::system(format!("open {}", control.display()), error))?;
    let board = Board::attach(&file)?;
    let result = run(&board, process);
    if result.is_err() {
        board.stop();
    }
    result
}

/// The first thread is the one that calls.
fn run(board: &Board, process: usize) -> Result<(), WorkloadError> {
    let options = board.options()?;
    let areas = Areas::map(board, &options, process)?;
    let team = Team { board, options: &options, areas: &areas, process, done: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for thread in 1..options.threads {
            let team = &team;
            let builder = std::thread::Builder::new().name(format!("memory-{thread}"));
            let started = builder.spawn_scoped(scope, move || team.run(thread));
            others.push(started.map_err(|error| {
                // Those that wait for it end.
                board.stop();
                WorkloadError::system(
                    format!("start thread {thread} of {}", options.threads),
                    error,
                )
            })?);
        }
        let first = team.run(0);
        // A panic of a thread is a bug; it goes on in this one.
        let ended = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.chain([first]).collect::<Result<(), _>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::control::{AreaKind, Control, State, Thread, ThreadState};
    use crate::memory::options::{Access, Init, Options, Order, Sizes};
    use crate::memory::worker::now_ns;
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;

    const MEMORY: Sizes =
        Sizes { global: 64 << 10, process: 40 << 10, locked: 12 << 10, thread: 24 << 10 };

    fn small() -> Options {
        Options {
            processes: 2,
            threads: 2,
            sizes: MEMORY,
            seconds: None,
            rounds: Some(3),
            ..Options::default()
        }
    }

    /// A workload whose processes are threads of this one.
    struct Running {
        _folder: tempfile::TempDir,
        _global: File,
        path: PathBuf,
        board: Board,
        processes: Vec<std::thread::JoinHandle<Result<(), WorkloadError>>>,
    }

    impl Running {
        fn start(options: &Options) -> Self {
            options.check().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let make = |name: &str| {
                let path = folder.path().join(name);
                let file =
                    File::options().read(true).write(true).create_new(true).open(&path).unwrap();
                (file, path)
            };
            let (global, _) = make("global");
            global.set_len(options.sizes.global).unwrap();
            let (control, path) = make("control");
            let descriptor = global.as_raw_fd().unsigned_abs();
            let board = Board::create(&control, options, Some(descriptor)).unwrap();
            let start = |process: usize| {
                let path = path.clone();
                std::thread::spawn(move || {
                    attach(&path, process).inspect_err(|error| eprintln!("{error}"))
                })
            };
            let processes = (0..options.processes).map(start).collect();
            while !board.all_ready() {
                assert!(!board.is_stopped(), "a process failed");
                std::thread::yield_now();
            }
            board.set_state(State::Running);
            board.go(now_ns());
            Self { _folder: folder, _global: global, path, board, processes }
        }

        fn end(self) -> Vec<Thread> {
            for process in self.processes {
                process.join().unwrap().unwrap();
            }
            Control::open(&self.path).unwrap().threads().unwrap()
        }
    }

    #[test]
    fn every_access_in_every_order_counts_its_bytes() {
        for &access in Access::ALL {
            for &order in Order::ALL {
                let options = Options { access, order, ..small() };
                if options.check().is_err() {
                    continue;
                }
                let twice = matches!(access, Access::Both);
                let per_round = MEMORY.global + MEMORY.process + MEMORY.thread;
                let bytes = 3 * per_round * if twice { 2 } else { 1 };
                for thread in Running::start(&options).end() {
                    let what = format!("{access:?} {order:?}: {thread:?}");
                    assert_eq!((thread.rounds, thread.bytes), (3, bytes), "{what}");
                    let loads = if order == Order::Chase { bytes / 64 } else { 0 };
                    assert_eq!((thread.loads, thread.state), (loads, ThreadState::Ended), "{what}");
                    assert!(thread.end_ns > thread.start_ns && thread.start_ns.is_some(), "{what}");
                }
            }
        }
    }

    #[test]
    fn each_kind_of_memory_alone_is_gone_through() {
        let kinds = [
            Sizes { global: 64 << 10, ..Sizes::default() },
            Sizes { process: 64 << 10, ..Sizes::default() },
            Sizes { process: 64 << 10, locked: 64 << 10, ..Sizes::default() },
            Sizes { thread: 64 << 10, ..Sizes::default() },
        ];
        for sizes in kinds {
            for order in [Order::Forward, Order::Random, Order::Chase] {
                let options = Options { sizes, order, init: Init::Zero, ..small() };
                let threads = Running::start(&options).end();
                assert!(
                    threads.iter().all(|thread| thread.bytes == 3 << 16),
                    "{sizes:?} {order:?}"
                );
            }
        }
    }

    /// Of a workload without end, from outside.
    #[test]
    fn it_can_be_watched_while_it_runs_and_stopped() {
        let sizes = Sizes { global: 4 << 20, process: 1 << 20, thread: 1 << 20, locked: 0 };
        let options = Options { sizes, rounds: Some(u64::MAX), ..small() };
        let running = Running::start(&options);
        let control = Control::open(&running.path).unwrap();
        assert_eq!(control.state().unwrap(), State::Running);
        let areas = control.areas().unwrap();
        let of = |kind| areas.iter().filter(move |area| area.kind == kind);
        assert_eq!(
            (
                of(AreaKind::Global).count(),
                of(AreaKind::Process).count(),
                of(AreaKind::Thread).count()
            ),
            (2, 2, 4)
        );
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for area in &areas {
            assert_eq!(area.pid, std::process::id());
            // In a mapping, whose first address stands in front of a dash.
            let within = |line: &str| {
                let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                (number(from)..number(to)).contains(&area.address)
            };
            assert!(maps.lines().any(within), "{area:?}");
        }
        let bytes =
            || -> u64 { control.threads().unwrap().iter().map(|thread| thread.bytes).sum() };
        let (first, began) = (bytes(), control.began_ns().unwrap().unwrap());
        let not_begun = || control.threads().unwrap().iter().any(|thread| thread.bytes == 0);
        while bytes() < first + (64 << 20) || not_begun() {
            std::thread::yield_now();
        }
        for thread in control.threads().unwrap() {
            assert!(thread.state == ThreadState::Running && thread.updated_ns >= began);
            assert!(thread.tid > 0 && thread.cpu.is_some() && thread.end_ns.is_none());
        }
        Control::stop(&running.path).unwrap();
        assert!(running.end().iter().all(|thread| thread.state == ThreadState::Ended));
    }

    #[test]
    fn threads_move_on_to_the_memory_of_the_next_and_reduce_reads_all() {
        let sizes = Sizes { thread: 1 << 20, ..Sizes::default() };
        let options = Options { sizes, phases: 3, reduce: true, access: Access::Write, ..small() };
        for thread in Running::start(&options).end() {
            assert_eq!(thread.phase, 2, "{thread:?}");
            let reduced = if thread.index == 0 { 2 << 20 } else { 0 };
            assert_eq!(thread.reduce_bytes, reduced);
        }
        let by_time = Options { seconds: Some(0.05), rounds: None, ..options };
        // A thread that loses its CPU for long may miss the last.
        let began = Running::start(&by_time).end();
        assert!(began.iter().all(|thread| thread.phase <= 2 && thread.bytes > 0), "{began:?}");
    }

    #[test]
    fn a_thread_that_is_disturbed_changes_its_cpu() {
        let allowed = pmuscope_machine::place::affinity().unwrap();
        if allowed.len() < 2 {
            eprintln!("skipped: one CPU only");
            return;
        }
        let sizes = Sizes { thread: 1 << 20, ..Sizes::default() };
        let options = Options {
            processes: 1,
            threads: 1,
            sizes,
            rounds: Some(u64::MAX),
            perturb: Some(0.002),
            ..small()
        };
        let running = Running::start(&options);
        let control = Control::open(&running.path).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        while control.perturbations().unwrap() < 5 || seen.len() < 2 {
            seen.extend(control.threads().unwrap()[0].cpu);
        }
        running.board.stop();
        running.end();
    }

    #[test]
    fn loads_are_timed_where_that_is_asked() {
        let sizes = Sizes { thread: 1 << 20, ..Sizes::default() };
        let options = Options { sizes, order: Order::Chase, latency: true, ..small() };
        let running = Running::start(&options);
        let path = running.path.clone();
        let control = Control::open(&path).unwrap();
        let loads: u64 = running.end().iter().map(|thread| thread.loads).sum();
        let batches: u64 = control.times().unwrap().unwrap().iter().sum();
        assert_eq!((batches * 16, loads), (loads, 4 * 3 * (1 << 20) / 64));
    }

    #[test]
    fn one_that_cannot_be_placed_ends_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let nowhere = pmuscope_machine::CpuSet::from_iter([60_000]);
        let options = Options {
            processes: 1,
            sizes: Sizes { thread: 4096, ..Sizes::default() },
            cpus: vec![pmuscope_machine::place::affinity().unwrap(), nowhere],
            ..small()
        };
        let board = Board::create(&file, &options, None).unwrap();
        let error = attach(&path, 0).unwrap_err().to_string();
        assert!(error.contains("move a thread to CPUs 60000") && board.is_stopped(), "{error}");
    }
}
