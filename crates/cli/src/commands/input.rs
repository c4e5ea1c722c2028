//! Which recording a command reads.

use std::path::{Path, PathBuf};

use pmuscope_console::exit::bad_input;

/// What is read where no file is named: our own recording, else perf's.
const DEFAULTS: [&str; 2] = ["pmuscope.data", "perf.data"];

/// A recording, named with or without a flag.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Read this recording [default: pmuscope.data, else perf.data]
    ///
    /// By pmuscope or perf, of any version. - reads a stream from standard input.
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Recording to read, as with -i
    #[arg(value_name = "FILE", conflicts_with = "input")]
    file: Option<PathBuf>,
}

impl InputArgs {
    /// Whether one was named.
    pub(crate) fn is_named(&self) -> bool {
        self.input.is_some() || self.file.is_some()
    }

    /// The one that was named, else the first of the default files that is there; the head of what is
    /// printed says which.
    ///
    /// # Errors
    /// If none was named and none of them is there.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let named = self.input.as_ref().or(self.file.as_ref()).cloned();
        let default = || DEFAULTS.iter().map(PathBuf::from).find(|path| path.exists());
        let path = named.or_else(default).ok_or_else(|| {
            bad_input("no recording here: there is neither pmuscope.data nor perf.data. Try: pmuscope record \
                 -- CMD, or pmuscope report FILE",
            )
        })?;
        is_not_empty(&path).map(|()| path)
    }
}

/// An empty file has nothing that could be wrong with it.
///
/// # Errors
/// If it is one.
pub(crate) fn is_not_empty(path: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == 0 => {
            let name = path.display();
            Err(bad_input(format!("{name} is empty. Try: pmuscope record -o {name} -- CMD")))
        }
        // What else is wrong, opening it says.
        _ => Ok(()),
    }
}
