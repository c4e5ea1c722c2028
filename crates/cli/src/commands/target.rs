//! The target of a command: one set of flags for all commands that record, count, watch or place something.
//!
//! ```text
//!  -a  -p PID  -t TID  -C CPUS  -G PATH  -- COMMAND ─► TargetArgs<what the command can do> ─► machine::Target
//! ```

use std::ffi::OsString;

use pmuscope_console::exit::bad_input;
use pmuscope_machine::{CpuSet, Target};
use pmuscope_measure::arms;

/// Everything on all CPUs: `-a`.
pub(super) const ALL_CPUS: u8 = 1;
/// Processes: `-p`.
pub(super) const PROCESSES: u8 = 2;
/// Threads: `-t`.
pub(super) const THREADS: u8 = 4;
/// CPUs: `-C`.
pub(super) const CPUS: u8 = 8;
/// The members of a cgroup: `-G`.
pub(super) const CGROUP: u8 = 16;
/// A command that is started for it: `-- COMMAND`.
pub(super) const COMMAND: u8 = 32;
/// Another target is observed for as long as the command runs: `-a -- sleep 10`.
pub(super) const WHILE: u8 = 64;

/// All that runs already.
pub(super) const RUNNING: u8 = ALL_CPUS | PROCESSES | THREADS | CPUS | CGROUP;

/// What to observe; `KINDS` are the targets that the command can do.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Target")]
pub(super) struct TargetArgs<const KINDS: u8> {
    /// Observe all CPUs, system-wide
    #[arg(short = 'a', long, hide = KINDS & ALL_CPUS == 0)]
    all_cpus: bool,
    /// Observe these processes, with threads and new children
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', hide = KINDS & PROCESSES == 0)]
    pub(super) pid: Vec<u32>,
    /// Observe these threads, with new children
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', hide = KINDS & THREADS == 0)]
    tid: Vec<u32>,
    #[arg(short = 'C', long, value_name = "LIST", hide = KINDS & CPUS == 0, help = of_cpus(KINDS))]
    cpu: Option<String>,
    /// Observe the members of this cgroup
    #[arg(short = 'G', long, value_name = "PATH", hide = KINDS & CGROUP == 0)]
    cgroup: Option<String>,
}

/// Help of `-C`.
fn of_cpus(kinds: u8) -> &'static str {
    match kinds & WHILE == 0 && kinds & COMMAND != 0 {
        true => "Observe these CPUs, as in 0-3,8; a command runs only there",
        false => "Observe these CPUs, as in 0-3,8",
    }
}

impl<const KINDS: u8> TargetArgs<KINDS> {
    /// What was asked for; `name` is that of the pmuscope command.
    ///
    /// # Errors
    /// Flags contradict each other, or there is none.
    pub(super) fn target(&self, name: &str, command: &[OsString]) -> anyhow::Result<Target> {
        self.asked(name, command)?
            .ok_or_else(|| bad_input(format!("no target. Try: {}", choices(name, KINDS))))
    }

    /// The same, for commands that do something without a target too.
    ///
    /// # Errors
    /// Flags contradict each other, or name what this command cannot do.
    pub(super) fn asked(&self, name: &str, command: &[OsString]) -> anyhow::Result<Option<Target>> {
        self.parse(name, command).map_err(bad_input)
    }

    fn parse(&self, name: &str, command: &[OsString]) -> Result<Option<Target>, String> {
        let asked = [
            (self.all_cpus, ALL_CPUS, "-a"),
            (!self.pid.is_empty(), PROCESSES, "-p"),
            (!self.tid.is_empty(), THREADS, "-t"),
            (self.cgroup.is_some(), CGROUP, "-G"),
            (!command.is_empty() && KINDS & WHILE == 0, COMMAND, "-- COMMAND"),
            (self.cpu.is_some(), CPUS, "-C"),
        ];
        let mut asked = asked.into_iter().filter(|(is_asked, ..)| *is_asked);
        if let Some((.., flag)) = asked.clone().find(|(_, kind, _)| KINDS & kind == 0) {
            let try_these = choices(name, KINDS);
            return Err(format!("{flag}: not a target of pmuscope {name}. Try: {try_these}"));
        }
        let cpus = self.cpus()?;
        match (asked.next(), asked.next()) {
            (Some((_, PROCESSES | THREADS, flag)), Some((_, CPUS, _))) => {
                return Err(format!(
                    "-C with {flag}: not supported. Try: -C alone, or {flag} alone"
                ));
            }
            (Some((.., one)), Some((_, kind, other))) if kind != CPUS => {
                let next = match (name, other) {
                    ("watch", "-- COMMAND") => "; to watch for a time: --timeout 2s",
                    _ => "",
                };
                return Err(format!(
                    "{one} and {other} are different targets. Try: one of them{next}"
                ));
            }
            _ => {}
        }
        let is_of_command = !command.is_empty() && KINDS & WHILE == 0;
        Ok(Some(match (&self.cgroup, cpus) {
            (Some(path), cpus) => Target::Cgroup { path: path.clone(), cpus },
            (None, Some(cpus)) if !is_of_command => Target::Cpus(cpus),
            _ if self.all_cpus => Target::System,
            _ if !self.pid.is_empty() => Target::Processes(self.pid.clone()),
            _ if !self.tid.is_empty() => Target::Threads(self.tid.clone()),
            _ if !command.is_empty() => Target::Command,
            _ => return Ok(None),
        }))
    }

    /// Those of `-C`.
    pub(super) fn cpus(&self) -> Result<Option<CpuSet>, String> {
        let parse = |text| CpuSet::parse(text).map_err(|error| format!("-C {text}: {error}"));
        self.cpu.as_deref().map(parse).transpose()
    }
}

/// Targets that a command can do, as typed.
fn choices(name: &str, kinds: u8) -> String {
    let all = [
        (COMMAND, "-- COMMAND"),
        (PROCESSES, "-p PID"),
        (THREADS, "-t TID"),
        (CPUS, "-C CPUS"),
        (CGROUP, "-G PATH"),
        (ALL_CPUS, "-a"),
    ];
    let texts = all.into_iter().filter(|(kind, _)| kinds & kind != 0).map(|(_, text)| text);
    format!("pmuscope {name} {}", texts.collect::<Vec<_>>().join(", or "))
}

/// A target in words, for the head of a table.
pub(super) fn describe(target: &Target, command: &[OsString]) -> String {
    let command: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match (target, arms::join(&command)) {
        (Target::Command, command) => command,
        (target, command) if command.is_empty() => target.to_string(),
        (target, command) => format!("{target} while {command} ran"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli<const KINDS: u8> {
        #[command(flatten)]
        target: TargetArgs<KINDS>,
        #[arg(last = true)]
        command: Vec<OsString>,
    }

    fn asked<const KINDS: u8>(words: &str) -> Result<Option<Target>, String> {
        let words = std::iter::once("x").chain(words.split_whitespace());
        let cli = Cli::<KINDS>::parse_from(words);
        cli.target.parse("x", &cli.command)
    }

    #[test]
    fn flags_become_targets() {
        let all = asked::<{ RUNNING | COMMAND | WHILE }>;
        let cpus = || CpuSet::parse("0-3").unwrap();
        assert_eq!(all(""), Ok(None));
        assert_eq!(all("-- sleep 1"), Ok(Some(Target::Command)));
        assert_eq!(all("-a -- sleep 1"), Ok(Some(Target::System)));
        assert_eq!(all("-a -C 0-3"), Ok(Some(Target::Cpus(cpus()))));
        assert_eq!(all("-p 1,2 --pid 3"), Ok(Some(Target::Processes(vec![1, 2, 3]))));
        let cgroup = Target::Cgroup { path: "a".into(), cpus: Some(cpus()) };
        assert_eq!(all("-G a --cpu 0-3"), Ok(Some(cgroup)));
        assert!(all("-a -p 1").unwrap_err().ends_with("Try: one of them"));
        assert!(all("-C 0 -t 1").unwrap_err().contains("-C with -t"));
        assert!(all("-C 0-").unwrap_err().starts_with("-C 0-: "));
    }

    #[test]
    fn a_command_says_which_targets_it_can_do() {
        let few = asked::<{ PROCESSES | COMMAND }>;
        let why = few("-G a").unwrap_err();
        assert_eq!(why, "-G: not a target of pmuscope x. Try: pmuscope x -- COMMAND, or -p PID");
        assert!(few("-p 1 -- true").unwrap_err().contains("-p and -- COMMAND are different"));
        // Where a command is the target itself, CPUs say where it runs.
        let pinned = asked::<{ RUNNING | COMMAND }>("-C 0 -- true");
        assert_eq!(pinned, Ok(Some(Target::Command)));
    }
}
