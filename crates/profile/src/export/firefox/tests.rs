//! Held against the format as the viewer's own types document it (`src/types/profile.ts`).

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;

use super::super::UNKNOWN;
use super::super::sample::{self, Made, arbitrary};
use super::*;

fn exported(made: &Made, most: usize) -> Value {
    parsed(made, most, &FunctionRanges::default())
}

fn parsed(made: &Made, most: usize, functions: &FunctionRanges) -> Value {
    let mut out = Vec::new();
    write_with(&made.source(), most, functions, &mut out).unwrap();
    let mut text = String::new();
    GzDecoder::new(&out[..]).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Columns of the tables of a thread, and where their numbers point.
const TABLES: [(&str, &[(&str, &str)]); 6] = [
    ("samples", &[("stack", "stackTable"), ("time", ""), ("weight", "")]),
    ("stackTable", &[("frame", "frameTable"), ("prefix", "stackTable")]),
    (
        "frameTable",
        &[
            ("address", ""),
            ("inlineDepth", ""),
            ("category", "categories"),
            ("subcategory", ""),
            ("func", "funcTable"),
            ("nativeSymbol", "nativeSymbols"),
            ("innerWindowID", ""),
            ("line", ""),
            ("column", ""),
        ],
    ),
    (
        "funcTable",
        &[
            ("name", "stringArray"),
            ("isJS", ""),
            ("relevantForJS", ""),
            ("resource", "resourceTable"),
            ("source", "sources"),
            ("lineNumber", ""),
            ("columnNumber", ""),
        ],
    ),
    ("resourceTable", &[("lib", "libs"), ("name", "stringArray"), ("host", ""), ("type", "")]),
    ("nativeSymbols", &[("libIndex", ""), ("address", ""), ("name", ""), ("functionSize", "")]),
];

/// Rows of what a column points to.
fn rows(profile: &Value, thread: &Value, table: &str) -> u64 {
    match table {
        "categories" => profile["meta"]["categories"].as_array().unwrap().len() as u64,
        "libs" => profile["libs"].as_array().unwrap().len() as u64,
        "stringArray" => profile["shared"]["stringArray"].as_array().unwrap().len() as u64,
        "sources" => profile["shared"]["sources"]["length"].as_u64().unwrap(),
        table => thread[table]["length"].as_u64().unwrap(),
    }
}

/// Every table has all its columns, of its length, and no index leads nowhere.
fn check(profile: &Value) {
    for field in ["meta", "libs", "shared", "threads"] {
        assert!(!profile[field].is_null(), "{field}");
    }
    let meta = &profile["meta"];
    for field in ["interval", "startTime", "processType", "version", "stackwalk"] {
        assert!(meta[field].is_number(), "meta.{field}");
    }
    assert_eq!(meta["preprocessedProfileVersion"], FORMAT_VERSION);
    assert!(meta["product"].is_string() && meta["markerSchema"].is_array());
    let categories = meta["categories"].as_array().unwrap();
    assert!(categories.iter().any(|category| category["color"] == "grey"));
    assert!(categories.iter().all(|category| category["subcategories"][0] == "Other"));
    for lib in profile["libs"].as_array().unwrap() {
        for field in ["arch", "name", "path", "debugName", "debugPath", "breakpadId"] {
            assert!(lib[field].is_string(), "libs.{field}");
        }
        assert!(lib.get("codeId").is_some());
    }
    let sources = &profile["shared"]["sources"];
    for column in ["uuid", "filename"] {
        assert_eq!(sources[column].as_array().unwrap().len() as u64, sources["length"]);
    }
    profile["threads"].as_array().unwrap().iter().for_each(|thread| check_thread(profile, thread));
}

fn check_thread(profile: &Value, thread: &Value) {
    for field in ["name", "pid", "processType", "processName"] {
        assert!(thread[field].is_string(), "{field}");
    }
    assert!(thread["tid"].is_number() && thread["isMainThread"].is_boolean());
    assert_eq!(thread["pausedRanges"], serde_json::json!([]));
    for (table, columns) in TABLES {
        let length = thread[table]["length"].as_u64().unwrap();
        for (column, target) in columns {
            let values = thread[table][column].as_array().unwrap();
            assert_eq!(values.len() as u64, length, "{table}.{column}");
            if !target.is_empty() {
                let rows = rows(profile, thread, target);
                let leads = |value: &Value| value.is_null() || value.as_u64().unwrap() < rows;
                assert!(values.iter().all(leads), "{table}.{column}");
            }
        }
    }
    // A caller comes before what it calls, and time does not go back.
    let prefixes = thread["stackTable"]["prefix"].as_array().unwrap();
    for (at, prefix) in prefixes.iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| prefix < at as u64));
    }
    let times = thread["samples"]["time"].as_array().unwrap();
    let times: Vec<f64> = times.iter().map(|time| time.as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(thread["samples"]["weightType"], "samples");
    for column in ["data", "name", "startTime", "endTime", "phase", "category"] {
        assert_eq!(thread["markers"][column], serde_json::json!([]));
    }
}

fn weight(profile: &Value) -> u64 {
    let threads = profile["threads"].as_array().unwrap().iter();
    threads
        .flat_map(|thread| thread["samples"]["weight"].as_array().unwrap())
        .map(|weight| weight.as_u64().unwrap())
        .sum()
}

#[test]
fn a_profile_has_all_that_the_format_asks_for() {
    let profile = exported(&sample::made(), MOST_SAMPLES);
    check(&profile);
    assert_eq!(weight(&profile), 123);
    let names: Vec<&Value> =
        profile["threads"].as_array().unwrap().iter().map(|thread| &thread["name"]).collect();
    assert_eq!(
        names,
        ["my app (cpu-clock)", "<b>\"evil\"; (cpu-clock)", "<b>\"evil\"; (page-faults)"]
    );
    let app = &profile["threads"][0];
    assert!(app["frameTable"]["inlineDepth"].as_array().unwrap().contains(&Value::from(1)));
    // The kernel's addresses are beyond what JavaScript keeps.
    assert!(app["frameTable"]["address"].as_array().unwrap().contains(&Value::from(-1)));
    assert_eq!(profile["shared"]["sources"]["length"], 1);
}

#[test]
fn big_profiles_are_merged_over_time_and_keep_their_sums() {
    let made = sample::made();
    let (all, few) = (exported(&made, MOST_SAMPLES), exported(&made, 20));
    let samples = |profile: &Value| -> u64 {
        let threads = profile["threads"].as_array().unwrap().iter();
        threads.map(|thread| thread["samples"]["length"].as_u64().unwrap()).sum()
    };
    assert_eq!(samples(&all), 102);
    assert!(samples(&few) <= 20, "{}", samples(&few));
    check(&few);
    assert_eq!(weight(&few), weight(&all));
}

/// The first eight bytes change places as the numbers of a GUID do.
#[test]
fn breakpad_ids_are_build_ids_as_guids() {
    let id = "000102030405060708090a0b0c0d0e0f10111213";
    assert_eq!(tables::breakpad_id(id), "030201000504070608090A0B0C0D0E0F0");
    assert_eq!(tables::breakpad_id("ab"), "000000AB0000000000000000000000000");
}

proptest! {
    #[test]
    fn no_index_leads_nowhere(made in arbitrary(), most in 1_usize..40) {
        let profile = exported(&made, most);
        check(&profile);
        let samples: u64 = made.counts.cells.iter().map(|cell| cell.samples).sum();
        prop_assert_eq!(weight(&profile), samples);
    }

    #[test]
    fn stacks_have_the_weights_that_were_counted(made in arbitrary(), most in 1_usize..40) {
        let mut expected = BTreeMap::new();
        for cell in &made.counts.cells {
            let frames = made.counts.stacks.frames(cell.stack);
            let names: Vec<String> =
                frames.map(|frame| made.counts.function_of(frame).unwrap_or(UNKNOWN).into()).collect();
            let tid = made.counts.tasks[cell.task as usize].tid.unwrap();
            *expected.entry((cell.event, tid, names)).or_default() += cell.samples;
        }
        prop_assert_eq!(weights_of_stacks(&exported(&made, most)), expected);
    }
}

/// Weights by event, thread and names of functions, the innermost first.
fn weights_of_stacks(profile: &Value) -> BTreeMap<(u32, i32, Vec<String>), u64> {
    let mut found = BTreeMap::new();
    for thread in profile["threads"].as_array().unwrap() {
        let event = u32::from(thread["name"].as_str().unwrap().ends_with("(page-faults)"));
        let tid = thread["tid"].as_i64().unwrap() as i32;
        let at = |table: &str, column: &str, row: u64| &thread[table][column][row as usize];
        for sample in 0..thread["samples"]["length"].as_u64().unwrap() {
            let mut names = Vec::new();
            let mut stack = at("samples", "stack", sample).as_u64();
            while let Some(row) = stack {
                let frame = at("stackTable", "frame", row).as_u64().unwrap();
                let function = at("frameTable", "func", frame).as_u64().unwrap();
                let name = at("funcTable", "name", function).as_u64().unwrap() as usize;
                names.push(profile["shared"]["stringArray"][name].as_str().unwrap().to_owned());
                stack = at("stackTable", "prefix", row).as_u64();
            }
            let weight = at("samples", "weight", sample).as_u64().unwrap();
            *found.entry((event, tid, names)).or_default() += weight;
        }
    }
    found
}

/// Frames, inlined ones too, lead to the function that the symbol table has at their addresses.
#[test]
fn frames_lead_to_the_function_of_the_symbol_table() {
    let functions = FunctionRanges::of(vec![vec![], vec![0x1000..0x3000]]);
    let profile = parsed(&sample::made(), usize::MAX, &functions);
    let thread = &profile["threads"][0];
    let symbols = &thread["nativeSymbols"];
    assert_eq!(symbols["address"], serde_json::json!([0x1000]));
    assert_eq!(symbols["functionSize"], serde_json::json!([0x2000]));
    let name = symbols["name"][0].as_u64().unwrap() as usize;
    assert_eq!(profile["shared"]["stringArray"][name], "main");
    let table = &thread["frameTable"];
    for row in 0..table["length"].as_u64().unwrap() as usize {
        let is_inside =
            table["address"][row].as_i64().is_some_and(|at| (0x1000..0x3000).contains(&at));
        let expected = if is_inside { Value::from(0) } else { Value::Null };
        assert_eq!(table["nativeSymbol"][row], expected, "{row}: {table}");
    }
    let none = exported(&sample::made(), usize::MAX);
    assert_eq!(none["threads"][0]["nativeSymbols"]["length"], 0);
}
