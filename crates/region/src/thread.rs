//! The state of a thread: its current group, and the regions that it is in.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use pmuscope_counters::{Host, OwnCounts, OwnGroup};

use crate::error::RegionError;
use crate::set::{CounterSet, Inner, Region, Tallies};
use crate::sys;
use crate::tally::Counted;

const OTHER_SET: &str = "the thread counted another set (switch_to)";
const GIVEN_UP: &str = "the kernel gave the counters to other events (pinned events or a debugger)";

thread_local! {
    static THREAD: RefCell<ThreadSets> = const { RefCell::new(ThreadSets::new()) };
}

/// Sets that this thread has opened, and where it is.
struct ThreadSets {
    /// Forks before the groups were opened.
    forks: u32,
    opened: Vec<OpenedSet>,
    current: Option<usize>,
    /// Regions that are open.
    open: u32,
    /// Entries so far, into any region.
    entries: u64,
}

/// A set in this thread.
struct OpenedSet {
    set: Arc<Inner>,
    /// Or why it cannot be opened here.
    group: Result<OwnGroup, String>,
    tallies: Arc<Tallies>,
    /// By region.
    open: Vec<Open>,
}

/// What is known of a region while it is open.
///
/// ```text
///   entries   ├─── first ───┤
///                    ├─── second ───┤        a third within either is the same
///   depth   0 │  1   │  2   │   1   │ 0
///             look                  look      one entry, of which the other is a part
/// ```
#[derive(Default)]
struct Open {
    /// Entries that have not ended.
    depth: u32,
    /// What stood at the counters as the first began, if they could be read.
    counts: Option<OwnCounts>,
    /// Entries of the thread until then.
    entries: u64,
    /// Units of work of those that have ended.
    units: f64,
}

impl OpenedSet {
    fn of(set: &Arc<Inner>) -> Self {
        let group = open(set).map_err(|error| error.to_string());
        let tallies = Arc::new(Tallies::default());
        let mut shared = set.shared();
        shared.threads.push(Arc::clone(&tallies));
        if let Ok(group) = &group
            && shared.why_read.is_none()
        {
            shared.why_read = group.why_read().map(str::to_owned);
        }
        drop(shared);
        Self { set: Arc::clone(set), group, tallies, open: Vec::new() }
    }

    fn stop(&self) -> Result<(), RegionError> {
        self.group.as_ref().map_or(Ok(()), |group| Ok(group.disable(&Host)?))
    }
}

/// A group that counts.
fn open(set: &Inner) -> Result<OwnGroup, RegionError> {
    let mut group = set.open()?;
    group.enable(&Host)?;
    group.settle();
    Ok(group)
}

impl ThreadSets {
    const fn new() -> Self {
        Self { forks: 0, opened: Vec::new(), current: None, open: 0, entries: 0 }
    }

    /// In a forked child what its parent had opened is not there any more.
    fn look_for_fork(&mut self) {
        let forks = sys::forks();
        if self.forks != forks {
            self.abandon();
            self.forks = forks;
        }
    }

    fn abandon(&mut self) {
        for opened in self.opened.drain(..) {
            if let Ok(group) = opened.group {
                group.abandon();
            }
        }
        (self.current, self.open) = (None, 0);
    }

    /// Makes a set the current one, even if its counters cannot be opened in this thread: entries have
    /// the reason then.
    fn select(&mut self, set: &Arc<Inner>) -> Result<(), RegionError> {
        self.look_for_fork();
        if set.forks != self.forks {
            return Err(RegionError::Forked);
        }
        let known = self.opened.iter().position(|opened| Arc::ptr_eq(&opened.set, set));
        if known.is_some() && known == self.current {
            return Ok(());
        }
        if self.open > 0 {
            return Err(RegionError::RegionOpen(self.open));
        }
        self.switch_off()?;
        match known {
            Some(index) => {
                if let Ok(group) = &self.opened[index].group {
                    group.enable(&Host)?;
                }
                self.current = Some(index);
            }
            None => {
                // Sets that nobody else has any more are closed.
                self.opened.retain(|opened| Arc::strong_count(&opened.set) > 1);
                self.opened.push(OpenedSet::of(set));
                self.current = Some(self.opened.len() - 1);
            }
        }
        Ok(())
    }

    fn switch_to(&mut self, set: &Arc<Inner>) -> Result<(), RegionError> {
        self.select(set)?;
        match self.current.map(|index| &self.opened[index].group) {
            Some(Err(why)) => Err(RegionError::Thread(why.clone())),
            _ => Ok(()),
        }
    }

    fn switch_off(&mut self) -> Result<(), RegionError> {
        match self.current.take() {
            Some(index) => self.opened[index].stop(),
            None => Ok(()),
        }
    }

    /// What stands at the counters as a region is entered; the depth of the region is one more then.
    #[inline]
    fn enter(&mut self, region: &Region) -> Start {
        self.look_for_fork();
        if region.set.forks != self.forks {
            return Start::Nothing;
        }
        if self.current.is_none() && self.select(&region.set).is_err() {
            return Start::Nothing;
        }
        let Some(opened) = self.current.map(|index| &mut self.opened[index]) else {
            return Start::Nothing;
        };
        if !Arc::ptr_eq(&opened.set, &region.set) {
            region.set.trouble(OTHER_SET);
            return Start::Elsewhere;
        }
        if opened.open.len() <= region.index {
            opened.open.resize_with(region.index + 1, Open::default);
        }
        self.open += 1;
        self.entries += 1;
        let open = &mut opened.open[region.index];
        open.depth += 1;
        if open.depth == 1 {
            (open.entries, open.units) = (self.entries, 0.0);
            // Read last: what comes before is not the region's.
            opened.open[region.index].counts = opened.read();
        }
        Start::Here
    }

    #[inline]
    fn exit(&mut self, region: &Region, units: f64) {
        let Some(opened) = self.current.map(|index| &mut self.opened[index]) else { return };
        let Some(open) = opened.open.get(region.index) else { return };
        // Read first: what follows is not the region's.
        let is_last = open.depth == 1;
        let after = if is_last && open.counts.is_some() { opened.read() } else { None };
        self.open = self.open.saturating_sub(1);
        let open = &mut opened.open[region.index];
        open.depth = open.depth.saturating_sub(1);
        open.units += units;
        if !is_last {
            return;
        }
        let counted = Counted {
            between: open.counts.as_ref().zip(after.as_ref()),
            units: open.units,
            inner: self.entries - open.entries,
        };
        opened.tallies.add(region.index, opened.set.events.len(), &counted);
    }
}

impl Drop for ThreadSets {
    fn drop(&mut self) {
        // At the end of a forked child there is nothing to unmap.
        if self.forks != sys::forks() {
            self.abandon();
        }
    }
}

impl OpenedSet {
    /// The counts now; `None` with the reason remembered.
    #[inline]
    fn read(&self) -> Option<OwnCounts> {
        match &self.group {
            Ok(group) => match group.read(&Host) {
                Ok(Some(counts)) => return Some(counts),
                Ok(None) => self.set.trouble(GIVEN_UP),
                Err(error) => self.set.trouble(&error.to_string()),
            },
            Err(why) => self.set.trouble(why),
        }
        None
    }
}

/// How an entry began.
#[derive(Debug)]
enum Start {
    /// In a forked child, or where a thread ends: nobody is to be told.
    Nothing,
    /// Another set counts in this thread.
    Elsewhere,
    /// The region is open; if it was before, this is a part of that entry.
    Here,
}

/// An entry that somebody else holds.
#[derive(Debug)]
struct HeldEntry {
    start: Start,
    units: f64,
    /// Another thread has other counters.
    thread: PhantomData<*const ()>,
}

impl HeldEntry {
    #[inline]
    fn new(region: &Region) -> Self {
        let start = THREAD.try_with(|thread| match thread.try_borrow_mut() {
            Ok(mut thread) => thread.enter(region),
            Err(_) => Start::Nothing,
        });
        Self { start: start.unwrap_or(Start::Nothing), units: 0.0, thread: PhantomData }
    }

    #[inline]
    fn end(&self, region: &Region) {
        match &self.start {
            Start::Nothing => {}
            Start::Elsewhere => {
                let counted = Counted { between: None, units: 0.0, inner: 0 };
                region.set.strays.add(region.index, region.set.events.len(), &counted);
            }
            Start::Here if region.set.forks != sys::forks() => {}
            Start::Here => {
                // A thread that ends has nothing to add to.
                let _ = THREAD.try_with(|thread| {
                    if let Ok(mut thread) = thread.try_borrow_mut() {
                        thread.exit(region, self.units);
                    }
                });
            }
        }
    }
}

/// An entry into a region, which lasts until this is dropped, in the thread that entered.
#[derive(Debug)]
#[must_use = "a region is left when its entry is dropped"]
pub struct Entry<'r> {
    region: &'r Region,
    begun: HeldEntry,
}

impl<'r> Entry<'r> {
    #[inline]
    pub(crate) fn new(region: &'r Region) -> Self {
        Self { region, begun: HeldEntry::new(region) }
    }

    /// Adds to the units of work that this entry did; see [`crate::Unit::done`].
    pub fn did(&mut self, units: f64) {
        self.begun.units += units;
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        self.begun.end(self.region);
    }
}

/// As [`Entry`], but owns its region, for callers without a scope to hold it in.
#[derive(Debug)]
#[must_use = "a region is left when its entry is dropped"]
pub struct OwnedEntry {
    region: Region,
    begun: HeldEntry,
}

impl OwnedEntry {
    #[inline]
    pub(crate) fn new(region: Region) -> Self {
        let begun = HeldEntry::new(&region);
        Self { region, begun }
    }

    /// As [`Entry::did`].
    pub fn did(&mut self, units: f64) {
        self.begun.units += units;
    }
}

impl Drop for OwnedEntry {
    #[inline]
    fn drop(&mut self) {
        self.begun.end(&self.region);
    }
}

pub(crate) fn switch_to(set: &Arc<Inner>) -> Result<(), RegionError> {
    THREAD.try_with(|thread| thread.borrow_mut().switch_to(set)).unwrap_or(Err(RegionError::NoSet))
}

/// Stops the counters of this thread; a region that is entered later starts them again.
///
/// # Errors
/// [`RegionError::RegionOpen`], or that the kernel could not stop them.
pub fn switch_off() -> Result<(), RegionError> {
    let off = THREAD.try_with(|thread| {
        let mut thread = thread.borrow_mut();
        thread.look_for_fork();
        if thread.open > 0 {
            return Err(RegionError::RegionOpen(thread.open));
        }
        thread.switch_off()
    });
    off.unwrap_or(Ok(()))
}

/// The set that this thread counts for.
pub(crate) fn current() -> Option<CounterSet> {
    let current = THREAD.try_with(|thread| {
        let thread = thread.borrow();
        let opened = thread.opened.get(thread.current?)?;
        (opened.set.forks == sys::forks()).then(|| CounterSet::of(&opened.set))
    });
    current.ok().flatten()
}
