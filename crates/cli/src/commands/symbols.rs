//! Flags of all commands that name functions.

use std::path::{Path, PathBuf};

use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_console::say;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_symbols::{
    Bundle, BundleError, Options, Sources, Symbolizer, debuginfod_available, user_cache,
};

/// Where symbols may come from.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Symbols")]
pub(crate) struct SymbolArgs {
    /// Look for binaries below DIR first
    ///
    /// As in the root of a container or of another machine.
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Fetch missing symbols from the servers in DEBUGINFOD_URLS
    #[arg(long)]
    debuginfod: bool,
    /// Neither use nor keep the symbol cache
    ///
    /// PMUSCOPE_CACHE=DIR puts it elsewhere.
    #[arg(long)]
    no_symbol_cache: bool,
    /// Show parameters of C++ functions; separate overloads
    #[arg(long)]
    signatures: bool,
}

impl SymbolArgs {
    /// The flags, for a command that reads the same symbols.
    #[cfg(feature = "screen")]
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(folder) = &self.symfs {
            flags.extend(["--symfs".to_owned(), folder.display().to_string()]);
        }
        let switches = [
            (self.debuginfod, "--debuginfod"),
            (self.no_symbol_cache, "--no-symbol-cache"),
            (self.signatures, "--signatures"),
        ];
        flags.extend(switches.iter().filter(|(is, _)| *is).map(|(_, flag)| (*flag).to_owned()));
        flags
    }

    /// A symbolizer for a recording: if it is a bundle, its own symbols come first.
    pub(crate) fn symbolizer(
        &self,
        inlined: bool,
        recording: &RecordingFile,
    ) -> anyhow::Result<Symbolizer> {
        let sources = self.sources()?;
        let mut symbolizer =
            self.with_names(Symbolizer::with_sources(Options { inlined }, sources));
        let bundle = recording.file().map_or(Ok(None), Bundle::of_file);
        match bundle {
            Ok(Some(bundle)) => symbolizer.use_bundle(bundle),
            // Whoever reads the recording says why it cannot.
            Ok(None) | Err(BundleError::Io(_)) => {}
            Err(error) => {
                let path = recording.path().display();
                say!("warning: {path}: {error}. Symbols are looked for on this machine.");
            }
        }
        Ok(symbolizer)
    }

    /// Opens the recording at `path`. A wrong flag is reported before a file that is not there.
    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<RecordingFile> {
        self.sources()?;
        Ok(RecordingFile::open(path)?)
    }

    /// A symbolizer for what runs now: functions only.
    pub(crate) fn of_running(&self) -> anyhow::Result<Symbolizer> {
        let symbolizer = Symbolizer::with_sources(Options { inlined: false }, self.sources()?);
        Ok(self.with_names(symbolizer))
    }

    fn with_names(&self, mut symbolizer: Symbolizer) -> Symbolizer {
        if self.signatures {
            symbolizer.show_signatures();
        }
        symbolizer
    }

    fn sources(&self) -> anyhow::Result<Sources> {
        if let Some(folder) = self.symfs.as_ref().filter(|folder| !folder.is_dir()) {
            let folder = folder.display();
            return Err(bad_input(format!("--symfs {folder}: there is no such folder")));
        }
        if self.debuginfod {
            debuginfod_available().map_err(|why| not_possible(format!("--debuginfod: {why}")))?;
        }
        Ok(Sources {
            symfs: self.symfs.clone(),
            cache: user_cache().filter(|_| !self.no_symbol_cache),
            debuginfod: self.debuginfod,
            ..Sources::default()
        })
    }
}
