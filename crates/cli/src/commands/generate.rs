//! `pmuscope generate`: files for packagers, made from the flags themselves so that they are never
//! behind them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Subcommand, ValueEnum};
use clap_complete::Generator as _;
use pmuscope_console::exit::{Exit, bad_input};

use crate::{Cli, flag_table};

/// Flags of `pmuscope generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to generate.
#[derive(Debug, Subcommand)]
enum What {
    /// Write manual pages, one per command
    Man {
        /// Write them to this folder, created if needed
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Date the pages [default: no date]
        #[arg(long, value_name = "YYYY-MM-DD", default_value = " ", hide_default_value = true)]
        date: String,
    },
    /// Write the table of all flags, docs/flags.md
    Flags {
        /// Write it to this file
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Write completions for a shell
    Completions {
        /// Write for this shell
        #[arg(long, value_name = "SHELL")]
        shell: Shell,
        /// Write to this folder, under the name the shell expects
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Shells that completions are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// What the shell looks for once `pmuscope` is typed.
    fn file_name(self) -> &'static str {
        match self {
            Self::Bash => "pmuscope",
            Self::Zsh => "_pmuscope",
            Self::Fish => "pmuscope.fish",
        }
    }
}

impl From<Shell> for clap_complete::Shell {
    fn from(shell: Shell) -> Self {
        match shell {
            Shell::Bash => Self::Bash,
            Shell::Zsh => Self::Zsh,
            Shell::Fish => Self::Fish,
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let (written, what, out) = match args.what {
        What::Man { out, date } => (manual(&out, &date), "manual pages", out),
        What::Flags { out } => {
            (fs::write(&out, flag_table::page(&Cli::command())), "the table of flags", out)
        }
        What::Completions { shell, out } => (completions(shell, &out), "completions", out),
    };
    written.map_err(|error| {
        let out = out.display();
        bad_input(format!("cannot write {what} to {out}: {error}"))
    })?;
    Ok(Exit::Done)
}

/// Writes `pmuscope.1`, `pmuscope-record.1`, … to `folder`; hidden commands have no page.
fn manual(folder: &Path, date: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Pages are the same whatever build writes them.
    let command = Cli::command().long_version(env!("CARGO_PKG_VERSION"));
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, folder, date)
}

/// The page of a command, and those of the commands below it.
fn pages(command: &clap::Command, folder: &Path, date: &str) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone())
        .date(date)
        .source(concat!("pmuscope ", env!("CARGO_PKG_VERSION")))
        .manual("pmuscope");
    let mut page = Vec::new();
    man.render(&mut page)?;
    // Breaks around an empty line do nothing, and formatters say so.
    let page = String::from_utf8_lossy(&page).replace("\n.br\n\n.br\n", "\n.sp\n");
    fs::write(folder.join(man.get_filename()), page)?;
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.try_for_each(|below| pages(below, folder, date))
}

/// Writes the completions of a shell to `folder`.
fn completions(shell: Shell, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = visible(&Cli::command()).version(env!("CARGO_PKG_VERSION"));
    command = command.propagate_version(true);
    command.set_bin_name("pmuscope");
    command.build();
    let mut script = Vec::new();
    clap_complete::Shell::from(shell).try_generate(&command, &mut script)?;
    fs::write(folder.join(shell.file_name()), script)
}

/// A command as users are to see it: clap's completions would offer what is hidden too.
fn visible(command: &clap::Command) -> clap::Command {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut copy = clap::Command::new(command.get_name().to_owned())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()))
        .subcommands(below.map(visible));
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as text: roff escapes hyphens.
    fn page(folder: &Path, name: &str) -> String {
        let path = folder.join(format!("{name}.1"));
        let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        page.replace("\\-", "-")
    }

    /// Checks the page of `command` and those below; returns how many there are.
    fn check(command: &clap::Command, name: &str, folder: &Path) -> usize {
        let text = page(folder, name);
        assert!(text.contains(&format!(".TH {name} 1 2026-11-22 ")), "{text}");
        assert!(!text.contains("compiler:"), "{name}.1 is of one build\n{text}");
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if let Some(long) = arg.get_long() {
                assert!(text.contains(&format!("--{long}")), "{name}.1 lacks --{long}:\n{text}");
            }
            if let Some(short) = arg.get_short() {
                assert!(text.contains(&format!("-{short}")), "{name}.1 lacks -{short}:\n{text}");
            }
        }
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        let below = visible.filter(|c| c.get_name() != "help").map(|sub| {
            assert!(text.contains(sub.get_name()), "{name}.1 lacks {}", sub.get_name());
            check(sub, &format!("{name}-{}", sub.get_name()), folder)
        });
        1 + below.sum::<usize>()
    }

    #[test]
    fn every_command_has_a_page_with_every_flag() {
        let folder = tempfile::tempdir().unwrap();
        manual(folder.path(), "2026-11-22").unwrap();
        let mut command = Cli::command();
        command.build();
        let pages = check(&command, "pmuscope", folder.path());
        assert!(pages > 6, "only {pages} pages");
        let written = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(written, pages, "a page without a command");
    }

    /// Checks that `script` names what users may type of `command` and below, and nothing hidden;
    /// returns how many commands there are.
    fn check_script(command: &clap::Command, script: &str, (shell, depth): (Shell, u32)) -> usize {
        // For fish, clap_complete goes so deep: flags of bench breakpoint thread are not offered.
        let is_offered = shell != Shell::Fish || depth < 3;
        let flags = command.get_arguments().filter(|arg| is_offered && arg.get_id() != "help");
        for arg in flags {
            let Some(long) = arg.get_long() else { continue };
            let word =
                if shell == Shell::Fish { format!("-l {long}") } else { format!("--{long}") };
            // A flag of the same name may be seen elsewhere, so only the seen ones are looked for.
            assert!(arg.is_hide_set() || script.contains(&word), "{shell:?} lacks {word}");
        }
        let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
        let below = visible.map(|below| {
            assert!(script.contains(below.get_name()), "{shell:?} lacks {}", below.get_name());
            check_script(below, script, (shell, depth + 1))
        });
        1 + below.sum::<usize>()
    }

    #[test]
    fn completions_know_every_command_and_flag_and_nothing_hidden() {
        for shell in Shell::value_variants().iter().copied() {
            let folder = tempfile::tempdir().unwrap();
            completions(shell, folder.path()).unwrap();
            let script = fs::read_to_string(folder.path().join(shell.file_name())).unwrap();
            let commands = check_script(&Cli::command(), &script, (shell, 0));
            assert!(commands > 20, "only {commands} commands");
            let offered = script.contains("packagers") || script.contains("generate");
            assert!(!offered, "{shell:?} offers what is hidden\n{script}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let out = file.path().join("folder");
        let named = |what| {
            let text = run(Args { what }).unwrap_err().to_string();
            assert!(text.contains(&out.display().to_string()), "{text}");
        };
        named(What::Man { out: out.clone(), date: String::new() });
        named(What::Completions { shell: Shell::Bash, out: out.clone() });
    }
}
