//! Where a result is written.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pmuscope_machine::{AtomicFile, FileKind, text_mark};
use pmuscope_report::{escape_lines, number};

use crate::exit::bad_input;
use crate::replace;

/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;
/// Reports are made to be shown: for all whom the umask lets.
const MODE: u32 = 0o666;

/// Where a report goes: standard output, or a file that appears only once it is whole.
#[derive(Debug)]
pub struct Output {
    path: Option<PathBuf>,
}

impl Output {
    /// To this file; to standard output where there is none, or it is `-`.
    pub fn to(path: Option<&Path>) -> Self {
        Self { path: path.filter(|path| !is_stdout(path)).map(Path::to_owned) }
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.path.is_some()
    }

    /// Asks, before anything is measured, whether a file of this kind can be written.
    ///
    /// # Errors
    /// If the folder cannot be written to, or a file of another kind is there.
    pub fn check(&self, kind: FileKind) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let tried = AtomicFile::create(path, MODE, replace::replace(kind)).map(drop);
        tried.map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
    }

    /// Writes a text of this kind.
    ///
    /// # Errors
    /// If the file cannot be made or written; what there was under its name stays.
    pub fn print(&self, kind: FileKind, text: &str) -> anyhow::Result<()> {
        self.write(kind, |out| out.write_all(text.as_bytes()))
    }

    /// Writes what `write` gives.
    ///
    /// # Errors
    /// If the file cannot be made or written; what there was under its name stays.
    pub fn write(
        &self,
        kind: FileKind,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        self.produce(kind, |out| write(out).map_err(|error| self.cannot(error)))
    }

    /// As [`Output::write`], for what can fail in other ways too.
    ///
    /// # Errors
    /// Those of `produce`, and if the file cannot be made or written.
    pub fn produce(
        &self,
        kind: FileKind,
        produce: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            let stdout = io::stdout();
            let is_binary = matches!(kind, FileKind::Compressed | FileKind::Parquet);
            if is_binary && rustix::termios::isatty(&stdout) {
                return Err(bad_input("this format is not for terminals. Try: -o FILE, or a pipe"));
            }
            let mut out = BufWriter::with_capacity(BUFFER, stdout);
            produce(&mut out)?;
            return out.flush().map_err(|error| self.cannot(error));
        };
        let file = AtomicFile::create(path, MODE, replace::replace(kind))
            .map_err(|error| self.cannot(error))?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        if kind == FileKind::Text {
            out.write_all(text_mark().as_bytes()).map_err(|error| self.cannot(error))?;
        }
        produce(&mut out)?;
        out.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(AtomicFile::finish)
            .map_err(|error| self.cannot(error))?;
        wrote(path);
        Ok(())
    }

    fn cannot(&self, error: io::Error) -> anyhow::Error {
        let error = anyhow::Error::new(error);
        match &self.path {
            Some(path) => error.context(format!("cannot write {}", path.display())),
            None => error.context("cannot write to standard output"),
        }
    }
}

/// Says that a file was written, and how large it is.
pub fn wrote(path: &Path) {
    wrote_with(path, "");
}

/// The same, with more about it.
pub fn wrote_with(path: &Path, more: &str) {
    // A pipe or a device has no size.
    if let Ok(found) = std::fs::metadata(path)
        && found.is_file()
    {
        let name = path.to_string_lossy();
        say!("wrote {} ({}){more}", escape_lines(&name), number::bytes(found.len()));
    }
}

pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
