//! What the recording lost, as exactly as it says.

use pmuscope_perfdata::info::{self, RecordingInfo};

/// How a loss figure was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostSource {
    /// Counted by the kernel for each descriptor: exact.
    Kernel,
    /// Added up from records in the stream: at least so many.
    Records,
}

/// Records that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// How it is known.
    pub source: LostSource,
}

/// Loss seen in the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamLoss {
    /// By LOST records: all events of a ring together, other records too.
    records: u64,
    /// By LOST_SAMPLES records, per event.
    samples: Vec<u64>,
    /// Times sampling was suspended.
    pub(crate) throttled: u64,
}

impl StreamLoss {
    pub(crate) fn on_lost(&mut self, count: u64) {
        self.records = self.records.saturating_add(count);
    }

    pub(crate) fn on_lost_samples(&mut self, event: usize, count: u64) {
        if self.samples.len() <= event {
            self.samples.resize(event + 1, 0);
        }
        self.samples[event] = self.samples[event].saturating_add(count);
    }

    /// Loss of the whole recording. The two kinds of record tell partly of the same loss, so the
    /// larger counts, not the sum.
    pub(crate) fn total(&self, info: Option<&RecordingInfo>) -> Lost {
        if let Some(lost) = info.and_then(known) {
            return lost;
        }
        let samples = self.samples.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        Lost { count: self.records.max(samples), source: LostSource::Records }
    }

    /// Loss of one of several events; `None` where it cannot be told apart.
    pub(crate) fn of_event(
        &self,
        event: usize,
        events: usize,
        info: Option<&RecordingInfo>,
    ) -> Option<u64> {
        if let Some(info) = info.filter(|info| info.complete) {
            return info.events.get(event).and_then(|event| event.lost);
        }
        if events == 1 {
            return Some(self.total(info).count);
        }
        self.samples.get(event).copied().filter(|&count| count > 0)
    }

    pub(crate) fn throttled(&self, info: Option<&RecordingInfo>) -> u64 {
        let told: u64 = info.map_or(0, |info| info.events.iter().map(|e| e.throttled).sum());
        told.max(self.throttled)
    }
}

/// What the recorder itself says, once it has closed the file.
fn known(info: &RecordingInfo) -> Option<Lost> {
    let source = match info.lost_source {
        info::LostSource::ReadFormat => LostSource::Kernel,
        info::LostSource::Records => LostSource::Records,
        info::LostSource::Unknown => return None,
    };
    if !info.complete {
        return None;
    }
    let by_events: Option<u64> = info.events.iter().map(|event| event.lost).sum();
    let count = info.lost().filter(|_| !info.rings.is_empty()).or(by_events)?;
    Some(Lost { count, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::info::{EventInfo, RingInfo};

    #[test]
    fn the_recorders_own_count_wins_once_the_file_is_closed() {
        let mut loss = StreamLoss::default();
        loss.on_lost(100);
        loss.on_lost_samples(1, 30);
        assert_eq!(loss.total(None), Lost { count: 100, source: LostSource::Records });
        assert_eq!((loss.of_event(0, 2, None), loss.of_event(1, 2, None)), (None, Some(30)));
        assert_eq!(loss.of_event(0, 1, None), Some(100));

        let mut info = RecordingInfo {
            complete: true,
            lost_source: info::LostSource::ReadFormat,
            events: vec![EventInfo { lost: Some(7), throttled: 2, ..EventInfo::default() }],
            rings: vec![RingInfo { lost: Some(120), ..RingInfo::default() }],
            ..RecordingInfo::default()
        };
        assert_eq!(loss.total(Some(&info)), Lost { count: 120, source: LostSource::Kernel });
        assert_eq!(loss.of_event(0, 1, Some(&info)), Some(7));
        assert_eq!(loss.throttled(Some(&info)), 2);
        info.complete = false;
        assert_eq!(loss.total(Some(&info)).count, 100);
    }
}
