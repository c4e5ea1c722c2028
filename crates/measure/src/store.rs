//! Run files on disk: whole or not at all.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use pmuscope_machine::{AtomicFile, Replace};
use serde::Deserialize;

use crate::error::MeasureError;
use crate::run_file::{RunFile, SCHEMA};

/// Read at most. A sweep of 4000 events in 15 runs has some 10 MB.
const MAX_BYTES: u64 = 256 << 20;
/// Run files are made to be shown: for all whom the umask lets.
const MODE: u32 = 0o666;

/// Replaces `path` with this file, where `replace` allows what is there. Readers see the former one or this one, never a part; so does
/// whoever looks after a crash.
///
/// # Errors
/// If the folder cannot be written to or the disk is full; the former file is then as it was.
pub fn save(file: &RunFile, path: &Path, replace: Replace) -> Result<(), MeasureError> {
    let failed = |source| MeasureError::File { what: "write", path: path.to_owned(), source };
    write(file, path, replace).map_err(failed)
}

/// Whether [`save`] can begin to write there; nothing is changed.
///
/// # Errors
/// As [`save`].
pub fn can_save(path: &Path, replace: Replace) -> Result<(), MeasureError> {
    let failed = |source| MeasureError::File { what: "write", path: path.to_owned(), source };
    AtomicFile::create(path, MODE, replace).map(drop).map_err(failed)
}

fn write(file: &RunFile, path: &Path, replace: Replace) -> std::io::Result<()> {
    let mut text = serde_json::to_vec_pretty(file)?;
    text.push(b'\n');
    let mut out = AtomicFile::create(path, MODE, replace)?;
    out.write_all(&text)?;
    // Else a crash of the machine may leave the new name with no content. What is no file has none.
    match out.file().sync_data() {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            return Err(error);
        }
        _ => {}
    }
    out.finish()
}

/// Reads a run file.
///
/// # Errors
/// If it cannot be read, is no run file, is of a version this program does not know, or refers to
/// runs that it does not have.
pub fn load(path: &Path) -> Result<RunFile, MeasureError> {
    parse(&read(path)?, path)
}

/// The bytes of what should be a run file, for [`parse`].
///
/// # Errors
/// If it cannot be read, is a recording, or is larger than any run file.
pub fn read(path: &Path) -> Result<Vec<u8>, MeasureError> {
    let failed = |source| MeasureError::File { what: "read", path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    if text.starts_with(b"PERFILE2") {
        return Err(MeasureError::Recording { path: path.to_owned() });
    }
    if text.len() as u64 > MAX_BYTES {
        let bytes = std::fs::metadata(path).map_or(text.len() as u64, |m| m.len());
        return Err(MeasureError::TooLarge { path: path.to_owned(), bytes, limit: MAX_BYTES });
    }
    Ok(text)
}

/// Reads a run file that is in memory; `path` is what errors call it.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &[u8], path: &Path) -> Result<RunFile, MeasureError> {
    #[derive(Deserialize)]
    struct StoreHead {
        schema: String,
    }
    let malformed = |source| MeasureError::Malformed { path: path.to_owned(), source };
    let head: StoreHead = serde_json::from_slice(text).map_err(malformed)?;
    if head.schema != SCHEMA {
        let hint = if head.schema.starts_with("pmuscope/runs/") {
            ". A newer pmuscope wrote it. Try: update pmuscope"
        } else {
            ". Run files are written by bench, stat and sweep with --json"
        };
        return Err(MeasureError::Schema { path: path.to_owned(), found: head.schema, hint });
    }
    let file: RunFile = serde_json::from_slice(text).map_err(malformed)?;
    let known: std::collections::HashSet<usize> = file.runs.iter().map(|r| r.index).collect();
    for series in &file.series {
        if let Some(value) = series.values.iter().find(|v| !known.contains(&v.run)) {
            let (metric, run) = (series.metric.clone(), value.run);
            return Err(MeasureError::NoSuchRun { path: path.to_owned(), metric, run });
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Labels, Origin, Program, Run};
    use pmuscope_machine::FileKind;
    use std::time::UNIX_EPOCH;

    const OWN: Replace = Replace::Own(FileKind::RunFile);

    fn sample() -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let mut file = RunFile::new(tool, vec!["pmuscope".into(), "bench".into()], UNIX_EPOCH);
        file.runs.push(Run {
            index: 3,
            order: 0,
            round: Some(0),
            labels: Labels::from([("arm".into(), "BASE".into())]),
            started: "1".into(),
            duration_s: 1.5,
            exit: Some(0),
            why: None,
            units: [("packet".to_owned(), 1e7)].into(),
        });
        let labels = file.runs[0].labels.clone();
        file.add(3, &labels, "wall", ("s", Origin::Clock), Ok(1.5));
        file
    }

    #[test]
    fn comes_back_as_written_and_replaces_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.json");
        let mut file = sample();
        save(&file, &path, OWN).unwrap();
        assert_eq!(load(&path).unwrap(), file);
        file.finish(0);
        save(&file, &path, OWN).unwrap();
        assert_eq!(load(&path).unwrap(), file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_former_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.json");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("x"), "").unwrap();
        let error = save(&sample(), &path, OWN).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("runs.json"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = parse(text.as_bytes(), Path::new("x.json")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        refused("perf", "x.json is not a run file: expected value at line 1");
        refused("{}", "missing field `schema`");
        refused(
            r#"{"schema": "pmuscope/runs/2"}"#,
            r#"has schema "pmuscope/runs/2", but this version reads "pmuscope/runs/1". A newer"#,
        );
        let other = "Run files are written by bench, stat and sweep";
        refused(r#"{"schema": "pmuscope/report/1"}"#, other);
        refused(r#"{"schema": "pmuscope/runs/1"}"#, "missing field `tool`");
        let lost = serde_json::to_string(&sample()).unwrap().replace(r#""run":3"#, r#""run":4"#);
        refused(&lost, "a value of wall refers to run 4, which is not in the file");
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let deep = serde_json::to_string(&sample())
            .unwrap()
            .replace(r#""machine":null"#, &format!(r#""machine":{open}{close}"#));
        refused(&deep, "recursion limit");
    }
}
