//! Agents of tests: their folders, what they print, and what they delivered.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

macro_rules! skip_unless {
    ($need:expr) => {
        if let Some(why) = $need {
            eprintln!("skipped: {why}");
            return;
        }
    };
}

pub(crate) use skip_unless;

pub(crate) mod store;

/// A busy process, ended with the test.
pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn start() -> Self {
        Self::running("while :; do :; done")
    }

    /// A shell that runs this without end.
    pub(crate) fn running(script: &str) -> Self {
        let endless = ["-c", script];
        Self(Command::new("sh").args(endless).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Folders of an agent, and its configuration.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new(more: &str) -> Self {
        Self::with_sinks(more, "")
    }

    /// One that delivers to its folder, and to what `sinks` says.
    pub(crate) fn with_sinks(more: &str, sinks: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (spool, sink) = (folder.path().join("spool"), folder.path().join("sink"));
        let text = format!(
            "host = \"web-1\"\nfrequency_hz = 199\n{more}\n[spool]\nfolder = {spool:?}\n\
             [sink]\nfolder = {sink:?}\n{sinks}\n"
        );
        fs::write(folder.path().join("agent.toml"), text).unwrap();
        Self { folder }
    }

    pub(crate) fn agent(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet"));
        command.args(["agent", "--config"]).arg(self.folder.path().join("agent.toml")).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    #[track_caller]
    pub(crate) fn once(&self) -> String {
        let Output { status, stderr, .. } = self.agent(&["--once"]).output().unwrap();
        let printed = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "{printed}");
        printed
    }

    /// No file but the lock, and what the last agent said of itself.
    #[track_caller]
    pub(crate) fn has_nothing_waiting(&self) {
        let left = files(&self.folder.path().join("spool"));
        let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["health.json", "lock"]);
    }

    pub(crate) fn table(&self, below: &str, table: &str) -> Vec<PathBuf> {
        files(&self.folder.path().join(below).join("v1").join(table))
    }
}

/// Files below a folder, whatever they are called.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Sum of a column of numbers over these files.
pub(crate) fn sum(files: &[PathBuf], column: &str) -> i64 {
    let mut sum = 0;
    for file in files {
        for batch in read(file) {
            let values = batch.column_by_name(column).unwrap().as_primitive::<Int64Type>();
            sum += values.iter().flatten().sum::<i64>();
        }
    }
    sum
}

pub(crate) fn read(file: &Path) -> Vec<arrow::array::RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap());
    let builder = builder.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    builder.build().unwrap().map(Result::unwrap).collect()
}

/// These columns of all rows, as texts; a missing value is empty.
pub(crate) fn rows<const N: usize>(files: &[PathBuf], columns: [&str; N]) -> Vec<[String; N]> {
    let mut found = Vec::new();
    for batch in files.iter().flat_map(|file| read(file)) {
        let arrays = columns.map(|column| batch.column_by_name(column).unwrap());
        let row = |at| arrays.map(|array| array_value_to_string(array, at).unwrap());
        found.extend((0..batch.num_rows()).map(row));
    }
    found
}

/// Distinct texts of a column.
pub(crate) fn texts(files: &[PathBuf], column: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for batch in files.iter().flat_map(|file| read(file)) {
        let values = batch.column_by_name(column).unwrap().as_string::<i32>();
        found.extend(values.iter().flatten().map(str::to_owned));
    }
    found
}

/// An agent that runs, and what it prints.
pub(crate) struct Running {
    child: Child,
    printed: PathBuf,
}

impl Running {
    pub(crate) fn start(site: &Site, mut command: Command) -> Self {
        let printed = site.folder.path().join("printed");
        command.stderr(File::create(&printed).unwrap());
        Self { child: command.spawn().unwrap(), printed }
    }

    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_there(&self.printed()) {
            assert!(began.elapsed() < Duration::from_secs(600), "no {what}: {}", self.printed());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> String {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success(), "{}", self.printed());
        self.printed()
    }
}

/// Samples of all bins, by what the agent has printed: `1.00 s: 1,930 samples, 0 lost, …`.
pub(crate) fn counted(printed: &str) -> i64 {
    let count = |line: &str| {
        let (_, rest) = line.split_once("s: ")?;
        let (count, _) = rest.split_once(" sample")?;
        count.replace(',', "").parse::<i64>().ok()
    };
    printed.lines().filter_map(count).sum()
}
