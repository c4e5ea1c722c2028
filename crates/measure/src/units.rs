//! Units of work of a program that knows nothing of us: packets, requests, rows, and where their number
//! is to be had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::extract::Extract;
use crate::run_file::RunFile;

/// Longest file of numbers that is read, bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// Where the number of units of a run comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// It is always the same: `--per packet=10e6`.
    Number(f64),
    /// The program prints it: `--per-from 'request=handled ([0-9]+) requests'`.
    Output(Extract),
    /// An event's count is it: `--per-event write=syscalls:sys_enter_write`.
    Event {
        /// As typed.
        typed: String,
        /// What the events that this became are called in the run file; see [`Units::name_events`].
        names: Vec<String>,
    },
}

/// A unit of work.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Where its number comes from.
    pub source: Source,
}

/// Units of work that a run may have done.
#[derive(Debug, Clone, Default)]
pub struct Units {
    /// Each with its source.
    pub list: Vec<Unit>,
    /// Files that the program writes, with lines `NAME=NUMBER`; each name is a unit.
    pub files: Vec<PathBuf>,
}

impl Units {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.files.is_empty()
    }

    /// Whether the program's output is needed.
    #[must_use]
    pub fn need_output(&self) -> bool {
        self.list.iter().any(|unit| matches!(unit.source, Source::Output(_)))
    }

    /// Events that are units, as typed.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|unit| match &unit.source {
            Source::Event { typed, .. } => Some(&typed[..]),
            _ => None,
        })
    }

    /// Whether some are told of a whole run only, not of a part of its time.
    #[must_use]
    pub fn are_of_whole_runs(&self) -> bool {
        let is_event = |unit: &Unit| matches!(unit.source, Source::Event { .. });
        !self.files.is_empty() || !self.list.iter().all(is_event)
    }

    /// Says under which names events that are units are counted: `named` has them by what was typed.
    pub fn name_events(&mut self, named: impl Fn(&str) -> Vec<String>) {
        for unit in &mut self.list {
            if let Source::Event { typed, names } = &mut unit.source {
                *names = named(typed);
            }
        }
    }

    /// Removes what an earlier run wrote, so that it does not count for the next one.
    pub fn forget_files(&self) {
        for path in &self.files {
            // Where it is not there or stays, reading it after the run tells.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Gives run `run` of `file` its units. What could not be told is returned, a sentence each.
    pub fn count(&self, file: &mut RunFile, run: usize, output: &str) -> Vec<String> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for unit in &self.list {
            let number = match &unit.source {
                Source::Number(number) => Ok(*number),
                Source::Output(extract) => extract.find(output),
                Source::Event { typed, names } => of_event(file, run, (typed, names)),
            };
            match number {
                Ok(number) if number.is_finite() && number > 0.0 => {
                    found.insert(unit.name.clone(), number);
                }
                Ok(number) => missing.push(format!("run {run} did {number} of {}", unit.name)),
                Err(why) => missing.push(format!("number of {} in run {run}: {why}", unit.name)),
            }
        }
        for path in &self.files {
            match read(path) {
                Ok(numbers) => found.extend(numbers),
                Err(why) => missing.push(format!("--per-file {}: {why}", path.display())),
            }
        }
        if let Some(run) = file.runs.get_mut(run) {
            run.units = found;
        }
        missing
    }
}

/// The count of an event over all parts, and all units that count it.
fn of_event(file: &RunFile, run: usize, (typed, names): (&str, &[String])) -> Result<f64, String> {
    let values = file
        .series
        .iter()
        .filter(|series| names.contains(&series.metric))
        .flat_map(|series| series.values.iter().filter(|value| value.run == run));
    let mut sum = None;
    for value in values {
        let number = value.value.ok_or_else(|| value.why.clone().unwrap_or_default())?;
        sum = Some(sum.unwrap_or(0.0) + number);
    }
    sum.ok_or_else(|| format!("{typed} was not counted"))
}

/// Lines `NAME=NUMBER`, `NAME: NUMBER` or `NAME NUMBER`; others are passed over.
fn read(path: &Path) -> Result<BTreeMap<String, f64>, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > LONGEST_FILE {
        return Err(format!("{length} bytes are more than a few numbers need"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line = |line: &str| {
        let (name, number) = line.trim().split_once(['=', ':', ' ', '\t'])?;
        let number: f64 = number.trim_matches(['=', ':', ' ', '\t']).parse().ok()?;
        (number.is_finite() && number > 0.0).then(|| (name.trim().to_owned(), number))
    };
    let numbers: BTreeMap<String, f64> = text.lines().filter_map(line).collect();
    if numbers.is_empty() {
        return Err("no line such as packet=10000000 is in it".to_owned());
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, Origin, Program, Run};

    fn file() -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        file.runs.push(Run {
            index: 0,
            order: 0,
            round: None,
            labels: Labels::new(),
            started: "0".into(),
            duration_s: 1.0,
            exit: Some(0),
            why: None,
            units: BTreeMap::new(),
        });
        for cpu in ["0", "1"] {
            let labels = Labels::from([("cpu".to_owned(), cpu.to_owned())]);
            file.add(0, &labels, "net:netif_rx", ("", Origin::Software), Ok(20.0));
        }
        file
    }

    #[test]
    fn units_come_from_flags_output_files_and_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("units");
        std::fs::write(&path, "packets: 10e6\nname=none\nrows 7\n").unwrap();
        let unit = |name: &str, source| Unit { name: name.to_owned(), source };
        let event = |typed: &str, names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            Source::Event { typed: typed.into(), names }
        };
        let pattern = Extract::named("request=handled ([0-9.]+) requests").unwrap();
        let units = Units {
            list: vec![
                unit("loop", Source::Number(5.0)),
                unit("request", Source::Output(pattern)),
                unit("frame", event("netif_rx", &["net:netif_rx"])),
                unit("lost", event("dummy", &[])),
            ],
            files: vec![path.clone(), folder.path().join("absent")],
        };
        assert!(units.need_output());
        let mut file = file();
        let missing = units.count(&mut file, 0, "handled 1234 requests\n");
        let found: Vec<(&str, f64)> =
            file.runs[0].units.iter().map(|(name, number)| (&name[..], *number)).collect();
        let expected =
            [("frame", 40.0), ("loop", 5.0), ("packets", 10e6), ("request", 1234.0), ("rows", 7.0)];
        assert_eq!(found, expected);
        assert_eq!(missing[0], "number of lost in run 0: dummy was not counted");
        assert!(missing[1].contains("absent: No such file"), "{missing:?}");
        units.forget_files();
        assert!(!path.exists());
    }
}
