//! Two sides of a fleet.

use pmuscope_stats::Interval;
use serde::Serialize;

use super::FleetHead;
use crate::diff::ChangeVerdict;
use crate::html::PageFrame;
use crate::markup::html;
use crate::number::{counted, percent, signed, significant};
use crate::recording::push_wrapped;
use crate::report::Report;
use crate::sheet::{Field, NAME, Separator, Sheet};
use crate::{Style, escape};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-diff/1";

/// A side as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetSide {
    /// What it is, in words. Foreign text.
    pub name: String,
    /// Hosts that had samples of it.
    pub hosts: u64,
    /// Its samples.
    pub samples: u64,
    /// Time of the bins in which it was seen, seconds, of all its hosts.
    pub recorded_s: f64,
    /// CPUs in use for it per host; missing where the event counts no time.
    pub cores_per_host: Option<f64>,
}

/// How something changed.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetChange {
    /// What: a function; empty for the whole side. Foreign text.
    pub key: String,
    /// Samples before and after.
    pub samples: [u64; 2],
    /// Shares before and after, 0 to 1.
    pub shares: [Option<f64>; 2],
    /// After by before, with its interval over hosts; missing where a side has none of it.
    pub ratio: Option<(f64, Option<Interval>)>,
    /// The p-value, corrected for all rows.
    pub p: Option<f64>,
    /// Whether it changed; `None` where hosts are too few to know.
    pub differs: Option<bool>,
}

impl FleetChange {
    fn verdict(&self) -> ChangeVerdict {
        ChangeVerdict::new(self.differs, self.ratio.map_or(0.0, |(ratio, _)| ratio - 1.0))
    }

    /// Where nothing is known: that one side has none of it, or that hosts are too few.
    fn words(&self) -> &'static str {
        match self.samples {
            [0, _] => "only after",
            [_, 0] => "only before",
            _ => self.verdict().words().unwrap_or("inconclusive"),
        }
    }
}

/// Two sides, compared.
#[derive(Debug)]
pub struct FleetDiffView<'a> {
    /// What both cover.
    pub head: &'a FleetHead,
    /// Before and after.
    pub sides: &'a [FleetSide; 2],
    /// Hosts that are compared with themselves; otherwise sides are compared as they are.
    pub paired: Option<u64>,
    /// CPUs per host.
    pub cost: Option<&'a FleetChange>,
    /// Functions, the largest first.
    pub rows: &'a [FleetChange],
}

#[derive(Serialize)]
struct DiffJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    before: &'a FleetSide,
    after: &'a FleetSide,
    paired_hosts: Option<u64>,
    cost: Option<Sheet<'a>>,
    rows: Sheet<'a>,
}

fn sheet<'a>(rows: impl IntoIterator<Item = &'a FleetChange>, all: usize) -> Sheet<'a> {
    let share = |side: usize| move |row: &FleetChange| row.shares[side];
    let fields = vec![
        Field::estimate("ratio", |row: &FleetChange| row.ratio).for_programs(),
        Field::figure("change", |row: &FleetChange| Some(change_text(row.ratio?.0))).for_people(),
        Field::figure("95% CI", |row: &FleetChange| Some(range_text(row.ratio?.1?)))
            .for_people()
            .optional(1),
        Field::text("verdict", |row: &FleetChange| row.verdict().known())
            .shown_as(|row| row.words().into())
            .rigid(),
        Field::part("before.share", share(0)).head("before"),
        Field::part("after.share", share(1)).head("after"),
        Field::count("before.samples", |row: &FleetChange| row.samples[0]).for_programs(),
        Field::count("after.samples", |row: &FleetChange| row.samples[1]).for_programs(),
        Field::number("p", |row: &FleetChange| row.p).for_programs(),
        Field::text("function", |row: &'a FleetChange| Some(&*row.key)).wanted(NAME),
    ];
    let fields = fields.into_iter().map(|field| field.painted(|row| row.verdict().paint()));
    Sheet::new(fields.collect(), rows, all).by_another_order()
}

fn change_text(ratio: f64) -> String {
    signed(&percent(ratio - 1.0, 1), ratio - 1.0)
}

fn range_text(of: Interval) -> String {
    format!("{} to {}", change_text(of.low), change_text(of.high))
}

impl FleetDiffView<'_> {
    /// What is compared with what, and what it comes to as a whole.
    fn lines(&self) -> Vec<String> {
        let side = |side: &FleetSide| {
            let cores = side.cores_per_host.map_or(String::new(), |cores| {
                format!(", {} CPUs in use per host", significant(cores, 3))
            });
            let (hosts, samples) = (counted(side.hosts, "host"), counted(side.samples, "sample"));
            format!("{}: {hosts}, {samples}{cores}", escape(&side.name))
        };
        let [before, after] = self.sides;
        let mut lines =
            vec![format!("before  {}", side(before)), format!("after   {}", side(after))];
        lines.push(match self.paired {
            Some(hosts) => {
                format!("compared: {} that ran both, each with itself", counted(hosts, "host"))
            }
            None => "compared: all hosts of one side with all hosts of the other".to_owned(),
        });
        if let Some(cost) = self.cost
            && let Some((ratio, interval)) = cost.ratio
        {
            let ci = interval.map_or("no CI".to_owned(), |of| format!("95% CI {}", range_text(of)));
            lines.push(format!("CPUs per host: {} ({ci}): {}", change_text(ratio), cost.words()));
        }
        lines
    }
}

impl Report for FleetDiffView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head.push_text(&mut out, style);
        self.lines().iter().for_each(|line| push_wrapped(&mut out, line, style));
        out.push('\n');
        out.push_str(&sheet(self.rows, self.rows.len()).text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        let [before, after] = self.sides;
        DiffJson {
            head: self.head,
            before,
            after,
            paired_hosts: self.paired,
            cost: self.cost.map(|cost| sheet([cost], 1)),
            rows: sheet(self.rows, self.rows.len()),
        }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(sheet(self.rows, self.rows.len()).delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let title = format!("Fleet: {} and {}", self.sides[0].name, self.sides[1].name);
        let body = html! {
            section class="table-part" {
                h2 { "Functions" }
                @for line in self.lines() { p { (line) } }
                p class="dim" {
                    "Shares are of each side; changes are of the share. 95% CIs are over hosts; verdicts are corrected \
                     for the number of rows (Holm) at 1%."
                }
                (sheet(self.rows, self.rows.len()).html())
            }
        };
        Some(PageFrame { schema: SCHEMA, commit }.page(&self.head.summary(&title), &body))
    }
}
