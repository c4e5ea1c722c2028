//! What is printed of a sample, of records, and of a recording as it stands.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType};
use pmuscope_perfdata::reader::{
    Comm, CpuMode, Mmap, Reader, Record, SampleId, Switch, TaskRecord,
};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};
use pmuscope_profile::{AddressSpaces, Line, Locator};
use pmuscope_symbols::{Frame, Symbol};

use super::place_text::{CommText, PlaceNumbers};
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

fn symbol(address: u64) -> Option<Symbol> {
    let line = |number| Some(Line { file: "sh.c".into(), number: Some(number) });
    match address {
        0x10 => Some(Symbol { line: line(3), ..Symbol::named("eval".into()) }),
        0x20 => {
            let frame = Frame::named("peek<int, 2>".into(), line(9));
            Some(Symbol { line: line(40), inlined: [frame].into(), ..Symbol::named("main".into()) })
        }
        _ => None,
    }
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

/// The lines of one sample with and one without callers, on CPU 3, in a form with these fields.
fn printed(form: Form, fields: &str) -> String {
    printed_on(Some(3), form, fields)
}

/// Lines as of [`printed`], with a CPU or without one.
fn printed_on(cpu: Option<u32>, form: Form, fields: &str) -> String {
    let (present, mut locator) = (present(), Locator::default());
    let events = [event()];
    let options = ScriptOptions { form, fields: fields.parse().unwrap(), nanoseconds: false };
    let sample = Sample {
        ip: Some(0x1010),
        pid: Some(7),
        tid: Some(8),
        cpu,
        time: Some(12_345_678_901),
        address: Some(0xdada),
        ..Sample::default()
    };
    let thread = locator.thread(&present, Some((7, 8)));
    let chain_of_all = [0x1010, 0x1020, 0x9999].map(|address| {
        let place = locator.place(&present, thread, CpuMode::User, address);
        Step { address, place }
    });
    let mut texts = Texts::default();
    texts.comms.push(CommText::new(form, &locator.comm(&present, thread.comm)));
    let mut numbers = PlaceNumbers::default();
    let number = |place: pmuscope_profile::ModuleOffset| {
        let (path, symbol) = (present.module(place.module).path, symbol(place.address));
        numbers.number(&mut texts.places, &options, symbol.as_ref(), path)
    };
    texts.new_places = locator.new_places().map(number).collect();
    let format = LineFormat::new(options, &events);
    let mut out = LineBuffer::default();
    out.push_str(&format.head(&events, "x.data"));
    for chain in [&chain_of_all[..], &[]] {
        let view = SampleView {
            sample: &sample,
            details: None,
            event: &events[0],
            comm: thread.comm,
            place: Some(chain_of_all[0].place),
            chain,
            branches: &[],
            tracepoint: None,
            unix_ns: None,
            cgroups: &Cgroups::default(),
            texts: &texts,
        };
        format.sample(&mut out, &view);
    }
    String::from_utf8(out.as_bytes().to_vec()).unwrap()
}

/// What is listed of a recording by `workers` workers; an error as text.
fn listed(
    path: &std::path::Path,
    form: Form,
    fields: &str,
    workers: usize,
) -> Result<Vec<u8>, String> {
    let symbolizer =
        pmuscope_symbols::Symbolizer::new(pmuscope_symbols::Options { inlined: false });
    let (unwinder, running) = (symbolizer.unwinder(), symbolizer.running_kernel());
    let unwinding = pmuscope_profile::Unwinding { unwinder: &unwinder, running: &running };
    // Some have names, and all look alike wherever the test runs.
    let name = |place: &pmuscope_profile::ModuleOffset| {
        let name = format!("f{}_{:x}", place.module, place.address);
        (!place.address.is_multiple_of(3)).then(|| Symbol::named(name.into()))
    };
    let writer = ScriptWriter {
        options: ScriptOptions { form, fields: fields.parse().unwrap(), nanoseconds: true },
        filter: pmuscope_profile::Filter::default(),
        classes: vec![RecordClass::Mmap, RecordClass::Task, RecordClass::Lost],
        walker: Some(pmuscope_profile::StackWalker::new(unwinding)),
        names: Box::new(move |_, _, places| {
            assert!(places.is_sorted_by(|one, next| one < next));
            places.iter().map(name).collect()
        }),
        workers,
    };
    let mut reader = Reader::open_all(path).map_err(|error| error.to_string())?;
    let mut out = tempfile::tempfile().unwrap();
    writer.write(&mut reader, "x.data", &mut out).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut out).unwrap();
    std::io::Read::read_to_end(&mut out, &mut bytes).unwrap();
    Ok(bytes)
}

/// Recordings of the corpus, and how many of them can be read.
fn each_recording(check: impl Fn(&std::path::Path) -> bool) {
    let recordings = pmuscope_testkit::corpus::corpus().recordings();
    let read = recordings.iter().filter(|path| check(path)).count();
    assert!(read * 2 > recordings.len(), "{read} of {} can be read", recordings.len());
}

/// A test for each form, so that they run at once.
fn any_number_of_workers_writes_the_same(form: Form) {
    each_recording(|path| {
        let fields = "+pid,+addr,+weight,+read,+id,+brstacksym,+uregs";
        let one = listed(path, form, fields, 1);
        for workers in [2, 7] {
            let more = listed(path, form, fields, workers);
            assert!(one == more, "{} as {form:?} by {workers} workers", path.display());
        }
        one.is_ok_and(|bytes| bytes.len() > 100)
    });
}

#[test]
fn any_number_of_workers_writes_the_same_text() {
    any_number_of_workers_writes_the_same(Form::Text);
}

#[test]
fn any_number_of_workers_writes_the_same_json() {
    any_number_of_workers_writes_the_same(Form::Json);
}

#[test]
fn any_number_of_workers_writes_the_same_csv() {
    any_number_of_workers_writes_the_same(Form::Csv);
}

/// Every sample is a row, with the values that CSV has.
#[cfg(feature = "parquet")]
#[test]
fn rows_of_columns_are_those_of_csv() {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::record::RowAccessor as _;

    each_recording(|path| {
        let fields = "tid,time,ip,sym,dso";
        let Ok(csv) = listed(path, Form::Csv, fields, 1) else { return false };
        let csv = String::from_utf8(csv).unwrap();
        let columns = listed(path, Form::Parquet, fields, 2).unwrap();
        assert_eq!(columns, listed(path, Form::Parquet, fields, 7).unwrap());
        let file = SerializedFileReader::new(bytes::Bytes::from(columns)).unwrap();
        let metadata = file.metadata().file_metadata();
        let pairs = metadata.key_value_metadata().unwrap();
        assert!(pairs.iter().any(|pair| pair.key == "recording"));
        let mut lines = csv.lines().skip(1);
        for row in file.get_row_iter(None).unwrap().map(Result::unwrap) {
            let mut line = lines.next().unwrap().split(',');
            let chain = row.get_list(5).map_or(0, |list| list.len());
            let addresses = line.next_back().unwrap();
            assert_eq!(addresses.split_whitespace().count(), chain);
            let number =
                |at| row.get_ulong(at).map_or_else(|_| String::new(), |time| time.to_string());
            let tid = row.get_int(0).map_or_else(|_| String::new(), |tid| tid.to_string());
            let ip = row.get_ulong(2).map_or_else(|_| String::new(), |ip| format!("{ip:#x}"));
            let symbol = row.get_string(3).cloned().unwrap_or_default();
            assert_eq!(
                [&tid, &number(1), &ip, &symbol].map(|value| &**value),
                [(); 4].map(|()| line.next().unwrap())
            );
        }
        assert_eq!(lines.next(), None);
        true
    });
}

#[test]
fn a_writer_that_fails_ends_the_listing() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let room = self.0.min(bytes.len());
            self.0 -= room;
            if room == 0 { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(room) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let path = pmuscope_testkit::corpus::corpus()
        .recordings()
        .into_iter()
        .find(|path| listed(path, Form::Text, "+pid", 1).is_ok_and(|bytes| bytes.len() > 100_000));
    let path = path.unwrap();
    for room in [0, 50_000] {
        let writer = ScriptWriter {
            options: ScriptOptions {
                form: Form::Text,
                fields: Fields::default(),
                nanoseconds: false,
            },
            filter: pmuscope_profile::Filter::default(),
            classes: Vec::new(),
            walker: None,
            names: Box::new(|_, _, places| vec![None; places.len()]),
            workers: 2,
        };
        let mut reader = Reader::open_all(&path).unwrap();
        let error = writer.write(&mut reader, "x.data", &mut Full(room)).unwrap_err();
        let ScriptError::Write(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
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
fn samples_without_a_cpu_have_no_brackets() {
    let text = printed_on(None, Form::Text, "comm,tid,cpu,time,event");
    let expected = r"sh\x1b[1m     8    12.345678: cpu-clock:";
    assert!(
        text.lines().count() == 2 && text.lines().all(|line| line.trim() == expected),
        "{text}"
    );
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
