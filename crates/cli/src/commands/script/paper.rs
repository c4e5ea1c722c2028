//! What samples and records are written on: lines of text, or columns.

use std::io::{self, Write};

use pmuscope_profile::ModuleOffset;
use pmuscope_report::script::{Names, Printer, RecordView, SampleView};

/// Where a listing goes.
pub(super) trait Paper {
    fn sample(&mut self, view: &SampleView<'_>);
    fn record(&mut self, view: &RecordView<'_>);

    /// Places whose names [`Paper::write`] wants, with repetitions.
    fn spots(&self) -> Box<dyn Iterator<Item = ModuleOffset> + '_>;

    /// Bytes that wait for names, about.
    fn waiting(&self) -> usize;

    /// Writes what waits.
    fn write(&mut self, names: &Names) -> io::Result<()>;
}

/// A line, or several, for each.
pub(super) struct Lines<'a> {
    pub(super) printer: Printer,
    pub(super) out: &'a mut (dyn Write + Send),
}

impl Paper for Lines<'_> {
    fn sample(&mut self, view: &SampleView<'_>) {
        self.printer.sample(view);
    }

    fn record(&mut self, view: &RecordView<'_>) {
        self.printer.record(view);
    }

    fn spots(&self) -> Box<dyn Iterator<Item = ModuleOffset> + '_> {
        Box::new(self.printer.spots())
    }

    fn waiting(&self) -> usize {
        self.printer.waiting()
    }

    fn write(&mut self, names: &Names) -> io::Result<()> {
        self.printer.write(names, &mut *self.out)
    }
}

/// Samples only: a table has no place for other records.
#[cfg(feature = "parquet")]
impl Paper for pmuscope_report::script::ParquetWriter<'_> {
    fn sample(&mut self, view: &SampleView<'_>) {
        Self::sample(self, view);
    }

    fn record(&mut self, _: &RecordView<'_>) {}

    fn spots(&self) -> Box<dyn Iterator<Item = ModuleOffset> + '_> {
        Box::new(Self::spots(self))
    }

    fn waiting(&self) -> usize {
        Self::waiting(self)
    }

    fn write(&mut self, names: &Names) -> io::Result<()> {
        Self::write(self, names)
    }
}
