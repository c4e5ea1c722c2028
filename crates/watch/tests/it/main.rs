//! Tests of the crate as its users see it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // tests

mod fake;
mod objects;
mod plan;
mod programs;
mod real;
mod scenarios;
mod symbols;
mod together;
