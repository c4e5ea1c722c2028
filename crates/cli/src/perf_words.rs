//! What users of perf type by habit, and what it is called here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands of perf that have no command of that name here.
const COMMANDS: [(&str, &str); 15] = [
    ("annotate", "pmuscope report --annotate FUNCTION"),
    ("archive", "pmuscope bundle"),
    ("buildid-list", "pmuscope report --modules"),
    ("c2c", "pmuscope record -d -e EVENT, then pmuscope report --by mem; or pmuscope watch"),
    ("evlist", "pmuscope script -D; pmuscope report --json has them too"),
    ("ftrace", "pmuscope list 'irq:', and pmuscope record -e SYSTEM:NAME"),
    ("kvm", "pmuscope lab run for guests of our own; what other guests do, perf kvm tells"),
    ("lock", "pmuscope record --off-cpu -g, then pmuscope report --by wait"),
    ("mem", "pmuscope record -d -e EVENT, then pmuscope report --by mem"),
    ("probe", "perf probe to make one, then pmuscope record -e probe:NAME"),
    ("sched", "pmuscope record --off-cpu, then pmuscope report --by wait"),
    ("test", "pmuscope doctor"),
    ("timechart", "pmuscope record --off-cpu, then pmuscope report -o x.html"),
    ("trace", "pmuscope record -e 'syscalls:sys_enter_*', then pmuscope script"),
    ("version", "pmuscope --version"),
];

/// Flags of perf that have another name here, or need none.
const FLAGS: [(&str, &str); 20] = [
    ("--sort", "--by, as in --by comm,dso,sym"),
    ("-s", "--by, as in --by comm,dso,sym"),
    ("--fields", "--by, as in --by comm,dso,sym"),
    ("--stdio", "nothing: text is what is printed. A page: -o x.html"),
    ("--stdio2", "nothing: text is what is printed. A page: -o x.html"),
    ("--tui", "pmuscope top, or a page: pmuscope report -o x.html"),
    ("--gtk", "a page: -o x.html"),
    (
        "--no-children",
        "nothing: shares are of the functions themselves. With their callees: --call-tree",
    ),
    ("--children", "--call-tree"),
    ("--call-graph", "--call-tree here; record --call-graph dwarf takes the chains"),
    ("-G", "--call-tree=callers"),
    ("-n", "nothing: numbers of samples are always shown"),
    ("--show-nr-samples", "nothing: numbers of samples are always shown"),
    ("--symbols", "--symbol-filter TEXT, or --annotate FUNCTION"),
    ("--comms", "--comm"),
    ("--dsos", "--dso"),
    ("--header", "nothing: the head is always shown; --json has all of it"),
    ("--all-user", ":u behind each event, as in -e cycles:u"),
    ("--all-kernel", ":k behind each event, as in -e cycles:k"),
    ("--big-num", "nothing: large numbers have separators"),
];

/// Words of `perf bench numa`.
const NUMA: [(&str, &str); 12] = [
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
    ("-q", "nothing: progress is on stderr"),
];

/// Where they are meant: the usage that the error brings names the command.
fn is_of_numa(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::Usage), Some(ContextValue::StyledStr(usage))
        if usage.to_string().contains("bench numa"))
}

/// What to type in place of a word of perf's that clap did not know.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let (table, word): (&[(&str, &str)], &str) = match error.kind() {
        ErrorKind::InvalidSubcommand => (&COMMANDS, word(ContextKind::InvalidSubcommand)?),
        ErrorKind::UnknownArgument if is_of_numa(error) => {
            (&NUMA, word(ContextKind::InvalidArg)?.split(['=', ' ']).next()?)
        }
        ErrorKind::UnknownArgument => {
            (&FLAGS, word(ContextKind::InvalidArg)?.split(['=', ' ']).next()?)
        }
        _ => return None,
    };
    let (_, ours) = table.iter().find(|(theirs, _)| *theirs == word)?;
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
        for args in [&["report", "--sort=comm,dso"][..], &["report", "-s", "sym"]] {
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
        assert_eq!(hint_for(&["script", "-F", "colour"]), None, "a flag of ours, a wrong value");
    }

    /// A name that is ours would never come here.
    #[test]
    fn no_command_of_ours_is_called_perfs() {
        let command = Cli::command();
        let ours: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(COMMANDS.iter().all(|(theirs, _)| !ours.contains(theirs)), "{ours:?}");
    }
}
