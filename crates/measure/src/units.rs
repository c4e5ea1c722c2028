//! Units of work of a program that knows nothing of us: packets, requests, rows, and where their number
//! is to be had.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::extract::Extract;
use crate::run_file::{Origin, RunFile};

/// Longest file of numbers that is read, bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// The kernel's tick at 100 Hz, twice. A file server's clock may be later than ours: it is not waited for.
const LONGEST_TICK: Duration = Duration::from_millis(20);

/// Where the number of units of a run comes from.
#[derive(Debug, Clone)]
pub enum UnitSource {
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
    pub source: UnitSource,
}

/// Units of work that a run may have done, and what its program tells of itself.
#[derive(Debug, Clone, Default)]
pub struct Units {
    /// Each with its source.
    pub list: Vec<Unit>,
    /// Files that the program writes, with lines `NAME=NUMBER`; each name is a unit.
    pub files: Vec<PathBuf>,
    /// Figures that the program prints.
    pub figures: Vec<Extract>,
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
        let is_printed = |unit: &Unit| matches!(unit.source, UnitSource::Output(_));
        !self.figures.is_empty() || self.list.iter().any(is_printed)
    }

    /// Events that are units, as typed.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|unit| match &unit.source {
            UnitSource::Event { typed, .. } => Some(&typed[..]),
            _ => None,
        })
    }

    /// Whether some are told of a whole run only, not of a part of its time.
    #[must_use]
    pub fn are_of_whole_runs(&self) -> bool {
        let is_event = |unit: &Unit| matches!(unit.source, UnitSource::Event { .. });
        !self.files.is_empty() || !self.figures.is_empty() || !self.list.iter().all(is_event)
    }

    /// Says under which names events that are units are counted: `named` has them by what was typed.
    pub fn name_events(&mut self, named: impl Fn(&str) -> Vec<String>) {
        for unit in &mut self.list {
            if let UnitSource::Event { typed, names } = &mut unit.source {
                *names = named(typed);
            }
        }
    }

    /// What files of numbers say before a run, `of_command` where a command is run that writes them; else a
    /// process that runs already does. No file is removed or changed: it may be anybody's.
    #[must_use]
    pub fn before(&self, of_command: bool) -> Before {
        let one = |path: &PathBuf| {
            if of_command {
                FileBefore::Version(Version::settled(path))
            } else if path.exists() {
                FileBefore::Numbers(read(path))
            } else {
                FileBefore::Numbers(Ok(BTreeMap::new()))
            }
        };
        Before { files: self.files.iter().map(one).collect() }
    }

    /// Gives run `run` of `file` its units and figures. What is not known is returned, a sentence each.
    pub fn count(
        &self,
        file: &mut RunFile,
        run: usize,
        output: &str,
        before: &Before,
    ) -> Vec<String> {
        let arm = file.arm_of(run);
        for figure in &self.figures {
            let kind = (figure.unit.as_str(), Origin::Program);
            file.add(run, &arm, &figure.metric, kind, figure.find(output));
        }
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for unit in &self.list {
            let number = match &unit.source {
                UnitSource::Number(number) => Ok(*number),
                UnitSource::Output(extract) => extract.find(output),
                UnitSource::Event { typed, names } => of_event(file, run, (typed, names)),
            };
            match number {
                Ok(number) if number.is_finite() && number > 0.0 => {
                    found.insert(unit.name.clone(), number);
                }
                Ok(number) => missing.push(format!("run {run} reported {number} of {}", unit.name)),
                Err(why) => missing.push(format!("no number of {} in run {run}: {why}", unit.name)),
            }
        }
        for (path, before) in self.files.iter().zip(&before.files) {
            match before.work(path) {
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

/// What files of numbers said before a run ([`Units::before`]).
#[derive(Debug, Clone)]
pub struct Before {
    /// In the order of [`Units::files`].
    files: Vec<FileBefore>,
}

#[derive(Debug, Clone)]
enum FileBefore {
    /// A command writes it anew in each run.
    Version(Option<Version>),
    /// A process keeps its totals in it, from which a run takes the difference.
    Numbers(Result<BTreeMap<String, f64>, String>),
}

impl FileBefore {
    /// The work of the run that has ended since.
    fn work(&self, path: &Path) -> Result<BTreeMap<String, f64>, String> {
        match self {
            Self::Version(before) => {
                if before.is_some() && *before == Version::of(path) {
                    let why = "the run did not write it; the file is older than the run";
                    return Err(why.to_owned());
                }
                read(path)
            }
            Self::Numbers(before) => {
                let before = before.as_ref().map_err(Clone::clone)?;
                let growth = |(name, after): (String, f64)| {
                    let first = before.get(&name).copied().unwrap_or(0.0);
                    if after <= first {
                        return Err(format!("{name} did not increase: {first}, then {after}"));
                    }
                    Ok((name, after - first))
                };
                read(path)?.into_iter().map(growth).collect()
            }
        }
    }
}

/// Which state of which file: anybody who writes to it makes another one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Version {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            length: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    /// As [`Version::of`], once a change would get a later time: the kernel stamps files by its ticks, so what a
    /// short run writes could have the time of the version before.
    fn settled(path: &Path) -> Option<Self> {
        let version = Self::of(path)?;
        let tick = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
            (now.tv_sec, now.tv_nsec)
        };
        let end = Instant::now() + LONGEST_TICK;
        while tick() <= version.changed && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self::of(path)
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
        return Err(format!("it is too large ({length} bytes)"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line = |line: &str| {
        let (name, number) = line.trim().split_once(['=', ':', ' ', '\t'])?;
        let number: f64 = number.trim_matches(['=', ':', ' ', '\t']).parse().ok()?;
        (number.is_finite() && number > 0.0).then(|| (name.trim().to_owned(), number))
    };
    let numbers: BTreeMap<String, f64> = text.lines().filter_map(line).collect();
    if numbers.is_empty() {
        return Err("it has no line such as packet=10000000".to_owned());
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
            UnitSource::Event { typed: typed.into(), names }
        };
        let pattern = Extract::named("request=handled ([0-9.]+) requests").unwrap();
        let units = Units {
            list: vec![
                unit("loop", UnitSource::Number(5.0)),
                unit("request", UnitSource::Output(pattern)),
                unit("frame", event("netif_rx", &["net:netif_rx"])),
                unit("lost", event("dummy", &[])),
            ],
            files: vec![path.clone(), folder.path().join("absent")],
            figures: Vec::new(),
        };
        assert!(units.need_output());
        let mut file = file();
        let before = units.before(false);
        std::fs::write(&path, "packets: 11e6\nname=none\nrows 8\nnew 3").unwrap();
        let missing = units.count(&mut file, 0, "handled 1234 requests\n", &before);
        let found: Vec<(&str, f64)> =
            file.runs[0].units.iter().map(|(name, number)| (&name[..], *number)).collect();
        let expected = [
            ("frame", 40.0),
            ("loop", 5.0),
            ("new", 3.0),
            ("packets", 1e6),
            ("request", 1234.0),
            ("rows", 1.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(missing[0], "no number of lost in run 0: dummy was not counted");
        assert!(missing[1].contains("absent: No such file"), "{missing:?}");
    }

    #[test]
    fn a_file_of_a_running_process_stays_and_a_run_takes_what_it_grew_by() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("units");
        let units = Units { list: Vec::new(), files: vec![path.clone()], ..Units::default() };
        std::fs::write(&path, "packet=1000\n").unwrap();
        let before = units.before(false);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "packet=1000\n");
        let mut file = file();
        let missing = units.count(&mut file, 0, "", &before);
        assert!(missing[0].ends_with("packet did not increase: 1000, then 1000"), "{missing:?}");
        std::fs::write(&path, "packet=1500\n").unwrap();
        assert_eq!(units.count(&mut file, 0, "", &before), [""; 0]);
        assert_eq!(file.runs[0].units["packet"], 500.0);
    }

    #[test]
    fn a_file_that_a_run_of_a_command_did_not_write_does_not_count_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("units");
        let units = Units { list: Vec::new(), files: vec![path.clone()], ..Units::default() };
        let mut file = file();
        for _ in 0..20 {
            // The same content as before, at once: the time tells them apart.
            let before = units.before(true);
            std::fs::write(&path, "packet=1000\n").unwrap();
            assert_eq!(units.count(&mut file, 0, "", &before), [""; 0]);
            assert_eq!(file.runs[0].units["packet"], 1000.0);
        }
        let missing = units.count(&mut file, 0, "", &units.before(true));
        assert!(missing[0].ends_with("the file is older than the run"), "{missing:?}");
        assert!(path.exists() && file.runs[0].units.is_empty());
    }
}
