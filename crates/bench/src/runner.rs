//! How every benchmark runs.
//!
//! ```text
//!  parameters ─► arms that work here ─► warm-up ─► rounds, each with every arm in random order ─► run file
//! ```
//! A benchmark says what its arms are and how one of them runs; the order, the folder for files, the end that the
//! user asks for, going on with a file, and keeping results are the same for all.

use std::path::{Path, PathBuf};

use pmuscope_measure::counting::Signal;
use pmuscope_measure::{Labels, Plan, Planned, RunFile, RunObserver, load};

use crate::error::BenchError;
use crate::scratch::Scratch;

/// A named benchmark.
pub trait Benchmark {
    /// One way to run.
    type Arm;

    /// What all runs have in common, for the file.
    fn parameters(&self) -> Labels;

    /// Where a folder for files of runs can be made; `None`: runs leave no files.
    fn scratch(&self) -> Option<&Path> {
        None
    }

    /// What can run here, in the order of tables. What cannot, and why, becomes a notice in the file.
    ///
    /// # Errors
    /// If nothing can be measured.
    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<Self::Arm>, BenchError>;

    /// What tells runs of an arm from others.
    fn labels(&self, arm: &Self::Arm) -> Labels;

    /// Seconds that a run of the arm takes, about; `None` where nobody knows.
    fn seconds(&self, _arm: &Self::Arm) -> Option<f64> {
        None
    }

    /// Makes one run and adds it to the file, also if it failed. False if the user broke it off.
    ///
    /// # Errors
    /// If no other run would fare better.
    fn run(
        &mut self,
        arm: &Self::Arm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError>;
}

/// What a benchmark works with.
pub struct Bench<'a> {
    /// Where results go.
    pub file: &'a mut RunFile,
    /// The user's wish to stop.
    pub stop: Signal<'a>,
    /// Who waits.
    pub watch: &'a mut dyn RunObserver,
    /// Seed of the order, and of whatever else is random.
    pub seed: u64,
    /// A folder that is empty before each run; none where [`Benchmark::scratch`] says so.
    scratch: Option<&'a Scratch>,
}

impl Bench<'_> {
    /// The folder for files of runs.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.map_or(Path::new("."), Scratch::path)
    }

    /// Empties the folder.
    pub(crate) fn clear(&self) -> Result<(), BenchError> {
        self.scratch.map_or(Ok(()), Scratch::clear)
    }

    /// Adds a notice that is not in the file yet.
    pub(crate) fn notice(&mut self, notice: String) {
        if !self.file.notices.contains(&notice) {
            self.file.notices.push(notice);
        }
    }
}

/// How often arms run.
#[derive(Debug, Clone, Default)]
pub struct Repetition {
    /// Runs of each arm that count.
    pub number: usize,
    /// Runs of each arm before, that do not.
    pub warm_up: usize,
    /// Seed of the order.
    pub seed: u64,
    /// An earlier file that is gone on with.
    pub resume: Option<PathBuf>,
}

impl Repetition {
    /// So many, in an order of this seed, or of any.
    #[must_use]
    pub fn new(number: usize, seed: Option<u64>) -> Self {
        Self { number, seed: seed.unwrap_or_else(Plan::random_seed), ..Self::default() }
    }

    /// The file that is gone on with, and the seed of its order.
    fn resume(&self, file: &mut RunFile) -> Result<u64, BenchError> {
        let Some(path) = &self.resume else { return Ok(self.seed) };
        let earlier = load(path)?;
        match earlier.seed.as_ref().and_then(|seed| seed.parse().ok()) {
            Some(seed) if earlier.parameters == file.parameters => {
                *file = earlier;
                Ok(seed)
            }
            _ => Err(BenchError::Resume { path: path.clone() }),
        }
    }
}

/// Runs a benchmark and adds its runs to `file`, but for those that it has, up to where `stop` is given; false then.
///
/// # Errors
/// If nothing can be measured, or results cannot be kept. Runs that fail are in the file, with the reason.
pub fn run<B: Benchmark>(
    benchmark: &mut B,
    rounds: &Repetition,
    file: &mut RunFile,
    stop: Signal<'_>,
    watch: &mut dyn RunObserver,
) -> Result<bool, BenchError> {
    file.parameters.extend(benchmark.parameters());
    let seed = rounds.resume(file)?;
    let scratch = benchmark.scratch().map(Scratch::new).transpose()?;
    let scratch = scratch.as_ref();
    let arms = benchmark.arms(&mut Bench { file, stop, watch, seed, scratch })?;
    let plan = Plan::new(arms.len(), rounds.number, seed);
    for planned in &Plan::new(arms.len(), rounds.warm_up, seed).runs {
        // Only what a reader should know is left of it.
        let mut unused = file.clone();
        let mut bench = Bench { file: &mut unused, stop, watch, seed, scratch };
        if stop.is_given() || !benchmark.run(&arms[planned.arm], planned, &mut bench)? {
            return Ok(false);
        }
        file.notices = unused.notices;
    }
    if stop.is_given() {
        return Ok(false);
    }
    let seconds = plan.runs.iter().map(|planned| benchmark.seconds(&arms[planned.arm])).sum();
    watch.planned(plan.runs.len(), seconds);
    let order: Vec<Labels> = arms.iter().map(|arm| benchmark.labels(arm)).collect();
    let is_made =
        |file: &RunFile, planned: &Planned| file.runs.iter().any(|run| run.order == planned.order);
    plan.make_runs(file, watch, is_made, |file, planned, watch| {
        if stop.is_given() {
            return Ok(false);
        }
        let mut bench = Bench { file, stop, watch, seed, scratch };
        match benchmark.run(&arms[planned.arm], planned, &mut bench) {
            // Programs that it runs get the user's signal too.
            Err(_) if stop.is_given() => return Ok(false),
            Ok(false) => return Ok(false),
            made => made?,
        };
        bench.clear()?;
        sort_series(bench.file, &order);
        Ok(true)
    })
}

/// Labels of an arm, or parameters of a file.
pub(crate) fn labels<const N: usize>(pairs: [(&str, String); N]) -> Labels {
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

/// What a thread came to.
pub(crate) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    // A panic of a thread is a bug; it goes on in this one.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Puts series in the order of arms, whatever the order of runs was.
fn sort_series(file: &mut RunFile, arms: &[Labels]) {
    let is_of = |arm: &Labels, labels: &Labels| arm.iter().all(|(k, v)| labels.get(k) == Some(v));
    file.series.sort_by_key(|series| arms.iter().position(|arm| is_of(arm, &series.labels)));
}

/// What a user can leave out of a benchmark by the names of its arms.
pub(crate) trait NamedArm {
    /// Name in tables and on the command line.
    fn name(&self) -> &str;
}

/// The arm that all others are compared with.
pub(crate) const BASE: &str = "BASE";

/// Those of `all` that are asked for, with the base among them; those that run unasked where none is. A name may end
/// in `*`.
///
/// # Errors
/// For a name that matches no arm.
pub(crate) fn choose<A: NamedArm + Clone>(
    asked: &[String],
    all: &[A],
    runs_unasked: impl Fn(&A) -> bool,
) -> Result<Vec<A>, BenchError> {
    let asked: Vec<String> = asked.iter().map(|name| name.to_uppercase()).collect();
    let matches = |name: &String, arm: &A| match name.strip_suffix('*') {
        Some(start) => arm.name().starts_with(start),
        None => arm.name() == name,
    };
    if let Some(name) = asked.iter().find(|name| !all.iter().any(|arm| matches(name, arm))) {
        let known: Vec<&str> = all.iter().map(NamedArm::name).collect();
        return Err(BenchError::UnknownArm { name: name.clone(), known: known.join(", ") });
    }
    let runs = |arm: &&A| match asked.is_empty() {
        true => runs_unasked(arm),
        false => arm.name() == BASE || asked.iter().any(|name| matches(name, arm)),
    };
    Ok(all.iter().filter(runs).cloned().collect())
}

/// Those of `arms` that work here, by trying each once; of the others a notice for each reason. Fewer if the user
/// says stop.
pub(crate) fn usable<A: NamedArm + Clone>(
    arms: &[A],
    bench: &mut Bench<'_>,
    mut attempt: impl FnMut(&A, &Bench<'_>) -> Result<(), String>,
) -> Result<Vec<A>, BenchError> {
    let (mut usable, mut refused) = (Vec::new(), Vec::new());
    for arm in arms {
        let result = attempt(arm, bench);
        bench.clear()?;
        if bench.stop.is_given() {
            break;
        }
        match result {
            Ok(()) => usable.push(arm.clone()),
            Err(why) => refused.push((arm.name(), why)),
        }
    }
    add_left_out(bench, "left out", &refused);
    Ok(usable)
}

/// `A, B were left out: …`, for each reason.
pub(crate) fn add_left_out(bench: &mut Bench<'_>, what: &str, refused: &[(&str, String)]) {
    for (at, (_, why)) in refused.iter().enumerate() {
        if refused[..at].iter().any(|(_, earlier)| earlier == why) {
            continue;
        }
        let of_reason = refused.iter().filter(|(_, other)| other == why);
        let names: Vec<&str> = of_reason.map(|(name, _)| *name).collect();
        let verb = if names.len() == 1 { "was" } else { "were" };
        let notice = format!("{} {verb} {what}: {why}", names.join(", "));
        bench.watch.note(&notice);
        bench.notice(notice);
    }
}
