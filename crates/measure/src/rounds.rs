//! The runs of a plan, one after the other: each is kept as soon as it is made, and whoever waits hears how
//! far it is.

use std::time::Instant;

use crate::error::MeasureError;
use crate::plan::{Plan, Planned};
use crate::run_file::{Run, RunFile};

/// A run is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunDone<'a> {
    /// How many are.
    pub runs: usize,
    /// Of how many.
    pub of: usize,
    /// What it was, how long it took and how it ended.
    pub run: &'a Run,
    /// Seconds that the others will take, about.
    pub left_s: f64,
}

/// Whoever waits for the results.
pub trait RunObserver {
    /// Something to know before the first run: a sentence.
    fn note(&mut self, _text: &str) {}
    /// How many runs are to come, and about how many seconds they will take; `None` where that is not known.
    fn planned(&mut self, _runs: usize, _seconds: Option<f64>) {}
    /// A run is over.
    fn done(&mut self, done: &RunDone<'_>);
    /// A run failed: its exit status, and the end of what it printed.
    fn failed(&mut self, exit: u8, output: &str);
    /// The results so far.
    ///
    /// # Errors
    /// If they cannot be kept; no more runs are made.
    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError>;
}

impl Plan {
    /// Makes the runs in their order, but for those that `file` has by `is_made`. `make` adds one to the file,
    /// or nothing and false if it was broken off or none is to be made any more: then the others are not made
    /// either. False if there are some left.
    ///
    /// # Errors
    /// Those of `make`, or if results cannot be kept.
    pub fn make_runs<E: From<MeasureError>>(
        &self,
        file: &mut RunFile,
        watch: &mut dyn RunObserver,
        is_made: impl Fn(&RunFile, &Planned) -> bool,
        mut make: impl FnMut(&mut RunFile, &Planned, &mut dyn RunObserver) -> Result<bool, E>,
    ) -> Result<bool, E> {
        file.seed = Some(self.seed.to_string());
        let todo: Vec<&Planned> = self.runs.iter().filter(|one| !is_made(file, one)).collect();
        let (clock, before_s) = (Instant::now(), file.duration_s);
        for (number, planned) in todo.iter().enumerate() {
            if !make(file, planned, watch)? {
                return Ok(false);
            }
            let so_far = clock.elapsed().as_secs_f64();
            file.duration_s = before_s + so_far;
            watch.keep(file)?;
            let Some(run) = file.runs.last() else { continue };
            let left = todo.len() - number - 1;
            watch.done(&RunDone {
                runs: self.runs.len() - left,
                of: self.runs.len(),
                run,
                left_s: so_far / (number + 1) as f64 * left as f64,
            });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, Program};

    #[derive(Default)]
    struct Seen {
        done: Vec<(usize, usize, i32)>,
        kept: Vec<usize>,
    }

    impl RunObserver for Seen {
        fn done(&mut self, done: &RunDone<'_>) {
            self.done.push((done.runs, done.of, done.run.exit.unwrap()));
        }
        fn failed(&mut self, _exit: u8, _output: &str) {}
        fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
            self.kept.push(file.runs.len());
            Ok(())
        }
    }

    fn is_made(file: &RunFile, planned: &Planned) -> bool {
        file.runs.iter().any(|run| run.order == planned.order)
    }

    /// Makes runs up to where there are `most`.
    fn make(plan: &Plan, file: &mut RunFile, most: usize) -> (bool, Seen) {
        let mut seen = Seen::default();
        let add = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
            if file.runs.len() == most {
                return Ok::<_, MeasureError>(false);
            }
            let labels = Labels::from([("arm".to_owned(), planned.arm.to_string())]);
            file.add_run(planned, labels, (std::time::UNIX_EPOCH, 1.0));
            Ok(true)
        };
        let whole = plan.make_runs(file, &mut seen, is_made, add).unwrap();
        (whole, seen)
    }

    #[test]
    fn what_is_broken_off_is_gone_on_with_in_the_same_order() {
        let plan = Plan::new(2, 3, 7);
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let (whole, seen) = make(&plan, &mut file, 4);
        assert_eq!((whole, file.seed.as_deref()), (false, Some("7")));
        assert_eq!((seen.kept, seen.done[3]), (vec![1, 2, 3, 4], (4, 6, 0)));
        let (whole, seen) = make(&plan, &mut file, 100);
        assert_eq!((whole, seen.done), (true, vec![(5, 6, 0), (6, 6, 0)]));
        let arms: Vec<String> = plan.runs.iter().map(|run| run.arm.to_string()).collect();
        let made: Vec<String> = file.runs.iter().map(|run| run.labels["arm"].clone()).collect();
        assert_eq!(made, arms);
        let (whole, seen) = make(&plan, &mut file, 100);
        assert!(whole && seen.done.is_empty(), "nothing is made twice");
    }
}
