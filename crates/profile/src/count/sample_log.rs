//! Samples one by one, as a counter met them: what [`crate::samples`] is made of.

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::cells::InGroup;

/// A sample; which of its numbers were recorded stands in `has`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedSample {
    pub(crate) time: u64,
    pub(crate) ip: u64,
    pub(crate) period: u64,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    /// Index into [`Counts::groups`](super::counter::Counts::groups).
    pub(crate) group: u32,
    /// The number of its callchain, as [`Where`](super::counter::Where) has them.
    pub(crate) node: u32,
    has: u32,
}

const TIME: u32 = 1;
const IP: u32 = 2;
const PERIOD: u32 = 4;
const TASK: u32 = 8;
const CPU: u32 = 16;

// Long recordings have a hundred million.
const _: () = assert!(size_of::<LoggedSample>() == 48);

impl LoggedSample {
    fn new(hit: &SampleFields<'_>, time: Option<u64>, key: InGroup) -> Self {
        let (pid, tid) = hit.task.unwrap_or_default();
        let flag = |is_there: bool, flag: u32| if is_there { flag } else { 0 };
        Self {
            time: time.unwrap_or_default(),
            ip: hit.ip.unwrap_or_default(),
            period: hit.period.unwrap_or_default(),
            pid,
            tid,
            cpu: hit.cpu.unwrap_or_default(),
            group: key.group,
            node: key.what,
            has: flag(time.is_some(), TIME)
                | flag(hit.ip.is_some(), IP)
                | flag(hit.period.is_some(), PERIOD)
                | flag(hit.task.is_some(), TASK)
                | flag(hit.cpu.is_some(), CPU),
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.has & flag != 0
    }

    pub(crate) fn time(&self) -> Option<u64> {
        self.has(TIME).then_some(self.time)
    }

    pub(crate) fn ip(&self) -> Option<u64> {
        self.has(IP).then_some(self.ip)
    }

    pub(crate) fn period(&self) -> Option<u64> {
        self.has(PERIOD).then_some(self.period)
    }

    pub(crate) fn task(&self) -> Option<(i32, i32)> {
        self.has(TASK).then_some((self.pid, self.tid))
    }

    pub(crate) fn cpu(&self) -> Option<u32> {
        self.has(CPU).then_some(self.cpu)
    }
}

/// The samples of a counter, in the order in which it met them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SampleLog {
    pub(crate) samples: Vec<LoggedSample>,
    /// Number of the first record of each stretch of the recording, and how many samples came before it.
    pub(crate) stretches: Vec<(u64, usize)>,
}

impl SampleLog {
    pub(crate) fn begin(&mut self, first_record: u64) {
        self.stretches.push((first_record, self.samples.len()));
    }

    pub(crate) fn push(&mut self, hit: &SampleFields<'_>, time: Option<u64>, key: InGroup) {
        self.samples.push(LoggedSample::new(hit, time, key));
    }
}
