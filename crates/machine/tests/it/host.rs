//! The machine the tests run on, against what other interfaces of the kernel say.

use std::process::{Command, Stdio};

use pmuscope_machine::{Machine, MachineError, place};

#[test]
fn this_threads_cpus_are_online() {
    let topology = Machine::host().topology().unwrap();
    assert!(place::affinity().unwrap().is_subset(&topology.online));
    assert!(topology.online.is_subset(&topology.possible));
    let cpu = topology.cpu(place::current_cpu()).unwrap();
    assert!(topology.nodes.iter().any(|node| node.cpus.contains(cpu.id)));
    for groups in [
        topology.core_groups(),
        topology.l3_groups(),
        topology.die_groups(),
        topology.package_groups(),
        topology.node_groups(),
    ] {
        let members: usize = groups.iter().map(pmuscope_machine::CpuSet::len).sum();
        assert_eq!(members, topology.online.len());
    }
}

#[test]
fn this_process_is_among_the_processes() {
    let machine = Machine::host();
    let pid = std::process::id();
    assert!(machine.processes().unwrap().contains(&pid));
    let threads = machine.threads(pid).unwrap();
    assert!(threads.contains(&pid));
    assert!(machine.thread_count(pid).unwrap() >= 1);
    let task = machine.task(pid, pid).unwrap();
    assert_eq!(task.tgid, pid);
    assert_eq!(Some(task.ppid), rustix::process::getppid().map(|p| p.as_raw_pid() as u32));
    let comm = std::fs::read("/proc/self/comm").unwrap();
    // The main thread's name, unlike this one's.
    assert_eq!(task.comm, comm.strip_suffix(b"\n").unwrap());
}

#[test]
fn this_program_is_mapped() {
    let here = this_program_is_mapped as *const () as u64;
    let mappings = Machine::host().mappings(std::process::id()).unwrap();
    let mapping = mappings.iter().find(|m| (m.start..m.end).contains(&here)).unwrap();
    assert!(mapping.executable && mapping.readable && !mapping.writable && !mapping.shared);
    let program = std::env::current_exe().unwrap();
    assert_eq!(mapping.path, program.as_os_str().as_encoded_bytes());
    assert!(mapping.inode != 0);
}

#[test]
fn a_reaped_child_is_gone() {
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let error = Machine::host().mappings(pid).unwrap_err();
    assert!(matches!(error, MachineError::Gone { .. }), "{error}");
}

#[test]
fn limits_agree_with_getrlimit() {
    let limits = Machine::host().limits();
    let nofile = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert_eq!(Some(limits.nofile.unwrap().soft), nofile.current);
    assert_eq!(Some(limits.nofile.unwrap().hard), nofile.maximum);
    let euid = rustix::process::geteuid().as_raw();
    assert_eq!(Machine::host().rights().euid, Some(euid));
}

#[test]
fn the_kernel_agrees_with_uname() {
    let kernel = Machine::host().kernel().unwrap();
    let uname = rustix::system::uname();
    assert_eq!(kernel.release, uname.release().to_string_lossy());
    assert_eq!(kernel.hostname, uname.nodename().to_string_lossy());
    assert_eq!(kernel.arch, uname.machine().to_string_lossy());
}

#[test]
fn software_events_are_everywhere() {
    let pmus = match Machine::host().pmus() {
        Ok(pmus) => pmus,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let software = pmus.iter().find(|pmu| pmu.name == "software").unwrap();
    assert_eq!(software.type_number, 1);
}

#[test]
fn kernel_text_is_in_the_upper_half_or_hidden() {
    match Machine::host().kernel_text() {
        Some(text) => {
            assert!(text.start > u64::MAX / 2 && text.end > text.start, "{text:x?}");
            assert_eq!(Machine::host().kernel_text_start(), Some(text.start));
        }
        None => eprintln!("skipped: kernel addresses are hidden"),
    }
}
