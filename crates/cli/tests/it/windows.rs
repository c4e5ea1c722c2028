//! What is in the windows of a strobed recording, put together here by the rules of the format, apart
//! from the program's own analysis.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::Record;
use pmuscope_perfdata::strobe::Epoch;

use crate::recording::Recording;

/// Windows of a recording, by what became of them.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// In an epoch, no switch inside, of the epoch's offset and length.
    pub(crate) accepted: u64,
    pub(crate) switched: u64,
    pub(crate) wrong_offset: u64,
    pub(crate) wrong_length: u64,
    /// Of those of a wrong length, the ones that are off by more than half.
    pub(crate) far: u64,
    /// A without B, or B without A.
    pub(crate) unpaired: u64,
    /// Samples outside of all epochs.
    pub(crate) outside: u64,
    /// Lengths of all windows that were not switched.
    pub(crate) lengths: BTreeMap<u64, u64>,
    /// Epochs with at least one window.
    pub(crate) epochs: u64,
    /// Samples that open windows (A) and those that close them, in epochs, by process and thread.
    pub(crate) opened_by: BTreeMap<(i32, i32), u64>,
    pub(crate) closed_by: BTreeMap<(i32, i32), u64>,
}

/// A sample of an edge.
#[derive(Debug, Clone)]
struct Edge {
    /// Its place among the edges: 0 is A.
    number: usize,
    /// Where its epoch begins.
    epoch: u64,
    time: u64,
    /// Counts of all edges.
    counts: Vec<u64>,
    switches: u64,
}

impl Windows {
    /// All of them.
    #[track_caller]
    pub(crate) fn of(recording: &Recording) -> Self {
        let strobe = recording.info().strobe.expect("a strobed recording");
        let mut windows = Self::default();
        let mut open: BTreeMap<u32, Edge> = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        let reader_events = recording.read(|_| ()).events().to_vec();
        let ids = |event: u32| reader_events[event as usize].ids.clone();
        recording.read(|entry| {
            let Record::Sample(sample) = entry.record else { return };
            let (cpu, time) = (sample.cpu.unwrap(), sample.time.unwrap());
            let Some(epoch) = strobe.epoch_at(cpu, time) else {
                windows.outside += 1;
                return;
            };
            let group = &strobe.groups[epoch.group as usize];
            let values: BTreeMap<u64, u64> =
                sample.read.unwrap().iter().map(|v| (v.id.unwrap(), v.value)).collect();
            let count =
                |event: u32| ids(event).iter().find_map(|id| values.get(id)).copied().unwrap();
            let is_it = |edge: &u32| *edge as usize == sample.event;
            let edge = Edge {
                number: group.edges.iter().position(is_it).unwrap(),
                epoch: epoch.from_ns,
                time,
                counts: group.edges.iter().map(|edge| count(*edge)).collect(),
                switches: count(group.context_switches.unwrap()),
            };
            let task = (sample.pid.unwrap(), sample.tid.unwrap());
            let opened = open.remove(&cpu);
            if edge.number == 0 {
                *windows.opened_by.entry(task).or_default() += 1;
                windows.unpaired += u64::from(opened.is_some());
            } else {
                *windows.closed_by.entry(task).or_default() += 1;
                let is_before = |it: &Edge| it.epoch == edge.epoch && it.number + 1 == edge.number;
                match opened.filter(is_before) {
                    Some(opened) => {
                        seen.insert((cpu, epoch.from_ns));
                        windows.take(epoch, &opened, &edge);
                    }
                    None => windows.unpaired += 1,
                }
            }
            if edge.number + 1 < group.edges.len() {
                open.insert(cpu, edge);
            }
        });
        windows.epochs = seen.len() as u64;
        windows
    }

    fn take(&mut self, epoch: &Epoch, opened: &Edge, closed: &Edge) {
        assert!(closed.time >= opened.time);
        let length = closed.counts[0] - opened.counts[0];
        let offset = |edge: usize| edge.checked_sub(1).map_or(0, |closing| epoch.offsets[closing]);
        let apart = |edge: &Edge| edge.counts[0].wrapping_sub(edge.counts[edge.number]);
        if [opened, closed].iter().any(|edge| Some(apart(edge)) != epoch.apart(edge.number)) {
            self.wrong_offset += 1;
        } else if closed.switches != opened.switches {
            self.switched += 1;
        } else {
            *self.lengths.entry(length).or_default() += 1;
            let expected = offset(closed.number) - offset(opened.number);
            self.far += u64::from(length.abs_diff(expected) > expected / 2);
            if length == expected {
                self.accepted += 1;
            } else {
                self.wrong_length += 1;
            }
        }
    }

    /// All windows.
    pub(crate) fn all(&self) -> u64 {
        self.accepted + self.switched + self.wrong_offset + self.wrong_length
    }

    /// A samples.
    pub(crate) fn opened(&self) -> u64 {
        self.opened_by.values().sum()
    }
}
