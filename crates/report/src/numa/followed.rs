//! Processes followed over time: where their threads ran and their memory lay.

use crate::report::Report;
use std::collections::BTreeMap;

use pmuscope_machine::NumaCounters;
use pmuscope_numa::timeline::{Observation, ProcessObservation, Share};
use serde::Serialize;

use super::MIB;
use crate::section::Section;
use crate::sheet::{Field, FieldKind, Separator, Sheet, SheetForm, Value};
use crate::{Style, escape, number, wrap, wrap_lines};

/// Rows of the table over time.
const MOST_LOOKS: usize = 24;
/// Rows of the table of processes.
const MOST_PROCESSES: usize = 20;

/// What was followed, and how it went.
#[derive(Debug, Serialize)]
pub struct Followed<'a> {
    /// Numbers of the nodes, in the order of all amounts by node.
    pub nodes: &'a [u32],
    /// Seconds between two observations, as asked.
    pub interval_s: f64,
    /// Seconds from the first observation to the last.
    pub seconds: f64,
    /// CPU seconds that looking took, all together.
    pub cost_s: f64,
    /// Looks, in the order of time.
    #[serde(rename = "looks")]
    pub observations: &'a [Observation],
    /// Processes that could not be looked at, with the reason.
    pub refused: &'a BTreeMap<u32, String>,
    /// What the kernel counted on the whole machine from the first observation to the last.
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
        observations: &'a [Observation],
        refused: &'a BTreeMap<u32, String>,
        counters: Option<NumaCounters>,
        emulator: Option<&'a str>,
    ) -> Self {
        let seconds = observations.last().map_or(0.0, |observation| observation.at_s);
        let cost_s = observations.iter().map(|observation| observation.cost_ns as f64 / 1e9).sum();
        let command = String::new();
        Self {
            nodes,
            interval_s,
            seconds,
            cost_s,
            observations,
            refused,
            counters,
            emulator,
            command,
        }
    }

    /// Each process with the first and the last observation that saw it.
    pub(super) fn processes(&self) -> Vec<(&'a ProcessObservation, &'a ProcessObservation)> {
        let mut found: BTreeMap<u32, (&ProcessObservation, &ProcessObservation)> = BTreeMap::new();
        for process in self.observations.iter().flat_map(|observation| &observation.processes) {
            found
                .entry(process.pid)
                .and_modify(|(_, last)| *last = process)
                .or_insert((process, process));
        }
        let mut all: Vec<_> = found.into_values().collect();
        let bytes = |process: &ProcessObservation| process.bytes.iter().sum::<f64>();
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

    /// `15 snapshots about 100 ms apart`.
    pub(super) fn how_often(&self) -> String {
        let observations = number::counted(self.observations.len(), "snapshot");
        match self.observations.len() {
            0 | 1 => observations,
            _ => format!("{observations} about {} apart", number::duration(self.interval_s)),
        }
    }

    /// Share of a CPU that looking took, and what an observation took. The time goes from the first observation to the last:
    /// one observation less than there are lies in it.
    pub(super) fn cost(&self) -> [String; 2] {
        let observations = self.observations.len() as f64;
        let of_one_cpu = (observations > 1.0 && self.seconds > 0.0)
            .then(|| self.cost_s * (observations - 1.0) / observations / self.seconds);
        let asked: u64 = self
            .last()
            .iter()
            .flat_map(|observation| &observation.processes)
            .map(|p| p.asked)
            .sum();
        let each = match self.observations.len() {
            0 => "-".to_owned(),
            n => number::significant(self.cost_s / n as f64 * 1e3, 3),
        };
        [
            of_one_cpu.map_or("-".to_owned(), |share| number::percent(share, 2)),
            format!("{each} ms per snapshot, {} pages queried", number::count(asked)),
        ]
    }

    /// The two lines above everything else.
    fn head(&self) -> [String; 2] {
        let [of_one_cpu, each] = self.cost();
        let emulated = self.emulator.map_or(String::new(), |name| {
            format!(" · emulated ({}): remote memory is as fast as local", escape(name))
        });
        [
            format!(
                "{} on {}, {}, {}",
                self.who(),
                number::counted(self.nodes.len(), "NUMA node"),
                number::duration(self.seconds),
                self.how_often()
            ),
            format!("overhead: {of_one_cpu} of one CPU ({each}) · writable memory{emulated}"),
        ]
    }

    fn last(&self) -> Option<&'a Observation> {
        self.observations.last()
    }

    /// What a reader should know besides.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.nodes.len() == 1 {
            notes.push("One NUMA node: all memory is local, nothing to place.".to_owned());
        }
        if let Some((pid, why)) = self.refused.first_key_value() {
            let more = self.refused.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            notes.push(format!("Process {pid} could not be read{more}: {}", escape(why)));
        }
        let refused: u64 = self
            .observations
            .iter()
            .flat_map(|observation| &observation.processes)
            .map(|process| process.refused)
            .sum();
        if refused > 0 {
            notes.push(format!(
                "The kernel did not report the node of {} pages; they are not counted.",
                number::count(refused)
            ));
        }
        notes
    }
}

/// The page for people.
pub(super) fn followed_text(followed: &Followed<'_>, style: &Style) -> String {
    let [first, second] = followed.head();
    let head = format!("{}\n{}\n", style.text(&first), style.text(&second));
    let mut out = wrap_lines(&head, style.width, 2);
    let left = followed.observations.len().saturating_sub(MOST_LOOKS);
    let left = (left > 0).then(|| {
        format!(
            "{} between these not shown: --json and -o FILE.html have all",
            number::counted(left, "snapshot")
        )
    });
    observations(followed, &shown(followed.observations.len()))
        .line(left)
        .bare()
        .push_text(&mut out, style);
    let number = followed.processes().len();
    let more = number.saturating_sub(MOST_PROCESSES);
    let more = (more > 0).then(|| {
        format!("{} with less memory not shown: --json has all", number::counted(more, "process"))
    });
    if number > 1 {
        processes(followed, MOST_PROCESSES).line(more).bare().push_text(&mut out, style);
    }
    for note in followed.notes() {
        out += &format!("\n{}\n", wrap(&style.text(&note), style.width, 0));
    }
    out
}

/// An observation, and all since the one of the row before.
struct LookRow<'a> {
    observation: &'a Observation,
    since: &'a [Observation],
}

/// Forms with room for a column per node.
const NOT_TEXT: &[SheetForm] = &[SheetForm::Page, SheetForm::Delimited];

/// Looks over time, those at these positions.
pub(super) fn observations<'b>(followed: &Followed<'_>, at: &[usize]) -> Section<'b> {
    Section::new("looks", "Snapshots").sheet(look_sheet(followed, at))
}

fn look_sheet<'b>(followed: &Followed<'_>, at: &[usize]) -> Sheet<'b> {
    type Row<'a> = LookRow<'a>;
    let begins = std::iter::once(0).chain(at.iter().map(|at| at + 1));
    let row = |(begin, &at): (usize, &usize)| LookRow {
        observation: &followed.observations[at],
        since: &followed.observations[begin..=at],
    };
    let rows: Vec<Row<'_>> = begins.zip(at).map(row).collect();
    let decimals = if followed.interval_s < 0.1 { 2 } else { 1 };
    let time = move |row: &Row<'_>| number::fixed(row.observation.at_s, decimals);
    let moved = |row: &Row<'_>| {
        let processes = row.since.iter().flat_map(|observation| &observation.processes);
        (row.observation.at_s > 0.0)
            .then(|| processes.map(|process| u64::from(process.moved)).sum())
    };
    let faults = |row: &Row<'_>| sum(row.since, |counters| counters.hint_faults);
    let local = move |row: &Row<'_>| {
        let all = faults(row).filter(|all| *all > 0)?;
        Some(sum(row.since, |counters| counters.hint_faults_local)? as f64 / all as f64)
    };
    let migrated = |row: &Row<'_>| {
        Some(sum(row.since, |counters| counters.pages_migrated)? as f64 * page_bytes() / MIB)
    };
    let mut fields = vec![
        Field::number("time_s", |row: &Row<'_>| Some(row.observation.at_s))
            .head("time s")
            .shown_as(move |row| time(row).into()),
        locality("locality", |row: &Row<'_>| row.observation.locality),
        half("locality_margin", |row: &Row<'_>| row.observation.locality),
    ];
    fields.extend(by_node(|row: &Row<'_>| (row.observation.threads(), row.observation.bytes())));
    for (at, node) in followed.nodes.iter().enumerate() {
        fields.extend([
            Field::count(format!("threads_on_{node}"), move |row: &Row<'_>| {
                row.observation.threads().get(at).map(|&threads| u64::from(threads))
            })
            .head(format!("threads on {node}"))
            .only_in(NOT_TEXT),
            Field::number(format!("mib_on_{node}"), move |row: &Row<'_>| {
                row.observation.bytes().get(at).map(|bytes| bytes / MIB)
            })
            .head(format!("MiB on {node}"))
            .only_in(NOT_TEXT),
        ]);
    }
    fields.extend([
        Field::count("threads_moved", moved).head("threads moved").optional(2),
        Field::count("hint_faults", faults).head("hint faults").optional(4),
        Field::part("hint_faults_local_share", local)
            .head("local")
            .optional(3)
            .shown_if_known(move |row| local(row).map(|share| number::percent(share, 0))),
        Field::number("mib_migrated", migrated).head("MiB migrated").optional(1),
    ]);
    Sheet::new(fields, &rows, rows.len()).rising().into_owned()
}

/// The first and the last observation that saw a process.
type ProcessRow<'a> = (&'a ProcessObservation, &'a ProcessObservation);

/// Processes, at most so many.
pub(super) fn processes<'b>(followed: &Followed<'_>, most: usize) -> Section<'b> {
    type Row<'a> = ProcessRow<'a>;
    let all = followed.processes();
    let mut fields = vec![
        Field::id("process", |row: &Row<'_>| Some(row.1.pid)),
        Field::text("command", |row: &Row<'_>| Some(row.1.name.clone())).head("comm"),
    ];
    fields.extend(by_node(|row: &Row<'_>| (row.1.threads.clone(), row.1.bytes.clone())));
    fields.extend([
        Field::number("MiB", |row: &Row<'_>| Some(row.1.bytes.iter().sum::<f64>() / MIB))
            .for_pages(),
        locality("locality initial", |row: &Row<'_>| row.0.locality),
        locality("final", |row: &Row<'_>| row.1.locality),
        half("locality_margin", |row: &Row<'_>| row.1.locality),
    ]);
    let sheet = Sheet::new(fields, all.iter().take(most), all.len().min(most)).into_owned();
    Section::new("processes", "Processes").sheet(sheet)
}

fn locality<'a, R: 'a>(
    head: &'static str,
    of: impl Fn(&'a R) -> Option<Share> + Copy + 'a,
) -> Field<'a, R> {
    Field::number(head, move |row| of(row).map(|share| share.value))
        .shown_if_known(move |row| of(row).map(|share| number::fixed(share.value, 2)))
}

/// Half of the width of its confidence interval.
fn half<'a, R: 'a>(
    key: &'static str,
    of: impl Fn(&'a R) -> Option<Share> + Copy + 'a,
) -> Field<'a, R> {
    Field::number(key, move |row| of(row).map(|share| share.half))
        .head("95% CI")
        .optional(5)
        .shown_if_known(move |row| {
            of(row).map(|share| format!("±{}", number::fixed(share.half, 2)))
        })
}

/// Threads and memory, a number for each node in one cell: `3 0 12 0`.
fn by_node<'a, R: 'a>(of: impl Fn(&'a R) -> (Vec<u32>, Vec<f64>) + Copy + 'a) -> [Field<'a, R>; 2] {
    let field = |head, get: Box<dyn Fn(&'a R) -> String + 'a>| {
        let value = move |row| Value::Text(get(row).into());
        Field::new(head, FieldKind::Number, value).for_terminals()
    };
    let threads = move |row| joined(of(row).0.into_iter().map(f64::from));
    let mib = move |row| joined(of(row).1.into_iter().map(|bytes| bytes / MIB));
    [field("threads by node", Box::new(threads)), field("MiB by node", Box::new(mib))]
}

fn page_bytes() -> f64 {
    pmuscope_machine::place::page_size() as f64
}

/// Which of so many looks have a row: the first, the last, and evenly between.
fn shown(observations: usize) -> Vec<usize> {
    if observations <= MOST_LOOKS {
        return (0..observations).collect();
    }
    (0..MOST_LOOKS).map(|row| row * (observations - 1) / (MOST_LOOKS - 1)).collect()
}

/// What was counted in all of these looks; `None` if not in each.
fn sum(observations: &[Observation], of: impl Fn(&NumaCounters) -> Option<u64>) -> Option<u64> {
    observations.iter().map(|observation| of(observation.counters.as_ref()?)).sum()
}

fn joined(amounts: impl Iterator<Item = f64>) -> String {
    let text = |amount: f64| match amount.fract() == 0.0 {
        true => number::fixed(amount, 0),
        false => number::significant(amount, 3),
    };
    amounts.map(text).collect::<Vec<_>>().join(" ")
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

    fn delimited(&self, separator: Separator) -> Option<String> {
        let all: Vec<usize> = (0..self.observations.len()).collect();
        Some(look_sheet(self, &all).delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(super::followed_page::followed_page(self, commit))
    }
}
