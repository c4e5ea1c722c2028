//! Runs the commands of a file one after the other, where there is no shell. One command a line:
//!
//! ```text
//!   PROGRAM ARGUMENTS…     to its end; prints "exit STATUS: PROGRAM ARGUMENTS…"
//!   & PROGRAM ARGUMENTS…   goes on meanwhile; prints "started N: PID"
//!   kill $N                at once, and waits for its end
//!   await FILE BYTES       until the file has so many
//!   mkdir PATH    write PATH TEXT    copy FROM TO
//! ```
//!
//! In later lines `$N` is the process id of the program started as number N, `$N.1` the id of its second
//! thread. Whoever still runs at the end is killed.
//!
//! For guests this file is compiled as a program of its own ([`crate::guest_script`]): it uses nothing but
//! the standard library. Here it is a module, so that it is looked after like all others.

use std::error::Error;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;
use std::{env, fs, io, thread};

/// How often a file is looked at.
const POLL: Duration = Duration::from_millis(20);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The programs that were started, the first one as number 1.
struct Shell<W> {
    started: Vec<Child>,
    out: W,
}

impl<W: io::Write> Shell<W> {
    fn new(out: W) -> Self {
        Self { started: Vec::new(), out }
    }

    fn obey(&mut self, line: &str) -> Result<()> {
        let words = line.split_whitespace().map(|word| self.meaning(word));
        let words = words.collect::<Result<Vec<String>>>()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => {}
            ["&", program, arguments @ ..] => {
                let child = Command::new(program).args(arguments).spawn()?;
                let number = self.started.len() + 1;
                writeln!(self.out, "started {number}: {}", child.id())?;
                self.started.push(child);
            }
            ["kill", pid] => {
                let is_it = |child: &&mut Child| child.id().to_string() == *pid;
                let child = self.started.iter_mut().find(is_it).ok_or("it was not started here")?;
                child.kill()?;
                child.wait()?;
            }
            ["await", path, bytes] => {
                let bytes: u64 = bytes.parse()?;
                while fs::metadata(path).map_or(0, |file| file.len()) < bytes {
                    thread::sleep(POLL);
                }
            }
            ["mkdir", path] => fs::create_dir(path)?,
            ["write", path, text] => fs::write(path, text)?,
            // Files of the kernel tell no length, so what was read is written.
            ["copy", from, to] => fs::write(to, fs::read(from)?)?,
            [program, arguments @ ..] => {
                let status = Command::new(program).args(arguments).status()?;
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                writeln!(self.out, "exit {code}: {}", words.join(" "))?;
            }
        }
        Ok(())
    }

    /// A word with the number that is meant in it.
    fn meaning(&self, word: &str) -> Result<String> {
        let Some((before, rest)) = word.split_once('$') else { return Ok(word.to_owned()) };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (number, thread) = number.split_once('.').unwrap_or((number, "0"));
        let index = number.parse::<usize>()?.checked_sub(1).ok_or("numbers begin with 1")?;
        let child = self.started.get(index).ok_or("so many were not started")?;
        let mut ids = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", child.id()))? {
            ids.push(task?.file_name().to_string_lossy().parse::<u32>()?);
        }
        ids.sort_unstable();
        let id = ids.get(thread.parse::<usize>()?).ok_or("it has fewer threads")?;
        Ok(format!("{before}{id}{after}"))
    }
}

impl<W> Drop for Shell<W> {
    fn drop(&mut self) {
        for child in &mut self.started {
            // Ended already, perhaps; then there is nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(script: &str, out: impl io::Write) -> Result<()> {
    let mut shell = Shell::new(out);
    for line in script.lines() {
        shell.obey(line).map_err(|error| format!("{line}: {error}"))?;
    }
    Ok(())
}

/// Where this file is a program.
#[allow(dead_code)]
fn main() -> ExitCode {
    let script = env::args().nth(1).ok_or_else(|| "no file with commands".into());
    let script = script.and_then(|path| Ok(fs::read_to_string(path)?));
    match script.and_then(|script| run(&script, io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_in_turn_or_meanwhile_and_are_known_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let script = format!(
            "mkdir {new}\n& sleep 600\nwrite {pid} $1\ncopy {pid} {copy}\nawait {copy} 1\ntest -d {new}\n\
             test -d /proc/$1/task\nkill $1\nfalse",
            new = path("new"),
            pid = path("pid"),
            copy = path("copy")
        );
        let mut out = Vec::new();
        run(&script, &mut out).unwrap();
        let pid = fs::read_to_string(path("copy")).unwrap();
        let mut expected = format!("started 1: {pid}\nexit 0: test -d {}\n", path("new"));
        expected.push_str(&format!("exit 0: test -d /proc/{pid}/task\nexit 1: false\n"));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    }

    #[test]
    fn what_cannot_be_done_is_told_with_its_line() {
        let error = |script| run(script, io::sink()).unwrap_err().to_string();
        assert_eq!(error("kill $1"), "kill $1: so many were not started");
        assert_eq!(error("& sleep 600\nkill $1.7"), "kill $1.7: it has fewer threads");
        assert!(error("/no/such/program").starts_with("/no/such/program: No such file"));
    }
}
