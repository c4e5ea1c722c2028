//! Plans: on machines made of the rules, and on the kernel that runs here.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use pmuscope_abi::{AttrFlags, OpenFlags};
use pmuscope_counters::{Host, Kernel as _};
use pmuscope_machine::{CpuSet, Machine, Target};
use pmuscope_watch::kernel::{self, KernelError};
use pmuscope_watch::plan::{
    Bound, FreeSlots, Hold, Holder, PlanError, ThreadOrCpu, WatchpointRequest, plan,
};
use pmuscope_watch::slots::{Kind, Layout, Owner, SlotTask, Slots};

use crate::fake::Rules;
use crate::real::alone;

fn wanted(all: &[(&str, Kind, u32)]) -> Vec<WatchpointRequest> {
    all.iter()
        .map(|&(name, kind, slots)| WatchpointRequest { name: name.to_owned(), kind, slots })
        .collect()
}

/// A machine of three CPUs, in which a debugger traces process 7 and perf has events open.
fn machine(root: &Path) -> Machine {
    let write = |file: &str, text: &str| {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-2\n");
    for (pid, name, tracer) in [(7, "server", 9), (9, "gdb", 0), (12, "perf", 0)] {
        write(&format!("proc/{pid}/comm"), &format!("{name}\n"));
        write(&format!("proc/{pid}/status"), &format!("TracerPid:\t{tracer}\n"));
        fs::create_dir_all(root.join(format!("proc/{pid}/fd"))).unwrap();
    }
    for tid in [7, 8] {
        fs::create_dir_all(root.join(format!("proc/7/task/{tid}"))).unwrap();
    }
    std::os::unix::fs::symlink("anon_inode:[perf_event]", root.join("proc/12/fd/3")).unwrap();
    Machine::at(root)
}

fn mixed() -> Rules {
    Rules::new(Layout { possible_cpus: 3, slots: Slots::Mixed(4) })
}

fn separate() -> Rules {
    let slots = Slots::Separate { data: 4, instruction: 6 };
    Rules::new(Layout { possible_cpus: 3, slots })
}

#[test]
fn what_fits_everywhere_is_asked_for_every_thread_and_nothing_stays_open() {
    let root = tempfile::tempdir().unwrap();
    let kernel = mixed();
    let four = wanted(&[("a", Kind::Data, 2), ("main.c:7", Kind::Instruction, 2)]);
    let plan = plan(&kernel, &machine(root.path()), &four, &Target::Processes(vec![7])).unwrap();
    assert!(plan.fits && plan.lacking.is_empty() && plan.drop.is_empty() && plan.bound.is_empty());
    assert_eq!((plan.places, plan.slots), (2, Slots::Mixed(4)));
    assert_eq!(plan.least_free, Slots::Mixed(4));
    assert_eq!(plan.holders, [], "nobody is looked for where all fits");
    assert!(kernel.is_all_closed());
}

#[test]
fn a_thread_that_has_watchpoints_lacks_what_they_take_and_its_debugger_is_named() {
    let root = tempfile::tempdir().unwrap();
    let kernel = mixed();
    kernel.hold(Owner::Task(SlotTask(8)), Kind::Data, 3);
    let two = wanted(&[("a", Kind::Data, 1), ("b", Kind::Data, 2), ("c", Kind::Data, 1)]);
    let plan = plan(&kernel, &machine(root.path()), &two, &Target::Processes(vec![7])).unwrap();
    assert!(!plan.fits);
    let place = ThreadOrCpu::Thread { tid: 8, name: None };
    assert_eq!(plan.lacking, [FreeSlots { place, free: Slots::Mixed(1) }]);
    assert_eq!(plan.drop, ["b", "c"], "the first come first");
    assert_eq!(plan.bound, []);
    let holder = |pid, name: &str, how| Holder { pid, name: name.to_owned(), how };
    let gdb = holder(9, "gdb", Hold::Traces { pid: 7 });
    let perf = holder(12, "perf", Hold::Events { descriptors: 1 });
    assert_eq!(plan.holders, [gdb, perf]);
}

#[test]
fn what_is_bound_to_a_cpu_is_missing_for_all_threads_and_on_that_cpu() {
    let root = tempfile::tempdir().unwrap();
    let machine = machine(root.path());
    let kernel = mixed();
    kernel.hold(Owner::Cpu(1), Kind::Data, 2);
    kernel.hold(Owner::Task(SlotTask(99)), Kind::Data, 1);
    let three = wanted(&[("a", Kind::Data, 2), ("b", Kind::Data, 1)]);
    let of_threads = plan(&kernel, &machine, &three, &Target::Threads(vec![7])).unwrap();
    assert_eq!(of_threads.bound, [Bound { cpu: 1, slots: Slots::Mixed(2) }]);
    assert_eq!((of_threads.least_free, of_threads.lacking.len()), (Slots::Mixed(2), 1));
    assert_eq!(of_threads.drop, ["b"]);
    let cpus = Target::Cpus(CpuSet::parse("0-2").unwrap());
    let of_cpus = plan(&kernel, &machine, &three, &cpus).unwrap();
    // The greediest thread counts on every CPU.
    let room = |cpu, free| FreeSlots { place: ThreadOrCpu::Cpu(cpu), free: Slots::Mixed(free) };
    assert_eq!(of_cpus.lacking, [room(1, 1)]);
    assert_eq!(of_cpus.drop, ["a"], "b is small enough");
}

#[test]
fn slots_of_two_kinds_do_not_compete() {
    let root = tempfile::tempdir().unwrap();
    let machine = machine(root.path());
    let kernel = separate();
    kernel.hold(Owner::Cpu(2), Kind::Data, 3);
    let scope = Target::Threads(vec![7]);
    let code = wanted(&[("f", Kind::Instruction, 6), ("x", Kind::Data, 1)]);
    assert!(plan(&kernel, &machine, &code, &scope).unwrap().fits);
    let both = wanted(&[("f", Kind::Instruction, 6), ("x", Kind::Data, 2), ("y", Kind::Data, 1)]);
    let plan = plan(&kernel, &machine, &both, &scope).unwrap();
    assert_eq!(plan.slots, Slots::Separate { data: 4, instruction: 6 });
    assert_eq!(plan.least_free, Slots::Separate { data: 1, instruction: 6 });
    assert_eq!(plan.drop, ["x"]);
    let bound = Slots::Separate { data: 3, instruction: 0 };
    assert_eq!(plan.bound, [Bound { cpu: 2, slots: bound }]);
}

#[test]
fn threads_that_ended_are_passed_over_and_if_none_is_left_it_is_said() {
    let root = tempfile::tempdir().unwrap();
    let machine = machine(root.path());
    let kernel = mixed().without_task(7);
    let one = wanted(&[("a", Kind::Data, 1)]);
    let both = plan(&kernel, &machine, &one, &Target::Processes(vec![7])).unwrap();
    assert_eq!((both.places, both.fits), (1, true));
    let none = plan(&kernel, &machine, &one, &Target::Threads(vec![7]));
    assert!(matches!(none, Err(PlanError::Gone)));
}

/// What this machine's threads could have now, if there are breakpoints here.
fn slots_here() -> Option<Slots> {
    match kernel::slots(&Host) {
        Ok(slots) => Some(slots),
        Err(error @ (KernelError::Open { .. } | KernelError::None)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Opened, off, on a word of ours.
fn open(pid: i32, cpu: i32) -> OwnedFd {
    let mut attr = kernel::untouched(Kind::Data);
    attr.flags.insert(AttrFlags::DISABLED);
    Host.open(&attr, pid, cpu, None, OpenFlags::FD_CLOEXEC).unwrap()
}

/// The kernel that runs here, with slots of a CPU and of a thread taken.
#[test]
fn slots_that_are_taken_here_are_missing_where_they_were_taken() {
    let _alone = alone();
    let Some(slots) = slots_here() else { return };
    if kernel::free_slots(&Host, Owner::Cpu(0), Kind::Data).is_err() {
        println!("skipped: breakpoints of CPUs are not allowed here");
        return;
    }
    let number = slots.of(Kind::Data);
    let mut target = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = target.id();
    let machine = Machine::host();
    let all = wanted(&[("x", Kind::Data, number - 1), ("y", Kind::Data, 1)]);
    let ask = |scope: Target| plan(&Host, &machine, &all, &scope).unwrap();
    let free = ask(Target::Processes(vec![pid]));
    let of_thread = open(pid as i32, -1);
    let less_one = ask(Target::Processes(vec![pid]));
    let of_cpu = open(-1, 0);
    let less_two = ask(Target::Processes(vec![pid]));
    let of_cpus = ask(Target::Cpus(CpuSet::parse("0").unwrap()));
    drop((of_thread, of_cpu));
    let after = ask(Target::Processes(vec![pid]));
    // It may be gone already.
    let _ = (target.kill(), target.wait());
    for plan in [&free, &after] {
        assert!(plan.fits && plan.bound.is_empty(), "{plan:?}");
    }
    assert_eq!(less_one.least_free.of(Kind::Data), number - 1);
    assert_eq!((&less_one.drop, less_one.bound.len()), (&vec!["y".to_owned()], 0));
    assert_eq!(less_two.least_free.of(Kind::Data), number - 2);
    assert_eq!(less_two.drop, ["x"], "y is small enough");
    assert_eq!((less_two.bound.len(), less_two.bound[0].cpu), (1, 0));
    assert_eq!(less_two.bound[0].slots.total(), 1);
    // The thread with one is the greediest of all that may come to the CPU.
    assert_eq!(of_cpus.least_free.of(Kind::Data), number - 2);
}

/// perf holds slots of a program that runs here.
#[test]
fn slots_that_perf_has_taken_of_a_running_program_are_missing_and_perf_is_named() {
    let _alone = alone();
    let Some(slots) = slots_here() else { return };
    let has_perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_perf {
        println!("skipped: there is no perf to hold slots");
        return;
    }
    let mut target = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = target.id();
    let mut perf = Command::new("perf")
        .args(["stat", "-e", "mem:0x1000:w,mem:0x2000:w", "-p", &pid.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let machine = Machine::host();
    let all = wanted(&[("x", Kind::Data, slots.of(Kind::Data))]);
    let scope = Target::Processes(vec![pid]);
    // perf needs a moment.
    let found = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        plan(&Host, &machine, &all, &scope).ok().filter(|plan| !plan.fits)
    });
    let of_perf = perf.id();
    // Both may be gone already.
    let _ = (perf.kill(), perf.wait(), target.kill(), target.wait());
    let plan = found.expect("perf has taken slots within five seconds");
    assert_eq!(plan.slots, slots);
    assert_eq!(plan.least_free.of(Kind::Data), slots.of(Kind::Data) - 2);
    let place = ThreadOrCpu::Thread { tid: pid, name: Some("sleep".to_owned()) };
    assert_eq!(plan.lacking.len(), 1);
    assert_eq!(plan.lacking[0].place, place);
    assert_eq!((plan.bound, plan.drop), (vec![], vec!["x".to_owned()]));
    let holds = |holder: &Holder| holder.pid == of_perf && holder.name == "perf";
    assert!(plan.holders.iter().any(holds), "{:?}", plan.holders);
}
