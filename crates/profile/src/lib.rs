//! Records to answers: which function took which share of the samples, and how sure that is.
//!
//! [`Collected`] goes over a recording, on all CPUs, and keeps, per distinct call chain, how often it was
//! hit in which block of time: memory grows with what is distinct, not with the samples. Then every
//! distinct address is given a name, once, and addresses become functions: a [`Profile`] and the
//! [`aggregate`] it is made of. Without call chains samples are counted only then.
//!
//! ```no_run
//! use pmuscope_perfdata::reader::Reader;
//! use pmuscope_profile::{Collected, Options};
//! use pmuscope_symbols::{KernelIdentity, Options as SymbolOptions, Symbolizer};
//!
//! let mut reader = Reader::open("perf.data".as_ref())?;
//! let collected = Collected::from_reader(&mut reader)?;
//! let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: true });
//! let running = KernelIdentity::default();
//! let profile = collected.profile(&reader, &running, Options::default(), &mut |requests| {
//!     symbolizer.resolve_all(requests)
//! })?;
//! for row in &profile.events[0].functions {
//!     println!("{:6.2} %  {}", row.share * 100.0, profile.name_of(row));
//! }
//! # Ok::<(), pmuscope_perfdata::reader::ReadError>(())
//! ```

#![forbid(unsafe_code)]

mod address_spaces;
pub mod aggregate;
mod build;
pub mod code;
mod count;
pub mod diff;
pub mod export;
mod facts;
mod filter;
pub mod heap;
pub mod hits;
mod live;
mod locator;
pub mod metrics;
mod names;
mod pool;
mod profile;
pub mod samples;
pub mod sharing;
mod table;
mod timeline;
pub mod views;
pub mod waits;
mod walk;
pub mod windows;

pub use address_spaces::{AddressSpaces, ModuleOffset, ModuleView, StackWalker};
pub use aggregate::LongPhases;
pub use count::chains::{ChainEntry, callchain, each_chain_entry};
pub use count::collect::Collected;
pub use count::group::{Counting, GroupBy, TasksBy};
pub use count::unwinding::{CutReason, CutStacks, ModuleRules, StackSummary, Unwinding};
pub use filter::{
    Facts, Filter, FilterError, FilterRequest, Targets, Times, cpu_nodes, is_named, sample_times,
};
pub use live::{Interval, Live};
pub use locator::{Locator, SampleThread};
pub use names::naming::{Names, Resolve};
pub use pmuscope_perfdata::reader::FileState;
pub use pmuscope_symbols::{
    DisassembleError, Doubt, Line, MissingSplit, NoCode, State as SymbolState, Symbol,
};
pub use pool::available_threads;
pub use profile::{
    Detail, EventProfile, Filtered, FunctionShare, HiddenRows, Intervals, ModuleShare,
    ModuleSummary, Options, Profile, RankBy, Total, is_software_clock, with_lost,
};
pub use timeline::loss::{CpuLosses, LossBlock, Lost, LostSource};
pub use timeline::modules::ModuleKind;
pub use views::annotation::{Annotation, Listed, Listing, NoInstructions, SourceFile};
pub use views::function_table::{FunctionNames, FunctionTable};
pub use walk::Walked;
