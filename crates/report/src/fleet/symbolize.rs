//! What became of frames that had no names: which modules got some, where from, and why others got none.

use pmuscope_profile::SymbolState;
use serde::Serialize;

use crate::number::{count, counted};
use crate::recording::causes::SymbolAdvice;
use crate::recording::push_wrapped;
use crate::report::Report;
use crate::sheet::{Field, Separator, Sheet};
use crate::{Paint, Style, escape};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-symbolize/1";
/// Reasons that a text shows at most, one per module.
const REASONS: usize = 10;

/// A module with frames that had no names.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolizedModule {
    /// Build id, hexadecimal. Foreign text.
    pub build_id: String,
    /// Path where it ran. Foreign text.
    pub module: String,
    /// Distinct addresses without a name before.
    pub addresses: u64,
    /// Those of them that have one now.
    pub named: u64,
    /// Whether symbols could be had.
    pub state: SymbolState,
    /// The file with the symbols. Foreign text.
    pub file: Option<String>,
}

impl SymbolizedModule {
    /// Whether a file is there for it that cannot be used as it is.
    #[must_use]
    pub fn has_unusable_file(&self) -> bool {
        matches!(self.state, SymbolState::Unreadable(_) | SymbolState::NotAllowed)
    }

    /// Why there are no names, beyond what two words say. Foreign text.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        Some(match &self.state {
            SymbolState::Unreadable(why) => why.clone(),
            SymbolState::DebugFileDiffers(path) => {
                format!("{} is of another build and was not used", path.display())
            }
            SymbolState::BuildIdDiffers { file, .. } => {
                let file = file.as_ref().map_or("none".into(), ToString::to_string);
                format!("the file of this path here has build ID {file} and was not used")
            }
            _ => return None,
        })
    }
}

/// Modules with frames that had no names.
#[derive(Debug)]
pub struct SymbolizeView<'a> {
    /// The dataset. Foreign text.
    pub dataset: &'a str,
    /// Nothing was written.
    pub dry_run: bool,
    /// Files that were written.
    pub files: u64,
    /// Rows, those with most addresses first.
    pub rows: &'a [SymbolizedModule],
    /// Rows to show at most.
    pub limit: Option<usize>,
}

#[derive(Serialize)]
struct SymbolizeJson<'a> {
    dataset: &'a str,
    dry_run: bool,
    files: u64,
    addresses: u64,
    named: u64,
    rows: Sheet<'a>,
}

impl SymbolizeView<'_> {
    fn shown(&self) -> &[SymbolizedModule] {
        &self.rows[..self.limit.map_or(self.rows.len(), |limit| limit.min(self.rows.len()))]
    }

    fn sheet(&self) -> Sheet<'_> {
        type Row = SymbolizedModule;
        let is_bad = |row: &Row| if row.has_unusable_file() { Paint::Warn } else { Paint::Plain };
        let short = |row: &Row| row.build_id.chars().take(12).collect::<String>();
        let fields = vec![
            Field::count("addresses", |row: &Row| row.addresses),
            Field::count("named", |row: &Row| row.named),
            Field::text("build_id", |row: &Row| Some(&*row.build_id))
                .head("build id")
                .shown_as(move |row| short(row).into())
                .rigid(),
            Field::text("symbols", |row: &Row| Some(SymbolAdvice::of_file(&row.state).words))
                .for_people()
                .painted(is_bad)
                .rigid(),
            Field::text("state", |row: &Row| Some(SymbolAdvice::of_file(&row.state).key))
                .for_programs(),
            Field::text("file", |row: &Row| row.file.as_deref()).head("from").wanted(24),
            Field::text("reason", SymbolizedModule::reason).for_programs(),
            Field::text("module", |row: &Row| Some(&*row.module)).head("DSO").wanted(24),
        ];
        Sheet::new(fields, self.shown(), self.rows.len()).by_another_order()
    }

    fn sums(&self) -> (u64, u64) {
        let sum = |of: fn(&SymbolizedModule) -> u64| self.rows.iter().map(of).sum();
        (sum(|row| row.addresses), sum(|row| row.named))
    }
}

impl Report for SymbolizeView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let (addresses, named) = self.sums();
        let mut out = String::new();
        if self.rows.is_empty() {
            let none = "nothing to name: all functions in files with a build ID have names";
            push_wrapped(&mut out, none, style);
            return out;
        }
        let would = if self.dry_run { "can be named" } else { "named" };
        let files = if self.dry_run {
            "nothing written".to_owned()
        } else {
            format!("{} written", counted(self.files, "file"))
        };
        let modules = counted(self.rows.len() as u64, "module");
        let (all, of) = (counted(addresses, "address"), count(named));
        let head = format!("{all} without a name in {modules}: {of} {would}, {files}");
        push_wrapped(&mut out, &head, style);
        out.push('\n');
        out.push_str(&self.sheet().text(style));
        let reasons = self.rows.iter().filter_map(|row| Some((row, row.reason()?)));
        for (at, (row, reason)) in reasons.take(REASONS).enumerate() {
            if at == 0 {
                out.push('\n');
            }
            push_wrapped(&mut out, &format!("{}: {}", escape(&row.module), escape(&reason)), style);
        }
        out
    }

    fn json(&self) -> impl Serialize {
        let (addresses, named) = self.sums();
        let Self { dataset, dry_run, files, .. } = *self;
        SymbolizeJson { dataset, dry_run, files, addresses, named, rows: self.sheet() }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet().delimited(separator))
    }
}
