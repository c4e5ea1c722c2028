//! Presentation only: text tables, JSON, pages and pictures from finished numbers.
//!
//! Text goes to a [`String`] first: [`Style`] says what the place it goes to can show, and the caller
//! writes it there. Foreign text (process names, symbols, sysfs strings) passes through [`escape`].

#![forbid(unsafe_code)]

mod bench;
mod compare;
mod counts;
mod counts_lines;
mod diff;
pub mod doctor;
mod document;
mod envelope;
mod escape;
mod events;
mod flame;
mod fleet;
mod guests;
mod html;
mod markup;
mod metrics;
mod numa;
mod recording;
mod report;
mod runs;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod sample_runs;
pub mod script;
mod section;
mod sharing;
mod sheet;
mod tint;
mod title;
mod top;
mod topdown;
mod views;
mod waits;
mod watch;
mod watch_plan;
#[cfg(test)]
mod widths;

pub use bench::{BenchKind, slots_page, slots_svg};
pub use compare::{figures_delimited, figures_head, figures_page};
pub use counts::{counts_notes, counts_text};
pub use counts_lines::{LineFormat, counts_lines, intervals_text};
pub use diff::DiffView;
pub use document::{Document, RecordingView};
pub use envelope::{Envelope, Tool, to_json};
pub use escape::{escape, escape_bytes, escape_lines};
pub use events::{Here, ListView};
pub use flame::{Flame, FlameLimits, FlatRow, Frame, Legend, Painter, Tint, flame_svg};
pub use fleet::{
    AnyColumn, AnyTable, AnyValues, FleetChange, FleetCounted, FleetDiffView, FleetHead, FleetHost,
    FleetHostsView, FleetLocalityRow, FleetLocalityView, FleetMetricCell, FleetMetricColumn,
    FleetMetricsOf, FleetMetricsRow, FleetMetricsView, FleetRunRow, FleetRunsView, FleetShare,
    FleetSharesView, FleetSide, FleetWaitRow, FleetWaitsView, SymbolizeView, SymbolizedModule,
};
pub use guests::guests_text;
pub use html::{Fact, PageLimits, ServedLink, Summary, html_page, redirect_page, served_page};
pub use metrics::{
    MetricsDiffView, MetricsView, Tints, length_text, metric_list_text, metrics_page,
    metrics_title, too_short_text,
};
pub use numa::{
    AdviceReport, Balanced, Followed, NumaShow, NumaSimulation, RestoredProcess, RestoredProcesses,
    told,
};
pub use pmuscope_text::number;
pub(crate) use pmuscope_text::wrap_parts;
pub use pmuscope_text::{Cell, Column, Paint, Style, Table, TableLines, wrap, wrap_lines};
use pmuscope_text::{style, table};
pub use recording::{
    Note, RECORDING_SCHEMA, RecordingReport, RowLimits, browser_notes, head_text, kept_text,
    modules_text, notes, order_note, other_data_text, recording_text, warnings_text,
};
pub use report::Report;
pub use sharing::{SampledLine, SharingBy, SharingDiffView, SharingView, WatchedLinesView};
pub use sheet::Separator;
#[cfg(feature = "screen")]
pub use top::{Key, Next, Screen};
pub use top::{TopBy, TopReport, TopView};
pub use topdown::sweep_text;
pub use views::{
    AnnotateView, EventRows, ROWS_SCHEMA, RowsBy, RowsReport, TreeLimits, accesses, balance_text,
    branches, data, functions_delimited, functions_lines, keys_text, neighbors_text, place_text,
    rows_delimited, rows_lines, rows_page, rows_text, side_by_side_delimited, side_by_side_page,
    side_by_side_text, tree_text,
};
pub use waits::{WaitsView, waits_summary};
pub use watch::{WatchLimits, WatchView};
pub use watch_plan::{WATCH_PLAN_SCHEMA, watch_plan_refusal, watch_plan_text};
