//! What is drawn after which keys, of recordings that other tools made on other machines.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use pmuscope_browse::{After, Browser, CommandOutput, RecordingFlags};
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::{Collected, GroupBy, Intervals, Options, Profile, TasksBy};
use pmuscope_report::{Key, RowLimits, Style, recording_text};
use pmuscope_symbols::{Frame, KernelIdentity, Resolved, State, Symbol};
use pmuscope_testkit::corpus::corpus;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

/// A recording, with a function for each 4 KiB of a module.
fn browser(name: &str, style: Style) -> Browser {
    let origin = RecordingFlags { file: "x.data".into(), ..RecordingFlags::default() };
    Browser::new(profile(name, WHOLE), origin, BTreeMap::new(), style)
}

/// What `browse` keeps of a recording.
const WHOLE: GroupBy = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };

fn profile(name: &str, apart: GroupBy) -> Profile {
    let path = corpus().recording(name);
    profile_with(&path, apart, Options::COUNTS, |address| {
        Symbol::named(format!("f{:x}", address >> 12).into())
    })
    .unwrap()
}

/// `None` of a file that is no recording.
fn profile_with(
    path: &Path,
    apart: GroupBy,
    options: Options,
    named: impl Fn(u64) -> Symbol,
) -> Option<Profile> {
    let mut reader = Reader::open(path).ok()?;
    let collected = Collected::read(&mut reader, apart, 2, None).ok()?;
    let running = KernelIdentity::default();
    let profile = collected.profile(&reader, &running, options, &mut |requests| {
        let symbol = |address: &u64| Some(named(*address).into());
        let resolved = |addresses: &[u64]| Resolved {
            symbols: addresses.iter().map(symbol).collect(),
            state: State::Found,
        };
        requests.iter().map(|one| resolved(one.addresses)).collect()
    });
    profile.ok()
}

const PLAIN: Style = Style { color: false, unicode: true, width: None };

/// Keys as they are typed; `<` and `>` are the arrows left and right, `^` and `_` those up and down, `$` is Enter, `~`
/// Escape.
fn press(browser: &mut Browser, keys: &str) -> After {
    let mut last = After::GoOn;
    for c in keys.chars() {
        let key = match c {
            '<' => Key::Left,
            '>' => Key::Right,
            '^' => Key::Up,
            '_' => Key::Down,
            '$' => Key::Enter,
            '~' => Key::Escape,
            c => Key::Char(c),
        };
        last = browser.key(key);
    }
    last
}

/// The screen once nothing is left to be counted, without blanks at the ends of lines.
fn screen(browser: &mut Browser, width: u16, height: u16) -> String {
    browser.rest();
    drawn(browser, width, height)
}

fn drawn(browser: &mut Browser, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| browser.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// The line of filters.
fn filters(screen: &str) -> &str {
    let is_it = |line: &&str| line.contains(" · no filter") || line.contains(" · filter: ");
    screen.lines().find(is_it).unwrap()
}

/// The line of the view.
fn state(screen: &str) -> &str {
    let all: Vec<&str> = screen.lines().collect();
    let at = all.iter().position(|line| *line == filters(screen)).unwrap();
    all[at + 1]
}

/// Samples that the line of filters says are left.
fn left(screen: &str) -> u64 {
    let line = filters(screen);
    line.split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

/// What a command printed.
fn printed(text: &str) -> CommandOutput {
    CommandOutput { text: text.to_owned(), ..CommandOutput::default() }
}

const RECORDING: &str = "converter_with-callchain.perf.data";

#[test]
fn functions_and_what_a_filter_leaves() {
    let mut browser = browser(RECORDING, PLAIN);
    insta::assert_snapshot!(screen(&mut browser, 80, 14));
    press(&mut browser, "__x");
    insta::assert_snapshot!(screen(&mut browser, 80, 14));
}

#[test]
fn intervals_come_when_no_key_waits() {
    let intervals = |screen: &str| screen.matches('±').count();
    let mut browser = browser(RECORDING, PLAIN);
    let counting = drawn(&mut browser, 100, 20);
    assert!(intervals(&counting) == 0 && counting.contains("CIs are being counted"), "{counting}");
    assert!(browser.rest());
    let counted = drawn(&mut browser, 100, 20);
    assert!(intervals(&counted) > 0 && !counted.contains("being counted"), "{counted}");
    assert!(!browser.rest(), "nothing is left");
    // A table that was left before is made again when it is gone back to.
    press(&mut browser, "41");
    assert_eq!(screen(&mut browser, 100, 20), counted);
    press(&mut browser, "4t~t");
    assert!(browser.rest());
    // Who sorts by them waits for them.
    press(&mut browser, "8s");
    assert!(intervals(&drawn(&mut browser, 100, 20)) > 0 && !browser.rest());
}

/// Functions are there before callers and threads are: nothing moves when those come, and what needs them waits.
#[test]
fn functions_come_first() {
    let expected = screen(&mut browser(RECORDING, PLAIN), 100, 20);
    let functions_first = || {
        let origin = RecordingFlags { file: "x.data".into(), ..RecordingFlags::default() };
        let functions = profile(RECORDING, GroupBy::default());
        Browser::new(functions, origin, BTreeMap::new(), PLAIN).of_functions_first()
    };
    let mut browser = functions_first();
    let first = screen(&mut browser, 100, 20);
    assert!(first.contains("no filter · callers, threads, and CPUs are being read"), "{first}");
    // The row of the first function, but for what it called.
    let row = |screen: &str| {
        let mut lines = screen.lines().skip_while(|line| !line.trim_start().starts_with("self"));
        lines.nth(1).unwrap().to_owned()
    };
    for part in row(&first).split_whitespace() {
        assert!(row(&expected).contains(part), "{first}\n{expected}");
    }
    for keys in ["2", "4", "9", "v3", "k", "mn", "n", "d"] {
        press(&mut browser, keys);
        let refused = drawn(&mut browser, 100, 20);
        assert!(refused.contains("callers, threads, and CPUs are still being read"), "{refused}");
        assert!(refused.contains("no filter"), "{refused}");
    }
    press(&mut browser, "?x___");
    let chosen = |browser: &mut Browser| {
        let screen = screen(browser, 100, 20);
        assert!(screen.contains("functions by self · 4 of "), "{screen}");
        let After::Run(job) = press(browser, "a") else { panic!() };
        press(browser, "~");
        job.command.shell()
    };
    let before = chosen(&mut browser);
    browser.take_whole(Ok(profile(RECORDING, WHOLE)));
    assert_eq!(chosen(&mut browser), before);
    press(&mut browser, "^^^");
    assert_eq!(screen(&mut browser, 100, 20), expected);
    press(&mut browser, "4");
    assert!(screen(&mut browser, 100, 20).contains("threads by share"));

    let mut browser = functions_first();
    browser.take_whole(Err("the file shrank".into()));
    let failed = screen(&mut browser, 100, 20);
    assert!(
        failed.contains("no filter · callers, threads, and CPUs could not be read"),
        "{failed}"
    );
    press(&mut browser, "2");
    let failed = screen(&mut browser, 100, 20);
    assert!(failed.contains("could not be read: the file shrank"), "{failed}");
}

#[test]
fn trees_from_both_ends() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "2");
    insta::assert_snapshot!(screen(&mut browser, 80, 16));
    press(&mut browser, "3$_$");
    insta::assert_snapshot!(screen(&mut browser, 80, 16));
}

#[test]
fn callers_and_callees() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "n");
    insta::assert_snapshot!(screen(&mut browser, 80, 16));
}

#[test]
fn time_with_a_span() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "9>>> >>>>>");
    insta::assert_snapshot!(screen(&mut browser, 80, 12));
    press(&mut browser, "$");
    insta::assert_snapshot!(screen(&mut browser, 80, 12));
}

#[test]
fn a_menu_and_the_command_in_ascii() {
    let mut browser = browser(RECORDING, Style { unicode: false, ..PLAIN });
    press(&mut browser, "$");
    let shown = screen(&mut browser, 80, 16);
    assert!(shown.is_ascii(), "{shown}");
    insta::assert_snapshot!(shown);
    press(&mut browser, "d:");
    let shown = screen(&mut browser, 80, 16);
    assert!(shown.is_ascii(), "{shown}");
    assert!(shown.contains("pmuscope report -i x.data --dsos "), "{shown}");
}

/// Every sample is in one thread, on one CPU, in one DSO, and in one comm: what each leaves adds up to all.
#[test]
fn parts_add_up_to_all() {
    for (view, key) in [('4', 't'), ('5', 'p'), ('6', 'c'), ('8', 'd')] {
        let mut browser = browser(RECORDING, PLAIN);
        let all = left(&screen(&mut browser, 80, 24));
        press(&mut browser, &view.to_string());
        let state = state(&screen(&mut browser, 80, 24)).to_owned();
        let rows: usize = state.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
        let mut sum = 0;
        for row in 0..rows {
            press(&mut browser, &format!("{key}"));
            let shown = screen(&mut browser, 80, 24);
            // A DSO may have called others only.
            if shown.contains("no sample would be left") {
                assert!(view == '8', "row {row}\n{shown}");
            } else {
                sum += left(&shown);
                press(&mut browser, "~");
            }
            press(&mut browser, "_");
        }
        assert_eq!(sum, all, "view {view}");
    }
}

/// The table that is gone back to is the one that was left: sorted as it was, with the same row chosen.
#[test]
fn going_back_finds_the_row_that_was_chosen() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "sss___");
    let before = screen(&mut browser, 80, 24);
    assert!(state(&before).contains("· 4 of "), "{before}");
    for keys in ["n~", "d~", "9/0-5$~~", "4~", "4t~~", "2~", "kz~"] {
        press(&mut browser, keys);
        assert_eq!(screen(&mut browser, 80, 24), before, "{keys}");
    }
}

/// Cursor on the largest row after a filter.
#[test]
fn a_filter_begins_at_the_first_row() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "_______k");
    let kernel = screen(&mut browser, 80, 24);
    assert!(kernel.contains("filter: DSO [kernel.kallsyms]"), "{kernel}");
    assert!(state(&kernel).contains("· 1 of "), "{kernel}");
    press(&mut browser, "~");
    let before = screen(&mut browser, 80, 24);
    assert!(state(&before).contains("· 8 of "), "{before}");
}

#[test]
fn more_rows_than_are_drawn_over_time_are_counted() {
    // A function for each address.
    let named = |address| Symbol::named(format!("f{address:x}").into());
    let path = corpus().recording(RECORDING);
    let profile = profile_with(&path, WHOLE, Options::COUNTS, named).unwrap();
    let origin = RecordingFlags { file: "x.data".into(), ..RecordingFlags::default() };
    let mut browser = Browser::new(profile, origin, BTreeMap::new(), PLAIN);
    press(&mut browser, "9");
    let threads = screen(&mut browser, 80, 24);
    assert!(!state(&threads).contains("largest of"), "{threads}");
    press(&mut browser, "bb");
    let functions = screen(&mut browser, 80, 24);
    let all = state(&functions).split_once("time by function, the 100 largest of ");
    let all = all.and_then(|(_, rest)| rest.split([',', ' ']).next()?.parse::<u32>().ok());
    assert!(all > Some(100), "{functions}");
}

#[test]
fn a_span_of_time_can_be_typed() {
    let mut browser = browser(RECORDING, PLAIN);
    let all = left(&screen(&mut browser, 80, 24));
    press(&mut browser, "9/10-20$");
    let shown = screen(&mut browser, 80, 24);
    assert!(shown.contains("filter: time ") && left(&shown) < all, "{shown}");
    press(&mut browser, "/20-10$");
    let shown = screen(&mut browser, 80, 24);
    assert!(shown.contains("20-10: no time of the recording"), "{shown}");
}

/// A sample is in one DSO: a second one leaves nothing, so its filter is not set, and the command stays true.
#[test]
fn a_filter_that_leaves_nothing_is_not_set() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "8d3$_");
    let before = left(&screen(&mut browser, 80, 24));
    press(&mut browser, "d");
    let shown = screen(&mut browser, 80, 24);
    assert!(shown.contains("no sample would be left: DSO "), "{shown}");
    assert!(before > 0 && left(&shown) == before, "{before}\n{shown}");
    press(&mut browser, ":");
    let command = screen(&mut browser, 80, 24);
    assert_eq!(command.matches("--dsos").count(), 1, "{command}");
}

/// A command is asked for, and what it printed is shown; what came too late is not.
#[test]
fn what_a_command_prints_is_shown_scrolled_and_searched() {
    let mut browser = browser(RECORDING, PLAIN);
    let After::Run(job) = press(&mut browser, "_i") else { panic!("no command") };
    let words: Vec<&str> = job.command.arguments.iter().map(String::as_str).collect();
    assert!(words.starts_with(&["report", "--modules", "-i", "x.data"]), "{words:?}");
    assert!(words.ends_with(&["--color", "never"]), "{words:?}");
    assert!(screen(&mut browser, 80, 24).contains(", running"));
    browser.take(job.number + 1, &printed("of another"));
    assert!(screen(&mut browser, 80, 24).contains(", running"));
    let text: String =
        (0..100).map(|line| format!("line {line} \u{1b}[1mbold\u{1b}[0m\n")).collect();
    browser.take(job.number, &printed(&text));
    press(&mut browser, "/line 77$");
    let shown = screen(&mut browser, 80, 24);
    let mut lines = shown.lines().skip_while(|line| *line != state(&shown));
    assert_eq!(lines.nth(1), Some("line 77 bold"), "{shown}");
    assert_eq!(press(&mut browser, "~"), After::GoOn);
    assert!(screen(&mut browser, 80, 24).contains("functions by self"));
    // One that runs is stopped by going back, and one that fails says why.
    press(&mut browser, "i");
    assert_eq!(press(&mut browser, "~"), After::Cancel);
    let After::Run(job) = press(&mut browser, "i") else { panic!("no command") };
    let failure = Some("error: no objdump. Try: --objdump FILE".into());
    browser.take(job.number, &CommandOutput { failure, ..CommandOutput::default() });
    let failed = screen(&mut browser, 80, 24);
    assert!(failed.contains("no objdump") && !failed.contains("Try"), "{failed}");
}

/// Whatever is pressed in whatever order on a screen of any size: nothing breaks, and a filter never adds samples.
#[test]
fn no_keys_break_it() {
    let mut random = fastrand::Rng::with_seed(28);
    let keys: Vec<char> =
        "<>^_$~ /:?!hqQzZvekPiaamntdfxpcuosSRbCEHH+NLl123456789w".chars().collect();
    for name in [
        RECORDING,
        "quipper_perf.data.forkexit-3.8",
        "converter_multi-event-single-process.perf.data",
    ] {
        let mut browser = browser(name, PLAIN);
        for _ in 0..400 {
            let key = match random.u8(0..12) {
                0 => Key::Tab,
                1 => Key::PageDown,
                2 => Key::End,
                3 => Key::Backspace,
                _ => {
                    let pressed = keys[random.usize(..keys.len())].to_string();
                    press(&mut browser, &pressed);
                    continue;
                }
            };
            if let After::Run(job) = browser.key(key) {
                let is_code = job.command.arguments.last().is_some_and(|word| word == "--json");
                browser.take(job.number, &printed(if is_code { CODE } else { "some\ntext\n" }));
            }
            let (width, height) = (random.u16(0..120), random.u16(0..40));
            screen(&mut browser, width.max(1), height.max(1));
        }
        press(&mut browser, "~~~~~~Z1");
        let shown = screen(&mut browser, 100, 30);
        assert!(shown.contains("no filter"), "{name}\n{shown}");
    }
}

/// A symbol of which half is two functions of one bare name, each inlined into another function.
fn with_inlined(address: u64) -> Symbol {
    let outer = Symbol::named(format!("f{:x}", address >> 12).into());
    match address >> 5 & 3 {
        0 | 1 => outer,
        _ => Symbol { inlined: vec![Frame::named("operator()".into(), None)].into(), ..outer },
    }
}

/// The lines of each event's table: the head, and the rows without those that are left out.
fn tables(text: &str) -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<String>> = Vec::new();
    let mut is_in = false;
    for line in text.lines() {
        if line.trim_start().starts_with("self") || line == "no samples" {
            tables.push(Vec::new());
            is_in = true;
        }
        is_in &= !line.is_empty();
        if is_in && !line.contains(" more: --limit") {
            tables.last_mut().unwrap().push(words(line));
        }
    }
    tables
}

/// A line with one space between its columns.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines of a table without the column of totals.
fn without_totals(table: &[String]) -> Vec<String> {
    let head = table[0].replace("95% CI", "CI");
    let Some(at) = head.split(' ').position(|word| word == "total") else { return table.to_vec() };
    let without = |line: &String| {
        let line = line.replace("95% CI", "CI");
        let mut words: Vec<&str> = line.split(' ').collect();
        words.remove(at);
        words.join(" ").replace("CI", "95% CI")
    };
    table.iter().map(without).collect()
}

/// Each recording's first 50 rows of each event are the lines that `report` prints: the same functions in the same order with
/// the same numbers, those of one name apart by what they were inlined into.
#[test]
fn functions_are_the_rows_of_the_report() {
    const ROWS: usize = 50;
    let limits = RowLimits { rows: Some(ROWS), ..RowLimits::ALL };
    let mut compared = (0, 0, 0);
    for path in corpus().recordings() {
        let options =
            Options { rows: Some(ROWS), intervals: Intervals::Largest(ROWS), ..Options::default() };
        let report = |options: Options, chains: bool| {
            let apart = GroupBy { chains, ..GroupBy::default() };
            let profile = profile_with(&path, apart, options, with_inlined)?;
            Some(tables(&recording_text(&profile, "x.data", limits, &PLAIN)))
        };
        let Some(without) = report(options, false) else { continue };
        let with = report(Options { totals: true, ..options }, true).unwrap();
        let whole = profile_with(&path, WHOLE, Options::COUNTS, with_inlined).unwrap();
        let has_calls = whole.aggregate.has_calls();
        let events: Vec<u32> = whole.events.iter().map(|event| event.index).collect();
        let Some(main) = whole.aggregate.main_event(events.iter().copied()) else { continue };
        let first = events.iter().position(|event| *event == main).unwrap();
        let origin = RecordingFlags { file: "x.data".into(), ..RecordingFlags::default() };
        let mut browser = Browser::new(whole, origin, BTreeMap::new(), PLAIN);
        for turn in 0..events.len() {
            let event = (first + turn) % events.len();
            let shown = screen(&mut browser, 600, 80);
            let rows = shown.lines().map(words).skip_while(|line| !line.starts_with("self "));
            let rows: Vec<String> =
                rows.take(ROWS + 1).take_while(|line| !line.is_empty()).collect();
            if without[event] == ["no samples"] {
                assert!(rows.len() < 2, "{}: {rows:?}", path.display());
            } else {
                if has_calls {
                    assert_eq!(rows, with[event], "{}", path.display());
                }
                let (rows, lines) = (without_totals(&rows), &without[event]);
                assert_eq!(rows[..lines.len()], lines[..], "{}", path.display());
                compared.1 += lines.len() - 1;
                compared.2 += lines.iter().filter(|line| line.contains("(inlined into")).count();
            }
            browser.key(Key::Tab);
        }
        compared.0 += 1;
    }
    let (recordings, rows, inlined) = compared;
    assert!(recordings >= 10 && rows > 500 && inlined > 50, "{compared:?}");
}

/// What `report --annotate --json` prints of a function of three lines, with another one inlined.
const CODE: &str = r#"{
    "function": "parse", "module": "/bin/db", "marked": "hash",
    "events": [{"name": "cycles", "share": 0.5, "samples": 50,
        "lines": [
            {"share": 0.1, "samples": 10, "file": "/src/a.c", "line": 11, "text": "one();", "inlined": null},
            {"share": 0.3, "samples": 30, "file": "/src/a.c", "line": 12, "text": "two();", "inlined": null},
            {"share": 0.1, "samples": 10, "file": "/src/h.h", "line": 3, "text": "hash();", "inlined": "hash"}
        ],
        "instructions": [
            {"share": 0.1, "samples": 10, "address": "0x10", "sampled_address": "0x10", "file": "/src/a.c",
             "line": 11, "text": "push %rbp", "inlined": null},
            {"share": 0.3, "samples": 30, "address": "0x12", "sampled_address": "0x12", "file": "/src/a.c",
             "line": 12, "text": "mov %rax,%rbx", "inlined": null},
            {"share": 0.1, "samples": 10, "address": "0x14", "sampled_address": "0x14", "file": "/src/h.h",
             "line": 3, "text": "imul %rax", "inlined": "hash"}
        ]}],
    "sources": [{"file": "/src/a.c", "first_line": 10, "lines": ["{", "one();", "two();"]},
                {"file": "/src/h.h", "first_line": 3, "lines": ["hash();"]}],
    "notes": ["source /src/b.c: No such file. Try: --symfs DIR"]
}"#;

/// The line under the cursor, which the numbers of the state say.
fn code_of(browser: &mut Browser) -> (String, String) {
    let shown = screen(browser, 120, 30);
    let state = state(&shown).to_owned();
    let mut numbers = state.split(" · ").filter_map(|part| part.split_once(" of ")?.0.parse().ok());
    let at: usize = numbers.next().unwrap();
    let mut code = shown.lines().skip_while(|line| *line != &*state).skip(1 + at);
    let line = code.next().unwrap_or_default().trim().to_owned();
    (state, line)
}

/// Code opens at the hottest line, that of the inlined function where it is one; H goes on by heat, s turns to the same line in
/// assembly, and p changes what percentages are of.
#[test]
fn code_opens_at_its_hottest_line() {
    let mut browser = browser(RECORDING, PLAIN);
    let After::Run(job) = press(&mut browser, "_a") else { panic!("no command") };
    let words: Vec<&str> = job.command.arguments.iter().map(String::as_str).collect();
    assert!(words.starts_with(&["report", "-i", "x.data", "--annotate"]), "{words:?}");
    assert!(words.ends_with(&["--json"]), "{words:?}");
    assert!(screen(&mut browser, 80, 24).contains(", running"));
    browser.take(job.number, &printed(CODE));
    let (state, line) = code_of(&mut browser);
    assert!(state.contains("source, % of function, hottest 1 of 3"), "{state}");
    assert_eq!(words_of(&line), ["20.00%", "10", "3", ">", "hash();"]);
    press(&mut browser, "H");
    assert_eq!(words_of(&code_of(&mut browser).1), ["60.00%", "30", "12", "two();"]);
    press(&mut browser, "p");
    assert_eq!(words_of(&code_of(&mut browser).1), ["30.00%", "30", "12", "two();"]);
    press(&mut browser, "s");
    let (state, line) = code_of(&mut browser);
    assert!(state.contains("assembly, % of all samples, hottest 2 of 3"), "{state}");
    assert_eq!(words_of(&line), ["30.00%", "30", "0x12", "mov", "%rax,%rbx"]);
    press(&mut browser, "HHH/imul$");
    assert_eq!(words_of(&code_of(&mut browser).1)[2..], ["0x14", ">", "imul", "%rax"]);
    let shown = screen(&mut browser, 120, 30);
    assert!(shown.contains("search: imul") && shown.contains("a.c:12  two();"), "{shown}");
    assert!(shown.contains("note: source /src/b.c: No such file\n"), "{shown}");
    assert_eq!(press(&mut browser, "~"), After::GoOn);
    assert!(screen(&mut browser, 80, 24).contains("functions by self · 2 of"));
}

fn words_of(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A filter opens the recording, others are set by keys, and one is typed: all are one list, which z shortens from its end.
#[test]
fn all_filters_are_one_list() {
    let origin = RecordingFlags {
        file: "x.data".into(),
        filters: vec![("comm", "a.out".into())],
        ..RecordingFlags::default()
    };
    let whole = profile(RECORDING, WHOLE);
    let mut browser = Browser::new(whole, origin, BTreeMap::new(), PLAIN);
    let line = |browser: &mut Browser| filters(&screen(browser, 120, 24)).to_owned();
    press(&mut browser, "8d1/f4$");
    let all = line(&mut browser);
    assert!(all.contains("· filter: --comm a.out > DSO [kernel.kallsyms] > rows with f4"), "{all}");
    press(&mut browser, "z");
    assert!(line(&mut browser).ends_with("> DSO [kernel.kallsyms]"));
    press(&mut browser, "z");
    assert!(line(&mut browser).ends_with("filter: --comm a.out"));
    press(&mut browser, "z");
    assert!(screen(&mut browser, 80, 24).contains("only filters of the command line are left"));
}

/// A line of warnings and notes, all of them by `!`; and that the file was replaced.
#[test]
fn notes_are_a_line_and_a_list() {
    let mut browser = browser(RECORDING, PLAIN);
    let shown = screen(&mut browser, 80, 40);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("warning: 91.9% of ")), "{shown}");
    assert!(lines.iter().any(|line| line.ends_with(" (!: 1 more)")), "{shown}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    press(&mut browser, "!");
    let all = screen(&mut browser, 100, 40);
    assert!(all.contains("warnings and notes") && !all.contains("pmuscope report"), "{all}");
    press(&mut browser, "~");
    browser.set_replaced();
    let shown = screen(&mut browser, 100, 40);
    assert!(shown.contains("warning: x.data was replaced or changed"), "{shown}");
    assert_eq!(press(&mut browser, "_a"), After::GoOn);
    assert!(screen(&mut browser, 100, 40).contains("x.data was replaced: browse it anew"));
}

#[test]
fn help_scrolls_and_names_are_shown_in_full() {
    let mut browser = browser(RECORDING, PLAIN);
    press(&mut browser, "?");
    assert!(screen(&mut browser, 80, 20).contains("keys, 1-18 of "));
    browser.key(Key::PageDown);
    assert!(screen(&mut browser, 80, 20).contains("keys, 19-36 of "));
    press(&mut browser, "x");
    assert!(!screen(&mut browser, 80, 20).contains("keys, "));
    press(&mut browser, "_>");
    let shown = screen(&mut browser, 80, 24);
    assert!(shown.contains("this line") && shown.contains("DSO /lib/"), "{shown}");
}

/// Callers and callees are of the row's comm, where there are others; going back drops that filter too.
#[test]
fn callers_are_of_the_rows_comm() {
    let name = "quipper_perf.data.callgraph-3.8";
    let mut browser = browser(name, PLAIN);
    press(&mut browser, "6");
    let comms = screen(&mut browser, 100, 24);
    assert!(!state(&comms).ends_with(" 1 of 1"), "{comms}");
    press(&mut browser, "1");
    let before = screen(&mut browser, 100, 24);
    press(&mut browser, "n");
    let shown = screen(&mut browser, 100, 24);
    assert!(filters(&shown).contains("filter: comm "), "{shown}");
    press(&mut browser, "~");
    assert_eq!(screen(&mut browser, 100, 24), before);
}
