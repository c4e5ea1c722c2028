//! Text, JSON and pages of recordings whose writes are known.

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_perfdata::watch::{ArmedBlock, HitCost, ValueKind, WatchTarget};
use pmuscope_profile::hits::{Hits, Options};
use pmuscope_symbols::{Frame, KernelIdentity, Line, Request, Resolved, State, Symbol};

use super::html::watch_page;
use super::text::watch_text;
use super::{WatchLimits, WatchReport, WatchView};
use crate::Style;
use pmuscope_testkit::hit_file::{CODE, Recording, START, Write};

const HOSTILE: &str = "<b>\u{1b}[31m\"x\"&'";

/// Functions of 256 bytes: two with lines, one inlined, one hostile, one without a name.
fn named(requests: &[Request<'_>]) -> Vec<Resolved> {
    let line = |number| Some(Line { file: "/src/counter.c".into(), number: Some(number) });
    let symbol = |&address: &u64| match (address - 0x1000) / 0x100 {
        0 => Some(Symbol { line: line(41), ..Symbol::named("bump".into()) }.into()),
        1 => Some(Symbol { line: line(57), ..Symbol::named("reset".into()) }.into()),
        2 => {
            let inlined = [Frame::named("step".into(), line(12))].into();
            Some(Symbol { inlined, ..Symbol::named("main".into()) }.into())
        }
        3 => Some(Symbol::named(HOSTILE.into()).into()),
        _ => None,
    };
    let one = |request: &Request<'_>| Resolved {
        symbols: request.addresses.iter().map(symbol).collect(),
        state: State::Found,
    };
    requests.iter().map(one).collect()
}

fn read(recording: &Recording) -> Hits {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watch.data");
    recording.write(&path);
    let recording = RecordingFile::open(&path).unwrap();
    Hits::read(&recording, &Options::default(), &KernelIdentity::default(), &mut named).unwrap()
}

fn text_of(recording: &Recording) -> String {
    styled(recording, &Style::PLAIN)
}

fn styled(recording: &Recording, style: &Style) -> String {
    let hits = read(recording);
    watch_text(&WatchView::new(&hits, Some("watch.data"), WatchLimits::TEXT), style)
}

fn target(name: &str, value: ValueKind, bytes: u64) -> WatchTarget {
    WatchTarget {
        name: name.into(),
        type_name: "unsigned long".into(),
        value,
        declared: Some(("/src/counter.c".into(), 3)),
        address: 0x7000_0040,
        bytes,
        ..WatchTarget::default()
    }
}

fn named_threads(number: u32) -> Vec<(u32, u32, String)> {
    let worker = |tid| (100, tid, format!("worker-{}", tid - 100));
    std::iter::once((100, 100, "server".to_owned()))
        .chain((101..=100 + number).map(worker))
        .collect()
}

/// A counter that steps by one a thousand times and is set back now and then, by three threads.
fn server() -> Recording {
    let mut value = 0;
    let write = |at: u64| {
        let resets = at % 250 == 249;
        value = if resets { 0 } else { value + 1 };
        Write {
            time: at * 1_000_000,
            pid: 100,
            tid: if resets { 100 } else { 101 + (at % 7 % 2) as u32 },
            ip: CODE + if resets { 0x110 } else { 0x10 },
            point: 0,
            value,
            is_kept: true,
        }
    };
    let recording = Recording {
        writes: (0..1000).map(write).collect(),
        names: named_threads(2),
        scope: "process 100 (server)",
        ..Recording::default()
    };
    let mut recording = recording.target(target("counter", ValueKind::Unsigned, 8));
    recording.info.lost = vec![0];
    recording.info.hit_cost = Some(HitCost { ns: 1840.0, margin_ns: Some(21.0), n: 30 });
    recording.info.slowdown = Some(0.00184);
    recording
}

#[test]
fn who_wrote_what_from_where() {
    crate::widths::fits("watch", |style| styled(&server(), style));
    insta::assert_snapshot!(text_of(&server()), @r"
    writes of counter, process 100 (server), 1.00 s, 1,000 hits    watch.data
    overhead: 1.840 ± 0.021 µs/hit (n 30) · slowdown ~0.184% of CPU time · every hit recorded · lost 0

     hits  per s  changed   old+1  records  target
    1,000  1,000  100.00%  99.60%    1,000  counter (unsigned long, 8 bytes at 0x70000040, counter.c:3)

    counter
      share   hits  101 worker-1  102 worker-2  100 server  call site
     99.60%    996           568           428              bump counter.c:41
      0.40%      4                                       4  reset counter.c:57
    100.00%  1,000           568           428           4  all call sites
    over time: 966 to 1,010 hits/s, median 1,010, in 30 blocks of 33.6 ms
    values: 250 distinct values, 0 to 249, in 1,000 hits

      time s  thread        old  new    call site
    0.000000  101 worker-1    -  → 1    bump counter.c:41
    0.001000  102 worker-2    1  → 2    bump counter.c:41
    0.002000  101 worker-1    2  → 3    bump counter.c:41
    0.003000  102 worker-2    3  → 4    bump counter.c:41
    0.004000  101 worker-1    4  → 5    bump counter.c:41
           …  990 between
    0.995000  102 worker-2  245  → 246  bump counter.c:41
    0.996000  101 worker-1  246  → 247  bump counter.c:41
    0.997000  102 worker-2  247  → 248  bump counter.c:41
    0.998000  101 worker-1  248  → 249  bump counter.c:41
    0.999000  100 server    249  → 0    reset counter.c:57

    note: old and new are the values at two consecutive hits, read right after the access. If another thread wrote in that moment, its value is shown.
    note: callers: pmuscope report --call-tree watch.data
    ");
}

/// A second in which points were armed for `armed_ns` and hit `hits` times.
fn second(armed_ns: u64, hits: u64) -> ArmedBlock {
    ArmedBlock {
        from_ns: START,
        until_ns: START + 1_000_000_000,
        armed_ns,
        hits: vec![hits],
        ..ArmedBlock::default()
    }
}

/// Under a limit that was never reached: nothing is missing, and nothing says that it is.
#[test]
fn a_burst_that_was_seen_whole_is_not_called_a_part() {
    let mut recording = server();
    recording.info.most_slowdown = Some(0.1);
    recording.info.slowdown = None;
    recording.info.blocks = vec![second(1_000_000_000, 1000)];
    let text = text_of(&recording);
    let lines: Vec<&str> = text.lines().take(2).collect();
    assert!(lines[0].contains("1.00 s, 1,000 hits  "), "{text}");
    assert!(lines[1].contains("enabled 100% · every hit recorded"), "{text}");
    assert!(lines[1].contains("slowdown unknown (limit 10% after 100 ms of hits)"), "{text}");
}

/// A burst that is over before the limit holds: what was counted is not all, and nothing says that it is.
#[test]
fn a_burst_that_was_not_seen_whole_says_so_first() {
    let mut recording = server();
    recording.info.slowdown = Some(2.51);
    recording.info.most_slowdown = Some(0.1);
    recording.info.hit_cost = Some(HitCost { ns: 50_000.0, margin_ns: Some(100.0), n: 30 });
    recording.info.target_cpu_ns = Some(60_000_000);
    recording.info.blocks = vec![second(780_000_000, 1000)];
    let text = text_of(&recording);
    let lines: Vec<&str> = text.lines().take(2).collect();
    let first = "1,000 hits counted, hits in 22.0% of the time missed (no estimate: hits took 100% of the \
                 CPU time)";
    assert!(lines[0].contains(first), "{text}");
    assert!(
        lines[1].contains("slowdown ~251% of CPU time (limit 10% after 100 ms of hits)"),
        "{text}"
    );
    assert!(lines[1].contains("every counted hit recorded"), "{text}");
}

/// The same with the CPU time of each block: what was missed has an estimate from below. What was enabled all the
/// time missed nothing.
#[test]
fn a_burst_has_an_estimate_from_below() {
    let mut recording = server();
    recording.info.most_slowdown = Some(0.1);
    recording.info.hit_cost = Some(HitCost { ns: 50_000.0, margin_ns: Some(100.0), n: 30 });
    let block = |at: u64| {
        let is_armed = at.is_multiple_of(2);
        let cpu = if is_armed { 5_000_000 } else { 1_000_000 };
        ArmedBlock {
            from_ns: START + at * 50_000_000,
            until_ns: START + (at + 1) * 50_000_000,
            armed_ns: if is_armed { 50_000_000 } else { 0 },
            hits: vec![if is_armed { 100 } else { 0 }],
            cpu_ns: Some(cpu),
            armed_cpu_ns: Some(if is_armed { cpu } else { 0 }),
            ..ArmedBlock::default()
        }
    };
    recording.info.blocks = (0..20).map(block).collect();
    let text = text_of(&recording);
    let first = "1,000 hits counted, ~1,200";
    assert!(text.contains(first), "{text}");
    assert!(text.contains(" or more in total (hits took 100% of the CPU time)"), "{text}");

    for block in &mut recording.info.blocks {
        block.armed_ns = 50_000_000;
        block.armed_cpu_ns = block.cpu_ns;
    }
    let text = text_of(&recording);
    assert!(text.lines().next().unwrap().contains(", 1,000 hits    "), "{text}");
    assert!(text.contains("every hit recorded"), "{text}");
}

/// 4,000 writes in a loop, of which a pause hides 1,003: its time says nothing of their number, the values do.
#[test]
fn what_a_pause_hides_of_a_counter_is_known_by_its_steps() {
    let write = |at: u64| Write {
        time: at * 10_000,
        pid: 100,
        tid: 100,
        ip: CODE + 0x10,
        point: 0,
        value: at + 1,
        is_kept: !(2000..3003).contains(&at),
    };
    let burst = |writes: Vec<Write>| {
        let mut recording = Recording { writes, ..server() };
        recording.pause = 20_000_000..30_030_000;
        recording.info.most_slowdown = Some(0.1);
        recording.info.hit_cost = Some(HitCost { ns: 50_000.0, margin_ns: Some(100.0), n: 30 });
        recording.info.target_cpu_ns = Some(60_000_000);
        recording.info.blocks = vec![second(780_000_000, 2997)];
        recording
    };
    let writes: Vec<Write> = (0..4000).map(write).collect();
    let text = text_of(&burst(writes.clone()));
    let first = text.lines().next().unwrap();
    let known = "2,997 hits counted, ~4,000 up to the last counted hit (no CI; assumes each missed hit added 1, \
                 as the counted ones did)";
    assert!(first.contains(known), "{text}");
    let hits = read(&burst(writes.clone()));
    let view = WatchView::new(&hits, None, WatchLimits::ALL);
    let value = serde_json::to_value(WatchReport::new(&view)).unwrap();
    assert_eq!(value["targets"][0]["by_steps"], 4000);
    // Set back by a counted write: its steps say nothing.
    let mut set_back = writes;
    set_back[3500..].iter_mut().for_each(|write| write.value -= 3400);
    let text = text_of(&burst(set_back));
    let first = text.lines().next().unwrap();
    assert!(first.contains("hits in 22.0% of the time missed (no estimate"), "{text}");
}

/// arm64, under a limit, one of ten written down, by more threads than there are columns.
#[test]
fn what_was_missed_is_estimated_and_said() {
    let write = |at: u64| Write {
        time: at * 100_000,
        pid: 100,
        tid: 101 + (at * at % 11) as u32,
        ip: CODE + 0x200,
        point: 0,
        value: at % 3,
        is_kept: at.is_multiple_of(10),
    };
    let mut state = target("state", ValueKind::Enumeration, 4);
    state.names = vec![(0, "IDLE".into()), (1, "BUSY".into())];
    state.type_name = "enum state".into();
    let recording = Recording {
        arch: "aarch64",
        writes: (0..10_000).map(write).collect(),
        names: named_threads(11),
        ..Recording::default()
    };
    let mut recording = recording.target(state);
    recording.info.every = 10;
    recording.info.most_slowdown = Some(0.05);
    recording.info.lost = vec![17];
    recording.info.blocks = (0..100)
        .map(|at| ArmedBlock {
            from_ns: START + at * 10_000_000,
            until_ns: START + (at + 1) * 10_000_000,
            armed_ns: 2_000_000 + at % 7 * 100_000,
            hits: vec![100],
            points: Vec::new(),
            ..ArmedBlock::default()
        })
        .collect();
    insta::assert_snapshot!(text_of(&recording), @r#"
    writes of state, 1.00 s, 10,000 hits counted, ~43,911 ± 603 in total    watch.data
    slowdown unknown (limit 5%) · enabled 22.9% · 1 in 10 counted hits recorded · lost 17

      hits  estimated total          per s  changed  records  target
    10,000    ~43,911 ± 603  ~43,911 ± 603   99.99%    1,000  state (enum state, 4 bytes at 0x70000040, counter.c:3)

    state
      share    hits  102 worker-2  105 worker-5  110 worker-10  106 worker-6  2 others  call site
    100.00%  10,000         1,818         1,818          1,818         1,818     2,728  step (in main) counter.c:12
    over time: 38,500 to 50,000 hits/s, median 43,500, in 239 blocks of 4.19 ms
    values: 3 distinct values, 0 to 2, in 1,000 records, which stand for ~10,000 hits

     share    hits        value
    33.40%  ~3,340     IDLE (0)
    33.30%  ~3,330     BUSY (1)
    33.30%  ~3,330  2 (no name)

      time s  thread                 old  new  call site
    0.000000  101 worker-1      IDLE (0)  → -  step (in main) counter.c:12
    0.001000  102 worker-2      IDLE (0)  → -  step (in main) counter.c:12
    0.002000  105 worker-5      BUSY (1)  → -  step (in main) counter.c:12
    0.003000  110 worker-10  2 (no name)  → -  step (in main) counter.c:12
    0.004000  106 worker-6      IDLE (0)  → -  step (in main) counter.c:12
           …  990 between
    0.995000  104 worker-4      BUSY (1)  → -  step (in main) counter.c:12
    0.996000  104 worker-4   2 (no name)  → -  step (in main) counter.c:12
    0.997000  106 worker-6      IDLE (0)  → -  step (in main) counter.c:12
    0.998000  110 worker-10     BUSY (1)  → -  step (in main) counter.c:12
    0.999000  105 worker-5   2 (no name)  → -  step (in main) counter.c:12

    note: watchpoints were enabled part of the time, to stay below the overhead limit. "hits" were counted while enabled; "estimated total" is extrapolated (95% CI from 100 time blocks). Call sites, threads and values are those of counted hits.
    note: this CPU traps before the access: a hit reads the old value, and new is what the next hit read, unless another thread wrote in between. It is unknown for a process's last hit, and where the next was not recorded.
    note: callers: pmuscope report --call-tree watch.data
    "#);
}

/// Eight words that took turns in pairs; two threads write one each.
fn line() -> Recording {
    let write = |at: u64| Write {
        time: at * 1_000_000,
        pid: 100,
        tid: 101 + (at % 2) as u32,
        ip: CODE + 0x10,
        point: if at.is_multiple_of(2) { 0 } else { 5 },
        value: at,
        is_kept: true,
    };
    let mut of = target("line:0x70000040", ValueKind::Other, 64);
    of.type_name = String::new();
    of.declared = None;
    let recording = Recording {
        writes: (0..1000).map(write).collect(),
        names: named_threads(2),
        ..Recording::default()
    };
    let mut recording = recording.target(of);
    recording.info.blocks = (0..100)
        .map(|at: u64| {
            let points: Vec<u32> = (0..8).filter(|point| point / 4 == at as u32 % 2).collect();
            let hits = |point| if points.contains(&point) && point % 5 == 0 { 10 } else { 0 };
            ArmedBlock {
                from_ns: START + at * 10_000_000,
                until_ns: START + (at + 1) * 10_000_000,
                armed_ns: 10_000_000,
                hits: (0..8).map(hits).collect(),
                points,
                ..ArmedBlock::default()
            }
        })
        .collect();
    recording
}

#[test]
fn words_of_a_line_have_a_verdict() {
    crate::widths::fits("watch-lines", |style| styled(&line(), style));
    let text = text_of(&line());
    let at = text.find("cache line").unwrap();
    insta::assert_snapshot!(&text[at..], @r#"
    cache line 0x70000040 of process 100: estimate: false sharing
    1,000 hits of 2 threads, 0% by a thread other than the word's main one, reads were not watched
    threads use different words of one cache line, which moves between them. Give each thread's word its own cache line
     bytes  101 worker-1  102 worker-2
      +0–7        ~1,000
     +8–15
    +16–23
    +24–31
    +32–39
    +40–47                      ~1,000
    +48–55
    +56–63

    note: more watchpoints than debug registers, so they were multiplexed. "hits" were counted while enabled; "estimated total" is extrapolated (95% CI from 100 time blocks). Call sites, threads and values are those of counted hits.
    note: old and new are the values at two consecutive hits, read right after the access. If another thread wrote in that moment, its value is shown.
    note: callers: pmuscope report --call-tree watch.data
    "#);
}

#[test]
fn what_was_killed_says_that_it_knows_less() {
    let text = text_of(&Recording { killed: true, ..server() });
    for expected in [
        "≥ 1,000",
        "the recording is incomplete or damaged",
        "the table of call sites is written when a recording is closed",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

fn hostile() -> Recording {
    let mut recording = server();
    recording.names.iter_mut().for_each(|name| name.2 = HOSTILE.to_owned());
    recording.writes.iter_mut().for_each(|write| write.ip = CODE + 0x310);
    recording.info.targets[0].name = HOSTILE.into();
    recording.info.targets[0].type_name = HOSTILE.into();
    recording.info.targets[0].notes = vec![HOSTILE.into()];
    recording.info.when = Some(HOSTILE.into());
    recording
}

#[test]
fn names_act_on_nobody() {
    let recording = hostile();
    let hits = read(&recording);
    let view = WatchView::new(&hits, Some(HOSTILE), WatchLimits::PAGE);
    let text = watch_text(&view, &Style::PLAIN);
    assert!(!text.contains('\u{1b}') && text.contains("<b>\\x1b[31m"), "{text}");
    let page = watch_page(&view, "abc");
    assert!(!page.contains('\u{1b}') && !page.contains("<b>"), "{page}");
    assert!(page.contains("&lt;b&gt;\\x1b[31m&quot;x&quot;&amp;'"), "{page}");
    let json = crate::to_json(&WatchReport::new(&view)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["targets"][0]["name"], HOSTILE);
    assert!(!json.contains('\u{1b}'));
}

#[test]
fn json_has_the_numbers() {
    let hits = read(&server());
    let view = WatchView::new(&hits, Some("watch.data"), WatchLimits::ALL);
    let value = serde_json::to_value(WatchReport::new(&view)).unwrap();
    let target = &value["targets"][0];
    assert_eq!(target["hits"], 1000);
    assert_eq!(target["plus_one"]["part"], 995);
    assert_eq!(target["plus_one"]["of"], 999);
    assert_eq!(target["per_s"]["value"], 1000.0);
    assert_eq!(target["places"][0]["function"], "bump");
    assert_eq!(target["places"][0]["line"], 41);
    let of_places: u64 = target["places"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|place| place["by_thread"].as_array().unwrap())
        .map(|cell| cell["hits"].as_u64().unwrap())
        .sum();
    assert_eq!(of_places, 1000);
    let first = &target["history"]["first"][1];
    assert_eq!((&first["old"], &first["new_text"]), (&"0x1".into(), &"2".into()));
    assert_eq!(value["watch"]["values_read"], "after");
}

#[test]
fn pages_have_pictures_and_tables_of_all() {
    for (recording, title, wanted) in [
        (
            server(),
            "writes of counter: process 100 (server), 1.00 s, 1,000 hits",
            &["class=\"bars\"", "class=\"band\"", "bump counter.c:41", "> 99"][..3],
        ),
        (
            line(),
            "writes of line:0x70000040: 1.00 s, 1,000 hits",
            &["id=\"lines\"", "false sharing", "+40–47", "~1,000"][..],
        ),
    ] {
        let hits = read(&recording);
        let page = watch_page(&WatchView::new(&hits, Some("watch.data"), WatchLimits::PAGE), "abc");
        assert_eq!(crate::title::tests::of_page(&page), title);
        for expected in wanted {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        for tag in ["table", "section", "article", "svg", "tr", "td", "th", "div"] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
