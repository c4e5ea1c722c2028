//! Presentation only: text tables and JSON from finished numbers.

#![forbid(unsafe_code)]
