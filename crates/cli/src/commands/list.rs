//! `pmuscope list`.

use std::collections::HashMap;
use std::io;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_console::output::OutputArgs;
use pmuscope_console::say;
use pmuscope_counters::{Host, Kernel, errno_name, open_refusal};
use pmuscope_events::inventory::{Offer, OfferGroup, inventory, of_other_cpus};
use pmuscope_events::{Event, MachineCatalog};
use pmuscope_machine::Machine;
use pmuscope_report::{Here, ListView, escape, number};
use regex::RegexBuilder;

use super::event_lists::EventListArgs;

/// This process.
const SELF: i32 = 0;
/// Any process, or any CPU.
const ANY: i32 = -1;

pmuscope_console::forms!(ListFormats: Text Json Csv Tsv, "pmuscope/list/1");

/// Categories of perf list, which are shown whole instead of by name.
const CATEGORIES: [(&str, OfferGroup); 10] = [
    ("hw", OfferGroup::Hardware),
    ("hardware", OfferGroup::Hardware),
    ("sw", OfferGroup::Software),
    ("software", OfferGroup::Software),
    ("cache", OfferGroup::Cache),
    ("hwcache", OfferGroup::Cache),
    ("pmu", OfferGroup::Unit),
    ("list", OfferGroup::List),
    ("tracepoint", OfferGroup::Tracepoint),
    ("rawpmu", OfferGroup::Syntax),
];

/// Flags of `pmuscope list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope list                     every event, by kind
  pmuscope list hw                  a category: hw, sw, cache, pmu or tracepoint
  pmuscope list '^l2_rqsts|^dtlb'   events whose name matches, in any case
  pmuscope list --details energy    everything known about them
  pmuscope list --events perfmon --json l2")]
pub(crate) struct Args {
    /// Regular expression that event names match, in any case
    ///
    /// Or a category of perf list: hw, sw, cache, pmu, tracepoint.
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,
    /// Show everything known about each event
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    output: OutputArgs<ListFormats>,
    #[command(flatten)]
    lists: EventListArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let machine = Machine::host();
    let catalog = MachineCatalog::new(&machine).map_err(not_possible)?;
    let found = args.lists.lists(&machine)?;
    let from = found.as_ref().map(|found| (found.path.display().to_string(), found.lists.len()));
    let mut notes = found.as_ref().map_or_else(Vec::new, |found| found.lists.notes().to_vec());
    let catalog = match found {
        Some(found) => catalog.with_lists(found.lists),
        None => catalog,
    };
    let category = args.pattern.as_deref().and_then(category);
    let pattern = args.pattern.as_deref().filter(|_| category.is_none()).unwrap_or("");
    let wanted = RegexBuilder::new(pattern).case_insensitive(true).build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        bad_input(format!("'{}' is not a regular expression: {why}", escape(pattern)))
    })?;
    let is_wanted = |name: &str| wanted.is_match(name);
    let mut all = inventory(&catalog, &is_wanted);
    notes.extend(all.notes);
    // Of lists for other CPUs there may be tens of thousands.
    if args.pattern.is_some() && category.is_none() {
        all.offers.extend(of_other_cpus(&catalog, &is_wanted));
    }
    all.offers.retain(|offer| category.is_none_or(|group| offer.group == group));
    let mut trial = Trial::new(&machine);
    let rows: Vec<(Offer, Here)> = all
        .offers
        .into_iter()
        .map(|offer| {
            let here = trial.of(&offer);
            (offer, here)
        })
        .collect();
    let exit = if rows.is_empty() { Exit::Incomplete } else { Exit::Done };
    if rows.is_empty() {
        let pattern = escape(args.pattern.as_deref().unwrap_or(""));
        match &from {
            None => say!(
                "warning: no event matches '{pattern}'. Try: pmuscope list, or pmuscope events import DIR \
                 for the CPU vendor's lists"
            ),
            // More lists would not help: these are all that there is for this CPU.
            Some((path, events)) => say!(
                "warning: no event matches '{pattern}', among them {} for this CPU in {}. Try: \
                 pmuscope list",
                number::counted(*events, "event"),
                escape(path)
            ),
        }
    }
    let (pattern, details) = (args.pattern.as_deref(), args.details);
    let view = ListView { pattern, rows, lists: from, notes, details };
    form.show(&view, &exit)?;
    Ok(exit)
}

/// The category that a word of perf list names.
fn category(word: &str) -> Option<OfferGroup> {
    CATEGORIES.iter().find(|(name, _)| *name == word).map(|(_, group)| *group)
}

/// Opens events and closes them again, each kind of question once.
struct Trial {
    paranoid: Option<i32>,
    /// Answers by type and by what selects the event.
    known: HashMap<(u32, u64, u64, u64), Here>,
}

impl Trial {
    fn new(machine: &Machine) -> Self {
        Self { paranoid: machine.limits().perf_event_paranoid, known: HashMap::new() }
    }

    fn of(&mut self, offer: &Offer) -> Here {
        if let Some(why) = &offer.refused {
            return Here::No(why.clone());
        }
        let Some(event) = offer.events.first() else { return Here::NotTried };
        let attr = &event.attr;
        // To open a tracepoint patches the running kernel; the right to is the same for all.
        let key = match offer.group {
            OfferGroup::Tracepoint => (attr.event_type, 0, 0, 0),
            _ => (attr.event_type, attr.config, attr.config1, attr.config2),
        };
        let paranoid = self.paranoid;
        self.known.entry(key).or_insert_with(|| open(event, paranoid)).clone()
    }
}

/// Opens the event as it would be counted: for this process, or on its CPU where the unit counts for
/// a part of the machine.
fn open(event: &Event, paranoid: Option<i32>) -> Here {
    let attr = Attr { flags: event.attr.flags | AttrFlags::DISABLED, ..event.attr.clone() };
    let first = event.cpus.as_ref().and_then(|cpus| cpus.first());
    let try_on = |pid, cpu| Host.open(&attr, pid, cpu, None, OpenFlags::FD_CLOEXEC);
    let of_process = try_on(SELF, ANY);
    let opened = match (of_process, first) {
        (Err(_), Some(cpu)) => try_on(ANY, cpu as i32),
        // A unit that is not a core's has no processes, and its events count on any CPU.
        (Err(error), None) if error.raw_os_error() == Some(libc_einval()) => try_on(ANY, 0),
        (other, _) => other,
    };
    match opened {
        Ok(_) => Here::Yes,
        Err(error) => Here::No(why(&error, &event.pmu, paranoid)),
    }
}

fn libc_einval() -> i32 {
    rustix::io::Errno::INVAL.raw_os_error()
}

fn why(error: &io::Error, unit: &str, paranoid: Option<i32>) -> String {
    let is = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is(rustix::io::Errno::ACCESS) || is(rustix::io::Errno::PERM) {
        let level = paranoid.map_or("-".to_owned(), |level| level.to_string());
        return format!(
            "{unit}: needs privilege ({}); perf_event_paranoid is {level}. \
             Try: sudo pmuscope list",
            errno_name(error)
        );
    }
    format!("{unit}: the kernel does not count it here: {}", open_refusal(error))
}
