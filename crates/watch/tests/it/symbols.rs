//! Targets in programs that have symbols and no debug information.

use pmuscope_machine::Machine;
use pmuscope_symbols::definitions::ValueType;
use pmuscope_watch::resolve::{Piece, resolve};
use pmuscope_watch::target::{Access, Target};

use crate::programs::{Running, compile};

const SOURCE: &str = r#"
#include <stdio.h>
int counter = 3;
long table[6];
short lone;
static char hidden;
__thread int own;
__attribute__((noinline)) int push(int x) { return x + counter + hidden; }
int main(void) {
    own = push(1);
    printf("counter %p\ntable %p\nlone %p\nhidden %p\npush %p\n", (void *)&counter, (void *)table,
           (void *)&lone, (void *)&hidden, (void *)push);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

fn program(dir: &std::path::Path, arguments: &[&str]) -> Option<Running> {
    compile("cc", dir, ("plain.c", SOURCE), "plain", arguments).map(|path| Running::start(&path))
}

#[test]
fn symbols_are_where_the_program_says() {
    for arguments in [&["-fPIE", "-pie"][..], &["-fno-pie", "-no-pie"], &["-static"]] {
        let dir = tempfile::tempdir().unwrap();
        let Some(running) = program(dir.path(), arguments) else { return };
        for (name, len) in [("counter", 4), ("table", 48), ("lone", 2), ("hidden", 1)] {
            let found = running.found(name);
            assert_eq!(
                (found.address, found.len),
                (running.address(name), len),
                "{name} {arguments:?}"
            );
            assert_eq!(found.access, Access::Write);
            assert_eq!(found.type_name, None);
        }
        assert_eq!(running.found("counter").value, ValueType::Unsigned);
        assert_eq!(running.found("table").pieces.len(), 6);
        let push = running.found("push");
        assert_eq!((push.address, push.access), (running.address("push"), Access::Execute));
        let within = running.found("table+0x10/8:rw");
        assert_eq!(within.pieces, [Piece { address: running.address("table") + 16, len: 8 }]);
        let bare = running.found(&format!("{:#x}", running.address("counter")));
        assert_eq!((bare.address, bare.len), (running.address("counter"), 4));
        let local = running.found("plain.c:hidden:rw");
        assert_eq!((local.address, local.access), (running.address("hidden"), Access::ReadWrite));
        let module = running.found("plain!counter");
        assert_eq!(module.address, running.address("counter"));
    }
}

#[test]
fn what_cannot_be_watched_is_said_with_what_to_type() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = program(dir.path(), &[]) else { return };
    let error = running.error("countr");
    assert!(error.contains("no variable or function countr. Similar: counter"), "{error}");
    let error = running.error("push:w");
    assert!(
        error.ends_with("push is a function, which is executed, not read or written. Try: push:x")
    );
    let error = running.error("counter:x");
    assert!(
        error.ends_with(
            "counter is a variable, which is not executed. Try: counter:w or counter:rw"
        )
    );
    let error = running.error("own");
    assert!(error.contains("own is thread-local"), "{error}");
    let error = running.error("table.x");
    assert!(
        error.contains("Try: install it (package -dbgsym or -debuginfo), compile with -g"),
        "{error}"
    );
    let error = running.error("0x10/4");
    assert!(error.contains("nothing is mapped at 0x10 in process"), "{error}");
    let error = running.error(&format!("{:#x}:x", running.address("counter")));
    assert!(error.contains("no code at"), "{error}");
    let error = running.error("counter+1/4");
    assert!(error.contains("are not aligned. Try: 0x"), "{error}");
    let error = running.error("counter+4");
    assert!(error.contains("its size is unknown. Try: counter+4/8"), "{error}");
    let error = running.error("libfoo!x");
    assert!(error.contains("has no module libfoo"), "{error}");
}

#[test]
fn a_stripped_program_knows_what_it_exports() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = program(dir.path(), &["-s", "-rdynamic"]) else { return };
    assert_eq!(running.found("counter").address, running.address("counter"));
    assert_eq!(running.found("push").address, running.address("push"));
    let error = running.error("hidden");
    assert!(error.contains("/plain, which has only exported names, and "), "{error}");
}

#[test]
fn processes_that_cannot_be_watched_say_why() {
    let machine = Machine::host();
    let target = || [Target::parse("counter").unwrap()];
    let error = |pid: u32| resolve(&machine, pid, &target()).unwrap_err().to_string();
    // Beyond the largest id.
    let gone = error(1 << 23);
    assert_eq!(
        gone,
        "cannot watch process 8388608: it has ended. Try: pgrep NAME to find a running one"
    );
    if std::fs::read("/proc/2/comm").is_ok_and(|comm| comm == b"kthreadd\n") {
        assert!(error(2).contains("it has no user memory"), "{}", error(2));
    } else {
        println!("skipped: process 2 is no kernel thread here");
    }
}

#[test]
fn a_program_that_was_replaced_is_read_as_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = program(dir.path(), &[]) else { return };
    let path = dir.path().join("plain");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "not the same").unwrap();
    let found = running.found("counter");
    assert_eq!(found.address, running.address("counter"));
}

/// Who asks for the process of another user; that is this test once more, as nobody.
#[test]
fn the_process_of_another_user_is_refused() {
    const ASKED: &str = "PMUSCOPE_TEST_ASKED_PID";
    if let Ok(pid) = std::env::var(ASKED) {
        let target = [Target::parse("counter").unwrap()];
        let error = resolve(&Machine::host(), pid.parse().unwrap(), &target).unwrap_err();
        println!("answer: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = program(dir.path(), &[]) else { return };
    let mode = |path: &std::path::Path, mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let own = dir.path().join("own");
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    mode(&own, 0o755);
    mode(dir.path(), 0o755);
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&own)
        .args(["--exact", "symbols::the_process_of_another_user_is_refused", "--nocapture"])
        .env(ASKED, running.pid().to_string())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let Some(answer) = text.lines().find_map(|line| line.split_once("answer: ")) else {
        println!("skipped: setpriv is not here, or may not make us another user: {text}");
        return;
    };
    let pid = running.pid();
    assert_eq!(
        answer.1,
        format!(
            "cannot watch process {pid}: no permission to read its mappings (/proc/{pid}/maps). \
             Try: sudo pmuscope watch -p {pid} …"
        )
    );
}
