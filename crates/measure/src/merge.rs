//! Run files of parts put together, and taken apart again by a label.

use crate::run_file::{Labels, Run, RunFile, Series, Timeline};

impl RunFile {
    /// Adds all runs and figures of `part`, each with `labels` besides its own. Its rounds follow those
    /// that are here, so that runs of one round stay together.
    pub fn absorb(&mut self, part: RunFile, labels: &Labels) {
        let base = self.runs.iter().map(|run| run.index + 1).max().unwrap_or(0);
        let order = self.runs.len();
        let rounds = |run: &Run| run.labels == *labels || has_all(&run.labels, labels);
        let round = self.runs.iter().filter(|run| rounds(run)).filter_map(|run| run.round).max();
        let round = round.map_or(0, |last| last + 1);
        let with = |own: Labels| own.into_iter().chain(labels.clone()).collect::<Labels>();
        for run in part.runs {
            self.runs.push(Run {
                index: base + run.index,
                order: order + run.order,
                round: Some(round + run.round.unwrap_or(0)),
                labels: with(run.labels),
                ..run
            });
        }
        for timeline in part.timelines {
            self.timelines.push(Timeline { run: base + timeline.run, ..timeline });
        }
        for series in part.series {
            let labels = with(series.labels);
            let values = series.values.into_iter().map(|mut value| {
                value.run += base;
                value
            });
            let same = |known: &&mut Series| {
                known.metric == series.metric
                    && known.labels == labels
                    && known.origin == series.origin
            };
            match self.series.iter_mut().find(same) {
                Some(known) => known.values.extend(values),
                None => self.series.push(Series {
                    labels,
                    metric: series.metric,
                    unit: series.unit,
                    origin: series.origin,
                    values: values.collect(),
                }),
            }
        }
    }

    /// The runs and figures whose label `key` is `value`, without that label.
    #[must_use]
    pub fn part(&self, key: &str, value: &str) -> RunFile {
        let is = |labels: &Labels| labels.get(key).is_some_and(|known| known == value);
        let mut part = self.clone();
        part.runs.retain(|run| is(&run.labels));
        part.series.retain(|series| is(&series.labels));
        let runs: Vec<usize> = part.runs.iter().map(|run| run.index).collect();
        part.timelines.retain(|timeline| runs.contains(&timeline.run));
        part.runs.iter_mut().for_each(|run| drop(run.labels.remove(key)));
        part.series.iter_mut().for_each(|series| drop(series.labels.remove(key)));
        part
    }
}

fn has_all(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Origin, Program};
    use std::time::UNIX_EPOCH;

    fn empty() -> RunFile {
        RunFile::new(Program { name: "t".into(), version: "1".into() }, vec![], UNIX_EPOCH)
    }

    fn labels(key: &str, value: &str) -> Labels {
        Labels::from([(key.to_owned(), value.to_owned())])
    }

    /// Two rounds of one arm.
    fn part(seconds: f64) -> RunFile {
        let mut file = empty();
        for index in 0..2 {
            file.runs.push(Run {
                index,
                order: index,
                round: Some(index),
                labels: labels("arm", "BASE"),
                started: "0".into(),
                duration_s: seconds,
                exit: Some(0),
                why: None,
                units: Default::default(),
            });
            file.add(index, &labels("arm", "BASE"), "time", ("s", Origin::Program), Ok(seconds));
            file.timelines.push(Timeline { run: index, ..Timeline::default() });
        }
        file
    }

    #[test]
    fn parts_come_apart_as_they_were_put_together() {
        let mut whole = empty();
        for (cell, seconds) in [("a", 1.0), ("b", 2.0), ("a", 3.0)] {
            whole.absorb(part(seconds), &labels("cell", cell));
        }
        let indices: Vec<usize> = whole.runs.iter().map(|run| run.index).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4, 5]);
        let a = whole.part("cell", "a");
        assert_eq!(a.runs.iter().map(|r| r.round.unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(a.series.len(), 1);
        assert_eq!(a.series[0].labels, labels("arm", "BASE"));
        assert_eq!(a.series[0].numbers(), [1.0, 1.0, 3.0, 3.0]);
        assert!(a.series[0].values.iter().all(|v| a.runs.iter().any(|r| r.index == v.run)));
        assert_eq!(a.timelines.iter().map(|t| t.run).collect::<Vec<_>>(), [0, 1, 4, 5]);
        assert_eq!(whole.part("cell", "c").runs.len(), 0);
    }
}
