//! The exported functions: pointers from C become references, strings and slices, and back.
//!
//! What each function promises its caller, and asks of it, is in `include/pmuscope_region.h`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};

use pmuscope_region::Region;

use crate::calls::{self, CallFailure, CallUnits, Set, code, guarded};

/// `pmuscope_unit` of the header.
#[repr(C)]
pub(crate) struct CUnit {
    name: *const c_char,
    total: f64,
}

fn status(result: Result<(), i32>) -> c_int {
    result.err().unwrap_or(code::OK)
}

/// A string of the caller.
///
/// # Safety
/// Null, or a string that ends with a zero byte.
unsafe fn text(pointer: *const c_char, what: &str) -> Result<String, CallFailure> {
    if pointer.is_null() {
        return Err(CallFailure::misuse(format!("{what} is NULL")));
    }
    // SAFETY: not null, and the caller's string ends with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| CallFailure::misuse(format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// The elements of an array of the caller.
///
/// # Safety
/// `count` elements, which nobody changes meanwhile; null only with a count of 0.
unsafe fn elements<'a, T>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], CallFailure> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CallFailure::misuse(format!("{what} is NULL"))),
        // SAFETY: as the caller has promised.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// What an address stands for.
///
/// # Safety
/// Null, or an address that this library has handed out and that is still good.
unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, CallFailure> {
    // SAFETY: as the caller has promised.
    unsafe { pointer.as_ref() }.ok_or_else(|| CallFailure::misuse(format!("{what} is NULL")))
}

/// Safe to call with anything.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pmuscope_message() -> *const c_char {
    calls::message()
}

/// Safe to call with anything.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pmuscope_code() -> c_int {
    calls::last_code()
}

/// Safe to call with anything.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pmuscope_is_available() -> c_int {
    status(guarded(calls::available))
}

/// # Safety
/// `events` has `count` strings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_setup(
    events: *const *const c_char,
    count: usize,
    flags: c_uint,
) -> *mut Set {
    let set = guarded(|| {
        // SAFETY: the header asks for so many elements.
        let events = unsafe { elements(events, count, "pmuscope_setup: events") }?;
        // SAFETY: the header asks for strings.
        let each = |event: &*const c_char| unsafe { text(*event, "pmuscope_setup: an event") };
        let events: Vec<String> = events.iter().map(each).collect::<Result<_, _>>()?;
        calls::setup(&events, flags)
    });
    set.map_or(std::ptr::null_mut(), Box::into_raw)
}

/// # Safety
/// `set` is of `pmuscope_setup`, or null, and not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_free(set: *mut Set) {
    let freed = guarded(|| {
        if !set.is_null() {
            // SAFETY: `pmuscope_setup` made it by `Box::into_raw`, and the header asks to free it once.
            drop(unsafe { Box::from_raw(set) });
        }
        Ok(())
    });
    // There is nobody to tell.
    let _ = freed;
}

/// # Safety
/// `set` is of `pmuscope_setup`, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_switch_to(set: *const Set) -> c_int {
    // SAFETY: as the header asks.
    status(guarded(|| calls::switch_to(unsafe { set.as_ref() })))
}

/// # Safety
/// `set` is of `pmuscope_setup`, `name` a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_region_named(
    set: *const Set,
    name: *const c_char,
) -> *const Region {
    let region = guarded(|| {
        // SAFETY: as the header asks.
        let set = unsafe { reference(set, "pmuscope_region_named: set") }?;
        // SAFETY: as the header asks.
        let name = unsafe { text(name, "pmuscope_region_named: name") }?;
        Ok(set.region(&name))
    });
    region.unwrap_or(std::ptr::null())
}

/// # Safety
/// `region` is of `pmuscope_region_named`, its set not freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_enter(region: *const Region) -> c_int {
    // SAFETY: as the header asks.
    status(guarded(|| calls::enter(unsafe { reference(region, "pmuscope_enter: region") }?)))
}

/// # Safety
/// `region` is of `pmuscope_region_named`, its set not freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_exit(region: *const Region, units: f64) -> c_int {
    // SAFETY: as the header asks.
    status(guarded(|| calls::exit(unsafe { reference(region, "pmuscope_exit: region") }?, units)))
}

/// # Safety
/// `set` is of `pmuscope_setup`, `units` has `count` elements with strings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_report(
    set: *const Set,
    units: *const CUnit,
    count: usize,
    json: c_int,
) -> *mut c_char {
    let report = guarded(|| {
        // SAFETY: as the header asks.
        let set = unsafe { reference(set, "pmuscope_report: set") }?;
        // SAFETY: as the header asks.
        let units = unsafe { elements(units, count, "pmuscope_report: units") }?;
        let work = |unit: &CUnit| {
            // SAFETY: as the header asks.
            let name = unsafe { text(unit.name, "pmuscope_report: a unit's name") }?;
            Ok::<_, CallFailure>(CallUnits { name, total: unit.total })
        };
        let work: Vec<CallUnits> = units.iter().map(work).collect::<Result<_, _>>()?;
        let report = set.report(&work, json != 0);
        CString::new(report)
            .map_err(|_| CallFailure::misuse("pmuscope_report: a zero byte in a name"))
    });
    report.map_or(std::ptr::null_mut(), CString::into_raw)
}

/// # Safety
/// `text` is of `pmuscope_report`, or null, and not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmuscope_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: `pmuscope_report` made it by `CString::into_raw`; its length has not changed.
        drop(unsafe { CString::from_raw(text) });
    }
}
