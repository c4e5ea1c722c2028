//! Files of a command that writes several results at once.

use std::path::{Path, PathBuf};

use pmuscope_report::Separator;

use super::format::Format;
use crate::exit::bad_input;

/// Files of a command that writes several results at once.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// JSON is printed instead of text.
    pub printed: bool,
    /// Where JSON is kept.
    pub json: Option<PathBuf>,
    /// Tables for spreadsheets and scripts, with their file where they are not printed.
    pub tables: Vec<(Separator, Option<PathBuf>)>,
    /// The page.
    pub html: Option<PathBuf>,
    /// The picture.
    pub svg: Option<PathBuf>,
    /// Where what would be printed goes.
    pub text: Option<PathBuf>,
    /// What `-o` names that is not a result.
    pub other: Option<PathBuf>,
}

impl Results {
    /// # Errors
    /// If the form has a file already.
    pub(super) fn add(&mut self, format: Format, file: &Path) -> anyhow::Result<()> {
        let before = match format {
            Format::Json => self.json.replace(file.to_owned()),
            Format::Html => self.html.replace(file.to_owned()),
            Format::Svg => self.svg.replace(file.to_owned()),
            Format::Csv => self.add_table(Separator::Comma, file),
            Format::Tsv => self.add_table(Separator::Tab, file),
            _ => self.text.replace(file.to_owned()),
        };
        let Some(before) = before else { return Ok(()) };
        let (one, two) = (before.display(), file.display());
        Err(bad_input(format!("{one} and {two} are two files of one form. Try: one of them")))
    }
}

impl Results {
    /// The file that such a table had before.
    fn add_table(&mut self, separator: Separator, file: &Path) -> Option<PathBuf> {
        let known = self.tables.iter().position(|(one, _)| *one == separator);
        let before = known.map(|at| self.tables.swap_remove(at)).and_then(|(_, file)| file);
        self.tables.push((separator, Some(file.to_owned())));
        before
    }

    /// What separates the fields of the table that is printed instead of text.
    pub fn printed_table(&self) -> Option<Separator> {
        let printed = self.tables.iter().find(|(_, file)| file.is_none());
        printed.map(|(separator, _)| *separator)
    }
}
