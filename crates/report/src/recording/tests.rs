//! Text and JSON of recordings made up here, byte by byte.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::info::{Cost, EventInfo, LostSource, MachineInfo, RecordingInfo, RingInfo};
use pmuscope_perfdata::reader::Reader;
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};
use pmuscope_profile::{Collected, Options, Profile};
use pmuscope_symbols::{Frame, KernelIdentity, Module, Resolved, State, Symbol};

use super::*;
use crate::{Envelope, Style, Tool, to_json};

/// A recording of one or two events in the making.
struct Made {
    events: Vec<FileEvent>,
    data: Vec<u8>,
    features: Features,
    written: u64,
    close: bool,
}

impl Made {
    fn new(events: usize) -> Self {
        let attr = |config: u64| Attr {
            event_type: event_type::SOFTWARE,
            config,
            sample: 1000,
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::FREQ,
            ..Attr::default()
        };
        let events = (0..events as u64)
            .map(|at| FileEvent {
                attr: attr(at * 2),
                name: ["cpu-clock", "page-faults"][at as usize].into(),
                ids: vec![at + 1],
            })
            .collect();
        Self { events, data: Vec::new(), features: Features::default(), written: 0, close: true }
    }

    /// A process with a file mapped at 0x1000.
    fn process(mut self, pid: u32, comm: &[u8], path: &[u8]) -> Self {
        RecordBuilder::new(&mut self.data, kind::COMM, misc::COMM_EXEC)
            .u32(pid)
            .u32(pid)
            .name(comm)
            .bytes(&trailer(pid, 1, 0))
            .finish();
        RecordBuilder::new(&mut self.data, kind::MMAP2, misc::USER)
            .u32(pid)
            .u32(pid)
            .u64(0x1000)
            .u64(0x1000)
            .u64(0)
            .bytes(&[0; 24])
            .u32(5)
            .u32(2)
            .name(path)
            .bytes(&trailer(pid, 1, 0))
            .finish();
        self
    }

    /// `number` samples of an event, spread over three seconds.
    fn samples(mut self, event: u64, pid: u32, ip: u64, number: u64) -> Self {
        self.written += number;
        for at in 0..number {
            let time = 1_000_000_000 + at * 3_000_000_000 / number;
            let mode = if ip >> 63 == 1 { misc::KERNEL } else { misc::USER };
            RecordBuilder::new(&mut self.data, kind::SAMPLE, mode)
                .u64(event + 1)
                .u64(ip)
                .u32(pid)
                .u32(pid)
                .u64(time)
                .finish();
        }
        self
    }

    fn lost(mut self, number: u64) -> Self {
        RecordBuilder::new(&mut self.data, kind::LOST, 0)
            .u64(1)
            .u64(number)
            .bytes(&trailer(1, 1, 2_000_000_000))
            .finish();
        self
    }

    fn info(mut self, mut info: RecordingInfo) -> Self {
        info.events[0].samples = self.written;
        self.features.info = Some(info.to_json());
        self
    }

    fn profile(self) -> Profile {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made.data");
        let mut file = front(&self.events);
        let start = file.len() as u64;
        file.extend_from_slice(&self.data);
        if self.close {
            let end = closing(&self.events, &self.features, start, self.data.len() as u64);
            file.extend_from_slice(&end.tail);
            file[..end.header.len()].copy_from_slice(&end.header);
        }
        std::fs::write(&path, file).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let collected = Collected::from_reader(&mut reader).unwrap();
        let running = KernelIdentity::default();
        let profile = collected.profile(&reader, &running, Options::default(), &mut |requests| {
            requests.iter().map(|one| resolve(&one.module, one.addresses)).collect()
        });
        profile.unwrap()
    }
}

fn trailer(pid: u32, id: u64, time: u64) -> Vec<u8> {
    let words = [u64::from(pid) | u64::from(pid) << 32, time, id];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Functions of 256 bytes; odd addresses are of one inlined there; some files have no symbols.
fn resolve(module: &Module<'_>, addresses: &[u64]) -> Resolved {
    let state = match module {
        Module::File(file) if file.path.ends_with("stripped") => State::NoSymbols,
        Module::File(file) if file.path.ends_with("gone") => State::FileMissing,
        Module::Jit { .. } => State::NoPerfMap,
        _ => State::Found,
    };
    let symbol = |address: &u64| {
        let name = format!("function_{}", address >> 8).into();
        let frame = Frame::named("inner\u{1b}[31m".into(), None);
        let inlined = if address % 2 == 1 { vec![frame].into() } else { Box::default() };
        Some(Symbol { inlined, ..Symbol::named(name) }.into())
    };
    let symbols = match state {
        State::Found => addresses.iter().map(symbol).collect(),
        _ => vec![None; addresses.len()],
    };
    Resolved { symbols, state }
}

const ALL: RowLimits = RowLimits::ALL;

fn info() -> RecordingInfo {
    RecordingInfo {
        complete: true,
        scope: "system-wide".into(),
        command: vec!["pmuscope".into(), "record".into(), "-a".into()],
        duration_s: 3.02,
        started_unix_ns: 1_795_240_000_000_000_000,
        machine: MachineInfo { cpus: 88, nodes: 2, ..MachineInfo::default() },
        lost_source: LostSource::ReadFormat,
        events: vec![EventInfo { lost: Some(0), ..EventInfo::default() }],
        rings: vec![RingInfo { lost: Some(0), ..RingInfo::default() }],
        cost: Cost {
            machine_share: Some(0.009),
            us_per_sample: Some(0.36),
            bytes_per_sample: Some(46.2),
            ..Cost::default()
        },
        ..RecordingInfo::default()
    }
}

#[test]
fn a_recording_of_ours_tells_cost_and_loss() {
    let profile = Made::new(1)
        .process(7, b"xz", b"/usr/bin/xz")
        .samples(0, 7, 0x1110, 6000)
        .samples(0, 7, 0x1221, 3000)
        .samples(0, 7, 0x9000, 200)
        .info(info())
        .profile();
    crate::widths::fits("recording", |style| recording_text(&profile, "build.data", ALL, style));
    insta::assert_snapshot!(recording_text(&profile, "build.data", ALL, &Style::PLAIN), @r"
    cpu-clock at 1,000 Hz, 3.02 s on 88 CPUs (2 NUMA nodes), 9,200 samples, 34.6/s per CPU    build.data
    overhead: 0.90% of CPU time (0.36 µs/sample, 46.2 B/sample) · lost 0 · throttled 0 · software timer

      self  95% CI  samples  comm  DSO        function
    65.22%   ±0.02    6,000  xz    xz         function_1
    32.61%   ±0.00    3,000  xz    xz         inner\x1b[31m (inlined into function_2)
     2.17%   ±0.02      200  xz    [unknown]  [unknown]

    note: 2.2% of the samples fall outside any recorded mapping: [unknown].
    ");
    let narrow = Style { unicode: false, width: Some(60), ..Style::PLAIN };
    let limits = RowLimits { rows: Some(1), ..RowLimits::ALL };
    insta::assert_snapshot!(recording_text(&profile, "build.data", limits, &narrow), @r"
    cpu-clock at 1,000 Hz, 3.02 s on 88 CPUs (2 NUMA nodes),
      9,200 samples, 34.6/s per CPU    build.data
    overhead: 0.90% of CPU time (0.36 us/sample, 46.2
    B/sample) | lost 0 | throttled 0 | software timer

      self  95% CI  samples  comm  DSO  function
    65.22%  +-0.02    6,000  xz    xz   function_1
    34.78%            3,200  -     -    ... 2 more: --limit all

    note: 2.2% of the samples fall outside any recorded mapping:
          [unknown].
    ");
}

#[test]
fn a_title_says_what_was_measured() {
    let title = |info: RecordingInfo| {
        let made = Made::new(2).process(7, b"db", b"/usr/bin/db").samples(0, 7, 0x1010, 1200);
        let profile = made.samples(1, 7, 0x1010, 3).info(info).profile();
        crate::Summary::new(&profile, "/tmp/x.data").title
    };
    assert_eq!(title(info()), "cpu-clock, page-faults: system-wide, 3.02 s, 1,203 samples");
    let scope = "command ./server --port 80".into();
    let command = title(RecordingInfo { scope, ..info() });
    assert_eq!(command, "cpu-clock, page-faults: ./server --port 80, 3.02 s, 1,203 samples");
}

#[test]
fn a_foreign_recording_has_no_cost_and_its_loss_is_a_lower_bound() {
    let profile = Made::new(2)
        .process(7, b"evil\x1b[2J\nname", b"/opt/stripped")
        .process(8, b"cat", b"/opt/a\x07/gone")
        .samples(0, 7, 0x1110, 400)
        .samples(0, 8, 0x1110, 390)
        .samples(1, 8, 0x1110, 5)
        .lost(30)
        .profile();
    let text = recording_text(&profile, "perf.data", ALL, &Style::PLAIN);
    assert!(!text.contains('\x1b') && !text.contains('\x07'));
    insta::assert_snapshot!(text, @r"
    2 events, 2.99 s, 795 samples, 266/s    perf.data
    overhead: - · lost at least 30 · throttled 0 · software timer

    cpu-clock at 1,000 Hz, 790 samples
      self  95% CI  ±lost  samples  comm               DSO       function
    50.63%   ±0.02  ±1.85      400  evil\x1b[2J\nname  stripped  [unknown]
    49.37%   ±0.02  ±1.85      390  cat                gone      [unknown]

    page-faults at 1,000 Hz, 5 samples
       self  95% CI   ±lost  samples  comm  DSO   function
    100.00%       -  ±85.71        5  cat   gone  [unknown]

    CPU  samples  lost  of records  throttled  suspended
      -        -    30           -          0          -
    lost, in blocks of 16.8 ms from the first sample: 30 at 990 ms

    warning: at least 3.64% of all records were lost. The first two functions differ by less (1.27%). Record with a lower frequency (-F) or larger buffers (-m).
    note: 100.0% of the samples have no function name, in 1 DSO: --modules shows why and what to do.
    note: no CI: samples fall in 5 time blocks, 30 needed. Record longer, or with a higher frequency (-F) or a shorter period (-c).
    ");
    crate::widths::fits("recording-2", |style| modules_text(&profile, "perf.data", ALL, style));
    insta::assert_snapshot!(modules_text(&profile, "perf.data", ALL, &Style::PLAIN), @r"
    2 events, 2.99 s, 795 samples, 266/s    perf.data
    overhead: - · lost at least 30 · throttled 0 · software timer

    cpu-clock at 1,000 Hz, 790 samples
      self  samples  named  build id  symbols       DSO (binary or shared library)
    50.63%      400     0%  -         stripped      /opt/stripped
    49.37%      390     0%  -         file missing  /opt/a\x07/gone

    page-faults at 1,000 Hz, 5 samples
       self  samples  named  build id  symbols       DSO (binary or shared library)
    100.00%        5     0%  -         file missing  /opt/a\x07/gone

    stripped: install its debug package, or build it with symbols (no -s, no strip)
    gone: report on the machine that recorded, before the file is replaced or removed; if it moved: --symfs DIR
    ");
}

#[test]
fn a_recording_that_was_killed_says_so() {
    let mut made =
        Made::new(1).process(7, b"xz", b"/usr/bin/xz").samples(0, 7, 0x1110, 10).lost(90);
    made.close = false;
    let profile = made.profile();
    crate::widths::fits("recording-3", |style| recording_text(&profile, "killed.data", ALL, style));
    insta::assert_snapshot!(recording_text(&profile, "killed.data", ALL, &Style::PLAIN), @r"
    cpu-clock at 1,000 Hz, 2.70 s, 10 samples, 3.70/s    killed.data
    overhead: - · lost at least 90 · throttled 0 · software timer · truncated

       self  95% CI   ±lost  samples  comm  DSO  function
    100.00%       -  ±90.00       10  xz    xz   function_1

    CPU  samples  lost  of records  throttled  suspended
      -        -    90           -          0          -
    lost, in blocks of 16.8 ms from the first sample: 90 at 990 ms

    warning: the recording is incomplete: its recorder was killed or is still running. Overhead and losses are those it last reported.
    warning: at least 90.00% of all records were lost. Results can be off by as much. Record with a lower frequency (-F) or larger buffers (-m).
    note: no CI: samples fall in 10 time blocks, 30 needed. Record longer, or with a higher frequency (-F).
    ");
}

#[test]
fn a_timer_below_the_kernels_shortest_period_is_named() {
    let said = |period: u64| {
        let mut made = Made::new(1).process(7, b"xz", b"/usr/bin/xz").samples(0, 7, 0x1110, 40);
        made.events[0].attr.flags.remove(AttrFlags::FREQ);
        made.events[0].attr.sample = period;
        recording_text(&made.profile(), "x.data", ALL, &Style::PLAIN)
    };
    let note = "cpu-clock was recorded with a period of 9,999 ns, but the kernel's timer has 10,000 ns at least";
    assert!(said(9_999).contains(note), "{}", said(9_999));
    assert!(!said(10_000).contains("kernel's timer"), "{}", said(10_000));
}

#[test]
fn a_recording_without_samples_has_no_rows() {
    let profile = Made::new(1).process(7, b"xz", b"/usr/bin/xz").profile();
    crate::widths::fits("recording-4", |style| recording_text(&profile, "empty.data", ALL, style));
    insta::assert_snapshot!(recording_text(&profile, "empty.data", ALL, &Style::PLAIN), @r"
    cpu-clock at 1,000 Hz, -, 0 samples    empty.data
    overhead: - · lost at least 0 · throttled 0 · software timer

    no samples
    ");
}

#[test]
fn the_json_has_the_same_numbers_and_reasons_for_what_is_null() {
    let profile = Made::new(1)
        .process(7, b"xz", b"/usr/bin/xz")
        .samples(0, 7, 0x1110, 3000)
        .samples(0, 7, 0x1221, 1000)
        .info(info())
        .profile();
    let text = to_json(&Envelope {
        schema: RECORDING_SCHEMA,
        tool: Tool { name: "pmuscope", version: "1" },
        machine: None,
        command: &[],
        started: std::time::UNIX_EPOCH,
        duration_s: std::time::Duration::ZERO,
        status: 0,
        result: RecordingReport::new(&profile, "build.data", ALL),
    })
    .unwrap();
    insta::assert_snapshot!(text, @r#"
{
  "schema": "pmuscope/report/1",
  "tool": {
    "name": "pmuscope",
    "version": "1"
  },
  "machine": null,
  "command": [],
  "started": "0",
  "duration_s": 0.0,
  "status": 0,
  "recording": {
    "file": "build.data",
    "state": "complete",
    "scope": "system-wide",
    "duration_s": 3.02,
    "cost": {
      "user_s": 0.0,
      "system_s": 0.0,
      "startup_s": 0.0,
      "close_s": 0.0,
      "readers": [],
      "bytes": 0,
      "ring_bytes": 0,
      "machine_share": 0.009,
      "us_per_sample": 0.36,
      "bytes_per_sample": 46.2,
      "sampling_us": null,
      "sampling_us_interval": null,
      "sampling_pairs": null
    },
    "lost": 0,
    "lost_is": "exact",
    "throttled": 0,
    "command": [
      "pmuscope",
      "record",
      "-a"
    ],
    "started": "1795240000000000000",
    "machine": {
      "hostname": null,
      "kernel": null,
      "arch": null,
      "cpu_model": null,
      "cpus": 88,
      "nodes": 2
    },
    "losses": [],
    "block_s": 0.016777216,
    "records": 4002,
    "stacks": null,
    "stacks_why": "samples carry no copies of stacks"
  },
  "events": [
    {
      "name": "cpu-clock",
      "samples": 4000,
      "period": null,
      "period_why": "the period varies and the samples do not carry it",
      "lost": 0,
      "frequency_hz": 1000,
      "fixed_period": null,
      "share_of": "samples",
      "blocks": 179,
      "functions": [
        {
          "share": 0.75,
          "share_low": 0.7497142307012533,
          "share_high": 0.7502855516936607,
          "samples": 3000,
          "weight": null,
          "total_share": null,
          "total_samples": null,
          "command": "xz",
          "module": "/usr/bin/xz",
          "function": "function_1",
          "with_lost_low": null,
          "with_lost_high": null,
          "inlined_into": null
        },
        {
          "share": 0.25,
          "share_low": 0.2497144483063393,
          "share_high": 0.2502857692987467,
          "samples": 1000,
          "weight": null,
          "total_share": null,
          "total_samples": null,
          "command": "xz",
          "module": "/usr/bin/xz",
          "function": "inner\u001b[31m",
          "with_lost_low": null,
          "with_lost_high": null,
          "inlined_into": "function_2"
        }
      ],
      "functions_left_out": 0,
      "modules": [
        {
          "module": "/usr/bin/xz",
          "samples": 4000,
          "samples_with_function": 4000,
          "share": 1.0
        }
      ]
    }
  ],
  "modules": [
    {
      "module": "/usr/bin/xz",
      "build_id": null,
      "symbols": "found",
      "advice": null
    }
  ],
  "notes": []
}
"#);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let shares: f64 = value["events"][0]["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["share"].as_f64().unwrap())
        .sum();
    assert!((shares - 1.0).abs() < 1e-9);
}
