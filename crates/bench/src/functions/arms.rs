//! The arms of `bench functions`, as data: who records the mix, and in which windows.

use pmuscope_measure::Labels;

use crate::error::BenchError;
use crate::recording::Recorder;
use crate::runner::{self, BASE, NamedArm};

/// Label that tells arms apart.
pub const ARM: &str = pmuscope_measure::arms::ARM;
/// Label of what is of one function.
pub const FUNCTION: &str = "function";
/// The truth: each function alone.
pub const PURE: &str = "PURE";

/// How samples are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windows {
    /// None are taken.
    None,
    /// From each sample to the next, this many cycles later.
    BackToBack(u64),
    /// Of so many cycles, one in each period.
    Strobe(u64),
}

/// One way to run the mix, or a function alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionsArm {
    /// Name in tables and on the command line.
    pub name: String,
    /// Who records.
    pub recorder: Recorder,
    /// In which windows.
    pub windows: Windows,
    /// The function that runs alone; `None`: the mix.
    pub only: Option<&'static str>,
}

impl FunctionsArm {
    fn new(name: impl Into<String>, recorder: Recorder, windows: Windows) -> Self {
        Self { name: name.into(), recorder, windows, only: None }
    }

    /// A function alone, recorded so rarely that it is hardly disturbed.
    pub(super) fn pure(function: &'static str, period: u64) -> Self {
        let windows = Windows::BackToBack(period);
        Self { only: Some(function), ..Self::new(PURE, Recorder::Pmuscope, windows) }
    }

    /// Labels of its runs.
    pub fn labels(&self) -> Labels {
        let mut labels = Labels::from([(ARM.to_owned(), self.name.clone())]);
        if let Some(function) = self.only {
            labels.insert(FUNCTION.to_owned(), function.to_owned());
        }
        labels
    }
}

impl NamedArm for FunctionsArm {
    fn name(&self) -> &str {
        &self.name
    }
}

/// All arms of the mix: without a recorder, plain sampling, strobe with each of these windows, perf.
pub fn all(period: u64, windows: &[u64]) -> Vec<FunctionsArm> {
    use Recorder::{Nothing, Perf, Pmuscope};
    use Windows::{BackToBack, Strobe};
    let mut arms = vec![FunctionsArm::new(BASE, Nothing, Windows::None)];
    let plain = |prefix: &str, recorder| {
        let long = FunctionsArm::new(format!("{prefix}LONG"), recorder, BackToBack(period));
        let short = [1000, 300];
        let short =
            short.map(|p| FunctionsArm::new(format!("{prefix}{p}"), recorder, BackToBack(p)));
        std::iter::once(long).chain(short)
    };
    arms.extend(plain("PLAIN-", Pmuscope));
    let strobe = |&w: &u64| FunctionsArm::new(format!("STROBE-{w}"), Pmuscope, Strobe(w));
    arms.extend(windows.iter().map(strobe));
    arms.extend(plain("PERF-", Perf));
    arms
}

/// Those of `all` that are named, with the base always among them; all where nothing is. A name may
/// end in `*`.
///
/// # Errors
/// For a name that matches no arm.
pub fn choose(asked: &[String], all: &[FunctionsArm]) -> Result<Vec<FunctionsArm>, BenchError> {
    runner::choose(asked, all, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let arms = choose(&asked, &all(1_000_000, &[300, 3000])).unwrap();
        arms.into_iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn all_ways_are_there_and_can_be_chosen() {
        let plain = ["BASE", "PLAIN-LONG", "PLAIN-1000", "PLAIN-300", "STROBE-300", "STROBE-3000"];
        assert_eq!(names(&[])[..6], plain);
        assert_eq!(names(&[])[6..], ["PERF-LONG", "PERF-1000", "PERF-300"]);
        assert_eq!(names(&["strobe-*"]), ["BASE", "STROBE-300", "STROBE-3000"]);
        let error = choose(&["STROBE-7".to_owned()], &all(1, &[300])).unwrap_err().to_string();
        assert!(error.starts_with("unknown arm STROBE-7. Try: BASE, PLAIN-LONG"), "{error}");
    }

    #[test]
    fn what_is_of_one_function_says_which() {
        let labels = FunctionsArm::pure("nops", 1000).labels();
        assert_eq!(labels.into_values().collect::<Vec<_>>(), ["PURE", "nops"]);
    }
}
