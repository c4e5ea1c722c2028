//! Sets of events that are counted together, and the names of regions.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pmuscope_counters::{Fit, Host, MAX_OWN_EVENTS, OwnGroup, try_group};
use pmuscope_events::{Event, MachineCatalog, Origin, parse, split};
use pmuscope_machine::{Machine, Topology};
use serde::Serialize;

use crate::calibrate::calibrate;
use crate::error::RegionError;
use crate::report::{Overhead, Report, Unit, report};
use crate::sys;
use crate::tally::{Counted, Tally};
use crate::thread::{self, Entry, OwnedEntry};

/// An event that is not counted here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// As typed.
    pub event: String,
    /// Why, with what to type where that helps.
    pub why: String,
}

/// How a set counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Read counters without a system call where the kernel allows it.
    pub user_reads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { user_reads: true }
    }
}

/// Events that are counted together, in any number of threads. Clones are the same set.
#[derive(Debug, Clone)]
pub struct CounterSet(Arc<Inner>);

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) events: Vec<Event>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) emulated: bool,
    /// Of the calibration.
    pub(crate) overhead: OnceLock<Overhead>,
    /// Forks before it was set up.
    pub(crate) forks: u32,
    /// Entries in threads that counted for another set.
    pub(crate) strays: Tallies,
    machine: Machine,
    topology: Topology,
    options: Options,
    shared: Mutex<Shared>,
}

/// What grows while the program runs.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Of regions.
    pub(crate) names: Vec<String>,
    /// Of every thread that has entered a region.
    pub(crate) threads: Vec<Arc<Tallies>>,
    /// Why counts take a system call, in the first thread that found out.
    pub(crate) why_read: Option<String>,
    /// Why entries were not counted, each reason once.
    pub(crate) troubles: Vec<String>,
}

/// What a thread has counted, by index of the region.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<Vec<Option<Tally>>>);

impl Tallies {
    pub(crate) fn locked(&self) -> MutexGuard<'_, Vec<Option<Tally>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry into a region of a set with so many events.
    pub(crate) fn add(&self, region: usize, events: usize, counted: &Counted<'_>) {
        let mut tallies = self.locked();
        if tallies.len() <= region {
            tallies.resize(region + 1, None);
        }
        tallies[region].get_or_insert_with(|| Tally::new(events)).add(counted);
    }
}

impl CounterSet {
    /// See [`crate::setup`].
    ///
    /// # Errors
    /// See [`crate::setup`].
    pub fn new(events: &[&str], options: Options) -> Result<Self, RegionError> {
        let set = Self(Arc::new(try_out(events, options)?));
        set.switch_to()?;
        calibrate(&set);
        Ok(set)
    }

    /// A region of this name, the same for the same name.
    #[must_use]
    pub fn region(&self, name: &str) -> Region {
        let mut shared = self.0.shared();
        let known = shared.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            shared.names.push(name.to_owned());
            shared.names.len() - 1
        });
        Region { set: Arc::clone(&self.0), index }
    }

    /// Counts into this set in this thread from now on: stops the counters of the thread's current set and
    /// starts those of this one. Where a thread has no current set, its first entry does it.
    ///
    /// # Errors
    /// [`RegionError::RegionOpen`], [`RegionError::Forked`], or that counters could not be opened.
    pub fn switch_to(&self) -> Result<(), RegionError> {
        thread::switch_to(&self.0)
    }

    /// What has been counted so far, in all threads; regions that are open count when they are left.
    #[must_use]
    pub fn report(&self, units: &[Unit]) -> Report {
        report(&self.0, units)
    }

    /// What is counted, in the order of reports.
    #[must_use]
    pub fn events(&self) -> Vec<&str> {
        self.0.events.iter().map(|event| event.name.as_str()).collect()
    }

    /// What was asked for and is not counted here.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.0.refused
    }

    /// Forgets what was counted and the names of regions.
    pub(crate) fn clear(&self) {
        let mut shared = self.0.shared();
        shared.names.clear();
        for tallies in &shared.threads {
            tallies.locked().clear();
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    pub(crate) fn of(inner: &Arc<Inner>) -> Self {
        Self(Arc::clone(inner))
    }
}

impl Inner {
    /// Opens a group for the calling thread.
    pub(crate) fn open(&self) -> Result<OwnGroup, RegionError> {
        let user_reads = self.options.user_reads;
        Ok(OwnGroup::open(&Host, &self.machine, &self.topology, &self.events, user_reads)?)
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers why entries are not counted.
    pub(crate) fn trouble(&self, why: &str) {
        let mut shared = self.shared();
        if !shared.troubles.iter().any(|known| known == why) {
            shared.troubles.push(why.to_owned());
        }
    }
}

/// Part of a program that is counted.
#[derive(Debug, Clone)]
pub struct Region {
    pub(crate) set: Arc<Inner>,
    pub(crate) index: usize,
}

impl Region {
    /// Counts in this thread until the entry is dropped. If nothing can be counted, the report says how
    /// often and why. Entering a region that is already open in this thread extends the first entry, which
    /// lasts until the last of them has ended.
    #[inline]
    pub fn enter(&self) -> Entry<'_> {
        Entry::new(self)
    }

    /// As [`Region::enter`], for an entry that outlives this value; it costs a little more.
    #[inline]
    pub fn enter_owned(&self) -> OwnedEntry {
        OwnedEntry::new(self.clone())
    }
}

/// Finds out what can be counted, and that it can be at the same time.
pub(crate) fn try_out(texts: &[&str], options: Options) -> Result<Inner, RegionError> {
    sys::watch_forks();
    let machine = Machine::host();
    let topology = machine.topology()?;
    let catalog = MachineCatalog::new(&machine)?;
    let (mut events, mut refused) = (Vec::new(), Vec::new());
    // Each alone: one that this machine does not have says nothing of its neighbors.
    let each = texts.iter().map(|text| split(text)).collect::<Result<Vec<_>, _>>()?;
    for text in each.concat() {
        match parse(text, &catalog) {
            Ok(groups) => events.extend(groups.into_iter().flat_map(|group| group.events)),
            Err(error) if error.is_of_machine() => {
                refused.push(Refused { event: text.to_owned(), why: error.reason.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    if events.is_empty() && refused.is_empty() {
        return Err(RegionError::NoEvents);
    }
    let mut able = Vec::new();
    for event in events {
        match why_not(&event, &machine, &topology) {
            None => able.push(event),
            Some(why) => refused.push(Refused { event: event.name, why }),
        }
    }
    if able.is_empty() {
        return Err(RegionError::Refused(refused));
    }
    // A counter of the hardware leads its group.
    able.sort_by_key(|event| event.origin != Origin::Hardware);
    fit(&able)?;
    let emulated = machine.emulated_by().is_some();
    Ok(Inner {
        events: able,
        refused,
        emulated,
        overhead: OnceLock::new(),
        forks: sys::forks(),
        strays: Tallies::default(),
        machine,
        topology,
        options,
        shared: Mutex::default(),
    })
}

/// Why an event cannot be counted for this thread; `None` if it can.
fn why_not(event: &Event, machine: &Machine, topology: &Topology) -> Option<String> {
    if let Some(why) = &event.not_countable {
        return Some(why.to_string());
    }
    if !event.knows_tasks() {
        return Some(format!("{} counts per CPU, socket or node, not per thread", event.name));
    }
    let alone = std::slice::from_ref(event);
    OwnGroup::open(&Host, machine, topology, alone, false).err().map(|error| error.to_string())
}

/// Proves that events are on the counters all of the time, together.
fn fit(events: &[Event]) -> Result<(), RegionError> {
    if events.len() > MAX_OWN_EVENTS {
        return Err(RegionError::TooMany(events.len()));
    }
    let attrs: Vec<_> = events.iter().map(|event| event.attr.clone()).collect();
    let do_fit = |count: usize| matches!(try_group(&Host, &attrs[..count], None), Fit::AtOnce);
    if do_fit(events.len()) {
        return Ok(());
    }
    let fits = (0..events.len()).rev().find(|&count| do_fit(count)).unwrap_or(0);
    let events = events.iter().map(|event| event.name.clone()).collect();
    Err(RegionError::NotTogether { events, fits })
}
