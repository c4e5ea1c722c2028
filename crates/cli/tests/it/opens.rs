//! A command opens a recording once, however often it goes through it: what is at its path may be another file by
//! the second time.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::harness::{Scratch, need_kernel_sampling, skip_unless};
use crate::recording::need_root_clock;
use pmuscope_testkit::simulator::{Form, Function, Run, write};

/// Counts how often a file is opened.
struct Opens(OwnedFd);

impl Opens {
    /// Reads are watched too, since the kernel merges equal events that follow one another.
    fn of(path: &Path) -> Self {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let events = WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::CLOSE;
        inotify::add_watch(&queue, path, events).unwrap();
        Self(queue)
    }

    fn number(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut opens = 0;
        loop {
            match events.next() {
                Ok(event) => opens += usize::from(event.events().contains(ReadFlags::OPEN)),
                Err(error) => {
                    let error = std::io::Error::from(error);
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    return opens;
                }
            }
        }
    }
}

/// Runs pmuscope and expects that it opens each of `files` once.
#[track_caller]
fn opens_once(scratch: &Scratch, words: &[&str], files: &[&str]) {
    let opens: Vec<Opens> = files.iter().map(|file| Opens::of(&scratch.path(file))).collect();
    let outcome = scratch.pmuscope(words);
    assert!(matches!(outcome.code(), 0 | 1), "{outcome}");
    for (file, opens) in files.iter().zip(opens) {
        assert_eq!(opens.number(), 1, "{file}: {outcome}");
    }
}

#[test]
fn a_report_opens_its_recording_once() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    let record = |name: &str| {
        let words = ["record", "-e", "cpu-clock", "-F", "2000", "-g", "-o", name, "--"];
        scratch
            .pmuscope(
                [&words[..], &["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]]
                    .concat(),
            )
            .exits(0);
    };
    record("a.data");
    record("b.data");
    for words in [
        &["report"][..],
        &["report", "--json"],
        &["report", "-o", "a.html"],
        &["report", "-o", "a.csv"],
        &["report", "--modules"],
        &["report", "--by", "cpu"],
        &["report", "--by", "branch"],
        &["report", "--by", "data"],
        &["report", "--by", "mem"],
        &["report", "--call-tree"],
        &["report", "--time", "10%-90%"],
        &["report", "--comm", "no-such-command"],
        &["script"],
        &["script", "--dump"],
        &["bundle", "-o", "a.bundle"],
    ] {
        opens_once(&scratch, &[words, &["-i", "a.data"]].concat(), &["a.data"]);
    }
    opens_once(&scratch, &["diff", "a.data", "b.data"], &["a.data", "b.data"]);
}

#[test]
fn waits_are_read_from_a_file_that_is_opened_once() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    scratch.pmuscope(["record", "--off-cpu", "-o", "w.data", "--", "sleep", "0.1"]).exits(0);
    for form in [&["--json"][..], &["-o", "w.html"], &[]] {
        let words = [&["report", "-i", "w.data", "--by", "wait"], form].concat();
        opens_once(&scratch, &words, &["w.data"]);
    }
}

#[test]
fn windows_are_read_from_a_file_that_is_opened_once() {
    let scratch = Scratch::new();
    for name in ["a.data", "b.data"] {
        let functions = vec![Function::plain("a", 50_000.0, 0.5)];
        let run = Run { functions, form: Form::Strobe, cycles: 1e7, ..Run::default() };
        write(&run, &scratch.path(name));
    }
    for form in [&[][..], &["-o", "a.html"], &["-o", "a.csv"]] {
        opens_once(&scratch, &[&["metrics", "-i", "a.data"], form].concat(), &["a.data"]);
    }
    opens_once(&scratch, &["diff", "--metrics", "a.data", "b.data"], &["a.data", "b.data"]);
}

#[test]
fn shared_lines_are_read_from_a_file_that_is_opened_once() {
    let scratch = Scratch::new();
    let program =
        pmuscope_testkit::sharing_file::example(pmuscope_testkit::sharing_file::Pmu::Pebs);
    program.run().write(&program, &scratch.path("a.data"));
    for form in [&[][..], &["-o", "a.html"], &["-o", "a.csv"]] {
        opens_once(&scratch, &[&["sharing", "-i", "a.data"], form].concat(), &["a.data"]);
    }
}

#[test]
fn hits_are_read_from_a_file_that_is_opened_once() {
    let scratch = Scratch::new();
    crate::watch_report::line().write(&scratch.path("x.data"));
    for form in [&[][..], &["--json"], &["--report", "x.html"]] {
        opens_once(&scratch, &[&["watch", "--input", "x.data"], form].concat(), &["x.data"]);
    }
}
