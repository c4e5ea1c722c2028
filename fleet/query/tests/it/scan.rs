//! Small files are read by a reader of ours, large ones by the engine's: the rows are the same, whoever reads which.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use pmuscope_dataset::{
    AgentRow, Dataset, FrameRow, HostRow, IntervalRow, Rows, SampleRow, StackRow, TABLES, TableRow,
    Timestamp, WaitRow,
};
use pmuscope_query::{
    ColumnFilter, Engine, NamedQuestion, QueryError, Selection, ShareBy, Sides, choose_event,
};

/// 2025-11-25, midnight UTC.
const DAY: i64 = 1_764_028_800_000_000;
const BIN_US: i64 = 300_000_000;
/// Bins of a day.
const BINS: i64 = 288;

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}

fn text(prefix: &str, number: i64) -> Arc<str> {
    format!("{prefix}-{number}").into()
}

fn samples(random: &mut Random, host: &str, bin: i64, rows: usize) -> Vec<SampleRow> {
    let row = |_| {
        let samples = random.below(50) + 1;
        let is_clock = random.below(10) > 0;
        SampleRow {
            start: Timestamp(DAY + bin * BIN_US),
            bin_us: BIN_US,
            host: host.into(),
            service: text("service-with-a-long-name", random.below(4)),
            version: (random.below(3) > 0).then(|| text("v", random.below(2))),
            pod: (random.below(3) > 0).then(|| text("pod", random.below(5))),
            event: if is_clock { "cpu-clock" } else { "cycles" }.into(),
            stack_id: random.below(40) - 20,
            samples,
            weight: samples * 10_000,
            weight_unit: if is_clock { "us" } else { "thousand" }.into(),
            batch: bin,
            ..SampleRow::default()
        }
    };
    (0..rows).map(row).collect()
}

/// A stack with two frames; some have no names, some only in some files.
fn stack(random: &mut Random, id: i64) -> (StackRow, [FrameRow; 2]) {
    let leaf = (random.below(3) > 0).then(|| text("function", id.rem_euclid(7)));
    let module = text("/usr/lib/module", id.rem_euclid(3));
    let frame = |depth: i64, function: Option<Arc<str>>| FrameRow {
        stack_id: id,
        depth,
        address: Some(id * 16),
        function,
        module: Arc::clone(&module),
        ..FrameRow::default()
    };
    let row = StackRow {
        stack_id: id,
        digest: format!("{id:032x}").into(),
        leaf: leaf.clone(),
        leaf_module: Arc::clone(&module),
        depth: 2,
    };
    (row, [frame(0, leaf), frame(1, Some("main".into()))])
}

fn delivery(random: &mut Random, host: &str, bin: i64, rows: usize) -> Rows {
    let samples = samples(random, host, bin, rows);
    let known: Vec<_> = (-20..20).map(|id| stack(random, id)).collect();
    let interval = |event: &str, recorded_us: i64| IntervalRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        event: event.into(),
        cpus: Some(2),
        recorded_us,
        samples: 100,
        lost: Some(bin),
        batch: bin,
        ..IntervalRow::default()
    };
    let wait = WaitRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        service: "service-1".into(),
        state: "blocked".into(),
        wait: Some("futex_do_wait".into()),
        length_ns: Some(1 << 20),
        waits: bin + 1,
        time_us: 7 * (bin + 1),
        batch: bin,
        ..WaitRow::default()
    };
    let about = HostRow {
        seen: Timestamp(DAY + bin * BIN_US),
        host: host.into(),
        labels: Some(if host < "host-3" { ";team=shop;" } else { ";team=other;" }.into()),
        ..HostRow::default()
    };
    Rows {
        samples,
        frames: known.iter().flat_map(|(_, frames)| frames.clone()).collect(),
        stacks: known.into_iter().map(|(row, _)| row).collect(),
        waits: vec![wait],
        intervals: vec![interval("cpu-clock", BIN_US), interval("cycles", BIN_US / 2)],
        hosts: vec![about],
        ..Rows::default()
    }
}

/// Five hosts, three days, files of few rows and of many.
fn fleet() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    let mut random = Random(1);
    for host in 0..5 {
        for (number, bin) in [0, 1, BINS, 2 * BINS + 7].into_iter().enumerate() {
            let rows = if host == 2 && number == 1 { 20_000 } else { 30 * (number + 1) };
            let host = text("host", host);
            let when = Timestamp(DAY + bin * BIN_US);
            let name = format!("{host}-{bin}");
            let agent = AgentRow {
                start: when,
                bin_us: BIN_US,
                host: Arc::clone(&host),
                agent: "test".into(),
                cpu_us: bin,
                ..AgentRow::default()
            };
            dataset.write(vec![agent], when, &name).unwrap();
            dataset.write_all(delivery(&mut random, &host, bin, rows), when, &name).unwrap();
        }
    }
    folder
}

/// A file in which these columns are missing, as an older version wrote it, or another program: with other types.
fn write_without<T: TableRow>(folder: &Path, name: &str, rows: &[T], missing: &[&str]) {
    let batch = T::batch(rows).unwrap();
    let schema = batch.schema();
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|&at| !missing.contains(&schema.field(at).name().as_str()))
        .rev()
        .collect();
    let batch = batch.project(&kept).unwrap();
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let other = match field.name().as_str() {
            "samples" => DataType::Int32,
            "host" => DataType::LargeUtf8,
            "service" => DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
            _ => field.data_type().clone(),
        };
        arrays.push(arrow::compute::cast(array, &other).unwrap());
        fields.push(Field::new(field.name(), other, field.is_nullable()));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let day = folder.join("v1").join(T::NAME).join("date=2025-11-25");
    let file = File::create(day.join(format!("{name}.parquet"))).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Who reads which files: the engine all of them, some of them, none of them.
const SMALL: [u64; 3] = [0, 8000, u64::MAX];

/// The answer, whoever of these reads; as text, which has every value.
fn answer(folder: &Path, readers: &[u64], ask: impl Fn(&Engine) -> Vec<String>) -> String {
    let ask = |small| {
        let engine = Engine::open_reading(&folder.into(), small).unwrap();
        let text = |sql: &String| {
            let answer = engine.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            pretty_format_batches(&answer.batches).unwrap().to_string()
        };
        ask(&engine).iter().map(text).collect::<Vec<_>>().join("\n")
    };
    let mut answers: Vec<String> = readers.iter().copied().map(ask).collect();
    answers.dedup();
    assert_eq!(answers.len(), 1, "answers differ:\n{}", answers.join("\n\n"));
    answers.swap_remove(0)
}

/// All rows of all tables, in order.
fn tables() -> Vec<String> {
    let of = |name: &str, columns: &[String]| {
        let columns = columns.join(", ");
        format!("SELECT {columns} FROM {name}_files ORDER BY {columns}")
    };
    let all = TABLES.iter().map(|table| {
        let names = (table.columns)().into_iter().map(|column| column.name.to_owned());
        of(table.name, &names.chain(["date".to_owned()]).collect::<Vec<_>>())
    });
    let counts = TABLES.iter().map(|table| format!("SELECT count(*) FROM {}_files", table.name));
    all.chain(counts).collect()
}

/// All named questions.
fn questions() -> Vec<String> {
    let by = |question| match question {
        NamedQuestion::Functions | NamedQuestion::Total | NamedQuestion::Metrics => {
            vec![ShareBy::Function, ShareBy::Module]
        }
        NamedQuestion::Waits => vec![ShareBy::Service, ShareBy::Wait],
        _ => vec![ShareBy::Service, ShareBy::Version],
    };
    let all = NamedQuestion::ALL.into_iter();
    all.map(|(_, question)| question.sql(&by(question), 7)).collect()
}

fn is_one_of(column: &str, values: &[&str]) -> ColumnFilter {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    ColumnFilter::new(column, values).unwrap()
}

fn sides() -> Sides {
    Sides { a: vec![is_one_of("version", &["v-0"])], b: vec![is_one_of("version", &["v-1"])] }
}

/// Asks all questions of a selection, as commands do: with what they keep in memory.
fn ask(selection: &Selection, folder: &Path) -> String {
    answer(folder, &[0, u64::MAX], |engine| {
        let mut selection = selection.clone();
        engine.keep_sums(&selection).unwrap();
        choose_event(engine, &mut selection).unwrap();
        engine.keep_stacks(&selection).unwrap();
        engine.select(&selection, Some(&sides())).unwrap();
        questions()
    })
}

#[test]
fn all_rows_are_there_whoever_reads_them() {
    let folder = fleet();
    let rows = answer(folder.path(), &SMALL, |_| tables());
    assert!(rows.contains("service-with-a-long-name-3") && rows.contains("2025-11-27"), "{rows}");
}

#[test]
fn every_question_has_the_same_answer_for_every_selection() {
    let folder = fleet();
    let all = Selection::default();
    let hosts = vec![is_one_of("host", &["host-1", "host-4"])];
    let services = vec![
        is_one_of("service", &["service-with-a-long-name-0", "service-with-a-long-name-2"]),
        is_one_of("pod", &["pod-1", "pod-3"]),
    ];
    let at = |bin: i64| Some(Timestamp(DAY + bin * BIN_US));
    let selections = [
        all.clone(),
        Selection { conditions: hosts, ..all.clone() },
        Selection { conditions: services, ..all.clone() },
        Selection { event: Some("cycles".into()), ..all.clone() },
        Selection { labels: vec![("team".into(), "shop".into())], ..all.clone() },
        Selection { since: at(1), until: at(BINS + 1), ..all.clone() },
        Selection { since: at(2 * BINS), ..all.clone() },
    ];
    let answers: Vec<String> =
        selections.iter().map(|selection| ask(selection, folder.path())).collect();
    for (at, one) in answers.iter().enumerate() {
        assert!(!answers[..at].contains(one), "selection {at} narrows something");
    }
    // Nothing at all.
    let nobody = vec![is_one_of("host", &["nobody"])];
    ask(&Selection { conditions: nobody, ..all.clone() }, folder.path());
    ask(&Selection { since: at(100 * BINS), ..all }, folder.path());
}

#[test]
fn files_of_other_versions_are_read_with_the_columns_that_they_have() {
    let folder = fleet();
    let mut random = Random(2);
    let old = samples(&mut random, "host-9", 3, 50);
    write_without(folder.path(), "old", &old, &["pod", "container", "boot"]);
    let agents = [AgentRow { host: "host-9".into(), ..AgentRow::default() }];
    write_without(folder.path(), "old", &agents, &["frequency_hz", "off_cpu_rss_bytes"]);
    fs::write(folder.path().join("v1/samples/date=2025-11-25/nothing.parquet"), "").unwrap();
    let rows = answer(folder.path(), &SMALL, |_| tables());
    assert!(rows.contains("host-9"), "{rows}");
    let by_pod = "SELECT pod, count(*) FROM samples_files WHERE pod IS NULL GROUP BY pod";
    answer(folder.path(), &SMALL, |_| vec![by_pod.to_owned()]);
    ask(&Selection::default(), folder.path());
}

#[test]
fn a_column_that_must_be_there_is_missed_by_name() {
    let folder = fleet();
    let rows = samples(&mut Random(3), "host-9", 3, 50);
    write_without(folder.path(), "old", &rows, &["weight"]);
    for small in SMALL {
        let engine = Engine::open_reading(&folder.path().into(), small).unwrap();
        let error = engine.run("SELECT sum(weight) FROM samples_files").unwrap_err().to_string();
        assert!(error.contains("weight"), "{small}: {error}");
        engine.run("SELECT sum(samples) FROM samples_files").unwrap();
    }
}

fn files(folder: &Path, table: &str) -> Vec<PathBuf> {
    let found = pmuscope_dataset::day_files(&folder.join("v1").join(table)).unwrap();
    found.into_iter().map(|file| file.path).collect()
}

/// The end is cut, there is none, bytes of the middle are others.
#[test]
fn a_damaged_file_is_named_whoever_reads_it() {
    let damage: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes.truncate(bytes.len() - 20),
        |bytes| bytes.splice(.., *b"no Parquet at all").for_each(drop),
        |bytes| bytes.iter_mut().skip(4).take(400).for_each(|byte| *byte ^= 0x5a),
        |bytes| {
            let end = bytes.len() - 8;
            bytes[end - 100..end].fill(0xff);
        },
    ];
    for (number, damage) in damage.into_iter().enumerate() {
        let folder = fleet();
        let path = files(folder.path(), "samples").swap_remove(7);
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
        for small in SMALL {
            let engine = Engine::open_reading(&folder.path().into(), small).unwrap();
            let all = tables().swap_remove(0);
            match engine.run(&all) {
                Err(QueryError::Damaged { path: named, .. }) => assert_eq!(named, path),
                other => panic!("damage {number}, {small}: {other:?}"),
            }
        }
        // Whoever asks piece by piece learns it, too.
        let engine = Engine::open_reading(&folder.path().into(), u64::MAX).unwrap();
        let done = engine.each("SELECT * FROM samples_files", |_| Ok::<(), QueryError>(()));
        assert!(matches!(done, Err(QueryError::Damaged { path: named, .. }) if named == path));
    }
}

#[test]
fn a_file_that_is_merged_meanwhile_is_gone_and_not_damaged() {
    let folder = fleet();
    let engine = Engine::open(&folder.path().into()).unwrap();
    engine.run("SELECT count(*) FROM samples_files").unwrap();
    let path = files(folder.path(), "samples").swap_remove(3);
    fs::remove_file(&path).unwrap();
    let error = engine.run("SELECT sum(samples) FROM samples_files").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, QueryError::Engine(_)), "{text}");
    assert!(text.contains(path.to_str().unwrap()) && text.contains("Try: "), "{text}");
}
