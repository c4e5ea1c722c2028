//! Memory that processes share.

mod sys;

pub(crate) use sys::Shared;
