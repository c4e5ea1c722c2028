//! Pushes a dataset to a receiver, or writes the bodies of OTLP requests to files, to see what receivers make of it.
//!
//! ```text
//!  cargo run --example push_dataset -- DATASET otlp http://localhost:4318
//!  cargo run --example push_dataset -- DATASET pprof http://localhost:4040
//!  cargo run --example push_dataset -- DATASET files FOLDER [MOST_BYTES]
//! ```

#![allow(clippy::print_stdout, reason = "its output is text")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use pmuscope_dataset::{FrameRow, IntervalRow, Rows, SampleRow, Timestamp};
use pmuscope_delivery::{OTLP_PROTO_VERSION, PprofLimits, PushSink, otlp_requests, pprof_profiles};

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dataset, kind, to, rest @ ..] = &arguments[..] else {
        return Err("Try: push_dataset DATASET otlp|pprof|files ENDPOINT|FOLDER".into());
    };
    let rows = rows(Path::new(dataset))?;
    let pushed = match &**kind {
        "otlp" => PushSink::otlp(to)?.push(&rows),
        "pprof" => PushSink::pprof(to)?.push(&rows),
        "files" => {
            let most_bytes = rest.first().map_or(Ok(4 << 20), |text| text.parse())?;
            return write(&rows, Path::new(to), most_bytes);
        }
        other => return Err(format!("{other}: there are otlp, pprof and files").into()),
    };
    println!("{pushed:#?}");
    Ok(())
}

/// Writes bodies of requests as `0.otlp` and so on, profiles as `0.pb.gz`.
fn write(rows: &Rows, folder: &Path, most_bytes: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let requests = otlp_requests(rows, most_bytes);
    for (number, request) in requests.iter().enumerate() {
        fs::write(folder.join(format!("{number}.otlp")), &request.bytes)?;
    }
    let profiles = pprof_profiles(rows, PprofLimits::PYROSCOPE);
    for (number, profile) in profiles.iter().enumerate() {
        fs::write(folder.join(format!("{number}.pb.gz")), &profile.bytes)?;
    }
    println!("{} requests of opentelemetry-proto {OTLP_PROTO_VERSION}", requests.len());
    Ok(())
}

fn rows(dataset: &Path) -> Result<Rows, Box<dyn Error>> {
    Ok(Rows {
        samples: table(dataset, "samples")?.iter().map(sample).collect(),
        frames: table(dataset, "frames")?.iter().map(frame).collect(),
        intervals: table(dataset, "intervals")?.iter().map(interval).collect(),
        ..Rows::default()
    })
}

/// A row by its columns.
struct Columns(BTreeMap<String, Field>);

/// All rows of a table.
fn table(dataset: &Path, table: &str) -> Result<Vec<Columns>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for day in fs::read_dir(dataset.join("v1").join(table))? {
        for file in fs::read_dir(day?.path())? {
            let reader = SerializedFileReader::new(File::open(file?.path())?)?;
            for row in reader.get_row_iter(None)? {
                rows.push(Columns::of(row?));
            }
        }
    }
    Ok(rows)
}

impl Columns {
    fn of(row: Row) -> Self {
        Self(row.into_columns().into_iter().collect())
    }

    fn optional_text(&self, column: &str) -> Option<Arc<str>> {
        match self.0.get(column) {
            Some(Field::Str(text)) => Some(text.as_str().into()),
            _ => None,
        }
    }

    fn text(&self, column: &str) -> Arc<str> {
        self.optional_text(column).unwrap_or_default()
    }

    fn optional_number(&self, column: &str) -> Option<i64> {
        match self.0.get(column) {
            Some(Field::Long(number) | Field::TimestampMicros(number)) => Some(*number),
            _ => None,
        }
    }

    fn number(&self, column: &str) -> i64 {
        self.optional_number(column).unwrap_or_default()
    }
}

fn sample(row: &Columns) -> SampleRow {
    SampleRow {
        start: Timestamp(row.number("start")),
        bin_us: row.number("bin_us"),
        host: row.text("host"),
        boot: row.optional_text("boot"),
        service: row.text("service"),
        version: row.optional_text("version"),
        unit: row.optional_text("unit"),
        container: row.optional_text("container"),
        pod: row.optional_text("pod"),
        event: row.text("event"),
        stack_id: row.number("stack_id"),
        samples: row.number("samples"),
        weight: row.number("weight"),
        weight_unit: row.text("weight_unit"),
        batch: row.number("batch"),
    }
}

fn frame(row: &Columns) -> FrameRow {
    FrameRow {
        stack_id: row.number("stack_id"),
        depth: row.number("depth"),
        inline_depth: row.number("inline_depth"),
        build_id: row.optional_text("build_id"),
        address: row.optional_number("address"),
        function: row.optional_text("function"),
        module: row.text("module"),
        file: row.optional_text("file"),
        line: row.optional_number("line"),
    }
}

fn interval(row: &Columns) -> IntervalRow {
    IntervalRow {
        start: Timestamp(row.number("start")),
        bin_us: row.number("bin_us"),
        host: row.text("host"),
        boot: row.optional_text("boot"),
        event: row.text("event"),
        cpus: row.optional_number("cpus"),
        recorded_us: row.number("recorded_us"),
        samples: row.number("samples"),
        lost: row.optional_number("lost"),
        throttled: row.number("throttled"),
        own_cpu_us: row.optional_number("own_cpu_us"),
        recorder: row.optional_text("recorder"),
        batch: row.number("batch"),
    }
}
