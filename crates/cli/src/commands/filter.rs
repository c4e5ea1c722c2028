//! Flags that leave samples out, for all commands that read recordings.

use pmuscope_console::exit::bad_input;
use pmuscope_machine::CpuSet;
use pmuscope_perfdata::reader::{Event, Metadata, RecordingFile};
use pmuscope_profile::{Filter, FilterError, FilterRequest, Times};
use pmuscope_report::escape;

/// Flags that leave something out.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Show only these processes
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pid: Vec<i32>,
    /// Show only these threads
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    tid: Vec<i32>,
    /// Show only threads with these names (comm)
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "comms")]
    comm: Vec<String>,
    /// Show only these CPUs, as in 0-3,8
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<CpuSet>,
    /// Show only CPUs of these NUMA nodes
    #[arg(long, value_name = "LIST")]
    node: Option<CpuSet>,
    /// Show only this time range: START,STOP or 10%-40%
    ///
    /// Seconds of the recording's clock, either end optional. +START,+STOP counts from the first
    /// sample; 10%-40% is that part of the recording, 10%/2 its second tenth.
    #[arg(long, value_name = "RANGE")]
    time: Option<Times>,
    /// Show only samples of this event; repeatable
    #[arg(short, long, value_name = "EVENT")]
    event: Vec<String>,
}

/// Flags that leave samples out by the names of functions.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SymbolFilterArgs {
    /// Show only samples in these DSOs (binaries or shared libraries)
    ///
    /// A whole path, or its last part, as in libc.so.6 or [kernel.kallsyms].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    dsos: Vec<String>,
    /// Show only samples in functions whose name contains TEXT
    ///
    /// Functions inlined there count too. =NAME is the whole name. Given twice, samples match both.
    #[arg(long, value_name = "TEXT")]
    symbol_filter: Vec<String>,
    /// Show only samples with TEXT anywhere in the call stack
    ///
    /// TEXT is a part of a function's name; =NAME is the whole name. Given twice, samples match both.
    #[arg(long, value_name = "TEXT")]
    focus: Vec<String>,
}

impl SymbolFilterArgs {
    /// Puts them into a filter.
    pub(crate) fn add_to(&self, filter: &mut Filter) {
        let Filter { dsos, symbols, focus, asked, .. } = self.request().of_tasks_and_names();
        (filter.dsos, filter.symbols, filter.focus) = (dsos, symbols, focus);
        filter.asked.extend(asked);
    }

    fn request(&self) -> FilterRequest {
        FilterRequest {
            dsos: self.dsos.clone(),
            symbols: self.symbol_filter.clone(),
            focus: self.focus.clone(),
            ..FilterRequest::default()
        }
    }

    /// Flags and their values.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        self.request().asked()
    }

    /// Whether anything is left out by them.
    pub(crate) fn is_asked(&self) -> bool {
        !self.asked().is_empty()
    }

    /// Whether callers have to be told apart for them.
    pub(crate) fn need_chains(&self) -> bool {
        !self.focus.is_empty()
    }
}

impl FilterArgs {
    /// Whether nothing is left out.
    pub(crate) fn is_open(&self) -> bool {
        self.asked().is_empty()
    }

    /// The processes.
    pub(crate) fn pids(&self) -> &[i32] {
        &self.pid
    }

    /// The filter, where it is by process, thread and name only.
    pub(crate) fn of_threads(&self) -> Option<Filter> {
        let others = self.cpu.is_some() || self.node.is_some() || self.time.is_some();
        let is_of_threads = !others && self.event.is_empty();
        is_of_threads.then(|| self.request().of_tasks_and_names())
    }

    fn request(&self) -> FilterRequest {
        FilterRequest {
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            comms: self.comm.clone(),
            cpus: self.cpu.clone(),
            nodes: self.node.clone(),
            times: self.time.clone(),
            events: self.event.clone(),
            ..FilterRequest::default()
        }
    }

    /// The filter for a recording.
    ///
    /// # Errors
    /// If it has no such event, does not have the nodes of its CPUs, or not the time of its first sample.
    pub(crate) fn filter(
        &self,
        recording: &RecordingFile,
        events: &[Event],
        metadata: &Metadata,
    ) -> anyhow::Result<Filter> {
        self.request().filter(recording, events, metadata).map_err(|error| match error {
            FilterError::Read(error) => error.into(),
            // Names may be anything, and go to a terminal.
            FilterError::NoSuchEvent { event, known } => {
                let known: Vec<_> = known.iter().map(|name| escape(name)).collect();
                let (event, known) = (escape(&event), known.join(", "));
                bad_input(format!("the recording has no event \"{event}\"; it has {known}"))
            }
            error => bad_input(error.to_string()),
        })
    }

    /// Flags and their values.
    pub(crate) fn asked(&self) -> Vec<(&'static str, String)> {
        self.request().asked()
    }
}
