//! Files of runs made by hand, for the tests of tables, lines and charts of counts.

use std::collections::BTreeMap;

use pmuscope_measure::counting::INTERVAL;
use pmuscope_measure::{Labels, Program, Run, RunFile};

/// A file without runs.
pub(crate) fn empty_file() -> RunFile {
    let tool = Program { name: "t".into(), version: "1".into() };
    RunFile::new(tool, vec![], std::time::UNIX_EPOCH)
}

/// A run of half a second, or an interval of one run that ends at `until`, seconds.
pub(crate) fn sample_run(index: usize, until: Option<f64>) -> Run {
    let label = until.map(|until| (INTERVAL.to_owned(), format!("{until:.9}")));
    Run {
        index,
        order: if until.is_some() { 0 } else { index },
        round: None,
        labels: Labels::from_iter(label),
        started: "0".into(),
        duration_s: 0.5,
        exit: Some(0),
        why: None,
        units: BTreeMap::new(),
    }
}
