//! A finished result, in every form that it has.

use serde::Serialize;

use crate::Style;
use crate::sheet::Separator;

/// What a command found. Whoever prints it chooses the form.
pub trait Report {
    /// Whether the result is about this machine: its JSON then says what the machine is.
    const IS_OF_THIS_MACHINE: bool = false;

    /// Kind and version of [`Report::json`], for its envelope: `pmuscope/<kind>/<version>`.
    fn schema(&self) -> &'static str;

    /// For people at a terminal.
    fn text(&self, style: &Style) -> String;

    /// For programs: fields of an object, which an [`Envelope`](crate::Envelope) goes around.
    fn json(&self) -> impl Serialize;

    /// One table for spreadsheets and scripts; `None` where the result is not one table.
    fn delimited(&self, _separator: Separator) -> Option<String> {
        None
    }

    /// One page that needs no network; `commit` is what the program was built from. `None` where there is none.
    fn page(&self, _commit: &str) -> Option<String> {
        None
    }
}
