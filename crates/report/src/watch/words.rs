//! Hits in words: what was watched, threads, places, values, verdicts.

use pmuscope_perfdata::watch::{Access, HitCost, Means, WatchInfo, WatchTarget};
use pmuscope_profile::Line;
use pmuscope_profile::hits::{
    CacheLine, HitShare, HitValue, Hits, Rate, SharingVerdict, Site, TargetHits, Thread,
};
use pmuscope_stats::Estimate;
use pmuscope_watch::ALLOWANCE_NS;

use super::WatchView;
use crate::escape;
use crate::number::{
    self, WHOLE, agree, count, counted, duration, exact, interval, percent, significant,
};

/// Names that the head lists.
const MOST_NAMES: usize = 3;

/// `writes of counter`.
pub(super) fn subject(info: &WatchInfo) -> String {
    let mut kinds: Vec<Access> = info.targets.iter().map(|target| target.access).collect();
    kinds.dedup();
    let what = match kinds[..] {
        [one] => accesses(one),
        _ => "hits",
    };
    let names = info.targets.iter().map(|target| escape(&target.name));
    let mut names: Vec<String> = names.map(std::borrow::Cow::into_owned).collect();
    // Words of a cache line are watched twice.
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    if more > 0 {
        names.push(format!("{} more", count(more as u64)));
    }
    format!("{what} of {}", names.join(", "))
}

pub(super) fn accesses(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::ReadWrite => "reads and writes",
        Access::Execute => "executions",
    }
}

/// What was watched, on what, for how long.
pub(super) fn first_line(view: &WatchView<'_>) -> String {
    let hits = view.hits;
    let mut parts = vec![subject(&hits.info)];
    if let Some(info) = view.recording() {
        parts.extend(Some(escape(&info.scope).into_owned()).filter(|scope| !scope.is_empty()));
    }
    if hits.seconds > 0.0 {
        parts.push(duration(hits.seconds));
    }
    let counted: u64 = hits.targets.iter().fold(0, |sum, one| sum.saturating_add(one.hits));
    let all = format!("{} {}", count(counted), plural(counted, "hit", "hits"));
    parts.push(match missed(view) {
        None => all,
        Some(missed) => format!("{all} counted, {missed}"),
    });
    parts.join(", ")
}

/// What is missing from the number of hits: an estimate of all of them, or why there is none.
pub(super) fn missed(view: &WatchView<'_>) -> Option<String> {
    let hits = view.hits;
    let armed = hits.armed.filter(|_| hits.is_part())?;
    Some(match (&hits.targets[..], hits.in_hits) {
        ([TargetHits { estimate: Some(all), .. }], _) => format!("{} in total", estimate(all)),
        (targets, _) if targets.iter().any(|one| one.estimate.is_some()) => {
            "others missed (see \"estimated total\")".to_owned()
        }
        // A lower bound it is not: a pause may have set the counter back.
        ([TargetHits { steps: Some(steps), .. }], _) => format!(
            "~{} up to the last counted hit (no CI; assumes each missed hit added 1, as the counted ones did)",
            count(*steps)
        ),
        ([TargetHits { at_least: Some(least), .. }], Some(share)) => format!(
            "{} or more in total (hits took {} of the CPU time)",
            estimate(least),
            percents(share.min(1.0))
        ),
        (_, in_hits) => {
            let time = percents(1.0 - armed);
            let why = match in_hits {
                Some(share) => format!("hits took {} of the CPU time", percents(share.min(1.0))),
                None => "too few observed".to_owned(),
            };
            format!("hits in {time} of the time missed (no estimate: {why})")
        }
    })
}

/// Hits took all of the target's CPU time, by what one costs: nothing is left to compare them with.
fn is_all_in_hits(info: &WatchInfo) -> bool {
    let hits: u64 = info.blocks.iter().flat_map(|block| &block.hits).sum();
    let spent = info.hit_cost.map(|cost| hits as f64 * cost.ns);
    spent.zip(info.target_cpu_ns).is_some_and(|(spent, cpu)| spent >= cpu as f64)
}

/// What hits took of the program's time, and the limit; `None` where neither is known.
pub(super) fn slowdown(info: &WatchInfo) -> Option<String> {
    let is_all = info.slowdown.is_none() && is_all_in_hits(info);
    let is_above = info.slowdown.zip(info.most_slowdown).is_some_and(|(share, most)| share > most);
    // What is not known may be above the limit, too.
    let is_over = info.slowdown.is_none() && info.hit_cost.is_some() || is_above;
    let limit = info.most_slowdown.map(|most| {
        let most = exact(most * 100.0, 3);
        // What the first hits take is not limited: a program with few is seen whole.
        let first = duration(ALLOWANCE_NS / 1e9);
        let after = if is_over { format!(" after {first} of hits") } else { String::new() };
        format!(" (limit {most}%{after})")
    });
    match (info.slowdown, limit) {
        (Some(share), limit) => {
            Some(format!("slowdown ~{} of CPU time{}", percents(share), limit.unwrap_or_default()))
        }
        (None, limit) if is_all => {
            let limit = limit.unwrap_or_default();
            Some(format!("slowdown unknown, hits took all of the CPU time{limit}"))
        }
        (None, Some(limit)) => Some(format!("slowdown unknown{limit}")),
        (None, None) => None,
    }
}

/// `5.60 ± 0.06 µs/hit`.
pub(super) fn hit_cost(cost: &HitCost) -> String {
    let us = match cost.margin_ns {
        Some(margin) => interval(cost.ns / 1e3, margin / 1e3),
        None => format!("~{}", significant(cost.ns / 1e3, 3)),
    };
    format!("{us} µs/hit")
}

/// Records that found no room; `None` where nobody counted.
pub(super) fn lost(info: &WatchInfo) -> Option<u64> {
    let sum = || info.lost.iter().fold(0_u64, |sum, lost| sum.saturating_add(*lost));
    (!info.lost.is_empty()).then(sum)
}

/// Overhead and what is missing, part by part.
pub(crate) fn second_line(view: &WatchView<'_>) -> Vec<String> {
    let (hits, info) = (view.hits, &view.hits.info);
    let mut parts = Vec::new();
    if let Some(cost) = info.hit_cost {
        parts.push(format!("overhead: {} (n {})", hit_cost(&cost), count(cost.n.into())));
    }
    parts.extend(slowdown(info));
    if let Some(armed) = hits.armed {
        let turns = if hits.took_turns { " (multiplexed)" } else { "" };
        parts.push(format!("enabled {}{turns}", percents(armed)));
    }
    parts.push(written(info, hits.is_part()));
    parts.push(format!("lost {}", lost(info).map_or("-".into(), count)));
    if info.means == Means::Samples {
        parts.push("no BPF: values unknown".to_owned());
    }
    let emulator = view.recording().and_then(|info| info.machine.emulator.as_deref());
    parts.extend(emulator.map(|by| format!("emulated by {}", escape(by))));
    parts
}

/// Which hits were written down; `is_part`: of those that were counted, which are not all.
pub(super) fn written(info: &WatchInfo, is_part: bool) -> String {
    if info.count_only {
        return "counted only".to_owned();
    }
    let mut which = match info.every {
        0 | 1 => format!("every {}hit", if is_part { "counted " } else { "" }),
        every => format!("1 in {} {}hits", count(every), if is_part { "counted " } else { "" }),
    };
    if info.when_changed {
        which.push_str(" that changed the value");
    }
    if let Some(when) = &info.when {
        which = format!("{which} with {}", escape(when));
    }
    format!("{which} recorded")
}

pub(super) fn plural(number: u64, one: &'static str, several: &'static str) -> &'static str {
    if number == 1 { one } else { several }
}

/// A share with three digits, all of it as `100%`.
pub(super) fn percents(share: f64) -> String {
    if share >= WHOLE { percent(share, 0) } else { format!("{}%", significant(share * 100.0, 3)) }
}

/// `unsigned long, 8 bytes at 0x7000, counter.c:3`.
pub(super) fn about(target: &WatchTarget) -> String {
    let mut parts = Vec::new();
    parts.extend(Some(escape(&target.type_name).into_owned()).filter(|name| !name.is_empty()));
    let bytes = match target.access {
        Access::Execute => String::new(),
        _ => format!("{} {} ", count(target.bytes), plural(target.bytes, "byte", "bytes")),
    };
    parts.push(format!("{bytes}at {:#x}", target.address));
    if let Some((file, line)) = &target.declared {
        parts.push(format!("{}:{line}", short(file)));
    }
    parts.join(", ")
}

/// The last part of a path, escaped.
pub(super) fn short(path: &str) -> String {
    let last = path.rsplit('/').next().filter(|last| !last.is_empty());
    escape(last.unwrap_or(path)).into_owned()
}

/// `4712 worker`.
pub(crate) fn thread(thread: Option<&Thread>) -> String {
    thread.map_or("-".into(), |one| format!("{} {}", one.tid, escape(&one.command)))
}

/// `bump counter.c:41`, `inner (in outer) counter.c:41`, `work main.cpp:7 (fetch_add atomic_base.h:618)`,
/// `libc.so.6+0x1234`.
pub(crate) fn place(site: Option<&Site>) -> String {
    let Some(site) = site else { return "-".to_owned() };
    let module = short(&site.module);
    let Some(function) = &site.function else {
        return match site.address {
            Some(address) => format!("{module}+{address:#x}"),
            None => module,
        };
    };
    let line = |line: &Line| {
        let number = line.number.map_or("?".into(), |number| number.to_string());
        format!(" {}:{number}", short(&line.file))
    };
    if let Some((caller, of_call)) = &site.called_from {
        let inner = site.line.as_ref().map(line).unwrap_or_default();
        return format!("{}{} ({}{inner})", escape(caller), line(of_call), escape(function));
    }
    let outer = site.inlined_into.as_ref().filter(|outer| *outer != function);
    let outer = outer.map_or_else(String::new, |outer| format!(" (in {})", escape(outer)));
    let line = site.line.as_ref().map_or_else(|| format!(" [{module}]"), line);
    format!("{}{outer}{line}", escape(function))
}

/// A value as its type says.
pub(super) fn value(hits: &Hits, point: u32, bits: u64) -> String {
    match hits.value(point, bits) {
        HitValue::Unsigned(value) => count(value),
        HitValue::Signed(value) => signed(value),
        HitValue::Float(value) => format!("{value}"),
        HitValue::Bool(value) => value.to_string(),
        HitValue::Char(code) => match char::from(code) {
            shown @ ' '..='~' => format!("'{shown}' ({code})"),
            _ => format!("{code}"),
        },
        HitValue::Pointer(0) => "null".to_owned(),
        HitValue::Pointer(address) => match hits.points_to.get(&address) {
            Some(name) => format!("{address:#x} <{}>", escape(name)),
            None => format!("{address:#x}"),
        },
        HitValue::Named(value, Some(name)) => format!("{} ({value})", escape(name)),
        HitValue::Named(value, None) => format!("{value} (no name)"),
        HitValue::Bytes(bits, bytes) => {
            format!("{bits:#0width$x}", width = 2 + 2 * usize::from(bytes))
        }
    }
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", count(value.unsigned_abs()))
}

/// A value that may not be known, with its place in a target of several words.
pub(super) fn known(hits: &Hits, point: u32, bits: Option<u64>) -> String {
    bits.map_or("-".into(), |bits| value(hits, point, bits))
}

/// `+8: ` where a target has several words.
pub(super) fn word(hits: &Hits, point: u32) -> String {
    let Some(of) = hits.info.points.get(point as usize) else { return String::new() };
    let Some(target) = hits.info.targets.get(of.target as usize) else { return String::new() };
    if u64::from(of.bytes) == target.bytes || target.access == Access::Execute {
        return String::new();
    }
    format!("+{}: ", of.address.saturating_sub(target.address))
}

/// `1,990,000 ± 4,000`, `~1,990,000`.
pub(super) fn estimate(estimate: &Estimate) -> String {
    match estimate.interval {
        Some(of) => format!("~{}", number::estimate(estimate.value, of.low, of.high)),
        None => format!("~{}", significant(estimate.value, 3)),
    }
}

/// `12,345`, `12,300 ± 400`.
pub(super) fn rate(rate: &Rate) -> String {
    match (rate.interval, rate.n) {
        (Some(of), _) => format!("~{}", number::estimate(rate.value, of.low, of.high)),
        (None, 0) => significant(rate.value, 3),
        (None, _) => format!("~{}", significant(rate.value, 3)),
    }
}

/// `99.99%`, `~99.9 ± 0.2%`.
pub(super) fn share(share: &HitShare) -> String {
    let Some(value) = share.value() else { return "-".to_owned() };
    match share.interval {
        Some(of) if of.half_width() > 0.0 => {
            format!("~{}", number::percent_estimate(value, of.low, of.high))
        }
        _ if !share.exact => format!("~{}", of_all(value)),
        _ => of_all(value),
    }
}

/// A share that is shown as all, or as none, only where it is.
pub(super) fn of_all(share: f64) -> String {
    let near = |edge: f64| share != edge && percent(share, 2) == percent(edge, 2);
    if near(1.0) {
        ">99.99%".to_owned()
    } else if near(0.0) {
        "<0.01%".to_owned()
    } else {
        percent(share, 2)
    }
}

/// Among how many hits values were counted, and what is known of that.
pub(super) fn of_hits(hits: &TargetHits, all: u64) -> String {
    if hits.records == all {
        counted(all, "hit")
    } else {
        format!(
            "{}, which {} for ~{}",
            counted(hits.records, "record"),
            agree(hits.records, "stands", "stand"),
            counted(all, "hit")
        )
    }
}

pub(crate) fn verdict(verdict: SharingVerdict) -> &'static str {
    match verdict {
        SharingVerdict::FalseSharing => "false sharing",
        SharingVerdict::TrueSharing => "true sharing",
        SharingVerdict::Both => "true and false sharing",
        SharingVerdict::OneThread => "one thread",
        SharingVerdict::InTurn => "one thread at a time",
        SharingVerdict::ReadOnly => "read only",
        SharingVerdict::NotEnough => "not enough hits",
        SharingVerdict::Inconclusive => "inconclusive",
    }
}

/// What follows from a verdict.
pub(crate) fn consequence(verdict: SharingVerdict) -> &'static str {
    match verdict {
        SharingVerdict::FalseSharing => {
            "threads use different words of one cache line, which moves between them. Give each thread's word its \
             own cache line"
        }
        SharingVerdict::TrueSharing => "threads use the same words: another layout does not help",
        SharingVerdict::Both => {
            "some words are used by several threads, others by one. Move the words of one thread to another cache \
             line"
        }
        SharingVerdict::OneThread => "one thread uses the line",
        SharingVerdict::InTurn => "each thread was done before the next began",
        SharingVerdict::ReadOnly => "threads only read the line, so each cache keeps a copy",
        SharingVerdict::NotEnough => "too few hits for a verdict",
        SharingVerdict::Inconclusive => "several verdicts are possible",
    }
}

/// What a verdict rests on.
pub(super) fn evidence(line: &CacheLine) -> String {
    let mut parts = vec![
        format!("{} of {}", counted(line.hits, "hit"), counted(line.threads.len(), "thread")),
        format!("{} by a thread other than the word's main one", percents(line.foreign_share)),
    ];
    if line.records > 1 && !line.is_estimate {
        let of = (line.records - 1) as f64;
        parts.push(format!(
            "the thread changed from hit to hit in {} of {}",
            percents(line.handovers as f64 / of),
            count(line.records - 1)
        ));
    }
    if line.writes_only {
        parts.push("reads were not watched".to_owned());
    }
    if line.other_processes > 0 {
        parts.push("other processes use the same address, shared memory or not".to_owned());
    }
    parts.join(", ")
}

pub(crate) fn verdict_word(verdict: SharingVerdict) -> &'static str {
    match verdict {
        SharingVerdict::FalseSharing => "false_sharing",
        SharingVerdict::TrueSharing => "true_sharing",
        SharingVerdict::Both => "both",
        SharingVerdict::OneThread => "one_thread",
        SharingVerdict::InTurn => "in_turn",
        SharingVerdict::ReadOnly => "read_only",
        SharingVerdict::NotEnough => "not_enough",
        SharingVerdict::Inconclusive => "inconclusive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::watch::ArmedBlock;

    #[test]
    fn where_hits_took_all_of_the_time_the_slowdown_says_so() {
        let block = ArmedBlock { hits: vec![4000], ..ArmedBlock::default() };
        let info = WatchInfo {
            blocks: vec![block],
            hit_cost: Some(HitCost { ns: 15e3, ..HitCost::default() }),
            target_cpu_ns: Some(59_000_000),
            most_slowdown: Some(0.1),
            ..WatchInfo::default()
        };
        let all =
            "slowdown unknown, hits took all of the CPU time (limit 10% after 100 ms of hits)";
        assert_eq!(slowdown(&info).unwrap(), all);
        let info = WatchInfo { target_cpu_ns: None, ..info };
        assert_eq!(slowdown(&info).unwrap(), "slowdown unknown (limit 10% after 100 ms of hits)");
    }

    #[test]
    fn shares_are_all_or_none_only_where_they_are() {
        let shown: Vec<String> = [0.0, 1e-9, 0.5, 0.999_99, 1.0].into_iter().map(of_all).collect();
        assert_eq!(shown, ["0.00%", "<0.01%", "50.00%", ">99.99%", "100.00%"]);
    }
}
