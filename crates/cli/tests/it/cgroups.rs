//! Recording the members of a cgroup, one that is there or one made for the command.

use std::path::Path;

use pmuscope_machine::{Machine, OwnCgroup};
use pmuscope_perfdata::reader::Record;
use rustix::process::Signal;

use crate::actor;
use crate::harness::{Scratch, Started, skip_unless};
use crate::recording::{Recording, has_begun, need_root_clock};

/// Why cgroups cannot be made here.
pub(crate) fn need_cgroups() -> Option<String> {
    need_root_clock().or_else(|| {
        let made = OwnCgroup::new(&Machine::host());
        made.err().map(|(path, error)| format!("cannot make {}: {error}", path.display()))
    })
}

/// Short-lived processes, one after the other.
const PROCESSES: &str = "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done; exit 7";

/// A clock that follows tasks begins a period anew with each of them; one that follows the cgroup
/// does not, so its samples stand for all the time that was counted.
#[test]
fn a_clock_samples_the_short_lived_processes_of_a_command() {
    skip_unless!(need_cgroups());
    let scratch = Scratch::new();
    let record = ["record", "--own-cgroup", "-e", "cpu-clock", "-F", "1000", "-o", "x.data", "--"];
    let pmuscope = scratch.start(record.iter().chain(&["sh", "-c", PROCESSES]));
    let pid = pmuscope.pid();
    pmuscope.ends().exits(7);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let clock = info.events.iter().find(|event| event.name == "cpu-clock").unwrap();
    let (due, there) = (clock.counted.unwrap() / clock.period.unwrap(), clock.samples);
    assert!(due > 20, "the command took {due} ms only");
    // Begun anew with each process it would have one sample at most; a busy host takes some of the periods.
    assert!(there * 2 >= due, "{there} samples for {due} periods");
    let mount = Machine::host().perf_cgroup_mount().unwrap();
    assert!(!left_behind(&mount, &format!("pmuscope-{pid}")), "the cgroup is still there");
}

/// Whether a folder of that name is anywhere below.
fn left_behind(below: &Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(below) else { return false };
    let folders = entries.flatten().filter(|one| one.file_type().is_ok_and(|it| it.is_dir()));
    folders.into_iter().any(|one| one.file_name() == name || left_behind(&one.path(), name))
}

#[test]
fn members_of_a_cgroup_are_recorded_and_others_are_not() {
    skip_unless!(need_cgroups());
    let scratch = Scratch::new();
    let cgroup = OwnCgroup::new(&Machine::host()).unwrap();
    let inside = Started::of(&mut actor::command("spin 1500"));
    let outside = Started::of(&mut actor::command("spin 1500"));
    cgroup.add(inside.pid()).unwrap();
    let path = cgroup.directory().to_str().unwrap();
    let pmuscope =
        scratch.start(["record", "-e", "cpu-clock", "-F", "1000", "-o", "x.data", "-G", path]);
    pmuscope.wait_until(|| has_begun(&scratch.path("x.data")));
    std::thread::sleep(std::time::Duration::from_millis(600));
    pmuscope.signal(Signal::INT);
    pmuscope.ends().exits(0);
    let mut pids = std::collections::BTreeMap::<i32, u64>::new();
    Recording::at(scratch.path("x.data")).read(|entry| {
        if let Record::Sample(sample) = entry.record {
            *pids.entry(sample.pid.unwrap()).or_default() += 1;
        }
    });
    assert!(pids.get(&(inside.pid() as i32)).is_some_and(|&samples| samples > 20), "{pids:?}");
    assert!(!pids.contains_key(&(outside.pid() as i32)), "{pids:?}");
    inside.ends().exits(0);
    outside.ends().exits(0);
}

#[test]
fn a_cgroup_of_its_own_is_for_commands() {
    let scratch = Scratch::new();
    scratch.pmuscope(["record", "--own-cgroup"]).exits(2).complains("CMD");
    scratch.pmuscope(["record", "--own-cgroup", "-a", "--", "true"]).exits(2).complains("-a");
}
