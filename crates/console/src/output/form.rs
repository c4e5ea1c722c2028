//! A result in the form that was asked for.

use std::path::Path;

use clap::ValueEnum;
use pmuscope_machine::Facts;
use pmuscope_report::{Report, Separator, Style};
use serde::Serialize;

use super::file::Output;
use super::format::Format;
use crate::exit::{Exit, bad_input};
use crate::invocation::Invocation;
use crate::limit::Limit;
use crate::{program, terminal};

/// How a result is written, and where.
#[derive(Debug)]
pub struct Form {
    /// When the command began.
    pub invocation: Invocation,
    /// The format.
    pub format: Format,
    /// Where it goes.
    pub output: Output,
    /// How text is set there.
    pub style: Style,
}

impl Form {
    /// In this format, to the file or to standard output.
    pub fn new(format: Format, file: Option<&Path>) -> Self {
        let output = Output::to(file);
        let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
        Self { invocation: Invocation::now(), format, output, style }
    }

    /// Asks, before anything is measured, whether the file can be written.
    ///
    /// # Errors
    /// As [`Output::check`].
    pub fn check(&self) -> anyhow::Result<()> {
        self.output.check(self.format.kind())
    }

    /// Rows to show, where text has fewer than other formats unless the user says how many.
    pub fn rows(&self, limit: Option<Limit>, of_text: usize) -> Option<usize> {
        Limit::rows(limit, (self.format == Format::Text).then_some(of_text))
    }

    /// Writes a result, of a command that ends with this status.
    ///
    /// # Errors
    /// It has no such form, or cannot be written.
    pub fn show(&self, report: &impl Report, exit: &Exit) -> anyhow::Result<()> {
        self.print(&self.rendered(report, exit)?)
    }

    /// Writes a result that has text and JSON, of this schema; `machine` where it is about this one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn either(
        &self,
        (schema, machine): (&'static str, Option<&Facts>),
        exit: &Exit,
        result: impl Serialize,
        text: impl FnOnce(&Style) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Json => self.invocation.json(schema, machine, exit, result)?,
            _ => text(&self.style),
        };
        self.print(&text)
    }

    /// Writes what was rendered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        self.output.print(self.format.kind(), text)
    }

    fn rendered<R: Report>(&self, report: &R, exit: &Exit) -> anyhow::Result<String> {
        let rendered = match self.format {
            Format::Text => Some(report.text(&self.style)),
            Format::Json => {
                let machine = R::IS_OF_THIS_MACHINE.then(program::facts).transpose()?.flatten();
                Some(self.invocation.json(
                    report.schema(),
                    machine.as_ref(),
                    exit,
                    report.json(),
                )?)
            }
            Format::Csv => report.delimited(Separator::Comma),
            Format::Tsv => report.delimited(Separator::Tab),
            Format::Html => report.page(program::commit()),
            _ => None,
        };
        rendered.ok_or_else(|| {
            let format = self.format.to_possible_value();
            let name = format.as_ref().map_or("", |format| format.get_name());
            bad_input(format!("this result has no {name}. Try: --format json"))
        })
    }
}
