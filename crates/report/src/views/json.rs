//! Rows by any dimensions for programs: the result of `pmuscope/rows/1`.

use pmuscope_profile::views::{Balance, Dimension, Key, Row};
use pmuscope_profile::{ModuleSummary, Profile};
use serde::Serialize;
use serde_json::{Map, Value};

use super::dimension_word;
use crate::recording::{Head, NO_INTERVAL, RowLimits};

/// The schema of [`RowsReport`] in its envelope.
pub const ROWS_SCHEMA: &str = "pmuscope/rows/1";

/// Rows of a recording.
#[derive(Debug, Serialize)]
pub struct RowsReport<'a> {
    recording: Head<'a>,
    by: Vec<&'static str>,
    events: Vec<Event<'a>>,
}

/// Rows of one event.
#[derive(Debug)]
pub struct EventRows<'a> {
    /// The event's name.
    pub name: &'a str,
    /// Its rows.
    pub rows: Vec<Row>,
    /// How even it is, by CPU or node where rows are by them.
    pub balance: Vec<(Dimension, Balance)>,
}

impl<'a> RowsReport<'a> {
    /// What is shown of the rows of each event. `children` tells whether stacks were recorded.
    #[must_use]
    pub fn new(
        file: &'a str,
        by: &[Dimension],
        events: &[EventRows<'a>],
        profile: &'a Profile,
        children: bool,
        limits: RowLimits,
    ) -> Self {
        let modules = &profile.modules;
        let event = |EventRows { name, rows, balance }: &EventRows<'a>| {
            let size = |row: &&Row| if children { row.total_share } else { row.share };
            let most = limits.rows.unwrap_or(usize::MAX);
            let shown = rows.iter().filter(|row| size(row) >= limits.share).take(most);
            let shown: Vec<RowOut> =
                shown.map(|row| RowOut::new(row, by, modules, children)).collect();
            let samples = rows.iter().map(|row| row.own.samples).sum();
            let balance = balance.iter().map(BalanceOut::new).collect();
            Event { name, samples, balance, rows_left_out: rows.len() - shown.len(), rows: shown }
        };
        Self {
            recording: Head::new(profile, file),
            by: by.iter().copied().map(dimension_word).collect(),
            events: events.iter().map(event).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    name: &'a str,
    samples: u64,
    /// Absent where rows are by neither CPU nor node, or only one has samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    balance: Vec<BalanceOut>,
    rows: Vec<RowOut>,
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

/// A row, with a field for each dimension.
#[derive(Debug, Serialize)]
pub(crate) struct RowOut {
    /// A field per dimension; `null` where it is not known.
    #[serde(flatten)]
    keys: Map<String, Value>,
    samples: u64,
    share: f64,
    share_low: Option<f64>,
    share_high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    /// In it or under it; absent without call chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    children_samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children_share: Option<f64>,
}

impl RowOut {
    pub(crate) fn new(
        row: &Row,
        by: &[Dimension],
        modules: &[ModuleSummary],
        children: bool,
    ) -> Self {
        let key = |(dimension, key): (&Dimension, &Key)| {
            (dimension_word(*dimension).to_owned(), value(key, modules))
        };
        Self {
            keys: by.iter().zip(&row.keys).map(key).collect(),
            samples: row.own.samples,
            share: row.share,
            share_low: row.interval.map(|interval| interval.low),
            share_high: row.interval.map(|interval| interval.high),
            why: row.interval.is_none().then_some(NO_INTERVAL),
            children_samples: children.then_some(row.total.samples),
            children_share: children.then_some(row.total_share),
        }
    }
}

fn value(key: &Key, modules: &[ModuleSummary]) -> Value {
    match key {
        Key::Unknown => Value::Null,
        Key::Name(name) => (**name).into(),
        Key::Number(number) => (*number).into(),
        Key::Module(module) => {
            modules.get(*module as usize).map_or(Value::Null, |module| module.path.as_str().into())
        }
        Key::Line(line) => {
            let number = line.number.map_or("?".into(), |number| number.to_string());
            format!("{}:{number}", line.file).into()
        }
        Key::Address(address) => format!("{address:#x}").into(),
    }
}
