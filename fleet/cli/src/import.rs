//! `pmuscope fleet import`.

use std::fs::File;
use std::io::{Read, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::bad_input;
use pmuscope_console::say;
use pmuscope_dataset::{
    Dataset, DatasetLocation, ImportOrigin, Labels, Rows, RunsOrigin, TaskIdentity, Timestamp,
    WindowsOf, file_name, rows, run_rows, wait_rows, window_rows,
};
use pmuscope_delivery::S3Sink;
use pmuscope_measure::{MeasureError, RunFile};
use pmuscope_measurements::LoadedRecording;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Profile;
use pmuscope_profile::aggregate::Task;
use pmuscope_symbols::{Bundle, Options as SymbolOptions, Symbolizer};
use pmuscope_text::number;

use crate::select::{filled, location};

/// Flags of `pmuscope fleet import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet import --to profiles perf.data
  pmuscope fleet import --to profiles --service checkout --version 1.3 web-*.data
  pmuscope fleet import --to profiles --host web-1 --started 2026-11-25T12:00:00Z perf.data
  pmuscope fleet import --to profiles --benchmark compress web-*.json

A file that is imported twice is there once.")]
pub(crate) struct Args {
    /// Recordings of pmuscope or perf, bundles, which bring their symbols, or run files (pmuscope/runs/1)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The dataset: a folder, which is made if it is not there, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DATASET", value_parser = location())]
    to: DatasetLocation,
    /// Service that all processes belong to [default: each thread's name, up to a slash; of runs: none]
    #[arg(long, value_name = "NAME", value_parser = filled::<Arc<str>>)]
    service: Option<Arc<str>>,
    /// Version of the service
    #[arg(long, value_name = "VERSION", value_parser = filled::<Arc<str>>)]
    version: Option<Arc<str>>,
    /// Name of what runs measured [default: the program's, or bench NAME]
    #[arg(long, value_name = "NAME", value_parser = filled::<Arc<str>>)]
    benchmark: Option<Arc<str>>,
    /// Host name [default: the file's]
    #[arg(long, value_name = "NAME", value_parser = filled::<Arc<str>>)]
    host: Option<Arc<str>>,
    /// Label of the host; several times for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = Labels::parse)]
    label: Vec<(String, String)>,
    /// When the first sample was taken [default: as recorded]
    #[arg(long, value_name = "TIME", value_parser = time)]
    started: Option<Timestamp>,
    /// Seconds that are counted together
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    bin: u64,
}

/// A time as RFC 3339 has it, as `2026-11-25T12:00:00Z`.
fn time(text: &str) -> Result<Timestamp, String> {
    let time = chrono::DateTime::parse_from_rfc3339(text);
    let time = time.map_err(|error| format!("{error}. Try: 2026-11-25T12:00:00Z"))?;
    Ok(Timestamp(time.timestamp_micros()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let to = Destination::open(&args.to)?;
    for file in &args.files {
        let imported = if is_run_file(file) {
            import_runs(file, args, &to)
        } else {
            import(file, args, &to).with_context(|| format!("cannot import {}", file.display()))
        };
        say!("{}: {}", file.display(), imported?);
    }
    Ok(())
}

/// Whether a file begins as run files do, whatever it is called: recordings and bundles are not text.
fn is_run_file(path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let mut begin = Vec::new();
    // What cannot be read is named by those that read it.
    let mut read = || File::open(path).and_then(|file| file.take(BEGIN).read_to_end(&mut begin));
    is_file && read().is_ok() && begin.trim_ascii_start().starts_with(b"{")
}

/// Bytes that say what a file is.
const BEGIN: u64 = 64;

/// Imports a run file; returns what it had, in words.
fn import_runs(path: &Path, args: &Args, to: &Destination) -> anyhow::Result<String> {
    let text = pmuscope_measure::read(path)?;
    let file = pmuscope_measure::parse(&text, path).map_err(|error| match error {
        MeasureError::Malformed { .. } => bad_input(format!(
            "{error}. Try: a file of stat, sweep or bench, written with --json=FILE"
        )),
        error => error.into(),
    })?;
    if args.started.is_some() {
        let path = path.display();
        return Err(bad_input(format!(
            "{path} is a run file, which says when its runs began. Try: without --started"
        )));
    }
    let mut key = key(&text[..], args)?;
    update(&mut key, args.benchmark.as_deref());
    let key = key.finalize();
    let origin = RunsOrigin {
        host: args.host.clone(),
        service: args.service.clone(),
        version: args.version.clone(),
        benchmark: args.benchmark.clone(),
        batch: batch(&key),
    };
    let mut rows =
        run_rows(&file, &origin).with_context(|| format!("cannot import {}", path.display()))?;
    let counts = [(rows.runs.len(), "run"), (rows.run_values.len(), "value")]
        .map(|(n, noun)| number::counted(n as u64, noun))
        .join(", ");
    rows.label(&Labels::new(args.label.iter().cloned().collect())?);
    write(rows, &key, to)?;
    warn_of_more(path, &file);
    Ok(counts)
}

/// A benchmark that goes on has a file with all of its runs after each.
fn warn_of_more(path: &Path, file: &RunFile) {
    if file.status.is_none() {
        say!(
            "warning: {}: the benchmark goes on, or was killed. If it adds runs, importing the file again counts these twice",
            path.display()
        );
    }
}

/// Where rows go.
enum Destination {
    Folder(Dataset),
    S3(Box<S3Sink>),
}

impl Destination {
    fn open(location: &DatasetLocation) -> anyhow::Result<Self> {
        Ok(match location {
            DatasetLocation::Folder(root) => Self::Folder(Dataset::new(root)),
            DatasetLocation::S3(place) => Self::S3(Box::new(S3Sink::new(place, None)?)),
        })
    }

    fn write(&self, rows: Rows, when: Timestamp, name: &str) -> anyhow::Result<()> {
        match self {
            Self::Folder(dataset) => dataset.write_all(rows, when, name)?,
            Self::S3(sink) => {
                // Files are whole before they are sent.
                let staging = tempfile::tempdir().context("cannot make a temporary folder")?;
                let dataset = Dataset::new(staging.path());
                dataset.write_all(rows, when, name)?;
                let failed = |(path, error): (PathBuf, std::io::Error)| {
                    anyhow::Error::from(error).context(format!("cannot read {}", path.display()))
                };
                for file in dataset.files().map_err(failed)? {
                    sink.deliver(&staging.path().join(&file.path), &file.path)?;
                }
            }
        }
        Ok(())
    }
}

/// Imports a recording; returns what it had, in words.
fn import(file: &Path, args: &Args, to: &Destination) -> anyhow::Result<String> {
    let recording = RecordingFile::open(file)?;
    let LoadedRecording { samples, waits, windows } =
        LoadedRecording::read(&recording, symbolizer(&recording)?)?;
    let count = samples.as_ref().map_or(0, Profile::samples);
    let key = recording_key(&recording, args)?;
    let origin = ImportOrigin {
        host: args.host.clone(),
        started: args.started,
        bin: Duration::from_secs(args.bin),
        batch: batch(&key),
    };
    let identify = |task: &Task| {
        let identity = match &args.service {
            Some(service) => TaskIdentity::of_service(Arc::clone(service)),
            None => TaskIdentity::of_thread(&task.command),
        };
        TaskIdentity { version: args.version.clone(), ..identity }
    };
    let mut rows =
        samples.as_ref().map_or(Ok(Rows::default()), |one| rows(one, &origin, &identify))?;
    let mut counts = vec![number::counted(count, "sample")];
    if let Some(waits) = waits {
        rows.append(wait_rows(&waits, &origin, &identify)?);
        let waits: i64 = rows.waits.iter().map(|row| row.waits).sum();
        counts.push(number::counted(waits.unsigned_abs(), "wait"));
    }
    if let Some((windows, profile)) = windows.as_ref().zip(samples.as_ref()) {
        let of = WindowsOf { service: args.service.clone(), version: args.version.clone() };
        rows.append(window_rows(windows, profile, &origin, &of)?);
        counts.push(number::counted(windows.total.kept(), "window"));
    }
    counts.push(number::counted(rows.stacks.len() as u64, "stack"));
    counts.push(number::counted(
        (rows.samples.len() + rows.waits.len() + rows.windows.len()) as u64,
        "row",
    ));
    let counts = counts.join(", ");
    rows.label(&Labels::new(args.label.iter().cloned().collect())?);
    write(rows, &key, to)?;
    Ok(counts)
}

/// Writes the rows of an import, if there are any.
fn write(rows: Rows, key: &blake3::Hash, to: &Destination) -> anyhow::Result<()> {
    let Some(host) = rows.hosts.first() else { return Ok(()) };
    let (when, name) = (host.seen, format!("{}-{}", file_name(&host.host), &key.to_hex()[..16]));
    to.write(rows, when, &name)
}

/// Id of an import.
fn batch(key: &blake3::Hash) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&key.as_bytes()[..8]);
    i64::from_be_bytes(first)
}

/// The symbols of this machine; those of a bundle come first.
fn symbolizer(recording: &RecordingFile) -> anyhow::Result<Symbolizer> {
    let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: true });
    if let Some(bundle) = recording.file().map(Bundle::of_file).transpose()?.flatten() {
        symbolizer.use_bundle(bundle);
    }
    Ok(symbolizer)
}

/// What names the files of an import: the recording's bytes, and what was said of it.
fn recording_key(recording: &RecordingFile, args: &Args) -> anyhow::Result<blake3::Hash> {
    let file =
        recording.file().context("it is not a file, so it has no name that is always the same")?;
    // A cloned descriptor shares its position with the recording's.
    let mut bytes = file.try_clone().context("cannot read")?;
    bytes.rewind().context("cannot read")?;
    let mut hasher = key(bytes, args)?;
    hasher.update(&args.started.map_or(0, |time| time.0).to_le_bytes());
    hasher.update(&args.bin.to_le_bytes());
    Ok(hasher.finalize())
}

/// The same of any file, without what only some kinds of files depend on.
fn key(mut bytes: impl Read, args: &Args) -> anyhow::Result<blake3::Hasher> {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut bytes, &mut hasher).context("cannot read")?;
    for text in [&args.service, &args.version, &args.host] {
        update(&mut hasher, text.as_deref());
    }
    for (name, value) in &args.label {
        hasher.update(name.as_bytes()).update(b"=").update(value.as_bytes()).update(b";");
    }
    Ok(hasher)
}

fn update(hasher: &mut blake3::Hasher, text: Option<&str>) {
    let text = text.unwrap_or_default();
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time("1970-01-01T00:00:01Z"), Ok(Timestamp(1_000_000)));
        assert_eq!(time("1970-01-01T01:00:01+01:00"), Ok(Timestamp(1_000_000)));
        assert!(time("yesterday").unwrap_err().contains("Try: 2026-11-25T12:00:00Z"));
    }
}
