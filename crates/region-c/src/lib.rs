//! The region API for C: what `include/pmuscope_region.h` declares and describes.
//!
//! Nothing unwinds into the caller, errors are codes with a message for the thread, and open entries are
//! kept in a list of their thread, so that C needs no guards.

mod calls;
mod sys;
