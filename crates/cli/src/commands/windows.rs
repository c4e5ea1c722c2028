//! Flags of commands that read windows: `metrics`, and `diff` with `--metrics`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::bad_input;
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_perfdata::reader::{FileState, RecordingFile};
use pmuscope_profile::windows::{Attribution, By, Options, Windows, WindowsError};
use pmuscope_profile::{Names, available_threads};
use pmuscope_report::{escape, other_data_text};
use pmuscope_symbols::{Request, Resolved, Symbolizer};

use super::choice::one_of;
use super::filter::FilterArgs;
use super::symbols::SymbolArgs;

/// How windows become rows.
#[derive(Debug, clap::Args)]
pub(super) struct WindowArgs {
    /// Read metrics of your own from FILE; repeatable
    ///
    /// --list explains the syntax.
    #[arg(long, value_name = "FILE")]
    formulas: Vec<PathBuf>,
    /// Group rows by function, line and others
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = one_of(ROWS))]
    by: By,
    /// Set which function a window across two counts for
    ///
    /// "none": the second; "discard": neither; "auto" discards where windows are short.
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(ATTRIBUTIONS))]
    attribution: Attribution,
    /// Keep windows up to N units off in length
    ///
    /// [default: half a window]
    #[arg(long, value_name = "N")]
    length_tolerance: Option<u64>,
    /// Subtract N units of the event from each window
    ///
    /// The cost of the interrupt that opens it, as measured on an empty function.
    #[arg(long, value_name = "N", default_value_t = 0)]
    interrupt_cost: u64,
}

/// Values of `--by`.
const ROWS: [(&str, &str, By); 5] = [
    ("function", "Functions", By::Function),
    ("inlined", "Inlined functions, separate from their callers", By::Inlined),
    ("line", "Source lines", By::Line),
    ("module", "DSOs (binaries and shared libraries)", By::Module),
    ("mode", "Kernel and user", By::Mode),
];

/// Values of `--attribution`.
const ATTRIBUTIONS: [(&str, &str, Attribution); 3] = [
    ("none", "", Attribution::None),
    ("discard", "", Attribution::Discard),
    ("auto", "", Attribution::Auto),
];

impl WindowArgs {
    /// What rows are of.
    pub(super) fn by(&self) -> By {
        self.by
    }

    /// Whether any of these flags says something else than it would if it were not there.
    pub(super) fn is_asked(&self) -> bool {
        let Self { formulas, by, attribution, length_tolerance, interrupt_cost } = self;
        !formulas.is_empty()
            || *by != By::Function
            || *attribution != Attribution::Auto
            || length_tolerance.is_some()
            || *interrupt_cost > 0
    }

    /// The metrics there are, the user's own among them.
    pub(super) fn metrics(&self) -> anyhow::Result<Metrics> {
        let mut metrics = Metrics::builtin();
        for path in &self.formulas {
            let refused = |why: String| bad_input(format!("--formulas {}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
            metrics.add(&text).map_err(|error| refused(error.to_string()))?;
        }
        Ok(metrics)
    }

    /// Windows of a recording.
    pub(super) fn read(
        &self,
        recording: &RecordingFile,
        metrics: &Metrics,
        filter: &FilterArgs,
        symbols: &SymbolArgs,
    ) -> anyhow::Result<Windows> {
        let lines = matches!(self.by, By::Inlined | By::Line);
        let mut symbolizer = symbols.symbolizer(lines, recording)?;
        let running = symbolizer.running_kernel();
        let filter = {
            let reader = recording.reader()?;
            filter.filter(recording, reader.events(), reader.metadata())?
        };
        let options = Options {
            by: self.by,
            attribution: self.attribution,
            length_tolerance: self.length_tolerance,
            interrupt_cost: self.interrupt_cost,
            filter,
            threads: available_threads(),
            ..Options::default()
        };
        let names = &mut WithDumps(&mut symbolizer);
        let read = Windows::read(recording, &options, metrics, &running, names);
        let windows = read.map_err(|error| match error {
            WindowsError::Read(error) => error.into(),
            WindowsError::NoSamples { path, holds } => {
                bad_input(other_data_text(holds, &path.to_string_lossy()))
            }
            other => bad_input(other),
        })?;
        if windows.total.windows() == 0 {
            let message = format!("{}: no sample ends a window", recording.path().display());
            return Err(bad_input(message)).context("no metrics");
        }
        Ok(windows)
    }
}

/// Names of code that runtimes made come from what they left beside.
pub(super) struct WithDumps<'a>(pub(super) &'a mut Symbolizer);

impl Names for WithDumps<'_> {
    fn jit_dump(&mut self, pid: i32, path: &Path) {
        self.0.add_jit_dump(pid, path.to_owned());
    }

    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        self.0.resolve_all(requests)
    }
}

/// Metrics with these names, or of these groups.
pub(super) fn chosen<'a>(
    metrics: &'a Metrics,
    names: &[String],
) -> anyhow::Result<Vec<&'a Metric>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    metrics.chosen(&names).map_err(|name| {
        let message = format!(
            "there is no metric or group \"{}\"; groups are {}, and pmuscope metrics \
             --list shows all",
            escape(name),
            escape(&metrics.groups().join(", "))
        );
        bad_input(message)
    })
}

/// Whether all that was recorded is in the windows.
pub(super) fn is_whole(windows: &Windows) -> bool {
    windows.state == FileState::Closed && windows.tally.stopped.is_none()
}
