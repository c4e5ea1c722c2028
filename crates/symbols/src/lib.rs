//! Build ids; address to function, line and inlined frames.

mod build_id;
mod error;

pub use build_id::{BuildId, read_build_id};
pub use error::Error;
