//! What the exported functions do, once their arguments are values.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use pmuscope_region::{
    CounterSet, Options, OwnedEntry, Region, RegionError, Unit, is_available, switch_off,
};

/// Codes of the header.
pub(crate) mod code {
    pub(crate) const OK: i32 = 0;
    pub(crate) const EVENT: i32 = 1;
    pub(crate) const UNAVAILABLE: i32 = 2;
    pub(crate) const OPEN: i32 = 3;
    pub(crate) const MISUSE: i32 = 4;
    pub(crate) const FAILED: i32 = 5;
}

/// Flags of `pmuscope_setup`.
pub(crate) const SYSTEM_CALLS: u32 = 1;

/// What goes wrong, with its code.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl CallFailure {
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self { code: code::MISUSE, message: message.into() }
    }
}

impl From<RegionError> for CallFailure {
    fn from(error: RegionError) -> Self {
        let code = match &error {
            RegionError::Event(_) | RegionError::NoEvents => code::EVENT,
            RegionError::RegionOpen(_) => code::OPEN,
            RegionError::Forked | RegionError::NoSet => code::MISUSE,
            RegionError::Refused(_)
            | RegionError::NotTogether { .. }
            | RegionError::TooMany(_)
            | RegionError::Counters(_)
            | RegionError::Thread(_) => code::UNAVAILABLE,
            _ => code::FAILED,
        };
        Self { code, message: error.to_string() }
    }
}

/// A set with the regions whose addresses were handed out; boxes, as these must not move.
pub(crate) struct Set {
    set: CounterSet,
    regions: Mutex<BTreeMap<String, Box<Region>>>,
}

/// Units as they come from C: a total of 0 stands for what was said on leaving.
pub(crate) struct CallUnits {
    pub(crate) name: String,
    pub(crate) total: f64,
}

thread_local! {
    /// Of the last call that failed.
    static LAST: RefCell<(i32, CString)> = RefCell::default();
    /// Entries of this thread with the address of their region.
    static OPEN: RefCell<Vec<(usize, OwnedEntry)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call`, keeps its message for this thread, and turns a panic into a failure.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, CallFailure>) -> Result<T, i32> {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        let message = "internal error in pmuscope: it panicked".to_owned();
        Err(CallFailure { code: code::FAILED, message })
    });
    result.map_err(|failure| {
        // What ends the text early would be lost in C anyway.
        let text = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
        let _ = LAST.try_with(|last| last.replace((failure.code, text)));
        failure.code
    })
}

/// The address of the last message of this thread; null while the thread ends.
pub(crate) fn message() -> *const std::ffi::c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(std::ptr::null())
}

/// Its code.
pub(crate) fn last_code() -> i32 {
    LAST.try_with(|last| last.borrow().0).unwrap_or(code::FAILED)
}

pub(crate) fn available() -> Result<(), CallFailure> {
    Ok(is_available()?)
}

pub(crate) fn setup(events: &[String], flags: u32) -> Result<Box<Set>, CallFailure> {
    if flags & !SYSTEM_CALLS != 0 {
        return Err(CallFailure::misuse(format!("pmuscope_setup: unknown flags {flags:#x}")));
    }
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let options = Options { user_reads: flags & SYSTEM_CALLS == 0 };
    let set = CounterSet::new(&events, options)?;
    Ok(Box::new(Set { set, regions: Mutex::default() }))
}

pub(crate) fn switch_to(set: Option<&Set>) -> Result<(), CallFailure> {
    match set {
        Some(set) => Ok(set.set.switch_to()?),
        None => Ok(switch_off()?),
    }
}

impl Set {
    /// The region's address, the same for the same name, for as long as the set.
    pub(crate) fn region(&self, name: &str) -> *const Region {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let region = regions.entry(name.to_owned());
        &raw const **region.or_insert_with(|| Box::new(self.set.region(name)))
    }

    /// The report as text, or as JSON.
    pub(crate) fn report(&self, units: &[CallUnits], json: bool) -> String {
        let units: Vec<Unit> = units
            .iter()
            .map(|unit| match unit.total {
                0.0 => Unit::done(&unit.name),
                total => Unit::total(&unit.name, total),
            })
            .collect();
        let report = self.set.report(&units);
        if json { report.to_json() } else { report.to_string() }
    }
}

/// Enters a region.
pub(crate) fn enter(region: &Region) -> Result<(), CallFailure> {
    let entry = region.enter_owned();
    let address = std::ptr::from_ref(region) as usize;
    OPEN.try_with(|open| open.borrow_mut().push((address, entry)))
        .map_err(|_| CallFailure::misuse("pmuscope_enter: the thread is ending"))
}

/// Leaves the region that this thread has entered last among those of this address.
pub(crate) fn exit(region: &Region, units: f64) -> Result<(), CallFailure> {
    let address = std::ptr::from_ref(region) as usize;
    let entry = OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        let last = open.iter().rposition(|(known, _)| *known == address);
        last.map(|index| open.remove(index).1)
    });
    match entry {
        Ok(Some(mut entry)) => {
            entry.did(units);
            drop(entry);
            Ok(())
        }
        _ => Err(CallFailure::misuse("pmuscope_exit: this thread has not entered the region")),
    }
}
