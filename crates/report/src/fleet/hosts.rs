//! What was recorded of each host.

use serde::Serialize;

use super::FleetHead;
use crate::html::PageFrame;
use crate::markup::html;
use crate::report::Report;
use crate::sheet::{Field, Separator, Sheet};
use crate::{Paint, Style};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-hosts/1";

/// What was recorded of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetHost {
    /// Host name. Foreign text.
    pub host: String,
    /// CPUs.
    pub cpus: Option<u64>,
    /// Time that was recorded, seconds.
    pub recorded_s: f64,
    /// The same as a part of the time that the answer covers, 0 to 1.
    pub recorded: Option<f64>,
    /// CPUs in use; missing where the event counts no time.
    pub cores: Option<f64>,
    /// Samples of all services.
    pub samples: u64,
    /// Samples lost; missing where nobody counted.
    pub lost: Option<u64>,
    /// Times that the kernel suspended sampling.
    pub throttled: u64,
    /// CPU time of the agent by time recorded, CPUs; missing where no agent recorded.
    pub own_cores: Option<f64>,
    /// Samples that were taken but are not there: a full spool dropped them, or they are not delivered yet.
    pub missing: Option<u64>,
}

/// Hosts.
#[derive(Debug)]
pub struct FleetHostsView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// By name.
    pub rows: &'a [FleetHost],
}

#[derive(Serialize)]
struct HostsJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    rows: Sheet<'a>,
}

fn sheet(rows: &[FleetHost]) -> Sheet<'_> {
    let misses = |row: &FleetHost| row.missing.is_some_and(|missing| missing != 0);
    let fields = vec![
        Field::text("host", |row: &FleetHost| Some(&*row.host)).wanted(16),
        Field::count("cpus", |row: &FleetHost| row.cpus).head("CPUs"),
        Field::part("recorded", |row: &FleetHost| row.recorded),
        Field::seconds("recorded_s", |row: &FleetHost| Some(row.recorded_s)).for_programs(),
        Field::number("cores", |row: &FleetHost| row.cores).only_if_measured(),
        Field::count("samples", |row: &FleetHost| row.samples),
        Field::count("lost", |row: &FleetHost| row.lost),
        Field::count("throttled", |row: &FleetHost| row.throttled).optional(2),
        Field::part("own_cpu", |row: &FleetHost| row.own_cores).head("agent").optional(1),
        Field::count("missing", |row: &FleetHost| row.missing)
            .only_if_measured()
            .painted(move |row| if misses(row) { Paint::Warn } else { Paint::Plain }),
    ];
    Sheet::new(fields, rows, rows.len()).by_another_order()
}

impl Report for FleetHostsView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head.without_ci().push_text(&mut out, style);
        out.push_str(&sheet(self.rows).text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        HostsJson { head: self.head, rows: sheet(self.rows) }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(sheet(self.rows).delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let body = html! {
            section class="table-part" {
                h2 { "Hosts" }
                p class="dim" { "agent: CPU time of the agent, of one CPU; missing: samples that were taken but are not there." }
                (sheet(self.rows).html())
            }
        };
        Some(
            PageFrame { schema: SCHEMA, commit }
                .page(&self.head.without_ci().summary("Fleet: hosts"), &body),
        )
    }
}
