//! What is drawn after which keys, of recordings that other tools made on other machines.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pmuscope_browse::{After, Browser, RecordingFlags};
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::{Collected, GroupBy, Options, Profile, TasksBy};
use pmuscope_report::{Key, Style};
use pmuscope_symbols::{KernelIdentity, Resolved, State, Symbol};
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
    let mut reader = Reader::open(&corpus().recording(name)).unwrap();
    let collected = Collected::read(&mut reader, apart, 2, None).unwrap();
    let running = KernelIdentity::default();
    let profile = collected.profile(&reader, &running, Options::COUNTS, &mut |requests| {
        let symbol =
            |address: &u64| Some(Symbol::named(format!("f{:x}", address >> 12).into()).into());
        let resolved = |addresses: &[u64]| Resolved {
            symbols: addresses.iter().map(symbol).collect(),
            state: State::Found,
        };
        requests.iter().map(|one| resolved(one.addresses)).collect()
    });
    profile.unwrap()
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

/// Samples that the line of filters says are left.
fn left(screen: &str) -> u64 {
    let line = screen.lines().nth(2).unwrap();
    line.split(' ').next().unwrap().replace(',', "").parse().unwrap()
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
    let row = |screen: &str| screen.lines().nth(5).unwrap().to_owned();
    for part in row(&first).split_whitespace() {
        assert!(row(&expected).contains(part), "{first}\n{expected}");
    }
    for keys in ["2", "4", "9", "v3", "k", "m$", "n", "d"] {
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
        let state = screen(&mut browser, 80, 24).lines().nth(3).unwrap().to_owned();
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
    assert!(before.lines().nth(3).unwrap().contains("· 4 of "), "{before}");
    for keys in ["n~", "d~", "9/0-5$~~", "4~", "4t~~", "2~", "kz~"] {
        press(&mut browser, keys);
        assert_eq!(screen(&mut browser, 80, 24), before, "{keys}");
    }
}

#[test]
fn a_span_of_time_can_be_typed() {
    let mut browser = browser(RECORDING, PLAIN);
    let all = left(&screen(&mut browser, 80, 24));
    press(&mut browser, "9/10-20$");
    let shown = screen(&mut browser, 80, 24);
    assert!(shown.contains("· time ") && left(&shown) < all, "{shown}");
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
    let After::Run(job) = press(&mut browser, "_a") else { panic!("no command") };
    let words: Vec<&str> = job.command.arguments.iter().map(String::as_str).collect();
    assert!(words.starts_with(&["report", "-i", "x.data", "--annotate"]), "{words:?}");
    assert!(words.ends_with(&["--color", "never"]), "{words:?}");
    assert!(screen(&mut browser, 80, 24).contains(", running"));
    browser.take(job.number + 1, "of another", None);
    assert!(screen(&mut browser, 80, 24).contains(", running"));
    let text: String =
        (0..100).map(|line| format!("line {line} \u{1b}[1mbold\u{1b}[0m\n")).collect();
    browser.take(job.number, &text, None);
    press(&mut browser, "/line 77$");
    let shown = screen(&mut browser, 80, 24);
    assert_eq!(shown.lines().nth(4), Some("line 77 bold"), "{shown}");
    assert_eq!(press(&mut browser, "~"), After::GoOn);
    assert!(screen(&mut browser, 80, 24).contains("functions by self"));
    // One that runs is stopped by going back, and one that fails says why.
    press(&mut browser, "a");
    assert_eq!(press(&mut browser, "~"), After::Cancel);
    let After::Run(job) = press(&mut browser, "a") else { panic!("no command") };
    browser.take(job.number, "", Some("error: no objdump".into()));
    assert!(screen(&mut browser, 80, 24).contains("error: no objdump"));
}

/// Whatever is pressed in whatever order on a screen of any size: nothing breaks, and a filter never adds samples.
#[test]
fn no_keys_break_it() {
    let mut random = fastrand::Rng::with_seed(28);
    let keys: Vec<char> = "<>^_$~ /:?hqQzZvekPiamntdfxpcuosSRbCE+NLl123456789w".chars().collect();
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
                browser.take(job.number, "some\ntext\n", None);
            }
            let (width, height) = (random.u16(0..120), random.u16(0..40));
            screen(&mut browser, width.max(1), height.max(1));
        }
        press(&mut browser, "~~~~~~Z1");
        let shown = screen(&mut browser, 100, 30);
        assert!(shown.contains("no filter"), "{name}\n{shown}");
    }
}
