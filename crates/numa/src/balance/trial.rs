//! What came of a change, for each process: keep or undo.

use std::collections::BTreeMap;

use pmuscope_stats::{LEVEL, mean, mean_interval};

use super::judge::{
    BeforeAfter, Judge, LOCALITY_STEP, SpeedVerdict, compare_shares, compare_speed,
};
use super::log::LogEvent;
use super::view::View;
use super::world::TimeBlock;
use crate::placement::evenness;

/// What becomes of what was done to a process, and why.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    Keep(String),
    Undo(String),
}

/// What was to be reached for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// More local, or on a node that is less crowded.
    Better,
    /// Its memory on several nodes evenly.
    Even,
    /// To stay as it is.
    Hold,
}

/// Judges what was done to the processes of `acted`, and tells what was compared. If any process, moved or not, is less local than before, all is undone. Then speed decides, for
/// all together; where it is not measured, each process stays where it has become more local, or where
/// locality is as before and load or memory lie more evenly.
pub(super) fn judge(
    judge: Judge,
    acted: &BTreeMap<u32, Aim>,
    before: &[TimeBlock],
    after: &[TimeBlock],
) -> (BTreeMap<u32, Fate>, Vec<LogEvent>) {
    let mut events = Vec::new();
    let mut localities = BTreeMap::new();
    let mut fallen = None;
    for process in after.last().map_or(&[][..], |last| &last.view.processes) {
        let series = |seen: &[TimeBlock]| -> Vec<f64> {
            let of = |seen: &TimeBlock| seen.view.process(process.pid)?.locality();
            seen.iter().filter_map(of).collect()
        };
        let comparison = compare_locality(&series(before), &series(after));
        events.push(LogEvent::Judged { pid: Some(process.pid), by: Judge::Locality, comparison });
        if comparison.verdict == SpeedVerdict::Worse {
            fallen.get_or_insert(process.pid);
        }
        localities.insert(process.pid, comparison);
    }
    if let Some(pid) = fallen {
        let why = format!("process {pid} became less local");
        let fates = acted.keys().map(|&pid| (pid, Fate::Undo(why.clone())));
        return (fates.collect(), events);
    }
    if judge.is_speed() {
        let speeds = |seen: &[TimeBlock]| -> Vec<f64> {
            seen.iter().filter_map(|seen| seen.speed).collect()
        };
        let comparison = compare_speed(&speeds(before), &speeds(after));
        events.push(LogEvent::Judged { pid: None, by: judge, comparison });
        let fate = by_speed(judge, &comparison);
        return (acted.keys().map(|&pid| (pid, fate.clone())).collect(), events);
    }
    let less_crowded = {
        let crowding = |seen: &[TimeBlock]| seen.iter().map(|seen| crowding(&seen.view)).collect();
        let (before, after): (Vec<f64>, Vec<f64>) = (crowding(before), crowding(after));
        compare_shares(&after, &before).verdict == SpeedVerdict::Better
    };
    let mut fates = BTreeMap::new();
    for (&pid, &aim) in acted.iter().filter(|(_, aim)| **aim != Aim::Hold) {
        let Some(locality) = localities.get(&pid) else { continue };
        let evener = aim == Aim::Even && is_evener(pid, before, after);
        fates.insert(pid, by_locality(locality, less_crowded, evener));
    }
    let stays = fates.values().any(|fate| matches!(fate, Fate::Keep(_)));
    for (&pid, _) in acted.iter().filter(|(_, aim)| **aim == Aim::Hold) {
        let fate = if stays {
            Fate::Keep("it is as local as before, and other processes were moved".to_owned())
        } else {
            Fate::Undo("no other moves remain that could displace it".to_owned())
        };
        fates.insert(pid, fate);
    }
    (fates, events)
}

fn by_speed(judge: Judge, comparison: &BeforeAfter) -> Fate {
    let by = match (comparison.value, comparison.interval) {
        (Some(value), Some((low, high))) => {
            format!("{judge}: {value:.3} times the value before ({low:.3} to {high:.3})")
        }
        _ => format!("{judge}: not measured often enough"),
    };
    match comparison.verdict {
        SpeedVerdict::Better => Fate::Keep(by),
        SpeedVerdict::Worse => Fate::Undo(by),
        SpeedVerdict::Same => Fate::Undo(format!("{by}: no difference beyond the noise")),
    }
}

fn by_locality(comparison: &BeforeAfter, less_crowded: bool, evener: bool) -> Fate {
    let by = match comparison.value {
        Some(value) => format!("locality {value:+.2}"),
        None => "locality not measured".to_owned(),
    };
    match comparison.verdict {
        SpeedVerdict::Better => Fate::Keep(by),
        SpeedVerdict::Worse => Fate::Undo(by),
        SpeedVerdict::Same if less_crowded => {
            Fate::Keep(format!("{by}, and nodes are less crowded"))
        }
        SpeedVerdict::Same if evener => {
            Fate::Keep(format!("{by}, and its memory is spread more evenly"))
        }
        SpeedVerdict::Same => Fate::Undo(format!("{by}: no difference beyond the noise")),
    }
}

/// As [`compare_shares`]; also better if the blocks after lie above the mean of those before. Threads that
/// wander between nodes make locality before as noisy as can be, and to stop that is what pinning is for.
fn compare_locality(before: &[f64], after: &[f64]) -> BeforeAfter {
    let mut comparison = compare_shares(before, after);
    let found = mean(before);
    let low = mean_interval(after, LEVEL).and_then(|after| after.interval).map(|after| after.low);
    if let (Some(found), Some(low), SpeedVerdict::Same) = (found, low, comparison.verdict)
        && low >= found + LOCALITY_STEP
    {
        comparison.verdict = SpeedVerdict::Better;
    }
    comparison
}

/// Load over CPUs of the node where that is most.
fn crowding(view: &View) -> f64 {
    let nodes = view.nodes.iter().zip(view.load()).filter(|(node, _)| node.cpus > 0);
    nodes.map(|(node, load)| load / f64::from(node.cpus)).fold(0.0, f64::max)
}

fn is_evener(pid: u32, before: &[TimeBlock], after: &[TimeBlock]) -> bool {
    let even = |seen: &[TimeBlock]| {
        let process = seen.last()?.view.process(pid)?;
        evenness(&process.bytes.iter().map(|&bytes| bytes as f64).collect::<Vec<_>>())
    };
    matches!((even(before), even(after)), (Some(before), Some(after)) if after > before + LOCALITY_STEP)
}
