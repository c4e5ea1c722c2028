//! The processor, the nodes, and what can count.

use std::collections::BTreeMap;

use pmuscope_machine::{Cache, Facts, Frequency, PmuFacts, Topology};

use super::section::{FactList, cpus, groups, join};
use crate::{Cell, Column, Paint, Style, Table, escape, number};

pub(super) fn processor(facts: &Facts, style: &Style) -> String {
    let mut section = FactList::new("Processor", style);
    section.line("model", &model(facts));
    section.line("CPUs", &threads(facts));
    section.line("caches", &caches(&facts.caches));
    let topology = &facts.topology;
    let (caches, dies) = (topology.l3_groups(), topology.die_groups());
    if topology.cpus.iter().any(|cpu| cpu.l3.is_some()) {
        section.line("L3 groups", &format!("{}: {}", caches.len(), groups(&caches)));
    }
    if dies.len() > topology.package_groups().len() {
        section.line("dies", &format!("{}: {}", dies.len(), groups(&dies)));
    }
    section.line("clock", &clock(&facts.frequency));
    section.finish()
}

fn model(facts: &Facts) -> String {
    let processor = &facts.processor;
    let part = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("{name} {}", escape(value)))
    };
    let parts = [
        processor.vendor.as_ref().map(|vendor| escape(vendor).into_owned()),
        part("family", &processor.family),
        part("model", &processor.model),
        part("stepping", &processor.stepping),
        part("microcode", &processor.microcode),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if text.is_empty() { "-".to_owned() } else { text }
}

fn threads(facts: &Facts) -> String {
    let topology = &facts.topology;
    let offline = topology.possible.difference(&topology.online);
    let smt = match (facts.smt.active, facts.smt.control.as_deref()) {
        (true, _) => format!("SMT on ({} threads per core)", facts.smt.threads_per_core),
        (false, Some("notsupported" | "notimplemented") | None) => "no SMT".to_owned(),
        (false, Some(_)) => "SMT off".to_owned(),
    };
    let sockets = topology.package_groups().len();
    join([
        Some(format!("online {}", cpus(&topology.online))),
        (!offline.is_empty()).then(|| format!("offline or absent {}", cpus(&offline))),
        Some(number::counted(topology.core_groups().len(), "core")),
        Some(number::counted(sockets, "package")),
        Some(smt),
    ])
}

fn caches(caches: &[Cache]) -> String {
    if caches.is_empty() {
        return "-".to_owned();
    }
    let one = |cache: &Cache| {
        let kind = match cache.kind.as_str() {
            "data" => "d",
            "instruction" => "i",
            _ => "",
        };
        format!("L{}{kind} {} × {}", cache.level, cache.count, number::bytes(cache.bytes))
    };
    caches.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn clock(frequency: &Frequency) -> String {
    if let Some(why) = &frequency.why {
        return format!("- ({})", escape(why));
    }
    let one = frequency.governors.len() == 1;
    let governors: Vec<String> = frequency
        .governors
        .iter()
        .map(|governor| match one {
            true => format!("governor {}", escape(&governor.name)),
            false => format!("governor {} on {}", escape(&governor.name), cpus(&governor.cpus)),
        })
        .collect();
    let boost = frequency.boost.map(|on| if on { "boost on" } else { "boost off" });
    join([
        frequency.driver.as_deref().map(|driver| escape(driver).into_owned()),
        (!governors.is_empty()).then(|| governors.join(", ")),
        boost.map(str::to_owned),
        frequency
            .max_khz
            .map(|khz| format!("up to {} GHz", number::significant(khz as f64 / 1e6, 3))),
    ])
}

/// Memory of the machine; both figures where that of the kernel and the sum of its nodes differ.
pub(crate) fn memory(total: Option<u64>, of_nodes: Option<u64>) -> String {
    match (total.map(number::bytes), of_nodes.map(number::bytes)) {
        (Some(total), Some(nodes)) if total != nodes => {
            format!("{total} (MemTotal; nodes report {nodes}, as under a balloon driver)")
        }
        (Some(memory), _) | (None, Some(memory)) => memory,
        (None, None) => "-".to_owned(),
    }
}

/// Nodes with their memory, CPUs and distances as a matrix.
pub(crate) fn nodes(topology: &Topology, style: &Style) -> String {
    let nodes = &topology.nodes;
    let far = nodes.len() > 1;
    let mut columns = vec![
        Column::number("node"),
        Column::number("memory"),
        Column::number("free").optional(1),
        Column::text("CPUs").shrink_end(),
    ];
    if far {
        let to: Vec<String> = nodes.iter().map(|node| format!("{:>3}", node.id)).collect();
        columns.insert(3, Column::text(format!("distance to {}", to.join(" "))));
    }
    let mut table = Table::new(columns).indent(2);
    for node in nodes {
        let mut cells = vec![
            Cell::new(node.id.to_string()),
            Cell::measured(node.memory_bytes, number::bytes),
            Cell::measured(node.free_bytes, number::bytes),
            Cell::new(cpus(&node.cpus)),
        ];
        if far {
            // Under the numbers of the head.
            let to: Vec<String> = node.distances.iter().map(|d| format!("{d:>3}")).collect();
            cells.insert(3, Cell::new(format!("{:12}{}", "", to.join(" "))));
        }
        table.row(cells);
    }
    format!("{}\n{}", style.paint(Paint::Bold, "NUMA nodes"), table.render(style))
}

pub(super) fn units(facts: &Facts, style: &Style) -> String {
    let title = style.paint(Paint::Bold, "Counters").into_owned();
    let mut table = Table::new([
        Column::text("unit"),
        Column::text("type").optional(2),
        Column::number("named events").optional(1),
        Column::text("counts for").shrink_end(),
    ])
    .indent(2);
    for ((_, is_core), units) in families(&facts.units.units) {
        let first = units[0];
        let range = match units.as_slice() {
            [_] => first.type_number.to_string(),
            [.., last] => format!("{}…{}", first.type_number, last.type_number),
            [] => String::new(),
        };
        table.row([
            family_name(&units),
            range,
            first.named_events.to_string(),
            scope(facts, first, is_core),
        ]);
    }
    let mut text = format!("{title}\n");
    if !table.is_empty() {
        text += &table.render(style);
    }
    if let Some(counters) = facts.units.counters {
        let fixed = match counters.fixed {
            0 => String::new(),
            fixed => format!(" and {fixed} fixed"),
        };
        let line = format!("  each core has {} general{fixed} counters\n", counters.general);
        text += &line;
    } else if let Some(why) = &facts.units.why {
        text += &format!("  no hardware counters: {}\n", escape(why));
    }
    text
}

/// Units of one kind, such as the 60 of `uncore_cha_0` to `uncore_cha_59`, in one row.
fn families(units: &[PmuFacts]) -> BTreeMap<(String, bool), Vec<&PmuFacts>> {
    let mut families: BTreeMap<(String, bool), Vec<&PmuFacts>> = BTreeMap::new();
    for unit in units {
        let name = unit.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = if name.ends_with('_') { name } else { &unit.name };
        families.entry((name.to_owned(), unit.is_core)).or_default().push(unit);
    }
    for units in families.values_mut() {
        units.sort_by_key(|unit| unit.type_number);
    }
    families
}

fn family_name(units: &[&PmuFacts]) -> String {
    match units {
        [one] => escape(&one.name).into_owned(),
        [first, ..] => {
            let name = first.name.trim_end_matches(|c: char| c.is_ascii_digit());
            format!("{}* ({})", escape(name), units.len())
        }
        [] => String::new(),
    }
}

fn scope(facts: &Facts, unit: &PmuFacts, is_core: bool) -> String {
    let place = match (&unit.cpumask, &unit.cpus) {
        (Some(mask), _) => format!("whole package or machine, read on CPU {}", cpus(mask)),
        (None, Some(some)) if *some != facts.topology.online => format!("CPUs {}", cpus(some)),
        _ => "each CPU".to_owned(),
    };
    let branches = unit.branches.map(|depth| format!("branch stack, {depth} entries"));
    join([Some(place), is_core.then(|| "cycles, instructions".to_owned()), branches])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_nodes_is_named_where_it_differs() {
        let gib = |gib: u64| Some(gib << 30);
        assert_eq!(memory(gib(24), gib(24)), "24 GiB");
        assert_eq!(memory(gib(24), None), "24 GiB");
        assert_eq!(memory(None, gib(10)), "10 GiB");
        let both = memory(gib(24), gib(10));
        assert!(both.starts_with("24 GiB (MemTotal") && both.contains("10 GiB"), "{both}");
        assert_eq!(memory(None, None), "-");
    }
}
