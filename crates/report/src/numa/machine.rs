//! NUMA facts of a machine: nodes, kernel settings, kernel counters.

use crate::report::Report;
use pmuscope_machine::{AccessClass, Kernel, NumaFacts, NumaNode, Sign, Topology};
use serde::Serialize;

use crate::doctor::hardware;
use crate::doctor::section::{FactList, cpus, join};
use crate::sheet::{Field, Separator, Sheet};
use crate::{Cell, Column, Paint, Style, Table, escape, number, wrap_lines};

/// The result of `pmuscope numa show`.
#[derive(Debug, Serialize)]
pub struct NumaShow<'a> {
    /// Of placement.
    #[serde(flatten)]
    pub facts: &'a NumaFacts,
    /// CPUs and nodes; JSON has them with the machine.
    #[serde(skip)]
    pub topology: &'a Topology,
    /// The kernel that reports it.
    #[serde(skip)]
    pub kernel: &'a Kernel,
    /// What translates the machine's instructions, if the CPU itself does not run them.
    #[serde(skip)]
    pub emulator: Option<&'a Sign>,
}

/// The page for people.
pub(super) fn numa_text(show: &NumaShow<'_>, style: &Style) -> String {
    let sections = [
        wrap_lines(&style.text(&headline(show)), style.width, 2),
        hardware::nodes(show.topology, style),
        access(show, style),
        taken(&show.facts.nodes, style),
        balancing(show.facts, style),
        sources(show.facts, style),
        counters(show.facts, style),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|s| !s.is_empty()).collect();
    sections.join("\n")
}

fn headline(show: &NumaShow<'_>) -> String {
    let nodes = &show.facts.nodes;
    let of_nodes: Option<u64> = nodes.iter().map(|node| node.node.memory_bytes).sum();
    let without = |kind: &str, count: usize| {
        (count > 0).then(|| format!("{} without {kind}", number::count(count as u64)))
    };
    let first = join([
        Some(format!(
            "{}, {}, {}",
            number::counted(nodes.len(), "NUMA node"),
            number::counted(show.topology.online.len(), "CPU"),
            hardware::memory(show.facts.memory_bytes, of_nodes)
        )),
        without("CPUs", nodes.iter().filter(|node| !node.has_cpus).count()),
        without("memory", nodes.iter().filter(|node| !node.has_memory).count()),
        Some(format!("Linux {} {}", escape(&show.kernel.release), escape(&show.kernel.arch))),
    ]);
    let emulated = show.emulator.map(|sign| {
        format!("emulated ({}): remote memory is as fast as local", escape(&sign.name))
    });
    let second = join([
        (nodes.len() == 1)
            .then(|| "one NUMA node: all memory is local, nothing to place".to_owned()),
        emulated,
        Some("kernel settings and counters, nothing measured".to_owned()),
    ]);
    format!("{first}\n{second}\n")
}

fn titled(title: &str, style: &Style, table: &Table) -> String {
    format!("{}\n{}", style.paint(Paint::Bold, &style.text(title)), table.render(style))
}

/// Latency and bandwidth as firmware reports them.
fn access(show: &NumaShow<'_>, style: &Style) -> String {
    let mut table = Table::new([
        Column::number("node"),
        Column::text("nearest initiator"),
        Column::text("from node"),
        Column::number("read MB/s"),
        Column::number("write MB/s"),
        Column::number("read ns"),
        Column::number("write ns"),
    ])
    .indent(2);
    let nodes = &show.facts.nodes;
    for (node, access) in nodes.iter().flat_map(|n| n.access.iter().map(move |a| (n, a))) {
        let twin = |other: &AccessClass| AccessClass { class: access.class, ..other.clone() };
        // The nearest of any kind is mostly the nearest CPU.
        let is_both = |other: &&AccessClass| other.class < access.class && twin(other) == *access;
        if node.access.iter().any(|other| is_both(&other)) {
            continue;
        }
        let value = |value: Option<u64>| Cell::measured(value, number::count);
        table.row([
            Cell::new(node.node.id.to_string()),
            Cell::new(if access.class == 0 { "any" } else { "CPU" }),
            Cell::new(cpus(&access.initiators)),
            value(access.read_bandwidth_mb_s),
            value(access.write_bandwidth_mb_s),
            value(access.read_latency_ns),
            value(access.write_latency_ns),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    let made_up = if show.emulator.is_some() { " (emu)" } else { "" };
    titled(
        &format!("Memory performance reported by firmware (HMAT), not measured{made_up}"),
        style,
        &table,
    )
}

/// Pages taken from each node.
fn taken(nodes: &[NumaNode], style: &Style) -> String {
    let is_known = |node: &NumaNode| {
        node.counters.hit.is_some() || node.tier.is_some() || node.interleave_weight.is_some()
    };
    if nodes.len() < 2 || !nodes.iter().any(is_known) {
        return String::new();
    }
    let title = "Memory tier, interleave weight, page allocations since boot";
    let sheet = node_sheet(nodes).text(style);
    format!("{}\n{sheet}", style.paint(Paint::Bold, &style.text(title)))
}

/// What the kernel has and counted of each node. People see CPUs and memory in a table of their own.
fn node_sheet(nodes: &[NumaNode]) -> Sheet<'_> {
    type Row = NumaNode;
    let fields = vec![
        Field::id("node", |node: &Row| Some(node.node.id)),
        Field::text("cpus", |node: &Row| some(node.node.cpus.to_string())).for_programs(),
        Field::count("memory_bytes", |node: &Row| node.node.memory_bytes).for_programs(),
        Field::count("free_bytes", |node: &Row| node.node.free_bytes).for_programs(),
        Field::count("tier", |node: &Row| node.tier.map(u64::from)).optional(1),
        Field::count("interleave_weight", |node: &Row| node.interleave_weight.map(u64::from))
            .head("weight"),
        Field::count("hit", |node: &Row| node.counters.hit),
        Field::count("miss", |node: &Row| node.counters.miss),
        Field::count("foreign", |node: &Row| node.counters.foreign).optional(2),
        Field::count("interleave", |node: &Row| node.counters.interleave).optional(3),
        Field::count("local", |node: &Row| node.counters.local),
        Field::count("other", |node: &Row| node.counters.other),
    ];
    Sheet::new(fields, nodes, nodes.len()).by_another_order().indented()
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn balancing(facts: &NumaFacts, style: &Style) -> String {
    let mut section = FactList::new("NUMA balancing", style);
    let set = &facts.balancing;
    let Some(mode) = set.mode else {
        section.line("kernel", "- (kernel built without CONFIG_NUMA_BALANCING)");
        return section.finish();
    };
    let what = match (set.is_on() == Some(true), set.is_tiering() == Some(true)) {
        (false, false) => "off: pages stay where they were first touched",
        (true, false) => "pages and tasks move towards each other",
        (false, true) => "hot pages move to faster memory",
        (true, true) => "pages and tasks move towards each other, and hot pages to faster memory",
    };
    section.line("numa_balancing", &format!("{mode}: {what}"));
    let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), number::count);
    section.line("scans", &match &facts.balancing_why {
        Some(why) => format!("- ({})", escape(why)),
        None => format!(
            "{} MB each · first after {} ms of run time, then every {} ms (remote faults) to {} ms (local faults)",
            count(set.scan_size_mb),
            count(set.scan_delay_ms),
            count(set.scan_period_min_ms),
            count(set.scan_period_max_ms)
        ),
    });
    let reused = set.hot_threshold_ms.map(|ms| format!("reused within {} ms", number::count(ms)));
    let limit = set
        .promote_rate_limit_mb_s
        .map(|rate| format!("at most {} MB/s move to faster memory", number::count(rate)));
    let hot: Vec<String> = reused.into_iter().chain(limit).collect();
    if !hot.is_empty() {
        section.line("hot pages", &hot.join(" · "));
    }
    section.finish()
}

/// Where memory comes from.
fn sources(facts: &NumaFacts, style: &Style) -> String {
    let mut section = FactList::new("Memory policy", style);
    let set = &facts.settings;
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let policy = set.own_policy.as_ref().map(|policy| match policy.as_str() {
        "default" => "default: local to the CPU that first touches a page".to_owned(),
        other => escape(other).into_owned(),
    });
    section.line("own policy", &text(policy));
    section.line("own nodes", &text(set.allowed_nodes.as_ref().map(cpus)));
    section.line(
        "zone reclaim",
        &text(set.zone_reclaim_mode.map(|mode| match mode {
            0 => "0: use the next node when one is full".to_owned(),
            mode => format!("{mode}: reclaim on a full node before using the next one"),
        })),
    );
    section.line(
        "demotion",
        &text(set.demotion.map(|on| match on {
            false => "off: reclaim does not move pages to slower memory".to_owned(),
            true => "on: reclaim moves pages to slower memory".to_owned(),
        })),
    );
    section.line(
        "weights",
        match set.weighted_interleave {
            true => "weighted interleaving available (MPOL_WEIGHTED_INTERLEAVE)",
            false => "- (even interleaving only; weights need Linux 6.9)",
        },
    );
    let huge = set.transparent_huge_pages.as_deref().map(|huge| escape(huge).into_owned());
    section.line("huge pages", &text(huge));
    section.finish()
}

fn counters(facts: &NumaFacts, style: &Style) -> String {
    let up = facts.uptime_s.map_or_else(|| "-".to_owned(), number::duration);
    let mut section = FactList::new(&format!("Kernel counters since boot ({up})"), style);
    if let Some(why) = &facts.counters_why {
        section.line("counters", &format!("- ({})", escape(why)));
        return section.finish();
    }
    let counted = &facts.counters;
    let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), number::count);
    let share = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |share| number::percent(share, 1))
    };
    section.line(
        "PTE updates",
        &format!("{} pages, {} huge", count(counted.pte_updates), count(counted.huge_pte_updates)),
    );
    section.line(
        "hint faults",
        &format!(
            "{} · {} local ({})",
            count(counted.hint_faults),
            count(counted.hint_faults_local),
            share(facts.local_share)
        ),
    );
    section.line(
        "pages migrated",
        &format!(
            "{} by balancing · {} total, {} failed",
            count(counted.pages_migrated),
            count(counted.migrate_success),
            count(counted.migrate_fail)
        ),
    );
    section.line(
        "huge pages",
        &format!(
            "{} migrated whole · {} split · {} failed",
            count(counted.thp_migration_success),
            count(counted.thp_migration_split),
            count(counted.thp_migration_fail)
        ),
    );
    section.line(
        "between tiers",
        &format!(
            "{} pages promoted of {} candidates · {} demoted by kswapd, {} by direct reclaim",
            count(counted.promote_success),
            count(counted.promotion_candidates()),
            count(counted.demote_kswapd),
            count(counted.demote_direct)
        ),
    );
    section.line(
        "allocations",
        &match facts.settings.counts_allocations {
            Some(false) => "- (not counted: vm.numa_stat is 0)".to_owned(),
            _ => format!(
                "{} local ({}) · {} remote · {} not on the intended node",
                count(counted.local),
                share(facts.allocated_locally),
                count(counted.other),
                count(counted.miss)
            ),
        },
    );
    section.finish()
}

impl Report for NumaShow<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        super::NUMA_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        numa_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(node_sheet(&self.facts.nodes).delimited(separator))
    }
}
