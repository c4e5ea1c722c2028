//! The first page of help: examples, then commands in groups.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::Cli;

/// Commands by what they are for; a test holds them against the commands that there are.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Profile", &["record", "report", "browse", "top", "diff", "metrics", "script", "bundle"]),
    ("Count", &["stat", "sweep", "list", "events"]),
    ("Compare", &["compare", "bench"]),
    ("Memory", &["sharing", "watch", "numa"]),
    ("Fleet", &["fleet"]),
    ("Environment", &["doctor", "lab", "workload", "help"]),
];

const EXAMPLES: [(&str, &str); 5] = [
    ("pmuscope record -g -- ./app", "sample a program with callchains"),
    ("pmuscope report -o profile.html", "see where the time went, as a page"),
    ("pmuscope stat -r 10 -- ./app", "count events, with 95% CIs from ten runs"),
    ("pmuscope watch -p PID VARIABLE", "trace who writes a variable"),
    ("pmuscope doctor", "check what this machine can measure"),
];

/// What there is to say of `help`, which clap makes itself.
const HELP: &str = "Show help for a command, as in pmuscope help record";

/// The command line of the program.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &clap::Command) -> String {
    let mut text =
        "{about}\n\nUsage: pmuscope <COMMAND> [OPTIONS] [-- PROGRAM]\n\nExamples:\n".to_owned();
    for (typed, what) in EXAMPLES {
        let _ = writeln!(text, "  {typed:<33}{what}");
    }
    let width = names().map(str::len).max().unwrap_or(0);
    for (group, members) in GROUPS {
        let _ = writeln!(text, "\n{group}:");
        for name in members {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
    }
    text + "\nOptions:\n{options}\n\nMore: pmuscope COMMAND --help"
}

fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, members)| members.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut there: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = names().collect();
        there.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, there);
    }

    #[test]
    fn the_first_page_fits_80_columns_and_says_each_flag_once() {
        let text = command().render_help().to_string();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for flag in ["      --force", "-v, --verbose", "-h, --help", "-V, --version"] {
            assert_eq!(text.matches(flag).count(), 1, "{flag}\n{text}");
        }
        let at = |word: &str| text.find(word).unwrap();
        assert!(at("Examples:") < at("Profile:") && at("Environment:") < at("Options:"), "{text}");
    }

    /// Global flags come last, in a block of their own.
    #[test]
    fn each_command_ends_with_the_global_flags() {
        fn check(command: &mut clap::Command) {
            let text = command.render_help().to_string();
            let at = text.find("Global options:").unwrap_or_else(|| panic!("{text}"));
            let (before, after) = text.split_at(at);
            assert!(!before.contains("--force") && !before.contains("--version"), "{before}");
            for flag in ["--force", "-v, --verbose", "-h, --help", "-V, --version"] {
                assert_eq!(after.matches(flag).count(), 1, "{flag} {after}");
            }
            for below in command.get_subcommands_mut().filter(|it| it.get_name() != "help") {
                check(below);
            }
        }
        let mut command = Cli::command();
        command.build();
        command.get_subcommands_mut().filter(|it| it.get_name() != "help").for_each(check);
    }
}
