//! Lines in words.

use pmuscope_perfdata::reader::AccessClass;
use pmuscope_profile::hits::SharingVerdict;
use pmuscope_profile::sharing::{LineMapping, LineOffset, LinePage, SharedLine, SharedLines};
use pmuscope_stats::Interval;

use super::{SharingView, heap};
use crate::escape;
use crate::number::{agree, count, counted, percent, percent_estimate, significant};

/// Processes of a line by physical address that are named.
const MOST_MAPPINGS: usize = 4;

/// Whether another cache's state is known to be "modified" (HITM), or not known (Arm).
pub(super) fn contended_word(found: &SharedLines) -> &'static str {
    let sums = &found.memory.sums;
    let of = |class| sums.of_class(class);
    let peers = of(AccessClass::LoadLocalPeer) + of(AccessClass::LoadRemotePeer);
    if peers > 0 { "contended" } else { "HITM" }
}

/// `1,234 HITM loads (12.3% of 10,000 loads, 400 remote), 3,456 stores, 21 cache lines`.
pub(super) fn summary(view: &SharingView<'_>) -> String {
    let (found, memory) = (view.found, &view.found.memory);
    let (loads, contended) = (memory.sums.loads(), memory.sums.contended());
    let remote = memory.sums.remote();
    let share = contended as f64 / loads.max(1) as f64;
    let lines = found.lines.len() + found.further_lines;
    let stores = match memory.sums.stores() {
        0 => "no stores sampled".to_owned(),
        stores => counted(stores, "store"),
    };
    let mut text = format!(
        "{} {} {} ({} of {}, {} remote), {stores}; {} with them",
        count(contended),
        contended_word(found),
        if contended == 1 { "load" } else { "loads" },
        percent(share, 1),
        counted(loads, "load"),
        count(remote),
        counted(lines as u64, "cache line"),
    );
    if let Some(mean) = memory.sums.contended_mean() {
        let other = memory.sums.other_mean().map(|mean| significant(mean, 3));
        let other = other.map_or_else(String::new, |other| format!(", {other} of other loads"));
        text.push_str(&format!("; mean latency {} cycles{other}", significant(mean, 3)));
    }
    if memory.without_physical > 0 {
        let number = memory.without_physical;
        let verb = agree(number, "has", "have");
        text.push_str(&format!(
            "; {} ({} {}) {verb} no physical address and {} in no line",
            counted(number, "access"),
            count(memory.contended_without_physical),
            contended_word(found),
            agree(number, "is", "are")
        ));
    }
    if memory.without_address > 0 {
        let number = memory.without_address;
        let verb = agree(number, "has", "have");
        text.push_str(&format!("; {} {verb} no address", counted(number, "access")));
    }
    text
}

/// Of which accesses samples are, as the names of their events say: shares hold for these alone. `None` of other events.
pub(super) fn population(view: &SharingView<'_>) -> Option<String> {
    let events = view.view.profile.events.iter();
    population_of(&events.map(|event| &*event.name).collect::<Vec<_>>())
}

pub(super) fn population_of(names: &[&str]) -> Option<String> {
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    if has("ibs_op") || has("arm_spe") {
        let unit = if has("ibs_op") { "IBS" } else { "SPE" };
        return Some(format!(
            "samples are of all operations ({unit}), loads and stores among them"
        ));
    }
    let loads = names.iter().find(|name| name.contains("mem-loads") && !name.contains("-aux"))?;
    let limit = loads
        .split_once("ldlat=")
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    let which = match limit.filter(|digits| !digits.is_empty()) {
        Some(cycles) => format!("loads of {cycles} cycles or longer (PEBS)"),
        None => "loads above the latency limit of their event (PEBS)".to_owned(),
    };
    let stores =
        if has("mem-stores") { ", and of stores by another event at its own rate" } else { "" };
    Some(format!("samples are of {which}{stores}"))
}

/// See [`SharingView::nothing`].
pub(super) fn nothing(found: &SharedLines) -> Option<String> {
    let memory = &found.memory;
    if !found.lines.is_empty() {
        return None;
    }
    Some(match memory {
        _ if memory.samples == 0 => "no samples".to_owned(),
        _ if memory.accesses == 0 => format!(
            "none of {} says what was accessed. Try: pmuscope record --sharing -- CMD; on a CPU without PEBS or IBS, \
             pmuscope watch",
            counted(memory.samples, "sample")
        ),
        _ if memory.sums.contended() == 0 => format!(
            "none of {} was of a line that another core had modified (HITM): no contention, or a CPU that does not \
             report it (AMD Zen 3, some Arm cores)",
            counted(memory.sums.loads(), "load")
        ),
        _ if memory.contended_without_physical > 0 => format!(
            "none of {} has a physical address. Try: pmuscope sharing without --physical",
            counted(memory.sums.contended(), "contended load")
        ),
        _ => "contended loads have no data addresses".to_owned(),
    })
}

/// `0x7f1200000040`.
pub(super) fn address(line: &SharedLine) -> String {
    format!("{:#x}", line.address)
}

/// What no other line is called: its physical address, where lines are by that.
pub(super) fn name(line: &SharedLine) -> String {
    line.physical.map_or_else(|| address(line), |physical| format!("{physical:#x}"))
}

/// The variables in a line, its heap objects by allocation site, or what memory it is of: `counters`, `[heap]`,
/// `libx.so.1`.
pub(super) fn object(found: &SharedLines, line: &SharedLine) -> String {
    let mut names: Vec<&str> =
        line.offsets.iter().filter_map(|offset| offset.object.as_deref()).collect();
    names.dedup();
    let mut names: Vec<String> = names.iter().map(|name| escape(name).into_owned()).collect();
    names.extend(heap::names(found, line));
    match &names[..] {
        [] => memory(line),
        [one] => one.clone(),
        [one, two] => format!("{one}, {two}"),
        [one, two, more @ ..] => format!("{one}, {two}, {} more", count(more.len() as u64)),
    }
}

/// The variable at an offset, with its field: `queue.slots[1].value`; without a variable the type of the object, as code
/// accesses it: `(struct queue).count`.
pub(super) fn data(offset: &LineOffset) -> Option<String> {
    let field = offset.field.as_deref().unwrap_or_default();
    match (&offset.object, &offset.type_name) {
        (Some(object), _) => Some(format!("{object}{field}")),
        (None, Some(type_name)) => Some(format!("({type_name}){field}")),
        (None, None) => None,
    }
}

/// How much of the memory without variables has names: `fields by code: 1,234 of 1,400 accesses to memory without
/// variables`; `None` where there is none.
pub(super) fn by_code(found: &SharedLines) -> Option<String> {
    let by_code = &found.by_code;
    let all = by_code.all();
    let disagreeing = match by_code.disagreeing {
        0 => String::new(),
        number => format!("; {} as different fields", counted(number, "access")),
    };
    (all > 0).then(|| {
        format!(
            "type and field known from the code for {} of {} to memory without variables{disagreeing}",
            count(by_code.named),
            counted(all, "access"),
        )
    })
}

/// What memory it is of.
pub(super) fn memory(line: &SharedLine) -> String {
    short_module(&line.module)
}

/// A file without its folders; `//anon` is no path.
pub(super) fn short_module(module: &str) -> String {
    let is_path = module.starts_with('/') && !module.starts_with("//");
    let name = module.rsplit('/').find(|part| is_path && !part.is_empty());
    match name.unwrap_or(module) {
        "" => "[unknown]".to_owned(),
        name => escape(name).into_owned(),
    }
}

/// Whose memory it is: ` of process 1234`.
pub(super) fn owner(line: &SharedLine) -> String {
    if let Some(physical) = line.physical {
        let of = |mapping: &LineMapping| match mapping.pid {
            Some(pid) => format!("{:#x} of process {pid}", mapping.address),
            None => format!("{:#x} of the kernel", mapping.address),
        };
        let shown = line.mappings.iter().take(MOST_MAPPINGS).map(of).collect::<Vec<_>>().join(", ");
        let more = match line.mappings.len().saturating_sub(MOST_MAPPINGS) {
            0 => String::new(),
            more => format!(" and {} more", count(more as u64)),
        };
        return format!(" (physical {physical:#x}; {shown}{more})");
    }
    match (line.pid, line.in_kernel) {
        (_, true) => " of the kernel".to_owned(),
        (Some(pid), _) => format!(" of process {pid}"),
        (None, _) => " of a shared file".to_owned(),
    }
}

/// What the verdict rests on.
pub(super) fn evidence(view: &SharingView<'_>, line: &SharedLine) -> String {
    let sums = &line.sums;
    let stores = match view.found.memory.sums.stores() {
        0 => String::new(),
        _ => format!(" and {}", counted(sums.stores(), "store")),
    };
    let mut parts = vec![format!(
        "{} {} ({} remote){stores} of {}",
        count(sums.contended()),
        contended_word(view.found),
        count(sums.remote()),
        counted(line.threads.len() as u64, "thread")
    )];
    parts.extend(page(&line.page));
    if sums.locked > 0 {
        parts.push(format!("{} locked", count(sums.locked)));
    }
    if let Some(share) = line.verdict.false_share {
        let share = shares(share, line.verdict.interval);
        let word = contended_word(view.found);
        parts.push(format!("{share} of the {word} loads of bytes that no other thread writes"));
    }
    if !line.verdict.sees_writes {
        parts.push("no writes were sampled: each word counts as written by all who load it".into());
    }
    parts.join(", ")
}

/// Where its memory is: `memory on NUMA node 1, moved or copied at least twice`; `None` where nothing says it.
fn page(page: &LinePage) -> Option<String> {
    let all: u64 = page.nodes.iter().map(|one| one.1).sum();
    let known: Vec<(u32, u64)> =
        page.nodes.iter().filter_map(|&(node, accesses)| Some((node?, accesses))).collect();
    let share = |(node, accesses): &(u32, u64)| {
        format!("{node} ({} of accesses)", percent(*accesses as f64 / all as f64, 1))
    };
    let on = match &known[..] {
        [] => None,
        [(node, accesses)] if *accesses == all => Some(format!("memory on NUMA node {node}")),
        several => {
            let several: Vec<String> = several.iter().map(share).collect();
            let nodes = if several.len() == 1 { "node" } else { "nodes" };
            Some(format!("memory on NUMA {nodes} {}", several.join(", ")))
        }
    };
    let places = (page.places > 1)
        .then(|| format!("in {} physical pages (moved or copied)", count(page.places.into())));
    match (on, places) {
        (Some(on), Some(places)) => Some(format!("{on}, {places}")),
        (on, places) => on.or(places.map(|places| format!("memory {places}"))),
    }
}

/// `45.0 ± 2.1%`.
fn shares(share: f64, of: Option<Interval>) -> String {
    match of {
        Some(of) => percent_estimate(share, of.low, of.high),
        None => percent(share, 1),
    }
}

/// What another layout can save at most; `None` where that is nothing.
pub(super) fn bound(view: &SharingView<'_>, line: &SharedLine) -> Option<String> {
    let (all, saved) = (view.found.memory.sums.cost, line.verdict.false_cost);
    let is_false =
        matches!(line.verdict.verdict, SharingVerdict::FalseSharing | SharingVerdict::Both);
    (is_false && all > 0 && saved > 0).then(|| {
        format!(
            "Upper bound of the gain: {} of the latency of all {} loads",
            percent(saved as f64 / all as f64, 1),
            contended_word(view.found)
        )
    })
}

/// `0-1`, `0,2`: numbers in order.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut().filter(|(_, last)| last.checked_add(1) == Some(number)) {
            Some(run) => run.1 = number,
            None => runs.push((number, number)),
        }
    }
    let one = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(one).collect::<Vec<_>>().join(",")
}
