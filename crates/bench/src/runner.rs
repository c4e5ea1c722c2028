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
    /// Number of rounds, and the seed of their order; `None`: any seed.
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use pmuscope_measure::{MeasureError, Program, RunDone};

    use super::*;

    /// Two arms, of which each run says so in a notice.
    struct Two;

    impl Benchmark for Two {
        type Arm = &'static str;

        fn parameters(&self) -> Labels {
            labels([("size", "3".to_owned())])
        }

        fn arms(&mut self, _: &mut Bench<'_>) -> Result<Vec<Self::Arm>, BenchError> {
            Ok(vec!["b", "a"])
        }

        fn labels(&self, arm: &Self::Arm) -> Labels {
            labels([("arm", (*arm).to_owned())])
        }

        fn seconds(&self, _: &Self::Arm) -> Option<f64> {
            Some(0.5)
        }

        fn run(
            &mut self,
            arm: &Self::Arm,
            planned: &Planned,
            bench: &mut Bench<'_>,
        ) -> Result<bool, BenchError> {
            bench.notice(format!("{arm} ran"));
            let took = (std::time::UNIX_EPOCH, 0.5);
            bench.file.add_timed(planned, self.labels(arm), took, ("unit", 1.0));
            Ok(true)
        }
    }

    #[derive(Default)]
    struct Seen {
        planned: Option<(usize, Option<f64>)>,
        done: usize,
    }

    impl RunObserver for Seen {
        fn planned(&mut self, runs: usize, seconds: Option<f64>) {
            self.planned = Some((runs, seconds));
        }
        fn done(&mut self, _: &RunDone<'_>) {
            self.done += 1;
        }
        fn failed(&mut self, _: u8, _: &str) {}
        fn keep(&mut self, _: &RunFile) -> Result<(), MeasureError> {
            Ok(())
        }
    }

    fn file() -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        RunFile::new(tool, vec![], std::time::UNIX_EPOCH)
    }

    /// Runs what is left, with the user's wish to stop or without; what is in the file then, and what was seen.
    fn made(
        rounds: &Repetition,
        file: &mut RunFile,
        stops: bool,
    ) -> (Result<bool, BenchError>, Seen) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        if stops {
            rustix::io::write(&writer, b"x").unwrap();
        }
        let mut seen = Seen::default();
        (run(&mut Two, rounds, file, Signal(reader.as_fd()), &mut seen), seen)
    }

    #[test]
    fn every_arm_runs_in_each_round_and_warm_up_leaves_only_notices() {
        let (mut file, rounds) = (file(), Repetition::new(3, Some(7)));
        let rounds = Repetition { warm_up: 2, ..rounds };
        let (whole, seen) = made(&rounds, &mut file, false);
        assert!(whole.unwrap());
        assert_eq!((seen.planned, seen.done), (Some((6, Some(3.0))), 6));
        assert_eq!((file.runs.len(), file.seed.as_deref()), (6, Some("7")));
        assert_eq!(file.notices.len(), 2);
        let arms: Vec<&str> = file.series.iter().map(|series| &*series.labels["arm"]).collect();
        assert_eq!(arms, ["b", "a"], "the order of arms, not of runs or letters");
    }

    #[test]
    fn who_says_stop_gets_what_is_there() {
        let mut file = file();
        let (whole, seen) = made(&Repetition::new(3, None), &mut file, true);
        assert!(!whole.unwrap());
        assert_eq!((file.runs.len(), seen.planned), (0, None));
    }

    #[test]
    fn a_file_is_gone_on_with_if_it_is_of_the_same_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.json");
        let mut earlier = file();
        made(&Repetition::new(2, Some(7)), &mut earlier, false).0.unwrap();
        earlier.runs.truncate(1);
        earlier.series.iter_mut().for_each(|series| series.values.retain(|value| value.run == 0));
        let write = |file: &RunFile| {
            std::fs::write(&path, serde_json::to_vec(file).unwrap()).unwrap();
        };
        write(&earlier);
        let rounds = Repetition { resume: Some(path.clone()), ..Repetition::new(2, Some(9)) };
        let mut file = file();
        let (whole, seen) = made(&rounds, &mut file, false);
        assert!(whole.unwrap());
        assert_eq!((seen.done, file.runs.len(), file.seed.as_deref()), (3, 4, Some("7")));
        assert_eq!(file.runs[0], earlier.runs[0]);
        earlier.parameters.insert("size".into(), "4".into());
        write(&earlier);
        let error = made(&rounds, &mut super::tests::file(), false).0.unwrap_err();
        assert!(
            error.is_of_request() && error.to_string().contains("it has other tests"),
            "{error}"
        );
    }
}
