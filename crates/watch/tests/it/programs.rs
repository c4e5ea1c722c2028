//! Programs to look into, which print where their variables are.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use pmuscope_machine::Machine;
use pmuscope_watch::resolve::{ResolveError, Watchpoint, resolve};
use pmuscope_watch::target::Target;

/// Compiles `source` with a compiler and arguments; `None`, with the reason printed, without compiler.
pub(crate) fn compile(
    compiler: &str,
    dir: &Path,
    (name, source): (&str, &str),
    output: &str,
    arguments: &[&str],
) -> Option<PathBuf> {
    let file = dir.join(name);
    std::fs::write(&file, source).unwrap();
    let program = dir.join(output);
    let run = Command::new(compiler)
        .current_dir(dir)
        .arg(name)
        .arg("-o")
        .arg(&program)
        .args(arguments)
        .output();
    match run {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{compiler}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: no {compiler} ({error})");
            None
        }
    }
}

/// A program that runs until this is dropped.
pub(crate) struct Running {
    child: Child,
    _stdin: ChildStdin,
    /// What it printed: names and addresses.
    pub(crate) places: Vec<(String, u64)>,
}

impl Running {
    /// Starts `program`, which prints `name address` by line, then `ready`, and waits for its end of input.
    pub(crate) fn start(program: &Path) -> Self {
        Self::of(&mut Command::new(program)).unwrap()
    }

    /// As [`Running::start`], in a folder.
    pub(crate) fn start_in(program: &Path, folder: &Path) -> Self {
        Self::of(Command::new(program).current_dir(folder)).unwrap()
    }

    /// As [`Running::start`]; `None` if it ends at once.
    pub(crate) fn of(command: &mut Command) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let places: Vec<_> = lines
            .map(Result::unwrap)
            .take_while(|line| line != "ready")
            .map(|line| {
                let (name, address) = line.rsplit_once(' ').unwrap();
                let address = u64::from_str_radix(address.trim_start_matches("0x"), 16);
                (name.to_owned(), address.unwrap())
            })
            .collect();
        let stdin = child.stdin.take().unwrap();
        let running = Self { child, _stdin: stdin, places };
        (!running.places.is_empty()).then_some(running)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the program itself says that `name` is.
    pub(crate) fn address(&self, name: &str) -> u64 {
        let place = self.places.iter().find(|(place, _)| place == name);
        place.unwrap_or_else(|| panic!("the program prints no {name}")).1
    }

    pub(crate) fn ask(&self, target: &str) -> Result<Watchpoint, ResolveError> {
        let target = Target::parse(target).unwrap();
        let mut found = resolve(&Machine::host(), self.pid(), &[target])?;
        Ok(found.remove(0))
    }

    pub(crate) fn found(&self, target: &str) -> Watchpoint {
        self.ask(target).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error of a target that has no address.
    pub(crate) fn error(&self, target: &str) -> String {
        match self.ask(target) {
            Err(error) => error.to_string(),
            Ok(found) => panic!("{target}: {found:?}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
