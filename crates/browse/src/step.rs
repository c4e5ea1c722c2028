//! One filter that a reader has set: what it keeps, what it is called, and the flag that asks a command for it.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use pmuscope_profile::Profile;
use pmuscope_profile::aggregate::{Aggregate, CellCounts, Narrowing, Timeline};
use pmuscope_report::number::fixed;

/// A filter. All that are set hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FilterStep {
    Process(i64),
    Thread(i64),
    Comm(Arc<str>),
    Cpu(i64),
    Node(i64),
    /// Path of the binary or library that was sampled.
    Dso(String),
    /// The sampled function, whole name.
    Function(Arc<str>),
    /// A function anywhere in the call stack, whole name.
    Through(Arc<str>),
    /// Blocks of time of all that was read.
    Blocks(Range<u32>),
}

impl FilterStep {
    /// Whether it is by the name of a DSO or function.
    pub(crate) fn is_by_name(&self) -> bool {
        matches!(self, Self::Dso(_) | Self::Function(_) | Self::Through(_))
    }

    /// What a reader sees: `thread 4711`.
    pub(crate) fn label(&self, time: &Timeline) -> String {
        match self {
            Self::Process(pid) => format!("process {pid}"),
            Self::Thread(tid) => format!("thread {tid}"),
            Self::Comm(name) => format!("comm {name}"),
            Self::Cpu(cpu) => format!("CPU {cpu}"),
            Self::Node(node) => format!("node {node}"),
            Self::Dso(path) => format!("DSO {}", path.rsplit('/').next().unwrap_or(path)),
            Self::Function(name) => format!("in {name}"),
            Self::Through(name) => format!("through {name}"),
            Self::Blocks(blocks) => format!("time {}", span_text(time, blocks)),
        }
    }

    /// The flag that `report` takes for it, without dashes, and its value. Blocks of time have none of their own: all that
    /// are set are one flag, [`time_flag`].
    pub(crate) fn flag(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::Process(pid) => ("pid", pid.to_string()),
            Self::Thread(tid) => ("tid", tid.to_string()),
            Self::Comm(name) => ("comm", name.to_string()),
            Self::Cpu(cpu) => ("cpu", cpu.to_string()),
            Self::Node(node) => ("node", node.to_string()),
            Self::Dso(path) => ("dsos", path.clone()),
            Self::Function(name) => ("symbol-filter", format!("={name}")),
            Self::Through(name) => ("focus", format!("={name}")),
            Self::Blocks(_) => return None,
        })
    }
}

/// The blocks that all spans of time have in common; `None` where no span is set.
pub(crate) fn common_span(steps: &[FilterStep]) -> Option<Range<u32>> {
    let spans = steps.iter().filter_map(|step| match step {
        FilterStep::Blocks(span) => Some(span.clone()),
        _ => None,
    });
    spans.reduce(|one, other| one.start.max(other.start)..one.end.min(other.end))
}

/// What `--time` is given for blocks of a recording of which only some times were read; all of them where `read` is empty.
pub(crate) fn time_flag(
    time: &Timeline,
    blocks: &Range<u32>,
    read: &[RangeInclusive<u64>],
) -> String {
    let (first, end) = nanoseconds(time, blocks);
    let span = first..=end.saturating_sub(1);
    let text = |range: &RangeInclusive<u64>| {
        let (start, end) = (range.start().max(span.start()), range.end().min(span.end()));
        (start <= end).then(|| format!("{},{}", clock(*start), clock(*end)))
    };
    let parts: Vec<String> = read.iter().filter_map(text).collect();
    if parts.is_empty() { text(&span).unwrap_or_default() } else { parts.join(" ") }
}

/// First time stamp of blocks, and the first after them: nanoseconds of the recording's clock.
fn nanoseconds(time: &Timeline, blocks: &Range<u32>) -> (u64, u64) {
    let at = |block: u32| time.start.saturating_add(u64::from(block).saturating_mul(time.block_ns));
    (at(blocks.start), at(blocks.end))
}

/// Seconds of the recording's clock, to the nanosecond.
fn clock(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// `1.25-2.50 s`, from the start of the recording.
pub(crate) fn span_text(time: &Timeline, blocks: &Range<u32>) -> String {
    let seconds = |block: u32| u64::from(block).saturating_mul(time.block_ns) as f64 / 1e9;
    let decimals = decimals(time);
    format!("{}-{} s", fixed(seconds(blocks.start), decimals), fixed(seconds(blocks.end), decimals))
}

/// The blocks that hold a span of time, which is typed in seconds from the start of the recording: `2.5-10`, `2.5,10`; an end
/// that is left out is that of the recording.
pub(crate) fn typed_span(time: &Timeline, text: &str) -> Result<Range<u32>, &'static str> {
    const FORM: &str = "two times in seconds, as in 2.5-10 or 2.5-";
    let (from, to) = text.split_once([',', '-']).ok_or(FORM)?;
    let seconds = |text: &str, open: f64| -> Result<f64, &'static str> {
        match text.trim() {
            "" => Ok(open),
            text => text.parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0).ok_or(FORM),
        }
    };
    let (from, to) = (seconds(from, 0.0)?, seconds(to, f64::INFINITY)?);
    let block_s = time.block_ns as f64 / 1e9;
    let most = f64::from(time.blocks);
    let (start, end) = ((from / block_s).floor().min(most), (to / block_s).ceil().min(most));
    if start < end { Ok(start as u32..end as u32) } else { Err("no time of the recording") }
}

/// Decimals of a second that distinguish neighboring blocks.
pub(crate) fn decimals(time: &Timeline) -> usize {
    match time.block_ns {
        0..10_000_000 => 3,
        10_000_000..100_000_000 => 2,
        _ => 1,
    }
}

/// What all steps keep of the counts that were read.
pub(crate) fn narrow(
    profile: &Profile,
    all: &CellCounts,
    steps: &[FilterStep],
    node_of: &dyn Fn(u32) -> Option<u32>,
) -> CellCounts {
    let counts = &profile.aggregate;
    let mut stacks: Vec<Vec<bool>> = Vec::new();
    let mut tasks = vec![true; counts.tasks.len()];
    let mut cpus: Vec<(bool, i64)> = Vec::new();
    for step in steps {
        let mut keep_tasks = |keeps: &dyn Fn(&pmuscope_profile::aggregate::Task) -> bool| {
            tasks.iter_mut().zip(&counts.tasks).for_each(|(kept, task)| *kept &= keeps(task));
        };
        match step {
            FilterStep::Process(pid) => keep_tasks(&|task| task.pid.map(i64::from) == Some(*pid)),
            FilterStep::Thread(tid) => keep_tasks(&|task| task.tid.map(i64::from) == Some(*tid)),
            FilterStep::Comm(name) => keep_tasks(&|task| task.command == *name),
            FilterStep::Cpu(cpu) => cpus.push((false, *cpu)),
            FilterStep::Node(node) => cpus.push((true, *node)),
            FilterStep::Dso(path) => {
                let is_it: Vec<bool> =
                    profile.modules.iter().map(|one| one.is_called(path)).collect();
                let is_in = |module: u32| is_it.get(module as usize).copied().unwrap_or(false);
                stacks.push(counts.stacks_in(&|frame| is_in(frame.module)));
            }
            FilterStep::Function(name) => {
                stacks.push(counts.stacks_in_function(&is_called(counts, name)));
            }
            FilterStep::Through(name) => {
                let is_it = is_called(counts, name);
                let has = |function: Option<u32>| function.is_some_and(|at| is_it[at as usize]);
                stacks.push(counts.stacks_through(&|frame| has(frame.function)));
            }
            FilterStep::Blocks(_) => {}
        }
    }
    let on = |cpu: Option<u32>| {
        cpus.iter().all(|&(is_node, wanted)| {
            let found = if is_node { cpu.and_then(node_of) } else { cpu };
            found.map(i64::from) == Some(wanted)
        })
    };
    let keeps = |cell: &pmuscope_profile::aggregate::SampleCell| {
        tasks[cell.task as usize]
            && stacks.iter().all(|kept| kept[cell.stack as usize])
            && (cpus.is_empty() || on(cell.cpu))
    };
    all.narrowed(&Narrowing { keeps: &keeps, blocks: common_span(steps) })
}

/// For each function whether it has a name.
fn is_called(counts: &Aggregate, name: &str) -> Vec<bool> {
    counts.functions.iter().map(|function| &*function.name == name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timeline = Timeline { start: 1_999_999_999, block_ns: 1 << 20, blocks: 100 };

    #[test]
    fn blocks_are_a_range_of_times_that_has_both_ends() {
        assert_eq!(time_flag(&TIME, &(1..3), &[]), "2.001048575,2.003145726");
        assert_eq!(FilterStep::Blocks(1..3).label(&TIME), "time 0.001-0.003 s");
    }

    #[test]
    fn times_that_were_not_read_are_not_asked_for() {
        let time = Timeline { start: 0, block_ns: 1_000_000_000, blocks: 10 };
        let seconds = |from: u64, to: u64| from * 1_000_000_000..=to * 1_000_000_000;
        let read = [seconds(1, 2), seconds(3, 5), seconds(8, 9)];
        assert_eq!(time_flag(&time, &(4..7), &read), "4.000000000,5.000000000");
        assert_eq!(
            time_flag(&time, &(0..4), &read),
            "1.000000000,2.000000000 3.000000000,3.999999999"
        );
    }

    #[test]
    fn a_typed_span_is_the_blocks_that_hold_it() {
        let time = Timeline { start: 7, block_ns: 500_000_000, blocks: 10 };
        for (text, blocks) in [
            ("1-2", 2..4),
            ("1.1,1.9", 2..4),
            ("1.1 - 2.1", 2..5),
            ("-0.2", 0..1),
            ("4.9-", 9..10),
            ("-", 0..10),
            ("3-99", 6..10),
        ] {
            assert_eq!(typed_span(&time, text), Ok(blocks), "{text}");
        }
        for text in ["", "3", "a-b", "2-1", "9-10", "1-nan", "0-0"] {
            assert!(typed_span(&time, text).is_err(), "{text}");
        }
        let untimed = Timeline { start: 0, block_ns: 0, blocks: 0 };
        assert!(typed_span(&untimed, "0-1").is_err());
    }

    #[test]
    fn spans_of_time_have_their_common_part() {
        let steps = [FilterStep::Blocks(1..8), FilterStep::Thread(7), FilterStep::Blocks(3..9)];
        assert_eq!(common_span(&steps), Some(3..8));
        assert_eq!(common_span(&steps[1..2]), None);
    }

    #[test]
    fn names_are_asked_for_as_a_whole() {
        let name: Arc<str> = "parse".into();
        assert_eq!(FilterStep::Through(Arc::clone(&name)).flag(), Some(("focus", "=parse".into())));
        assert_eq!(FilterStep::Function(name).flag(), Some(("symbol-filter", "=parse".into())));
        assert_eq!(FilterStep::Dso("/lib/libc.so.6".into()).label(&TIME), "DSO libc.so.6");
    }
}
