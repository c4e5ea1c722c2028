//! Reading a recording with its symbols, for `report` and `diff`.

use std::path::Path;

use pmuscope_perfdata::reader::{Event, FileState, Reader, RecordingFile};
use pmuscope_profile::{
    Collected, Counting, Filter, GroupBy, Options, Profile, Unwinding, available_threads, waits,
};
use pmuscope_symbols::Symbolizer;

use super::filter::{FilterArgs, SymbolFilterArgs};
use super::progress::Shown;
use super::symbols::SymbolArgs;

/// Flags of commands that read whole recordings.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LoadArgs {
    /// Count inlined functions as part of their caller
    #[arg(long)]
    pub(super) no_inline: bool,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    #[command(flatten)]
    pub(super) symbol_filter: SymbolFilterArgs,
    #[command(flatten)]
    pub(super) symbols: SymbolArgs,
}

/// How much of a recording is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadRequest {
    /// What is told apart.
    pub(super) apart: GroupBy,
    /// What the profile holds.
    pub(super) options: Options,
    /// Stacks that samples carry are unwound, whatever is made of them.
    pub(super) stacks: bool,
    /// Whether progress is shown where it takes long.
    pub(super) progress: bool,
}

impl LoadArgs {
    /// Reads the recording; names by `symbolizer`.
    pub(super) fn load(
        &self,
        recording: &RecordingFile,
        symbolizer: &mut Symbolizer,
        wanted: LoadRequest,
    ) -> anyhow::Result<Profile> {
        let reader = recording.reader()?;
        let mut filter = self.filter.filter(recording, reader.events(), reader.metadata())?;
        self.symbol_filter.add_to(&mut filter);
        waits::leave_out(&mut filter, &reader);
        let has_stacks = || reader.events().iter().any(Event::has_stacks);
        let chains = self.symbol_filter.need_chains() || wanted.stacks && has_stacks();
        let apart = GroupBy { chains: wanted.apart.chains || chains, ..wanted.apart };
        load(reader, recording.path(), filter, symbolizer, LoadRequest { apart, ..wanted })
    }
}

/// Reads what the filter lets pass of a recording; names by `symbolizer`.
pub(super) fn load(
    mut reader: Reader,
    path: &Path,
    filter: Filter,
    symbolizer: &mut Symbolizer,
    wanted: LoadRequest,
) -> anyhow::Result<Profile> {
    let LoadRequest { apart, options, progress, .. } = wanted;
    let running = symbolizer.running_kernel();
    let shown = Some(()).filter(|()| progress).and_then(|()| Shown::new(reader.progress(), path));
    let collected = {
        let unwinder = symbolizer.unwinder();
        let unwinding = Unwinding { unwinder: &unwinder, running: &running };
        let counting = Counting { apart, filter, code_by_time: true };
        Collected::read(&mut reader, counting, available_threads(), Some(unwinding))?
    };
    if let Some(shown) = &shown {
        shown.is_read();
    }
    for (pid, dump) in collected.jit_dumps() {
        symbolizer.add_jit_dump(*pid, dump.clone());
    }
    Ok(collected
        .profile(&reader, &running, options, &mut |requests| symbolizer.resolve_all(requests))?)
}

/// Whether all that was recorded is in the profile.
pub(super) fn is_whole(profile: &Profile) -> bool {
    profile.state == FileState::Closed
        && profile.tally.stopped.is_none()
        && profile.mappings_left_out == 0
        && profile.without_callers == 0
        && profile.info().is_none_or(|info| info.unwritten.is_none())
}
