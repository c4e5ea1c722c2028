//! With a fixed period, samples and losses together are what was counted, to within one period per
//! CPU: nothing is sampled twice, and nothing goes missing without being told.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, event_type, software};
use pmuscope_counters::{Host, Kernel as _};
use pmuscope_machine::Machine;
use pmuscope_perfdata::info::RecordingInfo;

use crate::actor;
use crate::harness::{Outcome, Scratch, Started, need_root, skip_unless, wait_for};
use crate::recording::{Recording, has_begun, online};

/// A tracepoint that fires once per call of an actor, and hardly ever otherwise.
const SYSTEM: &str = "syscalls";
const NAME: &str = "sys_enter_getpriority";
const EVENT: &str = "syscalls:sys_enter_getpriority";
const CALLS: u64 = 60_000;

fn need_tracepoint() -> Option<String> {
    Machine::host().tracepoint_id(SYSTEM, NAME).err().map(|error| error.to_string())
}

fn tracepoint() -> Attr {
    let config = Machine::host().tracepoint_id(SYSTEM, NAME).unwrap();
    Attr { event_type: event_type::TRACEPOINT, config, ..Attr::default() }
}

fn page_faults() -> Attr {
    Attr { event_type: event_type::SOFTWARE, config: software::PAGE_FAULTS, ..Attr::default() }
}

/// Held while calls are made: what counts on the whole machine would count those of another test.
static CALLING: Mutex<()> = Mutex::new(());

/// Counts from here on, without samples.
struct Counter(Vec<OwnedFd>);

impl Counter {
    /// Everything on all CPUs.
    fn of_machine(attr: &Attr) -> Self {
        let open = |cpu: u32| Host.open(attr, -1, cpu as i32, None, OpenFlags::FD_CLOEXEC).unwrap();
        Self(online().iter().map(open).collect())
    }

    /// The threads of a process, and what they start.
    fn of_process(attr: &Attr, pid: u32) -> Self {
        let attr = Attr { flags: attr.flags | AttrFlags::INHERIT, ..attr.clone() };
        let tids = Machine::host().threads(pid).unwrap();
        let open =
            |tid: u32| Host.open(&attr, tid as i32, -1, None, OpenFlags::FD_CLOEXEC).unwrap();
        Self(tids.into_iter().map(open).collect())
    }

    fn read(&self) -> u64 {
        let one = |fd: &OwnedFd| {
            let mut words = [0_u64; 4];
            assert!(Host.read(fd.as_fd(), &mut words).unwrap() > 0);
            words[0]
        };
        self.0.iter().map(one).sum()
    }
}

/// Samples and losses of the event of that name.
#[track_caller]
fn taken(info: &RecordingInfo, name: &str) -> u64 {
    let event = info.events.iter().find(|event| event.name == name).unwrap();
    event.samples + event.lost.unwrap()
}

/// Fails unless `taken` samples of `period` are what `counted` allows: of each CPU's count at most one
/// period is not full yet.
#[track_caller]
fn within_a_period_per_cpu(taken: u64, period: u64, counted: u64) {
    let sampled = taken * period;
    let most = period * online().len() as u64;
    assert!(
        sampled <= counted && counted < sampled + most,
        "{taken} samples of {period} are {sampled}; counted {counted}"
    );
}

/// `pmuscope ARGS -- ACTOR`.
#[track_caller]
fn record_actor(scratch: &Scratch, args: &[&str], orders: &str) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["record", "-o", "x.data"]).args(args).arg("--").args(actor::words());
    let (variable, orders) = actor::orders(orders);
    let path = scratch.path("");
    Outcome::of(command.env(variable, orders).current_dir(path))
}

#[test]
fn the_whole_machine() {
    skip_unless!(need_root());
    skip_unless!(need_tracepoint());
    let _alone = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let counter = Counter::of_machine(&tracepoint());
    let args = ["-a", "-e", EVENT, "-c", "10"];
    record_actor(&scratch, &args, &format!("calls-by-threads 2 {CALLS}")).exits(0);
    let counted = counter.read();
    assert!(counted >= 2 * CALLS, "the actor called less than it said: {counted}");
    let info = Recording::at(scratch.path("x.data")).info();
    within_a_period_per_cpu(taken(&info, EVENT), 10, counted);
}

/// Threads and, through them, what a command starts: each call is a sample or a loss.
#[test]
fn a_command_and_its_threads() {
    skip_unless!(need_root());
    skip_unless!(need_tracepoint());
    let _alone = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    // So few that the rings hold all of them: nothing can be lost, however late a reader comes.
    const FEW: u64 = 6000;
    let orders = format!("calls-by-threads 4 {}", FEW / 4);
    record_actor(&scratch, &["-e", EVENT], &orders).exits(0);
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.info();
    assert_eq!((info.samples(), info.lost()), (FEW, Some(0)));
    assert_eq!(recording.by_us().times.len() as u64, info.samples());
}

/// A ring of one page that holds a few dozen samples, read at first and then not: most are lost, and
/// each one is told.
#[test]
fn losses_are_counted_to_the_last_one() {
    skip_unless!(need_root());
    skip_unless!(need_tracepoint());
    let _alone = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    // Of all processes: mappings and names then come from an event of their own.
    let orders = format!("calls-half-unread {CALLS}");
    let said = record_actor(&scratch, &["-a", "-e", EVENT, "-m", "1"], &orders);
    said.exits(125).complains("records were lost").complains("-m");
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.info();
    let event = info.events.iter().find(|event| event.name == EVENT).unwrap();
    assert!(event.lost.unwrap() > CALLS / 3, "{event:?}");
    assert_eq!(event.samples + event.lost.unwrap(), CALLS);
    let by_event: Option<u64> = info.events.iter().map(|event| event.lost).sum();
    assert_eq!(info.lost(), by_event, "by ring and by event");
    assert_eq!(recording.by_us().times.len() as u64, event.samples);
    // The report tells the same by CPU, and when.
    let report = scratch.pmuscope(["report", "-i", "x.data", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    let losses = report["recording"]["losses"].as_array().unwrap();
    let by_cpu: u64 = losses.iter().map(|cpu| cpu["lost"].as_u64().unwrap()).sum();
    assert_eq!(Some(by_cpu), info.lost());
    // The record of a loss comes with the next one that finds room: a CPU that kept nothing has none.
    let mut with_samples = losses.iter().filter(|cpu| cpu["samples"] != 0).peekable();
    assert!(with_samples.peek().is_some(), "{losses:#?}");
    assert!(with_samples.all(|cpu| cpu["blocks"][0]["start_s"].is_f64()), "{losses:#?}");
}

/// A process that waits while everything is opened, then faults; counted beside the recording.
#[test]
fn a_process_that_already_runs() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let mut actor = Started::of(actor::command("wait-then-fault 32768").stdin(Stdio::piped()));
    let pid = actor.pid();
    wait_for("the actor's threads", || Machine::host().threads(pid).unwrap().len() == 2);
    let counter = Counter::of_process(&page_faults(), pid);
    let path = scratch.path("x.data");
    let pid = pid.to_string();
    let args = ["record", "-o", "x.data", "-e", "page-faults", "-c", "100", "-p", &pid];
    let pmuscope = scratch.start(args);
    pmuscope.wait_until(|| has_begun(&path));
    actor.tell("go\n");
    actor.ends().exits(0);
    pmuscope.ends().exits(0);
    let counted = counter.read();
    // Huge pages would leave few.
    assert!(counted > 60, "{counted}");
    let info = Recording::at(path).info();
    within_a_period_per_cpu(taken(&info, "page-faults"), 100, counted);
}
