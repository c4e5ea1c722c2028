//! Shares and CPUs of services, functions and whatever else rows are by.

use pmuscope_profile::export::{ExportedEvent, Source};
use pmuscope_stats::Interval;
use serde::Serialize;

use super::{FleetCounted, FleetHead};
use crate::Style;
use crate::flame::{Flame, FlameLimits, flame_svg};
use crate::html::{FlamePart, PageFrame, flame};
use crate::markup::html;
use crate::number::{fixed, percent, significant};
use crate::report::Report;
use crate::sheet::{Field, NAME, Separator, Sheet};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-report/1";
/// Why there is no interval.
pub(super) const FEW_HOSTS: &str = "it needs 3 hosts or more, and 2 that had it";
/// Hours of a day.
const DAY: f64 = 24.0;

/// A row: a part of what the fleet did.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetShare {
    /// What it is of, in the order of the columns; empty where it is not known. Foreign text.
    pub keys: Vec<String>,
    /// Samples.
    pub samples: u64,
    /// Hosts that had any.
    pub hosts: u64,
    /// Part of the selection, 0 to 1, with its interval over hosts.
    pub share: Option<(f64, Option<Interval>)>,
    /// CPUs in use, of all hosts together, or of time off the CPU the threads; missing where the event counts no time.
    pub cores: Option<(f64, Option<Interval>)>,
}

/// Rows of a fleet, and what they are of.
#[derive(Debug)]
pub struct FleetSharesView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// What rows are by: names of columns.
    pub by: &'a [&'static str],
    /// A sample counts once for each function of its stack.
    pub with_callees: bool,
    /// The largest rows.
    pub rows: &'a [FleetShare],
    /// All of the selection: CPUs in use, or threads off the CPU.
    pub cores: Option<(f64, Option<Interval>)>,
    /// Price of an hour of a CPU, in whatever money.
    pub price: Option<f64>,
    /// Stacks for a page's flame graph, if there are any.
    pub stacks: Option<&'a Source<'a>>,
}

#[derive(Serialize)]
struct SharesJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    by: &'a [&'static str],
    with_callees: bool,
    cores: Option<f64>,
    cores_low: Option<f64>,
    cores_high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads_high: Option<f64>,
    rows: Sheet<'a>,
}

/// An interval for people. It is not symmetric, as ratios are not: its half would mislead.
pub(super) fn range<'a, R: 'a>(
    of: impl Fn(&R) -> Option<(f64, Option<Interval>)> + 'a,
    words: impl Fn(f64, f64) -> String + 'a,
) -> Field<'a, R> {
    let text = move |row: &'a R| {
        let interval = of(row)?.1?;
        Some(words(interval.low, interval.high))
    };
    Field::figure("95% CI", text).for_people().optional(1)
}

impl<'a> FleetSharesView<'a> {
    fn sheet(&self) -> Sheet<'a> {
        let is_of_functions = self.by.iter().any(|by| matches!(*by, "function" | "module"));
        let part = match (self.with_callees, is_of_functions) {
            (true, _) => "total",
            (false, true) => "self",
            (false, false) => "share",
        };
        let is_off_cpu = self.head.counted == FleetCounted::Waits;
        let in_use = if is_off_cpu { "threads" } else { "cores" };
        let mut fields = vec![
            Field::share("share", |row: &FleetShare| row.share.unwrap_or((0.0, None)))
                .why(|_| FEW_HOSTS)
                .for_programs(),
            Field::part("share", |row: &FleetShare| Some(row.share?.0)).head(part).for_people(),
            range(
                |row: &FleetShare| row.share,
                |low, high| format!("{} to {}", fixed(low * 100.0, 2), percent(high, 2)),
            ),
            Field::estimate(in_use, |row: &FleetShare| row.cores).for_programs(),
            Field::number(in_use, |row: &FleetShare| Some(row.cores?.0))
                .only_if_measured()
                .for_people(),
            range(
                |row: &FleetShare| row.cores,
                |low, high| format!("{} to {}", significant(low, 2), significant(high, 2)),
            )
            .only_if_measured(),
        ];
        if let Some(price) = self.price {
            let cost = move |row: &FleetShare| Some(row.cores?.0 * price * DAY);
            fields.push(Field::number("cost_per_day", cost).head("cost/day"));
        }
        fields.push(Field::count("hosts", |row: &FleetShare| row.hosts).optional(3));
        let counted = if is_off_cpu { "waits" } else { "samples" };
        fields.push(Field::count(counted, |row: &FleetShare| row.samples).optional(2));
        for (at, name) in self.by.iter().enumerate() {
            let text =
                move |row: &'a FleetShare| Some(&*row.keys[at]).filter(|key| !key.is_empty());
            let field =
                Field::text(*name, text).wanted(if *name == "function" { NAME } else { 12 });
            fields.push(match *name {
                "function" => field.searches(move |row| row.keys[at].clone()),
                _ => field,
            });
        }
        Sheet::new(fields, self.rows, self.rows.len())
    }

    fn title(&self) -> String {
        format!("Fleet by {}", self.by.join(", "))
    }

    /// The stacks as an SVG file; `None` where there are none.
    #[must_use]
    pub fn picture(&self) -> Option<String> {
        let (source, event) = self.event()?;
        let graph = Flame::new(source, event, FlameLimits::default());
        Some(flame_svg(&graph, &self.title(), &self.head.selection))
    }

    fn event(&self) -> Option<(&'a Source<'a>, &'a ExportedEvent)> {
        let source = self.stacks?;
        Some((source, source.events.first()?))
    }
}

impl Report for FleetSharesView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head.push_text(&mut out, style);
        if let Some((cores, interval)) = self.cores {
            let ci = interval.map_or("no CI".to_owned(), |of| {
                format!("95% CI {} to {}", significant(of.low, 3), significant(of.high, 3))
            });
            let is_off_cpu = self.head.counted == FleetCounted::Waits;
            let what = if is_off_cpu { "threads off the CPU" } else { "CPUs in use" };
            out.push_str(&format!("{what}: {} ({ci})\n\n", significant(cores, 3)));
        }
        out.push_str(&self.sheet().text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        let (cores, threads) = match self.head.counted == FleetCounted::Waits {
            false => (self.cores, None),
            true => (None, self.cores),
        };
        let value = |of: Option<(f64, Option<Interval>)>| Some(of?.0);
        let low = |of: Option<(f64, Option<Interval>)>| Some(of?.1?.low);
        let high = |of: Option<(f64, Option<Interval>)>| Some(of?.1?.high);
        SharesJson {
            head: self.head,
            by: self.by,
            with_callees: self.with_callees,
            cores: value(cores),
            cores_low: low(cores),
            cores_high: high(cores),
            threads: value(threads),
            threads_low: low(threads),
            threads_high: high(threads),
            rows: self.sheet(),
        }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet().delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let body = html! {
            @if let Some((source, event)) = self.event() {
                article class="event" id="event-0" {
                    (flame(&Flame::new(source, event, FlameLimits { boxes: 5_000, ..FlameLimits::default() }), &FlamePart {
                        of: (0, &event.name),
                        shape: "Callers on top, callees below; width is the share of the selection",
                        legend: &html! {},
                        forms: &[],
                        missing: None,
                    }))
                }
            }
            section class="table-part" {
                h2 { (self.title()) }
                p class="dim" {
                    "Shares are of the selection; 95% CIs are over hosts, which are what varies."
                }
                (self.sheet().html())
            }
        };
        Some(PageFrame { schema: SCHEMA, commit }.page(&self.head.summary(&self.title()), &body))
    }
}
