//! `docs/flags.md`: every flag of every command, made from the definitions themselves; and the rules that flags keep.
//!
//! `pmuscope generate flags --out docs/flags.md` writes it, and so does the test with `PMUSCOPE_WRITE_LISTS=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

const HEAD: &str = "# Flags

<!-- Generated from the flags themselves. Do not edit: pmuscope generate flags --out docs/flags.md -->

One flag means one thing in all commands. `pmuscope record -h` shows a command's flags in short, `--help` in full.

- **Results**: `-o FILE` writes the result to FILE, in the form of its ending (`.html`, `.json`, `.csv`, …);
  `--format FORM` overrides the ending. `--json`, `--csv` print that form; `--json=FILE`, `--csv=FILE` and `--html=FILE`
  write it to FILE. The file follows `=` and is never the next word, so `stat --json sleep 1` runs `sleep`.
- **Durations** are `500ms`, `2s`, `1.5s`, `1m`. A plain number has the unit that the flag's help states: milliseconds
  where perf has them, seconds elsewhere.
- **Sizes** are `512K`, `4M`, `1G`; **lists** are `0-3,8` or `a,b`.
- Old spellings work, with a note on standard error.
";

/// The whole page.
pub(crate) fn page(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut out = HEAD.to_owned();
    out += "\n## In every command\n\n";
    out += &rows(command.get_arguments().filter(|arg| arg.is_global_set()));
    out += "\n## In several commands\n\n| flag | commands |\n|---|---|\n";
    for (flag, commands) in shared(&command) {
        let _ = writeln!(out, "| `{flag}` | {} |", commands.join(", "));
    }
    commands(&command, "", &mut |path, command| {
        let flags: Vec<&Arg> = visible(command).collect();
        if !flags.is_empty() {
            let _ = write!(out, "\n## {path}\n\n{}", rows(flags.into_iter()));
        }
    });
    out
}

/// Flags that several commands have under the same names, with those commands.
fn shared(command: &Command) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    commands(command, "", &mut |path, command| {
        for arg in visible(command).filter(|arg| !arg.is_positional()) {
            found.entry(spelling(arg)).or_default().push(path.to_owned());
        }
    });
    found.retain(|_, commands| commands.len() > 1);
    found
}

/// Calls `each` with every visible command below, and the words that name it.
fn commands(command: &Command, path: &str, each: &mut dyn FnMut(&str, &Command)) {
    let is_shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(is_shown) {
        let path = format!("{path} {}", below.get_name()).trim().to_owned();
        each(&path, below);
        commands(below, &path, each);
    }
}

/// Flags and arguments that users see, without those of every command.
fn visible(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set())
}

fn rows<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut out = "| flag | what it does |\n|---|---|\n".to_owned();
    for arg in args {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {}{} |", spelling(arg), cell(&help), cell(&default(arg)));
    }
    out
}

/// `-o, --output <FILE>`, as help shows it.
fn spelling(arg: &Arg) -> String {
    let value = value(arg);
    let long = arg.get_long().map(|long| format!("--{long}{value}"));
    match (arg.get_short(), long) {
        (Some(short), Some(long)) => format!("-{short}, {long}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, Some(long)) => long,
        (None, None) => value.trim().to_owned(),
    }
}

/// ` <FILE>`, `[=<FILE>]`, or nothing.
fn value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let name = value_names(arg).join(" ");
    let is_optional = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
    match is_optional && !arg.is_positional() {
        true => format!("[=<{name}>]"),
        false => format!(" <{name}>"),
    }
}

fn value_names(arg: &Arg) -> Vec<&str> {
    arg.get_value_names().unwrap_or_default().iter().map(|name| &**name).collect()
}

fn default(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    let is_shown = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
        && !values.is_empty()
        && !arg.is_hide_default_value_set();
    if is_shown { format!(" [default: {}]", values.join(",")) } else { String::new() }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    const PERFS: &str = "perf's own for this command";
    const BENCH: &str = "perf bench breakpoint's own";

    /// Short flags with a second meaning: command, flag, why.
    const SHORTS: [(&str, char, &str); 17] = [
        ("script", 'D', PERFS),
        ("script", 'F', PERFS),
        ("script", 'G', PERFS),
        ("record", 'd', PERFS),
        ("record", 'j', PERFS),
        ("record", 'i', PERFS),
        ("stat", 'i', PERFS),
        ("sweep", 'i', "as stat"),
        ("numa show", 'i', "as stat"),
        ("numa balance", 'i', "as stat"),
        ("lab run", 'm', "QEMU's, which sets the guest's memory"),
        ("compare", 'm', "what is compared are metrics; no command has both"),
        ("bench breakpoint thread", 'b', BENCH),
        ("bench breakpoint thread", 'p', BENCH),
        ("bench breakpoint thread", 't', BENCH),
        ("bench breakpoint enable", 'a', BENCH),
        ("bench breakpoint enable", 'p', BENCH),
    ];

    /// Commands whose flags describe an experiment or a machine, not a measurement: `--threads 4` starts four.
    const EXPERIMENTS: [&str; 3] = ["bench", "workload", "lab"];

    /// Flags whose value is something else in one command: command, flag, why.
    const VALUES: [(&str, &str, &str); 6] = [
        ("record", "threads", "perf's spelling of --readers"),
        ("report", "by", "takes several at once"),
        ("diff", "metrics", "alone it means metrics instead of percentages"),
        ("compare", "per", "chooses among the units that the files have"),
        (
            "numa advise",
            "sharing",
            "how threads share memory; record --sharing is for the command of that name",
        ),
        ("numa balance", "budget", "what is limited is memory traffic, not CPU time"),
    ];

    /// Flags that write files under another name than a result has: command, flag, why.
    const OUTPUTS: [(&str, &str, &str); 4] = [
        ("events import", "to", "where lists are kept for all commands, not a result"),
        ("lab run", "dir", "a folder for the guest's files, next to the result"),
        ("numa balance", "log", "a log during the run, next to the result"),
        ("workload memory", "control", "read by others while it runs"),
    ];

    /// Calls `each` with all visible flags of all commands.
    fn flags(each: &mut dyn FnMut(&str, &Arg)) {
        let mut command = Cli::command();
        command.build();
        commands(&command, "", &mut |path, command| {
            visible(command).for_each(|arg| each(path, arg));
        });
    }

    #[test]
    fn the_page_is_of_the_flags() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
        let page = page(&Cli::command());
        if std::env::var_os("PMUSCOPE_WRITE_LISTS").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let is_it = std::fs::read_to_string(&file).is_ok_and(|found| found == page);
        assert!(is_it, "docs/flags.md is stale: run this test with PMUSCOPE_WRITE_LISTS=1");
    }

    #[test]
    fn a_short_flag_has_one_long_name() {
        let mut found: BTreeMap<char, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        flags(&mut |path, arg| {
            let Some(short) = arg.get_short() else { return };
            let long = arg.get_long().unwrap_or("(none)").to_owned();
            if SHORTS.iter().any(|(command, other, _)| *command == path && *other == short) {
                return;
            }
            found.entry(short).or_default().entry(long).or_default().push(path.to_owned());
        });
        found.retain(|_, longs| longs.len() > 1);
        assert!(found.is_empty(), "short flags with two meanings: {found:#?}");
    }

    #[test]
    fn a_long_flag_takes_one_kind_of_value() {
        let mut found: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        flags(&mut |path, arg| {
            let Some(long) = arg.get_long() else { return };
            if EXPERIMENTS.iter().any(|name| path.starts_with(name)) {
                return;
            }
            if VALUES.iter().any(|(command, other, _)| *command == path && *other == long) {
                return;
            }
            let value = value(arg);
            found.entry(long.to_owned()).or_default().entry(value).or_default().push(path.into());
        });
        found.retain(|_, values| values.len() > 1);
        assert!(found.is_empty(), "flags with two kinds of values: {found:#?}");
    }

    /// What writes a result is called `--output`, or by the form that it writes.
    #[test]
    fn an_output_flag_has_no_other_name() {
        let names = ["output", "json", "csv", "html"];
        let mut found: BTreeSet<String> = BTreeSet::new();
        flags(&mut |path, arg| {
            let Some(long) = arg.get_long() else { return };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let is_file = value_names(arg).iter().any(|name| matches!(*name, "FILE" | "DIR"));
            let writes = ["Write ", "Print ", "Store ", "Log ", "Publish ", "Put ", "Draw "];
            let is_output = is_file && writes.iter().any(|word| help.starts_with(word));
            let is_allowed =
                OUTPUTS.iter().any(|(command, other, _)| *command == path && *other == long);
            if is_output && !names.contains(&long) && !is_allowed {
                found.insert(format!("{path} --{long}: {help}"));
            }
        });
        assert!(found.is_empty(), "outputs with names of their own: {found:#?}");
    }

    /// `<FILE>`, `<LIST>`, `<N>`, `<DURATION>`: capital letters, and what is typed between them.
    #[test]
    fn placeholders_have_one_style() {
        let mut found: BTreeSet<String> = BTreeSet::new();
        flags(&mut |path, arg| {
            let is_plain = |name: &&str| {
                name.split(['=', ',', '[', ']'])
                    .all(|part| part.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-'))
            };
            if !arg.get_action().takes_values() {
                return;
            }
            let wrong = value_names(arg).into_iter().filter(|name| !is_plain(name));
            found.extend(wrong.map(|name| format!("{path} {} {name}", arg.get_id())));
        });
        assert!(found.is_empty(), "{found:#?}");
    }

    /// One line of help is an order of about ten words.
    #[test]
    fn help_is_short() {
        let mut found: BTreeSet<String> = BTreeSet::new();
        flags(&mut |path, arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            // Defaults and lists of endings are looked up, not read.
            let text = help.split(" [").next().unwrap_or_default();
            let text = text.split(": .").next().unwrap_or_default();
            if text.split_whitespace().count() > 12 || text.ends_with('.') || help.is_empty() {
                found.insert(format!("{path} {}: {help}", arg.get_id()));
            }
        });
        assert!(found.is_empty(), "{found:#?}");
    }

    /// Hidden spellings are announced where they are used.
    #[test]
    fn old_spellings_are_flags() {
        let mut command = Cli::command();
        command.build();
        for (path, old, _) in crate::usage::OLD {
            let mut at = &command;
            for name in path.split(' ') {
                at = at.find_subcommand(name).unwrap();
            }
            let old = old.trim_start_matches("--");
            let is_it = |arg: &Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                aliases.contains(&old) || arg.is_hide_set() && arg.get_long() == Some(old)
            };
            assert!(at.get_arguments().any(is_it), "{path} {old}");
        }
    }
}
