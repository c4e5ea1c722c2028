//! Looking around in a profile with keys: views, filters and their history, drawn on a grid of characters. It knows no
//! terminal and runs no command: keys come in, drawings go out, and a command that is to be run is asked for.
//!
//! ```text
//!  Profile ─► SeenCounts ──────────► RowsView, TreeView, NeighborsView, TimeView ─┐
//!               ▲  steps: filters, counted anew from what was read            ├─► draw
//!  Key ─► Browser ─► After::Run(CommandJob) ─► a command, run by the caller          │
//!               ▲                          └─► its text ─► DocumentView ──────┘
//!               ├── take(text)
//!               ├── take_whole(Profile): where functions came first
//!               └── rest(): no key waits ─► intervals of the rows that are seen
//! ```
//! What is kept: each distinct call stack of a thread on a CPU, with its counts in at most 256 blocks of time. Filters by
//! thread, process, comm, CPU, node, DSO, call stack and time count that anew; views that need more are printed by the
//! commands of the program, with the same filters.

#![forbid(unsafe_code)]

mod browser;
mod code_view;
mod command;
mod document_view;
mod draw;
mod flags;
mod hints;
mod keys;
mod list;
mod neighbors_view;
mod overlay;
mod rows_table;
mod rows_view;
mod seen;
mod sgr;
mod step;
mod subject;
mod time_view;
mod tree_view;

pub use browser::{After, Browser, CommandJob, CommandOutput};
pub use command::CommandLine;
pub use flags::RecordingFlags;
