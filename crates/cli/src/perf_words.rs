//! What users of perf type by habit, per command, and what it is called here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands of perf, and of tools around it, that have no command of that name here.
const COMMANDS: [(&str, &str); 17] = [
    ("annotate", "pmuscope report --annotate FUNCTION"),
    ("archive", "pmuscope bundle"),
    ("buildid-list", "pmuscope report --modules"),
    ("c2c", "pmuscope record --sharing, then pmuscope sharing; it reads perf c2c's files, too"),
    ("evlist", "pmuscope script -D; pmuscope report --json has them too"),
    ("flamegraph", "pmuscope record -g -- CMD, then pmuscope report -o x.html (or x.svg)"),
    ("ftrace", "pmuscope list tracepoint, then pmuscope record -e SYSTEM:NAME"),
    ("kvm", "pmuscope lab run for guests of your own; for other guests, perf kvm"),
    ("lock", "pmuscope record --off-cpu -g, then pmuscope report --by wait"),
    ("mem", "pmuscope record --sharing, then pmuscope report --by mem (or data, field)"),
    ("probe", "perf probe to create one, then pmuscope record -e probe:NAME"),
    ("sched", "pmuscope record --off-cpu, then pmuscope report --by wait"),
    ("stap", "pmuscope watch VARIABLE, or pmuscope record -e SYSTEM:NAME"),
    ("test", "pmuscope doctor"),
    ("timechart", "pmuscope record --off-cpu, then pmuscope report -o x.html"),
    ("trace", "pmuscope record -e 'syscalls:sys_enter_*', then pmuscope script"),
    ("version", "pmuscope --version"),
];

const TABLES: &[&str] = &["report", "top", "diff", "metrics", "sharing"];
const REPORTS: &[&str] = &["report", "top", "diff", "script", "metrics"];
const COUNTS: &[&str] = &["stat", "record", "top", "sweep"];
const ANY: &[&str] = &[];

/// Flags of perf without a value that ask for what is done anyway: scripts and fingers have them, so they are taken.
const DEFAULTS: [(&[&str], &str); 13] = [
    (TABLES, "--stdio"),
    (TABLES, "--stdio2"),
    (TABLES, "--no-children"),
    (TABLES, "-n"),
    (TABLES, "--show-nr-samples"),
    (TABLES, "--header"),
    (TABLES, "-I"),
    (TABLES, "-f"),
    (&["script"], "-f"),
    (&["stat"], "-B"),
    (&["stat"], "--big-num"),
    (ANY, "--no-pager"),
    (&["bench numa"], "-q"),
];

/// Flags of perf that have another name here: the commands that they are flags of, perf's flag, ours.
const FLAGS: [(&[&str], &str, &str); 38] = [
    (REPORTS, "--sort", "--by, as in --by comm,dso,sym"),
    (REPORTS, "-s", "--by, as in --by comm,dso,sym"),
    (&["report"], "-F", "--by, or pmuscope script -F for each sample; all columns: --csv"),
    (&["report"], "-D", "pmuscope script -D"),
    (&["top"], "-b", "--once"),
    (REPORTS, "--fields", "--by, as in --by comm,dso,sym"),
    (REPORTS, "--tui", "pmuscope browse"),
    (REPORTS, "--gtk", "a page: -o x.html"),
    (&["top", "diff", "script", "metrics"], "--children", "pmuscope report --children"),
    (&["report"], "-g", "--call-tree, or a flame graph: -o x.html. Callchains: record -g"),
    (&["top"], "-g", "pmuscope record -g, then pmuscope report --call-tree"),
    (
        &["report", "top"],
        "--call-graph",
        "--call-tree here; record --call-graph dwarf records the callchains",
    ),
    (&["report"], "-G", "--call-tree, callers first"),
    (REPORTS, "-S", "--symbol-filter =NAME, or --annotate FUNCTION"),
    (REPORTS, "--symbols", "--symbol-filter =NAME, or --annotate FUNCTION"),
    (REPORTS, "--symbol", "--symbol-filter =NAME, or --annotate FUNCTION"),
    (REPORTS, "--comms", "--comm"),
    (REPORTS, "-c", "--comm"),
    (REPORTS, "-d", "pmuscope report --dsos"),
    (REPORTS, "--dsos", "pmuscope report --dsos"),
    (&["script"], "--header", "pmuscope script -D | head"),
    (REPORTS, "--header-only", "pmuscope script -D | head"),
    (REPORTS, "-T", "--by thread"),
    (REPORTS, "--threads", "--by thread"),
    (REPORTS, "-k", "--symfs DIR"),
    (REPORTS, "--vmlinux", "--symfs DIR"),
    (REPORTS, "--percentage", "nothing: percentages are of what the filters leave"),
    (REPORTS, "-K", "-e EVENT:u to record"),
    (REPORTS, "-U", "-e EVENT:k to record"),
    (
        &["stat"],
        "-d",
        "-e L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses; or all: pmuscope sweep -e cache",
    ),
    (
        &["stat"],
        "--detailed",
        "-e L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses; or all: pmuscope sweep -e cache",
    ),
    (&["stat"], "--topdown", "pmuscope sweep --topdown -- CMD"),
    (&["stat"], "-n", "-e task-clock"),
    (&["stat"], "--table", "a page with each run: -o x.html"),
    (&["stat"], "--metric-only", "-x, and the rows that you need"),
    (&["stat"], "-S", "sync && pmuscope stat -- CMD"),
    (COUNTS, "--all-user", ":u after each event, as in -e cycles:u"),
    (COUNTS, "--all-kernel", ":k after each event, as in -e cycles:k"),
];

/// Words of `perf bench numa`.
const NUMA: [(&str, &str); 11] = [
    ("mem", "pmuscope bench numa --suite full for mem -a; one test: pmuscope workload memory"),
    ("-a", "--suite full"),
    ("--all", "--suite full"),
    ("-p", "pmuscope workload memory --processes N; as a test of a suite: processes = N"),
    ("--nr_proc", "pmuscope workload memory --processes N; as a test of a suite: processes = N"),
    ("-t", "pmuscope workload memory --threads N; as a test of a suite: threads = N"),
    ("--nr_threads", "pmuscope workload memory --threads N; as a test of a suite: threads = N"),
    ("-P", "pmuscope workload memory --process SIZE; as a test of a suite: process = \"512M\""),
    ("-T", "pmuscope workload memory --thread SIZE; as a test of a suite: thread = \"256M\""),
    ("-G", "pmuscope workload memory --global SIZE; as a test of a suite: global = \"256M\""),
    ("-s", "--seconds"),
];

/// The command that an error is about, `report` or `bench numa`: the usage that the error brings names it.
pub(crate) fn command_of(error: &clap::Error) -> String {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return String::new();
    };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip_while(|word| *word != "pmuscope").skip(1);
    let is_name = |word: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        !word.starts_with('-') && word.bytes().all(is_letter)
    };
    words.take_while(|word| is_name(word)).collect::<Vec<_>>().join(" ")
}

/// The flag of perf's in this error that asks for what is done anyway.
pub(crate) fn default_flag(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let command = command_of(error);
    let is_it = |(commands, flag): &&(&[&str], &str)| {
        word == flag && (commands.is_empty() || commands.contains(&command.as_str()))
    };
    DEFAULTS.iter().find(is_it).map(|(_, flag)| *flag)
}

/// What to type instead of a word of perf's that clap did not know.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let flag = || word(ContextKind::InvalidArg)?.split(['=', ' ']).next();
    let find = |table: &[(&'static str, &'static str)], word: &str| {
        table.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
    };
    let (word, ours) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = word(ContextKind::InvalidSubcommand)?;
            (word, find(&COMMANDS, word)?)
        }
        ErrorKind::UnknownArgument => {
            let (word, command) = (flag()?, command_of(error));
            if matches!(word, "--json" | "--csv" | "--html" | "--format") && !command.is_empty() {
                let why = "has no result in this form";
                return Some(format!(
                    "{word}: pmuscope {command} {why}. Try: pmuscope {command} -h"
                ));
            }
            let ours = match command.as_str() {
                "bench numa" => find(&NUMA, word)?,
                command => FLAGS.iter().find_map(|(commands, theirs, ours)| {
                    let is_meant =
                        command.is_empty() || commands.is_empty() || commands.contains(&command);
                    (is_meant && *theirs == word).then_some(*ours)
                })?,
            };
            (word, ours)
        }
        _ => return None,
    };
    Some(format!("{word} is perf's. Here: {ours}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    fn hint_for(words: &[&str]) -> Option<String> {
        let all = std::iter::once("pmuscope").chain(words.iter().copied());
        hint(&Cli::command().try_get_matches_from(all).unwrap_err())
    }

    #[test]
    fn habits_lead_to_what_it_is_called_here() {
        let annotate = hint_for(&["annotate"]).unwrap();
        assert_eq!(annotate, "annotate is perf's. Here: pmuscope report --annotate FUNCTION");
        for args in [&["script", "--sort=comm,dso"][..], &["top", "-s", "sym"]] {
            assert!(hint_for(args).unwrap().contains("--by comm,dso,sym"), "{args:?}");
        }
        assert!(hint_for(&["record", "--all-user", "--", "true"]).unwrap().contains(":u"));
        assert_eq!(hint_for(&["report", "--nonsense"]), None);
        for args in [&["bench", "numa", "mem", "-a"][..], &["bench", "numa", "-a"]] {
            assert!(hint_for(args).unwrap().contains("--suite full"), "{args:?}");
        }
        let own = hint_for(&["bench", "numa", "-p", "2", "-t", "3", "-P", "512"]).unwrap();
        assert_eq!(
            own,
            "-p is perf's. Here: pmuscope workload memory --processes N; as a test of a suite: processes = N"
        );
        assert_eq!(hint_for(&["script", "-F", "color"]), None, "a flag of ours, a wrong value");
    }

    #[test]
    fn the_same_flag_means_what_it_means_in_perfs_command() {
        let says = |args: &[&str], ours: &str| {
            let hint = hint_for(args).unwrap_or_else(|| panic!("{args:?}"));
            assert!(hint.contains(ours), "{args:?}: {hint}");
        };
        says(&["report", "-g"], "--call-tree");
        says(&["report", "-S", "main"], "--symbol-filter =NAME");
        says(&["report", "-d", "libc.so.6"], "pmuscope report --dsos");
        says(&["stat", "-d", "true"], "-e L1-dcache-loads,");
        says(&["stat", "--topdown", "true"], "pmuscope sweep --topdown");
        says(&["top", "-g"], "pmuscope record -g");
        says(&["flamegraph"], "pmuscope report -o x.html");
        assert_eq!(hint_for(&["doctor", "-g"]), None);
        says(&["doctor", "--csv"], "doctor has no result in this form");
    }

    #[test]
    fn flags_that_ask_for_what_is_done_anyway_are_taken() {
        let parse = |words: &[&str]| {
            let all = std::iter::once("pmuscope").chain(words.iter().copied());
            crate::usage::parse(all.map(Into::into).collect())
        };
        for words in [
            &["report", "--stdio", "-n", "--no-children", "--header", "-i", "x.data"][..],
            &["diff", "--stdio", "a", "b"],
            &["stat", "-B", "--no-pager", "--", "true"],
            &["annotate", "main", "--stdio"],
            &["report", "--sort", "comm,dso"],
            &["report", "-s", "sym"],
        ] {
            let parsed = parse(words);
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
        }
        // Words of the program that is run are its own, and what asks for something else is refused.
        assert!(parse(&["stat", "--", "prog", "-B"]).is_ok());
        for words in
            [&["report", "--stdio=x"][..], &["script", "--header"], &["annotate", "--stdio"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    /// A flag that a command takes would never come here.
    #[test]
    fn no_flag_of_ours_is_called_perfs() {
        let mut command = Cli::command();
        command.build();
        for (commands, theirs, _) in FLAGS {
            for name in commands {
                let Some(command) = command.find_subcommand(name) else { panic!("{name}") };
                let is_it = |arg: &clap::Arg| {
                    let short = arg.get_short().map(|short| format!("-{short}"));
                    let long = arg.get_long().map(|long| format!("--{long}"));
                    [short, long].into_iter().flatten().any(|ours| ours == theirs)
                };
                let own = command.get_arguments().any(is_it);
                // Of a row for several commands, one may have it itself.
                assert!(!own || commands.len() > 1, "{name} {theirs}");
            }
        }
    }

    /// A name that is ours would never come here.
    #[test]
    fn no_command_of_ours_is_called_perfs() {
        let command = Cli::command();
        let ours: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(COMMANDS.iter().all(|(theirs, _)| !ours.contains(theirs)), "{ours:?}");
    }
}
