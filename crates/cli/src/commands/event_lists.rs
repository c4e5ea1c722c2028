//! Event lists of vendors, for all commands that take names of events.

use std::path::{Path, PathBuf};

use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_console::say;
use pmuscope_events::MachineCatalog;
use pmuscope_events::lists::{Identity, ListError, Lists, user_lists};
use pmuscope_machine::{Machine, user_cache};

/// Where event lists are looked for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct EventListArgs {
    /// Read event lists from DIR (or a file)
    ///
    /// Instead of the imported ones. PMUSCOPE_EVENTS=DIR does the same.
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
}

/// What the lists of this user have for this CPU.
pub(crate) struct FoundLists {
    pub(crate) path: PathBuf,
    pub(crate) lists: Lists,
}

impl EventListArgs {
    /// The lists; `None` where nobody named any and none were imported.
    pub(crate) fn lists(&self, machine: &Machine) -> anyhow::Result<Option<FoundLists>> {
        let named = self.events.clone().or_else(|| {
            let variable = std::env::var_os("PMUSCOPE_EVENTS").filter(|path| !path.is_empty());
            variable.map(PathBuf::from)
        });
        let Some(path) = named.clone().or_else(user_lists) else { return Ok(None) };
        if named.is_none() && !path.is_dir() {
            return Ok(None);
        }
        let identity = Identity::of(machine);
        let cache = user_cache().map(|cache| cache.join("events"));
        match Lists::load(&path, Some(&identity), cache.as_deref()) {
            Ok(lists) => Ok(Some(FoundLists { path, lists })),
            // All that was imported was removed again.
            Err(ListError::Empty(_)) if named.is_none() => Ok(None),
            Err(error) => Err(bad_input(format!("event lists: {error}"))),
        }
    }
}

/// What this machine has, with the names of this user's event lists.
pub(crate) fn catalog<'m>(
    machine: &'m Machine,
    args: &EventListArgs,
) -> anyhow::Result<MachineCatalog<'m>> {
    let catalog = MachineCatalog::new(machine).map_err(not_possible)?;
    let Some(found) = args.lists(machine)? else { return Ok(catalog) };
    warn(&found.lists);
    Ok(catalog.with_lists(found.lists))
}

fn warn(lists: &Lists) {
    for note in lists.notes() {
        say!("warning: event lists: {}", pmuscope_report::escape(note));
    }
}

/// Where imported lists go.
pub(crate) fn place(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let place = asked.map(Path::to_path_buf).or_else(user_lists);
    place.ok_or_else(|| {
        let why = "there is no place for event lists: neither XDG_DATA_HOME nor HOME is set. \
                   Try: --to DIR, and PMUSCOPE_EVENTS=DIR for the other commands";
        bad_input(why)
    })
}
