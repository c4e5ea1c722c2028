//! The tests by name: what `perf bench numa mem -a` runs, with sizes that fit the machine; a few for guests; own ones
//! from a file.
//!
//! Names are processes x threads: 2x3 is two processes with three threads each. Today's names of the kernel's own
//! benchmark are used; those of 2012 (`4x1-bw-thread` for one process with four threads) are taken too
//! where they mean nothing else today.

use pmuscope_workloads::memory::{Access, FirstTouch, Init, Options, Order, Sizes, Thp};

/// What a test asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// How long until threads and memory are together; ends once they have been for a while.
    Convergence,
    /// How much goes through memory in a given time.
    Bandwidth,
}

/// Where the tasks of a test and their memory are, whatever the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// All on one node, with their memory.
    Local,
    /// All on one node, their memory on the farthest other.
    Remote,
    /// Half on one node, half on the farthest other, each with its memory where the others run.
    Cross,
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub kind: Question,
    /// `None`: wherever the policy and the kernel put them.
    pub placed: Option<Placed>,
    /// What runs, before sizes are made to fit.
    pub options: Options,
}

/// A named suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Six tests that tell most, sized to the machine.
    Quick,
    /// Those with fewer than 32 threads in all, and with huge pages.
    Standard,
    /// All 45 of the kernel's own benchmark, and the two more realistic ones.
    Full,
    /// Eight small ones, for guests: 16 to 64 MiB in all, 10 s at most each.
    Guest,
}

impl Suite {
    /// Names on the command line.
    pub const NAMES: [&str; 4] = ["quick", "standard", "full", "guest"];

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Quick, Self::Standard, Self::Full, Self::Guest]
            .into_iter()
            .zip(Self::NAMES)
            .find_map(|(suite, own)| (own == name).then_some(suite))
    }

    /// Its tests.
    #[must_use]
    pub fn tests(self) -> Vec<Test> {
        let named = |names: &[&str]| {
            let all = all();
            names
                .iter()
                .filter_map(|name| all.iter().find(|test| test.name == *name).cloned())
                .collect()
        };
        match self {
            Self::Quick => named(&QUICK),
            Self::Standard => {
                let is_large =
                    |test: &Test| test.options.tasks() >= 32 || test.name.ends_with(WITHOUT_HUGE);
                all().into_iter().filter(|test| !is_large(test)).collect()
            }
            Self::Full => all(),
            Self::Guest => guest(),
        }
    }

    /// Seconds of a bandwidth test, and the most a convergence test may take.
    #[must_use]
    pub fn seconds(self) -> (f64, f64) {
        match self {
            Self::Quick => (1.2, 6.0),
            Self::Standard | Self::Full => (60.0, 100.0),
            Self::Guest => (8.0, 10.0),
        }
    }
}

/// What the name of a twin without huge pages ends in.
const WITHOUT_HUGE: &str = "-NOTHP";
const MIB: u64 = 1 << 20;

const QUICK: [&str; 6] = [
    "RAM-bw-local",
    "RAM-bw-remote",
    "2x3-convergence",
    "2x1-bw-process",
    "4x4-bw-process",
    "private-reduce",
];

/// How memory is given out in a test.
#[derive(Debug, Clone, Copy)]
enum MemoryShape {
    /// To each process.
    Process(u64),
    /// To each thread.
    Thread(u64),
}

fn test(
    name: &str,
    kind: Question,
    (processes, threads): (usize, usize),
    memory: MemoryShape,
) -> Test {
    let sizes = match memory {
        MemoryShape::Process(mib) => Sizes { process: mib * MIB, ..Sizes::default() },
        MemoryShape::Thread(mib) => Sizes { thread: mib * MIB, ..Sizes::default() },
    };
    let options = Options {
        processes,
        threads,
        sizes,
        access: Access::Zero,
        order: Order::Forward,
        first_touch: FirstTouch::Node0,
        thp: Thp::Always,
        ..Options::default()
    };
    Test { name: name.to_owned(), kind, placed: None, options }
}

/// Processes, threads, MiB, and whether there is a twin without huge pages.
type SuiteRow = (usize, usize, MemoryShape, bool);

const CONVERGENCE: [SuiteRow; 14] = {
    use MemoryShape::Process as P;
    [
        (1, 3, P(512), false),
        (1, 4, P(512), false),
        (1, 6, P(1020), false),
        (2, 3, P(1020), false),
        (3, 3, P(1020), false),
        (4, 4, P(512), true),
        (4, 6, P(1020), false),
        (4, 8, P(512), false),
        (8, 4, P(512), true),
        (3, 1, P(512), false),
        (4, 1, P(512), false),
        (8, 1, P(512), false),
        (16, 1, P(256), false),
        (32, 1, P(128), false),
    ]
};

const BANDWIDTH: [SuiteRow; 17] = {
    use MemoryShape::{Process as P, Thread as T};
    [
        (2, 1, P(1024), false),
        (3, 1, P(1024), false),
        (4, 1, P(1024), false),
        (8, 1, P(512), true),
        (16, 1, P(256), false),
        (1, 4, T(256), false),
        (1, 8, T(256), false),
        (1, 16, T(128), false),
        (1, 32, T(64), false),
        (2, 3, P(512), false),
        (4, 4, P(512), false),
        (4, 6, P(512), false),
        (4, 8, P(512), true),
        (3, 3, P(512), false),
        (5, 5, P(512), false),
        (2, 16, P(512), false),
        (1, 32, P(2048), false),
    ]
};

/// All tests, in the order of the kernel's own benchmark; then ours.
#[must_use]
pub fn all() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut push = |test: Test, twin: bool| {
        let without = twin.then(|| Test {
            name: format!("{}{WITHOUT_HUGE}", test.name),
            options: Options { thp: Thp::Never, ..test.options.clone() },
            ..test.clone()
        });
        tests.push(test);
        tests.extend(without);
    };
    for (name, processes, placed, twin) in [
        ("RAM-bw-local", 1, Placed::Local, true),
        ("RAM-bw-remote", 1, Placed::Remote, false),
        ("RAM-bw-local-2x", 2, Placed::Local, false),
        ("RAM-bw-remote-2x", 2, Placed::Remote, false),
        ("RAM-bw-cross", 2, Placed::Cross, false),
    ] {
        let mut test = test(name, Question::Bandwidth, (processes, 1), MemoryShape::Process(1024));
        test.placed = Some(placed);
        test.options.first_touch = FirstTouch::Own;
        push(test, twin);
    }
    for (processes, threads, memory, twin) in CONVERGENCE {
        let name = format!("{processes}x{threads}-convergence");
        push(test(&name, Question::Convergence, (processes, threads), memory), twin);
    }
    for (processes, threads, memory, twin) in BANDWIDTH {
        let kind = if matches!(memory, MemoryShape::Thread(_)) { "thread" } else { "process" };
        let name = format!("{processes}x{threads}-bw-{kind}");
        push(test(&name, Question::Bandwidth, (processes, threads), memory), twin);
    }
    push(test("numa02-bw", Question::Bandwidth, (1, 32), MemoryShape::Thread(32)), true);
    push(test("numa01-bw-thread", Question::Bandwidth, (2, 16), MemoryShape::Thread(192)), true);
    tests.extend(realistic());
    tests
}

/// What most parallel programs do, and the kernel's own benchmark does not.
fn realistic() -> [Test; 2] {
    let mut reduce = test("private-reduce", Question::Bandwidth, (2, 4), MemoryShape::Thread(256));
    reduce.options.access = Access::Both;
    reduce.options.reduce = true;
    let mut phases = test("phases", Question::Bandwidth, (2, 4), MemoryShape::Thread(256));
    phases.options.access = Access::Both;
    phases.options.phases = 4;
    [reduce, phases]
}

/// Small ones. Loads and stores in order: an emulator makes no difference between local and remote, what is asked
/// is where memory and threads go, and what that costs.
fn guest() -> Vec<Test> {
    let rows: [(&str, Question, (usize, usize), MemoryShape); 8] = {
        use MemoryShape::{Process as P, Thread as T};
        use Question::{Bandwidth as B, Convergence as C};
        [
            ("1x3-convergence", C, (1, 3), P(48)),
            ("2x3-convergence", C, (2, 3), P(32)),
            ("4x4-convergence", C, (4, 4), P(16)),
            ("4x1-convergence", C, (4, 1), P(16)),
            ("2x1-bw-process", B, (2, 1), P(32)),
            ("1x4-bw-thread", B, (1, 4), T(16)),
            ("private-reduce", B, (2, 2), T(16)),
            ("phases", B, (1, 4), T(16)),
        ]
    };
    let make = |(name, kind, tasks, memory): (&str, Question, (usize, usize), MemoryShape)| {
        let mut test = test(name, kind, tasks, memory);
        test.options.access = Access::Both;
        test.options.thp = Thp::System;
        // Random numbers take an emulator longer than the test.
        test.options.init = Init::Zero;
        test.options.reduce = name == "private-reduce";
        test.options.phases = if name == "phases" { 4 } else { 1 };
        test
    };
    rows.map(make).into()
}

/// The test with this name, of `tests`; or the one that had it in 2012, told by what it runs.
#[must_use]
pub fn named<'a>(name: &str, tests: &'a [Test]) -> Option<&'a Test> {
    tests.iter().find(|test| test.name == name).or_else(|| {
        let today = of_2012(name)?;
        tests.iter().find(|test| test.name == today)
    })
}

/// What to know of a name that had another meaning in 2012; `None` of all others.
#[must_use]
pub fn note_on(name: &str, tests: &[Test]) -> Option<String> {
    let today = of_2012(name)?;
    let has = |wanted: &str| tests.iter().any(|test| test.name == wanted);
    match (has(name), has(&today)) {
        (true, true) => Some(format!(
            "{name} is the current test of this name, with memory per thread. The one of 2012, \
             with shared memory, is {today}"
        )),
        (false, true) => Some(format!("{name} is the name of 2012 for {today}")),
        _ => None,
    }
}

/// Today's name of a test of 2012: `4x1-bw-thread` was one process with four threads, and shared memory of a
/// process was `-bw-thread` as well.
fn of_2012(name: &str) -> Option<String> {
    let (core, twin) = match name.strip_suffix(WITHOUT_HUGE) {
        Some(core) => (core, WITHOUT_HUGE),
        None => (name, ""),
    };
    let tasks = core.strip_suffix("-bw-thread")?;
    let (processes, threads) = tasks.split_once('x')?;
    let today = match threads {
        "1" => format!("1x{processes}-bw-thread"),
        _ => format!("{tasks}-bw-process"),
    };
    Some(format!("{today}{twin}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the seed's two tables.
    const OF_2012: [&str; 39] = [
        "1x3-convergence",
        "1x4-convergence",
        "1x6-convergence",
        "2x3-convergence",
        "3x3-convergence",
        "4x4-convergence",
        "4x4-convergence-NOTHP",
        "4x6-convergence",
        "4x8-convergence",
        "8x4-convergence",
        "8x4-convergence-NOTHP",
        "3x1-convergence",
        "4x1-convergence",
        "8x1-convergence",
        "16x1-convergence",
        "32x1-convergence",
        "2x1-bw-process",
        "3x1-bw-process",
        "4x1-bw-process",
        "8x1-bw-process",
        "8x1-bw-process-NOTHP",
        "16x1-bw-process",
        "4x1-bw-thread",
        "8x1-bw-thread",
        "16x1-bw-thread",
        "32x1-bw-thread",
        "2x3-bw-thread",
        "4x4-bw-thread",
        "4x6-bw-thread",
        "4x8-bw-thread",
        "4x8-bw-thread-NOTHP",
        "3x3-bw-thread",
        "5x5-bw-thread",
        "2x16-bw-thread",
        "1x32-bw-thread",
        "numa02-bw",
        "numa02-bw-NOTHP",
        "numa01-bw-thread",
        "numa01-bw-thread-NOTHP",
    ];

    #[test]
    fn there_are_all_of_the_kernels_own_and_two_more() {
        let all = all();
        assert_eq!(all.len(), 45 + 2);
        let mut names: Vec<&str> = all.iter().map(|test| &test.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 47, "each name once");
        assert_eq!(all.iter().filter(|test| test.kind == Question::Convergence).count(), 16);
        assert!(all.iter().all(|test| test.options.check().is_ok()));
    }

    #[test]
    fn names_of_2012_mean_what_they_meant() {
        let all = all();
        for name in OF_2012 {
            assert!(named(name, &all).is_some(), "{name}");
        }
        let tasks = |name: &str| {
            let options = &named(name, &all).unwrap().options;
            (options.processes, options.threads, options.sizes.process, options.sizes.thread)
        };
        assert_eq!(tasks("4x1-bw-thread"), (1, 4, 0, 256 * MIB));
        assert_eq!(tasks("4x8-bw-thread-NOTHP"), (4, 8, 512 * MIB, 0));
        // Today another test has this name.
        assert_eq!(tasks("1x32-bw-thread"), (1, 32, 0, 64 * MIB));
        assert_eq!(named("9x9-bw-thread", &all), None);
        let note = |name: &str| note_on(name, &all);
        assert!(
            note("1x32-bw-thread")
                .unwrap()
                .contains("The one of 2012, with shared memory, is 1x32-bw-process")
        );
        assert_eq!(
            note("4x1-bw-thread").unwrap(),
            "4x1-bw-thread is the name of 2012 for 1x4-bw-thread"
        );
        for name in ["1x4-bw-thread", "2x1-bw-process", "numa02-bw", "9x9-bw-thread"] {
            assert_eq!(note(name), None, "{name}");
        }
    }

    #[test]
    fn suites_have_what_they_say() {
        let count = |suite: Suite| suite.tests().len();
        assert_eq!((count(Suite::Quick), count(Suite::Guest), count(Suite::Full)), (6, 8, 47));
        assert!((20..40).contains(&count(Suite::Standard)));
        for test in Suite::Guest.tests() {
            let sizes = test.options.sizes;
            let total = sizes.total(test.options.processes, test.options.threads).unwrap();
            assert!((16 * MIB..=64 * MIB).contains(&total), "{}: {total}", test.name);
            assert!(test.options.check().is_ok(), "{}", test.name);
        }
        assert_eq!(Suite::NAMES.map(|name| Suite::named(name).is_some()), [true; 4]);
        assert_eq!(Suite::named("all"), None);
    }
}
