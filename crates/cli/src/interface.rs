//! The flags of every command are those of a list, so that none is lost or renamed unseen.

use std::fmt::Write as _;
use std::path::Path;

use clap::builder::ValueRange;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

/// A line for each flag and argument: `record --frequency -F HZ`.
fn flags(command: &Command, path: &str, out: &mut String) {
    let mut lines: Vec<String> = command.get_arguments().filter_map(line).collect();
    lines.sort();
    for line in lines {
        let _ = writeln!(out, "{path} {line}");
    }
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        flags(command, format!("{path} {}", command.get_name()).trim(), out);
    }
}

/// Name, short name, other names, and values: `[VALUE]` where the flag may have one, `…` where it may have many.
fn line(arg: &Arg) -> Option<String> {
    let is_refused = arg.is_hide_set() && arg.get_help_heading() == Some("Target");
    if is_refused || arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version") {
        return None;
    }
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(|it| &**it).collect();
    let value = match (arg.get_action(), arg.get_num_args()) {
        (ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count, _) => String::new(),
        (_, Some(range)) if range.min_values() == 0 => {
            let equals = if arg.is_require_equals_set() { "=" } else { "" };
            format!(" [{equals}{}]", values.join(" "))
        }
        (_, Some(range))
            if range.max_values() > ValueRange::SINGLE.max_values().max(values.len()) =>
        {
            format!(" {}…", values.join(" "))
        }
        _ => format!(" {}", values.join(" ")),
    };
    let long =
        arg.get_long_and_visible_aliases().into_iter().flatten().map(|long| format!("--{long}"));
    let short =
        arg.get_short_and_visible_aliases().into_iter().flatten().map(|short| format!("-{short}"));
    let hidden = arg.get_all_aliases().into_iter().flatten().map(|long| format!("(--{long})"));
    let names: Vec<String> = long.chain(short).chain(hidden).collect();
    let repeated = if matches!(arg.get_action(), ArgAction::Append) { " again" } else { "" };
    Some(format!("{}{value}{repeated}", names.join(" ")).trim().to_owned())
}

#[test]
fn flags_are_those_of_the_list() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interface/flags.txt");
    let mut command = crate::Cli::command();
    command.build();
    let mut found = String::new();
    flags(&command, "", &mut found);
    if std::env::var_os("PMUSCOPE_WRITE_LISTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let list = std::fs::read_to_string(&file).unwrap();
    let lost: Vec<&str> =
        list.lines().filter(|line| !found.contains(&format!("{line}\n"))).collect();
    let new: Vec<&str> =
        found.lines().filter(|line| !list.contains(&format!("{line}\n"))).collect();
    assert!(
        lost.is_empty() && new.is_empty(),
        "lost {lost:#?}, new {new:#?}. Say it in CHANGELOG.md, then run this test with \
         PMUSCOPE_WRITE_LISTS=1"
    );
}
