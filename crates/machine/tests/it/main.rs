//! The machine seen through fixture trees of `/sys` and `/proc`, and the machine the tests run on.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod capabilities;
mod facts;
mod fixture;
mod host;
mod kernel;
mod numa;
mod pmus;
mod process;
mod topology;
