//! The program as users run it, its agent, and its answers.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod agent;
mod guests;
mod harness;
mod program;
mod questions;
mod runs;
mod stores;
mod symbolize;
