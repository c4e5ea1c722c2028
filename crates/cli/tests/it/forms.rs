//! Results in all forms: the same flags mean the same in every command, and none takes the next word.

use crate::harness::Scratch;

/// A run file, `a.json`.
fn run_file() -> Scratch {
    let scratch = Scratch::new();
    let run = ["stat", "-e", "page-faults", "-o", "a.json", "--", "true"];
    scratch.pmuscope(run).exits(0).prints("page-faults").complains("wrote a.json (");
    scratch
}

fn is_there(scratch: &Scratch, file: &str, begin: &str) {
    let text =
        std::fs::read_to_string(scratch.path(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    assert!(text.starts_with(begin), "{file}\n{text}");
}

#[test]
fn the_next_word_is_never_the_file() {
    let scratch = Scratch::new();
    let json = scratch.pmuscope(["stat", "-e", "page-faults", "--json", "sleep", "0.1"]);
    json.exits(0).prints("\"schema\"").prints("sleep");
    let csv = scratch.pmuscope(["stat", "-e", "page-faults", "--csv", "sleep", "0.1"]);
    csv.exits(0).prints("\npage-faults,");
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 0);
    let csv = scratch.pmuscope(["stat", "-e", "page-faults", "--format", "csv", "true"]);
    csv.exits(0).prints("\npage-faults,");
    scratch.pmuscope(["stat", "-e", "page-faults", "-o", "x.csv", "true"]).exits(0);
    let kept = std::fs::read_to_string(scratch.path("x.csv")).unwrap();
    assert!(kept.starts_with("metric,") && kept.contains("\npage-faults,"), "{kept}");
    scratch.pmuscope(["stat", "-e", "page-faults", "-j", "-o", "j.csv", "true"]).exits(0);
    let kept = std::fs::read_to_string(scratch.path("j.csv")).unwrap();
    assert!(kept.contains("\"event\":\"page-faults\""), "{kept}");
}

#[test]
fn a_page_needs_its_file() {
    let scratch = run_file();
    for line in [
        "compare a.json --html",
        "stat -e page-faults --html -- true",
        "sweep -e ^page-faults$ --html -- true",
        "bench region --html",
        "numa show --html",
        "report --html",
    ] {
        let refused = scratch.pmuscope(line.split(' '));
        refused.exits(2).prints_nothing().complains("--html needs its file");
        refused.complains("Try: --html=x.html");
    }
}

#[test]
fn the_ending_names_the_form_and_format_overrides_it() {
    let scratch = run_file();
    for (line, file, begin) in [
        ("compare a.json -o x.csv", "x.csv", "metric,"),
        ("compare a.json --csv=y.txt", "y.txt", "metric,"),
        ("compare a.json -o z.txt --format csv --force", "z.txt", "metric,"),
        ("compare a.json --json=x.json", "x.json", "{"),
        ("compare a.json --html=x.html", "x.html", "<!DOCTYPE html>"),
        ("stat -e page-faults -o s.html -- true", "s.html", "<!DOCTYPE html>"),
        ("stat -e page-faults -o s.txt -- true", "s.txt", "# written by pmuscope"),
        ("stat -e page-faults --csv=s.csv -- true", "s.csv", "metric,labels,unit,per,"),
        ("stat -e page-faults -o s.tsv -- true", "s.tsv", "metric\tlabels\tunit\tper\t"),
        ("sweep -e ^page-faults$ -r 2 -o w.csv -- true", "w.csv", "metric,labels,unit,per,"),
        ("bench region --entries 10 -r 2 -e page-faults -o r.tsv", "r.tsv", "metric\tlabels\t"),
        ("doctor -o d.json", "d.json", "{"),
        ("list -o l.json page-faults", "l.json", "{"),
        ("numa show --json=n.json", "n.json", "{"),
        ("numa simulate --runs 1 -o m.json", "m.json", "{"),
        ("bench region --entries 10 -r 2 -e page-faults -o r.html", "r.html", "<!DOCTYPE html>"),
        ("stat -e page-faults -o t.txt --format json -- true", "t.txt", "{"),
        ("bench slots --cpus 2 --tasks 2 --run-time 1 -r 1 --format svg -o v", "v", "<svg"),
    ] {
        let written = scratch.pmuscope(line.split(' '));
        written.exits(0).complains(&format!("wrote {file} ("));
        is_there(&scratch, file, begin);
    }
}

/// Fields of the row of an event, by the names in the first line.
fn cells(csv: &str, event: &str) -> std::collections::BTreeMap<String, String> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    let mut rows = lines.map(|row| names.iter().cloned().zip(row).collect());
    let is_it = |row: &std::collections::BTreeMap<String, String>| row["metric"] == event;
    rows.find(is_it).unwrap_or_else(|| panic!("no {event} in\n{csv}"))
}

#[test]
fn counts_as_csv_name_their_columns_and_perfs_form_does_not() {
    let scratch = Scratch::new();
    let stat = |flags: &str| {
        let line = format!("stat -e page-faults {flags} -- true");
        scratch.pmuscope(line.split(' ')).exits(0).stdout.clone()
    };
    let row = cells(&stat("-r 3 --csv --per packet=10"), "page-faults");
    assert_eq!((&row["n"][..], &row["per"][..]), ("3", ""), "{row:?}");
    let [low, value, high] =
        ["value_low", "value", "value_high"].map(|name| row[name].parse::<f64>().unwrap());
    assert!(low <= value && value <= high && value > 1.0, "{row:?}");
    let one = cells(&stat("--csv"), "page-faults");
    assert_eq!((&one["n"][..], &one["value_low"][..]), ("1", ""), "{one:?}");
    let perf = stat("-x ,");
    assert!(perf.starts_with(|first: char| first.is_ascii_digit()), "{perf}");
    assert!(perf.contains(",,page-faults,"), "{perf}");
    // A file has one line of names, however often it is added to.
    stat("-o x.csv");
    stat("-o x.csv --append");
    let kept = std::fs::read_to_string(scratch.path("x.csv")).unwrap();
    assert_eq!(kept.matches("metric,").count(), 1, "{kept}");
    assert_eq!(kept.matches("\npage-faults,").count(), 2, "{kept}");
    stat("-o x.csv");
    // Another table stays, whatever it is called, and a sweep says so before it runs anything.
    std::fs::write(scratch.path("mine.csv"), "name,price\na,1\n").unwrap();
    for line in
        ["stat -e page-faults -o mine.csv -- true", "sweep -e ^page-faults$ -o mine.csv -- true"]
    {
        let refused = scratch.pmuscope(line.split(' '));
        refused.exits(2).prints_nothing().complains("is not a table with the same columns");
    }
}

#[test]
fn two_forms_of_one_result_are_refused() {
    let scratch = run_file();
    for line in [
        "compare a.json --json --csv",
        "compare a.json --json --format csv",
        "compare a.json --json=x.json -o y.json",
        "doctor --json --format text",
        "stat -e page-faults --json --csv -- true",
        "stat -e page-faults --csv --format json -- true",
        "stat -e page-faults --html=x.html -o y.html -- true",
        "sweep -e ^page-faults$ --json=x.json -o y.json -- true",
    ] {
        scratch.pmuscope(line.split(' ')).exits(2).prints_nothing().complains("Try: one of them");
    }
    let picture = scratch.pmuscope(["bench", "slots", "--format", "svg"]);
    picture.exits(2).prints_nothing().complains("--format svg needs its file. Try: -o x.svg");
    let unknown = scratch.pmuscope(["compare", "a.json", "-o", "x.docx"]);
    unknown.exits(2).complains("names no form").complains("Try: one of .txt, .json");
}

#[test]
fn old_spellings_work_and_say_the_new_ones() {
    let scratch = run_file();
    let page = scratch.pmuscope(["compare", "a.json", "--html", "x.html"]);
    page.exits(0).complains("note: --html FILE is now --html=FILE");
    is_there(&scratch, "x.html", "<!DOCTYPE html>");
    let page = scratch.pmuscope(["stat", "-e", "page-faults", "--html", "s.html", "--", "true"]);
    page.exits(0).complains("note: --html FILE is now --html=FILE");
    is_there(&scratch, "s.html", "<!DOCTYPE html>");
    let table = scratch.pmuscope(["compare", "a.json", "--tsv"]);
    table.exits(0).complains("note: --tsv is now --format tsv").prints("metric\tlabels");
    // Words of the program that is run are its own.
    let own = ["stat", "-e", "page-faults", "echo", "--html", "x.html", "--tsv", "--report"];
    let own = scratch.pmuscope(own);
    own.exits(0).prints("--html x.html --tsv --report");
    assert!(!own.stderr.contains("is now"), "{own}");
}

#[test]
fn durations_have_units() {
    let scratch = Scratch::new();
    let count = |args: &[&str]| {
        scratch.pmuscope([&["stat", "-e", "page-faults"], args, &["--", "sleep", "60"]].concat())
    };
    for timeout in ["200", "200ms", "0.2s"] {
        let began = std::time::Instant::now();
        count(&["--timeout", timeout]).exits(128 + 15).prints("page-faults");
        assert!(began.elapsed().as_secs() < 30, "{timeout}");
    }
    let wrong = count(&["--timeout", "5 parsecs"]);
    wrong.exits(2).complains("--timeout 5 parsecs: use a duration such as 500ms, 2s or 1m");
    scratch.pmuscope(["numa", "advise", "-p", "1", "--seconds", "0"]).exits(2).complains("500ms");
}

/// Each is given once, last, and the first page says what there is.
#[test]
fn help_is_short_with_h_and_full_with_help() {
    let scratch = Scratch::new();
    let [short, full] = ["-h", "--help"].map(|flag| scratch.pmuscope(["record", flag]));
    let lines = |outcome: &crate::harness::Outcome| outcome.stdout.lines().count();
    assert!(lines(short.exits(0)) < lines(full.exits(0)), "{short}");
    short.prints("Global options:").prints("Limit overhead to PERCENT% of CPU time");
    let first = scratch.pmuscope(["-h"]);
    for group in ["Examples:", "Profile:", "Count:", "Compare:", "Memory:", "Environment:"] {
        first.exits(0).prints(group);
    }
}
