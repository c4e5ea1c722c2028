//! docs/dataset.md has every table and column as they are. `PMUSCOPE_WRITE_LISTS=1` writes them.

use std::fmt::Write as _;
use std::path::PathBuf;

use arrow::datatypes::DataType;
use pmuscope_dataset::{TABLES, TableInfo};

const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->\n";

/// A type, as readers of the page know it.
fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8 => "text",
        DataType::Int64 => "integer",
        DataType::Float64 => "number",
        DataType::Boolean => "boolean",
        DataType::Timestamp(..) => "time",
        other => panic!("{other} is no type of a table"),
    }
}

fn sentence(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn section(table: &TableInfo) -> String {
    let mut out = format!("### {}\n\n{}\n", table.name, sentence(table.about));
    let _ = writeln!(out, "Files are sorted by `{}`.\n", table.sorted_by.join("`, `"));
    out += "| column | type | |\n|---|---|---|\n";
    for column in (table.columns)() {
        let missing = if column.field.is_nullable() { ", may be missing" } else { "" };
        let kind = type_name(column.field.data_type());
        let _ =
            writeln!(out, "| `{}` | {kind}{missing} | {} |", column.name, sentence(column.about));
    }
    out
}

#[test]
fn tables_and_columns_are_documented_as_they_are() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/dataset.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("a line where the tables begin");
    let (_, after) = rest.split_once(END).expect("a line where the tables end");
    let sections: Vec<String> = TABLES.iter().map(section).collect();
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", sections.join("\n"));
    if std::env::var_os("PMUSCOPE_WRITE_LISTS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert_eq!(page, expected, "run again with PMUSCOPE_WRITE_LISTS=1");
    }
}
