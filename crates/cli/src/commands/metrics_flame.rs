//! The flame graph of `pmuscope metrics`, colored by a metric.

use pmuscope_perfdata::reader::{Event, RecordingFile};
use pmuscope_profile::export::{self, Source};
use pmuscope_profile::windows::{By, Windows};
use pmuscope_profile::{Filter, GroupBy, Intervals, Options, TasksBy};
use pmuscope_report::{Flame, FlameLimits, Frame, MetricsView, Tints};

use super::filter::FilterArgs;
use super::load::{LoadRequest, load};
use super::symbols::SymbolArgs;

/// With the call chains of the samples that begin windows, where the recording has some; else functions
/// below their modules.
pub(super) fn flame(
    recording: &RecordingFile,
    windows: &Windows,
    view: &MetricsView<'_>,
    tints: &Tints<'_>,
    (filter, symbols): (&FilterArgs, &SymbolArgs),
    limits: FlameLimits,
) -> anyhow::Result<Flame> {
    let reader = recording.reader()?;
    let leads = |at: usize| windows.leaders.contains(&(at as u32));
    let has_callers =
        |(at, event): (usize, &Event)| leads(at) && (event.has_chains() || event.has_stacks());
    if !reader.events().iter().enumerate().any(has_callers) {
        return Ok(view.flat_flame(tints, limits));
    }
    let filter = filter.filter(recording, reader.events(), reader.metadata())?;
    // The width is that of the tasks that the colors are of.
    let filter = Filter { targets: windows.targets.clone(), ..filter };
    let mut symbolizer = symbols.symbolizer(windows.by == By::Inlined, recording)?;
    let apart = GroupBy { chains: true, tasks: TasksBy::Command, cpus: false };
    let options = Options { intervals: Intervals::None, ..Options::default() };
    let wanted = LoadRequest { apart, options, stacks: true, progress: true };
    let profile = load(reader, recording.path(), filter, &mut symbolizer, wanted)?;
    let source = Source::new(&profile);
    let events: Vec<&export::ExportedEvent> =
        source.events.iter().filter(|event| leads(event.index as usize)).collect();
    let tint = |frame: &Frame<'_>| tints.tint(frame);
    Ok(Flame::painted(&source, &events, limits, Some(&tints.painter(&tint))))
}
