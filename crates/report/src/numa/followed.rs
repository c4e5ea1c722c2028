//! Processes followed over time: where their threads ran and their memory lay.

use crate::report::Report;
use std::collections::BTreeMap;

use pmuscope_machine::NumaCounters;
use pmuscope_numa::timeline::{Observation, ProcessLook, Share};
use serde::Serialize;

use crate::{Cell, Column, Style, Table, escape, number};

/// Rows of the table over time.
const MOST_LOOKS: usize = 24;
/// Rows of the table of processes.
const MOST_PROCESSES: usize = 20;

/// What was followed, and how it went.
#[derive(Debug, Serialize)]
pub struct Followed<'a> {
    /// Numbers of the nodes, in the order of all amounts by node.
    pub nodes: &'a [u32],
    /// Seconds between two looks, as asked.
    pub interval_s: f64,
    /// Seconds from the first look to the last.
    pub seconds: f64,
    /// CPU seconds that looking took, all together.
    pub cost_s: f64,
    /// Looks, in the order of time.
    pub looks: &'a [Observation],
    /// Processes that could not be looked at, with the reason.
    pub refused: &'a BTreeMap<u32, String>,
    /// What the kernel counted on the whole machine from the first look to the last.
    pub counters: Option<NumaCounters>,
    /// What translates the machine's instructions, if the CPU itself does not run them.
    pub emulator: Option<&'a str>,
    /// The command line, for the page.
    #[serde(skip)]
    pub command: String,
}

impl<'a> Followed<'a> {
    /// Of these looks.
    #[must_use]
    pub fn new(
        (nodes, interval_s): (&'a [u32], f64),
        looks: &'a [Observation],
        refused: &'a BTreeMap<u32, String>,
        counters: Option<NumaCounters>,
        emulator: Option<&'a str>,
    ) -> Self {
        let seconds = looks.last().map_or(0.0, |look| look.at_s);
        let cost_s = looks.iter().map(|look| look.cost_ns as f64 / 1e9).sum();
        let command = String::new();
        Self { nodes, interval_s, seconds, cost_s, looks, refused, counters, emulator, command }
    }

    /// Each process with the first and the last look that saw it.
    pub(super) fn processes(&self) -> Vec<(&'a ProcessLook, &'a ProcessLook)> {
        let mut found: BTreeMap<u32, (&ProcessLook, &ProcessLook)> = BTreeMap::new();
        for process in self.looks.iter().flat_map(|look| &look.processes) {
            found
                .entry(process.pid)
                .and_modify(|(_, last)| *last = process)
                .or_insert((process, process));
        }
        let mut all: Vec<_> = found.into_values().collect();
        let bytes = |process: &ProcessLook| process.bytes.iter().sum::<f64>();
        all.sort_by(|a, b| bytes(b.1).total_cmp(&bytes(a.1)).then(a.1.pid.cmp(&b.1.pid)));
        all
    }

    /// Whose looks they are, escaped.
    pub(super) fn who(&self) -> String {
        match &self.processes()[..] {
            [] => "no process".to_owned(),
            [(_, one)] => format!("{} ({})", escape(&one.name), one.pid),
            [(_, first), others @ ..] => {
                format!("{} ({}) and {} more", escape(&first.name), first.pid, others.len())
            }
        }
    }

    /// `15 looks about 100 ms apart`.
    pub(super) fn how_often(&self) -> String {
        let looks = number::counted(self.looks.len(), "look");
        match self.looks.len() {
            0 | 1 => looks,
            _ => format!("{looks} about {} apart", number::duration(self.interval_s)),
        }
    }

    /// Share of a CPU that looking took, and what a look took. The time goes from the first look to the last:
    /// one look less than there are lies in it.
    pub(super) fn cost(&self) -> [String; 2] {
        let looks = self.looks.len() as f64;
        let of_one_cpu = (looks > 1.0 && self.seconds > 0.0)
            .then(|| self.cost_s * (looks - 1.0) / looks / self.seconds);
        let asked: u64 = self.last().iter().flat_map(|look| &look.processes).map(|p| p.asked).sum();
        let each = match self.looks.len() {
            0 => "-".to_owned(),
            n => number::significant(self.cost_s / n as f64 * 1e3, 3),
        };
        [
            of_one_cpu.map_or("-".to_owned(), |share| number::percent(share, 2)),
            format!("{each} ms a look, {} pages asked for", number::count(asked)),
        ]
    }

    /// The two lines above everything else.
    fn head(&self) -> [String; 2] {
        let [of_one_cpu, each] = self.cost();
        let emulated = self.emulator.map_or(String::new(), |name| {
            format!(" · emulated ({}): the other nodes are as near as the own", escape(name))
        });
        [
            format!(
                "{} on {}, {}, {}",
                self.who(),
                number::counted(self.nodes.len(), "node"),
                number::duration(self.seconds),
                self.how_often()
            ),
            format!(
                "cost: {of_one_cpu} of a CPU ({each}) · memory that may be written to{emulated}"
            ),
        ]
    }

    fn last(&self) -> Option<&'a Observation> {
        self.looks.last()
    }

    /// What a reader should know besides.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.nodes.len() == 1 {
            notes.push("One node: all memory is local, there is nothing to place.".to_owned());
        }
        if let Some((pid, why)) = self.refused.first_key_value() {
            let more = self.refused.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            notes.push(format!("Process {pid} could not be looked at{more}: {}", escape(why)));
        }
        let refused: u64 =
            self.looks.iter().flat_map(|look| &look.processes).map(|process| process.refused).sum();
        if refused > 0 {
            notes.push(format!(
                "Of {} pages the kernel did not tell where they lie; they count nowhere.",
                number::count(refused)
            ));
        }
        notes
    }
}

/// The page for people.
pub(super) fn followed_text(followed: &Followed<'_>, style: &Style) -> String {
    let [first, second] = followed.head();
    let mut out = format!("{}\n{}\n\n", style.text(&first), style.text(&second));
    out += &over_time(followed).render(style);
    let left = followed.looks.len().saturating_sub(MOST_LOOKS);
    if left > 0 {
        let text =
            format!("{left} looks between these are not shown: --json and -o FILE.html have all\n");
        out += &style.text(&text);
    }
    let processes = followed.processes();
    if processes.len() > 1 {
        out.push('\n');
        out += &by_process(&processes).render(style);
        if processes.len() > MOST_PROCESSES {
            let more = processes.len() - MOST_PROCESSES;
            out +=
                &format!("{} with less memory: --json has all\n", number::counted(more, "process"));
        }
    }
    for note in followed.notes() {
        out += &format!("\n{}\n", style.text(&note));
    }
    out
}

fn over_time(followed: &Followed<'_>) -> Table {
    let mut table = Table::new([
        Column::number("time s"),
        Column::number("locality"),
        Column::number("±95 %"),
        Column::number("threads by node"),
        Column::number("MiB by node"),
        Column::number("threads moved"),
        Column::number("hint faults"),
        Column::number("local"),
        Column::number("MiB migrated"),
    ]);
    let mut before: Option<usize> = None;
    for at in shown(followed.looks.len()) {
        let look = &followed.looks[at];
        let since = before.map_or(at..at + 1, |before| before + 1..at + 1);
        let looks = &followed.looks[since];
        let moved: u32 = looks.iter().flat_map(|look| &look.processes).map(|p| p.moved).sum();
        let is_first = at == 0;
        let faults = sum(looks, |counters| counters.hint_faults);
        let local = sum(looks, |counters| counters.hint_faults_local);
        let migrated = sum(looks, |counters| counters.pages_migrated);
        let [value, half] = share(look.locality);
        table.row([
            Cell::new(number::fixed(look.at_s, 1)),
            value,
            half,
            Cell::new(joined(look.threads().iter().map(|&threads| f64::from(threads)))),
            Cell::new(joined(look.bytes().iter().map(|bytes| bytes / MIB))),
            Cell::measured((!is_first).then_some(moved), |moved| number::count(moved.into())),
            Cell::measured(faults, number::count),
            Cell::measured(
                local.zip(faults).filter(|&(_, faults)| faults > 0),
                |(local, faults)| number::percent(local as f64 / faults as f64, 0),
            ),
            Cell::measured(migrated, |pages| {
                number::significant(pages as f64 * page_bytes() / MIB, 3)
            }),
        ]);
        before = Some(at);
    }
    table
}

fn by_process(processes: &[(&ProcessLook, &ProcessLook)]) -> Table {
    let mut table = Table::new([
        Column::number("process"),
        Column::text("command").shrink(),
        Column::number("threads by node"),
        Column::number("MiB by node"),
        Column::number("locality, first"),
        Column::number("last"),
        Column::number("±95 %"),
    ]);
    for (first, last) in processes.iter().take(MOST_PROCESSES) {
        let [value, half] = share(last.locality);
        table.row([
            Cell::new(last.pid.to_string()),
            Cell::new(escape(&last.name)),
            Cell::new(joined(last.threads.iter().map(|&threads| f64::from(threads)))),
            Cell::new(joined(last.bytes.iter().map(|bytes| bytes / MIB))),
            share(first.locality)[0].clone(),
            value,
            half,
        ]);
    }
    table
}

use super::MIB;

fn page_bytes() -> f64 {
    pmuscope_machine::place::page_size() as f64
}

/// Which of so many looks have a row: the first, the last, and evenly between.
fn shown(looks: usize) -> Vec<usize> {
    if looks <= MOST_LOOKS {
        return (0..looks).collect();
    }
    (0..MOST_LOOKS).map(|row| row * (looks - 1) / (MOST_LOOKS - 1)).collect()
}

/// What was counted in all of these looks; `None` if not in each.
fn sum(looks: &[Observation], of: impl Fn(&NumaCounters) -> Option<u64>) -> Option<u64> {
    looks.iter().map(|look| of(look.counters.as_ref()?)).sum()
}

fn share(share: Option<Share>) -> [Cell; 2] {
    [
        Cell::measured(share, |share| number::fixed(share.value, 2)),
        Cell::measured(share, |share| number::fixed(share.half, 2)),
    ]
}

/// `3 0 12 0`: a number for each node.
fn joined(amounts: impl Iterator<Item = f64>) -> String {
    let amounts: Vec<String> = amounts
        .map(|amount| {
            if amount.fract() == 0.0 {
                number::fixed(amount, 0)
            } else {
                number::significant(amount, 3)
            }
        })
        .collect();
    amounts.join(" ")
}

impl Report for Followed<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        super::FOLLOWED_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        followed_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(super::followed_page::followed_page(self, commit))
    }
}
