//! Messages on a terminal that is narrower than they are.

use crate::harness::{Scratch, need_program, skip_unless};
use crate::top_screen::need_pseudo_terminal;

/// Runs a program whose standard error is a terminal of 60 columns, and prints its output there.
const DRIVER: &str = r#"
import fcntl, os, pty, struct, subprocess, sys, termios
leader, follower = pty.openpty()
fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
program = subprocess.Popen(sys.argv[1:], stderr=follower, stdout=subprocess.DEVNULL)
os.close(follower)
shown = b""
while True:
    try:
        piece = os.read(leader, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
program.wait()
sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
"#;

#[test]
fn messages_break_at_words_on_a_terminal_only() {
    skip_unless!(need_program("python3", "--version").or_else(need_pseudo_terminal));
    let scratch = Scratch::new();
    let wrong = ["stat", "-I", "1s", "--per", "packet=10", "--", "true"];
    let piped = scratch.pmuscope(wrong);
    piped.exits(2);
    let whole = piped.stderr.trim_end();
    assert!(whole.starts_with("error: ") && !whole.contains('\n'), "{whole}");
    assert!(whole.len() > 120, "too short to be broken: {whole}");
    let driver = ["-c", DRIVER, env!("CARGO_BIN_EXE_pmuscope")];
    let shown = scratch.run("python3", driver.iter().chain(&wrong));
    let lines: Vec<&str> = shown.exits(0).stdout.trim_end().lines().collect();
    assert!(lines.len() > 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "{lines:?}");
    let joined = lines.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join(" ");
    assert_eq!(joined, whole);
}
