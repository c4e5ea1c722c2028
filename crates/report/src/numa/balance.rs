//! What balancing did, for people and programs.

use crate::report::Report;
use std::collections::BTreeMap;

use pmuscope_numa::act::Restored;
use pmuscope_numa::balance::{Action, BalanceSummary, Ended, ProcessSummary, names};
use serde::{Serialize, Serializer};

use crate::doctor::section::join;
use crate::sheet::{Field, Separator, Sheet};
use crate::{Style, escape, number, wrap_lines};

/// Schema of what `pmuscope numa balance` prints as JSON.
const NUMA_BALANCE_SCHEMA: &str = "pmuscope/numa-balance/1";
/// Schema of what `pmuscope numa restore` prints as JSON.
const NUMA_RESTORE_SCHEMA: &str = "pmuscope/numa-restore/1";

/// What `pmuscope numa balance` has to tell.
#[derive(Debug, Serialize)]
pub struct Balanced<'a> {
    /// What came of it.
    #[serde(flatten)]
    pub summary: &'a BalanceSummary,
    /// Whether speed was measured, so that "not slower" can be claimed.
    pub judges_speed: bool,
    /// Why speed was not measured.
    pub no_speed: Option<&'a str>,
    /// Nodes of the machine.
    pub nodes: usize,
    /// Bytes per second that might be moved.
    pub budget: u64,
    /// Only a plan was asked for.
    pub dry_run: bool,
    /// Names of processes, as far as they are known.
    #[serde(serialize_with = "named")]
    pub names: &'a BTreeMap<u32, String>,
    /// Processes that could not be looked at, and why.
    #[serde(serialize_with = "with_reasons")]
    pub refused: &'a BTreeMap<u32, String>,
    /// CPU time of looking, deciding and moving, seconds.
    pub cost_s: f64,
    /// What translates the machine's instructions, if the CPU itself does not run them.
    pub emulator: Option<&'a str>,
}

/// Numbers are no names of fields.
fn named<S: Serializer>(names: &BTreeMap<u32, String>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct NamedProcess<'a> {
        pid: u32,
        name: &'a str,
    }
    serializer.collect_seq(names.iter().map(|(&pid, name)| NamedProcess { pid, name }))
}

fn with_reasons<S: Serializer>(
    refused: &BTreeMap<u32, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct RefusedOut<'a> {
        pid: u32,
        why: &'a str,
    }
    serializer.collect_seq(refused.iter().map(|(&pid, why)| RefusedOut { pid, why }))
}

impl Balanced<'_> {
    fn sum(&self, of: impl Fn(&ProcessSummary) -> u64) -> u64 {
        self.summary.processes.iter().map(of).sum()
    }
}

/// The page for people.
pub(super) fn balanced_text(balanced: &Balanced<'_>, style: &Style) -> String {
    let mut text = headline(balanced);
    if !balanced.summary.processes.is_empty() {
        text += "\n";
        text += &processes(balanced).text(style);
    }
    text += &left_alone(balanced);
    let steps = &balanced.summary.plan.steps;
    if balanced.dry_run && !steps.is_empty() {
        text += "\nplan (nothing was changed):\n";
        for step in steps {
            text += &format!("  {}\n", told(step));
        }
    }
    for (pid, why) in balanced.refused {
        text += &format!("\nprocess {pid}: {}\n", escape(why));
    }
    wrap_lines(&style.text(&text), style.width, 2)
}

fn headline(balanced: &Balanced<'_>) -> String {
    let summary = balanced.summary;
    let first = join([
        Some(format!(
            "{} on {}, {}",
            number::counted(summary.processes.len(), "process"),
            number::counted(balanced.nodes, "NUMA node"),
            number::duration(summary.seconds)
        )),
        Some(format!("judged by {}", summary.judge)),
        (!balanced.judges_speed).then(|| "speed was not measured".to_owned()),
        balanced.emulator.map(|name| format!("emulated ({})", escape(name))),
    ]);
    let seconds = summary.seconds.max(1e-3);
    let second = join([
        Some(format!(
            "overhead: {} CPU time ({} of one CPU)",
            number::duration(balanced.cost_s),
            number::percent(balanced.cost_s / seconds, 1)
        )),
        (!balanced.dry_run).then(|| {
            format!(
                "moved {} (at most {}/s)",
                number::bytes(balanced.sum(|process| process.moved)),
                number::bytes(balanced.budget)
            )
        }),
        (!balanced.dry_run).then(|| format!("kept {}, undone {}", summary.kept, summary.undone)),
        Some(ended(summary.ended).to_owned()),
    ]);
    format!("{first}\n{second}\n")
}

/// Why processes were left alone. A plan has it in its steps.
fn left_alone(balanced: &Balanced<'_>) -> String {
    let mut text = String::new();
    for process in balanced.summary.processes.iter().filter(|_| !balanced.dry_run) {
        if let (None, Some(reason)) = (&process.nodes, &process.reason) {
            text += &format!("\nprocess {} was left alone: {}", process.pid, escape(reason));
        }
        if process.not_back > 0 {
            text += &format!(
                "\nprocess {}: {} were not moved back, because it ended before that",
                process.pid,
                number::bytes(process.not_back)
            );
        }
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Asked => "stopped on request",
        Ended::Time => "time limit reached",
        Ended::Gone => "all processes have ended",
        Ended::Settled => "nothing left to change",
        Ended::DryRun => "plan only",
        Ended::PingPong => "stopped: pages go back and forth",
    }
}

/// Where memory was and is, and what it took.
fn processes<'a>(balanced: &Balanced<'a>) -> Sheet<'a> {
    type Row = ProcessSummary;
    let (names_of, all) = (balanced.names, &balanced.summary.processes);
    let locality = |key, get: fn(&Row) -> Option<f64>| {
        Field::number(key, get)
            .shown_if_known(move |process| get(process).map(|share| number::fixed(share, 2)))
    };
    let bytes = |key, get: fn(&Row) -> u64| {
        Field::count(key, get).shown_as(move |process| number::bytes(get(process)).into())
    };
    let threads = |process: &Row| process.nodes.as_ref().map(|nodes| names(nodes));
    let fields = vec![
        Field::id("process", |process: &'a Row| Some(process.pid)),
        Field::text("name", |process: &Row| names_of.get(&process.pid).map(String::as_str)),
        locality("locality_before", |process| process.before).head("locality before"),
        locality("locality_after", |process| process.after).head("after"),
        bytes("moved_bytes", |process| process.moved).head("moved"),
        bytes("stayed_bytes", |process| process.stayed).head("stayed"),
        Field::text("threads_were_on", threads)
            .head("threads")
            .shown_as(move |process| match threads(process) {
                Some(nodes) => format!("were on {nodes}").into(),
                None => "left alone".into(),
            })
            .rigid(),
    ];
    Sheet::new(fields, all, all.len()).by_another_order()
}

/// A step as a sentence.
pub fn told(step: &Action) -> String {
    match step {
        Action::Pin { pid, nodes, reason, .. } => {
            format!("process {pid}: run on {}: {reason}", names(nodes))
        }
        Action::Move { pid, from, to, bytes, reason } => format!(
            "process {pid}: move {} from node {from} to node {to}: {reason}",
            number::bytes(*bytes)
        ),
        Action::Interleave { pid, nodes, bytes, reason } => format!(
            "process {pid}: interleave pages over {}, {} to move: {reason}",
            names(nodes),
            number::bytes(*bytes)
        ),
        Action::Leave { pid, reason } => format!("process {pid}: leave alone: {reason}"),
    }
}

/// The result of `pmuscope numa restore`.
#[derive(Debug, Serialize)]
pub struct RestoredProcess {
    /// The process.
    pub pid: u32,
    /// The result.
    #[serde(flatten)]
    pub restored: Restored,
}

/// What was restored, for people.
pub(super) fn restored_text(processes: &[RestoredProcess], style: &Style) -> String {
    if processes.is_empty() {
        return "no process is still pinned by a killed numa balance\n".to_owned();
    }
    let mut text = String::new();
    for RestoredProcess { pid, restored } in processes {
        let what = match restored {
            Restored::Threads { restored, left: 0 } => {
                format!("affinity of {} restored", number::counted(*restored, "thread"))
            }
            Restored::Threads { restored, left } => format!(
                "affinity of {} restored; {} left as is (changed by others, or never changed)",
                number::counted(*restored, "thread"),
                number::counted(*left, "thread")
            ),
            Restored::Ended => "has ended".to_owned(),
            Restored::Held { by } => {
                format!("pmuscope {by} still balances it. Try: kill {by}")
            }
            Restored::Refused { why } => format!("not restored: {}", escape(why)),
        };
        text += &format!("process {pid}: {what}\n");
    }
    wrap_lines(&style.text(&text), style.width, 2)
}

/// All results.
#[derive(Debug, Serialize)]
pub struct RestoredProcesses {
    /// Those that were found pinned.
    pub processes: Vec<RestoredProcess>,
}

impl Report for RestoredProcesses {
    fn schema(&self) -> &'static str {
        NUMA_RESTORE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        restored_text(&self.processes, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }
}

impl Report for Balanced<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        NUMA_BALANCE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        balanced_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(processes(self).delimited(separator))
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_numa::balance::{Decision, Judge};

    use super::*;

    fn summary() -> BalanceSummary {
        let process = |pid, before, after, moved, nodes: Option<Vec<u32>>| ProcessSummary {
            pid,
            before,
            after,
            moved,
            stayed: 4096,
            not_back: moved / 16,
            reason: nodes.is_none().then(|| "it sleeps".to_owned()),
            nodes,
        };
        BalanceSummary {
            judge: Judge::Locality,
            ended: Ended::Time,
            seconds: 20.0,
            rounds: 12,
            kept: 1,
            undone: 0,
            processes: vec![
                process(4711, Some(0.5), Some(1.0), 32 << 20, Some(vec![1])),
                process(4712, None, None, 0, None),
            ],
            plan: Decision {
                steps: vec![
                    Action::Move {
                        pid: 4711,
                        from: 0,
                        to: 1,
                        bytes: 32 << 20,
                        reason: "so".into(),
                    },
                    Action::Leave { pid: 4712, reason: "it sleeps".into() },
                ],
                outlook: Vec::new(),
            },
        }
    }

    fn text(dry_run: bool) -> String {
        balanced(dry_run, |balanced| balanced.text(&Style::PLAIN))
    }

    fn balanced(dry_run: bool, shown: impl FnOnce(&Balanced<'_>) -> String) -> String {
        let summary = summary();
        let names = [(4711, "bench".to_owned())].into();
        let balanced = Balanced {
            summary: &summary,
            judges_speed: false,
            no_speed: Some("no counters"),
            nodes: 2,
            budget: 64 << 20,
            dry_run,
            names: &names,
            refused: &BTreeMap::new(),
            cost_s: 0.2,
            emulator: Some("QEMU TCG"),
        };
        shown(&balanced)
    }

    #[test]
    fn processes_are_rows_for_scripts() {
        let table = balanced(false, |one| one.delimited(Separator::Comma).unwrap());
        insta::assert_snapshot!(table, @"
        process,name,locality_before,locality_after,moved_bytes,stayed_bytes,threads_were_on
        4711,bench,0.5,1,33554432,4096,node 1
        4712,,,,0,4096,
        ");
    }

    #[test]
    fn what_was_done_and_what_would_be() {
        insta::assert_snapshot!(text(false), @r"
        2 processes on 2 NUMA nodes, 20.0 s · judged by locality only · speed was not measured · emulated (QEMU TCG)
        overhead: 200 ms CPU time (1.0% of one CPU) · moved 32 MiB (at most 64 MiB/s) · kept 1, undone 0 · time limit reached

        process  name   locality before  after   moved  stayed  threads
           4711  bench             0.50   1.00  32 MiB   4 KiB  were on node 1
           4712  -                    -      -     0 B   4 KiB  left alone

        process 4711: 2 MiB were not moved back, because it ended before that
        process 4712 was left alone: it sleeps
        ");
        insta::assert_snapshot!(text(true), @r"
        2 processes on 2 NUMA nodes, 20.0 s · judged by locality only · speed was not measured · emulated (QEMU TCG)
        overhead: 200 ms CPU time (1.0% of one CPU) · time limit reached

        process  name   locality before  after   moved  stayed  threads
           4711  bench             0.50   1.00  32 MiB   4 KiB  were on node 1
           4712  -                    -      -     0 B   4 KiB  left alone

        plan (nothing was changed):
          process 4711: move 32 MiB from node 0 to node 1: so
          process 4712: leave alone: it sleeps
        ");
    }

    #[test]
    fn what_was_put_right() {
        let restored = |pid, restored| RestoredProcess { pid, restored };
        let all = [
            restored(1, Restored::Threads { restored: 4, left: 0 }),
            restored(2, Restored::Threads { restored: 1, left: 1 }),
            restored(3, Restored::Ended),
            restored(4, Restored::Held { by: 7 }),
        ];
        crate::widths::fits("numa-balance", |style| restored_text(&all, style));
        insta::assert_snapshot!(restored_text(&all, &Style::PLAIN), @r"
        process 1: affinity of 4 threads restored
        process 2: affinity of 1 thread restored; 1 thread left as is (changed by others, or never changed)
        process 3: has ended
        process 4: pmuscope 7 still balances it. Try: kill 7
        ");
        assert!(restored_text(&[], &Style::PLAIN).starts_with("no process is still pinned"));
    }
}
