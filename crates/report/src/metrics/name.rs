//! What a row of metrics is of: its name for people, its parts for programs.

use pmuscope_profile::metrics::diff::RowName;
use pmuscope_profile::windows::{By, RowKey, Windows};

use crate::escape;
use crate::sheet::{Field, NAME, SheetForm};

/// What a row is of. Foreign text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    /// As programs see it: the whole path, where it is known.
    path: Option<&'a str>,
    /// Last part of its path.
    pub(super) module: Option<&'a str>,
    pub(super) function: Option<&'a str>,
    inlined_into: Option<&'a str>,
    line: Option<(&'a str, Option<u32>)>,
    mode: Option<&'a str>,
}

impl<'a> Named<'a> {
    pub(super) fn of_key(windows: &'a Windows, key: &'a RowKey) -> Self {
        let module = key.module.and_then(|at| windows.modules.get(at as usize));
        Self {
            path: module.map(|module| &*module.path),
            module: module.map(|module| module.short_name()),
            function: key.function.as_deref(),
            inlined_into: key.inlined_into.as_deref(),
            line: key.line.as_ref().map(|(file, number)| (&**file, *number)),
            mode: key.mode,
        }
    }

    pub(super) fn of_name(name: &'a RowName) -> Self {
        Self {
            path: name.module.as_deref(),
            module: name.module.as_deref(),
            function: name.function.as_deref(),
            inlined_into: name.inlined_into.as_deref(),
            line: name.line.as_ref().map(|(file, number)| (&**file, *number)),
            mode: name.mode,
        }
    }

    /// Its name, escaped.
    pub(super) fn text(&self, by: By) -> String {
        let module = self.module.unwrap_or("-");
        let unknown = || match module.starts_with('[') {
            true => module.to_owned(),
            false => format!("[unknown] in {module}"),
        };
        let function = || self.function.map_or_else(unknown, str::to_owned);
        let text = match (by, self.line, self.inlined_into) {
            (By::Module, ..) => module.to_owned(),
            (By::Mode, ..) => self.mode.unwrap_or("-").to_owned(),
            (By::Line, Some((file, number)), _) => {
                let file = file.rsplit('/').next().unwrap_or(file);
                format!("{} {}", line_text(file, number), function())
            }
            (By::Function | By::Inlined, _, Some(outer)) => {
                format!("{} (inlined into {outer})", function())
            }
            _ => function(),
        };
        escape(&text).into_owned()
    }
}

fn line_text(file: &str, number: Option<u32>) -> String {
    format!("{file}:{}", number.map_or("?".into(), |number| number.to_string()))
}

/// The head of that column for people.
fn by_head(by: By) -> &'static str {
    if by == By::Module { "DSO" } else { by_word(by) }
}

/// What rows are of, as the name of their column for programs.
pub(super) fn by_word(by: By) -> &'static str {
    match by {
        By::Function => "function",
        By::Inlined => "inlined function",
        By::Line => "line",
        By::Module => "module",
        By::Mode => "mode",
    }
}

/// For programs: the name in CSV, its parts in JSON.
pub(super) fn program_fields<'a, R: 'a>(
    by: By,
    of: impl Fn(&'a R) -> Option<Named<'a>> + Copy + 'a,
) -> Vec<Field<'a, R>> {
    let line = move |row| of(row)?.line.map(|(file, number)| line_text(file, number));
    vec![
        Field::text(by_word(by), move |row| Some(of(row)?.text(by)))
            .only_in(&[SheetForm::Delimited]),
        Field::text("module", move |row| of(row)?.module).only_in(&[SheetForm::Delimited]),
        Field::text("function", move |row| of(row)?.function).only_in(&[SheetForm::Json]),
        Field::text("module", move |row| of(row)?.path).only_in(&[SheetForm::Json]),
        Field::text("inlined_into", move |row| of(row)?.inlined_into).only_in(&[SheetForm::Json]),
        Field::text("line", line).only_in(&[SheetForm::Json]),
        Field::text("mode", move |row| of(row)?.mode).only_in(&[SheetForm::Json]),
    ]
}

/// For people: the name.
pub(super) fn name_field<'a, R: 'a>(
    by: By,
    of: impl Fn(&'a R) -> Option<Named<'a>> + 'a,
) -> Field<'a, R> {
    Field::text(by_word(by), move |row| Some(of(row)?.text(by)))
        .head(by_head(by))
        .names_rows()
        .wanted(NAME)
        .for_people()
}

/// For people: the module, where it says more than the rows do.
pub(super) fn module_field<'a, R: 'a>(
    by: By,
    of: impl Fn(&'a R) -> Option<Named<'a>> + 'a,
) -> Option<Field<'a, R>> {
    let says_more = matches!(by, By::Function | By::Inlined | By::Line);
    let module = move |row| of(row)?.module;
    says_more.then(|| Field::text("module", module).head("DSO").wanted(12).optional(2))
}
