//! Processes of a fixture.

use pmuscope_machine::MachineError;

use crate::fixture::Tree;

#[test]
fn mappings_of_a_process() {
    let tree = Tree::new();
    tree.file(
        "proc/7/maps",
        b"1000-2000 r-xp 00000000 fe:00 5    /opt/a\\012b \xff\n2000-3000 rw-p 00000000 00:00 0 \n",
    );
    let mappings = tree.machine().mappings(7).unwrap();
    assert_eq!(mappings.len(), 2);
    assert_eq!(mappings[0].path, b"/opt/a\nb \xff");
    assert_eq!(mappings[1].path, b"");
    tree.file("proc/7/maps", "");
    assert_eq!(tree.machine().mappings(7).unwrap(), []);
    tree.file("proc/7/maps", "1000-2000 r-xp what\n");
    let error = tree.machine().mappings(7).unwrap_err();
    assert!(error.to_string().contains("expected a mapping"), "{error}");
}

#[test]
fn threads_of_a_process_are_counted() {
    let tree = Tree::new();
    tree.file("proc/7/status", "Name:\tx\nTgid:\t7\nThreads:\t12\n");
    assert_eq!(tree.machine().thread_count(7).unwrap(), 12);
    tree.file("proc/7/status", "Name:\tx\n");
    let error = tree.machine().thread_count(7).unwrap_err();
    assert!(error.to_string().contains("a line with Threads"), "{error}");
}

#[test]
fn a_process_that_ended_is_told_apart() {
    let tree = Tree::new();
    tree.file("proc/1/maps", "").file("proc/meminfo", "").file("proc/77/maps", "");
    let machine = tree.machine();
    assert_eq!(machine.processes().unwrap(), [1, 77]);
    for error in [
        machine.mappings(2).unwrap_err(),
        machine.threads(2).unwrap_err(),
        machine.thread_count(2).unwrap_err(),
        machine.task(2, 2).unwrap_err(),
    ] {
        assert!(matches!(error, MachineError::Gone { pid: 2 }), "{error}");
        assert!(error.is_gone());
    }
}
