//! What the recording lost, as exactly as it says.

use std::collections::BTreeMap;

use pmuscope_perfdata::info::{self, RecordingInfo, RingInfo};
use pmuscope_perfdata::reader::{Entry, Record};

use crate::filter::Filter;
use crate::timeline::blocks::Clock;

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

/// What a CPU lost, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuLosses {
    /// The CPU; `None` for records that do not tell theirs.
    pub cpu: Option<u32>,
    /// Samples of all events that were kept; `None` where they do not tell their CPU.
    pub samples: Option<u64>,
    /// Records lost.
    pub lost: u64,
    /// Times sampling was suspended.
    pub throttled: u64,
    /// Nanoseconds from each suspension to its end, added up over the events of the CPU.
    pub suspended_ns: u64,
    /// When, as far as records tell it: a LOST record comes with the next one that found room.
    pub blocks: Vec<LossBlock>,
}

/// What was lost in a block of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossBlock {
    /// Number of the block, see [`crate::aggregate::Timeline`].
    pub block: u32,
    /// Records lost.
    pub lost: u64,
    /// Times sampling was suspended.
    pub throttled: u64,
}

/// A record that tells of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LossRecord {
    time: Option<u64>,
    cpu: Option<u32>,
    what: LossKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LossKind {
    Lost(u64),
    LostSamples(usize, u64),
    Throttled(usize),
    Resumed(usize),
}

/// Records whose places are kept: what comes behind is counted, its place is not.
const MOST_TOLD: usize = 1 << 20;

/// Loss seen in the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamLoss {
    /// By LOST records: all events of a ring together, other records too.
    records: u64,
    /// By LOST_SAMPLES records, per event.
    samples: Vec<u64>,
    /// Times sampling was suspended.
    throttled: u64,
    told: Vec<LossRecord>,
}

impl StreamLoss {
    /// Takes a record, if it tells of a loss.
    pub(crate) fn take(&mut self, entry: &Entry<'_>) {
        let what = match entry.record {
            Record::Lost { count, .. } => LossKind::Lost(count),
            Record::LostSamples { event, count } => LossKind::LostSamples(event, count),
            Record::Throttle { event } => LossKind::Throttled(event.unwrap_or(0)),
            Record::Unthrottle { event } => LossKind::Resumed(event.unwrap_or(0)),
            _ => return,
        };
        // What a recorder made itself has the time 0.
        self.add(entry.time.filter(|&time| time > 0), entry.maker.cpu, what);
    }

    fn add(&mut self, time: Option<u64>, cpu: Option<u32>, what: LossKind) {
        match what {
            LossKind::Lost(count) => self.records = self.records.saturating_add(count),
            LossKind::LostSamples(event, count) => {
                if self.samples.len() <= event {
                    self.samples.resize(event + 1, 0);
                }
                self.samples[event] = self.samples[event].saturating_add(count);
            }
            LossKind::Throttled(_) => self.throttled += 1,
            LossKind::Resumed(_) => {}
        }
        if self.told.len() < MOST_TOLD {
            self.told.push(LossRecord { time, cpu, what });
        }
    }

    /// Whether a record tells of records that were lost: where there are LOST records, only they,
    /// for the two kinds tell partly of the same loss.
    fn lost_by(&self, what: LossKind) -> u64 {
        match what {
            LossKind::Lost(count) => count,
            LossKind::LostSamples(_, count) if self.records == 0 => count,
            _ => 0,
        }
    }

    /// What passes a filter by CPU and time, as far as records tell theirs.
    fn passing(&self, filter: &Filter) -> impl Iterator<Item = &LossRecord> {
        let passes = |told: &&LossRecord| filter.passes_moment(told.cpu, told.time);
        self.told.iter().filter(passes)
    }

    /// Loss of the whole recording, or of the CPUs and times that are asked for; whose samples were
    /// lost there nobody knows. The two kinds of record tell partly of the same loss, so the larger
    /// counts, not the sum.
    pub(crate) fn total(&self, info: Option<&RecordingInfo>, filter: &Filter) -> Lost {
        if filter.is_by_moment() {
            if let (Some(info), Some(_)) = (info, info.and_then(known))
                && filter.times.is_empty()
            {
                let on = |ring: &&RingInfo| filter.passes_moment(ring.cpu, None);
                let count = info.rings.iter().filter(on).filter_map(|ring| ring.lost).sum();
                return Lost { count, source: LostSource::Kernel };
            }
            let lost = self.passing(filter).map(|told| self.lost_by(told.what));
            let count = lost.fold(0, u64::saturating_add);
            return Lost { count, source: LostSource::Records };
        }
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
        filter: &Filter,
    ) -> Option<u64> {
        if events == 1 && filter.is_by_moment() {
            return Some(self.total(info, filter).count);
        }
        if filter.is_by_moment() {
            return None;
        }
        if let Some(info) = info.filter(|info| info.complete) {
            return info.events.get(event).and_then(|event| event.lost);
        }
        if events == 1 {
            return Some(self.total(info, filter).count);
        }
        self.samples.get(event).copied().filter(|&count| count > 0)
    }

    pub(crate) fn throttled(&self, info: Option<&RecordingInfo>, filter: &Filter) -> u64 {
        if filter.is_by_moment() {
            let is = |told: &&LossRecord| matches!(told.what, LossKind::Throttled(_));
            return self.passing(filter).filter(is).count() as u64;
        }
        let each = info.iter().flat_map(|info| &info.events).map(|event| event.throttled);
        let told = each.fold(0, u64::saturating_add);
        told.max(self.throttled)
    }

    /// Where and when. `samples` are those that were kept, by CPU.
    pub(crate) fn by_cpu(
        &self,
        info: Option<&RecordingInfo>,
        filter: &Filter,
        clock: &Clock,
        samples: &[Vec<u64>],
    ) -> Vec<CpuLosses> {
        let mut cpus: BTreeMap<Option<u32>, (CpuLosses, BTreeMap<u32, LossBlock>)> =
            BTreeMap::new();
        let mut suspended: BTreeMap<(Option<u32>, usize), u64> = BTreeMap::new();
        for told in self.passing(filter) {
            let (lost, throttled) = (self.lost_by(told.what), told.throttles());
            let (cpu, blocks) = cpus.entry(told.cpu).or_default();
            cpu.lost = cpu.lost.saturating_add(lost);
            cpu.throttled += throttled;
            match (told.what, told.time) {
                (LossKind::Throttled(event), Some(time)) => {
                    suspended.entry((told.cpu, event)).or_insert(time);
                }
                (LossKind::Resumed(event), Some(time)) => {
                    let since = suspended.remove(&(told.cpu, event));
                    let since = since.map_or(0, |since| time.saturating_sub(since));
                    cpu.suspended_ns = cpu.suspended_ns.saturating_add(since);
                }
                _ => {}
            }
            if let Some(number) = told.time.and_then(|time| clock.block_of(time)) {
                let block = blocks.entry(number).or_default();
                block.block = number;
                block.lost = block.lost.saturating_add(lost);
                block.throttled += throttled;
            }
        }
        // What the kernel counted of each ring is exact.
        let exact = info.filter(|info| filter.times.is_empty() && known(info).is_some());
        for ring in exact.map_or(&[][..], |info| &info.rings) {
            if let (Some(_), Some(lost)) = (ring.cpu, ring.lost)
                && (lost > 0 || cpus.contains_key(&ring.cpu))
                && filter.passes_moment(ring.cpu, None)
            {
                cpus.entry(ring.cpu).or_default().0.lost = lost;
            }
        }
        let of = |cpu: u32| samples.iter().filter_map(|event| event.get(cpu as usize)).sum();
        let tells = samples.iter().any(|event| !event.is_empty());
        let one =
            |(cpu, (losses, blocks)): (Option<u32>, (CpuLosses, BTreeMap<u32, LossBlock>))| {
                let blocks =
                    blocks.into_values().filter(|block| block.lost > 0 || block.throttled > 0);
                let samples = cpu.filter(|_| tells).map(of);
                CpuLosses { cpu, samples, blocks: blocks.collect(), ..losses }
            };
        let some = |losses: &CpuLosses| losses.lost > 0 || losses.throttled > 0;
        cpus.into_iter().map(one).filter(some).collect()
    }
}

impl LossRecord {
    fn throttles(&self) -> u64 {
        u64::from(matches!(self.what, LossKind::Throttled(_)))
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
    let by_events = info
        .events
        .iter()
        .try_fold(0, |sum: u64, event| event.lost.map(|lost| sum.saturating_add(lost)));
    let count = info.lost().filter(|_| !info.rings.is_empty()).or(by_events)?;
    Some(Lost { count, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::info::EventInfo;

    fn told(time: u64, cpu: u32, what: LossKind) -> (Option<u64>, Option<u32>, LossKind) {
        (Some(time), Some(cpu), what)
    }

    fn loss(told: &[(Option<u64>, Option<u32>, LossKind)]) -> StreamLoss {
        let mut loss = StreamLoss::default();
        told.iter().for_each(|&(time, cpu, what)| loss.add(time, cpu, what));
        loss
    }

    #[test]
    fn the_recorders_own_count_wins_once_the_file_is_closed() {
        let loss =
            loss(&[told(5, 0, LossKind::Lost(100)), told(5, 0, LossKind::LostSamples(1, 30))]);
        let all = Filter::default();
        assert_eq!(loss.total(None, &all), Lost { count: 100, source: LostSource::Records });
        let of = |event, events, info| loss.of_event(event, events, info, &all);
        assert_eq!((of(0, 2, None), of(1, 2, None)), (None, Some(30)));
        assert_eq!(of(0, 1, None), Some(100));

        let mut info = RecordingInfo {
            complete: true,
            lost_source: info::LostSource::ReadFormat,
            events: vec![EventInfo { lost: Some(7), throttled: 2, ..EventInfo::default() }],
            rings: vec![RingInfo { cpu: Some(3), lost: Some(120), ..RingInfo::default() }],
            ..RecordingInfo::default()
        };
        let exact = |count| Lost { count, source: LostSource::Kernel };
        assert_eq!(loss.total(Some(&info), &all), exact(120));
        assert_eq!(of(0, 1, Some(&info)), Some(7));
        assert_eq!(loss.throttled(Some(&info), &all), 2);
        let by_cpu = loss.by_cpu(Some(&info), &all, &Clock::default(), &[]);
        let lost: Vec<_> = by_cpu.iter().map(|one| (one.cpu, one.lost)).collect();
        assert_eq!(lost, [(Some(0), 100), (Some(3), 120)]);
        let cpu = |number| Filter {
            cpus: Some((0..4).map(|cpu| cpu == number).collect()),
            ..Filter::default()
        };
        assert_eq!(loss.total(Some(&info), &cpu(3)), exact(120));
        assert_eq!(loss.total(Some(&info), &cpu(1)), exact(0));
        info.complete = false;
        assert_eq!(loss.total(Some(&info), &all).count, 100);
    }

    #[test]
    fn losses_fall_on_cpus_and_times() {
        let ms = 1 << 20;
        let clock = Clock::of(Some((0, 100 * ms)));
        let loss = loss(&[
            told(ms, 1, LossKind::Lost(10)),
            told(ms + 1, 1, LossKind::Lost(5)),
            told(ms, 2, LossKind::Throttled(0)),
            told(3 * ms, 2, LossKind::Throttled(1)),
            told(4 * ms, 2, LossKind::Resumed(0)),
            told(50 * ms, 1, LossKind::Lost(7)),
            // Partly the same loss as told before.
            told(60 * ms, 1, LossKind::LostSamples(0, 20)),
            (None, None, LossKind::Lost(3)),
        ]);
        let samples = [vec![0, 100, 50], vec![0, 1]];
        let all = loss.by_cpu(None, &Filter::default(), &clock, &samples);
        let block = |block, lost, throttled| LossBlock { block, lost, throttled };
        let expected = [
            CpuLosses { lost: 3, ..CpuLosses::default() },
            CpuLosses {
                cpu: Some(1),
                samples: Some(101),
                lost: 22,
                blocks: vec![block(1, 15, 0), block(50, 7, 0)],
                ..CpuLosses::default()
            },
            CpuLosses {
                cpu: Some(2),
                samples: Some(50),
                throttled: 2,
                suspended_ns: 3 * ms,
                blocks: vec![block(1, 0, 1), block(3, 0, 1)],
                ..CpuLosses::default()
            },
        ];
        assert_eq!(all, expected);
        let late = Filter { times: vec![40 * ms..=u64::MAX], ..Filter::default() };
        assert_eq!(loss.total(None, &late), Lost { count: 7, source: LostSource::Records });
        assert_eq!((loss.throttled(None, &late), loss.of_event(0, 2, None, &late)), (0, None));
        assert_eq!(loss.by_cpu(None, &late, &clock, &samples).len(), 1);
    }
}
