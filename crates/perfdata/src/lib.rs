//! The perf.data format: write it, read it, order it.
//!
//! [`writer`] turns attributes, ids and features into the bytes of a file and says where they go; it
//! does no I/O, so that the recorder can decide when and from which thread bytes are written.
//! [`reader`] reads such files, perf's too, in the order of time. [`info`] is what pmuscope itself keeps in a recording,
//! [`strobe`] the part of it that tells windows from other samples, [`watch`] what hits of watchpoints hold.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod info;
mod info_file;
pub mod reader;
pub mod strobe;
pub mod watch;
pub mod writer;

pub use info_file::read_info;

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
