//! `pmuscope watch`.
//!
//! ```text
//!  text ─► targets ─► (command: started, stands at its entry) ─► addresses ─► points, turns
//!       ─► recording of hits (`watch::session` in `recorder`) ─► answer (`profile::hits`) ─► report
//! ```

mod arguments;
mod convert;
mod flags;
mod plan;

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
pub(crate) use flags::Args;
use flags::Sub;

pub(crate) use arguments::{TargetRequest, WatchedPart};
pub(crate) use convert::WatchRequest;
use pmuscope_console::exit::{
    Exit, bad_input, before_command, beside_command, failure, not_possible,
};
use pmuscope_console::invocation::Invocation;
use pmuscope_console::output::wrote;
use pmuscope_console::say;
use pmuscope_console::say::is_verbose;
use pmuscope_counters::Host;
use pmuscope_counters::spawn::{HeldChild, Status, StoppedChild};
use pmuscope_machine::{FileKind, Machine, Target};
use pmuscope_recorder::{Deadline, EndReason, RecorderError, Signals, Source, Summary};
use pmuscope_report::escape_lines;
use pmuscope_watch::resolve::{self, Watchpoint};
use pmuscope_watch::session::{Plain, Watch, WatchError, WatchOptions};
use pmuscope_watch::target::Target as WatchTarget;
use rustix::process::Signal;

use super::program::{self, not_started};
use super::watch_report;
use crate::{replace, signals};

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let begun = Invocation::now();
    match (&args.sub, &args.input) {
        (Some(Sub::Plan(args)), _) => plan::run(args),
        (None, Some(input)) => {
            // What no watch can do is refused here too.
            args.of.asked("watch TARGET", &[])?;
            if let Some(recording) = watch_report::recording(&args.output)? {
                let name = recording.display();
                let text =
                    format!("-o {name}: -i reads a recording and makes none. Try: -o w.html");
                return Err(bad_input(text));
            }
            watch_report::tell((input, true), &args.report, &args.output, begun, Exit::Done)
        }
        (None, None) => watch_and_tell(args, begun),
    }
}

fn watch_and_tell(args: &Args, begun: Invocation) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    args.report.check(&args.output)?;
    let asked = convert::asked(args)?;
    let kept = tempfile::tempdir().context("cannot make a folder for the recording")?;
    let path = watch_report::recording(&args.output)?
        .map_or_else(|| kept.path().join("watch.data"), Path::to_owned);
    replace::check(&path, FileKind::Recording)?;
    program::find(&args.command)?;
    warn(&machine);
    let watched = watch(&machine, &asked, &path);
    if args.command.is_empty() {
        let (summary, status) = watched?;
        return tell(args, &path, &summary, status, begun);
    }
    let (summary, status) = watched.map_err(before_command)?;
    tell(args, &path, &summary, status, begun).map_err(beside_command)
}

/// What was seen, and how it ended.
fn tell(
    args: &Args,
    path: &Path,
    summary: &Summary,
    status: Option<Status>,
    begun: Invocation,
) -> anyhow::Result<Exit> {
    let exit = ended(summary, status);
    let kept = watch_report::recording(&args.output)?.is_some();
    if kept {
        wrote(path);
    }
    watch_report::tell((path, kept), &args.report, &args.output, begun, exit)
}

/// Warns of what is missing; how it ended.
pub(crate) fn ended(summary: &Summary, status: Option<Status>) -> Exit {
    for missing in &summary.missing {
        say!("warning: {}", escape_lines(missing));
    }
    if status == Some(Status::Signaled(Signal::TRAP.as_raw())) {
        say!("warning: SIGTRAP ended the command: {LOST_TRAPS}");
    }
    Exit::of(status.map(|status| status.shell()), !summary.missing.is_empty())
}

/// Of programs that end by SIGTRAP while they are watched.
const LOST_TRAPS: &str = "the kernel did not learn which breakpoint was hit. Hosts of virtual machines lose this now \
    and then, also with perf's mem: events (docs/watch.md)";

/// Says what may happen to the target here, before it does.
pub(crate) fn warn(machine: &Machine) {
    let hypervisor = machine.virtualization(&machine.processor()).hypervisor;
    if let Some(sign) = hypervisor {
        say!(
            "note: this is a virtual machine ({}), where a watched program may end by SIGTRAP (see docs/watch.md)",
            sign.name
        );
        if is_verbose() {
            say!("  {LOST_TRAPS}");
        }
    }
}

/// Watches until the target ends or the user says so; how a command ended.
pub(crate) fn watch(
    machine: &Machine,
    asked: &WatchRequest,
    path: &Path,
) -> anyhow::Result<(Summary, Option<Status>)> {
    let stop = signals::stop_pipe()?;
    // What a hit costs is measured with hits of our own: such a trap can be ours.
    let trapped = signals::outlive_traps()?;
    let mut started = match asked.command.as_slice() {
        [] => None,
        command => Some(Started::new(command)?),
    };
    let target = match &started {
        Some(started) => Target::Processes(vec![started.child.pid()]),
        None => asked.target.clone(),
    };
    let deadline =
        Deadline::new(Some(stop.as_fd()), asked.timeout).context("cannot wait for the end")?;
    let watchpoints = arguments::watchpoints(
        machine,
        target.pids(),
        &asked.targets,
        started.as_mut(),
        &deadline,
    )?;
    let options = convert::options(machine, asked, &target, &watchpoints)?;
    let go = started.as_mut().and_then(Started::go);
    let mut recording = convert::recording(asked, target, path);
    let source: Box<dyn Source + '_> = match Watch::new(&Host, machine, options.clone()) {
        Ok(watch) => {
            go.into_iter().for_each(|go| watch.at_begin(go));
            Box::new(watch)
        }
        Err(error) if error.is_bpf_permission() => {
            let plain = plain(options, &error)?;
            go.into_iter().for_each(|go| plain.at_begin(go));
            recording.groups = plain.groups();
            Box::new(plain)
        }
        Err(error) => return Err(refused(&error)),
    };
    let switch = signals::switch_pipe()?;
    let signals = Signals { stop: deadline.as_fd(), switch: Some(switch.as_fd()) };
    let summary =
        pmuscope_recorder::record_with(&recording, &Host, machine, signals, Some(&*source))
            .map_err(|error| {
                let exit = if error.is_input() { Exit::BadInput } else { Exit::NotPossible };
                failure(exit, error.to_string())
            })?;
    let status = started.map(|started| started.end(&summary)).transpose()?;
    if trapped.load(Ordering::Relaxed) {
        say!(
            "note: SIGTRAP arrived in pmuscope itself, probably instead of a hit of its own that measures \
             overhead; the overhead may be slightly off: {LOST_TRAPS}"
        );
    }
    Ok((summary, status))
}

/// A command that was started to be watched; nothing of it runs before it is let go.
struct Started {
    child: HeldChild,
    stopped: Option<StoppedChild>,
}

impl Started {
    fn new(command: &[std::ffi::OsString]) -> anyhow::Result<Self> {
        let spawned = |error| not_started(&error);
        let mut child = HeldChild::new(command).map_err(spawned)?;
        let stopped = child.stop_at_entry(&Host).map_err(spawned)?;
        if !stopped.has_libraries() {
            say!(
                "note: cannot stop the command at its entry point; it is stopped at exec, before its libraries are \
                 mapped, so names in libraries are not found"
            );
        }
        Ok(Self { child, stopped: Some(stopped) })
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// What lets it go.
    fn go(&mut self) -> Option<impl FnOnce() -> Result<(), RecorderError> + Send + use<>> {
        let stopped = self.stopped.take()?;
        let error = |source| RecorderError::Source(Box::new(source));
        Some(move || stopped.go().map_err(error))
    }

    fn end(mut self, summary: &Summary) -> anyhow::Result<Status> {
        program::end(&mut self.child, summary.ended == EndReason::Interrupted)
    }
}

/// Addresses of the targets. Processes are watched together only if they have the same ones.
fn resolve(
    machine: &Machine,
    pids: &[u32],
    targets: &[WatchTarget],
) -> anyhow::Result<Vec<Watchpoint>> {
    let [first, others @ ..] = pids else {
        return resolve::resolve_kernel(machine, targets).map_err(bad_input);
    };
    let found = resolve::resolve(machine, *first, targets).map_err(bad_input)?;
    for other in others {
        let there = resolve::resolve(machine, *other, targets).map_err(bad_input)?;
        if let Some((one, two)) =
            found.iter().zip(&there).find(|(one, two)| one.pieces != two.pieces)
        {
            let message = format!(
                "{} is at {:#x} in process {first} and at {:#x} in process {other}: a slot watches one \
                 address. Try: a watch for each process",
                one.name, one.address, two.address
            );
            return Err(bad_input(message));
        }
    }
    Ok(found)
}

/// Hits as samples of the kernel, if that can be.
fn plain(options: WatchOptions, error: &WatchError) -> anyhow::Result<Plain> {
    let needs = [
        (options.when.is_some(), "--when"),
        (options.when_changed, "--when-changed"),
        (options.turns.len() > 1, "more watchpoints than slots"),
    ];
    if let Some((_, what)) = needs.iter().find(|(asked, _)| *asked) {
        let message = format!(
            "{what}: needs BPF programs, which are not allowed here ({error}). Try: as root, or with CAP_BPF \
             and CAP_PERFMON"
        );
        return Err(not_possible(message));
    }
    let counts_only = if options.count_only { "--count-only, " } else { "" };
    say!(
        "warning: BPF programs are not allowed here ({error}): hits are samples, one event for each thread on \
         each of {} CPUs, without values, callchains and limits ({counts_only}--max-stack, --max-records and \
         --max-slowdown have no effect). Try: as root, or with CAP_BPF and CAP_PERFMON",
        options.online_cpus
    );
    Ok(Plain::new(options))
}

fn refused(error: &WatchError) -> anyhow::Error {
    let exit = match error {
        WatchError::Condition(_) | WatchError::TrapsBefore => Exit::BadInput,
        _ => Exit::NotPossible,
    };
    failure(exit, error.to_string())
}
