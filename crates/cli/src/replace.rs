//! `--force`: which existing files outputs may replace. It holds for the whole command line.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pmuscope_machine::{FileKind, Replace};

use crate::exit::bad_input;

static FORCE: AtomicBool = AtomicBool::new(false);

/// Takes the flag from the command line.
pub(crate) fn force(is_given: bool) {
    FORCE.store(is_given, Ordering::Relaxed);
}

/// What an output of this kind may replace.
pub(crate) fn replace(kind: FileKind) -> Replace {
    if FORCE.load(Ordering::Relaxed) { Replace::Anything } else { Replace::Own(kind) }
}

/// Asks, before anything is measured, whether an output may be written there.
///
/// # Errors
/// If a file is there that must stay.
pub(crate) fn check(path: &Path, kind: FileKind) -> anyhow::Result<()> {
    replace(kind)
        .check(path)
        .map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
}

/// The same for a table with these columns, its first line.
///
/// # Errors
/// If a file is there that must stay.
pub(crate) fn check_table(path: &Path, head: &str) -> anyhow::Result<()> {
    replace(FileKind::Table)
        .check_beginning(path, head)
        .map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::Cli;

    /// A value that may be left out must not be the next word: that may be the command to run.
    #[test]
    fn every_optional_value_needs_an_equals_sign() {
        fn wrong(command: &clap::Command, found: &mut Vec<String>) {
            let is_optional = |arg: &&clap::Arg| {
                let values = arg.get_num_args().unwrap_or_default();
                !arg.is_positional() && values.takes_values() && values.min_values() == 0
            };
            let wrongs = command.get_arguments().filter(is_optional);
            let wrongs = wrongs.filter(|arg| !arg.is_require_equals_set());
            found.extend(wrongs.map(|arg| format!("{} {arg}", command.get_name())));
            command.get_subcommands().for_each(|below| wrong(below, found));
        }
        let (mut command, mut found) = (Cli::command(), Vec::new());
        command.build();
        wrong(&command, &mut found);
        assert_eq!(found, [""; 0]);
    }
}
