//! Formats of results, where they go, and the flags that say so.

mod args;
mod file;
mod form;
mod format;
mod results;

pub use args::{Formats, OutputArgs, needs_a_file, of_form};
pub use file::{Output, wrote, wrote_with};
pub use form::Form;
pub use format::Format;
pub use results::Results;
