//! Records one by one: as text like perf's, as JSON lines, as CSV, and as they stand in the file.
//!
//! A [`Printer`] takes samples and records in the order of time; [`Printer::write`] prints what has
//! come, once names are known for [`Printer::spots`].

mod draft;
mod dump;
mod fields;
#[cfg(feature = "parquet")]
mod parquet;
mod record;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod value;

use std::io;

use pmuscope_abi::AttrFlags;
use pmuscope_perfdata::reader::{Details, Endian, Event, Record, Sample, SampleId, Tracepoint};
use pmuscope_profile::{AddressSpaces, ModuleOffset};

pub use draft::Names;
pub use dump::{dump_entry, dump_event, dump_head};
pub use fields::{Field, Fields};
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;
pub use record::{RecordClass, kind_name};

use draft::Draft;

/// Schema of the lines of `pmuscope script --json`; stands in the first of them.
pub const SCRIPT_SCHEMA: &str = "pmuscope/script/1";

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people, like perf script.
    Text,
    /// An object per line.
    Json,
    /// A table of samples.
    Csv,
}

/// An address of a sample and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// As recorded.
    pub address: u64,
    /// Where its code is looked for.
    pub spot: ModuleOffset,
}

/// A sample with all that is shown of it.
#[derive(Debug, Clone, Copy)]
pub struct SampleView<'a> {
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// What stands behind its call chain, if that is asked for and there.
    pub details: Option<&'a Details<'a>>,
    /// Its event.
    pub event: &'a Event,
    /// Name of its thread. Foreign text.
    pub comm: &'a [u8],
    /// Where its instruction lies.
    pub place: Option<Step>,
    /// Its callers, the instruction itself first; empty if call chains are not shown.
    pub chain: &'a [Step],
    /// Its branches, from and to.
    pub branches: &'a [(Step, Step)],
    /// Where modules are told.
    pub present: &'a AddressSpaces,
    /// The tracepoint that it is a sample of, and the byte order of its data.
    pub tracepoint: Option<(&'a Tracepoint, Endian)>,
}

impl SampleView<'_> {
    /// What the tracepoint says in this sample.
    fn trace(&self) -> Option<String> {
        let (tracepoint, endian) = self.tracepoint?;
        Some(trace::line(tracepoint, self.details?.raw?, endian))
    }

    /// Units of the event that the sample stands for, if that is known.
    fn period(&self) -> Option<u64> {
        let attr = &self.event.attr;
        let fixed = (!attr.flags.contains(AttrFlags::FREQ)).then_some(attr.sample);
        self.sample.period.or(fixed)
    }
}

/// A record other than a sample.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// Nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Who it was made by.
    pub maker: SampleId,
    /// Name of that thread. Foreign text.
    pub comm: &'a [u8],
    /// The events of the recording.
    pub events: &'a [Event],
}

/// What is the same for all lines.
#[derive(Debug, Clone)]
pub struct ScriptOptions {
    /// How records are printed.
    pub form: Form,
    /// What is shown of samples.
    pub fields: Fields,
    /// Time stamps with nine digits behind the point instead of six.
    pub nanoseconds: bool,
}

/// Prints records.
#[derive(Debug)]
pub struct Printer {
    options: ScriptOptions,
    /// Characters of the longest name of an event.
    name_width: usize,
    draft: Draft,
}

impl Printer {
    /// Nothing printed yet, but what stands in front.
    #[must_use]
    pub fn new(options: ScriptOptions, events: &[Event], file: &str) -> Self {
        let widths = events.iter().map(|event| event.name.chars().count());
        let name_width = widths.max().unwrap_or(0);
        let mut printer = Self { options, name_width, draft: Draft::default() };
        match printer.options.form {
            Form::Text => {}
            Form::Json => rows::json_head(&mut printer.draft, events, file),
            Form::Csv => rows::csv_head(&mut printer.draft, &printer.options.fields),
        }
        printer
    }

    /// Prints a sample.
    pub fn sample(&mut self, view: &SampleView<'_>) {
        match self.options.form {
            Form::Text => text::sample(&mut self.draft, view, &self.options, self.name_width),
            Form::Json => rows::json_sample(&mut self.draft, view, &self.options.fields),
            Form::Csv => rows::csv_sample(&mut self.draft, view, &self.options.fields),
        }
    }

    /// Prints another record; a table of samples has no place for it.
    pub fn record(&mut self, view: &RecordView<'_>) {
        match self.options.form {
            Form::Text => record::text(&mut self.draft.text, view, self.options.nanoseconds),
            Form::Json => record::json(&mut self.draft.text, view),
            Form::Csv => {}
        }
    }

    /// Places whose names [`Printer::write`] wants, with repetitions.
    pub fn spots(&self) -> impl Iterator<Item = ModuleOffset> + '_ {
        self.draft.spots()
    }

    /// Bytes of memory that wait to be written, about.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.draft.text.len() + self.draft.spots_len() * size_of::<(usize, ModuleOffset)>()
    }

    /// Writes what was printed.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&mut self, names: &Names, out: &mut dyn io::Write) -> io::Result<()> {
        self.draft.write(names, out)
    }
}
