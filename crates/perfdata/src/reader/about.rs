//! The metadata of a recording as it becomes known: from sections of a file all at once, from
//! records of a stream one by one.
//!
//! A stream can repeat itself endlessly, and a small compressed one can expand to a large one. So
//! what is kept of it is bounded, and the time for each record depends only on its own size.

use std::collections::HashMap;
use std::sync::Arc;

use pmuscope_abi::event_type;
use pmuscope_abi::record::kind;

use super::bytes::Endian;
use super::event::{Event, Events};
use super::kernel::Identified;
use super::metadata::{EventNames, Metadata, NamedIds};
use super::rewrite::{Rewriting, Rewritten};
use super::simpleperf::{self, FileSymbol, TypeName};
use super::tool::ToolRecord;
use crate::info::RecordingInfo;
use crate::strobe::EpochUpdate;

/// More events than this are not one recording's.
const MOST_EVENTS: usize = u16::MAX as usize;
/// Ids of all events together: 512 CPUs with 5000 threads and three events.
pub(super) const MOST_IDS: usize = 8 << 20;
/// Bytes of features and build ids that records of a stream may add up to.
const MOST_BYTES: usize = 64 << 20;

/// Events, and what is known about machine and recording.
#[derive(Debug)]
pub(super) struct FileFacts {
    pub(super) metadata: Metadata,
    pub(super) events: Events,
    /// Names that arrive before or after their events, in the order of the events.
    names: Vec<NamedIds>,
    /// Index of a name by the first of its ids.
    name_of: HashMap<u64, usize>,
    ids: usize,
    /// Index in the metadata's symbols of files that simpleperf numbered.
    numbered_files: HashMap<u64, usize>,
    /// Bytes that may still be taken from records.
    room: usize,
    /// How samples are brought into the form of their attributes.
    pub(super) rewriting: Rewriting,
}

impl FileFacts {
    pub(super) fn new() -> Self {
        Self {
            metadata: Metadata::default(),
            events: Events::new(),
            names: Vec::new(),
            name_of: HashMap::new(),
            ids: 0,
            numbered_files: HashMap::new(),
            room: MOST_BYTES,
            rewriting: Rewriting::default(),
        }
    }

    /// Takes over what the sections of a file say.
    pub(super) fn of_file(metadata: Metadata, names: EventNames, events: Vec<Event>) -> Self {
        let mut about = Self { metadata, ..Self::new() };
        about.take_names(names.by_id);
        events.into_iter().for_each(|event| about.add_event(event));
        about.name_by_order();
        about.name_by_type(&names.by_type);
        about
    }

    /// A record, in the form of its event's attribute if it is a sample; by help of `out`.
    #[inline]
    pub(super) fn in_form_of_attribute<'a>(
        &self,
        found: Identified<'a>,
        endian: Endian,
        out: &'a mut Vec<u8>,
    ) -> Identified<'a> {
        if found.kind != kind::SAMPLE || !self.rewriting.is_needed() {
            return found;
        }
        let Some(event) = self.events.list.get(found.event) else { return found };
        let (of, front) = ((found.event, &event.attr), (found.misc, found.time));
        match self.rewriting.sample(of, front, found.body, endian, out) {
            Some(Rewritten { misc, body }) => Identified { misc, body, ..found },
            None => found,
        }
    }

    /// Takes a part of a callchain that came later.
    pub(super) fn take_deferred(&mut self, body: &[u8], endian: Endian) {
        if let Some(deferred) = &mut self.rewriting.deferred {
            Arc::make_mut(deferred).take(body, endian);
        }
    }

    /// Takes over a record; false if its kind is not known.
    pub(super) fn take(&mut self, record: ToolRecord, endian: Endian) -> bool {
        match record {
            ToolRecord::Event(event) => self.add_event(*event),
            ToolRecord::Feature { bit, bytes } => {
                if self.spend(bytes.len()) {
                    if matches!(bit, simpleperf::FILES | simpleperf::FILES_2) {
                        self.numbered_files.clear();
                    }
                    let names = self.metadata.take_feature(bit, &bytes, endian);
                    self.take_names(names);
                }
            }
            ToolRecord::BuildId { misc, body } => {
                if self.spend(body.len()) {
                    self.metadata.take_build_id(misc, &body);
                }
            }
            ToolRecord::TracingData(bytes) => {
                if self.spend(bytes.len()) {
                    self.metadata.take_tracing_data(&bytes);
                    (0..self.events.list.len()).for_each(|index| self.name_tracepoint(index));
                }
            }
            ToolRecord::EventName { id, name } => self.events.rename(id, &name),
            ToolRecord::Info(info) => {
                // The copy written at close knows more than any in the stream.
                if !self.is_complete() {
                    let before = self.metadata.info.replace(*info);
                    self.keep_epochs(before);
                }
            }
            ToolRecord::Epochs { update, bytes } => {
                if !self.is_complete() && self.spend(bytes) {
                    self.take_epochs(&update);
                }
            }
            ToolRecord::File { number, file } => {
                if self.spend(size_of_val(&file) + file.path.len()) {
                    let files = Arc::make_mut(&mut self.metadata.symbols);
                    self.numbered_files.insert(number, files.len());
                    files.push(file);
                }
            }
            ToolRecord::Symbol { file, symbol, bytes } => {
                if self.spend(bytes) {
                    self.take_symbol(file, symbol);
                }
            }
            ToolRecord::PassedOver => {}
            ToolRecord::Unknown => return false,
        }
        true
    }

    /// Takes over a symbol of a file that was numbered before.
    fn take_symbol(&mut self, file: u64, symbol: FileSymbol) {
        if let Some(&at) = self.numbered_files.get(&file)
            && let Some(file) = Arc::make_mut(&mut self.metadata.symbols).get_mut(at)
        {
            file.add(symbol);
        }
    }

    /// What was written at close is there.
    fn is_complete(&self) -> bool {
        self.metadata.info.as_ref().is_some_and(|info| info.complete)
    }

    /// Copies in the stream come without the epochs that records of their own told before.
    fn keep_epochs(&mut self, before: Option<RecordingInfo>) {
        let now = self.metadata.info.as_mut().and_then(|info| info.strobe.as_mut());
        let before = before.and_then(|info| info.strobe);
        if let (Some(now), Some(before)) = (now, before)
            && now.epochs.is_empty()
        {
            now.epochs = before.epochs;
        }
    }

    fn take_epochs(&mut self, update: &EpochUpdate) {
        if let Some(strobe) = self.metadata.info.as_mut().and_then(|info| info.strobe.as_mut()) {
            strobe.take(update);
        }
        for opened in &update.opened {
            if self.ids < MOST_IDS {
                self.ids += 1;
                self.events.add_id(opened.event as usize, opened.id);
            }
        }
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let enough = bytes <= self.room;
        self.room = self.room.saturating_sub(bytes);
        enough
    }

    fn add_event(&mut self, mut event: Event) {
        if self.events.list.len() >= MOST_EVENTS {
            return;
        }
        event.ids.truncate(MOST_IDS - self.ids);
        self.ids += event.ids.len();
        let name = event.ids.iter().find_map(|id| self.name_of.get(id)).copied();
        self.events.push(event);
        self.name_tracepoint(self.events.list.len() - 1);
        if let Some(named) = name.and_then(|index| self.names.get(index)) {
            self.events.rename_at(self.events.list.len() - 1, &named.name);
        }
    }

    fn take_names(&mut self, names: Vec<NamedIds>) {
        if names.is_empty() {
            return;
        }
        self.name_of.clear();
        for (index, named) in names.iter().enumerate() {
            if let Some(&id) = named.ids.first() {
                self.events.rename(id, &named.name);
                self.name_of.insert(id, index);
            }
        }
        self.names = names;
    }

    /// Gives a tracepoint the name by which the recording's formats know it, unless it has one.
    fn name_tracepoint(&mut self, index: usize) {
        let Some(Event { attr, name, .. }) = self.events.list.get(index) else { return };
        let number = format!("tracepoint:{}", attr.config);
        let Some(modifiers) = name.strip_prefix(&*number) else { return };
        let known = self.metadata.tracepoints.iter().find(|one| one.id == attr.config);
        if let Some(known) = known.filter(|_| attr.event_type == event_type::TRACEPOINT) {
            let name = format!("{}:{}{modifiers}", known.system, known.name);
            self.events.rename_at(index, &name);
        }
    }

    /// Names by what events count: one for each event, or where no two events count the same.
    fn name_by_type(&mut self, names: &[TypeName]) {
        for index in 0..self.events.list.len() {
            let attr = &self.events.list[index].attr;
            let in_order = names.get(index).filter(|_| names.len() == self.events.list.len());
            let in_order = in_order.filter(|name| name.is_of(attr));
            let name = in_order.or_else(|| names.iter().find(|name| name.is_of(attr)));
            if let Some(name) = name.map(|name| name.name.clone()) {
                self.events.rename_at(index, &name);
            }
        }
    }

    /// Names without ids belong to events by their order.
    pub(super) fn name_by_order(&mut self) {
        if self.names.len() != self.events.list.len() {
            return;
        }
        for (index, named) in self.names.iter().enumerate() {
            if named.ids.is_empty() {
                self.events.rename_at(index, &named.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strobe::{Epoch, OpenedId, StrobeInfo};
    use pmuscope_abi::Attr;

    fn event(ids: &[u64]) -> ToolRecord {
        let event = Event { name: "made up".into(), attr: Attr::default(), ids: ids.to_vec() };
        ToolRecord::Event(Box::new(event))
    }

    fn named(name: &str, ids: &[u64]) -> NamedIds {
        NamedIds { name: name.into(), ids: ids.to_vec() }
    }

    fn names(about: &FileFacts) -> Vec<&str> {
        about.events.list.iter().map(|event| &event.name[..]).collect()
    }

    #[test]
    fn names_find_their_events_whichever_comes_first() {
        let mut about = FileFacts::new();
        about.take(event(&[1, 2]), Endian::Little);
        about.take_names(vec![named("first", &[1]), named("second", &[9])]);
        about.take(event(&[8, 9]), Endian::Little);
        about.take(event(&[]), Endian::Little);
        assert_eq!(names(&about), ["first", "second", "made up"]);
        about.take(ToolRecord::EventName { id: 8, name: "better".into() }, Endian::Little);
        assert_eq!(names(&about)[1], "better");
    }

    fn strobed(complete: bool, from_ns: &[u64]) -> ToolRecord {
        let epoch = |&from_ns| Epoch { from_ns, ..Epoch::default() };
        let epochs = from_ns.iter().map(epoch).collect();
        let strobe = Some(StrobeInfo { epochs, ..StrobeInfo::default() });
        ToolRecord::Info(Box::new(RecordingInfo { complete, strobe, ..RecordingInfo::default() }))
    }

    #[test]
    fn epochs_of_the_stream_outlive_later_copies_and_yield_to_the_last() {
        let epochs = |about: &FileFacts| -> Vec<u64> {
            let strobe = about.metadata.info.as_ref().unwrap().strobe.as_ref().unwrap();
            strobe.epochs.iter().map(|epoch| epoch.from_ns).collect()
        };
        let update = |from_ns, id| {
            let epochs = vec![Epoch { from_ns, ..Epoch::default() }];
            let opened = vec![OpenedId { event: 1, cpu: 0, id }];
            ToolRecord::Epochs { update: EpochUpdate { epochs, opened }, bytes: 100 }
        };
        let mut about = FileFacts::new();
        about.take(event(&[1]), Endian::Little);
        about.take(event(&[2]), Endian::Little);
        about.take(strobed(false, &[]), Endian::Little);
        about.take(update(10, 30), Endian::Little);
        about.take(strobed(false, &[]), Endian::Little);
        about.take(update(20, 31), Endian::Little);
        assert_eq!(epochs(&about), [10, 20]);
        assert_eq!(
            (about.events.of_id(31), &about.events.list[1].ids[..]),
            (Some(1), &[2, 30, 31][..])
        );
        about.take(strobed(true, &[11, 21]), Endian::Little);
        about.take(update(12, 32), Endian::Little);
        assert_eq!(epochs(&about), [11, 21]);
    }

    #[test]
    fn names_without_ids_go_by_order_only_if_there_is_one_for_each() {
        let mut about = FileFacts::new();
        about.take_names(vec![named("a", &[]), named("b", &[])]);
        about.take(event(&[]), Endian::Little);
        about.name_by_order();
        assert_eq!(names(&about), ["made up"]);
        about.take(event(&[]), Endian::Little);
        about.name_by_order();
        assert_eq!(names(&about), ["a", "b"]);
    }

    #[test]
    fn a_stream_that_repeats_itself_cannot_take_all_memory() {
        let mut about = FileFacts::new();
        about.ids = MOST_IDS - 5;
        about.take(event(&[1, 2, 3]), Endian::Little);
        about.take(event(&[4, 5, 6]), Endian::Little);
        assert_eq!((about.ids, about.events.list[1].ids.len()), (MOST_IDS, 2));
        about.room = 200_000;
        let mut body = vec![1; 60_000];
        body[24] = 20;
        for _ in 0..10 {
            let record = ToolRecord::BuildId { misc: 1 << 15, body: body.clone() };
            assert!(about.take(record, Endian::Little));
        }
        assert_eq!(about.metadata.build_ids.len(), 3);
    }
}
