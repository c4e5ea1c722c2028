//! What a recording says about itself and its events, as far as profiles show it.

use pmuscope_abi::{AttrFlags, event_type, software};
use pmuscope_perfdata::reader::{Event, FileState, Metadata, Reader, Tally};

/// What the file says about itself.
#[derive(Debug, Clone)]
pub(crate) struct FileFacts {
    pub(crate) metadata: Metadata,
    pub(crate) state: FileState,
    pub(crate) tally: Tally,
    /// Bytes of the stack that samples were to carry.
    pub(crate) stack_copy: Option<u32>,
    /// It holds waits, which are not to be shown.
    pub(crate) tells_waits: bool,
}

impl FileFacts {
    /// What a reader has found at its end.
    pub(crate) fn of(reader: &Reader) -> Self {
        Self {
            metadata: reader.metadata().clone(),
            state: reader.state(),
            tally: reader.tally().clone(),
            stack_copy: reader.events().iter().filter_map(Event::stack_copy).max(),
            tells_waits: false,
        }
    }
}

/// What the file says about an event.
#[derive(Debug, Clone)]
pub(crate) struct EventFacts {
    pub(crate) name: String,
    pub(crate) has_period: bool,
    pub(crate) frequency: Option<u64>,
    pub(crate) fixed_period: Option<u64>,
    /// Only there to carry records about processes.
    pub(crate) counts_nothing: bool,
}

impl From<&Event> for EventFacts {
    fn from(event: &Event) -> Self {
        let by_frequency = event.attr.flags.contains(AttrFlags::FREQ);
        let sample = (event.attr.sample > 0).then_some(event.attr.sample);
        Self {
            name: event.name.clone(),
            has_period: event.has_period() || event.has_counts(),
            frequency: sample.filter(|_| by_frequency),
            fixed_period: sample.filter(|_| !by_frequency),
            counts_nothing: event.attr.event_type == event_type::SOFTWARE
                && event.attr.config == software::DUMMY,
        }
    }
}
