//! Which samples and records are printed.

use std::str::FromStr;

use pmuscope_machine::CpuSet;
use pmuscope_perfdata::reader::Event;
use pmuscope_report::{escape, escape_bytes};

use crate::exit::{Exit, failure};

/// Flags that leave something out.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only these processes
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Only threads with these names
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    comm: Vec<String>,
    /// Only these CPUs, as "0-3,8"
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<CpuSet>,
    /// Only from START to STOP, seconds of the recording's clock; either may be left out
    #[arg(long, value_name = "START,STOP")]
    time: Option<TimeRange>,
    /// Only samples of this event; may be given several times
    #[arg(short, long, value_name = "NAME")]
    event: Vec<String>,
}

impl FilterArgs {
    /// Whether nothing is left out.
    pub(crate) fn is_open(&self) -> bool {
        self.pid.is_empty()
            && self.tid.is_empty()
            && self.comm.is_empty()
            && self.cpu.is_none()
            && self.time.is_none()
            && self.event.is_empty()
    }
}

/// Nanoseconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    start: u64,
    stop: u64,
}

impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "START,STOP in seconds, as 12.5,13 or 12.5, or ,13";
        let (start, stop) = text.split_once(',').ok_or(wanted)?;
        let start = if start.is_empty() { 0 } else { nanoseconds(start).ok_or(wanted)? };
        let stop = if stop.is_empty() { u64::MAX } else { nanoseconds(stop).ok_or(wanted)? };
        if start > stop {
            return Err("START is behind STOP".into());
        }
        Ok(Self { start, stop })
    }
}

/// `12.000345678` exactly, digit by digit; `None` for anything else.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 9 || !is_number(fraction) || !is_number(seconds) || seconds.is_empty() {
        return None;
    }
    let rest: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)
}

/// What passes.
#[derive(Debug)]
pub(crate) struct Filter {
    pids: Vec<i32>,
    tids: Vec<i32>,
    comms: Vec<String>,
    cpus: Option<CpuSet>,
    time: Option<TimeRange>,
    /// By index; `None` if all do.
    events: Option<Vec<bool>>,
    /// Nothing is left out.
    pub(crate) is_open: bool,
}

/// What is asked of a sample or record. What it does not say is `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) task: Option<(i32, i32)>,
    pub(crate) comm: &'a [u8],
    pub(crate) cpu: Option<u32>,
    pub(crate) time: Option<u64>,
    /// Of a sample.
    pub(crate) event: Option<usize>,
}

impl Filter {
    pub(crate) fn new(args: &FilterArgs, events: &[Event]) -> anyhow::Result<Self> {
        Ok(Self {
            pids: args.pid.clone(),
            tids: args.tid.clone(),
            comms: args.comm.clone(),
            cpus: args.cpu.clone(),
            time: args.time,
            events: chosen(&args.event, events)?,
            is_open: args.is_open(),
        })
    }

    /// Whether a sample or record is printed. What does not say what it is asked does not pass.
    pub(crate) fn passes(&self, facts: &Facts<'_>) -> bool {
        let one_of = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        let event = match (&self.events, facts.event) {
            (Some(events), Some(event)) => events.get(event).copied().unwrap_or(false),
            _ => true,
        };
        event
            && one_of(&self.pids, facts.task.map(|(pid, _)| pid))
            && one_of(&self.tids, facts.task.map(|(_, tid)| tid))
            && (self.comms.is_empty() || self.comms.iter().any(|c| c.as_bytes() == facts.comm))
            && self.cpus.as_ref().is_none_or(|cpus| facts.cpu.is_some_and(|cpu| cpus.contains(cpu)))
            && self.time.is_none_or(|range| {
                facts.time.is_some_and(|time| (range.start..=range.stop).contains(&time))
            })
    }

    /// Whether nothing that comes at or after a time passes.
    pub(crate) fn is_over(&self, time: Option<u64>) -> bool {
        self.time.zip(time).is_some_and(|(range, time)| time > range.stop)
    }
}

/// Events by their names, or by names without modifiers.
fn chosen(names: &[String], events: &[Event]) -> anyhow::Result<Option<Vec<bool>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let is = |event: &Event, name: &str| {
        event.name == name || event.name.rsplit_once(':').is_some_and(|(base, _)| base == name)
    };
    if let Some(name) = names.iter().find(|name| !events.iter().any(|event| is(event, name))) {
        let known: Vec<_> = events.iter().map(|event| escape(&event.name)).collect();
        let name = escape_bytes(name.as_bytes());
        let known = known.join(", ");
        let message = format!("the recording has no event \"{name}\"; it has {known}");
        return Err(failure(Exit::BadInput, message));
    }
    let wanted = |event| names.iter().any(|name| is(event, name));
    Ok(Some(events.iter().map(wanted).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let range = |text: &str| text.parse::<TimeRange>().map(|range| (range.start, range.stop));
        assert_eq!(range("12.5,13"), Ok((12_500_000_000, 13_000_000_000)));
        assert_eq!(range("0.000000001,"), Ok((1, u64::MAX)));
        assert_eq!(range(",1234567.123456789"), Ok((0, 1_234_567_123_456_789)));
        for wrong in ["12", "a,b", "1.0000000001,", "-1,", ".5,", "99999999999,"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
        assert_eq!(range("2,1"), Err("START is behind STOP".into()));
    }

    #[test]
    fn what_is_not_told_does_not_pass_where_it_is_asked_for() {
        let event = |name: &str| Event { name: name.into(), attr: Default::default(), ids: vec![] };
        let events = [event("cycles:u"), event("faults")];
        let args = FilterArgs {
            pid: vec![7],
            tid: vec![],
            comm: vec!["sh".into()],
            cpu: None,
            time: Some("1,2".parse().unwrap()),
            event: vec!["cycles".into()],
        };
        let filter = Filter::new(&args, &events).unwrap();
        let good = Facts {
            task: Some((7, 8)),
            comm: b"sh",
            cpu: None,
            time: Some(1_500_000_000),
            event: Some(0),
        };
        assert!(filter.passes(&good));
        assert!(filter.passes(&Facts { event: None, ..good }));
        assert!(!filter.passes(&Facts { event: Some(1), ..good }));
        assert!(!filter.passes(&Facts { task: None, ..good }));
        assert!(!filter.passes(&Facts { time: None, ..good }));
        assert!(!filter.passes(&Facts { comm: b"ls", ..good }));
        assert!(filter.is_over(Some(2_000_000_001)) && !filter.is_over(None));

        let none = FilterArgs { event: vec!["misses".into()], ..args };
        let error = Filter::new(&none, &events).unwrap_err().to_string();
        assert_eq!(error, "the recording has no event \"misses\"; it has cycles:u, faults");
    }
}
