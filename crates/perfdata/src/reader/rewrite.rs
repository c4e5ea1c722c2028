//! Samples that do not hold all of their data in the form of their attribute are rewritten to that form, so that
//! decoders see one form only.
//!
//! ```text
//!  deferred callchains (Linux 6.19)       sample: kernel part │ USER_DEFERRED │ cookie    later: record 22: cookie │ user part
//!                                      ─► sample: kernel part │ user part
//!  off-CPU time of perf (6.16 and later)  sample: RAW: pid, tid │ ns │ callchain │ cgroup
//!                                      ─► sample: pid, tid, ns as period, callchain │ RAW
//! ```
//!
//! A deferred part that never came leaves its mark behind as the last entry.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use pmuscope_abi::record::misc;
use pmuscope_abi::{Attr, AttrFlags, SampleType};

use super::bytes::{Endian, Fields};
use super::event::Event;
use super::limit::memory_limit;
use super::other;
use super::sample::ReadLayout;

/// `PERF_CONTEXT_USER`, `PERF_CONTEXT_USER_DEFERRED` of `enum perf_callchain_context`.
const USER: u64 = (-512_i64) as u64;
const USER_DEFERRED: u64 = (-640_i64) as u64;
/// The marks are the topmost values (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = (-4095_i64) as u64;
/// `PERF_RECORD_CALLCHAIN_DEFERRED`.
pub(super) const CALLCHAIN_DEFERRED: u32 = 22;
/// Sums of perf's off-CPU time have times from here on, which are none (`OFF_CPU_TIMESTAMP` of
/// `tools/perf/util/off_cpu.h`).
const FIRST_OF_SUMS: u64 = !0 << 32;

/// Parts of callchains that came later, by their cookies.
#[derive(Debug, Clone, Default)]
pub(super) struct DeferredChains {
    /// Words of each, in `words`.
    chains: HashMap<u64, Range<usize>>,
    words: Vec<u64>,
}

impl DeferredChains {
    /// Whether events ask for such callchains.
    pub(super) fn are_of(events: &[Event]) -> bool {
        events.iter().any(|event| event.attr.flags.contains(AttrFlags::DEFER_CALLCHAIN))
    }

    /// Takes the body of a record 22. Beyond the memory that is allowed, chains are left out, and count as never come.
    pub(super) fn take(&mut self, body: &[u8], endian: Endian) {
        let Some(deferred) = other::deferred_callchain(body, endian) else { return };
        let cost = 8 * (self.words.len() + deferred.callchain.len()) + 48 * self.chains.len();
        if cost > memory_limit() / 4 {
            return;
        }
        let start = self.words.len();
        if deferred.callchain.iter().next().is_none_or(|first| first < FIRST_MARK) {
            self.words.push(USER);
        }
        self.words.extend(deferred.callchain.iter());
        self.chains.insert(deferred.cookie, start..self.words.len());
    }

    fn get(&self, cookie: u64) -> &[u64] {
        match self.chains.get(&cookie) {
            Some(words) => &self.words[words.clone()],
            None => &[USER_DEFERRED],
        }
    }
}

/// How samples of a file are rewritten.
#[derive(Debug, Clone, Default)]
pub(super) struct Rewriting {
    /// `None` if no event defers callchains.
    pub(super) deferred: Option<Arc<DeferredChains>>,
    /// By event: off-CPU time whose callchain stands among raw data.
    off_cpu: Vec<bool>,
    /// Whether any event is off-CPU time: its sums have no time of their own.
    has_sums: bool,
}

/// A sample in its new form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rewritten<'a> {
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
}

impl Rewriting {
    /// For samples of `events`, whose attributes are adapted.
    pub(super) fn of(events: &mut [Event]) -> Self {
        let has_sums = events.iter().any(Event::is_off_cpu_time);
        let mut adapt = |event: &mut Event| {
            let types = event.attr.sample_type;
            let is_raw = types.contains(SampleType::RAW) && !types.contains(SampleType::CALLCHAIN);
            let rewritten = event.is_off_cpu_time() && is_raw;
            if rewritten {
                event.attr.sample_type |= SampleType::CALLCHAIN;
            }
            rewritten
        };
        Self { deferred: None, off_cpu: events.iter_mut().map(&mut adapt).collect(), has_sums }
    }

    /// Whether any sample is rewritten.
    #[inline]
    pub(super) fn is_needed(&self) -> bool {
        self.has_sums || self.deferred.is_some()
    }

    /// Whether samples have to be read in the order of the file.
    pub(super) fn needs_order(&self) -> bool {
        self.has_sums
    }

    /// The time of a record that has `time`, where the latest so far is `youngest`: sums count as of the end.
    pub(super) fn time(&self, time: Option<u64>, youngest: u64) -> Option<u64> {
        match time {
            Some(time) if self.has_sums && time >= FIRST_OF_SUMS => Some(youngest),
            time => time,
        }
    }

    /// A sample of `event` in the form of its attribute, by help of `out`; `None` if it has that already.
    pub(super) fn sample<'a>(
        &self,
        (event, attr): (usize, &Attr),
        (sample_misc, time): (u16, Option<u64>),
        body: &[u8],
        endian: Endian,
        out: &'a mut Vec<u8>,
    ) -> Option<Rewritten<'a>> {
        if self.off_cpu.get(event) == Some(&true) {
            let misc = off_cpu(attr, (sample_misc, time), body, endian, out)?;
            return Some(Rewritten { misc, body: out });
        }
        let deferred = self.deferred.as_ref()?;
        merged(deferred, attr, body, endian, out)?;
        Some(Rewritten { misc: sample_misc, body: out })
    }
}

/// Fields of fixed size in front of counts and callchain.
const FIXED: SampleType = SampleType::IDENTIFIER
    .union(SampleType::IP)
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::ADDR)
    .union(SampleType::ID)
    .union(SampleType::STREAM_ID)
    .union(SampleType::CPU)
    .union(SampleType::PERIOD);

/// Bytes in front of the callchain.
fn front(attr: &Attr, body: &[u8], endian: Endian) -> Option<usize> {
    let fixed = 8 * (attr.sample_type & FIXED).bits().count_ones() as usize;
    let rest = body.get(fixed..)?;
    if !attr.sample_type.contains(SampleType::READ) {
        return Some(fixed);
    }
    let (_, behind) = ReadLayout::new(attr.read_format).split(rest, endian)?;
    Some(body.len() - behind.len())
}

/// Puts a sample with the deferred part of its callchain into `out`; `None` if no part of it is deferred.
fn merged(
    chains: &DeferredChains,
    attr: &Attr,
    body: &[u8],
    endian: Endian,
    out: &mut Vec<u8>,
) -> Option<()> {
    if !attr.sample_type.contains(SampleType::CALLCHAIN) {
        return None;
    }
    let at = front(attr, body, endian)?;
    let mut fields = Fields::new(&body[at..], endian);
    let entries = usize::try_from(fields.u64()?).ok()?;
    let words = fields.take(entries.checked_mul(8)?)?;
    let (own, end) = words.split_at_checked(words.len().checked_sub(16)?)?;
    let mut end = Fields::new(end, endian);
    let cookie = (end.u64()? == USER_DEFERRED).then(|| end.u64())??;
    let later = chains.get(cookie);
    out.clear();
    out.extend_from_slice(&body[..at]);
    out.extend(endian.bytes((own.len() / 8 + later.len()) as u64));
    out.extend_from_slice(own);
    out.extend(later.iter().flat_map(|&word| endian.bytes(word)));
    out.extend_from_slice(fields.rest());
    Some(())
}

/// Puts a sample of off-CPU time into `out`, with what stands among its raw data; its new `misc`.
fn off_cpu(
    attr: &Attr,
    (sample_misc, time): (u16, Option<u64>),
    body: &[u8],
    endian: Endian,
    out: &mut Vec<u8>,
) -> Option<u16> {
    let at = front(attr, body, endian)?;
    let mut fields = Fields::new(&body[at..], endian);
    let size = usize::try_from(fields.u32()?).ok()?;
    let mut raw = Fields::new(fields.take(size)?, endian);
    let (task, waited) = (raw.take(8)?, raw.u64()?);
    let entries = raw.u64()?;
    let words = raw.take(usize::try_from(entries).ok()?.checked_mul(8)?)?;
    let mut chain = Fields::new(words, endian);
    let (first, second) = (chain.u64(), chain.u64());
    let ip = second.filter(|_| first.is_some_and(|first| first >= FIRST_MARK)).or(first);
    out.clear();
    for bit in FIXED_IN_ORDER.into_iter().filter(|bit| attr.sample_type.contains(*bit)) {
        let own = &body[out.len()..out.len() + 8];
        match bit {
            SampleType::IP => out.extend(endian.bytes(ip.unwrap_or(0))),
            SampleType::TID => out.extend_from_slice(task),
            SampleType::TIME => out.extend(endian.bytes(time.unwrap_or(0))),
            SampleType::PERIOD => out.extend(endian.bytes(waited)),
            _ => out.extend_from_slice(own),
        }
    }
    out.extend_from_slice(&body[out.len()..at]);
    out.extend(endian.bytes(entries));
    out.extend_from_slice(words);
    out.extend_from_slice(&body[at..]);
    let mode = if first == Some(USER) { misc::USER } else { misc::KERNEL };
    Some(sample_misc & !misc::CPUMODE_MASK | mode)
}

/// [`FIXED`], as they follow each other (`perf_event_open(2)`, `PERF_RECORD_SAMPLE`).
const FIXED_IN_ORDER: [SampleType; 9] = [
    SampleType::IDENTIFIER,
    SampleType::IP,
    SampleType::TID,
    SampleType::TIME,
    SampleType::ADDR,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::sample;
    use pmuscope_abi::{event_type, software};
    use proptest::prelude::*;

    const LITTLE: Endian = Endian::Little;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn deferring() -> Attr {
        Attr {
            sample_type: SampleType::IP
                | SampleType::TIME
                | SampleType::CALLCHAIN
                | SampleType::RAW,
            flags: AttrFlags::DEFER_CALLCHAIN,
            ..Attr::default()
        }
    }

    fn chains() -> Arc<DeferredChains> {
        let mut chains = DeferredChains::default();
        chains.take(&bytes(&[7, 3, USER, 40, 50]), LITTLE);
        chains.take(&bytes(&[8, 1, 60]), LITTLE);
        Arc::new(chains)
    }

    /// The callchain of a sample with these entries, after rewriting.
    fn chain(entries: &[u64]) -> Vec<u64> {
        let attr = deferring();
        let mut body = bytes(&[100, 5, entries.len() as u64]);
        body.extend(bytes(entries));
        body.extend([4, 0, 0, 0, 1, 2, 3, 4]);
        let rewriting = Rewriting { deferred: Some(chains()), ..Rewriting::default() };
        let mut out = Vec::new();
        let found = rewriting.sample((0, &attr), (1, Some(5)), &body, LITTLE, &mut out);
        let body = found.map_or(&body[..], |found| found.body);
        let sample = sample::sample(body, 1, 0, &attr, LITTLE).unwrap();
        assert_eq!(sample.details().unwrap().raw, Some(&[1, 2, 3, 4][..]));
        sample.callchain.iter().collect()
    }

    #[test]
    fn the_deferred_part_follows_the_kernels() {
        let kernel = (-128_i64) as u64;
        assert_eq!(chain(&[kernel, 1, 2, USER_DEFERRED, 7]), [kernel, 1, 2, USER, 40, 50]);
        // Several samples in one system call share it.
        assert_eq!(chain(&[USER_DEFERRED, 7]), [USER, 40, 50]);
        assert_eq!(chain(&[USER_DEFERRED, 8]), [USER, 60], "with its mark");
        assert_eq!(chain(&[kernel, 1, USER_DEFERRED, 9]), [kernel, 1, USER_DEFERRED], "never came");
        assert_eq!(chain(&[kernel, 1, USER, 7]), [kernel, 1, USER, 7]);
        assert_eq!(chain(&[7]), [7]);
    }

    fn off_cpu_event() -> Event {
        let attr = Attr {
            event_type: event_type::SOFTWARE,
            config: software::BPF_OUTPUT,
            sample_type: SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::PERIOD
                | SampleType::RAW,
            ..Attr::default()
        };
        Event { name: "offcpu-time".into(), attr, ids: Vec::new() }
    }

    #[test]
    fn off_cpu_time_is_a_sample_of_the_thread_that_waited() {
        let mut events = [off_cpu_event()];
        let rewriting = Rewriting::of(&mut events);
        assert!(rewriting.needs_order());
        let mut body = bytes(&[1, 2 << 32 | 1, FIRST_OF_SUMS + 3, 1]);
        let raw = bytes(&[9 << 32 | 8, 5_000_000, 3, USER, 40, 50, 1]);
        body.extend((raw.len() as u32 + 4).to_le_bytes());
        body.extend(&raw);
        body.extend([0; 4]);
        let time = rewriting.time(Some(FIRST_OF_SUMS + 3), 77);
        assert_eq!((time, rewriting.time(Some(5), 77)), (Some(77), Some(5)));
        let mut out = Vec::new();
        let attr = &events[0].attr;
        let found = rewriting.sample((0, attr), (1, time), &body, LITTLE, &mut out).unwrap();
        let sample = sample::sample(found.body, found.misc, 0, attr, LITTLE).unwrap();
        assert_eq!((sample.pid, sample.tid, sample.time), (Some(8), Some(9), Some(77)));
        assert_eq!((sample.ip, sample.period), (Some(40), Some(5_000_000)));
        assert_eq!(sample.mode, crate::reader::CpuMode::User);
        assert_eq!(sample.callchain.iter().collect::<Vec<_>>(), [USER, 40, 50]);
        assert_eq!(sample.details().unwrap().raw.map(<[u8]>::len), Some(raw.len() + 4));
    }

    proptest! {
        /// Every input has a result, which is longer than its source.
        #[test]
        fn any_bytes_do(
            words in proptest::collection::vec(prop_oneof![
                0_u64..4, Just(USER_DEFERRED), Just(USER), any::<u64>(),
            ], 0..24),
            cut in 0_usize..8, types in any::<u32>(), off_cpu in any::<bool>(),
        ) {
            let mut event = off_cpu_event();
            if !off_cpu {
                event = Event { attr: deferring(), ..event };
            }
            let sample_type = SampleType::from_bits_retain(types.into()) | event.attr.sample_type;
            event.attr.sample_type = sample_type & !(SampleType::BRANCH_STACK);
            let mut events = [event];
            let mut rewriting = Rewriting::of(&mut events);
            rewriting.deferred = Some(chains());
            let mut body = bytes(&words);
            body.truncate(body.len().saturating_sub(cut));
            let mut out = Vec::new();
            rewriting.sample((0, &events[0].attr), (2, Some(1)), &body, LITTLE, &mut out);
        }
    }
}
