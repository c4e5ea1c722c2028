//! Shared cache lines of simulated threads, against what is true of them.

use std::collections::BTreeMap;
use std::path::Path;

use pmuscope_perfdata::MemoryNodes;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_profile::Filter;
use pmuscope_profile::hits::SharingVerdict;
use pmuscope_profile::sharing::{
    LineMapping, LinePage, Options, SharedLine, SharedLines, SharingError,
};
use pmuscope_symbols::{KernelIdentity, Symbolizer};

use pmuscope_testkit::sharing_file::{
    Access, Does, MEMORY, PID, Pmu, Program, Sharers, Simulation, example,
};

fn read(path: &Path, threads: usize, pieces: Pieces) -> SharedLines {
    try_read(path, false, (threads, pieces)).unwrap()
}

fn try_read(
    path: &Path,
    physical: bool,
    (threads, pieces): (usize, Pieces),
) -> Result<SharedLines, SharingError> {
    let recording = RecordingFile::open(path).unwrap();
    let filter = Filter::default();
    let options = Options { filter, line_bytes: 64, physical, least_share: 0.0, threads, pieces };
    let mut symbolizer = Symbolizer::new(pmuscope_symbols::Options { inlined: false });
    SharedLines::read(&recording, &options, &KernelIdentity::default(), &mut symbolizer)
}

/// All lines of a recording.
pub(crate) fn read_all(path: &Path) -> SharedLines {
    read(path, 2, Pieces::default())
}

pub(crate) fn random_pmu(random: &mut fastrand::Rng) -> Pmu {
    [Pmu::Pebs, Pmu::Ibs, Pmu::Spe][random.usize(..3)]
}

fn simulated(program: &Program) -> (Simulation, SharedLines) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let simulation = program.run();
    simulation.write(program, &path);
    (simulation, read(&path, 2, Pieces::default()))
}

/// The line of the simulation.
fn number(line: &SharedLine) -> usize {
    ((line.address - MEMORY) / 64) as usize
}

/// Position among the program's accesses of code at a site.
fn access(found: &SharedLines, site: u32) -> usize {
    // The program is mapped from its first byte on, a function for each access; 0 is no address.
    (found.sites[site as usize].address.unwrap_or(0) / 16) as usize
}

/// Share of contended loads that the estimate gives to other pairs than the simulation had: 0 is right, 1 all wrong.
fn wrong_pairs(simulation: &Simulation, found: &SharedLines, line: &SharedLine) -> f64 {
    let truth = &simulation.truth[number(line)].pairs;
    let all: u64 = truth.values().sum();
    let estimated: f64 = line.pairs.iter().map(|pair| pair.contended).sum();
    let mut off: BTreeMap<(usize, usize), f64> =
        truth.iter().map(|(&pair, &loads)| (pair, loads as f64 / all as f64)).collect();
    for pair in &line.pairs {
        let codes = (access(found, pair.reader), access(found, pair.writer));
        *off.entry(codes).or_default() -= pair.contended / estimated;
    }
    off.values().map(|off| off.abs()).sum::<f64>() / 2.0
}

#[test]
fn lines_are_ranked_and_judged_whatever_the_pmu() {
    for pmu in [Pmu::Pebs, Pmu::Ibs, Pmu::Spe] {
        let (simulation, found) = simulated(&example(pmu));
        let ranking: Vec<usize> = found.lines.iter().map(number).collect();
        assert_eq!(ranking, simulation.ranking(), "{pmu:?}");
        let verdicts: Vec<(usize, SharingVerdict)> =
            found.lines.iter().map(|line| (number(line), line.verdict.verdict)).collect();
        let of = |wanted: usize| verdicts.iter().find(|(line, _)| *line == wanted).unwrap().1;
        assert_eq!(of(0), SharingVerdict::TrueSharing, "{pmu:?}");
        assert_eq!(of(1), SharingVerdict::FalseSharing, "{pmu:?}");
        assert_eq!(of(2), SharingVerdict::FalseSharing, "{pmu:?}");
        for line in &found.lines {
            let wrong = wrong_pairs(&simulation, &found, line);
            assert!(wrong < 0.1, "{pmu:?}, line {}: {wrong} {:?}", number(line), line.pairs);
        }
        assert_eq!(found.threads.len(), 3);
        assert_eq!(&*found.lines[0].module, "[heap]");
    }
}

/// A line of random use, and threads that use it.
fn random_line(random: &mut fastrand::Rng, threads: usize, line: usize) -> Vec<Access> {
    let weight = 0.05 + random.f64();
    let pattern = random.u8(..6);
    let access = |thread, offset, does, share: f64| Access {
        thread,
        line,
        offset,
        does,
        weight: weight * share,
    };
    let own = |thread: usize| 8 * (1 + thread as u64);
    let each = (0..threads).flat_map(|thread| match pattern {
        // Words of each thread.
        0 => vec![
            access(thread, own(thread), Does::Load, 0.5),
            access(thread, own(thread), Does::Store, 0.5),
        ],
        // A counter of all.
        1 => vec![access(thread, 0, Does::Add, 1.0)],
        // One writes what others read.
        2 => vec![access(thread, 0, if thread == 0 { Does::Store } else { Does::Load }, 1.0)],
        // One writes next to what others read.
        3 if thread == 0 => vec![access(0, 0, Does::Store, 1.0)],
        3 => vec![access(thread, 48, Does::Load, 1.0)],
        // A counter of all beside words of each thread.
        4 => vec![
            access(thread, 0, Does::Add, 0.5),
            access(thread, own(thread), Does::Load, 0.3),
            access(thread, own(thread), Does::Store, 0.2),
        ],
        // Of one thread.
        _ if thread == 0 => vec![access(0, 0, Does::Load, 1.0), access(0, 8, Does::Store, 1.0)],
        _ => Vec::new(),
    });
    each.collect()
}

fn random_program(random: &mut fastrand::Rng) -> Program {
    let threads = random.usize(2..=6);
    let lines = random.usize(2..=6);
    let pmu = [Pmu::Pebs, Pmu::Ibs, Pmu::Spe][random.usize(..3)];
    // Something that each thread does otherwise.
    let idle = (0..threads).map(|thread| Access {
        thread,
        line: lines + thread,
        offset: 0,
        does: Does::Load,
        weight: 0.5,
    });
    let used: Vec<Access> =
        (0..lines).flat_map(|line| random_line(random, threads, line)).collect();
    Program {
        pmu,
        threads,
        cpus_per_node: random.usize(1..=threads),
        accesses: used.into_iter().chain(idle).collect(),
        steps: 100_000,
        period: random.u64(8..30),
        seed: random.u64(..),
        timed: true,
    }
}

fn verdict_of(share: f64) -> SharingVerdict {
    match share {
        _ if share >= 0.95 => SharingVerdict::FalseSharing,
        _ if share <= 0.05 => SharingVerdict::TrueSharing,
        _ => SharingVerdict::Both,
    }
}

/// What came of random programs.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    /// The line that costs most is the first, or the first one costs 90% of that at least.
    first: u64,
    /// Lines with a verdict, and those with the right one.
    judged: u64,
    right: u64,
    /// Lines with bounds of the gain, and those whose loads due to neighbors took no more, within 3 standard errors.
    bounds: u64,
    held: u64,
    /// Intervals of shares, and those that hold the share of a run 20 times as long.
    intervals: u64,
    covered: u64,
    /// Lines with 200 sampled contended loads, and the sum of what [`wrong_pairs`] says of them.
    paired: u64,
    wrong: f64,
}

impl Tally {
    fn add(&mut self, program: &Program) {
        let (simulation, found) = simulated(program);
        let ranking = simulation.ranking();
        let Some(&costliest) = ranking.first() else { return };
        self.programs += 1;
        let cost = |line: usize| simulation.truth[line].cost;
        let first = found.lines.first().map(number);
        self.first += u64::from(first.is_some_and(|line| cost(line) >= 0.9 * cost(costliest)));
        let all: f64 = simulation.truth.iter().map(|truth| truth.cost).sum();
        let sampled = found.memory.sums.cost as f64;
        let long = Program { steps: 20 * program.steps, seed: program.seed ^ 1, ..program.clone() };
        let long = long.run();
        let of_long: f64 = long.truth.iter().map(|truth| truth.cost).sum();
        for line in &found.lines {
            let number = number(line);
            let truth = &simulation.truth[number];
            if line.verdict.verdict != SharingVerdict::NotEnough {
                let expected = verdict_of(truth.by_neighbors as f64 / truth.contended as f64);
                self.judged += 1;
                self.right += u64::from(line.verdict.verdict == expected);
            }
            if line.verdict.verdict == SharingVerdict::FalseSharing {
                let n = line.sums.contended() as f64;
                let bound = line.verdict.false_cost as f64 / sampled;
                self.bounds += 1;
                let least = truth.neighbors_cost / all * (1.0 - 3.0 / n.sqrt());
                self.held += u64::from(bound >= least);
            }
            if line.sums.contended() >= 200 {
                self.paired += 1;
                self.wrong += wrong_pairs(&simulation, &found, line);
            }
            if let Some(interval) = line.interval {
                self.intervals += 1;
                self.covered += u64::from(interval.contains(long.truth[number].cost / of_long));
            }
        }
    }

    /// Of a random program each.
    fn of(programs: u64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tally = Self::default();
        (0..programs).for_each(|_| tally.add(&random_program(&mut random)));
        eprintln!("{tally:?}");
        tally
    }
}

#[test]
fn random_programs_are_judged_right() {
    let tally = Tally::of(40, 5);
    assert!(tally.programs >= 38 && tally.judged >= 80, "{tally:?}");
    assert!(tally.first * 100 >= tally.programs * 95, "{tally:?}");
    assert!(tally.right * 100 >= tally.judged * 95, "{tally:?}");
    assert_eq!(tally.held, tally.bounds, "{tally:?}");
    assert!(tally.wrong < 0.1 * tally.paired as f64, "{tally:?}");
}

/// As many as `PMUSCOPE_PROGRAMS` says; 1,000 take six minutes.
#[test]
fn full_random_programs_are_judged_right_and_intervals_cover() {
    pmuscope_testkit::skip_unless!(pmuscope_testkit::need::full());
    let asked = std::env::var("PMUSCOPE_PROGRAMS").ok().and_then(|text| text.parse().ok());
    let tally = Tally::of(asked.unwrap_or(200), 7);
    assert!(tally.first * 100 >= tally.programs * 95, "{tally:?}");
    assert!(tally.right * 100 >= tally.judged * 95, "{tally:?}");
    assert!(tally.held * 1000 >= tally.bounds * 995, "{tally:?}");
    let coverage = tally.covered as f64 / tally.intervals as f64;
    // 200 programs have 650 intervals: the standard error of the coverage is about 1%.
    assert!((0.93..=0.985).contains(&coverage), "{coverage} {tally:?}");
}

/// A line as text, without what needs time stamps.
fn untimed(line: &SharedLine) -> String {
    format!("{:?}", SharedLine { interval: None, cost_per_s: None, ..line.clone() })
}

/// One thread or several, in pieces of any size, or in order, as without time stamps: the same.
#[test]
fn all_ways_of_reading_agree() {
    let dir = tempfile::tempdir().unwrap();
    let (path, in_order) = (dir.path().join("x.data"), dir.path().join("y.data"));
    let program = Program { steps: 60_000, ..example(Pmu::Pebs) };
    let simulation = program.run();
    simulation.write(&program, &path);
    simulation.write(&Program { timed: false, ..program }, &in_order);
    let shown = |found: &SharedLines| -> Vec<String> {
        found.lines.iter().map(|line| format!("{line:?}")).collect()
    };
    let whole = read(&path, 1, Pieces::default());
    assert!(whole.lines.len() == 3 && whole.lines.iter().all(|line| line.interval.is_some()));
    for threads in [2, 7] {
        let pieces = Pieces { part: 30_000, chunk: 10_000, ..Pieces::default() };
        let found = read(&path, threads, pieces);
        assert_eq!(shown(&found), shown(&whole), "{threads} threads");
        assert_eq!((found.memory, found.threads), (whole.memory, whole.threads.clone()));
    }
    let found = read(&in_order, 2, Pieces::default());
    let lines = |found: &SharedLines| found.lines.iter().map(untimed).collect::<Vec<_>>();
    assert_eq!(lines(&found), lines(&whole));
    assert_eq!((found.memory, found.threads), (whole.memory, whole.threads));
    assert!(found.lines.iter().all(|line| line.interval.is_none()) && found.seconds == 0.0);
}

/// Three processes that share memory, as `path`: what is found by virtual and by physical addresses.
fn of_processes(sharers: &Sharers, physical: bool) -> Result<SharedLines, SharingError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let program = example(Pmu::Pebs);
    program.run().write_shared(&program, &path, sharers);
    let whole = try_read(&path, physical, (1, Pieces::default()));
    let pieces = Pieces { part: 30_000, chunk: 10_000, ..Pieces::default() };
    let shown = |found: &Result<SharedLines, SharingError>| match found {
        Ok(found) => found.lines.iter().map(|line| format!("{line:?}")).collect(),
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(shown(&try_read(&path, physical, (3, pieces))), shown(&whole));
    whole
}

fn contended(found: &SharedLines) -> u64 {
    found.lines.iter().map(|line| line.sums.contended()).sum()
}

/// A file that is mapped MAP_SHARED is one memory, wherever processes have it; one that is mapped MAP_PRIVATE is not.
#[test]
fn a_shared_file_is_one_memory() {
    let of = |flags| {
        let sharers =
            Sharers { path: "/dev/shm/queue", flags, physical: None, ..Sharers::default() };
        of_processes(&sharers, false).unwrap()
    };
    let shared = of(1);
    let lines: Vec<(u64, usize, SharingVerdict)> = shared
        .lines
        .iter()
        .map(|line| (line.address - MEMORY, line.threads.len(), line.verdict.verdict))
        .collect();
    let (is_true, is_false) = (SharingVerdict::TrueSharing, SharingVerdict::FalseSharing);
    assert_eq!(lines, [(0, 3, is_true), (64, 3, is_false), (128, 3, is_false)]);
    assert!(
        shared.lines.iter().all(|line| line.pid.is_none() && &*line.module == "/dev/shm/queue")
    );
    let private = of(2);
    assert!(private.lines.iter().all(|line| line.pid.is_some() && line.threads.len() == 1));
    assert_eq!((private.lines.len(), contended(&private)), (8, contended(&shared)));
}

/// Memory without a file is one by its physical address; accesses that do not have it are counted.
#[test]
fn memory_without_a_file_is_one_by_its_physical_address() {
    let physical = Some(0x1_2340_0000);
    for path in ["/dev/zero (deleted)", "/SYSV00000000 (deleted)"] {
        let sharers = Sharers { path, flags: 1, physical, ..Sharers::default() };
        let apart = of_processes(&sharers, false).unwrap();
        assert_eq!((apart.lines.len(), apart.physical), (8, false), "{path}");
        let found = of_processes(&sharers, true).unwrap();
        let at: Vec<u64> = found.lines.iter().filter_map(|line| line.physical).collect();
        assert_eq!(at, [0, 64, 128].map(|offset| 0x1_2340_0000 + offset), "{path}");
        let line = &found.lines[1];
        assert_eq!((line.threads.len(), line.pid, line.in_kernel), (3, None, false));
        assert_eq!(line.verdict.verdict, SharingVerdict::FalseSharing);
        let of = |thread| LineMapping {
            pid: Some(PID as i32 + thread as i32),
            address: Sharers::first(thread) + 64,
        };
        assert_eq!(line.mappings, [of(0), of(1), of(2)]);
        let memory = &found.memory;
        assert_eq!(memory.without_physical, memory.accesses.div_ceil(10));
        let lost = memory.contended_without_physical;
        assert_eq!(contended(&found) + lost, contended(&apart));
        assert_eq!(memory.sums, apart.memory.sums);
    }
}

/// Memory on node 3 that is moved to node 1 when three quarters of the time have passed.
#[test]
fn memory_is_on_the_nodes_that_have_its_pages() {
    const BLOCK: u64 = 128 << 20;
    let sharers = Sharers {
        path: "/dev/zero (deleted)",
        flags: 1,
        physical: Some(2 * BLOCK + 0x5000),
        moved: Some((0.75, 7 * BLOCK)),
        memory_nodes: Some(MemoryNodes::new(BLOCK, [(1, vec![6, 7]), (3, vec![0, 2])])),
    };
    let found = of_processes(&sharers, false).unwrap();
    for line in &found.lines {
        let LinePage { nodes, places } = &line.page;
        let [(Some(3), before), (Some(1), after)] = nodes[..] else { panic!("{nodes:?}") };
        assert_eq!(*places, 2);
        let share = after as f64 / (before + after) as f64;
        assert!((0.15..0.35).contains(&share), "{share} of {}", before + after);
    }
    let silent = Sharers { memory_nodes: None, moved: None, ..sharers.clone() };
    for line in &of_processes(&silent, false).unwrap().lines {
        assert!(matches!(line.page.nodes[..], [(None, _)]) && line.page.places == 1);
    }
    let unmeasured = Sharers { physical: None, ..silent };
    let lines = of_processes(&unmeasured, false).unwrap().lines;
    assert!(lines.iter().all(|line| line.page == LinePage::default()));
}

#[test]
fn physical_addresses_that_were_not_recorded_are_an_error() {
    let sharers =
        Sharers { path: "/dev/zero (deleted)", flags: 1, physical: None, ..Sharers::default() };
    let refused = of_processes(&sharers, true).unwrap_err();
    assert!(matches!(refused, SharingError::NoPhysical { .. }), "{refused}");
}

/// Loads by class as `perf c2c report --show-all` of perf 6.12 counts them: 5 of the fill buffer, 4 of L1, 1 of L2, 4 of
/// L3, none contended.
#[test]
fn a_recording_of_a_skylake_has_perfs_counts() {
    use pmuscope_perfdata::reader::AccessClass as Class;
    let path = pmuscope_testkit::corpus::corpus().recording("quipper_perf.data.weight_struct");
    let found = read(&path, 2, Pieces::default());
    let of = |class| found.memory.sums.of_class(class);
    let counts = [Class::LoadFillBuffer, Class::LoadL1, Class::LoadL2, Class::LoadL3].map(of);
    assert_eq!(
        (counts, found.memory.sums.loads(), found.memory.sums.locked),
        ([5, 4, 1, 4], 14, 2)
    );
    assert!(found.lines.is_empty());
}
