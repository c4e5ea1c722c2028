//! What would be better for a process, why, and what to type.

use crate::report::Report;
use pmuscope_numa::advise::sharing::{BLOCK, Sharing};
use pmuscope_numa::advise::{Advice, Cost, Evidence, Gathered, NodeEvidence, Suggestion, Verdict};
use serde::Serialize;

use crate::doctor::section::{FactList, join};
use crate::sheet::{Field, Separator, Sheet};
use crate::{Paint, Style, escape, escape_bytes, number, wrap, wrap_lines};

/// An advice with all that it rests on.
#[derive(Debug, Serialize)]
pub struct AdviceReport<'a> {
    /// The process.
    pub pid: u32,
    /// Its name, escaped.
    pub name: String,
    /// It ended while it was looked at.
    pub ended: bool,
    /// Verdict and reasons.
    #[serde(flatten)]
    pub advice: &'a Advice,
    /// What to type to try it.
    pub commands: &'a [Suggestion],
    /// Share of its memory that its threads reach locally if each uses all of it alike.
    pub locality: Option<f64>,
    /// Share of what was used twice that several threads used.
    pub shared_share: Option<f64>,
    /// Share of the sampled uses that were local.
    pub local_uses_share: Option<f64>,
    /// What was seen.
    pub evidence: &'a Evidence,
    /// What looking cost.
    pub cost: CostReport,
    /// What translates the machine's instructions, if the CPU itself does not run them.
    pub emulator: Option<&'a str>,
}

/// What looking at a process cost.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CostReport {
    /// CPU time, seconds.
    pub cpu_s: f64,
    /// Times that it was looked at.
    #[serde(rename = "looks")]
    pub observations: u64,
    /// Pages asked for.
    pub pages_asked: u64,
    /// One in so many minor faults was sampled.
    pub fault_period: Option<u64>,
    /// Samples lost.
    pub lost: u64,
    /// Times that the kernel suspended sampling.
    pub throttled: u64,
}

impl From<Cost> for CostReport {
    fn from(cost: Cost) -> Self {
        Self {
            cpu_s: cost.cpu_ns as f64 / 1e9,
            observations: cost.observations,
            pages_asked: cost.pages_asked,
            fault_period: cost.period,
            lost: cost.missed.lost,
            throttled: cost.missed.throttled,
        }
    }
}

impl<'a> AdviceReport<'a> {
    /// Of a process that was looked at.
    #[must_use]
    pub fn new(
        pid: u32,
        gathered: &'a Gathered,
        advice: &'a Advice,
        commands: &'a [Suggestion],
        emulator: Option<&'a str>,
    ) -> Self {
        let evidence = &gathered.evidence;
        let sharing = evidence.sharing.as_ref();
        Self {
            pid,
            name: escape_bytes(&gathered.name).into_owned(),
            ended: gathered.ended,
            advice,
            commands,
            locality: evidence.locality(),
            shared_share: sharing.and_then(Sharing::shared_share),
            local_uses_share: sharing.and_then(Sharing::local_share),
            evidence,
            cost: gathered.cost.into(),
            emulator,
        }
    }
}

impl Report for AdviceReport<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        super::ADVICE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        advice_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(node_sheet(self).delimited(separator))
    }
}

/// The page for people.
#[must_use]
pub(super) fn advice_text(report: &AdviceReport<'_>, style: &Style) -> String {
    let sections = [
        head(report, style),
        verdict(report, style),
        nodes(report, style),
        seen(report, style),
        to_try(report, style),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|s| !s.is_empty()).collect();
    sections.join("\n")
}

fn head(report: &AdviceReport<'_>, style: &Style) -> String {
    let (evidence, cost) = (report.evidence, &report.cost);
    let first = format!(
        "{} ({}): {}, {:.2} CPUs busy, {} on {}, {}{}",
        report.name,
        report.pid,
        number::counted(evidence.threads, "thread"),
        evidence.own_cpus(),
        size(evidence.bytes()),
        number::counted(evidence.nodes.len(), "NUMA node"),
        number::duration(evidence.seconds),
        if report.ended { ", until it ended" } else { "" }
    );
    let of_a_cpu = (evidence.seconds > 0.0).then(|| cost.cpu_s / evidence.seconds);
    let faults = match (cost.fault_period, &evidence.sharing) {
        (Some(1), Some(sharing)) => format!("all {} sampled", faults(sharing.faults)),
        (Some(period), Some(sharing)) => {
            format!("{} sampled, 1 in {}", faults(sharing.faults), number::count(period))
        }
        _ => "no faults sampled".to_owned(),
    };
    let second = join([
        Some(format!(
            "overhead: {} of one CPU",
            of_a_cpu.map_or_else(|| "-".to_owned(), |share| number::percent(share, 2))
        )),
        Some(format!(
            "{}, {} pages queried",
            number::counted(cost.observations, "snapshot"),
            number::count(cost.pages_asked)
        )),
        Some(faults),
        Some(format!("lost {}", number::count(cost.lost))),
        Some(format!("throttled {}", number::count(cost.throttled))),
        report
            .emulator
            .map(|name| format!("emulated ({}): remote memory is as fast as local", escape(name))),
    ]);
    wrap_lines(&style.text(&format!("{first}\n{second}\n")), style.width, 2)
}

fn faults(number: u64) -> String {
    number::counted(number, "minor fault")
}

fn size(bytes: f64) -> String {
    number::bytes(bytes.round() as u64)
}

/// What it is, and why.
fn verdict(report: &AdviceReport<'_>, style: &Style) -> String {
    let verdict = &report.advice.verdict;
    let what = format!("{}{}", verdict.name(), how(verdict));
    let paint = match verdict {
        Verdict::LeaveAlone => Paint::Good,
        Verdict::Unknown { .. } => Paint::Warn,
        _ => Paint::Bold,
    };
    let mut text = format!("{}\n", style.paint(paint, &wrap(&style.text(&what), style.width, 2)));
    for reason in &report.advice.reasons {
        text += &format!("  - {}\n", wrap(&style.text(&escape(reason)), style.width, 4));
    }
    text
}

fn how(verdict: &Verdict) -> String {
    let list = |nodes: &[u32]| {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        nodes.join(",")
    };
    match verdict {
        Verdict::Compact { node, threads: true, pages: false } => {
            format!(": threads to node {node}, where the memory is")
        }
        Verdict::Compact { node, threads: false, .. } => {
            format!(": memory to node {node}, where the threads are")
        }
        Verdict::Compact { node, .. } => format!(": threads and memory to node {node}"),
        Verdict::SpreadProcess { from, to } => {
            format!(": threads and memory from node {from} to node {to}, which is idle")
        }
        Verdict::SpreadThreads { nodes } => {
            format!(": threads over nodes {}, each close to its own memory", list(nodes))
        }
        Verdict::Interleave { nodes } => {
            format!(": pages round-robin over nodes {}, threads too", list(nodes))
        }
        Verdict::LeaveAlone | Verdict::Unknown { .. } => String::new(),
    }
}

fn nodes(report: &AdviceReport<'_>, style: &Style) -> String {
    let title = format!(
        "NUMA nodes: busy CPUs and memory, means over {}",
        number::duration(report.evidence.seconds)
    );
    format!("{}\n{}", style.paint(Paint::Bold, &title), node_sheet(report).text(style))
}

/// What each node has and does.
fn node_sheet<'a>(report: &AdviceReport<'a>) -> Sheet<'a> {
    type Row = NodeEvidence;
    let (nodes, all) = (&report.evidence.nodes, report.evidence.bytes());
    let share = move |node: &Row| (all > 0.0).then(|| node.own_bytes / all);
    // Two decimals: a short observation resolves hundredths of a CPU.
    let cpus = |key, get: fn(&Row) -> Option<f64>| {
        Field::number(key, get)
            .shown_if_known(move |node| get(node).map(|cpus| number::fixed(cpus, 2)))
    };
    let bytes = |key, get: fn(&Row) -> Option<f64>| {
        Field::number(key, get).shown_if_known(move |node| get(node).map(size))
    };
    let fields = vec![
        Field::id("node", |node: &'a Row| Some(node.id)),
        Field::count("cpus", |node: &Row| node.cpus).head("CPUs").optional(4),
        cpus("busy_cpus", |node| node.busy_cpus).head("busy").optional(3),
        cpus("own_cpus", |node| Some(node.own_cpus)).head("own"),
        cpus("others_cpus", NodeEvidence::others_cpus).head("others").optional(2),
        bytes("own_bytes", |node| Some(node.own_bytes)).head("own memory"),
        Field::part("share", share)
            .head("share")
            .shown_if_known(move |node| share(node).map(|share| number::percent(share, 1)))
            .column("own_bytes_share"),
        Field::count("free_bytes", |node: &Row| node.free_bytes)
            .head("free")
            .shown_if_known(|node| node.free_bytes.map(number::bytes))
            .optional(1),
        Field::number("bandwidth", |node: &Row| node.bandwidth)
            .shown_if_known(|node| node.bandwidth.map(|rate| format!("{}/s", size(rate))))
            .optional(5),
        Field::text("allowed_cpus", |node: &'a Row| {
            Some(&*node.cpu_list).filter(|list| !list.is_empty())
        })
        .head("allowed CPUs")
        .shown_as(|node| allowed(node).into())
        .sentence(),
        Field::flag("may_take", |node: &Row| node.may_take).column("memory_allowed").for_programs(),
    ];
    Sheet::new(fields, nodes, nodes.len()).by_another_order().indented()
}

fn allowed(node: &NodeEvidence) -> String {
    let cpus = if node.cpu_list.is_empty() { "-" } else { &node.cpu_list };
    match node.may_take {
        true => cpus.to_owned(),
        false => format!("{cpus}, no memory from here (cpuset)"),
    }
}

fn seen(report: &AdviceReport<'_>, style: &Style) -> String {
    let evidence = report.evidence;
    let mut section = FactList::new("Evidence", style);
    let locality = report.locality.map(|locality| match evidence.locality_half {
        Some(half) if half > 0.0 => number::interval(locality, half),
        _ => number::fixed(locality, 2),
    });
    section.line(
        "locality",
        &match locality {
            Some(locality) => format!("{locality} if every thread uses all memory alike"),
            None => "-".to_owned(),
        },
    );
    let why = evidence.sharing_why.as_deref().unwrap_or("too short to sample any");
    match &evidence.sharing {
        None => section.line("faults", &format!("- ({})", escape(why))),
        Some(sharing) => {
            section.line("faults", &format!(
                "{} sampled: {} first touches · {} uses of resident pages{} · {} of pages not queried",
                number::count(sharing.faults),
                number::count(sharing.first_touches),
                number::count(sharing.uses),
                report.local_uses_share.map_or_else(String::new, |share| {
                    format!(", {} local", number::percent(share, 1))
                }),
                number::count(sharing.unknown)
            ));
            section.line("sharing", &shared(report, sharing));
        }
    }
    section.line(
        "balancing",
        match evidence.balancing {
            Some(true) => "on: the kernel moves pages and tasks as well",
            Some(false) => "off: uses of resident pages do not fault",
            None => "- (not in this kernel)",
        },
    );
    if let Some(shares) = evidence.shares {
        let how = if shares { "shared" } else { "private" };
        section.line("memory", &format!("{how} (--sharing)"));
    }
    if evidence.pinned_apart {
        section.line("affinity", "set per thread; threads keep theirs");
    } else if evidence.is_bound {
        section.line("affinity", "set: it may not run on all CPUs of its cpuset");
    }
    let why = evidence.bandwidth_why.as_deref().unwrap_or_default();
    if evidence.nodes.iter().all(|node| node.bandwidth.is_none()) {
        section.line("bandwidth", &format!("- ({})", escape(why)));
    }
    section.finish()
}

fn shared(report: &AdviceReport<'_>, sharing: &Sharing) -> String {
    let what = if sharing.granule_bytes == BLOCK { "blocks of 2 MiB" } else { "pages" };
    let judged = number::count(sharing.judged);
    match report.shared_share {
        Some(share) => format!(
            "{} of {judged} {what} used twice were used by several threads",
            number::percent(share, 1)
        ),
        None => format!("- ({judged} {what} were used twice, too few)"),
    }
}

fn to_try(report: &AdviceReport<'_>, style: &Style) -> String {
    if report.commands.is_empty() {
        return String::new();
    }
    let widest = report.commands.iter().map(|command| command.type_this.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", style.paint(Paint::Bold, "To try"));
    for command in report.commands {
        // Never broken: it is there to be copied.
        let beside = 2 + widest + 2 + command.does.chars().count();
        text += &match style.width.is_some_and(|width| beside > width) {
            true => {
                format!("  {}\n      {}\n", command.type_this, wrap(&command.does, style.width, 6))
            }
            false => format!("  {:<widest$}  {}\n", command.type_this, command.does),
        };
    }
    text
}
