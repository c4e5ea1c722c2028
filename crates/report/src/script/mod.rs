//! Records one by one: as text like perf's, as JSON lines, as CSV, as Parquet, and as they stand in the file.
//!
//! [`ScriptWriter`] lists a recording. One thread reads the records in the order of time and finds the places of
//! their addresses; others make lines of them, a batch of samples at a time:
//!
//! ```text
//!  reader   records ── places, numbered ── batches ── names of new places ──┐
//!  workers                                             batch ── lines ── written in order
//! ```
//! A batch holds what its samples recorded and the numbers of their places and names. The text of a place or name is
//! made once and shared by all lines that show it.

mod batch;
mod cgroups;
mod dump;
mod fields;
mod line_buffer;
mod listing;
mod ordered;
mod pages;
#[cfg(feature = "parquet")]
mod parquet;
mod place_text;
mod record;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod value;

use pmuscope_abi::AttrFlags;
use pmuscope_perfdata::reader::{Details, Endian, Event, Record, Sample, SampleId, Tracepoint};

pub use dump::{dump_entry, dump_event, dump_head};
pub use fields::{Field, Fields};
pub use listing::{NamePlaces, ScriptError, ScriptWriter};
pub use record::{RecordClass, kind_name};

use cgroups::Cgroups;
use line_buffer::LineBuffer;
use place_text::Texts;

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
    /// The same in columns, for data frames and SQL.
    Parquet,
}

/// An address of a sample, and the number of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// As recorded.
    address: u64,
    /// As [`pmuscope_profile::Locator::place`] has it; any number where places are not shown.
    place: u32,
}

/// A sample with all that is shown of it.
#[derive(Debug, Clone, Copy)]
struct SampleView<'a> {
    sample: &'a Sample<'a>,
    /// What follows its call chain in the record, if that is requested and recorded.
    details: Option<&'a Details<'a>>,
    event: &'a Event,
    /// Number of its thread's name.
    comm: u32,
    /// Place of its instruction; `None` where places are not shown, too.
    place: Option<u32>,
    /// Its callers, the instruction itself first; empty if call chains are not shown.
    chain: &'a [Step],
    /// Places of its branches, from and to in turn.
    branches: &'a [Step],
    /// The tracepoint that it is a sample of, and the byte order of its data.
    tracepoint: Option<(&'a Tracepoint, Endian)>,
    /// Wall-clock time, nanoseconds since 1970, where the recording has it.
    unix_ns: Option<u64>,
    cgroups: &'a Cgroups,
    texts: &'a Texts,
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
struct RecordView<'a> {
    record: &'a Record<'a>,
    /// Nanoseconds of the recording's clock.
    time: Option<u64>,
    /// Who it was made by.
    maker: SampleId,
    /// Name of that thread. Foreign text.
    comm: &'a [u8],
    events: &'a [Event],
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

/// What lines of samples are made by: the options, and what follows from them.
#[derive(Debug)]
struct LineFormat {
    options: ScriptOptions,
    /// Names of events as the form shows them.
    events: Vec<String>,
    /// For each field of JSON `,"name":`.
    keys: Vec<String>,
    /// Whether a field needs what follows the call chain.
    needs_details: bool,
}

impl LineFormat {
    fn new(options: ScriptOptions, events: &[Event]) -> Self {
        let widths = events.iter().map(|event| event.name.chars().count());
        let width = widths.max().unwrap_or(0);
        let name = |event: &Event| match options.form {
            Form::Text => format!("{:>width$}: ", crate::escape(&event.name)),
            form => place_text::foreign(form, event.name.as_bytes()),
        };
        let events = events.iter().map(name).collect();
        let key = |field: Field| format!(",\"{}\":", field.name());
        let keys = options.fields.iter().map(key).collect();
        let needs_details = options.fields.iter().any(Field::is_detail);
        Self { options, events, keys, needs_details }
    }

    /// What stands in front of all lines.
    fn head(&self, events: &[Event], file: &str) -> String {
        match self.options.form {
            Form::Json => rows::json_head(events, file),
            Form::Csv => rows::csv_head(&self.options.fields),
            Form::Text | Form::Parquet => String::new(),
        }
    }

    /// Name of a sample's event as the form shows it.
    fn event(&self, view: &SampleView<'_>) -> &str {
        self.events.get(view.sample.event).map(String::as_str).unwrap_or_default()
    }

    /// Appends a sample's lines.
    #[inline]
    fn sample(&self, out: &mut LineBuffer, view: &SampleView<'_>) {
        match self.options.form {
            Form::Text => text::sample(out, view, self),
            Form::Json => rows::json_sample(out, view, self),
            Form::Csv => rows::csv_sample(out, view, self),
            Form::Parquet => {}
        }
    }

    /// Appends another record; a table of samples has no place for it.
    fn record(&self, out: &mut String, view: &RecordView<'_>) {
        match self.options.form {
            Form::Text => record::text(out, view, self.options.nanoseconds),
            Form::Json => record::json(out, view),
            Form::Csv | Form::Parquet => {}
        }
    }
}
