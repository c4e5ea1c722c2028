//! Text, JSON and screen of an interval made up here.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::info::{Cost, EventInfo, LostSource, MachineInfo, RecordingInfo, RingInfo};
use pmuscope_perfdata::reader::{Event, Metadata};
use pmuscope_profile::{GroupBy, Interval, Intervals, Live, Options, TasksBy};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};

use super::*;
use crate::{RowLimits, Style, to_json};

const ALL: RowLimits = RowLimits::ALL;

/// What stands behind a record that is no sample.
fn trailer(record: RecordBuilder<'_>, pid: u32) {
    record.u32(pid).u32(pid).u64(1).u32(0).u32(0).u64(1).finish();
}

/// A process with a file mapped at 0x1000.
fn process(out: &mut Vec<u8>, pid: u32, comm: &str, path: &str) {
    let record = RecordBuilder::new(out, kind::COMM, misc::COMM_EXEC).u32(pid).u32(pid);
    trailer(record.text(comm), pid);
    let record = RecordBuilder::new(out, kind::MMAP, misc::USER).u32(pid).u32(pid);
    trailer(record.u64(0x1000).u64(0x1000).u64(0).text(path), pid);
}

/// Functions of 256 bytes; the last ones have no name.
fn names(requests: &[Request<'_>]) -> Vec<Resolved> {
    let symbol = |at: &u64| {
        let name = ["parse", "evil\u{1b}]0;x\u{7}"].get(*at as usize / 256)?;
        Some(Symbol::named((*name).into()).into())
    };
    let all = |one: &Request<'_>| one.addresses.iter().map(symbol).collect();
    requests.iter().map(|one| Resolved { symbols: all(one), state: State::Found }).collect()
}

/// Two seconds of two processes on two CPUs, of which each is a node.
pub(crate) fn profile() -> Profile {
    let fields = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        sample: 1_000_000,
        sample_type: fields | SampleType::CPU,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event = Event { name: "cpu-clock".into(), attr, ids: vec![1] };
    let apart = GroupBy { tasks: TasksBy::Process, cpus: true, ..GroupBy::default() };
    let mut live = Live::new(vec![event], apart);
    let mut out = Vec::new();
    process(&mut out, 7, "db\u{1b}[2J", "/usr/bin/db");
    process(&mut out, 9, "xz", "/usr/bin/xz");
    for at in 0..2000_u64 {
        let (pid, ip) = match at % 10 {
            0..=5 => (7, 0x1010),
            6..=8 => (7, 0x1110),
            _ => (9, 0x1f00),
        };
        let record = RecordBuilder::new(&mut out, kind::SAMPLE, misc::USER).u64(1).u64(ip);
        record.u32(pid).u32(pid).u64(10 + at * 1_000_000).u32(pid / 9).u32(0).finish();
    }
    live.push(&out);
    live.complete_up_to(u64::MAX, u64::MAX);
    let info = RecordingInfo {
        scope: "system-wide".into(),
        started_unix_ns: 1_700_000_000_123_456_789,
        duration_s: 2.0,
        machine: MachineInfo { cpus: 2, nodes: 2, ..MachineInfo::default() },
        events: vec![EventInfo { lost: Some(0), ..EventInfo::default() }],
        rings: vec![RingInfo { lost: Some(0), ..RingInfo::default() }],
        lost_source: LostSource::ReadFormat,
        cost: Cost { user_s: 0.03, system_s: 0.014, machine_share: Some(0.011), ..Cost::default() },
        ..RecordingInfo::default()
    };
    let interval = Interval { info, metadata: Metadata::default() };
    let options = Options { rows: Some(0), intervals: Intervals::None, ..Options::default() };
    live.finish(interval, &KernelIdentity::default(), options, &mut names).unwrap()
}

fn report(profile: &Profile, by: TopBy, limits: RowLimits) -> TopReport<'_> {
    TopReport { view: TopView { profile, node_of: &Some }, by, limits }
}

fn text(by: TopBy) -> String {
    styled(by, &Style::PLAIN)
}

fn styled(by: TopBy, style: &Style) -> String {
    report(&profile(), by, ALL).text(style)
}

#[test]
fn an_interval_is_a_table() {
    crate::widths::fits("top", |style| styled(TopBy::Function, style));
    insta::assert_snapshot!(text(TopBy::Function), @r"
    cpu-clock every 1.00 ms, 2.00 s on 2 CPUs (2 NUMA nodes), 2,000 samples, 500/s per CPU    now
    overhead: 1.1% of CPU time · lost 0 · throttled 0 · software timer

      self  95% CI  samples  comm       DSO  function
    60.00%   ±0.27    1,200  db\x1b[2J  db   parse
    30.00%   ±0.18      600  db\x1b[2J  db   evil\x1b]0;x\x07
    10.00%   ±0.09      200  xz         xz   [unknown]

    note: 10.0% of the samples have no function name, in 1 DSO: pmuscope record -a -- sleep 2, then pmuscope report --modules, shows why and what to do.
    ");
    insta::assert_snapshot!(text(TopBy::Cpu), @r"
    cpu-clock every 1.00 ms, 2.00 s on 2 CPUs (2 NUMA nodes), 2,000 samples, 500/s per CPU    now
    overhead: 1.1% of CPU time · lost 0 · throttled 0 · software timer

     share  95% CI  samples  NUMA node  CPU
    90.00%   ±0.09    1,800          0    0
    10.00%   ±0.09      200          1    1

    note: 10.0% of the samples have no function name, in 1 DSO: pmuscope record -a -- sleep 2, then pmuscope report --modules, shows why and what to do.
    ");
}

#[test]
fn an_interval_is_a_table_for_scripts_and_a_page() {
    let profile = profile();
    let by_cpu = report(&profile, TopBy::Cpu, ALL);
    insta::assert_snapshot!(by_cpu.delimited(Separator::Comma).unwrap(), @r"
    event,share,share_low,share_high,samples,weight,node,cpu
    cpu-clock,0.9,0.8991067280910638,0.9008862350302056,1800,1800000000,0,0
    cpu-clock,0.1,0.09911376496979447,0.1008932719089362,200,200000000,1,1
    ");
    let page = by_cpu.page("0123456").unwrap();
    for part in ["cpu-clock by function", "cpu-clock by node", ">parse<", "evil\\x1b]0;x\\x07"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn an_interval_is_an_object() {
    let profile = profile();
    let limits = RowLimits { rows: Some(2), ..ALL };
    let report = to_json(&report(&profile, TopBy::Function, limits).json()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["interval"]["started"], "1700000000123456789");
    assert_eq!(report["interval"]["lost_is"], "exact");
    let event = &report["events"][0];
    assert_eq!((&event["samples"], &event["functions_left_out"]), (&2000.into(), &1.into()));
    let sums = |what: &str, key: &str| -> Vec<(u64, u64)> {
        let rows = event[what].as_array().unwrap().iter();
        rows.map(|row| (row[key].as_u64().unwrap(), row["samples"].as_u64().unwrap())).collect()
    };
    assert_eq!(sums("processes", "process"), [(7, 1800), (9, 200)]);
    assert_eq!(sums("cpus", "cpu"), [(0, 1800), (1, 200)]);
    assert_eq!(sums("nodes", "node"), [(0, 1800), (1, 200)]);
    let share = &event["functions"][0];
    assert_eq!((&share["function"], &share["share"]), (&"parse".into(), &0.6.into()));
    assert!(share["share_low"].as_f64().unwrap() <= 0.6, "{share}");
}

#[cfg(feature = "screen")]
mod on_screen {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;

    use super::*;
    use crate::top::{Key, Next, Screen};

    /// A screen with an interval, and what it is drawn on.
    fn screen(width: u16, height: u16) -> (Screen, Terminal<TestBackend>) {
        let nodes = [(0, 0), (1, 1)].into();
        let mut screen = Screen::new(TopBy::Function, Style::PLAIN, nodes);
        screen.take(profile());
        (screen, Terminal::new(TestBackend::new(width, height)).unwrap())
    }

    fn drawn(screen: &mut Screen, terminal: &mut Terminal<TestBackend>) -> String {
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(buffer.area.width));
        let line = |row: &[ratatui_core::buffer::Cell]| {
            row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
        };
        rows.map(line).collect::<Vec<_>>().join("\n")
    }

    fn press(screen: &mut Screen, keys: &str) {
        for key in keys.chars() {
            assert_eq!(screen.key(Key::Char(key)), Next::GoOn);
        }
    }

    #[test]
    fn the_screen_is_the_table_between_head_and_keys() {
        let (mut screen, mut terminal) = screen(100, 10);
        insta::assert_snapshot!(drawn(&mut screen, &mut terminal), @r"
        cpu-clock every 1.00 ms, 2.00 s on 2 CPUs (2 NUMA nodes), 2,000 samples, 500/s per CPU    now
        overhead: 1.1% of CPU time · lost 0 · throttled 0 · software timer
        by function, largest first · rows 1-3 of 3
          self  95% CI  samples  comm       DSO  function
        60.00%   ±0.27    1,200  db\x1b[2J  db   parse
        30.00%   ±0.18      600  db\x1b[2J  db   evil\x1b]0;x\x07
        10.00%   ±0.09      200  xz         xz   [unknown]


        q quit  space pause  f function  c comm  p process  u CPU  n node  s sort  / filter  ? help
        ");
        press(&mut screen, "n ");
        insta::assert_snapshot!(drawn(&mut screen, &mut terminal), @r"
        cpu-clock every 1.00 ms, 2.00 s on 2 CPUs (2 NUMA nodes), 2,000 samples, 500/s per CPU    now
        overhead: 1.1% of CPU time · lost 0 · throttled 0 · software timer
        by node, largest first · rows 1-2 of 2 · paused
         share  95% CI  samples  NUMA node
        90.00%   ±0.09    1,800          0
        10.00%   ±0.09      200          1



        q quit  space pause  f function  c comm  p process  u CPU  n node  s sort  / filter  ? help
        ");
    }

    #[test]
    fn a_filter_keeps_rows_that_hold_it() {
        let (mut screen, mut terminal) = screen(100, 12);
        press(&mut screen, "/XZ");
        let typing = drawn(&mut screen, &mut terminal);
        assert!(typing.contains("rows 1-1 of 1 · filter: XZ_"), "{typing}");
        // Letters are text here, not keys.
        press(&mut screen, "q");
        assert!(drawn(&mut screen, &mut terminal).contains("no rows · filter: XZq_"));
        screen.key(Key::Backspace);
        screen.key(Key::Enter);
        assert!(drawn(&mut screen, &mut terminal).contains("filter: XZ\n"));
        screen.key(Key::Escape);
        assert!(drawn(&mut screen, &mut terminal).contains("rows 1-3 of 3\n"));
    }

    #[test]
    fn rows_move_by_keys_and_never_beyond_the_last() {
        let (mut screen, mut terminal) = screen(80, 7);
        assert!(drawn(&mut screen, &mut terminal).contains("rows 1-2 of 3"));
        for (key, rows) in [
            (Key::Down, "2-3"),
            (Key::Down, "2-3"),
            (Key::Up, "1-2"),
            (Key::PageDown, "2-3"),
            (Key::Home, "1-2"),
            (Key::PageUp, "1-2"),
        ] {
            screen.key(key);
            let shown = drawn(&mut screen, &mut terminal);
            assert!(shown.contains(&format!("rows {rows} of 3")), "{key:?}\n{shown}");
        }
    }

    #[test]
    fn names_are_in_order_where_asked_for() {
        let (mut screen, mut terminal) = screen(100, 10);
        press(&mut screen, "s");
        let shown = drawn(&mut screen, &mut terminal);
        let at = |name: &str| shown.find(name).unwrap_or_else(|| panic!("{name}\n{shown}"));
        assert!(at("[unknown]") < at("evil") && at("evil") < at("parse"), "{shown}");
    }

    #[test]
    fn it_goes_on_while_paused_and_says_why_it_ended() {
        let (mut screen, mut terminal) = screen(100, 30);
        press(&mut screen, " ");
        screen.take(profile());
        screen.end("nobody is left");
        let shown = drawn(&mut screen, &mut terminal);
        assert!(shown.contains("paused · nobody is left"), "{shown}");
        press(&mut screen, "?");
        assert!(drawn(&mut screen, &mut terminal).contains("rows by NUMA node"));
        // Any other key leaves the help, these leave the screen.
        press(&mut screen, "z");
        assert!(!drawn(&mut screen, &mut terminal).contains("rows by NUMA node"));
        assert_eq!(screen.key(Key::Char('q')), Next::Quit);
        press(&mut screen, "/");
        assert_eq!(screen.key(Key::Interrupt), Next::Quit);
    }

    #[test]
    fn a_screen_of_any_size_is_drawn_and_says_nothing_to_the_terminal() {
        let nothing = Screen::new(TopBy::Function, Style::PLAIN, Default::default());
        for mut screen in [nothing, screen(1, 1).0] {
            for (width, height) in [(1, 1), (3, 2), (20, 4), (200, 60)] {
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                for keys in ["f", "c", "p", "u", "n", "e", "?"] {
                    screen.key(Key::Char(keys.chars().next().unwrap()));
                    let shown = drawn(&mut screen, &mut terminal);
                    assert!(!shown.chars().any(|c| c != '\n' && c.is_control()), "{shown:?}");
                }
            }
        }
    }
}
