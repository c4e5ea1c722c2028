//! Rows by any dimensions for programs: the result of `pmuscope/rows/1`.

use pmuscope_profile::Profile;
use pmuscope_profile::views::{Balance, Dimension};
use serde::Serialize;

use super::dimension_word;
use super::rows::{EventRows, RowsBy};
use crate::recording::{Head, RowLimits};
use crate::sheet::Sheet;

/// The schema of [`RowsReport`] in its envelope.
pub const ROWS_SCHEMA: &str = "pmuscope/rows/1";

/// Rows of a recording.
#[derive(Debug, Serialize)]
pub struct RowsReport<'a> {
    recording: Head<'a>,
    by: Vec<&'static str>,
    events: Vec<RowsEvent<'a>>,
}

impl<'a> RowsReport<'a> {
    /// What is shown of the rows of each event.
    #[must_use]
    pub fn new(
        file: &'a str,
        by: RowsBy<'a>,
        events: &'a [EventRows<'a>],
        profile: &'a Profile,
        limits: RowLimits,
    ) -> Self {
        let event = |event: &'a EventRows<'a>| {
            let sheet = event.sheet(by, limits);
            RowsEvent {
                name: event.name,
                samples: event.rows.iter().map(|row| row.own.samples).sum(),
                balance: event.balance.iter().map(BalanceOut::new).collect(),
                rows_left_out: sheet.left_out(),
                rows: sheet,
            }
        };
        Self {
            recording: Head::new(profile, file),
            by: by.dimensions.iter().copied().map(dimension_word).collect(),
            events: events.iter().map(event).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct RowsEvent<'a> {
    name: &'a str,
    samples: u64,
    /// Absent where rows are by neither CPU nor node, or only one has samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    balance: Vec<BalanceOut>,
    rows: Sheet<'a>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct BalanceOut {
    of: &'static str,
    units: usize,
    busiest: u32,
    busiest_share: f64,
    idlest: u32,
    idlest_share: f64,
    mean_share: f64,
}

impl BalanceOut {
    fn new((of, balance): &(Dimension, Balance)) -> Self {
        Self {
            of: dimension_word(*of),
            units: balance.units,
            busiest: balance.busiest.0,
            busiest_share: balance.busiest.1,
            idlest: balance.idlest.0,
            idlest_share: balance.idlest.1,
            mean_share: balance.mean(),
        }
    }
}
