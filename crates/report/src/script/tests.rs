//! What is printed of a sample, of records, and of a recording as it stands.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType};
use pmuscope_perfdata::reader::{
    Comm, CpuMode, Mmap, Reader, Record, SampleId, Switch, TaskRecord,
};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};
use pmuscope_profile::Line;
use pmuscope_symbols::{Frame, Symbol};

use super::*;

/// Two functions in one file, of which the second holds an inlined one.
fn present() -> AddressSpaces {
    let mut present = AddressSpaces::default();
    present.take(&Record::Comm(Comm { pid: 7, tid: 8, name: b"sh\x1b[1m", exec: false }));
    let path: &[u8] = b"/bin/da,sh";
    present.take(&Record::Mmap(Mmap {
        pid: 7,
        tid: 8,
        start: 0x1000,
        length: 0x1000,
        path,
        executable: true,
        ..Mmap::default()
    }));
    present
}

fn names(present: &AddressSpaces) -> Names {
    let line = |number| Some(Line { file: "sh.c".into(), number: Some(number) });
    let outer = Symbol { line: line(3), ..Symbol::named("eval".into()) };
    let frame = Frame::named("peek<int, 2>".into(), line(9));
    let inlining: Symbol =
        Symbol { line: line(40), inlined: [frame].into(), ..Symbol::named("main".into()) };
    let mut names = Names::default();
    for (address, symbol) in [(0x1010, outer), (0x1020, inlining)] {
        names.insert(present.find(CpuMode::User, Some(7), address), Some(symbol));
    }
    names
}

fn event() -> Event {
    let attr = Attr {
        sample: 4000,
        sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    Event { name: "cpu-clock".into(), attr, ids: vec![5] }
}

/// Hands on one sample with and one without callers, and the names of their places.
fn with_samples(take: impl FnOnce(&Event, &Names, &[SampleView<'_>])) {
    let present = present();
    let event = event();
    let sample = Sample {
        ip: Some(0x1010),
        pid: Some(7),
        tid: Some(8),
        cpu: Some(3),
        time: Some(12_345_678_901),
        address: Some(0xdada),
        ..Sample::default()
    };
    let comm = present.comm(7, 8).to_vec();
    let step = |address| Step { address, spot: present.find(CpuMode::User, Some(7), address) };
    let chain = [step(0x1010), step(0x1020), step(0x9999)];
    let views = [&chain[..], &[]].map(|chain| SampleView {
        sample: &sample,
        details: None,
        event: &event,
        comm: &comm,
        place: Some(step(0x1010)),
        chain,
        branches: &[],
        present: &present,
        tracepoint: None,
    });
    take(&event, &names(&present), &views);
}

/// The same in a form with these fields.
fn printed(form: Form, fields: &str) -> String {
    let options = ScriptOptions { form, fields: fields.parse().unwrap(), nanoseconds: false };
    let mut out = Vec::new();
    with_samples(|event, names, views| {
        let mut printer = Printer::new(options, std::slice::from_ref(event), "x.data");
        views.iter().for_each(|view| printer.sample(view));
        printer.write(names, &mut out).unwrap();
    });
    String::from_utf8(out).unwrap()
}

/// Read back by the library's own reader, in two row groups.
#[cfg(feature = "parquet")]
#[test]
fn samples_as_columns() {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    let mut out = tempfile::tempfile().unwrap();
    with_samples(|_, names, views| {
        let fields = "+srcline,+addr,+weight,+read".parse().unwrap();
        let mut table = ParquetWriter::new(&fields, "x.data", &mut out).unwrap();
        views.iter().for_each(|view| table.sample(view));
        assert_eq!(table.spots().count(), 2 * 2 + 3);
        assert!(table.waiting() > 100);
        table.write(names).unwrap();
        assert_eq!((table.spots().count(), table.waiting()), (0, 0));
        // Nothing came: no row group.
        table.write(names).unwrap();
        table.sample(&views[1]);
        table.write(&Names::default()).unwrap();
        table.finish().unwrap();
    });
    let file = SerializedFileReader::new(out).unwrap();
    assert_eq!(file.metadata().num_row_groups(), 2);
    let told = file.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(
        told.iter().any(|one| one.key == "recording" && one.value.as_deref() == Some("x.data"))
    );
    let rows = file.into_iter().map(|row| crate::escape(&row.unwrap().to_string()).into_owned());
    let rows: Vec<String> = rows.collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    {comm: "sh\x1b[1m", tid: 8, cpu: 3, time: 12345678901, period: 4000, event: "cpu-clock", read: null, addr: 56026, weight: null, ip: 4112, sym: "eval", dso: "/bin/da,sh", srcline: "sh.c:3", callchain: [4112, 4128, 39321], callchain_sym: ["eval", "main", null]}
    {comm: "sh\x1b[1m", tid: 8, cpu: 3, time: 12345678901, period: 4000, event: "cpu-clock", read: null, addr: 56026, weight: null, ip: 4112, sym: "eval", dso: "/bin/da,sh", srcline: "sh.c:3", callchain: null, callchain_sym: null}
    {comm: "sh\x1b[1m", tid: 8, cpu: 3, time: 12345678901, period: 4000, event: "cpu-clock", read: null, addr: 56026, weight: null, ip: 4112, sym: null, dso: "/bin/da,sh", srcline: null, callchain: null, callchain_sym: null}
    "#);
}

#[test]
fn samples_as_text() {
    insta::assert_snapshot!(printed(Form::Text, "+pid,+srcline"), @r#"
    sh\x1b[1m     7/8     [003]    12.345678:       4000 cpu-clock: 
    	            1010 eval (/bin/da,sh) sh.c:3
    	            1020 peek<int, 2> (inlined)
    	            1020 main (/bin/da,sh) sh.c:9
    	            9999 [unknown] ([unknown]) [unknown]

           sh\x1b[1m     7/8     [003]    12.345678:       4000 cpu-clock:              1010 eval (/bin/da,sh) sh.c:3
    "#);
    insta::assert_snapshot!(printed(Form::Text, "time,addr,weight,data_src,raw"), @r#"
    12.345678:              dada - - raw=-
    12.345678:              dada - - raw=-
    "#);
}

#[test]
fn samples_for_programs() {
    insta::assert_snapshot!(printed(Form::Json, "+srcline,+addr,+weight"), @r#"
    {"schema":"pmuscope/script/1","type":"recording","file":"x.data","events":["cpu-clock"]}
    {"type":"sample","comm":"sh\u001b[1m","tid":8,"cpu":3,"time":12345678901,"period":4000,"event":"cpu-clock","addr":"0xdada","weight":null,"ip":"0x1010","sym":"eval","dso":"/bin/da,sh","srcline":"sh.c:3","callchain":[{"ip":"0x1010","sym":"eval","dso":"/bin/da,sh","srcline":"sh.c:3"},{"ip":"0x1020","sym":"main","inlined":["peek<int, 2>"],"dso":"/bin/da,sh","srcline":"sh.c:9"},{"ip":"0x9999","sym":null,"dso":"[unknown]","srcline":null}]}
    {"type":"sample","comm":"sh\u001b[1m","tid":8,"cpu":3,"time":12345678901,"period":4000,"event":"cpu-clock","addr":"0xdada","weight":null,"ip":"0x1010","sym":"eval","dso":"/bin/da,sh","srcline":"sh.c:3"}
    "#);
    insta::assert_snapshot!(printed(Form::Csv, "+srcline,+addr,+weight"), @r#"
    comm,tid,cpu,time,period,event,addr,weight,ip,sym,dso,srcline,callchain
    sh\x1b[1m,8,3,12345678901,4000,cpu-clock,0xdada,,0x1010,eval,"/bin/da,sh",sh.c:3,0x1010 0x1020 0x9999
    sh\x1b[1m,8,3,12345678901,4000,cpu-clock,0xdada,,0x1010,eval,"/bin/da,sh",sh.c:3,
    "#);
}

#[test]
fn records_as_text_and_json() {
    let mapping = Mmap {
        pid: 7,
        tid: 8,
        start: 0x1000,
        length: 0x2000,
        path: b"/bin/\x07",
        ..Mmap::default()
    };
    let second = Mmap {
        protection: Some((5, 2)),
        inode: Some(pmuscope_perfdata::reader::Inode {
            major: 8,
            minor: 1,
            number: 77,
            generation: 9,
        }),
        ..mapping
    };
    let known = Mmap { build_id: Some(&[0xab, 1]), inode: None, ..second };
    let task = TaskRecord { pid: 9, tid: 9, parent_pid: 7, parent_tid: 8, synthesised: false };
    let records = [
        Record::Mmap(mapping),
        Record::Mmap(second),
        Record::Mmap(known),
        Record::Comm(Comm { pid: 7, tid: 8, name: b"ls", exec: true }),
        Record::Fork(task),
        Record::Switch(Switch { out: true, preempted: true, other: Some((1, 2)) }),
        Record::Lost { event: Some(0), count: 41 },
        Record::LostSamples { event: 9, count: 1 },
    ];
    let events = [event()];
    let (mut text, mut json) = (String::new(), String::new());
    let maker = SampleId { task: Some((7, 8)), cpu: Some(1) };
    for record in &records {
        let view =
            RecordView { record, time: Some(1_000_000_001), maker, comm: b"sh", events: &events };
        super::record::text(&mut text, &view, true);
        super::record::json(&mut json, &view);
    }
    let untimed = RecordView {
        record: &records[0],
        time: None,
        maker: SampleId::default(),
        comm: b"-",
        events: &events,
    };
    super::record::text(&mut text, &untimed, false);
    insta::assert_snapshot!(text, @r#"
    sh     8 [001]     1.000000001: PERF_RECORD_MMAP 7/8: [0x1000(0x2000) @ 0x0]: r /bin/\x07
    sh     8 [001]     1.000000001: PERF_RECORD_MMAP2 7/8: [0x1000(0x2000) @ 0x0 08:01 77 9]: r-xp /bin/\x07
    sh     8 [001]     1.000000001: PERF_RECORD_MMAP2 7/8: [0x1000(0x2000) @ 0x0 <ab01>]: r-xp /bin/\x07
    sh     8 [001]     1.000000001: PERF_RECORD_COMM exec: ls:7/8
    sh     8 [001]     1.000000001: PERF_RECORD_FORK(9:9):(7:8)
    sh     8 [001]     1.000000001: PERF_RECORD_SWITCH_CPU_WIDE out yes preempted yes other_pid 1 other_tid 2
    sh     8 [001]     1.000000001: PERF_RECORD_LOST event cpu-clock lost 41
    sh     8 [001]     1.000000001: PERF_RECORD_LOST_SAMPLES event - lost 1
     -     -     0.000000: PERF_RECORD_MMAP 7/8: [0x1000(0x2000) @ 0x0]: r /bin/\x07
    "#);
    insta::assert_snapshot!(json, @r#"
    {"type":"mmap","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","pid":7,"tid":8,"start":"0x1000","len":"0x2000","pgoff":"0x0","executable":false,"filename":"/bin/\u0007","build_id":null}
    {"type":"mmap2","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","pid":7,"tid":8,"start":"0x1000","len":"0x2000","pgoff":"0x0","executable":false,"filename":"/bin/\u0007","build_id":null,"major":8,"minor":1,"inode":77,"generation":9,"prot":"0x5","flags":"0x2"}
    {"type":"mmap2","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","pid":7,"tid":8,"start":"0x1000","len":"0x2000","pgoff":"0x0","executable":false,"filename":"/bin/\u0007","build_id":"ab01","prot":"0x5","flags":"0x2"}
    {"type":"comm","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","pid":7,"tid":8,"comm":"ls","exec":true}
    {"type":"fork","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","pid":9,"tid":9,"ppid":7,"ptid":8}
    {"type":"switch_cpu_wide","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","out":true,"preempted":true,"other_pid":1,"other_tid":2}
    {"type":"lost","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","event":"cpu-clock","lost":41}
    {"type":"lost_samples","time":1000000001,"cpu":1,"by_pid":7,"by_tid":8,"by_comm":"sh","event":null,"lost":1}
    "#);
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn a_recording_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let event = event();
    let events = [FileEvent { attr: event.attr, name: event.name, ids: event.ids }];
    let mut file = front(&events);
    let start = file.len() as u64;
    RecordBuilder::new(&mut file, kind::SAMPLE, misc::USER).u64(5).u64(0x1010).u64(99).finish();
    RecordBuilder::new(&mut file, kind::COMM, 0).u32(7).u32(8).text("sh").u64(98).u64(5).finish();
    RecordBuilder::new(&mut file, kind::SAMPLE, misc::USER).u64(5).finish();
    RecordBuilder::new(&mut file, 55, 0).u64(0).finish();
    RecordBuilder::new(&mut file, kind::FINISHED_ROUND, 0).finish();
    let features = Features { hostname: Some("host\n".into()), ..Features::default() };
    let end = closing(&events, &features, start, file.len() as u64 - start);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    std::fs::write(&path, file).unwrap();

    let mut reader = Reader::open_raw(&path).unwrap();
    let mut text = dump_head(reader.metadata(), reader.endian());
    let events = reader.events().to_vec();
    dump_event(&mut text, 0, &events[0]);
    while let Some(entry) = reader.next().unwrap() {
        dump_entry(&mut text, &entry, &events);
    }
    insta::assert_snapshot!(text, @r#"
    # byte order: little-endian
    # host name: host\n
    # event 0: cpu-clock
    #   type 0
    #   config 0x0
    #   sample_period_or_freq 4000
    #   sample_type IP|TIME|IDENTIFIER
    #   read_format -
    #   flags SAMPLE_ID_ALL
    #   clockid 0
    #   ids 5
    0x180 [0x20]: SAMPLE (9) misc 0x2
      event cpu-clock
      time 99
      mode user
      id 5
      ip 0x1010
      0008: 05 00 00 00 00 00 00 00 10 10 00 00 00 00 00 00  ................
      0018: 63 00 00 00 00 00 00 00                          c.......

    0x1a0 [0x28]: COMM (3) misc 0x0
      event cpu-clock
      time 98
      pid 7
      tid 8
      comm sh
      exec no
      0008: 07 00 00 00 08 00 00 00 73 68 00 00 00 00 00 00  ........sh......
      0018: 62 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00  b...............

    0x1c8 [0x10]: SAMPLE (9) misc 0x2
      event cpu-clock
      time -
      error too short, or of no event
      0008: 05 00 00 00 00 00 00 00                          ........

    0x1d8 [0x10]: UNKNOWN (55) misc 0x0
      event cpu-clock
      time -
      kind 55
      0008: 00 00 00 00 00 00 00 00                          ........

    0x1e8 [0x8]: FINISHED_ROUND (68) misc 0x0
    "#);
}
