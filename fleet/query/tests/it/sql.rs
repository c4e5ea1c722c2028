//! SQL of users: which rows and columns its tables have, and what is said of mistakes.

use std::path::Path;

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::DataType;
use pmuscope_dataset::{Dataset, Rows, TABLES, Timestamp};
use pmuscope_query::{
    Dialect, Engine, FoundDataset, NamedQuestion, QueryError, Selection, ShareBy, SqlMistake,
};

use crate::questions::{DAY, SHOP, dataset, interval};

fn opened(folder: &Path) -> Engine {
    let engine = Engine::open(&folder.into()).unwrap();
    engine.select(&Selection::default(), None).unwrap();
    engine
}

fn number(engine: &Engine, sql: &str) -> i64 {
    engine.rows(sql).unwrap().numbers("n").unwrap()[0]
}

#[test]
fn a_missing_text_is_null_as_in_other_engines() {
    let folder = dataset(&SHOP);
    let engine = opened(folder.path());
    let count = |condition: &str| {
        number(&engine, &format!("SELECT count(*) AS n FROM samples WHERE {condition}"))
    };
    assert_eq!((count("version IS NULL"), count("version = ''")), (2, 0));
    assert_eq!((count("unit IS NULL"), count("unit IS NOT NULL")), (8, 0));
    let waits = "SELECT count(*) AS n FROM waits WHERE container IS NULL AND wait IS NOT NULL";
    assert!(number(&engine, waits) > 0);
    // Also in answers of named questions, which join rows by texts that are missing.
    for question in [NamedQuestion::Services, NamedQuestion::Functions, NamedQuestion::Hours] {
        let answer = engine.run(&question.sql(&[ShareBy::Service, ShareBy::Version], 10)).unwrap();
        let (mut missing, mut empty) = (0, 0);
        for batch in &answer.batches {
            let versions =
                arrow::compute::cast(batch.column_by_name("version").unwrap(), &DataType::Utf8);
            let versions = versions.unwrap();
            missing += versions.null_count();
            empty += versions.as_string::<i32>().iter().filter(|text| *text == Some("")).count();
        }
        assert!(missing > 0 && empty == 0, "{question:?}: {missing} missing, {empty} empty");
    }
}

#[test]
fn every_table_has_the_day_of_its_folders() {
    let folder = dataset(&SHOP);
    for engine in [opened(folder.path()), Engine::open_reading(&folder.path().into(), 0).unwrap()] {
        engine.select(&Selection::default(), None).unwrap();
        for table in TABLES {
            let days = engine.rows(&format!("SELECT DISTINCT date FROM {}", table.name)).unwrap();
            let days = days.texts("date").unwrap();
            let is_there = folder.path().join("v1").join(table.name).exists();
            assert_eq!(days, vec!["2025-11-25"; usize::from(is_there)], "{}", table.name);
        }
        let none = "SELECT count(*) AS n FROM samples WHERE date > '2025-11-25'";
        assert_eq!(number(&engine, none), 0);
    }
}

/// What --print-sql prints can be run again in a session.
#[test]
fn printed_statements_can_be_run_twice() {
    let folder = dataset(&SHOP);
    let found = FoundDataset::find(&folder.path().into()).unwrap();
    let views = |dialect| Selection::default().views(dialect, &found, None);
    let samples = TABLES.iter().find(|table| table.name == "samples").unwrap();
    let file = folder.path().join("v1/samples/date=2025-11-25/a-0.parquet");
    let engine = Engine::of_files(samples, [file.as_path()].into_iter()).unwrap();
    for _ in 0..2 {
        for statement in views(Dialect::DataFusion) {
            engine.run(&statement).unwrap();
        }
        assert_eq!(number(&engine, "SELECT count(*) AS n FROM samples"), 8);
    }
    for (name, dialect) in Dialect::ALL {
        let mut last = String::new();
        for statement in views(dialect) {
            if let Some((_, view)) = statement.split_once("CREATE TEMPORARY VIEW ") {
                let view = view.split_whitespace().next().unwrap();
                assert_eq!(last, format!("DROP TEMPORARY VIEW IF EXISTS {view}"), "{name}");
            } else {
                let is_again = ["CREATE OR REPLACE ", "DROP TEMPORARY VIEW IF EXISTS "];
                assert!(is_again.iter().any(|start| statement.starts_with(start)), "{statement}");
            }
            last = statement;
        }
    }
}

#[test]
fn samples_are_missing_where_fewer_are_there_than_were_taken_and_never_less_than_none() {
    let folder = dataset(&SHOP);
    let missing = || {
        let engine = opened(folder.path());
        let rows = engine.rows(&NamedQuestion::Agents.sql(&[], 0)).unwrap();
        let missing = rows.numbers("missing").unwrap();
        rows.texts("host").unwrap().into_iter().zip(missing).collect::<Vec<_>>()
    };
    let named =
        |of: [i64; 3]| ["a", "b", "c"].map(str::to_owned).into_iter().zip(of).collect::<Vec<_>>();
    assert_eq!(missing(), named([0, 0, 0]));
    let file = |table: &str, name: &str| {
        folder.path().join(format!("v1/{table}/date=2025-11-25/{name}.parquet"))
    };
    // A bin whose time has not been delivered yet.
    std::fs::remove_file(file("intervals", "b-0")).unwrap();
    assert_eq!(missing(), named([0, 0, 0]));
    std::fs::remove_file(file("samples", "a-1")).unwrap();
    assert_eq!(missing(), named([6000, 0, 0]));
    // What is there too often on one day hides nothing of another.
    let next = Timestamp(DAY + 86_400_000_000);
    let taken = Rows { intervals: vec![interval("b", 288, 70)], ..Rows::default() };
    Dataset::new(folder.path()).write_all(taken, next, "b-288").unwrap();
    assert_eq!(missing(), named([6000, 70, 0]));
}

#[track_caller]
fn mistake(engine: &Engine, sql: &str) -> SqlMistake {
    match engine.run(sql) {
        Err(QueryError::Sql(mistake)) => mistake,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_mistake_is_said_in_words_with_its_place_and_what_to_type() {
    let folder = dataset(&SHOP[..1]);
    let engine = opened(folder.path());
    let cases = [
        (
            "SELECT nothing FROM agent",
            "at line 1, column 8: there is no column nothing. Try: one of start, bin_us, ",
        ),
        (
            "SELECT 1,\n  a.servce FROM samples AS a",
            "at line 2, column 3: there is no column servce in a. Try: service",
        ),
        ("SELECT 1 FROM sampls", "at line 1, column 15: there is no table sampls. Try: samples"),
        ("SELECT foo(1)", "at line 1, column 8: there is no function foo. Try: "),
        ("SELEC 1", "at line 1, column 1: SELEC stands where an SQL statement is expected"),
        ("SELECT 1 FROM", "it ends where identifier is expected"),
        ("SELECT 'a", "at line 1, column 8: Unterminated string literal"),
        (
            "SELECT service, sum(samples) FROM samples",
            "at line 1, column 8: samples.service is neither in GROUP BY nor in a function such as sum(). Try: GROUP BY \
             samples.service",
        ),
        (
            "SELECT host FROM samples, services",
            "at line 1, column 8: several tables have a column host. Try: TABLE.host",
        ),
        ("SELECT service + 1 FROM samples", ": text + integer cannot be computed. Try: CAST("),
        ("SELECT sum(service) FROM samples", ": there is no function sum(text)"),
        ("SELECT samples / 0 FROM samples", ": a value is divided by 0. Try: nullif(VALUE, 0)"),
        (
            "SELECT CAST(host AS BIGINT) FROM samples",
            ": Cannot cast string 'a' to value of integer type. Try: TRY_CAST(",
        ),
        ("SELECT date_trunc('age', start) FROM samples", "age"),
        ("SELECT 1 FROM samples WHERE start > 'soon'", ": Error parsing timestamp from 'soon'"),
        ("SELECT 1; SELECT 2", ": it has several statements. Try: one after another"),
        ("", ": it is empty. Try: SELECT "),
    ];
    for (sql, with) in cases {
        let text = mistake(&engine, sql).to_string();
        assert!(text.starts_with("cannot answer this SQL") && text.contains(with), "{sql}: {text}");
        let foreign =
            ["Utf8", "Int64", "Schema error", "planning", "ParserError", "datafusion", "\n"];
        assert!(!foreign.iter().any(|word| text.contains(word)), "{sql}: {text}");
    }
}
