//! Columns of a comparison: files, or the arms of a file that has several; which of their runs are pairs,
//! and which columns were measured one after the other.

use std::collections::{BTreeMap, BTreeSet};

use pmuscope_stats::{Pair, Pairs};
use serde::Serialize;

use super::figures::{GROUP, MetricValues};
use crate::arms::ARM;
use crate::run_file::{Run, RunFile};

/// Two columns with runs that were not interleaved: all of one were over before the first of the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NotInterleaved {
    /// Index of the column compared with.
    pub base: usize,
    /// Index of the other column.
    pub other: usize,
    /// Seconds from the end of the earlier one to the start of the later one.
    pub gap_s: f64,
}

/// Where a run stands among those that it can be paired with.
#[derive(Debug, Clone, Copy)]
struct PairingKey {
    /// Number of the round and group: runs of other arms with the same number are its pairs.
    pair: usize,
    /// When it was made.
    order: usize,
}

/// What is compared.
pub(super) struct Columns {
    /// Name and content of each column.
    pub(super) files: Vec<(String, RunFile)>,
    /// The command of each that is an arm.
    pub(super) arms: Vec<Option<Vec<String>>>,
    /// Which of the files given each is of.
    from: Vec<usize>,
    /// Of runs of arms, by [`Run::index`].
    places: Vec<BTreeMap<usize, PairingKey>>,
}

/// What columns are called: a file by its name, an arm by its own, after that of the file where there are
/// several files.
#[must_use]
pub fn column_names(files: &[(String, RunFile)]) -> Vec<String> {
    let one = files.len() == 1;
    let names = |(name, file): &(String, RunFile)| -> Vec<String> {
        let arm = |arm: &crate::Arm| match one {
            true => arm.name.clone(),
            false => format!("{name} {}", arm.name),
        };
        if has_arms(file) { file.arms.iter().map(arm).collect() } else { vec![name.clone()] }
    };
    files.iter().flat_map(names).collect()
}

fn has_arms(file: &RunFile) -> bool {
    file.arms.len() > 1
}

impl Columns {
    pub(super) fn new(files: &[(String, RunFile)]) -> Self {
        let mut parts: Vec<RunFile> = Vec::new();
        let (mut arms, mut from, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (_, file)) in files.iter().enumerate() {
            if !has_arms(file) {
                parts.push(file.clone());
                arms.push(None);
                from.push(at);
                places.push(BTreeMap::new());
                continue;
            }
            let pairs: BTreeSet<(usize, &str)> = file.runs.iter().filter_map(pair_of).collect();
            let pairs: Vec<(usize, &str)> = pairs.into_iter().collect();
            for arm in &file.arms {
                let part = file.part(ARM, &arm.name);
                let place = |run: &Run| {
                    let pair = pairs.binary_search(&pair_of(run)?).ok()?;
                    Some((run.index, PairingKey { pair, order: run.order }))
                };
                places.push(part.runs.iter().filter_map(place).collect());
                parts.push(part);
                arms.push(Some(arm.command.clone()));
                from.push(at);
            }
        }
        Self { files: column_names(files).into_iter().zip(parts).collect(), arms, from, places }
    }

    /// Whether all columns are arms of one file.
    pub(super) fn are_arms(&self) -> bool {
        self.arms.iter().all(Option::is_some) && self.from.last() == Some(&0)
    }

    /// The figure in runs of both columns that are pairs; `None` where the columns are not of one file.
    pub(super) fn pairs(
        &self,
        figure: &MetricValues,
        (base, other): (usize, usize),
    ) -> Option<Pairs> {
        let is_paired =
            self.from[base] == self.from[other] && !self.places[base].is_empty() && base != other;
        if !is_paired {
            return None;
        }
        let two = figure.two(base, other);
        let there: BTreeMap<usize, (PairingKey, f64)> = two
            .b
            .iter()
            .filter_map(|(run, value)| {
                let place = *self.places[other].get(run)?;
                Some((place.pair, (place, *value)))
            })
            .collect();
        let pair = |(run, a): &(usize, f64)| {
            let here = self.places[base].get(run)?;
            let (there, b) = there.get(&here.pair)?;
            let lag = there.order as f64 - here.order as f64;
            Some(Pair { number: here.pair, a: *a, b: *b, lag })
        };
        let mut list: Vec<Pair> = two.a.iter().filter_map(pair).collect();
        list.sort_by_key(|pair| pair.number);
        Some(Pairs { list, resolution: two.resolution })
    }

    /// Of these pairs of columns, those that were measured one after the other.
    pub(super) fn apart(&self, pairs: &[(usize, usize)]) -> Vec<NotInterleaved> {
        let spans: Vec<Option<(f64, f64)>> =
            self.files.iter().map(|(_, file)| span(&file.runs)).collect();
        let gap = |&(base, other): &(usize, usize)| {
            let ((a, b), (c, d)) = (spans[base]?, spans[other]?);
            let gap_s = f64::max(a - d, c - b);
            (self.from[base] != self.from[other] && gap_s >= 0.0).then_some(NotInterleaved {
                base,
                other,
                gap_s,
            })
        };
        pairs.iter().filter_map(gap).collect()
    }
}

/// The round and the group of events that a run is of: what pairs have in common.
fn pair_of(run: &Run) -> Option<(usize, &str)> {
    Some((run.round?, run.labels.get(GROUP).map_or("", |group| group)))
}

/// Seconds since 1970 of the start of the first run and the end of the last; `None` where one has no time.
fn span(runs: &[Run]) -> Option<(f64, f64)> {
    let of = |run: &Run| {
        // 2^53 ns are a hundred days: rounding is a microsecond at most.
        let start = run.started.parse::<u64>().ok().filter(|ns| *ns > 0)? as f64 / 1e9;
        Some((start, start + run.duration_s))
    };
    let all = runs.iter().map(of).collect::<Option<Vec<(f64, f64)>>>()?;
    all.into_iter().reduce(|(start, end), (a, b)| (start.min(a), end.max(b)))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::compare::{Options, Verdict, compare};
    use crate::{Arm, Labels, Origin, Plan, Program};

    /// A sweep of two groups over two arms in four rounds; `cycles` in all runs, `a` and `b` in a group each.
    fn sweep(lost: Option<usize>) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        file.arms = ["A", "B"].map(|name| Arm { name: name.into(), command: vec![] }).into();
        for planned in &Plan::interleaved(2, 2, 4, 1).runs {
            let (group, arm) = (planned.arm / 2, ["A", "B"][planned.arm % 2]);
            let of_arm = Labels::from([(ARM.to_owned(), arm.to_owned())]);
            let mut labels = of_arm.clone();
            labels.insert(GROUP.to_owned(), (group + 1).to_string());
            file.runs.push(Run {
                index: planned.order,
                order: planned.order,
                round: Some(planned.round),
                labels,
                started: (1_000_000_000 * (planned.order as u64 + 1)).to_string(),
                duration_s: 0.5,
                exit: Some(i32::from(lost == Some(planned.order))),
                why: None,
                units: BTreeMap::new(),
            });
            // Each pair has a level of its own, and each run more than the one before.
            let level = 1e6 * (planned.round * 2 + group + 1) as f64 + 1e4 * planned.order as f64;
            let effect = if arm == "B" { 5e3 } else { 0.0 };
            let kind = ("", Origin::Hardware);
            for name in ["cycles", ["a", "b"][group]] {
                file.add(planned.order, &of_arm, name, kind, Ok(level + effect));
            }
        }
        file
    }

    #[test]
    fn runs_are_paired_by_round_and_group() {
        let files = [("ab.json".to_owned(), sweep(None))];
        let got = compare(&files, &Options::default()).unwrap();
        let names: Vec<&str> = got.files.iter().map(|file| &*file.name).collect();
        assert_eq!((names, got.base), (vec!["A", "B"], Some(0)));
        for (metric, pairs) in [("cycles", 8), ("a", 4), ("b", 4)] {
            let row = got.rows.iter().find(|row| row.metric == metric).unwrap();
            let difference = row.pairs[0].difference.unwrap();
            assert_eq!((row.pairs[0].paired, difference.n), (true, pairs));
            assert!((difference.value - 5e3).abs() < 1e-3, "{difference:?}");
        }
        assert_eq!(got.not_interleaved, []);
    }

    #[test]
    fn a_run_that_failed_has_no_pair() {
        let files = [("ab.json".to_owned(), sweep(Some(5)))];
        let got = compare(&files, &Options::default()).unwrap();
        let cycles = &got.rows[0];
        assert_eq!(cycles.pairs[0].difference.unwrap().n, 7);
        let runs: usize = cycles.columns.iter().flatten().map(|c| c.mean.unwrap().n).sum();
        assert_eq!(runs, 15);
    }

    #[test]
    fn arms_of_different_files_are_not_paired() {
        let mut later = sweep(None);
        for run in &mut later.runs {
            run.started = (run.started.parse::<u64>().unwrap() + 100_000_000_000).to_string();
        }
        let files = [("x.json".to_owned(), sweep(None)), ("y.json".to_owned(), later)];
        assert_eq!(column_names(&files), ["x.json A", "x.json B", "y.json A", "y.json B"]);
        let got = compare(&files, &Options::default()).unwrap();
        let pairs = &got.rows[0].pairs;
        let paired: Vec<(usize, usize)> =
            pairs.iter().filter(|pair| pair.paired).map(|pair| (pair.base, pair.other)).collect();
        assert_eq!(paired, [(0, 1), (2, 3)]);
        assert!(pairs.iter().all(|pair| pair.verdict != Verdict::Unmeasured));
        let apart: Vec<(usize, usize)> =
            got.not_interleaved.iter().map(|one| (one.base, one.other)).collect();
        assert_eq!(apart, [(0, 2), (0, 3), (1, 2), (1, 3)]);
        assert!((got.not_interleaved[0].gap_s - 84.5).abs() < 2.0, "{:?}", got.not_interleaved);
    }

    #[test]
    fn files_with_runs_that_overlap_or_have_no_time_are_not_apart() {
        let (mut early, mut late) = (sweep(None).part(ARM, "A"), sweep(None).part(ARM, "B"));
        let apart = |a: &RunFile, b: &RunFile| {
            let files = [("a".to_owned(), a.clone()), ("b".to_owned(), b.clone())];
            compare(&files, &Options::default()).unwrap().not_interleaved.len()
        };
        (early.arms, late.arms) = (Vec::new(), Vec::new());
        assert_eq!(apart(&early, &late), 0, "they alternate");
        late.runs.iter_mut().for_each(|run| run.started = "900000000000".into());
        assert_eq!(apart(&early, &late), 1);
        late.runs[0].started = "0".into();
        assert_eq!(apart(&early, &late), 0, "a run without time");
    }
}
