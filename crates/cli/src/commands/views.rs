//! Views of `pmuscope report` beside the table of functions: rows by any dimensions, the call tree, a
//! function between its callers and callees, events side by side.

use std::cmp::Reverse;
use std::str::FromStr;

use pmuscope_console::exit::bad_input;
use pmuscope_console::output::Format;
use pmuscope_profile::aggregate::Aggregate;
use pmuscope_profile::views::{
    AccessBy, Balance, CallSite, DataBy, Dimension, Direction, SideRow, balance, call_tree,
    neighbors, rows, side_by_side,
};
use pmuscope_profile::waits::WaitBy;
use pmuscope_profile::{
    Detail, EventProfile, GroupBy, Intervals, Options, Profile, TasksBy, cpu_nodes,
};
use pmuscope_report::{
    EventRows, PageLimits, ROWS_SCHEMA, RecordingView, Report, RowLimits, RowsBy, RowsReport,
    Separator, Style, TreeLimits, balance_text, head_text, neighbors_text, number, rows_delimited,
    rows_page, rows_text, side_by_side_delimited, side_by_side_page, side_by_side_text, tree_text,
    warnings_text, wrap,
};
use serde::Serialize;

use crate::commands::choice::one_of;
use crate::commands::details::Details;

/// Smallest share of a line in a call tree where no limit is given.
const TREE_SHARE: f64 = 0.005;

/// What rows of events side by side are by where nothing else is asked for: what tables of functions
/// are by.
const SIDE_BY_SIDE: [Dimension; 3] = [Dimension::Command, Dimension::Module, Dimension::Function];

/// Events that stand side by side in text and on a page, unless all rows are asked for: a reader compares no more.
const MOST_EVENTS: usize = 8;
const MOST_EVENTS_OF_PAGE: usize = 24;

/// Rows of each of them that get an interval, at least.
const SIDE_INTERVALS: usize = 1000;

/// Flags that choose a view.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Group rows by comm, pid, tid, cpu, node, dso, sym, …
    ///
    /// Any of command (comm), process (pid), thread (tid), cpu, node, module (dso), function (sym),
    /// line (srcline) and address, combined with commas. Alone: branch, from function to function.
    /// mem, the memory level of sampled accesses, data, the variables and mappings accessed, and field
    /// (symbol_daddr), their fields or offsets, also combine with function, command, process, thread,
    /// cpu and node. wait, where threads were off the CPU (record --off-cpu), also combines with
    /// function, command, process and thread.
    #[arg(
        long,
        short_alias = 's',
        alias = "sort",
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with_all = ["call_tree", "peek", "modules"],
        help_heading = "Views"
    )]
    by: Vec<By>,
    /// Show events side by side in one table
    #[arg(long, conflicts_with_all = ["call_tree", "peek", "modules", "json"], help_heading = "Views")]
    group: bool,
    /// Show the call tree: callees (top-down) or callers (bottom-up)
    ///
    /// callees starts at the outermost function, callers at the sampled one.
    #[arg(
        long,
        value_name = "DIRECTION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "callees",
        value_parser = one_of(DIRECTIONS),
        conflicts_with_all = ["peek", "modules", "json"],
        help_heading = "Views"
    )]
    call_tree: Option<Direction>,
    /// Show a function with its callers and callees
    ///
    /// Part of the name is enough.
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["modules", "json"], help_heading = "Views")]
    peek: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum By {
    One(Dimension),
    Branch,
    Memory,
    Data,
    /// Data by field.
    Field,
    Wait,
}

impl By {
    /// What no count has: samples are read once more.
    fn is_of_details(self) -> bool {
        matches!(self, Self::Branch | Self::Memory | Self::Data | Self::Field)
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let ours = match word {
            "comm" => "command",
            "pid" => "process",
            "tid" => "thread",
            "dso" => "module",
            "sym" | "symbol" => "function",
            "srcline" => "line",
            "addr" => "address",
            word => word,
        };
        let found = Dimension::ALL.iter().find(|(name, _)| *name == ours);
        match word {
            "wait" => return Ok(Self::Wait),
            "branch" => return Ok(Self::Branch),
            "mem" | "memory" => return Ok(Self::Memory),
            "data" | "dso_daddr" => return Ok(Self::Data),
            "field" | "symbol_daddr" => return Ok(Self::Field),
            _ => {}
        }
        found.map(|(_, dimension)| Self::One(*dimension)).ok_or_else(|| {
            let all: Vec<&str> = Dimension::ALL.iter().map(|(name, _)| *name).collect();
            format!("use one of {}, mem, data, field, wait; or branch alone", all.join(", "))
        })
    }
}

/// Values of `--call-tree`.
const DIRECTIONS: [(&str, &str, Direction); 2] =
    [("callees", "", Direction::Callees), ("callers", "", Direction::Callers)];

/// A view as it was asked for.
#[derive(Debug, Clone)]
pub(super) enum View {
    Rows(Vec<Dimension>),
    /// Rows with a column for each event.
    SideBySide(Vec<Dimension>),
    Tree(Direction),
    Peek(String),
}

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 40;

impl ViewArgs {
    /// What of samples was asked for that no count has.
    ///
    /// # Errors
    /// If it does not combine with what else was asked for.
    pub(super) fn details(&self) -> anyhow::Result<Option<Details>> {
        if !self.by.iter().any(|by| by.is_of_details()) {
            return Ok(None);
        }
        let has = |wanted: fn(&By) -> bool| self.by.iter().any(wanted);
        let is_of_data = has(|by| matches!(by, By::Data | By::Field));
        match (has(|by| matches!(by, By::Branch)), has(|by| matches!(by, By::Memory))) {
            (true, _) if self.by.len() == 1 => return Ok(Some(Details::Branches)),
            (true, _) => {
                return Err(bad_input("--by branch does not combine with others. Try: it alone"));
            }
            (false, true) if is_of_data => {
                let message =
                    "--by mem and data do not combine. Try: --by data,function, or mem,function";
                return Err(bad_input(message));
            }
            _ => {}
        }
        let accessor = self.accessor().map_err(bad_input)?;
        let field = has(|by| matches!(by, By::Field));
        Ok(Some(match is_of_data {
            true => Details::Data(DataBy { field, accessor }),
            false => Details::Memory(accessor),
        }))
    }

    /// By whom accesses were asked for.
    fn accessor(&self) -> Result<AccessBy, &'static str> {
        let mut accessor = AccessBy::default();
        for by in &self.by {
            let By::One(dimension) = by else {
                if matches!(by, By::Wait) {
                    return Err(
                        "--by wait does not combine with mem, data and field. Try: each alone",
                    );
                }
                continue;
            };
            let finer = |tasks: TasksBy| accessor.tasks.max(Some(tasks));
            match dimension {
                Dimension::Function => accessor.function = true,
                Dimension::Command => accessor.tasks = finer(TasksBy::Command),
                Dimension::Process => accessor.tasks = finer(TasksBy::Process),
                Dimension::Thread => accessor.tasks = finer(TasksBy::Thread),
                Dimension::Cpu => accessor.cpu = true,
                Dimension::Node => accessor.node = true,
                Dimension::Module | Dimension::Line | Dimension::Address => {
                    return Err(
                        "--by mem, data and field combine with function, command, process, thread, cpu and node only. Try: \
                         --by data,function",
                    );
                }
            }
        }
        Ok(accessor)
    }

    /// By what waits were asked for, if they were.
    ///
    /// # Errors
    /// If they cannot be told apart by what else was asked for.
    pub(super) fn waits(&self) -> anyhow::Result<Option<Vec<WaitBy>>> {
        if !self.by.iter().any(|by| matches!(by, By::Wait)) {
            return Ok(None);
        }
        if self.group {
            return Err(bad_input(
                "--group puts events side by side, which --by wait does not have. Try: without --group",
            ));
        }
        let by = |by: &By| match by {
            By::Wait => Some(WaitBy::Wait),
            By::One(Dimension::Function) => Some(WaitBy::Function),
            By::One(Dimension::Command) => Some(WaitBy::Command),
            By::One(Dimension::Process) => Some(WaitBy::Process),
            By::One(Dimension::Thread) => Some(WaitBy::Thread),
            By::One(_) | By::Branch | By::Memory | By::Data | By::Field => None,
        };
        let by: Option<Vec<WaitBy>> = self.by.iter().map(by).collect();
        by.map(Some).ok_or_else(|| {
            let message = "--by wait goes with function, command, process and thread only";
            bad_input(message)
        })
    }

    /// Rows where no limit is given: a tree takes more of them to say as much.
    pub(super) fn default_rows(&self) -> usize {
        if self.call_tree.is_some() { TreeLimits::default().lines } else { DEFAULT_ROWS }
    }

    /// What was asked for, if anything.
    pub(super) fn view(&self) -> Option<View> {
        let dimension = |by: &By| match by {
            By::One(dimension) => Some(*dimension),
            By::Branch | By::Memory | By::Data | By::Field | By::Wait => None,
        };
        let mut by: Vec<Dimension> = self.by.iter().filter_map(dimension).collect();
        if self.group {
            if by.is_empty() {
                by = SIDE_BY_SIDE.to_vec();
            }
            return Some(View::SideBySide(by));
        }
        let by = || (!by.is_empty()).then_some(by);
        let tree = || self.call_tree.map(View::Tree);
        by().map(View::Rows).or_else(tree).or_else(|| self.peek.clone().map(View::Peek))
    }
}

impl View {
    fn asks_for(&self, dimension: Dimension) -> bool {
        matches!(self, Self::Rows(by) | Self::SideBySide(by) if by.contains(&dimension))
    }

    /// What has to be told apart for it.
    pub(super) fn apart(&self) -> GroupBy {
        GroupBy {
            chains: true,
            tasks: if self.asks_for(Dimension::Thread) {
                TasksBy::Thread
            } else if self.asks_for(Dimension::Process) {
                TasksBy::Process
            } else {
                TasksBy::Command
            },
            cpus: self.asks_for(Dimension::Cpu) || self.asks_for(Dimension::Node),
        }
    }

    /// How far, and without rows of functions that nobody sees.
    pub(super) fn options(&self) -> Options {
        let detail = if self.asks_for(Dimension::Address) {
            Detail::Address
        } else if self.asks_for(Dimension::Line) {
            Detail::Line
        } else {
            Detail::Function
        };
        Options { detail, ..Options::COUNTS }
    }

    /// Lines come with inlined functions only.
    pub(super) fn needs_lines(&self) -> bool {
        self.asks_for(Dimension::Line)
    }

    /// Whether it is lines for people, which other formats do not have.
    pub(super) fn is_text_only(&self) -> bool {
        matches!(self, Self::Tree(_) | Self::Peek(_))
    }

    /// The view of a profile, in a format.
    ///
    /// # Errors
    /// No sampled function has the name that was asked for.
    pub(super) fn report<'a>(
        &'a self,
        (profile, file): (&'a Profile, &'a str),
        limits: RowLimits,
        format: Format,
    ) -> anyhow::Result<ViewReport<'a>> {
        if let Self::Peek(name) = self {
            let counts = profile.chains();
            let is_there = |event: &EventProfile| {
                neighbors(counts, event.index, &is_called(counts, name)).is_some()
            };
            if !profile.events.iter().any(is_there) {
                return Err(bad_input(format!(
                    "no sampled function is named {name}. Try: pmuscope report --by function --limit all"
                )));
            }
        }
        let rows = match format {
            Format::Html => Some(PageLimits::of(limits).rows),
            _ => limits.rows,
        };
        let most = if format == Format::Text { usize::MAX } else { Intervals::MOST };
        let events = match self {
            Self::Rows(by) => event_rows(by, profile, rows.unwrap_or(most)),
            _ => Vec::new(),
        };
        // What programs read has all events; people who ask for all rows get all columns, too.
        let most_events = match format {
            Format::Text => limits.rows.map_or(usize::MAX, |_| MOST_EVENTS),
            Format::Html => MOST_EVENTS_OF_PAGE,
            _ => usize::MAX,
        };
        let limits = RowLimits { rows, ..limits };
        Ok(ViewReport { view: self, profile, file, limits, most_events, events })
    }
}

/// A view of a profile.
pub(super) struct ViewReport<'a> {
    view: &'a View,
    profile: &'a Profile,
    file: &'a str,
    limits: RowLimits,
    /// Events that stand side by side.
    most_events: usize,
    /// Rows of each event, where the view is of rows.
    events: Vec<EventRows<'a>>,
}

impl ViewReport<'_> {
    fn rows_by(&self) -> RowsBy<'_> {
        let dimensions = match self.view {
            View::Rows(by) | View::SideBySide(by) => &by[..],
            View::Tree(_) | View::Peek(_) => &[],
        };
        let children = self.profile.aggregate.has_calls();
        RowsBy { dimensions, modules: &self.profile.modules, children }
    }

    /// The events that stand side by side, in the order of the recording: of many, those with most samples.
    fn side_events(&self) -> Vec<&EventProfile> {
        let events = &self.profile.events;
        let samples: Vec<u64> = events.iter().map(|event| event.samples).collect();
        most_sampled(&samples, self.most_events).into_iter().map(|at| &events[at]).collect()
    }

    /// How many do not, and what shows all.
    fn events_left_out(&self, how: &str) -> Option<String> {
        let left_out = self.profile.events.len().saturating_sub(self.most_events);
        (left_out > 0).then(|| {
            let events = number::counted(left_out, "event");
            format!("{events} with fewer samples left out. Try: {how}")
        })
    }

    /// The view of one event, the `at`th; `None` where it has nothing of it.
    fn event_text(&self, at: usize, style: &Style) -> Option<String> {
        let (profile, limits) = (self.profile, self.limits);
        let (counts, index) = (profile.chains(), profile.events[at].index);
        Some(match self.view {
            View::Rows(_) => {
                let event = &self.events[at];
                let table = rows_text(&event.rows, self.rows_by(), limits, style);
                let lines = event.balance.iter().map(|(of, balance)| balance_text(*of, balance));
                format!("{table}{}", lines.collect::<String>())
            }
            // All events at once.
            View::SideBySide(_) => String::new(),
            View::Tree(direction) => {
                let share = if limits.share > 0.0 { limits.share } else { TREE_SHARE };
                let lines = limits.rows.unwrap_or(usize::MAX);
                let limits = TreeLimits { share, lines, ..TreeLimits::default() };
                let tree = call_tree(counts, index, *direction, share);
                tree_text(&tree, *direction, &profile.modules, limits, style)
            }
            View::Peek(name) => {
                let around = neighbors(counts, index, &is_called(counts, name))?;
                let all = counts.of_event(index).iter().map(|cell| cell.weight).sum();
                neighbors_text(name, &around, all, &profile.modules, limits.rows, style)
            }
        })
    }
}

impl Report for ViewReport<'_> {
    fn schema(&self) -> &'static str {
        ROWS_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let profile = self.profile;
        let mut out = head_text(profile, self.file, style);
        if let View::SideBySide(by) = self.view {
            let (found, names) = side_by_side_rows(by, &self.side_events(), profile, self.limits);
            out.push('\n');
            out += &side_by_side_text(&found, &names, self.rows_by(), self.limits, style);
            if let Some(left_out) = self.events_left_out("--limit all, or -o FILE.csv") {
                out += &format!("{}\n", wrap(&left_out, style.width, 0));
            }
            return out + &warnings_text(profile, style);
        }
        for (at, event) in profile.events.iter().enumerate() {
            let Some(text) = self.event_text(at, style) else { continue };
            out.push('\n');
            if profile.events.len() > 1 {
                out += &format!("{}\n", pmuscope_report::escape(&event.name));
            }
            out += &text;
        }
        if self.view.is_text_only() && !profile.aggregate.has_calls() {
            out += "\nnote: the recording has no callchains. Try: pmuscope record -g\n";
        }
        out + &warnings_text(profile, style)
    }

    fn json(&self) -> impl Serialize {
        RowsReport::new(self.file, self.rows_by(), &self.events, self.profile, self.limits)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let (limits, by) = (self.limits, self.rows_by());
        match self.view {
            View::Rows(_) => Some(rows_delimited(&self.events, by, limits, separator)),
            View::SideBySide(dimensions) => {
                let events = self.side_events();
                let (found, names) = side_by_side_rows(dimensions, &events, self.profile, limits);
                Some(side_by_side_delimited(&found, &names, by, limits, separator))
            }
            View::Tree(_) | View::Peek(_) => None,
        }
    }

    fn page(&self, commit: &str) -> Option<String> {
        let (limits, by) = (self.limits, self.rows_by());
        let view = RecordingView { file: self.file, profile: self.profile, limits };
        match self.view {
            View::Rows(_) => Some(rows_page(&self.events, by, view, commit)),
            View::SideBySide(dimensions) => {
                let events = self.side_events();
                let (found, names) = side_by_side_rows(dimensions, &events, self.profile, limits);
                let left_out = self.events_left_out("-o FILE.csv");
                Some(side_by_side_page(&found, (&names, left_out), by, view, commit))
            }
            View::Tree(_) | View::Peek(_) => None,
        }
    }
}

/// Rows of all events; the `most` largest of each have intervals.
fn event_rows<'a>(by: &[Dimension], profile: &'a Profile, most: usize) -> Vec<EventRows<'a>> {
    let rows = |index| rows(&profile.aggregate, index, by, &node_of(profile), most);
    let event = |event: &'a EventProfile| {
        EventRows::new(event, rows(event.index), balances(profile, event.index, by))
    };
    profile.events.iter().map(event).collect()
}

/// Rows with a column for each event, and the names of the events.
fn side_by_side_rows<'a>(
    by: &[Dimension],
    events: &[&'a EventProfile],
    profile: &Profile,
    limits: RowLimits,
) -> (Vec<SideRow>, Vec<&'a str>) {
    // A large row of one event may be a small one of another.
    let most = limits.rows.unwrap_or(Intervals::MOST).max(SIDE_INTERVALS);
    let node_of = node_of(profile);
    let of_event =
        |event: &&EventProfile| rows(&profile.aggregate, event.index, by, &node_of, most);
    let found = side_by_side(events.iter().map(of_event).collect());
    (found, events.iter().map(|event| &*event.name).collect())
}

/// Positions of the `most` events with the most samples, in their order.
fn most_sampled(samples: &[u64], most: usize) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..samples.len()).collect();
    ranked.sort_by_key(|&at| (Reverse(samples[at]), at));
    ranked.truncate(most);
    ranked.sort_unstable();
    ranked
}

/// How even an event is by CPU and by node, as far as rows are by them.
fn balances(profile: &Profile, event: u32, by: &[Dimension]) -> Vec<(Dimension, Balance)> {
    let node_of = node_of(profile);
    let of = |dimension: &Dimension| {
        let unit_of: &dyn Fn(u32) -> Option<u32> = match dimension {
            Dimension::Cpu => &Some,
            Dimension::Node => &node_of,
            _ => return None,
        };
        Some((*dimension, balance(&profile.aggregate, event, unit_of)?))
    };
    by.iter().filter_map(of).collect()
}

/// The node of a CPU, as the recording tells it.
fn node_of(profile: &Profile) -> impl Fn(u32) -> Option<u32> + '_ {
    let nodes = cpu_nodes(&profile.metadata);
    move |cpu| nodes.get(&cpu).copied()
}

/// Functions of that very name; where there is none, those whose name holds it.
fn is_called(counts: &Aggregate, name: &str) -> impl Fn(&CallSite) -> bool {
    let exact = counts.functions.iter().any(|function| *function.name == *name);
    let name = name.to_owned();
    move |place: &CallSite| {
        place
            .function
            .as_deref()
            .is_some_and(|function| if exact { function == name } else { function.contains(&name) })
    }
}

#[cfg(test)]
mod tests {
    use super::most_sampled;

    #[test]
    fn events_with_most_samples_stay_in_their_order() {
        assert_eq!(most_sampled(&[5, 9, 0, 9, 7], 3), [1, 3, 4]);
        assert_eq!(most_sampled(&[0, 0, 0], 2), [0, 1]);
        assert_eq!(most_sampled(&[1], usize::MAX), [0]);
    }
}
