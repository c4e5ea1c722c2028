//! What is in the windows of a strobed recording, put together here by the rules of the format, apart
//! from the program's own analysis.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::Record;
use pmuscope_perfdata::strobe::{Epoch, StrobeInfo};

use crate::recording::Recording;

/// Windows of a recording, by what became of them.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// In an epoch, no switch inside, of the epoch's offset and length.
    pub(crate) accepted: u64,
    pub(crate) switched: u64,
    pub(crate) wrong_offset: u64,
    pub(crate) wrong_length: u64,
    /// A without B, or B without A.
    pub(crate) unpaired: u64,
    /// Samples outside of all epochs.
    pub(crate) outside: u64,
    /// Lengths of all windows that were not switched.
    pub(crate) lengths: BTreeMap<u64, u64>,
    /// Epochs with at least one window.
    pub(crate) epochs: u64,
    /// Instruction pointers of A samples that lie in epochs, with their processes.
    pub(crate) opened_at: Vec<(i32, u64)>,
}

/// A sample of an edge.
#[derive(Debug, Clone, Copy)]
struct Edge {
    time: u64,
    a: u64,
    b: u64,
    switches: u64,
}

impl Windows {
    /// All of them.
    #[track_caller]
    pub(crate) fn of(recording: &Recording) -> Self {
        let strobe = recording.info().strobe.expect("a strobed recording");
        let mut windows = Self::default();
        let mut open: BTreeMap<u32, (u64, Edge)> = BTreeMap::new();
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
            let edge = Edge {
                time,
                a: count(group.edges[0]),
                b: count(group.edges[1]),
                switches: count(group.context_switches.unwrap()),
            };
            if sample.event == group.edges[0] as usize {
                windows.opened_at.push((sample.pid.unwrap(), sample.ip.unwrap()));
                windows.unpaired += u64::from(open.insert(cpu, (epoch.from_ns, edge)).is_some());
            } else {
                match open.remove(&cpu).filter(|(from_ns, _)| *from_ns == epoch.from_ns) {
                    Some((_, opened)) => {
                        seen.insert((cpu, epoch.from_ns));
                        windows.take(&strobe, epoch, opened, edge);
                    }
                    None => windows.unpaired += 1,
                }
            }
        });
        windows.epochs = seen.len() as u64;
        windows
    }

    fn take(&mut self, _strobe: &StrobeInfo, epoch: &Epoch, opened: Edge, closed: Edge) {
        assert!(closed.time >= opened.time);
        let length = closed.a - opened.a;
        let offset = epoch.offsets[0];
        let apart = epoch.apart(1);
        if [opened, closed].iter().any(|edge| Some(edge.a.wrapping_sub(edge.b)) != apart) {
            self.wrong_offset += 1;
        } else if closed.switches != opened.switches {
            self.switched += 1;
        } else {
            *self.lengths.entry(length).or_default() += 1;
            if length == offset {
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
}
