//! The perf event ABI of Linux as types and as bytes.
//!
//! Nothing here makes a system call and nothing here is `unsafe`: an [`Attr`] becomes the bytes that the
//! kernel (or a `perf.data` file) wants with [`Attr::to_bytes`], and comes back with [`Attr::from_bytes`];
//! [`record::Records`] iterates over records and [`record::RecordBuilder`] builds them.
//!
//! All layouts follow `include/uapi/linux/perf_event.h`. Everything is in native byte order unless a
//! function says otherwise: a recording is always made on the machine it describes.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod attr;
mod consts;
pub mod record;

pub use attr::{Attr, AttrError, AttrFlags, BranchSampleType, ReadFormat, SampleType};
pub use consts::{
    ATTR_SIZE_VER0, ATTR_SIZE_VER8, ATTR_SIZE_VER9, OpenFlags, breakpoint, event_type, hardware,
    ioctl, mmap_page, software,
};

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
